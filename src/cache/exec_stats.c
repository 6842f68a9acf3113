/* SPDX-License-Identifier: BSD-3-Clause */
/* The command stats: selects the list, and writes its lines in either protocol. */
#include "cache/exec_stats.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "cache/exec.h"
#include "cache/prefix_stats.h"
#include "cache/sink_reply.h"
#include "cache/watch.h"

#define NAME_MAX_BYTES MC_KEY_MAX
#define VALUE_MAX_BYTES 700

/* ---- lines ------------------------------------------------------------------------------- */

/* One packet of the binary protocol; without name and value it ends the list. */
static void packet_add(struct cache_stats_out *out, const char *name, uint32_t name_len,
                       const char *value, uint32_t value_len)
{
    uint8_t header[MC_BINARY_HEADER_BYTES + NAME_MAX_BYTES];
    uint32_t n = mc_write_binary_stat_header(header, out->binary, name, name_len, value_len);

    cache_textbuf_add(&out->text, header, n);
    cache_textbuf_add(&out->text, value, value_len);
}

static void line_add(struct cache_stats_out *out, const char *name, const char *value,
                     uint32_t value_len)
{
    uint32_t name_len = u_min32((uint32_t)strlen(name), NAME_MAX_BYTES);

    if (out->emit != NULL) {
        out->emit(out->emit_ctx, name, value);
        return;
    }
    if (out->binary != NULL) {
        packet_add(out, name, name_len, value, value_len);
        return;
    }
    cache_textbuf_add(&out->text, "STAT ", 5);
    cache_textbuf_add(&out->text, name, name_len);
    cache_textbuf_add(&out->text, " ", 1);
    cache_textbuf_add(&out->text, value, value_len);
    cache_textbuf_add(&out->text, "\r\n", 2);
}

void cache_stats_text(void *ctx, const char *name, const char *value)
{
    line_add(ctx, name, value, u_min32((uint32_t)strlen(value), VALUE_MAX_BYTES));
}

void cache_stats_number(struct cache_stats_out *out, const char *name, uint64_t value)
{
    char text[MC_NUMBER_MAX + 1];
    int len = snprintf(text, sizeof(text), "%" PRIu64, value);

    line_add(out, name, text, (uint32_t)len);
}

/* ---- tables ------------------------------------------------------------------------------ */

static const char *binding_name(enum cache_binding binding)
{
    if (binding == CACHE_BINDING_ASCII)
        return "ascii";
    return binding == CACHE_BINDING_BINARY ? "binary" : "auto-negotiate";
}

static const char *tls_version_name(uint32_t version)
{
    static const char *const names[] = {"tlsv1.0", "tlsv1.1", "tlsv1.2", "tlsv1.3"};

    return version < U_ARRAY_LEN(names) ? names[version] : "unknown";
}

