/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The system call filter, a list of allowed calls; see sandbox.h.
 *
 * Other calls fail instead of ending the process: a rare call by the C library or a driver then
 * causes an error message, not the loss of all items. The restriction of an intruder is the same.
 */
#include "sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/base.h"

/* Calls of every server: descriptors, memory, time, threads, statistics, exit. */
static const int common_calls[] = {
    SCMP_SYS(read),
    SCMP_SYS(write),
    SCMP_SYS(writev), /* stderr */
    SCMP_SYS(close),
    SCMP_SYS(poll),
    SCMP_SYS(ppoll),
    SCMP_SYS(futex),
    SCMP_SYS(munmap),
    SCMP_SYS(mremap), /* realloc() */
    SCMP_SYS(madvise),
    SCMP_SYS(brk),
    SCMP_SYS(mbind),
    SCMP_SYS(set_mempolicy),
    SCMP_SYS(sched_yield),
    SCMP_SYS(sched_getaffinity),
    SCMP_SYS(sched_setaffinity),
    SCMP_SYS(sched_setscheduler),
    SCMP_SYS(nanosleep),
    SCMP_SYS(clock_nanosleep),
    SCMP_SYS(clock_gettime), /* these three if the vDSO cannot be used */
    SCMP_SYS(gettimeofday),
    SCMP_SYS(time),
    SCMP_SYS(restart_syscall),
    SCMP_SYS(getrandom),
    SCMP_SYS(getrusage),
    SCMP_SYS(getpid),
    SCMP_SYS(gettid),
    SCMP_SYS(rt_sigaction), /* abort() */
    SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(rt_sigreturn),
    SCMP_SYS(sigaltstack),
    SCMP_SYS(set_robust_list), /* start and end of a thread */
    SCMP_SYS(rseq),
    SCMP_SYS(exit),
    SCMP_SYS(exit_group),
};

static const int file_calls[] = {SCMP_SYS(fstat), SCMP_SYS(newfstatat), SCMP_SYS(lseek)};

/* The file of -e: its memory is mapped before. */
static const int memory_file_calls[] = {SCMP_SYS(fallocate), SCMP_SYS(fstat), SCMP_SYS(newfstatat),
                                        SCMP_SYS(fsync),     SCMP_SYS(msync), SCMP_SYS(utimensat)};

static const int remove_calls[] = {SCMP_SYS(unlink), SCMP_SYS(unlinkat)};

/* Kernel sockets, by epoll or io_uring, whose rings are restricted (src/net/sock_uring.c). */
static const int sock_calls[] = {
    SCMP_SYS(epoll_wait),  SCMP_SYS(epoll_pwait), SCMP_SYS(epoll_ctl),  SCMP_SYS(io_uring_enter),
    SCMP_SYS(accept4),     SCMP_SYS(recvfrom),    SCMP_SYS(recvmsg),    SCMP_SYS(recvmmsg),
    SCMP_SYS(sendto),      SCMP_SYS(sendmsg),     SCMP_SYS(sendmmsg),   SCMP_SYS(readv),
    SCMP_SYS(shutdown),    SCMP_SYS(setsockopt),  SCMP_SYS(getsockopt), SCMP_SYS(getsockname),
    SCMP_SYS(getpeername), SCMP_SYS(fcntl),
};

/* TAP frames use read() and write(); --trace truncates an incomplete record. */
static const int stack_calls[] = {SCMP_SYS(ftruncate)};

static const int xdp_calls[] = {SCMP_SYS(recvfrom), SCMP_SYS(sendto), SCMP_SYS(getsockopt),
                                SCMP_SYS(setsockopt)};

/*
 * DPDK's interrupts, alarms and shared memory; net_vhost and net_memif have unix sockets. A thread
 * that registers with DPDK finds its NUMA node by access(), and net_memif looks at the folder of
 * its socket when it is opened again.
 */
