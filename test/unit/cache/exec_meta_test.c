/* SPDX-License-Identifier: BSD-3-Clause */
/* ms, md, ma, me, mn. */
#include <stdio.h>

#include "rig.h"

static void test_set_modes(void **state)
{
    struct rig *rig = *state;

    rig_expect(rig, "ms a 1 MR\r\nx\r\nms a 1 MA\r\nx\r\nms a 1 MP\r\nx\r\n", "NS\r\nNS\r\nNS\r\n");
    rig_expect(rig, "ms a 1 ME\r\nx\r\nms a 1 ME\r\nx\r\n", "HD\r\nNS\r\n");
    rig_expect(rig, "ms a 2 MAPPEND s\r\nyz\r\nms a 1 MP s\r\nw\r\n", "HD s3\r\nHD s4\r\n");
    rig_expect(rig, "get a\r\nms a 1 MR F7\r\nr\r\nget a\r\n",
               "VALUE a 0 4\r\nwxyz\r\nEND\r\nHD\r\nVALUE a 7 1\r\nr\r\nEND\r\n");
    rig_expect(rig, "ms a 1 MS\r\ns\r\nms a 1 Mx\r\nx\r\nms a 1 M\r\nx\r\nget a\r\n",
               "HD\r\nCLIENT_ERROR invalid mode for ms M token\r\n"
               "CLIENT_ERROR invalid mode for ms M token\r\nVALUE a 0 1\r\ns\r\nEND\r\n");
    rig_expect(rig, "ms v 2 MA N30 T5\r\nab\r\nmg v v t\r\nms v 1 MP N90\r\nc\r\nmg v v t\r\n",
               "HD\r\nVA 2 t30\r\nab\r\nHD\r\nVA 3 t30\r\ncab\r\n");
    rig_expect(rig, "ms w 1 N30\r\nx\r\nmg w t\r\nms w 1 N30 T5\r\nx\r\nmg w t\r\n",
               "HD\r\nHD t-1\r\nHD\r\nHD t5\r\n"); /* N is for MA and MP */
    assert_int_equal(rig_stat(rig, NULL, "cmd_set"), 13);
}

static unsigned long long cas_of_a(struct rig *rig)
{
    unsigned long long cas = 0;

    rig_drain(&rig->out);
    rig_feed(rig, "mg a c\r\n");
    assert_int_equal(sscanf(rig_reply(rig), "HD c%llu", &cas), 1);
    return cas;
}

/* Also after one that a client has given, even if it is the number that would be next. */
static void test_cas_numbers_differ(void **state)
{
    struct rig *rig = *state;
    char line[64];

    rig_feed(rig, "ms a 1\r\nx\r\n");
    for (unsigned ahead = 0; ahead < 4; ahead++) {
        unsigned long long given = cas_of_a(rig) + ahead;

        snprintf(line, sizeof(line), "ms a 1 E%llu\r\ny\r\n", given);
        rig_expect(rig, line, "HD\r\n");
        assert_int_equal(cas_of_a(rig), given);
        rig_expect(rig, "ms a 1\r\nz\r\n", "HD\r\n");
        assert_in_range(cas_of_a(rig), given + 1, UINT64_MAX);
    }
    /* An emptied item keeps its number unless it is stale. */
    rig_expect(rig, "ms a 1 E5\r\nx\r\nmd a x\r\nmg a c\r\nmd a x I\r\n",
               "HD\r\nHD\r\nHD c5\r\nHD\r\n");
    assert_in_range(cas_of_a(rig), 6, UINT64_MAX);
}

/* append stores a new item, which is neither stale nor fetched. */
static void test_append_renews(void **state)
{
    struct rig *rig = *state;

    rig_expect(rig, "ms a 1\r\nx\r\nmg a\r\nmd a I\r\nmg a h\r\n",
               "HD\r\nHD\r\nHD\r\nHD h1 X W\r\n");
    rig_expect(rig, "append a 0 0 1\r\ny\r\nmg a h v\r\n", "STORED\r\nVA 2 h0\r\nxy\r\n");
}

