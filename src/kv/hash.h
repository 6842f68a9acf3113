/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hash of keys: XXH3 (header of libxxhash) with a secret of this table in place of the
 * published one, so that clients who do not know the secret cannot choose colliding keys. A seed
 * would not be enough: it only shifts the published secret, and families of keys are known that
 * collide for any seed.
 *
 * This is no cryptographic guarantee. The second defence is the bound on chains
 * (KV_CHAIN_BUCKETS_MAX): with a known secret, colliding keys only evict each other.
 */
#ifndef KV_HASH_H
#define KV_HASH_H

#include <stdint.h>

#include "base/base.h"
#include "kv/kv.h"

#define KV_HASH_SECRET_BYTES 192

struct kv_hash {
    _Alignas(U_CACHE_LINE_BYTES) uint8_t secret[KV_HASH_SECRET_BYTES];
};

/* Derives the hash's secret from the configured one: SipHash of a counter. */
void kv_hash_init(struct kv_hash *hash, const uint8_t secret[KV_SECRET_BYTES]);

/* 64 bits; the index uses the upper ones for the chain and the lowest 16 for the tag. */
uint64_t kv_hash_of(const struct kv_hash *hash, const void *bytes, uint32_t len);

/* XXH3 with a seed: a checksum against damage, not against forgery. */
uint64_t kv_checksum(const void *bytes, uint64_t len, uint64_t seed);

#endif
