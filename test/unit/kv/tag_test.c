/* SPDX-License-Identifier: BSD-3-Clause */
/* The search of a bucket for a tag: vectors and loop, compared with kv_word_matches(). */
#include "base/prng.h"
#include "kv_rig.h"

#include "kv/tag.h"

#define ROUNDS 200000

static const uint64_t hash = UINT64_C(0x0123456789abcdef);

static uint64_t plain_word(uint64_t place)
{
    return hash << KV_WORD_TAG_SHIFT | KV_WORD_LIVE | (place & KV_WORD_PLACE);
}

/* A word that is plain, or is not for one bit above the place, or is anything. */
static uint64_t any_word(struct u_prng *prng)
{
    uint64_t random = u_prng_next(prng);
    switch (u_prng_below(prng, 8)) {
    case 0:
        return plain_word(random);
    case 1:
    case 2:
    case 3:
        return plain_word(random) ^ UINT64_C(1) << (KV_WORD_MATCH_SHIFT + u_prng_below(prng, 19));
    case 4:
        return 0;
    default:
        return random;
    }
}

static void expect_first(const struct kv_bucket *bucket)
{
    const kv_atomic_u64 *first = NULL;
    for (unsigned i = KV_BUCKET_SLOTS; i-- > 0;)
        if (kv_word_matches(kv_u64_load_relaxed(&bucket->slot[i]), hash))
            first = &bucket->slot[i];
    assert_ptr_equal(kv_tag_search(bucket, hash), first);
    assert_ptr_equal(kv_tag_search_loop(bucket, hash), first);
}

static void test_plain_is_tag_and_live_alone(void **unused)
{
    assert_true(kv_word_matches(plain_word(0), hash));
    assert_true(kv_word_matches(plain_word(KV_WORD_PLACE), hash));
    for (unsigned bit = KV_WORD_MATCH_SHIFT; bit < 64; bit++)
        assert_false(kv_word_matches(plain_word(1) ^ UINT64_C(1) << bit, hash));
}

static void test_each_slot_is_found(void **unused)
{
    for (unsigned i = 0; i < KV_BUCKET_SLOTS; i++) {
        struct kv_bucket bucket = {0};
        kv_u64_store_relaxed(&bucket.slot[i], plain_word(i));
        assert_ptr_equal(kv_tag_search(&bucket, hash), &bucket.slot[i]);
        assert_ptr_equal(kv_tag_search_loop(&bucket, hash), &bucket.slot[i]);
    }
}

/* What looks like a word of the tag there is none. */
static void test_control_is_no_slot(void **unused)
{
    struct kv_bucket bucket = {0};
    kv_u64_store_relaxed(&bucket.control, plain_word(1));
    assert_null(kv_tag_search(&bucket, hash));
    assert_null(kv_tag_search_loop(&bucket, hash));
}

static void test_all_ways_agree(void **unused)
{
    struct u_prng prng;
    u_prng_seed(&prng, 1);
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct kv_bucket bucket;
        kv_u64_store_relaxed(&bucket.control, any_word(&prng));
        for (unsigned i = 0; i < KV_BUCKET_SLOTS; i++)
            kv_u64_store_relaxed(&bucket.slot[i], any_word(&prng));
        expect_first(&bucket);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_is_tag_and_live_alone),
        cmocka_unit_test(test_each_slot_is_found),
        cmocka_unit_test(test_control_is_no_slot),
        cmocka_unit_test(test_all_ways_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
