/* SPDX-License-Identifier: BSD-3-Clause */
/* The public calls on connections; contracts are in ustack/ustack.h. */
#include "ustack/tcp/tcp.h"
#include "ustack/tcp/tcp_fast_state.h"
#include "ustack/tcp/tcp_orphan.h"
#include "ustack/tcp/tcp_recovery.h"
#include "ustack/tcp/tcp_rxq.h"
#include "ustack/tcp/tcp_sendq.h"
#include "ustack/tcp/tcp_timer.h"

/* No queue may reach half of the sequence space. */
static const u_u32 api_queued_max = (u_u32)1 << 30;

static struct us_conn *connect_fail(int *error, int reason)
{
    if (error != U_NULL)
        *error = reason;
    return (struct us_conn *)U_NULL;
}

struct us_conn *us_connect(struct us_stack *stack, const struct us_addr *remote, u_u16 remote_port,
                           u_u16 local_port, void *user, int *error)
{
    struct us_tcp_key key;
    struct us_route route;
    struct us_conn *conn;
    struct us_ip to;

    if (!us_addr_to_ip(stack, remote, &to) || remote_port == 0 || !us_ip_is_unicast(stack, to))
        return connect_fail(error, US_ERR_ARGUMENT);
    if (us_ip_is_local(stack, to) || !us_route_find(stack, to, &route))
        return connect_fail(error, US_ERR_NO_ROUTE);
    key.remote_ip = to.id;
    key.local_ip = route.src_ip;
    key.remote_port = remote_port;
    key.local_port = local_port;
    if (local_port == 0) {
        if (!us_tcp_port_choose(stack, &key, to.six))
            return connect_fail(error, US_ERR_IN_USE);
    } else if (us_tcp_tuple_in_use(stack, &key, to.six)) {
        return connect_fail(error, US_ERR_IN_USE);
    }
    conn = us_conn_new(stack, &key, to.six);
    if (conn == U_NULL)
        return connect_fail(error, US_ERR_NO_MEMORY);
    conn->user = user;
    conn->ev_flags = US_EVF_VISIBLE;
    conn->state = US_TCP_SYN_SENT;
    conn->out_flags = US_OUT_SYN;
    us_tcp_output_schedule(stack, conn);
    if (error != U_NULL)
        *error = US_OK;
    return conn;
}

void us_conn_set_user(struct us_conn *conn, void *user)
{
    conn->user = user;
}

void *us_conn_user(const struct us_conn *conn)
{
    return conn->user;
}

int us_conn_set_cc(struct us_conn *conn, enum us_cc_kind cc)
{
    if (cc < US_CC_RENO || cc > US_CC_DCTCP)
        return US_ERR_ARGUMENT;
    us_conn_leave_fast_path(conn);
    us_cc_choose(&conn->cc, cc);
    return US_OK;
}

void us_conn_set_nodelay(struct us_stack *stack, struct us_conn *conn, int nodelay)
{
    us_conn_leave_fast_path(conn);
    conn->nagle = !nodelay;
    if (conn->state >= US_TCP_ESTABLISHED && us_conn_has_unsent(conn))
        us_tcp_output_schedule(stack, conn);
}

int us_close(struct us_stack *stack, struct us_conn *conn)
{
    if (conn->out_flags & US_OUT_FIN)
        return US_ERR_STATE;
    us_conn_leave_fast_path(conn);
    switch ((enum us_tcp_state)conn->state) {
    case US_TCP_SYN_SENT:
        if (conn->snd_end == conn->iss + 1) {
            us_conn_end(stack, conn, US_CLOSE_ABORTED); /* RFC 9293 3.10.4 */
            return US_OK;
        }
        break;
    case US_TCP_SYN_RECEIVED:
        break;
    case US_TCP_ESTABLISHED:
        conn->state = US_TCP_FIN_WAIT_1;
        break;
    case US_TCP_CLOSE_WAIT:
        conn->state = US_TCP_LAST_ACK;
        break;
    case US_TCP_CLOSED:
    case US_TCP_FIN_WAIT_1:
    case US_TCP_FIN_WAIT_2:
    case US_TCP_CLOSING:
    case US_TCP_LAST_ACK:
    case US_TCP_TIME_WAIT:
        return US_ERR_STATE;
    }
    conn->out_flags |= US_OUT_FIN;
    us_tcp_output_schedule(stack, conn);
    us_orphan_add(stack, conn);
    us_tcp_timer_apply_limits(stack, conn);
    return US_OK;
}

