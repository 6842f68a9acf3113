/* SPDX-License-Identifier: BSD-3-Clause */
/* The DPDK back end: packet allocation, and opening and closing a device. */
#include "nic/dpdk.h"

#include <signal.h>
#include <stdlib.h>

#include "nic/dpdk_eal.h"
#include "nic/dpdk_port.h"
#include "nic/error.h"
#include "nic/pool.h"

static struct dpdk_queue *queue_of(struct nic *nic)
{
    return U_CONTAINER_OF(nic, struct dpdk_queue, nic);
}

/* Resets the fields that a previous user may have changed. */
static inline void pkt_empty(struct us_pkt *pkt, struct rte_mbuf *mbuf)
{
    pkt->data = rte_pktmbuf_mtod(mbuf, u_u8 *);
    pkt->next_seg = NULL;
    pkt->len = 0;
    pkt->flags = 0;
}

/* Reuses packets that were released to the queue. Returns how many. */
static inline unsigned alloc_kept(struct dpdk_queue *queue, struct us_pkt **pkts, unsigned n)
{
    struct us_pkt **top = queue->kept + queue->kept_count;
    unsigned i;

    n = u_min32(n, queue->kept_count);
    for (i = 0; i < n; i++) {
        struct us_pkt *pkt = *--top;
        struct rte_mbuf *mbuf = dpdk_mbuf_of(pkt);

        mbuf->data_off = RTE_PKTMBUF_HEADROOM; /* the same for all packets of the pool */
        pkt_empty(pkt, mbuf);
        pkts[i] = pkt;
    }
    queue->kept_count -= n;
    return n;
}

static U_NOINLINE unsigned alloc_new(struct dpdk_queue *queue, struct us_pkt **pkts, unsigned n)
{
    struct rte_mbuf *mbufs[NIC_BURST_MAX];
    unsigned i;

    if (U_UNLIKELY(rte_pktmbuf_alloc_bulk(queue->pool, mbufs, n) != 0)) {
        queue->counters.alloc_failed++;
        for (i = 0; i < n && (mbufs[i] = rte_pktmbuf_alloc(queue->pool)) != NULL; i++)
            continue;
        n = i;
    }
    for (i = 0; i < n; i++) {
        pkts[i] = dpdk_pkt_of(mbufs[i]);
        pkt_empty(pkts[i], mbufs[i]);
    }
    return n;
}

static unsigned dpdk_alloc(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    struct dpdk_queue *queue = queue_of(nic);
    unsigned kept;

    U_ASSERT(n <= NIC_BURST_MAX);
    kept = alloc_kept(queue, pkts, n);
    if (U_LIKELY(kept == n))
        return n;
    return kept + alloc_new(queue, pkts + kept, n - kept);
}

/*
 * Whether a released packet can be reused without the mempool: it is from the queue's pool, has one
 * reference, and is a single direct segment. Other fields of the mbuf are valid only if ol_flags
 * has their bits.
 */
static inline bool can_be_kept(const struct dpdk_queue *queue, const struct rte_mbuf *mbuf)
{
    return rte_mbuf_refcnt_read(mbuf) == 1 && mbuf->nb_segs == 1 && mbuf->next == NULL &&
           mbuf->pool == queue->pool && RTE_MBUF_DIRECT(mbuf);
}

static U_NOINLINE void release_to_pool(struct us_pkt *const *pkts, unsigned n)
{
    struct rte_mbuf *mbufs[NIC_BURST_MAX];
    unsigned i, step;

    for (; n > 0; n -= step, pkts += step) {
        step = u_min32(n, NIC_BURST_MAX);
        for (i = 0; i < step; i++)
            mbufs[i] = dpdk_mbuf_of(pkts[i]);
        rte_pktmbuf_free_bulk(mbufs, step);
    }
}

static void dpdk_release(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    struct dpdk_queue *queue = queue_of(nic);
    struct us_pkt **top = queue->kept + queue->kept_count;
    unsigned most = u_min32(n, NIC_BURST_MAX - queue->kept_count);
    unsigned i;

    for (i = 0; i < most && can_be_kept(queue, dpdk_mbuf_of(pkts[i])); i++)
        top[i] = pkts[i];
    queue->kept_count += i;
    if (U_UNLIKELY(i < n))
        release_to_pool(pkts + i, n - i);
}

/* ---- opening and closing ----------------------------------------------------------------- */

static void port_free(struct dpdk_port *port)
{
    unsigned i;

    for (i = 0; i < port->queue_count; i++)
        free(port->queues[i]);
    free(port);
}

