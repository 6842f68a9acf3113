/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Coming to rest on the own stack, so that another process can continue, and continuing what
 * another one has handed over; see sock_pause.c.
 *
 * At rest no frame, event or handshake is under way, and no reply refers to an item. Bytes that the
 * peers have not acknowledged move with their connections. Frames that arrive from then on wait in
 * the device.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "net/handover.h"
#include "net/log.h"
#include "net/port.h"
#include "net/tls_handover.h"
#include "nic/rss.h"

/* Longest wait of a turn while connections are coming to rest. */
#define REST_WAIT_US 1000

/* How long a worker at rest waits for the others before it looks at its frames again. */
#define VOTE_PAUSE_NS 50000
#define VOTE_PAUSES 20

/* How long connections that are closing are waited for. */
#define CLOSING_US 50000

/* What a connection has at most queued and unread; a longer one is left out. */
#define CONN_BYTES_MAX (4 * NET_STACK_SEND_QUEUE_BYTES)

static struct net_stack_conn *conn_at(struct u_list *link)
{
    return U_CONTAINER_OF(U_CONTAINER_OF(link, struct net_conn, link), struct net_stack_conn, conn);
}

/* ---- coming to rest ---------------------------------------------------------------------- */

static enum cache_rest rest_of(const struct net_stack_conn *conn)
{
    struct cache_session_saved saved;

    return net_conn_rest(&conn->conn, &saved);
}

/*
 * Whether the connection is at rest after this time; otherwise lets it come to rest. Connections
 * that cannot move are closed. Those that are closing get a short time to agree with their peers.
 */
static bool rest_conn(struct net_stack_worker *worker, struct net_stack_conn *conn,
                      uint64_t passed_us)
{
    if (!conn->us)
        return false;
    if (!conn->conn.session && conn->refs == 0)
        return passed_us > CLOSING_US;
    if (conn->conn.session && conn->refs == 0 && rest_of(conn) == CACHE_REST_MOVES)
        return true;
    if (conn->conn.session && rest_of(conn) == CACHE_REST_ENDS) {
        net_tls_count_left_out(&conn->conn);
        worker->conns.left_out++;
        net_stack_conn_finish(worker, conn);
    } else if (passed_us > NET_REST_US && !conn->aborted) {
        net_stack_count(worker, NET_STACK_REST_CLOSED, 1);
        worker->conns.left_out++;
        net_stack_conn_abort(worker, conn);
    }
    return false;
}

static bool rest_conns(struct net_stack_worker *worker, uint64_t passed_us)
{
    struct u_list *link = worker->conns.open.next;
    bool rest = true;

    while (link != &worker->conns.open) {
        struct net_stack_conn *conn = conn_at(link);

        link = link->next;
        rest &= rest_conn(worker, conn, passed_us);
    }
    return rest;
}

static bool is_at_rest(struct net_stack_worker *worker, uint64_t passed_us)
{
    bool rest = rest_conns(worker, passed_us);

    return rest && worker->rx_done == worker->rx_count && !worker->events_left &&
           worker->unsent_count == 0 && worker->held_count == 0 &&
           !nic_has_in_transit(worker->nic) &&
           (passed_us > NET_REST_US || us_counter(worker->stack, worker->half_open_index) == 0);
}

static unsigned count_workers(const struct net_stack_worker *worker)
{
    unsigned count = 0;

    for (worker = worker->first; worker; worker = worker->next)
        count++;
    return count;
}

/*
 * Whether all workers of the device are at rest. Each receives and sends frames for the others, so
 * none may stop before all can. A worker at rest votes for it, does nothing for a time, and takes
 * its vote back if the others have not all voted; with the last vote it is decided.
 */
static bool vote_to_stop(struct net_stack_worker *worker)
{
    const struct timespec pause = {.tv_nsec = VOTE_PAUSE_NS};
    atomic_uint *votes = &worker->first->rest_votes;
    unsigned all = count_workers(worker);
    unsigned seen = atomic_fetch_add(votes, 1) + 1;
    unsigned i;

    for (i = 0; seen < all && i < VOTE_PAUSES; i++) {
        (void)nanosleep(&pause, NULL);
        seen = atomic_load(votes);
    }
    while (seen < all && !atomic_compare_exchange_weak(votes, &seen, seen - 1))
        continue;
    return seen == all;
}

