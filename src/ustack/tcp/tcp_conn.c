/* SPDX-License-Identifier: BSD-3-Clause */
/* Creation and end of a connection. */
#include "ustack/tcp/tcp.h"
#include "ustack/tcp/tcp_ecn.h"
#include "ustack/tcp/tcp_fast_state.h"
#include "ustack/tcp/tcp_orphan.h"
#include "ustack/tcp/tcp_pmtu.h"
#include "ustack/tcp/tcp_recovery.h"
#include "ustack/tcp/tcp_rxq.h"
#include "ustack/tcp/tcp_sendq.h"
#include "ustack/tcp/tcp_timer.h"

/*
 * The minimum MSS, options included, whatever the peer offers: with smaller segments the headers
 * would cost more than the data. Linux has the same minimum.
 */
enum { CONN_MSS_MIN = 48 };

/* The smallest shift that lets the window field express the whole window (RFC 7323 2.2). */
u_u8 us_conn_scale_offered(const struct us_stack *stack)
{
    unsigned scale = 0;

    while (scale < US_TCP_SCALE_MAX && stack->config.recv_window_bytes >> scale > 0xffff)
        scale++;
    return (u_u8)scale;
}

u_u16 us_conn_mss_offered(const struct us_stack *stack, u_u32 local_ip)
{
    u_u32 l3_bytes = us_local_is_ip6(local_ip) ? (u_u32)US_IP6_HDR_BYTES : (u_u32)US_IP4_HDR_BYTES;

    return (u_u16)(us_ip_mtu(stack, us_local_is_ip6(local_ip)) - l3_bytes - US_TCP_HDR_BYTES);
}

u_u32 us_conn_mss_of_syn(const struct us_seg *seg, u_u32 local_ip)
{
    if (seg->opts.mss != 0)
        return seg->opts.mss;
    return us_local_is_ip6(local_ip) ? (u_u32)US_TCP_MSS_DEFAULT_IP6 : (u_u32)US_TCP_MSS_DEFAULT;
}

void us_conn_set_iss(struct us_conn *conn, u_u32 iss)
{
    conn->iss = iss;
    conn->snd_una = iss;
    conn->snd_nxt = iss;
    conn->snd_max = iss;
    conn->snd_end = iss + 1;
    us_conn_lazy(conn)->recover = iss;
    us_conn_lazy(conn)->cwnd_limited_end = iss;
}

struct us_conn *us_conn_new(struct us_stack *stack, const struct us_tcp_key *key,
                            const struct us_ip6 *remote6)
{
    const struct us_config *config = &stack->config;
    struct us_conn *conn;

    us_orphan_make_room(stack);
    conn = (struct us_conn *)us_pool_get(&stack->conn_pool);
    if (conn == U_NULL) {
        us_count(stack, US_C_POOL_EMPTY_CONNS);
        return conn;
    }
    u_zero(conn, sizeof(*conn));
    conn->key = *key;
    conn->state = US_TCP_CLOSED;
    conn->slice_next = US_SLICE_NONE;
    conn->slice_last = US_SLICE_NONE;
    conn->delack_deadline_us = US_NEVER;
    us_conn_lazy(conn)->main_deadline_us = US_NEVER;
    conn->last_rx_us = stack->now_us;
    conn->low_water = config->send_queue_bytes >> 1;
    conn->timeouts.linger_deadline_us = US_NEVER;
    conn->timeouts.user_timeout_ms = config->user_timeout_ms;
    conn->timeouts.keepalive_idle_ms = config->keepalive ? config->keepalive_idle_ms : 0;
    conn->timeouts.keepalive_interval_ms = config->keepalive_interval_ms;
    conn->timeouts.keepalive_count = (u_u8)config->keepalive_count;
    u_list_init(&conn->ev_link);
    u_list_init(&conn->out_link);
    u_list_init(&conn->memory_link);
    us_timer_init(&conn->timer, US_TIMER_CONN);
    us_rtt_init(&conn->rtt, config->rto_initial_us, config->rto_min_us, config->rto_max_us);
    conn->rcv_scale = us_conn_scale_offered(stack);
    conn->mss_sent = us_conn_mss_offered(stack, key->local_ip);
    if (config->ecn == US_ECN_REQUEST)
        conn->ecn = US_EF_REQUESTED;
    conn->nagle = (u_u8)config->nagle;
    conn->quick_acks = (u_u8)config->quick_acks;
    us_cc_choose(&conn->cc, (enum us_cc_kind)config->cc);
    us_cc_init(&conn->cc, US_TCP_MSS_DEFAULT, 0);
    conn->ts_offset = us_tcp_ts_offset(stack, key);
    us_conn_set_iss(conn, us_tcp_isn(stack, key));
    us_tcp_template_fill(stack, &conn->head, key, remote6);
    us_tcp_table_add(stack, conn);
    return conn;
}

