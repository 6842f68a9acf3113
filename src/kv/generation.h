/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The number of flushes (generation), and how the 8 bits of it in an item are made unambiguous.
 *
 * kv.generation is one word: the number of flushes, with 8 bits between its low 8 and its other
 * bits that are all set while the table is wide, else 0:
 *
 *   number >> 8 (48) | wide (8) | number & 255 (8)
 *
 * An item's status has the low 8 bits of the number at publication: its tag. The table is narrow
 * while fewer than KV_GENERATIONS generations may have linked items; then tags are unique, and an
 * item is valid if the low 16 bits of the word equal its tag. While the table is wide these 16 bits
 * equal no tag, and the full generation follows from the segment of the item's head:
 *
 *   base = max(generation of the segment, kv.purged)
 *   the item's generation is the one in [base, base + 255] that has its tag
 *
 * The generation of a segment is kv.generation when a worker opened it.
 *
 * Proof, for a linked item of generation g in a segment with generation s:
 *   1 s <= g. The worker that publishes an item opened the segment earlier; a worker that moves an
 *     item compares (kv_generation_may_move()).
 *   2 g <= max(s, purged) + 255. In a narrow table g - purged < 255; in a wide one the publisher
 *     compares, and copies the item to a younger segment if need be.
 *   3 purged <= g, also for an unlinked item as long as a worker may view it: the purge waits for a
 *     grace period after its last chain before it changes kv.purged. Publishers load kv.generation,
 *     and readers load kv.purged, with acquire: a worker that finds an item in the index sees at
 *     least the kv.purged that its publisher saw, which 2 relies on.
 */
#ifndef KV_GENERATION_H
#define KV_GENERATION_H

#include <stdbool.h>
#include <stdint.h>

#define KV_GENERATIONS 255
#define KV_GENERATION_WIDE UINT64_C(0xff00)

static inline uint64_t kv_generation_word(uint64_t number, bool wide)
{
    return number >> 8 << 16 | (wide ? KV_GENERATION_WIDE : 0) | (uint8_t)number;
}

static inline uint64_t kv_generation_number(uint64_t word)
{
    return word >> 16 << 8 | (uint8_t)word;
}

static inline bool kv_generation_is_wide(uint64_t word)
{
    return (word & KV_GENERATION_WIDE) != 0;
}

/* The tag of valid items in a narrow table; in a wide one no item's tag. */
static inline unsigned kv_generation_tag(uint64_t word)
{
    return (uint16_t)word;
}

#endif
