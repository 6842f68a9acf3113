/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The system call filter of each back end, installed in a child process that tries forbidden and
 * allowed calls. The child's exit status is the result.
 */
#define _GNU_SOURCE /* syscall(), MAP_ANONYMOUS */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "sandbox.h"

#define X32_BIT 0x40000000

/* Statuses of the child besides 0 and errno values. */
#define NO_FILTER 200

static const struct sandbox_use all_uses[] = {
    {.syscalls = LINK_SYSCALLS_SOCKETS},
    {.syscalls = LINK_SYSCALLS_FRAMES},
    {.syscalls = LINK_SYSCALLS_XDP},
    {.syscalls = LINK_SYSCALLS_DPDK},
    {.syscalls = LINK_SYSCALLS_DPDK, .reads_files = true},
    {.syscalls = LINK_SYSCALLS_SOCKETS, .reads_files = true, .removes_files = true},
    {.syscalls = LINK_SYSCALLS_FRAMES, .serves_metrics = true},
};

struct call {
    const char *name;
    long number;
    long args[6];
};

/* The result of the call in a child with the filter: 0, an errno value, or minus a signal. */
static int outcome(const struct sandbox_use *use, const struct call *call)
{
    pid_t child = fork();
    int status;

    assert_true(child >= 0);
    if (child == 0) {
        const long *a = call->args;

        if (sandbox_enter(use) < 0)
            _exit(NO_FILTER);
        _exit(syscall(call->number, a[0], a[1], a[2], a[3], a[4], a[5]) < 0 ? errno : 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static void assert_outcome(const struct sandbox_use *use, const struct call *call, int expected)
{
    int found = outcome(use, call);

    if (found != expected)
        fail_msg("list %d: %s returns %d (%s), not %d", (int)use->syscalls, call->name, found,
                 found > 0 ? strerror(found) : "", expected);
}

static const char file_name[] = "/etc/passwd";

static void test_refused_everywhere(void **state)
{
    const struct call calls[] = {
        {"openat(O_RDWR)", SYS_openat, {AT_FDCWD, (long)file_name, O_RDWR}},
        {"openat(O_CREAT)", SYS_openat, {AT_FDCWD, (long)file_name, O_CREAT}},
        {"openat2", SYS_openat2, {AT_FDCWD, (long)file_name}},
        {"io_uring_setup", SYS_io_uring_setup, {1, 0}},
        {"io_uring_register", SYS_io_uring_register, {-1}},
        {"execve", SYS_execve, {(long)"/bin/true", 0, 0}},
        {"execveat", SYS_execveat, {-1, (long)"/bin/true", 0, 0}},
        {"ptrace", SYS_ptrace, {0}},
        {"process_vm_writev", SYS_process_vm_writev, {1}},
        {"clone", SYS_clone, {SIGCHLD}},
        {"clone3", SYS_clone3, {0, 0}},
        {"socket(AF_INET)", SYS_socket, {AF_INET, SOCK_STREAM, 0}},
        {"socket(AF_NETLINK)", SYS_socket, {AF_NETLINK, SOCK_RAW, 0}},
        {"socketpair", SYS_socketpair, {AF_UNIX, SOCK_STREAM, 0, 0}},
        {"bpf", SYS_bpf, {0}},
        {"mount", SYS_mount, {0}},
        {"setuid", SYS_setuid, {0}},
        {"capset", SYS_capset, {0}},
        {"unshare", SYS_unshare, {0}},
        {"chmod", SYS_fchmodat, {AT_FDCWD, (long)file_name, 0644}},
        {"rename", SYS_renameat, {AT_FDCWD, (long)"/no", AT_FDCWD, (long)"/no"}},
        {"mmap(PROT_EXEC)",
         SYS_mmap,
         {0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0}},
        {"mprotect(PROT_EXEC)", SYS_mprotect, {0, 4096, PROT_EXEC}},
        {"kill(1)", SYS_kill, {1, 0}},
        {"tgkill(1)", SYS_tgkill, {1, 1, 0}},
        {"prctl(PR_SET_DUMPABLE)", SYS_prctl, {PR_SET_DUMPABLE, 1}},
        {"seccomp", SYS_seccomp, {0}},
    };
    size_t i, j;

    for (i = 0; i < U_ARRAY_LEN(all_uses); i++) {
        for (j = 0; j < U_ARRAY_LEN(calls); j++)
            assert_outcome(&all_uses[i], &calls[j], EACCES);
    }
}

static void test_allowed_everywhere(void **state)
{
    static _Alignas(4096) char page[4096];
    const struct call calls[] = {
        {"getrandom", SYS_getrandom, {0, 0, 0}},
        {"mmap", SYS_mmap, {0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0}},
        {"munmap", SYS_munmap, {4096, 4096}},
        {"mremap", SYS_mremap, {(long)page, sizeof(page), sizeof(page), 0}},
        {"madvise", SYS_madvise, {0, 0, MADV_DONTNEED}},
        {"write", SYS_write, {STDERR_FILENO, (long)"", 0}},
        {"sched_yield", SYS_sched_yield, {0}},
        {"prctl(PR_SET_TIMERSLACK)", SYS_prctl, {PR_SET_TIMERSLACK, 1000}},
    };
    size_t i, j;

    for (i = 0; i < U_ARRAY_LEN(all_uses); i++) {
        for (j = 0; j < U_ARRAY_LEN(calls); j++)
            assert_outcome(&all_uses[i], &calls[j], 0);
    }
}

/* A call through another ABI does not bypass the filter. */
static void test_other_abi(void **state)
{
#if defined(__x86_64__)
    const struct call x32 = {"x32 getpid", X32_BIT | SYS_getpid, {0}};
    size_t i;

    for (i = 0; i < U_ARRAY_LEN(all_uses); i++)
        assert_outcome(&all_uses[i], &x32, -SIGSYS);
#else
    print_message("x32 is an ABI of x86-64\n");
#endif
}

/* Calls of kernel sockets are forbidden on the own stack, and vice versa. */
static void test_by_back_end(void **state)
{
    const struct call accept_call = {"accept4", SYS_accept4, {-1, 0, 0, 0}};
    const struct call enter_call = {"io_uring_enter", SYS_io_uring_enter, {-1, 0, 0, 0, 0, 0}};
    const struct call ethtool_call = {"ioctl(SIOCETHTOOL)", SYS_ioctl, {-1, 0x8946, 0}};
    const struct call tun_call = {"ioctl(TUNSETIFF)", SYS_ioctl, {-1, 0x400454ca, 0}};
    const struct call unix_call = {"socket(AF_UNIX)", SYS_socket, {AF_UNIX, SOCK_STREAM, 0}};
    const struct sandbox_use sock = {.syscalls = LINK_SYSCALLS_SOCKETS},
                             tap = {.syscalls = LINK_SYSCALLS_FRAMES},
                             xdp = {.syscalls = LINK_SYSCALLS_XDP},
                             dpdk = {.syscalls = LINK_SYSCALLS_DPDK};

    assert_outcome(&sock, &accept_call, EBADF);
    assert_outcome(&sock, &enter_call, EBADF);
    assert_outcome(&tap, &accept_call, EACCES);
    assert_outcome(&tap, &enter_call, EACCES);
    assert_outcome(&xdp, &accept_call, EACCES);
    assert_outcome(&sock, &ethtool_call, EACCES);
    assert_outcome(&tap, &ethtool_call, EACCES);
    assert_outcome(&xdp, &ethtool_call, EBADF);
    assert_outcome(&xdp, &tun_call, EACCES);
    assert_outcome(&dpdk, &unix_call, 0);
    assert_outcome(&sock, &unix_call, EACCES);
    assert_outcome(&xdp, &unix_call, EACCES);
}

/* Reading files (-Y) and removing them (-P) are allowed only with these options. */
static void test_files(void **state)
{
    const struct call open_call = {
        "openat(O_RDONLY)", SYS_openat, {AT_FDCWD, (long)file_name, O_RDONLY}};
    const struct call unlink_call = {"unlinkat", SYS_unlinkat, {AT_FDCWD, (long)"/no/such", 0}};
    const struct sandbox_use none = {.syscalls = LINK_SYSCALLS_SOCKETS},
                             reads = {.syscalls = LINK_SYSCALLS_SOCKETS, .reads_files = true},
                             removes = {.syscalls = LINK_SYSCALLS_FRAMES, .removes_files = true};

    assert_outcome(&none, &open_call, EACCES);
    assert_outcome(&reads, &open_call, 0);
    assert_outcome(&removes, &open_call, EACCES);
    assert_outcome(&none, &unlink_call, EACCES);
    assert_outcome(&removes, &unlink_call, ENOENT);
}

static int has_filter(void **state)
{
    const struct call none = {"getpid", SYS_getpid, {0}};

    if (getenv("UCACHED_VALGRIND")) {
        print_message("skipped: valgrind does not know seccomp()\n");
        exit(0);
    }
    if (sandbox_is_built() && outcome(&all_uses[0], &none) != NO_FILTER)
        return 0;
    print_message("skipped: no filter on system calls in this build or kernel\n");
    exit(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused_everywhere),
        cmocka_unit_test(test_allowed_everywhere),
        cmocka_unit_test(test_other_abi),
        cmocka_unit_test(test_by_back_end),
        cmocka_unit_test(test_files),
    };

    return cmocka_run_group_tests(tests, has_filter, NULL);
}
