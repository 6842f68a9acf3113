/* SPDX-License-Identifier: BSD-3-Clause */
/* set, add, replace, append, prepend, cas. */
#include "rig.h"

#include <stdio.h>

#define TOO_LARGE "SERVER_ERROR object too large for cache\r\n"
#define NO_MEMORY "SERVER_ERROR out of memory storing object\r\n"
#define BAD_CHUNK "CLIENT_ERROR bad data chunk\r\n"
#define BAD_FORMAT "CLIENT_ERROR bad command line format\r\n"

static void test_set_replaces(void **state)
{
    rig_expect(*state, "set a 1 0 3\r\nabc\r\n", "STORED\r\n");
    rig_expect(*state, "set a 2 0 5\r\nabcde\r\n", "STORED\r\n");
    rig_expect(*state, "get a\r\n", "VALUE a 2 5\r\nabcde\r\nEND\r\n");
}

static void test_add_and_replace(void **state)
{
    rig_expect(*state, "replace a 0 0 1\r\nx\r\n", "NOT_STORED\r\n");
    rig_expect(*state, "get a\r\n", "END\r\n");
    rig_expect(*state, "add a 0 0 1\r\nx\r\n", "STORED\r\n");
    rig_expect(*state, "add a 0 0 1\r\ny\r\n", "NOT_STORED\r\n");
    rig_expect(*state, "get a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n");
    rig_expect(*state, "replace a 5 0 1\r\nz\r\n", "STORED\r\n");
    rig_expect(*state, "get a\r\n", "VALUE a 5 1\r\nz\r\nEND\r\n");
}

static void test_expired_items_do_not_exist(void **state)
{
    rig_expect(*state, "set a 0 1 1\r\nx\r\nset b 0 1 1\r\nx\r\nset c 0 -1 1\r\nx\r\n",
               "STORED\r\nSTORED\r\nSTORED\r\n");
    rig_expect(*state, "get c\r\nadd c 0 0 1\r\ny\r\n", "END\r\nSTORED\r\n");
    rig_wait(*state, 1);
    rig_expect(*state, "replace a 0 0 1\r\ny\r\n", "NOT_STORED\r\n");
    rig_expect(*state, "append a 0 0 1\r\ny\r\n", "NOT_STORED\r\n");
    rig_expect(*state, "cas a 0 0 1 1\r\ny\r\n", "NOT_FOUND\r\n");
    rig_expect(*state, "add a 0 0 1\r\ny\r\n", "STORED\r\n");
    rig_expect(*state, "add b 0 0 1\r\nz\r\n", "STORED\r\n");
    rig_expect(*state, "get a b\r\n", "VALUE a 0 1\r\ny\r\nVALUE b 0 1\r\nz\r\nEND\r\n");
}

static void test_append_and_prepend_keep_flags_and_expiry(void **state)
{
    rig_expect(*state, "append a 0 0 1\r\nx\r\n", "NOT_STORED\r\n");
    rig_expect(*state, "prepend a 0 0 1\r\nx\r\n", "NOT_STORED\r\n");
    rig_expect(*state, "set a 7 2 3\r\nbcd\r\n", "STORED\r\n");
    rig_expect(*state, "append a 99 0 2\r\nef\r\n", "STORED\r\n");
    rig_expect(*state, "prepend a 99 100 1\r\na\r\n", "STORED\r\n");
    rig_expect(*state, "append a 0 0 0\r\n\r\nprepend a 0 0 0\r\n\r\n", "STORED\r\nSTORED\r\n");
    rig_expect(*state, "get a\r\n", "VALUE a 7 6\r\nabcdef\r\nEND\r\n");
    rig_wait(*state, 2);
    rig_expect(*state, "get a\r\n", "END\r\n");
}

