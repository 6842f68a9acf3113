/* SPDX-License-Identifier: BSD-3-Clause */
/* Large frames and frames of several segments; see tcp_tso.h. */
#include "ustack/tcp/tcp_tso.h"

#include "ustack/tcp/tcp_ecn.h"
#include "ustack/tcp/tcp_pmtu.h"
#include "ustack/tcp/tcp_recovery.h"
#include "ustack/tcp/tcp_sendq.h"

enum {
    /* The length field of an IP header has 16 bits; this leaves room for headers. */
    PAYLOAD_MAX = 65535 - 40 - US_TCP_HDR_MAX,
    /* Segments behind the first. A response with one value has two, a pipelined one more. */
    SEGS_MAX = 8
};

/* The room of a packet behind `at` bytes of headers. */
struct space {
    struct us_pkt *segs; /* at the end of the room */
    u_u32 seg_count;
    u_u32 room; /* for copied bytes */
};

static void space_find(const struct us_stack *stack, const struct us_pkt *pkt, u_u32 at,
                       struct space *space)
{
    u_u8 *end = pkt->data + pkt->room;

    space->segs = (struct us_pkt *)U_NULL;
    space->seg_count = 0;
    space->room = pkt->room - at;
    if (!(stack->config.caps & US_CAP_TX_SG))
        return;
    end -= (unsigned long)end % sizeof(void *);
    if (end < pkt->data + at + SEGS_MAX * sizeof(struct us_pkt))
        return;
    space->segs = (struct us_pkt *)(void *)end - SEGS_MAX;
    space->seg_count = SEGS_MAX;
    space->room = (u_u32)((u_u8 *)space->segs - pkt->data) - at;
}

/* Whether a large segment equals the single segments that would be sent now. */
static int conn_is_smooth(const struct us_conn *conn, const struct us_tcp_desc *desc)
{
    return desc->kind == US_SEND_DATA && desc->len == conn->cc.mss && desc->seq == conn->snd_max &&
           conn->sack == U_NULL && conn->dup_acks == 0 && !(conn->flags & US_CF_RECOVERY) &&
           conn->pmtu.probe_bytes == 0 && !us_pmtu_is_reduced(conn) &&
           !(conn->ecn & US_EF_SEND_CWR);
}

void us_tso_extend(const struct us_stack *stack, const struct us_conn *conn,
                   const struct us_pkt *pkt, struct us_tcp_desc *desc)
{
    u_u32 at = stack->l2_bytes + us_tcp_template_l3_bytes(&conn->head) + US_TCP_HDR_MAX;
    u_u32 pipe = us_recovery_pipe(conn);
    u_u32 flight = conn->snd_nxt - conn->snd_una;
    u_u32 avail = conn->snd_end - conn->snd_nxt;
    struct space space;
    u_u32 usable;
    u_u32 len;

    if (!conn_is_smooth(conn, desc) || avail <= desc->len || conn->cc.cwnd <= pipe)
        return;
    usable = u_min32(conn->cc.cwnd - pipe, conn->snd_wnd - flight);
    space_find(stack, pkt, at, &space);
    len = u_min32(u_min32(avail, usable), PAYLOAD_MAX);
    len = us_sendq_fit(&conn->sendq, desc->seq, len, space.room, space.seg_count);
    if (len < avail)
        len -= len % conn->cc.mss;
    if (len <= desc->len)
        return;
    desc->len = len;
    us_tcp_plan_flags(conn, desc, usable);
    desc->tso_mss = (u_u16)conn->cc.mss;
}

u_u32 us_tso_payload(const struct us_stack *stack, struct us_pkt *pkt, u_u32 at,
                     const struct us_tcp_desc *desc, struct us_sendq *sendq, u_u32 sum,
                     int with_sum, u_u32 *outside)
{
    struct us_gather gather;
    struct space space;

    *outside = 0;
    if (sendq->refs > 0 && (stack->config.caps & US_CAP_TX_SG)) {
        space_find(stack, pkt, at, &space);
        if (us_sendq_fit(sendq, desc->seq, desc->len, space.room, space.seg_count) == desc->len) {
            gather.pkt = pkt;
            gather.segs = space.segs;
            gather.to = pkt->data + at;
            gather.outside = 0;
            sum = us_sendq_gather(sendq, desc->seq, desc->len, &gather, sum, with_sum);
            *outside = gather.outside;
            return sum;
        }
    }
    U_ASSERT(at + desc->len <= pkt->room);
    return us_sendq_copy(sendq, desc->seq, pkt->data + at, desc->len, sum, with_sum);
}
