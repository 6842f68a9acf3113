/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The test transport and its session.
 */
#include "rig.h"

#include <stdio.h>

#include "cache/cache_worker.h"
#include "kv/engine.h"

#define SECOND_US 1000000u

/* ---- the sink ---------------------------------------------------------------------------- */

static void taken_append(struct rig_sink *out, const void *bytes, size_t len)
{
    if (out->taken_capacity - out->taken_len < len + 1) {
        out->taken_capacity = (out->taken_len + len + 1) * 2;
        out->taken = realloc(out->taken, out->taken_capacity);
        assert_non_null(out->taken);
    }
    if (len > 0)
        memcpy(out->taken + out->taken_len, bytes, len);
    out->taken_len += len;
    out->taken[out->taken_len] = '\0';
    if (out->full_bytes > 0 && out->taken_len - out->drained_len >= out->full_bytes)
        out->sink.full = true;
}

/* Takes what stands before `at` and closes the room. */
static void room_take(struct rig_sink *out)
{
    if (out->room != NULL)
        taken_append(out, out->room, (size_t)(out->sink.at - out->room));
    free(out->room);
    out->room = NULL;
    out->sink.at = NULL;
    out->sink.end = NULL;
}

static bool call_fails(struct rig_sink *out)
{
    if (out->fail_after < 0)
        return false;
    if (out->fail_after == 0)
        return true;
    out->fail_after--;
    return false;
}

static int room_more(struct cache_sink *sink, uint32_t need)
{
    struct rig_sink *out = (struct rig_sink *)sink;
    uint32_t bytes = out->room_bytes > need ? out->room_bytes : need;

    assert_in_range(need, 1, CACHE_SINK_NEED_MAX);
    room_take(out);
    if (call_fails(out))
        return -1;
    out->room = malloc(bytes);
    assert_non_null(out->room);
    sink->at = out->room;
    sink->end = out->room + bytes;
    return 0;
}

static int room_ref(struct cache_sink *sink, const void *data, uint32_t len, void *cookie)
{
    struct rig_sink *out = (struct rig_sink *)sink;

    room_take(out);
    if (call_fails(out))
        return -1;
    out->ref_calls++;
    if (out->hold_refs) {
        assert_true(out->ref_count < RIG_REFS_MAX);
        out->refs[out->ref_count].data = data;
        out->refs[out->ref_count].len = len;
        out->refs[out->ref_count].at = out->taken_len;
        out->refs[out->ref_count].cookie = cookie;
        out->ref_count++;
    }
    taken_append(out, data, len);
    if (!out->hold_refs)
        cache_release(out->worker, cookie);
    return 0;
}

static const struct cache_sink_ops rig_sink_ops = {room_more, room_ref};

void rig_sink_init(struct rig_sink *out, struct cache_worker *worker)
{
    memset(out, 0, sizeof(*out));
    out->sink.ops = &rig_sink_ops;
    out->worker = worker;
    out->fail_after = -1;
    taken_append(out, NULL, 0);
}

void rig_drain(struct rig_sink *out)
{
    room_take(out);
    out->drained_len = out->taken_len;
    out->sink.full = false;
}

void rig_forget(struct rig_sink *out)
{
    assert_int_equal(out->ref_count, 0);
    rig_drain(out);
    out->taken_len = 0;
    out->drained_len = 0;
}

void rig_release(struct rig_sink *out)
{
    for (unsigned i = 0; i < out->ref_count; i++) {
        assert_memory_equal(out->refs[i].data, out->taken + out->refs[i].at, out->refs[i].len);
        cache_release(out->worker, out->refs[i].cookie);
    }
    out->ref_count = 0;
}

void rig_sink_free(struct rig_sink *out)
{
    room_take(out);
    rig_release(out);
    free(out->taken);
}

/* ---- the rig ----------------------------------------------------------------------------- */

size_t rig_rounds(size_t count)
{
    return getenv("UCACHED_VALGRIND") ? (count + 9) / 10 : count;
}