int us_close_within(struct us_stack *stack, struct us_conn *conn, u_u32 linger_ms)
{
    if (conn->state == US_TCP_CLOSED || us_conn_fin_acked(conn))
        return US_ERR_STATE;
    us_conn_leave_fast_path(conn);
    if (!(conn->out_flags & US_OUT_FIN) && us_close(stack, conn) != US_OK)
        return US_ERR_STATE;
    if (conn->state != US_TCP_CLOSED)
        us_tcp_timer_linger(stack, conn, linger_ms);
    return US_OK;
}

int us_conn_set_keepalive(struct us_stack *stack, struct us_conn *conn, u_u32 idle_ms,
                          u_u32 interval_ms, u_u32 count)
{
    if (idle_ms != 0 && (interval_ms == 0 || count == 0 || count > US_KEEPALIVE_COUNT_MAX))
        return US_ERR_ARGUMENT;
    us_conn_leave_fast_path(conn);
    conn->timeouts.keepalive_idle_ms = idle_ms;
    conn->timeouts.keepalive_interval_ms = interval_ms;
    conn->timeouts.keepalive_count = (u_u8)count;
    if (conn->state >= US_TCP_ESTABLISHED &&
        (us_conn_lazy(conn)->main_timer == US_TCP_TIMER_NONE ||
         us_conn_lazy(conn)->main_timer == US_TCP_TIMER_KEEPALIVE))
        us_tcp_timer_idle(stack, conn);
    return US_OK;
}

void us_conn_set_user_timeout(struct us_stack *stack, struct us_conn *conn, u_u32 timeout_ms)
{
    us_conn_leave_fast_path(conn);
    conn->timeouts.user_timeout_ms = timeout_ms;
    us_tcp_timer_apply_limits(stack, conn);
}

int us_conn_set_buffers(const struct us_stack *stack, struct us_conn *conn, u_u32 recv_window_bytes,
                        u_u32 send_queue_bytes)
{
    u_u32 recv_max = u_min32(stack->config.recv_window_bytes, US_CONN_BUFFER_MAX);
    u_u32 send_max = u_min32(stack->config.send_queue_bytes, US_CONN_BUFFER_MAX);

    if (recv_window_bytes < US_CONN_BUFFER_UNIT || recv_window_bytes > recv_max ||
        send_queue_bytes < US_CONN_BUFFER_UNIT || send_queue_bytes > send_max)
        return US_ERR_ARGUMENT;
    us_conn_leave_fast_path(conn);
    conn->recv_kib = (u_u16)(recv_window_bytes / US_CONN_BUFFER_UNIT);
    conn->send_kib = (u_u16)(send_queue_bytes / US_CONN_BUFFER_UNIT);
    conn->low_water = us_conn_send_limit(stack, conn) >> 1;
    return US_OK;
}

int us_conn_set_ttl(struct us_conn *conn, unsigned ttl)
{
    if (ttl == 0 || ttl > 255)
        return US_ERR_ARGUMENT;
    us_tcp_template_set(&conn->head, ttl, us_tcp_template_dscp(&conn->head));
    return US_OK;
}

int us_conn_set_dscp(struct us_conn *conn, unsigned dscp)
{
    if (dscp > 63)
        return US_ERR_ARGUMENT;
    us_tcp_template_set(&conn->head, us_tcp_template_ttl(&conn->head), dscp);
    return US_OK;
}

