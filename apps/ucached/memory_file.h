/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file of -e, or the memory of --fd-store, whose items outlive the process. A file belongs to
 * one server at a time, by a lock, and only its user may access it. src/kv/file.h has the content.
 */
#ifndef UCACHED_MEMORY_FILE_H
#define UCACHED_MEMORY_FILE_H

#include "cache/cache.h"
#include "daemon.h"

struct memory_file {
    const char *path; /* null: none; of memory without a name MEMORY_FILE_STORED or TAKEOVER */
    int fd;           /* -1: not open */
};

#define MEMORY_FILE_STORED "(fd-store)" /* as `stats settings` shows it */
#define MEMORY_FILE_TAKEOVER "(takeover)"

/*
 * Opens, or creates, and locks the file; it belongs to the user of the server from then on. Returns
 * 0, or -1 after a message.
 */
int memory_file_open(struct memory_file *file, const char *path, const struct daemon_user *user);

/*
 * The same for memory that is open: that of the previous process, or new memory without a name if
 * `fd` is -1. It belongs to the file, also on failure; `path` is shown.
 */
int memory_file_adopt(struct memory_file *file, const char *path, int fd,
                      const struct daemon_user *user);

/* Prints one line: what was restored, or why nothing was. */
void memory_file_print(const struct memory_file *file, const struct kv_restored *restored,
                       uint64_t now_unix_s);

/* Saves the items and prints one line. All workers have left the cache. */
void memory_file_save(const struct memory_file *file, struct cache *cache, uint64_t now_us,
                      uint64_t now_unix_s);

/* Closes the file, if it is open. */
void memory_file_close(struct memory_file *file);

#endif
