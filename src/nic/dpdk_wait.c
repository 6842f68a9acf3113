/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting for frames: with the interrupt of the queue where the driver has one, else by short naps
 * with looks at the queue between them. A nap ends early when somebody wakes the queue.
 */
#define _GNU_SOURCE /* ppoll */

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <rte_interrupts.h>

#include "nic/dpdk_port.h"
#include "nic/error.h"

#define WAIT_MAX_US (3600ull * 1000000)

/*
 * A frame that comes during a nap waits for its end. The first naps are shorter, since a pause
 * that has just begun is likelier to end soon.
 */
#define NAP_NS_MIN 10000
#define NAP_NS_MAX 100000

/* The kernel rounds the end of naps by this; its default is half of our longest. */
#define TIMER_SLACK_NS 1000

#define EVENTS_MAX 4

int dpdk_wait_open(struct dpdk_queue *queue, char error[NIC_ERROR_MAX])
{
    struct dpdk_port *port = queue->port;

    queue->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (queue->wake_fd < 0) {
        nic_error_set(error, "dpdk: out of descriptors");
        return -1;
    }
    if (!port->interrupts)
        return 0;
    queue->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (queue->epoll_fd >= 0 &&
        rte_eth_dev_rx_intr_ctl_q(port->id, queue->nic.queue, queue->epoll_fd, RTE_INTR_EVENT_ADD,
                                  NULL) == 0)
        return 0;
    if (queue->epoll_fd >= 0)
        close(queue->epoll_fd);
    queue->epoll_fd = -1;
    return 0;
}

void dpdk_wait_close(struct dpdk_queue *queue)
{
    if (queue->epoll_fd >= 0) {
        (void)rte_eth_dev_rx_intr_ctl_q(queue->port->id, queue->nic.queue, queue->epoll_fd,
                                        RTE_INTR_EVENT_DEL, NULL);
        close(queue->epoll_fd);
    }
    if (queue->wake_fd >= 0)
        close(queue->wake_fd);
    queue->epoll_fd = queue->wake_fd = -1;
}

static void clear_wake(struct dpdk_queue *queue)
{
    uint64_t wakes;
    ssize_t bytes = read(queue->wake_fd, &wakes, sizeof(wakes));

    (void)bytes; /* only this thread reads, and a missed reset costs one more loop */
}

/* Sleeps until a descriptor is ready. Returns a negative errno value or how many are. */
static int sleep_on(struct pollfd *fds, nfds_t count, uint64_t timeout_ns)
{
    struct timespec timeout = {.tv_sec = (time_t)(timeout_ns / 1000000000),
                               .tv_nsec = (long)(timeout_ns % 1000000000)};
    int ready = ppoll(fds, count, &timeout, NULL);

    return ready < 0 ? (errno == EINTR ? 0 : -errno) : ready;
}

/* Whether a frame is there or may be: a driver that can't tell is taken to have one. */
static bool has_frames(struct dpdk_queue *queue)
{
    struct rte_mbuf *mbuf;

    if (queue->waiting_at < queue->waiting_count || queue->cut.rest != NULL)
        return true;
    queue->waiting_at = 0;
    queue->waiting_count =
        rte_eth_rx_burst(queue->port->id, queue->nic.queue, queue->waiting, NIC_BURST_MAX);
    if (queue->waiting_count == 0)
        return false;
    mbuf = queue->waiting[0];
    rte_prefetch0(rte_pktmbuf_mtod(mbuf, void *));
    return true;
}

/* The interrupt is only armed while somebody sleeps: in between, the queue is looked at anyway. */
static int sleep_armed(struct dpdk_queue *queue, uint64_t timeout_ns)
{
    uint16_t port_id = queue->port->id, number = queue->nic.queue;
    struct pollfd fds[2] = {{.fd = queue->epoll_fd, .events = POLLIN},
                            {.fd = queue->wake_fd, .events = POLLIN}};
    struct rte_epoll_event events[EVENTS_MAX];
    int rc = 0;

    queue->counters.sleeps++;
    (void)rte_eth_dev_rx_intr_enable(port_id, number); /* not needed by all */
    /* A frame that came before the interrupt was armed raises none. */
    if (!has_frames(queue))
        rc = sleep_on(fds, 2, timeout_ns);
    (void)rte_eth_dev_rx_intr_disable(port_id, number);
    if (rc > 0 && fds[0].revents != 0)
        (void)rte_epoll_wait(queue->epoll_fd, events, EVENTS_MAX, 0); /* clears its cause */
    if (fds[1].revents != 0)
        clear_wake(queue);
    return rc < 0 ? rc : 0;
}

static int sleep_by_naps(struct dpdk_queue *queue, uint64_t timeout_ns)
{
    struct pollfd fd = {.fd = queue->wake_fd, .events = POLLIN};
    uint64_t nap_ns = NAP_NS_MIN;
    int rc = 0;

    queue->counters.naps++;
    (void)prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS);
    while (timeout_ns > 0 && rc == 0 && !has_frames(queue)) {
        nap_ns = u_min64(u_min64(nap_ns * 2, NAP_NS_MAX), timeout_ns);
        rc = sleep_on(&fd, 1, nap_ns);
        timeout_ns -= nap_ns;
    }
    if (rc > 0)
        clear_wake(queue);
    return rc < 0 ? rc : 0;
}

int dpdk_wait(struct nic *nic, uint64_t timeout_us)
{
    struct dpdk_queue *queue = U_CONTAINER_OF(nic, struct dpdk_queue, nic);
    uint64_t timeout_ns = u_min64(timeout_us, WAIT_MAX_US) * 1000;

    if (__atomic_load_n(&queue->port->removed, __ATOMIC_ACQUIRE))
        return -ENODEV;
    if (has_frames(queue))
        return 0;
    return queue->epoll_fd >= 0 ? sleep_armed(queue, timeout_ns) : sleep_by_naps(queue, timeout_ns);
}

/* Only write(), which a signal handler may call, and errno as the interrupted code had it. */
void dpdk_wake(struct nic *nic)
{
    const uint64_t one = 1;
    int saved_errno = errno;
    ssize_t bytes = write(U_CONTAINER_OF(nic, struct dpdk_queue, nic)->wake_fd, &one, sizeof(one));

    (void)bytes; /* it fails only if the counter is full, and then the sleeper is awake already */
    errno = saved_errno;
}
