/* SPDX-License-Identifier: BSD-3-Clause */
/* The report of a measurement: its text and JSON, the time series, the curve. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "report.h"

#define MS 1000000u

static struct options options;
static struct run run;
static struct result result;
static struct report report;
static char *text;
static size_t len;

/* A closed loop of 4 connections with 3 requests in flight each, of 100 requests in 2 s. */
static void open_report(void)
{
    static const struct link_defaults defaults = {"x0", "10.0.0.1/24", "10.0.0.2/24"};
    char error[LINK_ERROR_MAX];

    memset(&options, 0, sizeof(options));
    options.threads = 1;
    options.connections = 4;
    options.depth = 3;
    options.mix = options.key_size = options.value_size = options.popularity = "any";
    assert_int_equal(link_resolve(&options.link, &defaults, error), 0);
    memset(&run, 0, sizeof(run));
    snprintf(run.plan.server_text, sizeof(run.plan.server_text), "server:1");
    result_clear(&result);
    result.seconds = 2;
    result.tally.requests = result.tally.ops[OP_GET] = 100;
    result.tally.bytes_in = 3000000;
    result.tally.bytes_out = 9000000;
    for (unsigned i = 0; i < 99; i++)
        load_histogram_count(&result.by_op[OP_GET], MS);
    load_histogram_count(&result.by_op[OP_GET], 600 * MS);
    result_complete(&result);
    report = (struct report){.options = &options, .run = &run, .result = &result};
}

static FILE *open_text(void)
{
    FILE *file = open_memstream(&text, &len);

    assert_non_null(file);
    return file;
}

static void assert_has(const char *words)
{
    if (!strstr(text, words))
        fail_msg("no \"%s\" in:\n%s", words, text);
}

static void assert_has_not(const char *words)
{
    if (strstr(text, words))
        fail_msg("\"%s\" in:\n%s", words, text);
}

static void print(void (*to)(FILE *file, const struct report *report))
{
    FILE *file;

    free(text);
    file = open_text();
    to(file, &report);
    assert_int_equal(fclose(file), 0);
}

/* Nine tenths of the rate are enough. */
static void test_behind(void **state)
{
    (void)state;
    open_report();
    assert_false(report_is_behind(&result)); /* a closed loop */
    result.offered = 55.5;
    assert_false(report_is_behind(&result));
    result.offered = 56;
    assert_true(report_is_behind(&result));
}

static void test_text(void **state)
{
    (void)state;
    open_report();
    print(report_text);
    assert_has("load         server:1 over kernel sockets (epoll), 1 thread, 4 connections, closed "
               "loop, 3 in flight each\n");
    assert_has("throughput   50 requests/s (100 in 2.00 s), 1.5 MB/s in, 4.5 MB/s out\n");
    assert_has("operations   100 get\n");
    assert_has("latency      mean 6.99 ms  p50 1.00 ms");
    assert_has("corrected    mean ");
    assert_has_not("\n  get"); /* the only operation */
    assert_has_not("connects/s");
    assert_has_not("wrong");
    assert_has_not("unanswered");
    result.tally.ops[OP_SET] = 1;
    result.tally.connects = 30;
    result.tally.unanswered = 7;
    result.tally.refused = 8;
    result.tally.wrong = 9;
    result.offered = 100;
    options.reconnect = 1;
    load_histogram_count(&result.by_op[OP_SET], 2000);
    load_histogram_count(&result.latency, 2000);
    print(report_text);
    assert_has("open loop, 100 requests/s (Poisson)");
    assert_has("operations   100 get, 1 set\n");
    assert_has("\n  get        mean 6.99 ms");
    assert_has("\n  set        mean 2.0 us");
    assert_has("connections  15 connects/s (30)\n");
    assert_has("wrong        9\n");
    assert_has("refused      8\n");
    assert_has("unanswered   7, with their waiting times");
    assert_has_not("corrected");
}

/*
 * 12 requests are in flight, so that one is due every 240 ms: beside the one of 600 ms there would
 * have been one of 360 ms.
 */
static void test_corrected_for_omission(void **state)
{
    (void)state;
    open_report();
    print(report_json);
    assert_has("\"latency_us\": {\"count\": 100,");
    assert_has("\"corrected_us\": {\"count\": 101,");
    result.offered = 100;
    print(report_json);
    assert_has("\"corrected_us\": {\"count\": 100,");
}

