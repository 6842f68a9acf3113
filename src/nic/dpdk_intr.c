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
 *
 * The driver does not connect again after the other end has gone. The interrupt thread does so,
 * also between bursts: it waits for the control sockets only until the next attempt is due.
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
#include <rte_ethdev.h>

#include "nic/dpdk_port.h"
#include "nic/error.h"

#define REARM_US 100

/* Descriptors that are searched; a process with its own stack has some dozens. */
#define DESCRIPTORS_MAX 1024

/* Sockets that are polled; EAL handles further ones together with these. */
#define CONTROL_MAX 16

/* Delays before attempts to connect, doubled from one to the next. */
#define RETRY_MS_MIN 20
#define RETRY_MS_MAX 640

static int socket_option(int fd, int option)
{
    int value = -1;
    socklen_t bytes = sizeof(value);

    return getsockopt(fd, SOL_SOCKET, option, &value, &bytes) == 0 ? value : -1;
}

/* Besides memif only --takeover uses this type of socket; its few events do no harm here. */
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

static int64_t clock_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Whether a control socket is connected to a peer. */
static bool has_peer(void)
{
    int fd;

    for (fd = 0; fd < DESCRIPTORS_MAX; fd++) {
        if (is_control(fd) && socket_option(fd, SO_ACCEPTCONN) == 0)
            return true;
    }
    return false;
}

/*
 * Connects if the link is down, no handshake is under way and an attempt is due. The driver
 * connects when it is started.
 */
static void connect_again(struct dpdk_intr *intr)
{
    struct rte_eth_link link;
    int64_t now = clock_ms();
    bool up =
        rte_eth_link_get_nowait(intr->port_id, &link) < 0 || link.link_status == RTE_ETH_LINK_UP;

    if (up) {
        intr->retry_ms = 0;
        intr->retry_at = 0;
        return;
    }
    if (has_peer()) {
        intr->retry_at = now + RETRY_MS_MAX;
        return;
    }
    if (intr->retry_at != 0) {
        if (now < intr->retry_at)
            return;
        (void)rte_eth_dev_stop(intr->port_id);
        (void)rte_eth_dev_start(intr->port_id);
    }
    intr->retry_ms = intr->retry_ms == 0 ? RETRY_MS_MIN : intr->retry_ms * 2;
    if (intr->retry_ms > RETRY_MS_MAX)
        intr->retry_ms = RETRY_MS_MAX;
    intr->retry_at = now + intr->retry_ms;
}

/* How long to wait for control sockets in ms; -1: without end. */
static int control_timeout_ms(const struct dpdk_intr *intr)
{
    int64_t now = clock_ms();

    if (intr->retry_at == 0)
        return -1;
    return now < intr->retry_at ? (int)(intr->retry_at - now) : 0;
}

static void wait_for_control(const struct dpdk_intr *intr)
{
    struct pollfd fds[1 + CONTROL_MAX] = {{.fd = intr->stop_fd, .events = POLLIN}};
    unsigned n = 1;
    int fd;

    for (fd = 0; fd < DESCRIPTORS_MAX && n < U_ARRAY_LEN(fds); fd++) {
        if (!is_control(fd))
            continue;
        fds[n].fd = fd;
        fds[n++].events = POLLIN;
    }
    if (!has_peer())
        close_lost_regions();
    while (poll(fds, n, control_timeout_ms(intr)) < 0 && errno == EINTR)
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

    if (intr->connects && !__atomic_load_n(&intr->stopping, __ATOMIC_ACQUIRE))
        connect_again(intr);
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

int dpdk_intr_hold(struct dpdk_intr *intr, uint16_t port_id, bool connects,
                   char error[NIC_ERROR_MAX])
{
    intr->port_id = port_id;
    intr->connects = connects;
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
