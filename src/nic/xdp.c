/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * AF_XDP: frames in rings shared with the kernel; see xdp.h.
 *
 * Each struct nic has memory for frames (a UMEM) and a socket for each receive queue of the
 * interface that it serves; its first socket also sends. A buffer is in one of four places: free in
 * the pool; held by the caller; with the kernel for receiving (fill ring, driver, receive ring); or
 * with the kernel for sending (transmit ring, driver, completion ring). The number in each of the
 * last two places is limited, so the kernel cannot hold all buffers.
 */
#include "nic/xdp.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <xdp/libxdp.h>
#include <xdp/xsk.h>

#include "base/base.h"
#include "nic/error.h"
#include "nic/partial_csum.h"
#include "nic/pool.h"
#include "nic/wake.h"
#include "nic/xdp_device.h"
#include "nic/xdp_filter.h"

/* Slots of each ring: 100 us at 10 million frames per second. */
#define RING_FRAMES 1024

/* Buffers for the layers above: some bursts. */
#define CALLER_FRAMES 1024

/* Buffer sizes; the kernel leaves 256 bytes free before a received frame. */
#define CHUNK_SMALL_BYTES 2048
#define CHUNK_LARGE_BYTES 4096
#define KERNEL_HEADROOM_BYTES 256
#define FRAME_HEADER_BYTES (NIC_ETH_HEADER_BYTES + 4) /* with a VLAN tag */

/* Frames that the kernel sends per system call on a copying socket. */
#define KICK_FRAMES 32
#define KICKS_MAX (RING_FRAMES / KICK_FRAMES)

/* The fill ring is refilled in steps. */
#define FILL_STEP 32

/* Interval for checking that the interface still exists. */
#define EXISTS_CHECK_US 1000000

/* Retries while the sockets of a previous process still occupy the queues. */
#define BUSY_RETRIES 100
#define BUSY_RETRY_US 20000

#define BUSY_POLL_US 20

/* Missing in older kernel headers. */
#ifndef SO_PREFER_BUSY_POLL
#define SO_PREFER_BUSY_POLL 69
#endif
#ifndef SO_BUSY_POLL_BUDGET
#define SO_BUSY_POLL_BUDGET 70
#endif

/* State shared by all queues of an interface. */
struct xdp_shared {
    struct nic_xdp_device device;
    struct nic_xdp_filter filter;
    unsigned rx_queues; /* with the filter attached */
    atomic_uint users;
};

/* A receive queue of the interface. */
struct xdp_socket {
    struct xsk_socket *xsk;
    struct xsk_ring_cons rx;
    struct xsk_ring_prod fill;
    struct xsk_ring_cons done; /* completions */
    unsigned filled;           /* buffers with the kernel for receiving */
};

struct xdp {
    struct nic nic;
    struct xdp_shared *shared;
    struct xsk_umem *umem;
    unsigned char *area; /* of the buffers, chunk_bytes each */
    size_t area_bytes;
    uint32_t chunk_bytes;
    struct nic_pool *pool;
    struct xdp_socket *sockets;
    unsigned socket_count;
    unsigned socket_next;    /* the socket that the next burst starts with */
    struct xsk_ring_prod tx; /* of sockets[0] */
    unsigned sending;        /* buffers with the kernel for sending */
    bool kick_due;           /* the kernel has not processed the whole transmit ring yet */
    bool busy_poll;
    bool zero_copy;
    bool partial_csums; /* received frames may have partial checksums */
    bool gone;
    int wake_fd; /* eventfd */
    uint64_t exists_us;
    uint64_t rx_frames, rx_bytes;
    uint64_t rx_fill_short; /* times the pool had too few packets for the fill ring */
    uint64_t tx_frames, tx_bytes;
    uint64_t tx_full;  /* bursts cut short because the transmit ring was full */
    uint64_t tx_kicks; /* system calls to send */
};

static struct xdp *xdp_of(struct nic *nic)
{
    return U_CONTAINER_OF(nic, struct xdp, nic);
}

/* ---- receiving --------------------------------------------------------------------------- */

