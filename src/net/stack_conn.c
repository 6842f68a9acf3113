/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport of the own TCP/IP stack: events of connections to their sessions, replies straight
 * into the connection's send queue. The session of a client that does not read stops instead of
 * filling the memory.
 *
 * The states of a connection:
 *
 *   waiting    no session is free yet (settings.accept_waits). Input goes back to the stack
 * (us_recv_keep), which closes the window.
 *   open       session set. DATA is handled when it comes.
 *   blocked    its session stopped in a reply. Unconsumed input went back to the stack
 * (us_recv_keep), which closes the window. The worker resumes the session when the send queue has
 * drained.
 *   finished   session null, the queue drains, then a FIN is sent. Input is dropped.
 *   dead       us null: CLOSED was taken. Freed when that event is handled.
 *
 * A peer that shut down its sending side gets the replies to all its requests: the connection is
 * finished when no input is kept any more.
 */
#include <string.h>

#include "cache/hot_keys.h"
#include "mcproto/mcproto.h"
#include "net/port.h"
#include "net/tls_conn.h"

/* Blocked connections checked per turn. */
#define UNBLOCK_BATCH 32

/* With two threads, how often all of them are checked if no event comes. */
#define UNBLOCK_CHECK_US 1000

/* What a peer may send after its session has ended before the connection is reset. */
#define DISCARD_BYTES_MAX (1024 * 1024)

/*
 * A connection's queue may take this part of the pool's free memory beyond the reserve, or this
 * minimum.
 */
#define QUEUE_SHARE 32
#define QUEUE_BYTES_MIN 2048

/*
 * The most that a session copies between two checks of cache_sink.full: the text of statistics.
 * Together with the bytes queued before it is within the minimum of a connection.
 */
#define REPLY_BYTES_MAX (16 * 1024)
U_STATIC_ASSERT(QUEUE_BYTES_MIN + 2048 + REPLY_BYTES_MAX <= US_SEND_MIN_BYTES,
                a_reply_is_sent_within_the_minimum);

/* Input that is kept for a session however full the pool is; within the minimum as well. */
#define KEPT_BYTES_MIN (12 * 1024)

/* ---- the bounds -------------------------------------------------------------------------- */

/*
 * Bytes that a connection may have queued before its session stops: a share of the pool's free
 * memory, at least the minimum of each connection. 0: the pool has no room for one reply.
 */
static uint32_t queue_limit_bytes(const struct net_stack_worker *worker)
{
    uint64_t used = net_port_buffer_used(worker);
    uint64_t share = net_stack_pool_free(worker, used) / QUEUE_SHARE;

    if (U_UNLIKELY(worker->buffer_bytes < used + REPLY_BYTES_MAX))
        return 0;
    return u_max32((uint32_t)u_min64(share, NET_STACK_SEND_HIGH_BYTES), QUEUE_BYTES_MIN);
}

/* Checked before each request: with a full queue the session stops before its reply. */
static bool queue_is_full(const struct net_stack_worker *worker, const struct net_stack_conn *conn)
{
    return conn->refs >= NET_STACK_REFS_HIGH || net_port_is_congested(worker) ||
           net_port_queued(worker, conn->us, false) >= queue_limit_bytes(worker);
}

/* Whether enough is acknowledged to resume a blocked session. */
static bool queue_has_drained(struct net_stack_worker *worker, const struct net_stack_conn *conn)
{
    uint32_t queued = net_port_queued(worker, conn->us, true);
    uint32_t limit = queue_limit_bytes(worker);

    return conn->refs <= NET_STACK_REFS_HIGH / 2 && !net_port_is_congested(worker) && limit > 0 &&
           queued <= limit / 2;
}

/* ---- the transport of replies ------------------------------------------------------------ */

static struct net_stack_worker *worker_of(struct net_conns *conns)
{
    return U_CONTAINER_OF(conns, struct net_stack_worker, conns);
}

static struct net_stack_conn *stack_conn_of(struct net_conn *conn)
{
    return U_CONTAINER_OF(conn, struct net_stack_conn, conn);
}

/* A connection whose CLOSED event was taken takes no replies any more. */
static uint8_t *stack_reserve(struct net_conns *conns, struct net_conn *conn, uint32_t need,
                              uint32_t *room)
{
    struct us_conn *us = stack_conn_of(conn)->us;

    return us ? net_port_reserve(worker_of(conns), us, need, room) : NULL;
}

