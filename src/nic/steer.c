/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Software flow steering; see steer.h.
 *
 * Rings, each with one producer and one consumer (nic/ring.h):
 *
 * - forward[a][b]: frames that lane a received and that belong to lane b
 * - returns[b][a]: the same packets when b has released them; and packets that a supplied to b as
 *   empties, filled (marked SEND) or unused
 * - empties[b]: empty packets for a lane b without a queue, from the lane whose queue it uses
 *
 * Invariants:
 * - a.outstanding[b], read and written by lane a only, is the number of a's packets in
 *   forward[a][b], empties[b], held by b, or in returns[b][a]. It never exceeds OUTSTANDING_MAX,
 *   the capacity of returns[b][a]: returning a packet cannot fail.
 * - A producer that puts a packet into a ring whose consumer may sleep sets its bit in the
 *   consumer's `doorbell` and then reads `asleep`; a lane that goes to sleep sets `asleep` and then
 *   reads `doorbell`. All four accesses are sequentially consistent, so at least one of the two
 *   lanes sees the other's store.
 * - A lane that finds empties[] empty sets `starving` by an exchange and checks once more; the
 *   supplier puts packets in and then clears `starving` by an exchange. The later exchange sees all
 *   stores before the earlier one.
 *
 * Returned packets do not ring the doorbell: a lane collects them whenever it receives.
 */
#include "nic/steer.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "nic/error.h"
#include "nic/frag_steer.h"
#include "nic/ring.h"
#include "nic/rss_check.h"
#include "nic/wake.h"

/* Empty packets that a lane without a queue may hold: two bursts. */
#define EMPTIES_MAX (2 * NIC_BURST_MAX)
#define EMPTIES_LOW NIC_BURST_MAX

/* The ring, a burst held by the consumer, and empties. */
#define OUTSTANDING_MAX 512
U_STATIC_ASSERT(OUTSTANDING_MAX >= NIC_STEER_RING_FRAMES + NIC_BURST_MAX + EMPTIES_MAX,
                outstanding_max);

/* Frames of lanes without a queue that the device has not accepted yet. */
#define UNSENT_MAX 512

/* A burst in which every fragment releases all fragments that waited for it. */
#define DEFERRED_MAX (NIC_BURST_MAX + NIC_FRAG_DATAGRAMS_MAX * NIC_FRAG_WAITING_MAX)

/* Sleep limit while frames of other lanes wait for the device. */
#define WAIT_STALLED_US 1000

/* In a ring, the lowest bit of a packet's address: the packet is to be sent. */
#define SEND ((uintptr_t)1)

/* In us_pkt.home, beside the lane's number: the packet was supplied empty. */
#define HOME_EMPTY 0x8000u

struct lane {
    struct nic nic;
    struct steer *steer;
    struct nic *lower; /* its device queue, or null */
    unsigned number;
    unsigned tx_lane;          /* the lane through whose queue this one sends */
    uint64_t bells;            /* bits taken from `doorbell` whose rings may not be empty yet */
    uint64_t outstanding_mask; /* bit b: outstanding[b] > 0 */
    unsigned *outstanding;     /* by lane; see the invariants */
    unsigned *empties_out;     /* by lane: how many of these were supplied empty */
    struct us_pkt *unsent[UNSENT_MAX]; /* of other lanes: not accepted by the device yet */
    unsigned unsent_count;
    struct us_pkt *deferred[DEFERRED_MAX]; /* received for this lane, beyond one burst */
    unsigned deferred_count;
    struct nic_frag_steer frags;
    struct nic_rss_check rss;
    int wake_fd; /* eventfd of a lane without a queue; else -1 */

    uint64_t forwarded;       /* frames for other lanes */
    uint64_t received;        /* frames from other lanes */
    uint64_t ring_full;       /* frames dropped because the ring was full */
    uint64_t copied;          /* copies of broadcast frames */
    uint64_t copies_lost;     /* copies not made for lack of a packet */
    uint64_t frags_lost;      /* fragments dropped: the first one did not arrive */
    uint64_t sent_for_others; /* frames sent for lanes without a queue */
    uint64_t tx_no_packet;    /* times there was no empty packet to send */
    uint64_t wakes;           /* wakes of other lanes */

