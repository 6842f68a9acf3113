/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hash of keys: XXH3 (libxxhash, its header compiled in) with a secret of our own in place of
 * the published one, so that nobody who does not know it can choose keys that collide. A seed alone
 * would not do: it shifts the published secret by one number, and for hashes of this kind families
 * of keys are known that collide whatever the seed.
 *
 * It is no cryptographic promise. The second line of defence is the bound of a chain
 * (KV_CHAIN_BUCKETS_MAX): even who knew the secret could only have a few keys evict each other.
 */
#ifndef KV_HASH_H
#define KV_HASH_H

#include <stdint.h>

#include "base/base.h"
#include "kv/kv.h"

#define KV_HASH_SECRET_BYTES 192

struct kv_hash {
    _Alignas(U_LINE_BYTES) uint8_t secret[KV_HASH_SECRET_BYTES];
};

/* Spreads the owner's secret over that of the hash: SipHash of a counter, keyed by the secret. */
void kv_hash_init(struct kv_hash *hash, const uint8_t secret[KV_SECRET_BYTES]);

/* 64 bits, all of them good: the index takes chain and tag from different ones. */
uint64_t kv_hash_of(const struct kv_hash *hash, const void *bytes, uint32_t len);

#endif
