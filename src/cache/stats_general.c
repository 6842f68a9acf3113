/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The general list: memcached's names in memcached's order. What this server does not have is zero.
 */
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/base.h"
#include "cache/clock.h"
#include "cache/stats.h"

/* Values that are no counters; they follow the counters in one numbering. */
enum gauge {
    GAUGE_NONE = CACHE_COUNTER_COUNT, /* always zero */
    GAUGE_MAX_CONNECTIONS,
    GAUGE_CURR_CONNECTIONS,
    GAUGE_CONNECTION_STRUCTURES,
    GAUGE_LIMIT_MAXBYTES,
    GAUGE_ACCEPTING,
    GAUGE_THREADS,
    GAUGE_HASH_POWER,
    GAUGE_HASH_BYTES,
    GAUGE_HASH_IS_EXPANDING,
    GAUGE_BYTES,
    GAUGE_ITEMS,
    GAUGE_ITEMS_TOTAL,
    GAUGE_EXPIRED_UNFETCHED,
    GAUGE_EVICTED_UNFETCHED,
    GAUGE_EVICTIONS,
    GAUGE_RECLAIMED,
    GAUGE_EVICTED_ACTIVE,
    GAUGE_CRAWLER_RUNNING,
    GAUGE_CRAWLER_RECLAIMED,
    GAUGE_CRAWLER_CHECKED,
    GAUGE_WATCHERS,
    GAUGE_END
};

/* memcached leaves a line out where what it is about is switched off. */
enum needs {
    NEEDS_NOTHING = 0,
    NEEDS_REFUSALS, /* maxconns_fast */
    NEEDS_IDLE_TIMEOUT,
    NEEDS_REASSIGN,
    NEEDS_CRAWLER,
    NEEDS_MAINTAINER
};

struct stat_line {
    const char *name;
    unsigned value; /* enum cache_counter or enum gauge */
    enum needs needs;
};

