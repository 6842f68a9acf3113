/* SPDX-License-Identifier: BSD-3-Clause */
/* Watchers: registration, the references of the workers, the stream, the command. */
#include "cache/watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/exec.h"
#include "cache/sink_reply.h"
#include "cache/task.h"

/* Lines written per step. */
#define LINES_PER_STEP 512

struct cache_watcher {
    struct cache_task task;
    struct cache *cache;
    unsigned kinds; /* CACHE_LOG_ bits */
    unsigned users; /* references: session and workers; under cache->lock */
    unsigned ring_count;
    struct cache_watch_ring rings[]; /* by worker */
};

/* ---- registration ------------------------------------------------------------------------ */

static void watcher_free(struct cache_watcher *watcher)
{
    for (unsigned i = 0; i < watcher->ring_count; i++)
        cache_watch_ring_free(&watcher->rings[i]);
    free(watcher);
}

/* The caller holds cache->lock. */
static void watcher_unref(struct cache_watcher *watcher)
{
    if (--watcher->users == 0)
        watcher_free(watcher);
}

static struct cache_watcher *watcher_new(struct cache *cache, unsigned kinds)
{
    unsigned count = cache->settings.threads;
    size_t bytes = sizeof(struct cache_watcher) + count * sizeof(struct cache_watch_ring);
    struct cache_watcher *watcher =
        aligned_alloc(_Alignof(struct cache_watch_ring), (bytes + 63) / 64 * 64);

    if (watcher == NULL)
        return NULL;
    memset(watcher, 0, sizeof(*watcher));
    watcher->cache = cache;
    watcher->kinds = kinds;
    watcher->users = 1;
    while (watcher->ring_count < count) {
        if (!cache_watch_ring_init(&watcher->rings[watcher->ring_count],
                                   cache->settings.compat.worker_logbuf_bytes)) {
            watcher_free(watcher);
            return NULL;
        }
        watcher->ring_count++;
    }
    return watcher;
}

/* False if there are CACHE_WATCHERS_MAX. */
static bool watcher_register(struct cache *cache, struct cache_watcher *watcher)
{
    bool registered = false;

    pthread_mutex_lock(&cache->lock);
    for (unsigned i = 0; i < CACHE_WATCHERS_MAX && !registered; i++) {
        if (cache->watchers[i] == NULL) {
            cache->watchers[i] = watcher;
            registered = true;
        }
    }
    pthread_mutex_unlock(&cache->lock);
    return registered;
}

static void watcher_drop(struct cache_task *task, struct cache_session *session)
{
    struct cache_watcher *watcher = (struct cache_watcher *)task;
    struct cache *cache = watcher->cache;

    session->worker->watching--;
    pthread_mutex_lock(&cache->lock);
    for (unsigned i = 0; i < CACHE_WATCHERS_MAX; i++)
        if (cache->watchers[i] == watcher)
            cache->watchers[i] = NULL;
    watcher_unref(watcher);
    pthread_mutex_unlock(&cache->lock);
    cache_log_mask_changed(session->worker);
}

unsigned cache_watcher_count(const struct cache *cache)
{
    unsigned count = 0;

    for (unsigned i = 0; i < CACHE_WATCHERS_MAX; i++)
        count += cache->watchers[i] != NULL;
    return count;
}

/* ---- the workers' references ------------------------------------------------------------- */

unsigned cache_watch_update_refs(struct cache_worker *worker)
{
    struct cache *cache = worker->cache;
    unsigned kinds = 0;

    pthread_mutex_lock(&cache->lock);
    for (unsigned i = 0; i < CACHE_WATCHERS_MAX; i++) {
        struct cache_watcher *watcher = cache->watchers[i];

        if (watcher != NULL)
            watcher->users++;
        if (worker->watchers[i] != NULL)
            watcher_unref(worker->watchers[i]);
        worker->watchers[i] = watcher;
        kinds |= watcher != NULL ? watcher->kinds : 0;
    }
    pthread_mutex_unlock(&cache->lock);
    return kinds;
}

void cache_watch_leave(struct cache_worker *worker)
{
    pthread_mutex_lock(&worker->cache->lock);
    for (unsigned i = 0; i < CACHE_WATCHERS_MAX; i++) {
        if (worker->watchers[i] != NULL)
            watcher_unref(worker->watchers[i]);
        worker->watchers[i] = NULL;
    }
    pthread_mutex_unlock(&worker->cache->lock);
}

void cache_watch_publish(struct cache_worker *worker, unsigned kind, struct cache_event *event)
{
    struct cache *cache = worker->cache;

    event->id = atomic_fetch_add_explicit(&cache->event_count, 1, memory_order_relaxed) + 1;
    event->unix_us =
        cache->start_unix_s * 1000000 + cache->start_unix_us + (worker->now_us - cache->start_us);
    for (unsigned i = 0; i < CACHE_WATCHERS_MAX; i++) {
        struct cache_watcher *watcher = worker->watchers[i];

        if (watcher == NULL || (watcher->kinds & kind) == 0)
            continue;
        if (cache_watch_ring_put(&watcher->rings[worker->index], event))
            cache_count(worker, CACHE_LOG_WORKER_WRITTEN, 1);
        else
            cache_count(worker, CACHE_LOG_WORKER_DROPPED, 1);
    }
}

/* ---- the stream -------------------------------------------------------------------------- */

/* The ring with the oldest event; null if all are empty. */
static struct cache_watch_ring *oldest_ring(struct cache_watcher *watcher)
{
    struct cache_watch_ring *oldest = NULL;
    uint64_t oldest_id = UINT64_MAX;