/* Joins values that are kept in more than one extent. */
static void test_append_and_prepend_of_large_values(void **state)
{
    struct rig *rig = *state;
    enum { PART = 300000 };
    static char text[PART + 100];
    const char *value;

    rig_expect_set(rig, "a", PART, 'o', "STORED\r\n");
    for (int i = 0; i < 2; i++) {
        int n =
            snprintf(text, sizeof(text), "%s a 0 0 %d\r\n", i == 0 ? "append" : "prepend", PART);

        memset(text + n, i == 0 ? 'z' : 'a', PART);
        memcpy(text + n + PART, "\r\n", 2);
        rig_feed_sliced(rig, text, (size_t)n + PART + 2, 1460);
        assert_string_equal(rig_reply(rig), "STORED\r\n");
    }
    rig_feed(rig, "get a\r\n");
    value = rig_reply(rig);
    snprintf(text, sizeof(text), "VALUE a 0 %d\r\n", 3 * PART);
    assert_memory_equal(value, text, strlen(text));
    value += strlen(text);
    for (int i = 0; i < 3 * PART; i++)
        if (value[i] != "aoz"[i / PART])
            fail_msg("byte %d is %c", i, value[i]);
    assert_string_equal(value + 3 * PART, "\r\nEND\r\n");
}

static void test_append_beyond_the_limit_is_not_stored(void **state)
{
    struct rig *rig = *state;

    rig_expect_set(rig, "a", 1048516, 'x', "STORED\r\n");
    rig_expect(rig, "append a 0 0 0\r\n\r\n", "STORED\r\n");
    rig_expect(rig, "append a 0 0 1\r\ny\r\n", "NOT_STORED\r\n");
    rig_expect(rig, "prepend a 0 0 1\r\ny\r\n", "NOT_STORED\r\n");
    rig_feed(rig, "get a\r\n");
    assert_int_equal(strlen(rig_reply(rig)), strlen("VALUE a 0 1048516\r\n\r\nEND\r\n") + 1048516);
}

static void test_cas(void **state)
{
    struct rig *rig = *state;
    unsigned long long cas;
    char text[128];

    rig_expect(rig, "cas a 0 0 1 1\r\nx\r\n", "NOT_FOUND\r\n");
    rig_expect(rig, "set a 0 0 1\r\nx\r\n", "STORED\r\n");
    rig_feed(rig, "gets a\r\n");
    assert_int_equal(sscanf(rig_reply(rig), "VALUE a 0 1 %llu", &cas), 1);
    snprintf(text, sizeof(text), "cas a 3 0 1 %llu\r\ny\r\n", cas + 1);
    rig_expect(rig, text, "EXISTS\r\n");
    rig_expect(rig, "cas a 3 0 1 0\r\ny\r\n", "EXISTS\r\n");
    snprintf(text, sizeof(text), "cas a 3 0 1 %llu\r\ny\r\n", cas);
    rig_expect(rig, text, "STORED\r\n");
    rig_expect(rig, text, "EXISTS\r\n");
    rig_expect(rig, "get a\r\n", "VALUE a 3 1\r\ny\r\nEND\r\n");
    assert_int_equal(rig_stat(rig, NULL, "cas_misses"), 1);
    assert_int_equal(rig_stat(rig, NULL, "cas_badval"), 3);
    assert_int_equal(rig_stat(rig, NULL, "cas_hits"), 1);
    rig_expect(rig, "cas a 0 0 1\r\nx\r\n", BAD_FORMAT);
    rig_expect(rig, "cas a 0 0 1 x\r\nx\r\n", BAD_FORMAT);
    rig_expect(rig, "get a\r\n", "VALUE a 3 1\r\ny\r\nEND\r\n");
}

/* An item may have the cas 0, given by E, but no request that compares with 0 stores. */
static void test_cas_0_matches_nothing(void **state)
{
    struct rig *rig = *state;

    rig_expect(rig, "ms a 1 E0\r\nx\r\nmg a c v\r\n", "HD\r\nVA 1 c0\r\nx\r\n");
    rig_expect(rig, "cas a 0 0 1 0\r\ny\r\nms a 1 C0\r\ny\r\n", "EXISTS\r\nEX\r\n");
    rig_expect(rig, "set b 0 0 1\r\nx\r\nms b 1 C0 I\r\ny\r\n", "STORED\r\nEX\r\n");
    rig_expect(rig, "get a b\r\n", "VALUE a 0 1\r\nx\r\nVALUE b 0 1\r\nx\r\nEND\r\n");
}

