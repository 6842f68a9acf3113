/* SPDX-License-Identifier: BSD-3-Clause */
/* The host's addresses on an interface: which they are, and in which order. */
#define _GNU_SOURCE /* unshare */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "nic/xdp.h"
#include "nic_testing.h"

/* linux/ipv6.h, which does not go with netinet/in.h. */
struct in6_ifreq {
    struct in6_addr addr;
    uint32_t prefix_len;
    int ifindex;
    uint8_t unused[16]; /* valgrind expects a struct ifreq */
};

static const char *skip_reason; /* null: the tests can run */

/* A namespace of this process; the loopback interface gets the addresses. */
static int enter_own_namespace(void **state)
{
    int sock;
    struct ifreq up = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_LOOPBACK};

    if (unshare(CLONE_NEWNET) < 0) {
        skip_reason = strerror(errno);
        printf("skipping: no own network namespace: %s\n", skip_reason);
        return 0;
    }
    sock = socket(AF_INET, SOCK_DGRAM, 0);
    assert_int_equal(ioctl(sock, SIOCSIFFLAGS, &up), 0);
    close(sock);
    return 0;
}

/* Another address of an interface; of IPv4 under the label, which `ip addr` shows. */
static void add_ip4(const char *label, const char *text)
{
    int sock = socket(AF_INET, SOCK_DGRAM, 0);
    struct ifreq request;
    struct sockaddr_in addr = {.sin_family = AF_INET};

    memset(&request, 0, sizeof(request));
    snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", label);
    assert_int_equal(inet_pton(AF_INET, text, &addr.sin_addr), 1);
    memcpy(&request.ifr_addr, &addr, sizeof(addr));
    assert_int_equal(ioctl(sock, SIOCSIFADDR, &request), 0);
    close(sock);
}

static void add_ip6(const char *text)
{
    int sock = socket(AF_INET6, SOCK_DGRAM, 0);
    struct in6_ifreq request = {.prefix_len = 64, .ifindex = (int)if_nametoindex("lo")};

    assert_int_equal(inet_pton(AF_INET6, text, &request.addr), 1);
    assert_int_equal(ioctl(sock, SIOCSIFADDR, &request), 0);
    close(sock);
}

static void assert_addr(const struct nic_xdp_addr *addr, const char *expected)
{
    char text[INET6_ADDRSTRLEN];

    inet_ntop(addr->is_ip6 ? AF_INET6 : AF_INET, addr->bytes, text, sizeof(text));
    assert_string_equal(text, expected);
}

/* IPv4 with all labels of the interface, then IPv6, link-local addresses last. */
static void test_order(void **state)
{
    static const char *const expected[] = {"127.0.0.1", "10.1.2.3", "::1", "fd00::7", "fe80::9"};
    struct nic_xdp_addr addrs[NIC_XDP_ADDRS_MAX];
    char error[NIC_ERROR_MAX] = "";
    unsigned i, j;

    if (skip_reason)
        skip();
    add_ip4("lo:one", "10.1.2.3");
    add_ip6("fe80::9");
    add_ip6("fd00::7");
    assert_int_equal(nic_xdp_host_addrs("lo", addrs, NIC_XDP_ADDRS_MAX, error), 5);
    if (addrs[2].bytes[0] != 0) { /* the kernel's order of those of one kind is its own */
        struct nic_xdp_addr other = addrs[2];

        addrs[2] = addrs[3];
        addrs[3] = other;
    }
    for (i = 0; i < 5; i++)
        assert_addr(&addrs[i], expected[i]);
    for (j = 1; j < 5; j++)
        assert_int_equal(nic_xdp_host_addrs("lo", addrs, j, error), j);
    assert_string_equal(error, "");
}

static void test_none(void **state)
{
    struct nic_xdp_addr addrs[NIC_XDP_ADDRS_MAX];
    char error[NIC_ERROR_MAX] = "";

    if (skip_reason)
        skip();
    assert_int_equal(nic_xdp_host_addrs("l", addrs, NIC_XDP_ADDRS_MAX, error), 0);
    assert_non_null(strstr(error, "no such interface"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_none),
    };

    return cmocka_run_group_tests(tests, enter_own_namespace, NULL);
}
