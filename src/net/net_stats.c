/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lists behind `stats ustack`, `stats nic` and `stats sock`.
 *
 * A worker's counters are atomics that any thread may read. Those of the stack and of the nic are
 * not: the worker's thread copies them before each sleep, every 0.1 s while it is busy, and when
 * it answers `stats` itself.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/log.h"
#include "net/sock_worker.h"
#include "net/split.h"
#include "net/stack_worker.h"
#include "net/tls_conn.h"

static const char *const stack_counter_names[NET_STACK_COUNTERS] = {
    [NET_STACK_LOOPS] = "loops",
    [NET_STACK_LOOPS_BUSY] = "loops_busy",
    [NET_STACK_CYCLES_BUSY] = "cycles_busy",
    [NET_STACK_SLEEPS] = "sleeps",
    [NET_STACK_MISSED_WAKEUPS] = "sleeps_overslept",
    [NET_STACK_RX_FRAMES] = "loop_rx_frames",
    [NET_STACK_TX_FRAMES] = "loop_tx_frames",
    [NET_STACK_TX_RETRIES] = "loop_tx_retries",
    [NET_STACK_TX_DROPPED_UNSENT] = "loop_tx_given_up",
    [NET_STACK_ALLOC_EMPTY] = "loop_alloc_empty",
    [NET_STACK_ACCEPTED] = "sessions_accepted",
    [NET_STACK_REJECTED] = "sessions_rejected",
    [NET_STACK_BLOCKED] = "sessions_blocked",
    [NET_STACK_RESUMED] = "sessions_resumed",
    [NET_STACK_ABORTED_FULL] = "sessions_aborted_full",
    [NET_STACK_ABORTED_KEPT] = "sessions_aborted_kept",
    [NET_STACK_ABORTED_AFTER_END] = "sessions_aborted_flood",
    [NET_STACK_REST_CLOSED] = "sessions_rest_closed",
    [NET_STACK_TAKEN_OVER] = "sessions_taken_over",
    [NET_STACK_IDLE_CLOSED] = "sessions_idle_closed",
    [NET_STACK_UDP_REQUESTS] = "udp_requests",
    [NET_STACK_UDP_MALFORMED] = "udp_malformed",
    [NET_STACK_UDP_TOO_LARGE] = "udp_too_large",
    [NET_STACK_UDP_LIMITED] = "udp_rate_limited",
    [NET_STACK_UDP_SENT] = "udp_sent",
    [NET_STACK_UDP_UNSENT] = "udp_unsent",
};

static const char *const split_counter_names[NET_SPLIT_COUNTERS] = {
    [NET_SPLIT_EVENTS] = "split_events",
    [NET_SPLIT_EVENTS_FULL] = "split_events_full",
    [NET_SPLIT_CREDIT_EXHAUSTED] = "split_held_back",
    [NET_SPLIT_LINKS_NONE] = "split_links_none",
    [NET_SPLIT_SESSION_WAKES] = "split_session_wakes",
    [NET_SPLIT_COMMANDS] = "split_commands",
    [NET_SPLIT_COMMANDS_FULL] = "split_commands_full",
    [NET_SPLIT_STACK_WAKES] = "split_stack_wakes",
};

static const char *const sock_counter_names[NET_SOCK_COUNTERS] = {
    [NET_SOCK_LOOPS] = "loops",
    [NET_SOCK_READS] = "reads",
    [NET_SOCK_WRITES] = "writes",
    [NET_SOCK_ACCEPTED] = "sessions_accepted",
    [NET_SOCK_REJECTED] = "sessions_rejected",
    [NET_SOCK_BLOCKED] = "sessions_blocked",
    [NET_SOCK_ABORTED] = "sessions_aborted",
    [NET_SOCK_ACCEPT_PAUSES] = "accept_pauses",
    [NET_SOCK_IDLE_CLOSED] = "sessions_idle_closed",
    [NET_SOCK_REST_CLOSED] = "sessions_rest_closed",
    [NET_SOCK_TAKEN_OVER] = "sessions_taken_over",
    [NET_SOCK_UDP_REQUESTS] = "udp_requests",
    [NET_SOCK_UDP_MALFORMED] = "udp_malformed",
    [NET_SOCK_UDP_TOO_LARGE] = "udp_too_large",
    [NET_SOCK_UDP_LIMITED] = "udp_rate_limited",
    [NET_SOCK_UDP_SENT] = "udp_sent",
    [NET_SOCK_UDP_UNSENT] = "udp_unsent",
};

