/* SPDX-License-Identifier: BSD-3-Clause */
/* What the back ends of the link ask of a device, and what the stack gets to know. */
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "common/backend.h"
#include "common/value.h"
#include "nic/dpdk.h"
#include "nic/rss.h"

#define QUEUES 4

static const struct link_defaults defaults = {
    .dev = "ucached0", .ip = "10.100.0.20/24", .host_ip = "10.100.0.10/24"};
static const uint8_t given_mac[6] = {0x02, 0, 0, 0, 0, 1}, former_mac[6] = {0x02, 0, 0, 0, 0, 2};

static char error[LINK_ERROR_MAX];
static struct nic *queue[NIC_QUEUES_MAX], *peer[NIC_QUEUES_MAX];

/* The last request. */
static struct nic_tap_config tap;
static struct nic_dpdk_config dpdk;
static struct nic_xdp_config xdp;
static unsigned asked_queues; /* 0: none */

/* ---- devices ----------------------------------------------------------------------------- */

/* Each queue is one end of a link in memory. */
static void open_ends(unsigned queues, struct nic *ends[])
{
    struct nic_loopback_config config = {.queue_frames = 1};
    struct nic *pair[2];
    unsigned i;

    asked_queues = queues;
    for (i = 0; i < queues; i++) {
        assert_int_equal(nic_loopback_open(&config, pair, error), 0);
        ends[i] = pair[0];
        peer[i] = pair[1];
    }
}

static void close_ends(int queues)
{
    while (queues-- > 0) {
        nic_close(queue[queues]);
        nic_close(peer[queues]);
    }
}

/* The linker replaces the functions that open the devices. */
extern __typeof__(nic_tap_open) fake_tap_open __asm__("__wrap_nic_tap_open");
extern __typeof__(nic_dpdk_open) fake_dpdk_open __asm__("__wrap_nic_dpdk_open");
extern __typeof__(nic_xdp_open) fake_xdp_open __asm__("__wrap_nic_xdp_open");

int fake_tap_open(const struct nic_tap_config *config, unsigned queues, struct nic *ends[],
                  char why[NIC_ERROR_MAX])
{
    tap = *config;
    open_ends(queues, ends);
    return 0;
}

int fake_dpdk_open(const struct nic_dpdk_config *config, unsigned queues, struct nic *ends[],
                   char why[NIC_ERROR_MAX])
{
    dpdk = *config;
    open_ends(queues, ends);
    return (int)queues;
}

int fake_xdp_open(const struct nic_xdp_config *config, unsigned queues, struct nic *ends[],
                  char why[NIC_ERROR_MAX])
{
    xdp = *config;
    open_ends(queues, ends);
    return (int)queues;
}

/* ---- options ----------------------------------------------------------------------------- */

#define WORDS_MAX 12

static struct link_options options;

/* Parses and resolves the options, strings that stay valid until the next call. */
static int try_options(const char *const *words, size_t count)
{
    static char text[WORDS_MAX][64];
    struct cmdline cmdline = {.tables = {link_table(&options)}, .error = error};
    char *argv[WORDS_MAX + 1] = {NULL};
    char **rest;
    size_t i;

    assert_true(count <= WORDS_MAX);
    for (i = 0; i < count; i++) {
        snprintf(text[i], sizeof(text[i]), "%s", words[i]);
        argv[i] = text[i];
    }
    memset(&options, 0, sizeof(options));
    asked_queues = 0;
    error[0] = '\0';
    assert_int_equal(cmdline_parse(&cmdline, (int)count, argv, &rest), CMDLINE_RUN);
    return link_resolve(&options, &defaults, error);
}

static void resolve(const char *const *words, size_t count)
{
    if (try_options(words, count) < 0)
        fail_msg("%s", error);
}

#define RESOLVE(...)                                                                               \
    do {                                                                                           \
        static const char *const words[] = {"test", __VA_ARGS__};                                  \
        resolve(words, U_ARRAY_LEN(words));                                                        \
    } while (0)

static int open_link(const struct link_params *params)
{
    return link_open(&options, params, queue, error);
}

/* ---- tests ------------------------------------------------------------------------------- */

/* The key is new for each device, but not for one that is opened again. */
static void the_key_stays_when_a_device_is_opened_again(void **state)
{
    struct link_params params = {.queues = 1};
    uint8_t before[NIC_RSS_KEY_BYTES];

    RESOLVE("--ip=10.1.0.2/24", "--host-ip=none");
    memcpy(before, nic_rss_key, sizeof(before));
    close_ends(open_link(&params));
    assert_memory_not_equal(before, nic_rss_key, sizeof(before));
    memcpy(before, nic_rss_key, sizeof(before));
    params.keep_rss_key = true;
    close_ends(open_link(&params));
    assert_memory_equal(before, nic_rss_key, sizeof(before));
}

