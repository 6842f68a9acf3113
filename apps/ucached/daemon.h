/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server process: limits, background, process id file, user. Functions return 0, or -1 after a
 * message on stderr that says what to do.
 */
#ifndef UCACHED_DAEMON_H
#define UCACHED_DAEMON_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Raises the limit of file descriptors. */
int daemon_raise_files(uint64_t files);

/*
 * Core files. daemon_core_limit() allows any size, or the largest that this user may have; called
 * with the privileges of the start. daemon_core_allow() enables them again after a change of the
 * user, which disables them.
 */
int daemon_core_limit(void);
int daemon_core_allow(void);

/*
 * Locks pages into memory when they are first touched: of present mappings, and of later ones if
 * RLIMIT_MEMLOCK can be raised. Only warns on failure.
 */
void daemon_lock_memory(void);

/*
 * Forks and returns in the child. The parent stays in the foreground and exits with 0 after the
 * child has called daemon_detach(), or with the child's status if the child ends before. So the
 * child may start threads, and failures are visible in the meantime. No thread may run yet.
 */
int daemon_fork(void);

/*
 * Detaches the child of daemon_fork() from the terminal. Standard streams go to /dev/null, stderr
 * only without `keep_stderr`. The working directory becomes the root, unless it is kept for core
 * files.
 */
int daemon_detach(bool keep_stderr, bool keep_directory);

/* The user to run as: another one only if requested and the process is root. */
struct daemon_user {
    const char *name; /* null: keep the current user */
    uid_t uid;
    gid_t gid;
};

/* Looks up a user. Without a name, or if the process is not root, the current user is kept. */
int daemon_user_find(const char *name, struct daemon_user *user);

/* Changes permanently to this user and its groups. */
int daemon_user_become(const struct daemon_user *user);

/*
 * Creates or replaces a file atomically; it belongs to `user`. A symbolic link of this name is
 * replaced, not followed. Returns 0, or -1 with errno and without a message.
 */
int daemon_file_replace(const char *path, const char *text, size_t len,
                        const struct daemon_user *user);

/*
 * The process id file. daemon_pidfile_path() must be called before daemon_detach() changes the
 * directory. daemon_pidfile_write() creates the file atomically; it belongs to `user`, so that the
 * process can remove it at the end if the directory allows that. A server without the file still
 * serves: -1 is no reason to end.
 */
int daemon_pidfile_path(const char *path);
int daemon_pidfile_write(const struct daemon_user *user);
void daemon_pidfile_remove(void);

#endif
