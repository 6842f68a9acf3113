/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A TAP device in a network namespace of this process. Where that is not permitted, the tests that
 * need a device are skipped with the reason.
 */
#ifndef TAP_RIG_H
#define TAP_RIG_H

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "nic_testing.h"

#define DEVICE "unictest0"

static const char *skip_reason; /* null: the tests can run */

static const struct nic_tap_config base_config = {
    .name = DEVICE, .host_addr = {10, 99, 0, 1}, .host_prefix_len = 24};

/* A kernel that allows the namespace may still not allow a device in it. */
static inline int enter_own_namespace(void **state)
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

static inline void need_device(void)
{
    if (skip_reason != NULL)
        skip();
}

static inline struct nic *open_tap(const struct nic_tap_config *config)
{
    char error[NIC_ERROR_MAX] = "";
    struct nic *nic = NULL;

    if (nic_tap_open(config, 1, &nic, error) < 0)
        print_error("%s\n", error);
    assert_non_null(nic);
    return nic;
}

static inline uint64_t now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* Polls for a frame with this EtherType, for at most 60 s. The caller releases it. */
static inline struct us_pkt *receive_type(struct nic *nic, uint16_t type)
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

static inline void get_flags(const char *name, struct ifreq *request)
{
    int sock = socket(AF_INET, SOCK_DGRAM, 0);

    memset(request, 0, sizeof(*request));
    snprintf(request->ifr_name, sizeof(request->ifr_name), "%s", name);
    assert_int_equal(ioctl(sock, SIOCGIFFLAGS, request), 0);
    close(sock);
}

static inline void set_up(const char *name, int up)
{
    int sock = socket(AF_INET, SOCK_DGRAM, 0);
    struct ifreq request;

    get_flags(name, &request);
    request.ifr_flags = (short)(up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP);
    assert_int_equal(ioctl(sock, SIOCSIFFLAGS, &request), 0);
    close(sock);
}

/* Sends one datagram from the host to an address behind the device. */
static inline void host_sends_udp(const char *to)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(9)};
    int sock = socket(AF_INET, SOCK_DGRAM, 0);

    inet_pton(AF_INET, to, &addr.sin_addr);
    assert_int_equal(sendto(sock, "hello", 5, 0, (struct sockaddr *)&addr, sizeof(addr)), 5);
    close(sock);
}

#endif