/* --queues limits the queues, of which each worker has at most one. */
static void queues_are_limited_by_workers_and_option(void **state)
{
    struct link_params params = {.queues = QUEUES};

    RESOLVE("--ip=10.1.0.2/24", "--host-ip=none", "--queues=3");
    assert_int_equal(open_link(&params), 3);
    close_ends(3);
    params.queues = 2;
    assert_int_equal(open_link(&params), 2);
    close_ends(2);
}

static unsigned closed;
static void (*close_end)(struct nic *nic);

static void count_close(struct nic *nic)
{
    closed++;
    close_end(nic);
}

static struct nic_ops counting_ops;

static int open_counting(const struct link_options *link, const struct link_params *params,
                         struct nic *ends[], char why[LINK_ERROR_MAX])
{
    unsigned i;

    open_ends(params->queues, ends);
    counting_ops = *ends[0]->ops;
    close_end = counting_ops.close;
    counting_ops.close = count_close;
    for (i = 0; i < params->queues; i++)
        ends[i]->ops = &counting_ops;
    return (int)params->queues;
}

/* A trace that cannot be written: no queue stays open. */
static void a_failure_after_opening_closes_the_device(void **state)
{
    struct link_params params = {.queues = QUEUES};
    struct link_backend counting;
    unsigned i;

    RESOLVE("--ip=10.1.0.2/24", "--host-ip=none", "--trace=/nowhere/to/be/found");
    counting = *options.backend;
    counting.open = open_counting;
    options.backend = &counting;
    closed = 0;
    assert_int_equal(open_link(&params), -1);
    assert_int_equal(closed, QUEUES);
    for (i = 0; i < QUEUES; i++)
        nic_close(peer[i]);
}

static void the_stack_gets_all_addresses_and_gateways(void **state)
{
    struct net_stack_config config = {.port = 1};

    RESOLVE("--ip=10.1.0.2/24", "--ip=fd01::2/64", "--gw=10.1.0.3", "--gw=fd01::3",
            "--host-ip=none");
    link_configure_stack(&options, &config);
    assert_int_equal(config.addr_count, 2);
    assert_int_equal(config.addrs[1].prefix_len, 64);
    assert_int_equal(config.gateway_count, 2);
    assert_int_equal(config.gateways[0].bytes[3], 3);
    assert_int_equal(config.gateways[1].bytes[15], 3);
    assert_false(config.reply_to_source_mac);
}

static void a_tap_device_has_the_options(void **state)
{
    struct link_params params = {.queues = 2, .mac = former_mac};

    RESOLVE("--dev=tap7", "--ip=10.1.0.2/24", "--ip=fd01::2/64", "--host-ip=10.1.0.1/24",
            "--host-ip=fd01::1/64", "--mtu=1400", "--mac=02:00:00:00:00:01");
    assert_int_equal(open_link(&params), 2);
    assert_string_equal(tap.name, "tap7");
    assert_int_equal(tap.mtu, 1400);
    assert_memory_equal(tap.mac, given_mac, 6);
    assert_int_equal(tap.host_prefix_len, 24);
    assert_int_equal(tap.host_addr[3], 1);
    assert_int_equal(tap.host_prefix6_len, 64);
    assert_int_equal(tap.host_addr6[15], 1);
    assert_null(tap.adopted_fds);
    close_ends(2);
}

static bool has_loopback_ip6(void)
{
    struct sockaddr_in6 addr = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int sock = socket(AF_INET6, SOCK_DGRAM, 0);
    bool has = sock >= 0 && bind(sock, (struct sockaddr *)&addr, sizeof(addr)) == 0;

    if (sock >= 0)
        close(sock);
    return has;
}

/* An address of this machine: another link has it. */
static void a_network_in_use_is_refused(void **state)
{
    struct link_params params = {.queues = 1};

    RESOLVE("--ip=127.0.0.2/8", "--host-ip=127.0.0.1/8");
    assert_int_equal(open_link(&params), -1);
    assert_non_null(strstr(error, "127.0.0.1, the address of the host's side, is in use"));
    assert_int_equal(asked_queues, 0);
    if (!has_loopback_ip6())
        return;
    RESOLVE("--ip=::2/64", "--host-ip=::1/64");
    assert_int_equal(open_link(&params), -1);
    assert_non_null(strstr(error, "::1, the address of the host's side, is in use"));
}

