/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The command line: what each option sets, and the message for each kind of mistake.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "options.h"

#define ARGS_MAX 32

/* Splits a line into an argv and parses it. The words are valid until the next call. */
static enum cmdline_outcome parse(const char *line, struct options *o)
{
    static char words[512];
    static char program[] = "ucached";
    char *argv[ARGS_MAX + 1] = {program};
    int argc = 1;
    char *rest = NULL;
    char *word;

    assert_true((size_t)snprintf(words, sizeof(words), "%s", line) < sizeof(words));
    for (word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        assert_true(argc < ARGS_MAX);
        argv[argc++] = word;
    }
    argv[argc] = NULL;
    return options_parse(argc, argv, o);
}

static void must_run(const char *line, struct options *o)
{
    if (parse(line, o) != CMDLINE_RUN)
        fail_msg("'%s': %s", line, o->error);
}

static void test_defaults(void **state)
{
    struct options o;

    must_run("", &o);
    assert_int_equal(o.settings.tcp_port, 11211);
    assert_int_equal(o.settings.memory_bytes, 64 << 20);
    assert_int_equal(o.settings.item_bytes_max, 1 << 20);
    assert_int_equal(o.settings.connections_max, 1024);
    assert_int_equal(o.settings.threads, 4);
    assert_int_equal(o.settings.listen_backlog, 1024);
    assert_int_equal(o.settings.verbosity, 0);
    assert_int_equal(o.settings.upload_timeout_s, 60);
    assert_int_equal(o.settings.compat.temporary_ttl_s, 61);
    assert_true(o.settings.evict);
    assert_int_equal(o.settings.evict_policy, KV_POLICY_S3FIFO);
    assert_null(o.settings.listen_addr);
    assert_string_equal(link_backend_name(&o.link), "sock");
    assert_false(o.daemonize);
}

static void test_short_options(void **state)
{
    struct options o;

    must_run(
        "-p 11999 -l 127.0.0.1 -m 128 -c 10 -t 2 -vv -u nobody -d -P /tmp/p -M -I 2m -b 7 -U 0",
        &o);
    assert_int_equal(o.settings.tcp_port, 11999);
    assert_string_equal(o.settings.listen_addr, "127.0.0.1");
    assert_int_equal(o.settings.memory_bytes, 128 << 20);
    assert_int_equal(o.settings.connections_max, 10);
    assert_int_equal(o.settings.threads, 2);
    assert_int_equal(o.settings.verbosity, 2);
    assert_string_equal(o.user, "nobody");
    assert_true(o.daemonize);
    assert_string_equal(o.pidfile, "/tmp/p");
    assert_false(o.settings.evict);
    assert_int_equal(o.settings.item_bytes_max, 2 << 20);
    assert_int_equal(o.settings.listen_backlog, 7);
}

static void test_long_options(void **state)
{
    struct options o;

    must_run("--port=1 --listen=::1 --memory-limit=8 --conn-limit=1 --threads=256 --verbose "
             "--user=x --daemon --pidfile=p --disable-evictions --max-item-size=1k "
             "--listen-backlog=65535 --evict=clock",
             &o);
    assert_int_equal(o.settings.tcp_port, 1);
    assert_string_equal(o.settings.listen_addr, "::1");
    assert_int_equal(o.settings.memory_bytes, 8 << 20);
    assert_int_equal(o.settings.connections_max, 1);
    assert_int_equal(o.settings.threads, 256);
    assert_int_equal(o.settings.verbosity, 1);
    assert_int_equal(o.settings.item_bytes_max, 1024);
    assert_int_equal(o.settings.listen_backlog, 65535);
    assert_true(o.daemonize);
    assert_int_equal(o.settings.evict_policy, KV_POLICY_CLOCK);
    assert_false(o.settings.evict);
}

static void test_listen_repeats(void **state)
{
    struct options o;

    must_run("-l 127.0.0.1 -l [::1]:11212,localhost", &o);
    assert_string_equal(o.settings.listen_addr, "127.0.0.1,[::1]:11212,localhost");
}