static void stack_commit(struct net_conns *conns, struct net_conn *conn, uint32_t used)
{
    net_port_commit(worker_of(conns), stack_conn_of(conn)->us, used);
}

static int stack_send_ref(struct net_conns *conns, struct net_conn *conn, const void *data,
                          uint32_t len, void *cookie)
{
    struct net_stack_conn *stack_conn = stack_conn_of(conn);
    int queued = -1;

    if (stack_conn->us)
        queued = net_port_send_ref(worker_of(conns), stack_conn->us, data, len, cookie);
    stack_conn->refs += queued > 0;
    return queued;
}

static bool stack_is_full(struct net_conns *conns, struct net_conn *conn)
{
    return stack_conn_of(conn)->us && queue_is_full(worker_of(conns), stack_conn_of(conn));
}

/* ---- connections ------------------------------------------------------------------------- */

static struct cache_peer peer_of(struct net_stack_worker *worker, struct us_conn *us)
{
    struct us_conn_info info;
    struct cache_peer peer = {0};

    net_port_info(worker, us, &info);
    peer.transport = info.remote.family == US_IP6 ? "tcp6" : "tcp";
    peer.port = info.remote_port;
    memcpy(peer.addr, info.remote.bytes, sizeof(peer.addr));
    peer.local_port = info.local_port;
    peer.tls = worker->conns.tls ? CACHE_TLS_ON : CACHE_TLS_OFF;
    memcpy(peer.local_addr, info.local.bytes, sizeof(peer.local_addr));
    return peer;
}

static void conn_set_blocked(struct net_stack_worker *worker, struct net_stack_conn *conn,
                             bool blocked)
{
    if (blocked == !u_list_is_empty(&conn->blocked_link))
        return;
    if (blocked) {
        u_list_push_back(&worker->blocked_conns, &conn->blocked_link);
        worker->blocked_count++;
        net_stack_count(worker, NET_STACK_BLOCKED, 1);
    } else {
        u_list_remove(&conn->blocked_link);
        if (--worker->blocked_count == 0)
            worker->blocked_checks = 0; /* or the worker would not sleep */
    }
}

/* Puts the connection on the list of those that wait for a session, or takes it off. */
static void conn_set_waiting(struct net_stack_worker *worker, struct net_stack_conn *conn,
                             bool waiting)
{
    if (conn->waiting == waiting)
        return;
    conn->waiting = waiting;
    if (waiting && u_list_is_empty(&worker->waiting_conns)) {
        worker->waiting_since_us = worker->now_us;
        cache_accept_stopped(worker->conns.cache_worker);
    }
    if (waiting)
        u_list_push_back(&worker->waiting_conns, &conn->blocked_link);
    else
        u_list_remove(&conn->blocked_link);
    if (!waiting && u_list_is_empty(&worker->waiting_conns))
        cache_accept_resumed(worker->conns.cache_worker, worker->now_us - worker->waiting_since_us);
}

static void conn_end_session(struct net_stack_worker *worker, struct net_stack_conn *conn)
{
    conn_set_waiting(worker, conn, false);
    conn_set_blocked(worker, conn, false);
    net_conn_close_session(&conn->conn);
}

void net_stack_conn_resume_input(struct net_stack_worker *worker, struct net_stack_conn *conn)
{
    if (!conn->held || !conn->us)
        return;
    conn->held = false;
    net_port_recv_resume(worker, conn->us);
}

void net_stack_conn_finish(struct net_stack_worker *worker, struct net_stack_conn *conn)
{
    if (conn->us)
        (void)net_conn_finish(&conn->conn);
    conn_end_session(worker, conn);
    if (!conn->us)
        return;
    net_port_close(worker, conn->us);
    net_stack_conn_resume_input(worker, conn);
}

void net_stack_conn_abort(struct net_stack_worker *worker, struct net_stack_conn *conn)
{
    conn_end_session(worker, conn);
    conn->aborted = true;
    if (!conn->us)
        return;
    net_port_abort(worker, conn->us);
    net_stack_conn_resume_input(worker, conn);
}

