/* SPDX-License-Identifier: BSD-3-Clause */
/* Zipf's law: every exponent against the exact probabilities; ends of the domain. */
#include "load_rig.h"

#include "load/zipf.h"

#define RANKS 100
#define DRAWS 200000

static void check_exponent(double theta, uint64_t seed)
{
    struct load_zipf zipf;
    struct u_prng prng;
    uint64_t counts[RANKS] = {0};
    double shares[RANKS];
    double norm = load_zipf_norm(RANKS, theta);
    unsigned bins = 0;

    load_zipf_init(&zipf, RANKS, theta);
    u_prng_seed(&prng, seed);
    for (unsigned i = 0; i < DRAWS; i++)
        counts[load_zipf_draw(&zipf, &prng)]++;
    /* Ranks too rare for the statistic are put into one bin, the last. */
    for (unsigned r = 0; r < RANKS; r++) {
        double share = pow(r + 1.0, -theta) / norm;
        unsigned bin = share * DRAWS >= 10 ? r : bins - 1;
        if (bin == r) {
            shares[bins++] = share;
        } else {
            shares[bin] += share;
            counts[bin] += counts[r];
        }
    }
    assert_distributed(counts, shares, bins, DRAWS);
}

static void test_probabilities(void **unused)
{
    const double thetas[] = {0.01, 0.5, 0.9, 0.99, 0.999999999, 1, 1.000000001, 1.2, 1.5, 2, 3};
    for (unsigned i = 0; i < sizeof(thetas) / sizeof(thetas[0]); i++)
        check_exponent(thetas[i], i + 1);
}

/* A million ranks, the exponent of YCSB: known shares of the most popular. */
static void test_shares_of_a_million(void **unused)
{
    struct load_zipf zipf;
    struct u_prng prng;
    uint64_t first = 0, ten_thousand = 0;
    double norm = load_zipf_norm(1000000, 0.99);

    load_zipf_init(&zipf, 1000000, 0.99);
    u_prng_seed(&prng, 7);
    for (unsigned i = 0; i < 1000000; i++) {
        uint64_t rank = load_zipf_draw(&zipf, &prng);
        assert_true(rank < 1000000);
        first += rank == 0;
        ten_thousand += rank < 10000;
    }
    assert_near(norm, 15.3918, 0.0001);
    assert_near((double)first / 1e6, 1 / norm, 0.0012);
    /* What a cache of the 1 % most popular would hit: 1 - 0.3357. */
    assert_near((double)ten_thousand / 1e6, 1 - 0.3357, 0.0022);
}

static void test_one_rank(void **unused)
{
    struct load_zipf zipf;
    struct u_prng prng;

    u_prng_seed(&prng, 1);
    load_zipf_init(&zipf, 1, 0.99);
    for (unsigned i = 0; i < 1000; i++)
        assert_int_equal(load_zipf_draw(&zipf, &prng), 0);
}

static void test_ends_of_the_domain(void **unused)
{
    struct load_zipf zipf;
    struct u_prng prng;
    const double thetas[] = {1e-9, 0.5, 1, 1.5, LOAD_ZIPF_THETA_MAX};

    u_prng_seed(&prng, 2);
    for (unsigned t = 0; t < 5; t++) {
        load_zipf_init(&zipf, LOAD_ZIPF_RANKS_MAX, thetas[t]);
        for (unsigned i = 0; i < 10000; i++)
            assert_true(load_zipf_draw(&zipf, &prng) < LOAD_ZIPF_RANKS_MAX);
    }
}

static void test_same_seed_same_draws(void **unused)
{
    struct load_zipf zipf;
    struct u_prng a, b;

    load_zipf_init(&zipf, 12345, 0.8);
    u_prng_seed(&a, 3);
    u_prng_seed(&b, 3);
    for (unsigned i = 0; i < 1000; i++)
        assert_int_equal(load_zipf_draw(&zipf, &a), load_zipf_draw(&zipf, &b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_probabilities),
        cmocka_unit_test(test_shares_of_a_million),
        cmocka_unit_test(test_one_rank),
        cmocka_unit_test(test_ends_of_the_domain),
        cmocka_unit_test(test_same_seed_same_draws),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
