/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The send queue of a socket: pieces in order, each a range of a block that replies were formatted
 * into, or a reference to bytes of the cache.
 *
 *     pieces:  [header bytes] -> [reference] -> [header bytes] -> ...
 *                    \                               /
 *                     +------------ block ----------+
 *
 * An empty queue has neither. Blocks and pieces come from a pool of the worker, which keeps a
 * bounded number of free ones, so a constant load allocates nothing.
 */
#ifndef NET_SOCK_SENDQ_H
#define NET_SOCK_SENDQ_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#define NET_SENDQ_BLOCK_BYTES (16 * 1024)

struct net_sendq_block {
    struct net_sendq_block *next; /* in the pool */
    uint32_t users;               /* pieces in it, and the queue that writes into it */
    uint32_t used;
    uint8_t bytes[NET_SENDQ_BLOCK_BYTES];
};

struct net_sendq_piece {
    struct net_sendq_piece *next;
    const uint8_t *at; /* the bytes that are not written yet */
    uint32_t len;
    struct net_sendq_block *block; /* null: a reference */
    void *cookie;                  /* of a reference */
};

typedef void net_sendq_release(void *ctx, void *cookie);

struct net_sendq_pool {
    struct net_sendq_block *blocks;
    struct net_sendq_piece *pieces;
    uint32_t block_count;
    uint32_t piece_count;
    net_sendq_release *release; /* called for each reference that is no longer needed */
    void *release_ctx;
};

struct net_sendq {
    struct net_sendq_piece *head;
    struct net_sendq_piece *tail;
    struct net_sendq_block *block; /* being written into */
    uint64_t queued_bytes;
};

void net_sendq_pool_init(struct net_sendq_pool *pool, net_sendq_release *release,
                         void *release_ctx);

/* Frees what the pool keeps. All queues have been cleared. */
void net_sendq_pool_free(struct net_sendq_pool *pool);

/*
 * Room for at least `need` bytes (1..NET_SENDQ_BLOCK_BYTES) at the end of the queue: returns its
 * start and sets *end, or returns null if there is no memory. Good until the next call.
 */
uint8_t *net_sendq_reserve(struct net_sendq *out, struct net_sendq_pool *pool, uint32_t need,
                           uint8_t **end);

/* Queues the first `len` bytes of that room. */
void net_sendq_commit(struct net_sendq *out, uint32_t len);

/* Queues a reference. Returns 0, or -1 if there is no memory: then it is not released either. */
int net_sendq_add_ref(struct net_sendq *out, struct net_sendq_pool *pool, const void *data,
                      uint32_t len, void *cookie);

enum net_sendq_result {
    NET_SENDQ_EMPTY = 0, /* everything is written */
    NET_SENDQ_PENDING,   /* the socket takes no more now, or FLUSH_CALLS_MAX was reached */
    NET_SENDQ_ERROR      /* the connection is broken */
};

/* Writes to a non-blocking socket, a bounded number of times; adds that number to *writes. */
enum net_sendq_result net_sendq_flush(struct net_sendq *out, struct net_sendq_pool *pool, int fd,
                                      uint64_t *writes);

/*
 * The parts of net_sendq_flush(), for io_uring: gather lists at most `max` pieces from the front,
 * *total bytes, which stay valid until advance removes the written bytes.
 */
unsigned net_sendq_gather(const struct net_sendq *out, struct iovec *iov, unsigned max,
                          uint64_t *total);
void net_sendq_advance(struct net_sendq *out, struct net_sendq_pool *pool, uint64_t n);

/* Drops everything, releasing references. */
void net_sendq_clear(struct net_sendq *out, struct net_sendq_pool *pool);

#endif