void cache_stats_snapshot(struct cache *cache, struct cache_stats_snapshot *snapshot)
{
    memset(snapshot, 0, sizeof(*snapshot));
    kv_stats(cache->kv, &snapshot->kv);
    cache_upload_sum(cache, &snapshot->uploads);
    pthread_mutex_lock(&cache->lock);
    cache_counters_sum(cache, &snapshot->sums);
    snapshot->settings = cache->settings;
    snapshot->watchers = cache_watcher_count(cache);
    for (unsigned i = 0; i < cache->settings.threads; i++) {
        struct cache_worker *worker = cache->workers[i];

        if (worker != NULL) {
            pthread_mutex_lock(&worker->session_lock);
            snapshot->session_structs += worker->session_count;
            pthread_mutex_unlock(&worker->session_lock);
        }
    }
    pthread_mutex_unlock(&cache->lock);
    snapshot->settings.verbosity = cache_verbosity(cache);
    snapshot->connections = atomic_load_explicit(&cache->connections, memory_order_relaxed);
    snapshot->accepting = atomic_load_explicit(&cache->accept_stopped, memory_order_relaxed) == 0;
    snapshot->crawling = atomic_load_explicit(&cache->crawling, memory_order_relaxed);
    snapshot->closes_idle = snapshot->settings.idle_timeout_s > 0;
    snapshot->refuses = !snapshot->settings.accept_waits;
    snapshot->caches_tls_sessions =
        snapshot->settings.tls.enabled && snapshot->settings.tls.session_cache;
    snapshot->tls_min_version = tls_version_name(snapshot->settings.tls.min_version);
    /* memcached cannot count more than its limit, by which tools divide. */
    snapshot->bytes = u_min64(snapshot->kv.item_sizes, snapshot->kv.memory_limit_bytes);
    snapshot->none = "none";
    snapshot->ext = (struct cache_stats_extstore){.item_size = 512,
                                                  .item_age = UINT32_MAX,
                                                  .recache_rate = 2000,
                                                  .wbuf_size = 4 * 1024 * 1024,
                                                  .max_sleep = 1000000,
                                                  .max_frag = "0.80",
                                                  .automove_freeratio = "0.010"};
    snapshot->binding = binding_name(snapshot->settings.binding);
    snapshot->evict_policy = kv_policy_name(snapshot->settings.evict_policy);
    snapshot->has_memory_file = snapshot->settings.memory_file != NULL;
    snapshot->memory_file = snapshot->has_memory_file ? snapshot->settings.memory_file : "(null)";
    snapshot->restored = *kv_restored(cache->kv);
    snapshot->client_flags_bytes = sizeof(uint32_t);
}

static uint64_t read_number(const void *at, uint32_t size)
{
    union {
        uint8_t u8;
        uint16_t u16;
        uint32_t u32;
        uint64_t u64;
    } number;

    U_ASSERT(size == 1 || size == 2 || size == 4 || size == 8);
    memcpy(&number, at, size);
    if (size <= 2)
        return size == 1 ? number.u8 : number.u16;
    return size == 4 ? number.u32 : number.u64;
}

static void add_row(struct cache_stats_out *out, const uint8_t *at,
                    const struct cache_stats_row *row)
{
    uint64_t number = row->format == CACHE_STATS_FRACTION ? 0 : read_number(at, row->size);
    const char *words = NULL;
    char text[32];
    double fraction;

    switch (row->format) {
    case CACHE_STATS_NUMBER:
        cache_stats_number(out, row->name, number);
        return;
    case CACHE_STATS_OCTAL:
        snprintf(text, sizeof(text), "%" PRIo64, number);
        break;
    case CACHE_STATS_FRACTION:
        memcpy(&fraction, at, sizeof(fraction));
        snprintf(text, sizeof(text), "%.2f", fraction);
        break;
    case CACHE_STATS_CHAR:
        snprintf(text, sizeof(text), "%c", (int)number);
        break;
    case CACHE_STATS_YES_NO:
        words = number != 0 ? "yes" : "no";
        break;
    case CACHE_STATS_NO_YES:
        words = number == 0 ? "yes" : "no";
        break;
    case CACHE_STATS_ON_OFF:
        words = number != 0 ? "on" : "off";
        break;
    case CACHE_STATS_TEXT:
        memcpy(&words, at, sizeof(words));
        words = words == NULL || words[0] == '\0' ? "NULL" : words;
        break;
    }
    cache_stats_text(out, row->name, words != NULL ? words : text);
}

void cache_stats_rows(struct cache_stats_out *out, const struct cache_stats_snapshot *snapshot,
                      const struct cache_stats_row *rows, size_t count)
{
    const uint8_t *base = (const uint8_t *)snapshot;

    for (size_t i = 0; i < count; i++)
        if (rows[i].needs == 0 || base[rows[i].needs] != 0)
            add_row(out, base + rows[i].offset, &rows[i]);
}

int cache_stats_provider(struct cache *cache, const char *name, cache_stats_fill *fill, void *ctx)
{
    if (cache->provider_count == CACHE_STATS_PROVIDER_MAX)
        return -1;
    cache->providers[cache->provider_count].name = name;
    cache->providers[cache->provider_count].fill = fill;
    cache->providers[cache->provider_count].ctx = ctx;
    cache->provider_count++;
    return 0;
}