    /* Written by other threads; a separate cache line prevents false sharing. */
    _Alignas(U_CACHE_LINE_BYTES) _Atomic uint64_t
        doorbell; /* bit a: lane a has put a packet into a ring */
    _Atomic bool asleep;
    _Atomic bool starving;
};

struct steer {
    struct nic_ops ops; /* named like the device */
    unsigned lanes;
    unsigned queues;
    bool hw_steered;          /* the device claims to steer TCP as nic_rss_lane() does */
    _Atomic bool hw_mismatch; /* a frame has shown that it does not */
    _Atomic unsigned open;
    struct lane *lane;         /* `lanes` of them */
    struct nic_ring **forward; /* from * lanes + to; null on the diagonal */
    struct nic_ring **returns;
    struct nic_ring **empties; /* by lane; null for lanes with a queue */
};

static struct lane *lane_of(struct nic *nic)
{
    return U_CONTAINER_OF(nic, struct lane, nic);
}

static struct nic_ring *forward_ring(const struct lane *from, unsigned to)
{
    return from->steer->forward[from->number * from->steer->lanes + to];
}

static struct nic_ring *return_ring(const struct lane *from, unsigned to)
{
    return from->steer->returns[from->number * from->steer->lanes + to];
}

/* ---- waking ------------------------------------------------------------------------------ */

static void lane_wake(struct nic *nic)
{
    struct lane *lane = lane_of(nic);

    if (lane->lower)
        nic_wake(lane->lower);
    else
        nic_wake_signal(lane->wake_fd);
}

/* Notifies another lane of packets in a ring. */
static void ring_bell(struct lane *lane, unsigned to)
{
    struct lane *other = &lane->steer->lane[to];

    atomic_fetch_or(&other->doorbell, (uint64_t)1 << lane->number);
    if (atomic_load(&other->asleep) && atomic_exchange(&other->asleep, false)) {
        lane->wakes++;
        lane_wake(&other->nic);
    }
}

static int wait_without_queue(struct lane *lane, uint64_t timeout_us)
{
    struct pollfd fd = {.fd = lane->wake_fd, .events = POLLIN};

    return nic_wake_poll(&fd, 1, nic_wake_timeout_ns(timeout_us));
}

static int lane_wait(struct nic *nic, uint64_t timeout_us)
{
    struct lane *lane = lane_of(nic);
    int rc = 0;

    if (lane->bells != 0 || lane->deferred_count > 0)
        return 0;
    if (lane->unsent_count > 0)
        timeout_us = u_min64(timeout_us, WAIT_STALLED_US);
    atomic_store(&lane->asleep, true);
    if (atomic_load(&lane->doorbell) == 0)
        rc = lane->lower ? nic_wait(lane->lower, timeout_us) : wait_without_queue(lane, timeout_us);
    atomic_store(&lane->asleep, false);
    return rc;
}

/* ---- returned packets ---------------------------------------------------------------------- */

static void count_returned(struct lane *lane, unsigned from, const struct us_pkt *pkt)
{
    lane->outstanding[from]--;
    if (lane->outstanding[from] == 0)
        lane->outstanding_mask &= ~((uint64_t)1 << from);
    if (pkt->home & HOME_EMPTY)
        lane->empties_out[from]--;
}

/* Collects packets that a lane returned: releases them, or sends them for that lane. */
static void take_returned(struct lane *lane, unsigned from)
{
    struct nic_ring *ring = return_ring(&lane->steer->lane[from], lane->number);
    uintptr_t words[NIC_BURST_MAX];
    struct us_pkt *done[NIC_BURST_MAX];
    unsigned done_count, n, i;

    while (lane->unsent_count <= UNSENT_MAX - NIC_BURST_MAX) {
        n = nic_ring_take(ring, words, NIC_BURST_MAX);
        done_count = 0;
        for (i = 0; i < n; i++) {
            struct us_pkt *pkt = (struct us_pkt *)(words[i] & ~SEND);

            count_returned(lane, from, pkt);
            if (words[i] & SEND)
                lane->unsent[lane->unsent_count++] = pkt;
            else
                done[done_count++] = pkt;
        }
        nic_release(lane->lower, done, done_count);
        if (n < NIC_BURST_MAX)
            return;
    }
}

