/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The administrative commands: memory limit, crawler and dumps, shutdown, debugging. Settings that
 * this engine does not have (slabs, LRU segments) are checked, stored and answered as by memcached;
 * `stats settings` shows them.
 */
#include "cache/exec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "cache/clock.h"
#include "cache/sink_reply.h"
#include "cache/watch.h"

#define MEMLIMIT_MIB_MIN 8
#define MEMLIMIT_MIB_MAX 1000000000
#define CRAWLER_SLEEP_US_MAX 1000000
#define LRU_PCT_SUM_MAX 80
#define AUTOMOVE_WINDOW_MIN 3
#define AUTOMOVE_WINDOW_MAX 1800

/* ---- words ------------------------------------------------------------------------------- */

static bool word_u32(const struct cache_words *words, unsigned i, u_u32 *number)
{
    return i < words->count && mc_token_u32(words->at[i], words->len[i], number);
}

static bool word_s32(const struct cache_words *words, unsigned i, u_s32 *number)
{
    return i < words->count && mc_token_s32(words->at[i], words->len[i], number);
}

/* A fraction like 0.8 or -1e3. */
static bool word_fraction(const struct cache_words *words, unsigned i, double *number)
{
    char text[32];
    char *end;

    if (i >= words->count || words->len[i] >= sizeof(text))
        return false;
    memcpy(text, words->at[i], words->len[i]);
    text[words->len[i]] = '\0';
    if (strspn(text, "+-.0123456789eE") != words->len[i])
        return false;
    errno = 0;
    *number = strtod(text, &end);
    return end != text && *end == '\0' && errno != ERANGE;
}

/* ---- memory ------------------------------------------------------------------------------ */

static enum mc_status admin_memlimit(struct cache_worker *worker, const struct cache_words *words)
{
    struct cache *cache = worker->cache;
    u_u32 mib;

    if (!word_u32(words, 0, &mib))
        return MC_STATUS_ERROR;
    if (mib < MEMLIMIT_MIB_MIN)
        return MC_STATUS_MEMLIMIT_TOO_SMALL;
    if (mib > MEMLIMIT_MIB_MAX)
        return MC_STATUS_MEMLIMIT_NOT_BYTES;
    if (!kv_memory_limit_set(worker->kv_worker, (uint64_t)mib << 20))
        return MC_STATUS_MEMLIMIT_FAILED;
    pthread_mutex_lock(&cache->lock);
    cache->settings.memory_bytes = (uint64_t)mib << 20;
    pthread_mutex_unlock(&cache->lock);
    return MC_STATUS_OK;
}

/* ---- slabs ------------------------------------------------------------------------------- */

/* There are no pages, so no class has spare ones. */
static enum mc_status slabs_reassign(const struct cache *cache, const struct cache_words *words)
{
    u_s32 from, to;

    if (words->count != 3)
        return MC_STATUS_ERROR;
    if (!cache->settings.compat.slab_reassign)
        return MC_STATUS_REASSIGN_DISABLED;
    if (!word_s32(words, 1, &from) || !word_s32(words, 2, &to))
        return MC_STATUS_BAD_FORMAT;
    if (from == to)
        return MC_STATUS_REASSIGN_SAME;
    if (from < -1 || to < 0 || from > (u_s32)cache->sizes.class_count ||
        to > (u_s32)cache->sizes.class_count)
        return MC_STATUS_REASSIGN_BAD_CLASS;
    return MC_STATUS_REASSIGN_NO_SPARE;
}

static enum mc_status slabs_automove(struct cache_settings_compat *compat,
                                     const struct cache_words *words)
{
    double fraction;
    u_u32 number;

    if (words->count < 2)
        return MC_STATUS_ERROR;
    if (cache_word_is(words, 1, "ratio") || cache_word_is(words, 1, "freeratio")) {
        if (!word_fraction(words, 2, &fraction))
            return MC_STATUS_ERROR;
        if (cache_word_is(words, 1, "ratio"))
            compat->slab_automove_ratio = fraction;
        return MC_STATUS_OK;
    }
    if (cache_word_is(words, 1, "window")) {
        if (!word_u32(words, 2, &number))
            return MC_STATUS_BAD_FORMAT;
        if (number < AUTOMOVE_WINDOW_MIN || number > AUTOMOVE_WINDOW_MAX)
            return MC_STATUS_AUTOMOVE_BAD_WINDOW;
        compat->slab_automove_window = number;
        return MC_STATUS_OK;
    }
    if (!word_u32(words, 1, &number))
        return MC_STATUS_BAD_FORMAT;
    if (number > 2)
        return MC_STATUS_ERROR;
    compat->slab_automove = number;
    return MC_STATUS_OK;
}

