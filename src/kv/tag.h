/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Search of a bucket for a tag, without a branch per slot: with about four keys per bucket the slot
 * is unpredictable, and a mispredicted branch costs more than comparing all seven slots by vector
 * instructions. Without those: a loop.
 */
#ifndef KV_TAG_H
#define KV_TAG_H

#include "kv/index.h"

/* ThreadSanitizer treats a vector load as a non-atomic load of the words. */
#if defined(__SANITIZE_THREAD__)
#define KV_TAG_LOOP 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define KV_TAG_LOOP 1
#endif
#endif
#if defined(__SSE2__) && !defined(KV_TAG_LOOP)
#include <emmintrin.h>
#define KV_TAG_VECTOR 1
#endif

/* The first slot whose word matches the hash, or null. */
static inline const kv_atomic_u64 *kv_tag_search_loop(const struct kv_bucket *bucket, uint64_t hash)
{
    for (unsigned i = 0; i < KV_BUCKET_SLOTS; i++) {
        if (kv_word_matches(kv_u64_load_relaxed(&bucket->slot[i]), hash))
            return &bucket->slot[i];
    }
    return U_NULL;
}

#ifdef KV_TAG_VECTOR

/* The high 32 bits of four words. */
static inline __m128i kv_tag_high_words(const struct kv_bucket *bucket, unsigned first)
{
    const __m128i *words = (const __m128i *)(const void *)bucket;
    __m128 low = _mm_castsi128_ps(_mm_load_si128(words + first / 2));
    __m128 high = _mm_castsi128_ps(_mm_load_si128(words + first / 2 + 1));
    return _mm_castps_si128(_mm_shuffle_ps(low, high, _MM_SHUFFLE(3, 1, 3, 1)));
}

/* The same by vectors. The first of a bucket's eight words is control, not a slot. */
static inline const kv_atomic_u64 *kv_tag_search_vector(const struct kv_bucket *bucket,
                                                        uint64_t hash)
{
    enum { HIGH_SHIFT = 32, BITS_PER_WORD = 2, NOT_A_SLOT = (1 << BITS_PER_WORD) - 1 };
    __m128i wanted = _mm_set1_epi32((int)kv_word_match_bits(hash));
    __m128i first = _mm_srli_epi32(kv_tag_high_words(bucket, 0), KV_WORD_MATCH_SHIFT - HIGH_SHIFT);
    __m128i second = _mm_srli_epi32(kv_tag_high_words(bucket, 4), KV_WORD_MATCH_SHIFT - HIGH_SHIFT);
    __m128i fits = _mm_packs_epi32(_mm_cmpeq_epi32(first, wanted), _mm_cmpeq_epi32(second, wanted));
    unsigned mask = (unsigned)_mm_movemask_epi8(fits) & ~(unsigned)NOT_A_SLOT;
    if (U_UNLIKELY(mask == 0))
        return U_NULL;
    size_t bits = (size_t)__builtin_ctz(mask);
    const uint8_t *at = (const uint8_t *)bucket + bits * (sizeof(uint64_t) / BITS_PER_WORD);
    return (const kv_atomic_u64 *)(const void *)at;
}

#endif

static inline const kv_atomic_u64 *kv_tag_search(const struct kv_bucket *bucket, uint64_t hash)
{
#ifdef KV_TAG_VECTOR
    return kv_tag_search_vector(bucket, hash);
#else
    return kv_tag_search_loop(bucket, hash);
#endif
}

#endif