/* The cas of a key grows with every change of its value, and with nothing else. */
static void test_cas_numbers(void **state)
{
    static const struct {
        const char *request;
        bool changes;
    } steps[] = {
        {"set a 0 0 1\r\n1\r\n", true},
        {"add a 0 0 1\r\n1\r\n", false},
        {"replace a 0 0 1\r\n1\r\n", true},
        {"append a 0 0 1\r\n1\r\n", true},
        {"incr a 1\r\n", true},
        {"decr a 1\r\n", true},
        {"touch a 0\r\n", false},
        {"gat 0 a\r\n", false},
        {"get a\r\n", false},
        {"delete a\r\nset a 0 0 1\r\n1\r\n", true},
    };
    unsigned long long last = 0;

    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        unsigned long long cas;

        rig_feed(*state, steps[i].request);
        rig_reply(*state);
        rig_feed(*state, "gets a\r\n");
        assert_int_equal(sscanf(rig_reply(*state), "VALUE a 0 %*u %llu", &cas), 1);
        if (steps[i].changes)
            assert_true(cas > last);
        else
            assert_true(cas == last);
        last = cas;
    }
}

static void test_limit_of_the_size(void **state)
{
    struct rig *rig = *state;
    static char text[1100000];

    rig_expect_set(rig, "k", 1048516, 'x', "STORED\r\n");
    rig_expect_set(rig, "k", 1048517, 'x', TOO_LARGE);
    rig_expect_set(rig, "kk", 1048516, 'x', TOO_LARGE);
    rig_expect_set(rig, "kk", 1048515, 'x', "STORED\r\n");
    for (unsigned len = 1048512; len <= 1048513; len++) {
        int n = snprintf(text, sizeof(text), "set f 1 0 %u\r\n", len);

        memset(text + n, 'x', len);
        memcpy(text + n + len, "\r\n", 3);
        rig_expect(rig, text, len == 1048512 ? "STORED\r\n" : TOO_LARGE);
    }
    assert_int_equal(rig_stat(rig, NULL, "store_too_large"), 3);
}

/* A set that is refused removes the old value; the other commands leave it alone. */
static void test_too_large_and_the_old_value(void **state)
{
    static const char *const commands[] = {"add", "replace", "append", "prepend", "cas", "set"};
    struct rig *rig = *state;
    static char text[2000100];

    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        bool is_set = strcmp(commands[i], "set") == 0;
        int n = snprintf(text, sizeof(text), "%s a 0 0 2000000%s\r\n", commands[i],
                         strcmp(commands[i], "cas") == 0 ? " 1" : "");

        rig_expect(rig, "set a 0 0 1\r\nx\r\n", "STORED\r\n");
        memset(text + n, '\n', 2000002);
        memcpy(text + n + 2000002, "get a\r\n", 8);
        rig_feed_sliced(rig, text, (size_t)n, 0);
        assert_string_equal(rig_reply(rig), "");
        rig_feed_sliced(rig, text + n, strlen(text + n), 0);
        assert_string_equal(rig_reply(rig),
                            is_set ? TOO_LARGE "END\r\n" : TOO_LARGE "VALUE a 0 1\r\nx\r\nEND\r\n");
    }
}

static void test_largest_number_of_bytes_is_swallowed(void **state)
{
    struct rig *rig = *state;
    static uint8_t junk[1 << 20];
    uint64_t left = 2147483645u + 2u;

    rig_expect(rig, "set a 0 0 2147483646\r\n", BAD_FORMAT);
    rig_expect(rig, "set a 0 0 2147483645\r\n", "");
    while (left > 0) {
        uint32_t n = left < sizeof(junk) ? (uint32_t)left : (uint32_t)sizeof(junk);

        assert_int_equal(cache_session_input(rig->session, junk, n, &rig->out.sink), n);
        left -= n;
    }
    assert_string_equal(rig_reply(rig), TOO_LARGE);
    rig_expect(rig, "get a\r\n", "END\r\n");
}

