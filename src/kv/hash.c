/* SPDX-License-Identifier: BSD-3-Clause */
/* The hash of keys; hash.h describes it. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/base.h"
#include "base/siphash.h"
#include "kv/engine.h"
#include "kv/hash.h"

U_STATIC_ASSERT(KV_HASH_SECRET_BYTES >= XXH3_SECRET_SIZE_MIN, kv_hash_secret_is_long_enough);

void kv_hash_init(struct kv_hash *hash, const uint8_t secret[KV_SECRET_BYTES])
{
    for (uint64_t i = 0; i < KV_HASH_SECRET_BYTES / sizeof(uint64_t); i++) {
        uint64_t word = u_siphash13(secret, &i, sizeof(i));
        u_copy(hash->secret + i * sizeof(word), &word, sizeof(word));
    }
}

#define SHORT_BYTES 16 /* XXH3 has a special case up to this length */

/* Not inlined: short keys would have to save the registers that long ones need. */
static __attribute__((noinline)) uint64_t hash_long(const struct kv_hash *hash, const void *bytes,
                                                    uint32_t len)
{
    return XXH3_64bits_withSecret(bytes, len, hash->secret, KV_HASH_SECRET_BYTES);
}

/* One hash for all lengths; the compiler drops the long cases where the length is short. */
uint64_t kv_hash_of(const struct kv_hash *hash, const void *bytes, uint32_t len)
{
    if (U_UNLIKELY(len > SHORT_BYTES))
        return hash_long(hash, bytes, len);
    return XXH3_64bits_withSecret(bytes, len, hash->secret, KV_HASH_SECRET_BYTES);
}

uint64_t kv_checksum(const void *bytes, uint64_t len, uint64_t seed)
{
    return XXH3_64bits_withSeed(bytes, len, seed);
}

struct kv_key kv_key(const struct kv *kv, const void *bytes, uint32_t len)
{
    U_ASSERT(len >= 1 && len <= KV_KEY_MAX);
    struct kv_key key = {
        .bytes = (const uint8_t *)bytes, .len = len, .hash = kv_hash_of(&kv->hash, bytes, len)};
    return key;
}
