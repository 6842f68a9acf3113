/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fast path of get. Every request like a plain get, with and without prefetch and however it
 * is split, must be answered and counted as by the general code, which runs a line that arrives
 * byte by byte.
 */
#include "rig.h"

#include <stdio.h>

#include "mcproto/mcproto.h"

#define K10 "kkkkkkkkkk"
#define K50 K10 K10 K10 K10 K10
#define K250 K50 K50 K50 K50 K50

#define HIT "VALUE k 0 1\r\nx\r\nEND\r\n"
#define MISS "END\r\n"
#define BAD_LINE "CLIENT_ERROR bad command line format\r\n"

enum way { WHOLE, PREFETCHED, PREFETCHED_SHORT, BYTE_BY_BYTE, BEHIND_ANOTHER, WAYS };

static uint32_t offer(struct rig *rig, const char *bytes, size_t len, size_t ahead_len)
{
    return rig_offer(rig, bytes, (uint32_t)len, (uint32_t)ahead_len);
}

static const char *reply_to(struct rig *rig, const char *line, size_t len, enum way way)
{
    static const char another[] = "get none\r\n";
    char joined[2048];
    const char *reply;

    rig_drain(&rig->out);
    switch (way) {
    case WHOLE:
        assert_int_equal(offer(rig, line, len, 0), len);
        break;
    case PREFETCHED:
        assert_int_equal(offer(rig, line, len, len), len);
        break;
    case PREFETCHED_SHORT:
        assert_int_equal(offer(rig, line, len, len - 1), len);
        break;
    case BYTE_BY_BYTE:
        for (size_t i = 0; i < len; i++)
            assert_int_equal(offer(rig, line + i, 1, 1), 1);
        break;
    default:
        memcpy(joined, another, sizeof(another) - 1);
        memcpy(joined + sizeof(another) - 1, line, len);
        len += sizeof(another) - 1;
        assert_int_equal(offer(rig, joined, len, len), len);
        reply = rig_reply(rig);
        assert_memory_equal(reply, MISS, sizeof(MISS) - 1);
        return reply + sizeof(MISS) - 1;
    }
    return rig_reply(rig);
}

static void expect(struct rig *rig, const char *line, size_t len, const char *reply)
{
    for (enum way way = WHOLE; way < WAYS; way++)
        assert_string_equal(reply_to(rig, line, len, way), reply);
    for (size_t cut = 1; cut < len; cut++) {
        rig_drain(&rig->out);
        assert_int_equal(offer(rig, line, cut, cut), cut);
        assert_int_equal(offer(rig, line + cut, len - cut, len - cut), len - cut);
        assert_string_equal(rig_reply(rig), reply);
    }
}

static void store(struct rig *rig, const char *key, const char *flags, uint32_t len)
{
    char *request = malloc(len + 400);
    int n;

    assert_non_null(request);
    n = snprintf(request, 400, "set %s %s 0 %u\r\n", key, flags, len);
    memset(request + n, 'x', len);
    memcpy(request + n + len, "\r\n", 3);
    rig_expect(rig, request, "STORED\r\n");
    free(request);
}

