/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A TCP client on a TAP device: connects, sends a text and prints the reply.
 *
 *     ip tuntap add dev tap0 mode tap && ip addr add 10.7.0.1/24 dev tap0 && ip link set tap0 up
 *     ./tap_client tap0 10.7.0.2 10.7.0.1 7 'hello'
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

enum { FRAME_BYTES = 1514 };

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

static struct us_stack *stack_start(const struct us_addr *own)
{
    static const unsigned char mac[6] = {2, 0, 0, 7, 0, 2};
    static void *memory; /* the stack's, until the program ends */
    struct us_config config;
    struct us_stack *stack;

    us_config_defaults(&config);
    memcpy(config.mac, mac, sizeof(mac));
    memory = calloc(1, us_memory_bytes(&config));
    if (memory == NULL || getrandom(config.secret, sizeof(config.secret), 0) < 0)
        exit(1);
    stack = us_create(&config, memory, us_memory_bytes(&config), clock_us());
    us_addr_add(stack, own, 24);
    return stack;
}

/* Milliseconds to sleep unless a frame arrives; at most a second. */
static int wait_ms(u_u64 now_us, u_u64 at_us)
{
    if (at_us <= now_us)
        return 0;
    return at_us - now_us < 1000000 ? (int)((at_us - now_us) / 1000) + 1 : 1000;
}

/* Returns 0 while the connection exists, 1 after a normal end, else 2. */
static int handle(struct us_stack *stack, const struct us_event *event, const char *text)
{
    if (event->type == US_EV_CONNECTED) {
        us_send(stack, event->conn, text, (u_u32)strlen(text));
        us_close(stack, event->conn); /* the reply is still received */
    } else if (event->type == US_EV_DATA) {
        fwrite(event->data, 1, event->len, stdout);
    }
    if (event->type != US_EV_CLOSED)
        return 0;
    return event->reason == US_CLOSE_NORMAL ? 1 : 2;
}

int main(int argc, char **argv)
{
    static unsigned char frame[FRAME_BYTES];
    struct us_addr own = {US_IP4, {0}}, remote = {US_IP4, {0}};
    struct us_pkt pkt, *pkts[1] = {&pkt};
    struct us_event event;
    struct us_stack *stack;
    int fd, done = 0;

    if (argc != 6 || inet_pton(AF_INET, argv[2], own.bytes) != 1 ||
        inet_pton(AF_INET, argv[3], remote.bytes) != 1) {
        fprintf(stderr, "usage: tap_client DEVICE OWN_ADDRESS REMOTE_ADDRESS PORT TEXT\n");
        return 2;
    }
    fd = tap_open(argv[1]);
    stack = stack_start(&own);
    us_connect(stack, &remote, (u_u16)atoi(argv[4]), 0, NULL, NULL);
    while (!done) {
        struct pollfd ready = {fd, POLLIN, 0};
        long got;

        poll(&ready, 1, wait_ms(clock_us(), us_deadline(stack)));
        memset(&pkt, 0, sizeof(pkt));
        pkt.data = frame;
        got = read(fd, frame, sizeof(frame));
        pkt.len = got > 0 ? (u_u32)got : 0;
        us_input(stack, pkts, got > 0, clock_us());
        while (us_next_event(stack, &event))
            done = handle(stack, &event, argv[5]);
        for (pkt.room = sizeof(frame); us_output(stack, pkts, 1, clock_us()) == 1;)
            if (write(fd, frame, pkt.len) < 0)
                perror("write"); /* counts as a lost frame: TCP retransmits */
    }
    return done == 1 ? 0 : 1;
}
