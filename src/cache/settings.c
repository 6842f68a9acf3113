/* SPDX-License-Identifier: BSD-3-Clause */
/* memcached's default settings. */
#include "cache/settings.h"

#include <string.h>

static void compat_defaults(struct cache_settings_compat *compat)
{
    *compat = (struct cache_settings_compat){
        .growth_factor = 1.25,
        .chunk_bytes = 48,
        .slab_reassign = true,
        .slab_automove = 1,
        .slab_automove_ratio = 0.8,
        .slab_automove_window = 10,
        .slab_chunk_bytes_max = 512 * 1024,
        .lru_crawler = true,
        .lru_crawler_sleep_us = 100,
        .hash_algorithm = "murmur3",
        .lru_maintainer = true,
        .lru_segmented = true,
        .hot_lru_pct = 20,
        .warm_lru_pct = 40,
        .hot_max_factor = 0.2,
        .warm_max_factor = 2.0,
        .temporary_ttl_s = 61,
        .watcher_logbuf_bytes = 256 * 1024,
        .worker_logbuf_bytes = 64 * 1024,
    };
}

void cache_settings_defaults(struct cache_settings *settings)
{
    memset(settings, 0, sizeof(*settings));
    settings->memory_bytes = 64u * 1024 * 1024;
    settings->item_bytes_max = 1024 * 1024;
    settings->connections_max = 1024;
    settings->threads = 4;
    settings->evict = true;
    settings->tcp_port = 11211;
    settings->unix_access = 0700;
    settings->listen_backlog = 1024;
    settings->requests_per_event = 20;
    settings->upload_timeout_s = 60;
    settings->prefix_delimiter = ':';
    settings->tls.key_format = 1;
    settings->tls.min_version = 2;
    settings->tls.write_buf_bytes = 16 * 1024;
    compat_defaults(&settings->compat);
}
