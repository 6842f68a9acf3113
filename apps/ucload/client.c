/* SPDX-License-Identifier: BSD-3-Clause */
/* The loop of a load thread; see client.h. */
#include "client.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

/* Requests in flight per connection in PHASE_STORE. */
#define STORE_DEPTH 32

/* Longest sleep of a thread that only waits for other threads. */
#define SERVE_DEVICE_US 1000

/* Arrivals closer than this are awaited by polling: sleeps end late by about this time. */
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

/* Starts no more requests, and discards those already drawn. */
static void stop_issuing(struct client *client)
{
    client->issuing = false;
    client->drawn_at = client->drawn_count = 0;
}

/* Chooses follow-up number i. Returns its number of keys. */
static uint32_t choose_followup(struct client *client, uint32_t i)
{
    struct thread_ctx *ctx = &client->ctx;
    const struct followup *next = &ctx->followups[i];

    client->ids[0] = next->id;
    client->drawn_ops[0] = next->op;
    client->drawn_unique = next->unique;
    ctx->followups[i] = ctx->followups[--ctx->followup_count];
    return 1;
}

/* Several servers: a request for the connection's one. Returns its number of keys, or 0. */
static uint32_t choose_for(struct client *client, unsigned server)
{
    uint32_t i = client->ctx.followup_count;

    while (i-- > 0) {
        if (routing_server(&client->plan->routing, client->ctx.followups[i].id) == server)
            return choose_followup(client, i);
    }
    return source_next_for(&client->source, server, client->drawn_ops, client->ids);
}

/* Draws up to n requests of one key, or one request of several keys. Returns how many. */
static uint32_t choose(struct client *client, const struct conn *conn, uint32_t n)
{
    struct thread_ctx *ctx = &client->ctx;

    client->drawn_keys = 1;
    if (client->source.routing) {
        client->drawn_keys = choose_for(client, conn->server_index);
        return client->drawn_keys > 0;
    }
    if (ctx->followup_count > 0)
        return choose_followup(client, ctx->followup_count - 1);
    if (n > 1) {
        source_next_many(&client->source, client->drawn_ops, client->ids, n);
        return n;
    }
    client->drawn_keys = source_next(&client->source, client->drawn_ops, client->ids);
    return client->drawn_keys > 0;
}

bool client_draw(struct client *client, const struct conn *conn)
{
    uint64_t max = client->phase.requests_max;
    uint64_t n = client->draw_max;

    if (max > 0)
        n = u_min64(n, max - client->begun);
    client->drawn_at = client->drawn_count = 0;
    if (client->issuing && n > 0)
        client->drawn_count = choose(client, conn, (uint32_t)n);
    if (client->drawn_count > 0)
        return true;
    if (!client->source.routing || n == 0 || source_is_done(&client->source))
        stop_issuing(client);
    return false;
}

