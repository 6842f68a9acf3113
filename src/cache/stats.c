/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The command stats: which list is asked for, and how its lines are written in either protocol.
 */
#include "cache/stats.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "cache/dump.h"
#include "cache/exec.h"
#include "cache/prefix.h"
#include "cache/reply.h"
#include "cache/watch.h"
#include "cache/words.h"

#define NAME_MAX_BYTES MC_KEY_MAX
#define VALUE_MAX_BYTES 700

/* ---- lines ------------------------------------------------------------------------------- */

/* One packet of the binary protocol; without name and value it ends the list. */
static void packet_add(struct cache_stats_out *out, const char *name, uint32_t name_len,
                       const char *value, uint32_t value_len)
{
    uint8_t header[MC_BINARY_HEADER_BYTES + NAME_MAX_BYTES];
    uint32_t n = mc_write_binary_stat_header(header, out->binary, name, name_len, value_len);

    cache_text_add(&out->text, header, n);
    cache_text_add(&out->text, value, value_len);
}

void cache_stats_text(void *ctx, const char *name, const char *value)
{
    struct cache_stats_out *out = ctx;
    uint32_t name_len = (uint32_t)strnlen(name, NAME_MAX_BYTES);
    uint32_t value_len = (uint32_t)strnlen(value, VALUE_MAX_BYTES);

    if (out->binary != NULL) {
        packet_add(out, name, name_len, value, value_len);
        return;
    }
    cache_text_add(&out->text, "STAT ", 5);
    cache_text_add(&out->text, name, name_len);
    cache_text_add(&out->text, " ", 1);
    cache_text_add(&out->text, value, value_len);
    cache_text_add(&out->text, "\r\n", 2);
}

void cache_stats_number(struct cache_stats_out *out, const char *name, uint64_t value)
{
    char text[MC_NUMBER_MAX + 1];

    snprintf(text, sizeof(text), "%" PRIu64, value);
    cache_stats_text(out, name, text);
}

/* ---- sums -------------------------------------------------------------------------------- */

