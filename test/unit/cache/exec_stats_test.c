/* SPDX-License-Identifier: BSD-3-Clause */
/* stats: which list is asked for, reset, lists of others. */
#include "cache/exec_stats.h"

#include "rig.h"

static void test_other_answers(void **state)
{
    struct rig *rig = *state;

    rig_expect(rig, "stats foo\r\n", "ERROR\r\n");
    rig_expect(rig, "stats r\r\n", "ERROR\r\n");
    rig_expect(rig, "stats setting\r\n", "ERROR\r\n");
    rig_expect(rig, "stats sizes\r\n", "STAT sizes_status disabled\r\nEND\r\n");
    rig_expect(rig, "stats sizes_enable\r\n", "ERROR\r\n");
    rig_expect(rig, "stats  items  \r\n", "END\r\n");
    rig_expect(rig, "stats slabs\r\n", "STAT active_slabs 0\r\nSTAT total_malloced 0\r\nEND\r\n");
    rig_expect(rig, "stats detail off\r\n", "OK\r\n");
    rig_expect(rig, "stats detail dump\r\n", "END\r\n");
    rig_expect(rig, "stats detail on\r\n", "OK\r\n");
    rig_expect(rig, "stats detail\r\n", "CLIENT_ERROR usage: stats detail on|off|dump\r\n");
    rig_expect(rig, "stats detail x\r\n", "CLIENT_ERROR usage: stats detail on|off|dump\r\n");
    rig_expect(rig, "stats cachedump 1 0\r\n", "END\r\n");
    rig_expect(rig, "stats cachedump 1\r\n", "CLIENT_ERROR bad command line\r\n");
    rig_expect(rig, "stats cachedump x 1\r\n", "CLIENT_ERROR bad command line format\r\n");
    rig_expect(rig, "stats cachedump 1 -1\r\n", "CLIENT_ERROR bad command line format\r\n");
    rig_expect(rig, "stats cachedump 64 1\r\n", "CLIENT_ERROR Illegal slab id\r\n");
    rig_expect(rig, "stats cachedump 0 1\r\n", "END\r\n");
    rig_expect(rig, "stats reset\r\n", "RESET\r\n");
}

/* Reset zeroes what counts and leaves what measures. */
static void test_reset(void **state)
{
    static const char *const counters[] = {
        "cmd_get",    "cmd_set",     "cmd_flush",     "cmd_touch",
        "get_hits",   "get_misses",  "cas_hits",      "cas_misses",
        "cas_badval", "delete_hits", "incr_hits",     "decr_misses",
        "touch_hits", "total_items", "bytes_written", "total_connections",
    };
    struct rig *rig = *state;

    rig_feed(rig, "set a 0 0 1\r\n1\r\nget a b\r\ncas a 0 0 1 0\r\nx\r\ncas b 0 0 1 0\r\nx\r\n"
                  "incr a 1\r\ndecr b 1\r\ntouch a 0\r\nset b 0 0 1\r\nx\r\ndelete b\r\n"
                  "flush_all 100\r\n");
    assert_true(rig_stat(rig, NULL, "cmd_get") == 2);
    rig_expect(rig, "stats reset\r\n", "RESET\r\n");
    for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++) {
        uint64_t value = rig_stat(rig, NULL, counters[i]);

        if (strcmp(counters[i], "bytes_written") == 0)
            assert_true(value < 10000);
        else
            assert_int_equal(value, 0);
        rig_expect(rig, "stats reset\r\n", "RESET\r\n");
    }
    assert_int_equal(rig_stat(rig, NULL, "curr_items"), 1);
    assert_int_equal(rig_stat(rig, NULL, "curr_connections"), 1);
    rig_expect(rig, "get a\r\n", "VALUE a 0 1\r\n2\r\nEND\r\n");
    assert_int_equal(rig_stat(rig, NULL, "cmd_get"), 1);
}

static void fill_ustack(void *ctx, cache_stats_emit *emit, void *emit_ctx)
{
    emit(emit_ctx, "frames", ctx);
    emit(emit_ctx, "note", "two words");
}

static void fill_long(void *ctx, cache_stats_emit *emit, void *emit_ctx)
{
    static char value[3000];

    (void)ctx;
    memset(value, 'v', sizeof(value) - 1);
    emit(emit_ctx, "long", value);
}

static void test_providers(void **state)
{
    struct rig *rig = *state;
    static char seven[] = "7";
    const char *reply;

    rig_expect(rig, "stats ustack\r\n", "ERROR\r\n");
    assert_int_equal(cache_stats_provider(rig->cache, "ustack", fill_ustack, seven), 0);
    assert_int_equal(cache_stats_provider(rig->cache, "long", fill_long, NULL), 0);
    rig_expect(rig, "stats ustack\r\n", "STAT frames 7\r\nSTAT note two words\r\nEND\r\n");
    rig_feed(rig, "stats long\r\n");
    reply = rig_reply(rig);
    assert_int_equal(strspn(reply + 10, "v"), 700);
    assert_string_equal(reply + 10 + 700, "\r\nEND\r\n");
    for (int i = 2; i < CACHE_STATS_PROVIDER_MAX; i++)
        assert_int_equal(cache_stats_provider(rig->cache, "more", fill_ustack, seven), 0);
    assert_int_equal(cache_stats_provider(rig->cache, "more", fill_ustack, seven), -1);
}

/* A binary Stat; returns the bytes of the reply. */
static size_t ask_binary(struct rig *rig, struct cache_session *session, struct rig_sink *out,
                         const char *name)
{
    uint8_t packet[64] = {0x80, 0x10, 0, (uint8_t)strlen(name)};

    packet[11] = packet[3];
    memcpy(packet + 24, name, strlen(name));
    rig_forget(out);
    cache_session_input(session, packet, 24 + packet[3], &out->sink);
    rig_drain(out);
    return out->taken_len;
}

/* A list ends with an empty packet; an unknown list is not found. */
static void test_binary(void **state)
{
    static const char *const lists[] = {"", "settings", "items", "slabs", "sizes", "detail dump"};
    static const char *const dones[] = {"reset", "detail on", "detail off"};
    static const char *const unknown[] = {"foo", "conns", "cachedump 1 1", "detail", "detail x"};
    struct rig *rig = *state;
    struct cache_peer peer = {.transport = "tcp"};
    struct cache_session *session = cache_session_open(rig->worker, &peer);
    struct rig_sink out;

    rig_sink_init(&out, rig->worker);
    rig_feed(rig, "set a 0 0 1\r\nx\r\n");
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        size_t len = ask_binary(rig, session, &out, lists[i]);

        assert_true(len > 2 * 24);
        assert_int_equal(out.taken[0], 0x81);
        assert_int_equal(out.taken[7], 0);
        assert_memory_equal(out.taken + len - 24, "\x81\x10\0\0\0\0\0\0\0\0\0\0", 12);
    }
    assert_memory_equal(out.taken + 24, "detailedEND\r\n", 13);
    for (size_t i = 0; i < sizeof(dones) / sizeof(dones[0]); i++)
        assert_int_equal(ask_binary(rig, session, &out, dones[i]), 24);
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
        assert_int_equal(ask_binary(rig, session, &out, unknown[i]), 24 + 9);
        assert_int_equal(out.taken[7], 1);
    }
    rig_sink_free(&out);
    cache_session_close(session);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_other_answers, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_reset, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_providers, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_binary, rig_setup, rig_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