static void test_almost_a_get(void **state)
{
    static const struct {
        const char *line;
        const char *reply;
    } rows[] = {
        {"get k\r\n", HIT},
        {"get k\n", HIT},
        {"get none\r\n", MISS},
        {"get " K250 "\r\n", "VALUE " K250 " 0 1\r\nx\r\nEND\r\n"},
        {"get " K250 "\n", "VALUE " K250 " 0 1\r\nx\r\nEND\r\n"},
        {"get " K250 "k\r\n", BAD_LINE},
        {"get " K250 "k\n", BAD_LINE},
        {"get k k\r\n", "VALUE k 0 1\r\nx\r\nVALUE k 0 1\r\nx\r\nEND\r\n"},
        {"get k none\r\n", HIT},
        {"get k \r\n", HIT},
        {"get  k\r\n", HIT},
        {"get k\r\r\n", MISS},
        {"get k\rk\r\n", MISS},
        {"get \x01\r\n", "VALUE \x01 0 1\r\nx\r\nEND\r\n"},
        {"get k\x01k\r\n", MISS},
        {"get k\tk\r\n", MISS},
        {"get k noreply\r\n", HIT},
        {"get noreply\r\n", MISS},
        {"get \r\n", BAD_LINE},
        {"get\r\n", BAD_LINE},
        {"GET k\r\n", "ERROR\r\n"},
        {" get k\r\n", "ERROR\r\n"},
        {"gett k\r\n", "ERROR\r\n"},
        {"gat 0 k\r\n", HIT},
        {"mg k v\r\n", "VA 1\r\nx\r\n"},
        {"get f\r\n", "VALUE f 4294967295 1\r\nx\r\nEND\r\n"},
        {"get empty\r\n", "VALUE empty 0 0\r\n\r\nEND\r\n"},
    };
    struct rig *rig = *state;

    store(rig, "k", "0", 1);
    store(rig, K250, "0", 1);
    store(rig, "\x01", "0", 1);
    store(rig, "f", "4294967295", 1);
    store(rig, "empty", "0", 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        expect(rig, rows[i].line, strlen(rows[i].line), rows[i].reply);
}

/* Keys and values around the lengths at which they are written in another way. */
static void test_lengths(void **state)
{
    static const uint32_t lengths[] = {
        0,   1,   2,   6,   7,   8,   9,   10,  13,  14,   15,   16,   17,   99,   100,  101,  251,
        252, 253, 254, 255, 700, 712, 713, 714, 999, 1000, 1023, 1024, 8190, 8191, 8192, 20000};
    struct rig *rig = *state;
    char key[251];
    char line[260];
    char header[300];

    for (uint32_t key_len = 1; key_len <= 250; key_len += key_len < 34 ? 1 : 24) {
        memset(key, 'a', key_len);
        key[key_len] = '\0';
        snprintf(line, sizeof(line), "get %s\r\n", key);
        for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]) * 4; i++) {
            const char *flags = i % 2 == 0 ? "0" : "30";
            uint32_t len = lengths[i / 4];
            const char *reply;
            int n = snprintf(header, sizeof(header), "VALUE %s %s %u\r\n", key, flags, len);

            store(rig, key, flags, len);
            reply = reply_to(rig, line, strlen(line), i % 4 < 2 ? PREFETCHED : WHOLE);
            assert_memory_equal(reply, header, n);
            for (uint32_t at = 0; at < len; at++)
                assert_int_equal(reply[(uint32_t)n + at], 'x');
            assert_string_equal(reply + n + len, "\r\nEND\r\n");
        }
    }
}

/* Everything that a get counts, whichever way it has taken. */
static void test_counters(void **state)
{
    static const char *const names[] = {"cmd_get",     "get_hits",   "get_misses", "get_expired",
                                        "get_flushed", "bytes_read", "cmd_touch",  "bytes_written"};
    static const char *const lines[] = {"get k\r\n", "get none\r\n", "get f\r\n", "get over\r\n"};
    uint64_t counted[WAYS][8];

    for (enum way way = WHOLE; way <= BYTE_BY_BYTE; way++) {
        struct rig rig;
        struct cache_config config = rig_config();

        rig_open(&rig, &config);
        store(&rig, "f", "0", 1);
        rig_wait(&rig, 2);
        rig_expect(&rig, "flush_all\r\n", "OK\r\n");
        store(&rig, "k", "0", 1);
        rig_expect(&rig, "set over 0 1 1\r\nx\r\n", "STORED\r\n");
        rig_wait(&rig, 3);
        rig_expect(&rig, "stats reset\r\n", "RESET\r\n");
        for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
            reply_to(&rig, lines[i], strlen(lines[i]), way);
        for (size_t i = 0; i < 8; i++)
            counted[way][i] = rig_stat(&rig, NULL, names[i]);
        assert_int_equal(rig_stat(&rig, "slabs", "1:get_hits"), 1);
        rig_close(&rig);
        assert_int_equal(counted[way][0], 4);
        assert_int_equal(counted[way][1], 1);
        assert_int_equal(counted[way][2], 3);
        assert_memory_equal(counted[way], counted[WHOLE], sizeof(counted[way]));
    }
}

static char *slabs_after(struct rig *rig, const char *line, enum way way)
{
    static const char stats[] = "stats slabs\r\n";
    char *text;

    rig_expect(rig, "stats reset\r\n", "RESET\r\n");
    reply_to(rig, line, strlen(line), way);
    text = strdup(reply_to(rig, stats, sizeof(stats) - 1, WHOLE));
    assert_non_null(text);
    return text;
}

/* The class that a hit counts for does not depend on the way either. */
static void test_classes(void **state)
{
    struct rig *rig = *state;
    char key[33];
    char line[48];

    for (uint32_t key_len = 1; key_len <= 32; key_len += 31) {
        memset(key, 'c', key_len);
        key[key_len] = '\0';
        snprintf(line, sizeof(line), "get %s\r\n", key);
        for (uint32_t len = 0; len <= 254; len++) {
            char *expected;
            char *text;

            store(rig, key, "0", len);
            expected = slabs_after(rig, line, WHOLE);
            text = slabs_after(rig, line, PREFETCHED);
            assert_non_null(strstr(text, "get_hits 1\r\n"));
            assert_string_equal(text, expected);
            free(expected);
            free(text);
        }
    }
}

