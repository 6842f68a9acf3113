/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The general list, with memcached's names in memcached's order, and `stats kv`. memcached leaves a
 * line out where the feature it is about is switched off.
 */
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/base.h"
#include "cache/clock.h"
#include "cache/exec_stats.h"

#define ROW_IF(label, member, condition)                                                           \
    CACHE_STATS_ROW(label, member, CACHE_STATS_NUMBER, condition)
#define ROW(label, member) ROW_IF(label, member, 0)
#define COUNTER(label, counter) ROW(label, sums.counters[counter])
#define ZERO(label) ROW(label, zero)
#define IF_REASSIGN CACHE_STATS_IF(settings.compat.slab_reassign)
#define IF_CRAWLER CACHE_STATS_IF(settings.compat.lru_crawler)
#define IF_TLS CACHE_STATS_IF(settings.tls.enabled)
#define IF_MAINTAINER CACHE_STATS_IF(settings.compat.lru_maintainer)

static const struct cache_stats_row general_rows[] = {
    ROW("max_connections", settings.connections_max),
    ROW("curr_connections", connections),
    COUNTER("total_connections", CACHE_TOTAL_CONNECTIONS),
    ROW_IF("rejected_connections", sums.counters[CACHE_REJECTED_CONNECTIONS],
           CACHE_STATS_IF(refuses)),
    ROW("connection_structures", session_structs),
    ZERO("response_obj_oom"),
    ZERO("response_obj_count"),
    ZERO("response_obj_bytes"),
    ZERO("read_buf_count"),
    ZERO("read_buf_bytes"),
    ZERO("read_buf_bytes_free"),
    COUNTER("read_buf_oom", CACHE_READ_BUF_OOM),
    ZERO("reserved_fds"),
    COUNTER("cmd_get", CACHE_CMD_GET),
    COUNTER("cmd_set", CACHE_CMD_SET),
    COUNTER("cmd_flush", CACHE_CMD_FLUSH),
    COUNTER("cmd_touch", CACHE_CMD_TOUCH),
    COUNTER("cmd_meta", CACHE_CMD_META),
    COUNTER("get_hits", CACHE_GET_HITS),
    COUNTER("get_misses", CACHE_GET_MISSES),
    COUNTER("get_expired", CACHE_GET_EXPIRED),
    COUNTER("get_flushed", CACHE_GET_FLUSHED),
    COUNTER("delete_misses", CACHE_DELETE_MISSES),
    COUNTER("delete_hits", CACHE_DELETE_HITS),
    COUNTER("incr_misses", CACHE_INCR_MISSES),
    COUNTER("incr_hits", CACHE_INCR_HITS),
    COUNTER("decr_misses", CACHE_DECR_MISSES),
    COUNTER("decr_hits", CACHE_DECR_HITS),
    COUNTER("cas_misses", CACHE_CAS_MISSES),
    COUNTER("cas_hits", CACHE_CAS_HITS),
    COUNTER("cas_badval", CACHE_CAS_BADVAL),
    COUNTER("touch_hits", CACHE_TOUCH_HITS),
    COUNTER("touch_misses", CACHE_TOUCH_MISSES),
    COUNTER("store_too_large", CACHE_STORE_TOO_LARGE),
    COUNTER("store_no_memory", CACHE_STORE_NO_MEMORY),
    COUNTER("auth_cmds", CACHE_AUTH_CMDS),
    COUNTER("auth_errors", CACHE_AUTH_ERRORS),
    ROW_IF("acl_refusals", sums.counters[CACHE_ACL_REFUSALS], CACHE_STATS_IF(settings.acl_file)),
    ROW_IF("idle_kicks", sums.counters[CACHE_IDLE_KICKS], CACHE_STATS_IF(closes_idle)),
    COUNTER("bytes_read", CACHE_BYTES_READ),
    COUNTER("bytes_written", CACHE_BYTES_WRITTEN),
    ROW("limit_maxbytes", kv.memory_limit_bytes),
    ROW("accepting_conns", accepting),
    COUNTER("listen_disabled_num", CACHE_LISTEN_DISABLED_NUM),
    COUNTER("time_in_listen_disabled_us", CACHE_LISTEN_DISABLED_US),
    ROW("threads", settings.threads),
    COUNTER("conn_yields", CACHE_CONN_YIELDS),
    ROW("hash_power_level", kv.hash_power),
    ROW("hash_bytes", kv.index_bytes),
    ROW("hash_is_expanding", kv.growing),
    ROW_IF("slab_reassign_rescues", zero, IF_REASSIGN),
    ROW_IF("slab_reassign_chunk_rescues", zero, IF_REASSIGN),
    ROW_IF("slab_reassign_inline_reclaim", zero, IF_REASSIGN),
    ROW_IF("slab_reassign_busy_items", zero, IF_REASSIGN),
    ROW_IF("slab_reassign_busy_deletes", zero, IF_REASSIGN),
    ROW_IF("slab_reassign_busy_nomem", zero, IF_REASSIGN),
    CACHE_STATS_ROW("slab_reassign_last_busy_status", none, CACHE_STATS_TEXT, IF_REASSIGN),
    ROW_IF("slab_reassign_running", zero, IF_REASSIGN),
    ROW_IF("slabs_moved", zero, IF_REASSIGN),
    ROW_IF("lru_crawler_running", crawling, IF_CRAWLER),
    ROW_IF("lru_crawler_starts", sums.counters[CACHE_CRAWLER_STARTS], IF_CRAWLER),
    ROW_IF("lru_maintainer_juggles", zero, IF_MAINTAINER),
    COUNTER("malloc_fails", CACHE_MALLOC_FAILS),
    COUNTER("log_worker_dropped", CACHE_LOG_WORKER_DROPPED),
    COUNTER("log_worker_written", CACHE_LOG_WORKER_WRITTEN),
    COUNTER("log_watcher_skipped", CACHE_LOG_WATCHER_SKIPPED),
    COUNTER("log_watcher_sent", CACHE_LOG_WATCHER_SENT),
    ROW("log_watchers", watchers),
    ROW_IF("ssl_new_sessions", sums.counters[CACHE_SSL_NEW_SESSIONS],
           CACHE_STATS_IF(caches_tls_sessions)),
    ROW_IF("ssl_handshake_errors", sums.counters[CACHE_SSL_HANDSHAKE_ERRORS], IF_TLS),
    ROW_IF("ssl_proto_errors", sums.counters[CACHE_SSL_PROTO_ERRORS], IF_TLS),
    ROW_IF("time_since_server_cert_refresh", certs_age_s, IF_TLS),
    ZERO("unexpected_napi_ids"),
    ZERO("round_robin_fallback"),
    ROW("bytes", bytes),
    ROW("curr_items", kv.items),
    ROW("total_items", kv.items_total),
    ZERO("slab_global_page_pool"),
    ROW("expired_unfetched", kv.expired_unfetched),
    ROW("evicted_unfetched", kv.evicted_unfetched),
    ROW_IF("evicted_active", kv.evicted_active, IF_MAINTAINER),
    ROW("evictions", kv.evictions),
    ROW("reclaimed", kv.expired_reclaimed),
    ROW("crawler_reclaimed", kv.crawl_reclaimed),
    ROW("crawler_items_checked", kv.crawl_checked),
    ZERO("lrutail_reflocked"),
    ROW_IF("moves_to_cold", zero, IF_MAINTAINER),
    ROW_IF("moves_to_warm", zero, IF_MAINTAINER),
    ROW_IF("moves_within_lru", zero, IF_MAINTAINER),
    ROW_IF("direct_reclaims", zero, IF_MAINTAINER),
    ROW_IF("lru_bumps_dropped", zero, IF_MAINTAINER),
};