/* Supplies empty packets to a lane that sends through this lane's queue. */
static void supply_empties(struct lane *lane, unsigned to)
{
    struct lane *other = &lane->steer->lane[to];
    struct us_pkt *pkts[EMPTIES_MAX];
    uintptr_t words[EMPTIES_MAX];
    unsigned want =
        u_min32(EMPTIES_MAX - lane->empties_out[to], OUTSTANDING_MAX - lane->outstanding[to]);
    unsigned n, i;

    if (lane->empties_out[to] > EMPTIES_LOW || want == 0)
        return;
    n = nic_alloc(lane->lower, pkts, u_min32(want, NIC_BURST_MAX));
    if (n == 0)
        return;
    for (i = 0; i < n; i++) {
        pkts[i]->home = (u_u16)(lane->number | HOME_EMPTY);
        words[i] = (uintptr_t)pkts[i];
    }
    lane->outstanding[to] += n;
    lane->empties_out[to] += n;
    lane->outstanding_mask |= (uint64_t)1 << to;
    i = nic_ring_put(lane->steer->empties[to], words, n);
    U_ASSERT(i == n);
    if (atomic_exchange(&other->starving, false))
        ring_bell(lane, to);
}

static void send_for_other_lanes(struct lane *lane)
{
    unsigned burst, sent;

    while (lane->unsent_count > 0) {
        burst = u_min32(lane->unsent_count, NIC_BURST_MAX);
        sent = nic_tx_burst(lane->lower, lane->unsent, burst);
        lane->sent_for_others += sent;
        lane->unsent_count -= sent;
        memmove(lane->unsent, lane->unsent + sent, lane->unsent_count * sizeof(lane->unsent[0]));
        if (sent < burst)
            return;
    }
}

/* Work of a lane with a queue for other lanes. */
static void serve_other_lanes(struct lane *lane)
{
    const struct steer *steer = lane->steer;
    unsigned i;

    for (i = 0; lane->outstanding_mask >> i != 0 && i < steer->lanes; i++) {
        if (lane->outstanding_mask >> i & 1)
            take_returned(lane, i);
    }
    if (lane->unsent_count > 0)
        send_for_other_lanes(lane);
    for (i = lane->number + steer->queues; i < steer->lanes; i += steer->queues)
        supply_empties(lane, i);
}

/* ---- receiving --------------------------------------------------------------------------- */

/*
 * Puts a frame into the ring to another lane. Returns false, with the frame dropped, if that lane
 * holds too many.
 */
static bool forward(struct lane *lane, unsigned to, struct us_pkt *pkt)
{
    uintptr_t word = (uintptr_t)pkt;

    pkt->home = (u_u16)lane->number;
    if (lane->outstanding[to] < OUTSTANDING_MAX - EMPTIES_MAX &&
        nic_ring_put(forward_ring(lane, to), &word, 1) == 1) {
        lane->outstanding[to]++;
        lane->outstanding_mask |= (uint64_t)1 << to;
        return true;
    }
    lane->ring_full++;
    nic_release(lane->lower, &pkt, 1);
    return false;
}

/* Forwards a copy to every other lane. Returns the lanes to notify. */
static uint64_t forward_copies(struct lane *lane, const struct us_pkt *pkt)
{
    uint64_t notify = 0;
    unsigned to;

    for (to = 0; to < lane->steer->lanes; to++) {
        struct us_pkt *copy;

        if (to == lane->number)
            continue;
        if (pkt->next_seg || nic_alloc(lane->lower, &copy, 1) == 0) {
            lane->copies_lost++;
            continue;
        }
        if (pkt->len > copy->room) {
            lane->copies_lost++;
            nic_release(lane->lower, &copy, 1);
            continue;
        }
        memcpy(copy->data, pkt->data, pkt->len);
        copy->len = pkt->len;
        copy->flags = pkt->flags;
        if (forward(lane, to, copy)) {
            lane->copied++;
            notify |= (uint64_t)1 << to;
        }
    }
    return notify;
}

/* The delivery of one received burst. */
struct delivery {
    struct lane *lane;
    struct us_pkt **kept;
    unsigned kept_count;
    unsigned kept_max;
    uint64_t notify; /* lanes to notify */
    bool has_sample; /* a frame of this burst was checked */
};

static void deliver_to(struct delivery *delivery, unsigned to, struct us_pkt *pkt)
{
    struct lane *lane = delivery->lane;

    if (to == lane->number) {
        pkt->home = (u_u16)lane->number;
        if (delivery->kept_count < delivery->kept_max)
            delivery->kept[delivery->kept_count++] = pkt;
        else
            lane->deferred[lane->deferred_count++] = pkt;
    } else if (forward(lane, to, pkt)) {
        lane->forwarded++;
        delivery->notify |= (uint64_t)1 << to;
    }
}