/* Open loop: starts due requests on the connections that have been free longest. */
static int dispatch(struct client *client)
{
    struct conn *conn;
    uint64_t due_ns;

    while (!u_list_is_empty(&client->ready)) {
        due_ns = load_arrivals_due_ns(&client->arrivals);
        if (due_ns > client->ctx.now_ns || !client->issuing)
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

/* Requests of a connection until it is reopened. */
static uint64_t allowance(const struct client *client)
{
    uint64_t reconnect = client->plan->reconnect;

    return client->phase.kind == PHASE_LOAD && reconnect > 0 ? reconnect : UINT64_MAX;
}

int client_keep_unsent(struct client *client, struct conn *conn, const uint8_t *data, uint32_t len)
{
    if (!conn->unsent)
        conn->unsent = malloc(CLIENT_UNSENT_BYTES);
    if (conn->unsent_len == 0)
        conn->unsent_at = 0;
    if (!conn->unsent || conn->unsent_at + conn->unsent_len + len > CLIENT_UNSENT_BYTES)
        return client_fail(client, "no memory for what the server does not read");
    memcpy(conn->unsent + conn->unsent_at + conn->unsent_len, data, len);
    conn->unsent_len += len;
    return 0;
}

int client_opened(struct client *client, struct conn *conn)
{
    if (client->plan->login.len > 0 && !conn->is_logging_in)
        return login_begin(client, conn);
    conn->is_logging_in = false;
    conn->is_open = true;
    client->open_count++;
    conn->allowance = allowance(client);
    if (client->phase.kind == PHASE_CONNECT)
        return 0;
    if (client->ctx.now_ns >= client->ctx.record_from_ns)
        client->ctx.tally.connects++;
    return client_settle(client, conn);
}

int client_settle(struct client *client, struct conn *conn)
{
    if (conn->allowance == 0) {
        if (!conn->is_open || pipeline_in_flight(&conn->pipeline) > 0 || !client->issuing)
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

int client_received(struct client *client, struct conn *conn, const uint8_t *data, uint32_t len)
{
    return (conn->is_open ? client_replied : login_replied)(client, conn, data, len);
}

/* ---- the loop ---------------------------------------------------------------------------- */

static uint64_t in_flight(const struct client *client)
{
    return client->begun - (client->ctx.answered - client->answered);
}

/* The maximum wait of the next turn. */
static uint64_t turn_timeout_us(const struct client *client)
{
    uint64_t due_ns, now_ns = client->ctx.now_ns;

    if (client->plan->poll)
        return 0;
    if (client->closed || u_list_is_empty(&client->ready) || !client->issuing)
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
 * The number of requests to draw at a time. Drawing many is cheaper, but drawn requests that are
 * not started would be missing from a trace or from the stored keys, requests that follow from
 * replies (--fill, cas) go first, and with several servers a request is drawn for one of them.
 */
static uint32_t draw_max(const struct client *client)
{
    const struct plan *plan = client->plan;
    bool mixed = client->phase.kind == PHASE_LOAD && !plan->replaying && plan->mix.multi == 1;

    bool follows = plan->fill || plan->mix.swaps;

    return mixed && !follows && plan->server_count == 1 ? CLIENT_DRAWN_MAX : 1;
}

static void start(struct client *client)
{
    const struct phase *phase = &client->phase;
    struct thread_ctx *ctx = &client->ctx;
    unsigned i;

    while (client_clock_ns() < phase->start_ns)
        sleep_until(phase->start_ns);
    memset(&ctx->tally, 0, sizeof(ctx->tally));
    ctx->now_ns = client_clock_ns();
    ctx->record_from_ns = phase->start_ns + phase->record_ns;
    client->begun = 0;
    client->answered = ctx->answered;
    client->received = 0;
    client->received_ns = ctx->now_ns;
    client->was_idle = false;
    client->issuing = true;
    client->closed = phase->per_second <= 0;
    client->draw_max = draw_max(client);
    client->drawn_at = client->drawn_count = 0;
    u_list_init(&client->ready);
    if (phase->kind == PHASE_STORE)
        source_store(&client->source, phase->from, phase->to);
    else if (phase->kind == PHASE_STATS)
        source_stats(&client->source, client->number == 0);
    else
        source_mix(&client->source, phase->seed);
    if (!client->closed)
        load_arrivals_start(&client->arrivals, client->plan->arrivals, phase->per_second,
                            phase->start_ns, ~phase->seed);
    for (i = 0; i < client->count; i++) {
        client->conns[i].is_ready = false;
        client->conns[i].allowance = client->conns[i].is_open ? allowance(client) : 0;
        client->conns[i].pipeline.depth =
            phase->kind == PHASE_STORE && !client->plan->udp ? STORE_DEPTH : client->plan->depth;
    }
}

static int check_silence(struct client *client)
{
    uint64_t received = client->ctx.tally.bytes_in;
    uint64_t silent_ns;

    if (received != client->received || client->was_idle)
        client->received_ns = client->ctx.now_ns;
    client->received = received;
    client->was_idle = in_flight(client) == 0;
    silent_ns = client->ctx.now_ns - client->received_ns;
    if (client->was_idle || silent_ns < client->plan->timeout_ns)
        return 0;
    return client_fail(client, "%s has not answered for %.1f s (%llu requests are in flight)",
                       client->plan->server_text, (double)silent_ns / 1e9,
                       (unsigned long long)in_flight(client));
}

/* Swaps the sets of histograms at the end of an interval, for the main thread to read. */
static void end_interval(struct client *client, unsigned tick)
{
    client->ctx.latency = client->sets[tick & 1];
    atomic_store_explicit(&client->ticked, tick, memory_order_release);
}

static int one_turn(struct client *client)
{
    const struct phase *phase = &client->phase;
    unsigned tick = atomic_load_explicit(&client->group->tick, memory_order_acquire);

    if (U_UNLIKELY(tick != atomic_load_explicit(&client->ticked, memory_order_relaxed)))
        end_interval(client, tick);
    if (client->ops->turn(client, turn_timeout_us(client)) < 0)
        return -1;
    if (atomic_load_explicit(&client->group->stop, memory_order_relaxed) ||
        (phase->duration_ns > 0 && client->ctx.now_ns >= phase->start_ns + phase->duration_ns))
        stop_issuing(client);
    if (!client->closed && dispatch(client) < 0)
        return -1;
    if (client->ops->flush(client) < 0)
        return -1;
    atomic_store_explicit(&client->shown, client->ctx.tally.requests, memory_order_relaxed);
    return check_silence(client);
}

static bool is_broken(const struct client *client)
{
    return atomic_load_explicit(&client->group->broken, memory_order_relaxed);
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
    while (rc == 0 && (client->issuing || in_flight(client) > 0) && !is_broken(client))
        rc = one_turn(client);
    client->end_ns = client->ctx.now_ns;
    for (i = 0; i < client->count && in_flight(client) > 0; i++)
        pipeline_abandon(&client->conns[i].pipeline);
    atomic_store_explicit(&client->done, true, memory_order_release);
    return rc;
}

/*
 * Keeps receiving after this thread is done: with one device for several threads, frames for other
 * threads may arrive in this thread's queue.
 */
static int serve_device(struct client *client)
{
    int rc = 0;

    while (rc == 0 && atomic_load(&client->group->busy) > 0 && !is_broken(client)) {
        rc = client->ops->turn(client, client->plan->poll ? 0 : SERVE_DEVICE_US);
        if (rc == 0)
            rc = client->ops->flush(client);
    }
    return rc;
}

int client_run(struct client *client)
{
    int rc = client->phase.kind == PHASE_CONNECT ? client->ops->connect(client) : work(client);

    if (rc < 0)
        atomic_store(&client->group->broken, true);
    atomic_fetch_sub(&client->group->busy, 1);
    if (rc == 0 && client->ops == &client_stack_ops && client->plan->threads > 1)
        rc = serve_device(client);
    return rc;
}

/* ---- open and close ---------------------------------------------------------------------- */

static int open_histograms(struct client *client)
{
    for (unsigned i = 0; i < U_ARRAY_LEN(client->sets); i++) {
        client->sets[i] = malloc(OP_COUNT * sizeof(*client->sets[i]));
        if (!client->sets[i])
            return -1;
        for (unsigned op = 0; op < OP_COUNT; op++)
            load_histogram_clear(&client->sets[i][op]);
    }
    client->ctx.latency = client->sets[0];
    return 0;
}

static int open_pipelines(struct client *client)
{
    uint32_t depth = client->plan->depth > STORE_DEPTH ? client->plan->depth : STORE_DEPTH;
    unsigned i;

    client->conns = calloc(client->count, sizeof(client->conns[0]));
    if (!client->conns || open_histograms(client) < 0)
        return client_fail(client, "no memory for the connections");
    for (i = 0; i < client->count; i++) {
        client->conns[i].client = client;
        client->conns[i].fd = -1;
        client->conns[i].server_index = i % client->plan->server_count;
        client->conns[i].server = &client->plan->servers[client->conns[i].server_index];
        if (pipeline_open(&client->conns[i].pipeline, &client->ctx, depth,
                          client->plan->mix.multi) < 0)
            return client_fail(client, "no memory for the connections");
    }
    return 0;
}

int client_open(struct client *client, const struct plan *plan, unsigned count, struct nic *nic)
{
    client->ops = nic ? &client_stack_ops : plan->udp ? &client_udp_ops : &client_sock_ops;
    client->plan = plan;
    client->count = count;
    client->epoll_fd = -1;
    client->ctx.templates = &plan->templates;
    client->ctx.keys = &plan->keys;
    client->ctx.verify = plan->verify;
    client->ctx.fill = plan->fill;
    client->ctx.grown = plan->mix.grows;
    source_init(&client->source, &plan->mix, &plan->popularity, plan->keys.count);
    if (plan->server_count > 1)
        source_route(&client->source, &plan->routing, plan->server_count);
    if (plan->replaying)
        source_replay(&client->source, &plan->replay, client->number, plan->threads,
                      plan->replay_again);
    u_list_init(&client->ready);
    u_list_init(&client->reopens);
    if (open_pipelines(client) < 0) {
        if (nic)
            nic_close(nic);
        return -1;
    }
    if (plan->tls && !(client->keys = tls_key_cache_open())) {
        if (nic)
            nic_close(nic);
        return client_fail(client, "no memory for TLS");
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
        pipeline_close(&client->conns[i].pipeline);
        free(client->conns[i].unsent);
    }
    tls_key_cache_close(client->keys);
    free(client->conns);
    for (i = 0; i < U_ARRAY_LEN(client->sets); i++)
        free(client->sets[i]);
}
