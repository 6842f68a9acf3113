/* SPDX-License-Identifier: BSD-3-Clause */
/* Traces in memory: requests and keys as the file has them, however many there are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "keyspace.h"
#include "template.h"

#define MANY 5000
#define VALUE_MAX 2000

static char path[] = "/tmp/ucload_trace_XXXXXX.csv";
static struct loaded_trace trace;
static struct keyspace keys;

static void open_text(const char *text)
{
    char error[LOAD_ERROR_MAX];
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    assert_int_equal(loaded_trace_open(&trace, path, VALUE_MAX, error), 0);
}

/* Each operation, with sizes that are limited. */
static void test_requests(void **state)
{
    static const enum op ops[] = {OP_GET, OP_SET, OP_DELETE, OP_INCR, OP_TOUCH, OP_SET, OP_GET};
    static const unsigned ids[] = {0, 1, 2, 3, 4, 5, 0};
    static const unsigned key_bytes[] = {20, 250, 250, 16, 16, 16};
    static const unsigned value_bytes[] = {100, VALUE_MAX, VALUE_MAX - 1, 0, 0, 7};

    (void)state;
    open_text("id,op,key_size,value_size\n"
              "77,get,20,100\n18446744073709551615,set,250,2001\n0,delete,300,1999\n"
              "5,incr,0,0\n6,touch,0,0\n8,add,0,7\n77,get,9,9\n");
    assert_int_equal(trace.count, 7);
    assert_int_equal(trace.keys, 6);
    for (unsigned i = 0; i < 7; i++) {
        assert_int_equal(trace.requests[i].op, ops[i]);
        assert_int_equal(trace.requests[i].id, ids[i]);
    }
    for (unsigned i = 0; i < 6; i++) {
        assert_int_equal(trace.key_bytes[i], key_bytes[i]);
        assert_int_equal(trace.value_bytes[i], value_bytes[i]);
    }
    loaded_trace_close(&trace);
}

/* All tables grow; ids that were there before keep their numbers and sizes. */
static void test_many_requests(void **state)
{
    char *text;
    size_t len;
    FILE *file = open_memstream(&text, &len);

    (void)state;
    assert_non_null(file);
    fprintf(file, "id,op,key_size,value_size\n");
    for (unsigned round = 0; round < 2; round++)
        for (unsigned i = 0; i < MANY; i++)
            fprintf(file, "%llu,set,%u,%u\n", i * 7919ull << 20, 10 + i % 200, i % VALUE_MAX);
    fclose(file);
    open_text(text);
    free(text);
    assert_int_equal(trace.count, 2 * MANY);
    assert_int_equal(trace.keys, MANY);
    for (unsigned i = 0; i < 2 * MANY; i++)
        assert_int_equal(trace.requests[i].id, i % MANY);
    for (unsigned i = 0; i < MANY; i++) {
        assert_int_equal(trace.key_bytes[i], 10 + i % 200);
        assert_int_equal(trace.value_bytes[i], i % VALUE_MAX);
    }
    loaded_trace_close(&trace);
}

/* The largest of all keys and values, and keys of counters beside them. */
static void test_keys_of_a_trace(void **state)
{
    char error[LOAD_ERROR_MAX];

    (void)state;
    open_text("id,op,key_size,value_size\n1,get,1,10\n2,get,40,30\n3,get,5,20\n");
    assert_int_equal(keyspace_open_trace(&keys, &trace, error), 0);
    assert_int_equal(keys.count, 3);
    assert_int_equal(keys.key_bytes_min, 1);
    assert_int_equal(keys.key_bytes_max, 40);
    assert_int_equal(keys.value_bytes_max, 30);
    for (unsigned id = 0; id < 6; id++) {
        assert_int_equal(keyspace_key_bytes(&keys, id), trace.key_bytes[id % 3]);
        assert_int_equal(keyspace_value_bytes(&keys, id), trace.value_bytes[id % 3]);
    }
    keyspace_close(&keys);
    loaded_trace_close(&trace);
}

/* Keys and as many counters need texts of their own. */
static void test_shortest_keys(void **state)
{
    char error[LOAD_ERROR_MAX], key[LOAD_KEY_MAX];

    (void)state;
    assert_int_equal(keyspace_open(&keys, 2048, "2", "8", error), 0);
    assert_int_equal(load_key_write(key, 4095, keyspace_key_bytes(&keys, 4095)), 2);
    keyspace_close(&keys);
    assert_int_equal(keyspace_open(&keys, 2049, "2", "8", error), -1);
    assert_non_null(strstr(error, "is not between 3 and 250"));
}

static void test_refused(void **state)
{
    static const char *const texts[] = {"", "id,op\n", "id,op\n1,get\n1,nothing\n"};
    char error[LOAD_ERROR_MAX];

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        FILE *file = fopen(path, "w");

        assert_non_null(file);
        fputs(texts[i], file);
        fclose(file);
        error[0] = '\0';
        assert_int_equal(loaded_trace_open(&trace, path, VALUE_MAX, error), -1);
        assert_int_not_equal(error[0], '\0');
        loaded_trace_close(&trace);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests),        cmocka_unit_test(test_many_requests),
        cmocka_unit_test(test_keys_of_a_trace), cmocka_unit_test(test_shortest_keys),
        cmocka_unit_test(test_refused),
    };
    int fd = mkstemps(path, 4);
    int failed;

    if (fd < 0)
        return 1;
    close(fd);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
