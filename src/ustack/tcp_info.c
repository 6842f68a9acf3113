/* SPDX-License-Identifier: BSD-3-Clause */
/* What the application can learn of connections; contracts are in ustack/ustack.h. */
#include "ustack/tcp.h"
#include "ustack/tcp_recovery.h"

/* Places that one call of us_conn_next() looks at. */
enum { NEXT_LOOKS_MAX = 64 };

/* Of the numbers that were acknowledged our SYN and our FIN are no data. */
static u_u64 info_bytes_out(const struct us_conn *conn)
{
    u_u64 bytes = conn->bytes_out;

    if (bytes > 0)
        bytes--;
    return us_conn_fin_acked(conn) ? bytes - 1 : bytes;
}

void us_conn_info(const struct us_stack *stack, const struct us_conn *conn,
                  struct us_conn_info *info)
{
    u_u32 edge;

    us_addr_from_local(stack, &info->local, conn->key.local_ip);
    us_addr_from_ip(&info->remote, us_conn_remote(conn));
    info->local_port = conn->key.local_port;
    info->remote_port = conn->key.remote_port;
    info->state = (enum us_tcp_state)conn->state;
    info->mss = conn->cc.mss;
    info->path_mtu = conn->pmtu.mtu;
    info->srtt_us = conn->rtt.srtt8_us >> 3;
    info->rttvar_us = conn->rtt.rttvar4_us >> 2;
    info->rto_us = us_recovery_rto_us(stack, conn);
    info->cc = (enum us_cc_kind)conn->cc.kind;
    info->ecn = (conn->opts & US_OPT_ECN) != 0;
    info->sack = (conn->opts & US_OPT_SACK) != 0;
    info->timestamps = (conn->opts & US_OPT_TS) != 0;
    info->window_scaling = (conn->opts & US_OPT_SCALE) != 0;
    info->send_scale = conn->snd_scale;
    info->recv_scale = conn->rcv_scale;
    info->in_recovery = (conn->flags & US_CF_RECOVERY) != 0;
    info->retries = conn->retries;
    info->cwnd_bytes = conn->cc.cwnd;
    info->ssthresh_bytes = conn->cc.ssthresh;
    info->send_window_bytes = conn->snd_wnd;
    us_tcp_window(stack, conn, &edge);
    info->recv_window_bytes = edge - conn->rcv_nxt;
    info->queued_bytes = us_send_queued(conn);
    info->retransmits = conn->retransmits;
    info->bytes_in = conn->bytes_in;
    info->bytes_out = info_bytes_out(conn);
    info->silent_us = stack->now_us - conn->heard_us;
}

struct us_conn *us_conn_next(struct us_stack *stack, u_u32 *cursor)
{
    const struct us_pool *pool = &stack->conn_pool;
    unsigned looked;

    for (looked = 0; looked < NEXT_LOOKS_MAX && *cursor < pool->touched; looked++) {
        struct us_conn *conn =
            (struct us_conn *)(void *)(pool->base + (unsigned long)*cursor * pool->item_bytes);
        (*cursor)++;
        if (conn->state != US_TCP_CLOSED) /* neither dead nor given back */
            return conn;
    }
    if (*cursor >= pool->touched)
        *cursor = 0;
    return (struct us_conn *)U_NULL;
}

const char *us_close_reason_name(enum us_close_reason reason)
{
    switch (reason) {
    case US_CLOSE_NONE:
        return "none";
    case US_CLOSE_NORMAL:
        return "normal";
    case US_CLOSE_RESET:
        return "reset";
    case US_CLOSE_REFUSED:
        return "refused";
    case US_CLOSE_TIMEOUT:
        return "timeout";
    case US_CLOSE_ABORTED:
        return "aborted";
    case US_CLOSE_UNREACHABLE:
        return "unreachable";
    case US_CLOSE_NO_MEMORY:
        return "no_memory";
    case US_CLOSE_KEEPALIVE:
        return "keepalive";
    case US_CLOSE_ZERO_WINDOW:
        return "zero_window";
    }
    return "unknown";
}

const char *us_tcp_state_name(enum us_tcp_state state)
{
    switch (state) {
    case US_TCP_CLOSED:
        return "CLOSED";
    case US_TCP_SYN_SENT:
        return "SYN-SENT";
    case US_TCP_SYN_RECEIVED:
        return "SYN-RECEIVED";
    case US_TCP_ESTABLISHED:
        return "ESTABLISHED";
    case US_TCP_FIN_WAIT_1:
        return "FIN-WAIT-1";
    case US_TCP_FIN_WAIT_2:
        return "FIN-WAIT-2";
    case US_TCP_CLOSE_WAIT:
        return "CLOSE-WAIT";
    case US_TCP_CLOSING:
        return "CLOSING";
    case US_TCP_LAST_ACK:
        return "LAST-ACK";
    case US_TCP_TIME_WAIT:
        return "TIME-WAIT";
    }
    return "UNKNOWN";
}