static const struct cache_stats_row kv_rows[] = {
    ROW("memory_limit_bytes", kv.memory_limit_bytes),
    ROW("memory_used_bytes", kv.memory_used_bytes),
    ROW("index_bytes", kv.index_bytes),
    ROW("index_power", kv.hash_power),
    ROW("index_growing", kv.growing),
    ROW("index_growths", kv.growths),
    ROW("item_bytes", kv.item_bytes),
    ROW("items", kv.items),
    ROW("update_retries", kv.update_retries),
    ROW("pinned", kv.pinned),
    ROW("epoch_lag", kv.epoch_lag),
    ROW("flushes_behind", kv.flushes_behind),
    ROW("touch_thread", kv.touch_thread),
    ROW("touched_free_bytes", kv.touched_bytes),
    ROW("touched_ahead", kv.touched_ahead),
    ROW("touched_late", kv.touched_late),
    ROW("uploads_open", uploads.open),
    ROW("upload_item_bytes", uploads.item_bytes),
    ROW("upload_staged_bytes", uploads.staged_bytes),
    COUNTER("uploads_refused", CACHE_UPLOADS_REFUSED),
    COUNTER("uploads_timed_out", CACHE_UPLOADS_TIMED_OUT),
    COUNTER("uploads_evicted", CACHE_UPLOADS_EVICTED),
};

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
    cache_stats_number(out, "uptime", cache_clock_uptime(worker));
    cache_stats_number(out, "time", cache_clock_unix_s(worker));
    cache_stats_text(out, "version", UCACHED_COMPAT_VERSION);
    cache_stats_text(out, "libevent", "none");
    cache_stats_number(out, "pointer_size", 8 * sizeof(void *));
    if (getrusage(RUSAGE_SELF, &usage) == 0) {
        rusage_line(out, "rusage_user", &usage.ru_utime);
        rusage_line(out, "rusage_system", &usage.ru_stime);
    }
}

/* The certificates may have been read after a worker's last tick. */
static uint64_t certs_age_s(const struct cache_stats_out *out)
{
    uint64_t read_us = atomic_load_explicit(&out->cache->certs_read_us, memory_order_relaxed);

    return out->now_us > read_us ? (out->now_us - read_us) / 1000000 : 0;
}

void cache_stats_general(struct cache_stats_out *out)
{
    process_lines(out);
    cache_stats_general_rows(out);
}

void cache_stats_general_rows(struct cache_stats_out *out)
{
    struct cache_stats_snapshot snapshot;

    cache_stats_snapshot(out->cache, &snapshot);
    snapshot.certs_age_s = certs_age_s(out);
    cache_stats_rows(out, &snapshot, general_rows, U_ARRAY_LEN(general_rows));
}

void cache_stats_kv(struct cache_stats_out *out)
{
    struct cache_stats_snapshot snapshot;

    cache_stats_snapshot(out->cache, &snapshot);
    cache_stats_rows(out, &snapshot, kv_rows, U_ARRAY_LEN(kv_rows));
}