void us_conn_take_syn(struct us_stack *stack, struct us_conn *conn, const struct us_seg *seg)
{
    u_u32 mss = us_conn_mss_of_syn(seg, conn->key.local_ip);

    conn->rcv_nxt = seg->seq + 1;
    conn->last_ack = conn->rcv_nxt;
    conn->rcv_adv = conn->rcv_nxt + u_min32(us_conn_recv_window(stack, conn), 0xffff);
    conn->snd_wnd = seg->wnd; /* RFC 7323 2.2: a SYN's window is never scaled */
    conn->snd_wnd_max = seg->wnd;
    conn->snd_wl1 = seg->seq;
    conn->snd_wl2 = seg->ack;
    if (seg->opts.has_ts) {
        conn->opts |= US_OPT_TS;
        conn->ts_recent = seg->opts.ts_val;
    }
    if (seg->opts.sack_permitted)
        conn->opts |= US_OPT_SACK;
    us_ecn_take_syn(stack, conn, seg);
    if (seg->opts.has_scale) {
        conn->opts |= US_OPT_SCALE;
        conn->snd_scale = seg->opts.scale;
    } else {
        conn->snd_scale = 0;
        conn->rcv_scale = 0;
    }
    us_pmtu_init(stack, conn, u_max32(mss, CONN_MSS_MIN));
    us_cc_init(&conn->cc, us_pmtu_mss(conn), 0);
}

void us_conn_establish(struct us_stack *stack, struct us_conn *conn)
{
    int resent = (conn->flags & US_CF_SYN_RESENT) != 0;

    us_cc_init(&conn->cc, conn->cc.mss, resent);
    if (resent && conn->rtt.srtt8_us == 0) {
        /* RFC 6298 5.7: three seconds where the initial timeout is the standard one second. */
        us_rtt_init(&conn->rtt, 3 * conn->rtt.rto_us, conn->rtt.min_us, conn->rtt.max_us);
    }
    conn->state = conn->out_flags & US_OUT_FIN ? US_TCP_FIN_WAIT_1 : US_TCP_ESTABLISHED;
    us_tcp_timer_idle(stack, conn);
    if (conn->flags & US_CF_PASSIVE) {
        us_count(stack, US_C_TCP_ACCEPTED);
        us_event_raise(stack, conn, US_EVF_ACCEPTED | US_EVF_VISIBLE);
    } else {
        us_count(stack, US_C_TCP_CONNECTED);
        us_event_raise(stack, conn, US_EVF_CONNECTED);
    }
    if (conn->opts & US_OPT_ECN)
        us_count(stack, US_C_TCP_ECN_CONNS);
    us_tcp_output_schedule(stack, conn);
}

static void conn_count_end(struct us_stack *stack, enum us_close_reason reason)
{
    switch (reason) {
    case US_CLOSE_NONE:
        return;
    case US_CLOSE_NORMAL:
        us_count(stack, US_C_TCP_CLOSED_NORMAL);
        return;
    case US_CLOSE_EXPORTED:
        us_count(stack, US_C_TCP_EXPORTED);
        return;
    case US_CLOSE_RESET:
    case US_CLOSE_REFUSED:
        us_count(stack, US_C_TCP_CLOSED_RESET);
        return;
    case US_CLOSE_ABORTED:
    case US_CLOSE_NO_MEMORY:
        us_count(stack, US_C_TCP_CLOSED_ABORTED);
        return;
    case US_CLOSE_TIMEOUT:
    case US_CLOSE_UNREACHABLE:
    case US_CLOSE_KEEPALIVE:
    case US_CLOSE_ZERO_WINDOW:
        us_count(stack, US_C_TCP_CLOSED_TIMEOUT);
    }
}

void us_conn_drop_received(struct us_stack *stack, struct us_conn *conn)
{
    us_rxq_clear(stack, &conn->rxq);
    us_event_drop_slices(stack, conn);
    conn->rx_flags &= (u_u8)~US_RX_HELD;
    conn->rcv_queued = 0;
    conn->ev_flags &= (u_u8) ~(US_EVF_PEER_CLOSED | US_EVF_SENDABLE);
}

/*
 * Received data without an event is delivered before CLOSED, unless the application has aborted the
 * connection, or holds back data of a connection that has failed: it would not resume it.
 */
