/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fast path of set: one plain set of a short value on an existing key. Every similar request
 * must be answered, stored and counted as by the general code: two caches get the same requests,
 * one of them without prefetch, so that it never takes the fast path.
 */
#include "rig.h"

#include <stdio.h>

#include "base/prng.h"
#include "cache/session.h"
#include "mcproto/mcproto.h"

#define K10 "kkkkkkkkkk"
#define K50 K10 K10 K10 K10 K10
#define K250 K50 K50 K50 K50 K50

#define STORED "STORED\r\n"
#define BAD_LINE "CLIENT_ERROR bad command line format\r\n"
#define BAD_CHUNK "CLIENT_ERROR bad data chunk\r\n"

/* Offers a text and returns the reply. */
static const char *offer(struct rig *rig, const char *text, size_t len, bool ahead)
{
    size_t done = 0;

    rig_drain(&rig->out);
    while (done < len && cache_session_state(rig->session) == CACHE_SESSION_OPEN) {
        uint32_t left = (uint32_t)(len - done);

        done += rig_offer(rig, text + done, left, ahead ? left : 0);
    }
    return rig_reply(rig);
}

/* ---- when it is taken -------------------------------------------------------------------- */

/* The reply of the fast path, or an empty text if it is not taken. */
static const char *answer(struct cache_session *session, const char *request)
{
    static char room[CACHE_SINK_NEED_MAX + 1];
    const uint8_t *data = (const uint8_t *)request;
    uint32_t len = (uint32_t)strlen(request);
    uint32_t n = 0;

    if (cache_session_prefetch_bucket(session, data, len)) {
        cache_session_prefetch_item(session);
        n = cache_session_try_fast(session, data, len, (uint8_t *)room);
        if (n > 0)
            cache_count_fast_bytes(session->worker, len, n);
    }
    room[n] = '\0';
    return room;
}

static void test_takes_fast_path(void **state)
{
    struct rig *rig = *state;

    rig_expect(rig, "set k 0 0 1\r\nx\r\n", STORED);
    rig_expect(rig, "set other 0 9 1\r\nx\r\n", STORED); /* opens the segment for such times */
    assert_string_equal(answer(rig->session, "set k 0 0 2\r\nyz\r\n"), STORED);
    rig_expect(rig, "get k\r\n", "VALUE k 0 2\r\nyz\r\nEND\r\n");
    assert_string_equal(answer(rig->session, "set k 0 9 0\r\n\r\n"), STORED);
    rig_expect(rig, "get k\r\n", "VALUE k 0 0\r\n\r\nEND\r\n");
    assert_string_equal(answer(rig->session, "set k 0 0 2\nyz\r\n"), STORED);
    rig_expect(rig, "set " K250 " 0 0 1\r\nx\r\n", STORED);
    assert_string_equal(answer(rig->session, "set " K250 " 0 0 1\r\ny\r\n"), STORED);
    rig_expect(rig, "get " K250 "\r\n", "VALUE " K250 " 0 1\r\ny\r\nEND\r\n");
    rig_expect(rig, "set grows 0 0 1\r\nx\r\n", STORED);
    assert_int_equal(rig_stat(rig, "items", "items:1:number"), 3);
    assert_string_equal(answer(rig->session, "set grows 0 0 100\r\n" K50 K50 "\r\n"), STORED);
    assert_int_equal(rig_stat(rig, "items", "items:1:number"), 2); /* it left its size class */
}

static void test_takes_general_code(void **state)
{
    static const char *const requests[] = {
        "set none 0 0 1\r\nx\r\n",
        "set k 1 0 1\r\nx\r\n",
        "set k 0 0 1 noreply\r\nx\r\n",
        "set k 0 0 1\r\nxx\r\n",
        "set k 0 0 1\r\nx\n",
        "set k 0 0 1\r\nx\r\nget k\r\n",
        "set k 0 0 1\r\nx\r",
        "set  k 0 0 1\r\nx\r\n",
        "set k 0 -1 1\r\nx\r\n",
        "set k 0 0 0000000001\r\nx\r\n",
        "add k 0 0 1\r\nx\r\n",
        "set k 0 0 1 \r\nx\r\n",
        "set " K250 "k 0 0 1\r\nx\r\n",
        "SET k 0 0 1\r\nx\r\n",
        "set k 0 0\r\nx\r\n",
        "set flagged 0 0 1\r\nx\r\n",
        "set over 0 0 1\r\nx\r\n",
        "set flushed 0 0 1\r\nx\r\n",
        "set k 0 0 4294967295\r\nx\r\n",
    };
    struct rig *rig = *state;

    rig_expect(rig, "set flushed 0 0 1\r\nx\r\n", STORED);
    rig_wait(rig, 2);
    rig_expect(rig, "flush_all\r\n", "OK\r\n");
    rig_wait(rig, 2);
    rig_expect(rig, "set k 0 0 1\r\nx\r\n", STORED);
    rig_expect(rig, "set over 0 1 1\r\nx\r\n", STORED);
    rig_expect(rig, "set flagged 7 0 1\r\nx\r\n", STORED);
    rig_wait(rig, 2);
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++)
        assert_string_equal(answer(rig->session, requests[i]), "");
    rig_expect(rig, "stats reset\r\n", "RESET\r\n");
    assert_int_equal(rig_stat(rig, NULL, "cmd_set"), 0);
}

