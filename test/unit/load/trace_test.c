/* SPDX-License-Identifier: BSD-3-Clause */
/* Trace files: round trip, column names of other tools, and messages about damage. */
#include "load_rig.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "load/trace.h"
#include "load/trace_record.h"

static char path[] = "/tmp/load_trace_test.XXXXXX";
static char error[LOAD_ERROR_MAX];

static int make_file(void **unused)
{
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **unused)
{
    return unlink(path);
}

static void file_is(const void *bytes, size_t len)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    fclose(file);
}

static void refused(enum load_trace_format format, const char *part_of_message)
{
    struct load_request request;
    struct load_trace *trace = load_trace_open(path, format, error);
    int got = -1;

    if (trace) {
        while ((got = load_trace_next(trace, &request, error)) > 0)
            continue;
        load_trace_close(trace);
    }
    assert_int_equal(got, -1);
    if (!strstr(error, part_of_message))
        fail_msg("\"%s\" does not say \"%s\"", error, part_of_message);
}

static void check_round_trip(enum load_trace_format format)
{
    struct load_workload workload, again;
    struct load_request in, out;
    struct load_trace_writer *writer = load_trace_create(path, format, error);
    struct load_trace *trace;

    assert_non_null(writer);
    assert_true(load_workload_parse(
        &workload, "etc,keys=300,key=16-40,value=20-2000,ttl=0@1/9@1,delete=3,get=20,rate=7",
        error));
    again = workload;
    for (unsigned i = 0; i < 5000; i++) {
        load_workload_next(&workload, &in);
        assert_true(load_trace_put(writer, &in));
    }
    assert_true(load_trace_finish(writer, error));
    trace = load_trace_open(path, format, error);
    assert_non_null(trace);
    for (unsigned turn = 0; turn < 2; turn++, load_trace_rewind(trace)) {
        workload = again;
        for (unsigned i = 0; i < 5000; i++) {
            load_workload_next(&workload, &in);
            assert_int_equal(load_trace_next(trace, &out, error), 1);
            assert_int_equal(in.id, out.id);
            assert_int_equal(in.time_s, out.time_s);
            assert_int_equal(in.key_bytes + in.value_bytes, out.key_bytes + out.value_bytes);
            if (format == LOAD_TRACE_CSV) {
                assert_int_equal(in.key_bytes, out.key_bytes);
                assert_int_equal(in.ttl_s, out.ttl_s);
                assert_int_equal(in.op, out.op);
            }
        }
        assert_int_equal(load_trace_next(trace, &out, error), 0);
    }
    load_trace_close(trace);
}

static void test_round_trip(void **unused)
{
    check_round_trip(LOAD_TRACE_ORACLE);
    check_round_trip(LOAD_TRACE_CSV);
}

/* The bytes of the format, and the index of each id's next request. */
static void test_oracle_bytes(void **unused)
{
    const uint64_t ids[] = {7, UINT64_MAX, 7, 7};
    const int64_t next[] = {2, -1, 3, -1};
    struct load_trace_writer *writer = load_trace_create(path, LOAD_TRACE_ORACLE, error);
    uint8_t bytes[5 * TRACE_RECORD_BYTES];
    FILE *file;

    for (unsigned i = 0; i < 4; i++) {
        struct load_request request = {
            .id = ids[i], .time_s = 0x01020304, .key_bytes = 20, .value_bytes = 0x0a0b0c00};
        assert_true(load_trace_put(writer, &request));
    }
    assert_true(load_trace_finish(writer, error));
    file = fopen(path, "rb");
    assert_int_equal(fread(bytes, 1, sizeof(bytes), file), 4 * TRACE_RECORD_BYTES);
    fclose(file);
    const uint8_t first[] = {4,    3,    2,    1,    7, 0, 0, 0, 0, 0, 0, 0,
                             0x14, 0x0c, 0x0b, 0x0a, 2, 0, 0, 0, 0, 0, 0, 0};
    assert_memory_equal(bytes, first, sizeof(first));
    for (unsigned i = 0; i < 4; i++) {
        struct trace_record record = trace_record_get(bytes + i * TRACE_RECORD_BYTES);
        assert_true(record.id == ids[i]);
        assert_true(record.next == next[i]);
    }
}

static void test_damaged_oracle(void **unused)
{
    uint8_t bytes[3 * TRACE_RECORD_BYTES];
    struct trace_record record = {.id = 1, .size_bytes = 100, .next = TRACE_NEVER};
    const uint8_t zstd[24] = {0x28, 0xb5, 0x2f, 0xfd};

    for (unsigned i = 0; i < 3; i++)
        trace_record_put(bytes + i * TRACE_RECORD_BYTES, &record);
    file_is(bytes, 0);
    refused(LOAD_TRACE_ORACLE, "0 bytes");
    file_is(bytes, sizeof(bytes) - 1);
    refused(LOAD_TRACE_ORACLE, "71 bytes");
    file_is(zstd, sizeof(zstd));
    refused(LOAD_TRACE_ORACLE, "zstd -d");
    record.next = 2; /* itself */
    trace_record_put(bytes + 2 * TRACE_RECORD_BYTES, &record);
    file_is(bytes, sizeof(bytes));
    refused(LOAD_TRACE_ORACLE, "request 2 is damaged");
    record.next = -2;
    trace_record_put(bytes + 2 * TRACE_RECORD_BYTES, &record);
    file_is(bytes, sizeof(bytes));
    refused(LOAD_TRACE_ORACLE, "request 2 is damaged");
}

