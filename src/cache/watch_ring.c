/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A ring of events. In the ring an event is a fixed part and then its key, or for those of
 * connections the peer.
 */
#include "cache/watch_ring.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

#define ALIGN_BYTES 8
#define RING_BYTES_MIN 4096
#define RING_BYTES_MAX (16u * 1024 * 1024)

/* What every event begins with; `bytes` and `kind` alone say where the next one is. */
#define FIXED_BYTES ((uint32_t)offsetof(struct cache_event, what))

U_STATIC_ASSERT(offsetof(struct cache_event, what) % 8 == 0, the_rest_is_aligned);
U_STATIC_ASSERT(sizeof(struct cache_event) * 4 <= RING_BYTES_MIN, some_events_fit);

static uint32_t rounded(uint32_t bytes)
{
    return (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
}

bool cache_watch_ring_init(struct cache_watch_ring *ring, uint32_t bytes)
{
    uint32_t size = RING_BYTES_MIN;

    while (size < bytes && size < RING_BYTES_MAX)
        size *= 2;
    memset(ring, 0, sizeof(*ring));
    ring->size = size;
    ring->bytes = malloc(size);
    return ring->bytes != NULL;
}

void cache_watch_ring_free(struct cache_watch_ring *ring)
{
    free(ring->bytes);
    ring->bytes = NULL;
}

/* Bytes of what follows the fixed part. */
static uint32_t what_bytes(const struct cache_event *event)
{
    bool peer = event->kind == CACHE_EVENT_CONN_NEW || event->kind == CACHE_EVENT_CONN_CLOSE;

    return peer ? (uint32_t)sizeof(event->what.peer) : event->key_len;
}

/* Writes the header of a filler event, which skips the end of the ring. */
static void filler_write(uint8_t *to, uint32_t bytes)
{
    struct cache_event filler = {.bytes = bytes, .kind = CACHE_EVENT_FILLER};

    memcpy(to, &filler, ALIGN_BYTES);
}

bool cache_watch_ring_put(struct cache_watch_ring *ring, const struct cache_event *event)
{
    struct cache_event sized = *event;
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
    uint32_t at = (uint32_t)head & (ring->size - 1);
    uint32_t skip = 0;

    sized.bytes = rounded(FIXED_BYTES + what_bytes(event));
    if (at + sized.bytes > ring->size)
        skip = ring->size - at;
    if (head + skip + sized.bytes - tail > ring->size) {
        uint64_t dropped = atomic_load_explicit(&ring->dropped, memory_order_relaxed);

        atomic_store_explicit(&ring->dropped, dropped + 1, memory_order_relaxed);
        return false;
    }
    if (skip > 0) {
        filler_write(ring->bytes + at, skip);
        at = 0;
    }
    memcpy(ring->bytes + at, &sized, FIXED_BYTES + what_bytes(event));
    atomic_store_explicit(&ring->head, head + skip + sized.bytes, memory_order_release);
    return true;
}

/* Where the next event begins, fillers skipped; null if there is none. */
static const uint8_t *next_at(struct cache_watch_ring *ring)
{
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
    uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    struct cache_event start;

    if (tail == head)
        return NULL;
    memcpy(&start, ring->bytes + (tail & (ring->size - 1)), ALIGN_BYTES);
    if (start.kind == CACHE_EVENT_FILLER) {
        tail += start.bytes;
        atomic_store_explicit(&ring->tail, tail, memory_order_release);
    }
    return ring->bytes + (tail & (ring->size - 1));
}

uint64_t cache_watch_ring_next(struct cache_watch_ring *ring)
{
    const uint8_t *at = next_at(ring);
    uint64_t id;

    if (at == NULL)
        return UINT64_MAX;
    memcpy(&id, at + offsetof(struct cache_event, id), sizeof(id));
    return id;
}

void cache_watch_ring_take(struct cache_watch_ring *ring, struct cache_event *event)
{
    const uint8_t *at = next_at(ring);

    U_ASSERT(at != NULL);
    memcpy(event, at, FIXED_BYTES);
    memcpy(&event->what, at + FIXED_BYTES, what_bytes(event));
    atomic_store_explicit(&ring->tail,
                          atomic_load_explicit(&ring->tail, memory_order_relaxed) + event->bytes,
                          memory_order_release);
}

uint64_t cache_watch_ring_dropped(struct cache_watch_ring *ring)
{
    uint64_t dropped = atomic_load_explicit(&ring->dropped, memory_order_relaxed);
    uint64_t since = dropped - ring->reported;

    ring->reported = dropped;
    return since;
}
