/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lanes; see spread.h.
 *
 * Rings, each with one producer and one consumer (nic/ring.h):
 *
 *   mail[a][b]   frames that lane a received and that are b's
 *   back[b][a]   the same packets when b is done with them; and empty ones that a had lent to b,
 *                filled (marked SEND) or not
 *   lent[b]      empty packets for a lane b without a queue, from the lane whose queue it uses
 *
 * Invariants:
 *   - a.out[b], known to lane a only, is the number of a's packets in mail[a][b], lent[b], with b
 * or in back[b][a]. It never exceeds OUT_MAX, which is what back[b][a] has room for: giving a
 * packet back cannot fail.
 *   - who puts something into a ring that its consumer may be sleeping beside sets the consumer's
 * bit in `doorbell` afterwards and then looks at `asleep`; who goes to sleep sets `asleep` and then
 *     looks at `doorbell`. All four are sequentially consistent, so one of the two sees the other.
 *   - a lane that has found lent[] empty sets `starving` by an exchange and looks once more; the
 *     lender puts packets in and then resets it by an exchange. Of the two exchanges the second
 * sees what came before the first.
 *
 * Returned packets ring no bell: the lane looks for them whenever it looks for frames.
 */
#define _GNU_SOURCE /* ppoll */
#include "nic/spread.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "nic/error.h"
#include "nic/frag_lanes.h"
#include "nic/ring.h"
#include "nic/rss_check.h"

/* Empty packets that a lane without a queue has at hand: two bursts. */
#define LENT_MAX (2 * NIC_BURST_MAX)
#define LENT_LOW NIC_BURST_MAX

/* The ring, a burst in the consumer's hands, and what is lent. */
#define OUT_MAX 512
U_STATIC_ASSERT(OUT_MAX >= NIC_SPREAD_RING + NIC_BURST_MAX + LENT_MAX, out_max);

/* What lanes without a queue have filled, while the device does not take it. */
#define UNSENT_MAX 512

/* A burst in which every fragment sets free all that waited for it. */
#define LATER_MAX (NIC_BURST_MAX + NIC_FRAG_DATAGRAMS_MAX * NIC_FRAG_WAITING_MAX)

/* While the device takes no frames of the lanes that send through this one. */
#define WAIT_STALLED_US 1000
#define WAIT_MAX_US (3600ull * 1000000)

/* In a ring, the lowest bit of a packet's address: it is to be sent. */
#define SEND ((uintptr_t)1)

/* Beside the number in us_pkt.home: it was lent empty. */
#define HOME_LENT 0x8000u

struct lane {
    struct nic nic;
    struct spread *spread;
    struct nic *lower; /* its queue, or null */
    unsigned number;
    unsigned lender;                   /* whose queue a lane without one uses */
    uint64_t bells;                    /* taken from `doorbell`, rings perhaps not empty yet */
    uint64_t owing;                    /* lanes b with out[b] > 0 */
    unsigned *out;                     /* by lane */
    unsigned *lent;                    /* likewise: of these, empty packets for them to send with */
    struct us_pkt *unsent[UNSENT_MAX]; /* of other lanes: not taken by the device yet */
    unsigned unsent_count;
    struct us_pkt *later[LATER_MAX]; /* ours, received, and too many for one burst */
    unsigned later_count;
    struct nic_frag_lanes frags;
    struct nic_rss_check rss;
    int wake_fd; /* of a lane without a queue */

    uint64_t given;       /* frames handed to other lanes */
    uint64_t taken;       /* frames that other lanes have handed over */
    uint64_t given_full;  /* dropped: the ring was full */
    uint64_t copied;      /* copies made of what is for all */
    uint64_t copied_none; /* copies not made: no packet */
    uint64_t frags_lost;  /* fragments given up: the first one did not come */
    uint64_t sent_for;    /* frames sent for lanes without a queue */
    uint64_t lent_none;   /* times there was no empty packet to send with */
    uint64_t wakes;       /* of other lanes */

    /* Other threads write these, so they have a cache line of their own. */
    _Alignas(U_LINE_BYTES) _Atomic uint64_t doorbell; /* bit a: lane a has put something in */
    _Atomic bool asleep;
    _Atomic bool starving;
};

struct spread {
    struct nic_ops ops; /* with the name of the device */
    unsigned lanes;
    unsigned queues;
    bool promised;       /* the device says that it puts TCP's frames where they belong */
    _Atomic bool broken; /* and it does not */
    _Atomic unsigned open;
    struct lane *lane;      /* lanes of them */
    struct nic_ring **mail; /* from * lanes + to; null on the diagonal */
    struct nic_ring **back;
    struct nic_ring **lent; /* by lane; null with a queue of its own */
};

