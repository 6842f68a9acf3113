/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fault injection: loses, duplicates, reorders and corrupts frames in both directions, each with
 * its own random sequence.
 *
 * The fault of a frame depends on the seed and on the number of earlier frames in its direction,
 * never on a clock, so that the same calls with the same frames have the same result. A reordered
 * frame is held until 1 to REORDER_MAX later frames have passed. If none arrives it is released
 * after a number of polls; a sleep in wait() counts as several polls and is shortened.
 */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/prng.h"
#include "nic/error.h"
#include "nic/fifo.h"
#include "nic/nic.h"

#define PPM_MAX 1000000

/* The maximum number of frames that overtake a held one. */
#define REORDER_MAX 4

/* A held frame is released after this many calls of rx_burst(); one sleep counts as WAIT_POLLS. */
#define HOLD_POLLS 256
#define WAIT_POLLS 64
#define HOLD_WAIT_US 500

/*
 * Room for a burst that was not accepted yet, another one with all frames duplicated, and held
 * frames.
 */
#define READY_MAX (4 * NIC_BURST_MAX)

struct held {
    struct us_pkt *pkt;
    unsigned behind; /* later frames still to pass */
    unsigned polls;  /* calls of rx_burst() still to pass */
};

struct direction {
    struct u_prng prng;
    struct held held[REORDER_MAX]; /* oldest first */
    unsigned held_count;
    struct nic_fifo ready; /* to be received or sent next */
    struct us_pkt *ready_slots[READY_MAX];
    uint64_t frames; /* that entered */
    uint64_t lost;
    uint64_t duplicated;
    uint64_t not_duplicated; /* no packet for the copy, or the frame has several segments */
    uint64_t reordered;
    uint64_t corrupted;
};

struct fault {
    struct nic nic;
    struct nic *lower;
    struct nic_fault_config config;
    struct direction rx;
    struct direction tx;
};

static struct fault *fault_of(struct nic *nic)
{
    return U_CONTAINER_OF(nic, struct fault, nic);
}

/* ---- what happens to one frame ----------------------------------------------------------- */

/* Copies the frame to a new packet. Returns null if that is impossible. */
static struct us_pkt *copy_of(struct fault *fault, const struct us_pkt *pkt)
{
    struct us_pkt *copy;

    if (pkt->next_seg != NULL || nic_alloc(fault->lower, &copy, 1) == 0)
        return NULL;
    if (pkt->len > copy->room) {
        nic_release(fault->lower, &copy, 1);
        return NULL;
    }
    u_copy(copy->data, pkt->data, pkt->len);
    copy->len = pkt->len;
    copy->flags = pkt->flags;
    copy->rss_hash = pkt->rss_hash;
    return copy;
}

/* The checksum flags are cleared: the NIC verified the frame before the fault. */
static void flip_bit(struct us_pkt *pkt, uint32_t bit)
{
    pkt->data[bit / 8] = (u_u8)(pkt->data[bit / 8] ^ (1u << bit % 8));
    pkt->flags = 0;
}

/* Releases held frames after `passed` more frames or `polls` more polls. */
static void age_held(struct direction *dir, unsigned passed, unsigned polls)
{
    unsigned kept = 0;
    unsigned i;

    for (i = 0; i < dir->held_count; i++) {
        struct held held = dir->held[i];

        if (held.behind <= passed || held.polls <= polls) {
            nic_fifo_push(&dir->ready, held.pkt);
        } else {
            held.behind -= passed;
            held.polls -= polls;
            dir->held[kept++] = held;
        }
    }
    dir->held_count = kept;
}

/* Every frame ages the held ones, so no frame is held longer than REORDER_MAX frames. */
static void hold(struct direction *dir, struct us_pkt *pkt, unsigned behind)
{
    struct held *held;

    age_held(dir, 1, 0);
    U_ASSERT(dir->held_count < REORDER_MAX);
    held = &dir->held[dir->held_count++];
    held->pkt = pkt;
    held->behind = behind;
    held->polls = HOLD_POLLS;
}

static void deliver(struct direction *dir, struct us_pkt *pkt)
{
    nic_fifo_push(&dir->ready, pkt);
    age_held(dir, 1, 0);
}

/*
 * Applies faults to one frame. All random numbers are drawn for every frame, so that the fault of
 * one frame does not change the sequence for the next.
 */