/* Short values are all in what is fetched first; after a long one it is asked for more for a while.
 */
static void test_long_values(void **state)
{
    struct rig *rig = *state;

    store(rig, "short", "0", 32);
    store(rig, "long", "0", 100);
    for (enum way way = WHOLE; way <= PREFETCHED; way++) {
        assert_false(cache_values_are_long(rig->worker));
        reply_to(rig, "get short\r\n", 11, way);
        assert_false(cache_values_are_long(rig->worker));
        reply_to(rig, "get long\r\n", 10, way);
        for (unsigned loop = 0; loop < 256; loop++) {
            assert_true(cache_values_are_long(rig->worker));
            reply_to(rig, "get short\r\n", 11, way);
            rig_turn(rig);
        }
    }
}

/* Those who watch and count by prefix see it. */
static void test_watcher_and_prefixes(void **state)
{
    struct rig *rig = *state;
    struct cache_peer peer = {.transport = "tcp"};
    struct cache_session *watcher = cache_session_open(rig->worker, &peer);
    static const char watch[] = "watch fetchers\r\n";
    struct rig_sink events;

    store(rig, "a:k", "0", 1);
    rig_expect(rig, "stats detail on\r\n", "OK\r\n");
    assert_non_null(watcher);
    rig_sink_init(&events, rig->worker);
    cache_session_input(watcher, (const uint8_t *)watch, sizeof(watch) - 1, &events.sink);
    cache_tick(rig->worker, rig->now_us);
    reply_to(rig, "get a:k\r\n", 9, PREFETCHED);
    reply_to(rig, "get a:n\r\n", 9, WHOLE);
    cache_session_resume(watcher, &events.sink);
    rig_drain(&events);
    assert_non_null(strstr((const char *)events.taken, "key=a%3Ak status=found"));
    assert_non_null(strstr((const char *)events.taken, "key=a%3An status=not_found"));
    rig_expect(rig, "stats detail dump\r\n", "PREFIX a get 2 hit 1 set 0 del 0\r\nEND\r\n");
    rig_sink_free(&events);
    cache_session_close(watcher);
}

/* A prefetch has read the request; whether it may be served is decided when its turn comes. */
static void test_not_now(void **state)
{
    struct rig *rig = *state;
    static const char line[] = "get k\r\n";

    store(rig, "k", "0", 1);
    rig->out.sink.full = true;
    assert_int_equal(offer(rig, line, 7, 7), 0);
    assert_int_equal(cache_session_state(rig->session), CACHE_SESSION_BLOCKED);
    rig_drain(&rig->out);
    cache_session_resume(rig->session, &rig->out.sink);
    assert_string_equal(reply_to(rig, line, 7, PREFETCHED), HIT);

    /* Its data block looks like a request. */
    rig_drain(&rig->out);
    assert_int_equal(offer(rig, "set d 0 0 7\r\n", 13, 13), 13);
    assert_int_equal(offer(rig, line, 7, 7), 7);
    assert_int_equal(offer(rig, "\r\n", 2, 2), 2);
    assert_string_equal(rig_reply(rig), "STORED\r\n");
    rig_expect(rig, "get d\r\n", "VALUE d 0 7\r\nget k\r\n\r\nEND\r\n");

    rig->out.fail_after = 0;
    rig_drain(&rig->out);
    offer(rig, line, 7, 7);
    assert_int_equal(cache_session_state(rig->session), CACHE_SESSION_CLOSING);
    assert_int_equal(offer(rig, line, 7, 7), 0);
}

/* What other settings say about a text that would be a get. */
static void test_other_protocols(void **state)
{
    struct cache_config config = rig_config();
    static const char line[] = "get k\r\n";
    struct rig rig;

    config.settings.auth_file = "/nonexistent";
    rig_open(&rig, &config);
    for (enum way way = WHOLE; way <= BYTE_BY_BYTE; way++)
        assert_string_equal(reply_to(&rig, line, 7, way), "CLIENT_ERROR unauthenticated\r\n");
    rig_close(&rig);

    config = rig_config();
    config.settings.binding = CACHE_BINDING_BINARY;
    rig_open(&rig, &config);
    offer(&rig, line, 7, 7);
    assert_int_equal(cache_session_state(rig.session), CACHE_SESSION_CLOSING);
    assert_string_equal(rig_reply(&rig), "");
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_almost_a_get, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_lengths, rig_setup, rig_teardown),
        cmocka_unit_test(test_counters),
        cmocka_unit_test_setup_teardown(test_classes, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_long_values, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_watcher_and_prefixes, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_not_now, rig_setup, rig_teardown),
        cmocka_unit_test(test_other_protocols),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
