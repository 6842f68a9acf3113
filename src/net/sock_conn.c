/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport of kernel sockets: bytes of a socket to its session, replies back.
 *
 * A reply is written immediately; only bytes that the socket does not take wait for EPOLLOUT. The
 * session of a client that does not read stops when NET_SOCK_SEND_HIGH_BYTES are queued; its
 * socket is not read either, so TCP's flow control stops the client. A client that shuts down its
 * sending side gets the replies to all its requests before the socket is closed.
 *
 * A session that has used up its turn (-R) gets another one if no other connection waits.
 * Otherwise its remaining input is kept and the connection is put on the ready list.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "net/sock_worker.h"

/* Times per event that a blocked session is resumed before other connections are served. */
#define ROUNDS_MAX 8

/* ---- the transport of replies ------------------------------------------------------------ */

static struct net_sock_worker *worker_of(struct net_conns *conns)
{
    return U_CONTAINER_OF(conns, struct net_sock_worker, conns);
}

static uint8_t *sock_reserve(struct net_conns *conns, struct net_conn *conn, uint32_t need,
                             uint32_t *room)
{
    struct net_sock_conn *sock = net_sock_conn_of(conn);
    uint8_t *end;
    uint8_t *at = net_sendq_reserve(&sock->out, &worker_of(conns)->out_pool, need, &end);

    *room = at ? (uint32_t)(end - at) : 0;
    return at;
}

static void sock_commit(struct net_conns *conns, struct net_conn *conn, uint32_t used)
{
    net_sendq_commit(&net_sock_conn_of(conn)->out, used);
}

static int sock_send_ref(struct net_conns *conns, struct net_conn *conn, const void *data,
                         uint32_t len, void *cookie)
{
    struct net_sendq *out = &net_sock_conn_of(conn)->out;

    return net_sendq_add_ref(out, &worker_of(conns)->out_pool, data, len, cookie) < 0 ? -1 : 1;
}

static bool sock_is_full(struct net_conns *conns, struct net_conn *conn)
{
    return net_sock_conn_of(conn)->out.queued_bytes >= NET_SOCK_SEND_HIGH_BYTES;
}

/* ---- opening and closing ----------------------------------------------------------------- */

void net_sock_peer(int fd, const struct net_sock_listener *listener, const struct sockaddr *from,
                   struct cache_peer *peer)
{
    struct sockaddr_storage local;
    socklen_t len = sizeof(local);

    *peer = listener->peer;
    if (listener->kind == NET_ENDPOINT_UNIX)
        return;
    net_read_address(from, peer->addr, &peer->port);
    /* The local address, if the listener has a wildcard. */
    if (getsockname(fd, (struct sockaddr *)&local, &len) == 0)
        net_read_address((const struct sockaddr *)&local, peer->local_addr, &peer->local_port);
}

