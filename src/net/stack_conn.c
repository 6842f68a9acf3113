/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a stack worker does with the events of its connections: sessions are opened and fed, their
 * replies go straight into the connection's send queue, and a client that does not read stops its
 * session instead of filling the memory.
 *
 * The life of a connection here:
 *
 *   waiting    no session yet, since all are in use and connections shall wait for one. Input goes
 *              back to the stack (us_recv_keep), which closes the window.
 *   open       session set. DATA is handled and answered at once.
 *   blocked    its session stopped in a reply. What it did not consume went back to the stack
 *              (us_recv_keep), which closes the window. The worker looks at the queue of blocked
 *              connections and resumes the session when it has drained.
 *   finished   session null, the queue drains, then a FIN is sent. Input is thrown away.
 *   dead       us null: CLOSED was taken. Ends when that event's turn has come.
 *
 * A peer that shut down its sending side gets the replies to all that it sent: the connection is
 * finished only when no input is kept any more.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "mcproto/mcproto.h"
#ifndef NET_PORT_RINGS_H /* split_conn.c has chosen that one */
#include "net/port_direct.h"
#endif

/* Blocked connections looked at per loop. */
#define UNBLOCK_BATCH 32

/* Connections per check that are looked at for being idle. */
#define IDLE_BATCH 64

/* What a peer may send after its session has ended before the connection is reset. */
#define DISCARD_BYTES_MAX (1024 * 1024)

/* One connection's queue may take this part of what is free beyond the reserve. */
#define QUEUE_SHARE 32

/* ---- the bounds -------------------------------------------------------------------------- */

static uint64_t pool_free_bytes(const struct net_stack_worker *worker)
{
    return net_stack_pool_free(worker, net_port_buffer_used(worker));
}

/*
 * What one connection may have queued now: a share of what the others leave free. However many
 * clients do not read, some memory remains for those that do.
 */
static uint32_t queue_limit_bytes(const struct net_stack_worker *worker)
{
    return (uint32_t)u_min64(pool_free_bytes(worker) / QUEUE_SHARE, NET_STACK_SEND_HIGH_BYTES);
}

/* An empty queue is never too full: every session can make some progress. */
static bool queue_is_full(const struct net_stack_worker *worker, const struct net_stack_conn *conn)
{
    uint32_t queued = net_port_queued(conn->us);

    return conn->refs >= NET_STACK_REFS_HIGH || net_port_is_congested(worker) ||
           (queued > 0 && queued >= queue_limit_bytes(worker));
}

/* Whether so much has been acknowledged that a blocked session should go on. */
static bool queue_has_drained(struct net_stack_worker *worker, const struct net_stack_conn *conn)
{
    uint32_t queued = net_port_queued_watched(worker, conn->us);

    return conn->refs <= NET_STACK_REFS_HIGH / 2 && !net_port_is_congested(worker) &&
           (queued == 0 || queued <= queue_limit_bytes(worker) / 2);
}

/* ---- the sink ---------------------------------------------------------------------------- */

struct stack_sink {
    struct cache_sink sink; /* first: the session sees only this */
    struct net_stack_worker *worker;
    struct net_stack_conn *conn;
    uint8_t *start; /* of the reserved room, if there is any: sink.at is not null */
    bool failed;    /* a reply that had begun could not be queued */
};

/* Takes what has been written. */
static inline void sink_commit(struct stack_sink *s)
{
    if (!s->sink.at)
        return;
    net_port_commit(s->worker, s->conn->us, (u_u32)(s->sink.at - s->start));
    s->sink.at = NULL;
    s->sink.end = NULL;
}

static int sink_more(struct cache_sink *sink, uint32_t need)
{
    struct stack_sink *s = (struct stack_sink *)sink;
    u_u32 room = 0;

    if (!s->conn->us)
        return -1;
    if (U_UNLIKELY(sink->at != NULL)) {
        sink_commit(s);
        sink->full = queue_is_full(s->worker, s->conn);
    }
    s->start = net_port_reserve(s->worker, s->conn->us, need, &room);
    if (!s->start) {
        s->failed = true;
        return -1;
    }
    sink->at = s->start;
    sink->end = s->start + room;
    return 0;
}