static void test_set_echoes(void **state)
{
    struct rig *rig = *state;

    rig_expect(rig, "ms a 1 k O12 s b\r\nx\r\n", "CLIENT_ERROR error decoding key\r\n");
    rig_expect(rig, "ms Zm9v 1 O12 k s b q T0\r\nx\r\nmn\r\n", "MN\r\n");
    rig_expect(rig,
               "ms Zm9v 1 O12 k s b\r\nx\r\nmg foo k v\r\nms foo 1 k E9 c\r\ny\r\nmg foo k c\r\n",
               "HD O12 kZm9v b s1\r\nVA 1 kZm9v b\r\nx\r\nHD kfoo c9\r\nHD kfoo c9\r\n");
    rig_expect(rig, "ms a 1 q\r\nxy\r\n",
               "CLIENT_ERROR bad data chunk\r\n"
               "CLIENT_ERROR bad command line format\r\n");
    rig_expect(rig, "ms a 1 MR O1 k c q\r\nx\r\n", "NS O1 ka c0\r\n");
}

/* C compares; with I a store with an older cas succeeds, and the item is stale. */
static void test_set_compares(void **state)
{
    struct rig *rig = *state;

    rig_expect(rig, "ms a 1 C5\r\nx\r\nms a 1 E100 T50\r\nx\r\n", "NF\r\nHD\r\n");
    rig_expect(rig, "ms a 1 Cx Fx\r\nx\r\n", /* memcached keeps the error of C */
               "CLIENT_ERROR bad token in command line format\r\n");
    rig_expect(rig, "ms a 1 C99\r\ny\r\nms a 1 C0\r\ny\r\nms a 1 MR C99\r\ny\r\n",
               "EX\r\nEX\r\nEX\r\n");
    rig_expect(rig, "ms a 1 C101 I\r\ny\r\nms a 1 C99 I E200 T90\r\ny\r\n", "EX\r\nHD\r\n");
    rig_expect(rig, "mg a c v t\r\nmg a c\r\n", "VA 1 c200 t50 X W\r\ny\r\nHD c200 Z X\r\n");
    rig_expect(rig, "ms a 1 C150 I E201\r\nz\r\nmg a t v\r\n", "HD\r\nVA 1 t50 Z X\r\nz\r\n");
    rig_expect(rig, "ms a 1 C201 T90\r\nw\r\nmg a t v\r\n", "HD\r\nVA 1 t90\r\nw\r\n");
    rig_expect(rig, "ms a 1 MA C5\r\nx\r\nms a 1 MA C0\r\nx\r\nms a 1 E0\r\nx\r\nmg a c\r\n",
               "EX\r\nHD\r\nHD\r\nHD c0\r\n");
    assert_int_equal(rig_stat(rig, NULL, "cas_misses"), 1);
    assert_int_equal(rig_stat(rig, NULL, "cas_badval"), 4);
    assert_int_equal(rig_stat(rig, NULL, "cas_hits"), 3);
}

/* A value that is too large removes the old item in every mode, also if its cas does not match. */
static void test_set_too_large(void **state)
{
    static char request[1100000];
    static const char *const modes[] = {"", " MS", " ME", " MA", " MP", " MR", " C1", " C1 MR"};
    struct rig *rig = *state;

    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        size_t n = 0;

        rig_append(request, sizeof(request), &n, "set a 0 0 1\r\nx\r\nms a 1048600%s q\r\n",
                   modes[i]);
        memset(request + n, 'x', 1048600);
        n += 1048600;
        rig_append(request, sizeof(request), &n, "\r\nmg a\r\n");
        rig_expect(rig, request, "STORED\r\nSERVER_ERROR object too large for cache\r\nEN\r\n");
    }
}

