/* SPDX-License-Identifier: BSD-3-Clause */
/* The loop of one thread of load; see client.h. */
#include "client.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

/* Requests in flight on each connection while values are stored. */
#define STORE_DEPTH 32

/* The longest sleep of a thread that only waits for the others. */
#define ATTEND_US 1000

/* An arrival that is so near is waited for awake: sleeps end late by about as much. */
#define NEAR_NS 100000

int client_fail(struct client *client, const char *format, ...)
{
    va_list args;

    if (!client->failed) {
        client->failed = true;
        va_start(args, format);
        vsnprintf(client->error, sizeof(client->error), format, args);
        va_end(args);
    }
    return -1;
}

/* ---- requests ---------------------------------------------------------------------------- */

/* No request is begun any more; those that were chosen are forgotten. */
static void stop_giving(struct client *client)
{
    client->giving = false;
    client->drawn_at = client->drawn_count = 0;
}

/* The next requests, up to n: for one key each, or one for several. Returns how many. */
static uint32_t choose(struct client *client, uint32_t n)
{
    struct talk *talk = &client->talk;

    client->drawn_keys = 1;
    if (talk->missed_count > 0) {
        client->ids[0] = talk->missed[--talk->missed_count];
        client->drawn_ops[0] = OP_SET;
        return 1;
    }
    if (n > 1) {
        source_next_many(&client->source, client->drawn_ops, client->ids, n);
        return n;
    }
    client->drawn_keys = source_next(&client->source, client->drawn_ops, client->ids);
    return client->drawn_keys > 0;
}

bool client_draw(struct client *client)
{
    uint64_t max = client->phase.requests_max;
    uint64_t n = client->draw_max;

    if (max > 0)
        n = u_min64(n, max - client->begun);
    client->drawn_at = client->drawn_count = 0;
    if (client->giving && n > 0)
        client->drawn_count = choose(client, (uint32_t)n);
    if (client->drawn_count == 0)
        stop_giving(client);
    return client->giving;
}

/* Open loop: requests that are due go to the connections that have been free for longest. */
static int dispatch(struct client *client)
{
    struct conn *conn;
    uint64_t due_ns;

    while (!u_list_is_empty(&client->ready)) {
        due_ns = load_arrivals_due_ns(&client->arrivals);
        if (due_ns > client->talk.now_ns || !client->giving)
            return 0;
        conn = U_CONTAINER_OF(client->ready.next, struct conn, ready_link);
        u_list_remove(&conn->ready_link);
        conn->is_ready = false;
        if (!client_begin(client, conn, due_ns))
            return 0;
        load_arrivals_advance(&client->arrivals);
        if (client->ops->pump(client, conn) < 0 || client_settle(client, conn) < 0)
            return -1;
    }
    return 0;
}

/* How many requests a connection gets. */
static uint64_t allowance(const struct client *client)
{
    uint64_t reconnect = client->plan->reconnect;

    return client->phase.kind == PHASE_LOAD && reconnect > 0 ? reconnect : UINT64_MAX;
}

int client_opened(struct client *client, struct conn *conn)
{
    conn->is_open = true;
    conn->allowance = allowance(client);
    if (client->phase.kind == PHASE_CONNECT)
        return 0;
    if (client->talk.now_ns >= client->talk.record_from_ns)
        client->talk.tally.connects++;
    return client_settle(client, conn);
}

int client_settle(struct client *client, struct conn *conn)
{
    if (conn->allowance == 0) {
        if (!conn->is_open || session_in_flight(&conn->session) > 0 || !client->giving)
            return 0;
        conn->is_open = false;
        return client->ops->reopen(client, conn);
    }
    if (client->closed)
        return client->ops->pump(client, conn);
    if (!conn->is_ready && client_is_free(conn)) {
        conn->is_ready = true;
        u_list_push_back(&client->ready, &conn->ready_link);
    }
    return 0;
}