static void inject(struct fault *fault, struct direction *dir, struct us_pkt *pkt)
{
    const struct nic_fault_config *config = &fault->config;
    bool lose = u_prng_below(&dir->prng, PPM_MAX) < config->loss_ppm;
    bool duplicate = u_prng_below(&dir->prng, PPM_MAX) < config->duplicate_ppm;
    bool reorder = u_prng_below(&dir->prng, PPM_MAX) < config->reorder_ppm;
    bool corrupt = u_prng_below(&dir->prng, PPM_MAX) < config->corrupt_ppm;
    unsigned behind = 1 + u_prng_below(&dir->prng, REORDER_MAX);
    uint64_t bit = u_prng_next(&dir->prng);
    struct us_pkt *copy = NULL;

    dir->frames++;
    if (lose) {
        dir->lost++;
        nic_release(fault->lower, &pkt, 1);
        return;
    }
    if (duplicate) {
        copy = copy_of(fault, pkt);
        if (copy != NULL)
            dir->duplicated++;
        else
            dir->not_duplicated++;
    }
    if (corrupt && pkt->len > 0) {
        dir->corrupted++;
        flip_bit(pkt, (uint32_t)(bit % (8ull * pkt->len)));
    }
    if (reorder) {
        dir->reordered++;
        hold(dir, pkt, behind);
    } else {
        deliver(dir, pkt);
    }
    if (copy != NULL)
        nic_fifo_push(&dir->ready, copy);
}

/* ---- the device -------------------------------------------------------------------------- */

/* Sends frames to the lower device until it accepts no more. */
static void send_ready(struct fault *fault)
{
    struct nic_fifo *ready = &fault->tx.ready;
    unsigned n, taken;

    do {
        struct us_pkt *burst[NIC_BURST_MAX];
        unsigned i;

        n = u_min32(ready->count, NIC_BURST_MAX);
        for (i = 0; i < n; i++)
            burst[i] = nic_fifo_at(ready, i);
        taken = nic_tx_burst(fault->lower, burst, n);
        for (i = 0; i < taken; i++)
            nic_fifo_pop(ready);
    } while (taken == n && ready->count > 0);
}

/* Ages the held frames of both directions. */
static void poll_held(struct fault *fault, unsigned polls)
{
    age_held(&fault->rx, 0, polls);
    age_held(&fault->tx, 0, polls);
    if (fault->tx.ready.count > 0)
        send_ready(fault);
}

static unsigned fault_rx_burst(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    struct fault *fault = fault_of(nic);
    struct nic_fifo *ready = &fault->rx.ready;
    unsigned i;

    n = u_min32(n, NIC_BURST_MAX);
    poll_held(fault, 1);
    if (ready->count < n) {
        struct us_pkt *burst[NIC_BURST_MAX];
        unsigned received = nic_rx_burst(fault->lower, burst, n - ready->count);

        for (i = 0; i < received; i++)
            inject(fault, &fault->rx, burst[i]);
    }
    n = u_min32(n, ready->count);
    for (i = 0; i < n; i++)
        pkts[i] = nic_fifo_pop(ready);
    return n;
}

static unsigned fault_alloc(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    return nic_alloc(fault_of(nic)->lower, pkts, n);
}

static void fault_release(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    nic_release(fault_of(nic)->lower, pkts, n);
}

/* Accepts frames as long as there is room for two copies of each. */
static unsigned fault_tx_burst(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    struct fault *fault = fault_of(nic);
    struct direction *tx = &fault->tx;
    unsigned taken = 0;

    while (taken < n && tx->ready.count + tx->held_count + 2 <= READY_MAX)
        inject(fault, tx, pkts[taken++]);
    if (tx->ready.count > 0)
        send_ready(fault);
    return taken;
}

static int fault_wait(struct nic *nic, uint64_t timeout_us)
{
    struct fault *fault = fault_of(nic);
    int result;

    if (fault->rx.ready.count > 0)
        return 0;
    if (fault->rx.held_count + fault->tx.held_count + fault->tx.ready.count > 0)
        timeout_us = u_min64(timeout_us, HOLD_WAIT_US);
    result = nic_wait(fault->lower, timeout_us);
    if (timeout_us > 0)
        poll_held(fault, WAIT_POLLS);
    return result;
}

static void fault_wake(struct nic *nic)
{
    nic_wake(fault_of(nic)->lower);
}