/* Returns 1 if all workers stop, 0 if the pause was given up, or a negative errno value. */
static int come_to_rest(struct net_stack_worker *worker)
{
    uint64_t now_us = net_clock_us();
    uint64_t since_us = now_us;
    bool stops = false;
    int rc = 0;

    worker->resting = true;
    worker->general_only = true;
    worker->conns.left_out = 0;
    while (rc == 0 && !stops && net_worker_is_pausing(&worker->worker)) {
        if (!net_stack_turn(worker, now_us))
            rc = nic_wait(worker->nic, REST_WAIT_US);
        now_us = net_clock_us();
        stops = rc == 0 && is_at_rest(worker, now_us - since_us) && vote_to_stop(worker);
    }
    return stops ? 1 : rc;
}

/* The session uses input again that the stack holds back, unless it is stopped. */
static void resume_input(struct net_stack_worker *worker, struct net_stack_conn *conn)
{
    if (conn->conn.session && u_list_is_empty(&conn->blocked_link))
        net_stack_conn_resume_input(worker, conn);
}

int net_stack_pause(struct net_stack_worker *worker)
{
    struct u_list *link;
    int rc = come_to_rest(worker);

    if (rc > 0) {
        rc = net_worker_park(&worker->worker, worker->conns.cache_worker);
        atomic_fetch_sub(&worker->first->rest_votes, 1);
    }
    if (rc < 0)
        return rc;
    worker->resting = false;
    worker->general_only = false;
    for (link = worker->conns.open.next; link != &worker->conns.open; link = link->next)
        resume_input(worker, conn_at(link));
    return 0;
}

/* ---- handing over ------------------------------------------------------------------------ */

static void add_mac_record(const struct net_stack_worker *worker, struct net_handover *handover,
                           struct net_handover_record *record)
{
    record->input_bytes = sizeof(worker->nic->mac);
    net_handover_begin(handover, record);
    net_handover_add(handover, worker->nic->mac, sizeof(worker->nic->mac));
    net_handover_end(handover, record);
}

/*
 * A device without such a descriptor is opened again by the other process, with the MAC address
 * that the peers have in their ARP caches.
 */
static void hand_over_device(const struct net_stack_worker *worker, bool first,
                             struct net_handover *handover)
{
    int fd = nic_adoptable_fd(worker->nic);
    struct net_handover_record record = {.kind = NET_HANDOVER_DEVICE};
    struct net_handover_record address = {.kind = NET_HANDOVER_MAC};

    if (first)
        add_mac_record(worker, handover, &address);
    if (fd < 0)
        return;
    record.fd = net_handover_add_fd(handover, fd);
    add_mac_record(worker, handover, &record);
}

static void hand_over_conn(struct net_stack_worker *worker, const struct net_stack_conn *conn,
                           uint8_t *bytes, struct net_handover *handover)
{
    struct net_handover_record record = {.kind = NET_HANDOVER_STACK};
    struct cache_session_saved saved;
    struct net_tls_moving moving;

    if (!conn->us || !conn->conn.session ||
        net_conn_rest(&conn->conn, &saved) != CACHE_REST_MOVES ||
        us_conn_export(worker->stack, conn->us, &record.state, bytes, CONN_BYTES_MAX) != US_OK)
        return;
    net_tls_export(&conn->conn, &saved, &moving, &record);
    record.protocol = saved.protocol;
    record.idle_s = saved.idle_s;
    record.input_bytes = saved.line_bytes;
    record.queued_bytes = record.state.queued_bytes + record.state.unread_bytes;
    net_handover_begin(handover, &record);
    net_handover_add(handover, saved.line, saved.line_bytes);
    net_handover_add(handover, bytes, record.queued_bytes);
    net_tls_hand_over(&moving, &record, handover);
    net_handover_end(handover, &record);
}