/* Texts of -o outlive the lists that they are parts of. */
static void test_tls_words(void **state)
{
    struct options o;

    must_run("-o ssl_chain_cert=/a,ssl_key=/b -o ssl_ca_cert=/c,ssl_ciphers=x -o "
             "ssl_verify_mode=2,ssl_min_version=3,ssl_keyformat=2,ssl_session_cache,ssl_kernel_tls",
             &o);
    assert_string_equal(o.settings.tls.chain_cert, "/a");
    assert_string_equal(o.settings.tls.key, "/b");
    assert_string_equal(o.settings.tls.ca_cert, "/c");
    assert_string_equal(o.settings.tls.ciphers, "x");
    assert_int_equal(o.settings.tls.verify_mode, 2);
    assert_int_equal(o.settings.tls.min_version, 3);
    assert_int_equal(o.settings.tls.key_format, 2);
    assert_true(o.settings.tls.session_cache && o.settings.tls.kernel_tls);
    assert_false(o.settings.tls.enabled);
    must_run("", &o);
    assert_null(o.settings.tls.chain_cert);
    assert_int_equal(o.settings.tls.min_version, 2);
}

static void test_ports(void **state)
{
    struct options o;

    must_run("-p -1", &o);
    assert_true(o.tcp_port_any);
    assert_int_equal(o.settings.tcp_port, 0);
    must_run("-p 0", &o);
    assert_false(o.tcp_port_any);
    assert_int_equal(o.settings.tcp_port, 0);
    must_run("-p -1 -p 5", &o);
    assert_false(o.tcp_port_any);
    assert_int_equal(o.settings.tcp_port, 5);
    must_run("-U 0", &o);
    assert_int_equal(o.settings.tcp_port, 11211);
    must_run("-U 6", &o);
    assert_int_equal(o.settings.tcp_port, 6);
    must_run("-p 5 -U 6", &o);
    assert_int_equal(o.settings.tcp_port, 5);
    assert_int_equal(o.settings.udp_port, 6);
    must_run("-s /tmp/u.sock -U -1", &o); /* a unix socket only */
    assert_false(o.udp_port_any);
    assert_int_equal(o.settings.udp_port, 0);
}

/* Switches that are set, and their defaults. */
static void test_switches(void **state)
{
    struct options o;

    must_run("-A -C -F -X -W -D/ -r -k -L -d -M", &o);
    assert_true(o.settings.shutdown_enabled && o.settings.cas_disabled);
    assert_true(o.settings.flush_disabled && o.settings.dump_disabled);
    assert_true(o.settings.watch_disabled && o.settings.detail_enabled);
    assert_int_equal(o.settings.prefix_delimiter, '/');
    assert_true(o.core_dumps && o.lock_memory && o.huge_pages && o.daemonize);
    must_run("", &o);
    assert_false(o.settings.shutdown_enabled || o.settings.cas_disabled);
    assert_false(o.settings.flush_disabled || o.settings.dump_disabled);
    assert_false(o.settings.watch_disabled || o.settings.detail_enabled);
    assert_int_equal(o.settings.prefix_delimiter, ':');
    assert_false(o.core_dumps || o.lock_memory || o.huge_pages || o.settings.debug);
    assert_int_equal(o.settings.requests_per_event, 20);
}

static void test_further_options(void **state)
{
    struct options o;

    must_run("-s /tmp/u.sock -a 770 -R 7 -n 100 -f 1.08 -N 2 -B binary", &o);
    assert_string_equal(o.settings.unix_path, "/tmp/u.sock");
    assert_int_equal(o.settings.unix_access, 0770);
    assert_int_equal(o.settings.requests_per_event, 7);
    assert_int_equal(o.settings.compat.chunk_bytes, 100);
    assert_true(o.settings.compat.growth_factor == 1.08);
    assert_int_equal(o.settings.compat.napi_ids, 2);
    assert_int_equal(o.settings.binding, CACHE_BINDING_BINARY);
    must_run("-Y /etc/passwd", &o);
    assert_string_equal(o.settings.auth_file, "/etc/passwd");
    assert_int_equal(o.settings.binding, CACHE_BINDING_ASCII);
    must_run("-l 127.0.0.1 word -v", &o);
    assert_string_equal(o.surplus, "word");
    assert_int_equal(o.settings.verbosity, 1);
}

