/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Coming to rest, so that another process can continue, and continuing what another one has handed
 * over.
 *
 * At rest each session is between two requests, or has the beginning of one, and its replies are
 * in the kernel. Sessions that reach this point use no more input; the others are served on. After
 * NET_REST_US those that are still in the middle of a request are closed: their clients send it
 * slowly, or don't read its reply.
 */
#define _GNU_SOURCE /* fcntl() */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "net/handover.h"
#include "net/log.h"
#include "net/sock_worker.h"
#include "net/tls_handover.h"

/* Longest wait of a turn while connections are coming to rest. */
#define REST_WAIT_MS 2

static struct net_sock_conn *conn_at(struct u_list *link)
{
    return net_sock_conn_of(U_CONTAINER_OF(link, struct net_conn, link));
}

/* ---- coming to rest ---------------------------------------------------------------------- */

static bool conn_is_at_rest(struct net_sock_worker *worker, struct net_sock_conn *conn)
{
    struct cache_session_saved saved;
    bool quiet = !worker->io->conn_rest || worker->io->conn_rest(worker, conn);

    return conn->conn.session && conn->out.queued_bytes == 0 && quiet &&
           net_conn_rest(&conn->conn, &saved) != CACHE_REST_BUSY;
}

/* Updates each connection, as its rest begins or ends; some may end. */
static void update_all(struct net_sock_worker *worker)
{
    struct u_list *link = worker->conns.open.next;

    while (link != &worker->conns.open) {
        struct net_sock_conn *conn = conn_at(link);

        link = link->next;
        net_sock_conn_update(worker, conn);
    }
}

/* Whether all connections are at rest. Those that are not in time are closed. */
static bool rest_all(struct net_sock_worker *worker, bool late)
{
    struct u_list *link = worker->conns.open.next;
    bool rest = !worker->io->listeners_rest || worker->io->listeners_rest(worker);

    while (link != &worker->conns.open) {
        struct net_sock_conn *conn = conn_at(link);

        link = link->next;
        if (conn_is_at_rest(worker, conn))
            continue;
        rest = false;
        if (!late)
            continue;
        net_sock_count(worker, NET_SOCK_REST_CLOSED, 1);
        worker->conns.left_out++;
        net_sock_conn_close(worker, conn);
    }
    return rest;
}

static int come_to_rest(struct net_sock_worker *worker)
{
    uint64_t late_us = net_clock_us() + NET_REST_US;
    int rc = 0;

    worker->resting = true;
    worker->conns.left_out = 0;
    net_sock_accept_hold(worker);
    update_all(worker);
    while (rc == 0 && net_worker_is_pausing(&worker->worker) &&
           !rest_all(worker, worker->now_us > late_us))
        rc = net_sock_turn(worker, REST_WAIT_MS);
    return rc;
}

int net_sock_pause(struct net_sock_worker *worker)
{
    int rc = come_to_rest(worker);

    if (rc == 0)
        rc = net_worker_park(&worker->worker, worker->conns.cache_worker);
    if (rc < 0)
        return rc;
    worker->resting = false;
    net_sock_accept_release(worker);
    update_all(worker);
    return 0;
}

/* ---- handing over ------------------------------------------------------------------------ */

static void hand_over_listener(const struct net_sock_listener *listener,
                               struct net_handover *handover)
{
    struct net_handover_record record = {
        .kind = NET_HANDOVER_LISTENER,
        .transport = (uint8_t)listener->kind,
        .binding = (uint8_t)listener->peer.binding,
        .tls = (uint8_t)listener->peer.tls,
        .shared = listener->shared,
        .fd = net_handover_add_fd(handover, listener->source.fd),
    };

    net_handover_begin(handover, &record);
    net_handover_end(handover, &record);
}

static enum net_endpoint_kind transport_of(const struct cache_peer *peer)
{
    return strcmp(peer->transport, "unix") == 0 ? NET_ENDPOINT_UNIX : NET_ENDPOINT_TCP;
}

static void hand_over_conn(struct net_sock_worker *worker, const struct net_sock_conn *conn,
                           struct net_handover *handover)
{
    uint32_t kept = conn->kept ? conn->kept_len - conn->kept_at : 0;
    const struct cache_peer *peer;
    struct net_handover_record record = {.kind = NET_HANDOVER_SOCKET};
    struct cache_session_saved saved;
    struct net_tls_moving moving;

    if (net_conn_rest(&conn->conn, &saved) != CACHE_REST_MOVES) {
        net_tls_count_left_out(&conn->conn);
        worker->conns.left_out++;
        return;
    }
    net_tls_export(&conn->conn, &saved, &moving, &record);
    peer = cache_session_peer(conn->conn.session);
    record.transport = (uint8_t)transport_of(peer);
    record.binding = (uint8_t)peer->binding;
    record.fd = net_handover_add_fd(handover, conn->source.fd);
    record.protocol = saved.protocol;
    record.idle_s = saved.idle_s;
    record.input_bytes = saved.line_bytes + kept;
    net_handover_begin(handover, &record);
    net_handover_add(handover, saved.line, saved.line_bytes);
    if (kept > 0)
        net_handover_add(handover, conn->kept + conn->kept_at, kept);
    net_tls_hand_over(&moving, &record, handover);
    net_handover_end(handover, &record);
}