void net_stack_hand_over(struct net_worker *base, bool first, struct net_handover *handover)
{
    struct net_stack_worker *worker = (struct net_stack_worker *)base;
    uint8_t *bytes = malloc(CONN_BYTES_MAX);
    struct u_list *link;

    if (!bytes) {
        handover->failed = true;
        return;
    }
    hand_over_device(worker, first, handover);
    for (link = worker->conns.open.next; link != &worker->conns.open; link = link->next)
        hand_over_conn(worker, conn_at(link), bytes, handover);
    handover->left_out += worker->conns.left_out;
    free(bytes);
}

void net_stack_close_device(struct net_worker *base)
{
    struct net_stack_worker *worker = (struct net_stack_worker *)base;

    net_stack_release_packets(worker);
    nic_close(worker->nic);
    worker->nic = NULL;
}

void net_stack_reopen_device(struct net_worker *base, struct nic *nic)
{
    ((struct net_stack_worker *)base)->nic = nic;
}

/* ---- taking over ------------------------------------------------------------------------- */

/*
 * The session, or its TLS, continues with the beginning of a request or of a record, then with the
 * unread bytes.
 */
static void adopt(struct net_stack_worker *worker, struct us_conn *us,
                  const struct cache_session_saved *saved, uint32_t unread_bytes)
{
    struct net_stack_conn *conn = net_stack_conn_open(worker, us);

    net_stack_count(worker, NET_STACK_TAKEN_OVER, 1);
    conn->held = unread_bytes > 0;
    conn->kept_bytes = unread_bytes;
    if (conn->waiting && (worker->conns.tls || saved->line_bytes > 0))
        net_stack_conn_abort(worker, conn); /* a later session would lack what came before */
    if (conn->conn.session && !net_conn_continue(&conn->conn, saved))
        net_stack_conn_abort(worker, conn);
    if (conn->conn.session && saved->line_bytes > 0)
        (void)net_conn_input(&worker->conns, &conn->conn, saved->line, saved->line_bytes);
    if (conn->conn.session && net_conn_state(&conn->conn) != CACHE_SESSION_OPEN)
        net_stack_conn_abort(worker, conn);
    if (!conn->waiting)
        net_stack_conn_resume_input(worker, conn);
}

static void take_over(struct net_stack_worker *worker, const struct net_handover_record *record)
{
    const uint8_t *line = net_handover_input(record);
    const struct cache_session_saved saved = {.protocol = record->protocol,
                                              .idle_s = record->idle_s,
                                              .line = line,
                                              .line_bytes = record->input_bytes};
    int error = US_OK;
    struct us_conn *us =
        us_conn_import(worker->stack, &record->state, line + record->input_bytes, NULL, &error);

    worker->conns.taken = record;
    if (us)
        adopt(worker, us, &saved, record->state.unread_bytes);
    else
        net_log("ucached: a connection cannot be taken over: %s", us_strerror(error));
    worker->conns.taken = NULL;
    net_handover_wipe_tls(worker->handover, record);
}

/* Whether frames of the connection come to this worker. */
static bool is_own(const struct net_stack_worker *worker, const struct us_conn_state *state)
{
    struct nic_rss_flow flow = {.is_ip6 = state->local.family == US_IP6,
                                .has_ports = true,
                                .from = {.port = state->remote_port},
                                .to = {.port = state->local_port}};

    memcpy(flow.from.addr, state->remote.bytes, sizeof(flow.from.addr));
    memcpy(flow.to.addr, state->local.bytes, sizeof(flow.to.addr));
    return nic_rss_lane(nic_rss_hash(&flow), worker->nic->queues) == worker->nic->queue;
}

void net_stack_take_over(struct net_stack_worker *worker)
{
    const struct net_handover_record *record;
    size_t at = 0;

    worker->now_us = net_clock_us();
    cache_tick(worker->conns.cache_worker, worker->now_us);
    while ((record = net_handover_next(worker->handover, &at)) != NULL) {
        if (record->kind == NET_HANDOVER_STACK && is_own(worker, &record->state))
            take_over(worker, record);
    }
    worker->handover = NULL;
}
