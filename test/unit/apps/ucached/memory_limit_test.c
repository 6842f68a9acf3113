/* SPDX-License-Identifier: BSD-3-Clause */
/* Limits of control groups, in trees of files like those of the kernel. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "memory_limit.h"

#define NONE UINT64_MAX

static char root[64];
static const char *const folders[] = {"a",           "a/b",    "unified",  "unified/a",
                                      "unified/a/b", "memory", "memory/a", "memory/a/b"};
#define FOLDERS (sizeof(folders) / sizeof(folders[0]))

static const char *path_of(const char *name)
{
    static char path[128];

    snprintf(path, sizeof(path), "%s/%s", root, name);
    return path;
}

static void put(const char *name, const char *text)
{
    FILE *file = fopen(path_of(name), "w");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int setup(void **state)
{
    size_t i;

    snprintf(root, sizeof(root), "/tmp/ucached-memory-test-XXXXXX");
    assert_non_null(mkdtemp(root));
    for (i = 0; i < FOLDERS; i++)
        assert_int_equal(mkdir(path_of(folders[i]), 0700), 0);
    return 0;
}

static int teardown(void **state)
{
    static const char *const names[] = {"memory.max", "memory.limit_in_bytes"};
    char name[64];
    size_t i, k;

    for (i = FOLDERS; i-- > 0;) {
        for (k = 0; k < 2; k++) {
            snprintf(name, sizeof(name), "%s/%s", folders[i], names[k]);
            unlink(path_of(name));
        }
        assert_int_equal(rmdir(path_of(folders[i])), 0);
    }
    unlink(path_of("groups"));
    unlink(path_of("memory.max"));
    assert_int_equal(rmdir(root), 0);
    return 0;
}

static uint64_t limit_of(const char *groups)
{
    char path[128];

    put("groups", groups);
    snprintf(path, sizeof(path), "%s", path_of("groups"));
    return memory_limit_of_groups(path, root);
}

static void test_no_limit(void **state)
{
    assert_int_equal(limit_of("0::/a/b\n"), NONE);
    put("a/b/memory.max", "max\n");
    assert_int_equal(limit_of("0::/a/b\n"), NONE);
    assert_int_equal(limit_of(""), NONE);
    assert_int_equal(limit_of("no colons\n7:one\n"), NONE);
    assert_int_equal(memory_limit_of_groups("/nonexistent/groups", root), NONE);
}

static void test_the_least_of_all_above(void **state)
{
    put("a/b/memory.max", "3000000\n");
    assert_int_equal(limit_of("0::/a/b\n"), 3000000);
    put("a/memory.max", "2000000\n");
    assert_int_equal(limit_of("0::/a/b\n"), 2000000);
    put("memory.max", "1000000\n"); /* a container's group is the root of its own mount */
    assert_int_equal(limit_of("0::/a/b\n"), 1000000);
    assert_int_equal(limit_of("0::/\n"), 1000000);
}

static void test_both_versions(void **state)
{
    put("memory/a/memory.limit_in_bytes", "500000\n");
    put("unified/a/b/memory.max", "400000\n");
    put("a/b/memory.limit_in_bytes", "1\n"); /* not where version 1 is mounted */
    assert_int_equal(limit_of("5:cpu,memory:/a/b\n1:name=systemd:/\n"), 500000);
    assert_int_equal(limit_of("5:cpu:/a/b\n"), NONE);
    assert_int_equal(limit_of("5:memory:/a/b\n0::/a/b\n"), 400000);
}

static void test_this_process_has_one(void **state)
{
    const char *what = NULL;

    assert_true(memory_limit(&what) > 0);
    assert_non_null(what);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_no_limit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_least_of_all_above, setup, teardown),
        cmocka_unit_test_setup_teardown(test_both_versions, setup, teardown),
        cmocka_unit_test(test_this_process_has_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
