/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which frames the XDP program redirects. The kernel runs the program on each frame, without an
 * interface. It redirects only if the queue has a socket, so there is one on the loopback interface
 * of a network namespace of this process.
 */
#define _GNU_SOURCE /* unshare */
#include <bpf/bpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include <xdp/xsk.h>

#include "nic/xdp_filter.h"
#include "nic_testing.h"

#define CHUNKS 64
#define CHUNK_BYTES 4096

static char skip_reason[NIC_ERROR_MAX]; /* empty: the tests can run */

static struct nic_xdp_filter filter;
static struct xsk_umem *umem;
static struct xsk_socket *xsk;
static struct xsk_ring_cons rx, done;
static struct xsk_ring_prod tx, fill;
static void *area;

static void raise_loopback(void)
{
    int sock = socket(AF_INET, SOCK_DGRAM, 0);
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_LOOPBACK};

    assert_true(sock >= 0);
    assert_int_equal(ioctl(sock, SIOCSIFFLAGS, &request), 0);
    close(sock);
}

/* Queue 0, for the program. */
static void make_socket(void)
{
    struct xsk_socket_config config = {.rx_size = CHUNKS,
                                       .tx_size = CHUNKS,
                                       .libxdp_flags = XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD,
                                       .bind_flags = XDP_COPY};
    struct xsk_umem_config umem_config = {
        .fill_size = CHUNKS, .comp_size = CHUNKS, .frame_size = CHUNK_BYTES};

    area =
        mmap(NULL, CHUNKS * CHUNK_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(area, MAP_FAILED);
    assert_int_equal(
        xsk_umem__create(&umem, area, CHUNKS * CHUNK_BYTES, &fill, &done, &umem_config), 0);
    assert_int_equal(xsk_socket__create(&xsk, "lo", 0, umem, &rx, &tx, &config), 0);
    assert_int_equal(xsk_socket__update_xskmap(xsk, filter.sockets_fd), 0);
}

static int setup(void **state)
{
    if (unshare(CLONE_NEWNET) < 0)
        snprintf(skip_reason, sizeof(skip_reason), "no own network namespace: %s", strerror(errno));
    else if (nic_xdp_filter_load(&filter, skip_reason) == 0) {
        raise_loopback();
        make_socket();
        return 0;
    }
    /* Skipped only without the privilege. */
    if (geteuid() == 0 && strstr(skip_reason, "needs root") == NULL)
        fail_msg("%s", skip_reason);
    printf("skipping: %s\n", skip_reason);
    return 0;
}

static int teardown(void **state)
{
    if (xsk != NULL)
        xsk_socket__delete(xsk);
    if (umem != NULL)
        xsk_umem__delete(umem);
    nic_xdp_filter_close(&filter);
    if (area != NULL)
        munmap(area, CHUNKS * CHUNK_BYTES);
    return 0;
}

/* ---- frames in hexadecimal --------------------------------------------------------------- */

#define ETH "02 00 00 00 00 01  02 00 00 00 00 02 "
#define IP4 ETH "08 00 "
#define IP6 ETH "86 dd "
#define ARP ETH "08 06 00 01 08 00 06 04 00 01 02 00 00 00 00 02 "

#define HOST "0a 00 00 01 "     /* 10.0.0.1, of the host */
#define OWN "0a 00 00 14 "      /* 10.0.0.20, an address of the stack */
#define TCP_ONLY "0a 00 00 03 " /* 10.0.0.3, of the host, without UDP */
#define OTHER "0a 00 00 02 "    /* 10.0.0.2, a peer */
#define HOST6 "fd 00 00 00 00 00 00 00 00 00 00 00 00 00 00 01 "
#define OWN6 "fd 00 00 00 00 00 00 00 00 00 00 00 00 00 00 14 "
#define OTHER6 "fd 00 00 00 00 00 00 00 00 00 00 00 00 00 00 02 "
#define GROUP6 "ff 02 00 00 00 00 00 00 00 00 00 01 ff 00 00 14 "

/* Headers up to the addresses: of TCP, of UDP, of ICMP, of the first of two fragments. */
#define TCP4 "45 00 00 28 00 00 40 00 40 06 00 00 "
#define UDP4 "45 00 00 1c 00 00 40 00 40 11 00 00 "
#define ICMP4 "45 00 00 38 00 00 00 00 40 01 00 00 "
#define FRAGMENT4 "45 00 00 1c 00 00 20 00 40 11 00 00 "
#define LAST4 "45 00 00 1c 00 00 00 01 40 11 00 00 "
#define OPTIONS4 "46 00 00 2c 00 00 40 00 40 06 00 00 "
#define TCP6 "60 00 00 00 00 14 06 40 "
#define UDP6 "60 00 00 00 00 08 11 40 "
#define ICMP6 "60 00 00 00 00 20 3a ff "

#define TO_US "9c 40 2b cb "   /* from port 40000 to 11211 */
#define FROM_US "2b cb 9c 40 " /* and back */
#define TO_SSH "9c 40 00 16 "
#define REST "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 "

static const struct frame {
    const char *what;
    const char *hex;
    bool taken;
} frames[] = {
    {"the host's TCP port that is ours", IP4 TCP4 OTHER HOST TO_US REST, true},
    {"another TCP port of the host", IP4 TCP4 OTHER HOST TO_SSH REST, false},
    {"the same number over UDP", IP4 UDP4 OTHER HOST TO_US REST, false},
    {"the host's UDP port that is ours", IP4 UDP4 OTHER HOST "9c 40 2b cc " REST, true},
    {"what comes from port 11211 of a peer", IP4 TCP4 OTHER HOST "2b cb 00 16 " REST, false},
    {"an IP header with options", IP4 OPTIONS4 OTHER HOST "01 01 01 00 " TO_US REST, true},
    {"port 11211 of another host", IP4 TCP4 HOST OTHER TO_US REST, false},
    {"a fragment", IP4 FRAGMENT4 OTHER HOST "9c 40 2b cc " REST, false},
    {"the last fragment", IP4 LAST4 OTHER HOST "9c 40 2b cc " REST, false},
    {"a ping of the host", IP4 ICMP4 OTHER HOST "08 00 00 00 00 01 00 01 " REST, false},
    {"an error about a segment of ours",
     IP4 ICMP4 OTHER HOST "03 04 00 00 00 00 05 00 " TCP4 HOST OTHER FROM_US "00 00 00 00 ", true},
    {"an error about a segment of ssh",
     IP4 ICMP4 OTHER HOST "03 04 00 00 00 00 05 00 " TCP4 HOST OTHER "00 16 9c 40 00 00 00 00 ",
     false},
    {"a redirect about a segment of ours",
     IP4 ICMP4 OTHER HOST "05 01 00 00 0a 00 00 09 " TCP4 HOST OTHER FROM_US "00 00 00 00 ", false},
    {"time exceeded for a segment of ours",
     IP4 ICMP4 OTHER HOST "0b 00 00 00 00 00 00 00 " TCP4 HOST OTHER FROM_US "00 00 00 00 ", true},
    {"a parameter problem of a segment of ours",
     IP4 ICMP4 OTHER HOST "0c 00 00 00 00 00 00 00 " TCP4 HOST OTHER FROM_US "00 00 00 00 ", true},
    {"port unreachable for a datagram of ours",
     IP4 ICMP4 OTHER HOST "03 03 00 00 00 00 00 00 " UDP4 HOST OTHER "2b cc 9c 40 00 08 00 00 ",
     true},
    {"an error about a datagram from that number of ours",
     IP4 ICMP4 OTHER HOST "03 03 00 00 00 00 00 00 " UDP4 HOST OTHER FROM_US "00 08 00 00 ", false},
    {"a quote with options",
     IP4 ICMP4 OTHER HOST "03 04 00 00 00 00 05 00 " OPTIONS4 HOST OTHER "01 01 01 00 " FROM_US
                          "00 00 00 00 ",
     true},
    {"a quote that is cut off", IP4 ICMP4 OTHER HOST "03 04 00 00 00 00 05 00 " TCP4 HOST, false},
    {"a segment that is cut off", IP4 TCP4 OTHER HOST "9c 40 ", false},
    {"ARP for the host", ARP OTHER "00 00 00 00 00 00 " HOST, false},

    {"TCP over IPv6", IP6 TCP6 OTHER6 HOST6 TO_US REST, true},
    {"another port over IPv6", IP6 TCP6 OTHER6 HOST6 TO_SSH REST, false},
    {"UDP over IPv6", IP6 UDP6 OTHER6 HOST6 "9c 40 2b cc " REST, true},
    {"a solicitation of the host", IP6 ICMP6 OTHER6 HOST6 "87 00 00 00 00 00 00 00 " HOST6, false},
    {"a solicitation of the host to its group",
     IP6 ICMP6 OTHER6 "ff 02 00 00 00 00 00 00 00 00 00 01 ff 00 00 01 "
                      "87 00 00 00 00 00 00 00 " HOST6,
     false},
    {"packet too big for a segment of ours",
     IP6 ICMP6 OTHER6 HOST6 "02 00 00 00 00 00 05 00 " TCP6 HOST6 OTHER6 FROM_US REST, true},
    {"packet too big for a segment of ssh",
     IP6 ICMP6 OTHER6 HOST6 "02 00 00 00 00 00 05 00 " TCP6 HOST6 OTHER6 "00 16 9c 40 " REST,
     false},
    {"packet too big for a datagram of ours",
     IP6 ICMP6 OTHER6 HOST6 "02 00 00 00 00 00 05 00 " UDP6 HOST6 OTHER6 "2b cc 9c 40 " REST, true},
    {"packet too big for a datagram from that number of ours",
     IP6 ICMP6 OTHER6 HOST6 "02 00 00 00 00 00 05 00 " UDP6 HOST6 OTHER6 FROM_US REST, false},
    {"an echo request that contains one",
     IP6 ICMP6 OTHER6 HOST6 "80 00 00 00 00 00 05 00 " TCP6 HOST6 OTHER6 FROM_US REST, false},

    {"our own address, any port", IP4 TCP4 OTHER OWN TO_SSH REST, true},
    {"a ping of our own address", IP4 ICMP4 OTHER OWN "08 00 00 00 00 01 00 01 " REST, true},
    {"a fragment to it", IP4 FRAGMENT4 OTHER OWN REST, true},
    {"ARP for it", ARP OTHER "00 00 00 00 00 00 " OWN, true},
    {"ARP for longer addresses of the link",
     ETH "08 06 00 01 08 00 08 04 00 01 02 00 00 00 00 02 " OTHER "00 00 00 00 00 00 " OWN, false},
    {"ARP for longer addresses of the protocol",
     ETH "08 06 00 01 08 00 06 10 00 01 02 00 00 00 00 02 " OTHER "00 00 00 00 00 00 " OWN, false},
    {"a wrong header length to it", IP4 "44 00 00 28 00 00 40 00 40 06 00 00 " OTHER OWN REST,
     false},
    {"port 0 of an address without UDP", IP4 UDP4 OTHER TCP_ONLY "9c 40 00 00 " REST, false},
    {"its TCP port", IP4 TCP4 OTHER TCP_ONLY TO_US REST, true},
    {"ARP from it", ARP OWN "00 00 00 00 00 00 " OTHER, false},
    {"IPv6 to our own address", IP6 TCP6 OTHER6 OWN6 TO_SSH REST, true},
    {"a solicitation to its group", IP6 ICMP6 OTHER6 GROUP6 "87 00 00 00 00 00 00 00 " OWN6, true},
    {"a solicitation of a neighbour in the same group",
     IP6 ICMP6 OTHER6 GROUP6 "87 00 00 00 00 00 00 00 fe 80 00 00 00 00 00 00 00 00 00 00 00 00 00 "
                             "14 ",
     false},
    {"an advertisement to the group", IP6 ICMP6 OTHER6 GROUP6 "88 00 00 00 00 00 00 00 " OWN6,
     false},

    {"VLAN 0, which is none", ETH "81 00 60 00 08 00 " TCP4 OTHER HOST TO_US REST, true},
    {"VLAN 5", ETH "81 00 00 05 08 00 " TCP4 OTHER HOST TO_US REST, false},
    {"another protocol", ETH "88 cc " REST, false},
    {"a wrong header length", IP4 "44 00 00 28 00 00 40 00 40 06 00 00 " OTHER HOST TO_US REST,
     false},
    {"nothing but an Ethernet header", IP4, false},
};

static unsigned parse(const char *hex, unsigned char *bytes, unsigned max)
{
    unsigned count = 0;
    int used;

    while (sscanf(hex, " %2hhx%n", &bytes[count], &used) == 1) {
        hex += used;
        assert_true(++count < max);
    }
    return count;
}

static unsigned run(const struct frame *frame)
{
    unsigned char bytes[256];
    LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = bytes, .repeat = 1);

    opts.data_size_in = parse(frame->hex, bytes, sizeof(bytes));
    assert_int_equal(bpf_prog_test_run_opts(filter.program_fd, &opts), 0);
    return opts.retval;
}

