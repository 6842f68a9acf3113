/* SPDX-License-Identifier: BSD-3-Clause */
/* ucping's settings and its two transports. */
#ifndef UCPING_UCPING_H
#define UCPING_UCPING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <time.h>

#include "common/host.h"
#include "conv.h"

#define UCPING_PORT "7007"
#define UCPING_CONNECTIONS_MAX 10000

/* What has gone from one thread to the other, with --threading=split and merge. */
struct ucping_passed {
    uint64_t records;
    uint64_t full;  /* times there was no room for more */
    uint64_t wakes; /* of the other thread */
};

struct settings {
    bool listen;
    enum mode mode;
    uint32_t bytes;
    uint64_t count;
    double seconds;
    unsigned connections;
    bool poll;                     /* never sleeps */
    bool copy;                     /* own stack: bulk is copied instead of queued by reference */
    enum net_threading threading;  /* own stack */
    struct ucping_passed events;   /* from the stack to the application */
    struct ucping_passed commands; /* back */
    unsigned without;              /* enum nic_dpdk_without, of the switches */
    bool json;
    char *counted; /* own stack: what the link has counted, the members of a JSON object; owned */
    const char *peer; /* HOST[:PORT]; of a server: [HOST:]PORT */
    struct sockaddr_storage addr;
    socklen_t addr_len;
    struct link_options link;
    char error[LINK_ERROR_MAX];
};

/* What the signals ask for. */
extern atomic_bool ucping_stop;

static inline uint64_t ucping_clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/*
 * Each runs until the end of the game, which is null for a server: that runs until ucping_stop. The
 * game's times are set; what opening and closing a device takes is not in them. Returns 0, or -1
 * with settings->error.
 */
int ucping_sock(struct settings *s, struct game *game);
int ucping_stack(struct settings *s, struct game *game);

/* All connections are open: the time counts from now on. */
void ucping_begin(const struct settings *s, struct game *game);

/* Says that the server can be reached from now on. */
void ucping_say_listening(const struct settings *s);

/* Sets settings->error. Returns -1. */
__attribute__((format(printf, 2, 3))) int ucping_fail(struct settings *s, const char *format, ...);

#endif