static void test_debug_by_name(void **state)
{
    char program[] = "./memcached-debug";
    char *argv[] = {program, NULL};
    struct options o;

    assert_int_equal(options_parse(1, argv, &o), CMDLINE_RUN);
    assert_true(o.settings.debug);
}

static void test_extended(void **state)
{
    struct options o;

    must_run("-o idle_timeout=7,no_maxconns_fast,track_sizes -o hashpower=20", &o);
    assert_int_equal(o.settings.idle_timeout_s, 7);
    assert_true(o.settings.accept_waits && o.settings.track_sizes);
    assert_int_equal(o.settings.compat.hashpower_init, 20);
    must_run("-o no_maxconns_fast,,maxconns_fast,relaxed_privileges,modern", &o);
    assert_false(o.settings.accept_waits);
    must_run("-o no_modern", &o);
    assert_true(o.settings.accept_waits);
    assert_false(o.settings.compat.slab_reassign || o.settings.compat.lru_crawler);
    assert_string_equal(o.settings.compat.hash_algorithm, "jenkins");
    assert_int_equal(o.settings.compat.slab_automove, 0);
    assert_int_equal(o.settings.compat.slab_chunk_bytes_max, 1 << 20);
    must_run("-o slab_chunk_max=16384,no_modern", &o);
    assert_int_equal(o.settings.compat.slab_chunk_bytes_max, 16384);
    must_run("-o slab_automove=2,slab_automove_ratio=0.5,watcher_logbuf_size=1,hash_algorithm=xxh3",
             &o);
    assert_int_equal(o.settings.compat.slab_automove, 2);
    assert_true(o.settings.compat.slab_automove_ratio == 0.5);
    assert_int_equal(o.settings.compat.watcher_logbuf_bytes, 1024);
    assert_string_equal(o.settings.compat.hash_algorithm, "xxh3");
    must_run("-o temporary_ttl=30,read_buf_mem_limit=2,slab_sizes=100-200-300", &o);
    assert_true(o.settings.compat.temp_lru);
    assert_int_equal(o.settings.compat.temporary_ttl_s, 30);
    assert_int_equal(o.settings.read_buf_mem_limit_bytes, 2 << 20);
}

/* Command lines of memcached packages. */
static void test_packages(void **state)
{
    struct options o;

    must_run("-d -m 64 -p 11211 -u memcache -l 127.0.0.1 -P /run/memcached/memcached.pid", &o);
    must_run("-p 11211 -u memcached -m 64 -c 1024 -l 127.0.0.1,::1", &o);
    must_run("-m 1024 -c 4096 -o modern,drop_privileges -vv", &o);
    must_run("-U 0 -A -o relaxed_privileges -p 22122 -u root", &o);
}

/* The last word wins. drop_privileges is shown and makes the filter mandatory. */
static void test_privileges(void **state)
{
    struct options o;

    must_run("-m 64", &o);
    assert_false(o.keep_privileges || o.settings.compat.drop_privileges);
    must_run("-o no_drop_privileges,drop_privileges", &o);
    assert_true(!o.keep_privileges && o.settings.compat.drop_privileges);
    must_run("-o drop_privileges,no_drop_privileges", &o);
    assert_true(o.keep_privileges && !o.settings.compat.drop_privileges);
}

static void test_help_and_version(void **state)
{
    struct options o;

    assert_int_equal(parse("-h", &o), CMDLINE_HELP);
    assert_int_equal(parse("--help", &o), CMDLINE_HELP);
    assert_int_equal(parse("-V", &o), CMDLINE_VERSION);
    assert_int_equal(parse("-p 7 --version -t 0", &o), CMDLINE_VERSION);
    assert_int_equal(parse("-i", &o), CMDLINE_VERSION);
    assert_true(o.license_given);
}

