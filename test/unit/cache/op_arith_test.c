/* SPDX-License-Identifier: BSD-3-Clause */
/* incr and decr. */
#include "rig.h"

#include <stdio.h>

#define NON_NUMERIC "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"
#define BAD_DELTA "CLIENT_ERROR invalid numeric delta argument\r\n"

static const struct {
    const char *before; /* the value that is stored first */
    const char *request;
    const char *reply;
    const char *after;
} cases[] = {
    {"1", "incr a 1\r\n", "2\r\n", "2"},
    {"9", "incr a 1\r\n", "10\r\n", "10"},
    {"10", "decr a 1\r\n", "9\r\n", "9 "},
    {"1000", "decr a 999\r\n", "1\r\n", "1   "},
    {"5", "decr a 6\r\n", "0\r\n", "0"},
    {"5", "decr a 5\r\n", "0\r\n", "0"},
    {"5", "decr a 18446744073709551615\r\n", "0\r\n", "0"},
    {"0", "incr a 0\r\n", "0\r\n", "0"},
    {"007", "incr a 1\r\n", "8\r\n", "8  "},
    {" 1", "incr a 1\r\n", "2\r\n", "2 "},
    {"1 ", "incr a 1\r\n", "2\r\n", "2 "},
    {"9   ", "incr a 1\r\n", "10\r\n", "10  "},
    {"18446744073709551615", "incr a 1\r\n", "0\r\n", "0                   "},
    {"18446744073709551615", "incr a 18446744073709551615\r\n", "18446744073709551614\r\n",
     "18446744073709551614"},
    {"9999999999999999999", "incr a 1\r\n", "10000000000000000000\r\n", "10000000000000000000"},
    {"1", "incr a 5 noreply\r\n", "", "6"},
    {"7", "decr a 5 noreply\r\n", "", "2"},
    {"", "incr a 1\r\n", NON_NUMERIC, ""},
    {"x", "incr a 1\r\n", NON_NUMERIC, "x"},
    {"1x", "decr a 1\r\n", NON_NUMERIC, "1x"},
    {"-1", "incr a 1\r\n", NON_NUMERIC, "-1"},
    {"18446744073709551616", "incr a 1\r\n", NON_NUMERIC, "18446744073709551616"},
    {"x", "incr a 1 noreply\r\n", "", "x"},
    {"1", "incr a x\r\n", BAD_DELTA, "1"},
    {"1", "incr a -1\r\n", BAD_DELTA, "1"},
    {"1", "decr a 18446744073709551616\r\n", BAD_DELTA, "1"},
    {"1", "incr a x noreply\r\n", "", "1"},
    {"1", "incr a\r\n", "CLIENT_ERROR bad command line format\r\n", "1"},
};

static void test_table(void **state)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[256];

        snprintf(text, sizeof(text), "set a 9 0 %zu\r\n%s\r\n", strlen(cases[i].before),
                 cases[i].before);
        rig_expect(*state, text, "STORED\r\n");
        rig_expect(*state, cases[i].request, cases[i].reply);
        snprintf(text, sizeof(text), "VALUE a 9 %zu\r\n%s\r\nEND\r\n", strlen(cases[i].after),
                 cases[i].after);
        rig_expect(*state, "get a\r\n", text);
    }
}

static void test_missing_key(void **state)
{
    struct rig *rig = *state;

    rig_expect(rig, "incr a 1\r\ndecr a 1\r\nincr a x\r\n", "NOT_FOUND\r\nNOT_FOUND\r\n" BAD_DELTA);
    rig_expect(rig, "incr a 1 noreply\r\nget a\r\n", "END\r\n");
    rig_expect(rig, "set a 0 0 1\r\n1\r\nincr a 1\r\ndecr a 1\r\n", "STORED\r\n2\r\n1\r\n");
    assert_int_equal(rig_stat(rig, NULL, "incr_misses"), 2);
    assert_int_equal(rig_stat(rig, NULL, "decr_misses"), 1);
    assert_int_equal(rig_stat(rig, NULL, "incr_hits"), 1);
    assert_int_equal(rig_stat(rig, NULL, "decr_hits"), 1);
}

/* As memcached writes a number of the same length into the item, the item stays fetched. */
static void test_the_same_length_stays_fetched(void **state)
{
    rig_expect(*state, "set a 0 0 1\r\n1\r\nget a\r\n", "STORED\r\nVALUE a 0 1\r\n1\r\nEND\r\n");
    rig_expect(*state, "incr a 1\r\n", "2\r\n");
    rig_expect(*state, "mg a h\r\n", "HD h1\r\n");
    rig_expect(*state, "incr a 9\r\n", "11\r\n");
    rig_expect(*state, "mg a h\r\n", "HD h0\r\n");
}

static void test_expiry_is_kept(void **state)
{
    rig_expect(*state, "set a 0 2 1\r\n1\r\n", "STORED\r\n");
    rig_wait(*state, 1);
    rig_expect(*state, "incr a 9\r\ndecr a 1\r\n", "10\r\n9\r\n");
    rig_wait(*state, 1);
    rig_expect(*state, "get a\r\nincr a 1\r\n", "END\r\nNOT_FOUND\r\n");
}

/* A number with so many spaces behind it that it takes several extents is left alone. */
static void test_huge_value(void **state)
{
    struct rig *rig = *state;

    rig_expect_set(rig, "a", 900000, ' ', "STORED\r\n");
    rig_expect(rig, "incr a 1\r\n", NON_NUMERIC);
    rig_expect_set(rig, "a", 900000, 'x', "STORED\r\n");
    rig_expect(rig, "incr a 1\r\n", NON_NUMERIC);
}

/*
 * What a reply of the same input shows is not changed in place, so it gets no spaces. memcached's
 * rule is about replies that have not been sent yet.
 */
static void test_a_number_that_a_reply_shows(void **state)
{
    struct rig *rig = *state;

    rig_expect(rig, "set n 0 0 2\r\n10\r\nget n\r\ndecr n 1\r\nget n\r\n",
               "STORED\r\nVALUE n 0 2\r\n10\r\nEND\r\n9\r\nVALUE n 0 1\r\n9\r\nEND\r\n");
    rig_expect(rig, "set n 0 0 2\r\n10\r\nget n\r\n", "STORED\r\nVALUE n 0 2\r\n10\r\nEND\r\n");
    rig_expect(rig, "decr n 1\r\nget n\r\n", "9\r\nVALUE n 0 2\r\n9 \r\nEND\r\n");
    rig_expect(rig, "set n 0 0 2\r\n10\r\nmg n\r\nma n MD\r\nma n MD\r\nmg n s\r\n",
               "STORED\r\nHD\r\nHD\r\nHD\r\nHD s1\r\n");
    rig_expect(rig, "set n 0 0 2\r\n10\r\nmg n\r\nmn\r\nma n MD\r\nmg n s\r\n",
               "STORED\r\nHD\r\nMN\r\nHD\r\nHD s2\r\n");
    rig_expect(rig, "set n 0 0 2\r\n10\r\ntouch n 0\r\nmg x\r\ndecr n 1\r\nmg n s\r\n",
               "STORED\r\nTOUCHED\r\nEN\r\n9\r\nHD s2\r\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_number_that_a_reply_shows, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_table, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_missing_key, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_the_same_length_stays_fetched, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(test_expiry_is_kept, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_huge_value, rig_setup, rig_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
