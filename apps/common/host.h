/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client's own TCP/IP stack on one queue of a device: frames in, events out, frames out. Servers
 * have net/stack_worker.h; this is the part of it that a program needs which opens connections.
 * Belongs to one thread at a time.
 */
#ifndef COMMON_HOST_H
#define COMMON_HOST_H

#include "common/link.h"

struct host {
    struct nic *nic; /* owned */
    struct us_stack *stack;
    void *memory;
    unsigned long memory_bytes;
    /* Whether on_event() can be called once more; the ctx is the same. Null: always. */
    bool (*has_room)(void *ctx);
    struct us_pkt *rx[NIC_BURST_MAX]; /* in hand, of which rx_done are the stack's already */
    unsigned rx_count, rx_done;
    bool full;                           /* events wait, for has_room() has said no */
    struct us_pkt *empty[NIC_BURST_MAX]; /* lent, for the next us_output() */
    struct us_pkt *unsent[NIC_BURST_MAX];
    unsigned empty_count, unsent_count;
    uint32_t caps;       /* of the nic, as the stack knows them */
    uint64_t settled_us; /* when an IPv6 address is in use at the latest; 0: there is none */
    uint64_t rx_frames, tx_frames;
    uint64_t cycles_busy; /* time-stamp counter ticks of turns in which something came or went */
    uint64_t turn_start;  /* of host_receive(), until host_transmit() has ended the turn; or 0 */
    bool turn_is_busy;
};

/* What differs from us_config_defaults(); 0 leaves it. */
struct host_config {
    uint32_t conn_max;
    uint32_t recv_window_bytes;
    uint32_t send_queue_bytes;
    uint32_t time_wait_us;
    bool follower; /* another host with the same addresses announces them */
};

/*
 * Makes a stack with the link's addresses on this queue. The host owns the nic from then on.
 * Returns 0, or -1 with a message, and the nic stays the caller's.
 */
int host_open(struct host *host, struct nic *nic, const struct link_options *link,
              const struct host_config *config, char error[LINK_ERROR_MAX]);

/*
 * What us_connect() has said, US_ERR_NO_ROUTE, may be because an IPv6 address is not in use before
 * nobody has objected to it for a while (RFC 4862 5.4): whether to try again after the next turn.
 */
bool host_is_settling(const struct host *host, int error, uint64_t now_us);

/* Ends all connections with a RST, frees the stack and closes the nic. */
void host_close(struct host *host, uint64_t now_us);

/* Called for each event, in order. */
typedef void host_event(void *ctx, const struct us_event *event);

/*
 * Takes one burst of frames and the timers that are due. Returns how many frames and events there
 * were. Once host->has_room() says no, events and frames stay, and no more are received, until a
 * later call.
 */
unsigned host_receive(struct host *host, uint64_t now_us, host_event *on_event, void *ctx);

/* Sends what is queued. Returns how many frames. */
unsigned host_transmit(struct host *host, uint64_t now_us);

/*
 * Sleeps until a frame is there, a timer is due or timeout_us have passed. Returns 0 or a negative
 * errno value: the device is gone.
 */
int host_wait(struct host *host, uint64_t now_us, uint64_t timeout_us);

#endif
