/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table's memory as the system sees it: addresses, what pages are behind them, and on which
 * NUMA nodes. resize.c says what lies where.
 *
 * Three kinds of pages:
 *   reserved huge ones   for the items, if the owner wants them and enough were set aside; all are
 *                        taken, and cleared, at once, so that no item ever waits for one nor fails
 *                        to get one
 *   advised ones         the kernel makes huge ones of them where it can
 *   ordinary ones        for the index: the first touch of a huge page takes too long to happen
 *                        while the index grows
 * Where a table has a thread for that (touch.h), it touches what is not a reserved page ahead.
 * Reserved ones stay with the table to its end, whatever its limit: a lower limit takes segments
 * out of service in any order, so seldom all of a page, and a page that was given back is one that
 * a higher limit might not get again, of which the system tells by ending the process only.
 */
#ifndef KV_MEMORY_H
#define KV_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "kv/kv.h"

#define KV_HUGE_PAGE_BYTES (UINT64_C(2) << 20)

struct kv_memory {
    uint8_t *base;    /* of what the table uses: a multiple of huge pages; null: nothing mapped */
    uint8_t *mapping; /* all of it, as mmap() gave it */
    uint64_t mapping_bytes;
    uint64_t bytes;     /* from base on */
    uint8_t *huge_from; /* the reserved huge pages: a range within */
    uint64_t huge_bytes;
    struct kv_placement placement;
};

/* Addresses with nothing behind them. False if the system has none to spare. */
bool kv_memory_map(struct kv_memory *memory, uint64_t bytes);

/* Gives all of it back, if there is any. */
void kv_memory_unmap(struct kv_memory *memory);

/* Makes bytes accessible, of which none is in a reserved huge page. False if the system refuses. */
bool kv_memory_open(uint8_t *from, uint64_t bytes);

/*
 * Has the kernel bring the pages of accessible bytes, which stay as they are. False if it can't do
 * that (Linux before 5.14), or has no memory for them.
 */
bool kv_memory_populate(uint8_t *from, uint64_t bytes);

/*
 * Gives the pages back to the system; what they hold is lost. False and nothing done where they are
 * reserved huge ones.
 */
bool kv_memory_close(const struct kv_memory *memory, uint8_t *from, uint64_t bytes);

/* So much of the memory for items can be huge pages: what they fill to their end. */
uint64_t kv_memory_huge_part(uint64_t bytes);

/*
 * Takes reserved huge pages for as much as they fill of the items' bytes, and makes them
 * accessible. If there are too few it takes none, and placement says why. False if the addresses
 * have been lost by the attempt. To be called before the memory is opened, and while no other
 * thread maps memory.
 */
bool kv_memory_take_huge(struct kv_memory *memory, uint8_t *from, uint64_t bytes, uint64_t nodes);

/* Asks for huge pages for all from there to the end, but for the reserved ones. */
void kv_memory_advise(struct kv_memory *memory, uint8_t *from);

/*
 * Pages come from these nodes in turn (a bit each) from now on, if they are several. placement says
 * so if the system refuses.
 */
void kv_memory_interleave(struct kv_memory *memory, uint64_t nodes);

#endif
