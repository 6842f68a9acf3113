/* SPDX-License-Identifier: BSD-3-Clause */
/* Size classes: bounds, the table and what lies beyond it. */
#include "kv_rig.h"

#include "kv/sizes.h"

static void test_no_classes_are_one(void **unused)
{
    struct kv_sizes sizes = {.fixed_bytes = 57};
    assert_true(kv_sizes_init(&sizes));
    assert_int_equal(kv_sizes_class(&sizes, 0), 0);
    assert_int_equal(kv_sizes_class(&sizes, 8192), 0);
    assert_int_equal(kv_sizes_class(&sizes, UINT64_C(1) << 40), 0);
}

static void test_size_of_an_item(void **unused)
{
    struct kv_sizes sizes = {.fixed_bytes = 57};
    assert_int_equal(kv_sizes_of(&sizes, 1, 0, 0), 58);
    assert_int_equal(kv_sizes_of(&sizes, 250, 0, 10), 317);
    assert_int_equal(kv_sizes_of(&sizes, 1, 7, 0), 62);
    assert_int_equal(kv_sizes_of(&sizes, 1, 0, UINT32_MAX), UINT64_C(58) + UINT32_MAX);
}

/* Every size against the definition: the first class whose bound is not below it, else the last. */
static void test_class_is_the_first_that_is_large_enough(void **unused)
{
    struct kv_sizes sizes = {.class_count = 5, .class_bytes_max = {8, 96, 8184, 8192, 20000}};
    assert_true(kv_sizes_init(&sizes));
    for (uint64_t size = 0; size < 30000; size++) {
        unsigned expected = 0;
        while (expected + 1 < sizes.class_count && size > sizes.class_bytes_max[expected])
            expected++;
        if (kv_sizes_class(&sizes, size) != expected)
            fail_msg("size %u is of class %u, not %u", (unsigned)size, kv_sizes_class(&sizes, size),
                     expected);
    }
}

static void test_bad_bounds(void **unused)
{
    struct kv_sizes odd = {.class_count = 1, .class_bytes_max = {97}};
    struct kv_sizes falling = {.class_count = 2, .class_bytes_max = {96, 88}};
    struct kv_sizes same = {.class_count = 2, .class_bytes_max = {96, 96}};
    struct kv_sizes no_buckets = {.bucket_bytes = 32};
    assert_false(kv_sizes_init(&odd));
    assert_false(kv_sizes_init(&falling));
    assert_false(kv_sizes_init(&same));
    assert_false(kv_sizes_init(&no_buckets));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_classes_are_one),
        cmocka_unit_test(test_size_of_an_item),
        cmocka_unit_test(test_class_is_the_first_that_is_large_enough),
        cmocka_unit_test(test_bad_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
