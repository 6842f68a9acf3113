/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The queue of what is to be written to a socket: pieces in order, each a range of a block that
 * replies were formatted into, or a reference to bytes of somebody else.
 *
 *     pieces:  [header bytes] -> [reference] -> [header bytes] -> ...
 *                    \                               /
 *                     +------------ block ----------+
 *
 * A connection with nothing to write has neither. Blocks and pieces come from a pool of the worker,
 * which keeps a bounded number of them for the next reply, so a steady load allocates nothing.
 */
#ifndef NET_SOCK_OUT_H
#define NET_SOCK_OUT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#define NET_OUT_BLOCK_BYTES (16 * 1024)

struct net_out_block {
    struct net_out_block *next; /* in the pool */
    uint32_t users;             /* pieces in it, and the queue that writes into it */
    uint32_t used;
    uint8_t bytes[NET_OUT_BLOCK_BYTES];
};

struct net_out_piece {
    struct net_out_piece *next;
    const uint8_t *at; /* what is left of it */
    uint32_t len;
    struct net_out_block *block; /* null: a reference */
    void *cookie;                /* of a reference */
};

typedef void net_out_release(void *ctx, void *cookie);

struct net_out_pool {
    struct net_out_block *blocks;
    struct net_out_piece *pieces;
    uint32_t block_count;
    uint32_t piece_count;
    net_out_release *release; /* called for each reference that is no longer needed */
    void *release_ctx;
};

struct net_out {
    struct net_out_piece *head;
    struct net_out_piece *tail;
    struct net_out_block *block; /* being written into */
    uint64_t queued_bytes;
};

void net_out_pool_init(struct net_out_pool *pool, net_out_release *release, void *release_ctx);

/* Frees what the pool keeps. All queues have been cleared. */
void net_out_pool_free(struct net_out_pool *pool);

/*
 * Room for at least `need` bytes (1..NET_OUT_BLOCK_BYTES) at the end of the queue: returns its
 * start and sets *end, or returns null if there is no memory. Good until the next call.
 */
uint8_t *net_out_room(struct net_out *out, struct net_out_pool *pool, uint32_t need, uint8_t **end);

/* Queues the bytes of that room up to `at`. */
void net_out_commit(struct net_out *out, const uint8_t *at);

/* Queues a reference. Returns 0, or -1 if there is no memory: then it is not released either. */
int net_out_ref(struct net_out *out, struct net_out_pool *pool, const void *data, uint32_t len,
                void *cookie);

enum net_out_result {
    NET_OUT_EMPTY = 0, /* everything is written */
    NET_OUT_LEFT,      /* the socket takes no more for now, or its turn is over */
    NET_OUT_ERROR      /* the connection is broken */
};

/* Writes to a non-blocking socket, a bounded number of times; adds that number to *writes. */
enum net_out_result net_out_flush(struct net_out *out, struct net_out_pool *pool, int fd,
                                  uint64_t *writes);

/*
 * The parts of that, for who writes in another way: lists at most `max` pieces from the front,
 * whose bytes are *total; and takes written bytes off. What is listed stays where it is until then.
 */
unsigned net_out_gather(const struct net_out *out, struct iovec *iov, unsigned max,
                        uint64_t *total);
void net_out_advance(struct net_out *out, struct net_out_pool *pool, uint64_t n);

/* Drops everything, releasing references. */
void net_out_clear(struct net_out *out, struct net_out_pool *pool);

#endif
