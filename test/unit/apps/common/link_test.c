/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of the link: values, combinations, and the choice of --io=auto. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "common/link.h"
#include "common/value.h"
#include "nic/dpdk.h"

static const struct link_defaults defaults = {
    .dev = "ucached0", .ip = "10.100.0.20/24", .host_ip = "10.100.0.10/24"};

static char words[512];
static char error[LINK_ERROR_MAX];

/* Parses "dev=x ip=y" as "--dev=x --ip=y" and resolves it. Strings stay valid until the next call.
 */
static int settle(const char *line, struct link_options *link)
{
    struct cmdline cmdline = {.tables = {link_table(link)}, .error = error};
    char *argv[16] = {words};
    char *next = words;
    char **rest;
    int argc = 1;

    memset(link, 0, sizeof(*link));
    error[0] = '\0';
    for (; *line; line += strcspn(line, " "), line += strspn(line, " ")) {
        size_t len = strcspn(line, " ");

        assert_true(argc + 1 < (int)U_ARRAY_LEN(argv));
        assert_true(next + len + sizeof("--") <= words + sizeof(words));
        argv[argc++] = next;
        memcpy(next, "--", 2);
        memcpy(next + 2, line, len);
        next[2 + len] = '\0';
        next += len + sizeof("--");
    }
    argv[argc] = NULL;
    if (cmdline_parse(&cmdline, argc, argv, &rest) != CMDLINE_RUN)
        return -1;
    return link_resolve(link, &defaults, error);
}

static void must_settle(const char *line, struct link_options *link)
{
    if (settle(line, link) < 0)
        fail_msg("%s: %s", line, error);
}

static void test_defaults(void **state)
{
    static const uint8_t stack[4] = {10, 100, 0, 20};
    static const uint8_t host[4] = {10, 100, 0, 10};
    struct net_stack_config config;
    struct link_options link;
    char text[LINK_DESCRIPTION_MAX];

    must_settle("io=tap", &link);
    assert_string_equal(link_backend_name(&link), "tap");
    assert_string_equal(link.dev, "ucached0");
    assert_int_equal(link.ip_count, 1);
    assert_memory_equal(link.ip[0].addr.bytes, stack, 4);
    assert_int_equal(link.ip[0].prefix_len, 24);
    assert_memory_equal(link.host_ip.addr.bytes, host, 4);
    assert_int_equal(link.host_ip.prefix_len, 24);
    assert_int_equal(link.gateway_count, 0);
    assert_false(link.fault_given);
    assert_string_equal(link_describe(&link, text), "TAP device ucached0, host side 10.100.0.10");

    memset(&config, 0, sizeof(config));
    link_configure_stack(&link, &config);
    assert_int_equal(config.addr_count, 1);
    assert_memory_equal(config.addrs[0].addr.bytes, stack, 4);

    must_settle("", &link);
    assert_string_equal(link_backend_name(&link), "sock");
    assert_int_equal(link.ip_count, 0);
}

static void test_options(void **state)
{
    static const uint8_t mac[6] = {0x02, 0, 0, 0xab, 0xcd, 0xef};
    struct link_options link;

    must_settle("dev=tap7 ip=192.168.7.2/16 host-ip=192.168.9.1/16 gw=192.168.7.1 "
                "mac=02:00:00:ab:CD:ef mtu=9000 queues=3 trace=/tmp/t.pcap fault=loss=5%,seed=7",
                &link);
    assert_string_equal(link_backend_name(&link), "tap");
    assert_string_equal(link.dev, "tap7");
    assert_int_equal(link.gateway_count, 1);
    assert_int_equal(link.gateways[0].bytes[3], 1);
    assert_memory_equal(link.mac, mac, 6);
    assert_int_equal(link.mtu, 9000);
    assert_int_equal(link.queues, 3);
    assert_string_equal(link.trace_path, "/tmp/t.pcap");
    assert_true(link.fault_given);
    assert_int_equal(link.fault.loss_ppm, 50000);
    assert_int_equal(link.fault.seed, 7);

    must_settle("ip=fd00::20/64 ip=10.0.0.1/8 host-ip=fd00::1/64 host-ip=10.0.0.2/8 "
                "gw=fd00::ff gw=10.0.0.9",
                &link);
    assert_int_equal(link.host_ip6.prefix_len, 64);
    assert_int_equal(link.host_ip.prefix_len, 8);
    assert_int_equal(link.gateway_count, 2);
}

