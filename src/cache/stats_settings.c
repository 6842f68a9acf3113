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

#define RESTORED(label, member)                                                                    \
    CACHE_STATS_ROW(label, member, CACHE_STATS_NUMBER, CACHE_STATS_IF(has_memory_file))

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
    FRACTION("growth_factor", settings.compat.growth_factor),
    NUMBER("chunk_size", settings.compat.chunk_bytes),
    NUMBER("num_threads", settings.threads),
    NUMBER("num_threads_per_udp", settings.threads),
    CACHE_STATS_ROW("stat_key_prefix", settings.prefix_delimiter, CACHE_STATS_CHAR, 0),
    YES_NO("detail_enabled", settings.detail_enabled),
    NUMBER("reqs_per_event", settings.requests_per_event),
    NO_YES("cas_enabled", settings.cas_disabled),
    NUMBER("tcp_backlog", settings.listen_backlog),
    TEXT("binding_protocol", binding),
    YES_NO("auth_enabled_sasl", settings.sasl),
    YES_NO("auth_enabled_ascii", settings.auth_file),
    NUMBER("item_size_max", settings.item_bytes_max),
    NO_YES("maxconns_fast", settings.accept_waits),
    NUMBER("hashpower_init", settings.compat.hashpower_init),
    YES_NO("slab_reassign", settings.compat.slab_reassign),
    NUMBER("slab_automove", settings.compat.slab_automove),
    FRACTION("slab_automove_ratio", settings.compat.slab_automove_ratio),
    NUMBER("slab_automove_window", settings.compat.slab_automove_window),
    NUMBER("slab_chunk_max", settings.compat.slab_chunk_bytes_max),
    YES_NO("lru_crawler", settings.compat.lru_crawler),
    NUMBER("lru_crawler_sleep", settings.compat.lru_crawler_sleep_us),
    NUMBER("lru_crawler_tocrawl", settings.compat.lru_crawler_tocrawl),
    NUMBER("tail_repair_time", settings.compat.tail_repair_time_s),
    NO_YES("flush_enabled", settings.flush_disabled),
    NO_YES("dump_enabled", settings.dump_disabled),
    TEXT("hash_algorithm", settings.compat.hash_algorithm),
    YES_NO("lru_maintainer_thread", settings.compat.lru_maintainer),
    YES_NO("lru_segmented", settings.compat.lru_segmented),
    NUMBER("hot_lru_pct", settings.compat.hot_lru_pct),
    NUMBER("warm_lru_pct", settings.compat.warm_lru_pct),
    FRACTION("hot_max_factor", settings.compat.hot_max_factor),
    FRACTION("warm_max_factor", settings.compat.warm_max_factor),
    YES_NO("temp_lru", settings.compat.temp_lru),
    NUMBER("temporary_ttl", settings.compat.temporary_ttl_s),
    NUMBER("idle_timeout", settings.idle_timeout_s),
    NUMBER("watcher_logbuf_size", settings.compat.watcher_logbuf_bytes),
    NUMBER("worker_logbuf_size", settings.compat.worker_logbuf_bytes),
    NUMBER("read_buf_mem_limit", settings.read_buf_mem_limit_bytes),
    YES_NO("track_sizes", settings.track_sizes),
    YES_NO("inline_ascii_response", settings.compat.inline_ascii_response),
    CACHE_STATS_ROW("drop_privileges", settings.compat.drop_privileges, CACHE_STATS_YES_NO,
                    CACHE_STATS_IF(settings.compat.drop_privileges)),
    NUMBER("ext_item_size", ext.item_size),
    NUMBER("ext_item_age", ext.item_age),
    NUMBER("ext_low_ttl", zero),
    NUMBER("ext_recache_rate", ext.recache_rate),
    NUMBER("ext_wbuf_size", ext.wbuf_size),
    NUMBER("ext_compact_under", zero),
    NUMBER("ext_drop_under", zero),
    NUMBER("ext_max_sleep", ext.max_sleep),
    TEXT("ext_max_frag", ext.max_frag),
    TEXT("slab_automove_freeratio", ext.automove_freeratio),
    YES_NO("ext_drop_unread", zero),
    YES_NO("ssl_enabled", settings.tls.enabled),
    TEXT("ssl_chain_cert", settings.tls.chain_cert),
    TEXT("ssl_key", settings.tls.key),
    NUMBER("ssl_verify_mode", settings.tls.verify_mode),
    NUMBER("ssl_keyformat", settings.tls.key_format),
    TEXT("ssl_ciphers", settings.tls.ciphers),
    TEXT("ssl_ca_cert", settings.tls.ca_cert),
    NUMBER("ssl_wbuf_size", settings.tls.write_buf_bytes),
    YES_NO("ssl_session_cache", settings.tls.session_cache),
    YES_NO("ssl_kernel_tls", settings.tls.kernel_tls),
    TEXT("ssl_min_version", tls_min_version),
    NUMBER("num_napi_ids", settings.compat.napi_ids),
    TEXT("memory_file", memory_file),
    NUMBER("client_flags_size", client_flags_bytes),
    TEXT("evict_policy", evict_policy),
    CACHE_STATS_ROW("acl_file", settings.acl_file, CACHE_STATS_TEXT,
                    CACHE_STATS_IF(settings.acl_file)),
    CACHE_STATS_ROW("handshake_threads", settings.tls.handshake_threads, CACHE_STATS_NUMBER,
                    CACHE_STATS_IF(settings.tls.enabled)),
    RESTORED("restored_items", restored.items),
    RESTORED("restored_bytes", restored.bytes),
    RESTORED("restored_from", restored.saved.unix_s),
};

void cache_stats_settings(struct cache_stats_out *out)
{
    struct cache_stats_snapshot snapshot;

    cache_stats_snapshot(out->cache, &snapshot);
    cache_stats_rows(out, &snapshot, settings_rows, U_ARRAY_LEN(settings_rows));
}
