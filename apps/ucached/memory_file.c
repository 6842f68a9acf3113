/* SPDX-License-Identifier: BSD-3-Clause */
/* The file of -e; see memory_file.h. */
#define _GNU_SOURCE /* memfd_create() */
#include "memory_file.h"
#include "net/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TIME_TEXT_MAX 32

static int fail(const char *path, const char *why)
{
    net_log_error("ucached: -e %s: %s", path, why);
    return -1;
}

/*
 * memcached keeps its state in FILE.meta, refuses an empty one, and removes it when it has read it.
 * A remaining one would make memcached take the file for its own later.
 */
static int check_meta(const char *path)
{
    char meta[PATH_MAX];
    struct stat file;

    if (snprintf(meta, sizeof(meta), "%s.meta", path) >= (int)sizeof(meta))
        return fail(path, strerror(ENAMETOOLONG));
    if (stat(meta, &file) < 0 || !S_ISREG(file.st_mode))
        return 0;
    if (file.st_size == 0)
        return fail(meta, "the file is empty, so memcached did not finish saving: remove it");
    net_log("ucached: note: -e: removing %s, which memcached has left", meta);
    return unlink(meta) == 0 ? 0 : fail(meta, strerror(errno));
}

/* Makes the file accessible to the user of the server only. */
static int own(int fd, const char *path, const struct daemon_user *user)
{
    uid_t uid = user->name ? user->uid : geteuid();
    struct stat file;

    if (fstat(fd, &file) < 0)
        return fail(path, strerror(errno));
    if (!S_ISREG(file.st_mode))
        return fail(path, "this is not a regular file");
    if (file.st_uid != uid && fchown(fd, uid, user->name ? user->gid : (gid_t)-1) < 0)
        return fail(path, "the file belongs to another user: remove it, or name another one");
    if ((file.st_mode & 07777) != 0600 && fchmod(fd, 0600) < 0)
        return fail(path, strerror(errno));
    return 0;
}

int memory_file_open(struct memory_file *file, const char *path, const struct daemon_user *user)
{
    file->path = path;
    if (check_meta(path) < 0)
        return -1;
    file->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);
    if (file->fd < 0)
        return fail(path, strerror(errno));
    if (flock(file->fd, LOCK_EX | LOCK_NB) < 0)
        return fail(path, errno == EWOULDBLOCK ? "another server uses the file" : strerror(errno));
    return own(file->fd, path, user);
}

int memory_file_adopt(struct memory_file *file, const char *path, int fd,
                      const struct daemon_user *user)
{
    file->path = path;
    file->fd = fd >= 0 ? fd : memfd_create("ucached", MFD_CLOEXEC);
    if (file->fd < 0)
        return fail(file->path, strerror(errno));
    return own(file->fd, file->path, user);
}

static void time_text(uint64_t unix_s, char text[TIME_TEXT_MAX])
{
    time_t at = (time_t)unix_s;
    struct tm parts;

    if (!gmtime_r(&at, &parts) ||
        strftime(text, TIME_TEXT_MAX, "%Y-%m-%d %H:%M:%S UTC", &parts) == 0)
        snprintf(text, TIME_TEXT_MAX, "%llu", (unsigned long long)unix_s);
}

void memory_file_print(const struct memory_file *file, const struct kv_restored *restored,
                       uint64_t now_unix_s)
{
    char saved[TIME_TEXT_MAX];

    if (!restored->restored) {
        net_log("ucached: -e %s: %s%s", file->path,
                restored->why_not ? "no items restored: " : "new file",
                restored->why_not ? restored->why_not : "");
        return;
    }
    time_text(restored->saved.unix_s, saved);
    net_log("ucached: -e %s: restored %llu items (%llu bytes), saved %s", file->path,
            (unsigned long long)restored->items, (unsigned long long)restored->bytes, saved);
    if (now_unix_s < restored->saved.unix_s)
        net_log("ucached: warning: -e %s: the system's clock went back: the time that the server "
                "was stopped does not count for times to live",
                file->path);
}

void memory_file_save(const struct memory_file *file, struct cache *cache, uint64_t now_us,
                      uint64_t now_unix_s)
{
    const char *error = cache_save(cache, now_us, now_unix_s);
    struct stat now;

    if (error)
        net_log_error("ucached: -e %s: the items are lost: %s", file->path, error);
    else if (fstat(file->fd, &now) == 0)
        net_log("ucached: -e %s: saved; the file takes %llu MB of its file system", file->path,
                (unsigned long long)now.st_blocks * 512 >> 20);
}

void memory_file_close(struct memory_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
}
