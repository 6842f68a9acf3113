/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The command stats: which list is asked for, and how its lines are written.
 */
#include "cache/stats.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "cache/exec.h"
#include "cache/reply.h"

#define STATS_LINE_MAX 1024

/* ---- writing ----------------------------------------------------------------------------- */

static bool is_binary(const struct cache_stats_out *out)
{
    return out->session->language == CACHE_LANGUAGE_BINARY;
}

static void out_bytes(struct cache_stats_out *out, const char *bytes, size_t len)
{
    if (!out->failed)
        out->failed = cache_reply_bytes(out->session->worker, out->sink, bytes, (uint32_t)len) != 0;
}

static void out_status(struct cache_stats_out *out, enum mc_status status)
{
    uint32_t len;
    const char *text = mc_status_text(status, &len);

    out_bytes(out, text, len);
}

static void packet_write(struct cache_stats_out *out, const char *name, const char *value)
{
    uint8_t header[MC_BINARY_REQUEST_MAX];
    uint32_t name_len = (uint32_t)strnlen(name, MC_KEY_MAX);
    uint32_t value_len = (uint32_t)strnlen(value, STATS_LINE_MAX);
    uint32_t n =
        mc_write_binary_stat_header(header, &out->request->binary, name, name_len, value_len);

    out_bytes(out, (const char *)header, n);
    out_bytes(out, value, value_len);
}

static void line_write(struct cache_stats_out *out, const char *name, const char *value)
{
    char line[STATS_LINE_MAX];
    int len = snprintf(line, sizeof(line) - 2, "STAT %s %s", name, value);

    if (len < 0)
        return;
    if ((size_t)len > sizeof(line) - 3)
        len = (int)sizeof(line) - 3;
    memcpy(line + len, "\r\n", 2);
    out_bytes(out, line, (size_t)len + 2);
}

void cache_stats_text(void *ctx, const char *name, const char *value)
{
    struct cache_stats_out *out = ctx;

    if (is_binary(out))
        packet_write(out, name, value);
    else
        line_write(out, name, value);
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
    cache_counters_sum(cache, sums->counters);
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

/* ---- the command ------------------------------------------------------------------------- */

struct word {
    const char *at;
    size_t len;
};

#define WORDS_MAX 3

static unsigned words_cut(const struct mc_request *request, struct word words[WORDS_MAX])
{
    const char *at = (const char *)request->args;
    const char *end = at + request->args_len;
    unsigned count = 0;

    while (count < WORDS_MAX) {
        while (at < end && *at == ' ')
            at++;
        if (at == end)
            break;
        words[count].at = at;
        while (at < end && *at != ' ')
            at++;
        words[count].len = (size_t)(at - words[count].at);
        count++;
    }
    return count;
}

static bool word_is(const struct word *word, const char *text)
{
    return word->len == strlen(text) && memcmp(word->at, text, word->len) == 0;
}

static void stats_sizes(struct cache_stats_out *out)
{
    cache_stats_text(out, "sizes_status", "disabled");
}

static const struct {
    const char *name;
    void (*list)(struct cache_stats_out *out);
} lists[] = {
    {"settings", cache_stats_settings}, {"items", cache_stats_items},
    {"slabs", cache_stats_slabs},       {"sizes", stats_sizes},
    {"conns", cache_stats_conns},
};

/* Writes a list without its END. False if there is none of that name. */
static bool list_write(struct cache_stats_out *out, const struct word *name)
{
    const struct cache *cache = out->session->worker->cache;

    for (unsigned i = 0; i < U_ARRAY_LEN(lists); i++) {
        if (word_is(name, lists[i].name)) {
            lists[i].list(out);
            return true;
        }
    }
    for (unsigned i = 0; i < cache->provider_count; i++) {
        const struct cache_provider *provider = &cache->providers[i];

        if (word_is(name, provider->name)) {
            provider->fill(provider->ctx, cache_stats_text, out);
            return true;
        }
    }
    return false;
}

/* Statistics by key prefix are never on, so there is nothing to switch off and nothing to dump. */
static enum mc_status stats_detail(const struct word *mode)
{
    if (mode != NULL && word_is(mode, "off"))
        return MC_STATUS_OK;
    if (mode != NULL && word_is(mode, "dump"))
        return MC_STATUS_END;
    if (mode != NULL && word_is(mode, "on"))
        return MC_STATUS_DETAIL_NOT_ALLOWED;
    return MC_STATUS_DETAIL_USAGE;
}

/* Writes what is asked for; returns the status that ends it. */
static enum mc_status stats_write(struct cache_stats_out *out)
{
    struct word words[WORDS_MAX];
    unsigned count = words_cut(out->request, words);

    if (count == 0) {
        cache_stats_general(out);
        return MC_STATUS_END;
    }
    if (word_is(&words[0], "reset")) {
        cache_counters_reset(out->session->worker->cache);
        return MC_STATUS_RESET;
    }
    if (word_is(&words[0], "detail"))
        return stats_detail(count > 1 ? &words[1] : NULL);
    if (is_binary(out) && word_is(&words[0], "conns"))
        return MC_STATUS_ERROR;
    if (word_is(&words[0], "cachedump"))
        return MC_STATUS_CACHEDUMP_NOT_ALLOWED;
    return list_write(out, &words[0]) ? MC_STATUS_END : MC_STATUS_ERROR;
}

/* In the binary protocol an empty packet ends a list; what is no list is not found. */
static void packets_end(struct cache_stats_out *out, enum mc_status status)
{
    uint8_t packet[MC_BINARY_STATUS_MAX];
    const struct mc_binary *binary = &out->request->binary;

    if (status == MC_STATUS_END || status == MC_STATUS_RESET || status == MC_STATUS_OK)
        packet_write(out, "", "");
    else
        out_bytes(out, (const char *)packet,
                  mc_write_binary_error(packet, binary, MC_BINARY_NOT_FOUND));
}

int cache_exec_stats(struct cache_session *session, const struct mc_request *request,
                     struct cache_sink *sink)
{
    struct cache_stats_out out = {.session = session, .request = request, .sink = sink};
    enum mc_status status = stats_write(&out);

    if (is_binary(&out))
        packets_end(&out, status);
    else
        out_status(&out, status);
    return out.failed ? -1 : 0;
}