/* ---- selecting the list ------------------------------------------------------------------ */

static const struct stats_list {
    const char *name;
    void (*fill)(struct cache_stats_out *out);
} lists[] = {
    {"settings", cache_stats_settings},
    {"items", cache_stats_items},
    {"slabs", cache_stats_slabs},
    {"sizes", cache_stats_sizes},
    {"kv", cache_stats_kv},
    {"latency", cache_stats_latency},
    {"hotkeys", cache_stats_hotkeys},
};

static const struct cache_provider *find_provider(const struct cache *cache, const char *name,
                                                  uint32_t name_len)
{
    for (unsigned i = 0; i < cache->provider_count; i++) {
        const char *own = cache->providers[i].name;

        if (strlen(own) == name_len && memcmp(own, name, name_len) == 0)
            return &cache->providers[i];
    }
    return NULL;
}

bool cache_stats_read(struct cache *cache, uint64_t now_us, const char *name,
                      cache_stats_emit *emit, void *ctx)
{
    struct cache_stats_out out = {.cache = cache, .now_us = now_us, .emit = emit, .emit_ctx = ctx};
    const struct cache_provider *provider;

    if (name == NULL) {
        cache_stats_general_rows(&out);
        return true;
    }
    if (strcmp(name, "kv") == 0) {
        cache_stats_kv(&out);
        return true;
    }
    provider = find_provider(cache, name, (uint32_t)strlen(name));
    if (provider != NULL)
        provider->fill(provider->ctx, emit, ctx);
    return provider != NULL;
}

/* Fills a list, without its end. False if no list has that name. */
static bool list_fill(struct cache_stats_out *out, const struct cache_words *words)
{
    const struct cache_provider *provider;

    if (words->count == 0) {
        cache_stats_general(out);
        return true;
    }
    for (unsigned i = 0; i < U_ARRAY_LEN(lists); i++) {
        if (cache_word_is(words, 0, lists[i].name)) {
            lists[i].fill(out);
            return true;
        }
    }
    provider = find_provider(out->cache, (const char *)words->at[0], words->len[0]);
    if (provider != NULL)
        provider->fill(provider->ctx, cache_stats_text, out);
    return provider != NULL;
}

/* ---- text -------------------------------------------------------------------------------- */

static int text_detail(struct cache_session *session, const struct cache_words *words,
                       struct cache_sink *sink)
{
    struct cache_worker *worker = session->worker;

    if (worker->cache->settings.dump_disabled)
        return cache_reply_status(worker, sink, MC_STATUS_DETAIL_NOT_ALLOWED);
    if (cache_word_is(words, 1, "dump"))
        return cache_prefix_dump_start(session, sink);
    if (!cache_word_is(words, 1, "on") && !cache_word_is(words, 1, "off"))
        return cache_reply_status(worker, sink, MC_STATUS_DETAIL_USAGE);
    cache_prefix_switch(worker, cache_word_is(words, 1, "on"));
    return cache_reply_status(worker, sink, MC_STATUS_OK);
}

static int text_cachedump(struct cache_session *session, const struct cache_words *words,
                          struct cache_sink *sink)
{
    struct cache_worker *worker = session->worker;
    u_u32 class_id, limit;

    if (worker->cache->settings.dump_disabled)
        return cache_reply_status(worker, sink, MC_STATUS_CACHEDUMP_NOT_ALLOWED);
    if (words->count < 3)
        return cache_reply_status(worker, sink, MC_STATUS_CACHEDUMP_BAD_LINE);
    if (!mc_token_u32(words->at[1], words->len[1], &class_id) ||
        !mc_token_u32(words->at[2], words->len[2], &limit))
        return cache_reply_status(worker, sink, MC_STATUS_BAD_FORMAT);
    if (!session->counted)
        return cache_reply_status(worker, sink, MC_STATUS_CACHEDUMP_NOT_ALLOWED);
    if (class_id >= KV_CLASSES_MAX)
        return cache_reply_status(worker, sink, MC_STATUS_CACHEDUMP_BAD_CLASS);
    return cache_dump_start(session, CACHE_DUMP_CACHEDUMP,
                            class_id > 0 ? UINT64_C(1) << (class_id - 1) : 0,
                            limit > 0 ? limit : UINT32_MAX, sink);
}

