/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames between the TAP device and the kernel, and waits for them. */
#define _GNU_SOURCE /* unshare */
#include <linux/if_packet.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "tap_rig.h"

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
    assert_int_equal(stat_of(nic, "tap_rx_frames"), 1); /* the link is silent otherwise */
    assert_int_equal(stat_of(nic, "tap_rx_bytes"), 60);
    close(sock);
    nic_close(nic);
}

static void our_frames_reach_the_host_in_order(void **state)
{
    struct nic *nic;
    struct us_pkt *pkts[NIC_BURST_MAX];
    unsigned i, bytes = 0;
    int sock;

    need_device();
    nic = open_tap(&base_config);
    sock = open_packet_socket(DEVICE);
    assert_int_equal(nic_alloc(nic, pkts, NIC_BURST_MAX), NIC_BURST_MAX);
    for (i = 0; i < NIC_BURST_MAX; i++) {
        fill_frame(pkts[i], i, 100 + i);
        bytes += 100 + i;
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
    assert_int_equal(stat_of(nic, "tap_tx_bytes"), bytes);
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
    assert_int_equal(stat_of(nic, "tap_rx_errors"), 1);
    assert_int_equal(send_frame(nic, 1, 60), 1);
    assert_int_equal(stat_of(nic, "tap_tx_drops"), 1);
    assert_int_equal(nic_wait(nic, 1000000), -ENODEV);
    nic_close(nic);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
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
    };

    return cmocka_run_group_tests(tests, enter_own_namespace, NULL);
}
