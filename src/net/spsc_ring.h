/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A bounded single-producer, single-consumer ring of records. A record has any length, is
 * contiguous, and is written and read in place.
 *
 * Invariants and orderings: `tail` counts the bytes that were put in and is written by the producer
 * only, `head` those that were given back and is written by the consumer only; both wrap.
 *   - put: records are written behind `written`, a variable of the producer, and become visible
 * when `tail` is set to it. The consumer loads tail with acquire, so it sees the records and all
 * stores before them.
 *   - take: records are read up to `read`, a variable of the consumer; their room is given back
 * when `head` is set to it with release. The producer loads head with acquire, so nothing is
 * overwritten that is still being read.
 *   - written - head never exceeds the capacity.
 *   - tail and `sleeps` are accessed sequentially consistently around a sleep: if the consumer
 * sets sleeps and then finds the ring empty, the producer that publishes afterwards sees sleeps.
 * A record that does not fit before the end of the memory starts at its beginning, behind a record
 * of type NET_RING_PADDING, which net_ring_take() skips.
 */
#ifndef NET_SPSC_RING_H
#define NET_SPSC_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/base.h"

#define NET_RING_PADDING 0u

/* The header of a record. `len` bytes follow, then up to 31 of padding. */
struct net_ring_record {
    uint32_t bytes; /* with header and padding, a multiple of the header's size */
    uint32_t type;  /* not NET_RING_PADDING */
    uint32_t len;
    uint32_t value;
    void *link;
    uintptr_t pointer;
};

U_STATIC_ASSERT(sizeof(struct net_ring_record) <= 32 && 32 % sizeof(struct net_ring_record) == 0,
                net_record_size);

struct net_ring {
    _Alignas(U_CACHE_LINE_BYTES) _Atomic uint32_t tail;
    uint32_t written; /* the producer's */
    uint32_t head_seen;
    _Alignas(U_CACHE_LINE_BYTES) _Atomic uint32_t head;
    uint32_t read; /* the consumer's */
    uint32_t tail_seen;
    _Alignas(U_CACHE_LINE_BYTES) uint32_t capacity; /* a power of two */
    _Atomic bool sleeps;                            /* the consumer, or it is about to */
    _Alignas(U_CACHE_LINE_BYTES) uint8_t bytes[];
};

/* Returns null if there is no memory. The capacity is a power of two. free() ends it. */
static inline struct net_ring *net_ring_create(uint32_t capacity)
{
    struct net_ring *ring;

    U_ASSERT(capacity >= U_CACHE_LINE_BYTES && (capacity & (capacity - 1)) == 0);
    ring = aligned_alloc(U_CACHE_LINE_BYTES, sizeof(*ring) + capacity);
    if (!ring)
        return NULL;
    atomic_init(&ring->tail, 0);
    atomic_init(&ring->head, 0);
    atomic_init(&ring->sleeps, false);
    ring->written = ring->head_seen = ring->read = ring->tail_seen = 0;
    ring->capacity = capacity;
    return ring;
}

/* ---- the producer ------------------------------------------------------------------------ */

/* The longest record that fits, according to the last head that was loaded. */
static inline uint32_t net_ring_known_room(const struct net_ring *ring)
{
    uint32_t room = ring->capacity - (ring->written - ring->head_seen);
    uint32_t to_end = ring->capacity - (ring->written & (ring->capacity - 1));

    return room <= to_end ? room : u_max32(to_end, room - to_end);
}

/* Whether a record of `bytes` bytes, header included, fits. */
static inline bool net_ring_has_room(struct net_ring *ring, uint32_t bytes)
{
    if (net_ring_known_room(ring) >= bytes)
        return true;
    ring->head_seen = atomic_load_explicit(&ring->head, memory_order_acquire);
    return net_ring_known_room(ring) >= bytes;
}

/*
 * Opens a record with room for at least `need` bytes and sets *room, at most `most`. Returns null
 * if it does not fit. net_ring_commit() ends it before the next record; without that it is
 * dropped.
 */