static const struct stat_line stat_lines[] = {
    {"max_connections", GAUGE_MAX_CONNECTIONS, NEEDS_NOTHING},
    {"curr_connections", GAUGE_CURR_CONNECTIONS, NEEDS_NOTHING},
    {"total_connections", CACHE_TOTAL_CONNECTIONS, NEEDS_NOTHING},
    {"rejected_connections", CACHE_REJECTED_CONNECTIONS, NEEDS_REFUSALS},
    {"connection_structures", GAUGE_CONNECTION_STRUCTURES, NEEDS_NOTHING},
    {"response_obj_oom", GAUGE_NONE, NEEDS_NOTHING},
    {"response_obj_count", GAUGE_NONE, NEEDS_NOTHING},
    {"response_obj_bytes", GAUGE_NONE, NEEDS_NOTHING},
    {"read_buf_count", GAUGE_NONE, NEEDS_NOTHING},
    {"read_buf_bytes", GAUGE_NONE, NEEDS_NOTHING},
    {"read_buf_bytes_free", GAUGE_NONE, NEEDS_NOTHING},
    {"read_buf_oom", CACHE_READ_BUF_OOM, NEEDS_NOTHING},
    {"reserved_fds", GAUGE_NONE, NEEDS_NOTHING},
    {"cmd_get", CACHE_CMD_GET, NEEDS_NOTHING},
    {"cmd_set", CACHE_CMD_SET, NEEDS_NOTHING},
    {"cmd_flush", CACHE_CMD_FLUSH, NEEDS_NOTHING},
    {"cmd_touch", CACHE_CMD_TOUCH, NEEDS_NOTHING},
    {"cmd_meta", CACHE_CMD_META, NEEDS_NOTHING},
    {"get_hits", CACHE_GET_HITS, NEEDS_NOTHING},
    {"get_misses", CACHE_GET_MISSES, NEEDS_NOTHING},
    {"get_expired", CACHE_GET_EXPIRED, NEEDS_NOTHING},
    {"get_flushed", CACHE_GET_FLUSHED, NEEDS_NOTHING},
    {"delete_misses", CACHE_DELETE_MISSES, NEEDS_NOTHING},
    {"delete_hits", CACHE_DELETE_HITS, NEEDS_NOTHING},
    {"incr_misses", CACHE_INCR_MISSES, NEEDS_NOTHING},
    {"incr_hits", CACHE_INCR_HITS, NEEDS_NOTHING},
    {"decr_misses", CACHE_DECR_MISSES, NEEDS_NOTHING},
    {"decr_hits", CACHE_DECR_HITS, NEEDS_NOTHING},
    {"cas_misses", CACHE_CAS_MISSES, NEEDS_NOTHING},
    {"cas_hits", CACHE_CAS_HITS, NEEDS_NOTHING},
    {"cas_badval", CACHE_CAS_BADVAL, NEEDS_NOTHING},
    {"touch_hits", CACHE_TOUCH_HITS, NEEDS_NOTHING},
    {"touch_misses", CACHE_TOUCH_MISSES, NEEDS_NOTHING},
    {"store_too_large", CACHE_STORE_TOO_LARGE, NEEDS_NOTHING},
    {"store_no_memory", CACHE_STORE_NO_MEMORY, NEEDS_NOTHING},
    {"auth_cmds", CACHE_AUTH_CMDS, NEEDS_NOTHING},
    {"auth_errors", CACHE_AUTH_ERRORS, NEEDS_NOTHING},
    {"idle_kicks", CACHE_IDLE_KICKS, NEEDS_IDLE_TIMEOUT},
    {"bytes_read", CACHE_BYTES_READ, NEEDS_NOTHING},
    {"bytes_written", CACHE_BYTES_WRITTEN, NEEDS_NOTHING},
    {"limit_maxbytes", GAUGE_LIMIT_MAXBYTES, NEEDS_NOTHING},
    {"accepting_conns", GAUGE_ACCEPTING, NEEDS_NOTHING},
    {"listen_disabled_num", CACHE_LISTEN_DISABLED_NUM, NEEDS_NOTHING},
    {"time_in_listen_disabled_us", CACHE_LISTEN_DISABLED_US, NEEDS_NOTHING},
    {"threads", GAUGE_THREADS, NEEDS_NOTHING},
    {"conn_yields", CACHE_CONN_YIELDS, NEEDS_NOTHING},
    {"hash_power_level", GAUGE_HASH_POWER, NEEDS_NOTHING},
    {"hash_bytes", GAUGE_HASH_BYTES, NEEDS_NOTHING},
    {"hash_is_expanding", GAUGE_HASH_IS_EXPANDING, NEEDS_NOTHING},
    {"slab_reassign_rescues", GAUGE_NONE, NEEDS_REASSIGN},
    {"slab_reassign_chunk_rescues", GAUGE_NONE, NEEDS_REASSIGN},
    {"slab_reassign_inline_reclaim", GAUGE_NONE, NEEDS_REASSIGN},
    {"slab_reassign_busy_items", GAUGE_NONE, NEEDS_REASSIGN},
    {"slab_reassign_busy_deletes", GAUGE_NONE, NEEDS_REASSIGN},
    {"slab_reassign_busy_nomem", GAUGE_NONE, NEEDS_REASSIGN},
    {"slab_reassign_last_busy_status", GAUGE_NONE, NEEDS_REASSIGN},
    {"slab_reassign_running", GAUGE_NONE, NEEDS_REASSIGN},
    {"slabs_moved", GAUGE_NONE, NEEDS_REASSIGN},
    {"lru_crawler_running", GAUGE_CRAWLER_RUNNING, NEEDS_CRAWLER},
    {"lru_crawler_starts", CACHE_CRAWLER_STARTS, NEEDS_CRAWLER},
    {"lru_maintainer_juggles", GAUGE_NONE, NEEDS_MAINTAINER},
    {"malloc_fails", CACHE_MALLOC_FAILS, NEEDS_NOTHING},
    {"log_worker_dropped", CACHE_LOG_WORKER_DROPPED, NEEDS_NOTHING},
    {"log_worker_written", CACHE_LOG_WORKER_WRITTEN, NEEDS_NOTHING},
    {"log_watcher_skipped", CACHE_LOG_WATCHER_SKIPPED, NEEDS_NOTHING},
    {"log_watcher_sent", CACHE_LOG_WATCHER_SENT, NEEDS_NOTHING},
    {"log_watchers", GAUGE_WATCHERS, NEEDS_NOTHING},
    {"unexpected_napi_ids", GAUGE_NONE, NEEDS_NOTHING},
    {"round_robin_fallback", GAUGE_NONE, NEEDS_NOTHING},
    {"bytes", GAUGE_BYTES, NEEDS_NOTHING},
    {"curr_items", GAUGE_ITEMS, NEEDS_NOTHING},
    {"total_items", GAUGE_ITEMS_TOTAL, NEEDS_NOTHING},
    {"slab_global_page_pool", GAUGE_NONE, NEEDS_NOTHING},
    {"expired_unfetched", GAUGE_EXPIRED_UNFETCHED, NEEDS_NOTHING},
    {"evicted_unfetched", GAUGE_EVICTED_UNFETCHED, NEEDS_NOTHING},
    {"evicted_active", GAUGE_EVICTED_ACTIVE, NEEDS_MAINTAINER},
    {"evictions", GAUGE_EVICTIONS, NEEDS_NOTHING},
    {"reclaimed", GAUGE_RECLAIMED, NEEDS_NOTHING},
    {"crawler_reclaimed", GAUGE_CRAWLER_RECLAIMED, NEEDS_NOTHING},
    {"crawler_items_checked", GAUGE_CRAWLER_CHECKED, NEEDS_NOTHING},
    {"lrutail_reflocked", GAUGE_NONE, NEEDS_NOTHING},
    {"moves_to_cold", GAUGE_NONE, NEEDS_MAINTAINER},
    {"moves_to_warm", GAUGE_NONE, NEEDS_MAINTAINER},
    {"moves_within_lru", GAUGE_NONE, NEEDS_MAINTAINER},
    {"direct_reclaims", GAUGE_NONE, NEEDS_MAINTAINER},
    {"lru_bumps_dropped", GAUGE_NONE, NEEDS_MAINTAINER},
};

