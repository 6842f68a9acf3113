/* SPDX-License-Identifier: BSD-3-Clause */
/* The general list of stats. */
#include "rig.h"

#include <stdio.h>
#include <unistd.h>

/* The names of memcached 1.6.45 in its order. */
static const char *const names[] = {
    "pid",
    "uptime",
    "time",
    "version",
    "libevent",
    "pointer_size",
    "rusage_user",
    "rusage_system",
    "max_connections",
    "curr_connections",
    "total_connections",
    "rejected_connections",
    "connection_structures",
    "response_obj_oom",
    "response_obj_count",
    "response_obj_bytes",
    "read_buf_count",
    "read_buf_bytes",
    "read_buf_bytes_free",
    "read_buf_oom",
    "reserved_fds",
    "cmd_get",
    "cmd_set",
    "cmd_flush",
    "cmd_touch",
    "cmd_meta",
    "get_hits",
    "get_misses",
    "get_expired",
    "get_flushed",
    "delete_misses",
    "delete_hits",
    "incr_misses",
    "incr_hits",
    "decr_misses",
    "decr_hits",
    "cas_misses",
    "cas_hits",
    "cas_badval",
    "touch_hits",
    "touch_misses",
    "store_too_large",
    "store_no_memory",
    "auth_cmds",
    "auth_errors",
    "bytes_read",
    "bytes_written",
    "limit_maxbytes",
    "accepting_conns",
    "listen_disabled_num",
    "time_in_listen_disabled_us",
    "threads",
    "conn_yields",
    "hash_power_level",
    "hash_bytes",
    "hash_is_expanding",
    "slab_reassign_rescues",
    "slab_reassign_chunk_rescues",
    "slab_reassign_inline_reclaim",
    "slab_reassign_busy_items",
    "slab_reassign_busy_deletes",
    "slab_reassign_busy_nomem",
    "slab_reassign_last_busy_status",
    "slab_reassign_running",
    "slabs_moved",
    "lru_crawler_running",
    "lru_crawler_starts",
    "lru_maintainer_juggles",
    "malloc_fails",
    "log_worker_dropped",
    "log_worker_written",
    "log_watcher_skipped",
    "log_watcher_sent",
    "log_watchers",
    "unexpected_napi_ids",
    "round_robin_fallback",
    "bytes",
    "curr_items",
    "total_items",
    "slab_global_page_pool",
    "expired_unfetched",
    "evicted_unfetched",
    "evicted_active",
    "evictions",
    "reclaimed",
    "crawler_reclaimed",
    "crawler_items_checked",
    "lrutail_reflocked",
    "moves_to_cold",
    "moves_to_warm",
    "moves_within_lru",
    "direct_reclaims",
    "lru_bumps_dropped",
};

#define NAMES (sizeof(names) / sizeof(names[0]))

static void test_names_and_order(void **state)
{
    struct rig *rig = *state;
    const char *at;

    assert_int_equal(NAMES, 93);
    rig_feed(rig, "stats\r\n");
    at = rig_reply(rig);
    for (size_t i = 0; i < NAMES; i++) {
        char name[64];
        char value[64];
        int len = 0;

        assert_int_equal(sscanf(at, "STAT %63s %63s%n", name, value, &len), 2);
        assert_string_equal(name, names[i]);
        assert_memory_equal(at + len, "\r\n", 2);
        at += len + 2;
    }
    assert_string_equal(at, "END\r\n");
}