static void deliver_fragment(struct delivery *delivery, const struct nic_rss_flow *flow,
                             struct us_pkt *pkt)
{
    struct lane *lane = delivery->lane;
    struct nic_frag_result sorted;
    unsigned i;

    nic_frag_steer_add(&lane->frags, flow, pkt, lane->steer->lanes, &sorted);
    lane->frags_lost += sorted.dropped_count;
    nic_release(lane->lower, sorted.dropped, sorted.dropped_count);
    for (i = 0; i < sorted.ready_count; i++)
        deliver_to(delivery, sorted.lane, sorted.ready[i]);
}

/*
 * TCP over IPv4 without options, or IPv6 without extension headers, in one piece, without VLAN tag.
 */
static bool is_plain_tcp(const struct us_pkt *pkt)
{
    const uint8_t *bytes = pkt->data;

    if (pkt->len < 58)
        return false;
    if (bytes[12] == 0x08 && bytes[13] == 0x00)
        return bytes[14] == 0x45 && bytes[23] == 6 && (bytes[20] & 0x3f) == 0 && bytes[21] == 0;
    return bytes[12] == 0x86 && bytes[13] == 0xdd && bytes[20] == 6;
}

/*
 * A device that steers TCP correctly puts such a frame into its lane's queue. Once that is
 * verified, only one frame per burst is checked.
 */
static void deliver_hw_steered(struct delivery *delivery, struct us_pkt *pkt)
{
    struct lane *lane = delivery->lane;
    struct steer *steer = lane->steer;
    struct nic_rss_flow flow;
    uint32_t hash;

    if (delivery->has_sample && nic_rss_check_is_trusted(&lane->rss, pkt->data[12] == 0x86) &&
        !atomic_load_explicit(&steer->hw_mismatch, memory_order_relaxed)) {
        deliver_to(delivery, lane->number, pkt);
        return;
    }
    delivery->has_sample = true;
    (void)nic_rss_classify(pkt, &flow);
    hash = nic_rss_hash(&flow);
    if (!nic_rss_check_record(&lane->rss, &flow, hash, lane->number, steer->lanes))
        atomic_store_explicit(&steer->hw_mismatch, true, memory_order_relaxed);
    deliver_to(delivery, nic_rss_lane(hash, steer->lanes), pkt);
}

static void deliver(struct delivery *delivery, struct us_pkt *pkt)
{
    struct lane *lane = delivery->lane;
    struct nic_rss_flow flow;

    if (lane->steer->hw_steered && is_plain_tcp(pkt)) {
        deliver_hw_steered(delivery, pkt);
        return;
    }
    switch (nic_rss_classify(pkt, &flow)) {
    case NIC_RSS_FLOW:
        deliver_to(delivery, nic_rss_lane(nic_rss_hash(&flow), lane->steer->lanes), pkt);
        break;
    case NIC_RSS_FRAGMENT:
        deliver_fragment(delivery, &flow, pkt);
        break;
    case NIC_RSS_BROADCAST:
        delivery->notify |= forward_copies(lane, pkt);
        deliver_to(delivery, lane->number, pkt);
        break;
    case NIC_RSS_OTHER:
        deliver_to(delivery, lane->number, pkt);
        break;
    }
}

/* Receives from the lane's own queue. */
static unsigned receive(struct lane *lane, struct us_pkt **pkts, unsigned n)
{
    struct delivery delivery = {.lane = lane, .kept = pkts, .kept_max = n};
    struct us_pkt *received[NIC_BURST_MAX];
    unsigned count = nic_rx_burst(lane->lower, received, u_min32(n, NIC_BURST_MAX));
    unsigned i;

    for (i = 0; i < count; i++)
        deliver(&delivery, received[i]);
    for (i = 0; delivery.notify != 0 && i < lane->steer->lanes; i++) {
        if (delivery.notify >> i & 1)
            ring_bell(lane, i);
    }
    return delivery.kept_count;
}

