/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two stacks on one wire with a virtual clock, for tests: frames take some time, every nth one may
 * be lost, and time jumps to whatever happens next.
 */
#ifndef TEST_USTACK_PAIR_H
#define TEST_USTACK_PAIR_H

#include "base/prng.h"
#include "ustack/ustack.h"

enum { PAIR_FRAME_BYTES = 2048, PAIR_FLIGHT_MAX = 4096, PAIR_BURST = 32 };

struct pair_frame {
    u_u64 arrives_us;
    u_u32 flags;
    u_u32 len;
    u_u8 bytes[PAIR_FRAME_BYTES];
};

/* One host. Frames on their way to it lie in a ring. */
struct pair_host {
    struct us_stack *stack;
    void *memory;
    unsigned long memory_bytes;
    struct pair_frame *ring;
    unsigned head;
    unsigned tail;
    void (*on_event)(struct pair_host *host, const struct us_event *event);
    void (*on_idle)(struct pair_host *host); /* after the events, before output; may be null */
    void *app;
};

struct pair {
    struct pair_host host[2];
    u_u64 now_us;
    u_u32 delay_us;
    u_u32 lose_every; /* 0: none; n: each nth frame with IP in it is lost */
    u_u32 lose_percent;
    struct u_prng prng; /* draws the lost ones of lose_percent */
    u_u32 frames;       /* IP frames that were sent */
    u_u32 steps;        /* iterations of the loop, to detect spinning */
    int partitioned;    /* all frames are lost */
    int check;          /* call us_check() after each step */
};

/*
 * Makes both hosts, 10.0.0.1 and 10.0.0.2 in 10.0.0.0/24, or the same for IPv6, with the search for
 * duplicates behind them. config may be null for the defaults.
 */
void pair_open(struct pair *pair, const struct us_config *config);
void pair_close(struct pair *pair);

/* Defaults with a MAC, a secret and small pools. */
void pair_config(struct us_config *config, int host);

/* Lets both run until `until_us`, or until nothing is left to happen. */
void pair_run(struct pair *pair, u_u64 until_us);

/* The address of a host: IPv4, or after pair_use_ip6(1) IPv6, fd00::1 and fd00::2. */
struct us_addr pair_addr(int host);
void pair_use_ip6(int yes);

u_u64 pair_counter(const struct us_stack *stack, const char *name);

#endif
