/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The TAP device against the kernel, in a network namespace of this process. Where that is not
 * permitted, all tests but those of error messages are skipped with the reason.
 */
#define _GNU_SOURCE /* unshare */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "nic_testing.h"

#define DEVICE "unictest0"

static const char *skip_reason; /* null: the tests can run */

static const struct nic_tap_config base_config = {
    .name = DEVICE, .host_addr = {10, 99, 0, 1}, .host_prefix_len = 24};

/* A kernel that allows the namespace may still not allow a device in it. */
static int enter_own_namespace(void **state)
{
    static char reason[NIC_ERROR_MAX];
    struct nic *nic;

    if (unshare(CLONE_NEWNET) < 0) {
        snprintf(reason, sizeof(reason), "no own network namespace: %s", strerror(errno));
        skip_reason = reason;
    } else if (access("/dev/net/tun", R_OK | W_OK) < 0) {
        snprintf(reason, sizeof(reason), "/dev/net/tun: %s", strerror(errno));
        skip_reason = reason;
    } else if (nic_tap_open(&base_config, 1, &nic, reason) == 0) {
        nic_close(nic);
    } else if (strstr(reason, "CAP_NET_ADMIN") != NULL) {
        skip_reason = reason;
    }
    if (skip_reason != NULL)
        printf("skipping the tests with a device: %s\n", skip_reason);
    return 0;
}

static void need_device(void)
{
    if (skip_reason != NULL)
        skip();
}

static struct nic *open_tap(const struct nic_tap_config *config)
{
    char error[NIC_ERROR_MAX] = "";
    struct nic *nic = NULL;

    if (nic_tap_open(config, 1, &nic, error) < 0)
        print_error("%s\n", error);
    assert_non_null(nic);
    return nic;
}

static uint64_t now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* Polls for a frame with this EtherType, for at most 60 s. The caller releases it. */
static struct us_pkt *receive_type(struct nic *nic, uint16_t type)
{
    uint64_t end_us = now_us() + 60000000;

    while (now_us() < end_us) {
        struct us_pkt *pkt;

        if (nic_rx_burst(nic, &pkt, 1) == 0) {
            assert_int_equal(nic_wait(nic, 50000), 0);
            continue;
        }
        if (pkt->len >= 14 && (pkt->data[12] << 8 | pkt->data[13]) == type)
            return pkt;
        nic_release(nic, &pkt, 1);
    }
    return NULL;
}

static void get_flags(const char *name, struct ifreq *request)
{
    int sock = socket(AF_INET, SOCK_DGRAM, 0);

    memset(request, 0, sizeof(*request));
    snprintf(request->ifr_name, sizeof(request->ifr_name), "%s", name);
    assert_int_equal(ioctl(sock, SIOCGIFFLAGS, request), 0);
    close(sock);
}

static void set_up(const char *name, int up)
{
    int sock = socket(AF_INET, SOCK_DGRAM, 0);
    struct ifreq request;

    get_flags(name, &request);
    request.ifr_flags = (short)(up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP);
    assert_int_equal(ioctl(sock, SIOCSIFFLAGS, &request), 0);
    close(sock);
}

/* Sends one datagram from the host to an address behind the device. */
static void host_sends_udp(const char *to)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(9)};
    int sock = socket(AF_INET, SOCK_DGRAM, 0);

    inet_pton(AF_INET, to, &addr.sin_addr);
    assert_int_equal(sendto(sock, "hello", 5, 0, (struct sockaddr *)&addr, sizeof(addr)), 5);
    close(sock);
}