static void test_link(void **state)
{
    struct options o;

    must_run("--io=tap", &o);
    assert_string_equal(link_backend_name(&o.link), "tap");
    assert_string_equal(o.link.dev, "ucached0");
    assert_int_equal(o.link.ip[0].addr.bytes[3], 20);
    assert_int_equal(o.link.host_ip.addr.bytes[3], 10);
    must_run("-t 1 --mtu=9000 --dev tap7", &o);
    assert_string_equal(link_backend_name(&o.link), "tap");
    assert_string_equal(o.link.dev, "tap7");
    assert_int_equal(o.link.mtu, 9000);
}

static void test_threads_of_the_own_stack(void **state)
{
    struct options o;

    must_run("--io=tap", &o);
    assert_int_equal(o.settings.threads, 1);
    assert_int_equal(o.idle, NET_IDLE_ADAPTIVE);
    assert_false(o.settings.fast_path_off);
    must_run("--io=tap -t 64 --idle=poll --no-fast-path", &o);
    assert_true(o.settings.fast_path_off);
    assert_int_equal(o.settings.threads, 64);
    assert_int_equal(o.idle, NET_IDLE_POLL);
    must_run("--io=tap --cores=0 --idle=interrupt", &o);
    assert_int_equal(o.settings.threads, 1);
    assert_int_equal(o.cores.count, 1);
    assert_int_equal(o.idle, NET_IDLE_INTERRUPT);
    must_run("-t 3 --cores=0", &o);
    assert_int_equal(o.settings.threads, 3);
    assert_int_equal(parse("--io=tap -t 65", &o), CMDLINE_BAD);
    assert_int_equal(parse("--io=sock --idle=poll", &o), CMDLINE_BAD);
    assert_int_equal(parse("--io=tap --idle=never", &o), CMDLINE_BAD);
    assert_int_equal(o.cc, OPTIONS_CC_CUBIC);
    must_run("--io=tap --cc=dctcp --ecn=accept", &o);
    assert_int_equal(o.cc, OPTIONS_CC_DCTCP);
    must_run("--io=tap --cc=reno --ecn=off", &o);
    assert_int_equal(o.ecn, OPTIONS_ECN_OFF);
    assert_int_equal(parse("--io=tap --cc=dctcp --ecn=off", &o), CMDLINE_BAD);
    assert_int_equal(parse("--io=sock --cc=reno", &o), CMDLINE_BAD);
    assert_int_equal(parse("--cores=0-", &o), CMDLINE_BAD);
    assert_int_equal(parse("--cores=1023", &o), CMDLINE_BAD);
}

