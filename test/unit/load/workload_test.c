/* SPDX-License-Identifier: BSD-3-Clause */
/* Workloads: presets, mixes, scans, one-time keys, drift, time, and invalid texts. */
#include "load_rig.h"

#include "load/workload.h"

#define DRAWS 200000
#define IS_POPULAR(id) ((id) < UINT64_C(1) << 45)
#define IS_SCAN(id) ((id) >= UINT64_C(1) << 45 && (id) < UINT64_C(1) << 46)
#define IS_ONCE(id) ((id) >= UINT64_C(1) << 46)

static struct load_workload make(const char *text)
{
    struct load_workload workload;
    char error[LOAD_ERROR_MAX];

    if (!load_workload_parse(&workload, text, error))
        fail_msg("%s: %s", text, error);
    return workload;
}

static void test_every_preset(void **unused)
{
    for (const struct load_preset *preset = load_presets; preset->name; preset++) {
        struct load_workload workload = make(preset->name);
        struct load_request request;
        for (unsigned i = 0; i < 1000; i++) {
            load_workload_next(&workload, &request);
            assert_true(request.op < LOAD_INSERT);
            assert_true(request.key_bytes >= 1 && request.key_bytes <= 250);
        }
    }
}

static void test_mix_of_operations(void **unused)
{
    struct load_workload workload = make("uniform,keys=100,get=6,set=2,delete=1,incr=0.5,touch=.5");
    uint64_t counts[5] = {0};
    const double shares[5] = {0.6, 0.2, 0.1, 0.05, 0.05};
    struct load_request request;

    for (unsigned i = 0; i < DRAWS; i++) {
        load_workload_next(&workload, &request);
        counts[request.op]++;
    }
    assert_distributed(counts, shares, 5, DRAWS);
}

/* The first weight that is given replaces those of the preset, and GET, which is the default. */
static void test_weights_replace_those_before(void **unused)
{
    static const char *const texts[] = {"ycsb-a,set=5", "uniform,keys=10,set=1,set=2", "set=1"};
    struct load_request request;

    for (unsigned t = 0; t < 3; t++) {
        struct load_workload workload = make(texts[t]);

        for (unsigned i = 0; i < 1000; i++) {
            load_workload_next(&workload, &request);
            assert_int_equal(request.op, LOAD_SET);
        }
    }
}

static void test_etc_is_thirty_to_one(void **unused)
{
    struct load_workload workload = make("etc");
    struct load_request request;
    uint64_t counts[2] = {0};
    const double shares[2] = {30 / 31.0, 1 / 31.0};
    double keys = 0, values = 0;

    for (unsigned i = 0; i < DRAWS; i++) {
        load_workload_next(&workload, &request);
        counts[request.op]++;
        load_workload_describe(&workload, i, &request);
        keys += request.key_bytes;
        values += request.value_bytes;
    }
    assert_distributed(counts, shares, 2, DRAWS);
    assert_near(keys / DRAWS, 36.2, 0.2);
    assert_near(values / DRAWS, 194, 8); /* a heavy tail: its standard error is 1.5 */
    assert_near(load_workload_footprint_bytes(&workload), 230e6, 8e6);
}

static void test_sizes_belong_to_the_key(void **unused)
{
    struct load_workload workload = make("etc,keys=50,ttl=10-1000");
    struct load_request first[50] = {0}, request;

    for (unsigned i = 0; i < 5000; i++) {
        load_workload_next(&workload, &request);
        struct load_request *known = &first[request.id];
        if (known->key_bytes == 0)
            *known = request;
        assert_int_equal(request.key_bytes, known->key_bytes);
        assert_int_equal(request.value_bytes, known->value_bytes);
        assert_int_equal(request.ttl_s, known->ttl_s);
    }
}

/* Keys are as long as their ids need, if the distribution gives less. */
static void test_keys_have_room_for_their_ids(void **unused)
{
    static const struct {
        uint64_t id;
        uint32_t bytes;
    } keys[] = {{0, 1}, {63, 1}, {64, 2}, {4095, 2}, {4096, 3}};
    struct load_workload workload = make("uniform,keys=5000,key=1");
    struct load_request request;

    for (unsigned i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        load_workload_describe(&workload, keys[i].id, &request);
        assert_int_equal(request.key_bytes, keys[i].bytes);
    }
}

static void test_scans_and_one_time_keys(void **unused)
{
    struct load_workload workload =
        make("zipf,keys=1000,scan=0.25,scan-length=50,scan-keys=120,once=0.1");
    struct load_request request;
    uint64_t scanned = 0, once = 0, last_once = 0, last_scan = UINT64_MAX;

    for (unsigned i = 0; i < DRAWS; i++) {
        load_workload_next(&workload, &request);
        if (IS_SCAN(request.id)) {
            uint64_t place = request.id - (UINT64_C(1) << 45);
            assert_true(place == (last_scan + 1) % 120);
            last_scan = place;
            scanned++;
        } else if (IS_ONCE(request.id)) {
            assert_true(request.id > last_once);
            last_once = request.id;
            once++;
        } else {
            assert_true(request.id < 1000);
        }
    }
    assert_near((double)scanned / DRAWS, 0.25, 0.03); /* 1000 scans: 0.8 % of noise */
    assert_near((double)once / DRAWS, 0.075, 0.006);
}

