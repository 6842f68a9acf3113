/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Walks over all items, a bounded part at a time, while other workers continue.
 *
 * A scan visits the chains of the index, not the memory: a key stays in its chain when its
 * item is moved or replaced, so a key that is present during the whole scan is visited exactly
 * once. A key that comes or goes meanwhile may be visited or not. The words of a chain are copied;
 * their items can be read until the worker is quiescent.
 */
#include "kv/engine.h"

/* Copies the next chain with items; subtracts the chains it passed from *chains. */
static bool next_chain(const struct kv_index *index, struct kv_cursor *cursor, uint32_t *chains,
                       struct kv_words *words)
{
    while (*chains > 0 && cursor->position < KV_POSITION_END) {
        --*chains;
        kv_index_copy(index, &cursor->position, words);
        if (words->count > 0)
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
    struct kv_words words;
    struct kv_view view;

    while (items < quantum->items && next_chain(index, cursor, &chains, &words)) {
        for (unsigned i = 0; i < words.count; i++) {
            const struct kv_item *item = kv_word_item(index, words.at[i]);
            uint64_t status = kv_item_status(item);
            if (kv_status_validity(worker, item, status) != KV_HIT)
                continue;
            kv_view_fill(&view, item, status);
            visit(ctx, &view);
            items++;
        }
    }
    return cursor->position < KV_POSITION_END;
}

/* Crawls one item. */
static void crawl_item(struct kv_worker *worker, uint64_t word, uint64_t classes)
{
    struct kv *kv = worker->kv;
    struct kv_item *item = kv_word_item(&kv->index, word);
    unsigned class = kv_sizes_class(&kv->config.sizes, kv_item_size(kv, item));
    if ((classes >> class & 1) == 0)
        return;
    kv_class_count(worker, class, KV_CLASS_CRAWL_CHECKED, 1);
    if (kv_item_validity(worker, item) == KV_HIT)
        return;
    struct kv_key key = kv_key(kv, kv_item_key(item), kv_item_key_len(item));
    if (kv_unlink_invalid(worker, item, key.hash, word))
        kv_account_unlinked(worker, item, KV_REMOVAL_CRAWLED);
}

bool kv_crawl(struct kv_worker *worker, struct kv_cursor *cursor, const struct kv_quantum *quantum,
              uint64_t classes)
{
    const struct kv_index *index = &worker->kv->index;
    uint32_t chains = quantum->chains;
    uint32_t items = 0;
    struct kv_words words;

    while (items < quantum->items && next_chain(index, cursor, &chains, &words)) {
        for (unsigned i = 0; i < words.count; i++)
            crawl_item(worker, words.at[i], classes);
        items += words.count;
    }
    return cursor->position < KV_POSITION_END;
}