static enum mc_status admin_slabs(struct cache_worker *worker, const struct cache_words *words)
{
    struct cache *cache = worker->cache;
    enum mc_status status = MC_STATUS_ERROR;

    pthread_mutex_lock(&cache->lock);
    if (cache_word_is(words, 0, "reassign"))
        status = slabs_reassign(cache, words);
    else if (cache_word_is(words, 0, "automove"))
        status = slabs_automove(&cache->settings.compat, words);
    pthread_mutex_unlock(&cache->lock);
    return status;
}

/* ---- lru --------------------------------------------------------------------------------- */

static enum mc_status lru_tune(struct cache_settings_compat *compat,
                               const struct cache_words *words)
{
    u_u32 hot_pct, warm_pct;
    double hot_factor, warm_factor;

    if (!word_u32(words, 1, &hot_pct) || !word_u32(words, 2, &warm_pct) ||
        !word_fraction(words, 3, &hot_factor) || !word_fraction(words, 4, &warm_factor))
        return MC_STATUS_ERROR;
    if ((uint64_t)hot_pct + warm_pct > LRU_PCT_SUM_MAX)
        return MC_STATUS_LRU_BAD_PERCENT;
    if (hot_factor <= 0 || warm_factor <= 0)
        return MC_STATUS_LRU_BAD_FACTOR;
    compat->hot_lru_pct = hot_pct;
    compat->warm_lru_pct = warm_pct;
    compat->hot_max_factor = hot_factor;
    compat->warm_max_factor = warm_factor;
    return MC_STATUS_OK;
}

static enum mc_status lru_temp_ttl(struct cache_settings_compat *compat,
                                   const struct cache_words *words)
{
    u_s32 ttl;

    if (!word_s32(words, 1, &ttl))
        return MC_STATUS_ERROR;
    compat->temp_lru = ttl >= 0;
    if (ttl >= 0)
        compat->temporary_ttl_s = (uint32_t)ttl;
    return MC_STATUS_OK;
}

static enum mc_status lru_set(struct cache_settings_compat *compat, const struct cache_words *words)
{
    if (cache_word_is(words, 0, "tune") && words->count >= 5)
        return lru_tune(compat, words);
    if (!compat->lru_maintainer)
        return MC_STATUS_ERROR;
    if (cache_word_is(words, 0, "mode") &&
        (cache_word_is(words, 1, "flat") || cache_word_is(words, 1, "segmented"))) {
        compat->lru_segmented = cache_word_is(words, 1, "segmented");
        return MC_STATUS_OK;
    }
    if (cache_word_is(words, 0, "temp_ttl"))
        return lru_temp_ttl(compat, words);
    return MC_STATUS_ERROR;
}

static enum mc_status admin_lru(struct cache_worker *worker, const struct cache_words *words)
{
    struct cache *cache = worker->cache;
    enum mc_status status;

    pthread_mutex_lock(&cache->lock);
    status = lru_set(&cache->settings.compat, words);
    pthread_mutex_unlock(&cache->lock);
    return status;
}

/* ---- lru_crawler ------------------------------------------------------------------------- */

/* The sub-commands that set a value. */
static enum mc_status crawler_set(struct cache_settings_compat *compat,
                                  const struct cache_words *words)
{
    u_u32 number;

    if (words->count == 1 &&
        (cache_word_is(words, 0, "enable") || cache_word_is(words, 0, "disable"))) {
        bool enable = cache_word_is(words, 0, "enable");

        if (enable == compat->lru_crawler)
            return enable ? MC_STATUS_CRAWLER_NO_START : MC_STATUS_CRAWLER_NO_STOP;
        compat->lru_crawler = enable;
        return MC_STATUS_OK;
    }
    if (words->count != 2)
        return MC_STATUS_ERROR;
    if (cache_word_is(words, 0, "sleep")) {
        if (!word_u32(words, 1, &number))
            return MC_STATUS_BAD_FORMAT;
        if (number > CRAWLER_SLEEP_US_MAX)
            return MC_STATUS_CRAWLER_BAD_SLEEP;
        compat->lru_crawler_sleep_us = number;
        return MC_STATUS_OK;
    }
    if (cache_word_is(words, 0, "tocrawl")) {
        if (!word_u32(words, 1, &number))
            return MC_STATUS_BAD_FORMAT;
        compat->lru_crawler_tocrawl = number;
        return MC_STATUS_OK;
    }
    return MC_STATUS_ERROR;
}

