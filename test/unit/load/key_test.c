/* SPDX-License-Identifier: BSD-3-Clause */
/* Texts of keys: lengths, uniqueness, allowed characters. */
#include "load_rig.h"

#include "load/key.h"

static void test_lengths(void **unused)
{
    char key[LOAD_KEY_MAX];

    assert_int_equal(load_key_write(key, 0, 1), 1);
    assert_int_equal(load_key_write(key, 63, 1), 1);
    assert_int_equal(load_key_write(key, 64, 1), 2);
    assert_int_equal(load_key_write(key, 5, 8), 8);
    assert_int_equal(load_key_write(key, UINT64_MAX, 8), LOAD_KEY_DIGITS_MAX);
    assert_int_equal(load_key_write(key, UINT64_MAX, LOAD_KEY_MAX), LOAD_KEY_MAX);
}

static void test_shortest(void **unused)
{
    assert_int_equal(load_key_bytes_min(0), 1);
    assert_int_equal(load_key_bytes_min(1), 1);
    assert_int_equal(load_key_bytes_min(64), 1);
    assert_int_equal(load_key_bytes_min(65), 2);
    assert_int_equal(load_key_bytes_min(1000000), 4);
    assert_int_equal(load_key_bytes_min(UINT64_MAX), LOAD_KEY_DIGITS_MAX);
}

static void test_shortest_is_long_enough(void **unused)
{
    char key[LOAD_KEY_MAX];
    for (uint64_t ids = 1; ids < 10000; ids += 7)
        assert_int_equal(load_key_write(key, ids - 1, 1), load_key_bytes_min(ids));
}

static int compare(const void *a, const void *b)
{
    return memcmp(a, b, 8);
}

static void test_unique_and_printable(void **unused)
{
    enum { KEYS = 100000 };
    static char keys[KEYS][8];

    for (unsigned i = 0; i < KEYS; i++) {
        assert_int_equal(load_key_write(keys[i], i * UINT64_C(2654435761) >> 3, 8), 8);
        for (unsigned c = 0; c < 8; c++)
            assert_true(keys[i][c] > ' ' && keys[i][c] < 127);
    }
    qsort(keys, KEYS, 8, compare);
    for (unsigned i = 1; i < KEYS; i++)
        assert_true(memcmp(keys[i - 1], keys[i], 8) != 0);
}

static void test_key_word(void **unused)
{
    static const uint64_t ids[] = {0, 1, 63, 64, 4095, 4096, 999999, UINT64_C(1) << 41};
    char key[LOAD_KEY_MAX];
    uint64_t word;

    for (unsigned i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        for (unsigned bytes = 1; bytes <= 12; bytes++) {
            unsigned len = load_key_write(key, ids[i], bytes);

            word = load_key_word(ids[i]);
            assert_memory_equal(&word, key, len < sizeof(word) ? len : sizeof(word));
        }
    }
    word = load_key_word((UINT64_C(1) << 48) - 1);
    assert_memory_equal(&word, "________", 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_shortest),
        cmocka_unit_test(test_shortest_is_long_enough),
        cmocka_unit_test(test_unique_and_printable),
        cmocka_unit_test(test_key_word),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
