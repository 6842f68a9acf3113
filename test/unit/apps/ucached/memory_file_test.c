/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory file (-e): its lock, its .meta file, and the messages about restored items. */
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

#include "memory_file.h"

static const struct daemon_user nobody_else = {0};
static char path[] = "/tmp/ucached_memory_XXXXXX";
static char text[1024];

/* What goes to stderr in between is in `text` then. */
static int fds[2], stderr_fd;

static void catch_text(void)
{
    fflush(stderr);
    stderr_fd = dup(STDERR_FILENO);
    assert_true(stderr_fd >= 0 && pipe(fds) == 0);
    assert_true(dup2(fds[1], STDERR_FILENO) >= 0);
    close(fds[1]);
}

static void end_catching(void)
{
    ssize_t n;

    fflush(stderr);
    assert_true(dup2(stderr_fd, STDERR_FILENO) >= 0);
    close(stderr_fd);
    n = read(fds[0], text, sizeof(text) - 1);
    close(fds[0]);
    text[n > 0 ? n : 0] = '\0';
}

static void assert_printed(const struct kv_restored *restored, uint64_t now_unix_s,
                           const char *wanted)
{
    const struct memory_file file = {.path = "/f", .fd = -1};

    catch_text();
    memory_file_print(&file, restored, now_unix_s);
    end_catching();
    assert_string_equal(text, wanted);
}

/* A line reports a clock that went back: times to live did not run on. */
static void test_what_is_printed(void **state)
{
    struct kv_restored restored = {.restored = false};
    static const char line[] =
        "ucached: -e /f: restored 3 items (200 bytes), saved 2023-11-14 22:13:20 UTC\n";
    char both[512];

    (void)state;
    assert_printed(&restored, 0, "ucached: -e /f: new file\n");
    restored.why_not = "it is damaged";
    assert_printed(&restored, 0, "ucached: -e /f: no items restored: it is damaged\n");
    restored = (struct kv_restored){.restored = true, .items = 3, .bytes = 200};
    restored.saved.unix_s = 1700000000;
    assert_printed(&restored, 1700000000, line);
    snprintf(
        both, sizeof(both),
        "%sucached: warning: -e /f: the system's clock went back: the time that the server was "
        "stopped does not count for times to live\n",
        line);
    assert_printed(&restored, 1699999999, both);
}

/* One server at a time; the file is closed to other users. */
static void test_locked(void **state)
{
    struct memory_file first, second;
    struct stat st;

    (void)state;
    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(memory_file_open(&first, path, &nobody_else), 0);
    assert_int_equal(fstat(first.fd, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    catch_text();
    assert_int_equal(memory_file_open(&second, path, &nobody_else), -1);
    end_catching();
    assert_non_null(strstr(text, "another server uses the file"));
    memory_file_close(&second);
    memory_file_close(&first);
    assert_int_equal(memory_file_open(&second, path, &nobody_else), 0);
    memory_file_close(&second);
    assert_int_equal(second.fd, -1);
}

/* What memcached has left: an unfinished one is refused, another one is removed. */
static void test_meta(void **state)
{
    char meta[sizeof(path) + 5];
    struct memory_file file;
    FILE *left;

    (void)state;
    snprintf(meta, sizeof(meta), "%s.meta", path);
    left = fopen(meta, "w");
    assert_non_null(left);
    fclose(left);
    catch_text();
    assert_int_equal(memory_file_open(&file, path, &nobody_else), -1);
    end_catching();
    assert_non_null(strstr(text, "did not finish saving"));
    left = fopen(meta, "w");
    assert_non_null(left);
    fputs("of memcached", left);
    fclose(left);
    catch_text();
    assert_int_equal(memory_file_open(&file, path, &nobody_else), 0);
    end_catching();
    assert_non_null(strstr(text, "removing"));
    assert_int_equal(access(meta, F_OK), -1);
    memory_file_close(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_printed),
        cmocka_unit_test(test_locked),
        cmocka_unit_test(test_meta),
    };
    int fd = mkstemp(path);
    int failed;

    if (fd < 0)
        return 1;
    close(fd);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
