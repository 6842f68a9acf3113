/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stats settings, items, slabs, conns.
 *
 * The engine has no size classes. Tools that sum over memcached's classes find everything in
 * class 1, which is there as soon as something has been stored.
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "cache/stats.h"

/* ---- settings ---------------------------------------------------------------------------- */

enum setting {
    SETTING_FIXED = 0,
    SETTING_MAXBYTES,
    SETTING_MAXCONNS,
    SETTING_TCPPORT,
    SETTING_INTER,
    SETTING_VERBOSITY,
    SETTING_EVICTIONS,
    SETTING_NUM_THREADS,
    SETTING_TCP_BACKLOG,
    SETTING_ITEM_SIZE_MAX
};

static const struct {
    const char *name;
    const char *text; /* SETTING_FIXED */
    enum setting setting;
} setting_lines[] = {
    {"maxbytes", NULL, SETTING_MAXBYTES},
    {"maxconns", NULL, SETTING_MAXCONNS},
    {"tcpport", NULL, SETTING_TCPPORT},
    {"udpport", "0", SETTING_FIXED},
    {"inter", NULL, SETTING_INTER},
    {"verbosity", NULL, SETTING_VERBOSITY},
    {"oldest", "0", SETTING_FIXED},
    {"evictions", NULL, SETTING_EVICTIONS},
    {"domain_socket", "NULL", SETTING_FIXED},
    {"umask", "700", SETTING_FIXED},
    {"shutdown_command", "no", SETTING_FIXED},
    {"growth_factor", "1.25", SETTING_FIXED},
    {"chunk_size", "48", SETTING_FIXED},
    {"num_threads", NULL, SETTING_NUM_THREADS},
    {"num_threads_per_udp", NULL, SETTING_NUM_THREADS},
    {"stat_key_prefix", ":", SETTING_FIXED},
    {"detail_enabled", "no", SETTING_FIXED},
    {"reqs_per_event", "20", SETTING_FIXED},
    {"cas_enabled", "yes", SETTING_FIXED},
    {"tcp_backlog", NULL, SETTING_TCP_BACKLOG},
    {"binding_protocol", "ascii", SETTING_FIXED},
    {"auth_enabled_sasl", "no", SETTING_FIXED},
    {"auth_enabled_ascii", "no", SETTING_FIXED},
    {"item_size_max", NULL, SETTING_ITEM_SIZE_MAX},
    {"maxconns_fast", "yes", SETTING_FIXED},
    {"hashpower_init", "0", SETTING_FIXED},
    {"slab_reassign", "no", SETTING_FIXED},
    {"slab_automove", "0", SETTING_FIXED},
    {"slab_automove_ratio", "0.80", SETTING_FIXED},
    {"slab_automove_window", "10", SETTING_FIXED},
    {"slab_chunk_max", "524288", SETTING_FIXED},
    {"lru_crawler", "no", SETTING_FIXED},
    {"lru_crawler_sleep", "100", SETTING_FIXED},
    {"lru_crawler_tocrawl", "0", SETTING_FIXED},
    {"tail_repair_time", "0", SETTING_FIXED},
    {"flush_enabled", "yes", SETTING_FIXED},
    {"dump_enabled", "no", SETTING_FIXED},
    {"hash_algorithm", "siphash", SETTING_FIXED},
    {"lru_maintainer_thread", "no", SETTING_FIXED},
    {"lru_segmented", "no", SETTING_FIXED},
    {"hot_lru_pct", "20", SETTING_FIXED},
    {"warm_lru_pct", "40", SETTING_FIXED},
    {"hot_max_factor", "0.20", SETTING_FIXED},
    {"warm_max_factor", "2.00", SETTING_FIXED},
    {"temp_lru", "no", SETTING_FIXED},
    {"temporary_ttl", "61", SETTING_FIXED},
    {"idle_timeout", "0", SETTING_FIXED},
    {"watcher_logbuf_size", "262144", SETTING_FIXED},
    {"worker_logbuf_size", "65536", SETTING_FIXED},
    {"read_buf_mem_limit", "0", SETTING_FIXED},
    {"track_sizes", "no", SETTING_FIXED},
    {"inline_ascii_response", "no", SETTING_FIXED},
    {"num_napi_ids", "0", SETTING_FIXED},
    {"memory_file", "(null)", SETTING_FIXED},
    {"client_flags_size", "4", SETTING_FIXED},
};