static unsigned take_deferred(struct lane *lane, struct us_pkt **pkts, unsigned n)
{
    n = u_min32(n, lane->deferred_count);
    lane->deferred_count -= n;
    memcpy(pkts, lane->deferred, n * sizeof(pkts[0]));
    memmove(lane->deferred, lane->deferred + n, lane->deferred_count * sizeof(pkts[0]));
    return n;
}

/* Takes frames that other lanes forwarded. */
static unsigned take_forwarded(struct lane *lane, struct us_pkt **pkts, unsigned n)
{
    uintptr_t words[NIC_BURST_MAX];
    unsigned count = 0;
    unsigned from, i, got;

    n = u_min32(n, NIC_BURST_MAX);
    for (from = 0; lane->bells != 0 && from < lane->steer->lanes && count < n; from++) {
        if (!(lane->bells >> from & 1))
            continue;
        got = nic_ring_take(forward_ring(&lane->steer->lane[from], lane->number), words, n - count);
        for (i = 0; i < got; i++)
            pkts[count++] = (struct us_pkt *)words[i];
        if (count < n)
            lane->bells &= ~((uint64_t)1 << from);
    }
    lane->received += count;
    return count;
}

static unsigned lane_rx_burst(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    struct lane *lane = lane_of(nic);
    unsigned count = 0;

    /* Before the rings are read: a packet put in from here on rings the doorbell again. */
    if (atomic_load_explicit(&lane->doorbell, memory_order_relaxed) != 0)
        lane->bells |= atomic_exchange(&lane->doorbell, 0);
    if (lane->lower)
        serve_other_lanes(lane);
    if (lane->deferred_count > 0)
        count = take_deferred(lane, pkts, n);
    /* Forwarded frames get at most half of the burst, so neither source starves the other. */
    count += take_forwarded(lane, pkts + count, lane->lower ? (n - count + 1) / 2 : n - count);
    if (lane->lower && count < n)
        count += receive(lane, pkts + count, n - count);
    return count;
}

/* ---- packets to send, and their end ------------------------------------------------------ */

/*
 * Takes empty packets from the supplier's ring. If it is empty, requests more and checks once more.
 */
static unsigned take_empties(struct lane *lane, uintptr_t *words, unsigned n)
{
    struct nic_ring *ring = lane->steer->empties[lane->number];
    unsigned count = nic_ring_take(ring, words, n);

    if (count > 0)
        return count;
    lane->tx_no_packet++;
    atomic_exchange(&lane->starving, true);
    ring_bell(lane, lane->tx_lane);
    return nic_ring_take(ring, words, n);
}

static unsigned lane_alloc(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    struct lane *lane = lane_of(nic);
    uintptr_t words[NIC_BURST_MAX];
    unsigned i;

    if (lane->lower) {
        n = nic_alloc(lane->lower, pkts, n);
        for (i = 0; i < n; i++)
            pkts[i]->home = (u_u16)lane->number;
        return n;
    }
    n = take_empties(lane, words, u_min32(n, NIC_BURST_MAX));
    for (i = 0; i < n; i++)
        pkts[i] = (struct us_pkt *)words[i];
    return n;
}

static void return_packet(struct lane *lane, struct us_pkt *pkt, uintptr_t mark)
{
    uintptr_t word = (uintptr_t)pkt | mark;
    unsigned put = nic_ring_put(return_ring(lane, pkt->home & ~HOME_EMPTY), &word, 1);

    U_ASSERT(put == 1);
}

static void lane_release(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    struct lane *lane = lane_of(nic);
    struct us_pkt *own[NIC_BURST_MAX];
    unsigned count = 0;
    unsigned i;

    for (i = 0; i < n; i++) {
        if (pkts[i]->home != lane->number || !lane->lower) {
            return_packet(lane, pkts[i], 0);
            continue;
        }
        own[count++] = pkts[i];
        if (count == NIC_BURST_MAX) {
            nic_release(lane->lower, own, count);
            count = 0;
        }
    }
    if (count > 0)
        nic_release(lane->lower, own, count);
}

static unsigned lane_tx_burst(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    struct lane *lane = lane_of(nic);
    unsigned i;

    if (lane->lower)
        return nic_tx_burst(lane->lower, pkts, n);
    for (i = 0; i < n; i++)
        return_packet(lane, pkts[i], SEND);
    if (n > 0)
        ring_bell(lane, lane->tx_lane);
    return n;
}