static int sink_ref(struct cache_sink *sink, const void *data, uint32_t len, void *cookie)
{
    struct stack_sink *s = (struct stack_sink *)sink;
    int queued;

    sink_commit(s);
    if (!s->conn->us)
        return -1;
    queued = net_port_send_ref(s->worker, s->conn->us, data, len, cookie);
    if (queued < 0) {
        s->failed = true;
        return -1;
    }
    if (queued > 0)
        s->conn->refs++;
    else
        cache_release(s->worker->cache_worker, cookie);
    sink->full = queue_is_full(s->worker, s->conn);
    return 0;
}

static const struct cache_sink_ops sink_ops = {.more = sink_more, .ref = sink_ref};

static inline void sink_init(struct stack_sink *s, struct net_stack_worker *worker,
                             struct net_stack_conn *conn)
{
    s->sink.at = NULL;
    s->sink.end = NULL;
    s->sink.full = conn->us && queue_is_full(worker, conn);
    s->sink.ops = &sink_ops;
    s->worker = worker;
    s->conn = conn;
    s->start = NULL;
    s->failed = false;
}

/* ---- connections ------------------------------------------------------------------------- */

static void log_conn(const struct net_stack_worker *worker, const struct us_conn_info *info,
                     const char *what)
{
    char text[INET6_ADDRSTRLEN];

    if (cache_verbosity(worker->cache) < 2)
        return;
    inet_ntop(info->remote.family == US_IP6 ? AF_INET6 : AF_INET, info->remote.bytes, text,
              sizeof(text));
    fprintf(stderr, "ucached: %s port %u: %s\n", text, info->remote_port, what);
}

static struct cache_session *session_open(struct net_stack_worker *worker,
                                          struct net_stack_conn *conn,
                                          const struct us_conn_info *info)
{
    struct cache_session *session;
    struct cache_peer peer = {.transport = info->remote.family == US_IP6 ? "tcp6" : "tcp"};

    peer.port = info->remote_port;
    memcpy(peer.addr, info->remote.bytes, sizeof(peer.addr));
    peer.local_port = info->local_port;
    memcpy(peer.local_addr, info->local.bytes, sizeof(peer.local_addr));
    session = cache_session_open(worker->cache_worker, &peer);
    if (session)
        cache_session_own(session, conn);
    return session;
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
        worker->blocked_count--;
    }
}

/* Waits for the end of some other session, or does not any more. */
static void conn_set_waiting(struct net_stack_worker *worker, struct net_stack_conn *conn,
                             bool waiting)
{
    if (conn->waiting == waiting)
        return;
    conn->waiting = waiting;
    if (waiting && u_list_is_empty(&worker->waiting_conns)) {
        worker->waiting_since_us = worker->now_us;
        cache_accept_stopped(worker->cache_worker);
    }
    if (waiting)
        u_list_push_back(&worker->waiting_conns, &conn->blocked_link);
    else
        u_list_remove(&conn->blocked_link);
    if (!waiting && u_list_is_empty(&worker->waiting_conns))
        cache_accept_resumed(worker->cache_worker, worker->now_us - worker->waiting_since_us);
}

static void conn_end_session(struct net_stack_worker *worker, struct net_stack_conn *conn)
{
    conn_set_waiting(worker, conn, false);
    conn_set_blocked(worker, conn, false);
    if (conn->session)
        cache_session_close(conn->session);
    conn->session = NULL;
}

/* Input that was kept is wanted again, be it to throw it away. */
static void conn_unhold(struct net_stack_worker *worker, struct net_stack_conn *conn)
{
    if (!conn->held || !conn->us)
        return;
    conn->held = false;
    net_port_recv_resume(worker, conn->us);
}

void net_stack_conn_finish(struct net_stack_worker *worker, struct net_stack_conn *conn)
{
    conn_end_session(worker, conn);
    if (!conn->us)
        return;
    net_port_close(worker, conn->us);
    conn_unhold(worker, conn);
}

void net_stack_conn_abort(struct net_stack_worker *worker, struct net_stack_conn *conn)
{
    conn_end_session(worker, conn);
    conn->aborted = true;
    if (!conn->us)
        return;
    net_port_abort(worker, conn->us);
    conn_unhold(worker, conn);
}