static void conn_keep_or_drop_received(struct us_stack *stack, struct us_conn *conn,
                                       enum us_close_reason reason)
{
    int held = (conn->rx_flags & US_RX_HELD) != 0;

    us_rxq_clear_ooo(stack, &conn->rxq);
    if (reason == US_CLOSE_ABORTED || reason == US_CLOSE_NO_MEMORY ||
        (held && reason != US_CLOSE_NORMAL))
        us_conn_drop_received(stack, conn);
    conn->ev_flags &= (u_u8) ~(US_EVF_SENDABLE | US_EVF_CWND);
}

void us_conn_end(struct us_stack *stack, struct us_conn *conn, enum us_close_reason reason)
{
    U_ASSERT(conn->state != US_TCP_CLOSED);
    us_conn_leave_fast_path(conn);
    conn_count_end(stack, reason);
    if (conn->ev_flags & US_EVF_VISIBLE)
        us_tcp_listener_uncount(stack, conn);
    conn->state = US_TCP_CLOSED;
    conn->close_reason = (u_u8)reason;
    us_tcp_table_remove(stack, conn);
    us_timer_stop(&stack->wheel, &conn->timer);
    us_orphan_remove(stack, conn);
    u_list_remove(&conn->memory_link);
    us_sendq_clear(stack, &conn->sendq);
    us_recovery_free_scoreboard(stack, conn);
    conn->flags &= (u_u8)~US_CF_WANT_SENDABLE;
    conn_keep_or_drop_received(stack, conn, reason);
    if (!(conn->out_flags & US_OUT_RST))
        u_list_remove(&conn->out_link);
    if (conn->ev_flags & US_EVF_VISIBLE)
        us_event_raise(stack, conn, US_EVF_CLOSED);
    us_conn_free_if_done(stack, conn);
}

void us_conn_reset(struct us_stack *stack, struct us_conn *conn, enum us_close_reason reason)
{
    if (conn->state != US_TCP_SYN_SENT) {
        conn->out_flags = US_OUT_RST;
        u_list_remove(&conn->out_link); /* it no longer waits for the next hop's address */
        us_tcp_output_schedule(stack, conn);
    }
    us_conn_end(stack, conn, reason);
}

void us_conn_out_of_memory(struct us_stack *stack, struct us_conn *conn)
{
    us_count(stack, US_C_TCP_NO_MEMORY);
    if (conn->state != US_TCP_CLOSED) {
        us_conn_reset(stack, conn, US_CLOSE_NO_MEMORY);
        return;
    }
    /* The connection has ended already; the application has not taken all data. */
    conn->close_reason = US_CLOSE_NO_MEMORY;
    conn_keep_or_drop_received(stack, conn, US_CLOSE_NO_MEMORY);
    us_event_raise(stack, conn, US_EVF_CLOSED);
}

void us_conn_free_if_done(struct us_stack *stack, struct us_conn *conn)
{
    if (conn->state != US_TCP_CLOSED || (conn->ev_flags & US_EVF_CLOSED) ||
        (conn->out_flags & US_OUT_RST))
        return;
    u_list_remove(&conn->ev_link);
    if (us_conn_has_hop(conn))
        us_neighbour_release(stack, conn->neighbour);
    conn->close_reason = US_CLOSE_NONE; /* marks it as free, for us_check() */
    us_pool_put(&stack->conn_pool, conn);
}

void us_conn_raise_sendable(struct us_stack *stack, struct us_conn *conn)
{
    enum us_block_use use;

    if (U_LIKELY(!(conn->flags & US_CF_WANT_SENDABLE)))
        return;
    if (conn->sendq.copied > conn->low_water || conn->sendq.refs > stack->config.send_refs_max >> 1)
        return;
    use = us_sendq_block_use(&conn->sendq); /* less may be queued now than when it began to wait */
    u_list_remove(&conn->memory_link);
    if (!us_block_is_available(stack, use)) {
        u_list_push_back(&stack->memory_lists[use], &conn->memory_link);
        return;
    }
    conn->flags &= (u_u8)~US_CF_WANT_SENDABLE;
    us_event_raise(stack, conn, US_EVF_SENDABLE);
}

void us_tcp_remove_local(struct us_stack *stack, u_u32 local_ip)
{
    u_u32 i;

    for (i = 0; i < stack->conn_pool.touched; i++) {
        struct us_conn *conn = us_conn_at(stack, i);
        if (conn->state != US_TCP_CLOSED && conn->key.local_ip == local_ip)
            us_conn_end(stack, conn, US_CLOSE_UNREACHABLE);
    }
}