/* A slot that was freed, else the next one that was never used: its page may be new. */
static struct net_stack_conn *conn_new(struct net_stack_worker *worker, struct us_conn *us)
{
    struct u_list *link = u_list_pop_front(&worker->free_slots);
    struct net_stack_conn *conn;

    if (link) {
        conn = stack_conn_of(U_CONTAINER_OF(link, struct net_conn, link));
    } else {
        /* The stack has no more connections than there are slots, and reports each end. */
        U_ASSERT(worker->slots_used < worker->slot_count);
        conn = &worker->slots[worker->slots_used++];
    }
    memset(conn, 0, sizeof(*conn));
    conn->us = us;
    conn->conn.timed = worker->conns.idle_timeout_s > 0;
    u_list_init(&conn->blocked_link);
    u_list_push_back(&worker->conns.open, &conn->conn.link);
    net_port_set_user(worker, us, conn);
    return conn;
}

struct net_stack_conn *net_stack_conn_open(struct net_stack_worker *worker, struct us_conn *us)
{
    struct net_stack_conn *conn = conn_new(worker, us);
    struct cache_peer peer = peer_of(worker, us);
    const char *text;
    u_u32 len;

    net_stack_count(worker, NET_STACK_ACCEPTED, 1);
    if ((!worker->accept_waits || !cache_is_full(worker->conns.cache)) &&
        net_conn_open_session(&worker->conns, &conn->conn, &peer))
        return conn;
    if (worker->accept_waits) {
        conn_set_waiting(worker, conn, true);
        return conn;
    }
    net_stack_count(worker, NET_STACK_REJECTED, 1);
    text = net_conn_refuse(&worker->conns, &peer, &len);
    if (len > 0)
        net_port_send(worker, us, text, len);
    net_stack_conn_finish(worker, conn);
    return conn;
}

static void conn_free(struct net_stack_worker *worker, struct net_stack_conn *conn)
{
    conn_end_session(worker, conn);
    u_list_remove(&conn->conn.link);
    u_list_push_front(&worker->free_slots, &conn->conn.link);
}

/* Acts on the state after a session call. */
static void conn_apply_state(struct net_stack_worker *worker, struct net_stack_conn *conn)
{
    if (conn->conn.failed && conn->us) {
        net_stack_count(worker, NET_STACK_ABORTED_FULL, 1);
        net_stack_conn_abort(worker, conn);
        return;
    }
    switch (net_conn_state(&conn->conn)) {
    case CACHE_SESSION_BLOCKED:
        conn_set_blocked(worker, conn, true);
        worker->blocked_checks = worker->blocked_count; /* see resume_blocked() */
        break;
    case CACHE_SESSION_CLOSING:
        net_stack_conn_finish(worker, conn);
        break;
    case CACHE_SESSION_YIELDED:
        conn->yield_pass = worker->pass;
        conn_set_blocked(worker, conn, false);
        break;
    case CACHE_SESSION_OPEN:
        conn_set_blocked(worker, conn, false);
        if (conn->peer_closed && conn->kept_bytes == 0)
            net_stack_conn_finish(worker, conn);
        break;
    }
}

/* ---- events ------------------------------------------------------------------------------ */

/*
 * Gives input that a blocked session does not consume back to the stack. Beyond the minimum the
 * connection is reset if memory is short.
 */
static void conn_keep(struct net_stack_worker *worker, struct net_stack_conn *conn,
                      const uint8_t *data, uint32_t len)
{
    if (!conn->us)
        return;
    if ((conn->kept_bytes + len > KEPT_BYTES_MIN && net_port_keep_free(worker) < len) ||
        net_port_recv_keep(worker, conn->us, data, len) != US_OK) {
        net_stack_count(worker, NET_STACK_ABORTED_KEPT, 1);
        net_stack_conn_abort(worker, conn);
        return;
    }
    conn->kept_bytes += len;
    conn->held = true;
}

static void conn_discard(struct net_stack_worker *worker, struct net_stack_conn *conn, uint32_t len)
{
    conn->discarded_bytes += len;
    if (conn->discarded_bytes <= DISCARD_BYTES_MAX || conn->aborted)
        return;
    net_stack_count(worker, NET_STACK_ABORTED_AFTER_END, 1);
    net_stack_conn_abort(worker, conn);
}

