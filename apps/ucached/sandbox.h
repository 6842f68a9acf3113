/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The system call filter (seccomp): a running server can make only the calls that its back end
 * needs; see the table in docs/administration.md.
 */
#ifndef UCACHED_SANDBOX_H
#define UCACHED_SANDBOX_H

#include <stdbool.h>

#include "common/backend.h"

/* What a server does while it serves and when it ends. */
struct sandbox_use {
    enum link_syscalls syscalls; /* of the back end */
    bool reads_files;            /* -Y, -o cluster_file on SIGHUP; drivers that read /sys */
    bool memory_file;            /* -e */
    bool removes_files;          /* -P with -d */
    bool serves_metrics;         /* --metrics */
    bool offers_takeover;        /* --takeover */
};

/*
 * Whether this build has the filter (libseccomp), and whether it is on by default (not with
 * sanitizers).
 */
bool sandbox_is_built(void);
bool sandbox_is_default(void);

/*
 * Installs the filter permanently in all threads: other calls fail with EACCES and are logged by
 * the kernel; a call through another ABI (x32, i386) ends the process. Called after everything is
 * open and all threads run. Returns 0, or a negative errno value.
 */
int sandbox_enter(const struct sandbox_use *use);

#endif
