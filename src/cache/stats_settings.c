/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stats settings: memcached's names in memcached's order. A value is never empty, since tools cut
 * the line into three words.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/base.h"
#include "cache/stats.h"

static void yes_no(struct cache_stats_out *out, const char *name, bool value)
{
    cache_stats_text(out, name, value ? "yes" : "no");
}

__attribute__((format(printf, 3, 4))) static void formatted(struct cache_stats_out *out,
                                                            const char *name, const char *format,
                                                            ...)
{
    char text[64];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    cache_stats_text(out, name, text);
}

static void given(struct cache_stats_out *out, const char *name, const char *text)
{
    cache_stats_text(out, name, text != NULL && text[0] != '\0' ? text : "NULL");
}

/* ---- the lines, in groups that follow each other ----------------------------------------- */

static void lines_transport(struct cache_stats_out *out, const struct cache_settings *settings)
{
    const struct cache *cache = out->session->worker->cache;

    cache_stats_number(out, "maxbytes", settings->memory_bytes);
    cache_stats_number(out, "maxconns", settings->connections_max);
    cache_stats_number(out, "tcpport", settings->tcp_port);
    cache_stats_number(out, "udpport", settings->udp_port);
    given(out, "inter", settings->listen_addr);
    cache_stats_number(out, "verbosity", cache_verbosity(cache));
    cache_stats_number(out, "oldest", 0);
    cache_stats_text(out, "evictions", settings->evict ? "on" : "off");
    given(out, "domain_socket", settings->unix_path);
    formatted(out, "umask", "%o", settings->unix_access);
    yes_no(out, "shutdown_command", settings->shutdown_enabled);
}

static const char *binding_name(const struct cache_settings *settings)
{
    if (settings->binding == CACHE_BINDING_ASCII)
        return "ascii";
    return settings->binding == CACHE_BINDING_BINARY ? "binary" : "auto-negotiate";
}

static void lines_protocol(struct cache_stats_out *out, const struct cache_settings *settings)
{
    formatted(out, "growth_factor", "%.2f", settings->shown.growth_factor);
    cache_stats_number(out, "chunk_size", settings->shown.chunk_bytes);
    cache_stats_number(out, "num_threads", settings->threads);
    cache_stats_number(out, "num_threads_per_udp", settings->threads);
    formatted(out, "stat_key_prefix", "%c", settings->prefix_delimiter);
    yes_no(out, "detail_enabled", settings->detail_enabled);
    cache_stats_number(out, "reqs_per_event", settings->requests_per_event);
    yes_no(out, "cas_enabled", !settings->cas_disabled);
    cache_stats_number(out, "tcp_backlog", settings->listen_backlog);
    cache_stats_text(out, "binding_protocol", binding_name(settings));
    yes_no(out, "auth_enabled_sasl", false);
    yes_no(out, "auth_enabled_ascii", settings->auth_file != NULL);
    cache_stats_number(out, "item_size_max", settings->item_bytes_max);
    yes_no(out, "maxconns_fast", !settings->accept_waits);
}

static void lines_slabs(struct cache_stats_out *out, const struct cache_settings_shown *shown)
{
    cache_stats_number(out, "hashpower_init", shown->hashpower_init);
    yes_no(out, "slab_reassign", shown->slab_reassign);
    cache_stats_number(out, "slab_automove", shown->slab_automove);
    formatted(out, "slab_automove_ratio", "%.2f", shown->slab_automove_ratio);
    cache_stats_number(out, "slab_automove_window", shown->slab_automove_window);
    cache_stats_number(out, "slab_chunk_max", shown->slab_chunk_bytes_max);
    yes_no(out, "lru_crawler", shown->lru_crawler);
    cache_stats_number(out, "lru_crawler_sleep", shown->lru_crawler_sleep_us);
    cache_stats_number(out, "lru_crawler_tocrawl", shown->lru_crawler_tocrawl);
    cache_stats_number(out, "tail_repair_time", shown->tail_repair_time_s);
}

static void lines_lru(struct cache_stats_out *out, const struct cache_settings_shown *shown)
{
    given(out, "hash_algorithm", shown->hash_algorithm);
    yes_no(out, "lru_maintainer_thread", shown->lru_maintainer);
    yes_no(out, "lru_segmented", shown->lru_segmented);
    cache_stats_number(out, "hot_lru_pct", shown->hot_lru_pct);
    cache_stats_number(out, "warm_lru_pct", shown->warm_lru_pct);
    formatted(out, "hot_max_factor", "%.2f", shown->hot_max_factor);
    formatted(out, "warm_max_factor", "%.2f", shown->warm_max_factor);
    yes_no(out, "temp_lru", shown->temp_lru);
    cache_stats_number(out, "temporary_ttl", shown->temporary_ttl_s);
}

static void lines_rest(struct cache_stats_out *out, const struct cache_settings *settings)
{
    const struct cache_settings_shown *shown = &settings->shown;

    cache_stats_number(out, "idle_timeout", settings->idle_timeout_s);
    cache_stats_number(out, "watcher_logbuf_size", shown->watcher_logbuf_bytes);
    cache_stats_number(out, "worker_logbuf_size", shown->worker_logbuf_bytes);
    cache_stats_number(out, "read_buf_mem_limit", settings->read_buf_mem_limit_bytes);
    yes_no(out, "track_sizes", settings->track_sizes);
    yes_no(out, "inline_ascii_response", shown->inline_ascii_response);
    if (shown->drop_privileges)
        yes_no(out, "drop_privileges", true);
    cache_stats_number(out, "num_napi_ids", shown->napi_ids);
    cache_stats_text(out, "memory_file", "(null)");
    cache_stats_number(out, "client_flags_size", sizeof(uint32_t));
    cache_stats_text(out, "evict_policy", kv_policy_name(settings->evict_policy));
}

void cache_stats_settings(struct cache_stats_out *out)
{
    struct cache *cache = out->session->worker->cache;
    struct cache_settings settings;

    /* Commands change some of them. */
    pthread_mutex_lock(&cache->lock);
    settings = cache->settings;
    pthread_mutex_unlock(&cache->lock);
    lines_transport(out, &settings);
    lines_protocol(out, &settings);
    lines_slabs(out, &settings.shown);
    yes_no(out, "flush_enabled", !settings.flush_disabled);
    yes_no(out, "dump_enabled", !settings.dump_disabled);
    lines_lru(out, &settings.shown);
    lines_rest(out, &settings);
}