static bool crawler_enabled(struct cache *cache)
{
    bool enabled;

    pthread_mutex_lock(&cache->lock);
    enabled = cache->settings.compat.lru_crawler;
    pthread_mutex_unlock(&cache->lock);
    return enabled;
}

/* The reason to refuse a dump, or MC_STATUS_OK. */
static enum mc_status dump_refusal(const struct cache_session *session, bool metadump)
{
    if (!session->counted)
        return MC_STATUS_CRAWLER_ERROR; /* a datagram has one reply */
    if (session->worker->cache->settings.dump_disabled)
        return metadump ? MC_STATUS_METADUMP_NOT_ALLOWED : MC_STATUS_MGDUMP_NOT_ALLOWED;
    if (cache_session_has_replied(session))
        return metadump ? MC_STATUS_METADUMP_PIPELINED : MC_STATUS_MGDUMP_PIPELINED;
    return MC_STATUS_OK;
}

/* Starts a crawl or prepares a dump. MC_STATUS_COUNT: a dump may start. */
static enum mc_status crawler_run(struct cache_session *session, const struct cache_words *words,
                                  uint64_t *classes)
{
    struct cache_worker *worker = session->worker;
    bool crawl = cache_word_is(words, 0, "crawl");
    enum mc_status status = MC_STATUS_OK;

    if (words->count != 2)
        return MC_STATUS_ERROR;
    if (!crawler_enabled(worker->cache))
        return MC_STATUS_CRAWLER_DISABLED;
    if (!crawl)
        status = dump_refusal(session, cache_word_is(words, 0, "metadump"));
    if (status != MC_STATUS_OK)
        return status;
    if (!cache_dump_classes(words->at[1], words->len[1], classes))
        return MC_STATUS_CRAWLER_BAD_CLASS;
    if (!crawl)
        return MC_STATUS_COUNT;
    return cache_crawl_start(worker, *classes) ? MC_STATUS_OK : MC_STATUS_CRAWLER_BUSY;
}

int cache_admin_crawler(struct cache_session *session, const struct mc_request *request,
                        struct cache_sink *sink)
{
    struct cache_words words = cache_words_split(request);
    struct cache *cache = session->worker->cache;
    bool mgdump = cache_word_is(&words, 0, "mgdump");
    enum mc_status status;
    uint64_t classes;

    if (cache_word_is(&words, 0, "crawl") || cache_word_is(&words, 0, "metadump") || mgdump) {
        status = crawler_run(session, &words, &classes);
        if (status == MC_STATUS_COUNT)
            return cache_dump_start(session, mgdump ? CACHE_DUMP_MGDUMP : CACHE_DUMP_METADUMP,
                                    classes, UINT32_MAX, sink);
    } else {
        pthread_mutex_lock(&cache->lock);
        status = crawler_set(&cache->settings.compat, &words);
        pthread_mutex_unlock(&cache->lock);
    }
    return cache_reply_unless_noreply(session->worker, sink, request, status);
}

/* ---- certificates ------------------------------------------------------------------------ */

/* Without TLS the answer is that of a memcached without it. */
int cache_admin_refresh_certs(struct cache_session *session, const struct mc_request *request,
                              struct cache_sink *sink)
{
    struct cache_worker *worker = session->worker;
    char error[CACHE_ERROR_MAX + 2];
    size_t len;

    if (worker->cache->refresh_certs == NULL)
        return cache_reply_unless_noreply(worker, sink, request, MC_STATUS_ERROR);
    if (cache_refresh_certs(worker->cache, worker->now_us, error) == 0)
        return cache_reply_unless_noreply(worker, sink, request, MC_STATUS_OK);
    if (request->noreply)
        return 0;
    len = strnlen(error, CACHE_ERROR_MAX);
    memcpy(error + len, "\r\n", 2);
    return cache_reply_bytes(worker, sink, error, (uint32_t)len + 2);
}

/* ---- shutdown, debugging ----------------------------------------------------------------- */

int cache_admin_shutdown(struct cache_session *session, const struct mc_request *request,
                         struct cache_sink *sink)
{
    struct cache_words words = cache_words_split(request);
    struct cache *cache = session->worker->cache;
    bool graceful = cache_word_is(&words, 0, "graceful");
    enum mc_status status = MC_STATUS_SHUTDOWN_DISABLED;

    if (cache->settings.shutdown_enabled)
        status = MC_STATUS_SHUTDOWN_BAD_MODE;
    if (!cache->settings.shutdown_enabled || words.count > (graceful ? 1u : 0u))
        return cache_reply_unless_noreply(session->worker, sink, request, status);
    if (cache->shutdown != NULL)
        cache->shutdown(cache->shutdown_ctx, graceful);
    session->close_reason = CACHE_CLOSE_SHUTDOWN;
    return -1;
}