/* Input without a session that can take it: waiting, blocked or ended. */
static void conn_data_untaken(struct net_stack_worker *worker, struct net_stack_conn *conn,
                              const uint8_t *data, uint32_t len)
{
    uint32_t aside;

    if (!conn->conn.session && !conn->waiting) {
        conn_discard(worker, conn, len);
        return;
    }
    if (conn->conn.tls) {
        aside = net_tls_set_aside(&conn->conn, data, len);
        data += aside;
        len -= aside;
    }
    conn->kept_bytes -= u_min32(conn->kept_bytes, len);
    conn_keep(worker, conn, data, len);
    if (conn->conn.session)
        net_conn_touch(&worker->conns, &conn->conn);
}

/*
 * Whether the connection is between two requests while the worker comes to rest: it uses no more
 * input.
 */
static bool conn_is_held(const struct net_stack_worker *worker, const struct net_stack_conn *conn)
{
    struct cache_session_saved saved;

    return U_UNLIKELY(worker->resting) && !conn->peer_closed &&
           cache_session_rest(conn->conn.session, &saved) != CACHE_REST_BUSY;
}

/*
 * Gives input to the session. Returns how many bytes were handled: less than len if the session's
 * turn has ended; the next pass offers the remainder.
 */
static uint32_t conn_data(struct net_stack_worker *worker, struct net_stack_conn *conn,
                          const uint8_t *data, uint32_t len)
{
    enum cache_session_state state;
    uint32_t used;
    uint32_t done;

    if (U_UNLIKELY(!conn->conn.session || !u_list_is_empty(&conn->blocked_link)) ||
        conn_is_held(worker, conn)) {
        conn_data_untaken(worker, conn, data, len);
        return len;
    }
    used = net_conn_input(&worker->conns, &conn->conn, data, len);
    state = net_conn_state(&conn->conn);
    if (U_LIKELY(state == CACHE_SESSION_OPEN && !conn->conn.failed && !conn->peer_closed)) {
        if (U_UNLIKELY(conn->kept_bytes > 0))
            conn->kept_bytes -= u_min32(conn->kept_bytes, len);
        net_conn_touch(&worker->conns, &conn->conn);
        return len;
    }
    done = state == CACHE_SESSION_YIELDED ? used : len;
    conn->kept_bytes -= u_min32(conn->kept_bytes, done);
    if (state == CACHE_SESSION_BLOCKED && used < len)
        conn_keep(worker, conn, data + used, len - used);
    if (conn->conn.session)
        conn_apply_state(worker, conn);
    if (U_UNLIKELY(!conn->conn.session))
        return len;
    net_conn_touch(&worker->conns, &conn->conn);
    return done;
}

static void conn_resume(struct net_stack_worker *worker, struct net_stack_conn *conn)
{
    if (!conn->conn.session)
        return;
    if (net_conn_state(&conn->conn) == CACHE_SESSION_BLOCKED)
        net_stack_count(worker, NET_STACK_RESUMED, 1);
    net_conn_resume(&worker->conns, &conn->conn);
    if (net_conn_state(&conn->conn) == CACHE_SESSION_OPEN)
        net_stack_conn_resume_input(worker, conn);
    conn_apply_state(worker, conn);
}

static void conn_peer_closed(struct net_stack_worker *worker, struct net_stack_conn *conn)
{
    conn->peer_closed = true;
    if (conn->conn.session)
        conn_apply_state(worker, conn);
}

/* The sessions of a batch of events that have input, and which events try the fast path. */
struct prefetch_batch {
    struct cache_session *sessions[NET_STACK_EVENT_BATCH];
    struct cache_session **end; /* of them */
    bool fast_eligible[NET_STACK_EVENT_BATCH];
};

/*
 * Takes events until there are no more or the batch is full. ACCEPTED takes effect here, since
 * later events of the batch need the connection's slot, and CLOSED, since the stack's connection
 * must not be used any more. For input this is stage A: prefetch the bucket. A session remembers
 * one request, so only the first input of a connection counts; the inputs of a connection are
 * adjacent.
 */