struct cache_config rig_config(void)
{
    struct cache_config config = {
        .settings =
            {
                .memory_bytes = 64u << 20,
                .item_bytes_max = 1u << 20,
                .connections_max = 1024,
                .tcp_port = 11211,
                .threads = 2,
                .evict = true,
                .listen_backlog = 1024,
                .compat =
                    {
                        .slab_reassign = true,
                        .lru_crawler = true,
                        .lru_maintainer = true,
                    },
            },
        .secret = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16},
        .start_us = RIG_START_US,
        .start_unix_s = RIG_UNIX_S,
    };

    return config;
}

void rig_open(struct rig *rig, const struct cache_config *config)
{
    const char *error = NULL;
    struct cache_peer peer = {.transport = "tcp", .addr = {127, 0, 0, 1}, .port = 4242};

    memset(rig, 0, sizeof(*rig));
    rig->config = *config;
    rig->cache = cache_create(config, &error);
    if (rig->cache == NULL)
        fail_msg("cache_create: %s", error);
    rig->worker = cache_join(rig->cache);
    assert_non_null(rig->worker);
    rig->now_us = config->start_us;
    rig->session = cache_session_open(rig->worker, &peer);
    assert_non_null(rig->session);
    cache_session_set_owner(rig->session, rig);
    rig_sink_init(&rig->out, rig->worker);
}

/* All values were stored or dropped. */
static void assert_nothing_held(const struct kv_segments *segments)
{
    for (uint32_t i = 0; i < kv_segments_count(segments); i++)
        assert_false(kv_segment_is_held(&segments->array[i]));
}

void rig_close(struct rig *rig)
{
    struct kv_stats stats;
    const char *broken;

    rig_sink_free(&rig->out);
    cache_session_close(rig->session);
    cache_leave(rig->worker);
    broken = kv_check(rig->cache->kv);
    if (broken != NULL)
        fail_msg("kv_check: %s", broken);
    kv_stats(rig->cache->kv, &stats);
    assert_int_equal(stats.pinned, 0);
    assert_nothing_held(&rig->cache->kv->segments);
    cache_destroy(rig->cache);
}

int rig_setup(void **state)
{
    struct cache_config config = rig_config();
    struct rig *rig = malloc(sizeof(*rig));

    assert_non_null(rig);
    rig_open(rig, &config);
    *state = rig;
    return 0;
}

int rig_teardown(void **state)
{
    rig_close(*state);
    free(*state);
    return 0;
}

void rig_wait(struct rig *rig, unsigned seconds)
{
    rig->now_us += (uint64_t)seconds * SECOND_US;
    cache_tick(rig->worker, rig->now_us);
}

/* ---- requests ---------------------------------------------------------------------------- */

/* Drains and resumes until the session is not blocked any more. */
static void unblock(struct rig *rig)
{
    while (cache_session_state(rig->session) == CACHE_SESSION_BLOCKED) {
        rig_drain(&rig->out);
        cache_session_resume(rig->session, &rig->out.sink);
    }
}

/* The fast path. False if it is not taken. */
static bool answer(struct rig *rig, const uint8_t *data, uint32_t len)
{
    uint8_t *room;
    uint32_t n;

    if (rig->out.sink.full || rig->out.fail_after >= 0)
        return false;
    room = malloc(CACHE_SINK_NEED_MAX);
    assert_non_null(room);
    n = cache_session_try_fast(rig->session, data, len, room);
    assert_in_range(n, 0, CACHE_SINK_NEED_MAX);
    if (n > 0)
        cache_count_fast_bytes(rig->worker, len, n);
    room_take(&rig->out);
    taken_append(&rig->out, room, n);
    free(room);
    return n > 0;
}

