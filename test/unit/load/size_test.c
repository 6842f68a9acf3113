/* SPDX-License-Identifier: BSD-3-Clause */
/* Sizes: every form, the published means of ETC, bounds, and invalid texts. */
#include "load_rig.h"

#include "load/size.h"

static struct load_size make(const char *text, uint32_t min, uint32_t max)
{
    struct load_size size;
    char error[LOAD_ERROR_MAX];

    if (!load_size_parse(&size, text, min, max, error))
        fail_msg("%s", error);
    return size;
}

/* By integration over the quantiles. */
static double mean_of(const struct load_size *size)
{
    enum { STEPS = 1 << 16 };
    double sum = 0;

    for (int i = 0; i < STEPS; i++)
        sum += load_size_quantile(size, (i + 0.5) / STEPS);
    return sum / STEPS;
}

static void test_fixed(void **unused)
{
    struct load_size size = make("200", 0, 1000);
    assert_int_equal(load_size_quantile(&size, 0), 200);
    assert_int_equal(load_size_quantile(&size, 0.999999), 200);
    assert_near(mean_of(&size), 200, 0);
}

static void test_range(void **unused)
{
    struct load_size size = make("16-19", 0, 1000);
    const double u[] = {0, 0.2499, 0.25, 0.5, 0.75, 1 - 0x1p-53};
    const uint32_t expected[] = {16, 16, 17, 18, 19, 19};
    for (unsigned i = 0; i < 6; i++)
        assert_int_equal(load_size_quantile(&size, u[i]), expected[i]);
}

static void test_largest_range(void **unused)
{
    struct load_size size = make("0-4294967295", 0, UINT32_MAX);
    assert_int_equal(load_size_quantile(&size, 0), 0);
    assert_int_equal(load_size_quantile(&size, 1 - 0x1p-53), UINT32_MAX);
}

static void test_choices(void **unused)
{
    struct load_size size = make("10@1/20@2/30@5", 0, 100);
    uint64_t counts[3] = {0};
    const double shares[] = {0.125, 0.25, 0.625};
    struct u_prng prng;

    u_prng_seed(&prng, 3);
    for (unsigned i = 0; i < 100000; i++)
        counts[load_size_quantile(&size, load_random_unit(&prng)) / 10 - 1]++;
    assert_distributed(counts, shares, 3, 100000);
}

static void test_etc_means(void **unused)
{
    struct load_size key = make("etc-key", 1, 250);
    struct load_size value = make("etc-value", 0, 1 << 20);
    assert_near(mean_of(&key), 36.2, 0.1);
    assert_near(mean_of(&value), 194, 1);
}

/* The table's shares as published, and the share of all that is beyond it. */
static void test_etc_small_values(void **unused)
{
    struct load_size value = make("etc-value", 0, 1 << 20);
    enum { STEPS = 1000000 };
    unsigned two = 0, eleven = 0, beyond = 0;

    for (unsigned i = 0; i < STEPS; i++) {
        uint32_t bytes = load_size_quantile(&value, (i + 0.5) / STEPS);
        two += bytes == 2;
        eleven += bytes == 11;
        beyond += bytes >= 15;
    }
    assert_near(two / (double)STEPS, 0.17820, 2e-6);
    assert_near(eleven / (double)STEPS, 0.08989, 2e-6);
    assert_near(beyond / (double)STEPS, 1 - 0.44155, 2e-6);
}

/* Against the distribution functions: F(F^-1(u)) = u to within half a unit. */
static void test_quantiles_are_inverses(void **unused)
{
    struct load_size gev = make("gev:100000:5000:0.1", 0, UINT32_MAX);
    struct load_size gpareto = make("gpareto:100000:50000:0.3", 0, UINT32_MAX);
    struct load_size exponential = make("gpareto:0:50000:0", 0, UINT32_MAX);

    for (double u = 0.01; u < 1; u += 0.01) {
        double x = load_size_quantile(&gev, u);
        assert_near(exp(-pow(1 + 0.1 * (x - 100000) / 5000, -1 / 0.1)), u, 1e-4);
        x = load_size_quantile(&gpareto, u);
        assert_near(1 - pow(1 + 0.3 * (x - 100000) / 50000, -1 / 0.3), u, 1e-4);
        x = load_size_quantile(&exponential, u);
        assert_near(1 - exp(-x / 50000), u, 1e-4);
    }
}

static void test_kept_within_bounds(void **unused)
{
    struct load_size key = make("etc-key", 20, 40);
    struct load_size wild = make("gpareto:5:1e30:9", 0, 1000);

    assert_int_equal(load_size_quantile(&key, 0), 20);
    assert_int_equal(load_size_quantile(&key, 1 - 0x1p-53), 40);
    assert_int_equal(load_size_quantile(&wild, 0.5), 1000);
    assert_int_equal(load_size_quantile(&wild, 1 - 0x1p-53), 1000);
}

