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
#include "options_value.h"

#define ARGS_MAX 32

/* Cuts a line at spaces into an argv and parses it. The words stay alive until the next call. */
static enum options_outcome parse(const char *line, struct options *o, char *error)
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
    memset(error, 0, OPTIONS_ERROR_MAX);
    return options_parse(argc, argv, o, error);
}

static void must_run(const char *line, struct options *o)
{
    char error[OPTIONS_ERROR_MAX];

    if (parse(line, o, error) != OPTIONS_RUN)
        fail_msg("'%s': %s", line, error);
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
    assert_true(o.settings.evict);
    assert_null(o.settings.listen_addr);
    assert_int_equal(o.io, OPTIONS_IO_SOCK);
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
             "--listen-backlog=65535",
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
    assert_false(o.settings.evict);
}

static void test_listen_repeats(void **state)
{
    struct options o;

    must_run("-l 127.0.0.1 -l [::1]:11212,localhost", &o);
    assert_string_equal(o.settings.listen_addr, "127.0.0.1,[::1]:11212,localhost");
}

static void test_port_any(void **state)
{
    struct options o;

    must_run("-p -1", &o);
    assert_int_equal(o.settings.tcp_port, 0);
}

static void test_help_and_version(void **state)
{
    char error[OPTIONS_ERROR_MAX];
    struct options o;

    assert_int_equal(parse("-h", &o, error), OPTIONS_HELP);
    assert_int_equal(parse("--help", &o, error), OPTIONS_HELP);
    assert_int_equal(parse("-V", &o, error), OPTIONS_VERSION);
    assert_int_equal(parse("-p 7 --version -t 0", &o, error), OPTIONS_VERSION);
}

static void test_tap_defaults(void **state)
{
    static const uint8_t server[4] = {10, 100, 0, 20};
    static const uint8_t host[4] = {10, 100, 0, 10};
    struct options o;

    must_run("--io=tap", &o);
    assert_int_equal(o.io, OPTIONS_IO_TAP);
    assert_string_equal(o.tap_name, "ucached0");
    assert_int_equal(o.ip_count, 1);
    assert_memory_equal(o.ip[0].addr.bytes, server, 4);
    assert_int_equal(o.ip[0].prefix_len, 24);
    assert_memory_equal(o.host_ip.addr.bytes, host, 4);
    assert_int_equal(o.host_ip.prefix_len, 24);
    assert_false(o.gateway_given);
    assert_false(o.fault_given);
}

static void test_tap_options(void **state)
{
    static const uint8_t mac[6] = {0x02, 0, 0, 0xab, 0xcd, 0xef};
    struct options o;

    must_run("--dev=tap7 --ip=192.168.7.2/16 --host-ip=192.168.9.1/16 --gw=192.168.7.1 "
             "--mac=02:00:00:ab:CD:ef --trace=/tmp/t.pcap --fault=loss=5%,seed=7",
             &o);
    assert_int_equal(o.io, OPTIONS_IO_TAP);
    assert_string_equal(o.tap_name, "tap7");
    assert_true(o.gateway_given);
    assert_int_equal(o.gateway.bytes[3], 1);
    assert_memory_equal(o.mac, mac, 6);
    assert_string_equal(o.trace_path, "/tmp/t.pcap");
    assert_true(o.fault_given);
    assert_int_equal(o.fault.loss_ppm, 50000);
    assert_int_equal(o.fault.seed, 7);

    must_run("--ip=172.16.0.1/12 --host-ip=none", &o);
    assert_int_equal(o.io, OPTIONS_IO_TAP);
    assert_true(o.host_ip_none);
}

/* Each wrong line and a part of its message that says what is wrong or allowed. */
static const struct {
    const char *line;
    const char *part;
} wrong[] = {
    {"-p 0", "1 to 65535"},
    {"-p 65536", "1 to 65535"},
    {"-p 80x", "\"80x\""},
    {"-p -2", "\"-2\""},
    {"-p +1", "1 to 65535"},
    {"-p", "-p needs an argument"},
    {"--port", "--port needs an argument"},
    {"-m 0", "1 to "},
    {"-m -5", "\"-5\""},
    {"-m 99999999999999999999999", "is not a number"},
    {"-m 1", "half of the memory"},
    {"-I 2g", "1k to 1024m"},
    {"-I 1023", "1k to 1024m"},
    {"-I 1025m", "1k to 1024m"},
    {"-I k", "1k to 1024m"},
    {"-I 64m", "-I: the largest item"},
    {"-c 0", "-c"},
    {"-c many", "\"many\""},
    {"-t 0", "1 to 256"},
    {"-t 257", "1 to 256"},
    {"-b 0", "-b"},
    {"-U 11211", "UDP"},
    {"-l", "-l needs an argument"},
    {"--io=xdp", "not in this build"},
    {"--io=dpdk", "not in this build"},
    {"--io=uring", "not in this build"},
    {"--io=foo", "auto, sock, tap"},
    {"--dev=", "--dev"},
    {"--dev=a/b", "--dev"},
    {"--dev=sixteencharslong", "15"},
    {"--ip=10.0.0.1", "ADDRESS/PREFIX"},
    {"--ip=10.0.0.1/33", "ADDRESS/PREFIX"},
    {"--ip=10.0.0.1/0", "ADDRESS/PREFIX"},
    {"--ip=10.0.0.256/8", "ADDRESS/PREFIX"},
    {"--io=tap --host-ip=10.0.0.1", "none"},
    {"--ip=fd00::1/64", "IPv6"},
    {"--io=tap --gw=10.0", "--gw"},
    {"--io=tap --gw=10.100.1.1", "--gw"},
    {"--io=tap --gw=fd00::1", "IPv4"},
    {"--io=tap --mac=01:00:00:00:00:01", "--mac"},
    {"--io=tap --mac=00:00:00:00:00:00", "--mac"},
    {"--io=tap --mac=02:00:00:00:00", "--mac"},
    {"--io=tap --mac=02-00-00-00-00-01", "--mac"},
    {"--io=tap --fault=lost=5%", "--fault"},
    {"--io=tap --trace=", "--trace"},
    {"--io=tap -l 127.0.0.1", "--ip"},
    {"--io=tap -p -1", "1 to 65535"},
    {"--ip=192.168.7.2/24", "--host-ip"},
    {"--ip=10.100.0.10/24", "same address"},
    {"--io=sock --ip=10.0.0.1/8", "--io=tap"},
    {"--fault=loss=1%", "--io=tap"},
    {"--gw=10.0.0.1", "--io=tap"},
    {"--trace=x", "--io=tap"},
    {"-A", "option of memcached"},
    {"-o modern", "option of memcached"},
    {"--enable-ssl", "option of memcached"},
    {"--max-reqs-per-event=5", "option of memcached"},
    {"-q", "no such option"},
    {"--frobnicate", "--frobnicate: there is no such option"},
    {"--daemon=yes", "takes no argument"},
    {"foo", "\"foo\" is not an option"},
};