static void values_fill(struct cache *cache, uint64_t values[GAUGE_END])
{
    struct cache_stats_sums sums;

    cache_stats_sum(cache, &sums);
    for (unsigned i = 0; i < CACHE_COUNTER_COUNT; i++)
        values[i] = sums.cache.counters[i];
    values[GAUGE_NONE] = 0;
    values[GAUGE_MAX_CONNECTIONS] = cache->settings.connections_max;
    values[GAUGE_CURR_CONNECTIONS] =
        atomic_load_explicit(&cache->connections, memory_order_relaxed);
    values[GAUGE_CONNECTION_STRUCTURES] = sums.session_structs;
    values[GAUGE_LIMIT_MAXBYTES] = sums.kv.memory_limit_bytes;
    values[GAUGE_ACCEPTING] =
        atomic_load_explicit(&cache->accept_stopped, memory_order_relaxed) == 0;
    values[GAUGE_THREADS] = cache->settings.threads;
    values[GAUGE_HASH_POWER] = sums.kv.hash_power;
    values[GAUGE_HASH_BYTES] = sums.kv.index_bytes;
    values[GAUGE_HASH_IS_EXPANDING] = sums.kv.growing;
    /* As memcached would count them, and of it no more than it could: tools divide by the limit. */
    values[GAUGE_BYTES] = u_min64(sums.kv.item_sizes, sums.kv.memory_limit_bytes);
    values[GAUGE_ITEMS] = sums.kv.items;
    values[GAUGE_ITEMS_TOTAL] = sums.kv.items_total;
    values[GAUGE_EXPIRED_UNFETCHED] = sums.kv.expired_unfetched;
    values[GAUGE_EVICTED_UNFETCHED] = sums.kv.evicted_unfetched;
    values[GAUGE_EVICTIONS] = sums.kv.evictions;
    values[GAUGE_RECLAIMED] = sums.kv.expired_reclaimed;
    values[GAUGE_EVICTED_ACTIVE] = sums.kv.evicted_active;
    values[GAUGE_CRAWLER_RUNNING] = atomic_load_explicit(&cache->crawling, memory_order_relaxed);
    values[GAUGE_CRAWLER_RECLAIMED] = sums.kv.crawl_reclaimed;
    values[GAUGE_CRAWLER_CHECKED] = sums.kv.crawl_checked;
    values[GAUGE_WATCHERS] = sums.watchers;
}

