/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A deterministic network in one thread: events in the order of (time, number), links with faults,
 * and two hosts, each a us_stack and a small application. All random choices come from one
 * seeded generator, so a seed is a reproducible test case.
 *
 * The order of dependence: queue and random numbers (sim.c) <- link.c <- host.c <- app.c <-
 * sim_test.c, which chooses what to run.
 */
#ifndef TEST_SIM_H
#define TEST_SIM_H

#include "ustack/ustack.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ---- random numbers ---------------------------------------------------------------------- */

struct sim_random {
    uint64_t state;
};

uint64_t sim_random(struct sim_random *r);

/* A number from low..high, both included. */
uint64_t sim_between(struct sim_random *r, uint64_t low, uint64_t high);

/* 1 in `millionths` of a million cases. */
int sim_chance(struct sim_random *r, unsigned millionths);

/* ---- the simulation and its event queue -------------------------------------------------- */

struct sim;

struct sim_event {
    uint64_t time_us;
    uint64_t number; /* breaks ties: first in, first out */
    void (*run)(struct sim *sim, void *target, void *detail);
    void *target, *detail;
};

enum sim_canary { CANARY_NONE, CANARY_ALTER, CANARY_SILENCE };

struct sim {
    uint64_t now_us;
    uint64_t numbers;
    struct sim_event *heap;
    size_t count, room;
    struct sim_random random;
    uint64_t trace_hash; /* of all frames with their times */
    uint64_t frames;
    uint64_t seed;
    FILE *pcap;
    enum sim_canary canary; /* a planted fault of the simulator: the oracle must find it */
    unsigned canary_frame;  /* which frame it meets */
    const char *replay;     /* arguments that reproduce this case */
};

void sim_start(struct sim *sim, uint64_t seed);
void sim_free(struct sim *sim);

void sim_at(struct sim *sim, uint64_t time_us,
            void (*run)(struct sim *sim, void *target, void *detail), void *target, void *detail);

/* Runs the earliest event; returns 0 if there is none. */
int sim_step(struct sim *sim);

/* Prints the failure and the arguments that reproduce it; ends the program. */
void sim_fail(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)))
__attribute__((noreturn));

/* Adds a frame to the trace (hash and, if there is one, the pcap file). */
void sim_trace(struct sim *sim, int direction, const uint8_t *bytes, size_t len);

/* ---- links ------------------------------------------------------------------------------- */

struct link_config {
    unsigned delay_us, jitter_us;
    uint64_t rate_bits; /* per second; 0: without a limit */
    unsigned queue_bytes;
    unsigned mark_bytes; /* ECN-capable packets behind so many are marked; 0: none */
    unsigned loss, duplicate, reorder, corrupt; /* millionths */
    unsigned reorder_us;                        /* by how much a reordered frame is late at most */
    uint64_t cut_from_us, cut_until_us;         /* a partition: every frame is lost */
    uint64_t mtu_from_us;                       /* larger frames are lost from then on */
    unsigned mtu;                               /* 0: without a limit */
    uint64_t faults_end_us;                     /* from then on the link is perfect */
    int strip_sack, strip_ts;                   /* SYNs lose these options on the way */
    unsigned ack_delay_us; /* the sender's plain ACKs of a segment or less wait so long */
};

struct host;

struct link {
    struct link_config config;
    struct host *to;
    int direction;
    uint64_t busy_until_ns;   /* a frame of 1500 bytes takes 1.2 us at 10 Gbit/s */
    uint64_t last_arrival_us; /* without `reorder` frames do not overtake each other */
    uint64_t sent, lost;
    struct link_frame *held; /* the delayed ACK */
    uint64_t held_number;    /* of the event that sends it */
    uint32_t acked;          /* the acknowledgment number that was sent last */
};

struct link_frame {
    size_t len;
    uint8_t bytes[];
};

/* Frees a link and its frames in flight, at the end of the simulation. */
void link_free(struct sim *sim, struct link *link);

/* Sends a copy of the frame. */
void link_send(struct sim *sim, struct link *link, const uint8_t *bytes, size_t len);

/* ---- hosts ------------------------------------------------------------------------------- */

#define HOST_RX_MAX 4096
#define HOST_BURST_MAX 64

struct host {
    struct sim *sim;
    const char *name;
    struct us_config config;
    struct us_addr addr;
    struct us_stack *stack;
    void *memory;
    struct link *out;
    unsigned rx_burst, tx_burst; /* frames per us_input() and us_output() */
    unsigned check_every;        /* iterations of the loop between calls of us_check() */
    struct link_frame *rx[HOST_RX_MAX];
    unsigned rx_head, rx_tail;
    uint64_t wake_us;       /* when the next turn is due; only the event for this time counts */
    uint64_t turns, inputs; /* turns of the loop, calls of us_input() */
    uint64_t idle_second, idle_turns; /* turns without frames and events in this second */
    uint64_t idle_limit;
    void (*on_event)(struct host *host, const struct us_event *event);
    void *app;
};

void host_start(struct host *host);
void host_free(struct host *host);

/* A frame has arrived; the host owns it now. */
void host_receive(struct host *host, struct link_frame *frame);

/*
 * To be called after the application used the stack outside of on_event(): takes the events, and
 * sleeps until exactly us_deadline().
 */
void host_settle(struct host *host);

/* The value of a counter or gauge of the stack. */
uint64_t host_counter(struct host *host, const char *name);

#endif
