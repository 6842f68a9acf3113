/* SPDX-License-Identifier: BSD-3-Clause */
/* Limits, background, files and users of the server process; see daemon.h. */
#define _GNU_SOURCE /* initgroups(), MCL_ONFAULT */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include "daemon.h"
#include "net/log.h"

int daemon_raise_files(uint64_t files)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur >= files)
        return 0;
    limit.rlim_cur = files;
    if (limit.rlim_max < files)
        limit.rlim_max = files;
    if (setrlimit(RLIMIT_NOFILE, &limit) == 0)
        return 0;
    net_log_error("ucached: cannot have %llu open files: %s; start as root, raise the limit "
                  "(ulimit -n), or allow fewer connections with -c",
                  (unsigned long long)files, strerror(errno));
    return -1;
}

int daemon_core_limit(void)
{
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};

    if (setrlimit(RLIMIT_CORE, &limit) < 0) {
        if (getrlimit(RLIMIT_CORE, &limit) == 0)
            limit.rlim_cur = limit.rlim_max;
        if (limit.rlim_cur == 0 || setrlimit(RLIMIT_CORE, &limit) < 0) {
            net_log_error("ucached: -r: core files are forbidden here; raise the limit");
            return -1;
        }
    }
    return 0;
}

int daemon_core_allow(void)
{
    return prctl(PR_SET_DUMPABLE, 1);
}

/*
 * Without privileges, later mappings such as thread stacks count against RLIMIT_MEMLOCK, and mmap()
 * fails beyond it. MCL_FUTURE is therefore set only if the limit can be raised.
 */
void daemon_lock_memory(void)
{
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    bool unlimited = setrlimit(RLIMIT_MEMLOCK, &limit) == 0;

    /* MCL_ONFAULT: tables are reserved large, and only pages in use are locked. */
    if (mlockall(MCL_CURRENT | MCL_ONFAULT | (unlimited ? MCL_FUTURE : 0)) < 0)
        net_log("ucached: warning: -k: cannot lock memory: %s; start as root, or raise the limit "
                "(ulimit -l unlimited, LimitMEMLOCK=infinity)",
                strerror(errno));
    else if (!unlimited)
        net_log("ucached: warning: -k: later mappings are not locked: the limit cannot "
                "be raised (ulimit -l unlimited, LimitMEMLOCK=infinity)");
}

static int detached_fd = -1; /* the child writes a byte and closes it when it has detached */

/* The foreground process waits until the child has detached or ended. */
static void wait_for_child(pid_t child, int fd)
{
    int status = 0;
    ssize_t bytes;
    char byte;

    do
        bytes = read(fd, &byte, 1);
    while (bytes < 0 && errno == EINTR);
    /* _exit(): exit handlers belong to the child. */
    if (bytes == 1)
        _exit(0);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : EX_OSERR);
}

int daemon_fork(void)
{
    int fds[2];
    pid_t child = -1;

    if (pipe2(fds, O_CLOEXEC) == 0)
        child = fork();
    if (child < 0) {
        net_log_error("ucached: cannot go to the background: %s", strerror(errno));
        return -1;
    }
    if (child > 0) {
        close(fds[1]);
        wait_for_child(child, fds[0]);
    }
    close(fds[0]);
    detached_fd = fds[1];
    return 0;
}

int daemon_detach(bool keep_stderr, bool keep_directory)
{
    ssize_t bytes;
    int null;

    null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (setsid() < 0 || (!keep_directory && chdir("/") < 0) || null < 0) {
        net_log_error("ucached: cannot go to the background: %s", strerror(errno));
        return -1;
    }
    if (dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
        (!keep_stderr && dup2(null, STDERR_FILENO) < 0)) {
        net_log_error("ucached: cannot detach from the terminal: %s", strerror(errno));
        return -1;
    }
    if (null > STDERR_FILENO)
        close(null);
    bytes = write(detached_fd, "", 1);
    close(detached_fd);
    return bytes == 1 ? 0 : -1;
}

/* ---- files ------------------------------------------------------------------------------- */

/* O_EXCL: a symbolic link in a directory of another user must not be followed. */
static int write_new(const char *path, const char *text, size_t len, const struct daemon_user *user)
{
    int fd;
    bool written;

    if (unlink(path) < 0 && errno != ENOENT)
        return -1;
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0)
        return -1;
    written = write(fd, text, len) == (ssize_t)len &&
              (!user->name || fchown(fd, user->uid, user->gid) == 0);
    return close(fd) == 0 && written ? 0 : -1;
}

int daemon_file_replace(const char *path, const char *text, size_t len,
                        const struct daemon_user *user)
{
    char temporary[PATH_MAX];
    int saved_errno;

    if (snprintf(temporary, sizeof(temporary), "%s.tmp", path) >= (int)sizeof(temporary)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if (write_new(temporary, text, len, user) == 0 && rename(temporary, path) == 0)
        return 0;
    saved_errno = errno;
    unlink(temporary);
    errno = saved_errno;
    return -1;
}

/* ---- the process id file ----------------------------------------------------------------- */

static char pidfile[PATH_MAX];

int daemon_pidfile_path(const char *path)
{
    char directory[PATH_MAX] = "";
    int len;

    if (path[0] != '/' && !getcwd(directory, sizeof(directory))) {
        net_log_error("ucached: -P: no current directory: %s", strerror(errno));
        return -1;
    }
    len = snprintf(pidfile, sizeof(pidfile), "%s%s%s", directory, directory[0] ? "/" : "", path);
    if (len >= 0 && (size_t)len < sizeof(pidfile))
        return 0;
    net_log_error("ucached: -P: the path is too long");
    return -1;
}

int daemon_pidfile_write(const struct daemon_user *user)
{
    char text[24];
    int len = snprintf(text, sizeof(text), "%ld\n", (long)getpid());

    if (daemon_file_replace(pidfile, text, (size_t)len, user) == 0)
        return 0;
    net_log_error("ucached: -P: cannot write %s: %s", pidfile, strerror(errno));
    return -1;
}

void daemon_pidfile_remove(void)
{
    /* Without root the removal may fail; the next start overwrites the file. */
    if (unlink(pidfile) < 0 && errno != ENOENT)
        net_log_error("ucached: cannot remove %s: %s", pidfile, strerror(errno));
}

/* ---- privileges -------------------------------------------------------------------------- */

int daemon_user_find(const char *name, struct daemon_user *user)
{
    const struct passwd *entry;

    user->name = NULL;
    if (!name || geteuid() != 0)
        return 0;
    entry = getpwnam(name);
    if (!entry) {
        net_log_error("ucached: -u: there is no user \"%s\"", name);
        return -1;
    }
    if (entry->pw_uid == 0)
        return 0;
    user->name = name;
    user->uid = entry->pw_uid;
    user->gid = entry->pw_gid;
    return 0;
}

int daemon_user_become(const struct daemon_user *user)
{
    if (!user->name)
        return 0;
    if (initgroups(user->name, user->gid) == 0 && setgid(user->gid) == 0 && setuid(user->uid) == 0)
        return 0;
    net_log_error("ucached: -u: cannot become \"%s\": %s", user->name, strerror(errno));
    return -1;
}
