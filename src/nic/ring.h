/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A bounded queue of words from one producer thread to one consumer thread.
 *
 * Invariants and memory ordering: `tail` counts the words put in and is written by the producer
 * only, `head` counts the words taken out and is written by the consumer only; both wrap. tail -
 * head is the number of words in the ring and never exceeds the capacity.
 * - put: the producer writes the slots, then stores tail with release order; take loads tail with
 *   acquire order, so the consumer sees the words and all stores before them.
 * - take: the consumer reads the slots, then stores head with release order; put loads head with
 *   acquire order, so a slot is not overwritten before it was read.
 * Each side caches the other's counter and reloads it only when the ring seems full or empty.
 */
#ifndef NIC_RING_H
#define NIC_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/base.h"

struct nic_ring {
    _Alignas(U_CACHE_LINE_BYTES) _Atomic uint32_t tail;
    uint32_t head_seen; /* the producer's copy of head */
    _Alignas(U_CACHE_LINE_BYTES) _Atomic uint32_t head;
    uint32_t tail_seen;                             /* the consumer's copy of tail */
    _Alignas(U_CACHE_LINE_BYTES) uint32_t capacity; /* a power of two */
    uintptr_t slots[];
};

/* Returns null if there is no memory. The capacity is a power of two. Freed by free(). */
static inline struct nic_ring *nic_ring_create(uint32_t capacity)
{
    size_t bytes = sizeof(struct nic_ring) + capacity * sizeof(uintptr_t);
    struct nic_ring *ring;

    U_ASSERT(capacity > 0 && (capacity & (capacity - 1)) == 0);
    bytes = (bytes + U_CACHE_LINE_BYTES - 1) / U_CACHE_LINE_BYTES * U_CACHE_LINE_BYTES;
    ring = aligned_alloc(U_CACHE_LINE_BYTES, bytes);
    if (!ring)
        return NULL;
    atomic_init(&ring->tail, 0);
    atomic_init(&ring->head, 0);
    ring->head_seen = 0;
    ring->tail_seen = 0;
    ring->capacity = capacity;
    return ring;
}

/* Puts as many of n words as there is room for, in order. Returns how many. */
static inline unsigned nic_ring_put(struct nic_ring *ring, const uintptr_t *words, unsigned n)
{
    uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    uint32_t room = ring->capacity - (tail - ring->head_seen);
    unsigned i;

    if (room < n) {
        ring->head_seen = atomic_load_explicit(&ring->head, memory_order_acquire);
        room = ring->capacity - (tail - ring->head_seen);
    }
    n = u_min32(n, room);
    for (i = 0; i < n; i++)
        ring->slots[(tail + i) & (ring->capacity - 1)] = words[i];
    atomic_store_explicit(&ring->tail, tail + n, memory_order_release);
    return n;
}

/* Takes at most n of the oldest words. Returns how many. */
static inline unsigned nic_ring_take(struct nic_ring *ring, uintptr_t *words, unsigned n)
{
    uint32_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    uint32_t there = ring->tail_seen - head;
    unsigned i;

    if (there < n) {
        ring->tail_seen = atomic_load_explicit(&ring->tail, memory_order_acquire);
        there = ring->tail_seen - head;
    }
    n = u_min32(n, there);
    for (i = 0; i < n; i++)
        words[i] = ring->slots[(head + i) & (ring->capacity - 1)];
    atomic_store_explicit(&ring->head, head + n, memory_order_release);
    return n;
}

/* Whether the consumer has taken all that the producer, whose thread calls this, has put in. */
static inline bool nic_ring_is_drained(const struct nic_ring *ring)
{
    return atomic_load_explicit(&ring->head, memory_order_acquire) ==
           atomic_load_explicit(&ring->tail, memory_order_relaxed);
}

#endif