static struct lane *lane_of(struct nic *nic)
{
    return U_CONTAINER_OF(nic, struct lane, nic);
}

static struct nic_ring *mail_ring(const struct lane *from, unsigned to)
{
    return from->spread->mail[from->number * from->spread->lanes + to];
}

static struct nic_ring *back_ring(const struct lane *from, unsigned to)
{
    return from->spread->back[from->number * from->spread->lanes + to];
}

/* ---- waking ------------------------------------------------------------------------------ */

static void lane_wake(struct nic *nic)
{
    struct lane *lane = lane_of(nic);
    int saved_errno = errno;

    if (lane->lower)
        nic_wake(lane->lower);
    else
        (void)eventfd_write(lane->wake_fd,
                            1); /* fails only if the sleeper is being woken already */
    errno = saved_errno;
}

/* Tells another lane that there is something for it. */
static void ring_bell(struct lane *lane, unsigned to)
{
    struct lane *other = &lane->spread->lane[to];

    atomic_fetch_or(&other->doorbell, (uint64_t)1 << lane->number);
    if (atomic_load(&other->asleep) && atomic_exchange(&other->asleep, false)) {
        lane->wakes++;
        lane_wake(&other->nic);
    }
}

static int wait_without_queue(struct lane *lane, uint64_t timeout_us)
{
    struct pollfd fd = {.fd = lane->wake_fd, .events = POLLIN};
    struct timespec timeout;
    eventfd_t wakes;

    timeout_us = u_min64(timeout_us, WAIT_MAX_US);
    timeout.tv_sec = (time_t)(timeout_us / 1000000);
    timeout.tv_nsec = (long)(timeout_us % 1000000 * 1000);
    if (ppoll(&fd, 1, &timeout, NULL) < 0)
        return errno == EINTR ? 0 : -errno;
    if (fd.revents != 0)
        (void)eventfd_read(lane->wake_fd, &wakes); /* only this thread reads */
    return 0;
}

static int lane_wait(struct nic *nic, uint64_t timeout_us)
{
    struct lane *lane = lane_of(nic);
    int rc = 0;

    if (lane->bells != 0 || lane->later_count > 0)
        return 0;
    if (lane->unsent_count > 0)
        timeout_us = u_min64(timeout_us, WAIT_STALLED_US);
    atomic_store(&lane->asleep, true);
    if (atomic_load(&lane->doorbell) == 0)
        rc = lane->lower ? nic_wait(lane->lower, timeout_us) : wait_without_queue(lane, timeout_us);
    atomic_store(&lane->asleep, false);
    return rc;
}

/* ---- packets that come back -------------------------------------------------------------- */

static void note_back(struct lane *lane, unsigned from, const struct us_pkt *pkt)
{
    lane->out[from]--;
    if (lane->out[from] == 0)
        lane->owing &= ~((uint64_t)1 << from);
    if (pkt->home & HOME_LENT)
        lane->lent[from]--;
}