static void configures_the_host_side(void **state)
{
    struct nic_tap_config config = base_config;
    struct ifaddrs *addrs, *a;
    struct ifreq request;
    struct nic *nic;
    int sock, found = 0;

    need_device();
    config.mtu = 1400;
    config.host_prefix_len = 22;
    nic = open_tap(&config);
    assert_int_equal(nic->mtu, 1400);
    assert_int_equal(nic->mac[0] & 3, 2);

    assert_int_equal(getifaddrs(&addrs), 0);
    for (a = addrs; a != NULL; a = a->ifa_next) {
        char text[INET_ADDRSTRLEN];

        if (strcmp(a->ifa_name, DEVICE) != 0 || a->ifa_addr == NULL)
            continue;
        assert_int_not_equal(a->ifa_addr->sa_family, AF_INET6);
        if (a->ifa_addr->sa_family != AF_INET)
            continue;
        found++;
        assert_string_equal(
            inet_ntop(AF_INET, &((struct sockaddr_in *)a->ifa_addr)->sin_addr, text, sizeof(text)),
            "10.99.0.1");
        assert_string_equal(inet_ntop(AF_INET, &((struct sockaddr_in *)a->ifa_netmask)->sin_addr,
                                      text, sizeof(text)),
                            "255.255.252.0");
    }
    freeifaddrs(addrs);
    assert_int_equal(found, 1);

    get_flags(DEVICE, &request);
    assert_true((request.ifr_flags & (IFF_UP | IFF_RUNNING)) == (IFF_UP | IFF_RUNNING));
    sock = socket(AF_INET, SOCK_DGRAM, 0);
    assert_int_equal(ioctl(sock, SIOCGIFMTU, &request), 0);
    assert_int_equal(request.ifr_mtu, 1400);
    assert_int_equal(ioctl(sock, SIOCGIFHWADDR, &request), 0);
    assert_memory_not_equal(request.ifr_hwaddr.sa_data, nic->mac, 6);
    close(sock);
    nic_close(nic);
}

