/* SPDX-License-Identifier: BSD-3-Clause */
/* The administrative commands: their replies and their effects. */
#include "rig.h"

#include <stdio.h>

#include "cache/cache_worker.h"

#define ERROR "ERROR\r\n"
#define OK "OK\r\n"
#define BAD_FORMAT "CLIENT_ERROR bad command line format\r\n"

static struct cache_config default_config(void)
{
    struct cache_config config = rig_config();

    cache_settings_defaults(&config.settings);
    config.settings.threads = 2;
    return config;
}

static int setup(void **state)
{
    struct cache_config config = default_config();
    struct rig *rig = malloc(sizeof(*rig));

    rig_open(rig, &config);
    *state = rig;
    return 0;
}

struct exchange {
    const char *line;
    const char *reply;
};

static void say_all(struct rig *rig, const struct exchange *exchanges, size_t count)
{
    char line[128];

    for (size_t i = 0; i < count; i++) {
        snprintf(line, sizeof(line), "%s\r\n", exchanges[i].line);
        rig_expect(rig, line, exchanges[i].reply);
    }
}

#define SAY_ALL(rig, exchanges) say_all(rig, exchanges, sizeof(exchanges) / sizeof((exchanges)[0]))

static void expect_setting(struct rig *rig, const char *line)
{
    char full[128];

    snprintf(full, sizeof(full), "STAT %s\r\n", line);
    rig_drain(&rig->out);
    rig_feed(rig, "stats settings\r\n");
    if (strstr(rig_reply(rig), full) == NULL)
        fail_msg("no line %s", line);
}

static void test_slabs(void **state)
{
    static const struct exchange exchanges[] = {
        {"slabs", ERROR},
        {"slabs foo", ERROR},
        {"slabs reassign", ERROR},
        {"slabs reassign 1", ERROR},
        {"slabs reassign 1 2 3", ERROR},
        {"slabs reassign 1 x", BAD_FORMAT},
        {"slabs reassign x 1", BAD_FORMAT},
        {"slabs reassign 1 1", "SAME src and dst class are identical\r\n"},
        {"slabs reassign 99 1", "BADCLASS invalid src or dst class id\r\n"},
        {"slabs reassign 1 40", "BADCLASS invalid src or dst class id\r\n"},
        {"slabs reassign 40 1", "BADCLASS invalid src or dst class id\r\n"},
        {"slabs reassign 39 1", "NOSPARE source class has no spare pages\r\n"},
        {"slabs reassign 1 2", "NOSPARE source class has no spare pages\r\n"},
        {"slabs reassign -1 2", "NOSPARE source class has no spare pages\r\n"},
        {"slabs automove", ERROR},
        {"slabs automove x", BAD_FORMAT},
        {"slabs automove 3", ERROR},
        {"slabs automove 0", OK},
        {"slabs automove ratio", ERROR},
        {"slabs automove ratio x", ERROR},
        {"slabs automove ratio 0.5", OK},
        {"slabs automove freeratio 0.1", OK},
        {"slabs automove window", BAD_FORMAT},
        {"slabs automove window 2", "CLIENT_ERROR automove window too low or too high\r\n"},
        {"slabs automove window 1801", "CLIENT_ERROR automove window too low or too high\r\n"},
        {"slabs automove window 30", OK},
        {"slabs automove 2 noreply", ""},
    };
    struct rig *rig = *state;

    SAY_ALL(rig, exchanges);
    expect_setting(rig, "slab_automove 2");
    expect_setting(rig, "slab_automove_ratio 0.50");
    expect_setting(rig, "slab_automove_window 30");
}

static void test_slab_reassign_disabled(void **state)
{
    struct cache_config config = default_config();
    struct rig rig;

    config.settings.compat.slab_reassign = false;
    rig_open(&rig, &config);
    rig_expect(&rig, "slabs reassign 1 2\r\n", "CLIENT_ERROR slab reassignment disabled\r\n");
    rig_close(&rig);
}

