/* SPDX-License-Identifier: BSD-3-Clause */
/* stats settings, items, slabs, conns. */
#include "rig.h"

#include <arpa/inet.h>
#include <stdio.h>

static const char *const setting_names[] = {
    "maxbytes",
    "maxconns",
    "tcpport",
    "udpport",
    "inter",
    "verbosity",
    "oldest",
    "evictions",
    "domain_socket",
    "umask",
    "shutdown_command",
    "growth_factor",
    "chunk_size",
    "num_threads",
    "num_threads_per_udp",
    "stat_key_prefix",
    "detail_enabled",
    "reqs_per_event",
    "cas_enabled",
    "tcp_backlog",
    "binding_protocol",
    "auth_enabled_sasl",
    "auth_enabled_ascii",
    "item_size_max",
    "maxconns_fast",
    "hashpower_init",
    "slab_reassign",
    "slab_automove",
    "slab_automove_ratio",
    "slab_automove_window",
    "slab_chunk_max",
    "lru_crawler",
    "lru_crawler_sleep",
    "lru_crawler_tocrawl",
    "tail_repair_time",
    "flush_enabled",
    "dump_enabled",
    "hash_algorithm",
    "lru_maintainer_thread",
    "lru_segmented",
    "hot_lru_pct",
    "warm_lru_pct",
    "hot_max_factor",
    "warm_max_factor",
    "temp_lru",
    "temporary_ttl",
    "idle_timeout",
    "watcher_logbuf_size",
    "worker_logbuf_size",
    "read_buf_mem_limit",
    "track_sizes",
    "inline_ascii_response",
    "num_napi_ids",
    "memory_file",
    "client_flags_size",
};

/* Exporters give up on a line whose value is empty, so sscanf() has to find one in each. */
static void check_names(const char *at, const char *prefix, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char expected[64];
        char name[64];
        char value[64];
        int len = 0;

        snprintf(expected, sizeof(expected), "%s%s", prefix, names[i]);
        assert_int_equal(sscanf(at, "STAT %63s %63s%n", name, value, &len), 2);
        assert_string_equal(name, expected);
        assert_memory_equal(at + len, "\r\n", 2);
        at += len + 2;
    }
    assert_string_equal(at, "END\r\n");
}

static void test_settings(void **state)
{
    struct rig *rig = *state;

    rig_feed(rig, "stats settings\r\n");
    check_names(rig_reply(rig), "", setting_names,
                sizeof(setting_names) / sizeof(setting_names[0]));
    assert_int_equal(rig_stat(rig, "settings", "maxbytes"), 64 << 20);
    assert_int_equal(rig_stat(rig, "settings", "maxconns"), 1024);
    assert_int_equal(rig_stat(rig, "settings", "tcpport"), 11211);
    assert_int_equal(rig_stat(rig, "settings", "num_threads"), 2);
    assert_int_equal(rig_stat(rig, "settings", "item_size_max"), 1 << 20);
    rig_feed(rig, "stats settings\r\n");
    assert_non_null(strstr(rig_reply(rig), "STAT inter NULL\r\n"));
    rig_feed(rig, "stats settings\r\n");
    assert_non_null(strstr(rig_reply(rig), "STAT evictions on\r\n"));
}

static void test_settings_as_given(void **state)
{
    struct cache_config config = rig_config();
    struct rig rig;

    (void)state;
    config.settings.listen_addr = "127.0.0.1,::1";
    config.settings.evict = false;
    config.settings.verbosity = 1;
    rig_open(&rig, &config);
    rig_feed(&rig, "stats settings\r\n");
    assert_non_null(strstr(rig_reply(&rig), "STAT inter 127.0.0.1,::1\r\n"));
    rig_feed(&rig, "stats settings\r\n");
    assert_non_null(strstr(rig_reply(&rig), "STAT evictions off\r\n"));
    assert_int_equal(rig_stat(&rig, "settings", "verbosity"), 1);
    rig_close(&rig);
}