static inline struct net_ring_record *net_ring_reserve(struct net_ring *ring, uint32_t need,
                                                       uint32_t most, uint32_t *room)
{
    const uint32_t header = sizeof(struct net_ring_record);
    uint32_t to_end = ring->capacity - (ring->written & (ring->capacity - 1));
    struct net_ring_record *record;
    uint32_t there;

    if (!net_ring_has_room(ring, header + need))
        return NULL;
    record = (struct net_ring_record *)(ring->bytes + (ring->written & (ring->capacity - 1)));
    there = u_min32(to_end, ring->capacity - (ring->written - ring->head_seen));
    if (there < header + need) {
        record->bytes = to_end;
        record->type = NET_RING_PADDING;
        ring->written += to_end;
        there = ring->capacity - (ring->written - ring->head_seen);
        record = (struct net_ring_record *)ring->bytes;
    }
    *room = u_min32(there - header, most);
    return record;
}

/* Ends the record with its type and the length of its payload. */
static inline void net_ring_commit(struct net_ring *ring, struct net_ring_record *record,
                                   uint32_t type, uint32_t len)
{
    const uint32_t unit = sizeof(struct net_ring_record);

    record->type = type;
    record->len = len;
    record->bytes = (unit + len + unit - 1) / unit * unit;
    U_ASSERT(type != NET_RING_PADDING && record->bytes >= len);
    ring->written += record->bytes;
}

/* Whether the consumer has released all records. */
static inline bool net_ring_is_drained(struct net_ring *ring)
{
    return atomic_load_explicit(&ring->head, memory_order_relaxed) == ring->written;
}

/* Makes the new records visible. Returns whether there were any. */
static inline bool net_ring_publish(struct net_ring *ring)
{
    if (atomic_load_explicit(&ring->tail, memory_order_relaxed) == ring->written)
        return false;
    atomic_store(&ring->tail, ring->written);
    return true;
}

/*
 * Whether the producer has to wake the consumer after publishing: it sleeps or is about to, and
 * was not woken since.
 */
static inline bool net_ring_must_wake(struct net_ring *ring)
{
    return atomic_load(&ring->sleeps) && atomic_exchange(&ring->sleeps, false);
}

/* ---- the consumer ------------------------------------------------------------------------ */

/* Takes the oldest record, or null. It stays valid until net_ring_release(). */
static inline struct net_ring_record *net_ring_take(struct net_ring *ring)
{
    struct net_ring_record *record;

    for (;;) {
        if (ring->read == ring->tail_seen)
            ring->tail_seen = atomic_load_explicit(&ring->tail, memory_order_acquire);
        if (ring->read == ring->tail_seen)
            return NULL;
        record = (struct net_ring_record *)(ring->bytes + (ring->read & (ring->capacity - 1)));
        ring->read += record->bytes;
        if (record->type != NET_RING_PADDING)
            return record;
    }
}

/* Gives back the room of all records that were taken. */
static inline void net_ring_release(struct net_ring *ring)
{
    if (atomic_load_explicit(&ring->head, memory_order_relaxed) != ring->read)
        atomic_store_explicit(&ring->head, ring->read, memory_order_release);
}

/* Whether all published records were taken. */
static inline bool net_ring_is_empty(struct net_ring *ring)
{
    return atomic_load(&ring->tail) == ring->read;
}

/*
 * Around a sleep of the consumer. begin returns whether to sleep; from then on the producer has to
 * wake it (net_ring_must_wake()). end follows in any case.
 */
static inline bool net_ring_sleep_begin(struct net_ring *ring)
{
    atomic_store(&ring->sleeps, true);
    return net_ring_is_empty(ring);
}

static inline void net_ring_sleep_end(struct net_ring *ring)
{
    atomic_store(&ring->sleeps, false);
}

/* ---- spsc_ring.c ------------------------------------------------------------------------- */

/*
 * Sleeps until a record is published, the eventfd is written to, which the producer does to wake
 * the consumer, or timeout_us have passed. Reads the eventfd. Returns 0 or a negative errno value.
 */
int net_ring_wait(struct net_ring *ring, int wake_fd, uint64_t timeout_us);

#endif
