/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Walks over all items, a bounded part at a time, while everybody else goes on.
 *
 * A walk goes through the chains of the index, not through the memory: a key stays in its chain
 * whatever becomes of its item, so what is there from the walk's beginning to its end is met
 * exactly once, also when the eviction moves it or it is stored anew. What comes or goes meanwhile
 * is met or not. The words of a chain are copied under its lock, which takes as long as a change of
 * one of its keys; their items can be read until the worker's next quiescent state.
 */
#include "kv/engine.h"

#define CHAIN_SLOTS_MAX (KV_CHAIN_BUCKETS_MAX * KV_BUCKET_SLOTS)

struct chain_words {
    uint64_t words[CHAIN_SLOTS_MAX];
    unsigned count;
};

static void words_add(const struct kv_bucket *bucket, struct chain_words *copy)
{
    for (unsigned i = 0; i < KV_BUCKET_SLOTS; i++) {
        uint64_t word = kv_u64_load_acquire(&bucket->slot[i]);
        if (word != 0)
            copy->words[copy->count++] = word;
    }
}

/* Looks before it locks: most chains of a table that is not full are empty. */
static bool is_empty(const struct kv_bucket *head)
{
    if (kv_u64_load_relaxed(&head->control) >> KV_CONTROL_LINK_SHIFT != 0)
        return false;
    for (unsigned i = 0; i < KV_BUCKET_SLOTS; i++)
        if (kv_u64_load_relaxed(&head->slot[i]) != 0)
            return false;
    return true;
}

static void words_copy(const struct kv_index *index, struct kv_bucket *head,
                       struct chain_words *copy)
{
    copy->count = 0;
    if (is_empty(head))
        return;
    kv_chain_lock(head);
    for (struct kv_bucket *bucket = head; bucket; bucket = kv_bucket_next(index, bucket))
        words_add(bucket, copy);
    kv_chain_unlock(head);
}

/* Copies the next chain that has something; counts the chains it went over against *chains. */
static bool next_chain(const struct kv_index *index, struct kv_cursor *cursor, uint32_t *chains,
                       struct chain_words *copy)
{
    while (*chains > 0 && cursor->chain <= index->mask) {
        --*chains;
        words_copy(index, &index->buckets[cursor->chain++], copy);
        if (copy->count > 0)
            return true;
    }
    return false;
}

bool kv_scan(struct kv_worker *worker, struct kv_cursor *cursor, const struct kv_quantum *quantum,
             kv_visit *visit, void *ctx)
{
    const struct kv_index *index = &worker->kv->index;
    uint32_t chains = quantum->chains;
    uint32_t items = 0;
    struct chain_words copy;
    struct kv_view view;

    while (items < quantum->items && next_chain(index, cursor, &chains, &copy)) {
        for (unsigned i = 0; i < copy.count; i++) {
            const struct kv_item *item = kv_word_item(index, copy.words[i]);
            if (kv_item_validity(worker, item) != KV_HIT)
                continue;
            kv_view_fill(&view, item);
            visit(ctx, &view);
            items++;
        }
    }
    return cursor->chain <= index->mask;
}

/* Looks at one item for a crawl. */
static void crawl_item(struct kv_worker *worker, uint64_t word, uint64_t classes)
{
    struct kv *kv = worker->kv;
    const struct kv_item *item = kv_word_item(&kv->index, word);
    unsigned class = kv_sizes_class(&kv->config.sizes, kv_item_size(kv, item));
    if ((classes >> class & 1) == 0)
        return;
    kv_class_count(worker, class, KV_CLASS_CRAWL_CHECKED, 1);
    if (kv_item_validity(worker, item) == KV_HIT)
        return;
    struct kv_key key = kv_key(kv, kv_item_key(item), kv_item_key_len(item));
    if (kv_index_unlink(&kv->index, key.hash, word))
        kv_unlinked(worker, item, KV_END_CRAWLED);
}

bool kv_crawl(struct kv_worker *worker, struct kv_cursor *cursor, const struct kv_quantum *quantum,
              uint64_t classes)
{
    const struct kv_index *index = &worker->kv->index;
    uint32_t chains = quantum->chains;
    uint32_t items = 0;
    struct chain_words copy;

    while (items < quantum->items && next_chain(index, cursor, &chains, &copy)) {
        for (unsigned i = 0; i < copy.count; i++)
            crawl_item(worker, copy.words[i], classes);
        items += copy.count;
    }
    return cursor->chain <= index->mask;
}