void cache_stats_sum(struct cache *cache, struct cache_stats_sums *sums)
{
    kv_stats(cache->kv, &sums->kv);
    sums->session_structs = 0;
    pthread_mutex_lock(&cache->lock);
    cache_counters_sum(cache, &sums->cache);
    sums->watchers = cache_watcher_count(cache);
    for (unsigned i = 0; i < cache->settings.threads; i++) {
        struct cache_worker *worker = cache->workers[i];

        if (worker != NULL) {
            pthread_mutex_lock(&worker->session_lock);
            sums->session_structs += worker->session_count;
            pthread_mutex_unlock(&worker->session_lock);
        }
    }
    pthread_mutex_unlock(&cache->lock);
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

/* ---- which list -------------------------------------------------------------------------- */

static const struct stats_list {
    const char *name;
    void (*fill)(struct cache_stats_out *out);
    bool binary; /* asked for in the binary protocol as well */
} lists[] = {
    {"settings", cache_stats_settings, true}, {"items", cache_stats_items, true},
    {"slabs", cache_stats_slabs, true},       {"sizes", cache_stats_sizes, true},
    {"conns", cache_stats_conns, false},      {"kv", cache_stats_kv, true},
};

/* Fills a list, without its end. False if there is none of that name. */
static bool list_fill(struct cache_stats_out *out, const struct cache_words *words)
{
    const struct cache *cache = out->session->worker->cache;

    if (words->count == 0) {
        cache_stats_general(out);
        return true;
    }
    for (unsigned i = 0; i < U_ARRAY_LEN(lists); i++) {
        if (cache_word_is(words, 0, lists[i].name) && (out->binary == NULL || lists[i].binary)) {
            lists[i].fill(out);
            return true;
        }
    }
    for (unsigned i = 0; i < cache->provider_count; i++) {
        const struct cache_provider *provider = &cache->providers[i];

        if (cache_word_is(words, 0, provider->name)) {
            provider->fill(provider->ctx, cache_stats_text, out);
            return true;
        }
    }
    return false;
}

/* ---- text -------------------------------------------------------------------------------- */

static int text_detail(struct cache_session *session, const struct cache_words *words,
                       struct cache_sink *sink)
{
    struct cache_worker *worker = session->worker;
    struct cache_text text = {0};

    if (worker->cache->settings.dump_disabled)
        return cache_reply_status(worker, sink, MC_STATUS_DETAIL_NOT_ALLOWED);
    if (cache_word_is(words, 1, "dump")) {
        cache_prefix_dump(worker->cache, &text);
        cache_text_add(&text, "END\r\n", 5);
        return cache_text_send(session, &text, sink);
    }
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
    return cache_dump_class(session, class_id, limit, sink);
}

static int text_stats(struct cache_session *session, const struct mc_request *request,
                      struct cache_sink *sink)
{
    struct cache_stats_out out = {.session = session};
    struct cache_words words = cache_words_cut(request);

    if (cache_word_is(&words, 0, "reset")) {
        cache_counters_reset(session->worker->cache);
        return cache_reply_status(session->worker, sink, MC_STATUS_RESET);
    }
    if (cache_word_is(&words, 0, "detail"))
        return text_detail(session, &words, sink);
    if (cache_word_is(&words, 0, "cachedump"))
        return text_cachedump(session, &words, sink);
    if (!list_fill(&out, &words))
        return cache_reply_status(session->worker, sink, MC_STATUS_ERROR);
    cache_text_add(&out.text, "END\r\n", 5);
    return cache_text_send(session, &out.text, sink);
}

/* ---- binary ------------------------------------------------------------------------------ */

/* The dump is one packet, whose value are the lines of the text protocol. */
static bool binary_detail(struct cache_stats_out *out, const struct cache_words *words)
{
    struct cache_worker *worker = out->session->worker;
    struct cache_text lines = {0};

    if (!cache_word_is(words, 1, "dump")) {
        if (!cache_word_is(words, 1, "on") && !cache_word_is(words, 1, "off"))
            return false;
        cache_prefix_switch(worker, cache_word_is(words, 1, "on"));
        return true;
    }
    cache_prefix_dump(worker->cache, &lines);
    cache_text_add(&lines, "END\r\n", 5);
    out->text.failed = lines.failed;
    packet_add(out, "detailed", 8, (const char *)lines.bytes, (uint32_t)lines.len);
    cache_text_free(&lines);
    return true;
}

static bool binary_fill(struct cache_stats_out *out, const struct cache_words *words)
{
    struct cache *cache = out->session->worker->cache;

    if (cache_word_is(words, 0, "reset")) {
        cache_counters_reset(cache);
        return true;
    }
    if (cache_word_is(words, 0, "detail"))
        return !cache->settings.dump_disabled && binary_detail(out, words);
    return list_fill(out, words);
}

static int binary_error(struct cache_session *session, const struct mc_request *request,
                        enum mc_binary_status status, const char *message, struct cache_sink *sink)
{
    uint8_t packet[MC_BINARY_STATUS_MAX];
    uint32_t n = message != NULL ? mc_write_binary_text(packet, &request->binary, status, message)
                                 : mc_write_binary_error(packet, &request->binary, status);

    return cache_reply_bytes(session->worker, sink, packet, n);
}

static int binary_stats(struct cache_session *session, const struct mc_request *request,
                        struct cache_sink *sink)
{
    struct cache_stats_out out = {.session = session, .binary = &request->binary};
    struct cache_words words = cache_words_cut(request);

    if (!binary_fill(&out, &words))
        return binary_error(session, request, MC_BINARY_NOT_FOUND, NULL, sink);
    packet_add(&out, NULL, 0, NULL, 0);
    if (!out.text.failed)
        return cache_text_send(session, &out.text, sink);
    cache_text_free(&out.text);
    cache_count(session->worker, CACHE_MALLOC_FAILS, 1);
    return binary_error(session, request, MC_BINARY_NO_MEMORY, "Out of memory generating stats",
                        sink);
}

int cache_exec_stats(struct cache_session *session, const struct mc_request *request,
                     struct cache_sink *sink)
{
    if (session->language == CACHE_LANGUAGE_BINARY)
        return binary_stats(session, request, sink);
    return text_stats(session, request, sink);
}