static unsigned take_events(struct net_stack_worker *worker, struct prefetch_batch *batch)
{
    const struct net_stack_conn *before = NULL;
    struct cache_session **session = batch->sessions;
    struct us_event *ev = worker->events;
    unsigned n = 0;

    for (; n < NET_STACK_EVENT_BATCH && net_port_next_event(worker, ev); ev++, n++) {
        struct net_stack_conn *conn = ev->user;

        bool fast_eligible = false;

        if (U_LIKELY(ev->type == US_EV_DATA)) {
            if (conn != before && conn->conn.session) {
                fast_eligible =
                    cache_session_prefetch_bucket(conn->conn.session, ev->data, ev->len);
                *session++ = conn->conn.session;
            }
            before = conn;
        } else if (ev->type == US_EV_ACCEPTED) {
            ev->user = net_stack_conn_open(worker, ev->conn);
        } else if (ev->type == US_EV_CLOSED) {
            conn->us = NULL;
        } else {
            ev->user = ev->conn ? net_port_user(worker, ev->conn) : NULL;
        }
        batch->fast_eligible[n] = fast_eligible;
    }
    batch->end = session;
    return n;
}

/* Stage B: prefetch the items, first their headers, which hold their lengths. */
static void prefetch_items(const struct net_stack_worker *worker,
                           const struct prefetch_batch *batch)
{
    struct cache_session *const *end = batch->end;
    struct cache_session *const *session;

    for (session = batch->sessions; session != end; session++)
        cache_session_prefetch_item(*session);
    if (!cache_values_are_long(worker->conns.cache_worker))
        return;
    for (session = batch->sessions; session != end; session++)
        cache_session_prefetch_value(*session);
}

/* Events other than input. */
static void handle_other(struct net_stack_worker *worker, const struct us_event *ev)
{
    struct net_stack_conn *conn = ev->user;

    switch (ev->type) {
    case US_EV_PEER_CLOSED:
        conn_peer_closed(worker, conn);
        break;
    case US_EV_SENDABLE:
        conn_resume(worker, conn);
        break;
    case US_EV_RELEASED:
        net_port_release(worker, ev->cookie);
        if (conn)
            conn->refs--;
        break;
    case US_EV_CLOSED:
        conn_free(worker, conn);
        break;
    case US_EV_DATAGRAM:
        net_stack_serve_datagram(worker, ev);
        break;
    case US_EV_DATA:
    case US_EV_ACCEPTED: /* done when it was taken */
    case US_EV_CONNECTED:
    case US_EV_CWND:
    case US_EV_NONE:
        break;
    }
}

/* Handles an event. Returns false if input remains, to which the event is then reduced. */
static U_NOINLINE bool handle_event(struct net_stack_worker *worker, struct us_event *ev)
{
    uint32_t done;

    if (U_UNLIKELY(ev->type != US_EV_DATA)) {
        handle_other(worker, ev);
        return true;
    }
    done = conn_data(worker, ev->user, ev->data, ev->len);
    if (U_LIKELY(done == ev->len))
        return true;
    ev->data += done;
    ev->len -= done;
    return false;
}

/* Bytes of the fast path that the cache has not counted yet. */
struct fast_bytes {
    uint64_t read_bytes;
    uint64_t written_bytes;
};

/*
 * Answers a request that is all of an event, straight into an empty send queue. Returns false if
 * that is not possible; then nothing was done.
 */
static inline bool answer_one_fast(struct net_stack_worker *worker, const struct us_event *ev,
                                   struct fast_bytes *bytes)
{
    struct net_stack_conn *conn = ev->user;
    uint8_t *room;
    u_u32 room_bytes;
    uint32_t used;

    if (U_UNLIKELY(!conn->conn.session || !conn->us ||
                   (conn->refs | conn->kept_bytes | conn->peer_closed) != 0))
        return false;
    room =
        us_reserve(worker->stack, conn->us, CACHE_SINK_NEED_MAX, US_RESERVE_IF_EMPTY, &room_bytes);
    if (U_UNLIKELY(!room))
        return false;
    used = cache_session_try_fast(conn->conn.session, ev->data, ev->len, room);
    us_commit(worker->stack, conn->us, used);
    if (U_UNLIKELY(used == 0))
        return false;
    bytes->read_bytes += ev->len;
    bytes->written_bytes += used;
    net_conn_touch(&worker->conns, &conn->conn);
    return true;
}

