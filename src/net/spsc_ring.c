/* SPDX-License-Identifier: BSD-3-Clause */
/* The sleep of a ring's consumer; see spsc_ring.h. */
#define _GNU_SOURCE /* ppoll() */
#include "net/spsc_ring.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>

int net_ring_wait(struct net_ring *ring, int wake_fd, uint64_t timeout_us)
{
    struct pollfd fd = {.fd = wake_fd, .events = POLLIN};
    struct timespec timeout;
    eventfd_t wakes;
    int rc = 0;

    timeout.tv_sec = (time_t)(timeout_us / 1000000);
    timeout.tv_nsec = (long)(timeout_us % 1000000 * 1000);
    if (net_ring_sleep_begin(ring) && ppoll(&fd, 1, &timeout, NULL) < 0 && errno != EINTR)
        rc = -errno;
    net_ring_sleep_end(ring);
    if (fd.revents != 0)
        (void)eventfd_read(wake_fd, &wakes); /* only the consumer reads */
    return rc;
}