static const char *const item_names[] = {
    "number",
    "number_hot",
    "number_warm",
    "number_cold",
    "age_hot",
    "age_warm",
    "age",
    "mem_requested",
    "evicted",
    "evicted_nonzero",
    "evicted_time",
    "outofmemory",
    "tailrepairs",
    "reclaimed",
    "expired_unfetched",
    "evicted_unfetched",
    "evicted_active",
    "crawler_reclaimed",
    "crawler_items_checked",
    "lrutail_reflocked",
    "moves_to_cold",
    "moves_to_warm",
    "moves_within_lru",
    "direct_reclaims",
    "hits_to_hot",
    "hits_to_warm",
    "hits_to_cold",
    "hits_to_temp",
};

static void test_items(void **state)
{
    struct rig *rig = *state;

    rig_expect(rig, "stats items\r\n", "END\r\n");
    rig_feed(rig, "set a 0 0 1\r\nx\r\nset b 0 0 1\r\nx\r\nget a\r\n");
    rig_drain(&rig->out);
    rig_feed(rig, "stats items\r\n");
    check_names(rig_reply(rig), "items:1:", item_names, sizeof(item_names) / sizeof(item_names[0]));
    assert_int_equal(rig_stat(rig, "items", "items:1:number"), 2);
}

static void test_slabs(void **state)
{
    struct rig *rig = *state;
    uint64_t total;

    rig_feed(rig, "set a 0 0 1\r\n1\r\nincr a 1\r\nget a\r\n");
    total = rig_stat(rig, "slabs", "1:total_chunks");
    assert_int_equal(rig_stat(rig, "slabs", "1:used_chunks"), 1);
    assert_int_equal(rig_stat(rig, "slabs", "1:free_chunks"), total - 1);
    assert_int_equal(rig_stat(rig, "slabs", "1:cmd_set"), 1);
    assert_int_equal(rig_stat(rig, "slabs", "1:incr_hits"), 1);
    assert_int_equal(rig_stat(rig, "slabs", "1:get_hits"), 1);
    assert_int_equal(rig_stat(rig, "slabs", "active_slabs"), 1);
    assert_int_equal(rig_stat(rig, "slabs", "total_malloced"), 1 << 20);
    for (unsigned i = 0; i < 5; i++) {
        char key[2] = {(char)('k' + (int)i), '\0'};

        rig_expect_set(rig, key, 1000000, 'x', "STORED\r\n");
        total = rig_stat(rig, "slabs", "1:total_chunks");
        assert_true(total >= i + 2);
        assert_int_equal(rig_stat(rig, "slabs", "1:free_chunks"), total - i - 2);
        assert_true(rig_stat(rig, "slabs", "1:chunks_per_page") > 0);
        assert_true(rig_stat(rig, "slabs", "1:chunk_size") > 0);
    }
}

static void test_conns(void **state)
{
    struct rig *rig = *state;
    struct cache_worker *second = cache_join(rig->cache);
    struct cache_peer peer = {.transport = "tcp6", .addr = {[15] = 1}, .port = 77};
    struct cache_session *session;
    const char *reply;

    assert_non_null(second);
    rig_expect(rig, "stats conns\r\n",
               "STAT 0:addr tcp:127.0.0.1:4242\r\n"
               "STAT 0:state conn_parse_cmd\r\n"
               "STAT 0:secs_since_last_cmd 0\r\nEND\r\n");
    session = cache_session_open(second, &peer);
    assert_int_equal(
        cache_session_input(session, (const uint8_t *)"set a 0 0 9\r\nx", 14, &rig->out.sink), 14);
    rig_wait(rig, 3);
    rig_feed(rig, "stats conns\r\n");
    reply = rig_reply(rig);
    assert_non_null(strstr(reply, "STAT 1:addr tcp6:[::1]:77\r\nSTAT 1:state conn_nread\r\n"
                                  "STAT 1:secs_since_last_cmd 3\r\n"));
    cache_session_close(session);
    rig_feed(rig, "stats conns\r\n");
    assert_null(strstr(rig_reply(rig), "STAT 1:"));
    cache_leave(second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_settings, rig_setup, rig_teardown),
        cmocka_unit_test(test_settings_as_given),
        cmocka_unit_test_setup_teardown(test_items, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_slabs, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_conns, rig_setup, rig_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
