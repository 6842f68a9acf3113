/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A link in memory, for tests and for two stacks in one thread.
 *
 * Nothing is copied: both ends share one pool, and frames change ends as pointers. Both ends belong
 * to one thread, so that no other thread could wake a sleeper, and wait() returns immediately.
 */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "nic/error.h"
#include "nic/fifo.h"
#include "nic/nic.h"
#include "nic/pool.h"

#define QUEUE_FRAMES_DEFAULT 1024
#define QUEUE_FRAMES_MAX 65536

/* In addition to full queues: each end may hold a received burst and one to send. */
#define SPARE_PKTS (4 * NIC_BURST_MAX)

struct link;

struct loop_end {
    struct nic nic;
    struct link *link;
    struct loop_end *peer;
    struct nic_fifo inbox; /* frames from the peer, not received yet */
    bool closed;
    uint64_t rx_frames, rx_bytes;
    uint64_t tx_frames, tx_bytes; /* delivered to the peer's inbox */
    uint64_t tx_drops;            /* dropped: the inbox is full, or the peer is closed */
    uint64_t tx_errors;           /* dropped: longer than the MTU, or without Ethernet header */
};

struct link {
    struct loop_end ends[2];
    struct nic_pool *pool;
};

static struct loop_end *end_of(struct nic *nic)
{
    return U_CONTAINER_OF(nic, struct loop_end, nic);
}

/* Updates the inbox once per burst. */
static unsigned loop_rx_burst(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    struct loop_end *end = end_of(nic);
    struct nic_fifo *inbox = &end->inbox;
    struct us_pkt *const *slots = inbox->slots;
    unsigned head = inbox->head;
    uint64_t bytes = 0;
    unsigned i;

    n = u_min32(n, inbox->count);
    for (i = 0; i < n; i++) {
        struct us_pkt *pkt = slots[head];

        head = nic_fifo_next(inbox, head);
        bytes += pkt->len;
        pkts[i] = pkt;
    }
    inbox->head = head;
    inbox->count -= n;
    end->rx_frames += n;
    end->rx_bytes += bytes;
    return n;
}

static unsigned loop_alloc(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    return nic_pool_alloc(end_of(nic)->link->pool, pkts, n);
}

static void loop_release(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    nic_pool_release(end_of(nic)->link->pool, pkts, n);
}

/* Drops a frame and counts it. A link accepts every frame, as a wire does. */
static void lose(struct loop_end *end, struct us_pkt *pkt)
{
    if (pkt->len - NIC_ETH_HEADER_BYTES > end->nic.mtu)
        end->tx_errors++;
    else
        end->tx_drops++;
    nic_pool_release(end->link->pool, &pkt, 1);
}

/* Delivers frames up to the first one that must be dropped. Returns how many. */
static inline unsigned deliver(struct loop_end *end, struct us_pkt **pkts, unsigned n)
{
    struct loop_end *peer = end->peer;
    struct nic_fifo *inbox = &peer->inbox;
    unsigned tail = nic_fifo_slot(inbox, inbox->head, inbox->count);
    uint64_t bytes = 0;
    unsigned i;

    n = peer->closed ? 0 : u_min32(n, inbox->capacity - inbox->count);
    for (i = 0; i < n; i++) {
        struct us_pkt *pkt = pkts[i];

        U_ASSERT(pkt->next_seg == NULL);
        U_ASSERT(pkt->len <= pkt->room);
        if (U_UNLIKELY(pkt->len - NIC_ETH_HEADER_BYTES > end->nic.mtu)) /* or without header */
            break;
        bytes += pkt->len;
        pkt->flags = 0; /* offload requests are not passed to the receiver */
        inbox->slots[tail] = pkt;
        tail = nic_fifo_next(inbox, tail);
    }
    inbox->count += i;
    end->tx_frames += i;
    end->tx_bytes += bytes;
    return i;
}

/* Sends frames of which the first must be dropped. */
static U_NOINLINE void deliver_rest(struct loop_end *end, struct us_pkt **pkts, unsigned n)
{
    unsigned done = 0;

    while (done < n) {
        lose(end, pkts[done++]);
        done += deliver(end, pkts + done, n - done);
    }
}

static unsigned loop_tx_burst(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    struct loop_end *end = end_of(nic);
    unsigned done = deliver(end, pkts, n);

    if (U_UNLIKELY(done < n))
        deliver_rest(end, pkts + done, n - done);
    return n;
}

static int loop_wait(struct nic *nic, uint64_t timeout_us)
{
    return 0;
}