static void test_json(void **state)
{
    (void)state;
    open_report();
    snprintf(run.plan.server_text, sizeof(run.plan.server_text), "a\"b\\c\nd");
    options.reconnect = 1;
    result.tally.connects = 30;
    result.hiccups = (struct hiccups){.count = 3, .longest_ns = 4500, .worst_ns = 9500};
    print(report_json);
    assert_has("\"server\": \"a\\\"b\\\\cd\",\n");
    assert_has("\"requests_per_second\": 50,\n");
    assert_has("\"connects\": 30,\n  \"connects_per_second\": 15,\n");
    assert_has("\"hiccups\": {\"count\": 3, \"longest_us\": 4.5, \"worst_core_us\": 9.5}");
    assert_has("\"bytes_in\": 3000000,\n  \"bytes_out\": 9000000,\n");
    assert_has("\"get_latency_us\": {\"count\": 100,");
    assert_has_not("set_latency_us");
    assert_has("\"min\": 1000.000, \"p50\": 1000");
}

/* ---- the series -------------------------------------------------------------------------- */

static void add_seconds(struct series *series, unsigned count)
{
    static struct load_histogram latency;

    for (unsigned i = 0; i < count; i++) {
        load_histogram_clear(&latency);
        for (unsigned k = 0; k < 98; k++)
            load_histogram_count(&latency, 1000);
        load_histogram_count(&latency, 2000);
        load_histogram_count(&latency, (i + 1) * 10000u);
        series_add(series, i, 1, &latency);
    }
}

/* More than a minute; each second is printed, and is a line of the log. */
static void test_series(void **state)
{
    struct series series;
    unsigned lines = 0;
    FILE *file;

    (void)state;
    free(text);
    series_open(&series, open_text(), false);
    series_begin(&series, 1700000000.25);
    add_seconds(&series, 300);
    assert_int_equal(series.count, 300);
    for (unsigned i = 0; i < 300; i++) {
        assert_int_equal(series.points[i].requests, 100);
        assert_int_equal(series.points[i].p50_ns, 1000);
        assert_int_equal(series.points[i].p99_ns, 2000);
        assert_int_equal(series.points[i].max_ns, (i + 1) * 10000u);
    }
    assert_int_equal(fflush(series.log), 0);
    assert_has("#[StartTime: 1700000000.250 (seconds since epoch)]\n");
    assert_has("\n0.000,1.000,0.010000,H");
    assert_has("\n299.000,1.000,3.000000,H");
    for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    assert_int_equal(lines, 3 + 300);
    series.count = 2;
    file = series.log;
    series.log = NULL;
    fclose(file);
    free(text);
    file = open_text();
    series_json(file, &series);
    fclose(file);
    assert_string_equal(
        text, "[\n    {\"from_seconds\": 0.000, \"seconds\": 1.000, \"requests\": 100, "
              "\"mean_us\": 1.100, \"p50_us\": 1.000, \"p99_us\": 2.000, \"max_us\": 10.000},"
              "\n    {\"from_seconds\": 1.000, \"seconds\": 1.000, \"requests\": 100, "
              "\"mean_us\": 1.200, \"p50_us\": 1.000, \"p99_us\": 2.000, \"max_us\": 20.000}]");
    assert_int_equal(series_close(&series), 0);
}

/* Seconds beyond those of a day are counted only. */
static void test_series_of_a_day(void **state)
{
    static struct load_histogram none;
    struct series series;

    (void)state;
    load_histogram_clear(&none);
    series_open(&series, NULL, false);
    for (unsigned i = 0; i < SERIES_POINTS_MAX + 2; i++)
        series_add(&series, i, 1, &none);
    series_add(&series, 0, 0, &none); /* no time has passed */
    assert_int_equal(series.count, SERIES_POINTS_MAX);
    assert_int_equal(series.left_out, 2);
    assert_int_equal(series_close(&series), 0);
}

/* ---- the curve --------------------------------------------------------------------------- */

static void draw(double rate, const char *title)
{
    static struct scan scan;

    open_report();
    memset(&scan, 0, sizeof(scan));
    for (unsigned i = 1; i <= 3; i++) {
        result.tally.requests = (uint64_t)(rate * i / 3 * 2);
        scan_add(&scan, &result);
    }
    result.tally.requests = 0;
    scan_add(&scan, &result);
    assert_int_equal(scan.count, 3);
    free(text);
    assert_int_equal(scan_svg(open_text(), &scan, title), 0);
}

/* Five to ten steps of 1, 2 or 5 times a power of ten. */
static void test_steps_of_the_curve(void **state)
{
    (void)state;
    draw(60, "a<b&c");
    assert_has(">a&lt;b&amp;c</text>");
    assert_has(">10</text>");
    assert_has(">60</text>");
    draw(120, "");
    assert_has(">20</text>");
    assert_has_not(">10</text>");
    draw(300, "");
    assert_has(">50</text>");
    assert_has_not(">20</text>");
    draw(300000, "");
    assert_has(">50 k</text>");
    draw(3000000, "");
    assert_has(">0.5 M</text>");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_behind),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_corrected_for_omission),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_series),
        cmocka_unit_test(test_series_of_a_day),
        cmocka_unit_test(test_steps_of_the_curve),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    free(text);
    return failed;
}