static void test_no_such_file(void **unused)
{
    assert_null(load_trace_open("/nonexistent/trace", LOAD_TRACE_CSV, error));
    assert_non_null(strstr(error, "No such file"));
    assert_null(load_trace_create("/nonexistent/trace", LOAD_TRACE_CSV, error));
    assert_non_null(strstr(error, "No such file"));
}

static struct load_request first_of(const char *text)
{
    struct load_request request = {0};
    struct load_trace *trace;

    file_is(text, strlen(text));
    trace = load_trace_open(path, LOAD_TRACE_CSV, error);
    if (!trace || load_trace_next(trace, &request, error) != 1)
        fail_msg("%s: %s", text, error);
    load_trace_close(trace);
    return request;
}

static void test_csv_forms(void **unused)
{
    struct load_request request = first_of("12,34,56\n");
    assert_int_equal(request.time_s, 12);
    assert_int_equal(request.id, 34);
    assert_int_equal(request.key_bytes, 16);
    assert_int_equal(request.value_bytes, 40);
    assert_int_equal(request.op, LOAD_GET);

    request = first_of("# made by hand\r\n\r\n 1.5 , 18446744073709551615 , 3 , set , 60 \r\n");
    assert_int_equal(request.time_s, 1);
    assert_true(request.id == UINT64_MAX);
    assert_int_equal(request.value_bytes, 0);
    assert_int_equal(request.op, LOAD_SET);
    assert_int_equal(request.ttl_s, 60);

    request = first_of("timestamp,key,key_size,value_size,client,operation,ttl\n"
                       "5,q:abc,19,212,77,gets,0");
    assert_int_equal(request.time_s, 5);
    assert_int_equal(request.key_bytes, 19);
    assert_int_equal(request.value_bytes, 212);
    assert_int_equal(request.op, LOAD_GET);
    assert_true(request.id == first_of("id\nq:abc\n").id);
    assert_true(request.id != first_of("id\nq:abd\n").id);
}

static void test_damaged_csv(void **unused)
{
    const struct {
        const char *text, *says;
    } bad[] = {
        {"", "no request"},
        {"# only a comment\n", "no request"},
        {"1,2\n", "line 1: there are 2 columns, not 3"},
        {"1,2,3\n1,2,x\n", "line 2: \"x\" in column 3"},
        {"1,2,3\n1,,3\n", "line 2: \"\" in column 2"},
        {"1,2,3,jump\n", "\"jump\" in column 4"},
        {"-1,2,3\n", "\"-1\" in column 1"},
        {"1.x,2,3\n", "\"1.x\" in column 1"},
        {"99999999999,2,3\n", "in column 1"},
        {"1,2,4294967296\n", "in column 3"},
        {"time,size\n1,2\n", "no column is the id"},
    };
    for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        file_is(bad[i].text, strlen(bad[i].text));
        refused(LOAD_TRACE_CSV, bad[i].says);
    }
    file_is("1,2,3\n1,\0,3\n", 12);
    refused(LOAD_TRACE_CSV, "line 2");
}

static void test_long_line(void **unused)
{
    static char line[6000];
    memset(line, '1', sizeof(line) - 1);
    line[sizeof(line) - 1] = '\n';
    file_is(line, sizeof(line));
    refused(LOAD_TRACE_CSV, "line 1 is longer");
}

/* A file that cannot be written to its end does not stay. */
static void test_files_have_a_limit(void **unused)
{
    static const enum load_trace_format formats[] = {LOAD_TRACE_ORACLE, LOAD_TRACE_CSV};
    const struct load_request request = {.id = 1, .key_bytes = 20};
    struct rlimit before, small;
    bool good;

    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    for (unsigned i = 0; i < 2; i++) {
        struct load_trace_writer *writer = load_trace_create(path, formats[i], error);

        assert_non_null(writer);
        small = before;
        small.rlim_cur = 100;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        for (unsigned k = 0; k < 1000; k++)
            (void)load_trace_put(writer, &request);
        good = load_trace_finish(writer, error);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_false(good);
        assert_non_null(strstr(error, "File too large"));
        assert_int_equal(access(path, F_OK), -1);
    }
    file_is("", 0);
}

static void test_formats_by_name(void **unused)
{
    assert_int_equal(load_trace_format_of("a.csv"), LOAD_TRACE_CSV);
    assert_int_equal(load_trace_format_of("b/a.txt"), LOAD_TRACE_CSV);
    assert_int_equal(load_trace_format_of("a.oracleGeneral.bin"), LOAD_TRACE_ORACLE);
    assert_int_equal(load_trace_format_of("csv"), LOAD_TRACE_ORACLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),         cmocka_unit_test(test_oracle_bytes),
        cmocka_unit_test(test_damaged_oracle),     cmocka_unit_test(test_no_such_file),
        cmocka_unit_test(test_csv_forms),          cmocka_unit_test(test_damaged_csv),
        cmocka_unit_test(test_long_line),          cmocka_unit_test(test_formats_by_name),
        cmocka_unit_test(test_files_have_a_limit),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
