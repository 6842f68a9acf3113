/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A ring of events from one worker to a watcher: bytes, one writer, one reader, both wait-free. An
 * event that does not fit is dropped and counted.
 *
 *   head   written by the writer (release), bytes written so far
 *   tail   written by the reader (release), bytes read so far
 *
 * An event is contiguous, at a multiple of 8; a filler event skips the end of the ring. The writer
 * may change to another worker when the first one has left under the cache's lock.
 */
#ifndef CACHE_WATCH_RING_H
#define CACHE_WATCH_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"
#include "cache/cache.h"

enum cache_event_kind {
    CACHE_EVENT_FILLER = 0, /* to the end of the ring */
    CACHE_EVENT_GET,
    CACHE_EVENT_STORE,
    CACHE_EVENT_EVICTION,
    CACHE_EVENT_DELETION,
    CACHE_EVENT_CONN_NEW,
    CACHE_EVENT_CONN_CLOSE,
    CACHE_EVENT_TLS_ERROR
};

/* An event: one line of a watcher's stream. */
struct cache_event {
    uint32_t bytes; /* of the event with what follows it */
    uint8_t kind;   /* enum cache_event_kind */
    uint8_t status; /* enum kv_found, cache_outcome, cache_close_reason; EVICTION: fetched */
    uint8_t class_id;
    uint8_t key_len;
    uint64_t id;      /* of the process's events, rising */
    uint64_t unix_us; /* when */
    int64_t ttl_s;
    uint32_t idle_s; /* EVICTION: since the last access */
    uint32_t conn;   /* the session's id */
    uint32_t value_bytes;
    const char *command; /* STORE, DELETION: a literal */
    union {
        uint8_t key[KV_KEY_MAX]; /* TLS_ERROR: the reason, key_len bytes of it */
        struct cache_peer peer;  /* CONN_ */
    } what;                      /* the ring has only the used part of it */
};

struct cache_watch_ring {
    _Alignas(U_CACHE_LINE_BYTES) _Atomic uint64_t head;
    _Atomic uint64_t dropped; /* events, by the writer */
    _Alignas(U_CACHE_LINE_BYTES) _Atomic uint64_t tail;
    uint64_t reported; /* of `dropped`, by the reader */
    uint32_t size;     /* a power of two */
    uint8_t *bytes;
};

/* Makes an empty ring of at least `bytes` bytes. False if there is no memory. */
bool cache_watch_ring_init(struct cache_watch_ring *ring, uint32_t bytes);
void cache_watch_ring_free(struct cache_watch_ring *ring);

/* Writes an event (event->bytes is set here), or drops it: false. */
bool cache_watch_ring_put(struct cache_watch_ring *ring, const struct cache_event *event);

/* The id of the next event, or UINT64_MAX if the ring is empty. */
uint64_t cache_watch_ring_next(struct cache_watch_ring *ring);

/* Takes the next event. There is one. */
void cache_watch_ring_take(struct cache_watch_ring *ring, struct cache_event *event);

/* Events that were dropped since the last call. */
uint64_t cache_watch_ring_dropped(struct cache_watch_ring *ring);

#endif