static void test_xdp(void **state)
{
    struct net_stack_config config;
    struct link_options link;
    char text[LINK_DESCRIPTION_MAX];

    must_settle("dev=lo ip=10.0.0.1/8 xdp=generic,copy,busy-poll", &link);
    assert_string_equal(link_backend_name(&link), "xdp");
    assert_int_equal(link.xdp.mode, NIC_XDP_MODE_GENERIC);
    assert_true(link.xdp.copy);
    assert_true(link.xdp.busy_poll);
    assert_false(link.host_addrs);
    assert_string_equal(link_describe(&link, text), "AF_XDP on lo");

    /* Every machine has the loopback interface; without --ip its addresses are used. */
    must_settle("io=xdp dev=lo", &link);
    assert_true(link.host_addrs);
    assert_true(link.ip_count > 0);
    assert_int_equal(link.ip[0].addr.family, US_IP4);
    assert_int_equal(link.ip[0].addr.bytes[0], 127);
    assert_int_equal(link.ip[0].prefix_len, 0);
    memset(&config, 0, sizeof(config));
    link_configure_stack(&link, &config);
    assert_true(config.reply_to_source_mac);
}

static void test_dpdk(void **state)
{
    struct link_options link;
    char text[LINK_DESCRIPTION_MAX];

    must_settle("io=dpdk", &link);
    assert_null(link.dev);
    assert_int_equal(link.host_ip.prefix_len, 0);
    assert_string_equal(link_describe(&link, text), "DPDK port");

    must_settle("dev=net_memif0,role=client without=tso,zerocopy mtu=9000", &link);
    assert_string_equal(link_backend_name(&link), "dpdk");
    assert_int_equal(link.without, NIC_DPDK_WITHOUT_TSO | NIC_DPDK_WITHOUT_ZERO_COPY);
    assert_string_equal(link_describe(&link, text), "DPDK net_memif0,role=client");

    must_settle("dev=0", &link);
    assert_string_equal(link_backend_name(&link), "dpdk");
    must_settle("eal=--no-huge", &link);
    assert_string_equal(link_backend_name(&link), "dpdk");
}

static void test_host_side(void **state)
{
    struct link_options link;
    char text[LINK_DESCRIPTION_MAX];

    must_settle("ip=172.16.0.1/12 host-ip=none", &link);
    assert_string_equal(link_backend_name(&link), "tap");
    assert_int_equal(link.host_ip.prefix_len, 0);
    assert_string_equal(link_describe(&link, text), "TAP device ucached0, host side none");
    must_settle("ip=fd00::20/64", &link);
    assert_int_equal(link.host_ip.prefix_len, 0);
    assert_int_equal(link.host_ip6.prefix_len, 0);
    must_settle("ip=fd00::20/64 host-ip=fd00::10/64", &link);
    assert_string_equal(link_describe(&link, text), "TAP device ucached0, host side fd00::10");
}