static unsigned open_descriptors(void)
{
    unsigned count = 0;
    int fd;

    for (fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* Close leaves neither the device nor a descriptor. */
static void close_removes_the_device(void **state)
{
    struct nic *nic;
    unsigned before = open_descriptors();
    int i;

    need_device();
    for (i = 0; i < 3; i++) {
        nic = open_tap(&base_config);
        assert_int_not_equal(if_nametoindex(DEVICE), 0);
        nic_close(nic);
        assert_int_equal(if_nametoindex(DEVICE), 0);
    }
    assert_int_equal(open_descriptors(), before);
}

static void the_end_of_the_process_removes_the_device(void **state)
{
    int status = 0, tries;
    pid_t pid;

    need_device();
    pid = fork();
    if (pid == 0) {
        static struct nic *nic; /* reachable for leak checkers */
        char error[NIC_ERROR_MAX];

        if (nic_tap_open(&base_config, 1, &nic, error) < 0)
            _exit(1);
        kill(getpid(), SIGKILL);
        _exit(2);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    for (tries = 0; tries < 6000 && if_nametoindex(DEVICE) != 0; tries++)
        usleep(10000);
    assert_int_equal(if_nametoindex(DEVICE), 0);
}

static void the_host_sends_arp_for_the_address(void **state)
{
    static const uint8_t broadcast[6] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    static const uint8_t asked[4] = {10, 99, 0, 20};
    struct nic *nic;
    struct us_pkt *pkt;

    need_device();
    nic = open_tap(&base_config);
    host_sends_udp("10.99.0.20");
    pkt = receive_type(nic, ETH_P_ARP);
    assert_non_null(pkt);
    assert_true(pkt->len >= 42);
    assert_memory_equal(pkt->data, broadcast, 6);
    assert_memory_equal(pkt->data + 38, asked, 4);
    nic_release(nic, &pkt, 1);
    assert_true(stat_of(nic, "tap_rx_frames") >= 1);
    assert_true(stat_of(nic, "tap_rx_bytes") >= 42);
    assert_int_equal(stat_of(nic, "tap_pool_in_use"), 0);
    nic_close(nic);
}

/* The host completes checksums, and one read returns one frame, up to the MTU. */
static void frames_of_the_host_are_complete(void **state)
{
    enum { PAYLOAD = 9000 - 28 };
    static uint8_t payload[PAYLOAD];
    struct nic_tap_config config = base_config;
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(9)};
    struct nic *nic;
    struct us_pkt *pkt;
    uint32_t sum = 0, i;
    int sock, one = 1;

    need_device();
    config.mtu = 9000;
    nic = open_tap(&config);
    sock = socket(AF_INET, SOCK_DGRAM, 0);
    assert_int_equal(setsockopt(sock, SOL_SOCKET, SO_BROADCAST, &one, sizeof(one)), 0);
    inet_pton(AF_INET, "10.99.0.255", &addr.sin_addr);
    assert_int_equal(sendto(sock, payload, PAYLOAD, 0, (struct sockaddr *)&addr, sizeof(addr)),
                     PAYLOAD);
    close(sock);
    pkt = receive_type(nic, ETH_P_IP);
    assert_non_null(pkt);
    assert_int_equal(pkt->len, 9014);
    /* The UDP checksum, with its pseudo header: addresses, protocol, length. */
    for (i = 26; i < pkt->len; i += 2)
        sum += (uint32_t)(pkt->data[i] << 8 | pkt->data[i + 1]);
    sum += 17 + (pkt->len - 34);
    while (sum >> 16 != 0)
        sum = (sum & 0xffff) + (sum >> 16);
    assert_int_equal(sum, 0xffff);
    nic_release(nic, &pkt, 1);
    nic_close(nic);
}

/* An unused link is silent: no IPv6 announcements. */
static void an_unused_link_is_silent(void **state)
{
    struct nic *nic;
    uint64_t end_us;
    unsigned frames = 0;

    need_device();
    nic = open_tap(&base_config);
    for (end_us = now_us() + 300000; now_us() < end_us;) {
        struct us_pkt *pkt;

        nic_wait(nic, 50000);
        if (nic_rx_burst(nic, &pkt, 1) == 1) {
            frames++;
            nic_release(nic, &pkt, 1);
        }
    }
    assert_int_equal(frames, 0);
    assert_int_equal(stat_of(nic, "tap_rx_errors"), 0);
    nic_close(nic);
}

static int open_packet_socket(const char *name)
{
    struct sockaddr_ll addr = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_LOOPBACK)};
    struct timeval timeout = {.tv_sec = 60};
    int sock = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_LOOPBACK));

    assert_true(sock >= 0);
    addr.sll_ifindex = (int)if_nametoindex(name);
    assert_int_equal(bind(sock, (struct sockaddr *)&addr, sizeof(addr)), 0);
    setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    return sock;
}

/* The host's MTU may be raised beyond ours: such a frame is dropped, not cut. */
static void a_frame_without_room_is_dropped(void **state)
{
    static uint8_t frame[4000] = {[12] = ETH_P_LOOPBACK >> 8, [13] = ETH_P_LOOPBACK & 0xff};
    struct ifreq request;
    struct us_pkt *pkt;
    struct nic *nic;
    int sock;

    need_device();
    nic = open_tap(&base_config);
    get_flags(DEVICE, &request);
    request.ifr_mtu = 9000;
    sock = open_packet_socket(DEVICE);
    assert_int_equal(ioctl(sock, SIOCSIFMTU, &request), 0);
    assert_int_equal(send(sock, frame, sizeof(frame), 0), sizeof(frame));
    frame[14] = 'b';
    assert_int_equal(send(sock, frame, 60, 0), 60);
    pkt = receive_type(nic, ETH_P_LOOPBACK);
    assert_non_null(pkt);
    assert_int_equal(pkt->data[14], 'b');
    nic_release(nic, &pkt, 1);
    assert_int_equal(stat_of(nic, "tap_rx_cut"), 1);
    close(sock);
    nic_close(nic);
}

