/* SPDX-License-Identifier: BSD-3-Clause */
/* What the service manager gets, at both kinds of address. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "notify.h"

/* Binds a socket to a name, announces ready, and returns whether the datagram arrived. */
static void receives_ready(const char *name)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    char got[32];

    assert_true(fd >= 0);
    memcpy(addr.sun_path, name, strlen(name));
    if (name[0] == '@')
        addr.sun_path[0] = '\0';
    assert_int_equal(bind(fd, (const struct sockaddr *)&addr,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name))),
                     0);
    assert_int_equal(setenv("NOTIFY_SOCKET", name, 1), 0);
    assert_int_equal(notify_open(), 0);
    assert_true(notify_is_open());
    assert_int_equal(notify_ready(), 0);
    assert_int_equal(recv(fd, got, sizeof(got), 0), 7);
    assert_memory_equal(got, "READY=1", 7);
    close(fd);
}

static void test_path(void **state)
{
    char folder[] = "/tmp/ucached-notify-test-XXXXXX";
    char path[64];

    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/socket", folder);
    receives_ready(path);
    assert_int_equal(notify_ready(), -1); /* the socket is closed */
    assert_int_equal(errno, ECONNREFUSED);
    unlink(path);
    rmdir(folder);
}

static void test_abstract_name(void **state)
{
    char name[64];

    snprintf(name, sizeof(name), "@ucached-notify-test-%ld", (long)getpid());
    receives_ready(name);
}

static void test_without_a_service_manager(void **state)
{
    unsetenv("NOTIFY_SOCKET");
    assert_int_equal(notify_open(), 0);
    assert_int_equal(notify_ready(), 0);
    setenv("NOTIFY_SOCKET", "", 1);
    assert_int_equal(notify_open(), 0);
    assert_int_equal(notify_ready(), 0);
    assert_false(notify_is_open());
    assert_int_equal(notify_store("memory", 0), -1);
}

/* The time is for this process if a process is named: a child inherits both variables. */
static void test_watchdog(void **state)
{
    char pid[24];

    unsetenv("WATCHDOG_PID");
    unsetenv("WATCHDOG_USEC");
    assert_int_equal(notify_watchdog_us(), 0);
    assert_int_equal(setenv("WATCHDOG_USEC", "3000000", 1), 0);
    assert_int_equal(notify_watchdog_us(), 3000000);
    snprintf(pid, sizeof(pid), "%ld", (long)getpid());
    assert_int_equal(setenv("WATCHDOG_PID", pid, 1), 0);
    assert_int_equal(notify_watchdog_us(), 3000000);
    snprintf(pid, sizeof(pid), "%ld", (long)getppid());
    assert_int_equal(setenv("WATCHDOG_PID", pid, 1), 0);
    assert_int_equal(notify_watchdog_us(), 0);
    unsetenv("WATCHDOG_PID");
    unsetenv("WATCHDOG_USEC");
}

static void test_longest_name(void **state)
{
    char name[sizeof(((struct sockaddr_un *)0)->sun_path) + 1];

    memset(name, 'x', sizeof(name) - 1);
    name[0] = '@';
    name[sizeof(name) - 1] = '\0';
    setenv("NOTIFY_SOCKET", name, 1);
    assert_int_equal(notify_open(), -1);
    assert_int_equal(errno, ENAMETOOLONG);
    name[sizeof(name) - 2] = '\0';
    receives_ready(name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_path),
        cmocka_unit_test(test_abstract_name),
        cmocka_unit_test(test_without_a_service_manager),
        cmocka_unit_test(test_watchdog),
        cmocka_unit_test(test_longest_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
