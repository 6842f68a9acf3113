/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of this component share: the cache, its workers, and the counters.
 *
 * Each counter has one writer, its worker, with relaxed loads and stores; any thread may read it
 * for statistics. A get or a store takes no lock and writes no memory that another worker writes,
 * apart from the engine's table.
 */
#ifndef CACHE_CACHE_WORKER_H
#define CACHE_CACHE_WORKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"
#include "base/list.h"
#include "base/prng.h"
#include "cache/cache.h"
#include "mcproto/mcproto.h"

#define CACHE_WATCHERS_MAX 20

struct cache_acl;
struct cache_cluster;
struct cache_hot_keys;
struct cache_linebuf;
struct cache_prefixes;
struct cache_session_slab;
struct cache_watcher;

#define CACHE_AUTH_USERS_MAX 1024
#define CACHE_AUTH_LINE_MAX 255 /* without its end */

/* In the order of `stats`, where they are compat. */
enum cache_counter {
    CACHE_TOTAL_CONNECTIONS = 0,
    CACHE_REJECTED_CONNECTIONS,
    CACHE_READ_BUF_OOM,
    CACHE_CMD_GET, /* follows from hits and misses */
    CACHE_CMD_SET,
    CACHE_CMD_FLUSH,
    CACHE_CMD_TOUCH,
    CACHE_CMD_META,
    CACHE_GET_HITS, /* the sum of CACHE_CLASS_GET_HITS */
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
    CACHE_ACL_REFUSALS,
    CACHE_BYTES_READ,
    CACHE_BYTES_WRITTEN,
    CACHE_IDLE_KICKS,
    CACHE_LISTEN_DISABLED_NUM,
    CACHE_LISTEN_DISABLED_US,
    CACHE_CONN_YIELDS,
    CACHE_CRAWLER_STARTS,
    CACHE_MALLOC_FAILS,
    CACHE_LOG_WORKER_DROPPED,
    CACHE_LOG_WORKER_WRITTEN,
    CACHE_LOG_WATCHER_SKIPPED,
    CACHE_LOG_WATCHER_SENT,
    CACHE_SSL_NEW_SESSIONS,
    CACHE_SSL_HANDSHAKE_ERRORS,
    CACHE_SSL_PROTO_ERRORS,
    CACHE_UPLOADS_REFUSED, /* these are shown by `stats kv` */
    CACHE_UPLOADS_TIMED_OUT,
    CACHE_UPLOADS_EVICTED,
    CACHE_COUNTER_COUNT
};

/* Counters by memcached's slab class (slab_class.h). */
enum cache_class_counter {
    CACHE_CLASS_GET_HITS = 0,
    CACHE_CLASS_CMD_SET,
    CACHE_CLASS_DELETE_HITS,
    CACHE_CLASS_INCR_HITS,
    CACHE_CLASS_DECR_HITS,
    CACHE_CLASS_CAS_HITS,
    CACHE_CLASS_CAS_BADVAL,
    CACHE_CLASS_TOUCH_HITS,
    CACHE_CLASS_COUNTER_COUNT
};

/* What an operation on a key has come to. */
enum cache_outcome {
    CACHE_OK = 0, /* found, stored, deleted, changed */
    CACHE_NOT_FOUND,
    CACHE_EXISTS, /* the cas does not match */
    CACHE_NOT_STORED,
    CACHE_NON_NUMERIC,
    CACHE_TOO_LARGE,
    CACHE_NO_MEMORY
};

/* Sums of all counters, or one worker's share of them. */
struct cache_sums {
    uint64_t counters[CACHE_COUNTER_COUNT];
    uint64_t classes[KV_CLASSES_MAX][CACHE_CLASS_COUNTER_COUNT]; /* class 1 is the first */
};

/* The histogram of one class (latency.h), which its worker counts. */
struct cache_latency_counts {
    _Atomic uint64_t slots[CACHE_LATENCY_SLOTS];
};

/* The crawl that a worker runs (op.h). */
struct cache_crawl {
    bool running;
    struct kv_cursor cursor;
    uint64_t classes; /* bits of the engine's classes */
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
    struct cache_auth_user users[];
};

