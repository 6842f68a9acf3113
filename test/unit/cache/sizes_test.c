/* SPDX-License-Identifier: BSD-3-Clause */
/* Sizes and classes as memcached has them. */
#include "rig.h"

#include "cache/sizes.h"

static void test_classes(void **state)
{
    (void)state;
    assert_int_equal(cache_class_of(1), 1);
    assert_int_equal(cache_class_of(96), 1);
    assert_int_equal(cache_class_of(97), 2);
    assert_int_equal(cache_class_of(394841), 39);
    assert_int_equal(cache_class_of(UINT64_C(1) << 40), 39);
    for (unsigned i = 1; i < CACHE_CLASS_MAX; i++) {
        assert_int_equal(cache_class_of(cache_class_bytes(i)), i);
        assert_int_equal(cache_class_of(cache_class_bytes(i) + 1u), i + 1);
    }
}

/* The longest value that fits a megabyte: known from memcached. */
static void test_size(void **state)
{
    struct rig *rig = *state;

    assert_int_equal(cache_item_size(rig->cache, 1, 0, 1048516 + 2), 1048576);
    assert_int_equal(cache_item_size(rig->cache, 1, 5, 1048512 + 2), 1048576);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_classes),
        cmocka_unit_test_setup_teardown(test_size, rig_setup, rig_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
