/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table's memory as seen by the system: address space, kinds of pages, NUMA nodes. resize.c has
 * the layout.
 *
 * Three kinds of anonymous pages:
 *   reserved huge pages   for items, if configured and enough are reserved; all are allocated and
 *                         cleared at the start, so that no item waits for one or fails to get one
 *   advised pages         the kernel makes transparent huge pages of them where it can
 *   ordinary pages        for the index: clearing a huge page would delay its growth
 * A prefault thread (prefault.h) faults in all but reserved pages ahead of use.
 *
 * Reserved pages are kept until kv_destroy() whatever the limit: a lower limit withdraws segments
 * in any order, which rarely frees whole pages, and a page that was released might not be available
 * when the limit rises again; the kernel reports that by SIGBUS only.
 *
 * Or else the memory is a shared mapping of a file (file.h), accessible from the start. For the
 * same reason the file's space is allocated where memory is opened, before any of it is touched.
 */
#ifndef KV_MEMORY_H
#define KV_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "kv/kv.h"

#define KV_HUGE_PAGE_BYTES (UINT64_C(2) << 20)

struct kv_memory {
    uint8_t *base;    /* start, aligned to huge pages; null: not mapped */
    uint8_t *mapping; /* as returned by mmap() */
    uint64_t mapping_bytes;
    uint64_t bytes;     /* usable, from base on */
    uint8_t *huge_from; /* range of reserved huge pages */
    uint64_t huge_bytes;
    bool shared;          /* a mapping of a file: */
    int fd;               /* the caller's */
    uint64_t fd_offset;   /* of base in the file */
    uint64_t close_bytes; /* granularity of kv_memory_close() */
    struct kv_placement placement;
};

/* Reserves inaccessible address space. False if the system refuses. */
bool kv_memory_map(struct kv_memory *memory, uint64_t bytes);

/*
 * Maps a file's bytes from `offset` on, a multiple of huge pages, over the reserved addresses. The
 * file is long enough. False, with the addresses still reserved, if the system refuses.
 */
bool kv_memory_share(struct kv_memory *memory, int fd, uint64_t offset);

/* Unmaps it, if mapped. */
void kv_memory_unmap(struct kv_memory *memory);

/*
 * Makes bytes outside of reserved huge pages accessible, or allocates them in the file. False if
 * the system refuses.
 */
bool kv_memory_open(const struct kv_memory *memory, uint8_t *from, uint64_t bytes);

/*
 * Faults the pages of accessible bytes in, without changing the bytes. False before Linux 5.14 or
 * without memory.
 */
bool kv_memory_populate(uint8_t *from, uint64_t bytes);

/*
 * Releases pages and their content. False, with nothing done, for reserved huge pages and where the
 * file keeps its space.
 */
bool kv_memory_close(const struct kv_memory *memory, uint8_t *from, uint64_t bytes);

/* `bytes` rounded down to whole huge pages. */
uint64_t kv_memory_huge_part(uint64_t bytes);

/*
 * Maps reserved huge pages for kv_memory_huge_part() of the items' bytes. If there are too few it
 * maps none and sets placement.huge_error. False if the attempt lost the addresses. Call it before
 * the memory is opened, while no other thread maps memory.
 */
bool kv_memory_take_huge(struct kv_memory *memory, uint8_t *from, uint64_t bytes, uint64_t nodes);

/* Excludes the memory from `from` to the end from core files. */
void kv_memory_hide(const struct kv_memory *memory, uint8_t *from);

/* Advises transparent huge pages from `from` to the end, except for reserved ones. */
void kv_memory_advise(struct kv_memory *memory, uint8_t *from);

/* Interleaves new pages over these nodes (one bit each). Sets placement.numa_error on refusal. */
void kv_memory_interleave(struct kv_memory *memory, uint64_t nodes);

#endif