static struct us_pkt *pkt_at(const struct xdp *xdp, uint64_t addr)
{
    return nic_pool_at(xdp->pool, (unsigned)(addr / xdp->chunk_bytes));
}

/* Refills the fill ring of a queue with empty buffers. */
static void fill_up(struct xdp *xdp, struct xdp_socket *sock)
{
    struct us_pkt *pkts[FILL_STEP];
    uint32_t at;
    unsigned n, i;

    while (RING_FRAMES - sock->filled >= FILL_STEP) {
        n = nic_pool_alloc(xdp->pool, pkts, FILL_STEP);
        if (n < FILL_STEP)
            xdp->rx_fill_short++;
        if (n == 0)
            return;
        if (xsk_ring_prod__reserve(&sock->fill, n, &at) != n) {
            nic_pool_release(xdp->pool, pkts, n);
            return;
        }
        for (i = 0; i < n; i++)
            *xsk_ring_prod__fill_addr(&sock->fill, at + i) =
                (uint64_t)nic_pool_number(xdp->pool, pkts[i]) * xdp->chunk_bytes;
        xsk_ring_prod__submit(&sock->fill, n);
        sock->filled += n;
    }
}

/* Makes the kernel process the queue if it needs a wakeup. */
static void drive_rx(const struct xdp *xdp, const struct xdp_socket *sock)
{
    if (xdp->busy_poll || xsk_ring_prod__needs_wakeup(&sock->fill))
        (void)recvfrom(xsk_socket__fd(sock->xsk), NULL, 0, MSG_DONTWAIT, NULL, NULL);
}

static unsigned receive(struct xdp *xdp, struct xdp_socket *sock, struct us_pkt **pkts, unsigned n)
{
    uint32_t at;
    unsigned got = xsk_ring_cons__peek(&sock->rx, n, &at);
    unsigned i;

    if (got == 0) {
        drive_rx(xdp, sock);
        return 0;
    }
    for (i = 0; i < got; i++) {
        const struct xdp_desc *desc = xsk_ring_cons__rx_desc(&sock->rx, at + i);
        struct us_pkt *pkt = pkt_at(xdp, desc->addr);

        pkt->data = xdp->area + desc->addr;
        pkt->len = desc->len;
        pkt->room = xdp->chunk_bytes - (u_u32)(desc->addr % xdp->chunk_bytes);
        if (xdp->partial_csums)
            nic_partial_csum_mark(pkt);
        xdp->rx_bytes += desc->len;
        pkts[i] = pkt;
    }
    xsk_ring_cons__release(&sock->rx, got);
    xdp->rx_frames += got;
    sock->filled -= got;
    fill_up(xdp, sock);
    return got;
}

static void kick(struct xdp *xdp);

static unsigned xdp_rx_burst(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    struct xdp *xdp = xdp_of(nic);
    unsigned received = 0;
    unsigned i;

    if (U_UNLIKELY(xdp->kick_due))
        kick(xdp);
    for (i = 0; i < xdp->socket_count && received < n; i++) {
        struct xdp_socket *sock = &xdp->sockets[xdp->socket_next];

        received += receive(xdp, sock, pkts + received, n - received);
        if (++xdp->socket_next == xdp->socket_count)
            xdp->socket_next = 0;
    }
    return received;
}

/* ---- sending ----------------------------------------------------------------------------- */

/* Returns sent buffers to the pool. */
static void reap(struct xdp *xdp)
{
    struct xsk_ring_cons *done = &xdp->sockets[0].done;
    uint32_t at;
    unsigned n = xsk_ring_cons__peek(done, RING_FRAMES, &at);
    unsigned i;

    for (i = 0; i < n; i++) {
        struct us_pkt *pkt = pkt_at(xdp, *xsk_ring_cons__comp_addr(done, at + i));

        nic_pool_release(xdp->pool, &pkt, 1);
    }
    if (n > 0)
        xsk_ring_cons__release(done, n);
    xdp->sending -= n;
}

/*
 * Makes the kernel send the transmit ring. Frames that it cannot send now, because the link is busy
 * or down, stay in the ring and are retried with the next burst.
 */