void us_conn_watch_cwnd(struct us_stack *stack, struct us_conn *conn, int on)
{
    if (conn->state == US_TCP_CLOSED)
        return;
    us_conn_leave_fast_path(conn);
    if (!on) {
        conn->flags &= (u_u8)~US_CF_WATCH_CWND;
        return;
    }
    conn->flags |= US_CF_WATCH_CWND;
    us_event_raise(stack, conn, US_EVF_CWND);
}

void us_abort(struct us_stack *stack, struct us_conn *conn)
{
    if (conn->state != US_TCP_CLOSED)
        us_conn_reset(stack, conn, US_CLOSE_ABORTED);
}

/* ---- sending ---- */

/* Whether more can be queued at all. */
static int api_can_send(const struct us_conn *conn)
{
    return conn->state != US_TCP_CLOSED && !(conn->out_flags & (US_OUT_FIN | US_OUT_RST));
}

/* A send was cut short or refused: SENDABLE is raised later. */
static void api_want_sendable(struct us_stack *stack, struct us_conn *conn)
{
    us_conn_leave_fast_path(conn);
    conn->flags |= US_CF_WANT_SENDABLE;
    /* With so little queued no ACK would raise it: the block pool is empty. */
    if (conn->sendq.copied <= conn->low_water && u_list_is_empty(&conn->memory_link))
        u_list_push_back(&stack->memory_lists[us_sendq_block_use(&conn->sendq)],
                         &conn->memory_link);
    us_count(stack, US_C_SEND_QUEUE_FULL);
}

static void api_queued(struct us_stack *stack, struct us_conn *conn, u_u32 len)
{
    conn->snd_end += len;
    if (conn->state >= US_TCP_ESTABLISHED)
        us_tcp_output_schedule(stack, conn);
}

long us_send(struct us_stack *stack, struct us_conn *conn, const void *data, u_u32 len)
{
    u_u32 taken;

    if (!api_can_send(conn))
        return US_ERR_STATE;
    taken = u_min32(len, us_send_room(stack, conn));
    taken = us_sendq_append(stack, &conn->sendq, conn->snd_end, (const u_u8 *)data, taken);
    if (taken < len)
        api_want_sendable(stack, conn);
    if (taken > 0)
        api_queued(stack, conn, taken);
    return (long)taken;
}

u_u8 *us_reserve(struct us_stack *stack, struct us_conn *conn, u_u32 want, unsigned flags,
                 u_u32 *room)
{
    struct us_chunk *chunk = conn->sendq.tail;

    /* In US_FAST_RXTX an empty block is the parked one, and the queue holds nothing else. */
    if (U_LIKELY(conn->fast_path == US_FAST_RXTX && chunk != U_NULL && chunk->len == 0 &&
                 want - 1 < US_RESERVE_MAX)) {
        *room = chunk->room;
        return us_chunk_tail(chunk);
    }
    chunk = (struct us_chunk *)U_NULL;
    if (!api_can_send(conn) || want == 0 || want > US_RESERVE_MAX ||
        ((flags & US_RESERVE_IF_EMPTY) && us_send_queued(conn) > 0))
        return (u_u8 *)U_NULL;
    if (conn->sendq.copied < us_conn_send_limit(stack, conn) &&
        us_send_queued(conn) < api_queued_max)
        chunk = us_sendq_reserve(stack, &conn->sendq, conn->snd_end, want);
    if (chunk == U_NULL) {
        api_want_sendable(stack, conn);
        return (u_u8 *)U_NULL;
    }
    *room = chunk->room;
    return us_chunk_tail(chunk);
}

void us_commit(struct us_stack *stack, struct us_conn *conn, u_u32 used)
{
    us_sendq_commit(stack, &conn->sendq, used);
    if (used > 0)
        api_queued(stack, conn, used);
}

