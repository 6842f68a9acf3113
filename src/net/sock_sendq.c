/* SPDX-License-Identifier: BSD-3-Clause */
/* The send queue of a socket; see sock_sendq.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/base.h"
#include "net/sock_sendq.h"

/* Pieces per system call. */
#define FLUSH_PIECES_MAX 64

/* System calls per flush, so that one fast reader does not delay other connections. */
#define FLUSH_CALLS_MAX 8

/* Free blocks and pieces that the pool keeps. */
#define POOL_BLOCKS_MAX 64
#define POOL_PIECES_MAX 1024

/* ---- the pool ---------------------------------------------------------------------------- */

void net_sendq_pool_init(struct net_sendq_pool *pool, net_sendq_release *release, void *release_ctx)
{
    memset(pool, 0, sizeof(*pool));
    pool->release = release;
    pool->release_ctx = release_ctx;
}

void net_sendq_pool_free(struct net_sendq_pool *pool)
{
    struct net_sendq_block *block;
    struct net_sendq_piece *piece;

    while ((block = pool->blocks) != NULL) {
        pool->blocks = block->next;
        free(block);
    }
    while ((piece = pool->pieces) != NULL) {
        pool->pieces = piece->next;
        free(piece);
    }
}

static struct net_sendq_block *block_take(struct net_sendq_pool *pool)
{
    struct net_sendq_block *block = pool->blocks;

    if (block) {
        pool->blocks = block->next;
        pool->block_count--;
    } else {
        block = malloc(sizeof(*block));
        if (!block)
            return NULL;
    }
    block->next = NULL;
    block->users = 1;
    block->used = 0;
    return block;
}

static void block_drop(struct net_sendq_pool *pool, struct net_sendq_block *block)
{
    U_ASSERT(block->users > 0);
    if (--block->users > 0)
        return;
    if (pool->block_count == POOL_BLOCKS_MAX) {
        free(block);
        return;
    }
    block->next = pool->blocks;
    pool->blocks = block;
    pool->block_count++;
}

static struct net_sendq_piece *piece_take(struct net_sendq_pool *pool)
{
    struct net_sendq_piece *piece = pool->pieces;

    if (piece) {
        pool->pieces = piece->next;
        pool->piece_count--;
    } else {
        piece = malloc(sizeof(*piece));
        if (!piece)
            return NULL;
    }
    memset(piece, 0, sizeof(*piece));
    return piece;
}

static void piece_drop(struct net_sendq_pool *pool, struct net_sendq_piece *piece)
{
    if (piece->block)
        block_drop(pool, piece->block);
    else
        pool->release(pool->release_ctx, piece->cookie);
    if (pool->piece_count == POOL_PIECES_MAX) {
        free(piece);
        return;
    }
    piece->next = pool->pieces;
    pool->pieces = piece;
    pool->piece_count++;
}

/* ---- filling ----------------------------------------------------------------------------- */

static void append(struct net_sendq *out, struct net_sendq_piece *piece)
{
    if (out->tail)
        out->tail->next = piece;
    else
        out->head = piece;
    out->tail = piece;
}

uint8_t *net_sendq_reserve(struct net_sendq *out, struct net_sendq_pool *pool, uint32_t need,
                           uint8_t **end)
{
    struct net_sendq_block *block = out->block;
    struct net_sendq_piece *piece;

    U_ASSERT(need > 0 && need <= NET_SENDQ_BLOCK_BYTES);
    if (!block || NET_SENDQ_BLOCK_BYTES - block->used < need) {
        block = block_take(pool);
        if (!block)
            return NULL;
        if (out->block)
            block_drop(pool, out->block);
        out->block = block;
    }
    /* The last piece grows if it is in this block, since it then ends where the room begins. */
    if (!out->tail || out->tail->block != block) {
        piece = piece_take(pool);
        if (!piece)
            return NULL;
        piece->at = block->bytes + block->used;
        piece->block = block;
        block->users++;
        append(out, piece);
    }
    *end = block->bytes + NET_SENDQ_BLOCK_BYTES;
    return block->bytes + block->used;
}

