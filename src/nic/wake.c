/* SPDX-License-Identifier: BSD-3-Clause */
/* Sleeping and waking; see wake.h. */
#define _GNU_SOURCE /* ppoll() */
#include "nic/wake.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

int nic_wake_open(void)
{
    return eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
}

void nic_wake_signal(int wake_fd)
{
    const uint64_t one = 1;
    int saved_errno = errno;
    ssize_t bytes = write(wake_fd, &one, sizeof(one));

    (void)bytes; /* fails only if the counter is full: the eventfd is readable then */
    errno = saved_errno;
}

int nic_wake_poll(struct pollfd *fds, unsigned n, uint64_t timeout_ns)
{
    struct timespec timeout;
    uint64_t wakes;
    ssize_t bytes;

    U_ASSERT(n > 0);
    timeout.tv_sec = (time_t)(timeout_ns / 1000000000);
    timeout.tv_nsec = (long)(timeout_ns % 1000000000);
    if (ppoll(fds, n, &timeout, NULL) < 0)
        return errno == EINTR ? 0 : -errno;
    if (fds[n - 1].revents != 0) {
        bytes = read(fds[n - 1].fd, &wakes, sizeof(wakes));
        (void)bytes; /* a missed reset costs one more turn of the loop */
    }
    return 0;
}