static void test_bad_data_chunk(void **state)
{
    rig_expect(*state, "set a 0 0 1\r\nx\r\n", "STORED\r\n");
    rig_expect(*state, "set a 0 0 3\r\nabcde", BAD_CHUNK);
    rig_expect(*state, "get a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n");
    rig_expect(*state, "set a 0 0 3\r\nabcdef\r\n", BAD_CHUNK BAD_FORMAT);
    rig_expect(*state, "set a 0 0 3\r\nabcd\r\nget a\r\n",
               BAD_CHUNK BAD_FORMAT "VALUE a 0 1\r\nx\r\nEND\r\n");
    rig_expect(*state, "set a 0 0 3 noreply\r\nabcd\nget a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n");
    rig_expect(*state, "set a 0 0 3\r\nabc\n\nget a\r\n", BAD_CHUNK "VALUE a 0 1\r\nx\r\nEND\r\n");
    assert_int_equal(rig_stat(*state, NULL, "cmd_set"), 6);
}

static void test_refused_lines(void **state)
{
    rig_expect(*state, "set a\r\n", BAD_FORMAT);
    rig_expect(*state, "set a 0 0\r\n", BAD_FORMAT);
    rig_expect(*state, "set a 0 0 x\r\n", BAD_FORMAT);
    rig_expect(*state, "set a 0 0 -1 noreply\r\n", BAD_FORMAT);
    rig_expect(*state, "set a x 0 3\r\nabc\r\nget a\r\n", BAD_FORMAT "END\r\n");
    rig_expect(*state, "set a 0 x 3\r\nabc\r\nget a\r\n", BAD_FORMAT "END\r\n");
    rig_expect(*state, "set a -1 0 3 noreply\r\nabc\r\nget a\r\n", "END\r\n");
    rig_expect(*state, "set a x 0 3\r\nabc\r", ""); /* the error follows the data */
    rig_expect(*state, "\n", BAD_FORMAT);
}

static void test_noreply(void **state)
{
    rig_expect(*state, "set a 0 0 1 noreply\r\nx\r\nget a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n");
    rig_expect(*state, "add a 0 0 1 noreply\r\ny\r\nget a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n");
    rig_expect(*state, "replace a 0 0 1 noreply\r\nz\r\nget a\r\n", "VALUE a 0 1\r\nz\r\nEND\r\n");
    rig_expect(*state, "append a 0 0 1 noreply\r\ny\r\nget a\r\n", "VALUE a 0 2\r\nzy\r\nEND\r\n");
    rig_expect(*state, "prepend a 0 0 1 noreply\r\nx\r\nget a\r\n",
               "VALUE a 0 3\r\nxzy\r\nEND\r\n");
    rig_expect(*state, "cas a 0 0 1 0 noreply\r\ny\r\nget a\r\n", "VALUE a 0 3\r\nxzy\r\nEND\r\n");
    rig_expect(*state, "cas none 0 0 1 0 noreply\r\ny\r\nget none\r\n", "END\r\n");
}

static void test_noreply_and_too_large(void **state)
{
    static char junk[2000002];

    rig_expect(*state, "set a 0 0 1\r\nx\r\nset a 0 0 2000000 noreply\r\n", "STORED\r\n");
    assert_int_equal(rig_feed_sliced(*state, junk, sizeof(junk), 65536), sizeof(junk));
    rig_expect(*state, "get a\r\n", "END\r\n");
}

