/* SPDX-License-Identifier: BSD-3-Clause */
/* Popularity: shares of each form, growth, and invalid texts. */
#include "load_rig.h"

#include "load/popularity.h"

#define KEYS 50
#define DRAWS 100000

static struct load_popularity make(const char *text, uint64_t keys)
{
    struct load_popularity popularity;
    char error[LOAD_ERROR_MAX];

    if (!load_popularity_parse(&popularity, text, keys, 1, error))
        fail_msg("%s", error);
    return popularity;
}

static void count(const struct load_popularity *popularity, uint64_t first, uint64_t counts[KEYS])
{
    struct u_prng prng;

    u_prng_seed(&prng, 11);
    memset(counts, 0, KEYS * sizeof(counts[0]));
    for (unsigned i = 0; i < DRAWS; i++) {
        uint64_t id = load_popularity_draw(popularity, &prng);
        assert_true(id >= first && id < first + KEYS);
        counts[id - first]++;
    }
}

static void test_uniform(void **unused)
{
    struct load_popularity popularity = make("uniform", KEYS);
    uint64_t counts[KEYS];
    double shares[KEYS];

    count(&popularity, 0, counts);
    for (unsigned i = 0; i < KEYS; i++)
        shares[i] = 1.0 / KEYS;
    assert_distributed(counts, shares, KEYS, DRAWS);
}

static void test_zipf_is_scrambled(void **unused)
{
    struct load_popularity popularity = make("zipf:1.2", KEYS);
    uint64_t counts[KEYS];
    double shares[KEYS], norm = zipf_norm(KEYS, 1.2);
    unsigned in_place = 0;

    count(&popularity, 0, counts);
    for (unsigned r = 0; r < KEYS; r++) {
        uint64_t id = load_scramble_of(&popularity.scramble, r);
        shares[id] = pow(r + 1.0, -1.2) / norm;
        in_place += id == r;
    }
    assert_distributed(counts, shares, KEYS, DRAWS);
    assert_true(in_place < 6);
}

static void test_latest_follows_the_youngest(void **unused)
{
    struct load_popularity popularity = make("latest:1", KEYS);
    uint64_t counts[KEYS];
    double shares[KEYS], norm = zipf_norm(KEYS, 1);

    assert_int_equal(load_popularity_grow(&popularity), KEYS);
    assert_int_equal(load_popularity_grow(&popularity), KEYS + 1);
    count(&popularity, 2, counts);
    for (unsigned r = 0; r < KEYS; r++)
        shares[KEYS - 1 - r] = 1 / (r + 1.0) / norm;
    assert_distributed(counts, shares, KEYS, DRAWS);
}

static void test_hot_set(void **unused)
{
    struct load_popularity popularity = make("hot:0.2:0.8", KEYS);
    uint64_t counts[KEYS];
    double shares[KEYS];

    count(&popularity, 0, counts);
    for (unsigned i = 0; i < KEYS; i++)
        shares[load_scramble_of(&popularity.scramble, i)] = i < 10 ? 0.08 : 0.005;
    assert_distributed(counts, shares, KEYS, DRAWS);
}

static void test_all_hot(void **unused)
{
    struct load_popularity popularity = make("hot:0.001:0.5", 1);
    struct u_prng prng;

    u_prng_seed(&prng, 1);
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(load_popularity_draw(&popularity, &prng), 0);
}

/* Growth replaces one key at a time: the window always has KEYS of them. */
static void test_growth_replaces_the_oldest(void **unused)
{
    struct load_popularity popularity = make("uniform", KEYS);
    uint64_t counts[KEYS];

    for (unsigned i = 0; i < 3 * KEYS + 7; i++)
        assert_int_equal(load_popularity_grow(&popularity), KEYS + i);
    count(&popularity, 3 * KEYS + 7, counts);
    for (unsigned i = 0; i < KEYS; i++)
        assert_true(counts[i] > 0);
}

/* Drawing many gives the same keys as drawing one by one. */
static void test_many(void **unused)
{
    static const char *const laws[] = {"uniform", "zipf", "latest", "hot"};
    struct u_prng one, many;
    uint64_t ids[50];

    for (unsigned i = 0; i < 2 * sizeof(laws) / sizeof(laws[0]); i++) {
        struct load_popularity popularity = make(laws[i / 2], KEYS);

        if (i % 2 == 1)
            load_popularity_grow(&popularity);
        u_prng_seed(&one, i);
        u_prng_seed(&many, i);
        load_popularity_draw_many(&popularity, &many, ids, 50);
        for (unsigned k = 0; k < 50; k++)
            assert_int_equal(ids[k], load_popularity_draw(&popularity, &one));
    }
}

static void test_bad_texts(void **unused)
{
    const char *bad[] = {"",        "zip",         "zipf:",     "zipf:0",   "zipf:-1",   "zipf:1:2",
                         "zipf:x",  "zipf:1 ",     "zipf:nan",  "zipf:21",  "uniform:1", "hot:0.1",
                         "hot:0:1", "hot:0.5:1.5", "hot:1:2:3", "latest:0", "hot:.1:.2,"};
    struct load_popularity popularity;
    char error[LOAD_ERROR_MAX];

    for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        error[0] = '\0';
        if (load_popularity_parse(&popularity, bad[i], KEYS, 1, error))
            fail_msg("\"%s\" was taken", bad[i]);
        assert_true(error[0] != '\0');
    }
    assert_false(load_popularity_parse(&popularity, "uniform", 0, 1, error));
    assert_false(load_popularity_parse(&popularity, "uniform", (UINT64_C(1) << 40) + 1, 1, error));
    assert_true(load_popularity_parse(&popularity, "uniform", UINT64_C(1) << 40, 1, error));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_uniform),
        cmocka_unit_test(test_zipf_is_scrambled),
        cmocka_unit_test(test_latest_follows_the_youngest),
        cmocka_unit_test(test_hot_set),
        cmocka_unit_test(test_all_hot),
        cmocka_unit_test(test_growth_replaces_the_oldest),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_bad_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
