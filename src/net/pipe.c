/* SPDX-License-Identifier: BSD-3-Clause */
/* The sleep of a pipe's consumer; see pipe.h. */
#define _GNU_SOURCE /* ppoll() */
#include "net/pipe.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>

int net_pipe_wait(struct net_pipe *pipe, int wake_fd, uint64_t timeout_us)
{
    struct pollfd fd = {.fd = wake_fd, .events = POLLIN};
    struct timespec timeout;
    eventfd_t wakes;
    int rc = 0;

    timeout.tv_sec = (time_t)(timeout_us / 1000000);
    timeout.tv_nsec = (long)(timeout_us % 1000000 * 1000);
    if (net_pipe_sleep_begin(pipe) && ppoll(&fd, 1, &timeout, NULL) < 0 && errno != EINTR)
        rc = -errno;
    net_pipe_sleep_end(pipe);
    if (fd.revents != 0)
        (void)eventfd_read(wake_fd, &wakes); /* only the consumer reads */
    return rc;
}