static bool is_shown(const struct cache_settings *settings, enum needs needs)
{
    switch (needs) {
    case NEEDS_REFUSALS:
        return !settings->accept_waits;
    case NEEDS_IDLE_TIMEOUT:
        return settings->idle_timeout_s > 0;
    case NEEDS_REASSIGN:
        return settings->shown.slab_reassign;
    case NEEDS_CRAWLER:
        return settings->shown.lru_crawler;
    case NEEDS_MAINTAINER:
        return settings->shown.lru_maintainer;
    case NEEDS_NOTHING:
        break;
    }
    return true;
}

static void rusage_line(struct cache_stats_out *out, const char *name, const struct timeval *time)
{
    char text[64];

    snprintf(text, sizeof(text), "%lld.%06ld", (long long)time->tv_sec, (long)time->tv_usec);
    cache_stats_text(out, name, text);
}

static void process_lines(struct cache_stats_out *out)
{
    const struct cache_worker *worker = out->session->worker;
    struct rusage usage;

    cache_stats_number(out, "pid", (uint64_t)getpid());
    cache_stats_number(out, "uptime", worker->now_s);
    cache_stats_number(out, "time", cache_clock_unix_s(worker));
    cache_stats_text(out, "version", UCACHED_COMPAT_VERSION);
    cache_stats_text(out, "libevent", "none");
    cache_stats_number(out, "pointer_size", 8 * sizeof(void *));
    if (getrusage(RUSAGE_SELF, &usage) == 0) {
        rusage_line(out, "rusage_user", &usage.ru_utime);
        rusage_line(out, "rusage_system", &usage.ru_stime);
    }
}

void cache_stats_general(struct cache_stats_out *out)
{
    struct cache *cache = out->session->worker->cache;
    struct cache_settings settings;
    uint64_t values[GAUGE_END];

    pthread_mutex_lock(&cache->lock);
    settings = cache->settings;
    pthread_mutex_unlock(&cache->lock);
    values_fill(cache, values);
    process_lines(out);
    for (unsigned i = 0; i < U_ARRAY_LEN(stat_lines); i++)
        if (is_shown(&settings, stat_lines[i].needs))
            cache_stats_number(out, stat_lines[i].name, values[stat_lines[i].value]);
}

void cache_stats_kv(struct cache_stats_out *out)
{
    struct kv_stats stats;

    kv_stats(out->session->worker->cache->kv, &stats);
    cache_stats_number(out, "memory_limit_bytes", stats.memory_limit_bytes);
    cache_stats_number(out, "memory_used_bytes", stats.memory_used_bytes);
    cache_stats_number(out, "index_bytes", stats.index_bytes);
    cache_stats_number(out, "index_power", stats.hash_power);
    cache_stats_number(out, "index_growing", stats.growing);
    cache_stats_number(out, "index_growths", stats.growths);
    cache_stats_number(out, "item_bytes", stats.item_bytes);
    cache_stats_number(out, "items", stats.items);
    cache_stats_number(out, "update_retries", stats.update_retries);
    cache_stats_number(out, "pinned", stats.pinned);
    cache_stats_number(out, "epoch_lag", stats.epoch_lag);
    cache_stats_number(out, "touch_thread", stats.touch_thread);
    cache_stats_number(out, "touched_free_bytes", stats.touched_bytes);
    cache_stats_number(out, "touched_ahead", stats.touched_ahead);
    cache_stats_number(out, "touched_late", stats.touched_late);
}