static void test_frames(void **state)
{
    static const struct nic_xdp_config host = {
        .dev = "lo",
        .addrs = {{false, {10, 0, 0, 1}}, {true, {0xfd, [15] = 1}}},
        .addr_count = 2,
        .host_addrs = true,
        .tcp_port = 11211,
        .udp_port = 11212};
    static const struct nic_xdp_config own = {
        .dev = "lo",
        .addrs = {{false, {10, 0, 0, 20}}, {true, {0xfd, [15] = 0x14}}},
        .addr_count = 2};
    static const struct nic_xdp_config tcp_only = {.dev = "lo",
                                                   .addrs = {{false, {10, 0, 0, 3}}},
                                                   .addr_count = 1,
                                                   .host_addrs = true,
                                                   .tcp_port = 11211};
    char error[NIC_ERROR_MAX];
    unsigned i;

    if (skip_reason[0] != '\0')
        skip();
    assert_int_equal(nic_xdp_filter_allow(&filter, &tcp_only, error), 0);
    assert_int_equal(nic_xdp_filter_allow(&filter, &host, error), 0);
    assert_int_equal(nic_xdp_filter_allow(&filter, &own, error), 0);
    for (i = 0; i < sizeof(frames) / sizeof(frames[0]); i++) {
        unsigned wanted = frames[i].taken ? XDP_REDIRECT : XDP_PASS;
        unsigned verdict = run(&frames[i]);

        if (verdict != wanted)
            fail_msg("%s: verdict %u instead of %u", frames[i].what, verdict, wanted);
    }
}

static void test_no_socket_for_the_queue(void **state)
{
    const unsigned queue = 0;

    if (skip_reason[0] != '\0')
        skip();
    assert_int_equal(run(&frames[0]), XDP_REDIRECT);
    assert_int_equal(bpf_map_delete_elem(filter.sockets_fd, &queue), 0);
    assert_int_equal(run(&frames[0]), XDP_PASS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frames),
        cmocka_unit_test(test_no_socket_for_the_queue),
    };

    if (getenv("UCACHED_VALGRIND")) {
        printf("skipped: valgrind knows only a part of what libbpf gives to bpf()\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, setup, teardown);
}