static uint64_t setting_number(const struct cache *cache, enum setting setting)
{
    const struct cache_settings *settings = &cache->settings;

    switch (setting) {
    case SETTING_MAXBYTES:
        return settings->memory_bytes;
    case SETTING_MAXCONNS:
        return settings->connections_max;
    case SETTING_TCPPORT:
        return settings->tcp_port;
    case SETTING_VERBOSITY:
        return cache_verbosity(cache);
    case SETTING_NUM_THREADS:
        return settings->threads;
    case SETTING_TCP_BACKLOG:
        return settings->listen_backlog;
    case SETTING_ITEM_SIZE_MAX:
        return settings->item_bytes_max;
    case SETTING_FIXED:
    case SETTING_INTER:
    case SETTING_EVICTIONS:
        break;
    }
    return 0;
}

void cache_stats_settings(struct cache_stats_out *out)
{
    const struct cache *cache = out->session->worker->cache;
    const char *given = cache->settings.listen_addr;
    const char *listen_addr = given != NULL && given[0] != '\0' ? given : "NULL";

    for (unsigned i = 0; i < U_ARRAY_LEN(setting_lines); i++) {
        const char *name = setting_lines[i].name;
        enum setting setting = setting_lines[i].setting;

        if (setting == SETTING_FIXED)
            cache_stats_text(out, name, setting_lines[i].text);
        else if (setting == SETTING_INTER)
            cache_stats_text(out, name, listen_addr);
        else if (setting == SETTING_EVICTIONS)
            cache_stats_text(out, name, cache->settings.evict ? "on" : "off");
        else
            cache_stats_number(out, name, setting_number(cache, setting));
    }
}

/* ---- items and slabs --------------------------------------------------------------------- */

#define PAGE_BYTES (1024 * 1024)

static void class_line(struct cache_stats_out *out, const char *prefix, const char *name,
                       uint64_t value)
{
    char full[64];

    snprintf(full, sizeof(full), "%s1:%s", prefix, name);
    cache_stats_number(out, full, value);
}

void cache_stats_items(struct cache_stats_out *out)
{
    struct cache_stats_sums sums;

    cache_stats_sum(out->session->worker->cache, &sums);
    if (sums.kv.items == 0)
        return;

    const struct {
        const char *name;
        uint64_t value;
    } lines[] = {
        {"number", sums.kv.items},
        {"number_hot", 0},
        {"number_warm", 0},
        {"number_cold", sums.kv.items},
        {"age_hot", 0},
        {"age_warm", 0},
        {"age", 0},
        {"mem_requested", sums.kv.item_bytes},
        {"evicted", sums.kv.evictions},
        {"evicted_nonzero", 0},
        {"evicted_time", 0},
        {"outofmemory", sums.kv.no_memory},
        {"tailrepairs", 0},
        {"reclaimed", sums.kv.expired_reclaimed},
        {"expired_unfetched", sums.kv.expired_unfetched},
        {"evicted_unfetched", sums.kv.evicted_unfetched},
        {"evicted_active", 0},
        {"crawler_reclaimed", 0},
        {"crawler_items_checked", 0},
        {"lrutail_reflocked", 0},
        {"moves_to_cold", 0},
        {"moves_to_warm", 0},
        {"moves_within_lru", 0},
        {"direct_reclaims", 0},
        {"hits_to_hot", 0},
        {"hits_to_warm", 0},
        {"hits_to_cold", sums.counters[CACHE_GET_HITS]},
        {"hits_to_temp", 0},
    };

    for (unsigned i = 0; i < U_ARRAY_LEN(lines); i++)
        class_line(out, "items:", lines[i].name, lines[i].value);
}

/* The chunk of the one class is as large as the average item, so that the sums come out right. */
static uint64_t chunk_bytes(const struct kv_stats *kv)
{
    uint64_t bytes = kv->items > 0 ? kv->item_bytes / kv->items : kv_item_overhead_bytes();

    return bytes > 0 ? bytes : 1;
}

void cache_stats_slabs(struct cache_stats_out *out)
{
    struct cache_stats_sums sums;
    uint64_t chunk;
    uint64_t pages;
    uint64_t chunks;

    cache_stats_sum(out->session->worker->cache, &sums);
    chunk = chunk_bytes(&sums.kv);
    pages = (sums.kv.item_bytes + PAGE_BYTES - 1) / PAGE_BYTES;
    chunks = pages * PAGE_BYTES / chunk;
    if (chunks < sums.kv.items)
        chunks = sums.kv.items; /* items of more than half a page */

    const struct {
        const char *name;
        uint64_t value;
    } lines[] = {
        {"chunk_size", chunk},
        {"chunks_per_page", PAGE_BYTES > chunk ? PAGE_BYTES / chunk : 1},
        {"total_pages", pages},
        {"total_chunks", chunks},
        {"used_chunks", sums.kv.items},
        {"free_chunks", chunks - sums.kv.items},
        {"free_chunks_end", 0},
        {"get_hits", sums.counters[CACHE_GET_HITS]},
        {"cmd_set", sums.counters[CACHE_CMD_SET]},
        {"delete_hits", sums.counters[CACHE_DELETE_HITS]},
        {"incr_hits", sums.counters[CACHE_INCR_HITS]},
        {"decr_hits", sums.counters[CACHE_DECR_HITS]},
        {"cas_hits", sums.counters[CACHE_CAS_HITS]},
        {"cas_badval", sums.counters[CACHE_CAS_BADVAL]},
        {"touch_hits", sums.counters[CACHE_TOUCH_HITS]},
    };

    for (unsigned i = 0; pages > 0 && i < U_ARRAY_LEN(lines); i++)
        class_line(out, "", lines[i].name, lines[i].value);
    cache_stats_number(out, "active_slabs", pages > 0 ? 1 : 0);
    cache_stats_number(out, "total_malloced", pages * PAGE_BYTES);
}

