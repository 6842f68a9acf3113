/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lists of `stats`. A list is filled line by line into a buffer, in the form of the protocol of
 * the request, and sent when it is complete. Most lists are tables of names and members of one
 * snapshot.
 */
#ifndef CACHE_EXEC_STATS_H
#define CACHE_EXEC_STATS_H

#include "cache/session.h"
#include "cache/textbuf.h"
#include "cache/upload.h"

/* A list that is being filled, for a request or for cache_stats_read(). */
struct cache_stats_out {
    struct cache *cache;
    uint64_t now_us;        /* on the clock of cache_tick() */
    cache_stats_emit *emit; /* takes the lines, or null: they are added to `text` */
    void *emit_ctx;
    struct cache_session *session;  /* that has sent the request; null with `emit` */
    const struct mc_binary *binary; /* the request, or null: text */
    struct cache_textbuf text;
};

/*
 * Adds one line; out is a struct cache_stats_out (a cache_stats_emit). Names are cut at 250 bytes,
 * values at 700.
 */
void cache_stats_text(void *out, const char *name, const char *value);
void cache_stats_number(struct cache_stats_out *out, const char *name, uint64_t value);

/* ---- tables ------------------------------------------------------------------------------ */

/* Defaults of extstore, which memcached shows without using it, too; there is none here. */
struct cache_stats_extstore {
    uint32_t item_size;
    uint32_t item_age;
    uint32_t recache_rate;
    uint32_t wbuf_size;
    uint32_t max_sleep;
    const char *max_frag;
    const char *automove_freeratio;
};

/* All that the tables show. Counters count since the last `stats reset`. */
struct cache_stats_snapshot {
    struct cache_sums sums;
    struct kv_stats kv;
    struct cache_settings settings;
    struct cache_upload_sums uploads;
    uint64_t connections;
    uint64_t session_structs;
    unsigned watchers;
    bool accepting;
    bool crawling;
    bool closes_idle; /* idle_timeout is set */
    bool refuses;     /* connections over the limit, instead of letting them wait */
    bool caches_tls_sessions;
    uint64_t certs_age_s;
    const char *tls_min_version;
    uint64_t bytes; /* of all items as memcached counts them, at most the limit */
    const char *binding;
    const char *evict_policy;
    const char *memory_file;
    bool has_memory_file;
    struct kv_restored restored;
    uint32_t client_flags_bytes;
    uint32_t zero;    /* what this server does not have */
    const char *none; /* the same as a word */
    struct cache_stats_extstore ext;
};

enum cache_stats_format {
    CACHE_STATS_NUMBER = 0, /* unsigned of 1, 2, 4 or 8 bytes */
    CACHE_STATS_OCTAL,
    CACHE_STATS_YES_NO, /* yes if not zero or null */
    CACHE_STATS_NO_YES, /* the other way round */
    CACHE_STATS_ON_OFF,
    CACHE_STATS_FRACTION, /* double */
    CACHE_STATS_CHAR,
    CACHE_STATS_TEXT /* const char *; null or empty: NULL */
};

struct cache_stats_row {
    const char *name;
    uint32_t offset; /* in struct cache_stats_snapshot */
    uint32_t size;
    enum cache_stats_format format;
    uint32_t needs; /* offset of a bool without which the line is left out; 0: none */
};

/* A row that shows a member of the snapshot, and one that is left out if another member is 0. */
#define CACHE_STATS_ROW(label, member, how, condition)                                             \
    {                                                                                              \
        label, offsetof(struct cache_stats_snapshot, member),                                      \
            sizeof(((struct cache_stats_snapshot *)0)->member), how, condition                     \
    }
#define CACHE_STATS_IF(member) offsetof(struct cache_stats_snapshot, member)

void cache_stats_snapshot(struct cache *cache, struct cache_stats_snapshot *snapshot);

/* Adds a line for each row. */
void cache_stats_rows(struct cache_stats_out *out, const struct cache_stats_snapshot *snapshot,
                      const struct cache_stats_row *rows, size_t count);

/* ---- the lists (stats_*.c) --------------------------------------------------------------- */

void cache_stats_general(struct cache_stats_out *out);
void cache_stats_general_rows(struct cache_stats_out *out); /* without those of the process */
void cache_stats_settings(struct cache_stats_out *out);
void cache_stats_items(struct cache_stats_out *out);
void cache_stats_slabs(struct cache_stats_out *out);
void cache_stats_sizes(struct cache_stats_out *out);

/*
 * `stats conns`, which only the text protocol has. Sends the lines in steps, since there may be
 * very many. Returns 0, or -1 if the connection has to close.
 */
int cache_stats_conns_start(struct cache_session *session, struct cache_sink *sink);

/* `stats latency`: times of requests by command (latency.c); memcached has no such list. */
void cache_stats_latency(struct cache_stats_out *out);

/* `stats hotkeys`: the most requested keys (hot_keys.c); empty with -X. */
void cache_stats_hotkeys(struct cache_stats_out *out);

/* `stats kv`: the engine; memcached has no such list. */
void cache_stats_kv(struct cache_stats_out *out);

#endif