struct cache {
    struct kv *kv;
    struct cache_settings settings;
    struct kv_sizes sizes; /* memcached's slab classes */
    uint64_t start_us;
    uint64_t start_unix_s;
    uint32_t start_unix_us;
    uint32_t clock_start_s;      /* the clock at the start: CACHE_CLOCK_START_S or restored */
    atomic_uint clock_version;   /* counts the changes that debugtime has made */
    atomic_uint clock_stopped_s; /* its time while stopped; 0: it runs */
    _Atomic int64_t clock_moved_s;
    struct cache_prefixes *prefixes;
    void (*shutdown)(void *ctx, bool graceful);
    void *shutdown_ctx;
    int (*refresh_certs)(void *ctx, char error[CACHE_ERROR_MAX]);
    void *refresh_certs_ctx;
    _Atomic uint64_t certs_read_us;        /* when they were read, on the clock of cache_tick() */
    void (*log)(const char *line);         /* or null */
    void (*log_refusal)(const char *line); /* likewise */
    _Atomic uint64_t event_count;          /* events published to watchers */
    atomic_uint event_mask_version;        /* counts changes of the masks (event_log.h) */
    atomic_bool crawling;                  /* a worker runs a crawl */
    atomic_uint verbosity;
    atomic_uint connections;    /* open sessions of all workers */
    atomic_uint accept_stopped; /* workers that accept no more connections for now */

    /* The delayed flush that is pending (0: none), and the second that it has taken effect in. */
    atomic_uint flush_due_s;
    atomic_uint flush_second_s;

    pthread_mutex_t auth_lock;
    struct cache_auth *auth; /* or null */
    struct cache_acl *acl;   /* acl.h, or null */
    char sasl_host[65];      /* realm of names without one (-S) */

    pthread_mutex_t cluster_lock;
    struct cache_cluster *cluster; /* null without settings.cluster_file */

    /* Of unfinished uploads (upload.h). */
    _Atomic uint64_t upload_item_bytes;
    _Atomic uint64_t upload_staged_bytes;

    _Atomic uint64_t text_bytes; /* replies that wait for their clients (textbuf.h) */

    /* Guards what follows: joining, leaving and statistics. */
    pthread_mutex_t lock;
    struct cache_sums left; /* counted by workers that have left */
    struct cache_sums base; /* the sums at the last `stats reset` */
    struct cache_latency_counts latency_left[CACHE_LATENCY_CLASSES];
    struct cache_latency latency_base[CACHE_LATENCY_CLASSES];
    struct cache_watcher *watchers[CACHE_WATCHERS_MAX];
    struct cache_provider providers[CACHE_STATS_PROVIDER_MAX];
    unsigned provider_count;
    struct cache_peer listeners[CACHE_LISTENERS_MAX];
    unsigned listener_count;
    struct cache_worker *workers[]; /* settings.threads places, null where free */
};

/* So many loops after the last long value the next one is expected no more. */
#define CACHE_LONG_VALUE_LOOPS 256

#define CACHE_PENDING_MAX 32

/* An item that a reply has shown (pending_items.h). */
struct cache_pending_item {
    const struct kv_item *item;
    uint32_t input; /* worker->input, when it did */
};

struct cache_worker {
    struct cache *cache;
    struct kv *kv;
    struct kv_worker *kv_worker;
    uint64_t now_us;          /* monotonic time of the last cache_tick() */
    uint64_t next_second_us;  /* the time at which now_s changes */
    uint32_t now_s;           /* the engine's clock, see clock.h */
    unsigned clock_version;   /* cache->clock_version, as last seen */
    uint32_t flush_second_s;  /* copy of the cache's */
    uint32_t loop;            /* counts cache_tick(); a prefetch hint is valid for one loop */
    uint32_t long_value_loop; /* the last loop in which a long value was answered */
    unsigned index;
    uint32_t requests_per_event; /* of the settings; no limit is the largest number */