static void kick(struct xdp *xdp)
{
    int fd = xsk_socket__fd(xdp->sockets[0].xsk);
    unsigned kicks = KICKS_MAX;

    xdp->kick_due = false;
    if (!xsk_ring_prod__needs_wakeup(&xdp->tx))
        return;
    do {
        xdp->tx_kicks++;
        if (sendto(fd, NULL, 0, MSG_DONTWAIT, NULL, 0) >= 0)
            return;
    } while (errno == EAGAIN && --kicks > 0);
    xdp->kick_due = true;
}

static unsigned xdp_alloc(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    struct xdp *xdp = xdp_of(nic);

    reap(xdp);
    return nic_pool_alloc(xdp->pool, pkts, n);
}

static void xdp_release(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    nic_pool_release(xdp_of(nic)->pool, pkts, n);
}

static unsigned xdp_tx_burst(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    struct xdp *xdp = xdp_of(nic);
    uint32_t at;
    unsigned room, i;

    reap(xdp);
    room = u_min32(RING_FRAMES - xdp->sending, xsk_prod_nb_free(&xdp->tx, n));
    if (U_UNLIKELY(n > room)) {
        xdp->tx_full++;
        n = room;
    }
    if (n == 0 || xsk_ring_prod__reserve(&xdp->tx, n, &at) != n) {
        kick(xdp);
        return 0;
    }
    for (i = 0; i < n; i++) {
        struct xdp_desc *desc = xsk_ring_prod__tx_desc(&xdp->tx, at + i);

        U_ASSERT(pkts[i]->next_seg == NULL);
        desc->addr = (uint64_t)(pkts[i]->data - xdp->area);
        desc->len = pkts[i]->len;
        desc->options = 0;
        xdp->tx_bytes += pkts[i]->len;
    }
    xsk_ring_prod__submit(&xdp->tx, n);
    xdp->sending += n;
    xdp->tx_frames += n;
    kick(xdp);
    return n;
}

/* ---- waiting ----------------------------------------------------------------------------- */

static uint64_t clock_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* A socket does not report that its interface was removed. */
static int check_exists(struct xdp *xdp)
{
    uint64_t now_us = clock_us();

    if (now_us - xdp->exists_us >= EXISTS_CHECK_US) {
        xdp->exists_us = now_us;
        xdp->gone = !nic_xdp_device_exists(&xdp->shared->device);
    }
    return xdp->gone ? -ENODEV : 0;
}

static int xdp_wait(struct nic *nic, uint64_t timeout_us)
{
    struct xdp *xdp = xdp_of(nic);
    struct pollfd fds[NIC_XDP_QUEUES_MAX + 1];
    unsigned n;
    int rc;

    for (n = 0; n < xdp->socket_count; n++)
        fds[n] = (struct pollfd){.fd = xsk_socket__fd(xdp->sockets[n].xsk), .events = POLLIN};
    fds[n++] = (struct pollfd){.fd = xdp->wake_fd, .events = POLLIN};
    rc = nic_wake_poll(fds, n, nic_wake_timeout_ns(timeout_us));
    return rc < 0 ? rc : check_exists(xdp);
}

static void xdp_wake(struct nic *nic)
{
    nic_wake_signal(xdp_of(nic)->wake_fd);
}

/* ---- statistics -------------------------------------------------------------------------- */

/* Adds the kernel's statistics of a socket. Kernels before 5.9 have only the first three. */
static void add_kernel_stats(const struct xdp_socket *sock, struct xdp_statistics *sum)
{
    struct xdp_statistics stats;
    socklen_t bytes = sizeof(stats);

    memset(&stats, 0, sizeof(stats));
    if (getsockopt(xsk_socket__fd(sock->xsk), SOL_XDP, XDP_STATISTICS, &stats, &bytes) < 0)
        return;
    sum->rx_dropped += stats.rx_dropped;
    sum->rx_invalid_descs += stats.rx_invalid_descs;
    sum->tx_invalid_descs += stats.tx_invalid_descs;
    sum->rx_ring_full += stats.rx_ring_full;
    sum->rx_fill_ring_empty_descs += stats.rx_fill_ring_empty_descs;
    sum->tx_ring_empty_descs += stats.tx_ring_empty_descs;
}