static void test_values(void **state)
{
    struct rig *rig = *state;

    rig_wait(rig, 10);
    rig_feed(rig, "set a 0 0 100\r\n");
    assert_int_equal(rig_feed(rig, "0123456789012345678901234567890123456789012345678901234567890"
                                   "123456789012345678901234567890123456789\r\n"),
                     102);
    assert_int_equal(rig_stat(rig, NULL, "pid"), getpid());
    assert_int_equal(rig_stat(rig, NULL, "uptime"), 12);
    assert_int_equal(rig_stat(rig, NULL, "time"), RIG_UNIX_S + 10);
    assert_int_equal(rig_stat(rig, NULL, "pointer_size"), sizeof(void *) * 8);
    assert_int_equal(rig_stat(rig, NULL, "max_connections"), 1024);
    assert_int_equal(rig_stat(rig, NULL, "curr_connections"), 1);
    assert_true(rig_stat(rig, NULL, "connection_structures") >= 1);
    assert_int_equal(rig_stat(rig, NULL, "limit_maxbytes"), 64 << 20);
    assert_int_equal(rig_stat(rig, NULL, "threads"), 2);
    assert_int_equal(rig_stat(rig, NULL, "curr_items"), 1);
    assert_int_equal(rig_stat(rig, NULL, "total_items"), 1);
    assert_in_range(rig_stat(rig, NULL, "bytes"), 103, 250);
    assert_int_equal(rig_stat(rig, NULL, "accepting_conns"), 1);
    assert_true(rig_stat(rig, NULL, "hash_power_level") > 0);
    rig_feed(rig, "delete a\r\n");
    assert_int_equal(rig_stat(rig, NULL, "curr_items"), 0);
    assert_int_equal(rig_stat(rig, NULL, "bytes"), 0);
}

/* Small items take less here than in memcached, which could not hold so many. */
static void test_bytes_end_at_the_limit(void **state)
{
    const uint64_t limit = 8 << 20, counted_each = 48 + 8 + 8 + 3;
    struct rig *rig = *state;
    char line[64];

    rig_expect(rig, "cache_memlimit 8\r\n", "OK\r\n");
    for (unsigned i = 100000; i < 300000; i++) {
        snprintf(line, sizeof(line), "set k%u 0 0 1 noreply\r\nx\r\n", i);
        rig_feed(rig, line);
    }
    assert_true(rig_stat(rig, NULL, "curr_items") > limit / counted_each);
    assert_int_equal(rig_stat(rig, NULL, "bytes"), limit);
}

static void test_engine(void **state)
{
    struct rig *rig = *state;

    rig_feed(rig, "set a 0 0 1\r\nx\r\n");
    assert_int_equal(rig_stat(rig, "kv", "items"), 1);
    assert_int_equal(rig_stat(rig, "kv", "memory_limit_bytes"), 64 << 20);
    assert_true(rig_stat(rig, "kv", "memory_used_bytes") > rig_stat(rig, "kv", "index_bytes"));
    assert_true(rig_stat(rig, "kv", "item_bytes") > 0);
    assert_int_equal(rig_stat(rig, "kv", "index_growths"), 0);
    assert_int_equal(rig_stat(rig, "kv", "epoch_lag"), 0);
    assert_int_equal(rig_stat(rig, "kv", "touch_thread"), 0);
    assert_int_equal(rig_stat(rig, "kv", "touched_free_bytes"), 0);
    assert_int_equal(rig_stat(rig, "kv", "touched_ahead"), 0);
    assert_int_equal(rig_stat(rig, "kv", "touched_late"), 0);
}

/* memcached's own tests count the lines. */
static void test_lines_that_are_left_out(void **state)
{
    static const struct {
        bool refusals, reassign, crawler, maintainer;
        uint32_t idle_timeout_s;
        unsigned lines;
    } cases[] = {
        {true, true, true, true, 0, 93},  {true, true, false, false, 0, 84},
        {true, false, true, true, 0, 84}, {true, true, false, true, 0, 91},
        {true, true, true, true, 10, 94}, {true, false, false, false, 10, 76},
        {false, true, true, true, 0, 92}, {false, false, false, false, 0, 74},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct cache_config config = rig_config();
        const char *at;
        struct rig rig;
        unsigned lines = 0;

        config.settings.accept_waits = !cases[i].refusals;
        config.settings.compat.slab_reassign = cases[i].reassign;
        config.settings.compat.lru_crawler = cases[i].crawler;
        config.settings.compat.lru_maintainer = cases[i].maintainer;
        config.settings.idle_timeout_s = cases[i].idle_timeout_s;
        rig_open(&rig, &config);
        rig_feed(&rig, "stats\r\n");
        for (at = rig_reply(&rig); (at = strstr(at, "STAT ")) != NULL; at++)
            lines++;
        assert_int_equal(lines, cases[i].lines);
        rig_close(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_names_and_order, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_values, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_bytes_end_at_the_limit, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_engine, rig_setup, rig_teardown),
        cmocka_unit_test(test_lines_that_are_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
