/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the limits of the control group; see memory_limit.h. */
#include "memory_limit.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"

/* A limit file's number; UINT64_MAX for "max", or if there is none. */
static uint64_t read_limit(const char *path)
{
    unsigned long long bytes;
    FILE *file = fopen(path, "re");
    bool found = file && fscanf(file, "%llu", &bytes) == 1;

    if (file)
        fclose(file);
    return found ? bytes : UINT64_MAX;
}

/* The smallest limit of a group and of those above it. Shortens `group`. */
static uint64_t read_up(const char *mount, char *group, const char *name)
{
    char path[PATH_MAX];
    uint64_t least = UINT64_MAX;
    char *end;

    for (;;) {
        if ((size_t)snprintf(path, sizeof(path), "%s%s/%s", mount, group, name) < sizeof(path))
            least = u_min64(least, read_limit(path));
        end = strrchr(group, '/');
        if (!end)
            return least;
        *end = '\0';
    }
}

/* Where control groups are mounted, below the root, and the file with the limit. */
static const struct {
    const char *mount;
    bool is_v2;
    const char *file;
} places[] = {{"", true, "memory.max"},
              {"/unified", true, "memory.max"},
              {"/memory", false, "memory.limit_in_bytes"}};

/* A line of /proc/self/cgroup: "0::/group", or "4:cpu,memory:/group" of version 1. */
static uint64_t read_group(char *line, const char *root)
{
    char mount[PATH_MAX], group[PATH_MAX];
    char *controllers = strchr(line, ':');
    char *path = controllers ? strchr(controllers + 1, ':') : NULL;
    uint64_t least = UINT64_MAX;
    bool is_v2;
    size_t i;

    if (!path)
        return least;
    is_v2 = path == controllers + 1;
    *path++ = '\0';
    path[strcspn(path, "\n")] = '\0';
    for (i = 0; i < U_ARRAY_LEN(places); i++) {
        if (places[i].is_v2 != is_v2 || (!is_v2 && !strstr(controllers, "memory")))
            continue;
        snprintf(group, sizeof(group), "%s", path);
        snprintf(mount, sizeof(mount), "%s%s", root, places[i].mount);
        least = u_min64(least, read_up(mount, group, places[i].file));
    }
    return least;
}

uint64_t memory_limit_of_groups(const char *groups, const char *root)
{
    char line[PATH_MAX];
    uint64_t least = UINT64_MAX;
    FILE *file = fopen(groups, "re");

    while (file && fgets(line, sizeof(line), file))
        least = u_min64(least, read_group(line, root));
    if (file)
        fclose(file);
    return least;
}

uint64_t memory_limit(const char **what)
{
    long pages = sysconf(_SC_PHYS_PAGES);
    long page_bytes = sysconf(_SC_PAGESIZE);
    uint64_t ram =
        pages > 0 && page_bytes > 0 ? (uint64_t)pages * (uint64_t)page_bytes : UINT64_MAX;
    uint64_t group = memory_limit_of_groups("/proc/self/cgroup", "/sys/fs/cgroup");

    *what = group < ram ? "the control group's limit" : "the memory of this machine";
    return u_min64(group, ram);
}