static int text_stats(struct cache_session *session, const struct mc_request *request,
                      struct cache_sink *sink)
{
    struct cache_stats_out out = {
        .cache = session->worker->cache, .now_us = session->worker->now_us, .session = session};
    struct cache_words words = cache_words_split(request);

    if (cache_word_is(&words, 0, "reset")) {
        cache_counters_reset(session->worker->cache);
        return cache_reply_status(session->worker, sink, MC_STATUS_RESET);
    }
    if (cache_word_is(&words, 0, "detail"))
        return text_detail(session, &words, sink);
    if (cache_word_is(&words, 0, "cachedump"))
        return text_cachedump(session, &words, sink);
    if (cache_word_is(&words, 0, "conns"))
        return cache_stats_conns_start(session, sink);
    if (!list_fill(&out, &words))
        return cache_reply_status(session->worker, sink, MC_STATUS_ERROR);
    cache_textbuf_add(&out.text, "END\r\n", 5);
    return cache_textbuf_send(session, &out.text, sink);
}

/* ---- binary ------------------------------------------------------------------------------ */

/* The dump is one packet with the lines of the text protocol as its value. */
static bool binary_detail(struct cache_stats_out *out, const struct cache_words *words)
{
    struct cache_worker *worker = out->session->worker;
    struct cache_textbuf lines = {0};
    uint32_t at = 0;

    if (!cache_word_is(words, 1, "dump")) {
        if (!cache_word_is(words, 1, "on") && !cache_word_is(words, 1, "off"))
            return false;
        cache_prefix_switch(worker, cache_word_is(words, 1, "on"));
        return true;
    }
    while (cache_prefix_dump(worker->cache, &lines, &at))
        continue;
    cache_textbuf_add(&lines, "END\r\n", 5);
    out->text.failed = lines.failed;
    packet_add(out, "detailed", 8, (const char *)lines.bytes, (uint32_t)lines.len);
    cache_textbuf_free(&lines);
    return true;
}

static bool binary_fill(struct cache_stats_out *out, const struct cache_words *words)
{
    struct cache *cache = out->cache;

    if (cache_word_is(words, 0, "reset")) {
        cache_counters_reset(cache);
        return true;
    }
    if (cache_word_is(words, 0, "detail"))
        return !cache->settings.dump_disabled && binary_detail(out, words);
    return list_fill(out, words);
}

static int binary_stats(struct cache_session *session, const struct mc_request *request,
                        struct cache_sink *sink)
{
    struct cache_stats_out out = {.cache = session->worker->cache,
                                  .now_us = session->worker->now_us,
                                  .session = session,
                                  .binary = &request->binary};
    struct cache_words words = cache_words_split(request);

    if (!binary_fill(&out, &words))
        return cache_binary_error(session->worker, request, MC_BINARY_NOT_FOUND, NULL, sink);
    packet_add(&out, NULL, 0, NULL, 0);
    if (!out.text.failed)
        return cache_textbuf_send(session, &out.text, sink);
    cache_textbuf_free(&out.text);
    cache_count(session->worker, CACHE_MALLOC_FAILS, 1);
    return cache_binary_error(session->worker, request, MC_BINARY_NO_MEMORY,
                              "Out of memory generating stats", sink);
}

int cache_exec_stats(struct cache_session *session, const struct mc_request *request,
                     struct cache_sink *sink)
{
    if (session->state.protocol == CACHE_PROTOCOL_BINARY)
        return binary_stats(session, request, sink);
    return text_stats(session, request, sink);
}