static void test_mistakes(void **state)
{
    static const char *const wrong[][2] = {
        {"io=foo", "is not one of auto, sock, "},
        {"io=sock dev=x", "--dev is for the own TCP/IP stack"},
        {"io=sock mtu=1500", "--mtu is for the own TCP/IP stack"},
        {"dev=", "the argument is empty"},
        {"dev=a/b", "1 to 15 characters"},
        {"ip=10.0.0.1", "ADDRESS/PREFIX"},
        {"host-ip=10.0.0.1", "nor none"},
        {"io=tap host-ip=192.168.1.1/24", "no --ip is in the network of the host's side"},
        {"io=tap host-ip=10.100.0.20/24", "the same address"},
        {"io=tap gw=foo", "--gw"},
        {"io=tap gw=10.0.0.1", "no --ip is in the network of the gateway"},
        {"io=tap gw=10.100.0.1 gw=10.100.0.2", "more than one of each family"},
        {"io=tap mac=ff:ff:ff:ff:ff:ff", "--mac"},
        {"io=sock queues=2", "--queues is for the own TCP/IP stack"},
        {"io=tap queues=0", "from 1 to 64"},
        {"io=tap queues=65", "from 1 to 64"},
        {"io=tap mtu=575", "from 576 to 9216"},
        {"io=tap mtu=9217", "from 576 to 9216"},
        {"io=tap eal=-l0", "--eal is for --io=dpdk"},
        {"io=tap xdp=copy", "--xdp is for --io=xdp"},
        {"io=xdp", "needs --dev=INTERFACE"},
        {"io=xdp dev=nosuchdevice0", "no such interface"},
        {"io=xdp dev=lo ip=10.0.0.1/8 host-ip=none", "--host-ip is for --io=tap"},
        {"io=xdp dev=lo ip=10.0.0.1/8 eal=x", "--eal is for --io=dpdk"},
        {"io=xdp dev=lo ip=10.0.0.1/8 gw=10.1.1.1 gw=11.1.1.1", "more than one of each family"},
        {"io=xdp dev=lo ip=10.0.0.1/8 gw=11.1.1.1", "no --ip is in the network of the gateway"},
        {"io=xdp dev=lo gw=127.0.0.2", "--gw needs an --ip"},
        {"io=xdp dev=lo mac=02:00:00:00:00:01", "--mac needs an --ip"},
        {"io=xdp dev=lo xdp=copy,fast", "\"fast\" is not one of native, generic"},
        {"io=xdp dev=lo xdp=copy,", "\"\" is not one of native, generic"},
        {"io=tap without=csum", "--without is for --io=dpdk"},
        {"io=sock without=csum", "--without is for the own TCP/IP stack"},
        {"io=dpdk without=csum,tso,foo", "is not a list of csum, tso, sg, zerocopy, rss"},
        {"io=dpdk without=", "is not a list of"},
        {"io=dpdk without=tso,", "is not a list of"},
        {"io=dpdk host-ip=10.100.0.10/24", "--host-ip is for --io=tap"},
        {"io=tap trace=", "the argument is empty"},
        {"io=tap fault=loss=101%", "--fault"},
        {"ip=10.1.0.1/24 ip=10.1.0.2/24 ip=10.1.0.3/24 ip=10.1.0.4/24 ip=10.1.0.5/24 "
         "ip=10.1.0.6/24 ip=10.1.0.7/24 ip=10.1.0.8/24 ip=10.1.0.9/24",
         "more than 8 addresses"},
    };
    struct link_options link;
    unsigned i;

    for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(settle(wrong[i][0], &link), -1);
        if (!strstr(error, wrong[i][1]))
            fail_msg("%s: %s", wrong[i][0], error);
    }
}

static void test_same_network(void **state)
{
    struct net_stack_addr net;
    struct us_addr addr;

    assert_int_equal(value_network("10.100.0.20/23", &net), 0);
    assert_int_equal(value_addr("10.100.1.255", &addr), 0);
    assert_true(link_same_network(&net, &addr));
    assert_int_equal(value_addr("10.100.2.0", &addr), 0);
    assert_false(link_same_network(&net, &addr));
    assert_int_equal(value_addr("fd00::1", &addr), 0);
    assert_false(link_same_network(&net, &addr));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),     cmocka_unit_test(test_options),
        cmocka_unit_test(test_host_side),    cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_same_network), cmocka_unit_test(test_xdp),
        cmocka_unit_test(test_dpdk),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