/* The fast path logs no events, so it is not taken while there is a watcher. */
static void test_watcher_and_prefixes(void **state)
{
    static const char request[] = "set a:k 0 0 1\r\ny\r\n";
    struct rig *rig = *state;
    struct cache_peer peer = {.transport = "tcp"};
    struct cache_session *watcher = cache_session_open(rig->worker, &peer);
    static const char watch[] = "watch mutations\r\n";
    struct rig_sink events;

    rig_expect(rig, "set a:k 0 0 1\r\nx\r\n", STORED);
    rig_expect(rig, "stats detail on\r\n", "OK\r\n");
    assert_string_equal(answer(rig->session, request), "");
    rig_expect(rig, request, STORED);
    rig_expect(rig, "stats detail dump\r\n", "PREFIX a get 0 hit 0 set 1 del 0\r\nEND\r\n");
    rig_expect(rig, "stats detail off\r\n", "OK\r\n");
    assert_non_null(watcher);
    rig_sink_init(&events, rig->worker);
    cache_session_input(watcher, (const uint8_t *)watch, sizeof(watch) - 1, &events.sink);
    cache_tick(rig->worker, rig->now_us);
    assert_string_equal(answer(rig->session, request), "");
    rig_expect(rig, request, STORED);
    cache_session_resume(watcher, &events.sink);
    rig_drain(&events);
    assert_non_null(strstr((const char *)events.taken, "key=a%3Ak status=stored cmd=set"));
    rig_sink_free(&events);
    cache_session_close(watcher);
}

/* A prefetch has read the request; whether it may be served is decided when its turn comes. */
static void test_not_now(void **state)
{
    static const uint8_t set[] = "set k 0 0 1\r\ny\r\n";
    static const uint8_t get[] = "get k\r\n";
    struct rig *rig = *state;
    struct cache_peer peer = {.transport = "tcp"};
    struct cache_session *other = cache_session_open(rig->worker, &peer);
    uint8_t room[CACHE_SINK_NEED_MAX];

    assert_non_null(other);
    rig_expect(rig, "set k 0 0 1\r\nx\r\n", STORED);
    rig_expect(rig, "set d 0 0 16\r\nset k 0 0 1\r\ny\r\n\r\n", STORED); /* a data block */
    rig_expect(rig, "get k\r\n", "VALUE k 0 1\r\nx\r\nEND\r\n");

    /* Two of one loop for one key: the place that both have seen is another item's then. */
    cache_session_input(other, get, sizeof(get) - 1, &rig->out.sink);
    assert_true(cache_session_prefetch_bucket(rig->session, set, sizeof(set) - 1));
    assert_true(cache_session_prefetch_bucket(other, get, sizeof(get) - 1));
    cache_session_prefetch_item(rig->session);
    cache_session_prefetch_item(other);
    assert_int_equal(cache_session_try_fast(rig->session, set, sizeof(set) - 1, room), 8);
    assert_int_equal(cache_session_try_fast(other, get, sizeof(get) - 1, room), 0);

    /* No hint: it was for another input, or has been used. */
    assert_int_equal(cache_session_try_fast(rig->session, set, sizeof(set) - 1, room), 0);
    cache_session_close(other);

    /* A session that waits for the rest of a line, or does not read now. */
    rig_offer(rig, "get ", 4, 4);
    assert_false(cache_session_prefetch_bucket(rig->session, set, sizeof(set) - 1));
    rig_expect(rig, "k\r\n", "VALUE k 0 1\r\ny\r\nEND\r\n");
    rig->out.sink.full = true;
    rig_offer(rig, "get k\r\n", 7, 7);
    assert_int_equal(cache_session_state(rig->session), CACHE_SESSION_BLOCKED);
    assert_false(cache_session_prefetch_bucket(rig->session, set, sizeof(set) - 1));
}

/* ---- two caches, one truth --------------------------------------------------------------- */

enum { KEYS_MAX = 400, REQUEST_MAX = 20000 };

struct pair {
    struct rig quick, slow;
    struct u_prng prng;
    const char *name;
    uint32_t seed;
    unsigned step;
    unsigned keys;
    uint32_t value_max;
    char names[KEYS_MAX][251];
};

