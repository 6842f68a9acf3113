/* SPDX-License-Identifier: BSD-3-Clause */
/* mg. */
#include "rig.h"

/* kv_update() of the function under test is update_after_another(), by the linker (--wrap). */
enum kv_verdict update(struct kv_worker *worker, const struct kv_key *key, kv_decide *decide,
                       void *ctx, struct kv_change *change) __asm__("__real_kv_update");
enum kv_verdict update_after_another(struct kv_worker *worker, const struct kv_key *key,
                                     kv_decide *decide, void *ctx,
                                     struct kv_change *change) __asm__("__wrap_kv_update");

static bool deletes_before_update; /* as another worker may */

static enum kv_verdict decide_delete(void *ctx, const struct kv_view *old, struct kv_change *change)
{
    return KV_DELETE;
}

enum kv_verdict update_after_another(struct kv_worker *worker, const struct kv_key *key,
                                     kv_decide *decide, void *ctx, struct kv_change *change)
{
    struct kv_change deletion = {0};

    if (deletes_before_update)
        update(worker, key, decide_delete, NULL, &deletion);
    return update(worker, key, decide, ctx, change);
}

static void test_facts(void **state)
{
    struct rig *rig = *state;

    rig_expect(rig, "mg a\r\nmg a q\r\nmg a k O12 v s\r\n", "EN\r\nEN ka O12\r\n");
    rig_expect(rig, "ms a 3 F9 T90 E7\r\nabc\r\nmg a\r\nmg a s v f t c k O\r\n",
               "HD\r\nHD\r\nVA 3 s3 f9 t90 c7 ka O\r\nabc\r\n");
    rig_expect(rig, "mg a O123 k q v P1 Lx\r\n", "VA 3 O123 ka\r\nabc\r\n");
    rig_expect(rig, "mg a C7 v c\r\nmg a C8 v\r\n", "HD c7\r\nVA 3\r\nabc\r\n");
    assert_int_equal(rig_stat(rig, NULL, "cmd_get"), 8);
    assert_int_equal(rig_stat(rig, NULL, "get_hits"), 5);
    assert_int_equal(rig_stat(rig, NULL, "cmd_touch"), 0);
}

/* Flags about the past show the item as it was before the request. */
static void test_traces(void **state)
{
    struct rig *rig = *state;

    rig_expect(rig, "set a 0 0 1\r\nx\r\n", "STORED\r\n");
    rig_wait(rig, 3);
    rig_expect(rig, "mg a h l u\r\nmg a l h u T50\r\nmg a h l\r\n",
               "HD h0 l3\r\nHD l3 h0\r\nHD h0 l3\r\n");
    rig_expect(rig, "mg a h l t\r\n", "HD h1 l0 t50\r\n");
    rig_expect(rig, "set b 0 0 1\r\nx\r\nadd b 0 0 1\r\nx\r\nmg b h\r\n",
               "STORED\r\nNOT_STORED\r\nHD h0\r\n");
    rig_wait(rig, 2);
    rig_expect(rig, "mg a u l\r\nmg a T9 l\r\nmg a l h\r\n", "HD l2\r\nHD l2\r\nHD l0 h1\r\n");
}

static void test_touch(void **state)
{
    struct rig *rig = *state;

    rig_expect(rig, "ms a 1 T90\r\nx\r\nmg a T0\r\nmg a t T30\r\nmg a T20 t v\r\n",
               "HD\r\nHD\r\nHD t-1\r\nVA 1 t20\r\nx\r\n");
    rig_expect(rig, "mg none T30\r\nmg a T-1 t\r\nmg a\r\n", "EN\r\nHD t0\r\nEN\r\n");
    rig_expect(rig, "mg a Tx\r\nmg a T\r\n",
               "CLIENT_ERROR bad token in command line format\r\n"
               "CLIENT_ERROR bad token in command line format\r\n");
    assert_int_equal(rig_stat(rig, NULL, "cmd_touch"), 4);
    assert_int_equal(rig_stat(rig, NULL, "touch_hits"), 4);
    assert_int_equal(rig_stat(rig, NULL, "cmd_get"), 2);
    assert_int_equal(rig_stat(rig, NULL, "get_expired"), 1);
}

