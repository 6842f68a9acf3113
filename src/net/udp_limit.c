/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Token buckets as the generic cell rate algorithm has them (ITU-T I.371): a bucket is one number,
 * the time at which it will be full again.
 */
#include "net/udp_limit.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/siphash.h"

#define BUCKETS 4096 /* a power of two */
#define SECOND_NS UINT64_C(1000000000)

struct net_udp_limit {
    uint8_t key[16];
    uint32_t reply_bytes_max;
    uint32_t bytes_per_s; /* 0: no limit */
    uint64_t depth_ns;    /* of a bucket: how long a full one lasts at the rate */
    _Atomic uint64_t full_ns[BUCKETS];
};

static uint64_t cost_ns(const struct net_udp_limit *limit, uint32_t bytes)
{
    return bytes * SECOND_NS / limit->bytes_per_s;
}

struct net_udp_limit *net_udp_limit_create(uint32_t reply_bytes_max, uint32_t bytes_per_s,
                                           const uint8_t key[16])
{
    struct net_udp_limit *limit = calloc(1, sizeof(*limit));

    U_ASSERT(reply_bytes_max > 0);
    if (!limit)
        return NULL;
    memcpy(limit->key, key, sizeof(limit->key));
    limit->reply_bytes_max = u_min32(reply_bytes_max, NET_UDP_REPLY_BYTES_MAX);
    limit->bytes_per_s = bytes_per_s;
    limit->depth_ns = SECOND_NS;
    if (bytes_per_s > 0 && limit->depth_ns < cost_ns(limit, limit->reply_bytes_max))
        limit->depth_ns = cost_ns(limit, limit->reply_bytes_max);
    return limit;
}

void net_udp_limit_destroy(struct net_udp_limit *limit)
{
    free(limit);
}

uint64_t net_udp_source(bool is_ip6, const uint8_t *bytes)
{
    uint64_t source = 0;

    memcpy(&source, bytes, is_ip6 ? 8 : 4);
    return source;
}

uint32_t net_udp_limit_reply_bytes(const struct net_udp_limit *limit)
{
    return limit->reply_bytes_max;
}

bool net_udp_limit_take(struct net_udp_limit *limit, uint64_t source, uint32_t request_bytes,
                        uint32_t reply_bytes, uint64_t now_us)
{
    uint64_t now_ns = now_us * 1000;
    _Atomic uint64_t *bucket;
    uint64_t full_ns, next_ns;

    if (limit->bytes_per_s == 0 || reply_bytes <= request_bytes)
        return true;
    bucket = &limit->full_ns[u_siphash13(limit->key, &source, sizeof(source)) & (BUCKETS - 1)];
    full_ns = atomic_load_explicit(bucket, memory_order_relaxed);
    do {
        next_ns =
            (full_ns > now_ns ? full_ns : now_ns) + cost_ns(limit, reply_bytes - request_bytes);
        if (next_ns - now_ns > limit->depth_ns)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(bucket, &full_ns, next_ns, memory_order_relaxed,
                                                    memory_order_relaxed));
    return true;
}