static uint32_t below(struct pair *pair, uint32_t bound)
{
    return u_prng_below(&pair->prng, bound);
}

static void same(struct pair *pair, const char *request, size_t len)
{
    const char *one = offer(&pair->quick, request, len, true);
    const char *two = offer(&pair->slow, request, len, false);

    if (strcmp(one, two) != 0)
        fail_msg("%s, seed %u, step %u: \"%.*s\" is answered by \"%.300s\" and \"%.300s\"",
                 pair->name, pair->seed, pair->step, (int)(len < 80 ? len : 80), request, one, two);
}

/* The statistics that do not depend on chance, time or process. */
static char *stats_of(struct rig *rig, const char *request)
{
    char *text = strdup(offer(rig, request, strlen(request), false));
    char *line;

    assert_non_null(text);
    while ((line = strstr(text, "STAT rusage_")) != NULL) {
        char *next = strchr(line, '\n') + 1;

        memmove(line, next, strlen(next) + 1);
    }
    return text;
}

static void same_stats(struct pair *pair)
{
    static const char *const lists[] = {"stats\r\n",          "stats items\r\n",
                                        "stats slabs\r\n",    "stats sizes\r\n",
                                        "stats settings\r\n", "stats detail dump\r\n"};

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        char *one = stats_of(&pair->quick, lists[i]);
        char *two = stats_of(&pair->slow, lists[i]);

        if (strcmp(one, two) != 0)
            fail_msg("%s, seed %u, step %u: %s\n%s\n%s", pair->name, pair->seed, pair->step,
                     lists[i], one, two);
        free(one);
        free(two);
    }
}

/* Around every bound at which a value, or an item, is stored in another way. */
static uint32_t random_len(struct pair *pair)
{
    static const uint32_t lens[] = {0,   1,   2,   7,   8,   9,   16,  17,  32,  33,
                                    100, 250, 251, 252, 253, 254, 255, 256, 300, 700};

    switch (below(pair, 4)) {
    case 0:
        return lens[below(pair, sizeof(lens) / sizeof(lens[0]))];
    case 1:
        return below(pair, pair->value_max);
    default:
        return 8;
    }
}

static const char *random_exptime(struct pair *pair)
{
    static const char *const times[] = {"1", "2",  "3",  "60",         "3600",       "2592000",
                                        "5", "-1", "17", "1700000010", "2592001000", "2592001"};

    return below(pair, 3) ? "0" : times[below(pair, sizeof(times) / sizeof(times[0]))];
}

static const char *random_key(struct pair *pair)
{
    return pair->names[below(pair, pair->keys)];
}

/* A store of any kind; most are plain sets. */
static size_t write_store(struct pair *pair, char *request)
{
    static const char *const names[] = {"add", "replace", "append", "prepend", "set"};
    static const char *const flags[] = {"0", "0", "0", "7", "4294967295", "00"};
    const char *name = below(pair, 4) ? "set" : names[below(pair, 5)];
    uint32_t len = random_len(pair);
    size_t n = (size_t)snprintf(request, REQUEST_MAX, "%s %s %s %s %u%s\r\n", name,
                                random_key(pair), below(pair, 4) ? "0" : flags[below(pair, 6)],
                                random_exptime(pair), len, below(pair, 8) ? "" : " noreply");

    memset(request + n, (int)('a' + below(pair, 26)), len);
    n += len;
    if (below(pair, 32) == 0)
        request[n++] = 'x'; /* the data block is too long */
    memcpy(request + n, "\r\n", 3);
    return n + 2;
}

static size_t write_other(struct pair *pair, char *request)
{
    static const char *const words[][2] = {
        {"get ", "\r\n"},
        {"get ", "\r\n"},
        {"gets ", "\r\n"},
        {"delete ", "\r\n"},
        {"incr ", " 7\r\n"},
        {"decr ", " 2\r\n"},
        {"touch ", " 60\r\n"},
        {"gat 3 ", "\r\n"},
        {"mg ", " v c t f s h l\r\n"},
        {"mg ", " v N30 k\r\n"},
        {"md ", " I T30\r\n"},
        {"ms ", " 2 T60\r\nyz\r\n"},
        {"set ", " 0 0 1\r\n5\r\n"},
        {"set ", " 0 0 1\r\n5\r\nget x\r\n"},
    };
    const char *const *row = words[below(pair, sizeof(words) / sizeof(words[0]))];

    return (size_t)snprintf(request, REQUEST_MAX, "%s%s%s", row[0], random_key(pair), row[1]);
}