static void test_vivify(void **state)
{
    struct rig *rig = *state;

    rig_expect(rig, "mg a N30 v t s c E5 k\r\nmg a N30 v h\r\n",
               "VA 0 t30 s0 c5 ka W\r\n\r\nVA 0 h1 Z\r\n\r\n");
    rig_expect(rig, "ms a 1\r\nx\r\nmg a v N30 t\r\n", "HD\r\nVA 1 t-1\r\nx\r\n");
    rig_expect(rig, "mg b T40 N30 t\r\nmg c N30 T40 t\r\nmg d t N30 u\r\nmg d h\r\n",
               "HD t30 W\r\nHD t40 W\r\nHD t-1 W\r\nHD h0 Z\r\n");
    rig_expect(rig, "mg Zm9v b k N0\r\nmg foo k\r\n", "HD kfoo W\r\nHD kfoo Z\r\n");
    rig_wait(rig, 30);
    rig_expect(rig, "mg b\r\nmg c\r\nmg b N0 t\r\n", "EN\r\nHD Z\r\nHD t-1 W\r\n");
}

/* R: the first who comes when little time is left is to renew. */
static void test_recache(void **state)
{
    struct rig *rig = *state;

    rig_expect(rig, "ms a 1 T100\r\nx\r\nmg a R100 t\r\nmg a R101 t\r\nmg a R101 t\r\n",
               "HD\r\nHD t100\r\nHD t100 W\r\nHD t100 Z\r\n");
    rig_expect(rig, "ms a 1\r\nx\r\nmg a R1000\r\n", "HD\r\nHD\r\n");
    rig_expect(rig, "ms a 1 T100\r\nx\r\nmg a T20 R30\r\nmg a\r\n", "HD\r\nHD W\r\nHD Z\r\n");
    rig_expect(rig, "ms a 1 T20\r\nx\r\nmg a R30 T100\r\nmg a t\r\n",
               "HD\r\nHD W\r\nHD t100 Z\r\n");
}

static void test_stale(void **state)
{
    struct rig *rig = *state;

    rig_expect(rig, "ms a 1 T100\r\nx\r\nmg a\r\nmd a I\r\n", "HD\r\nHD\r\nHD\r\n");
    rig_wait(rig, 4);
    rig_expect(rig, "mg a h l\r\nmg a h l\r\nmg a u R200\r\n",
               "HD h1 l4 X W\r\nHD h1 l0 Z X\r\nHD Z X\r\n");
    rig_expect(rig, "md a I\r\nmg a u v\r\nmg a v\r\n", "HD\r\nVA 1 X W\r\nx\r\nVA 1 Z X\r\nx\r\n");
}

/* Between the look-up and the decision another client deletes the item: there is none. */
static void test_deleted_meanwhile(void **state)
{
    static const char *const requests[] = {"mg a T30 t v\r\n", "mg a R101 t v\r\n", "mg a t v\r\n"};
    struct rig *rig = *state;

    for (unsigned i = 0; i < 3; i++) {
        rig_expect(rig, "ms a 1 T100\r\nx\r\nmd a I\r\n", "HD\r\nHD\r\n");
        deletes_before_update = true;
        rig_expect(rig, requests[i], "EN\r\n");
        deletes_before_update = false;
    }
    assert_int_equal(rig_stat(rig, NULL, "get_misses"), 3);
    assert_int_equal(rig_stat(rig, NULL, "get_hits"), 0);
}

static void test_large_values(void **state)
{
    static char expected[700100];
    struct rig *rig = *state;
    size_t n = 0;

    rig_expect_set(rig, "a", 700000, 'y', "STORED\r\n");
    rig_append(expected, sizeof(expected), &n, "VA 700000 ka O1\r\n");
    memset(expected + n, 'y', 700000);
    n += 700000;
    rig_append(expected, sizeof(expected), &n, "\r\n");
    rig_expect(rig, "mg a v k O1\r\n", expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_facts, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_traces, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_touch, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_vivify, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_recache, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_stale, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_deleted_meanwhile, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_large_values, rig_setup, rig_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
