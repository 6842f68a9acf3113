/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting for frames: by the queue's receive interrupt if it comes, otherwise by short sleeps,
 * polling the queue in between. A wake ends either.
 */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <rte_interrupts.h>

#include "nic/dpdk_port.h"
#include "nic/error.h"
#include "nic/wake.h"

/*
 * A frame that arrives during a sleep waits for its end. The first sleeps are shorter, because a
 * pause that has just begun is likelier to end soon.
 */
#define SLEEP_NS_MIN 10000
#define SLEEP_NS_MAX 100000

/* Timer slack for these sleeps; the default of 50 us is half of the longest one. */
#define TIMER_SLACK_NS 1000

#define EVENTS_MAX 4

int dpdk_wait_open(struct dpdk_queue *queue, char error[NIC_ERROR_MAX])
{
    struct dpdk_port *port = queue->port;

    queue->wake_fd = nic_wake_open();
    if (queue->wake_fd < 0)
        return nic_error_set(error, "dpdk: out of descriptors");
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

/* Whether a frame has arrived. */
static bool has_frames(struct dpdk_queue *queue)
{
    struct rte_mbuf *mbuf;

    if (queue->waiting_at < queue->waiting_count || queue->segment.rest != NULL)
        return true;
    if (dpdk_rx_more(queue) == 0)
        return false;
    mbuf = queue->waiting[0];
    rte_prefetch0(rte_pktmbuf_mtod(mbuf, void *));
    return true;
}

/* Polls the queue after each of a series of short sleeps; an event of one of fds[] ends them. */
static int sleep_and_poll(struct dpdk_queue *queue, struct pollfd *fds, unsigned n,
                          uint64_t timeout_ns)
{
    uint64_t sleep_ns = SLEEP_NS_MIN;
    int rc = 0;

    (void)prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS);
    while (timeout_ns > 0 && rc == 0 && fds[0].revents == 0 && fds[n - 1].revents == 0 &&
           !has_frames(queue)) {
        sleep_ns = u_min64(u_min64(sleep_ns * 2, SLEEP_NS_MAX), timeout_ns);
        rc = nic_wake_poll(fds, n, sleep_ns);
        timeout_ns -= sleep_ns;
    }
    return rc;
}

/*
 * The interrupt is armed only during the sleep; a busy loop polls the queue. Drivers report
 * interrupts that never come (e1000e, devices with fewer vectors than queues), so the queue is
 * polled too until one has announced frames.
 */
static int sleep_armed(struct dpdk_queue *queue, uint64_t timeout_ns)
{
    uint16_t port_id = queue->port->id, number = queue->nic.queue;
    struct pollfd fds[2] = {{.fd = queue->epoll_fd, .events = POLLIN},
                            {.fd = queue->wake_fd, .events = POLLIN}};
    struct rte_epoll_event events[EVENTS_MAX];
    bool proven = queue->counters.interrupts > 0;
    int rc = 0;

    queue->counters.interrupt_waits++;
    (void)rte_eth_dev_rx_intr_enable(port_id, number); /* some drivers need no arming */
    if (!proven)
        rc = sleep_and_poll(queue, fds, 2, timeout_ns);
    else if (!has_frames(queue)) /* a frame that arrived before arming raises no interrupt */
        rc = nic_wake_poll(fds, 2, timeout_ns);
    (void)rte_eth_dev_rx_intr_disable(port_id, number);
    if (proven && fds[0].revents == 0)
        return rc;
    /* Clears the event. */
    if (rte_epoll_wait(queue->epoll_fd, events, EVENTS_MAX, 0) > 0 && has_frames(queue))
        queue->counters.interrupts++;
    return rc;
}

static int sleep_timed(struct dpdk_queue *queue, uint64_t timeout_ns)
{
    struct pollfd fd = {.fd = queue->wake_fd, .events = POLLIN};

    queue->counters.timed_waits++;
    return sleep_and_poll(queue, &fd, 1, timeout_ns);
}

int dpdk_wait(struct nic *nic, uint64_t timeout_us)
{
    struct dpdk_queue *queue = U_CONTAINER_OF(nic, struct dpdk_queue, nic);
    uint64_t timeout_ns = nic_wake_timeout_ns(timeout_us);

    if (__atomic_load_n(&queue->port->removed, __ATOMIC_ACQUIRE))
        return -ENODEV;
    if (has_frames(queue))
        return 0;
    return queue->epoll_fd >= 0 ? sleep_armed(queue, timeout_ns) : sleep_timed(queue, timeout_ns);
}

void dpdk_wake(struct nic *nic)
{
    nic_wake_signal(U_CONTAINER_OF(nic, struct dpdk_queue, nic)->wake_fd);
}
