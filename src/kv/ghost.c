/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of ghosts (ghost.h). Lane 0 of a set holds the index of the lane to replace next. */
#include "kv/ghost.h"

#include "base/base.h"

#define SET_WORDS 8
#define WORD_LANES 4
#define LANE_BITS 16
#define LANE_LOWEST_BITS UINT64_C(0x0001000100010001)
#define LANE_LOW_BITS UINT64_C(0x7fff7fff7fff7fff)

void kv_ghost_init(struct kv_ghost *ghost, kv_atomic_u64 *words, uint32_t sets_max)
{
    U_ASSERT(sets_max != 0 && (sets_max & (sets_max - 1)) == 0);
    ghost->words = words;
    ghost->sets_max = sets_max;
    kv_u32_store_relaxed(&ghost->set_mask, 0);
}

void kv_ghost_fit(struct kv_ghost *ghost, uint64_t keys)
{
    uint64_t now = (uint64_t)kv_u32_load_relaxed(&ghost->set_mask) + 1;
    uint64_t sets = 1;
    while (sets < ghost->sets_max && sets * 2 * KV_GHOST_SET_KEYS <= keys)
        sets *= 2;
    if (sets > now || sets * 4 <= now)
        kv_u32_store_relaxed(&ghost->set_mask, (uint32_t)sets - 1);
}

/* The set, and the fingerprint, never 0, of a hash: bits that have nothing to do with each other.
 */
static kv_atomic_u64 *set_of(const struct kv_ghost *ghost, uint64_t hash, uint16_t *print)
{
    uint32_t set = (uint32_t)hash & kv_u32_load_relaxed(&ghost->set_mask);
    *print = (uint16_t)(hash >> 48);
    if (*print == 0)
        *print = 1;
    return &ghost->words[(uint64_t)set * SET_WORDS];
}

static void lane_store(kv_atomic_u64 *set, unsigned lane, uint64_t value)
{
    kv_atomic_u64 *word = &set[lane / WORD_LANES];
    unsigned shift = lane % WORD_LANES * LANE_BITS;
    uint64_t others = kv_u64_load_relaxed(word) & ~((uint64_t)UINT16_MAX << shift);
    kv_u64_store_relaxed(word, others | value << shift);
}

void kv_ghost_remember(struct kv_ghost *ghost, uint64_t hash)
{
    uint16_t print;
    kv_atomic_u64 *set = set_of(ghost, hash, &print);
    unsigned next = (unsigned)(kv_u64_load_relaxed(&set[0]) & UINT16_MAX) % KV_GHOST_SET_KEYS;
    lane_store(set, next + 1, print);
    lane_store(set, 0, next + 1);
}

/* The highest bit of each lane of the word that equals the fingerprint. */
static uint64_t lanes_equal(uint64_t word, uint16_t print)
{
    uint64_t differs = word ^ print * LANE_LOWEST_BITS;
    return ~(((differs & LANE_LOW_BITS) + LANE_LOW_BITS) | differs | LANE_LOW_BITS);
}

bool kv_ghost_recall(struct kv_ghost *ghost, uint64_t hash)
{
    uint16_t print;
    kv_atomic_u64 *set = set_of(ghost, hash, &print);
    uint64_t lanes = ~(uint64_t)UINT16_MAX; /* of the first word all but the number */
    for (unsigned i = 0; i < SET_WORDS; i++) {
        uint64_t equal = lanes_equal(kv_u64_load_relaxed(&set[i]), print) & lanes;
        if (equal != 0) {
            unsigned lane = (unsigned)__builtin_ctzll(equal) / LANE_BITS;
            lane_store(set, i * WORD_LANES + lane, 0);
            return true;
        }
        lanes = UINT64_MAX;
    }
    return false;
}
