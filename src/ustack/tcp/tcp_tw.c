/* SPDX-License-Identifier: BSD-3-Clause */
/* TIME-WAIT; see tcp_tw.h. */
#include "ustack/tcp/tcp_tw.h"

/* Entries freed by one call of us_tw_expire(). */
enum { TW_EXPIRE_MAX = 64 };

static struct us_tw **tw_bucket(const struct us_stack *stack, const struct us_tcp_key *key)
{
    return &stack->tw_table[us_tcp_hash(stack, key) & stack->tw_mask];
}

static int tw_is(const struct us_tw *tw, const struct us_tcp_key *key, const struct us_ip6 *remote6)
{
    return us_tcp_key_equal(&tw->key, key) &&
           (remote6 == U_NULL || us_ip6_equal(&tw->remote6, remote6));
}

struct us_tw *us_tw_find(const struct us_stack *stack, const struct us_tcp_key *key,
                         const struct us_ip6 *remote6)
{
    struct us_tw *tw = *tw_bucket(stack, key);

    while (tw != U_NULL && !tw_is(tw, key, remote6))
        tw = tw->hash_next;
    return tw;
}

static void tw_free(struct us_stack *stack, struct us_tw *tw)
{
    struct us_tw **at = tw_bucket(stack, &tw->key);

    while (*at != tw) {
        U_ASSERT(*at != U_NULL);
        at = &(*at)->hash_next;
    }
    *at = tw->hash_next;
    u_list_remove(&tw->link);
    us_pool_put(&stack->tw_pool, tw);
}

/* Restarts the 2 MSL. All entries wait equally long, so the list stays sorted. */
static void tw_restart(struct us_stack *stack, struct us_tw *tw)
{
    u_list_remove(&tw->link);
    u_list_push_back(&stack->tw_list, &tw->link);
    tw->until_us = stack->now_us + stack->config.time_wait_us;
}

/* Replies to a frame with the connection's last ACK. */
static void tw_reply(struct us_stack *stack, const struct us_tw *tw, const struct us_rx *rx)
{
    struct us_reply *reply = us_reply_add(stack, rx, US_REPLY_TCP);

    if (reply == U_NULL)
        return;
    reply->tcp.src_port = tw->key.local_port;
    reply->tcp.dst_port = tw->key.remote_port;
    reply->tcp.seq = tw->snd_nxt;
    reply->tcp.ack = tw->rcv_nxt;
    reply->tcp.window = tw->window;
    reply->tcp.flags = US_TCP_ACK;
    reply->tcp.has_ts = tw->has_ts;
    reply->tcp.ts_val = us_ts_clock(stack->now_us) + tw->ts_offset;
    reply->tcp.ts_ecr = tw->ts_recent;
}

void us_tw_add(struct us_stack *stack, const struct us_conn *conn, const struct us_rx *rx)
{
    struct us_tw *tw = (struct us_tw *)us_pool_get(&stack->tw_pool);
    struct us_tw **bucket = tw_bucket(stack, &conn->key);
    u_u32 edge;

    if (tw == U_NULL) {
        us_count(stack, US_C_TIME_WAIT_RECYCLED);
        tw_free(stack, U_CONTAINER_OF(stack->tw_list.next, struct us_tw, link));
        tw = (struct us_tw *)us_pool_get(&stack->tw_pool);
    }
    tw->key = conn->key;
    tw->remote6 = us_ip6_any;
    if (us_conn_remote6(conn) != U_NULL)
        tw->remote6 = *us_conn_remote6(conn);
    tw->snd_nxt = conn->snd_max;
    tw->rcv_nxt = conn->rcv_nxt;
    tw->ts_recent = conn->ts_recent;
    tw->ts_offset = conn->ts_offset;
    tw->has_ts = (conn->opts & US_OPT_TS) != 0;
    tw->window = us_tcp_window(stack, conn, &edge);
    tw->hash_next = *bucket;
    *bucket = tw;
    u_list_init(&tw->link);
    tw_restart(stack, tw);
    if (rx != U_NULL)
        tw_reply(stack, tw, rx);
}

/* Whether a SYN belongs to a newer connection: RFC 6191 section 2, RFC 9293 3.6.1. */
static int tw_syn_is_new(const struct us_tw *tw, const struct us_seg *seg)
{
    if (seg->opts.has_ts && !tw->has_ts)
        return 1; /* a SYN of the old connection had no timestamp */
    if (seg->opts.has_ts && seg->opts.ts_val != tw->ts_recent)
        return us_seq_gt(seg->opts.ts_val, tw->ts_recent);
    return us_seq_geq(seg->seq, tw->rcv_nxt); /* RCV.NXT itself was not seen yet */
}

int us_tw_input(struct us_stack *stack, struct us_tw *tw, const struct us_seg *seg, int listens,
                u_u32 *isn_min)
{
    unsigned kind = seg->flags & (US_TCP_SYN | US_TCP_ACK | US_TCP_FIN);

    if (seg->flags & US_TCP_RST) { /* RFC 1337: a RST must not end TIME-WAIT early */
        us_count(stack, US_C_DROP_TIME_WAIT_RST);
        return 0;
    }
    if (kind == US_TCP_SYN && listens && tw_syn_is_new(tw, seg)) {
        if (stack->config.half_open_max == 0) {
            us_count(stack, US_C_DROP_TCP_HALF_OPEN);
            return 0;
        }
        us_count(stack, US_C_TIME_WAIT_REUSED);
        *isn_min = tw->snd_nxt;
        tw_free(stack, tw);
        return 1;
    }
    if (seg->len == 0 && kind == US_TCP_ACK && seg->seq == tw->rcv_nxt)
        return 0; /* a reply to our own ACK */
    if ((kind & US_TCP_FIN) && seg->seq + seg->len + 1 == tw->rcv_nxt)
        tw_restart(stack, tw); /* the peer's FIN again */
    else if (!us_tcp_challenge_allowed(stack))
        return 0;
    tw_reply(stack, tw, seg->rx);
    return 0;
}

void us_tw_expire(struct us_stack *stack)
{
    unsigned i;

    for (i = 0; i < TW_EXPIRE_MAX && us_tw_deadline(stack) <= stack->now_us; i++)
        tw_free(stack, U_CONTAINER_OF(stack->tw_list.next, struct us_tw, link));
}

u_u64 us_tw_deadline(const struct us_stack *stack)
{
    if (u_list_is_empty(&stack->tw_list))
        return US_NEVER;
    return U_CONTAINER_OF(stack->tw_list.next, struct us_tw, link)->until_us;
}

void us_tw_remove_local(struct us_stack *stack, u_u32 local_ip)
{
    struct u_list *link = stack->tw_list.next;

    while (link != &stack->tw_list) {
        struct us_tw *tw = U_CONTAINER_OF(link, struct us_tw, link);
        link = link->next;
        if (tw->key.local_ip == local_ip)
            tw_free(stack, tw);
    }
}
