/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A bounded pipe of records from one thread to one other. Records are of any length, lie in one
 * piece, and are written and read where they lie.
 *
 * Invariants and orderings: `tail` counts the bytes that were put in and is written by the producer
 * only, `head` those that were given back and is written by the consumer only; both wrap.
 *   - put: records are written behind `written`, which the producer alone knows, and become visible
 *     when `tail` is set to it. The consumer loads tail with acquire, so whoever sees the count
 * sees the records and all that was written before them.
 *   - take: records are read up to `read`, which the consumer alone knows; their room is given back
 *     when `head` is set to it with release. The producer loads head with acquire, so nothing is
 *     overwritten that is still being read.
 *   - written - head never exceeds the capacity.
 *   - tail and `sleeps` are stored and loaded sequentially consistently where one thread sleeps and
 *     the other wakes it: a consumer that says that it sleeps and then finds the pipe empty is seen
 *     to sleep by the producer who publishes afterwards.
 * A record that does not fit before the end of the memory starts at its beginning; what is left at
 * the end is filled by one of type NET_PIPE_SKIP, which the consumer never sees.
 */
#ifndef NET_PIPE_H
#define NET_PIPE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/base.h"

#define NET_PIPE_SKIP 0u

/* What each record begins with. What follows is `len` bytes, and up to 31 that mean nothing. */
struct net_record {
    uint32_t bytes; /* of all, a multiple of sizeof(struct net_record) */
    uint32_t type;  /* not NET_PIPE_SKIP */
    uint32_t len;
    uint32_t value;
    void *link;
    uintptr_t pointer;
};

U_STATIC_ASSERT(sizeof(struct net_record) <= 32 && 32 % sizeof(struct net_record) == 0,
                net_record_size);

struct net_pipe {
    _Alignas(U_LINE_BYTES) _Atomic uint32_t tail;
    uint32_t written; /* the producer's */
    uint32_t head_seen;
    _Alignas(U_LINE_BYTES) _Atomic uint32_t head;
    uint32_t read; /* the consumer's */
    uint32_t tail_seen;
    _Alignas(U_LINE_BYTES) uint32_t capacity; /* a power of two */
    _Atomic bool sleeps;                      /* the consumer, or it is about to */
    _Alignas(U_LINE_BYTES) uint8_t bytes[];
};

/* Returns null if there is no memory. The capacity is a power of two. free() ends it. */
static inline struct net_pipe *net_pipe_create(uint32_t capacity)
{
    struct net_pipe *pipe;

    U_ASSERT(capacity >= U_LINE_BYTES && (capacity & (capacity - 1)) == 0);
    pipe = aligned_alloc(U_LINE_BYTES, sizeof(*pipe) + capacity);
    if (!pipe)
        return NULL;
    atomic_init(&pipe->tail, 0);
    atomic_init(&pipe->head, 0);
    atomic_init(&pipe->sleeps, false);
    pipe->written = pipe->head_seen = pipe->read = pipe->tail_seen = 0;
    pipe->capacity = capacity;
    return pipe;
}

/* ---- the producer ------------------------------------------------------------------------ */

/* The longest record that can be put in now, as far as the producer knows. */
static inline uint32_t net_pipe_room_seen(const struct net_pipe *pipe)
{
    uint32_t room = pipe->capacity - (pipe->written - pipe->head_seen);
    uint32_t to_end = pipe->capacity - (pipe->written & (pipe->capacity - 1));

    return room <= to_end ? room : u_max32(to_end, room - to_end);
}

/* Whether a record of so many bytes, header included, can be put in now. */
static inline bool net_pipe_has_room(struct net_pipe *pipe, uint32_t bytes)
{
    if (net_pipe_room_seen(pipe) >= bytes)
        return true;
    pipe->head_seen = atomic_load_explicit(&pipe->head, memory_order_acquire);
    return net_pipe_room_seen(pipe) >= bytes;
}

/*
 * Opens a record with room for at least `need` bytes, or null: there is none. *room says how many
 * there are, at most `most`. net_pipe_commit() ends it, before anything else is put in.
 */
