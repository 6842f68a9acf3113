/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stats settings: memcached's names in memcached's order. A value is never empty, since tools split
 * the line into three words.
 */
#include "base/base.h"
#include "cache/exec_stats.h"

#define NUMBER(label, member) CACHE_STATS_ROW(label, member, CACHE_STATS_NUMBER, 0)
#define YES_NO(label, member) CACHE_STATS_ROW(label, member, CACHE_STATS_YES_NO, 0)
#define NO_YES(label, member) CACHE_STATS_ROW(label, member, CACHE_STATS_NO_YES, 0)
#define TEXT(label, member) CACHE_STATS_ROW(label, member, CACHE_STATS_TEXT, 0)
#define FRACTION(label, member) CACHE_STATS_ROW(label, member, CACHE_STATS_FRACTION, 0)

static const struct cache_stats_row settings_rows[] = {
    NUMBER("maxbytes", settings.memory_bytes),
    NUMBER("maxconns", settings.connections_max),
    NUMBER("tcpport", settings.tcp_port),
    NUMBER("udpport", settings.udp_port),
    TEXT("inter", settings.listen_addr),
    NUMBER("verbosity", settings.verbosity),
    NUMBER("oldest", zero),
    CACHE_STATS_ROW("evictions", settings.evict, CACHE_STATS_ON_OFF, 0),
    TEXT("domain_socket", settings.unix_path),
    CACHE_STATS_ROW("umask", settings.unix_access, CACHE_STATS_OCTAL, 0),
    YES_NO("shutdown_command", settings.shutdown_enabled),
    FRACTION("growth_factor", settings.shown.growth_factor),
    NUMBER("chunk_size", settings.shown.chunk_bytes),
    NUMBER("num_threads", settings.threads),
    NUMBER("num_threads_per_udp", settings.threads),
    CACHE_STATS_ROW("stat_key_prefix", settings.prefix_delimiter, CACHE_STATS_CHAR, 0),
    YES_NO("detail_enabled", settings.detail_enabled),
    NUMBER("reqs_per_event", settings.requests_per_event),
    NO_YES("cas_enabled", settings.cas_disabled),
    NUMBER("tcp_backlog", settings.listen_backlog),
    TEXT("binding_protocol", binding),
    YES_NO("auth_enabled_sasl", zero),
    YES_NO("auth_enabled_ascii", settings.auth_file),
    NUMBER("item_size_max", settings.item_bytes_max),
    NO_YES("maxconns_fast", settings.accept_waits),
    NUMBER("hashpower_init", settings.shown.hashpower_init),
    YES_NO("slab_reassign", settings.shown.slab_reassign),
    NUMBER("slab_automove", settings.shown.slab_automove),
    FRACTION("slab_automove_ratio", settings.shown.slab_automove_ratio),
    NUMBER("slab_automove_window", settings.shown.slab_automove_window),
    NUMBER("slab_chunk_max", settings.shown.slab_chunk_bytes_max),
    YES_NO("lru_crawler", settings.shown.lru_crawler),
    NUMBER("lru_crawler_sleep", settings.shown.lru_crawler_sleep_us),
    NUMBER("lru_crawler_tocrawl", settings.shown.lru_crawler_tocrawl),
    NUMBER("tail_repair_time", settings.shown.tail_repair_time_s),
    NO_YES("flush_enabled", settings.flush_disabled),
    NO_YES("dump_enabled", settings.dump_disabled),
    TEXT("hash_algorithm", settings.shown.hash_algorithm),
    YES_NO("lru_maintainer_thread", settings.shown.lru_maintainer),
    YES_NO("lru_segmented", settings.shown.lru_segmented),
    NUMBER("hot_lru_pct", settings.shown.hot_lru_pct),
    NUMBER("warm_lru_pct", settings.shown.warm_lru_pct),
    FRACTION("hot_max_factor", settings.shown.hot_max_factor),
    FRACTION("warm_max_factor", settings.shown.warm_max_factor),
    YES_NO("temp_lru", settings.shown.temp_lru),
    NUMBER("temporary_ttl", settings.shown.temporary_ttl_s),
    NUMBER("idle_timeout", settings.idle_timeout_s),
    NUMBER("watcher_logbuf_size", settings.shown.watcher_logbuf_bytes),
    NUMBER("worker_logbuf_size", settings.shown.worker_logbuf_bytes),
    NUMBER("read_buf_mem_limit", settings.read_buf_mem_limit_bytes),
    YES_NO("track_sizes", settings.track_sizes),
    YES_NO("inline_ascii_response", settings.shown.inline_ascii_response),
    CACHE_STATS_ROW("drop_privileges", settings.shown.drop_privileges, CACHE_STATS_YES_NO,
                    CACHE_STATS_IF(settings.shown.drop_privileges)),
    NUMBER("num_napi_ids", settings.shown.napi_ids),
    TEXT("memory_file", memory_file),
    NUMBER("client_flags_size", client_flags_bytes),
    TEXT("evict_policy", evict_policy),
};

void cache_stats_settings(struct cache_stats_out *out)
{
    struct cache_stats_snapshot snapshot;

    cache_stats_snapshot(out->session->worker->cache, &snapshot);
    cache_stats_rows(out, &snapshot, settings_rows, U_ARRAY_LEN(settings_rows));
}