static void test_delete(void **state)
{
    struct rig *rig = *state;

    rig_expect(rig, "md a\r\nmd a q\r\nmd a k O5\r\n", "NF\r\nNF\r\nNF ka O5\r\n");
    rig_expect(rig, "ms a 1 E10\r\nx\r\nmd a C9\r\nmd a C0 q\r\nmd a C10 k\r\nmg a\r\n",
               "HD\r\nEX\r\nEX\r\nHD ka\r\nEN\r\n");
    rig_expect(rig, "ms a 1\r\nx\r\nmd a q\r\nmg a\r\n", "HD\r\nEN\r\n");
    rig_expect(rig, "md a !\r\nmd a z\r\nmd\r\n",
               "CLIENT_ERROR bad command line format\r\nCLIENT_ERROR invalid flag\r\n"
               "CLIENT_ERROR bad command line format\r\n");
    assert_int_equal(rig_stat(rig, NULL, "delete_hits"), 2);
    assert_int_equal(rig_stat(rig, NULL, "delete_misses"), 5);
}

static void test_invalidate(void **state)
{
    struct rig *rig = *state;

    rig_expect(rig, "ms a 1 E10 T90 F3\r\nx\r\nmg a\r\n", "HD\r\nHD\r\n");
    rig_expect(rig, "md a I E11\r\nmg a c t h v\r\nmg a c v\r\n",
               "HD\r\nVA 1 c11 t90 h1 X W\r\nx\r\nVA 1 c11 Z X\r\nx\r\n");
    rig_expect(rig, "md a I T30 q\r\nmg a t\r\n", "HD t30 X W\r\n");
    rig_expect(rig, "ms a 1\r\ny\r\nmg a v\r\n", "HD\r\nVA 1\r\ny\r\n");
    assert_int_equal(rig_stat(rig, NULL, "delete_hits"), 0);
}

static void test_empty(void **state)
{
    struct rig *rig = *state;

    rig_expect(rig, "ms a 1 E10 T90 F3\r\nx\r\nmd a x\r\nmg a c t f v\r\n",
               "HD\r\nHD\r\nVA 0 c10 t-1 f0\r\n\r\n");
    rig_expect(rig, "md a x F7 T20 E12\r\nmg a c t f s\r\n", "HD\r\nHD c12 t20 f7 s0\r\n");
    rig_expect(rig, "ms a 1 F3\r\nx\r\nmd a x I E13\r\nmg a c f s\r\n",
               "HD\r\nHD\r\nHD c13 f0 s0 X W\r\n");
    /* The next reader may renew it, though one has won that before. */
    rig_expect(rig, "md a x I\r\nmg a\r\nmg a\r\n", "HD\r\nHD X W\r\nHD Z X\r\n");
    rig_expect(rig, "md none x\r\n", "NF\r\n");
    assert_int_equal(rig_stat(rig, NULL, "delete_hits"), 2);
}