static void test_drift(void **unused)
{
    struct load_workload workload = make("uniform,keys=100,drift=10");
    struct load_request request;
    uint64_t newest = 0;

    for (unsigned i = 1; i <= 10000; i++) {
        load_workload_next(&workload, &request);
        assert_true(request.id < 100 + i / 10);
        assert_true(request.id >= i / 10);
        if (request.id > newest)
            newest = request.id;
    }
    assert_true(newest > 1000);
}

static void test_inserts_are_new_keys(void **unused)
{
    struct load_workload workload = make("latest,keys=100,get=1,insert=1");
    struct load_request request;
    uint64_t expected = 100;

    for (unsigned i = 0; i < 1000; i++) {
        load_workload_next(&workload, &request);
        if (request.op == LOAD_SET)
            assert_int_equal(request.id, expected++);
        else
            assert_true(request.id < expected);
    }
    assert_true(expected > 500);
}

static void test_time(void **unused)
{
    struct load_workload workload = make("uniform,keys=10,rate=4");
    struct load_request request;

    for (unsigned i = 0; i < 100; i++) {
        load_workload_next(&workload, &request);
        assert_int_equal(request.time_s, i / 4);
    }
    load_workload_reseed(&workload, 1); /* the time begins anew */
    load_workload_next(&workload, &request);
    assert_int_equal(request.time_s, 0);
}

static void test_ttl_mix(void **unused)
{
    struct load_workload workload = make("ttl,keys=1000000");
    struct load_request request;
    uint64_t counts[3] = {0};
    const double shares[3] = {0.5, 0.3, 0.2};

    for (unsigned i = 0; i < DRAWS; i++) {
        load_workload_describe(&workload, i, &request);
        counts[request.ttl_s == 10 ? 0 : request.ttl_s == 60 ? 1 : 2]++;
        assert_true(request.ttl_s == 10 || request.ttl_s == 60 || request.ttl_s == 0);
    }
    assert_distributed(counts, shares, 3, DRAWS);
}

/*
 * Published results depend on the stream of a seed, so it must never change. Without distributions
 * that use a logarithm, whose last bit depends on the C library.
 */
static void test_golden_stream(void **unused)
{
    struct load_workload workload = make("uniform,keys=1000,key=10-50,value=9@1/"
                                         "100@2,once=0.1,scan=0.1,drift=7,get=9,set=1,seed=42");
    struct load_request request;
    uint64_t hash = 0;

    for (unsigned i = 0; i < 10000; i++) {
        load_workload_next(&workload, &request);
        hash = load_random_hash(hash ^ request.id, request.op + 1u);
        hash = load_random_hash(hash ^ request.value_bytes, request.key_bytes);
    }
    if (hash != UINT64_C(0x9229b78398979518))
        fail_msg("the stream has changed: %#llx", (unsigned long long)hash);
}

static void test_seeds(void **unused)
{
    struct load_workload a = make("zipf,seed=1"), b = make("zipf,seed=1"), c = make("zipf,seed=2");
    struct load_request x, y, z;
    unsigned same = 0;

    for (unsigned i = 0; i < 1000; i++) {
        load_workload_next(&a, &x);
        load_workload_next(&b, &y);
        load_workload_next(&c, &z);
        assert_int_equal(x.id, y.id);
        same += x.id == z.id;
    }
    assert_true(same < 50);
    load_workload_reseed(&a, 1);
    load_workload_reseed(&b, 2);
    same = 0;
    for (unsigned i = 0; i < 1000; i++) {
        load_workload_next(&a, &x);
        load_workload_next(&b, &y);
        same += x.id == y.id;
    }
    assert_true(same < 50);
}

static void test_bad_texts(void **unused)
{
    const char *bad[] = {"",
                         "zipff",
                         "zipf,keys",
                         "zipf,keys=0",
                         "zipf,keys=x",
                         "zipf,keyz=1",
                         "keys=1e6,zipf",
                         "zipf,get=-1",
                         "zipf,get=0",
                         "zipf,key=0",
                         "zipf,key=251",
                         "zipf,value=",
                         "zipf,ttl=x",
                         "zipf,scan=1",
                         "zipf,once=1.1",
                         "zipf,scan-length=0",
                         "zipf,rate=0",
                         "zipf,popularity=uniform:2",
                         "zipf,seed=1x",
                         "zipf,keys=1e30"};
    struct load_workload workload;
    char error[LOAD_ERROR_MAX];

    for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        error[0] = '\0';
        if (load_workload_parse(&workload, bad[i], error))
            fail_msg("\"%s\" was taken", bad[i]);
        assert_true(error[0] != '\0');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_preset),
        cmocka_unit_test(test_mix_of_operations),
        cmocka_unit_test(test_weights_replace_those_before),
        cmocka_unit_test(test_etc_is_thirty_to_one),
        cmocka_unit_test(test_sizes_belong_to_the_key),
        cmocka_unit_test(test_keys_have_room_for_their_ids),
        cmocka_unit_test(test_scans_and_one_time_keys),
        cmocka_unit_test(test_drift),
        cmocka_unit_test(test_inserts_are_new_keys),
        cmocka_unit_test(test_time),
        cmocka_unit_test(test_ttl_mix),
        cmocka_unit_test(test_golden_stream),
        cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_bad_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