void net_sock_conn_refuse(struct net_sock_worker *worker, int fd,
                          const struct net_sock_listener *listener, const struct sockaddr *from)
{
    struct cache_peer peer;
    const char *text;
    u_u32 len;

    net_sock_peer(fd, listener, from, &peer);
    text = net_conn_refuse(&worker->conns, &peer, &len);
    net_sock_count(worker, NET_SOCK_REJECTED, 1);
    /* A new socket has room for a line; if not, the client sees just the close. */
    if (len > 0)
        (void)!send(fd, text, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    close(fd);
}

/* Returns false if the transport cannot serve one more connection. */
static bool conn_begin(struct net_sock_worker *worker, struct net_sock_conn *conn, int fd,
                       const struct net_sock_listener *listener)
{
    int on = 1;

    conn->source.kind = NET_SOCK_CONN;
    conn->source.fd = fd;
    conn->interest = EPOLLIN;
    conn->conn.timed = worker->conns.idle_timeout_s > 0 && listener->kind == NET_ENDPOINT_TCP;
    u_list_init(&conn->ready_link);
    u_list_push_back(&worker->conns.open, &conn->conn.link);
    /* Replies are gathered here already. */
    if (listener->kind == NET_ENDPOINT_TCP)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return worker->io->conn_begin(worker, conn) == 0;
}

bool net_sock_conn_open(struct net_sock_worker *worker, int fd,
                        const struct net_sock_listener *listener, const struct sockaddr *from)
{
    struct net_sock_conn *conn = calloc(1, worker->io->conn_bytes);
    struct cache_peer peer;

    U_ASSERT(fd >= 0);
    net_sock_peer(fd, listener, from, &peer);
    if (conn && !net_conn_open_session(&worker->conns, &conn->conn, &peer)) {
        free(conn);
        return false;
    }
    net_sock_count(worker, NET_SOCK_ACCEPTED, 1);
    if (conn && conn_begin(worker, conn, fd, listener))
        return true;
    net_sock_count(worker, NET_SOCK_ABORTED, 1);
    if (conn) {
        net_conn_close_session(&conn->conn);
        u_list_remove(&conn->conn.link);
    }
    free(conn);
    close(fd);
    return true;
}

void net_sock_conn_free(struct net_sock_worker *worker, struct net_sock_conn *conn)
{
    net_sendq_clear(&conn->out, &worker->out_pool);
    close(conn->source.fd);
    free(conn);
}

void net_sock_conn_close(struct net_sock_worker *worker, struct net_sock_conn *conn)
{
    net_conn_close_session(&conn->conn);
    u_list_remove(&conn->conn.link);
    u_list_remove(&conn->ready_link);
    free(conn->kept);
    conn->kept = NULL;
    worker->io->conn_end(worker, conn);
}

void net_sock_conns_close(struct net_sock_worker *worker)
{
    while (!u_list_is_empty(&worker->conns.open))
        net_sock_conn_close(worker, net_sock_conn_of(U_CONTAINER_OF(worker->conns.open.next,
                                                                    struct net_conn, link)));
}

void net_sock_conn_abort(struct net_sock_worker *worker, struct net_sock_conn *conn)
{
    net_sock_count(worker, NET_SOCK_ABORTED, 1);
    net_sock_conn_close(worker, conn);
}

/*
 * Whether the connection is between two requests while the worker comes to rest: it uses no more
 * input.
 */
static bool conn_is_held(const struct net_sock_worker *worker, const struct net_sock_conn *conn)
{
    struct cache_session_saved saved;

    return U_UNLIKELY(worker->resting) && conn->conn.session &&
           cache_session_rest(conn->conn.session, &saved) != CACHE_REST_BUSY;
}

/* ---- input ------------------------------------------------------------------------------- */

/*
 * Keeps input until the session is resumed or has its next turn, behind input that is kept
 * already. Returns 0, or -1 if there is no memory.
 */
static int conn_keep(struct net_sock_conn *conn, const uint8_t *data, uint32_t len)
{
    uint32_t before = conn->kept ? conn->kept_len - conn->kept_at : 0;
    uint8_t *kept = malloc(before + len);

    if (!kept)
        return -1;
    if (before > 0)
        memcpy(kept, conn->kept + conn->kept_at, before);
    memcpy(kept + before, data, len);
    free(conn->kept);
    conn->kept = kept;
    conn->kept_at = 0;
    conn->kept_len = before + len;
    return 0;
}

/*
 * Gives bytes to the session; returns how many it consumed. Turns follow each other if no other
 * connection waits for its own.
 */
static uint32_t conn_feed(struct net_sock_worker *worker, struct net_sock_conn *conn,
                          const uint8_t *data, uint32_t len)
{
    uint32_t used = 0;

    do {
        used += net_conn_input(&worker->conns, &conn->conn, data + used, len - used);
        conn->state = net_conn_state(&conn->conn);
    } while (conn->state == CACHE_SESSION_YIELDED && !worker->crowded);
    return used;
}

static void conn_feed_kept(struct net_sock_worker *worker, struct net_sock_conn *conn)
{
    uint32_t len = conn->kept_len - conn->kept_at;

    conn->kept_at += conn_feed(worker, conn, conn->kept + conn->kept_at, len);
    if (conn->kept_at < conn->kept_len)
        return;
    free(conn->kept);
    conn->kept = NULL;
}

static void conn_resume(struct net_sock_worker *worker, struct net_sock_conn *conn)
{
    net_conn_resume(&worker->conns, &conn->conn);
    conn->state = net_conn_state(&conn->conn);
}

int net_sock_conn_input(struct net_sock_worker *worker, struct net_sock_conn *conn,
                        const uint8_t *data, uint32_t len)
{
    uint32_t used = 0;

    if (conn->state == CACHE_SESSION_OPEN && !conn->kept && !conn_is_held(worker, conn)) {
        used = conn_feed(worker, conn, data, len);
        net_conn_touch(&worker->conns, &conn->conn);
        if (conn->state == CACHE_SESSION_OPEN)
            return 1;
    }
    if (conn->state == CACHE_SESSION_CLOSING || used == len)
        return 0;
    return conn_keep(conn, data + used, len - used);
}

/* ---- after input and output -------------------------------------------------------------- */

static int conn_want(struct net_sock_worker *worker, struct net_sock_conn *conn, uint32_t interest)
{
    if (conn->interest == interest)
        return 0;
    return worker->io->conn_want(worker, conn, interest);
}

static void count_blocked(struct net_sock_worker *worker, struct net_sock_conn *conn)
{
    bool blocked = conn->state == CACHE_SESSION_BLOCKED;

    if (blocked && !conn->blocked)
        net_sock_count(worker, NET_SOCK_BLOCKED, 1);
    conn->blocked = blocked;
}

/* Writes, and resumes a blocked session as long as the socket takes its replies. */
static enum net_sendq_result conn_write(struct net_sock_worker *worker, struct net_sock_conn *conn)
{
    enum net_sendq_result result = NET_SENDQ_PENDING;
    unsigned round;

    /* Between two turns: the replies of several turns are written together. */
    if (conn->state == CACHE_SESSION_YIELDED && conn->out.queued_bytes < NET_SOCK_TURN_BYTES &&
        !conn_is_held(worker, conn))
        return NET_SENDQ_PENDING;
    for (round = 0; round < ROUNDS_MAX; round++) {
        result = worker->io->conn_flush(worker, conn);
        if (result == NET_SENDQ_ERROR || conn->conn.failed)
            break;
        if (conn->out.queued_bytes > NET_SOCK_SEND_HIGH_BYTES / 2)
            break;
        if (conn->state == CACHE_SESSION_BLOCKED && !net_conn_awaits_step(&conn->conn))
            conn_resume(worker, conn);
        else if (conn->state == CACHE_SESSION_OPEN && conn->kept && !conn_is_held(worker, conn))
            conn_feed_kept(worker, conn);
        else
            break;
        result = NET_SENDQ_PENDING;
    }
    return result;
}

/* The connection continues in the next loop, without an event. */
static void conn_set_ready(struct net_sock_worker *worker, struct net_sock_conn *conn)
{
    u_list_remove(&conn->ready_link);
    u_list_push_back(&worker->ready, &conn->ready_link);
}

/* Sets the events to wait for. Returns -1 on failure. */
static int conn_wait(struct net_sock_worker *worker, struct net_sock_conn *conn,
                     enum net_sendq_result result)
{
    bool more_input = conn->state == CACHE_SESSION_OPEN && !conn->kept && !conn->eof;
    uint32_t want = 0;

    if (conn->state == CACHE_SESSION_YIELDED) {
        conn_set_ready(worker, conn);
        return conn_want(worker, conn, 0);
    }
    if (more_input && conn->out.queued_bytes < NET_SOCK_SEND_HIGH_BYTES &&
        !conn_is_held(worker, conn))
        want |= EPOLLIN;
    if (result == NET_SENDQ_PENDING)
        want |= EPOLLOUT;
    return conn_want(worker, conn, want);
}

void net_sock_conn_update(struct net_sock_worker *worker, struct net_sock_conn *conn)
{
    enum net_sendq_result result = conn_write(worker, conn);
    bool last_reply = conn->state == CACHE_SESSION_CLOSING ||
                      (conn->state == CACHE_SESSION_OPEN && !conn->kept && conn->eof);

    count_blocked(worker, conn);
    if (last_reply && net_conn_finish(&conn->conn))
        result = conn_write(worker, conn);
    if (conn->conn.failed || result == NET_SENDQ_ERROR)
        net_sock_conn_abort(worker, conn);
    else if (last_reply && result == NET_SENDQ_EMPTY)
        net_sock_conn_close(worker, conn);
    else if (conn_wait(worker, conn, result) < 0)
        net_sock_conn_abort(worker, conn);
}

/* ---- turns ------------------------------------------------------------------------------- */

void net_sock_conns_run_ready(struct net_sock_worker *worker)
{
    struct u_list turn;
    struct u_list *link;

    /* A connection that does not finish is put on the ready list again, for the next loop. */
    u_list_init(&turn);
    u_list_append_all(&turn, &worker->ready);
    while ((link = u_list_pop_front(&turn)) != NULL) {
        struct net_sock_conn *conn = U_CONTAINER_OF(link, struct net_sock_conn, ready_link);

        if (conn->kept && !conn_is_held(worker, conn))
            conn_feed_kept(worker, conn);
        net_sock_conn_update(worker, conn);
    }
}

static void sock_resume(struct net_conns *conns, struct net_conn *conn)
{
    conn_resume(worker_of(conns), net_sock_conn_of(conn));
    net_sock_conn_update(worker_of(conns), net_sock_conn_of(conn));
}

static void sock_close_idle(struct net_conns *conns, struct net_conn *conn)
{
    if (net_conn_finish(conn))
        (void)worker_of(conns)->io->conn_flush(worker_of(conns), net_sock_conn_of(conn));
    net_sock_conn_close(worker_of(conns), net_sock_conn_of(conn));
}

const struct net_transport net_sock_transport = {
    .reserve = sock_reserve,
    .commit = sock_commit,
    .send_ref = sock_send_ref,
    .is_full = sock_is_full,
    .resume = sock_resume,
    .close_idle = sock_close_idle,
};
