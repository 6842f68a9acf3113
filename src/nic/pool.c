/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A pool of packets with a LIFO stack of the free ones: the most recently released buffer is the
 * likeliest to be in the cache.
 */
#include "nic/pool.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

#if defined(__SANITIZE_ADDRESS__)
#define POOL_POISONS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POOL_POISONS 1
#endif
#endif

#ifdef POOL_POISONS
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#endif

/* Buffer sizes are multiples of this: 2 KiB for an MTU of 1500, 10 KiB for jumbo frames. */
#define BUFFER_UNIT_BYTES 2048
#define VLAN_TAG_BYTES 4

/*
 * us_pkt.owner[0] is the packet's buffer, owner[1] the pool while the packet is in use and null
 * while it is free. Only the pool writes them.
 */
struct nic_pool {
    struct us_pkt *pkts;
    unsigned char *buffers;
    bool owns_buffers;
    struct us_pkt **free_pkts; /* the first free_count are free */
    unsigned count;
    unsigned free_count;
    uint32_t buffer_bytes;
    uint64_t exhausted;
};

static uint32_t round_up(uint32_t value, uint32_t unit)
{
    return (value + unit - 1) / unit * unit;
}

struct nic_pool *nic_pool_create_on(void *buffers, unsigned count, uint32_t buffer_bytes)
{
    struct nic_pool *pool = calloc(1, sizeof(*pool));
    unsigned i;

    U_ASSERT(count > 0);
    if (pool == NULL)
        return NULL;
    pool->count = count;
    pool->buffer_bytes = buffer_bytes;
    pool->buffers = buffers;
    pool->pkts = aligned_alloc(U_CACHE_LINE_BYTES,
                               round_up(count * (uint32_t)sizeof(*pool->pkts), U_CACHE_LINE_BYTES));
    pool->free_pkts = calloc(count, sizeof(struct us_pkt *));
    if (pool->pkts == NULL || pool->free_pkts == NULL) {
        pool->buffers = NULL; /* they are not poisoned yet */
        nic_pool_destroy(pool);
        return NULL;
    }
    memset(pool->pkts, 0, count * sizeof(*pool->pkts));
    for (i = 0; i < count; i++) {
        pool->pkts[i].owner[0] = pool->buffers + (size_t)i * pool->buffer_bytes;
        pool->free_pkts[i] = &pool->pkts[i];
    }
    pool->free_count = count;
    ASAN_POISON_MEMORY_REGION(pool->buffers, (size_t)count * pool->buffer_bytes);
    return pool;
}

struct nic_pool *nic_pool_create(unsigned count, uint32_t mtu)
{
    uint32_t buffer_bytes;
    struct nic_pool *pool;
    void *buffers;

    U_ASSERT(count > 0);
    U_ASSERT(mtu >= NIC_MTU_MIN && mtu <= NIC_MTU_MAX);
    buffer_bytes =
        round_up(NIC_POOL_HEADROOM_BYTES + NIC_ETH_HEADER_BYTES + VLAN_TAG_BYTES + mtu + 1,
                 BUFFER_UNIT_BYTES);
    buffers = aligned_alloc(U_CACHE_LINE_BYTES, (size_t)count * buffer_bytes);
    pool = buffers != NULL ? nic_pool_create_on(buffers, count, buffer_bytes) : NULL;
    if (pool == NULL) {
        free(buffers);
        return NULL;
    }
    pool->owns_buffers = true;
    return pool;
}

unsigned nic_pool_number(const struct nic_pool *pool, const struct us_pkt *pkt)
{
    return (unsigned)(pkt - pool->pkts);
}

struct us_pkt *nic_pool_at(const struct nic_pool *pool, unsigned number)
{
    U_ASSERT(number < pool->count);
    return &pool->pkts[number];
}

void nic_pool_destroy(struct nic_pool *pool)
{
    if (pool == NULL)
        return;
    if (pool->buffers != NULL)
        ASAN_UNPOISON_MEMORY_REGION(pool->buffers, (size_t)pool->count * pool->buffer_bytes);
    if (pool->owns_buffers)
        free(pool->buffers);
    free(pool->free_pkts);
    free(pool->pkts);
    free(pool);
}

/* Resets all fields that a previous user may have changed. */
static inline void reset_pkt(struct us_pkt *pkt, uint32_t buffer_bytes)
{
    pkt->data = (u_u8 *)pkt->owner[0] + NIC_POOL_HEADROOM_BYTES;
    pkt->room = buffer_bytes - NIC_POOL_HEADROOM_BYTES;
    pkt->len = 0;
    pkt->next_seg = NULL;
    pkt->flags = 0;
    pkt->rss_hash = 0;
    pkt->csum_start = 0;
    pkt->csum_offset = 0;
    pkt->tso_mss = 0;
    pkt->l2_len = 0;
    pkt->l3_len = 0;
    pkt->l4_len = 0;
}

unsigned nic_pool_alloc(struct nic_pool *pool, struct us_pkt **pkts, unsigned n)
{
    uint32_t buffer_bytes = pool->buffer_bytes;
    struct us_pkt **top;
    unsigned i;

    if (U_UNLIKELY(n > pool->free_count)) {
        n = pool->free_count;
        pool->exhausted++;
    }
    top = pool->free_pkts + pool->free_count;
    pool->free_count -= n;
    for (i = 0; i < n; i++) {
        struct us_pkt *pkt = *--top;

        U_ASSERT(pkt->owner[1] == NULL);
        pkt->owner[1] = pool;
        ASAN_UNPOISON_MEMORY_REGION(pkt->owner[0], buffer_bytes);
        reset_pkt(pkt, buffer_bytes);
        pkts[i] = pkt;
    }
    return n;
}

void nic_pool_release(struct nic_pool *pool, struct us_pkt *const *pkts, unsigned n)
{
    struct us_pkt **top = pool->free_pkts + pool->free_count;
    unsigned i;

    U_ASSERT(n <= pool->count - pool->free_count);
    pool->free_count += n;
    for (i = 0; i < n; i++) {
        struct us_pkt *pkt = pkts[i];

        U_ASSERT(pkt->owner[1] == pool);
        pkt->owner[1] = NULL;
        ASAN_POISON_MEMORY_REGION(pkt->owner[0], pool->buffer_bytes);
        *top++ = pkt;
    }
}

uint64_t nic_pool_exhausted(const struct nic_pool *pool)
{
    return pool->exhausted;
}

unsigned nic_pool_in_use(const struct nic_pool *pool)
{
    return pool->count - pool->free_count;
}