    for (unsigned i = 0; i < watcher->ring_count; i++) {
        uint64_t id = cache_watch_ring_next(&watcher->rings[i]);

        if (id < oldest_id) {
            oldest = &watcher->rings[i];
            oldest_id = id;
        }
    }
    return oldest;
}

static int line_write(struct cache_worker *worker, struct cache_watch_ring *ring,
                      struct cache_sink *sink)
{
    struct cache_event event;

    if (cache_reply_room(sink, CACHE_WATCH_LINE_MAX) != 0)
        return -1;
    cache_watch_ring_take(ring, &event);
    cache_reply_take(worker, sink, cache_watch_line(sink->at, &event));
    cache_count(worker, CACHE_LOG_WATCHER_SENT, 1);
    return 0;
}

/* Reports how many events were dropped, if any. */
static int skipped_write(struct cache_watcher *watcher, struct cache_worker *worker,
                         struct cache_sink *sink)
{
    char line[40];
    uint64_t skipped = 0;
    int n;

    for (unsigned i = 0; i < watcher->ring_count; i++)
        skipped += cache_watch_ring_dropped(&watcher->rings[i]);
    if (skipped == 0)
        return 0;
    cache_count(worker, CACHE_LOG_WATCHER_SKIPPED, skipped);
    n = snprintf(line, sizeof(line), "skipped=%llu\n", (unsigned long long)skipped);
    return cache_reply_bytes(worker, sink, line, (uint32_t)n);
}

static enum cache_progress watcher_step(struct cache_task *task, struct cache_session *session,
                                        struct cache_sink *sink)
{
    struct cache_watcher *watcher = (struct cache_watcher *)task;
    struct cache_worker *worker = session->worker;

    if (sink->full)
        return CACHE_INTERRUPTED;
    for (unsigned lines = 0; lines < LINES_PER_STEP && !sink->full; lines++) {
        struct cache_watch_ring *ring = oldest_ring(watcher);

        if (ring == NULL)
            break;
        if (line_write(worker, ring, sink) != 0)
            return CACHE_FAILED;
    }
    return skipped_write(watcher, worker, sink) == 0 ? CACHE_INTERRUPTED : CACHE_FAILED;
}

static const struct cache_task_ops watcher_ops = {
    .step = watcher_step, .drop = watcher_drop, .listens = true};

/* ---- the command ------------------------------------------------------------------------- */

static const struct {
    const char *name;
    unsigned kind; /* 0: accepted, but there are no such events */
} kind_names[] = {
    {"fetchers", CACHE_LOG_FETCHERS},
    {"mutations", CACHE_LOG_MUTATIONS},
    {"evictions", CACHE_LOG_EVICTIONS},
    {"connevents", CACHE_LOG_CONNEVENTS},
    {"deletions", CACHE_LOG_DELETIONS},
    {"sysevents", 0},
    {"rawcmds", 0},
    {"proxyreqs", 0},
    {"proxyevents", 0},
    {"proxyuser", 0},
};

/* The kind of a name; -1 if there is none. */
static int kind_of(const uint8_t *name, uint32_t len)
{
    for (unsigned i = 0; i < U_ARRAY_LEN(kind_names); i++)
        if (mc_token_is(name, len, kind_names[i].name))
            return (int)kind_names[i].kind;
    return -1;
}

/* The kinds of the request; -1 if a word is no kind. */
static int kinds_parse(const struct mc_request *request)
{
    const uint8_t *at = request->args;
    const uint8_t *end = at + request->args_len;
    const uint8_t *word;
    u_u32 len;
    int kinds = 0;

    if (request->args_len == 0)
        return CACHE_LOG_FETCHERS;
    while (mc_token_next(&at, end, &word, &len)) {
        int kind = kind_of(word, len);

        if (kind < 0)
            return -1;
        kinds |= kind;
    }
    return kinds;
}

static enum mc_status watch_refusal(const struct cache_session *session)
{
    if (session->worker->cache->settings.watch_disabled)
        return MC_STATUS_WATCH_NOT_ALLOWED;
    if (!session->counted)
        return MC_STATUS_WATCHER_FAILED; /* a datagram is answered once */
    return cache_session_has_replied(session) ? MC_STATUS_WATCH_PIPELINED : MC_STATUS_OK;
}

int cache_exec_watch(struct cache_session *session, const struct mc_request *request,
                     struct cache_sink *sink)
{
    struct cache_worker *worker = session->worker;
    enum mc_status status = watch_refusal(session);
    int kinds = kinds_parse(request);
    struct cache_watcher *watcher;

    if (status == MC_STATUS_OK && kinds < 0)
        status = MC_STATUS_ERROR;
    if (status != MC_STATUS_OK)
        return cache_reply_status(worker, sink, status);
    watcher = watcher_new(worker->cache, (unsigned)kinds);
    if (watcher == NULL)
        return cache_reply_status(worker, sink, MC_STATUS_WATCHER_FAILED);
    if (!watcher_register(worker->cache, watcher)) {
        watcher_free(watcher);
        return cache_reply_status(worker, sink, MC_STATUS_WATCHER_TOO_MANY);
    }
    watcher->task.ops = &watcher_ops;
    worker->watching++;
    cache_log_mask_changed(worker);
    if (cache_reply_status(worker, sink, MC_STATUS_OK) != 0) {
        watcher_drop(&watcher->task, session);
        return -1;
    }
    return cache_task_start(session, &watcher->task, sink);
}