/* -M: what does not fit is refused, and a set that is refused removes the old value. */
static void test_full_memory_without_eviction(void **state)
{
    struct cache_config config = rig_config();
    struct rig rig;
    unsigned stored = 0;

    (void)state;
    config.settings.memory_bytes = 8u << 20;
    config.settings.evict = false;
    rig_open(&rig, &config);
    rig_expect(&rig, "set old 0 0 1\r\nx\r\nset number 0 0 2\r\n99\r\n", "STORED\r\nSTORED\r\n");
    for (;; stored++) {
        char text[64];
        int n = snprintf(text, sizeof(text), "set k%u 0 0 100000\r\n", stored);
        static char junk[100002];

        rig_feed_sliced(&rig, text, (size_t)n, 0);
        memset(junk, 'x', 100000);
        memcpy(junk + 100000, "\r\n", 2);
        rig_feed_sliced(&rig, junk, sizeof(junk), 0);
        if (strcmp(rig_reply(&rig), "STORED\r\n") != 0)
            break;
        assert_true(stored < 100);
    }
    assert_true(stored > 10);
    assert_int_equal(rig_stat(&rig, NULL, "store_no_memory"), 1);
    rig_expect(&rig, "touch old 0\r\n", "TOUCHED\r\n");
    rig_expect_set(&rig, "old", 900000, 'y', NO_MEMORY);
    rig_expect(&rig, "get old\r\n", "END\r\n");
    rig_expect(&rig, "touch number 0\r\n", "TOUCHED\r\n");
    rig_feed(&rig, "get k0\r\n");
    assert_int_equal(strlen(rig_reply(&rig)), strlen("VALUE k0 0 100000\r\n\r\nEND\r\n") + 100000);
    assert_int_equal(rig_stat(&rig, NULL, "evictions"), 0);
    rig_close(&rig);
}

static void test_full_memory_with_eviction(void **state)
{
    struct cache_config config = rig_config();
    struct rig rig;

    (void)state;
    config.settings.memory_bytes = 8u << 20;
    rig_open(&rig, &config);
    for (unsigned i = 0; i < 300; i++) {
        char key[32];

        snprintf(key, sizeof(key), "k%u", i);
        rig_expect_set(&rig, key, 100000, 'x', "STORED\r\n");
        cache_tick(rig.worker, rig.now_us);
    }
    rig_feed(&rig, "get k299\r\n");
    assert_int_equal(strlen(rig_reply(&rig)),
                     strlen("VALUE k299 0 100000\r\n\r\nEND\r\n") + 100000);
    assert_true(rig_stat(&rig, NULL, "evictions") > 0);
    rig_close(&rig);
}

enum { KEYS = 4000, BIG = 600000 };

/* Views of all keys that are left, by requests of another session. */
static void read_all(struct rig *rig)
{
    struct cache_session *other =
        cache_session_open(rig->worker, &(struct cache_peer){.transport = "tcp"});
    struct rig_sink out;

    rig_sink_init(&out, rig->worker);
    for (unsigned i = 0; i < KEYS; i++) {
        char line[32];
        int n = snprintf(line, sizeof(line), "get k%u\r\n", i);

        cache_session_input(other, (const uint8_t *)line, (uint32_t)n, &out.sink);
    }
    rig_sink_free(&out);
    cache_session_close(other);
}

/* A cache of 2 MiB with so many items. */
static void open_with_keys(struct rig *rig)
{
    struct cache_config config = rig_config();

    config.settings.memory_bytes = 2u << 20;
    rig_open(rig, &config);
    for (unsigned i = 0; i < KEYS; i++) {
        char key[32];

        snprintf(key, sizeof(key), "k%u", i);
        rig_expect_set(rig, key, 700, 'x', "STORED\r\n");
        cache_tick(rig->worker, rig->now_us);
    }
}

