/* SPDX-License-Identifier: BSD-3-Clause */
/* Sleeping in nic_wait(), and waking a sleeper through an eventfd. */
#ifndef NIC_WAKE_H
#define NIC_WAKE_H

#include <poll.h>
#include <stdint.h>

#include "base/base.h"

#define NIC_WAKE_TIMEOUT_US_MAX (3600ull * 1000000)

/* Returns an eventfd, or -1 with errno. */
int nic_wake_open(void);

/* Wakes the thread that sleeps in nic_wake_poll(). Async-signal-safe; preserves errno. */
void nic_wake_signal(int wake_fd);

/* The timeout of nic_wait() in nanoseconds, limited to one hour. */
static inline uint64_t nic_wake_timeout_ns(uint64_t timeout_us)
{
    return u_min64(timeout_us, NIC_WAKE_TIMEOUT_US_MAX) * 1000;
}

/*
 * Sleeps until one of fds[0..n) has an event or `timeout_ns` have passed. The last descriptor is
 * the eventfd, which is reset. Returns 0, also when a signal interrupted the sleep, or a negative
 * errno value.
 */
int nic_wake_poll(struct pollfd *fds, unsigned n, uint64_t timeout_ns);

#endif
