/* SPDX-License-Identifier: BSD-3-Clause */
/* Zipf's law: exponents against the exact probabilities; limits of the domain. */
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
    double norm = zipf_norm(RANKS, theta);
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
    double norm = zipf_norm(1000000, 0.99);

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
    /* Hit ratio of a cache of the 1 % most popular: 1 - 0.3357. */
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

/* ---- the table --------------------------------------------------------------------------- */

static const double all_thetas[] = {1e-9, 0.1, 0.5,  2.0 / 3, 0.9, 0.99, 0.999999999,        1,
                                    1.01, 1.2, 1.75, 2,       3,   7.5,  LOAD_ZIPF_THETA_MAX};
static const uint64_t all_ranks[] = {
    1, 2, 3, 10, 1000, 1000000, 100000000, UINT64_C(1) << 40, LOAD_ZIPF_RANKS_MAX};

#define REST_BITS (LOAD_ZIPF_BITS - LOAD_ZIPF_PIECE_BITS)

/* Checks the borders of a piece and their neighbours. Returns how many differ. */
static unsigned differ_at_borders(const struct load_zipf *zipf, unsigned piece)
{
    const uint64_t last = (UINT64_C(1) << LOAD_ZIPF_BITS) - 1;
    uint64_t from = (uint64_t)piece << REST_BITS;
    unsigned differ = 0;

    for (unsigned i = 0; i < 5; i++) {
        uint64_t bits = from + i >= 2 ? from + i - 2 : 0;
        uint64_t mirrored = last - bits;

        differ += load_zipf_try(zipf, bits) != load_zipf_try_exact(zipf, bits);
        differ += load_zipf_try(zipf, mirrored) != load_zipf_try_exact(zipf, mirrored);
    }
    return differ;
}

/* Random points of a piece. */
static unsigned differ_within(const struct load_zipf *zipf, unsigned piece, struct u_prng *prng,
                              unsigned places)
{
    unsigned differ = 0;

    for (unsigned i = 0; i < places; i++) {
        uint64_t bits = (uint64_t)piece << REST_BITS | u_prng_next(prng) >> (64 - REST_BITS);
        differ += load_zipf_try(zipf, bits) != load_zipf_try_exact(zipf, bits);
    }
    return differ;
}

/*
 * The borders of ranks, and of the accepted part of a strip, found by bisection between two random
 * numbers with different ranks.
 */
static unsigned differ_at_steps(const struct load_zipf *zipf, struct u_prng *prng, unsigned rounds)
{
    unsigned differ = 0;

    for (unsigned i = 0; i < rounds; i++) {
        uint64_t a = u_prng_next(prng) >> (64 - LOAD_ZIPF_BITS);
        uint64_t b = a ^ u_prng_next(prng) >> (64 - REST_BITS);
        uint64_t rank = load_zipf_try_exact(zipf, a);

        while (a + 1 < b || b + 1 < a) {
            uint64_t middle = (a + b) / 2;
            if (load_zipf_try_exact(zipf, middle) == rank)
                a = middle;
            else
                b = middle;
        }
        differ += load_zipf_try(zipf, a) != load_zipf_try_exact(zipf, a);
        differ += load_zipf_try(zipf, b) != load_zipf_try_exact(zipf, b);
    }
    return differ;
}

static unsigned differ_anywhere(const struct load_zipf *zipf, unsigned places)
{
    unsigned differ = 0;
    struct u_prng prng;

    u_prng_seed(&prng, 11);
    for (unsigned piece = 0; piece < LOAD_ZIPF_PIECES; piece++)
        differ += differ_at_borders(zipf, piece) + differ_within(zipf, piece, &prng, places);
    return differ + differ_at_steps(zipf, &prng, 200);
}

/* The table and the exact computation agree for the same random bits. */
static void test_table_is_exact(void **unused)
{
    static struct load_zipf zipf;

    for (unsigned t = 0; t < sizeof(all_thetas) / sizeof(all_thetas[0]); t++) {
        for (unsigned n = 0; n < sizeof(all_ranks) / sizeof(all_ranks[0]); n++) {
            load_zipf_init(&zipf, all_ranks[n], all_thetas[t]);
            if (differ_anywhere(&zipf, 20) > 0)
                fail_msg("theta %g, %g ranks: the table is wrong", all_thetas[t],
                         (double)all_ranks[n]);
        }
    }
}

/* A slightly wrong coefficient, or too wide bounds, are detected. */
static void test_wrong_table_is_found(void **unused)
{
    static struct load_zipf zipf;
    struct u_prng prng;

    u_prng_seed(&prng, 13);
    load_zipf_init(&zipf, 1000000, 0.99);
    for (unsigned piece = 3; piece < 400; piece += 100) {
        for (unsigned i = 0; i <= LOAD_ZIPF_DEGREE; i++) {
            double right = zipf.pieces[piece][i];

            zipf.pieces[piece][i] += 0.05;
            assert_true(differ_within(&zipf, piece, &prng, 2000) > 0);
            zipf.pieces[piece][i] = right;
            assert_int_equal(differ_within(&zipf, piece, &prng, 2000), 0);
        }
    }
    zipf.near_from = 0;
    assert_true(differ_anywhere(&zipf, 100) > 0);
}

/* Tries of 1000 that the table answers. */
static double answered_by_table(const struct load_zipf *zipf)
{
    static struct load_zipf other;
    struct u_prng prng;
    unsigned answered = 0;

    /* Without the table the exact computation gives the same ranks. */
    other = *zipf;
    other.ranks = 1;
    other.area_first = other.area_last = 0;
    u_prng_seed(&prng, 12);
    for (unsigned i = 0; i < 100000; i++) {
        uint64_t bits = u_prng_next(&prng) >> (64 - LOAD_ZIPF_BITS);
        uint64_t rank = load_zipf_try(zipf, bits);
        answered += rank > 0 && rank != LOAD_ZIPF_AGAIN && load_zipf_try(&other, bits) == rank;
        answered += rank == 0;
    }
    return answered / 100.0;
}

/* For common exponents the table answers nearly all tries. */
static void test_table_answers_most_tries(void **unused)
{
    static struct load_zipf zipf;
    const struct {
        uint64_t ranks;
        double theta, least;
    } laws[] = {{1000, 0.99, 970},   {1000000, 0.99, 970}, {100000000, 0.99, 970},
                {1000000, 0.5, 980}, {1000000, 0.8, 970},  {1000000, 1, 970},
                {1000000, 1.2, 950}, {1000000, 2, 900},    {UINT64_C(1) << 31, 0.99, 950}};

    for (unsigned i = 0; i < sizeof(laws) / sizeof(laws[0]); i++) {
        load_zipf_init(&zipf, laws[i].ranks, laws[i].theta);
        double answered = answered_by_table(&zipf);
        if (!(answered >= laws[i].least))
            fail_msg("%g ranks, theta %g: %.1f of 1000", (double)laws[i].ranks, laws[i].theta,
                     answered);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_probabilities),
        cmocka_unit_test(test_shares_of_a_million),
        cmocka_unit_test(test_one_rank),
        cmocka_unit_test(test_ends_of_the_domain),
        cmocka_unit_test(test_same_seed_same_draws),
        cmocka_unit_test(test_table_is_exact),
        cmocka_unit_test(test_wrong_table_is_found),
        cmocka_unit_test(test_table_answers_most_tries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
