/* SPDX-License-Identifier: BSD-3-Clause */
/* Input between two pages that may not be touched. */
#include "guard.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static u_u8 *area; /* GUARD_BYTES_MAX usable bytes */

static u_u8 *guarded_area(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    u_u8 *map;

    if (area != NULL)
        return area;
    map = mmap(NULL, GUARD_BYTES_MAX + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED || GUARD_BYTES_MAX % page != 0 ||
        mprotect(map + page, GUARD_BYTES_MAX, PROT_READ | PROT_WRITE) != 0)
        abort();
    area = map + page;
    return area;
}

u_u8 *guard_behind(const void *data, size_t bytes)
{
    if (bytes > GUARD_BYTES_MAX)
        abort();
    return memcpy(guarded_area() + GUARD_BYTES_MAX - bytes, data, bytes);
}

u_u8 *guard_before(const void *data, size_t bytes)
{
    if (bytes > GUARD_BYTES_MAX)
        abort();
    return memcpy(guarded_area(), data, bytes);
}