static void test_lru(void **state)
{
    static const struct exchange exchanges[] = {
        {"lru", ERROR},
        {"lru foo", ERROR},
        {"lru mode", ERROR},
        {"lru mode x", ERROR},
        {"lru mode flat", OK},
        {"lru tune 10", ERROR},
        {"lru tune 10 x 0.1 2.0", ERROR},
        {"lru tune 10 25 x 2.0", ERROR},
        {"lru tune 50 31 0.1 2.0", "ERROR hot and warm pcts must not exceed 80\r\n"},
        {"lru tune 4294967295 1 0.1 2.0", "ERROR hot and warm pcts must not exceed 80\r\n"},
        {"lru tune 10 25 0 2.0", "ERROR hot/warm age factors must be greater than 0\r\n"},
        {"lru tune 10 25 0.1 -2", "ERROR hot/warm age factors must be greater than 0\r\n"},
        {"lru tune 10 25 1e999 2", ERROR},
        {"lru tune 10 25 0x1 2", ERROR},
        {"lru tune 10 25 1e-1 +2", OK},
        {"lru tune 10 25 0.1 2.5", OK},
        {"lru temp_ttl", ERROR},
        {"lru temp_ttl x", ERROR},
        {"lru temp_ttl 30", OK},
    };
    struct rig *rig = *state;

    SAY_ALL(rig, exchanges);
    expect_setting(rig, "lru_segmented no");
    expect_setting(rig, "hot_lru_pct 10");
    expect_setting(rig, "warm_lru_pct 25");
    expect_setting(rig, "hot_max_factor 0.10");
    expect_setting(rig, "warm_max_factor 2.50");
    expect_setting(rig, "temp_lru yes");
    expect_setting(rig, "temporary_ttl 30");
    rig_expect(rig, "lru temp_ttl -1\r\n", OK);
    expect_setting(rig, "temp_lru no");
    rig_expect(rig, "lru temp_ttl 0\r\n", OK);
    expect_setting(rig, "temp_lru yes");
    expect_setting(rig, "temporary_ttl 0");
}

static void test_crawler(void **state)
{
    static const struct exchange exchanges[] = {
        {"lru_crawler", ERROR},
        {"lru_crawler foo", ERROR},
        {"lru_crawler enable now", ERROR},
        {"lru_crawler disable now", ERROR},
        {"lru_crawler sleep 5 6", ERROR},
        {"lru_crawler tocrawl 5 6", ERROR},
        {"lru_crawler crawl all now", ERROR},
        {"lru_crawler metadump all now", ERROR},
        {"lru_crawler mgdump all now", ERROR},
        {"lru_crawler enable", "ERROR failed to start lru crawler thread\r\n"},
        {"lru_crawler sleep", ERROR},
        {"lru_crawler sleep x", BAD_FORMAT},
        {"lru_crawler sleep 1000001", "CLIENT_ERROR sleep must be one second or less\r\n"},
        {"lru_crawler sleep 1000000", OK},
        {"lru_crawler tocrawl x", BAD_FORMAT},
        {"lru_crawler tocrawl 7", OK},
        {"lru_crawler crawl", ERROR},
        {"lru_crawler crawl x", "BADCLASS invalid class id\r\n"},
        {"lru_crawler crawl 64", "BADCLASS invalid class id\r\n"},
        {"lru_crawler metadump", ERROR},
        {"lru_crawler metadump x", "BADCLASS invalid class id\r\n"},
        {"version\r\nlru_crawler metadump all",
         "VERSION 1.6.45\r\nERROR cannot pipeline other commands before metadump\r\n"},
        {"version\r\nlru_crawler mgdump all",
         "VERSION 1.6.45\r\nERROR cannot pipeline other commands before mgdump\r\n"},
        {"lru_crawler disable", OK},
        {"lru_crawler disable", "ERROR failed to stop lru crawler thread\r\n"},
        {"lru_crawler crawl all", "CLIENT_ERROR lru crawler disabled\r\n"},
        {"lru_crawler metadump all", "CLIENT_ERROR lru crawler disabled\r\n"},
        {"lru_crawler enable", OK},
    };
    struct rig *rig = *state;

    SAY_ALL(rig, exchanges);
    expect_setting(rig, "lru_crawler yes");
    expect_setting(rig, "lru_crawler_sleep 1000000");
    expect_setting(rig, "lru_crawler_tocrawl 7");
}

