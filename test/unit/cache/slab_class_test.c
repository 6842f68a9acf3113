/* SPDX-License-Identifier: BSD-3-Clause */
/* The classes of memcached 1.6, as its -vv prints them. */
#include "rig.h"

#include "cache/slab_class.h"

static const uint32_t by_default[] = {
    96,    120,    152,    192,    240,    304,    384,    480,    600,    752,
    944,   1184,   1480,   1856,   2320,   2904,   3632,   4544,   5680,   7104,
    8880,  11104,  13880,  17352,  21696,  27120,  33904,  42384,  52984,  66232,
    82792, 103496, 129376, 161720, 202152, 252696, 315872, 394840, 524288,
};

static struct kv_sizes classes_of(const struct cache_settings *settings)
{
    struct kv_sizes sizes = {0};

    cache_slab_classes(settings, &sizes);
    assert_true(kv_sizes_init(&sizes));
    return sizes;
}

static void test_default_classes(void **state)
{
    struct cache_settings settings;
    struct kv_sizes sizes;

    cache_settings_defaults(&settings);
    sizes = classes_of(&settings);
    assert_int_equal(sizes.class_count, sizeof(by_default) / sizeof(by_default[0]));
    for (unsigned i = 0; i < sizes.class_count; i++)
        assert_int_equal(sizes.class_bytes_max[i], by_default[i]);
    assert_int_equal(sizes.fixed_bytes, 57);
    assert_int_equal(sizes.bucket_count, 0);
}

static void test_unset_settings_are_the_default(void **state)
{
    struct cache_settings settings = {.item_bytes_max = 1 << 20};
    struct kv_sizes sizes = classes_of(&settings);

    assert_int_equal(sizes.class_count, sizeof(by_default) / sizeof(by_default[0]));
    assert_int_equal(sizes.class_bytes_max[38], 524288);
}

/* memcached -vv -f 2 -n 100 */
static void test_other_factor_and_minimum(void **state)
{
    static const uint32_t expected[] = {152,  304,   608,   1216,  2432,   4864,
                                        9728, 19456, 38912, 77824, 155648, 524288};
    struct cache_settings settings;
    struct kv_sizes sizes;

    cache_settings_defaults(&settings);
    settings.compat.growth_factor = 2;
    settings.compat.chunk_bytes = 100;
    sizes = classes_of(&settings);
    assert_int_equal(sizes.class_count, sizeof(expected) / sizeof(expected[0]));
    for (unsigned i = 0; i < sizes.class_count; i++)
        assert_int_equal(sizes.class_bytes_max[i], expected[i]);
}

static void test_hostile_factors_end(void **state)
{
    struct cache_settings settings;
    struct kv_sizes sizes;

    cache_settings_defaults(&settings);
    settings.compat.growth_factor = 1.0000001;
    sizes = classes_of(&settings);
    assert_int_equal(sizes.class_count, CACHE_SLAB_CLASSES_MAX);
    settings.compat.growth_factor = 1e30;
    assert_int_equal(classes_of(&settings).class_count, 1);
    settings.compat.chunk_bytes = UINT32_MAX / 2;
    assert_int_equal(classes_of(&settings).class_count, 1);
}

static void test_without_cas_items_are_smaller(void **state)
{
    struct cache_settings settings;

    cache_settings_defaults(&settings);
    settings.cas_disabled = true;
    settings.track_sizes = true;
    assert_int_equal(classes_of(&settings).fixed_bytes, 49);
    assert_int_equal(classes_of(&settings).bucket_bytes, 32);
    assert_int_equal(classes_of(&settings).bucket_count, (1 << 20) / 32 + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_default_classes),
        cmocka_unit_test(test_unset_settings_are_the_default),
        cmocka_unit_test(test_other_factor_and_minimum),
        cmocka_unit_test(test_hostile_factors_end),
        cmocka_unit_test(test_without_cas_items_are_smaller),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