static void our_frames_reach_the_host_in_order(void **state)
{
    struct nic *nic;
    struct us_pkt *pkts[NIC_BURST_MAX];
    unsigned i;
    int sock;

    need_device();
    nic = open_tap(&base_config);
    sock = open_packet_socket(DEVICE);
    assert_int_equal(nic_alloc(nic, pkts, NIC_BURST_MAX), NIC_BURST_MAX);
    for (i = 0; i < NIC_BURST_MAX; i++) {
        fill_frame(pkts[i], i, 100 + i);
        memset(pkts[i]->data, 0xff, 6);
        memcpy(pkts[i]->data + 6, nic->mac, 6);
        pkts[i]->data[12] = ETH_P_LOOPBACK >> 8;
        pkts[i]->data[13] = ETH_P_LOOPBACK & 0xff;
    }
    assert_int_equal(nic_tx_burst(nic, pkts, NIC_BURST_MAX), NIC_BURST_MAX);
    for (i = 0; i < NIC_BURST_MAX; i++) {
        uint8_t frame[2000];
        uint32_t number;

        assert_int_equal(recv(sock, frame, sizeof(frame), 0), 100 + i);
        memcpy(&number, frame + 14, sizeof(number));
        assert_int_equal(number, i);
        assert_memory_equal(frame + 6, nic->mac, 6);
        assert_int_equal(frame[99], frame_byte(i, 99));
    }
    close(sock);
    assert_int_equal(stat_of(nic, "tap_tx_frames"), NIC_BURST_MAX);
    assert_int_equal(stat_of(nic, "tap_tx_drops"), 0);
    assert_int_equal(stat_of(nic, "tap_pool_in_use"), 0);
    nic_close(nic);
}

static void refused_frames_are_dropped_and_counted(void **state)
{
    struct nic *nic;
    struct us_pkt *pkt;

    need_device();
    nic = open_tap(&base_config);
    assert_int_equal(nic_alloc(nic, &pkt, 1), 1);
    pkt->len = 5; /* no Ethernet header */
    memset(pkt->data, 0, pkt->len);
    assert_int_equal(nic_tx_burst(nic, &pkt, 1), 1);
    assert_int_equal(stat_of(nic, "tap_tx_drops"), 1);
    set_up(DEVICE, 0);
    assert_int_equal(send_frame(nic, 1, 60), 1);
    assert_int_equal(stat_of(nic, "tap_tx_drops"), 2);
    assert_int_equal(nic_wait(nic, 0), 0);
    set_up(DEVICE, 1);
    assert_int_equal(send_frame(nic, 2, 60), 1);
    assert_int_equal(stat_of(nic, "tap_tx_frames"), 1);
    assert_int_equal(stat_of(nic, "tap_pool_in_use"), 0);
    nic_close(nic);
}

/* The descriptor of the only TAP device that this process has open. */
static int tap_fd(void)
{
    char link[64], target[64];
    int fd;

    for (fd = 3; fd < 1024; fd++) {
        ssize_t len;

        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        len = readlink(link, target, sizeof(target) - 1);
        target[len > 0 ? len : 0] = '\0';
        if (strcmp(target, "/dev/net/tun") == 0)
            return fd;
    }
    fail_msg("no descriptor of /dev/net/tun");
    return -1;
}

/* A socket takes the device's place, since the kernel's TAP device is hardly ever full. */
static void a_full_device_leaves_frames_to_the_caller(void **state)
{
    struct us_pkt *pkts[NIC_BURST_MAX];
    uint8_t frame[2000];
    uint32_t number;
    unsigned i, n, sent = 0, got = 0;
    struct nic *nic;
    int ends[2];

    need_device();
    nic = open_tap(&base_config);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends), 0);
    assert_true(dup2(ends[0], tap_fd()) >= 0);
    do {
        assert_int_equal(nic_alloc(nic, pkts, NIC_BURST_MAX), NIC_BURST_MAX);
        for (i = 0; i < NIC_BURST_MAX; i++)
            fill_frame(pkts[i], sent + i, 1500);
        n = nic_tx_burst(nic, pkts, NIC_BURST_MAX);
        nic_release(nic, pkts + n, NIC_BURST_MAX - n);
        sent += n;
        assert_true(sent < 100000);
    } while (n == NIC_BURST_MAX);
    assert_int_equal(stat_of(nic, "tap_tx_full"), 1);
    assert_int_equal(stat_of(nic, "tap_tx_drops"), 0);
    assert_int_equal(stat_of(nic, "tap_tx_frames"), sent);
    while (recv(ends[1], frame, sizeof(frame), 0) == 1500) {
        memcpy(&number, frame + 14, sizeof(number));
        assert_int_equal(number, got++);
    }
    assert_int_equal(got, sent);
    assert_int_equal(stat_of(nic, "tap_pool_in_use"), 0);
    close(ends[0]);
    close(ends[1]);
    nic_close(nic);
}