static void test_dumps_not_allowed(void **state)
{
    struct cache_config config = default_config();
    struct rig rig;

    config.settings.dump_disabled = true;
    rig_open(&rig, &config);
    rig_expect(&rig, "lru_crawler metadump all\r\n", "ERROR metadump not allowed\r\n");
    rig_expect(&rig, "lru_crawler mgdump all\r\n", "ERROR key dump not allowed\r\n");
    rig_expect(&rig, "stats cachedump 1 1\r\n", "CLIENT_ERROR stats cachedump not allowed\r\n");
    rig_close(&rig);
}

/* A crawl reclaims expired items in bounded steps, and counts them. */
static void test_crawl_reclaims(void **state)
{
    struct rig *rig = *state;
    char text[64];
    unsigned loops = 0;
    uint64_t crawled;

    for (unsigned i = 0; i < 3000; i++) {
        snprintf(text, sizeof(text), "set key%u 0 %u 1 noreply\r\nx\r\n", i, i % 3 ? 0 : 2);
        rig_feed(rig, text);
    }
    rig_wait(rig, 3);
    rig_expect(rig, "lru_crawler crawl 2\r\n", OK);
    while (rig_stat(rig, NULL, "lru_crawler_running") == 1)
        rig_turn(rig);
    assert_int_equal(rig_stat(rig, NULL, "crawler_reclaimed"), 0);
    rig_expect(rig, "lru_crawler crawl all\r\n", OK);
    rig_expect(rig, "lru_crawler crawl all\r\n", "BUSY currently processing crawler request\r\n");
    while (rig_stat(rig, NULL, "lru_crawler_running") == 1) {
        assert_int_equal(cache_sleep_us_max(rig->worker), 0);
        rig_turn(rig);
        assert_in_range(++loops, 1, 1000);
    }
    assert_true(loops > 5);
    assert_int_equal(rig_stat(rig, NULL, "lru_crawler_starts"), 2);
    /* The engine's own expiry runs meanwhile. */
    crawled = rig_stat(rig, NULL, "crawler_reclaimed");
    assert_in_range(crawled, 1, 1000);
    assert_int_equal(crawled + rig_stat(rig, NULL, "reclaimed"), 1000);
    assert_int_equal(rig_stat(rig, NULL, "crawler_items_checked"), 2000 + crawled);
    assert_int_equal(rig_stat(rig, "items", "items:1:crawler_reclaimed"), crawled);
    assert_int_equal(rig_stat(rig, "slabs", "1:used_chunks"), 2000);
    assert_int_equal(rig_stat(rig, NULL, "expired_unfetched"), 1000);
    assert_int_equal(cache_sleep_us_max(rig->worker), UINT32_MAX);
}

/* The worker that crawls may leave: another one may crawl then. */
static void test_crawling_worker_leaves(void **state)
{
    struct rig *rig = *state;
    struct cache_worker *second = cache_join(rig->cache);
    struct cache_peer peer = {.transport = "tcp"};
    struct cache_session *session = cache_session_open(second, &peer);
    struct rig_sink out;

    rig_sink_init(&out, second);
    cache_session_input(session, (const uint8_t *)"lru_crawler crawl all\r\n", 23, &out.sink);
    rig_expect(rig, "lru_crawler crawl all\r\n", "BUSY currently processing crawler request\r\n");
    rig_sink_free(&out);
    cache_session_close(session);
    cache_leave(second);
    rig_expect(rig, "lru_crawler crawl all\r\n", OK);
}

