/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One connection of a sock worker: bytes of a kernel socket to a session, its replies back.
 *
 * A reply is written at once; only what the socket does not take waits for EPOLLOUT. A client that
 * does not read stops its session when NET_SOCK_SEND_HIGH_BYTES are queued: then nothing is read
 * from it either, and the kernel's buffers and its own do the rest. A client that shuts down its
 * sending side gets the replies to all that it sent before the socket is closed.
 *
 * A session that has had its turn (-R) goes on at once if nobody else waits. Otherwise the rest of
 * its input is kept, and the connection stands in the queue of those that are ready.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "mcproto/mcproto.h"
#include "net/sock_worker.h"

/* Times per event that a blocked session may go on; then the other connections have their turn. */
#define ROUNDS_MAX 8

/* Connections per check that are looked at for being idle. */
#define IDLE_BATCH 64

/* ---- the sink ---------------------------------------------------------------------------- */

struct sock_sink {
    struct cache_sink sink; /* first: the session sees only this */
    struct net_sock_worker *worker;
    struct net_sock_conn *conn;
};

static void sink_commit(struct sock_sink *s)
{
    if (s->sink.at)
        net_out_commit(&s->conn->out, s->sink.at);
    s->sink.at = NULL;
    s->sink.end = NULL;
    s->sink.full = s->conn->out.queued_bytes >= NET_SOCK_SEND_HIGH_BYTES;
}

static int sink_more(struct cache_sink *sink, uint32_t need)
{
    struct sock_sink *s = (struct sock_sink *)sink;

    sink_commit(s);
    sink->at = net_out_room(&s->conn->out, &s->worker->out_pool, need, &sink->end);
    if (sink->at)
        return 0;
    s->conn->failed = true;
    return -1;
}

static int sink_ref(struct cache_sink *sink, const void *data, uint32_t len, void *cookie)
{
    struct sock_sink *s = (struct sock_sink *)sink;

    sink_commit(s);
    if (net_out_ref(&s->conn->out, &s->worker->out_pool, data, len, cookie) < 0) {
        s->conn->failed = true;
        return -1;
    }
    sink_commit(s);
    return 0;
}

static const struct cache_sink_ops sink_ops = {.more = sink_more, .ref = sink_ref};

static struct sock_sink sink_make(struct net_sock_worker *worker, struct net_sock_conn *conn)
{
    struct sock_sink s = {.worker = worker, .conn = conn};

    s.sink.ops = &sink_ops;
    s.sink.full = conn->out.queued_bytes >= NET_SOCK_SEND_HIGH_BYTES;
    return s;
}

/* ---- opening and closing ----------------------------------------------------------------- */

static void log_peer(const struct net_sock_worker *worker, const struct cache_peer *peer,
                     const char *what)
{
    char text[INET6_ADDRSTRLEN] = "unix socket";

    if (cache_verbosity(worker->cache) < 2)
        return;
    if (strcmp(peer->transport, "unix") != 0)
        inet_ntop(strcmp(peer->transport, "tcp6") == 0 ? AF_INET6 : AF_INET, peer->addr, text,
                  sizeof(text));
    fprintf(stderr, "ucached: %s port %u: %s\n", text, peer->port, what);
}

static void peer_make(int fd, const struct net_sock_listener *listener, const struct sockaddr *from,
                      struct cache_peer *peer)
{
    struct sockaddr_storage local;
    socklen_t len = sizeof(local);

    *peer = listener->peer;
    if (listener->kind == NET_ENDPOINT_UNIX)
        return;
    net_read_address(from, peer->addr, &peer->port);
    /* Which of our addresses, if it listens on all of them. */
    if (getsockname(fd, (struct sockaddr *)&local, &len) == 0)
        net_read_address((const struct sockaddr *)&local, peer->local_addr, &peer->local_port);
}