static inline struct net_record *net_pipe_reserve(struct net_pipe *pipe, uint32_t need,
                                                  uint32_t most, uint32_t *room)
{
    const uint32_t header = sizeof(struct net_record);
    uint32_t to_end = pipe->capacity - (pipe->written & (pipe->capacity - 1));
    struct net_record *record;
    uint32_t there;

    if (!net_pipe_has_room(pipe, header + need))
        return NULL;
    record = (struct net_record *)(pipe->bytes + (pipe->written & (pipe->capacity - 1)));
    there = u_min32(to_end, pipe->capacity - (pipe->written - pipe->head_seen));
    if (there < header + need) {
        record->bytes = to_end;
        record->type = NET_PIPE_SKIP;
        pipe->written += to_end;
        there = pipe->capacity - (pipe->written - pipe->head_seen);
        record = (struct net_record *)pipe->bytes;
    }
    *room = u_min32(there - header, most);
    return record;
}

/* Ends the record with its type and the length of what follows the header. */
static inline void net_pipe_commit(struct net_pipe *pipe, struct net_record *record, uint32_t type,
                                   uint32_t len)
{
    const uint32_t unit = sizeof(struct net_record);

    record->type = type;
    record->len = len;
    record->bytes = (unit + len + unit - 1) / unit * unit;
    pipe->written += record->bytes;
}

/* Whether the consumer has given everything back that was put in. */
static inline bool net_pipe_is_drained(struct net_pipe *pipe)
{
    return atomic_load_explicit(&pipe->head, memory_order_relaxed) == pipe->written;
}

/* Shows the consumer what was put in. Returns whether that was anything. */
static inline bool net_pipe_publish(struct net_pipe *pipe)
{
    if (atomic_load_explicit(&pipe->tail, memory_order_relaxed) == pipe->written)
        return false;
    atomic_store(&pipe->tail, pipe->written);
    return true;
}

/*
 * Whether the consumer has to be woken for what was published: it sleeps, or is about to, and was
 * not woken for anything since.
 */
static inline bool net_pipe_must_wake(struct net_pipe *pipe)
{
    return atomic_load(&pipe->sleeps) && atomic_exchange(&pipe->sleeps, false);
}

/* ---- the consumer ------------------------------------------------------------------------ */

/* Takes the oldest record, or null. It stays as it is until net_pipe_release(). */
static inline struct net_record *net_pipe_take(struct net_pipe *pipe)
{
    struct net_record *record;

    for (;;) {
        if (pipe->read == pipe->tail_seen)
            pipe->tail_seen = atomic_load_explicit(&pipe->tail, memory_order_acquire);
        if (pipe->read == pipe->tail_seen)
            return NULL;
        record = (struct net_record *)(pipe->bytes + (pipe->read & (pipe->capacity - 1)));
        pipe->read += record->bytes;
        if (record->type != NET_PIPE_SKIP)
            return record;
    }
}

/* Gives the room of all records that were taken back. */
static inline void net_pipe_release(struct net_pipe *pipe)
{
    if (atomic_load_explicit(&pipe->head, memory_order_relaxed) != pipe->read)
        atomic_store_explicit(&pipe->head, pipe->read, memory_order_release);
}

/* Whether nothing has been published that was not taken. */
static inline bool net_pipe_is_empty(struct net_pipe *pipe)
{
    return atomic_load(&pipe->tail) == pipe->read;
}

/*
 * Around a sleep. begin returns whether to sleep, which whoever publishes from then on is to end
 * (net_pipe_must_wake()); end follows in any case.
 */
static inline bool net_pipe_sleep_begin(struct net_pipe *pipe)
{
    atomic_store(&pipe->sleeps, true);
    return net_pipe_is_empty(pipe);
}

static inline void net_pipe_sleep_end(struct net_pipe *pipe)
{
    atomic_store(&pipe->sleeps, false);
}

/* ---- pipe.c ------------------------------------------------------------------------------ */

/*
 * The consumer's sleep on an eventfd that the producer writes to when it must wake it: until
 * something is published, the eventfd is written to or timeout_us have passed. The eventfd is read.
 * Returns 0 or a negative errno value.
 */
int net_pipe_wait(struct net_pipe *pipe, int wake_fd, uint64_t timeout_us);

#endif
