/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections that move between instances; contracts are in ustack/ustack.h.
 *
 * The state has what the peer knows of the connection (RFC 9293 3.3.1, RFC 7323, RFC 3168) and what
 * was learnt about the path. What was under way is left behind: timers, recovery, the scoreboard.
 * Unacknowledged bytes are sent again from SND.UNA, as after an RTO, but cwnd stays.
 */
#include "ustack/tcp/tcp.h"
#include "ustack/tcp/tcp_fast_state.h"
#include "ustack/tcp/tcp_pmtu.h"
#include "ustack/tcp/tcp_recovery.h"
#include "ustack/tcp/tcp_rxq.h"
#include "ustack/tcp/tcp_sendq.h"
#include "ustack/tcp/tcp_timer.h"

U_STATIC_ASSERT(sizeof(struct us_conn_state) == US_CONN_STATE_BYTES, conn_state_has_no_padding);
U_STATIC_ASSERT(U_OFFSET_OF(struct us_conn_state, snd_una) == 64, conn_state_layout);
U_STATIC_ASSERT(U_OFFSET_OF(struct us_conn_state, bytes_in) == 160, conn_state_layout_end);

enum {
    EXPORT_PATH_MTU_MIN = 128, /* leaves payload behind the largest headers */
    EXPORT_WINDOW_MAX = 1 << 30
};

/* ---- export ---- */

static unsigned export_options(const struct us_conn *conn)
{
    return (conn->opts & US_OPT_TS ? US_CONN_STATE_TIMESTAMPS : 0) |
           (conn->opts & US_OPT_SCALE ? US_CONN_STATE_SCALING : 0) |
           (conn->opts & US_OPT_SACK ? US_CONN_STATE_SACK : 0) |
           (conn->opts & US_OPT_ECN ? US_CONN_STATE_ECN : 0);
}

static unsigned export_flags(const struct us_conn *conn)
{
    return (conn->flags & US_CF_PASSIVE ? US_CONN_STATE_ACCEPTED : 0) |
           (conn->nagle ? 0 : US_CONN_STATE_NODELAY) |
           (conn->state == US_TCP_CLOSE_WAIT ? US_CONN_STATE_PEER_CLOSED : 0) |
           (conn->ecn & US_EF_SEND_ECE ? US_CONN_STATE_ECE : 0);
}

/* The peer's own MAC address, if frames go to it directly. */
static void export_mac(const struct us_stack *stack, const struct us_conn *conn, u_u8 *mac)
{
    const struct us_neighbour *peer = us_neighbour_find(stack, us_conn_remote(conn));

    if (peer != U_NULL && peer->state != US_NEIGHBOUR_INCOMPLETE)
        u_copy(mac, peer->l2, 6);
}

static void export_path(const struct us_stack *stack, const struct us_conn *conn,
                        struct us_conn_state *state)
{
    state->path_mtu = conn->pmtu.mtu;
    state->path_mtu_max = conn->pmtu.mtu_max;
    state->srtt8_us = conn->rtt.srtt8_us;
    state->rttvar4_us = conn->rtt.rttvar4_us;
    state->min_rtt_us = conn->rtt.min_rtt_us;
    state->cc = conn->cc.kind;
    state->cwnd = conn->cc.cwnd;
    state->ssthresh = conn->cc.ssthresh;
    export_mac(stack, conn, state->remote_mac);
}

static void export_numbers(const struct us_stack *stack, const struct us_conn *conn,
                           struct us_conn_state *state)
{
    state->snd_una = conn->snd_una;
    state->sent_bytes = conn->snd_max - conn->snd_una;
    state->queued_bytes = us_send_queued(conn);
    state->snd_wnd = conn->snd_wnd;
    state->snd_wnd_max = conn->snd_wnd_max;
    state->snd_wl1 = conn->snd_wl1;
    state->snd_wl2 = conn->snd_wl2;
    state->unread_bytes = conn->rcv_queued;
    state->rcv_nxt = conn->rcv_nxt;
    state->rcv_adv = us_seq_max(conn->rcv_adv, conn->rcv_nxt);
    state->last_ack = conn->last_ack;
    state->ts_recent = conn->ts_recent;
    state->ts_clock = us_ts_clock(stack->now_us) + conn->ts_offset;
}