/* The same for a record that was opened. */
static bool answer_one_tls(struct net_stack_worker *worker, const struct us_event *ev)
{
    struct net_stack_conn *conn = ev->user;
    uint32_t used;

    if (U_UNLIKELY(!conn->conn.session || !conn->us ||
                   (conn->refs | conn->kept_bytes | conn->peer_closed) != 0))
        return false;
    used = net_tls_answer_fast(&conn->conn, ev->data, ev->len);
    if (U_UNLIKELY(used == 0))
        return false;
    cache_count_fast_bytes(worker->conns.cache_worker, ev->len, used);
    net_conn_touch(&worker->conns, &conn->conn);
    if (U_UNLIKELY(net_conn_state(&conn->conn) != CACHE_SESSION_OPEN || conn->conn.failed))
        conn_apply_state(worker, conn);
    return true;
}

static bool used_its_turn(const struct net_stack_worker *worker, const struct net_stack_conn *conn)
{
    return conn && conn->yield_pass == worker->pass;
}

/*
 * Answers events from the first of n on, up to one that is not eligible, or cannot be bytes so.
 * Returns how many. Only where the stack is in this thread. flatten: all that a request needs is
 * compiled into the function and shares its registers.
 */
static __attribute__((noinline, flatten)) unsigned answer_fast(struct net_stack_worker *worker,
                                                               const struct us_event *events,
                                                               const bool *fast_eligible,
                                                               unsigned n)
{
    struct fast_bytes bytes = {0, 0};
    unsigned i;

    for (i = 0; i < n && fast_eligible[i]; i++) {
        if (U_UNLIKELY(!answer_one_fast(worker, &events[i], &bytes)))
            break;
    }
    /* Before any other call of a session. */
    cache_count_fast_bytes(worker->conns.cache_worker, bytes.read_bytes, bytes.written_bytes);
    return i;
}

/*
 * Stage C: the events in order, but one turn for each connection (-R): its remaining input and
 * later events are left for the next pass. Moves these to the front and returns how many there
 * are. The input stays in the packets. `fast_eligible` says
 * which of the events try the fast path; null in all passes but the first. The first `done`
 * events have been handled.
 */
static U_NOINLINE unsigned handle_pass(struct net_stack_worker *worker, unsigned done, unsigned n,
                                       const bool *fast_eligible)
{
    unsigned left = 0;
    unsigned i;

    worker->pass++;
    for (i = done; i < n; i++) {
        struct us_event *ev = &worker->events[i];

        /* Only a connection with remaining input has used its turn in this pass. */
        if (U_UNLIKELY(left > 0) && used_its_turn(worker, ev->user))
            worker->events[left++] = *ev;
        else if (fast_eligible && fast_eligible[i] &&
                 (worker->conns.tls
                      ? !worker->resting && answer_one_tls(worker, ev)
                      : !worker->general_only && answer_fast(worker, ev, fast_eligible + i, 1) > 0))
            continue;
        else if (!handle_event(worker, ev))
            worker->events[left++] = *ev;
    }
    return left;
}

/*
 * Resumes blocked sessions whose client has read. The stack reports SENDABLE only after it has
 * refused bytes, and sessions stop before that, so the worker checks the queues itself, round
 * robin: a received frame may have acknowledged bytes of any connection, and makes one check of
 * every connection due. A session that stops does so too: DRAINED may have come before it in the
 * same batch, and the check requests the next one (net_port_queued()).
 */
static void resume_blocked(struct net_stack_worker *worker)
{
    unsigned n = u_min32(worker->blocked_checks, UNBLOCK_BATCH);
    struct net_stack_conn *conn;
    struct u_list *link;

    for (; n > 0 && worker->blocked_checks > 0; n--) {
        worker->blocked_checks--;
        link = u_list_pop_front(&worker->blocked_conns);
        u_list_push_back(&worker->blocked_conns, link);
        conn = U_CONTAINER_OF(link, struct net_stack_conn, blocked_link);
        if (!conn->us || net_conn_awaits_step(&conn->conn))
            continue;
        if (!queue_has_drained(worker, conn))
            continue;
        conn_resume(worker, conn);
        worker->active = true;
    }
}

