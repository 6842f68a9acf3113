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

struct stat_line {
    const char *name;
    unsigned value; /* enum cache_counter or enum gauge */
};

static const struct stat_line stat_lines[] = {
    {"max_connections", GAUGE_MAX_CONNECTIONS},
    {"curr_connections", GAUGE_CURR_CONNECTIONS},
    {"total_connections", CACHE_TOTAL_CONNECTIONS},
    {"rejected_connections", CACHE_REJECTED_CONNECTIONS},
    {"connection_structures", GAUGE_CONNECTION_STRUCTURES},
    {"response_obj_oom", GAUGE_NONE},
    {"response_obj_count", GAUGE_NONE},
    {"response_obj_bytes", GAUGE_NONE},
    {"read_buf_count", GAUGE_NONE},
    {"read_buf_bytes", GAUGE_NONE},
    {"read_buf_bytes_free", GAUGE_NONE},
    {"read_buf_oom", GAUGE_NONE},
    {"reserved_fds", GAUGE_NONE},
    {"cmd_get", CACHE_CMD_GET},
    {"cmd_set", CACHE_CMD_SET},
    {"cmd_flush", CACHE_CMD_FLUSH},
    {"cmd_touch", CACHE_CMD_TOUCH},
    {"cmd_meta", CACHE_CMD_META},
    {"get_hits", CACHE_GET_HITS},
    {"get_misses", CACHE_GET_MISSES},
    {"get_expired", CACHE_GET_EXPIRED},
    {"get_flushed", CACHE_GET_FLUSHED},
    {"delete_misses", CACHE_DELETE_MISSES},
    {"delete_hits", CACHE_DELETE_HITS},
    {"incr_misses", CACHE_INCR_MISSES},
    {"incr_hits", CACHE_INCR_HITS},
    {"decr_misses", CACHE_DECR_MISSES},
    {"decr_hits", CACHE_DECR_HITS},
    {"cas_misses", CACHE_CAS_MISSES},
    {"cas_hits", CACHE_CAS_HITS},
    {"cas_badval", CACHE_CAS_BADVAL},
    {"touch_hits", CACHE_TOUCH_HITS},
    {"touch_misses", CACHE_TOUCH_MISSES},
    {"store_too_large", CACHE_STORE_TOO_LARGE},
    {"store_no_memory", CACHE_STORE_NO_MEMORY},
    {"auth_cmds", CACHE_AUTH_CMDS},
    {"auth_errors", CACHE_AUTH_ERRORS},
    {"idle_kicks", CACHE_IDLE_KICKS},
    {"bytes_read", CACHE_BYTES_READ},
    {"bytes_written", CACHE_BYTES_WRITTEN},
    {"limit_maxbytes", GAUGE_LIMIT_MAXBYTES},
    {"accepting_conns", GAUGE_ACCEPTING},
    {"listen_disabled_num", CACHE_LISTEN_DISABLED_NUM},
    {"time_in_listen_disabled_us", CACHE_LISTEN_DISABLED_US},
    {"threads", GAUGE_THREADS},
    {"conn_yields", CACHE_CONN_YIELDS},
    {"hash_power_level", GAUGE_HASH_POWER},
    {"hash_bytes", GAUGE_HASH_BYTES},
    {"hash_is_expanding", GAUGE_NONE},
    {"slab_reassign_rescues", GAUGE_NONE},
    {"slab_reassign_chunk_rescues", GAUGE_NONE},
    {"slab_reassign_inline_reclaim", GAUGE_NONE},
    {"slab_reassign_busy_items", GAUGE_NONE},
    {"slab_reassign_busy_deletes", GAUGE_NONE},
    {"slab_reassign_busy_nomem", GAUGE_NONE},
    {"slab_reassign_last_busy_status", GAUGE_NONE},
    {"slab_reassign_running", GAUGE_NONE},
    {"slabs_moved", GAUGE_NONE},
    {"lru_crawler_running", GAUGE_CRAWLER_RUNNING},
    {"lru_crawler_starts", CACHE_CRAWLER_STARTS},
    {"lru_maintainer_juggles", GAUGE_NONE},
    {"malloc_fails", CACHE_MALLOC_FAILS},
    {"log_worker_dropped", CACHE_LOG_WORKER_DROPPED},
    {"log_worker_written", CACHE_LOG_WORKER_WRITTEN},
    {"log_watcher_skipped", CACHE_LOG_WATCHER_SKIPPED},
    {"log_watcher_sent", CACHE_LOG_WATCHER_SENT},
    {"log_watchers", GAUGE_WATCHERS},
    {"unexpected_napi_ids", GAUGE_NONE},
    {"round_robin_fallback", GAUGE_NONE},
    {"bytes", GAUGE_BYTES},
    {"curr_items", GAUGE_ITEMS},
    {"total_items", GAUGE_ITEMS_TOTAL},
    {"slab_global_page_pool", GAUGE_NONE},
    {"expired_unfetched", GAUGE_EXPIRED_UNFETCHED},
    {"evicted_unfetched", GAUGE_EVICTED_UNFETCHED},
    {"evicted_active", GAUGE_EVICTED_ACTIVE},
    {"evictions", GAUGE_EVICTIONS},
    {"reclaimed", GAUGE_RECLAIMED},
    {"crawler_reclaimed", GAUGE_CRAWLER_RECLAIMED},
    {"crawler_items_checked", GAUGE_CRAWLER_CHECKED},
    {"lrutail_reflocked", GAUGE_NONE},
    {"moves_to_cold", GAUGE_NONE},
    {"moves_to_warm", GAUGE_NONE},
    {"moves_within_lru", GAUGE_NONE},
    {"direct_reclaims", GAUGE_NONE},
    {"lru_bumps_dropped", GAUGE_NONE},
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
    values[GAUGE_BYTES] = sums.kv.item_sizes;
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

static void line_write(struct cache_stats_out *out, const struct stat_line *line,
                       const uint64_t values[GAUGE_END])
{
    /* memcached shows this one only where it can be other than zero. */
    if (line->value == CACHE_IDLE_KICKS &&
        out->session->worker->cache->settings.idle_timeout_s == 0)
        return;
    cache_stats_number(out, line->name, values[line->value]);
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
    uint64_t values[GAUGE_END];

    values_fill(out->session->worker->cache, values);
    process_lines(out);
    for (unsigned i = 0; i < U_ARRAY_LEN(stat_lines); i++)
        line_write(out, &stat_lines[i], values);
}