/* An entry: one that was freed, else the next one that was never used, so its page may be new. */
static struct net_stack_conn *conn_new(struct net_stack_worker *worker, struct us_conn *us)
{
    struct u_list *link = u_list_pop_front(&worker->free_conns);
    struct net_stack_conn *conn;

    if (link) {
        conn = U_CONTAINER_OF(link, struct net_stack_conn, open_link);
        memset(conn, 0, sizeof(*conn));
    } else {
        /* The stack has no more connections than there are entries, and reports each end. */
        U_ASSERT(worker->conns_used < worker->conns_max);
        conn = &worker->conns[worker->conns_used++];
    }
    conn->us = us;
    u_list_init(&conn->open_link);
    u_list_init(&conn->blocked_link);
    u_list_push_back(&worker->open_conns, &conn->open_link);
    net_port_set_user(us, conn);
    return conn;
}

/* A new connection: its session, or a place in the queue, or that there are too many. */
static struct net_stack_conn *conn_open(struct net_stack_worker *worker, struct us_conn *us)
{
    struct net_stack_conn *conn = conn_new(worker, us);
    struct us_conn_info info;
    const char *text;
    u_u32 len;

    net_port_info(worker, us, &info);
    net_stack_count(worker, NET_STACK_ACCEPTED, 1);

    if (!worker->accept_waits || !cache_is_full(worker->cache))
        conn->session = session_open(worker, conn, &info);
    if (conn->session) {
        log_conn(worker, &info, "connected");
        return conn;
    }
    if (worker->accept_waits) {
        conn_set_waiting(worker, conn, true);
        return conn;
    }
    net_stack_count(worker, NET_STACK_REJECTED, 1);
    log_conn(worker, &info, "refused, too many connections");
    text = mc_status_text(MC_STATUS_TOO_MANY_CONNECTIONS, &len);
    net_port_send(worker, us, text, len);
    net_stack_conn_finish(worker, conn);
    return conn;
}

static void conn_free(struct net_stack_worker *worker, struct net_stack_conn *conn)
{
    conn_end_session(worker, conn);
    u_list_remove(&conn->open_link);
    u_list_push_front(&worker->free_conns, &conn->open_link);
}