/* memcached's settings of external storage: checked, without an effect. */
static enum mc_status admin_extstore(struct cache_worker *worker, const struct cache_words *words)
{
    static const char *const numbers[] = {
        "item_size",     "item_age",   "low_ttl",   "recache_rate",
        "compact_under", "drop_under", "max_sleep", "drop_unread",
    };
    u_u32 number, limit;
    double fraction;
    bool ok = false;

    if (cache_word_is(words, 0, "free_memchunks"))
        ok = word_u32(words, 1, &number) && word_u32(words, 2, &limit) && number < KV_CLASSES_MAX;
    else if (cache_word_is(words, 0, "max_frag"))
        ok = word_fraction(words, 1, &fraction);
    for (unsigned i = 0; i < U_ARRAY_LEN(numbers); i++)
        if (cache_word_is(words, 0, numbers[i]))
            ok = word_u32(words, 1, &number);
    return ok ? MC_STATUS_OK : MC_STATUS_ERROR;
}

/* The seconds of debugtime, with or without a sign. */
static bool word_delta(const struct cache_words *words, u_s32 *seconds)
{
    if (words->count > 0 && words->len[0] > 1 && words->at[0][0] == '+')
        return words->at[0][1] != '-' && mc_token_s32(words->at[0] + 1, words->len[0] - 1, seconds);
    return word_s32(words, 0, seconds);
}

static enum mc_status admin_debugtime(struct cache_worker *worker, const struct cache_words *words)
{
    u_s32 seconds;

    if (!worker->cache->settings.debug)
        return MC_STATUS_ERROR;
    if (cache_word_is(words, 0, "p"))
        cache_clock_pause(worker);
    else if (cache_word_is(words, 0, "r"))
        cache_clock_resume(worker);
    else if (word_delta(words, &seconds))
        cache_clock_move(worker, seconds);
    else
        return MC_STATUS_ERROR;
    return MC_STATUS_OK;
}

/* Items have no lock and no count of references that a client could hold: only whether there is
 * one is true of the answer. */
static enum mc_status admin_debugitem(struct cache_worker *worker, const struct cache_words *words)
{
    static const char *const actions[] = {"lock", "unlock", "ref", "unref"};
    struct kv_view view;
    struct kv_key key;

    if (!worker->cache->settings.debug || words->count < 2 || words->len[1] > KV_KEY_MAX)
        return MC_STATUS_ERROR;
    for (unsigned i = 0; i < U_ARRAY_LEN(actions); i++) {
        if (!cache_word_is(words, 0, actions[i]))
            continue;
        key = kv_key(worker->kv, words->at[1], words->len[1]);
        return kv_peek(worker->kv_worker, &key, &view) == KV_HIT ? MC_STATUS_OK : MC_STATUS_MISS;
    }
    return MC_STATUS_ERROR;
}

/* Tries what -o drop_privileges forbids, a socket and a process: OK if both are refused. */
static enum mc_status admin_misbehave(struct cache_worker *worker, const struct cache_words *words)
{
    bool refused;
    pid_t pid;
    int fd;

    if (!worker->cache->settings.debug)
        return MC_STATUS_ERROR;
    fd = socket(AF_INET, SOCK_STREAM, 0);
    refused = fd < 0 && errno == EACCES;
    pid = fork();
    if (pid == 0)
        _exit(0);
    if (fd >= 0)
        close(fd);
    if (pid > 0)
        waitpid(pid, NULL, 0);
    return refused && pid < 0 && errno == EACCES ? MC_STATUS_OK : MC_STATUS_ERROR;
}

/* ---- commands answered by a status ------------------------------------------------------- */

int cache_admin_run(struct cache_session *session, const struct mc_request *request,
                    struct cache_sink *sink)
{
    static enum mc_status (*const run[])(struct cache_worker *, const struct cache_words *) = {
        [MC_CMD_CACHE_MEMLIMIT] = admin_memlimit,
        [MC_CMD_SLABS] = admin_slabs,
        [MC_CMD_LRU] = admin_lru,
        [MC_CMD_EXTSTORE] = admin_extstore,
        [MC_CMD_MISBEHAVE] = admin_misbehave,
        [MC_CMD_DEBUGTIME] = admin_debugtime,
        [MC_CMD_DEBUGITEM] = admin_debugitem,
    };
    struct cache_words words = cache_words_split(request);

    U_ASSERT(request->command < U_ARRAY_LEN(run) && run[request->command] != NULL);
    return cache_reply_unless_noreply(session->worker, sink, request,
                                      run[request->command](session->worker, &words));
}