/* Gives connections that wait for a session one, if there is any. */
static void admit_waiting(struct net_stack_worker *worker)
{
    struct net_stack_conn *conn;
    struct cache_peer peer;

    while (!u_list_is_empty(&worker->waiting_conns) && !cache_is_full(worker->conns.cache)) {
        conn = U_CONTAINER_OF(worker->waiting_conns.next, struct net_stack_conn, blocked_link);
        peer = peer_of(worker, conn->us);
        if (!net_conn_open_session(&worker->conns, &conn->conn, &peer))
            return;
        conn_set_waiting(worker, conn, false);
        net_stack_conn_resume_input(worker, conn);
        conn_apply_state(worker, conn);
        worker->active = true;
    }
}

/* Samples the key of an event of the batch for `stats hotkeys`. */
static U_NOINLINE void sample_key(struct net_stack_worker *worker, unsigned n)
{
    const struct us_event *ev =
        &worker->events[u_prng_below(&worker->conns.cache_worker->hot_prng, n)];
    struct net_stack_conn *conn = ev->user;

    if (ev->type == US_EV_DATA && conn->conn.session &&
        (!conn->conn.tls || net_tls_has_opened(&conn->conn)))
        cache_hot_sample(conn->conn.session, ev->data, ev->len);
}

/*
 * Events that are bytes cause no further events, so there are no more if the batch was not full.
 */
static inline __attribute__((always_inline)) unsigned handle_all(struct net_stack_worker *worker)
{
    struct prefetch_batch batch;
    unsigned total = 0;
    unsigned n, done;

    do {
        n = take_events(worker, &batch);
        if (n == 0)
            break;
        if (U_UNLIKELY(worker->conns.tls != NULL))
            net_stack_open_records(worker, batch.fast_eligible, n);
        prefetch_items(worker, &batch);
        if (U_UNLIKELY(worker->conns.cache_worker->hot_is_due))
            sample_key(worker, n);
        total += n;
        done = U_UNLIKELY(worker->general_only || worker->conns.tls != NULL)
                   ? 0
                   : answer_fast(worker, worker->events, batch.fast_eligible, n);
        if (U_UNLIKELY(done < n)) {
            unsigned left = handle_pass(worker, done, n, batch.fast_eligible);

            while (left > 0)
                left = handle_pass(worker, 0, left, NULL);
        }
        net_port_flush(worker);
    } while (done < n || n == NET_STACK_EVENT_BATCH);
    return total;
}

uint32_t net_stack_blocked_sleep_us_max(const struct net_stack_worker *worker)
{
    if (worker->blocked_checks > 0)
        return 0;
    return worker->split && worker->blocked_count > 0 ? UNBLOCK_CHECK_US : UINT32_MAX;
}

/*
 * Work that is due without an event. Any frame may have made room for a blocked session. With two
 * threads no event reports the room that the stack's thread makes in the pool and in the ring.
 */
static U_NOINLINE void handle_due(struct net_stack_worker *worker, bool active)
{
    if (active ||
        (worker->split && worker->now_us - worker->blocked_checked_us >= UNBLOCK_CHECK_US)) {
        worker->blocked_checks = worker->blocked_count;
        worker->blocked_checked_us = worker->now_us;
    }
    if (worker->blocked_checks > 0)
        resume_blocked(worker);
    net_conns_flush_pending(&worker->conns);
    admit_waiting(worker);
}

unsigned net_stack_handle_events(struct net_stack_worker *worker)
{
    bool due_handled = false;
    unsigned total = 0;

    for (;;) {
        total += handle_all(worker);
        if (U_LIKELY(worker->blocked_count == 0 && u_list_is_empty(&worker->waiting_conns) &&
                     cache_resumable_count(worker->conns.cache_worker) == 0) ||
            due_handled)
            return total;
        handle_due(worker, worker->active || total > 0);
        due_handled = true;
    }
}

static void stack_resume(struct net_conns *conns, struct net_conn *conn)
{
    if (!stack_conn_of(conn)->us)
        return;
    conn_resume(worker_of(conns), stack_conn_of(conn));
    worker_of(conns)->active = true; /* what this has made due is done before a sleep */
}

static void stack_close_idle(struct net_conns *conns, struct net_conn *conn)
{
    net_stack_conn_finish(worker_of(conns), stack_conn_of(conn));
}

const struct net_transport net_stack_transport = {
    .reserve = stack_reserve,
    .commit = stack_commit,
    .send_ref = stack_send_ref,
    .is_full = stack_is_full,
    .resume = stack_resume,
    .close_idle = stack_close_idle,
};
