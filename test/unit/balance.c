/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a test program holds: blocks of the heap, lists of addresses, mappings and descriptors. The
 * program fails if it holds any at its end that it did not hold at its beginning. Only calls of the
 * program itself count (--wrap), not those of libraries of the system. One of them may be made to
 * fail.
 */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "balance.h"

#include <dirent.h>
#include <errno.h>
#include <netdb.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

extern void *malloc_real(size_t bytes) __asm__("__real_malloc");
extern void *malloc_counted(size_t bytes) __asm__("__wrap_malloc");
extern void *calloc_real(size_t count, size_t bytes) __asm__("__real_calloc");
extern void *calloc_counted(size_t count, size_t bytes) __asm__("__wrap_calloc");
extern void *realloc_real(void *block, size_t bytes) __asm__("__real_realloc");
extern void *realloc_counted(void *block, size_t bytes) __asm__("__wrap_realloc");
extern void *aligned_real(size_t align, size_t bytes) __asm__("__real_aligned_alloc");
extern void *aligned_counted(size_t align, size_t bytes) __asm__("__wrap_aligned_alloc");
extern void free_real(void *block) __asm__("__real_free");
extern void free_counted(void *block) __asm__("__wrap_free");
extern int addresses_real(const char *host, const char *port, const struct addrinfo *hints,
                          struct addrinfo **found) __asm__("__real_getaddrinfo");
extern int addresses_counted(const char *host, const char *port, const struct addrinfo *hints,
                             struct addrinfo **found) __asm__("__wrap_getaddrinfo");
extern void free_addresses_real(struct addrinfo *found) __asm__("__real_freeaddrinfo");
extern void free_addresses_counted(struct addrinfo *found) __asm__("__wrap_freeaddrinfo");
extern void *map_real(void *at, size_t bytes, int access, int flags, int fd,
                      off_t offset) __asm__("__real_mmap64");
extern void *map_counted(void *at, size_t bytes, int access, int flags, int fd,
                         off_t offset) __asm__("__wrap_mmap64");
extern int unmap_real(void *at, size_t bytes) __asm__("__real_munmap");
extern int unmap_counted(void *at, size_t bytes) __asm__("__wrap_munmap");

static atomic_long blocks, mapped_bytes;
static atomic_uint to_fail; /* see balance_fail() */
static int descriptors;
static pid_t program; /* a child that it forks is none */

/* ---- failures ---------------------------------------------------------------------------- */

unsigned balance_fail(unsigned number)
{
    return atomic_exchange(&to_fail, number);
}

/* Whether the call that begins is to fail. */
static bool fails(void)
{
    unsigned left = atomic_load(&to_fail);

    while (left > 0 && !atomic_compare_exchange_weak(&to_fail, &left, left - 1))
        continue;
    if (left == 1)
        errno = ENOMEM;
    return left == 1;
}

/* ---- the heap ---------------------------------------------------------------------------- */

static void *taken(void *block)
{
    if (block)
        atomic_fetch_add(&blocks, 1);
    return block;
}

void *malloc_counted(size_t bytes)
{
    return fails() ? NULL : taken(malloc_real(bytes));
}

void *calloc_counted(size_t count, size_t bytes)
{
    return fails() ? NULL : taken(calloc_real(count, bytes));
}

void *realloc_counted(void *block, size_t bytes)
{
    if (fails())
        return NULL;
    return block ? realloc_real(block, bytes) : taken(malloc_real(bytes));
}

void *aligned_counted(size_t align, size_t bytes)
{
    return fails() ? NULL : taken(aligned_real(align, bytes));
}

void free_counted(void *block)
{
    if (block)
        atomic_fetch_sub(&blocks, 1);
    free_real(block);
}

int addresses_counted(const char *host, const char *port, const struct addrinfo *hints,
                      struct addrinfo **found)
{
    int rc = addresses_real(host, port, hints, found);

    if (rc == 0)
        atomic_fetch_add(&blocks, 1);
    return rc;
}

void free_addresses_counted(struct addrinfo *found)
{
    atomic_fetch_sub(&blocks, 1);
    free_addresses_real(found);
}

/* ---- mappings ---------------------------------------------------------------------------- */

void *map_counted(void *at, size_t bytes, int access, int flags, int fd, off_t offset)
{
    void *mapped = fails() ? MAP_FAILED : map_real(at, bytes, access, flags, fd, offset);

    if (mapped != MAP_FAILED && !(flags & MAP_FIXED))
        atomic_fetch_add(&mapped_bytes, (long)bytes);
    return mapped;
}

int unmap_counted(void *at, size_t bytes)
{
    atomic_fetch_sub(&mapped_bytes, (long)bytes);
    return unmap_real(at, bytes);
}

/* ---- begin and end ----------------------------------------------------------------------- */

static int count_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;

    while (folder && readdir(folder) != NULL)
        count++;
    if (folder)
        closedir(folder);
    return count;
}

static __attribute__((constructor)) void begin(void)
{
    program = getpid();
    descriptors = count_descriptors();
}

/* After the functions of atexit(). */
static __attribute__((destructor)) void end(void)
{
    long more = atomic_load(&blocks);
    long more_mapped = atomic_load(&mapped_bytes);
    int more_open = count_descriptors() - descriptors;

    if (getpid() != program || (more == 0 && more_mapped == 0 && more_open == 0))
        return;
    fflush(NULL);
    fprintf(stderr, "held at the end: %ld blocks of the heap, %ld mapped bytes, %d descriptors\n",
            more, more_mapped, more_open);
    _exit(1);
}
