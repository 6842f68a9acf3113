/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines on stderr: how many in a second, and as JSON. The seconds are those of the test. */
#include "net/log.h"

#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define LINES_PER_S 5000
#define PATIENCE_S 60

extern int clock_gettime_real(clockid_t clock,
                              struct timespec *now) __asm__("__real_clock_gettime");
extern int clock_gettime_of_the_test(clockid_t clock,
                                     struct timespec *now) __asm__("__wrap_clock_gettime");

static time_t second;

int clock_gettime_of_the_test(clockid_t clock, struct timespec *now)
{
    if (clock != CLOCK_MONOTONIC_COARSE)
        return clock_gettime_real(clock, now);
    *now = (struct timespec){.tv_sec = second};
    return 0;
}

static FILE *file;    /* stderr of the log */
static int stderr_fd; /* the test's own */
static off_t read_bytes;

static int setup(void **state)
{
    read_bytes = 0;
    file = tmpfile();
    stderr_fd = dup(STDERR_FILENO);
    return file == NULL || dup2(fileno(file), STDERR_FILENO) < 0;
}

static int teardown(void **state)
{
    dup2(stderr_fd, STDERR_FILENO);
    close(stderr_fd);
    return fclose(file);
}

/* The text written since the last call, as a string. */
static const char *written(void)
{
    static char text[8192];
    ssize_t len = pread(fileno(file), text, sizeof(text) - 1, read_bytes);

    assert_true(len >= 0);
    read_bytes += len;
    text[len] = '\0';
    return text;
}

static unsigned lines_in(const char *text)
{
    unsigned lines = 0;

    while ((text = strchr(text, '\n')) != NULL) {
        text++;
        lines++;
    }
    return lines;
}

/* Messages that clients cause are limited; the number of suppressed ones is logged once. */
static void test_lines_of_clients(void **state)
{
    struct net_log_limit limit = NET_LOG_LIMIT;
    uint64_t dropped = net_log_dropped();

    second = 100;
    for (unsigned i = 0; i < NET_LOG_LIMIT_LINES + 5; i++)
        net_log_limited(&limit, "client %u", i);
    assert_int_equal(lines_in(written()), NET_LOG_LIMIT_LINES);
    assert_int_equal(net_log_dropped() - dropped, 5);
    second++;
    net_log_limited(&limit, "later");
    assert_string_equal(written(), "ucached: 5 lines like the next one were left out\nlater\n");
    net_log_limited(&limit, "again");
    second++;
    net_log_limited(&limit, "another second");
    assert_string_equal(written(), "again\nanother second\n");
}

/* Adds a line; waits as long as the thread that writes is behind. Returns whether it was taken. */
static bool add(unsigned patience_s)
{
    struct timespec now, until;
    uint64_t dropped;

    clock_gettime(CLOCK_MONOTONIC, &until);
    do {
        dropped = net_log_dropped();
        net_log("line");
        if (net_log_dropped() == dropped)
            return true;
        sched_yield();
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec <= until.tv_sec + (time_t)patience_s);
    return false;
}

/* Reads from a pipe. */
static void read_all(int fd, char *bytes, size_t len)
{
    for (ssize_t n; len > 0; bytes += n, len -= (size_t)n) {
        n = read(fd, bytes, len);
        assert_true(n > 0);
    }
}

/* While stderr takes nothing, lines wait until there are too many; those come, in order. */
static void expect_lines_that_wait(void)
{
    static char bytes[1 << 20], line[20];
    size_t filled = 0;
    unsigned taken = 0, i;
    uint64_t dropped = net_log_dropped();
    int fds[2];
    ssize_t n;

    assert_int_equal(pipe(fds), 0);
    assert_int_equal(fcntl(fds[1], F_SETFL, O_NONBLOCK), 0);
    while ((n = write(fds[1], bytes, 1)) > 0)
        filled += (size_t)n;
    assert_int_equal(fcntl(fds[1], F_SETFL, 0), 0);
    assert_true(dup2(fds[1], STDERR_FILENO) >= 0);
    for (; net_log_dropped() == dropped; taken++)
        net_log("%04u", taken);
    taken--; /* the last one was dropped */
    read_all(fds[0], bytes, filled);
    for (i = 0; i < taken; i++) {
        read_all(fds[0], line, 5);
        assert_int_equal(strtoul(line, NULL, 10), i);
    }
    assert_true(dup2(fileno(file), STDERR_FILENO) >= 0);
    close(fds[0]);
    close(fds[1]);
}

/* Too many lines in a second are dropped, those of the next one are not. */
static void test_lines_of_a_second(void **state)
{
    second = 199;
    assert_int_equal(net_log_start(), 0);
    expect_lines_that_wait();
    second++;
    for (unsigned i = 0; i < LINES_PER_S; i++)
        assert_true(add(PATIENCE_S));
    assert_false(add(0));
    second++;
    assert_true(add(PATIENCE_S));
    net_log_stop();
}

/* With escapes of six bytes each a line would become too long: it is cut between two of them. */
static void test_json(void **state)
{
    char text[NET_LOG_LINE_MAX + 1];
    const char *line;

    net_log_set_json();
    net_log_error("ucached: a \"b\"\t\xc3\xbc\xff");
    line = written();
    assert_non_null(
        strstr(line, "\"level\":\"error\",\"message\":\"a \\\"b\\\"\\u0009\xc3\xbc\\u00ff\"}\n"));
    net_log("C:\\d \xe2\x82x"); /* a character that is cut */
    line = written();
    assert_non_null(strstr(line, "\"message\":\"C:\\\\d \\u00e2\\u0082x\"}\n"));
    memset(text, 1, sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    net_log("%s", text);
    line = written();
    assert_int_equal(lines_in(line), 1);
    assert_in_range(strlen(line), NET_LOG_LINE_MAX, 2 * NET_LOG_LINE_MAX + 128);
    assert_string_equal(line + strlen(line) - 9, "\\u0001\"}\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_lines_of_clients, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lines_of_a_second, setup, teardown),
        cmocka_unit_test_setup_teardown(test_json, setup, teardown), /* from now on */
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