static void lane_stats(struct nic *nic, nic_stats_emit *emit, void *emit_ctx)
{
    const struct lane *lane = lane_of(nic);

    if (lane->lower)
        nic_stats(lane->lower, emit, emit_ctx);
    emit(emit_ctx, "lane_forwarded", lane->forwarded);
    emit(emit_ctx, "lane_received", lane->received);
    emit(emit_ctx, "lane_ring_full", lane->ring_full);
    emit(emit_ctx, "lane_copies", lane->copied);
    emit(emit_ctx, "lane_copies_lost", lane->copies_lost);
    emit(emit_ctx, "lane_fragments_lost", lane->frags_lost);
    emit(emit_ctx, "lane_sent_for_others", lane->sent_for_others);
    emit(emit_ctx, "lane_tx_no_packet", lane->tx_no_packet);
    emit(emit_ctx, "lane_wakes", lane->wakes);
    emit(emit_ctx, "rss_verified", lane->rss.verified);
    emit(emit_ctx, "rss_mismatches", lane->rss.mismatches);
}

/* ---- the end ----------------------------------------------------------------------------- */

/* Releases all packets in a ring to their devices. All threads have ended. */
static void empty_ring(struct steer *steer, struct nic_ring *ring)
{
    uintptr_t word;

    while (ring && nic_ring_take(ring, &word, 1) == 1) {
        struct us_pkt *pkt = (struct us_pkt *)(word & ~SEND);

        nic_release(steer->lane[pkt->home & ~HOME_EMPTY].lower, &pkt, 1);
    }
}

static void empty_lane(struct lane *lane)
{
    struct us_pkt *pkt;

    if (!lane->lower)
        return;
    nic_release(lane->lower, lane->unsent, lane->unsent_count);
    nic_release(lane->lower, lane->deferred, lane->deferred_count);
    while ((pkt = nic_frag_steer_pop(&lane->frags)) != NULL)
        nic_release(lane->lower, &pkt, 1);
}

static void free_rings(struct nic_ring **rings, unsigned count)
{
    unsigned i;

    for (i = 0; rings && i < count; i++)
        free(rings[i]);
    free(rings);
}

/* Frees everything but the device queues. */
static void steer_free(struct steer *steer)
{
    unsigned i;

    for (i = 0; steer->lane && i < steer->lanes; i++) {
        free(steer->lane[i].outstanding);
        free(steer->lane[i].empties_out);
        if (steer->lane[i].wake_fd >= 0)
            close(steer->lane[i].wake_fd);
    }
    free_rings(steer->forward, steer->lanes * steer->lanes);
    free_rings(steer->returns, steer->lanes * steer->lanes);
    free_rings(steer->empties, steer->lanes);
    free(steer->lane);
    free(steer);
}

/* The last lane that is closed frees everything, because a packet may be in any ring. */
static void lane_close(struct nic *nic)
{
    struct steer *steer = lane_of(nic)->steer;
    unsigned i;

    if (atomic_fetch_sub(&steer->open, 1) > 1)
        return;
    for (i = 0; i < steer->lanes * steer->lanes; i++) {
        empty_ring(steer, steer->forward[i]);
        empty_ring(steer, steer->returns[i]);
    }
    for (i = 0; i < steer->lanes; i++) {
        empty_ring(steer, steer->empties[i]);
        empty_lane(&steer->lane[i]);
    }
    for (i = 0; i < steer->queues; i++)
        nic_close(steer->lane[i].lower);
    steer_free(steer);
}

static uint32_t lane_mtu(struct nic *nic)
{
    return nic_mtu(lane_of(nic)->steer->lane[lane_of(nic)->tx_lane].lower);
}

static int lane_adoptable_fd(struct nic *nic)
{
    return lane_of(nic)->lower ? nic_adoptable_fd(lane_of(nic)->lower) : -1;
}

/* Empties that a lane without a queue holds are no frames; those that it has sent are in a ring. */
static bool lane_has_in_transit(struct nic *nic)
{
    const struct lane *lane = lane_of(nic);
    unsigned i;

    for (i = 0; lane->lower && i < lane->steer->lanes; i++) {
        if (lane->outstanding[i] > lane->empties_out[i])
            return true;
    }
    return lane->unsent_count + lane->deferred_count > 0 ||
           (!lane->lower && !nic_ring_is_drained(return_ring(lane, lane->tx_lane)));
}