static void test_mistakes(void **state)
{
    char error[OPTIONS_ERROR_MAX];
    struct options o;
    size_t i;

    for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        if (parse(wrong[i].line, &o, error) != OPTIONS_BAD)
            fail_msg("'%s' was accepted", wrong[i].line);
        if (!strstr(error, wrong[i].part))
            fail_msg("'%s': message is: %s", wrong[i].line, error);
    }
}

static void test_listen_too_long(void **state)
{
    char address[OPTIONS_LISTEN_MAX + 1];
    char program[] = "ucached";
    char option[] = "-l";
    char *argv[] = {program, option, address, NULL};
    char error[OPTIONS_ERROR_MAX];
    struct options o;

    memset(address, '1', sizeof(address));
    address[OPTIONS_LISTEN_MAX - 1] = '\0';
    assert_int_equal(options_parse(3, argv, &o, error), OPTIONS_BAD);
    address[OPTIONS_LISTEN_MAX - 2] = '\0';
    assert_int_equal(options_parse(3, argv, &o, error), OPTIONS_RUN);
}

static void test_too_many_ips(void **state)
{
    char error[OPTIONS_ERROR_MAX];
    struct options o;

    assert_int_equal(parse("--ip=10.100.0.1/24 --ip=10.100.0.2/24 --ip=10.100.0.3/24 "
                           "--ip=10.100.0.4/24 --ip=10.100.0.5/24 --ip=10.100.0.6/24 "
                           "--ip=10.100.0.7/24 --ip=10.100.0.8/24",
                           &o, error),
                     OPTIONS_RUN);
    assert_int_equal(o.ip_count, 8);
    assert_int_equal(parse("--ip=10.100.0.1/24 --ip=10.100.0.2/24 --ip=10.100.0.3/24 "
                           "--ip=10.100.0.4/24 --ip=10.100.0.5/24 --ip=10.100.0.6/24 "
                           "--ip=10.100.0.7/24 --ip=10.100.0.8/24 --ip=10.100.0.9/24",
                           &o, error),
                     OPTIONS_BAD);
}

static void test_help_text(void **state)
{
    char *text = NULL;
    size_t len;
    FILE *file = open_memstream(&text, &len);

    options_print_help(file);
    fclose(file);
    assert_memory_equal(text, "memcached 1.6.45\nucached ", 25);
    assert_non_null(strstr(text, "--listen-backlog=N"));
    assert_non_null(strstr(text, "default: 11211"));
    free(text);
}

static void test_numbers(void **state)
{
    uint64_t value = 7;

    assert_int_equal(value_number("18446744073709551615", 0, UINT64_MAX, &value), 0);
    assert_true(value == UINT64_MAX);
    assert_int_equal(value_number("18446744073709551616", 0, UINT64_MAX, &value), -1);
    assert_int_equal(value_number("", 0, 9, &value), -1);
    assert_int_equal(value_number(" 1", 0, 9, &value), -1);
    assert_int_equal(value_number("0x1", 0, 9, &value), -1);
    assert_int_equal(value_size("4K", 1, 1 << 20, &value), 0);
    assert_int_equal(value, 4096);
    assert_int_equal(value_size("18446744073709551615m", 1, UINT64_MAX, &value), -1);
    assert_int_equal(value_size("", 0, 10, &value), -1);
}

static void test_same_network(void **state)
{
    struct net_stack_addr net;
    struct us_addr addr;

    assert_int_equal(value_network("10.100.0.20/23", &net), 0);
    assert_int_equal(value_addr("10.100.1.255", &addr), 0);
    assert_true(options_same_network(&net, &addr));
    assert_int_equal(value_addr("10.100.2.0", &addr), 0);
    assert_false(options_same_network(&net, &addr));
    assert_int_equal(value_addr("fd00::1", &addr), 0);
    assert_false(options_same_network(&net, &addr));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),     cmocka_unit_test(test_short_options),
        cmocka_unit_test(test_long_options), cmocka_unit_test(test_listen_repeats),
        cmocka_unit_test(test_port_any),     cmocka_unit_test(test_help_and_version),
        cmocka_unit_test(test_tap_defaults), cmocka_unit_test(test_tap_options),
        cmocka_unit_test(test_mistakes),     cmocka_unit_test(test_listen_too_long),
        cmocka_unit_test(test_too_many_ips), cmocka_unit_test(test_help_text),
        cmocka_unit_test(test_numbers),      cmocka_unit_test(test_same_network),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