    /* Requests since the last cache_latency_record(), and the classes that have any (latency.h). */
    uint32_t latency_classes;
    uint32_t latency_pending[CACHE_LATENCY_CLASSES];
    struct cache_latency_counts *latency; /* CACHE_LATENCY_CLASSES of them */

    /* Sampling of keys (hot_keys.h): requests until the next sample, and whether it is due. */
    int64_t hot_left;
    bool hot_is_due;
    struct u_prng hot_prng;
    struct cache_hot_keys *hot;

    uint32_t input; /* counts cache_session_input(), mn and noop (pending_items.h) */
    struct cache_pending_item pending[CACHE_PENDING_MAX];

    const struct cache_session *current; /* the session of the running call, or null */
    uint64_t written_before;             /* CACHE_BYTES_WRITTEN at the start of its input */

    unsigned event_mask;         /* enum cache_log_kind */
    unsigned event_mask_version; /* cache->event_mask_version of event_mask */
    struct cache_acl *acl;       /* a reference to the cache's, or null */
    unsigned watching;           /* sessions that are watchers */
    struct cache_watcher *watchers[CACHE_WATCHERS_MAX];
    struct cache_crawl crawl;

    struct cache_linebuf *free_linebufs;
    unsigned free_linebuf_count;
    uint64_t line_bytes; /* capacity of all line buffers, free ones included */

    struct u_list uploads; /* unfinished ones (upload.h) */
    _Atomic uint64_t uploads_open;

    struct u_list eager; /* sessions to be resumed soon (task.h) */
    uint32_t resumable_count;

    pthread_mutex_t session_lock; /* guards session structs against `stats conns` */
    struct cache_session_slab *slabs;
    struct cache_session *free_sessions;
    uint32_t session_count; /* structs that exist, open or free */

    _Alignas(U_CACHE_LINE_BYTES) _Atomic uint64_t counters[CACHE_COUNTER_COUNT];
    _Alignas(
        U_CACHE_LINE_BYTES) _Atomic uint64_t classes[KV_CLASSES_MAX][CACHE_CLASS_COUNTER_COUNT];

    /* Hits without flags that are not counted there yet, by the bytes of key and value. */
    _Atomic uint64_t inline_len_hits[KV_KEY_MAX + KV_SHORT_MAX + 1];
};

/* Adds to a counter that only this thread writes. */
static inline void cache_add(_Atomic uint64_t *at, uint64_t n)
{
    atomic_store_explicit(at, atomic_load_explicit(at, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

static inline uint64_t cache_counter(const struct cache_worker *worker, enum cache_counter counter)
{
    return atomic_load_explicit(&worker->counters[counter], memory_order_relaxed);
}

static inline void cache_count(struct cache_worker *worker, enum cache_counter counter, uint64_t n)
{
    cache_add(&worker->counters[counter], n);
}

/* Counts once for the class of an item; value_len counts the CRLF. */
static inline void cache_count_class(struct cache_worker *worker, enum cache_class_counter counter,
                                     uint32_t key_len, uint32_t flags, uint32_t value_len)
{
    const struct kv_sizes *sizes = &worker->cache->sizes;
    uint64_t bytes = kv_sizes_of(sizes, key_len, flags, value_len);

    cache_add(&worker->classes[kv_sizes_class(sizes, bytes)][counter], 1);
}

/* Counts a hit of an item without flags whose value is short; its class follows. */
static inline void cache_count_inline_hit(struct cache_worker *worker, uint32_t key_value_bytes)
{
    cache_add(&worker->inline_len_hits[key_value_bytes], 1);
}

/* A value that is not short, counted without its CRLF, is about to be answered. */
static inline void cache_mark_long_value(struct cache_worker *worker)
{
    worker->long_value_loop = worker->loop;
}

/*
 * Adds all workers' counters into sums, less what they were at the last reset. The caller holds
 * cache->lock.
 */
void cache_counters_sum(const struct cache *cache, struct cache_sums *sums);

/* Makes the counters, the engine's included, start from zero again. */
void cache_counters_reset(struct cache *cache);

#endif
