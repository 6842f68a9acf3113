/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * AF_XDP on a pair of virtual interfaces in a network namespace of this process: a packet socket at
 * the other end, and calls that fail when a test says so (--wrap, see meson.build).
 */
#ifndef XDP_LINK_H
#define XDP_LINK_H

#include <arpa/inet.h>
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <xdp/xsk.h>

#include "base/base.h"
#include "nic/xdp.h"
#include "nic_testing.h"

#define DEVICE "xdp0"
#define PEER "xdp1"
#define QUEUES 2
#define RING_FRAMES 1024
#define HOUR_US (3600ull * 1000000) /* a test that sleeps that long fails by its time limit */
#define HEADERS_BYTES 42
#define FRAME_BYTES 60

static const char *skip_reason; /* null: the tests can run */

/* ---- the calls that can fail ------------------------------------------------------------- */

static struct {
    unsigned calls; /* of creating a socket that is not busy, or of entering it in the map */
    unsigned fails_from, fails_to;
    int result;
    bool in_map; /* entering fails, not creating */
    uint64_t now_us;
    unsigned pauses;                  /* that do not wait for the kernel */
    bool busy;                        /* the kernel has not ended an earlier socket yet */
    unsigned drives;                  /* calls that make the kernel look for frames */
    bool no_ip6;                      /* the kernel has no IPv6 */
    bool no_channels;                 /* the driver does not say how many queues it has */
    bool combined;                    /* it counts queues for both directions */
    struct xsk_ring_cons *rx[QUEUES]; /* of the last device with one thread */
    struct xsk_ring_prod *tx;         /* of the first queue of a device */
    struct xsk_ring_prod *fill;       /* of the others */
} faults;

REPLACES(xsk_socket__create);
REPLACES(xsk_socket__create_shared);
REPLACES(xsk_socket__update_xskmap);
REPLACES(clock_gettime);
REPLACES(nanosleep);
REPLACES(recvfrom);
REPLACES(socket);
REPLACES(ioctl);

static inline bool is_faulty(bool in_map)
{
    if (faults.in_map != in_map)
        return false;
    faults.calls++;
    faults.busy = false;
    return faults.calls >= faults.fails_from && faults.calls < faults.fails_to;
}

/* Notes whether a call that was not made to fail has failed for an earlier socket of the queue. */
static inline int note_busy(int rc)
{
    faults.busy = rc == -EBUSY;
    faults.calls -= faults.busy && !faults.in_map;
    return rc;
}

int fake_xsk_socket__create(struct xsk_socket **xsk, const char *dev, __u32 queue,
                            struct xsk_umem *umem, struct xsk_ring_cons *rx,
                            struct xsk_ring_prod *tx, const struct xsk_socket_config *config)
{
    if (is_faulty(false))
        return faults.result;
    faults.tx = tx;
    faults.rx[0] = rx;
    return note_busy(real_xsk_socket__create(xsk, dev, queue, umem, rx, tx, config));
}

int fake_xsk_socket__create_shared(struct xsk_socket **xsk, const char *dev, __u32 queue,
                                   struct xsk_umem *umem, struct xsk_ring_cons *rx,
                                   struct xsk_ring_prod *tx, struct xsk_ring_prod *fill,
                                   struct xsk_ring_cons *done,
                                   const struct xsk_socket_config *config)
{
    if (is_faulty(false))
        return faults.result;
    faults.fill = fill;
    faults.rx[1] = rx;
    return note_busy(
        real_xsk_socket__create_shared(xsk, dev, queue, umem, rx, tx, fill, done, config));
}

int fake_xsk_socket__update_xskmap(struct xsk_socket *xsk, int map_fd)
{
    return is_faulty(true) ? faults.result : real_xsk_socket__update_xskmap(xsk, map_fd);
}

int fake_clock_gettime(clockid_t id, struct timespec *now)
{
    now->tv_sec = (time_t)(faults.now_us / 1000000);
    now->tv_nsec = (long)(faults.now_us % 1000000) * 1000;
    return 0;
}

int fake_nanosleep(const struct timespec *time, struct timespec *left)
{
    if (faults.busy)
        return real_nanosleep(time, left);
    faults.pauses++;
    return 0;
}

ssize_t fake_recvfrom(int sock, void *bytes, size_t n, int flags, struct sockaddr *from,
                      socklen_t *from_bytes)
{
    faults.drives += bytes == NULL;
    return real_recvfrom(sock, bytes, n, flags, from, from_bytes);
}

int fake_socket(int family, int type, int protocol)
{
    if (faults.no_ip6 && family == AF_INET6) {
        errno = EAFNOSUPPORT;
        return -1;
    }
    return real_socket(family, type, protocol);
}