/* What other requests of the loop have read is sent: it does not keep a value from its room. */
static void test_room_for_a_value_after_reading_all(void **state)
{
    struct rig rig;

    (void)state;
    open_with_keys(&rig);
    read_all(&rig);
    rig_expect_set(&rig, "big", BIG, 'y', "STORED\r\n");
    cache_tick(rig.worker, rig.now_us);
    for (unsigned i = 0; i < 2; i++) { /* in a buffer until it is complete */
        static char value[BIG];

        memset(value, 'z', BIG);
        rig_feed(&rig, "set big 0 0 600000\r\n");
        rig_feed_sliced(&rig, value, BIG, 0);
        read_all(&rig);
        rig_expect(&rig, "\r\n", "STORED\r\n");
    }
    rig_expect_set(&rig, "part", BIG / 6, 'y', "STORED\r\n");
    rig_feed(&rig, "get part\r\nget part\r\n"); /* so that it is not evicted for its successor */
    rig_expect(&rig, "append part 0 0 1\r\nx", "");
    read_all(&rig);
    rig_expect(&rig, "\r\n", "STORED\r\n");
    rig_close(&rig);
}

/* Short items, too, of which many come in one loop. */
static void test_room_for_short_items_after_reading_all(void **state)
{
    static const struct {
        const char *request;
        const char *failure;
        bool old; /* of keys that are there */
    } kinds[] = {
        {"incr n 1\r\n", "SERVER_ERROR", true},
        {"mg new%u N0\r\n", "EN", false},
        {"md k%u x\r\n", "SERVER_ERROR", true},
    };
    struct rig rig;

    (void)state;
    open_with_keys(&rig);
    for (unsigned kind = 0; kind < 3; kind++) {
        rig_expect(&rig, "set n 0 0 1\r\n1\r\n", "STORED\r\n");
        read_all(&rig);
        for (unsigned i = 0; i < 10000; i++) {
            char request[64];
            size_t len = 0;

            rig_append(request, sizeof(request), &len, kinds[kind].request,
                       kinds[kind].old ? i % KEYS : i);
            rig_drain(&rig.out);
            rig_feed(&rig, request);
            assert_null(strstr(rig_reply(&rig), kinds[kind].failure));
        }
        cache_tick(rig.worker, rig.now_us);
    }
    assert_int_equal(rig_stat(&rig, NULL, "store_no_memory"), 0);
    rig_close(&rig);
}

/* A key that is added again and again stays, as one that is read does. */
static void test_a_refused_add_counts_as_an_access(void **state)
{
    struct cache_config config = rig_config();
    struct rig rig;

    (void)state;
    config.settings.memory_bytes = 2u << 20;
    rig_open(&rig, &config);
    rig_expect(&rig, "set added 0 0 1\r\nx\r\nset left 0 0 1\r\ny\r\n", "STORED\r\nSTORED\r\n");
    for (unsigned i = 0; i < 10000; i++) {
        char key[32];

        if (i % 100 == 0)
            rig_expect(&rig, "add added 0 0 1\r\nz\r\n", "NOT_STORED\r\n");
        snprintf(key, sizeof(key), "k%u", i);
        rig_expect_set(&rig, key, 900, 'x', "STORED\r\n");
        cache_tick(rig.worker, rig.now_us);
    }
    rig_expect(&rig, "get added left\r\n", "VALUE added 0 1\r\nx\r\nEND\r\n");
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_set_replaces, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_add_and_replace, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_expired_items_do_not_exist, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_append_and_prepend_keep_flags_and_expiry, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(test_append_and_prepend_of_large_values, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(test_append_beyond_the_limit_is_not_stored, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(test_cas, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_cas_0_matches_nothing, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_cas_numbers, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_limit_of_the_size, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_too_large_and_the_old_value, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_largest_number_of_bytes_is_swallowed, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(test_bad_data_chunk, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_refused_lines, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_noreply, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_noreply_and_too_large, rig_setup, rig_teardown),
        cmocka_unit_test(test_full_memory_without_eviction),
        cmocka_unit_test(test_full_memory_with_eviction),
        cmocka_unit_test(test_room_for_a_value_after_reading_all),
        cmocka_unit_test(test_room_for_short_items_after_reading_all),
        cmocka_unit_test(test_a_refused_add_counts_as_an_access),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
