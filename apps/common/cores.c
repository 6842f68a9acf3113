/* SPDX-License-Identifier: BSD-3-Clause */
/* CPU cores of threads; see cores.h. */
#define _GNU_SOURCE /* CPU_SET(), sched_setaffinity() */
#include "common/cores.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "base/base.h"
#include "common/value.h"

/* The largest core number of a cpu_set_t. */
#define CORE_NUMBER_MAX (CPU_SETSIZE - 1)

U_STATIC_ASSERT(sizeof(cpu_set_t) == CORES_SET_BYTES, cores_set_bytes);

static int fail(char error[CORES_ERROR_MAX], const char *text, const char *why)
{
    snprintf(error, CORES_ERROR_MAX, "\"%.80s\": %s", text, why);
    return -1;
}

static int add_core(struct cores *cores, uint64_t core)
{
    unsigned i;

    for (i = 0; i < cores->count; i++) {
        if (cores->list[i] == core)
            return 0;
    }
    if (cores->count == CORES_MAX)
        return -1;
    cores->list[cores->count++] = (uint16_t)core;
    return 0;
}

/* Parses "3" or "0-3". */
static int add_part(struct cores *cores, char *part, const char *text, char error[CORES_ERROR_MAX])
{
    char *dash = strchr(part, '-');
    uint64_t first, last;

    if (dash)
        *dash++ = '\0';
    if (value_number(part, 0, CORE_NUMBER_MAX, &first) < 0 ||
        value_number(dash ? dash : part, 0, CORE_NUMBER_MAX, &last) < 0 || first > last)
        return fail(error, text, "not cores like 0-3,8");
    for (; first <= last; first++) {
        if (add_core(cores, first) < 0)
            return fail(error, text, "too many cores");
    }
    return 0;
}

int cores_parse(const char *text, struct cores *cores, char error[CORES_ERROR_MAX])
{
    char copy[1024];
    char *at = copy;
    char *part;

    cores->count = 0;
    if (strlen(text) >= sizeof(copy))
        return fail(error, text, "too long");
    memcpy(copy, text, strlen(text) + 1);
    while ((part = strsep(&at, ",")) != NULL) {
        if (add_part(cores, part, text, error) < 0)
            return -1;
    }
    return 0;
}

int cores_check(struct cores *cores, char error[CORES_ERROR_MAX])
{
    cpu_set_t allowed;
    unsigned i;

    if (sched_getaffinity(0, sizeof(allowed), &allowed) < 0)
        return fail(error, "sched_getaffinity", strerror(errno));
    memcpy(cores->allowed, &allowed, sizeof(cores->allowed));
    for (i = 0; i < cores->count; i++) {
        if (CPU_ISSET(cores->list[i], &allowed))
            continue;
        snprintf(error, CORES_ERROR_MAX,
                 "there is no core %u here, or this process may not use it (%d may be used; nproc "
                 "and taskset -p show more)",
                 cores->list[i], CPU_COUNT(&allowed));
        return -1;
    }
    return 0;
}

int cores_all(struct cores *cores, char error[CORES_ERROR_MAX])
{
    cpu_set_t allowed;
    unsigned core;

    if (sched_getaffinity(0, sizeof(allowed), &allowed) < 0)
        return fail(error, "sched_getaffinity", strerror(errno));
    memcpy(cores->allowed, &allowed, sizeof(cores->allowed));
    cores->count = 0;
    for (core = 0; core < CPU_SETSIZE && cores->count < CORES_MAX; core++) {
        if (CPU_ISSET(core, &allowed))
            cores->list[cores->count++] = (uint16_t)core;
    }
    return 0;
}

unsigned cores_of_thread(const struct cores *cores, unsigned thread)
{
    U_ASSERT(cores->count > 0);
    return cores->list[thread % cores->count];
}

int cores_pin(unsigned core)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(core, &set);
    return sched_setaffinity(0, sizeof(set), &set) < 0 ? -errno : 0;
}

void cores_unpin(const struct cores *cores)
{
    cpu_set_t set;

    memcpy(&set, cores->allowed, sizeof(set));
    (void)sched_setaffinity(0, sizeof(set),
                            &set); /* cannot fail: these cores were allowed before */
}

int cores_node(unsigned core)
{
    char path[64];
    struct dirent *entry;
    int node = CORES_NODE_UNKNOWN;
    DIR *dir;

    snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u", core);
    dir = opendir(path);
    while (dir && node == CORES_NODE_UNKNOWN && (entry = readdir(dir)) != NULL) {
        uint64_t number;

        if (strncmp(entry->d_name, "node", 4) == 0 &&
            value_number(entry->d_name + 4, 0, 1024, &number) == 0)
            node = (int)number;
    }
    if (dir)
        closedir(dir);
    return node;
}