static void test_arithmetic(void **state)
{
    struct rig *rig = *state;

    rig_expect(rig, "ma n\r\nma n q\r\nma n k O1\r\n", "NF\r\nNF\r\nNF kn O1\r\n");
    rig_expect(rig, "ma n N0 J13 D9 v t\r\nma n v t\r\n", "VA 2 t-1\r\n13\r\nVA 2 t-1\r\n14\r\n");
    rig_expect(rig, "ma n MD D5 v\r\nma n M- v\r\nma n MI v\r\nma n M+ D90 v k O7\r\n",
               "VA 1\r\n9\r\nVA 1\r\n8\r\nVA 1\r\n9\r\nVA 2 kn O7\r\n99\r\n");
    rig_expect(rig, "ma n D1 v q\r\nma n q\r\nget n\r\n", "VALUE n 0 3\r\n101\r\nEND\r\n");
    rig_expect(rig, "ma n t T30 v E77 c\r\nma n t\r\nma n T0 t\r\n",
               "VA 3 t-1 c77\r\n102\r\nHD t30\r\nHD t-1\r\n");
    rig_expect(rig, "set x 0 0 1\r\nx\r\nma x C1\r\nset e 0 0 0\r\n\r\nma e C1\r\n",
               "STORED\r\nEX\r\nSTORED\r\n"
               "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n");
    rig_expect(rig, "ma n C5\r\nma n C0 v\r\nma n MX\r\n",
               "EX\r\nVA 3\r\n105\r\nCLIENT_ERROR invalid mode for ma M token\r\n");
    rig_expect(rig, "ma m N20 T30 t\r\nma k T30 N20 t\r\nmg m t\r\nmg k t\r\n",
               "HD t30\r\nHD t20\r\nHD t30\r\nHD t20\r\n");
    rig_expect(
        rig, "set s 0 0 1\r\nx\r\nma s\r\nma s z\r\nma s Dx\r\n",
        "STORED\r\nCLIENT_ERROR cannot increment or decrement non-numeric value\r\n"
        "CLIENT_ERROR invalid or duplicate flag\r\nCLIENT_ERROR invalid or duplicate flag\r\n");
    rig_expect(rig, "ma Zm9v b N0 k\r\nmg foo k v\r\n", "HD kZm9v b\r\nVA 1 kfoo\r\n0\r\n");
    /* t shows the time to live that the flags before it set. */
    rig_expect(rig, "ma c t N60\r\nma d N60 t\r\nmg c t\r\n", "HD t-1\r\nHD t60\r\nHD t60\r\n");
    assert_int_equal(rig_stat(rig, NULL, "incr_misses"), 3);
    assert_int_equal(rig_stat(rig, NULL, "decr_hits"), 2);
}

/* The cas comes first, unless memcached stores the value in several chunks. */
static void test_arithmetic_of_long_values(void **state)
{
    static const struct {
        uint32_t len;
        const char *reply;
    } cases[] = {
        {30000, "EX\r\n"},
        {500000, "EX\r\n"},
        {600000, "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"},
    };
    static char request[600100];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int n = snprintf(request, 100, "set a 0 0 %u\r\n", cases[i].len);

        memset(request + n, 'x', cases[i].len);
        memcpy(request + n + cases[i].len, "\r\n", 3);
        rig_expect(*state, request, "STORED\r\n");
        rig_expect(*state, "ma a C999\r\n", cases[i].reply);
    }
}

static void test_debug_and_noop(void **state)
{
    struct rig *rig = *state;

    rig_expect(rig, "mn\r\nmn x\r\nmn\n", "MN\r\nMN\r\nCLIENT_ERROR bad command line format\r\n");
    rig_expect(rig, "me a\r\nms a 5 E5 T90\r\nhello\r\nme a\r\n",
               "EN\r\nHD\r\nME a exp=90 la=0 cas=5 fetch=no cls=1 size=65\r\n");
    rig_wait(rig, 7);
    rig_expect(rig, "me a\r\nmg a\r\nme a\r\n",
               "ME a exp=83 la=7 cas=5 fetch=no cls=1 size=65\r\nHD\r\n"
               "ME a exp=83 la=0 cas=5 fetch=yes cls=1 size=65\r\n");
    rig_expect(rig, "ms YQ== 1 b F1 E6\r\nx\r\nme YQ== b\r\nme a\r\nme\r\n",
               "HD\r\nME YQ== exp=-1 la=0 cas=6 fetch=no cls=1 size=65\r\n"
               "ME YQ== exp=-1 la=0 cas=6 fetch=no cls=1 size=65\r\n"
               "CLIENT_ERROR bad command line format\r\n");
    assert_int_equal(rig_stat(rig, NULL, "cmd_meta"), 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_set_modes, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_append_renews, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_cas_numbers_differ, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_set_echoes, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_set_compares, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_set_too_large, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_delete, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_invalidate, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_empty, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_arithmetic, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_arithmetic_of_long_values, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_debug_and_noop, rig_setup, rig_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