/* Wrong command lines, memcached's exit status, and a part of the message. */
static const struct {
    const char *line;
    int status;
    const char *part;
} wrong[] = {
    {"-p 65536", 64, "1 to 65535"},
    {"-p 80x", 64, "\"80x\""},
    {"-p -2", 64, "\"-2\""},
    {"-p +1", 64, "1 to 65535"},
    {"-p", 1, "-p needs an argument"},
    {"--port", 1, "--port needs an argument"},
    {"-m 0", 64, "1 to "},
    {"-m -5", 64, "\"-5\""},
    {"-m 99999999999999999999999", 64, "-m"},
    {"-m 1", 64, "half of the memory"},
    {"-I 2g", 64, "1k to 1024m"},
    {"-I 1023", 64, "1k to 1024m"},
    {"-I 1025m", 64, "1k to 1024m"},
    {"-I k", 64, "1k to 1024m"},
    {"-I 64m", 64, "-I: the largest item"},
    {"-c 0", 1, "-c"},
    {"-c many", 1, "\"many\""},
    {"-t 0", 1, "1 to 256"},
    {"-t 257", 1, "1 to 256"},
    {"-b -1", 1, "-b"},
    {"-b x", 1, "-b"},
    {"-R 0", 1, "-R"},
    {"-R -1", 1, "-R"},
    {"-n 0", 1, "-n"},
    {"-n x", 1, "-n"},
    {"-f 1", 1, "-f"},
    {"-f x", 1, "-f"},
    {"-f nan", 1, "-f"},
    {"-N 0", 1, "-N"},
    {"-B x", 64, "auto, ascii, binary"},
    {"-a 999", 64, "-a"},
    {"-a 1777", 64, "-a"},
    {"-U 65536", 64, "-U"},
    {"-S", 64, "MEMCACHED_SASL_PWDB"},
    {"-S -Y f -B ascii", 64, "ASCII"},
    {"-S -Y f -B auto", 64, "ASCII"},
    {"-S -Y f -U 1", 64, "UDP"},
    {"-Y f -B binary", 64, "-S"},
    {"-Z -p 0", 64, "-Z"},
    {"--enable-ssl --port=0", 64, "-Z"},
    {"-o ssl_verify_mode=4", 1, "ssl_verify_mode"},
    {"-o ssl_min_version=4", 1, "ssl_min_version"},
    {"-o ssl_keyformat=3", 1, "PEM"},
    {"-o ssl_wbuf_size=0", 1, "ssl_wbuf_size"},
    {"-o ssl_chain_cert", 1, "ssl_chain_cert"},
    {"-Y /tmp/x -U 11211", 64, "UDP"},
    {"-Y /tmp/x -U -1", 64, "UDP"},
    {"-Y /tmp/x -B binary", 64, "-Y"},
    {"-l", 1, "-l needs an argument"},
    {"--io=xdp", 64, "needs --dev=INTERFACE"},
    {"--io=dpdk --host-ip=10.100.0.10/24", 64, "--host-ip is for --io=tap"},
    {"--without=none", 64, "--without"},
    {"--io=foo", 64, "auto, sock, uring, tap, xdp, dpdk"},
    {"--dev=", 64, "--dev"},
    {"--dev=a/b", 64, "--dev"},
    {"--dev=sixteencharslong", 64, "15"},
    {"--ip=10.0.0.1", 64, "ADDRESS/PREFIX"},
    {"--ip=10.0.0.1/33", 64, "ADDRESS/PREFIX"},
    {"--ip=10.0.0.1/0", 64, "ADDRESS/PREFIX"},
    {"--ip=10.0.0.256/8", 64, "ADDRESS/PREFIX"},
    {"--io=tap --host-ip=10.0.0.1", 64, "none"},
    {"--ip=fd00::1/64 --host-ip=fd01::1/64", 64, "fd01::1"},
    {"--ip=fd00::1/64 --host-ip=fd00::1/64", 64, "same address"},
    {"--ip=fd00::1/129", 64, "ADDRESS/PREFIX"},
    {"--ip=fd00::1/64 --host-ip=10.0.0.1/8", 64, "--host-ip"},
    {"--io=tap --gw=10.100.0.1 --gw=10.100.0.2", 64, "each family"},
    {"--io=tap --gw=10.0", 64, "--gw"},
    {"--io=tap --gw=10.100.1.1", 64, "--gw"},
    {"--io=tap --gw=fd00::1", 64, "--gw"},
    {"--io=tap --mac=01:00:00:00:00:01", 64, "--mac"},
    {"--io=tap --mac=00:00:00:00:00:00", 64, "--mac"},
    {"--io=tap --mac=02:00:00:00:00", 64, "--mac"},
    {"--io=tap --mac=02-00-00-00-00-01", 64, "--mac"},
    {"--io=tap --fault=lost=5%", 64, "--fault"},
    {"--io=tap --trace=", 64, "--trace"},
    {"--io=tap -l 127.0.0.1", 64, "--ip"},
    {"--io=tap -p -1", 64, "1 to 65535"},
    {"--io=tap -s /tmp/x", 64, "-s"},
    {"--ip=192.168.7.2/24", 64, "--host-ip"},
    {"--ip=10.100.0.10/24", 64, "same address"},
    {"--io=sock --ip=10.0.0.1/8", 64, "--io=tap"},
    {"--fault=loss=1%", 64, "--io=tap"},
    {"--gw=10.0.0.1", 64, "--io=tap"},
    {"--trace=x", 64, "--io=tap"},
    {"--evict=lru", 64, "s3fifo, clock, random"},
    {"-q", 1, "no such option"},
    {"--frobnicate", 1, "--frobnicate: there is no such option"},
    {"--daemon=yes", 1, "takes no argument"},
    {"-o foo", 1, "\"foo\""},
    {"-o track_sizes,foo=1", 1, "\"foo=1\""},
    {"-o ext_path=/tmp/x:1G", 1, "ext_path"},
    {"-o proxy_config=/tmp/x", 1, "proxy_config"},
    {"-o hashpower", 1, "hashpower: its value is missing"},
    {"-o hashpower=11", 1, "12 to 32"},
    {"-o hashpower=33", 1, "12 to 32"},
    {"-o slab_automove=3", 1, "slab_automove"},
    {"-o slab_automove_ratio=0", 1, "slab_automove_ratio"},
    {"-o slab_automove_ratio=1.1", 1, "at most 1"},
    {"-o slab_automove_window=2", 1, "3 to 1800"},
    {"-o tail_repair_time=9", 1, "10 to"},
    {"-o hash_algorithm=md5", 1, "jenkins"},
    {"-o hash_algorithm", 1, "value is missing"},
    {"-o lru_crawler_sleep=1000001", 1, "lru_crawler_sleep"},
    {"-o lru_crawler_tocrawl=x", 1, "lru_crawler_tocrawl"},
    {"-o hot_lru_pct=80", 1, "1 to 79"},
    {"-o warm_lru_pct=0", 1, "1 to 79"},
    {"-o hot_lru_pct=41", 64, "80 together"},
    {"-o hot_max_factor=0", 1, "greater than 0"},
    {"-o warm_max_factor=-1", 1, "greater than 0"},
    {"-o temporary_ttl", 1, "temporary_ttl"},
    {"-o temporary_ttl=5,no_lru_maintainer", 64, "lru_maintainer"},
    {"-o idle_timeout", 1, "idle_timeout"},
    {"-o idle_timeout=x", 1, "idle_timeout"},
    {"-o watcher_logbuf_size=x", 1, "watcher_logbuf_size"},
    {"-o read_buf_mem_limit", 1, "read_buf_mem_limit"},
    {"-o slab_sizes=300-200", 64, "slab_sizes"},
    {"-o slab_sizes=200-200", 64, "slab_sizes"},
    {"-o slab_sizes=x", 64, "slab_sizes"},
    {"-o sock_cookie_id", 1, "sock_cookie_id"},
    {"-o slab_chunk_max=0", 1, "slab_chunk_max"},
};