/* Draws the consequences of a session call. */
static void conn_settle(struct net_stack_worker *worker, struct net_stack_conn *conn, bool failed)
{
    if (failed) {
        net_stack_count(worker, NET_STACK_ABORTED_FULL, 1);
        net_stack_conn_abort(worker, conn);
        return;
    }
    switch (cache_session_state(conn->session)) {
    case CACHE_SESSION_BLOCKED:
        conn_set_blocked(worker, conn, true);
        worker->blocked_checks = worker->blocked_count; /* see net_stack_unblock() */
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
 * Gives input back that a blocked session does not consume. Where memory is short, that client has
 * to go: it asks for more than it reads.
 */
static void conn_keep(struct net_stack_worker *worker, struct net_stack_conn *conn,
                      const uint8_t *data, uint32_t len)
{
    if (!conn->us)
        return;
    if (pool_free_bytes(worker) < len || net_port_recv_keep(worker, conn->us, data, len) != US_OK) {
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
    net_stack_count(worker, NET_STACK_ABORTED_FLOOD, 1);
    net_stack_conn_abort(worker, conn);
}

/* A request has come: the last to be looked at for being idle. */
static void conn_heard(struct net_stack_worker *worker, struct net_stack_conn *conn)
{
    if (worker->idle_timeout_s == 0 || cache_session_idle_s(conn->session) > 0)
        return;
    u_list_remove(&conn->open_link);
    u_list_push_back(&worker->open_conns, &conn->open_link);
}

/* Input that no session takes now: it waits for one, it is blocked, or it has ended. */
static void conn_data_untaken(struct net_stack_worker *worker, struct net_stack_conn *conn,
                              const uint8_t *data, uint32_t len)
{
    if (!conn->session && !conn->waiting) {
        conn_discard(worker, conn, len);
        return;
    }
    conn->kept_bytes -= u_min32(conn->kept_bytes, len);
    conn_keep(worker, conn, data, len);
    if (conn->session)
        conn_heard(worker, conn);
}

/*
 * Gives input to the session. Returns how many bytes are done with: less than len if its turn is
 * over, and then the rest is to be given to it in the next pass.
 */
static uint32_t conn_data(struct net_stack_worker *worker, struct net_stack_conn *conn,
                          const uint8_t *data, uint32_t len)
{
    struct stack_sink s;
    enum cache_session_state state;
    uint32_t used;
    uint32_t done;

    if (U_UNLIKELY(!conn->session || !u_list_is_empty(&conn->blocked_link))) {
        conn_data_untaken(worker, conn, data, len);
        return len;
    }
    sink_init(&s, worker, conn);
    used = cache_session_input(conn->session, data, len, &s.sink);
    sink_commit(&s);
    state = cache_session_state(conn->session);
    if (U_LIKELY(state == CACHE_SESSION_OPEN && !s.failed && !conn->peer_closed)) {
        if (U_UNLIKELY(conn->kept_bytes > 0))
            conn->kept_bytes -= u_min32(conn->kept_bytes, len);
        conn_heard(worker, conn);
        return len;
    }
    done = state == CACHE_SESSION_YIELDED ? used : len;
    conn->kept_bytes -= u_min32(conn->kept_bytes, done);
    if (state == CACHE_SESSION_BLOCKED && used < len)
        conn_keep(worker, conn, data + used, len - used);
    if (conn->session)
        conn_settle(worker, conn, s.failed);
    if (U_UNLIKELY(!conn->session))
        return len;
    conn_heard(worker, conn);
    return done;
}

static void conn_resume(struct net_stack_worker *worker, struct net_stack_conn *conn)
{
    struct stack_sink s;

    if (!conn->session)
        return;
    if (cache_session_state(conn->session) == CACHE_SESSION_BLOCKED)
        net_stack_count(worker, NET_STACK_RESUMED, 1);
    sink_init(&s, worker, conn);
    cache_session_resume(conn->session, &s.sink);
    sink_commit(&s);
    if (cache_session_state(conn->session) == CACHE_SESSION_OPEN)
        conn_unhold(worker, conn);
    conn_settle(worker, conn, s.failed);
}

static void conn_peer_closed(struct net_stack_worker *worker, struct net_stack_conn *conn)
{
    conn->peer_closed = true;
    if (conn->session)
        conn_settle(worker, conn, false);
}

/* The sessions of a batch of events that have input, and which events may be answered at once. */
struct asked {
    struct cache_session *sessions[NET_STACK_EVENT_BATCH];
    struct cache_session **end; /* of them */
    bool alone[NET_STACK_EVENT_BATCH];
};

/*
 * Takes events until there are no more or the batch is full. Two kinds take effect here already:
 * ACCEPTED, because what follows it in the batch needs the connection's entry, and CLOSED, because
 * the stack's connection must not be touched from here on. For input this is stage A: its bucket is
 * asked for. A session remembers one request, so only the connection's first input counts; that of
 * one connection comes together. Says in `asked` which sessions these are.
 */
static unsigned take_events(struct net_stack_worker *worker, struct asked *asked)
{
    const struct net_stack_conn *before = NULL;
    struct cache_session **session = asked->sessions;
    struct us_event *ev = worker->events;
    unsigned n = 0;

    for (; n < NET_STACK_EVENT_BATCH && net_port_event(worker, ev); ev++, n++) {
        struct net_stack_conn *conn = ev->user;

        bool alone = false;

        if (U_LIKELY(ev->type == US_EV_DATA)) {
            if (conn != before && conn->session) {
                alone = cache_session_prefetch_bucket(conn->session, ev->data, ev->len);
                *session++ = conn->session;
            }
            before = conn;
        } else if (ev->type == US_EV_ACCEPTED) {
            ev->user = conn_open(worker, ev->conn);
        } else if (ev->type == US_EV_CLOSED) {
            conn->us = NULL;
        } else {
            ev->user = ev->conn ? net_port_user(ev->conn) : NULL;
        }
        asked->alone[n] = alone;
    }
    asked->end = session;
    return n;
}

/* Stage B: the items are asked for; first what they begin with, which says how long they are. */
static void prefetch_items(const struct net_stack_worker *worker, const struct asked *asked)
{
    struct cache_session *const *end = asked->end;
    struct cache_session *const *session;

    for (session = asked->sessions; session != end; session++)
        cache_session_prefetch_item(*session);
    if (!cache_values_are_long(worker->cache_worker))
        return;
    for (session = asked->sessions; session != end; session++)
        cache_session_prefetch_value(*session);
}

/* What is no input. */
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
        net_stack_datagram(worker, ev);
        break;
    case US_EV_DATA:
    case US_EV_ACCEPTED: /* done when it was taken */
    case US_EV_CONNECTED:
    case US_EV_NONE:
        break;
    }
}

/* Everything that has an effect. Returns false if there is a rest, which the event then is. */
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

/* What has been answered at once, and not been told to the cache yet. */
struct answered {
    uint64_t read_bytes;
    uint64_t written_bytes;
};

/*
 * Answers a request that is all of an event, straight into the send queue. False if that is not
 * possible: nothing was done, and the event is to be handled as any other. What is queued already
 * is left to those who know how much may be.
 */
static inline bool answer_event(struct net_stack_worker *worker, const struct us_event *ev,
                                struct answered *answered)
{
    struct net_stack_conn *conn = ev->user;
    uint8_t *room;
    u_u32 room_bytes;
    uint32_t used;

    if (U_UNLIKELY(!conn->session || !conn->us ||
                   (conn->refs | conn->kept_bytes | conn->peer_closed) != 0 ||
                   net_port_is_congested(worker)))
        return false;
    room = net_port_reserve_first(worker, conn->us, CACHE_SINK_NEED_MAX, &room_bytes);
    if (U_UNLIKELY(!room))
        return false;
    used = cache_session_answer(conn->session, ev->data, ev->len, room);
    net_port_commit(worker, conn->us, used);
    if (U_UNLIKELY(used == 0))
        return false;
    answered->read_bytes += ev->len;
    answered->written_bytes += used;
    conn_heard(worker, conn);
    return true;
}

static bool had_its_turn(const struct net_stack_worker *worker, const struct net_stack_conn *conn)
{
    return conn && conn->yield_pass == worker->pass;
}

/*
 * Answers events from the first of n on, up to one that is not to be answered at once, or not by
 * this. Returns how many. All that is called for most is compiled into it (flatten), and nothing
 * else has a claim to its registers.
 */
static __attribute__((noinline, flatten)) unsigned answer_events(struct net_stack_worker *worker,
                                                                 const struct us_event *events,
                                                                 const bool *alone, unsigned n)
{
    struct answered answered = {0, 0};
    unsigned i;

    for (i = 0; i < n && alone[i]; i++) {
        if (U_UNLIKELY(!answer_event(worker, &events[i], &answered)))
            break;
    }
    /* Before a session is asked for anything else. */
    cache_answered(worker->cache_worker, answered.read_bytes, answered.written_bytes);
    return i;
}

/*
 * Stage C: the events in order, but each connection has one turn (-R): what is left of its input,
 * and the events behind that, are for the next pass. Moves them to the front and returns how many
 * there are. The input stays where it is, in the packets, so that nothing is copied. `alone` says
 * which of the events may be answered at once; null in all passes but the first. The first `done`
 * events have been handled.
 */
static U_NOINLINE unsigned handle_pass(struct net_stack_worker *worker, unsigned done, unsigned n,
                                       const bool *alone)
{
    unsigned left = 0;
    unsigned i;

    worker->pass++;
    for (i = done; i < n; i++) {
        struct us_event *ev = &worker->events[i];

        /* Who has something left has had its turn; while nobody has, no one need be looked at. */
        if (U_UNLIKELY(left > 0) && had_its_turn(worker, ev->user))
            worker->events[left++] = *ev;
        else if (alone && alone[i] && answer_events(worker, ev, alone + i, 1) > 0)
            continue;
        else if (!handle_event(worker, ev))
            worker->events[left++] = *ev;
    }
    return left;
}

/*
 * Mostly all events of a batch are answered at once. That leads to no other event, so there are no
 * more if the batch was not full.
 */
unsigned net_stack_events(struct net_stack_worker *worker)
{
    struct asked asked;
    unsigned total = 0;
    unsigned n, done;

    do {
        n = take_events(worker, &asked);
        if (n == 0)
            break;
        prefetch_items(worker, &asked);
        total += n;
        done = answer_events(worker, worker->events, asked.alone, n);
        if (U_UNLIKELY(done < n)) {
            unsigned left = handle_pass(worker, done, n, asked.alone);

            while (left > 0)
                left = handle_pass(worker, 0, left, NULL);
        }
        net_port_events_done(worker);
    } while (done < n || n == NET_STACK_EVENT_BATCH);
    return total;
}

/*
 * The stack reports SENDABLE only after it has refused something, and sessions stop long before
 * that, so the worker looks by itself. Round robin over the list: each frame that comes in may
 * have acknowledged something, so it makes one check of every connection due. So does each session
 * that stops: what it waits for may have been told of in the same batch of events, before it
 * stopped, and where the stack is on another thread the check asks to be told of the next.
 */
void net_stack_unblock(struct net_stack_worker *worker)
{
    unsigned n = u_min32(worker->blocked_checks, UNBLOCK_BATCH);
    struct net_stack_conn *conn;
    struct u_list *link;

    for (; n > 0 && worker->blocked_count > 0; n--) {
        worker->blocked_checks--;
        link = u_list_pop_front(&worker->blocked_conns);
        u_list_push_back(&worker->blocked_conns, link);
        conn = U_CONTAINER_OF(link, struct net_stack_conn, blocked_link);
        if (!conn->us)
            continue;
        if (!queue_has_drained(worker, conn))
            continue;
        conn_resume(worker, conn);
        worker->active = true;
    }
    if (worker->blocked_count == 0)
        worker->blocked_checks = 0;
}

void net_stack_eager(struct net_stack_worker *worker)
{
    uint32_t n = cache_eager_count(worker->cache_worker);
    const struct cache_session *session;

    for (; n > 0 && (session = cache_eager_next(worker->cache_worker)) != NULL; n--) {
        struct net_stack_conn *conn = cache_session_owner(session);

        if (conn->us)
            conn_resume(worker, conn);
    }
}

void net_stack_seat(struct net_stack_worker *worker)
{
    struct net_stack_conn *conn;
    struct us_conn_info info;

    while (!u_list_is_empty(&worker->waiting_conns) && !cache_is_full(worker->cache)) {
        conn = U_CONTAINER_OF(worker->waiting_conns.next, struct net_stack_conn, blocked_link);
        net_port_info(worker, conn->us, &info);
        conn->session = session_open(worker, conn, &info);
        if (!conn->session)
            return;
        conn_set_waiting(worker, conn, false);
        conn_unhold(worker, conn);
        conn_settle(worker, conn, false);
        worker->active = true;
    }
}

/* Closes it, or puts off the next look at it. Returns false if the others need no look now. */
static bool conn_check_idle(struct net_stack_worker *worker, struct net_stack_conn *conn)
{
    uint32_t idle_s = conn->session ? cache_session_idle_s(conn->session) : 0;

    if (idle_s > 0 && idle_s <= worker->idle_timeout_s)
        return false; /* those behind it have been heard of later */
    u_list_remove(&conn->open_link);
    u_list_push_back(&worker->open_conns, &conn->open_link);
    if (idle_s > worker->idle_timeout_s) {
        net_stack_count(worker, NET_STACK_IDLE_CLOSED, 1);
        cache_session_kick(conn->session);
        conn->session = NULL;
        net_stack_conn_finish(worker, conn);
    }
    return true;
}

void net_stack_idle(struct net_stack_worker *worker)
{
    struct u_list *front;
    unsigned n;

    if (worker->idle_timeout_s == 0 || worker->now_us < worker->idle_check_us)
        return;
    worker->idle_check_us = worker->now_us + NET_STACK_IDLE_CHECK_US;
    for (n = 0; n < IDLE_BATCH && !u_list_is_empty(&worker->open_conns); n++) {
        front = worker->open_conns.next;
        if (!conn_check_idle(worker, U_CONTAINER_OF(front, struct net_stack_conn, open_link)))
            return;
    }
}