int client_replied(struct client *client, struct conn *conn, const uint8_t *data, uint32_t len)
{
    if (session_feed(&conn->session, data, len) == 0)
        return 0;
    return client_fail(client, "%s", client->talk.error);
}

/* ---- the loop ---------------------------------------------------------------------------- */

static uint64_t in_flight(const struct client *client)
{
    return client->begun - (client->talk.answered - client->answered);
}

/* How long the next turn may wait. */
static uint64_t patience_us(const struct client *client)
{
    uint64_t due_ns, now_ns = client->talk.now_ns;

    if (client->plan->poll)
        return 0;
    if (client->closed || u_list_is_empty(&client->ready) || !client->giving)
        return CLIENT_SLEEP_US_MAX;
    due_ns = load_arrivals_due_ns(&client->arrivals);
    if (due_ns < now_ns + NEAR_NS)
        return 0;
    return u_min64((due_ns - now_ns - NEAR_NS) / 1000 + 1, CLIENT_SLEEP_US_MAX);
}

static void sleep_until(uint64_t at_ns)
{
    struct timespec at = {.tv_sec = (time_t)(at_ns / 1000000000),
                          .tv_nsec = (long)(at_ns % 1000000000)};

    (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

/*
 * How many requests to choose at a time: many are cheaper, but what is chosen and not begun is lost
 * to a trace or to the keys that are to be stored, and keys that miss are stored first.
 */
static uint32_t draw_max(const struct client *client)
{
    const struct plan *plan = client->plan;
    bool mixed = client->phase.kind == PHASE_LOAD && !plan->replaying && plan->mix.multi == 1;

    return mixed && !plan->fill ? CLIENT_DRAWN_MAX : 1;
}

static void start(struct client *client)
{
    const struct phase *phase = &client->phase;
    struct talk *talk = &client->talk;
    unsigned i;

    while (client_clock_ns() < phase->start_ns)
        sleep_until(phase->start_ns);
    memset(&talk->tally, 0, sizeof(talk->tally));
    load_histogram_clear(talk->latency);
    talk->now_ns = client_clock_ns();
    talk->record_from_ns = phase->start_ns + phase->record_ns;
    client->begun = 0;
    client->answered = talk->answered;
    client->heard = 0;
    client->heard_ns = talk->now_ns;
    client->was_quiet = false;
    client->giving = true;
    client->closed = phase->per_second <= 0;
    client->draw_max = draw_max(client);
    client->drawn_at = client->drawn_count = 0;
    u_list_init(&client->ready);
    if (phase->kind == PHASE_STORE)
        source_store(&client->source, phase->from, phase->to);
    else if (phase->kind == PHASE_ASK)
        source_ask(&client->source, client->number == 0);
    else
        source_mix(&client->source, phase->seed);
    if (!client->closed)
        load_arrivals_start(&client->arrivals, client->plan->arrivals, phase->per_second,
                            phase->start_ns, ~phase->seed);
    for (i = 0; i < client->count; i++) {
        client->conns[i].is_ready = false;
        client->conns[i].allowance = client->conns[i].is_open ? allowance(client) : 0;
        client->conns[i].session.depth =
            phase->kind == PHASE_STORE ? STORE_DEPTH : client->plan->depth;
    }
}

static int check_silence(struct client *client)
{
    uint64_t heard = client->talk.tally.bytes_in;
    uint64_t silent_ns;

    if (heard != client->heard || client->was_quiet)
        client->heard_ns = client->talk.now_ns;
    client->heard = heard;
    client->was_quiet = in_flight(client) == 0;
    silent_ns = client->talk.now_ns - client->heard_ns;
    if (client->was_quiet || silent_ns < client->plan->timeout_ns)
        return 0;
    return client_fail(client, "%s has not answered for %.1f s (%llu requests are in flight)",
                       client->plan->server_text, (double)silent_ns / 1e9,
                       (unsigned long long)in_flight(client));
}

static int one_turn(struct client *client)
{
    const struct phase *phase = &client->phase;

    if (client->ops->turn(client, patience_us(client)) < 0)
        return -1;
    if (atomic_load_explicit(&client->gang->stop, memory_order_relaxed) ||
        (phase->duration_ns > 0 && client->talk.now_ns >= phase->start_ns + phase->duration_ns))
        stop_giving(client);
    if (!client->closed && dispatch(client) < 0)
        return -1;
    if (client->ops->flush(client) < 0)
        return -1;
    atomic_store_explicit(&client->shown, client->talk.tally.requests, memory_order_relaxed);
    return check_silence(client);
}

static bool is_broken(const struct client *client)
{
    return atomic_load_explicit(&client->gang->broken, memory_order_relaxed);
}

static int work(struct client *client)
{
    unsigned i;
    int rc = 0;

    start(client);
    for (i = 0; i < client->count && rc == 0; i++)
        rc = client_settle(client, &client->conns[i]);
    if (rc == 0)
        rc = client->ops->flush(client);
    while (rc == 0 && (client->giving || in_flight(client) > 0) && !is_broken(client))
        rc = one_turn(client);
    client->end_ns = client->talk.now_ns;
    return rc;
}

/* Several threads with one device: what others wait for may come through this thread's queue. */
static int attend(struct client *client)
{
    int rc = 0;

    while (rc == 0 && atomic_load(&client->gang->busy) > 0 && !is_broken(client)) {
        rc = client->ops->turn(client, client->plan->poll ? 0 : ATTEND_US);
        if (rc == 0)
            rc = client->ops->flush(client);
    }
    return rc;
}

int client_run(struct client *client)
{
    int rc = client->phase.kind == PHASE_CONNECT ? client->ops->connect(client) : work(client);

    if (rc < 0)
        atomic_store(&client->gang->broken, true);
    atomic_fetch_sub(&client->gang->busy, 1);
    if (rc == 0 && client->ops == &client_stack_ops && client->plan->threads > 1)
        rc = attend(client);
    return rc;
}

/* ---- open and close ---------------------------------------------------------------------- */

static int open_sessions(struct client *client)
{
    uint32_t depth = client->plan->depth > STORE_DEPTH ? client->plan->depth : STORE_DEPTH;
    unsigned i;

    client->conns = calloc(client->count, sizeof(client->conns[0]));
    client->talk.latency = malloc(sizeof(*client->talk.latency));
    if (!client->conns || !client->talk.latency)
        return client_fail(client, "no memory for the connections");
    for (i = 0; i < client->count; i++) {
        client->conns[i].client = client;
        client->conns[i].fd = -1;
        client->conns[i].server = &client->plan->servers[i % client->plan->server_count];
        if (session_open(&client->conns[i].session, &client->talk, depth, client->plan->mix.multi) <
            0)
            return client_fail(client, "no memory for the connections");
    }
    return 0;
}

int client_open(struct client *client, const struct plan *plan, unsigned count, struct nic *nic)
{
    client->ops = nic ? &client_stack_ops : &client_sock_ops;
    client->plan = plan;
    client->count = count;
    client->epoll_fd = -1;
    client->talk.forms = &plan->forms;
    client->talk.keys = &plan->keys;
    client->talk.verify = plan->verify;
    client->talk.fill = plan->fill;
    source_init(&client->source, &plan->mix, &plan->popularity, plan->keys.count);
    if (plan->replaying)
        source_replay(&client->source, &plan->replay, client->number, plan->threads,
                      plan->replay_again);
    u_list_init(&client->ready);
    u_list_init(&client->reopens);
    if (open_sessions(client) < 0) {
        if (nic)
            nic_close(nic);
        return -1;
    }
    return client->ops->open(client, nic);
}

void client_close(struct client *client)
{
    unsigned i;

    if (!client->ops)
        return;
    client->ops->close(client);
    for (i = 0; client->conns && i < client->count; i++) {
        session_close(&client->conns[i].session);
        free(client->conns[i].unsent);
    }
    free(client->conns);
    free(client->talk.latency);
}
