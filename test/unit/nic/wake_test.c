/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of a sleep: limits of the timeout, and signals that are sent and reset. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "nic/wake.h"
#include "nic_testing.h"

static int open_wake(void)
{
    int fd = nic_wake_open();

    assert_true(fd >= 0);
    return fd;
}

static bool is_signalled(int fd)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};

    return poll(&one, 1, 0) == 1;
}

/* No timeout, which callers write as the largest number, does not wrap to a short one. */
static void timeouts_are_limited(void **state)
{
    assert_int_equal(nic_wake_timeout_ns(0), 0);
    assert_int_equal(nic_wake_timeout_ns(7), 7000);
    assert_int_equal(nic_wake_timeout_ns(UINT64_C(3600000000)), UINT64_C(3600000000000));
    assert_int_equal(nic_wake_timeout_ns(UINT64_C(3600000001)), UINT64_C(3600000000000));
    assert_int_equal(nic_wake_timeout_ns(UINT64_MAX), UINT64_C(3600000000000));
}

/* Any number of signals ends one sleep. */
static void a_sleep_resets_the_signal(void **state)
{
    int fd = open_wake();
    struct pollfd one = {.fd = fd, .events = POLLIN};

    nic_wake_signal(fd);
    nic_wake_signal(fd);
    assert_true(is_signalled(fd));
    assert_int_equal(nic_wake_poll(&one, 1, nic_wake_timeout_ns(UINT64_MAX)), 0);
    assert_false(is_signalled(fd));
    close(fd);
}

/* A signal handler may wake a thread whose counter is full: errno is that of the interrupted code.
 */
static void a_signal_preserves_errno(void **state)
{
    const uint64_t full = UINT64_MAX - 1;
    int fd = open_wake();

    assert_int_equal(write(fd, &full, sizeof(full)), sizeof(full));
    errno = ENOTTY;
    nic_wake_signal(fd);
    assert_int_equal(errno, ENOTTY);
    assert_true(is_signalled(fd));
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timeouts_are_limited),
        cmocka_unit_test(a_sleep_resets_the_signal),
        cmocka_unit_test(a_signal_preserves_errno),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
