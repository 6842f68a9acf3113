/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client's TCP/IP stack on one queue of a device: receives frames, delivers events, sends frames.
 * For programs that open connections; servers use net/stack_worker.h. Used by one thread at a time.
 */
#ifndef COMMON_HOST_H
#define COMMON_HOST_H

#include "common/link.h"

struct host {
    struct nic *nic; /* owned */
    struct us_stack *stack;
    void *memory;
    unsigned long memory_bytes;
    struct us_pkt *empty[NIC_BURST_MAX]; /* allocated for the next us_output() */
    struct us_pkt *unsent[NIC_BURST_MAX];
    unsigned empty_count, unsent_count;
    uint32_t caps;       /* nic->caps as configured in the stack */
    uint64_t settled_us; /* when all IPv6 addresses are usable; 0: no IPv6 address */
    uint64_t rx_frames, tx_frames;
    uint64_t cycles_busy; /* time stamp counter ticks of turns with received or sent frames */
    uint64_t turn_start;  /* start of the present turn; 0 between turns */
    bool turn_is_busy;
};

/* Changes to us_config_defaults(); 0: default. */
struct host_config {
    uint32_t conn_max;
    uint32_t recv_window_bytes;
    uint32_t send_queue_bytes;
    uint32_t time_wait_us;
    bool arp_passive; /* another stack answers and announces the addresses */
};

/*
 * Opens a stack with the link's addresses on this queue. The host owns the nic on success. Returns
 * 0, or -1 with a message.
 */
int host_open(struct host *host, struct nic *nic, const struct link_options *link,
              const struct host_config *config, char error[LINK_ERROR_MAX]);

/*
 * Whether US_ERR_NO_ROUTE from us_connect() may be due to an IPv6 address whose duplicate address
 * detection (RFC 4862 5.4) is not complete; the caller retries after the next turn.
 */
bool host_is_settling(const struct host *host, int error, uint64_t now_us);

/* Resets all connections, frees the stack and closes the nic. */
void host_close(struct host *host, uint64_t now_us);

/* Receives each event, in order. */
typedef void host_event(void *ctx, const struct us_event *event);

/* Processes one burst of frames and due timers. Returns the number of frames and events. */
unsigned host_receive(struct host *host, uint64_t now_us, host_event *on_event, void *ctx);

/* Sends queued frames. Returns how many. */
unsigned host_transmit(struct host *host, uint64_t now_us);

/*
 * Sleeps until a frame arrives, a timer is due or timeout_us have passed. Returns 0, or a negative
 * errno value if the device is gone.
 */
int host_wait(struct host *host, uint64_t now_us, uint64_t timeout_us);

#endif