static void test_bad_texts(void **unused)
{
    const char *bad[] = {"",           "x",           "-1",
                         "8-",         "9-8",         "8-9-10",
                         "1001",       "8@",          "8@0",
                         "8@1/",       "8@1,9@1",     "8@nan",
                         "@1",         "0-1001",      "gev:1",
                         "gev:1:0:1",  "gev:1:1:1:1", "gpareto:1:-1:0",
                         "8@1/9",      "8 ",          "99999999999999999999",
                         "gev:inf:1:1"};
    struct load_size size;
    char error[LOAD_ERROR_MAX];

    for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        error[0] = '\0';
        if (load_size_parse(&size, bad[i], 0, 1000, error))
            fail_msg("\"%s\" was taken", bad[i]);
        assert_true(error[0] != '\0');
    }
}

static void test_too_many_choices(void **unused)
{
    char text[512] = "1@1", error[LOAD_ERROR_MAX];
    struct load_size size;

    for (unsigned i = 1; i < LOAD_SIZE_CHOICES_MAX; i++)
        memcpy(text + strlen(text), "/1@1", 5);
    assert_true(load_size_parse(&size, text, 0, 1000, error));
    memcpy(text + strlen(text), "/1@1", 5);
    assert_false(load_size_parse(&size, text, 0, 1000, error));
}

/* ---- the guide --------------------------------------------------------------------------- */

/*
 * The number of wrong results at the borders of the guide's intervals, next to them, and at random.
 */
static unsigned differ(const struct load_size *size)
{
    struct u_prng prng;
    unsigned found = 0;

    u_prng_seed(&prng, 5);
    for (unsigned i = 0; i < LOAD_SIZE_PARTS; i++) {
        double border = (double)i / LOAD_SIZE_PARTS;
        double u[] = {border, border + 0x1p-53, fmax(border - 0x1p-53, 0),
                      border + load_random_unit(&prng) / LOAD_SIZE_PARTS,
                      border + load_random_unit(&prng) / LOAD_SIZE_PARTS};

        for (unsigned k = 0; k < 5; k++)
            found += load_size_quantile(size, u[k]) != load_size_quantile_exact(size, u[k]);
    }
    return found;
}

static void test_guide_is_exact(void **unused)
{
    static const char *const texts[] = {"etc-key",
                                        "etc-value",
                                        "gev:30:8:-0.5",
                                        "gev:1000:3000:0",
                                        "gpareto:15:214:0.35",
                                        "gpareto:0:1e6:2",
                                        "10@1/20@2/10@5",
                                        "7@1/70000@1/65534@1/65535@1/65536@1",
                                        "200",
                                        "16-128",
                                        "0-100000"};
    static struct load_size size;

    for (unsigned i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        size = make(texts[i], 0, 1 << 20);
        if (differ(&size) > 0)
            fail_msg("the guide of %s is wrong", texts[i]);
        size = make(texts[i], 0, 3000000);
        assert_int_equal(differ(&size), 0);
    }
}

/* A wrong number in the guide, and a number for an interval with two results, are detected. */
static void test_wrong_guide_is_found(void **unused)
{
    static struct load_size size;
    unsigned i;

    size = make("etc-value", 0, 1 << 20);
    size.guide[4711]++;
    assert_true(differ(&size) > 0);
    size = make("10@1/20@2/10@6", 0, 100);
    for (i = 0; size.guide[i] != LOAD_SIZE_UNSURE; i++)
        assert_true(i < LOAD_SIZE_PARTS);
    size.guide[i] = 10;
    assert_true(differ(&size) > 0);
}

/* The guide answers nearly all sizes of ETC's keys and most of its values. */
static void test_guide_knows_most(void **unused)
{
    static struct load_size size;
    unsigned keys = 0, values = 0;

    size = make("etc-key", 1, 250);
    for (unsigned i = 0; i < LOAD_SIZE_PARTS; i++)
        keys += size.guide[i] != LOAD_SIZE_UNSURE;
    size = make("etc-value", 0, 1 << 20);
    for (unsigned i = 0; i < LOAD_SIZE_PARTS; i++)
        values += size.guide[i] != LOAD_SIZE_UNSURE;
    assert_true(keys > LOAD_SIZE_PARTS * 0.98);
    assert_true(values > LOAD_SIZE_PARTS * 0.8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fixed),
        cmocka_unit_test(test_range),
        cmocka_unit_test(test_largest_range),
        cmocka_unit_test(test_choices),
        cmocka_unit_test(test_etc_means),
        cmocka_unit_test(test_etc_small_values),
        cmocka_unit_test(test_quantiles_are_inverses),
        cmocka_unit_test(test_kept_within_bounds),
        cmocka_unit_test(test_bad_texts),
        cmocka_unit_test(test_too_many_choices),
        cmocka_unit_test(test_guide_is_exact),
        cmocka_unit_test(test_wrong_guide_is_found),
        cmocka_unit_test(test_guide_knows_most),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
