/* SPDX-License-Identifier: BSD-3-Clause */
/* How much memory this process can have at all: the machine's, or less by its control group. */
#ifndef UCACHED_MEMORY_LIMIT_H
#define UCACHED_MEMORY_LIMIT_H

#include <stdint.h>

/*
 * The smallest limit of the memory controller, in bytes, of the groups that `groups` (the file
 * /proc/self/cgroup) names and of all groups above them; `root` is where control groups are mounted
 * (/sys/fs/cgroup): version 2 there or in unified/, version 1 in memory/. UINT64_MAX: none.
 */
uint64_t memory_limit_of_groups(const char *groups, const char *root);

/*
 * The most memory in bytes that this process can use. Sets *what to what says so, for messages.
 */
uint64_t memory_limit(const char **what);

#endif
