/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A TCP server on a TAP device, small enough for a device with 256 KiB: returns what it receives.
 *
 *     ip tuntap add dev tap0 mode tap && ip addr add 10.7.0.1/24 dev tap0 && ip link set tap0 up
 *     ./tap_server tap0 10.7.0.2 7
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>
#include <ustack/ustack.h>

enum { FRAME_BYTES = 1514, MEMORY_BYTES = 256 * 1024 };

static u_u64 clock_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (u_u64)now.tv_sec * 1000000 + (u_u64)now.tv_nsec / 1000;
}

static int tap_open(const char *name)
{
    static struct ifreq request;
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK);

    snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
    request.ifr_flags = IFF_TAP | IFF_NO_PI;
    if (fd < 0 || ioctl(fd, TUNSETIFF, &request) < 0) {
        perror(name);
        exit(1);
    }
    return fd;
}

/* Eight connections of 8 KiB in each direction; docs/embedding.md says what each bound costs. */
static struct us_stack *stack_start(const struct us_addr *own)
{
    static const unsigned char mac[6] = {2, 0, 0, 7, 0, 3};
    static u_u64 memory[MEMORY_BYTES / sizeof(u_u64)];
    struct us_config config;
    struct us_stack *stack;

    us_config_defaults(&config);
    memcpy(config.mac, mac, sizeof(mac));
    config.conn_max = config.orphans_max = config.half_open_max = config.time_wait_max = 8;
    config.neighbour_max = config.listen_max = config.datagram_max = 8;
    config.reassembly_max = 1;
    config.reassembly_bytes = 1500;
    config.send_queue_bytes = config.recv_window_bytes = 8 * 1024;
    config.buffer_bytes = 8 * (8 + 8) * 1024;
    if (us_memory_bytes(&config) > sizeof(memory) ||
        getrandom(config.secret, sizeof(config.secret), 0) < 0)
        exit(1);
    stack = us_create(&config, memory, sizeof(memory), clock_us());
    us_addr_add(stack, own, 24);
    return stack;
}

/* Echoes; what does not fit into the send queue is kept, which closes the peer's window. */
static void handle(struct us_stack *stack, const struct us_event *event)
{
    long sent;

    if (event->type == US_EV_DATA) {
        sent = us_send(stack, event->conn, event->data, event->len);
        if (sent >= 0 && (u_u32)sent < event->len)
            us_recv_keep(stack, event->conn, event->data + sent, event->len - (u_u32)sent);
    } else if (event->type == US_EV_SENDABLE) {
        us_recv_resume(stack, event->conn);
    } else if (event->type == US_EV_PEER_CLOSED) {
        us_close(stack, event->conn);
    }
}

int main(int argc, char **argv)
{
    static unsigned char frame[FRAME_BYTES];
    struct us_addr own = {US_IP4, {0}};
    struct us_pkt pkt, *pkts[1] = {&pkt};
    struct us_event event;
    struct us_stack *stack;
    int fd;

    if (argc != 4 || inet_pton(AF_INET, argv[2], own.bytes) != 1) {
        fprintf(stderr, "usage: tap_server DEVICE ADDRESS PORT\n");
        return 2;
    }
    fd = tap_open(argv[1]);
    stack = stack_start(&own);
    us_listen(stack, (u_u16)atoi(argv[3]), NULL);
    for (;;) {
        struct pollfd ready = {fd, POLLIN, 0};
        u_u64 at_us = us_deadline(stack), now_us = clock_us();
        long got;

        poll(&ready, 1, at_us <= now_us ? 0 : at_us - now_us < 1000000 ? 1 : 1000);
        memset(&pkt, 0, sizeof(pkt));
        pkt.data = frame;
        got = read(fd, frame, sizeof(frame));
        pkt.len = got > 0 ? (u_u32)got : 0;
        us_input(stack, pkts, got > 0, clock_us());
        while (us_next_event(stack, &event))
            handle(stack, &event);
        for (pkt.room = sizeof(frame); us_output(stack, pkts, 1, clock_us()) == 1;)
            if (write(fd, frame, pkt.len) < 0)
                perror("write"); /* counts as a lost frame: TCP retransmits */
    }
}
