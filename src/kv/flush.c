/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flushes, and the purge of flushed items.
 *
 * A flush only increments the number of flushes: an item is valid in its own generation only
 * (generation.h). The purge reclaims the memory of flushed items, a few chains per loop and worker:
 * it removes items of earlier generations from all chains, and kv.purged is its progress: no item
 * of a generation before it is linked, will be linked, or is viewed.
 *
 * Therefore a grace period passes between reading the generation and the first chain: a worker
 * reads the generation and publishes the item without being quiescent in between, so an item of an
 * earlier generation that is not linked when the grace period ends never will be. An item that
 * moves, by relocation or by growth of the index, keeps its position in the order of the chains, so
 * the purge meets it. Another grace period passes after the last chain, for workers that found an
 * item before it was removed.
 *
 * The flush after which KV_GENERATIONS generations may have linked items makes the table wide; the
 * end of a purge makes it narrow again, unless as many flushes have happened since the purge began.
 * While it is wide all lookups take the slower paths, and the number of generations is unbounded.
 */
#include "kv/engine.h"

#define CHAINS_PER_STEP 64
#define GENERATIONS_PER_LOG 128 /* an upload outlives as many flushes before it is copied */

/* ---- generations of items ---------------------------------------------------------------- */

/* The first of the 256 generations that items of the item's segment can have. */
static uint64_t base_of(const struct kv *kv, const struct kv_item *item)
{
    const struct kv_segments *segments = &kv->segments;
    const struct kv_segment *segment = &segments->array[kv_segment_of(segments, item)];
    uint64_t opened = kv_u64_load_relaxed(&segment->generation);
    uint64_t purged = kv_u64_load_acquire(&kv->purged);
    return opened > purged ? opened : purged;
}

static uint64_t generation_of(const struct kv *kv, const struct kv_item *item, uint64_t status)
{
    uint64_t base = base_of(kv, item);
    return base + (uint8_t)(kv_status_generation(status) - (uint8_t)base);
}

bool kv_generation_is_current(const struct kv *kv, const struct kv_item *item, uint64_t status,
                              uint64_t word)
{
    return kv_generation_is_wide(word) &&
           generation_of(kv, item, status) == kv_generation_number(word);
}

bool kv_generation_may_publish(const struct kv *kv, const struct kv_item *item, uint64_t word)
{
    return !kv_generation_is_wide(word) ||
           kv_generation_number(word) - base_of(kv, item) <= UINT8_MAX;
}

bool kv_generation_may_move(const struct kv *kv, const struct kv_item *from,
                            const struct kv_item *to)
{
    uint64_t base = base_of(kv, to);
    uint64_t generation = generation_of(kv, from, kv_item_status(from));
    return generation >= base && generation - base <= UINT8_MAX;
}

void kv_log_refresh_old(struct kv_worker *worker, unsigned log, uint64_t word)
{
    const struct kv_segments *segments = &worker->kv->segments;
    uint32_t index = worker->log[log];
    if (index != KV_SEGMENT_NONE &&
        kv_generation_number(word) - kv_u64_load_relaxed(&segments->array[index].generation) >=
            GENERATIONS_PER_LOG)
        kv_log_close(worker, log);
}

/* ---- the purge --------------------------------------------------------------------------- */

/* Removes the flushed items of a chain. */
static void purge_chain(struct kv_worker *worker, uint64_t *position)
{
    const struct kv *kv = worker->kv;
    struct kv_words words;
    kv_index_copy(&kv->index, position, &words);
    for (unsigned i = 0; i < words.count; i++) {
        const struct kv_item *item = kv_word_item(&kv->index, words.at[i]);
        if (kv_item_validity(worker, item) != KV_MISS_FLUSHED)
            continue;
        struct kv_key key = kv_key(kv, kv_item_key(item), kv_item_key_len(item));
        if (kv_index_unlink(worker, key.hash, words.at[i]))
            kv_account_unlinked(worker, item, KV_REMOVAL_FLUSHED);
    }
}

/* Whether tags are ambiguous because too many generations may have linked items. */
static bool is_wide(const struct kv *kv, uint64_t number)
{
    return number - kv_u64_load_acquire(&kv->purged) >= KV_GENERATIONS;
}

/* Under kv.purge_lock. */
static void purge_end(struct kv *kv)
{
    kv->purge_retired = 0;
    kv_u64_store_release(&kv->purged, kv->purge_target);
    uint64_t word = kv_u64_load_acquire(&kv->generation);
    uint64_t narrow;
    do {
        uint64_t number = kv_generation_number(word);
        if (!kv_generation_is_wide(word) || is_wide(kv, number))
            return;
        narrow = kv_generation_word(number, false);
    } while (!kv_u64_cas_acq_rel(&kv->generation, &word, narrow));
}

/* Under kv.purge_lock. */
static void purge_some(struct kv_worker *worker)
{
    struct kv *kv = worker->kv;
    if (kv->purge_retired == 0) {
        kv->purge_target = kv_generation_number(kv_u64_load_acquire(&kv->generation));
        kv->purge_retired = kv_epoch_retire(&kv->epoch);
        kv->purge_position = 0;
    }
    bool waits = kv->purge_position == 0 || kv->purge_position == KV_POSITION_END;
    if (waits && kv_epoch_oldest(&kv->epoch, U_NULL) < kv->purge_retired)
        return;
    if (kv->purge_position == KV_POSITION_END) {
        purge_end(kv);
        return;
    }
    for (unsigned i = 0; i < CHAINS_PER_STEP && kv->purge_position < KV_POSITION_END; i++)
        purge_chain(worker, &kv->purge_position);
    if (kv->purge_position == KV_POSITION_END)
        kv->purge_retired = kv_epoch_retire(&kv->epoch);
}

uint64_t kv_flushes_behind(const struct kv *kv)
{
    uint64_t purged = kv_u64_load_acquire(&kv->purged); /* first: it is never ahead */
    return kv_generation_number(kv_u64_load_relaxed(&kv->generation)) - purged;
}

void kv_purge_step(struct kv_worker *worker)
{
    struct kv *kv = worker->kv;
    if (kv_flushes_behind(kv) == 0 || !kv_lock_try(&kv->purge_lock))
        return;
    purge_some(worker);
    kv_lock_drop(&kv->purge_lock);
}

/* ---- the flush --------------------------------------------------------------------------- */

void kv_flush(struct kv_worker *worker)
{
    struct kv *kv = worker->kv;
    uint64_t word = kv_u64_load_acquire(&kv->generation);
    uint64_t next;
    do {
        uint64_t number = kv_generation_number(word) + 1;
        next = kv_generation_word(number, is_wide(kv, number));
    } while (!kv_u64_cas_acq_rel(&kv->generation, &word, next));
}