static const struct nic_ops lane_ops = {
    .name = "steer",
    .rx_burst = lane_rx_burst,
    .alloc = lane_alloc,
    .release = lane_release,
    .tx_burst = lane_tx_burst,
    .wait = lane_wait,
    .wake = lane_wake,
    .mtu = lane_mtu,
    .stats = lane_stats,
    .adoptable_fd = lane_adoptable_fd,
    .has_in_transit = lane_has_in_transit,
    .close = lane_close,
};

/* ---- opening ----------------------------------------------------------------------------- */

static int open_rings(struct steer *steer)
{
    unsigned lanes = steer->lanes;
    unsigned from, to, pair;

    steer->forward = calloc(lanes * lanes, sizeof(steer->forward[0]));
    steer->returns = calloc(lanes * lanes, sizeof(steer->returns[0]));
    steer->empties = calloc(lanes, sizeof(steer->empties[0]));
    if (!steer->forward || !steer->returns || !steer->empties)
        return -1;
    for (from = 0; from < lanes; from++) {
        for (to = 0; to < lanes; to++) {
            pair = from * lanes + to;
            if (from == to)
                continue;
            steer->forward[pair] = nic_ring_create(NIC_STEER_RING_FRAMES);
            steer->returns[pair] = nic_ring_create(OUTSTANDING_MAX);
            if (!steer->forward[pair] || !steer->returns[pair])
                return -1;
        }
        if (from >= steer->queues && !(steer->empties[from] = nic_ring_create(EMPTIES_MAX)))
            return -1;
    }
    return 0;
}

static int open_lane(struct steer *steer, unsigned number, struct nic *const queue[])
{
    struct lane *lane = &steer->lane[number];
    bool has_queue = number < steer->queues;

    lane->tx_lane = number % steer->queues;
    lane->nic = *queue[lane->tx_lane];
    lane->nic.ops = &steer->ops;
    lane->nic.queue = (uint16_t)number;
    lane->nic.queues = (uint16_t)steer->lanes;
    lane->nic.rss_exact = true;
    lane->steer = steer;
    lane->number = number;
    lane->lower = has_queue ? queue[number] : NULL;
    lane->wake_fd = -1;
    lane->outstanding = calloc(steer->lanes, sizeof(lane->outstanding[0]));
    lane->empties_out = calloc(steer->lanes, sizeof(lane->empties_out[0]));
    if (!lane->outstanding || !lane->empties_out)
        return -1;
    if (has_queue)
        return 0;
    lane->nic.caps &= ~(uint32_t)US_CAP_TX_SG; /* empties are single packets, not chains */
    lane->wake_fd = nic_wake_open();
    return lane->wake_fd < 0 ? -1 : 0;
}

static struct steer *open_all(struct nic *const queue[], unsigned queues, unsigned lanes)
{
    struct steer *steer = calloc(1, sizeof(*steer));
    unsigned i;

    if (!steer)
        return NULL;
    steer->ops = lane_ops;
    steer->ops.name = queue[0]->ops->name;
    steer->lanes = lanes;
    steer->queues = queues;
    steer->hw_steered = queue[0]->rss_exact && queues == lanes;
    atomic_init(&steer->hw_mismatch, false);
    atomic_init(&steer->open, lanes);
    steer->lane = aligned_alloc(U_CACHE_LINE_BYTES, lanes * sizeof(steer->lane[0]));
    if (steer->lane)
        memset(steer->lane, 0, lanes * sizeof(steer->lane[0]));
    for (i = 0; steer->lane && i < lanes; i++)
        steer->lane[i].wake_fd = -1;
    for (i = 0; steer->lane && i < lanes && open_lane(steer, i, queue) == 0; i++)
        continue;
    if (i == lanes && open_rings(steer) == 0)
        return steer;
    steer_free(steer);
    return NULL;
}

int nic_steer_open(struct nic *const queue[], unsigned queues, unsigned lanes, struct nic *lane[],
                   char error[NIC_ERROR_MAX])
{
    struct steer *steer;
    unsigned i;

    U_ASSERT(queues > 0 && queues <= lanes && lanes <= NIC_QUEUES_MAX);
    steer = open_all(queue, queues, lanes);
    if (!steer)
        return nic_error_set(error,
                             "no memory or descriptors to hand frames from thread to thread");
    for (i = 0; i < lanes; i++)
        lane[i] = &steer->lane[i].nic;
    return 0;
}