static const int dpdk_calls[] = {
    SCMP_SYS(epoll_wait),    SCMP_SYS(epoll_pwait),  SCMP_SYS(epoll_ctl),
    SCMP_SYS(epoll_create1), SCMP_SYS(epoll_create), SCMP_SYS(access),
    SCMP_SYS(faccessat),     SCMP_SYS(eventfd2),     SCMP_SYS(timerfd_settime),
    SCMP_SYS(ioctl),         SCMP_SYS(fcntl),        SCMP_SYS(accept),
    SCMP_SYS(accept4),       SCMP_SYS(connect),      SCMP_SYS(bind),
    SCMP_SYS(listen),        SCMP_SYS(recvfrom),     SCMP_SYS(recvmsg),
    SCMP_SYS(sendto),        SCMP_SYS(sendmsg),      SCMP_SYS(readv),
    SCMP_SYS(shutdown),      SCMP_SYS(setsockopt),   SCMP_SYS(getsockopt),
    SCMP_SYS(getsockname),   SCMP_SYS(getpeername),  SCMP_SYS(memfd_create),
    SCMP_SYS(ftruncate),     SCMP_SYS(fallocate),    SCMP_SYS(fstat),
    SCMP_SYS(newfstatat),    SCMP_SYS(fstatfs),      SCMP_SYS(unlink),
    SCMP_SYS(pread64),       SCMP_SYS(pwrite64),     SCMP_SYS(get_mempolicy),
    SCMP_SYS(faccessat2),
};

/* The HTTP server of --metrics. */
static const int metrics_calls[] = {
    SCMP_SYS(epoll_wait), SCMP_SYS(epoll_pwait), SCMP_SYS(epoll_ctl),   SCMP_SYS(accept4),
    SCMP_SYS(recvfrom),   SCMP_SYS(sendto),      SCMP_SYS(sendmsg),     SCMP_SYS(shutdown),
    SCMP_SYS(setsockopt), SCMP_SYS(getsockopt),  SCMP_SYS(getsockname), SCMP_SYS(fcntl),
};

/* Handing over to another process. */
static const int takeover_calls[] = {SCMP_SYS(accept4), SCMP_SYS(recvmsg), SCMP_SYS(sendmsg),
                                     SCMP_SYS(setsockopt), SCMP_SYS(getsockopt)};

#define SIOCGIFNAME_CODE 0x8910 /* linux/sockios.h conflicts with glibc's headers */
#define SIOCGIFFLAGS_CODE 0x8913
#define SIOCGIFMTU_CODE 0x8921
#define SIOCETHTOOL_CODE 0x8946

static int allow_all(scmp_filter_ctx ctx, const int *calls, size_t count)
{
    size_t i;
    int rc = 0;

    for (i = 0; i < count && rc == 0; i++)
        rc = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, calls[i], 0);
    return rc;
}

#define ALLOW(ctx, calls) allow_all(ctx, calls, U_ARRAY_LEN(calls))

/* Allows a call if argument `number`, masked by `mask`, is `value`. */
static int allow_if(scmp_filter_ctx ctx, int call, unsigned number, uint64_t mask, uint64_t value)
{
    const struct scmp_arg_cmp compare = {
        .arg = number, .op = SCMP_CMP_MASKED_EQ, .datum_a = mask, .datum_b = value};

    return seccomp_rule_add_array(ctx, SCMP_ACT_ALLOW, call, 1, &compare);
}

#define ALL_BITS 0xffffffffu

