/* SPDX-License-Identifier: BSD-3-Clause */
/* The permutation: each image once for any n; another seed gives another permutation. */
#include "load_rig.h"

#include "load/scramble.h"

static void check_permutation(uint64_t n, uint64_t seed)
{
    struct load_scramble scramble;
    uint8_t *seen = calloc(n, 1);

    load_scramble_init(&scramble, n, seed);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t place = load_scramble_of(&scramble, i);
        assert_true(place < n);
        assert_false(seen[place]);
        seen[place] = 1;
    }
    free(seen);
}

static void test_each_place_once(void **unused)
{
    for (uint64_t n = 1; n <= 70; n++)
        check_permutation(n, n);
    check_permutation(65536, 1);
    check_permutation(65537, 2);
    check_permutation(100000, 3);
}

static void test_many(void **unused)
{
    struct load_scramble scramble;
    uint64_t ids[150];

    load_scramble_init(&scramble, 100000, 4); /* more than half of the ids need several steps */
    for (uint64_t i = 0; i < 150; i++)
        ids[i] = i * 666;
    load_scramble_many(&scramble, ids, 149);
    for (uint64_t i = 0; i < 149; i++)
        assert_int_equal(ids[i], load_scramble_of(&scramble, i * 666));
    assert_int_equal(ids[149], 149 * 666);
}

static void test_neighbours_are_separated(void **unused)
{
    struct load_scramble scramble;
    unsigned near = 0;

    load_scramble_init(&scramble, 1000000, 5);
    for (uint64_t i = 0; i + 1 < 1000; i++) {
        int64_t step =
            (int64_t)(load_scramble_of(&scramble, i + 1) - load_scramble_of(&scramble, i));
        near += llabs(step) < 1000;
    }
    assert_true(near < 20); /* expected: two of a thousand */
}

static void test_seeds_differ(void **unused)
{
    struct load_scramble a, b;
    unsigned same = 0;

    load_scramble_init(&a, 1000, 1);
    load_scramble_init(&b, 1000, 2);
    for (uint64_t i = 0; i < 1000; i++)
        same += load_scramble_of(&a, i) == load_scramble_of(&b, i);
    assert_true(same < 15);
}

static void test_largest(void **unused)
{
    struct load_scramble scramble;
    uint64_t n = UINT64_C(1) << 62;

    load_scramble_init(&scramble, n, 1);
    for (uint64_t i = 0; i < 100; i++)
        assert_true(load_scramble_of(&scramble, n - 1 - i) < n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_place_once),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_neighbours_are_separated),
        cmocka_unit_test(test_seeds_differ),
        cmocka_unit_test(test_largest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