static void test_memlimit(void **state)
{
    static const struct exchange exchanges[] = {
        {"cache_memlimit", ERROR},
        {"cache_memlimit x", ERROR},
        {"cache_memlimit -1", ERROR},
        {"cache_memlimit 7", "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n"},
        {"cache_memlimit 1000000001",
         "MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes\r\n"},
        {"cache_memlimit 100 noreply", ""},
        {"cache_memlimit 8", OK},
    };
    struct rig *rig = *state;

    rig_expect(rig, "cache_memlimit 1000000000\r\n", OK);
    assert_int_equal(rig_stat(rig, NULL, "limit_maxbytes"), UINT64_C(1000000000) << 20);
    SAY_ALL(rig, exchanges);
    assert_int_equal(rig_stat(rig, NULL, "limit_maxbytes"), 8 << 20);
    assert_int_equal(rig_stat(rig, "settings", "maxbytes"), 8 << 20);
    assert_int_equal(cache_sleep_us_max(rig->worker), 1000);
    for (unsigned i = 0; i < 1000 && cache_sleep_us_max(rig->worker) == 1000; i++)
        rig_turn(rig);
    assert_int_equal(cache_sleep_us_max(rig->worker), UINT32_MAX);
}

static void test_memlimit_is_kept(void **state)
{
    struct rig *rig = *state;
    char key[16];
    uint64_t held;

    for (unsigned i = 0; i < 500; i++) {
        snprintf(key, sizeof(key), "key%u", i);
        rig_expect_set(rig, key, 90000, 'x', "STORED\r\n");
    }
    held = rig_stat(rig, NULL, "curr_items");
    assert_int_equal(held, 500);
    rig_expect(rig, "cache_memlimit 16\r\n", OK);
    while (cache_sleep_us_max(rig->worker) == 1000)
        rig_turn(rig);
    held = rig_stat(rig, NULL, "curr_items");
    assert_in_range(held, 60, 16 * 1024 * 1024 / 90000);
    assert_true(rig_stat(rig, "slabs", "total_malloced") <= 16 << 20);
    rig_expect(rig, "cache_memlimit 128\r\n", OK);
    for (unsigned i = 1000; i < 2000; i++) {
        snprintf(key, sizeof(key), "key%u", i);
        rig_expect_set(rig, key, 90000, 'x', "STORED\r\n");
    }
    assert_int_equal(rig_stat(rig, NULL, "curr_items"), held + 1000);
}

struct shutdown_call {
    unsigned calls;
    bool graceful;
};

static void note_shutdown(void *ctx, bool graceful)
{
    struct shutdown_call *call = ctx;

    call->calls++;
    call->graceful = graceful;
}

static void test_shutdown(void **state)
{
    static const struct {
        const char *line;
        bool graceful;
    } ends[] = {{"shutdown\r\n", false}, {"shutdown graceful\r\n", true}};

    for (size_t i = 0; i < 2; i++) {
        struct cache_config config = default_config();
        struct shutdown_call call = {0};
        struct rig rig;

        config.settings.shutdown_enabled = true;
        config.shutdown = note_shutdown;
        config.shutdown_ctx = &call;
        rig_open(&rig, &config);
        rig_expect(&rig, "shutdown foo\r\n", "CLIENT_ERROR invalid shutdown mode\r\n");
        rig_expect(&rig, "shutdown graceful x\r\n", "CLIENT_ERROR invalid shutdown mode\r\n");
        assert_int_equal(call.calls, 0);
        rig_expect(&rig, ends[i].line, "");
        assert_int_equal(call.calls, 1);
        assert_int_equal(call.graceful, ends[i].graceful);
        assert_int_equal(cache_session_state(rig.session), CACHE_SESSION_CLOSING);
        rig_close(&rig);
    }
}

static void test_shutdown_not_enabled(void **state)
{
    struct rig *rig = *state;

    rig_expect(rig, "shutdown\r\n", "SERVER_ERROR: shutdown not enabled\r\n");
    rig_expect(rig, "shutdown graceful\r\n", "SERVER_ERROR: shutdown not enabled\r\n");
}

