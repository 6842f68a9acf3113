/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a server process does with itself: limits, background, process id file, privileges. Each
 * function returns 0, or -1 after a message on stderr that says what to do.
 */
#ifndef UCACHED_DAEMON_H
#define UCACHED_DAEMON_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Makes room for so many file descriptors. */
int daemon_raise_files(uint64_t files);

/*
 * Allows core files of any size, or of the largest that this user may have. Comes after
 * daemon_user_become(), which forbids them.
 */
int daemon_core_dumps(void);

/* Keeps memory from being swapped out, from its first use on. Only warns if that is not allowed. */
void daemon_lock_memory(void);

/*
 * Goes on in a child. The caller's process stays in the foreground, waits and exits: with 0 once
 * the child has called daemon_detach(), with the child's status if that ends before. So what is
 * opened in between may start threads and its failures are seen. No thread may run yet.
 */
int daemon_fork(void);

/*
 * The child of daemon_fork() lets go of the terminal. Standard streams go to /dev/null, stderr
 * only if `keep_stderr` is false. The working directory becomes the root unless it shall receive
 * core files.
 */
int daemon_detach(bool keep_stderr, bool keep_directory);

/* Whom to become: the process's own user unless another one was asked for and we are root. */
struct daemon_user {
    const char *name; /* null: stay who we are */
    uid_t uid;
    gid_t gid;
};

/* Looks a user up; null, or anybody if we are not root, means to stay. */
int daemon_user_find(const char *name, struct daemon_user *user);

/* Becomes this user for good, with its groups. */
int daemon_user_become(const struct daemon_user *user);

/*
 * The process id file. path: to be called before daemon_detach() changes the directory. write:
 * the file is visible at once or not at all, and belongs to `user`, so that the process may remove
 * it in the end where the directory allows. A server without one still serves: -1 is no reason to
 * end.
 */
int daemon_pidfile_path(const char *path);
int daemon_pidfile_write(const struct daemon_user *user);
void daemon_pidfile_remove(void);

#endif
