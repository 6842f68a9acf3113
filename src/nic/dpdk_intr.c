/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handles memif control messages between bursts.
 *
 * net_memif maps and unmaps its shared memory in the callbacks of its control sockets. EAL runs
 * them in its interrupt thread, while a burst in the worker thread may be reading that memory. EAL
 * runs alarms and interrupts in one thread, one after the other, so an alarm callback blocks the
 * interrupt thread: it waits until a control socket is readable, then until the worker starts a
 * burst. The worker waits before that burst until the interrupt thread has handled the pending
 * events and is blocked again. Without pending events the cost is one load per burst.
 *
 * Between two alarm callbacks EAL has REARM_US to handle the pending events. If that was too short,
 * the sockets are still readable, and the thread is released once more.
 */
#define _GNU_SOURCE /* F_GET_SEALS */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <rte_alarm.h>

#include "nic/dpdk_port.h"
#include "nic/error.h"

#define REARM_US 100

/* Descriptors that are searched; a process with its own stack has some dozens. */
#define DESCRIPTORS_MAX 1024

/* Sockets that are polled; EAL handles further ones together with these. */
#define CONTROL_MAX 16

static int socket_option(int fd, int option)
{
    int value = -1;
    socklen_t bytes = sizeof(value);

    return getsockopt(fd, SOL_SOCKET, option, &value, &bytes) == 0 ? value : -1;
}

/* Only memif uses this type of socket in this program. */
static bool is_control(int fd)
{
    return socket_option(fd, SO_TYPE) == SOCK_SEQPACKET && socket_option(fd, SO_DOMAIN) == AF_UNIX;
}

/*
 * Closes descriptors that net_memif leaks: those of memory regions whose client disconnected before
 * the connection was complete. Regions are sealed against shrinking; no other file of the program
 * is.
 */
static void close_lost_regions(void)
{
    int fd;

    for (fd = 0; fd < DESCRIPTORS_MAX; fd++) {
        int seals = fcntl(fd, F_GET_SEALS);

        if (seals >= 0 && (seals & F_SEAL_SHRINK) != 0)
            close(fd);
    }
}

static void wait_for_control(const struct dpdk_intr *intr)
{
    struct pollfd fds[1 + CONTROL_MAX] = {{.fd = intr->stop_fd, .events = POLLIN}};
    bool has_peer = false;
    unsigned n = 1;
    int fd;

    for (fd = 0; fd < DESCRIPTORS_MAX && n < U_ARRAY_LEN(fds); fd++) {
        if (!is_control(fd))
            continue;
        fds[n].fd = fd;
        fds[n++].events = POLLIN;
        has_peer |= socket_option(fd, SO_ACCEPTCONN) == 0;
    }
    if (!has_peer)
        close_lost_regions();
    while (poll(fds, n, -1) < 0 && errno == EINTR)
        continue;
}

static void wait_for(sem_t *semaphore)
{
    while (sem_wait(semaphore) < 0 && errno == EINTR)
        continue;
}

/* The alarm callback: blocks the interrupt thread. */
static void hold(void *ctx)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    struct dpdk_intr *intr = ctx;

    sem_post(&intr->held);
    wait_for_control(intr);
    __atomic_store_n(&intr->pending, true, __ATOMIC_RELEASE);
    wait_for(&intr->let_go);
    if (__atomic_load_n(&intr->stopping, __ATOMIC_ACQUIRE))
        return;
    while (rte_eal_alarm_set(REARM_US, hold, intr) < 0) /* no memory: try again */
        nanosleep(&pause, NULL);
}

void dpdk_intr_handle_pending(struct dpdk_intr *intr)
{
    __atomic_store_n(&intr->pending, false, __ATOMIC_RELAXED);
    intr->handled++;
    sem_post(&intr->let_go);
    wait_for(&intr->held);
}

int dpdk_intr_hold(struct dpdk_intr *intr, char error[NIC_ERROR_MAX])
{
    intr->stop_fd = eventfd(0, EFD_CLOEXEC);
    if (intr->stop_fd < 0)
        return nic_error_set(error, "dpdk: out of descriptors");
    if (sem_init(&intr->held, 0, 0) < 0 || sem_init(&intr->let_go, 0, 0) < 0 ||
        rte_eal_alarm_set(1, hold, intr) < 0) {
        close(intr->stop_fd);
        return nic_error_set(error, "dpdk: cannot hold the interrupt thread: out of memory");
    }
    wait_for(&intr->held);
    intr->in_use = true;
    return 0;
}

void dpdk_intr_release(struct dpdk_intr *intr)
{
    if (!intr->in_use)
        return;
    __atomic_store_n(&intr->stopping, true, __ATOMIC_RELEASE);
    (void)eventfd_write(intr->stop_fd, 1);
    sem_post(&intr->let_go);
    (void)rte_eal_alarm_cancel(hold, intr); /* waits until the callback has returned */
    sem_destroy(&intr->held);
    sem_destroy(&intr->let_go);
    close(intr->stop_fd);
    intr->in_use = false;
}