static void export_fill(const struct us_stack *stack, const struct us_conn *conn,
                        struct us_conn_state *state)
{
    u_zero(state, sizeof(*state));
    state->magic = US_CONN_STATE_MAGIC;
    state->version = US_CONN_STATE_VERSION;
    state->bytes = US_CONN_STATE_BYTES;
    us_addr_from_local(stack, &state->local, conn->key.local_ip);
    us_addr_from_ip(&state->remote, us_conn_remote(conn));
    state->local_port = conn->key.local_port;
    state->remote_port = conn->key.remote_port;
    state->options = (u_u8)export_options(conn);
    state->send_scale = conn->snd_scale;
    state->recv_scale = conn->rcv_scale;
    state->flags = (u_u8)export_flags(conn);
    state->mss_offered = conn->mss_sent;
    state->keepalive_count = conn->timeouts.keepalive_count;
    state->keepalive_idle_ms = conn->timeouts.keepalive_idle_ms;
    state->keepalive_interval_ms = conn->timeouts.keepalive_interval_ms;
    state->user_timeout_ms = conn->timeouts.user_timeout_ms;
    state->retransmits = conn->retransmits;
    state->silent_ticks =
        (u_u32)u_min64((stack->now_us - conn->last_rx_us) >> US_TS_CLOCK_SHIFT, 0xffffffffu);
    state->bytes_in = conn->bytes_in;
    state->bytes_out = conn->bytes_out;
    export_numbers(stack, conn, state);
    export_path(stack, conn, state);
}

/* Copies the bytes in order that the application holds back. */
static void export_unread(const struct us_rxq *rxq, u_u8 *to)
{
    const struct us_chunk *chunk;

    for (chunk = rxq->head; chunk != U_NULL; chunk = chunk->next) {
        u_copy(to, chunk->data, chunk->len);
        to += chunk->len;
    }
}

int us_conn_export(struct us_stack *stack, struct us_conn *conn, struct us_conn_state *state,
                   void *data, u_u32 room)
{
    u_u32 queued = us_send_queued(conn);

    if (conn->state != US_TCP_ESTABLISHED && conn->state != US_TCP_CLOSE_WAIT)
        return US_ERR_STATE;
    if (conn->slice_len != 0 || (conn->rxq.head != U_NULL && !(conn->rx_flags & US_RX_HELD)) ||
        (conn->ev_flags & (US_EVF_ACCEPTED | US_EVF_CONNECTED)))
        return US_ERR_UNREAD;
    if (queued > room || conn->rcv_queued > room - queued)
        return US_ERR_FULL;
    export_fill(stack, conn, state);
    if (queued > 0)
        us_sendq_copy(&conn->sendq, conn->snd_una, (u_u8 *)data, queued, 0, 0);
    export_unread(&conn->rxq, (u_u8 *)data + queued);
    return US_OK;
}

void us_conn_forget(struct us_stack *stack, struct us_conn *conn)
{
    if (conn->state != US_TCP_CLOSED)
        us_conn_end(stack, conn, US_CLOSE_EXPORTED);
}

/* ---- import ---- */

static int path_is_valid(const struct us_conn_state *state)
{
    return state->path_mtu >= EXPORT_PATH_MTU_MIN && state->path_mtu <= state->path_mtu_max &&
           state->mss_offered > 0 && state->cc >= US_CC_RENO && state->cc <= US_CC_DCTCP &&
           state->srtt8_us <= (u_u32)US_RTT_SAMPLE_MAX_US << 3 &&
           state->rttvar4_us <= (u_u32)US_RTT_SAMPLE_MAX_US << 2 &&
           state->min_rtt_us <= US_RTT_SAMPLE_MAX_US &&
           (state->srtt8_us == 0 || (state->srtt8_us >= 8 && state->min_rtt_us != 0));
}

static int numbers_are_valid(const struct us_conn_state *state)
{
    return state->sent_bytes <= state->queued_bytes && state->queued_bytes <= EXPORT_WINDOW_MAX &&
           state->snd_wnd <= state->snd_wnd_max && state->snd_wnd_max <= EXPORT_WINDOW_MAX &&
           state->rcv_adv - state->rcv_nxt <= EXPORT_WINDOW_MAX &&
           state->rcv_nxt - state->last_ack <= EXPORT_WINDOW_MAX &&
           state->unread_bytes <= EXPORT_WINDOW_MAX;
}

static int options_are_valid(const struct us_conn_state *state)
{
    return state->send_scale <= US_TCP_SCALE_MAX && state->recv_scale <= US_TCP_SCALE_MAX &&
           ((state->options & US_CONN_STATE_SCALING) ||
            (state->send_scale == 0 && state->recv_scale == 0)) &&
           state->keepalive_count >= 1 && state->keepalive_count <= US_KEEPALIVE_COUNT_MAX &&
           (state->keepalive_idle_ms == 0 || state->keepalive_interval_ms != 0);
}

/* Checks the state and sets the 4-tuple. Returns 0 or an enum us_error. */
static int import_check(const struct us_stack *stack, const struct us_conn_state *state,
                        struct us_tcp_key *key, struct us_ip *remote)
{
    struct us_ip local;

