/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows as JSON, ratios both ways, medians. */
#include <math.h>

#include "kvbench_rig.h"

#include "kvbench/report.h"

static struct report report;

static void json_is(const char *expected)
{
    static char text[4096];
    FILE *file = tmpfile();

    assert_non_null(file);
    assert_true(report_json(&report, file));
    rewind(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    assert_string_equal(text, expected);
}

static void test_rows(void **unused)
{
    struct report_row *row;

    memset(&report, 0, sizeof(report));
    json_is("[\n]\n");
    row = report_add(&report, 30, "Mops/s", 5, "get_%ut", 2);
    report_compare(row, "1t", 20, false);
    report_compare(row, "other", 10, false);
    row = report_add(&report, 0.25, "share", 1, "miss");
    report_compare(row, "memcached", 0.5, true);
    report_add(&report, NAN, "ns", 1, "none");
    json_is("[\n{\"suite\": \"engine\", \"case\": \"get_2t\", \"value\": 30, \"unit\": \"Mops/s\", "
            "\"median_of\": 5, \"compared_to\": {\"1t\": 20, \"other\": 10}, \"ratio\": "
            "{\"1t\": 1.5, \"other\": 3}},\n"
            "{\"suite\": \"engine\", \"case\": \"miss\", \"value\": 0.25, \"unit\": \"share\", "
            "\"median_of\": 1, \"compared_to\": {\"memcached\": 0.5}, \"ratio\": "
            "{\"memcached\": 2}},\n"
            "{\"suite\": \"engine\", \"case\": \"none\", \"value\": null, \"unit\": \"ns\", "
            "\"median_of\": 1, \"compared_to\": {}, \"ratio\": {}}\n]\n");
}

static void test_bounds(void **unused)
{
    struct report_row *row;

    memset(&report, 0, sizeof(report));
    for (unsigned i = 0; i < REPORT_ROWS_MAX + 3; i++)
        row = report_add(&report, i, "x", 1, "row");
    assert_int_equal(report.count, REPORT_ROWS_MAX);
    assert_int_equal(report.left_out, 3);
    for (unsigned i = 0; i < REPORT_COMPARED_MAX + 3; i++)
        report_compare(row, "x", 1, false);
    assert_int_equal(row->compared_count, REPORT_COMPARED_MAX);
}

static void test_median(void **unused)
{
    double odd[] = {5, 1, 9}, even[] = {4, 1, 3, 100}, one[] = {7};
    assert_true(report_median(odd, 3) == 5);
    assert_true(report_median(even, 4) == 3.5);
    assert_true(report_median(one, 1) == 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_median),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
