/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The filter on system calls. See sandbox.h.
 *
 * It names what is forbidden, not what is allowed: what the C library needs from one version to the
 * next is not for us to list, and what an intruder needs is known.
 */
#define _GNU_SOURCE /* syscall() */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox.h"

#if defined(__x86_64__)
#define SANDBOX_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define SANDBOX_ARCH AUDIT_ARCH_AARCH64
#else
#define SANDBOX_ARCH 0
#endif

static const unsigned forbidden[] = {
    SYS_socket, SYS_socketpair, SYS_execve, SYS_execveat, SYS_clone, SYS_ptrace,
#ifdef SYS_fork
    SYS_fork,   SYS_vfork,
#endif
#ifdef SYS_clone3
    SYS_clone3,
#endif
};

#define FORBIDDEN_COUNT (sizeof(forbidden) / sizeof(forbidden[0]))

static struct sock_filter load(size_t offset)
{
    struct sock_filter code = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offset);

    return code;
}

/* Skips so many instructions if what was loaded is this. */
static struct sock_filter skip_if(unsigned value, unsigned skip)
{
    struct sock_filter code = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, (unsigned char)skip, 0);

    return code;
}

static struct sock_filter give(unsigned action)
{
    struct sock_filter code = BPF_STMT(BPF_RET | BPF_K, action);

    return code;
}

int sandbox_enter(void)
{
    struct sock_filter code[FORBIDDEN_COUNT + 6];
    struct sock_fprog program = {.filter = code};
    unsigned n = 0;
    size_t i;

    /* A call by the numbers of another architecture is one more way in. */
    code[n++] = load(offsetof(struct seccomp_data, arch));
    code[n++] = skip_if(SANDBOX_ARCH, 1);
    code[n++] = give(SECCOMP_RET_ERRNO | EACCES);
    code[n++] = load(offsetof(struct seccomp_data, nr));
    for (i = 0; i < FORBIDDEN_COUNT; i++)
        code[n++] = skip_if(forbidden[i], (unsigned)(FORBIDDEN_COUNT - i));
    code[n++] = give(SECCOMP_RET_ALLOW);
    code[n++] = give(SECCOMP_RET_ERRNO | EACCES);
    program.len = (unsigned short)n;
    if (SANDBOX_ARCH != 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0)
        return 0;
    fprintf(stderr, "ucached: -o drop_privileges: this system has no filter for us: %s\n",
            strerror(errno));
    return -1;
}