/*
 * The buffers were allocated for nic->mtu, so a larger MTU of the interface has no effect; the
 * kernel drops and counts frames that do not fit.
 */
static uint32_t xdp_mtu(struct nic *nic)
{
    uint32_t mtu = nic_xdp_device_mtu(&xdp_of(nic)->shared->device);

    return mtu == 0 ? nic->mtu : u_max32(u_min32(mtu, nic->mtu), NIC_MTU_MIN);
}

static void xdp_stats(struct nic *nic, nic_stats_emit *emit, void *emit_ctx)
{
    const struct xdp *xdp = xdp_of(nic);
    struct xdp_statistics kernel;
    unsigned i;

    memset(&kernel, 0, sizeof(kernel));
    for (i = 0; i < xdp->socket_count; i++)
        add_kernel_stats(&xdp->sockets[i], &kernel);
    if (nic->queue == 0) {
        emit(emit_ctx, "xdp_mtu", xdp_mtu(nic));
        emit(emit_ctx, "xdp_mtu_interface", nic_xdp_device_mtu(&xdp->shared->device));
    }
    emit(emit_ctx, "xdp_native", !xdp->shared->filter.generic);
    emit(emit_ctx, "xdp_zero_copy", xdp->zero_copy);
    emit(emit_ctx, "xdp_sockets", xdp->socket_count);
    emit(emit_ctx, "xdp_rx_frames", xdp->rx_frames);
    emit(emit_ctx, "xdp_rx_bytes", xdp->rx_bytes);
    emit(emit_ctx, "xdp_rx_dropped", kernel.rx_dropped);
    emit(emit_ctx, "xdp_rx_ring_full", kernel.rx_ring_full);
    emit(emit_ctx, "xdp_rx_fill_empty", kernel.rx_fill_ring_empty_descs);
    emit(emit_ctx, "xdp_rx_invalid", kernel.rx_invalid_descs);
    emit(emit_ctx, "xdp_rx_fill_short", xdp->rx_fill_short);
    emit(emit_ctx, "xdp_tx_frames", xdp->tx_frames);
    emit(emit_ctx, "xdp_tx_bytes", xdp->tx_bytes);
    emit(emit_ctx, "xdp_tx_full", xdp->tx_full);
    emit(emit_ctx, "xdp_tx_kicks", xdp->tx_kicks);
    emit(emit_ctx, "xdp_tx_invalid", kernel.tx_invalid_descs);
    emit(emit_ctx, "xdp_tx_ring_empty", kernel.tx_ring_empty_descs);
    emit(emit_ctx, "xdp_pool_exhausted", nic_pool_exhausted(xdp->pool));
}

/* ---- closing ----------------------------------------------------------------------------- */

static void shared_release(struct xdp_shared *shared)
{
    if (atomic_fetch_sub(&shared->users, 1) > 1)
        return;
    nic_xdp_filter_close(&shared->filter);
    nic_xdp_device_close(&shared->device);
    free(shared);
}

/* Closes the sockets and frees rings and frames. */
static void close_sockets(struct xdp *xdp)
{
    while (xdp->socket_count > 0)
        xsk_socket__delete(xdp->sockets[--xdp->socket_count].xsk);
    if (xdp->umem != NULL)
        (void)xsk_umem__delete(xdp->umem);
    nic_pool_destroy(xdp->pool);
    if (xdp->area != NULL)
        munmap(xdp->area, xdp->area_bytes);
    free(xdp->sockets);
    xdp->umem = NULL;
    xdp->pool = NULL;
    xdp->area = NULL;
    xdp->sockets = NULL;
    xdp->sending = 0;
}

static void xdp_close(struct nic *nic)
{
    struct xdp *xdp = xdp_of(nic);

    close_sockets(xdp);
    if (xdp->wake_fd >= 0)
        close(xdp->wake_fd);
    shared_release(xdp->shared);
    free(xdp);
}