int us_send_ref(struct us_stack *stack, struct us_conn *conn, const void *data, u_u32 len,
                void *cookie)
{
    struct us_ref *ref;

    if (len == 0)
        return US_ERR_ARGUMENT;
    if (!api_can_send(conn))
        return US_ERR_STATE;
    if (conn->sendq.refs >= stack->config.send_refs_max || len > api_queued_max ||
        us_send_queued(conn) > api_queued_max - len) {
        us_conn_leave_fast_path(conn);
        conn->flags |= US_CF_WANT_SENDABLE;
        us_count(stack, US_C_SEND_QUEUE_FULL);
        return US_ERR_FULL;
    }
    ref = (struct us_ref *)us_pool_get(&stack->ref_pool);
    if (ref == U_NULL) {
        us_count(stack, US_C_POOL_EMPTY_REFS);
        api_want_sendable(stack, conn);
        return US_ERR_NO_MEMORY;
    }
    ref->conn = conn;
    ref->cookie = cookie;
    ref->chunk.data = (const u_u8 *)data;
    ref->chunk.seq = conn->snd_end;
    ref->chunk.len = len;
    us_conn_leave_fast_path(conn);
    us_sendq_append_ref(&conn->sendq, ref);
    api_queued(stack, conn, len);
    return US_OK;
}

void us_conn_set_low_water(const struct us_stack *stack, struct us_conn *conn, u_u32 low_bytes)
{
    /* A full queue must be above the mark, or SENDABLE would never be raised. */
    conn->low_water = u_min32(low_bytes, us_conn_send_limit(stack, conn) - 1);
}

void us_request_sendable(struct us_stack *stack, struct us_conn *conn)
{
    if (!api_can_send(conn))
        return;
    us_conn_leave_fast_path(conn);
    conn->flags |= US_CF_WANT_SENDABLE;
    us_conn_raise_sendable(stack, conn);
}

u_u32 us_send_room(const struct us_stack *stack, const struct us_conn *conn)
{
    u_u32 limit = us_conn_send_limit(stack, conn);

    if (!api_can_send(conn) || us_send_queued(conn) >= api_queued_max)
        return 0;
    return limit > conn->sendq.copied ? limit - conn->sendq.copied : 0;
}

u_u32 us_send_queued(const struct us_conn *conn)
{
    if (conn->sendq.head == U_NULL)
        return 0;
    if (conn->state == US_TCP_SYN_SENT || conn->state == US_TCP_SYN_RECEIVED)
        return conn->snd_end - (conn->iss + 1);
    return conn->snd_end - conn->snd_una;
}

/* ---- receiving ---- */

int us_recv_keep(struct us_stack *stack, struct us_conn *conn, const u_u8 *data, u_u32 len)
{
    if (len == 0)
        return US_OK;
    if (conn->state == US_TCP_CLOSED && conn->close_reason != US_CLOSE_NORMAL) {
        /*
         * The application does not resume a failed connection; PEER_CLOSED without these bytes
         * would pretend that the stream is complete.
         */
        us_conn_drop_received(stack, conn);
        return US_OK;
    }
    if (!us_rxq_keep(stack, &conn->rxq, US_RXQ_KEPT, data, len)) {
        us_conn_out_of_memory(stack, conn);
        return US_ERR_NO_MEMORY;
    }
    us_conn_leave_fast_path(conn);
    conn->rx_flags |= US_RX_HELD;
    conn->rcv_queued += len;
    return US_OK;
}

void us_recv_resume(struct us_stack *stack, struct us_conn *conn)
{
    if (!(conn->rx_flags & US_RX_HELD))
        return;
    us_event_keep_slices(stack, conn); /* slices follow the bytes given back */
    conn->rx_flags &= (u_u8)~US_RX_HELD;
    conn->rxq.kept = (struct us_chunk *)U_NULL;
    conn->rxq.held = (struct us_chunk *)U_NULL;
    us_event_queue_conn(stack, conn);
}
