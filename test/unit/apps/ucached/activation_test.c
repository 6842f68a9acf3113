/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptors of a service manager: for whom they are, and which is the memory. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "activation.h"

/* Opens descriptors from 3 on, and names them for a process. */
static void pass(unsigned count, const char *names, long pid)
{
    char text[24];
    unsigned i;

    for (i = 0; i < count; i++) {
        int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

        assert_true(fd >= 0);
        if (fd == 3 + (int)i)
            continue;
        assert_int_equal(dup2(fd, 3 + (int)i), 3 + (int)i);
        close(fd);
    }
    snprintf(text, sizeof(text), "%u", count);
    setenv("LISTEN_FDS", text, 1);
    snprintf(text, sizeof(text), "%ld", pid);
    setenv("LISTEN_PID", text, 1);
    setenv("LISTEN_FDNAMES", names, 1);
}

static int is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

static void test_sockets_and_memory(void **state)
{
    struct activation activation;

    pass(3, "a.socket:" ACTIVATION_MEMORY ":b.socket", getpid());
    assert_int_equal(activation_open(&activation), 0);
    assert_int_equal(activation.socket_count, 2);
    assert_int_equal(activation.sockets[0], 3);
    assert_int_equal(activation.memory_fd, 4);
    assert_int_equal(activation.sockets[1], 5);
    assert_int_equal(fcntl(4, F_GETFD), FD_CLOEXEC);
    activation_close(&activation);
    assert_false(is_open(3) || is_open(4) || is_open(5));
}

/* A child of the process that they are for inherits the variables, not the descriptors. */
static void test_of_another_process(void **state)
{
    struct activation activation;

    pass(1, "a.socket", getppid());
    assert_int_equal(activation_open(&activation), 0);
    assert_int_equal(activation.socket_count, 0);
    unsetenv("LISTEN_PID");
    assert_int_equal(activation_open(&activation), 0);
    assert_int_equal(activation.socket_count, 0);
    assert_int_equal(activation.memory_fd, -1);
    activation_close(&activation);
    assert_true(is_open(3));
    close(3);
}

/* Of several the youngest counts; the others are closed. */
static void test_several_memories(void **state)
{
    struct activation activation;

    pass(2, ACTIVATION_MEMORY ":" ACTIVATION_MEMORY, getpid());
    assert_int_equal(activation_open(&activation), 0);
    assert_int_equal(activation.socket_count, 0);
    assert_int_equal(activation.memory_fd, 4);
    assert_false(is_open(3));
    activation_close(&activation);
    assert_false(is_open(4));
}

static void test_refused(void **state)
{
    struct activation activation;

    pass(1, "a.socket", getpid());
    close(3);
    assert_int_equal(activation_open(&activation), -1); /* not open */
    setenv("LISTEN_FDS", "-1", 1);
    assert_int_equal(activation_open(&activation), -1);
    setenv("LISTEN_FDS", "1000", 1);
    assert_int_equal(activation_open(&activation), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sockets_and_memory),
        cmocka_unit_test(test_of_another_process),
        cmocka_unit_test(test_several_memories),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