static void an_empty_pool_leaves_frames_in_the_kernel(void **state)
{
    struct us_pkt *pkts[1024];
    struct us_pkt *pkt;
    struct nic *nic;
    unsigned n;

    need_device();
    nic = open_tap(&base_config);
    n = nic_alloc(nic, pkts, 1024);
    assert_true(n >= 4 * NIC_BURST_MAX && n < 1024);
    host_sends_udp("10.99.0.21");
    assert_int_equal(nic_wait(nic, 2000000), 0);
    assert_int_equal(nic_rx_burst(nic, &pkt, 1), 0);
    assert_true(stat_of(nic, "tap_pool_exhausted") >= 2);
    nic_release(nic, pkts, n);
    pkt = receive_type(nic, ETH_P_ARP);
    assert_non_null(pkt);
    nic_release(nic, &pkt, 1);
    nic_close(nic);
}

static void wait_times_out(void **state)
{
    struct nic *nic;
    uint64_t start_us;

    need_device();
    nic = open_tap(&base_config);
    start_us = now_us();
    assert_int_equal(nic_wait(nic, 30000), 0);
    assert_true(now_us() - start_us >= 29000);
    nic_close(nic);
}

static void *wake_later(void *arg)
{
    usleep(50000);
    nic_wake(arg);
    return NULL;
}

/* A wake-up that is lost leaves this test waiting until its time limit. */
static void wake_interrupts_wait(void **state)
{
    struct nic *nic;
    pthread_t thread;
    uint64_t start_us;

    need_device();
    nic = open_tap(&base_config);

    /* Woken before the wait: it does not sleep, and the next one does. */
    nic_wake(nic);
    nic_wake(nic);
    assert_int_equal(nic_wait(nic, UINT64_MAX), 0);
    start_us = now_us();
    assert_int_equal(nic_wait(nic, 20000), 0);
    assert_true(now_us() - start_us >= 19000);

    /* Woken from another thread. */
    assert_int_equal(pthread_create(&thread, NULL, wake_later, nic), 0);
    assert_int_equal(nic_wait(nic, UINT64_MAX), 0);
    pthread_join(thread, NULL);
    nic_close(nic);
}

static struct nic *signalled_nic;

static void on_alarm(int signal_number)
{
    nic_wake(signalled_nic);
}

static void a_signal_handler_may_wake(void **state)
{
    struct itimerval soon = {.it_value = {.tv_usec = 50000}};
    struct nic *nic;

    need_device();
    nic = open_tap(&base_config);
    signalled_nic = nic;
    signal(SIGALRM, on_alarm);
    setitimer(ITIMER_REAL, &soon, NULL);
    assert_int_equal(nic_wait(nic, UINT64_MAX), 0);
    signal(SIGALRM, SIG_DFL);
    nic_close(nic);
}

