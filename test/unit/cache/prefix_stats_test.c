/* SPDX-License-Identifier: BSD-3-Clause */
/* Statistics by prefix. */
#include "rig.h"

#include <stdio.h>

#include "cache/cache_worker.h"
#include "cache/prefix_stats.h"
#include "cache/textbuf.h"

static void test_counts_by_what_stands_before_the_delimiter(void **state)
{
    struct rig *rig = *state;

    rig_expect(rig, "stats detail on\r\n", "OK\r\n");
    rig_feed(rig, "set u:1 0 0 1\r\nx\r\nget u:1 u:2 v:1 plain :x\r\ndelete u:1\r\ndelete u:1\r\n");
    rig_feed(rig, "gat 0 u:1\r\nmg u:1 v\r\nms u:1 1\r\ny\r\nmd u:1\r\n");
    rig_drain(&rig->out);
    rig_feed(rig, "stats detail dump\r\n");
    {
        const char *reply = rig_reply(rig);

        assert_non_null(strstr(reply, "PREFIX u get 4 hit 1 set 2 del 3\r\n"));
        assert_non_null(strstr(reply, "PREFIX v get 1 hit 0 set 0 del 0\r\n"));
        assert_null(strstr(reply, "plain"));
        assert_null(strstr(reply, "PREFIX  "));
        assert_string_equal(reply + strlen(reply) - 5, "END\r\n");
    }
}

static void test_off_counts_nothing_and_forgets_nothing(void **state)
{
    struct rig *rig = *state;

    rig_feed(rig, "get a:1\r\n");
    rig_expect(rig, "stats detail dump\r\n", "END\r\n");
    rig_feed(rig, "stats detail on\r\nget a:1\r\nstats detail off\r\nget a:1\r\n");
    rig_expect(rig, "stats detail dump\r\n", "PREFIX a get 1 hit 0 set 0 del 0\r\nEND\r\n");
    rig_expect(rig, "stats reset\r\nstats detail dump\r\n", "RESET\r\nEND\r\n");
}

static void test_another_delimiter_from_the_start(void **state)
{
    struct cache_config config = rig_config();
    struct rig rig;

    config.settings.prefix_delimiter = '/';
    config.settings.detail_enabled = true;
    rig_open(&rig, &config);
    rig_feed(&rig, "get a/b/c x:y\r\n");
    rig_expect(&rig, "stats detail dump\r\n", "PREFIX a get 1 hit 0 set 0 del 0\r\nEND\r\n");
    rig_close(&rig);
}

static void test_not_allowed(void **state)
{
    struct cache_config config = rig_config();
    struct rig rig;

    config.settings.dump_disabled = true;
    rig_open(&rig, &config);
    rig_expect(&rig, "stats detail on\r\n", "CLIENT_ERROR stats detail not allowed\r\n");
    rig_expect(&rig, "stats detail dump\r\n", "CLIENT_ERROR stats detail not allowed\r\n");
    rig_close(&rig);
}

/* All workers count into one table, and learn of a change in their next loop. */
static void test_other_workers(void **state)
{
    struct rig *rig = *state;
    struct cache_worker *second = cache_join(rig->cache);
    struct cache_peer peer = {.transport = "tcp"};
    struct cache_session *session = cache_session_open(second, &peer);
    struct rig_sink out;

    rig_sink_init(&out, second);
    rig_feed(rig, "stats detail on\r\nget a:1\r\n");
    cache_session_input(session, (const uint8_t *)"get a:1\r\n", 9, &out.sink);
    cache_tick(second, rig->now_us);
    cache_session_input(session, (const uint8_t *)"get a:1\r\n", 9, &out.sink);
    rig_expect(rig, "stats detail dump\r\n", "PREFIX a get 2 hit 0 set 0 del 0\r\nEND\r\n");
    rig_sink_free(&out);
    cache_session_close(session);
    cache_leave(second);
}

/* More prefixes than are counted; the longest dump of the binary protocol is one text. */
static void test_bound(void **state)
{
    struct rig *rig = *state;
    struct cache_textbuf text = {0};
    unsigned lines = 0;
    uint32_t from = 0;
    char key[32];
    bool more = true, found = false;

    for (unsigned i = 0; i < CACHE_PREFIXES_MAX + 100; i++) {
        int n = snprintf(key, sizeof(key), "prefix%u:x", i);

        cache_prefix_count(rig->cache, (const uint8_t *)key, (uint32_t)n, 1);
    }
    cache_prefix_count(rig->cache, (const uint8_t *)"prefix7:y", 9, 1); /* known: still counted */
    while (more) {
        text.len = 0;
        more = cache_prefix_dump(rig->cache, &text, &from);
        cache_textbuf_add(&text, "", 1);
        for (const char *at = (const char *)text.bytes; (at = strchr(at, '\n')) != NULL; at++)
            lines++;
        found |= strstr((const char *)text.bytes, "PREFIX prefix7 get 2 hit") != NULL;
    }
    assert_int_equal(lines, CACHE_PREFIXES_MAX);
    assert_true(found);
    for (from = 0; !text.failed && cache_prefix_dump(rig->cache, &text, &from);)
        continue;
    assert_true(text.failed);
    cache_textbuf_free(&text);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_counts_by_what_stands_before_the_delimiter),
        TEST(test_off_counts_nothing_and_forgets_nothing),
        cmocka_unit_test(test_another_delimiter_from_the_start),
        cmocka_unit_test(test_not_allowed),
        TEST(test_other_workers),
        TEST(test_bound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