static const struct nic_ops xdp_ops = {
    .name = "xdp",
    .rx_burst = xdp_rx_burst,
    .alloc = xdp_alloc,
    .release = xdp_release,
    .tx_burst = xdp_tx_burst,
    .wait = xdp_wait,
    .wake = xdp_wake,
    .mtu = xdp_mtu,
    .stats = xdp_stats,
    .close = xdp_close,
};

/* ---- opening one nic --------------------------------------------------------------------- */

/*
 * Allocates memory for frames. It is shared with the kernel and with a child of fork() (-d), so it
 * must not be copied on write.
 */
static int make_umem(struct xdp *xdp, unsigned sockets)
{
    unsigned count = sockets * RING_FRAMES + RING_FRAMES + CALLER_FRAMES;
    struct xsk_umem_config config = {
        .fill_size = RING_FRAMES, .comp_size = RING_FRAMES, .frame_size = xdp->chunk_bytes};
    void *area;

    xdp->sockets = calloc(sockets, sizeof(xdp->sockets[0]));
    xdp->area_bytes = (size_t)count * xdp->chunk_bytes;
    area = mmap(NULL, xdp->area_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (xdp->sockets == NULL || area == MAP_FAILED)
        return -ENOMEM;
    xdp->area = area;
    xdp->pool = nic_pool_create_on(area, count, xdp->chunk_bytes);
    if (xdp->pool == NULL)
        return -ENOMEM;
    return xsk_umem__create(&xdp->umem, area, xdp->area_bytes, &xdp->sockets[0].fill,
                            &xdp->sockets[0].done, &config);
}

/* Creates the socket of a queue. Returns 0 or a negative errno value. */
static int make_socket(struct xdp *xdp, const struct nic_xdp_config *config, unsigned rx_queue)
{
    struct xdp_socket *sock = &xdp->sockets[xdp->socket_count];
    bool copy = config->copy || xdp->shared->filter.generic;
    struct xsk_socket_config socket_config = {
        .rx_size = RING_FRAMES,
        .tx_size = RING_FRAMES,
        .libxdp_flags = XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD,
        .bind_flags = (uint16_t)(XDP_USE_NEED_WAKEUP | (copy ? XDP_COPY : 0)),
    };
    int rc;

    if (xdp->socket_count == 0)
        rc = xsk_socket__create(&sock->xsk, config->dev, rx_queue, xdp->umem, &sock->rx, &xdp->tx,
                                &socket_config);
    else
        rc = xsk_socket__create_shared(&sock->xsk, config->dev, rx_queue, xdp->umem, &sock->rx,
                                       NULL, &sock->fill, &sock->done, &socket_config);
    if (rc < 0)
        return rc;
    xdp->socket_count++;
    fill_up(xdp, sock);
    return 0;
}

/*
 * Creates the sockets of the queues first, first + step, ... Returns 0 or a negative errno value.
 */
static int make_sockets(struct xdp *xdp, const struct nic_xdp_config *config, unsigned first,
                        unsigned step)
{
    unsigned rx_queues = xdp->shared->rx_queues;
    unsigned rx_queue;
    int rc = make_umem(xdp, (rx_queues - first + step - 1) / step);

    for (rx_queue = first; rx_queue < rx_queues && rc == 0; rx_queue += step)
        rc = make_socket(xdp, config, rx_queue);
    if (rc < 0)
        close_sockets(xdp);
    return rc;
}

/* Enables busy polling; if the kernel does not support it, interrupts are used. */
static void set_busy_poll(struct xdp *xdp)
{
    const int on = 1, time_us = BUSY_POLL_US, budget = NIC_BURST_MAX;
    unsigned i;

    xdp->busy_poll = true;
    for (i = 0; i < xdp->socket_count; i++) {
        int fd = xsk_socket__fd(xdp->sockets[i].xsk);

        if (setsockopt(fd, SOL_SOCKET, SO_PREFER_BUSY_POLL, &on, sizeof(on)) < 0 ||
            setsockopt(fd, SOL_SOCKET, SO_BUSY_POLL, &time_us, sizeof(time_us)) < 0 ||
            setsockopt(fd, SOL_SOCKET, SO_BUSY_POLL_BUDGET, &budget, sizeof(budget)) < 0)
            xdp->busy_poll = false;
    }
}

static void read_zero_copy(struct xdp *xdp)
{
    struct xdp_options options = {0};
    socklen_t bytes = sizeof(options);

    if (getsockopt(xsk_socket__fd(xdp->sockets[0].xsk), SOL_XDP, XDP_OPTIONS, &options, &bytes) ==
        0)
        xdp->zero_copy = (options.flags & XDP_OPTIONS_ZEROCOPY) != 0;
}

static int socket_failed(const struct nic_xdp_config *config, const struct xdp *xdp, int code,
                         char error[NIC_ERROR_MAX])
{
    const char *dev = config->dev;

    switch (code) {
    case EPERM:
        return nic_error_set(
            error, "xdp %s: an AF_XDP socket needs root, or CAP_NET_ADMIN and CAP_NET_RAW", dev);
    case EAFNOSUPPORT:
        return nic_error_set(error, "xdp %s: this kernel has no AF_XDP (CONFIG_XDP_SOCKETS)", dev);
    case ENOBUFS:
        return nic_error_set(
            error,
            "xdp %s: %zu KiB of memory cannot be locked: raise the limit (ulimit -l, "
            "LimitMEMLOCK), or run with CAP_IPC_LOCK",
            dev, xdp->area_bytes / 1024);
    case EBUSY:
        return nic_error_set(
            error,
            "xdp %s: a queue of the interface is in use by another AF_XDP socket: is "
            "another ucached running there?",
            dev);
    case ENETDOWN:
        return nic_error_set(error, "xdp %s: the interface is down: ip link set dev %s up", dev,
                             dev);
    default:
        return nic_error_set(error, "xdp %s: no AF_XDP socket: %s", dev, strerror(code));
    }
}

static int open_sockets(struct xdp *xdp, const struct nic_xdp_config *config, unsigned first,
                        unsigned step, char error[NIC_ERROR_MAX])
{
    const struct timespec pause = {.tv_nsec = BUSY_RETRY_US * 1000l};
    unsigned retries = BUSY_RETRIES;
    unsigned i;
    int rc = make_sockets(xdp, config, first, step);

    while (rc == -EBUSY && retries-- > 0) {
        nanosleep(&pause, NULL);
        rc = make_sockets(xdp, config, first, step);
    }
    if (rc < 0)
        return socket_failed(config, xdp, -rc, error);
    for (i = 0; i < xdp->socket_count && rc == 0; i++)
        rc = xsk_socket__update_xskmap(xdp->sockets[i].xsk, xdp->shared->filter.sockets_fd);
    if (rc < 0)
        return socket_failed(config, xdp, -rc, error);
    if (config->busy_poll)
        set_busy_poll(xdp);
    read_zero_copy(xdp);
    return 0;
}

static struct nic *open_nic(struct xdp_shared *shared, const struct nic_xdp_config *config,
                            unsigned queue, unsigned queues, char error[NIC_ERROR_MAX])
{
    static const uint8_t none[6];
    struct xdp *xdp = calloc(1, sizeof(*xdp));

    if (xdp == NULL) {
        nic_error_set(error, "xdp %s: out of memory", config->dev);
        return NULL;
    }
    atomic_fetch_add(&shared->users, 1);
    xdp->shared = shared;
    xdp->nic.ops = &xdp_ops;
    xdp->nic.queue = (uint16_t)queue;
    xdp->nic.queues = (uint16_t)queues;
    xdp->nic.numa_node = NIC_NUMA_ANY;
    xdp->nic.close_needs_net_admin = shared->device.gro_off;
    xdp->nic.mtu = config->mtu != 0 ? config->mtu : shared->device.mtu;
    memcpy(xdp->nic.mac, memcmp(config->mac, none, 6) != 0 ? config->mac : shared->device.mac, 6);
    xdp->chunk_bytes =
        shared->device.mtu + FRAME_HEADER_BYTES + KERNEL_HEADROOM_BYTES <= CHUNK_SMALL_BYTES
            ? CHUNK_SMALL_BYTES
            : CHUNK_LARGE_BYTES;
    xdp->partial_csums = shared->device.is_veth || shared->filter.generic;
    xdp->exists_us = clock_us();
    xdp->wake_fd = nic_wake_open();
    if (xdp->wake_fd < 0) {
        nic_error_set(error, "xdp %s: no event descriptor: %s", config->dev, strerror(errno));
    } else if (open_sockets(xdp, config, queue, queues, error) == 0) {
        return &xdp->nic;
    }
    xdp_close(&xdp->nic);
    return NULL;
}

/* ---- opening an interface ---------------------------------------------------------------- */

static int check(const struct nic_xdp_config *config, const struct nic_xdp_device *device,
                 char error[NIC_ERROR_MAX])
{
    const uint32_t mtu_max = CHUNK_LARGE_BYTES - KERNEL_HEADROOM_BYTES - FRAME_HEADER_BYTES;

    if (device->mtu > mtu_max)
        return nic_error_set(
            error,
            "xdp %s: its MTU of %u does not fit into a page, which AF_XDP requires:"
            "ip link set dev %s mtu %u",
            config->dev, device->mtu, config->dev, mtu_max);
    if (device->mtu < NIC_MTU_MIN ||
        (config->mtu != 0 && (config->mtu < NIC_MTU_MIN || config->mtu > device->mtu)))
        return nic_error_set(error, "xdp %s: MTU %u: between %u and that of the interface, %u",
                             config->dev, config->mtu, NIC_MTU_MIN, device->mtu);
    if ((config->mac[0] & 1) != 0)
        return nic_error_set(error, "xdp %s: the MAC address is a multicast address", config->dev);
    return 0;
}

/* Prepares the interface before the sockets are opened. */
static int prepare(struct xdp_shared *shared, const struct nic_xdp_config *config,
                   char error[NIC_ERROR_MAX])
{
    struct nic_xdp_device *device = &shared->device;

    if (nic_xdp_device_open(device, config, error) < 0 || check(config, device, error) < 0 ||
        nic_xdp_filter_load(&shared->filter, error) < 0 ||
        nic_xdp_filter_allow(&shared->filter, config, error) < 0)
        return -1;
    if ((config->host_addrs ? nic_xdp_device_claim(device, config, error)
                            : nic_xdp_device_join(device, config, error)) < 0)
        return -1;
    /* Before the sockets: zero-copy needs the program in native mode. */
    if (nic_xdp_filter_attach(&shared->filter, config, device->ifindex, error) < 0)
        return -1;
    if (shared->filter.generic)
        nic_xdp_device_gro_off(device);
    shared->rx_queues = nic_xdp_device_queues(device);
    if (shared->rx_queues > NIC_XDP_QUEUES_MAX)
        return nic_error_set(
            error,
            "xdp %s: it has %u receive queues, more than %u: see ethtool -l %s, change it "
            "by ethtool -L",
            config->dev, shared->rx_queues, NIC_XDP_QUEUES_MAX, config->dev);
    return 0;
}

int nic_xdp_open(const struct nic_xdp_config *config, unsigned queues, struct nic *queue[],
                 char error[NIC_ERROR_MAX])
{
    struct xdp_shared *shared = calloc(1, sizeof(*shared));
    unsigned n = 0;

    U_ASSERT(queues > 0 && config->addr_count <= NIC_XDP_ADDRS_MAX);
    if (shared == NULL)
        return nic_error_set(error, "xdp %s: out of memory", config->dev);
    libxdp_set_print(NULL);
    shared->filter.link_fd = -1;
    atomic_store(&shared->users, 1);
    if (prepare(shared, config, error) == 0) {
        queues = u_min32(queues, shared->rx_queues);
        while (n < queues && (queue[n] = open_nic(shared, config, n, queues, error)) != NULL)
            n++;
    }
    shared_release(shared);
    if (n == queues)
        return (int)queues;
    while (n > 0)
        nic_close(queue[--n]);
    return -1;
}
