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

/* Which request is next, in op and client->ids. Returns for how many keys; 0: there is none. */
static uint32_t next_request(struct client *client, enum op *op)
{
    struct talk *talk = &client->talk;

    if (talk->missed_count == 0)
        return source_next(&client->source, op, client->ids);
    client->ids[0] = talk->missed[--talk->missed_count];
    *op = OP_SET;
    return 1;
}

/* Whether a request may be begun on this connection. */
static bool is_free(const struct conn *conn)
{
    return conn->allowance > 0 && session_is_free(&conn->session);
}

/* Begins a request on a free connection, unless there is to be none any more. */
static bool begin(struct client *client, struct conn *conn, uint64_t at_ns)
{
    enum op op;
    uint32_t n;

    if (client->phase.requests_max > 0 && client->begun == client->phase.requests_max)
        client->giving = false;
    if (!client->giving)
        return false;
    n = next_request(client, &op);
    if (n == 0) {
        client->giving = false;
        return false;
    }
    if (client->begun == client->talk.answered - client->answered)
        client->heard_ns = client->talk.now_ns;
    client->begun++;
    conn->allowance--;
    session_begin(&conn->session, op, client->ids, n, at_ns);
    return true;
}

bool client_next(struct client *client, struct conn *conn)
{
    return client->phase.per_second <= 0 && is_free(conn) &&
           begin(client, conn, client->talk.now_ns);
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
        if (!begin(client, conn, due_ns))
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
    if (client->phase.per_second <= 0)
        return client->ops->pump(client, conn);
    if (!conn->is_ready && is_free(conn)) {
        conn->is_ready = true;
        u_list_push_back(&client->ready, &conn->ready_link);
    }
    return 0;
}

int client_replied(struct client *client, struct conn *conn, const uint8_t *data, uint32_t len)
{
    client->heard_ns = client->talk.now_ns;
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
    if (client->phase.per_second <= 0 || u_list_is_empty(&client->ready) || !client->giving)
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
    client->heard_ns = talk->now_ns;
    client->giving = true;
    u_list_init(&client->ready);
    if (phase->kind == PHASE_STORE)
        source_store(&client->source, phase->from, phase->to);
    else if (phase->kind == PHASE_ASK)
        source_ask(&client->source, client->number == 0);
    else
        source_mix(&client->source, phase->seed);
    if (phase->per_second > 0)
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
    uint64_t silent_ns = client->talk.now_ns - client->heard_ns;

    if (in_flight(client) == 0 || client->talk.now_ns < client->heard_ns ||
        silent_ns < client->plan->timeout_ns)
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
        client->giving = false;
    if (phase->per_second > 0 && dispatch(client) < 0)
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
