/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Dropping capabilities. After the device or the sockets are open, the process needs none, or only
 * those that restore the device at the end; see the table in docs/administration.md.
 */
#ifndef UCACHED_PRIVILEGES_H
#define UCACHED_PRIVILEGES_H

#include <stdint.h>

#include "daemon.h"

/*
 * Changes to `user` and drops the capabilities of all threads: the effective, permitted,
 * inheritable, ambient and, if allowed, bounding sets become empty, and no_new_privs is set. The
 * calling thread keeps its capabilities in `kept`, as bits 1 << CAP_... Returns 0, or -1 after a
 * message.
 */
int privileges_drop(const struct daemon_user *user, uint64_t kept);

/*
 * Drop the capabilities of the calling thread, or of all other threads, that were inherited from
 * the caller of privileges_drop(). privileges_drop_others() returns 0, or -1 if a thread does not
 * respond.
 */
void privileges_drop_thread(void);
int privileges_drop_others(void);

#endif