static void a_host_side_of_ipv6_is_checked(void **state)
{
    static const char *const words[] = {"test", "--ip=fd01::2/64", "--host-ip=fd02::1/64"};

    assert_int_equal(try_options(words, U_ARRAY_LEN(words)), -1);
    assert_non_null(strstr(error, "fd02::1"));
}

/*
 * The queues of another process, which has the host's address: its MAC address stays, and queues
 * beyond the own workers are closed.
 */
static void queues_of_another_process_are_adopted(void **state)
{
    struct link_adopted adopted = {.count = 3};
    struct link_params params = {.queues = 2, .adopted = &adopted};
    char byte;
    unsigned i;
    int ends[2];

    memcpy(adopted.mac, former_mac, 6);
    for (i = 0; i < adopted.count; i++) {
        assert_int_equal(pipe(ends), 0);
        adopted.fds[i] = ends[1];
        if (i + 1 < adopted.count)
            close(ends[0]);
    }
    assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    RESOLVE("--ip=127.0.0.2/8", "--host-ip=127.0.0.1/8", "--mac=02:00:00:00:00:01");
    assert_int_equal(open_link(&params), 2);
    assert_ptr_equal(tap.adopted_fds, adopted.fds);
    assert_memory_equal(tap.mac, former_mac, 6);
    assert_int_equal(read(ends[0], &byte, 1), 0); /* no writer has the third one open */
    close_ends(2);
    close(ends[0]);
    close(adopted.fds[0]);
    close(adopted.fds[1]);
}

static void a_dpdk_port_has_the_options(void **state)
{
    struct link_params params = {.queues = 2, .mac = former_mac, .verbose = true};

    RESOLVE("--dev=net_null0", "--eal=--no-huge", "--mtu=9000", "--without=tso,rss");
    assert_int_equal(open_link(&params), 2);
    assert_string_equal(dpdk.dev, "net_null0");
    assert_string_equal(dpdk.eal, "--no-huge");
    assert_int_equal(dpdk.mtu, 9000);
    assert_int_equal(dpdk.without, NIC_DPDK_WITHOUT_TSO | NIC_DPDK_WITHOUT_RSS);
    assert_true(dpdk.verbose);
    assert_memory_equal(dpdk.mac, former_mac, 6); /* of the process before */
    close_ends(2);

    RESOLVE("--dev=net_null0", "--mac=02:00:00:00:00:01");
    close_ends(open_link(&params));
    assert_memory_equal(dpdk.mac, given_mac, 6);
    assert_false(options.backend->reads_files(&options)); /* a virtual device has no files */
    RESOLVE("--dev=0");
    assert_true(options.backend->reads_files(&options));
    RESOLVE("--eal=--no-huge");
    assert_true(options.backend->reads_files(&options));
}

static void an_xdp_interface_has_the_options(void **state)
{
    struct link_params params = {.queues = 2, .tcp_port = 11211, .udp_port = 11212};

    RESOLVE("--io=xdp", "--dev=lo", "--ip=10.1.0.2/24", "--ip=fd01::2/64", "--mtu=1400",
            "--mac=02:00:00:00:00:01", "--xdp=generic,copy,busy-poll");
    assert_int_equal(open_link(&params), 2);
    assert_string_equal(xdp.dev, "lo");
    assert_int_equal(xdp.mtu, 1400);
    assert_memory_equal(xdp.mac, given_mac, 6);
    assert_int_equal(xdp.addr_count, 2);
    assert_false(xdp.addrs[0].is_ip6);
    assert_int_equal(xdp.addrs[0].bytes[3], 2);
    assert_true(xdp.addrs[1].is_ip6);
    assert_int_equal(xdp.addrs[1].bytes[15], 2);
    assert_int_equal(xdp.tcp_port, 11211);
    assert_int_equal(xdp.udp_port, 11212);
    assert_int_equal(xdp.mode, NIC_XDP_MODE_GENERIC);
    assert_true(xdp.copy && xdp.busy_poll && !xdp.host_addrs);
    close_ends(2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_key_stays_when_a_device_is_opened_again),
        cmocka_unit_test(queues_are_limited_by_workers_and_option),
        cmocka_unit_test(a_failure_after_opening_closes_the_device),
        cmocka_unit_test(the_stack_gets_all_addresses_and_gateways),
        cmocka_unit_test(a_tap_device_has_the_options),
        cmocka_unit_test(a_network_in_use_is_refused),
        cmocka_unit_test(a_host_side_of_ipv6_is_checked),
        cmocka_unit_test(queues_of_another_process_are_adopted),
        cmocka_unit_test(a_dpdk_port_has_the_options),
        cmocka_unit_test(an_xdp_interface_has_the_options),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
