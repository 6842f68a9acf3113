/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The settings of a server: those of sessions and transports, and those that `stats settings` shows
 * for compatibility.
 *
 * Every switch is off if zero, so a test may set only what it needs; cache_settings_defaults() sets
 * memcached's defaults.
 */
#ifndef CACHE_SETTINGS_H
#define CACHE_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "kv/kv.h"

/* -B, and the prefix proto[] of one address of -l. */
enum cache_binding {
    CACHE_BINDING_NEGOTIATE = 0, /* the first byte decides */
    CACHE_BINDING_ASCII,
    CACHE_BINDING_BINARY
};

/* Whether connections of a listener are encrypted: -Z, and the prefix of one address of -l. */
enum cache_tls {
    CACHE_TLS_OFF = 0, /* notls: */
    CACHE_TLS_ON,
    CACHE_TLS_NO_CERT, /* btls: no client certificate is asked for */
    CACHE_TLS_CERT     /* mtls: one is required */
};

/* TLS, with memcached's numbers. Shown by `stats settings`; applied by who opens the listeners. */
struct cache_settings_tls {
    bool enabled;               /* -Z */
    bool session_cache;         /* -o ssl_session_cache */
    bool kernel_tls;            /* -o ssl_kernel_tls: accepted without effect */
    const char *chain_cert;     /* -o ssl_chain_cert, or null */
    const char *key;            /* -o ssl_key, or null */
    const char *ca_cert;        /* -o ssl_ca_cert, or null */
    const char *ciphers;        /* -o ssl_ciphers, or null */
    uint32_t key_format;        /* -o ssl_keyformat: 1 PEM, 2 DER */
    uint32_t verify_mode;       /* -o ssl_verify_mode: 0..3 */
    uint32_t min_version;       /* -o ssl_min_version: 0..3 for TLS 1.0 to 1.3 */
    uint32_t handshake_threads; /* -o handshake_threads: 0: the workers make handshakes */
    uint32_t write_buf_bytes;   /* -o ssl_wbuf_size: accepted without effect */
};

/* Options of memcached without an effect here: accepted and compat. */
struct cache_settings_compat {
    double growth_factor;       /* -f */
    uint32_t chunk_bytes;       /* -n: chunk_size */
    uint32_t napi_ids;          /* -N */
    uint32_t hashpower_init;    /* -o hashpower */
    bool slab_reassign;         /* -o slab_reassign, no_slab_reassign */
    uint32_t slab_automove;     /* 0..2 */
    double slab_automove_ratio; /* ]0..1] */
    uint32_t slab_automove_window;
    uint32_t slab_chunk_bytes_max;
    bool lru_crawler;
    uint32_t lru_crawler_sleep_us;
    uint32_t lru_crawler_tocrawl;
    uint32_t tail_repair_time_s;
    const char *hash_algorithm; /* not null: "murmur3" */
    bool lru_maintainer;        /* lru_maintainer_thread */
    bool lru_segmented;
    uint32_t hot_lru_pct;
    uint32_t warm_lru_pct;
    double hot_max_factor;
    double warm_max_factor;
    bool temp_lru;
    uint32_t temporary_ttl_s;
    uint32_t watcher_logbuf_bytes;
    uint32_t worker_logbuf_bytes;
    bool inline_ascii_response;
    bool drop_privileges; /* shown only if set, as memcached does */
};

struct cache_settings {
    uint64_t memory_bytes;    /* -m */
    uint32_t item_bytes_max;  /* -I: key, value and overhead of one item, as memcached counts it */
    uint32_t connections_max; /* -c */
    unsigned threads;         /* -t */
    unsigned verbosity;       /* -v */
    bool evict;               /* not -M */
    enum kv_policy_kind evict_policy; /* --evict */
    bool debug;                       /* the program's name ends in -debug */

    /* Listening sockets. Strings are the caller's and outlive the cache. */
    uint16_t tcp_port;       /* -p; 0: none */
    uint16_t udp_port;       /* -U; 0: none */
    const char *listen_addr; /* -l as given, or null */
    const char *unix_path;   /* -s, or null */
    unsigned unix_access;    /* -a: permission bits, 0700 */
    uint32_t listen_backlog; /* -b */

    /* Limits of a connection. */
    uint32_t requests_per_event; /* -R; 0: no limit */
    uint32_t idle_timeout_s;     /* -o idle_timeout; 0: none */
    uint32_t upload_timeout_s;   /* -o upload_timeout: for 4 KiB of an upload; 0: none */
    bool accept_waits;           /* -o no_maxconns_fast: at the limit accept no more, refuse none */
    uint64_t read_buf_mem_limit_bytes; /* -o read_buf_mem_limit, of all workers; 0: see line.h */

    /* Protocols and permitted commands. */
    enum cache_binding binding; /* -B */
    bool sasl;                  /* -S: binary connections authenticate */
    const char *auth_file;      /* -Y, or null */
    const char *sasl_file;      /* users of -S without -Y, or null */
    const char *acl_file;       /* -o acl_file, or null */
    const char *memory_file;    /* -e, or null */
    const char *cluster_file;   /* -o cluster_file, or null */
    bool shutdown_enabled;      /* -A */
    bool cas_disabled;          /* -C */
    bool flush_disabled;        /* -F */
    bool dump_disabled;         /* -X */
    bool watch_disabled;        /* -W */
    bool detail_enabled;        /* -D was given: statistics by prefix from the start */
    char prefix_delimiter;      /* -D: ':' */
    bool track_sizes;           /* -o track_sizes */
    bool fast_path_off;         /* --no-fast-path: requests take the general code only */

    struct cache_settings_tls tls;
    struct cache_settings_compat compat;
};

/* Sets memcached's defaults; debug is false. */
void cache_settings_defaults(struct cache_settings *settings);

#endif