/* Removes the device with `ip link del`. Returns whether that worked. */
static bool remove_device(void)
{
    int status = -1;
    pid_t pid = fork();

    if (pid == 0) {
        execlp("ip", "ip", "link", "del", DEVICE, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void a_device_that_is_gone_is_reported(void **state)
{
    struct nic *nic;
    struct us_pkt *pkt;

    need_device();
    nic = open_tap(&base_config);
    if (!remove_device()) {
        nic_close(nic);
        skip();
    }
    assert_int_equal(nic_wait(nic, 1000000), -ENODEV);
    assert_int_equal(nic_rx_burst(nic, &pkt, 1), 0);
    assert_int_equal(send_frame(nic, 1, 60), 1);
    assert_int_equal(stat_of(nic, "tap_tx_drops"), 1);
    assert_int_equal(nic_wait(nic, 1000000), -ENODEV);
    nic_close(nic);
}

static void a_given_mac_is_used(void **state)
{
    struct nic_tap_config config = base_config;
    static const uint8_t mac[6] = {0x02, 0, 0, 0xab, 0xcd, 0xef};
    struct nic *nic;

    need_device();
    memcpy(config.mac, mac, 6);
    nic = open_tap(&config);
    assert_memory_equal(nic->mac, mac, 6);
    nic_close(nic);
}

/* Random addresses are locally administered addresses of one station. */
static void a_random_mac_is_of_one_station(void **state)
{
    struct nic *nic;
    unsigned i;

    need_device();
    for (i = 0; i < 16; i++) {
        nic = open_tap(&base_config);
        assert_int_equal(nic->mac[0] & 3, 2);
        nic_close(nic);
    }
}

/* The kernel's setting of the device for IPv6. */
static int ipv6_setting(const char *name)
{
    char path[96];
    int value = -1;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/sys/net/ipv6/conf/" DEVICE "/%s", name);
    file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%d", &value), 1);
    fclose(file);
    return value;
}

/* Whether the host's side has this IPv6 address. */
static bool has_ipv6(const uint8_t bytes[16])
{
    struct ifaddrs *addrs, *a;
    bool found = false;

    assert_int_equal(getifaddrs(&addrs), 0);
    for (a = addrs; a != NULL; a = a->ifa_next) {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)(void *)a->ifa_addr;

        if (strcmp(a->ifa_name, DEVICE) == 0 && in6 != NULL && in6->sin6_family == AF_INET6)
            found |= memcmp(&in6->sin6_addr, bytes, 16) == 0;
    }
    freeifaddrs(addrs);
    return found;
}

/*
 * With an IPv6 address the kernel neither looks for a router on the link nor for another station
 * with the address, for which the first packets would have to wait.
 */
static void an_ipv6_address_is_not_announced(void **state)
{
    struct nic_tap_config config = base_config;
    struct nic *nic;

    need_device();
    if (access("/proc/sys/net/ipv6/conf/default/accept_dad", W_OK) < 0)
        skip(); /* no IPv6 in the kernel, or a read-only /proc/sys */
    assert_int_equal(inet_pton(AF_INET6, "fd99::1", config.host_addr6), 1);
    config.host_prefix6_len = 128;
    nic = open_tap(&config);
    assert_true(has_ipv6(config.host_addr6));
    assert_int_equal(ipv6_setting("disable_ipv6"), 0);
    assert_int_equal(ipv6_setting("accept_dad"), 0);
    assert_int_equal(ipv6_setting("accept_ra"), 0);
    assert_int_equal(ipv6_setting("router_solicitations"), 0);
    nic_close(nic);
}

/* Another process uses the queues of a device after this one, with their address. */
static void queues_of_another_process_are_used(void **state)
{
    static const uint8_t mac[6] = {0x02, 0, 0, 0xab, 0xcd, 0xef};
    struct nic_tap_config config = base_config;
    struct nic *first[2], *second[2];
    char error[NIC_ERROR_MAX] = "";
    struct us_pkt *pkt;
    int fds[2];
    unsigned i;

    need_device();
    assert_int_equal(nic_tap_open(&config, 2, first, error), 0);
    for (i = 0; i < 2; i++)
        fds[i] = dup(nic_adoptable_fd(first[i]));
    memcpy(config.mac, mac, sizeof(mac));
    config.adopted_fds = fds;
    assert_int_equal(nic_tap_open(&config, 2, second, error), 0);
    for (i = 0; i < 2; i++)
        nic_close(first[i]);
    for (i = 0; i < 2; i++) {
        assert_memory_equal(second[i]->mac, mac, 6);
        assert_int_equal(nic_alloc(second[i], &pkt, 1), 1);
        memset(pkt->data, 0xff, 60);
        pkt->len = 60;
        assert_int_equal(nic_tx_burst(second[i], &pkt, 1), 1);
        assert_int_equal(stat_of(second[i], "tap_tx_frames"), 1);
    }
    for (i = 0; i < 2; i++)
        nic_close(second[i]);
    assert_int_equal(if_nametoindex(DEVICE), 0);
}

static void a_host_side_without_address(void **state)
{
    struct nic_tap_config config = base_config;
    struct ifreq request;
    struct nic *nic;
    int sock;

    need_device();
    memset(config.host_addr, 0, 4);
    config.host_prefix_len = 0;
    nic = open_tap(&config);
    sock = socket(AF_INET, SOCK_DGRAM, 0);
    get_flags(DEVICE, &request);
    assert_true((request.ifr_flags & IFF_UP) != 0);
    assert_int_equal(ioctl(sock, SIOCGIFADDR, &request), -1);
    close(sock);
    nic_close(nic);
}

/* A network of one address, as of a link between two points. */
static void a_host_side_alone_in_its_network(void **state)
{
    struct nic_tap_config config = base_config;

    need_device();
    config.host_prefix_len = 32;
    nic_close(open_tap(&config));
}

static void assert_refused(const struct nic_tap_config *config, const char *phrase)
{
    char error[NIC_ERROR_MAX] = "";
    struct nic *nic;

    assert_int_equal(nic_tap_open(config, 1, &nic, error), -1);
    if (strstr(error, phrase) == NULL)
        fail_msg("not the expected message: %s", error);
}

/* The device exists until its last queue is closed, and each queue sends independently. */
static void a_device_has_several_queues(void **state)
{
    char error[NIC_ERROR_MAX] = "";
    struct nic *queue[3];
    struct us_pkt *pkt;
    unsigned i;

    need_device();
    assert_int_equal(nic_tap_open(&base_config, 3, queue, error), 0);
    for (i = 0; i < 3; i++) {
        assert_int_equal(queue[i]->queue, i);
        assert_int_equal(queue[i]->queues, 3);
        assert_memory_equal(queue[i]->mac, queue[0]->mac, 6);
        assert_int_equal(nic_alloc(queue[i], &pkt, 1), 1);
        memset(pkt->data, 0xff, 60);
        pkt->len = 60;
        assert_int_equal(nic_tx_burst(queue[i], &pkt, 1), 1);
        assert_int_equal(stat_of(queue[i], "tap_tx_frames"), 1);
    }
    nic_close(queue[0]);
    nic_close(queue[2]);
    assert_int_not_equal(if_nametoindex(DEVICE), 0);
    nic_close(queue[1]);
    assert_int_equal(if_nametoindex(DEVICE), 0);
}

static void a_name_in_use_is_refused(void **state)
{
    struct nic_tap_config config = base_config;
    struct nic *nic;

    need_device();
    nic = open_tap(&base_config);
    assert_refused(&base_config, "tap unictest0: a device of this name exists");
    assert_int_not_equal(if_nametoindex(DEVICE), 0);
    nic_close(nic);
    config.name = "lo";
    assert_refused(&config, "tap lo: a device of this name exists");
}

static void bad_configurations_are_refused(void **state)
{
    static const struct {
        struct nic_tap_config config;
        const char *phrase;
    } cases[] = {
        {{.name = NULL}, "1 to 15 characters"},
        {{.name = ""}, "1 to 15 characters"},
        {{.name = "sixteen-letters-"}, "1 to 15 characters"},
        {{.name = "a/b"}, "no '/'"},
        {{.name = "a b"}, "no '/'"},
        {{.name = "tap%d"}, "no '/'"},
        {{.name = "."}, "not . or .."},
        {{.name = ".."}, "not . or .."},
        {{.name = DEVICE, .mtu = 575}, "between 576 and 9216"},
        {{.name = DEVICE, .mtu = 9217}, "between 576 and 9216"},
        {{.name = DEVICE, .mac = {1, 0, 0, 0, 0, 1}}, "multicast"},
        {{.name = DEVICE, .host_addr = {10, 0, 0, 1}}, "between 1 and 32"},
        {{.name = DEVICE, .host_addr = {10, 0, 0, 1}, .host_prefix_len = 33}, "between 1 and 32"},
        {{.name = DEVICE, .host_addr6 = {0xfd}}, "between 1 and 128"},
        {{.name = DEVICE, .host_addr6 = {0xfd}, .host_prefix6_len = 129}, "between 1 and 128"},
    };
    unsigned i;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_refused(&cases[i].config, cases[i].phrase);
}

static void an_impossible_address_is_refused(void **state)
{
    struct nic_tap_config config = base_config;

    need_device();
    config.host_addr[0] = 224;
    assert_refused(&config, "cannot set the address of the host's side");
    assert_int_equal(if_nametoindex(DEVICE), 0);
}

/* As user nobody: opening /dev/net/tun, or creating the device, is not permitted. */
static void error_without_privileges_says_what_is_needed(void **state)
{
    int status = 0;
    pid_t pid;

    need_device();
    pid = fork();
    if (pid == 0) {
        char error[NIC_ERROR_MAX] = "";
        struct nic *nic;

        if (setgid(65534) < 0 || setuid(65534) < 0)
            _exit(3);
        if (nic_tap_open(&base_config, 1, &nic, error) == 0)
            _exit(1);
        _exit(strstr(error, "needs root or CAP_NET_ADMIN") != NULL ? 0 : 2);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void failure_without_descriptors_leaves_nothing(void **state)
{
    struct rlimit before, few;
    int last;

    need_device();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    for (few = before, last = 0; last < 8; last++) {
        char error[NIC_ERROR_MAX] = "";
        struct nic *nic = NULL;
        int rc;

        few.rlim_cur = (rlim_t)last;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        rc = nic_tap_open(&base_config, 1, &nic, error);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        if (rc == 0)
            nic_close(nic);
        else
            assert_non_null(strstr(error, "tap unictest0: "));
        assert_int_equal(if_nametoindex(DEVICE), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_configurations_are_refused),
        cmocka_unit_test(configures_the_host_side),
        cmocka_unit_test(close_removes_the_device),
        cmocka_unit_test(the_end_of_the_process_removes_the_device),
        cmocka_unit_test(the_host_sends_arp_for_the_address),
        cmocka_unit_test(frames_of_the_host_are_complete),
        cmocka_unit_test(an_unused_link_is_silent),
        cmocka_unit_test(a_frame_without_room_is_dropped),
        cmocka_unit_test(our_frames_reach_the_host_in_order),
        cmocka_unit_test(refused_frames_are_dropped_and_counted),
        cmocka_unit_test(a_full_device_leaves_frames_to_the_caller),
        cmocka_unit_test(an_empty_pool_leaves_frames_in_the_kernel),
        cmocka_unit_test(wait_times_out),
        cmocka_unit_test(wake_interrupts_wait),
        cmocka_unit_test(a_signal_handler_may_wake),
        cmocka_unit_test(a_device_that_is_gone_is_reported),
        cmocka_unit_test(a_given_mac_is_used),
        cmocka_unit_test(a_random_mac_is_of_one_station),
        cmocka_unit_test(an_ipv6_address_is_not_announced),
        cmocka_unit_test(queues_of_another_process_are_used),
        cmocka_unit_test(a_host_side_without_address),
        cmocka_unit_test(a_host_side_alone_in_its_network),
        cmocka_unit_test(a_device_has_several_queues),
        cmocka_unit_test(a_name_in_use_is_refused),
        cmocka_unit_test(an_impossible_address_is_refused),
        cmocka_unit_test(error_without_privileges_says_what_is_needed),
        cmocka_unit_test(failure_without_descriptors_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, enter_own_namespace, NULL);
}