static void test_extstore_is_accepted(void **state)
{
    static const struct exchange exchanges[] = {
        {"extstore", ERROR},
        {"extstore item_size", ERROR},
        {"extstore item_size 512", OK},
        {"extstore item_size x", ERROR},
        {"extstore item_age 5 noreply", ""},
        {"extstore max_frag 0.8", OK},
        {"extstore drop_unread 1", OK},
        {"extstore free_memchunks 1 2", OK},
        {"extstore free_memchunks 1", ERROR},
        {"extstore free_memchunks 64 2", ERROR},
        {"extstore foo 1", ERROR},
    };
    struct rig *rig = *state;

    SAY_ALL(rig, exchanges);
}

static void test_what_this_build_lacks(void **state)
{
    static const struct exchange exchanges[] = {
        {"refresh_certs", ERROR},      {"misbehave", ERROR}, {"debugtime p", ERROR},
        {"debugitem lock a", ERROR},   {"foo", ERROR},       {"foo noreply", ""},
        {"config get cluster", ERROR},
    };
    struct rig *rig = *state;

    SAY_ALL(rig, exchanges);
}

static void test_debugtime(void **state)
{
    struct cache_config config = default_config();
    struct rig rig;

    config.settings.debug = true;
    rig_open(&rig, &config);
    rig_feed(&rig, "set a 0 10 1\r\nx\r\nset b 0 100 1\r\nx\r\n");
    rig_expect(&rig, "debugtime -5\r\nmg b t\r\n", "OK\r\nHD t100\r\n"); /* as at the start */
    rig_expect(&rig, "debugtime 5\r\n", OK);
    rig_expect(&rig, "debugtime x\r\n", ERROR);
    rig_expect(&rig, "debugtime\r\n", ERROR);
    rig_expect(&rig, "debugtime 11\r\nget a b\r\n", "OK\r\nVALUE b 0 1\r\nx\r\nEND\r\n");
    rig_expect(&rig, "debugtime p\r\n", OK);
    rig_wait(&rig, 200);
    rig_expect(&rig, "mg b t\r\n", "HD t89\r\n");
    rig_expect(&rig, "debugtime +50\r\nmg b t\r\n", "OK\r\nHD t39\r\n");
    rig_expect(&rig, "debugtime +\r\n", ERROR);
    rig_expect(&rig, "debugtime +-5\r\n", ERROR);
    rig_expect(&rig, "debugtime -20\r\nmg b t\r\n", "OK\r\nHD t59\r\n");
    rig_expect(&rig, "debugtime r\r\nget b\r\n", "OK\r\nEND\r\n");
    rig_expect(&rig, "misbehave\r\n", ERROR);
    rig_feed(&rig, "set k 0 0 1\r\nx\r\n");
    rig_expect(&rig, "debugitem lock k\r\n", OK);
    rig_expect(&rig, "debugitem unref nothing\r\n", "MISS\r\n");
    rig_expect(&rig, "debugitem foo k\r\n", ERROR);
    rig_close(&rig);
}

/* debugtime moves the clock of all workers, at the latest in their next loop. */
static void test_debugtime_elsewhere(void **state)
{
    struct cache_config config = default_config();
    struct cache_worker *second;
    struct rig rig;

    config.settings.debug = true;
    rig_open(&rig, &config);
    second = cache_join(rig.cache);
    rig_expect(&rig, "debugtime 1000\r\n", OK);
    cache_tick(second, rig.now_us + 1);
    assert_int_equal(second->now_s, rig.worker->now_s);
    assert_int_equal(second->now_s, 1002);
    cache_leave(second);
    rig_close(&rig);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_slabs),
        cmocka_unit_test(test_slab_reassign_disabled),
        TEST(test_lru),
        TEST(test_crawler),
        cmocka_unit_test(test_dumps_not_allowed),
        TEST(test_crawl_reclaims),
        TEST(test_crawling_worker_leaves),
        TEST(test_memlimit),
        TEST(test_memlimit_is_kept),
        cmocka_unit_test(test_shutdown),
        TEST(test_shutdown_not_enabled),
        TEST(test_extstore_is_accepted),
        TEST(test_what_this_build_lacks),
        cmocka_unit_test(test_debugtime),
        cmocka_unit_test(test_debugtime_elsewhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