/* Calls that are allowed with some arguments only. */
static int allow_common_arguments(scmp_filter_ctx ctx)
{
    uint64_t pid = (uint64_t)getpid();
    int rc = allow_if(ctx, SCMP_SYS(mmap), 2, PROT_EXEC, 0);

    if (rc == 0)
        rc = allow_if(ctx, SCMP_SYS(mprotect), 2, PROT_EXEC, 0);
    if (rc == 0)
        rc = allow_if(ctx, SCMP_SYS(prctl), 0, ALL_BITS, PR_SET_TIMERSLACK);
    if (rc == 0)
        rc = allow_if(ctx, SCMP_SYS(prctl), 0, ALL_BITS, PR_SET_NAME);
    /* The command shutdown, abort(). */
    if (rc == 0)
        rc = allow_if(ctx, SCMP_SYS(kill), 0, ALL_BITS, pid);
    return rc == 0 ? allow_if(ctx, SCMP_SYS(tgkill), 0, ALL_BITS, pid) : rc;
}

static int allow_reading(scmp_filter_ctx ctx)
{
    int rc = ALLOW(ctx, file_calls);

    return rc == 0 ? allow_if(ctx, SCMP_SYS(openat), 2, O_ACCMODE | O_CREAT | O_TRUNC, O_RDONLY)
                   : rc;
}

static int allow_xdp(scmp_filter_ctx ctx)
{
    static const unsigned codes[] = {SIOCGIFNAME_CODE, SIOCGIFFLAGS_CODE, SIOCGIFMTU_CODE,
                                     SIOCETHTOOL_CODE};
    int rc = ALLOW(ctx, xdp_calls);
    size_t i;

    for (i = 0; i < U_ARRAY_LEN(codes) && rc == 0; i++)
        rc = allow_if(ctx, SCMP_SYS(ioctl), 1, ALL_BITS, codes[i]);
    return rc;
}

static int allow_dpdk(scmp_filter_ctx ctx)
{
    int rc = ALLOW(ctx, dpdk_calls);

    return rc == 0 ? allow_if(ctx, SCMP_SYS(socket), 0, ALL_BITS, AF_UNIX) : rc;
}

static int allow_back_end(scmp_filter_ctx ctx, enum link_syscalls syscalls)
{
    int rc;

    if (syscalls == LINK_SYSCALLS_SOCKETS)
        return ALLOW(ctx, sock_calls);
    rc = ALLOW(ctx, stack_calls);
    if (rc == 0 && syscalls == LINK_SYSCALLS_XDP)
        rc = allow_xdp(ctx);
    if (rc == 0 && syscalls == LINK_SYSCALLS_DPDK)
        rc = allow_dpdk(ctx);
    return rc;
}

static int fill(scmp_filter_ctx ctx, const struct sandbox_use *use)
{
    int rc = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_TSYNC, 1);

    if (rc == 0)
        rc = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    /* Optional: older versions of libseccomp or the kernel lack them. */
    (void)seccomp_attr_set(ctx, SCMP_FLTATR_CTL_LOG, 1);
    (void)seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    if (rc == 0)
        rc = ALLOW(ctx, common_calls);
    if (rc == 0)
        rc = allow_common_arguments(ctx);
    if (rc == 0)
        rc = allow_back_end(ctx, use->syscalls);
    if (rc == 0 && use->reads_files)
        rc = allow_reading(ctx);
    if (rc == 0 && use->memory_file)
        rc = ALLOW(ctx, memory_file_calls);
    if (rc == 0 && use->serves_metrics)
        rc = ALLOW(ctx, metrics_calls);
    if (rc == 0 && use->offers_takeover)
        rc = ALLOW(ctx, takeover_calls);
    return rc == 0 && use->removes_files ? ALLOW(ctx, remove_calls) : rc;
}

bool sandbox_is_built(void)
{
    return true;
}

bool sandbox_is_default(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return false; /* sanitizers start a process for leak detection */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
    return false;
#else
    return true;
#endif
#else
    return true;
#endif
}

int sandbox_enter(const struct sandbox_use *use)
{
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(EACCES));
    int rc;

    if (!ctx)
        return -ENOMEM;
    rc = fill(ctx, use);
    if (rc == 0)
        rc = seccomp_load(ctx);
    seccomp_release(ctx);
    return rc;
}