/* ---- conns ------------------------------------------------------------------------------- */

struct conn_copy {
    uint32_t id;
    uint32_t last_request_s;
    enum cache_phase phase;
    struct cache_peer peer;
};

static const char *phase_name(enum cache_phase phase)
{
    switch (phase) {
    case CACHE_PHASE_LINE:
        return "conn_read";
    case CACHE_PHASE_VALUE:
    case CACHE_PHASE_TOKEN:
        return "conn_nread";
    case CACHE_PHASE_SWALLOW:
        return "conn_swallow";
    case CACHE_PHASE_REPLYING:
        return "conn_mwrite";
    case CACHE_PHASE_CLOSING:
        break;
    }
    return "conn_closing";
}

/* "tcp:1.2.3.4:5" or "tcp6:[::1]:5". */
static void peer_text(const struct cache_peer *peer, char *text, size_t size)
{
    char addr[INET6_ADDRSTRLEN];
    bool v6 = strcmp(peer->transport, "tcp6") == 0;

    if (inet_ntop(v6 ? AF_INET6 : AF_INET, peer->addr, addr, sizeof(addr)) == NULL)
        addr[0] = '\0';
    snprintf(text, size, v6 ? "%s:[%s]:%u" : "%s:%s:%u", peer->transport, addr, peer->port);
}

static void conn_lines(struct cache_stats_out *out, const struct conn_copy *conn)
{
    const struct cache_session *asker = out->session;
    uint32_t now_s = asker->worker->now_s;
    char name[48];
    char text[96];

    peer_text(&conn->peer, text, sizeof(text));
    snprintf(name, sizeof(name), "%" PRIu32 ":addr", conn->id);
    cache_stats_text(out, name, text);
    snprintf(name, sizeof(name), "%" PRIu32 ":state", conn->id);
    cache_stats_text(out, name, conn->id == asker->id ? "conn_parse_cmd" : phase_name(conn->phase));
    snprintf(name, sizeof(name), "%" PRIu32 ":secs_since_last_cmd", conn->id);
    cache_stats_number(out, name, now_s > conn->last_request_s ? now_s - conn->last_request_s : 0);
}

/* Copies what is shown of the open sessions of a slab; returns how many. */
static unsigned slab_copy(struct cache_worker *worker, const struct cache_slab *slab,
                          struct conn_copy conns[CACHE_SLAB_SESSIONS])
{
    unsigned count = 0;

    pthread_mutex_lock(&worker->session_lock);
    for (unsigned i = 0; i < CACHE_SLAB_SESSIONS; i++) {
        const struct cache_session *session = &slab->sessions[i];

        if (session->open) {
            conns[count].id = session->id;
            conns[count].last_request_s =
                atomic_load_explicit(&session->last_request_s, memory_order_relaxed);
            conns[count].phase = cache_session_phase(session);
            conns[count].peer = session->peer;
            count++;
        }
    }
    pthread_mutex_unlock(&worker->session_lock);
    return count;
}

static void worker_conns(struct cache_stats_out *out, struct cache_worker *worker)
{
    struct conn_copy conns[CACHE_SLAB_SESSIONS];
    const struct cache_slab *slab;

    /* Slabs are added at the front and stay until the worker leaves. */
    pthread_mutex_lock(&worker->session_lock);
    slab = worker->slabs;
    pthread_mutex_unlock(&worker->session_lock);
    for (; slab != NULL; slab = slab->next) {
        unsigned count = slab_copy(worker, slab, conns);

        for (unsigned i = 0; i < count; i++)
            conn_lines(out, &conns[i]);
    }
}

void cache_stats_conns(struct cache_stats_out *out)
{
    struct cache *cache = out->session->worker->cache;

    /* Held so that no worker leaves meanwhile. */
    pthread_mutex_lock(&cache->lock);
    for (unsigned i = 0; i < cache->settings.threads; i++)
        if (cache->workers[i] != NULL)
            worker_conns(out, cache->workers[i]);
    pthread_mutex_unlock(&cache->lock);
}