/* What changes how all the others are served. */
static size_t write_admin(struct pair *pair, char *request)
{
    static const char *const texts[] = {
        "flush_all\r\n",        "flush_all 2\r\n", "stats detail on\r\n",    "stats detail off\r\n",
        "stats detail off\r\n", "stats reset\r\n", "flush_all 1 noreply\r\n"};

    return (size_t)snprintf(request, REQUEST_MAX, "%s", texts[below(pair, 7)]);
}

static void step(struct pair *pair)
{
    char request[REQUEST_MAX];
    uint32_t what = below(pair, 1000);
    size_t len;

    if (what < 600)
        len = write_store(pair, request);
    else if (what < 980)
        len = write_other(pair, request);
    else if (what < 985)
        len = write_admin(pair, request);
    else {
        unsigned seconds = what < 995 ? 0 : 1;

        rig_wait(&pair->quick, seconds);
        rig_wait(&pair->slow, seconds);
        return;
    }
    same(pair, request, len);
}

static void pair_open(struct pair *pair, const struct cache_config *config)
{
    static const uint32_t lens[] = {1, 2, 3, 4, 7, 8, 8, 8, 9, 15, 16, 17, 24, 31, 32, 33, 250};

    rig_open(&pair->quick, config);
    rig_open(&pair->slow, config);
    for (unsigned i = 0; i < pair->keys; i++) {
        uint32_t len = lens[i % (sizeof(lens) / sizeof(lens[0]))];

        memset(pair->names[i], 'k', len);
        pair->names[i][len] = '\0';
        pair->names[i][0] = (char)('A' + i % 26);
        if (len > 2)
            pair->names[i][2] = (char)('A' + i / 26);
    }
}

static void run(const char *name, const struct cache_config *config, unsigned keys,
                uint32_t value_max, unsigned steps)
{
    static struct pair pair;

    for (uint32_t seed = 1; seed <= rig_rounds(10); seed++) {
        pair.name = name;
        pair.seed = seed;
        pair.keys = keys;
        pair.value_max = value_max;
        u_prng_seed(&pair.prng, seed);
        pair_open(&pair, config);
        for (pair.step = 0; pair.step < steps; pair.step++) {
            step(&pair);
            if (pair.step % 500 == 499)
                same_stats(&pair);
        }
        rig_close(&pair.quick);
        rig_close(&pair.slow);
    }
}

static void test_usual_settings(void **state)
{
    struct cache_config config = rig_config();

    (void)state;
    run("default", &config, 24, 1000, 4000);
}

/* Values that fill the memory: evictions depend on all earlier stores. */
static void test_full_memory(void **state)
{
    struct cache_config config = rig_config();

    (void)state;
    config.settings.memory_bytes = 1u << 20;
    config.settings.item_bytes_max = 1u << 14;
    run("full", &config, 400, 16000, 8000);
}

static void test_no_eviction(void **state)
{
    struct cache_config config = rig_config();

    (void)state;
    config.settings.evict = false;
    config.settings.memory_bytes = 1u << 20;
    config.settings.item_bytes_max = 1u << 14;
    run("no eviction", &config, 400, 16000, 4000);
}

/* -I: short values that are too large for the server, with some keys. */
static void test_small_items(void **state)
{
    struct cache_config config = rig_config();

    (void)state;
    for (uint32_t max = 64; max <= 512; max += 64) {
        config.settings.item_bytes_max = max;
        run("small items", &config, 24, 600, 500);
    }
}

static void test_other_settings(void **state)
{
    struct cache_config config = rig_config();

    (void)state;
    config.settings.cas_disabled = true;
    run("no cas", &config, 24, 600, 2000);
    config.settings.cas_disabled = false;
    config.settings.track_sizes = true;
    run("sizes", &config, 24, 600, 2000);
}

/* The setting leaves both commands to the general code, with the same replies. */
static void test_fast_path_off(void **state)
{
    struct cache_config config = rig_config();
    struct rig rig;

    config.settings.fast_path_off = true;
    rig_open(&rig, &config);
    rig_expect(&rig, "set k 0 0 1\r\nx\r\n", STORED);
    assert_string_equal(answer(rig.session, "set k 0 0 1\r\ny\r\n"), "");
    assert_string_equal(answer(rig.session, "get k\r\n"), "");
    rig_expect(&rig, "set k 0 0 1\r\ny\r\n", STORED);
    rig_expect(&rig, "get k\r\n", "VALUE k 0 1\r\ny\r\nEND\r\n");
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_takes_fast_path, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_takes_general_code, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_watcher_and_prefixes, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_not_now, rig_setup, rig_teardown),
        cmocka_unit_test(test_usual_settings),
        cmocka_unit_test(test_full_memory),
        cmocka_unit_test(test_no_eviction),
        cmocka_unit_test(test_small_items),
        cmocka_unit_test(test_other_settings),
        cmocka_unit_test(test_fast_path_off),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