/* Closing the last queue closes the device: drivers cannot close a single queue. */
static void dpdk_close(struct nic *nic)
{
    struct dpdk_queue *queue = queue_of(nic);
    struct dpdk_port *port = queue->port;

    dpdk_wait_close(queue);
    dpdk_rx_clear(queue);
    if (__atomic_sub_fetch(&port->open_count, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    dpdk_port_stop(port);
    port_free(port);
}

static const struct nic_ops dpdk_ops = {
    .name = "dpdk",
    .rx_burst = dpdk_rx_burst,
    .alloc = dpdk_alloc,
    .release = dpdk_release,
    .tx_burst = dpdk_tx_burst,
    .wait = dpdk_wait,
    .wake = dpdk_wake,
    .stats = dpdk_stats,
    .close = dpdk_close,
};

/* Never the last reference to the memory, so there is nothing to free. */
static void view_gone(void *address, void *ctx)
{
}

static struct dpdk_port *port_new(unsigned queues)
{
    struct dpdk_port *port = calloc(1, sizeof(*port));
    unsigned i;

    if (port == NULL)
        return NULL;
    for (i = 0; i < queues; i++) {
        struct dpdk_queue *queue = calloc(1, sizeof(*queue));

        if (queue == NULL) {
            port_free(port);
            return NULL;
        }
        queue->nic.ops = &dpdk_ops;
        queue->nic.queue = (uint16_t)i;
        queue->nic.queues = (uint16_t)queues;
        queue->port = port;
        queue->wake_fd = queue->epoll_fd = -1;
        queue->view_info.free_cb = view_gone;
        rte_mbuf_ext_refcnt_set(&queue->view_info, 1);
        port->queues[i] = queue;
        port->queue_count = (uint16_t)(i + 1);
    }
    port->id = RTE_MAX_ETHPORTS;
    port->open_count = queues;
    return port;
}

static int port_open(struct dpdk_port *port, const struct nic_dpdk_config *config,
                     char error[NIC_ERROR_MAX])
{
    uint64_t need_bytes = dpdk_port_memory_bytes(config->mtu, port->queue_count);
    unsigned i;

    if (dpdk_eal_start(config, need_bytes, error) < 0 || dpdk_port_find(port, config, error) < 0 ||
        dpdk_port_start(port, config, error) < 0)
        return -1;
    for (i = 0; i < port->queue_count; i++) {
        port->queues[i]->lcore = rte_lcore_id(); /* this thread filled the receive ring */
        if (dpdk_wait_open(port->queues[i], error) < 0)
            return -1;
    }
    return 0;
}

/*
 * net_tap requests a signal for each frame and reads its device only after the signal. The signal
 * is delivered when a thread that takes it is next scheduled, which is later than the frame; the
 * frame would wait for the next one. If no real-time signal is free, net_tap reads its device on
 * each burst. So all free ones are marked as used while the device is opened. Returns the signals
 * for show_signals().
 */
static uint64_t hide_signals(void)
{
    const struct sigaction ignored = {.sa_handler = SIG_IGN};
    struct sigaction before;
    uint64_t hidden = 0;
    int number;

    for (number = SIGRTMIN; number <= SIGRTMAX; number++) {
        if (sigaction(number, NULL, &before) == 0 && before.sa_handler == SIG_DFL &&
            sigaction(number, &ignored, NULL) == 0)
            hidden |= (uint64_t)1 << (number - SIGRTMIN);
    }
    return hidden;
}

static void show_signals(uint64_t hidden)
{
    const struct sigaction standard = {.sa_handler = SIG_DFL};
    int number;

    for (number = SIGRTMIN; number <= SIGRTMAX; number++) {
        if (hidden >> (number - SIGRTMIN) & 1)
            (void)sigaction(number, &standard, NULL);
    }
}

static int check_config(const struct nic_dpdk_config *config, char error[NIC_ERROR_MAX])
{
    if (config->mtu != 0 && (config->mtu < NIC_MTU_MIN || config->mtu > NIC_MTU_MAX))
        return nic_error_set(error, "dpdk: MTU %u: between %u and %u", config->mtu, NIC_MTU_MIN,
                             NIC_MTU_MAX);
    if ((config->mac[0] & 1) != 0)
        return nic_error_set(error,
                             "dpdk: the MAC address is a multicast address (first byte is odd)");
    return 0;
}

/* State of the thread that opens a device: what DPDK's threads must not inherit. */
struct quiet {
    sigset_t before;
    uint64_t hidden;
};

static void quiet_begin(struct quiet *quiet)
{
    sigset_t all;

    /* Threads that are started here must not handle the program's signals. */
    sigfillset(&all);
    sigdelset(&all, SIGSYS); /* directed at a thread by apps/ucached/privileges.c */
    pthread_sigmask(SIG_BLOCK, &all, &quiet->before);
    quiet->hidden = hide_signals();
}

static void quiet_end(const struct quiet *quiet)
{
    show_signals(quiet->hidden);
    pthread_sigmask(SIG_SETMASK, &quiet->before, NULL);
}

int nic_dpdk_open(const struct nic_dpdk_config *config, unsigned queues, struct nic *queue[],
                  char error[NIC_ERROR_MAX])
{
    struct dpdk_port *port;
    struct quiet quiet;
    unsigned i;
    int rc;

    U_ASSERT(queues > 0 && queues <= NIC_QUEUES_MAX);
    if (check_config(config, error) < 0)
        return -1;
    port = port_new(queues);
    if (port == NULL)
        return nic_error_set(error, "dpdk: out of memory");
    quiet_begin(&quiet);
    rc = port_open(port, config, error);
    if (rc < 0) {
        for (i = 0; i < port->queue_count; i++)
            dpdk_wait_close(port->queues[i]);
        dpdk_port_stop(port);
        port_free(port);
    }
    quiet_end(&quiet);
    if (rc < 0)
        return -1;
    for (i = 0; i < port->queue_count; i++)
        queue[i] = &port->queues[i]->nic;
    return port->queue_count;
}

int nic_dpdk_prepare(const struct nic_dpdk_config *config, unsigned queues,
                     char error[NIC_ERROR_MAX])
{
    uint64_t need_bytes = dpdk_port_memory_bytes(config->mtu, queues);
    struct quiet quiet;
    int rc;

    if (check_config(config, error) < 0)
        return -1;
    if (!dpdk_vdev_is_ours(config) || dpdk_eal_waits_for_memory(need_bytes))
        return 0;
    quiet_begin(&quiet);
    rc = dpdk_eal_start(config, need_bytes, error);
    quiet_end(&quiet);
    return rc;
}