static void fault_stats(struct nic *nic, nic_stats_emit *emit, void *emit_ctx)
{
    const struct fault *fault = fault_of(nic);

    emit(emit_ctx, "fault_rx_frames", fault->rx.frames);
    emit(emit_ctx, "fault_rx_lost", fault->rx.lost);
    emit(emit_ctx, "fault_rx_duplicated", fault->rx.duplicated);
    emit(emit_ctx, "fault_rx_not_duplicated", fault->rx.not_duplicated);
    emit(emit_ctx, "fault_rx_reordered", fault->rx.reordered);
    emit(emit_ctx, "fault_rx_corrupted", fault->rx.corrupted);
    emit(emit_ctx, "fault_tx_frames", fault->tx.frames);
    emit(emit_ctx, "fault_tx_lost", fault->tx.lost);
    emit(emit_ctx, "fault_tx_duplicated", fault->tx.duplicated);
    emit(emit_ctx, "fault_tx_not_duplicated", fault->tx.not_duplicated);
    emit(emit_ctx, "fault_tx_reordered", fault->tx.reordered);
    emit(emit_ctx, "fault_tx_corrupted", fault->tx.corrupted);
    nic_stats(fault->lower, emit, emit_ctx);
}

static void drop_held(struct fault *fault, struct direction *dir)
{
    age_held(dir, 0, HOLD_POLLS);
    while (dir->ready.count > 0) {
        struct us_pkt *pkt = nic_fifo_pop(&dir->ready);

        nic_release(fault->lower, &pkt, 1);
    }
}

static void fault_close(struct nic *nic)
{
    struct fault *fault = fault_of(nic);

    drop_held(fault, &fault->rx);
    drop_held(fault, &fault->tx);
    nic_close(fault->lower);
    free(fault);
}

static uint32_t fault_mtu(struct nic *nic)
{
    return nic_mtu(fault_of(nic)->lower);
}

static const struct nic_ops fault_ops = {
    .name = "fault",
    .rx_burst = fault_rx_burst,
    .alloc = fault_alloc,
    .release = fault_release,
    .tx_burst = fault_tx_burst,
    .wait = fault_wait,
    .wake = fault_wake,
    .mtu = fault_mtu,
    .stats = fault_stats,
    .close = fault_close,
};

static void direction_init(struct direction *dir, uint64_t seed)
{
    u_prng_seed(&dir->prng, seed);
    dir->ready.slots = dir->ready_slots;
    dir->ready.capacity = READY_MAX;
}

static struct nic *open_queue(struct nic *lower, const struct nic_fault_config *config)
{
    struct fault *fault = calloc(1, sizeof(*fault));
    struct u_prng seeds;

    if (fault == NULL)
        return NULL;
    fault->nic = *lower;
    fault->nic.ops = &fault_ops;
    /*
     * Frames must be complete when the fault is applied: a checksum offload would hide a flipped
     * bit, and a frame of several segments cannot be copied into one packet.
     */
    fault->nic.caps &= US_CAP_RX_CSUM | US_CAP_RX_HASH;
    fault->lower = lower;
    fault->config = *config;
    u_prng_seed(&seeds, config->seed + lower->queue);
    direction_init(&fault->rx, u_prng_next(&seeds));
    direction_init(&fault->tx, u_prng_next(&seeds));
    return &fault->nic;
}

int nic_fault_open(struct nic *queue[], unsigned queues, const struct nic_fault_config *config,
                   char error[NIC_ERROR_MAX])
{
    struct nic *outer[NIC_QUEUES_MAX];
    unsigned n;

    U_ASSERT(queues > 0 && queues <= NIC_QUEUES_MAX);
    if (config->loss_ppm > PPM_MAX || config->duplicate_ppm > PPM_MAX ||
        config->reorder_ppm > PPM_MAX || config->corrupt_ppm > PPM_MAX)
        return nic_error_set(error, "fault: a probability is above %u parts per million", PPM_MAX);
    for (n = 0; n < queues; n++) {
        outer[n] = open_queue(queue[n], config);
        if (outer[n] == NULL)
            break;
    }
    if (n == queues) {
        memcpy(queue, outer, queues * sizeof(queue[0]));
        return 0;
    }
    nic_error_set(error, "fault: out of memory");
    while (n > 0)
        free(fault_of(outer[--n]));
    return -1;
}