uint32_t rig_offer(struct rig *rig, const void *bytes, uint32_t len, uint32_t ahead_len)
{
    uint8_t *copy = malloc(len);
    bool alone = false;
    uint32_t used = len;

    assert_non_null(copy);
    memcpy(copy, bytes, len);
    if (ahead_len > 0) {
        alone = cache_session_prefetch_bucket(rig->session, copy, ahead_len);
        cache_session_prefetch_item(rig->session);
        cache_session_prefetch_value(rig->session);
    }
    if (!alone || ahead_len < len || !answer(rig, copy, len))
        used = cache_session_input(rig->session, copy, len, &rig->out.sink);
    free(copy);
    return used;
}

/* Offers one slice until it is consumed or refused. */
static size_t feed_slice(struct rig *rig, const uint8_t *bytes, size_t len)
{
    size_t done = 0;

    while (done < len) {
        uint32_t left = (uint32_t)(len - done);
        uint32_t n = rig_offer(rig, bytes + done, left, left);

        assert_true(n <= left);
        done += n;
        if (cache_session_state(rig->session) == CACHE_SESSION_OPEN)
            assert_int_equal(done, len);
        unblock(rig);
        if (cache_session_state(rig->session) == CACHE_SESSION_CLOSING)
            break;
    }
    return done;
}

size_t rig_feed_sliced(struct rig *rig, const void *bytes, size_t len, size_t slice_bytes)
{
    const uint8_t *from = bytes;
    size_t done = 0;

    while (done < len && cache_session_state(rig->session) != CACHE_SESSION_CLOSING) {
        size_t n = slice_bytes > 0 && slice_bytes < len - done ? slice_bytes : len - done;
        size_t taken = feed_slice(rig, from + done, n);

        done += taken;
        if (taken < n)
            break;
    }
    room_take(&rig->out);
    return done;
}

size_t rig_feed(struct rig *rig, const char *text)
{
    return rig_feed_sliced(rig, text, strlen(text), 0);
}

const char *rig_reply(struct rig *rig)
{
    size_t from = rig->out.drained_len;

    rig_drain(&rig->out);
    return (const char *)rig->out.taken + from;
}

void rig_turn(struct rig *rig)
{
    uint32_t eager = cache_resumable_count(rig->worker);
    struct cache_session *session;

    cache_tick(rig->worker, rig->now_us);
    for (; eager > 0 && (session = cache_resumable_next(rig->worker)) != NULL; eager--)
        if (session == rig->session)
            cache_session_resume(session, &rig->out.sink);
    room_take(&rig->out);
}

void rig_append(char *text, size_t size, size_t *len, const char *format, ...)
{
    va_list args;
    int added;

    va_start(args, format);
    added = vsnprintf(text + *len, size - *len, format, args);
    va_end(args);
    assert_true(added >= 0 && (size_t)added < size - *len);
    *len += (size_t)added;
}

void rig_expect(struct rig *rig, const char *request, const char *reply)
{
    rig_drain(&rig->out);
    rig_feed(rig, request);
    assert_string_equal(rig_reply(rig), reply);
}

void rig_expect_set(struct rig *rig, const char *key, uint32_t len, char fill, const char *reply)
{
    char *text = malloc(len + 300);
    int line_len;

    assert_non_null(text);
    line_len = snprintf(text, 300, "set %s 0 0 %u\r\n", key, len);
    memset(text + line_len, fill, len);
    memcpy(text + line_len + len, "\r\n", 3);
    rig_drain(&rig->out);
    rig_feed_sliced(rig, text, (size_t)line_len + len + 2, 0);
    assert_string_equal(rig_reply(rig), reply);
    free(text);
}

uint64_t rig_stat(struct rig *rig, const char *list, const char *name)
{
    char text[128];
    const char *line;

    snprintf(text, sizeof(text), "stats%s%s\r\n", list != NULL ? " " : "",
             list != NULL ? list : "");
    rig_drain(&rig->out);
    rig_feed(rig, text);
    snprintf(text, sizeof(text), "STAT %s ", name);
    line = strstr(rig_reply(rig), text);
    if (line == NULL)
        fail_msg("no line %s", name);
    return strtoull(line + strlen(text), NULL, 10);
}