static void test_mistakes(void **state)
{
    struct options o;
    size_t i;

    for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        if (parse(wrong[i].line, &o) != CMDLINE_BAD)
            fail_msg("'%s' was accepted", wrong[i].line);
        if (o.exit_status != wrong[i].status)
            fail_msg("'%s': ends with %d", wrong[i].line, o.exit_status);
        if (!strstr(o.error, wrong[i].part))
            fail_msg("'%s': message is: %s", wrong[i].line, o.error);
    }
}

/* The highest values that are accepted, each of which one more exceeds. */
static void test_highest_values(void **state)
{
    char line[NET_UNIX_PATH_MAX + 8];
    struct options o;

    must_run("-o hot_lru_pct=30,warm_lru_pct=50", &o);
    assert_int_equal(parse("-o hot_lru_pct=30,warm_lru_pct=51", &o), CMDLINE_BAD);
    must_run("-m 64 -I 33554432", &o);
    assert_int_equal(parse("-m 64 -I 33554433", &o), CMDLINE_BAD);
    must_run("-vvvv", &o);
    assert_int_equal(o.settings.verbosity, 3);
    snprintf(line, sizeof(line), "-s %0*d", NET_UNIX_PATH_MAX, 0);
    must_run(line, &o);
    assert_int_equal(strlen(o.settings.unix_path), NET_UNIX_PATH_MAX);
    snprintf(line, sizeof(line), "-s %0*d", NET_UNIX_PATH_MAX + 1, 0);
    assert_int_equal(parse(line, &o), CMDLINE_BAD);
}