static const char *const tls_counter_names[NET_TLS_COUNTERS] = {
    [NET_TLS_CONNECTIONS] = "connections",
    [NET_TLS_HANDSHAKES] = "handshakes",
    [NET_TLS_RESUMED] = "handshakes_resumed",
    [NET_TLS_OWN_RECORDS] = "own_records",
    [NET_TLS_HANDSHAKE_WAITS] = "handshake_waits",
    [NET_TLS_HANDSHAKES_NEWEST] = "handshakes_newest_first",
    [NET_TLS_STEPS] = "handshake_steps",
    [NET_TLS_STEPS_REFUSED] = "handshakes_refused",
    [NET_TLS_STEPS_LATE] = "handshake_results_late",
    [NET_TLS_HANDSHAKE_TIMEOUTS] = "handshake_timeouts",
    [NET_TLS_TICKET_KEYS] = "ticket_keys",
    [NET_TLS_RECORDS_IN] = "records_in",
    [NET_TLS_RECORDS_OUT] = "records_out",
    [NET_TLS_INPUT_KEPT] = "input_kept",
    [NET_TLS_NO_MEMORY] = "no_memory",
    [NET_TLS_TAKEN_OVER] = "taken_over",
    [NET_TLS_TAKEOVER_CLOSED] = "takeover_closed",
};

static void emit_u64(cache_stats_emit *emit, void *emit_ctx, const char *name, uint64_t value)
{
    char text[24];

    snprintf(text, sizeof(text), "%" PRIu64, value);
    emit(emit_ctx, name, text);
}

/* ---- TLS --------------------------------------------------------------------------------- */

static void fill_tls(void *ctx, cache_stats_emit *emit, void *emit_ctx)
{
    const struct net_tls *tls;
    uint64_t sum;
    unsigned i;

    for (i = 0; i < NET_TLS_COUNTERS; i++) {
        for (sum = 0, tls = ctx; tls; tls = tls->stats_next)
            sum += net_counter_read(&tls->counters[i]);
        emit_u64(emit, emit_ctx, tls_counter_names[i], sum);
    }
}

/* Puts the TLS of one more worker, null if it has none, in front of a list. */
static struct net_tls *link_tls(struct net_tls *tls, struct net_tls *next)
{
    if (!tls)
        return next;
    tls->stats_next = next;
    return tls;
}

/* Adds `stats tls`, if there is TLS. Returns 0, or -1 if the cache takes no more lists. */
static int add_tls(struct cache *cache, struct net_tls *first)
{
    return first ? cache_stats_provider(cache, "tls", fill_tls, first) : 0;
}

/* ---- the stack and the nic --------------------------------------------------------------- */

/* The nic emits the same names in the same order each time. */
static void publish_nic(void *ctx, const char *name, uint64_t value)
{
    struct net_nic_stats *shown = ctx;

    if (shown->at < NET_NIC_STATS_MAX)
        net_counter_set(&shown->values[shown->at++], value);
}

static void name_nic(void *ctx, const char *name, uint64_t value)
{
    struct net_nic_stats *shown = ctx;

    if (shown->count < NET_NIC_STATS_MAX)
        snprintf(shown->names[shown->count++], sizeof(shown->names[0]), "%s", name);
}

void net_stack_publish(struct net_stack_worker *worker)
{
    unsigned i;

    for (i = 0; i < us_counter_count(); i++)
        net_counter_set(&worker->us_counters[i], us_counter(worker->stack, i));
    worker->published_us = worker->now_us;
    worker->unpublished = false;
    worker->nic_shown.at = 0;
    nic_stats(worker->nic, publish_nic, &worker->nic_shown);
}

static void publish_if_own(struct net_stack_worker *worker)
{
    pthread_t thread = atomic_load_explicit(&worker->thread, memory_order_relaxed);

    if (pthread_equal(pthread_self(), thread))
        net_stack_publish(worker);
}

/* The sum of both sides of a two-thread worker. */
static uint64_t stack_counter(const struct net_stack_worker *worker, unsigned counter)
{
    uint64_t value = net_counter_read(&worker->counters[counter]);

    if (worker->split)
        value += net_counter_read(&worker->split->app->counters[counter]);
    return value;
}

/* The rings between the two sides. */
static void fill_split(const struct net_stack_worker *first, cache_stats_emit *emit, void *emit_ctx)
{
    const struct net_stack_worker *worker;
    uint64_t sum;
    unsigned i;

    for (i = 0; i < NET_SPLIT_COUNTERS; i++) {
        for (sum = 0, worker = first; worker; worker = worker->next)
            sum += net_counter_read(&worker->split->counters[i]);
        emit_u64(emit, emit_ctx, split_counter_names[i], sum);
    }
}

