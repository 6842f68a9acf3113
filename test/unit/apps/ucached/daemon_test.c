/* SPDX-License-Identifier: BSD-3-Clause */
/* Limits, background and files of the server process, as far as a test can change its own. */
#define _GNU_SOURCE /* syscall() */
#include <grp.h>
#include <linux/capability.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon.h"

static char directory[64];
static char path[128];
static const struct daemon_user nobody_else = {0};

static int setup(void **state)
{
    snprintf(directory, sizeof(directory), "/tmp/ucached-daemon-test-XXXXXX");
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof(path), "%s/pid", directory);
    return 0;
}

static int teardown(void **state)
{
    unlink(path);
    assert_int_equal(rmdir(directory), 0); /* no other file was left behind */
    return 0;
}

/* Waits for a file with a process id and returns it. */
static long read_pid(void)
{
    char text[32] = "";
    char expected[32];
    unsigned i;
    long pid = 0;
    FILE *file;

    for (i = 0; i < 12000; i++) {
        file = fopen(path, "r");
        if (file)
            break;
        usleep(5000);
    }
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof(text), file));
    fclose(file);
    pid = strtol(text, NULL, 10);
    snprintf(expected, sizeof(expected), "%ld\n", pid);
    assert_string_equal(text, expected);
    return pid;
}

static void test_pidfile(void **state)
{
    assert_int_equal(daemon_pidfile_path(path), 0);
    assert_int_equal(daemon_pidfile_write(&nobody_else), 0);
    assert_int_equal(read_pid(), getpid());
    assert_int_equal(daemon_pidfile_write(&nobody_else), 0); /* over an old one */
    daemon_pidfile_remove();
    assert_int_equal(access(path, F_OK), -1);
}

/* A symbolic link is replaced, not followed. */
static void test_pidfile_link(void **state)
{
    char temporary[140];
    char victim[140];
    struct stat st;

    snprintf(temporary, sizeof(temporary), "%s.tmp", path);
    snprintf(victim, sizeof(victim), "%s/victim", directory);
    assert_int_equal(symlink(victim, temporary), 0);
    assert_int_equal(daemon_pidfile_path(path), 0);
    assert_int_equal(daemon_pidfile_write(&nobody_else), 0);
    assert_int_equal(lstat(victim, &st), -1);
    assert_int_equal(lstat(path, &st), 0);
    assert_true(S_ISREG(st.st_mode));
}

/* If the temporary file cannot be renamed to the pidfile, it is removed. */
static void test_pidfile_folder_in_the_way(void **state)
{
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(daemon_pidfile_path(path), 0);
    assert_int_equal(daemon_pidfile_write(&nobody_else), -1);
    assert_int_equal(rmdir(path), 0);
}

static void test_pidfile_mistakes(void **state)
{
    static char too_long[8192];

    assert_int_equal(daemon_pidfile_path("/nowhere/at/all/pid"), 0);
    assert_int_equal(daemon_pidfile_write(&nobody_else), -1);
    memset(too_long, 'a', sizeof(too_long) - 1);
    assert_int_equal(daemon_pidfile_path(too_long), -1);
}

/* A relative path refers to the directory in which the server was started. */
static void test_detach(void **state)
{
    pid_t child = fork();
    int status;
    char cwd[512];

    assert_true(child >= 0);
    if (child == 0) {
        if (chdir(directory) == 0 && daemon_pidfile_path("pid") == 0 && daemon_fork() == 0 &&
            daemon_detach(false, false) == 0 && getcwd(cwd, sizeof(cwd)) && strcmp(cwd, "/") == 0 &&
            getsid(0) == getpid())
            daemon_pidfile_write(&nobody_else);
        _exit(7);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_not_equal(read_pid(), child);
}

/* A failure before the child has detached determines the exit status of the parent. */
static void test_detach_fails(void **state)
{
    pid_t child = fork();
    int status;

    assert_true(child >= 0);
    if (child == 0)
        _exit(daemon_fork() == 0 ? 42 : 7);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 42);
}

static void test_files(void **state)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(daemon_raise_files(1), 0);
    assert_int_equal(daemon_raise_files(limit.rlim_max), 0);
    assert_int_equal(daemon_raise_files(UINT64_C(1) << 40), -1);
}

enum { NO_RIGHT = 7 };

/* Locks its memory with a limit that cannot be raised, and the right to exceed it. */
static void lock_below_a_limit(int fd)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {
        {.effective = 1u << CAP_IPC_LOCK, .permitted = 1u << CAP_IPC_LOCK}};
    struct rlimit limit;

    if (getrlimit(RLIMIT_MEMLOCK, &limit) < 0)
        _exit(NO_RIGHT);
    limit.rlim_cur = limit.rlim_max = limit.rlim_max == RLIM_INFINITY ? 1 << 20 : limit.rlim_max;
    if (setrlimit(RLIMIT_MEMLOCK, &limit) < 0 || dup2(fd, STDERR_FILENO) < 0 ||
        syscall(SYS_capset, &header, data) < 0)
        _exit(NO_RIGHT);
    daemon_lock_memory();
    _exit(0);
}

/* The user learns which memory is not locked, and how to have it locked. */
static void test_lock_memory(void **state)
{
    char text[512] = "";
    int fds[2];
    int status;
    pid_t child;

    assert_int_equal(pipe(fds), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0)
        lock_below_a_limit(fds[1]);
    close(fds[1]);
    assert_true(read(fds[0], text, sizeof(text) - 1) >= 0);
    close(fds[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == NO_RIGHT) /* not root, or root of a container */
        return;
    assert_string_equal(text,
                        "ucached: warning: -k: later mappings are not locked: the limit cannot "
                        "be raised (ulimit -l unlimited, LimitMEMLOCK=infinity)\n");
}

/* Becomes a user with a further group, which is none of the user's. Exits. */
static void become_with_group(const struct daemon_user *user, gid_t group)
{
    gid_t groups[64];
    int count, i;

    if (setgroups(1, &group) < 0)
        _exit(NO_RIGHT);
    if (daemon_user_become(user) < 0)
        _exit(2);
    count = getgroups(64, groups);
    for (i = 0; i < count; i++) {
        if (groups[i] == group)
            _exit(1);
    }
    _exit(getuid() == user->uid && getgid() == user->gid ? 0 : 3);
}

/* A user has neither the groups of root nor those that root was started with. */
static void test_groups(void **state)
{
    struct daemon_user user;
    int status;
    pid_t child;

    if (geteuid() != 0)
        return;
    assert_int_equal(daemon_user_find("nobody", &user), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0)
        become_with_group(&user, user.gid - 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) != NO_RIGHT) /* root of a container that has no such group */
        assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_user(void **state)
{
    struct daemon_user user = {.name = "before"};

    assert_int_equal(daemon_user_find(NULL, &user), 0);
    assert_null(user.name);
    assert_int_equal(daemon_user_find("root", &user), 0);
    assert_null(user.name); /* root already, or not permitted */
    assert_int_equal(daemon_user_become(&user), 0);
    if (geteuid() != 0)
        return;
    assert_int_equal(daemon_user_find("no such user", &user), -1);
    assert_int_equal(daemon_user_find("nobody", &user), 0);
    assert_string_equal(user.name, "nobody");
    assert_int_not_equal(user.uid, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_pidfile, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pidfile_link, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pidfile_folder_in_the_way, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pidfile_mistakes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_detach, setup, teardown),
        cmocka_unit_test(test_detach_fails),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_lock_memory),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_user),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