/* Two texts of -o that fill the room for them together; each takes its end, too. */
static void test_texts_fill_their_room(void **state)
{
    enum { FIRST = OPTIONS_TEXTS_MAX - 100, SECOND = 100 - 2 };
    static char first[FIRST + 32], second[SECOND + 32];
    char program[] = "ucached";
    char option[] = "-o";
    char *argv[] = {program, option, first, option, second, NULL};
    struct options o;

    snprintf(first, sizeof(first), "ssl_key=%0*d", FIRST, 0);
    snprintf(second, sizeof(second), "ssl_ca_cert=%0*d", SECOND, 0);
    assert_int_equal(options_parse(5, argv, &o), CMDLINE_RUN);
    assert_int_equal(strlen(o.settings.tls.ca_cert), SECOND);
    snprintf(second, sizeof(second), "ssl_ca_cert=%0*d", SECOND + 1, 0);
    assert_int_equal(options_parse(5, argv, &o), CMDLINE_BAD);
}

static void test_listen_too_long(void **state)
{
    char address[OPTIONS_LISTEN_MAX + 1];
    char program[] = "ucached";
    char option[] = "-l";
    char *argv[] = {program, option, address, NULL};
    struct options o;

    memset(address, '1', sizeof(address));
    address[OPTIONS_LISTEN_MAX - 1] = '\0';
    assert_int_equal(options_parse(3, argv, &o), CMDLINE_BAD);
    address[OPTIONS_LISTEN_MAX - 2] = '\0';
    assert_int_equal(options_parse(3, argv, &o), CMDLINE_RUN);
}

static char *printed(void (*print)(FILE *))
{
    char *text = NULL;
    size_t len;
    FILE *file = open_memstream(&text, &len);

    print(file);
    fclose(file);
    return text;
}

static void test_help_text(void **state)
{
    char *text = printed(options_print_help);

    assert_memory_equal(text, "memcached 1.6.45\nucached ", 25);
    assert_non_null(strstr(text, "--listen-backlog=N"));
    assert_non_null(strstr(text, "default: 11211"));
    assert_non_null(strstr(text, "--unix-socket"));
    assert_non_null(strstr(text, "--host-ip=ADDR/PREFIX"));
    /* Test suites of clients search this text for features. */
    assert_non_null(strstr(text, "enable-sasl"));
    assert_int_equal(strstr(text, "enable-ssl") != NULL, tls_is_built());
    assert_null(strstr(text, "ext_path"));
    assert_null(strstr(text, "proxy"));
    free(text);
    text = printed(options_print_license);
    assert_memory_equal(text, "memcached 1.6.45\nucached ", 25);
    assert_non_null(strstr(text, "BSD 3-Clause"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_short_options),
        cmocka_unit_test(test_long_options),
        cmocka_unit_test(test_listen_repeats),
        cmocka_unit_test(test_tls_words),
        cmocka_unit_test(test_ports),
        cmocka_unit_test(test_switches),
        cmocka_unit_test(test_further_options),
        cmocka_unit_test(test_debug_by_name),
        cmocka_unit_test(test_extended),
        cmocka_unit_test(test_packages),
        cmocka_unit_test(test_privileges),
        cmocka_unit_test(test_help_and_version),
        cmocka_unit_test(test_link),
        cmocka_unit_test(test_threads_of_the_own_stack),
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_highest_values),
        cmocka_unit_test(test_texts_fill_their_room),
        cmocka_unit_test(test_listen_too_long),
        cmocka_unit_test(test_help_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