    if (state->magic != US_CONN_STATE_MAGIC || state->version != US_CONN_STATE_VERSION ||
        state->bytes != US_CONN_STATE_BYTES)
        return US_ERR_VERSION;
    if (!us_addr_to_ip(stack, &state->local, &local) ||
        !us_addr_to_ip(stack, &state->remote, remote) ||
        state->local.family != state->remote.family || state->local_port == 0 ||
        state->remote_port == 0 || !us_ip_is_unicast(stack, *remote) ||
        us_ip_is_local(stack, *remote) || !path_is_valid(state) || !numbers_are_valid(state) ||
        !options_are_valid(state))
        return US_ERR_ARGUMENT;
    if (!us_local_id(stack, local, &key->local_ip))
        return US_ERR_NO_ROUTE;
    key->remote_ip = remote->id;
    key->local_port = state->local_port;
    key->remote_port = state->remote_port;
    if (us_tcp_tuple_in_use(stack, key, remote->six))
        return US_ERR_IN_USE;
    if (state->queued_bytes > stack->config.send_queue_bytes ||
        state->unread_bytes > stack->config.recv_window_bytes)
        return US_ERR_FULL;
    return US_OK;
}

static void import_options(struct us_conn *conn, const struct us_conn_state *state)
{
    if (state->options & US_CONN_STATE_TIMESTAMPS)
        conn->opts |= US_OPT_TS;
    if (state->options & US_CONN_STATE_SCALING)
        conn->opts |= US_OPT_SCALE;
    if (state->options & US_CONN_STATE_SACK)
        conn->opts |= US_OPT_SACK;
    if (state->options & US_CONN_STATE_ECN)
        conn->opts |= US_OPT_ECN;
    conn->snd_scale = state->send_scale;
    conn->rcv_scale = state->recv_scale;
    conn->mss_sent = state->mss_offered;
    conn->nagle = !(state->flags & US_CONN_STATE_NODELAY);
    conn->ecn = (u_u8)(state->flags & US_CONN_STATE_ECE ? US_EF_SEND_ECE : 0);
}

static void import_path(const struct us_stack *stack, struct us_conn *conn,
                        const struct us_conn_state *state)
{
    us_pmtu_init(stack, conn, state->path_mtu_max - us_conn_hdr_bytes(conn));
    if (state->path_mtu < conn->pmtu.mtu) {
        conn->pmtu.mtu = state->path_mtu;
        conn->pmtu.raise_at = us_ts_clock(stack->now_us);
    }
    us_rtt_restore(&conn->rtt, state->srtt8_us, state->rttvar4_us, state->min_rtt_us);
    us_cc_choose(&conn->cc, (enum us_cc_kind)state->cc);
    us_cc_init(&conn->cc, us_pmtu_mss(conn), 0);
    conn->cc.cwnd = u_min32(u_max32(state->cwnd, conn->cc.mss), US_CC_WINDOW_MAX);
    conn->cc.ssthresh = u_min32(u_max32(state->ssthresh, conn->cc.mss), US_CC_WINDOW_MAX);
}

static void import_numbers(const struct us_stack *stack, struct us_conn *conn,
                           const struct us_conn_state *state)
{
    us_conn_set_iss(conn, state->snd_una - 1);
    conn->snd_una = state->snd_una;
    conn->snd_nxt = state->snd_una;
    conn->snd_max = state->snd_una + state->sent_bytes;
    conn->snd_wnd = state->snd_wnd;
    conn->snd_wnd_max = state->snd_wnd_max;
    conn->snd_wl1 = state->snd_wl1;
    conn->snd_wl2 = state->snd_wl2;
    us_conn_lazy(conn)->cwnd_limited_end = state->snd_una;
    if (state->sent_bytes > 0)
        us_conn_lazy(conn)->recover = conn->snd_max; /* as after an RTO (RFC 6582 3.2 (4)) */
    conn->rcv_nxt = state->rcv_nxt;
    conn->rcv_adv = state->rcv_adv;
    conn->last_ack = state->last_ack;
    conn->ts_recent = state->ts_recent;
    conn->ts_offset = state->ts_clock - us_ts_clock(stack->now_us);
    conn->retransmits = state->retransmits;
    conn->bytes_in = state->bytes_in;
    conn->bytes_out = state->bytes_out;
}