void net_sendq_commit(struct net_sendq *out, uint32_t len)
{
    struct net_sendq_block *block = out->block;

    U_ASSERT(len <= NET_SENDQ_BLOCK_BYTES - block->used);
    block->used += len;
    out->tail->len += len;
    out->queued_bytes += len;
}

int net_sendq_add_ref(struct net_sendq *out, struct net_sendq_pool *pool, const void *data,
                      uint32_t len, void *cookie)
{
    struct net_sendq_piece *piece = piece_take(pool);

    U_ASSERT(len > 0);
    if (!piece)
        return -1;
    piece->at = data;
    piece->len = len;
    piece->cookie = cookie;
    append(out, piece);
    out->queued_bytes += len;
    return 0;
}

/* ---- writing ----------------------------------------------------------------------------- */

static void pop(struct net_sendq *out, struct net_sendq_pool *pool)
{
    struct net_sendq_piece *piece = out->head;

    out->head = piece->next;
    if (!out->head)
        out->tail = NULL;
    piece_drop(pool, piece);
}

void net_sendq_advance(struct net_sendq *out, struct net_sendq_pool *pool, uint64_t n)
{
    U_ASSERT(n <= out->queued_bytes);
    out->queued_bytes -= n;
    while (out->head && n >= out->head->len) {
        n -= out->head->len;
        pop(out, pool);
    }
    if (n > 0) {
        out->head->at += n;
        out->head->len -= (uint32_t)n;
    }
    if (!out->head && out->block) {
        block_drop(pool, out->block);
        out->block = NULL;
    }
}

unsigned net_sendq_gather(const struct net_sendq *out, struct iovec *iov, unsigned max,
                          uint64_t *total)
{
    const struct net_sendq_piece *piece;
    unsigned n = 0;

    *total = 0;
    for (piece = out->head; piece && n < max; piece = piece->next) {
        union {
            const uint8_t *from;
            void *base; /* sendmsg() only reads, but iovec is shared with recvmsg() */
        } data = {.from = piece->at};

        if (piece->len == 0)
            continue;
        iov[n].iov_base = data.base;
        iov[n].iov_len = piece->len;
        *total += piece->len;
        n++;
    }
    return n;
}

/* send() is cheaper than sendmsg() for a single piece. */
static ssize_t write_gathered(int fd, const struct msghdr *msg)
{
    if (msg->msg_iovlen == 1)
        return send(fd, msg->msg_iov[0].iov_base, msg->msg_iov[0].iov_len,
                    MSG_NOSIGNAL | MSG_DONTWAIT);
    return sendmsg(fd, msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

enum net_sendq_result net_sendq_flush(struct net_sendq *out, struct net_sendq_pool *pool, int fd,
                                      uint64_t *writes)
{
    struct iovec iov[FLUSH_PIECES_MAX];
    struct msghdr msg = {.msg_iov = iov};
    uint64_t total;
    unsigned calls;
    ssize_t sent;

    for (calls = 0; out->queued_bytes > 0 && calls < FLUSH_CALLS_MAX; calls++) {
        msg.msg_iovlen = net_sendq_gather(out, iov, FLUSH_PIECES_MAX, &total);
        sent = write_gathered(fd, &msg);
        ++*writes;
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return errno == EAGAIN || errno == EWOULDBLOCK ? NET_SENDQ_PENDING : NET_SENDQ_ERROR;
        net_sendq_advance(out, pool, (uint64_t)sent);
        if ((uint64_t)sent < total)
            return NET_SENDQ_PENDING;
    }
    if (out->queued_bytes > 0)
        return NET_SENDQ_PENDING;
    net_sendq_advance(out, pool, 0);
    return NET_SENDQ_EMPTY;
}

void net_sendq_clear(struct net_sendq *out, struct net_sendq_pool *pool)
{
    while (out->head)
        pop(out, pool);
    out->queued_bytes = 0;
    net_sendq_advance(out, pool, 0);
}