static void loop_wake(struct nic *nic)
{
}

static void loop_stats(struct nic *nic, nic_stats_emit *emit, void *emit_ctx)
{
    const struct loop_end *end = end_of(nic);

    emit(emit_ctx, "loop_rx_frames", end->rx_frames);
    emit(emit_ctx, "loop_rx_bytes", end->rx_bytes);
    emit(emit_ctx, "loop_tx_frames", end->tx_frames);
    emit(emit_ctx, "loop_tx_bytes", end->tx_bytes);
    emit(emit_ctx, "loop_tx_drops", end->tx_drops);
    emit(emit_ctx, "loop_tx_errors", end->tx_errors);
    emit(emit_ctx, "loop_pool_exhausted", nic_pool_exhausted(end->link->pool));
    emit(emit_ctx, "loop_pool_in_use", nic_pool_in_use(end->link->pool));
}

static void link_destroy(struct link *link)
{
    free(link->ends[0].inbox.slots);
    free(link->ends[1].inbox.slots);
    nic_pool_destroy(link->pool);
    free(link);
}

/* Closing the second end frees the link, whose pool the first one needs until then. */
static void loop_close(struct nic *nic)
{
    struct loop_end *end = end_of(nic);

    U_ASSERT(!end->closed);
    end->closed = true;
    while (end->inbox.count > 0) {
        struct us_pkt *pkt = nic_fifo_pop(&end->inbox);

        nic_pool_release(end->link->pool, &pkt, 1);
    }
    if (end->peer->closed)
        link_destroy(end->link);
}

static const struct nic_ops loop_ops = {
    .name = "loop",
    .rx_burst = loop_rx_burst,
    .alloc = loop_alloc,
    .release = loop_release,
    .tx_burst = loop_tx_burst,
    .wait = loop_wait,
    .wake = loop_wake,
    .stats = loop_stats,
    .close = loop_close,
};

/* A cache line holds the slots of one link only: links may belong to different threads. */
static struct us_pkt **slots_new(unsigned queue_frames)
{
    const size_t per_line = U_CACHE_LINE_BYTES / sizeof(struct us_pkt *);
    size_t lines = (queue_frames + per_line - 1) / per_line;

    return aligned_alloc(U_CACHE_LINE_BYTES, lines * U_CACHE_LINE_BYTES);
}

static void end_init(struct link *link, unsigned side, uint32_t mtu, unsigned queue_frames)
{
    struct loop_end *end = &link->ends[side];

    end->nic.ops = &loop_ops;
    end->nic.mtu = mtu;
    end->nic.queues = 1;
    end->nic.numa_node = NIC_NUMA_ANY;
    end->nic.mac[0] = 0x02; /* locally administered */
    end->nic.mac[5] = (uint8_t)(side + 1);
    end->link = link;
    end->peer = &link->ends[1 - side];
    end->inbox.slots = slots_new(queue_frames);
    end->inbox.capacity = queue_frames;
}

int nic_loopback_open(const struct nic_loopback_config *config, struct nic *ends[2],
                      char error[NIC_ERROR_MAX])
{
    uint32_t mtu = config->mtu != 0 ? config->mtu : NIC_MTU_DEFAULT;
    unsigned queue_frames = config->queue_frames != 0 ? config->queue_frames : QUEUE_FRAMES_DEFAULT;
    struct link *link;

    if (mtu < NIC_MTU_MIN || mtu > NIC_MTU_MAX)
        return nic_error_set(error, "loop: MTU %u: between %u and %u", mtu, NIC_MTU_MIN,
                             NIC_MTU_MAX);
    if (queue_frames > QUEUE_FRAMES_MAX)
        return nic_error_set(error, "loop: queue of %u frames: at most %u", queue_frames,
                             QUEUE_FRAMES_MAX);
    link = calloc(1, sizeof(*link));
    if (link == NULL)
        return nic_error_set(error, "loop: out of memory");
    end_init(link, 0, mtu, queue_frames);
    end_init(link, 1, mtu, queue_frames);
    link->pool = nic_pool_create(2 * queue_frames + SPARE_PKTS, mtu);
    if (link->pool == NULL || link->ends[0].inbox.slots == NULL ||
        link->ends[1].inbox.slots == NULL) {
        link_destroy(link);
        return nic_error_set(error, "loop: out of memory");
    }
    ends[0] = &link->ends[0].nic;
    ends[1] = &link->ends[1].nic;
    return 0;
}