int fake_ioctl(int fd, unsigned long code, ...)
{
    struct ethtool_channels *channels;
    struct ifreq *request;
    va_list list;
    int rc;

    va_start(list, code);
    request = va_arg(list, struct ifreq *);
    va_end(list);
    rc = real_ioctl(fd, code, request);
    if (code != SIOCETHTOOL)
        return rc;
    channels = (void *)request->ifr_data;
    if (channels->cmd != ETHTOOL_GCHANNELS)
        return rc;
    if (faults.no_channels) {
        errno = EOPNOTSUPP;
        return -1;
    }
    if (faults.combined) {
        channels->combined_count = channels->rx_count;
        channels->rx_count = 0;
    }
    return rc;
}

/* ---- the interfaces ---------------------------------------------------------------------- */

/* Runs `ip` or another program with the words of a text. */
static inline int run(const char *program, const char *text)
{
    char words[512], *args[32], *rest = words;
    unsigned n = 0;
    int status = -1;
    pid_t pid;

    snprintf(words, sizeof(words), "%s %s", program, text);
    while (n + 1 < U_ARRAY_LEN(args) && (args[n] = strsep(&rest, " ")) != NULL)
        n++;
    args[n] = NULL;
    pid = fork();
    if (pid == 0) {
        execvp(program, args);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static inline void ip(const char *text)
{
    assert_int_equal(run("ip", text), 0);
}

static inline void no_ip6_for_new_interfaces(void)
{
    FILE *file = fopen("/proc/sys/net/ipv6/conf/default/disable_ipv6", "we");

    if (file != NULL) {
        fputs("1", file);
        fclose(file);
    }
}

static inline int ethtool(unsigned command, unsigned *value)
{
    struct ethtool_value request = {.cmd = command, .data = *value};
    struct ifreq ifreq = {.ifr_name = DEVICE, .ifr_data = (void *)&request};
    int sock = socket(AF_INET, SOCK_DGRAM, 0);
    int rc = ioctl(sock, SIOCETHTOOL, &ifreq);

    close(sock);
    *value = request.data;
    return rc;
}

/* Whether the interface merges received segments. */
static inline bool gro(void)
{
    unsigned value = 0;

    assert_int_equal(ethtool(ETHTOOL_GGRO, &value), 0);
    return value != 0;
}

static inline void set_gro(bool on)
{
    unsigned value = on;

    assert_int_equal(ethtool(ETHTOOL_SGRO, &value), 0);
    assert_int_equal(gro(), on);
}

static int peer; /* a packet socket at the other end */

static inline void make_link_of(unsigned mtu, unsigned queues)
{
    struct sockaddr_ll addr = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
    const int bytes = 64 << 20;
    char text[256];

    snprintf(text, sizeof(text),
             "link add " DEVICE " mtu %u numrxqueues %u numtxqueues %u type veth peer name " PEER
             " mtu %u numrxqueues %u numtxqueues %u",
             mtu, queues, queues, mtu, queues, queues);
    ip(text);
    ip("link set " DEVICE " up");
    ip("link set " PEER " up");
    peer = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    assert_true(peer >= 0);
    assert_int_equal(setsockopt(peer, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)), 0);
    addr.sll_ifindex = (int)if_nametoindex(PEER);
    assert_int_equal(bind(peer, (const struct sockaddr *)&addr, sizeof(addr)), 0);
}

static inline void make_link(unsigned mtu)
{
    make_link_of(mtu, QUEUES);
}

static inline int begin(void **state)
{
    memset(&faults, 0, sizeof(faults));
    peer = -1;
    if (skip_reason == NULL)
        make_link(1500);
    return 0;
}

static inline int end(void **state)
{
    if (peer >= 0) {
        close(peer);
        (void)run("ip", "link del " PEER);
    }
    return 0;
}

/* ---- frames ------------------------------------------------------------------------------ */

static struct nic_xdp_config config_make(void)
{
    return (struct nic_xdp_config){
        .dev = DEVICE, .addrs = {{.bytes = {10, 0, 0, 20}}}, .addr_count = 1};
}

static inline unsigned xdp_open(const struct nic_xdp_config *config, unsigned queues,
                                struct nic *nic[])
{
    char error[NIC_ERROR_MAX] = "";
    int count = nic_xdp_open(config, queues, nic, error);

    if (count < 0)
        fail_msg("%s", error);
    return (unsigned)count;
}

static inline void xdp_fails(const struct nic_xdp_config *config, unsigned queues, const char *text)
{
    struct nic *nic[QUEUES];
    char error[NIC_ERROR_MAX] = "";

    assert_int_equal(nic_xdp_open(config, queues, nic, error), -1);
    if (strstr(error, text) == NULL)
        fail_msg("'%s' is not in '%s'", text, error);
}

/* A UDP datagram to the stack, with a number in its payload and its port. */
static inline void make_frame(uint8_t *frame, unsigned number, unsigned bytes)
{
    static const uint8_t headers[HEADERS_BYTES] = {
        2,    0,  0,  0, 0, 1,  2,    0, 0,  0,  0, 2, 8,    0, /* Ethernet, IPv4, UDP */
        0x45, 0,  0,  0, 0, 0,  0x40, 0, 64, 17, 0, 0, 10,   0,
        0,    10, 10, 0, 0, 20, 0,    0, 0,  7,  0, 0, 0x12, 0x34};
    unsigned i;

    memcpy(frame, headers, sizeof(headers));
    frame[16] = (uint8_t)((bytes - 14) >> 8);
    frame[17] = (uint8_t)(bytes - 14);
    frame[38] = (uint8_t)((bytes - 34) >> 8);
    frame[39] = (uint8_t)(bytes - 34);
    frame[34] = (uint8_t)(number >> 8);
    frame[35] = (uint8_t)number;
    for (i = HEADERS_BYTES; i < bytes; i++)
        frame[i] = (uint8_t)(number + i * 3);
}

/* From the other end, from flows with consecutive ports. */
static inline void peer_sends(unsigned first, unsigned count, unsigned bytes)
{
    uint8_t frame[4096];
    unsigned i;

    for (i = 0; i < count; i++) {
        make_frame(frame, first + i, bytes);
        assert_int_equal(write(peer, frame, bytes), bytes);
    }
}

static bool seen[65536];

/* Checks received frames; each number comes once. */
static inline void check(struct us_pkt *const *pkts, unsigned n, unsigned bytes)
{
    uint8_t frame[4096];
    unsigned i;

    for (i = 0; i < n; i++) {
        unsigned number = (unsigned)pkts[i]->data[34] << 8 | pkts[i]->data[35];

        make_frame(frame, number, bytes);
        assert_int_equal(pkts[i]->len, bytes);
        assert_memory_equal(pkts[i]->data, frame, bytes);
        assert_in_range(pkts[i]->room, bytes, 4096 - 256);
        assert_false(seen[number]);
        seen[number] = true;
    }
}

/* Receives frames until there are as many, which are on the way. */
static inline void receive(struct nic *nic, unsigned count, unsigned bytes)
{
    struct us_pkt *pkts[NIC_BURST_MAX];
    unsigned received = 0, n;

    while (received < count) {
        n = nic_rx_burst(nic, pkts, NIC_BURST_MAX);
        check(pkts, n, bytes);
        nic_release(nic, pkts, n);
        received += n;
        if (n == 0)
            assert_int_equal(nic_wait(nic, HOUR_US), 0);
    }
    assert_int_equal(received, count);
}

/* Sends a burst of numbered frames. Returns how many were accepted. */
static inline unsigned stack_sends(struct nic *nic, unsigned first, unsigned count)
{
    struct us_pkt *pkts[NIC_BURST_MAX];
    unsigned sent, i;

    assert_int_equal(nic_alloc(nic, pkts, count), count);
    for (i = 0; i < count; i++) {
        make_frame(pkts[i]->data, first + i, FRAME_BYTES);
        pkts[i]->len = FRAME_BYTES;
    }
    sent = nic_tx_burst(nic, pkts, count);
    nic_release(nic, pkts + sent, count - sent);
    return sent;
}

/* The next frames at the other end have these numbers. */
static inline void peer_receives(unsigned first, unsigned count)
{
    uint8_t frame[4096], wanted[4096];
    struct sockaddr_ll from;
    socklen_t from_bytes;
    unsigned i;
    ssize_t n;

    for (i = 0; i < count; i++) {
        do { /* the socket sees what it has sent, too */
            from_bytes = sizeof(from);
            n = recvfrom(peer, frame, sizeof(frame), 0, (struct sockaddr *)&from, &from_bytes);
            assert_true(n > 0);
        } while (from.sll_pkttype == PACKET_OUTGOING || frame[23] != 17);
        make_frame(wanted, first + i, FRAME_BYTES);
        assert_int_equal(n, FRAME_BYTES);
        assert_memory_equal(frame, wanted, FRAME_BYTES);
    }
}

/* ---- running the tests ------------------------------------------------------------------- */

static inline int find_obstacle(void **state)
{
    if (unshare(CLONE_NEWNET) < 0)
        skip_reason = "no own network namespace";
    else
        no_ip6_for_new_interfaces();
    if (skip_reason != NULL)
        printf("skipping: %s\n", skip_reason);
    return 0;
}

static inline int valgrind_obstacle(void)
{
    printf("skipped: valgrind knows only a part of what libbpf gives to bpf()\n");
    return 77;
}

/* Runs the tests of a program, except under valgrind. */
#define RUN_TESTS(tests)                                                                           \
    (getenv("UCACHED_VALGRIND") ? valgrind_obstacle()                                              \
                                : cmocka_run_group_tests(tests, find_obstacle, NULL))

#define TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

#endif
