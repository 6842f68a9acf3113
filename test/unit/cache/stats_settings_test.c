/* SPDX-License-Identifier: BSD-3-Clause */
/* stats settings: every line, as the command line or a command has made it. */
#include "rig.h"

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
    "ext_item_size",
    "ext_item_age",
    "ext_low_ttl",
    "ext_recache_rate",
    "ext_wbuf_size",
    "ext_compact_under",
    "ext_drop_under",
    "ext_max_sleep",
    "ext_max_frag",
    "slab_automove_freeratio",
    "ext_drop_unread",
    "ssl_enabled",
    "ssl_chain_cert",
    "ssl_key",
    "ssl_verify_mode",
    "ssl_keyformat",
    "ssl_ciphers",
    "ssl_ca_cert",
    "ssl_wbuf_size",
    "ssl_session_cache",
    "ssl_kernel_tls",
    "ssl_min_version",
    "num_napi_ids",
    "memory_file",
    "client_flags_size",
    "evict_policy",
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
    rig_feed(rig, "stats settings\r\n");
    assert_non_null(strstr(rig_reply(rig), "STAT evict_policy s3fifo\r\n"));
}

static void test_settings_as_given(void **state)
{
    struct cache_config config = rig_config();
    struct rig rig;

    (void)state;
    config.settings.listen_addr = "";
    rig_open(&rig, &config);
    rig_feed(&rig, "stats settings\r\n");
    assert_non_null(strstr(rig_reply(&rig), "STAT inter NULL\r\n"));
    rig_close(&rig);
    config.settings.listen_addr = "127.0.0.1,::1";
    config.settings.evict = false;
    config.settings.evict_policy = KV_POLICY_RANDOM;
    config.settings.verbosity = 1;
    rig_open(&rig, &config);
    rig_feed(&rig, "stats settings\r\n");
    assert_non_null(strstr(rig_reply(&rig), "STAT inter 127.0.0.1,::1\r\n"));
    rig_feed(&rig, "stats settings\r\n");
    assert_non_null(strstr(rig_reply(&rig), "STAT evictions off\r\n"));
    rig_feed(&rig, "stats settings\r\n");
    assert_non_null(strstr(rig_reply(&rig), "STAT evict_policy random\r\n"));
    assert_int_equal(rig_stat(&rig, "settings", "verbosity"), 1);
    rig_close(&rig);
}

static void expect_line(struct rig *rig, const char *line)
{
    rig_feed(rig, "stats settings\r\n");
    if (strstr(rig_reply(rig), line) == NULL)
        fail_msg("no line %s", line);
}

/* What memcached 1.6.45 shows if nothing is asked for. */
static void test_defaults(void **state)
{
    static const char *const lines[] = {
        "STAT growth_factor 1.25\r\nSTAT chunk_size 48\r\n",
        "STAT domain_socket NULL\r\nSTAT umask 700\r\nSTAT shutdown_command no\r\n",
        "STAT stat_key_prefix :\r\nSTAT detail_enabled no\r\nSTAT reqs_per_event 20\r\n",
        "STAT binding_protocol auto-negotiate\r\n",
        "STAT slab_reassign yes\r\nSTAT slab_automove 1\r\nSTAT slab_automove_ratio 0.80\r\n",
        "STAT lru_crawler yes\r\nSTAT lru_crawler_sleep 100\r\n",
        "STAT flush_enabled yes\r\nSTAT dump_enabled yes\r\nSTAT hash_algorithm murmur3\r\n",
        "STAT hot_max_factor 0.20\r\nSTAT warm_max_factor 2.00\r\nSTAT temp_lru no\r\n",
        "STAT watcher_logbuf_size 262144\r\nSTAT worker_logbuf_size 65536\r\n",
        "STAT memory_file (null)\r\nSTAT client_flags_size 4\r\n",
    };
    struct cache_config config = rig_config();
    struct rig rig;

    cache_settings_defaults(&config.settings);
    rig_open(&rig, &config);
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        expect_line(&rig, lines[i]);
    rig_close(&rig);
}

static void test_switches(void **state)
{
    static const char *const lines[] = {
        "STAT domain_socket /tmp/s\r\nSTAT umask 770\r\nSTAT shutdown_command yes\r\n",
        "STAT stat_key_prefix /\r\nSTAT detail_enabled yes\r\n",
        "STAT cas_enabled no\r\n",
        "STAT binding_protocol ascii\r\nSTAT auth_enabled_sasl no\r\n"
        "STAT auth_enabled_ascii no\r\n",
        "STAT maxconns_fast no\r\n",
        "STAT flush_enabled no\r\nSTAT dump_enabled no\r\n",
        "STAT idle_timeout 17\r\n",
        "STAT track_sizes yes\r\nSTAT inline_ascii_response no\r\n"
        "STAT drop_privileges yes\r\nSTAT ext_item_size 512\r\n"
        "STAT ext_item_age 4294967295\r\n",
        "STAT ext_max_frag 0.80\r\nSTAT slab_automove_freeratio 0.010\r\n"
        "STAT ext_drop_unread no\r\nSTAT ssl_enabled no\r\n",
        "STAT ssl_min_version tlsv1.2\r\nSTAT num_napi_ids 0\r\n",
    };
    struct cache_config config = rig_config();
    struct rig rig;

    cache_settings_defaults(&config.settings);
    config.settings.unix_path = "/tmp/s";
    config.settings.unix_access = 0770;
    config.settings.shutdown_enabled = true;
    config.settings.prefix_delimiter = '/';
    config.settings.detail_enabled = true;
    config.settings.cas_disabled = true;
    config.settings.binding = CACHE_BINDING_ASCII;
    config.settings.accept_waits = true;
    config.settings.flush_disabled = true;
    config.settings.dump_disabled = true;
    config.settings.idle_timeout_s = 17;
    config.settings.track_sizes = true;
    config.settings.compat.drop_privileges = true;
    rig_open(&rig, &config);
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        expect_line(&rig, lines[i]);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_settings, rig_setup, rig_teardown),
        cmocka_unit_test(test_settings_as_given),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_switches),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
