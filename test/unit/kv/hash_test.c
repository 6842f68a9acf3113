/* SPDX-License-Identifier: BSD-3-Clause */
/* The hash of keys: depends on all of the key and all of the secret, and spreads well. */
#include "kv_rig.h"

#include "kv/hash.h"

static struct kv_hash hash_with(uint8_t changed_byte, uint8_t change)
{
    uint8_t secret[KV_SECRET_BYTES] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    secret[changed_byte] ^= change;
    struct kv_hash hash;
    kv_hash_init(&hash, secret);
    return hash;
}

static void test_secret_is_spread(void **unused)
{
    struct kv_hash first = hash_with(0, 0);
    for (unsigned i = 0; i < KV_SECRET_BYTES; i++) {
        struct kv_hash other = hash_with((uint8_t)i, 0x10);
        unsigned same = 0;
        for (unsigned at = 0; at < KV_HASH_SECRET_BYTES; at++)
            same += first.secret[at] == other.secret[at];
        assert_true(same < 12); /* less than one is expected */
    }
}

/* Every length has its own way through the hash: each byte of the key matters in each of them. */
static void test_every_byte_of_the_key_counts(void **unused)
{
    struct kv_hash hash = hash_with(0, 0);
    uint8_t key[KV_KEY_MAX];
    for (unsigned i = 0; i < KV_KEY_MAX; i++)
        key[i] = (uint8_t)(i * 7 + 3);
    for (uint32_t len = 1; len <= KV_KEY_MAX; len++) {
        uint64_t whole = kv_hash_of(&hash, key, len);
        assert_true(len == 1 || whole != kv_hash_of(&hash, key, len - 1));
        for (uint32_t i = 0; i < len; i++) {
            key[i] ^= 0x40;
            assert_true(whole != kv_hash_of(&hash, key, len));
            key[i] ^= 0x40;
        }
    }
}

static void test_another_secret_is_another_hash(void **unused)
{
    struct kv_hash first = hash_with(0, 0);
    struct kv_hash second = hash_with(15, 0x80);
    const uint32_t lens[] = {1, 3, 4, 8, 9, 16, 17, 128, 129, 240, 241, 250};
    uint8_t key[KV_KEY_MAX] = {0};
    for (unsigned i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
        assert_true(kv_hash_of(&first, key, lens[i]) != kv_hash_of(&second, key, lens[i]));
        assert_true(kv_hash_of(&first, key, lens[i]) == kv_hash_of(&first, key, lens[i]));
    }
}

/* Of numbered keys, those bits that the index uses: all chains and tags about equally often. */
static void test_bits_are_spread(void **unused)
{
    enum { KEYS = 100000, CELLS = 256 };
    static unsigned chains[CELLS], tags[CELLS];
    struct kv_hash hash = hash_with(0, 0);
    for (unsigned i = 0; i < KEYS; i++) {
        char name[16];
        int len = snprintf(name, sizeof(name), "key:%u", i);
        uint64_t value = kv_hash_of(&hash, name, (uint32_t)len);
        chains[value >> 56]++;
        tags[value & 0xff]++;
    }
    /* 390 each, deviation 20: five of them on either side. */
    for (unsigned i = 0; i < CELLS; i++) {
        assert_in_range(chains[i], 290, 490);
        assert_in_range(tags[i], 290, 490);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_secret_is_spread),
        cmocka_unit_test(test_every_byte_of_the_key_counts),
        cmocka_unit_test(test_another_secret_is_another_hash),
        cmocka_unit_test(test_bits_are_spread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