void net_sock_conn_refuse(struct net_sock_worker *worker, int fd)
{
    u_u32 len;
    const char *text = mc_status_text(MC_STATUS_TOO_MANY_CONNECTIONS, &len);

    net_sock_count(worker, NET_SOCK_REJECTED, 1);
    if (cache_verbosity(worker->cache) > 1)
        fprintf(stderr, "ucached: a connection is refused, there are too many\n");
    /* A new socket has room for a line; if not, the client sees just the close. */
    (void)!send(fd, text, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    close(fd);
}

static struct net_sock_conn *conn_new(struct net_sock_worker *worker, int fd,
                                      const struct net_sock_listener *listener)
{
    struct net_sock_conn *conn = calloc(1, worker->io->conn_bytes);
    int on = 1;

    if (!conn)
        return NULL;
    conn->source.kind = NET_SOCK_CONN;
    conn->source.fd = fd;
    conn->interest = EPOLLIN;
    conn->timed = worker->idle_timeout_s > 0 && listener->kind == NET_ENDPOINT_TCP;
    u_list_init(&conn->ready_link);
    /* Replies go out in whole bursts already. */
    if (listener->kind == NET_ENDPOINT_TCP)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (worker->io->conn_begin(worker, conn) < 0) {
        free(conn);
        return NULL;
    }
    return conn;
}

bool net_sock_conn_open(struct net_sock_worker *worker, int fd,
                        const struct net_sock_listener *listener, const struct sockaddr *from)
{
    struct net_sock_conn *conn;
    struct cache_session *session;
    struct cache_peer peer;

    peer_make(fd, listener, from, &peer);
    session = cache_session_open(worker->cache_worker, &peer);
    if (!session)
        return false;
    net_sock_count(worker, NET_SOCK_ACCEPTED, 1);
    conn = conn_new(worker, fd, listener);
    if (!conn) {
        net_sock_count(worker, NET_SOCK_ABORTED, 1);
        cache_session_close(session);
        close(fd);
        return true;
    }
    conn->session = session;
    cache_session_own(session, conn);
    u_list_push_back(conn->timed ? &worker->timed_conns : &worker->conns, &conn->link);
    log_peer(worker, &peer, "connected");
    return true;
}

/* What a connection has beside its session, which has ended. */
static void conn_end(struct net_sock_worker *worker, struct net_sock_conn *conn)
{
    u_list_remove(&conn->link);
    u_list_remove(&conn->ready_link);
    free(conn->kept);
    conn->kept = NULL;
    worker->io->conn_end(worker, conn);
}

void net_sock_conn_free(struct net_sock_worker *worker, struct net_sock_conn *conn)
{
    net_out_clear(&conn->out, &worker->out_pool);
    close(conn->source.fd);
    free(conn);
}

void net_sock_conn_close(struct net_sock_worker *worker, struct net_sock_conn *conn)
{
    cache_session_close(conn->session);
    conn_end(worker, conn);
}

static void close_list(struct net_sock_worker *worker, struct u_list *list)
{
    while (!u_list_is_empty(list))
        net_sock_conn_close(worker, U_CONTAINER_OF(list->next, struct net_sock_conn, link));
}

void net_sock_conns_close(struct net_sock_worker *worker)
{
    close_list(worker, &worker->conns);
    close_list(worker, &worker->timed_conns);
}

void net_sock_conn_abort(struct net_sock_worker *worker, struct net_sock_conn *conn)
{
    net_sock_count(worker, NET_SOCK_ABORTED, 1);
    net_sock_conn_close(worker, conn);
}

/* ---- input ------------------------------------------------------------------------------- */

/*
 * Input that waits until the session goes on: blocked, or after its turn. It follows what is kept
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
    struct sock_sink s = sink_make(worker, conn);
    uint32_t used = 0;

    do {
        used += cache_session_input(conn->session, data + used, len - used, &s.sink);
        conn->state = cache_session_state(conn->session);
    } while (conn->state == CACHE_SESSION_YIELDED && !worker->crowded);
    sink_commit(&s);
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
    struct sock_sink s = sink_make(worker, conn);

    cache_session_resume(conn->session, &s.sink);
    conn->state = cache_session_state(conn->session);
    sink_commit(&s);
}

/* A request has come: the last to be looked at for being idle. */
static void conn_heard(struct net_sock_worker *worker, struct net_sock_conn *conn)
{
    if (!conn->timed || cache_session_idle_s(conn->session) > 0)
        return;
    u_list_remove(&conn->link);
    u_list_push_back(&worker->timed_conns, &conn->link);
}

int net_sock_conn_input(struct net_sock_worker *worker, struct net_sock_conn *conn,
                        const uint8_t *data, uint32_t len)
{
    uint32_t used = 0;

    if (conn->state == CACHE_SESSION_OPEN && !conn->kept) {
        used = conn_feed(worker, conn, data, len);
        conn_heard(worker, conn);
        if (conn->state == CACHE_SESSION_OPEN)
            return 1;
    }
    if (conn->state == CACHE_SESSION_CLOSING || used == len)
        return 0;
    return conn_keep(conn, data + used, len - used);
}

/* ---- what comes next --------------------------------------------------------------------- */

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

/* Writes, and lets a session that was blocked go on as long as the socket takes its replies. */
static enum net_out_result conn_write(struct net_sock_worker *worker, struct net_sock_conn *conn)
{
    enum net_out_result result = NET_OUT_LEFT;
    unsigned round;

    /* After a turn of several: all replies of the turns go out together. */
    if (conn->state == CACHE_SESSION_YIELDED && conn->out.queued_bytes < NET_SOCK_TURN_BYTES)
        return NET_OUT_LEFT;
    for (round = 0; round < ROUNDS_MAX; round++) {
        result = worker->io->conn_flush(worker, conn);
        if (result == NET_OUT_ERROR || conn->failed)
            break;
        if (conn->out.queued_bytes > NET_SOCK_SEND_HIGH_BYTES / 2)
            break;
        if (conn->state == CACHE_SESSION_BLOCKED)
            conn_resume(worker, conn);
        else if (conn->state == CACHE_SESSION_OPEN && conn->kept)
            conn_feed_kept(worker, conn);
        else
            break;
        result = NET_OUT_LEFT;
    }
    return result;
}

/* It is the next turn that goes on with it, not an event. */
static void conn_set_ready(struct net_sock_worker *worker, struct net_sock_conn *conn)
{
    u_list_remove(&conn->ready_link);
    u_list_push_back(&worker->ready, &conn->ready_link);
}

/* Decides what to wait for. Returns -1 if that cannot be. */
static int conn_wait(struct net_sock_worker *worker, struct net_sock_conn *conn,
                     enum net_out_result result)
{
    bool more_input = conn->state == CACHE_SESSION_OPEN && !conn->kept && !conn->eof;
    uint32_t want = 0;

    if (conn->state == CACHE_SESSION_YIELDED) {
        conn_set_ready(worker, conn);
        return conn_want(worker, conn, 0);
    }
    if (more_input && conn->out.queued_bytes < NET_SOCK_SEND_HIGH_BYTES)
        want |= EPOLLIN;
    if (result == NET_OUT_LEFT)
        want |= EPOLLOUT;
    return conn_want(worker, conn, want);
}

void net_sock_conn_proceed(struct net_sock_worker *worker, struct net_sock_conn *conn)
{
    enum net_out_result result = conn_write(worker, conn);
    bool last_reply = conn->state == CACHE_SESSION_CLOSING ||
                      (conn->state == CACHE_SESSION_OPEN && !conn->kept && conn->eof);

    count_blocked(worker, conn);
    if (conn->failed || result == NET_OUT_ERROR)
        net_sock_conn_abort(worker, conn);
    else if (last_reply && result == NET_OUT_EMPTY)
        net_sock_conn_close(worker, conn);
    else if (conn_wait(worker, conn, result) < 0)
        net_sock_conn_abort(worker, conn);
}

/* ---- turns and idleness ------------------------------------------------------------------ */

void net_sock_conns_ready(struct net_sock_worker *worker)
{
    struct u_list turn;
    struct u_list *link;

    /* Who does not finish stands in the queue again, for the next loop. */
    u_list_init(&turn);
    u_list_append_all(&turn, &worker->ready);
    while ((link = u_list_pop_front(&turn)) != NULL) {
        struct net_sock_conn *conn = U_CONTAINER_OF(link, struct net_sock_conn, ready_link);

        if (conn->kept)
            conn_feed_kept(worker, conn);
        net_sock_conn_proceed(worker, conn);
    }
}

void net_sock_conns_eager(struct net_sock_worker *worker)
{
    uint32_t n = cache_eager_count(worker->cache_worker);
    const struct cache_session *session;

    for (; n > 0 && (session = cache_eager_next(worker->cache_worker)) != NULL; n--) {
        struct net_sock_conn *conn = cache_session_owner(session);

        conn_resume(worker, conn);
        net_sock_conn_proceed(worker, conn);
    }
}

void net_sock_conns_idle(struct net_sock_worker *worker)
{
    struct net_sock_conn *conn;
    uint32_t idle_s = 0;
    unsigned n;

    if (worker->idle_timeout_s == 0 || worker->now_us < worker->idle_check_us)
        return;
    for (n = 0; n < IDLE_BATCH && !u_list_is_empty(&worker->timed_conns); n++) {
        conn = U_CONTAINER_OF(worker->timed_conns.next, struct net_sock_conn, link);
        idle_s = cache_session_idle_s(conn->session);
        if (idle_s > worker->idle_timeout_s) {
            net_sock_count(worker, NET_SOCK_IDLE_CLOSED, 1);
            cache_session_kick(conn->session);
            conn_end(worker, conn);
        } else if (idle_s > 0) {
            break; /* those behind it have been heard of later */
        } else {
            conn_heard(worker, conn); /* in the middle of something */
        }
    }
    /* If the batch ended with one that was idle there may be more: in the next loop. */
    if (n < IDLE_BATCH || idle_s == 0)
        worker->idle_check_us = worker->now_us + NET_SOCK_IDLE_CHECK_US;
}
