/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of this piece share: the cache, its workers, and the counters.
 *
 * A counter is written by one worker only, with relaxed loads and stores, and read by whoever asks
 * for statistics. Nothing that serves an ordinary request takes a lock or writes memory that
 * another worker writes, apart from the engine's own table.
 */
#ifndef CACHE_WORKER_H
#define CACHE_WORKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cache/cache.h"

struct cache_line;
struct cache_slab;

#define CACHE_AUTH_USERS_MAX 8
#define CACHE_AUTH_LINE_MAX 255 /* without its end */

/* In the order of `stats`, where they are shown. */
enum cache_counter {
    CACHE_TOTAL_CONNECTIONS = 0,
    CACHE_REJECTED_CONNECTIONS,
    CACHE_CMD_GET,
    CACHE_CMD_SET,
    CACHE_CMD_FLUSH,
    CACHE_CMD_TOUCH,
    CACHE_CMD_META,
    CACHE_GET_HITS,
    CACHE_GET_MISSES,
    CACHE_GET_EXPIRED,
    CACHE_GET_FLUSHED,
    CACHE_DELETE_MISSES,
    CACHE_DELETE_HITS,
    CACHE_INCR_MISSES,
    CACHE_INCR_HITS,
    CACHE_DECR_MISSES,
    CACHE_DECR_HITS,
    CACHE_CAS_MISSES,
    CACHE_CAS_HITS,
    CACHE_CAS_BADVAL,
    CACHE_TOUCH_HITS,
    CACHE_TOUCH_MISSES,
    CACHE_STORE_TOO_LARGE,
    CACHE_STORE_NO_MEMORY,
    CACHE_AUTH_CMDS,
    CACHE_AUTH_ERRORS,
    CACHE_BYTES_READ,
    CACHE_BYTES_WRITTEN,
    CACHE_IDLE_KICKS,
    CACHE_LISTEN_DISABLED_NUM,
    CACHE_LISTEN_DISABLED_US,
    CACHE_CONN_YIELDS,
    CACHE_MALLOC_FAILS,
    CACHE_COUNTER_COUNT
};

struct cache_provider {
    const char *name;
    cache_stats_fill *fill;
    void *ctx;
};

/* A line of the file of -Y, "user:password". */
struct cache_auth_user {
    char text[CACHE_AUTH_LINE_MAX];
    uint32_t name_len;
    uint32_t password_len;
};

struct cache_auth {
    unsigned count;
    struct cache_auth_user users[CACHE_AUTH_USERS_MAX];
};

struct cache {
    struct kv *kv;
    struct cache_settings settings;
    uint64_t start_us;
    uint64_t start_unix_s;
    atomic_uint verbosity;
    atomic_uint connections;    /* open sessions of all workers */
    atomic_uint accept_stopped; /* workers that accept no more connections for now */

    /* The delayed flush that is pending (0: none), and the second that it has taken effect in. */
    atomic_uint flush_due_s;
    atomic_uint flush_second_s;

    pthread_mutex_t auth_lock;
    struct cache_auth auth;

    /* Guards what follows: joining, leaving and statistics. */
    pthread_mutex_t lock;
    uint64_t left[CACHE_COUNTER_COUNT]; /* counted by workers that have left */
    uint64_t base[CACHE_COUNTER_COUNT]; /* the sums at the last `stats reset` */
    struct cache_provider providers[CACHE_STATS_PROVIDER_MAX];
    unsigned provider_count;
    struct cache_worker *workers[]; /* settings.threads places, null where free */
};

struct cache_worker {
    struct cache *cache;
    struct kv *kv;
    struct kv_worker *kv_worker;
    uint64_t next_second_us; /* monotonic time at which now_s changes */
    uint32_t now_s;          /* the engine's clock, see clock.h */
    uint32_t flush_second_s; /* copy of the cache's */
    uint32_t loop;           /* counts cache_tick(): a prefetch hint is good for one loop */
    unsigned index;
    uint32_t requests_per_event; /* of the settings; no limit is the largest number */

    struct cache_line *free_lines;
    unsigned free_line_count;

    pthread_mutex_t session_lock; /* sessions coming and going, against `stats conns` */
    struct cache_slab *slabs;
    struct cache_session *free_sessions;
    uint32_t session_count; /* structs that exist, open or free */

    _Alignas(64) _Atomic uint64_t counters[CACHE_COUNTER_COUNT];
};

static inline void cache_count(struct cache_worker *worker, enum cache_counter counter, uint64_t n)
{
    _Atomic uint64_t *at = &worker->counters[counter];

    atomic_store_explicit(at, atomic_load_explicit(at, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

/*
 * Adds all workers' counters into sums, less what they were at the last reset. The caller holds
 * cache->lock.
 */
void cache_counters_sum(const struct cache *cache, uint64_t sums[CACHE_COUNTER_COUNT]);

/* Makes the counters, the engine's included, start from zero again. */
void cache_counters_reset(struct cache *cache);

#endif