/* An accepted connection that waits for a session. */
static void hand_over_waiting(const struct net_sock_waiting *waiting, struct net_handover *handover)
{
    const struct cache_peer *peer = &waiting->listener->peer;
    struct net_handover_record record = {
        .kind = NET_HANDOVER_SOCKET,
        .transport = (uint8_t)waiting->listener->kind,
        .binding = (uint8_t)peer->binding,
        .tls = (uint8_t)peer->tls,
        .fd = net_handover_add_fd(handover, waiting->fd),
    };

    net_handover_begin(handover, &record);
    net_handover_end(handover, &record);
}

void net_sock_hand_over(struct net_worker *base, bool first, struct net_handover *handover)
{
    struct net_sock_worker *worker = (struct net_sock_worker *)base;
    struct u_list *link;
    unsigned i;

    for (i = 0; i < worker->listener_count; i++) {
        if (first || !worker->listeners[i].shared)
            hand_over_listener(&worker->listeners[i], handover);
    }
    for (link = worker->conns.open.next; link != &worker->conns.open; link = link->next)
        hand_over_conn(worker, conn_at(link), handover);
    handover->left_out += worker->conns.left_out;
    if (worker->waiting.listener)
        hand_over_waiting(&worker->waiting, handover);
}

/* ---- taking over ------------------------------------------------------------------------- */

/* Blocking or not, as this worker's interface of the kernel needs it. */
static int set_blocking(const struct net_sock_worker *worker, int fd)
{
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0)
        return -1;
    flags &= ~O_NONBLOCK;
    return fcntl(fd, F_SETFL,
                 worker->io->accept_flags & SOCK_NONBLOCK ? flags | O_NONBLOCK : flags);
}

/* Describes the listener that a connection came from. Returns 0 or -1. */
static int listener_of(int fd, const struct net_handover_record *record,
                       struct net_sock_listener *listener)
{
    struct net_endpoint endpoint = {.kind = (enum net_endpoint_kind)record->transport,
                                    .binding = (enum cache_binding)record->binding,
                                    .tls = (enum cache_tls)record->tls,
                                    .addr_len = sizeof(endpoint.addr)};

    if (getsockname(fd, (struct sockaddr *)&endpoint.addr, &endpoint.addr_len) < 0)
        return -1;
    listener->kind = endpoint.kind;
    net_endpoint_peer(&endpoint, &listener->peer);
    return 0;
}

/* The session continues, with the input that the earlier process had. */
static void continue_conn(struct net_sock_worker *worker, struct net_sock_conn *conn,
                          const struct net_handover_record *record)
{
    const struct cache_session_saved saved = {.protocol = record->protocol,
                                              .idle_s = record->idle_s};

    if (!net_conn_continue(&conn->conn, &saved) ||
        (record->input_bytes > 0 &&
         net_sock_conn_input(worker, conn, net_handover_input(record), record->input_bytes) < 0))
        net_sock_conn_abort(worker, conn);
    else
        net_sock_conn_update(worker, conn);
}

/* Opens the connection of a record, and continues it. */
static void take_over_fd(struct net_sock_worker *worker, const struct net_handover_record *record,
                         int fd)
{
    struct net_sock_listener listener = {.source.fd = -1};
    struct sockaddr_storage peer;
    socklen_t len = sizeof(peer);
    struct net_sock_conn *conn;

    memset(&peer, 0, sizeof(peer));
    (void)getpeername(fd, (struct sockaddr *)&peer, &len); /* one that has gone has none */
    if (set_blocking(worker, fd) < 0 || listener_of(fd, record, &listener) < 0 ||
        (listener.peer.tls != CACHE_TLS_OFF && !worker->conns.tls)) {
        close(fd);
        return;
    }
    if (!net_sock_conn_open(worker, fd, &listener, (const struct sockaddr *)&peer)) {
        net_sock_conn_refuse(worker, fd, &listener, (const struct sockaddr *)&peer);
        return;
    }
    net_sock_count(worker, NET_SOCK_TAKEN_OVER, 1);
    if (u_list_is_empty(&worker->conns.open))
        return; /* the connection was closed, for want of memory */
    conn = conn_at(worker->conns.open.prev);
    if (conn->source.fd == fd)
        continue_conn(worker, conn, record);
}

static void take_over(struct net_sock_worker *worker, const struct net_handover_record *record)
{
    int fd = net_handover_take_fd(worker->handover, record->fd);

    worker->conns.taken = record;
    if (fd >= 0)
        take_over_fd(worker, record, fd);
    worker->conns.taken = NULL;
    net_handover_wipe_tls(worker->handover, record);
}

void net_sock_take_over(struct net_sock_worker *worker)
{
    const struct net_handover_record *record;
    unsigned n = 0;
    size_t at = 0;

    worker->now_us = net_clock_us();
    cache_tick(worker->conns.cache_worker, worker->now_us);
    while ((record = net_handover_next(worker->handover, &at)) != NULL) {
        if (record->kind == NET_HANDOVER_SOCKET && n++ % worker->workers == worker->number)
            take_over(worker, record);
    }
}