static void import_limits(const struct us_stack *stack, struct us_conn *conn,
                          const struct us_conn_state *state)
{
    u_u64 silent_us = (u_u64)state->silent_ticks << US_TS_CLOCK_SHIFT;

    conn->last_rx_us = stack->now_us - u_min64(silent_us, stack->now_us);
    conn->sent_us = conn->last_rx_us;
    conn->timeouts.keepalive_idle_ms = state->keepalive_idle_ms;
    conn->timeouts.keepalive_interval_ms = state->keepalive_interval_ms;
    conn->timeouts.keepalive_count = state->keepalive_count;
    conn->timeouts.user_timeout_ms = state->user_timeout_ms;
}

/* Counts an accepted connection for the listener of its port. */
static void import_listener(struct us_stack *stack, struct us_conn *conn)
{
    struct us_listener *listener = us_tcp_listener_find(stack, conn->key.local_port);

    conn->flags |= US_CF_PASSIVE;
    if (listener == U_NULL)
        return;
    listener->conns++;
    conn->listener = (u_u16)(listener - stack->listeners.items + 1);
    conn->listener_epoch = listener->epoch;
}

static void import_learn_mac(struct us_stack *stack, struct us_ip remote, const u_u8 *mac)
{
    static const u_u8 none[6] = {0};

    if (!u_equal(mac, none, sizeof(none)))
        us_neighbour_learn(stack, remote, mac, 0);
}

/* Whether the peer waits for an ACK, or for the window to open. */
static int import_owes_ack(const struct us_stack *stack, const struct us_conn *conn)
{
    return conn->last_ack != conn->rcv_nxt || !us_tcp_window_above_half(stack, conn);
}

/* Stores the bytes of both queues. Returns 0 if the buffers are exhausted. */
static int import_bytes(struct us_stack *stack, struct us_conn *conn,
                        const struct us_conn_state *state, const u_u8 *data)
{
    u_u32 unread_from = state->rcv_nxt - state->unread_bytes;

    conn->snd_end = state->snd_una +
                    us_sendq_append(stack, &conn->sendq, state->snd_una, data, state->queued_bytes);
    if (conn->snd_end - conn->snd_una != state->queued_bytes)
        return 0;
    conn->rcv_queued = us_rxq_append(stack, &conn->rxq, unread_from, data + state->queued_bytes,
                                     state->unread_bytes, stack->rx_block_max);
    return conn->rcv_queued == state->unread_bytes;
}

/* The connection is known to the application, which holds the unread bytes back. */
static void import_events(struct us_stack *stack, struct us_conn *conn,
                          const struct us_conn_state *state)
{
    conn->ev_flags = US_EVF_VISIBLE;
    if (state->unread_bytes > 0) {
        conn->rx_flags |= US_RX_HELD;
        conn->rxq.kept = conn->rxq.tail;
    }
    if (conn->state == US_TCP_CLOSE_WAIT)
        us_event_raise(stack, conn, US_EVF_PEER_CLOSED);
}

static struct us_conn *import_fail(int *error, int reason)
{
    if (error != U_NULL)
        *error = reason;
    return (struct us_conn *)U_NULL;
}

struct us_conn *us_conn_import(struct us_stack *stack, const struct us_conn_state *state,
                               const void *data, void *user, int *error)
{
    struct us_tcp_key key;
    struct us_conn *conn;
    struct us_ip remote;
    int reason = import_check(stack, state, &key, &remote);

    if (reason != US_OK)
        return import_fail(error, reason);
    conn = us_conn_new(stack, &key, remote.six);
    if (conn == U_NULL)
        return import_fail(error, US_ERR_NO_MEMORY);
    import_options(conn, state);
    import_path(stack, conn, state);
    import_numbers(stack, conn, state);
    import_limits(stack, conn, state);
    conn->state = US_TCP_ESTABLISHED;
    if (state->flags & US_CONN_STATE_PEER_CLOSED) {
        conn->state = US_TCP_CLOSE_WAIT;
        conn->rx_flags |= US_RX_FIN;
    }
    if (!import_bytes(stack, conn, state, (const u_u8 *)data)) {
        us_conn_end(stack, conn, US_CLOSE_NONE);
        return import_fail(error, US_ERR_NO_MEMORY);
    }
    conn->user = user;
    import_events(stack, conn, state);
    if (state->flags & US_CONN_STATE_ACCEPTED)
        import_listener(stack, conn);
    import_learn_mac(stack, remote, state->remote_mac);
    us_tcp_timer_idle(stack, conn);
    if (state->sent_bytes > 0)
        us_tcp_timer_start(stack, conn, US_TCP_TIMER_RTO, us_recovery_rto_us(stack, conn));
    if (import_owes_ack(stack, conn))
        conn->out_flags |= US_OUT_ACK;
    us_tcp_output_schedule(stack, conn);
    us_count(stack, US_C_TCP_IMPORTED);
    if (error != U_NULL)
        *error = US_OK;
    return conn;
}