void net_stack_fill_ustack(void *ctx, cache_stats_emit *emit, void *emit_ctx)
{
    struct net_stack_worker *first = ctx;
    struct net_stack_worker *worker;
    uint64_t sum;
    unsigned i;

    for (worker = first; worker; worker = worker->next)
        publish_if_own(worker);
    emit(emit_ctx, "threading",
         net_threading_name(first->split ? first->split->threading : NET_THREADING_UNIFIED));
    for (i = 0; i < NET_STACK_COUNTERS; i++) {
        for (sum = 0, worker = first; worker; worker = worker->next)
            sum += stack_counter(worker, i);
        emit_u64(emit, emit_ctx, stack_counter_names[i], sum);
    }
    if (first->split)
        fill_split(first, emit, emit_ctx);
    for (i = 0; i < us_counter_count(); i++) {
        for (sum = 0, worker = first; worker; worker = worker->next)
            sum += net_counter_read(&worker->us_counters[i]);
        emit_u64(emit, emit_ctx, us_counter_name(i), sum);
    }
}

/* The value that a nic shows by this name, 0 if it has none: not all have a queue of the device. */
static uint64_t shown_value(const struct net_nic_stats *shown, const char *name)
{
    unsigned i;

    for (i = 0; i < shown->count; i++) {
        if (strcmp(shown->names[i], name) == 0)
            return net_counter_read(&shown->values[i]);
    }
    return 0;
}

/* The first worker has a queue, so its nic has all the names. */
void net_stack_fill_nic(void *ctx, cache_stats_emit *emit, void *emit_ctx)
{
    struct net_stack_worker *first = ctx;
    struct net_stack_worker *worker;
    uint64_t sum;
    unsigned i;

    for (worker = first; worker; worker = worker->next)
        publish_if_own(worker);
    emit(emit_ctx, "backend", first->nic->ops->name);
    for (i = 0; i < first->nic_shown.count; i++) {
        for (sum = 0, worker = first; worker; worker = worker->next)
            sum += shown_value(&worker->nic_shown, first->nic_shown.names[i]);
        emit_u64(emit, emit_ctx, first->nic_shown.names[i], sum);
    }
    emit_u64(emit, emit_ctx, "log_lines_dropped", net_log_dropped());
}

int net_stack_stats_open(struct net_stack_worker *worker)
{
    worker->us_counters = calloc(us_counter_count(), sizeof(worker->us_counters[0]));
    if (!worker->us_counters)
        return -1;
    nic_stats(worker->nic, name_nic, &worker->nic_shown);
    return 0;
}

int net_stack_link_workers(struct cache *cache, struct net_worker *const *workers, unsigned count)
{
    struct net_stack_worker *first = (struct net_stack_worker *)workers[0];
    struct net_stack_worker *next = NULL;
    struct net_tls *tls = NULL;
    unsigned i;

    U_ASSERT(count > 0);
    for (i = count; i > 0; i--) {
        struct net_stack_worker *worker = (struct net_stack_worker *)workers[i - 1];

        worker->next = next;
        worker->first = first;
        next = worker;
        tls = link_tls((worker->split ? worker->split->app : worker)->conns.tls, tls);
    }
    if (add_tls(cache, tls) < 0)
        return -1;
    if (cache_stats_provider(cache, "ustack", net_stack_fill_ustack, first) < 0)
        return -1;
    return cache_stats_provider(cache, "nic", net_stack_fill_nic, first);
}

/* ---- kernel sockets ---------------------------------------------------------------------- */

static void fill_sock(void *ctx, cache_stats_emit *emit, void *emit_ctx)
{
    const struct net_sock_worker *worker;
    uint64_t sum;
    unsigned i;

    for (i = 0; i < NET_SOCK_COUNTERS; i++) {
        sum = 0;
        for (worker = ctx; worker; worker = worker->stats_next)
            sum += net_counter_read(&worker->counters[i]);
        emit_u64(emit, emit_ctx, sock_counter_names[i], sum);
    }
    emit_u64(emit, emit_ctx, "log_lines_dropped", net_log_dropped());
}

int net_sock_stats(struct cache *cache, struct net_worker *const *workers, unsigned count)
{
    struct net_sock_worker *next = NULL;
    struct net_tls *tls = NULL;
    unsigned i;

    for (i = count; i > 0; i--) {
        struct net_sock_worker *worker = (struct net_sock_worker *)workers[i - 1];

        worker->stats_next = next;
        next = worker;
        tls = link_tls(worker->conns.tls, tls);
    }
    if (add_tls(cache, tls) < 0)
        return -1;
    return cache_stats_provider(cache, "sock", fill_sock, next);
}