/* Takes what a lane has given back: to be released, or to be sent for it. */
static void take_back(struct lane *lane, unsigned from)
{
    struct nic_ring *ring = back_ring(&lane->spread->lane[from], lane->number);
    uintptr_t words[NIC_BURST_MAX];
    struct us_pkt *done[NIC_BURST_MAX];
    unsigned done_count, n, i;

    while (lane->unsent_count <= UNSENT_MAX - NIC_BURST_MAX) {
        n = nic_ring_take(ring, words, NIC_BURST_MAX);
        done_count = 0;
        for (i = 0; i < n; i++) {
            struct us_pkt *pkt = (struct us_pkt *)(words[i] & ~SEND);

            note_back(lane, from, pkt);
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

/* Gives a lane that sends through our queue empty packets to do so. */
static void lend(struct lane *lane, unsigned to)
{
    struct lane *other = &lane->spread->lane[to];
    struct us_pkt *pkts[LENT_MAX];
    uintptr_t words[LENT_MAX];
    unsigned want = u_min32(LENT_MAX - lane->lent[to], OUT_MAX - lane->out[to]);
    unsigned n, i;

    if (lane->lent[to] > LENT_LOW || want == 0)
        return;
    n = nic_alloc(lane->lower, pkts, u_min32(want, NIC_BURST_MAX));
    if (n == 0)
        return;
    for (i = 0; i < n; i++) {
        pkts[i]->home = (u_u16)(lane->number | HOME_LENT);
        words[i] = (uintptr_t)pkts[i];
    }
    lane->out[to] += n;
    lane->lent[to] += n;
    lane->owing |= (uint64_t)1 << to;
    i = nic_ring_put(lane->spread->lent[to], words, n);
    U_ASSERT(i == n);
    if (atomic_exchange(&other->starving, false))
        ring_bell(lane, to);
}

static void send_for_others(struct lane *lane)
{
    unsigned burst, sent;

    while (lane->unsent_count > 0) {
        burst = u_min32(lane->unsent_count, NIC_BURST_MAX);
        sent = nic_tx_burst(lane->lower, lane->unsent, burst);
        lane->sent_for += sent;
        lane->unsent_count -= sent;
        memmove(lane->unsent, lane->unsent + sent, lane->unsent_count * sizeof(lane->unsent[0]));
        if (sent < burst)
            return;
    }
}

/* What a lane with a queue does for the others. */
static void serve_others(struct lane *lane)
{
    const struct spread *spread = lane->spread;
    unsigned i;

    for (i = 0; lane->owing >> i != 0 && i < spread->lanes; i++) {
        if (lane->owing >> i & 1)
            take_back(lane, i);
    }
    if (lane->unsent_count > 0)
        send_for_others(lane);
    for (i = lane->number + spread->queues; i < spread->lanes; i += spread->queues)
        lend(lane, i);
}

/* ---- receiving --------------------------------------------------------------------------- */

/* Puts a frame of ours into another lane's mail; false and dropped if that lane has too much. */
static bool give(struct lane *lane, unsigned to, struct us_pkt *pkt)
{
    uintptr_t word = (uintptr_t)pkt;

    pkt->home = (u_u16)lane->number;
    if (lane->out[to] < OUT_MAX - LENT_MAX && nic_ring_put(mail_ring(lane, to), &word, 1) == 1) {
        lane->out[to]++;
        lane->owing |= (uint64_t)1 << to;
        return true;
    }
    lane->given_full++;
    nic_release(lane->lower, &pkt, 1);
    return false;
}

/* A copy for every other lane. Returns which have got one. */
static uint64_t give_copies(struct lane *lane, const struct us_pkt *pkt)
{
    uint64_t rung = 0;
    unsigned to;

    for (to = 0; to < lane->spread->lanes; to++) {
        struct us_pkt *copy;

        if (to == lane->number)
            continue;
        if (pkt->next_seg || nic_alloc(lane->lower, &copy, 1) == 0) {
            lane->copied_none++;
            continue;
        }
        if (pkt->len > copy->room) {
            lane->copied_none++;
            nic_release(lane->lower, &copy, 1);
            continue;
        }
        memcpy(copy->data, pkt->data, pkt->len);
        copy->len = pkt->len;
        copy->flags = pkt->flags;
        if (give(lane, to, copy)) {
            lane->copied++;
            rung |= (uint64_t)1 << to;
        }
    }
    return rung;
}

/* What was received just now: what is ours is kept, the rest goes its ways. */
struct sorting {
    struct lane *lane;
    struct us_pkt **kept;
    unsigned kept_count;
    unsigned kept_max;
    uint64_t rung;   /* lanes that were given something */
    bool has_sample; /* of this burst, a frame has been checked */
};

static void sort_to(struct sorting *sorting, unsigned to, struct us_pkt *pkt)
{
    struct lane *lane = sorting->lane;

    if (to == lane->number) {
        pkt->home = (u_u16)lane->number;
        if (sorting->kept_count < sorting->kept_max)
            sorting->kept[sorting->kept_count++] = pkt;
        else
            lane->later[lane->later_count++] = pkt;
    } else if (give(lane, to, pkt)) {
        lane->given++;
        sorting->rung |= (uint64_t)1 << to;
    }
}

static void sort_fragment(struct sorting *sorting, const struct nic_rss_flow *flow,
                          struct us_pkt *pkt)
{
    struct lane *lane = sorting->lane;
    struct nic_frag_sorted sorted;
    unsigned i;

    nic_frag_lanes_sort(&lane->frags, flow, pkt, lane->spread->lanes, &sorted);
    lane->frags_lost += sorted.dropped_count;
    nic_release(lane->lower, sorted.dropped, sorted.dropped_count);
    for (i = 0; i < sorted.ready_count; i++)
        sort_to(sorting, sorted.lane, sorted.ready[i]);
}

/* TCP over IPv4 without options, or IPv6 without extension headers, in one piece and untagged. */
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
 * Such a frame is in its lane's queue already if the device keeps its promise. Once that is known,
 * only one frame of each burst is still looked at.
 */
static void sort_promised(struct sorting *sorting, struct us_pkt *pkt)
{
    struct lane *lane = sorting->lane;
    struct spread *spread = lane->spread;
    struct nic_rss_flow flow;
    uint32_t hash;

    if (sorting->has_sample && nic_rss_check_trusts(&lane->rss, pkt->data[12] == 0x86) &&
        !atomic_load_explicit(&spread->broken, memory_order_relaxed)) {
        sort_to(sorting, lane->number, pkt);
        return;
    }
    sorting->has_sample = true;
    (void)nic_rss_classify(pkt, &flow);
    hash = nic_rss_hash(&flow);
    if (!nic_rss_check_note(&lane->rss, &flow, hash, lane->number, spread->lanes))
        atomic_store_explicit(&spread->broken, true, memory_order_relaxed);
    sort_to(sorting, nic_rss_lane(hash, spread->lanes), pkt);
}

static void sort_one(struct sorting *sorting, struct us_pkt *pkt)
{
    struct lane *lane = sorting->lane;
    struct nic_rss_flow flow;

    if (lane->spread->promised && is_plain_tcp(pkt)) {
        sort_promised(sorting, pkt);
        return;
    }
    switch (nic_rss_classify(pkt, &flow)) {
    case NIC_RSS_FLOW:
        sort_to(sorting, nic_rss_lane(nic_rss_hash(&flow), lane->spread->lanes), pkt);
        break;
    case NIC_RSS_FRAGMENT:
        sort_fragment(sorting, &flow, pkt);
        break;
    case NIC_RSS_ALL:
        sorting->rung |= give_copies(lane, pkt);
        sort_to(sorting, lane->number, pkt);
        break;
    case NIC_RSS_OTHER:
        sort_to(sorting, lane->number, pkt);
        break;
    }
}

/* From the lane's own queue. */
static unsigned receive(struct lane *lane, struct us_pkt **pkts, unsigned n)
{
    struct sorting sorting = {.lane = lane, .kept = pkts, .kept_max = n};
    struct us_pkt *received[NIC_BURST_MAX];
    unsigned count = nic_rx_burst(lane->lower, received, u_min32(n, NIC_BURST_MAX));
    unsigned i;

    for (i = 0; i < count; i++)
        sort_one(&sorting, received[i]);
    for (i = 0; sorting.rung != 0 && i < lane->spread->lanes; i++) {
        if (sorting.rung >> i & 1)
            ring_bell(lane, i);
    }
    return sorting.kept_count;
}

static unsigned take_later(struct lane *lane, struct us_pkt **pkts, unsigned n)
{
    n = u_min32(n, lane->later_count);
    lane->later_count -= n;
    memcpy(pkts, lane->later, n * sizeof(pkts[0]));
    memmove(lane->later, lane->later + n, lane->later_count * sizeof(pkts[0]));
    return n;
}

/* What other lanes have handed over. */
static unsigned take_mail(struct lane *lane, struct us_pkt **pkts, unsigned n)
{
    uintptr_t words[NIC_BURST_MAX];
    unsigned count = 0;
    unsigned from, i, got;

    n = u_min32(n, NIC_BURST_MAX);
    for (from = 0; lane->bells != 0 && from < lane->spread->lanes && count < n; from++) {
        if (!(lane->bells >> from & 1))
            continue;
        got = nic_ring_take(mail_ring(&lane->spread->lane[from], lane->number), words, n - count);
        for (i = 0; i < got; i++)
            pkts[count++] = (struct us_pkt *)words[i];
        if (count < n)
            lane->bells &= ~((uint64_t)1 << from);
    }
    lane->taken += count;
    return count;
}

static unsigned lane_rx_burst(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    struct lane *lane = lane_of(nic);
    unsigned count = 0;

    /* First, so that whatever is put anywhere from here on finds the bell silent. */
    if (atomic_load_explicit(&lane->doorbell, memory_order_relaxed) != 0)
        lane->bells |= atomic_exchange(&lane->doorbell, 0);
    if (lane->lower)
        serve_others(lane);
    if (lane->later_count > 0)
        count = take_later(lane, pkts, n);
    /* Neither source can keep the other waiting: the mail has at most half of the room. */
    count += take_mail(lane, pkts + count, lane->lower ? (n - count + 1) / 2 : n - count);
    if (lane->lower && count < n)
        count += receive(lane, pkts + count, n - count);
    return count;
}

/* ---- packets to send, and their end ------------------------------------------------------ */

/* From the lender. When there is none, it is told, and we look once more. */
static unsigned take_lent(struct lane *lane, uintptr_t *words, unsigned n)
{
    struct nic_ring *ring = lane->spread->lent[lane->number];
    unsigned count = nic_ring_take(ring, words, n);

    if (count > 0)
        return count;
    lane->lent_none++;
    atomic_exchange(&lane->starving, true);
    ring_bell(lane, lane->lender);
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
    n = take_lent(lane, words, u_min32(n, NIC_BURST_MAX));
    for (i = 0; i < n; i++)
        pkts[i] = (struct us_pkt *)words[i];
    return n;
}

static void give_back(struct lane *lane, struct us_pkt *pkt, uintptr_t mark)
{
    uintptr_t word = (uintptr_t)pkt | mark;
    unsigned put = nic_ring_put(back_ring(lane, pkt->home & ~HOME_LENT), &word, 1);

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
            give_back(lane, pkts[i], 0);
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
        give_back(lane, pkts[i], SEND);
    if (n > 0)
        ring_bell(lane, lane->lender);
    return n;
}

static void lane_stats(struct nic *nic, nic_stats_emit *emit, void *emit_ctx)
{
    const struct lane *lane = lane_of(nic);

    if (lane->lower)
        nic_stats(lane->lower, emit, emit_ctx);
    emit(emit_ctx, "lane_given", lane->given);
    emit(emit_ctx, "lane_taken", lane->taken);
    emit(emit_ctx, "lane_given_full", lane->given_full);
    emit(emit_ctx, "lane_copies", lane->copied);
    emit(emit_ctx, "lane_copies_lost", lane->copied_none);
    emit(emit_ctx, "lane_fragments_lost", lane->frags_lost);
    emit(emit_ctx, "lane_sent_for_others", lane->sent_for);
    emit(emit_ctx, "lane_lent_none", lane->lent_none);
    emit(emit_ctx, "lane_wakes", lane->wakes);
    emit(emit_ctx, "rss_verified", lane->rss.verified);
    emit(emit_ctx, "rss_mismatches", lane->rss.mismatches);
}

/* ---- the end ----------------------------------------------------------------------------- */

/* Everything that lies in a ring goes back to the device that it is of. No thread runs any more. */
static void empty_ring(struct spread *spread, struct nic_ring *ring)
{
    uintptr_t word;

    while (ring && nic_ring_take(ring, &word, 1) == 1) {
        struct us_pkt *pkt = (struct us_pkt *)(word & ~SEND);

        nic_release(spread->lane[pkt->home & ~HOME_LENT].lower, &pkt, 1);
    }
}

static void empty_lane(struct lane *lane)
{
    struct us_pkt *pkt;

    if (!lane->lower)
        return;
    nic_release(lane->lower, lane->unsent, lane->unsent_count);
    nic_release(lane->lower, lane->later, lane->later_count);
    while ((pkt = nic_frag_lanes_take(&lane->frags)) != NULL)
        nic_release(lane->lower, &pkt, 1);
}

static void free_rings(struct nic_ring **rings, unsigned count)
{
    unsigned i;

    for (i = 0; rings && i < count; i++)
        free(rings[i]);
    free(rings);
}

/* Frees all but the queues. */
static void spread_free(struct spread *spread)
{
    unsigned i;

    for (i = 0; spread->lane && i < spread->lanes; i++) {
        free(spread->lane[i].out);
        free(spread->lane[i].lent);
        if (spread->lane[i].wake_fd >= 0)
            close(spread->lane[i].wake_fd);
    }
    free_rings(spread->mail, spread->lanes * spread->lanes);
    free_rings(spread->back, spread->lanes * spread->lanes);
    free_rings(spread->lent, spread->lanes);
    free(spread->lane);
    free(spread);
}

/* The last one that is closed takes down all, for a packet may be anywhere. */
static void lane_close(struct nic *nic)
{
    struct spread *spread = lane_of(nic)->spread;
    unsigned i;

    if (atomic_fetch_sub(&spread->open, 1) > 1)
        return;
    for (i = 0; i < spread->lanes * spread->lanes; i++) {
        empty_ring(spread, spread->mail[i]);
        empty_ring(spread, spread->back[i]);
    }
    for (i = 0; i < spread->lanes; i++) {
        empty_ring(spread, spread->lent[i]);
        empty_lane(&spread->lane[i]);
    }
    for (i = 0; i < spread->queues; i++)
        nic_close(spread->lane[i].lower);
    spread_free(spread);
}

static const struct nic_ops lane_ops = {
    .name = "spread",
    .rx_burst = lane_rx_burst,
    .alloc = lane_alloc,
    .release = lane_release,
    .tx_burst = lane_tx_burst,
    .wait = lane_wait,
    .wake = lane_wake,
    .stats = lane_stats,
    .close = lane_close,
};

/* ---- opening ----------------------------------------------------------------------------- */

static int open_rings(struct spread *spread)
{
    unsigned lanes = spread->lanes;
    unsigned from, to, pair;

    spread->mail = calloc(lanes * lanes, sizeof(spread->mail[0]));
    spread->back = calloc(lanes * lanes, sizeof(spread->back[0]));
    spread->lent = calloc(lanes, sizeof(spread->lent[0]));
    if (!spread->mail || !spread->back || !spread->lent)
        return -1;
    for (from = 0; from < lanes; from++) {
        for (to = 0; to < lanes; to++) {
            pair = from * lanes + to;
            if (from == to)
                continue;
            spread->mail[pair] = nic_ring_create(NIC_SPREAD_RING);
            spread->back[pair] = nic_ring_create(OUT_MAX);
            if (!spread->mail[pair] || !spread->back[pair])
                return -1;
        }
        if (from >= spread->queues && !(spread->lent[from] = nic_ring_create(LENT_MAX)))
            return -1;
    }
    return 0;
}

static int open_lane(struct spread *spread, unsigned number, struct nic *const queue[])
{
    struct lane *lane = &spread->lane[number];
    bool has_queue = number < spread->queues;

    lane->lender = number % spread->queues;
    lane->nic = *queue[lane->lender];
    lane->nic.ops = &spread->ops;
    lane->nic.queue = (uint16_t)number;
    lane->nic.queues = (uint16_t)spread->lanes;
    lane->nic.rss_exact = true;
    lane->spread = spread;
    lane->number = number;
    lane->lower = has_queue ? queue[number] : NULL;
    lane->wake_fd = -1;
    lane->out = calloc(spread->lanes, sizeof(lane->out[0]));
    lane->lent = calloc(spread->lanes, sizeof(lane->lent[0]));
    if (!lane->out || !lane->lent)
        return -1;
    if (has_queue)
        return 0;
    lane->nic.caps &= ~(uint32_t)US_CAP_TX_SG; /* packets are lent one by one, not as chains */
    lane->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return lane->wake_fd < 0 ? -1 : 0;
}

static struct spread *open_all(struct nic *const queue[], unsigned queues, unsigned lanes)
{
    struct spread *spread = calloc(1, sizeof(*spread));
    unsigned i;

    if (!spread)
        return NULL;
    spread->ops = lane_ops;
    spread->ops.name = queue[0]->ops->name;
    spread->lanes = lanes;
    spread->queues = queues;
    spread->promised = queue[0]->rss_exact && queues == lanes;
    atomic_init(&spread->broken, false);
    atomic_init(&spread->open, lanes);
    spread->lane = aligned_alloc(U_LINE_BYTES, lanes * sizeof(spread->lane[0]));
    if (spread->lane)
        memset(spread->lane, 0, lanes * sizeof(spread->lane[0]));
    for (i = 0; spread->lane && i < lanes; i++)
        spread->lane[i].wake_fd = -1;
    for (i = 0; spread->lane && i < lanes; i++) {
        if (open_lane(spread, i, queue) < 0)
            break;
    }
    if (i == lanes && open_rings(spread) == 0)
        return spread;
    spread_free(spread);
    return NULL;
}

int nic_spread_open(struct nic *const queue[], unsigned queues, unsigned lanes, struct nic *lane[],
                    char error[NIC_ERROR_MAX])
{
    struct spread *spread;
    unsigned i;

    U_ASSERT(queues > 0 && queues <= lanes && lanes <= NIC_QUEUES_MAX);
    spread = open_all(queue, queues, lanes);
    if (!spread) {
        nic_error_set(error, "no memory or descriptors to hand frames from thread to thread");
        return -1;
    }
    for (i = 0; i < lanes; i++)
        lane[i] = &spread->lane[i].nic;
    return 0;
}
