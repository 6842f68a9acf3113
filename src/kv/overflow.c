/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Overflow buckets: which of them are free, and how an empty one is unlinked from its chain.
 *
 * Without unlinking every chain would have an overflow bucket sooner or later. So a worker that
 * empties a slot of an overflow bucket checks whether the last buckets of the chain are empty, and
 * unlinks ("cuts") them one by one:
 *
 *   1  control of the chain is c, and no slot of the last bucket is LIVE.
 *   2  If the bucket before it is not the chain's first: set CUT in that bucket's control.
 *   3  control: c -> version + 1, and pend = none if it names a slot of the last bucket. If the
 *      bucket before it is the chain's first, the same swap removes the link, and that is all.
 *   4  In the control of the bucket before it: remove link and CUT.
 *
 * An insert that meets CUT clears it before it continues, so it does not wait, and 4 fails.
 *
 * Invariants
 *   1 Nothing is committed in the bucket between 1 and the end. An insert that loaded control
 *   before
 *     3 can't commit any more; one that loads it later sees CUT (3 releases 2) and clears it, which
 *     increments the version in that bucket's control, so that 4 fails.
 *   2 An uncommitted claim may still be made in an unlinked bucket: its worker takes it back. The
 *     slots of a bucket that is appended later have the same numbers, so pend names a slot only if
 *     that is in the chain: kv_slot_resolve() checks.
 *   3 An unlinked bucket is reused after a grace period: until then a worker may read it, claim
 *     slots in it, or append another bucket to it, which is freed together with it.
 *   4 When a chain is frozen and moved, an empty bucket in it makes no difference.
 *
 * Free buckets: those never used, by a counter; those returned, on a stack whose head has a count
 * beside the link, so that a swap fails if other workers popped and pushed in the meantime; and a
 * few reserved by each worker.
 */
#include "kv/engine.h"

/* ---- the stack --------------------------------------------------------------------------- */

static uint32_t link_of(const struct kv_bucket *bucket)
{
    return (uint32_t)(kv_u64_load_acquire(&bucket->control) >> KV_CONTROL_LINK_SHIFT);
}

static uint64_t stack_head(uint64_t was, uint32_t link)
{
    return ((was >> 32) + 1) << 32 | link;
}

static void stack_push(struct kv_index *index, unsigned power, uint32_t link)
{
    struct kv_overflow *overflow = &index->overflows[power & 1];
    struct kv_bucket *bucket = kv_overflow_at(index, power, link);
    for (unsigned i = 0; i < KV_BUCKET_SLOTS; i++)
        kv_u64_store_relaxed(&bucket->slot[i], 0);
    uint64_t head = kv_u64_load_acquire(&overflow->stack);
    do
        kv_u64_store_relaxed(&bucket->control, (uint64_t)(uint32_t)head << KV_CONTROL_LINK_SHIFT);
    while (!kv_u64_cas_acq_rel(&overflow->stack, &head, stack_head(head, link)));
}

static uint32_t stack_pop(struct kv_index *index, unsigned power)
{
    struct kv_overflow *overflow = &index->overflows[power & 1];
    uint64_t head = kv_u64_load_acquire(&overflow->stack);
    while ((uint32_t)head != 0) {
        struct kv_bucket *bucket = kv_overflow_at(index, power, (uint32_t)head);
        uint32_t link = (uint32_t)head;
        if (!kv_u64_cas_acq_rel(&overflow->stack, &head, stack_head(head, link_of(bucket))))
            continue;
        kv_u64_store_relaxed(&bucket->control, 0);
        return link;
    }
    return 0;
}

/* ---- taking and giving ------------------------------------------------------------------- */

/* The worker's reserve for a table; the reserve for an older table is discarded. */
static struct kv_bucket_reserve *reserve_for(struct kv_worker *worker, unsigned power)
{
    struct kv_bucket_reserve *spares = &worker->spares[power & 1];
    if (spares->power != power) {
        spares->power = power;
        spares->count = 0;
    }
    return spares;
}

uint32_t kv_overflow_take(struct kv_worker *worker, unsigned power)
{
    struct kv_index *index = &worker->kv->index;
    struct kv_bucket_reserve *spares = reserve_for(worker, power);
    if (spares->count > 0)
        return spares->link[--spares->count];
    uint32_t link = stack_pop(index, power);
    if (link != 0)
        return link;
    struct kv_overflow *overflow = &index->overflows[power & 1];
    uint32_t next = kv_u32_load_relaxed(&overflow->next);
    while (next < kv_u32_load_acquire(&overflow->end))
        if (kv_u32_cas_acq_rel(&overflow->next, &next, next + 1))
            return next;
    return 0;
}

void kv_overflow_give(struct kv_worker *worker, unsigned power, uint32_t link)
{
    struct kv_bucket_reserve *spares = reserve_for(worker, power);
    if (spares->count < U_ARRAY_LEN(spares->link))
        spares->link[spares->count++] = link;
    else
        stack_push(&worker->kv->index, power, link);
}

bool kv_index_reserve_bucket(struct kv_worker *worker)
{
    const struct kv_index *index = &worker->kv->index;
    unsigned power = kv_index_power(index);
    unsigned last = kv_u32_load_acquire(&index->moving) == power + 1 ? power + 1 : power;
    for (; power <= last; power++) {
        uint32_t link = kv_overflow_take(worker, power);
        if (link == 0)
            return false;
        kv_overflow_give(worker, power, link);
    }
    return true;
}

/* ---- cutting off ------------------------------------------------------------------------- */

/* The worker's list of unlinked buckets; null if it is full. */
static struct kv_cut_buckets *cut_for(struct kv_worker *worker, unsigned power)
{
    struct kv_cut_buckets *cut = &worker->cut;
    if (cut->power != power) {
        cut->power = power;
        cut->count = 0;
        cut->waiting = 0;
    }
    return cut->count < KV_CUT_MAX ? cut : U_NULL;
}

static bool is_empty(const struct kv_bucket *bucket)
{
    for (unsigned i = 0; i < KV_BUCKET_SLOTS; i++)
        if (kv_u64_load_acquire(&bucket->slot[i]) & KV_WORD_LIVE)
            return false;
    return true;
}

static uint64_t without_link(uint64_t control)
{
    return control & ((UINT64_C(1) << KV_CONTROL_LINK_SHIFT) - 1);
}

bool kv_overflow_keep(struct kv_bucket *bucket)
{
    uint64_t control = kv_u64_load_acquire(&bucket->control);
    if (U_LIKELY((control & KV_CONTROL_CUT) == 0))
        return true;
    kv_u64_cas_acq_rel(&bucket->control, &control, kv_control_next(control & ~KV_CONTROL_CUT, 0));
    return false;
}

/* Steps 2 to 4 for the bucket of that link; `before` is not the chain's first. */
static bool cut_behind(struct kv_bucket *head, uint64_t control, uint64_t control_after,
                       struct kv_bucket *before, uint32_t link)
{
    uint64_t was = kv_u64_load_acquire(&before->control);
    if ((was & (KV_CONTROL_CUT | KV_CONTROL_FROZEN)) || was >> KV_CONTROL_LINK_SHIFT != link)
        return false;
    uint64_t marked = kv_control_next(was, 0) | KV_CONTROL_CUT;
    if (!kv_u64_cas_acq_rel(&before->control, &was, marked))
        return false;
    uint64_t cut = marked;
    if (!kv_u64_cas_acq_rel(&head->control, &control, control_after)) {
        kv_overflow_keep(before);
        return false;
    }
    return kv_u64_cas_acq_rel(&before->control, &cut,
                              without_link(kv_control_next(marked & ~KV_CONTROL_CUT, 0)));
}

/* Unlinks the last bucket of the chain. True if this call did it. */
static bool cut_last(struct kv_worker *worker, struct kv_bucket *head)
{
    struct kv_index *index = &worker->kv->index;
    unsigned power = kv_chain_power(index, head);
    uint64_t control = kv_u64_load_acquire(&head->control);
    struct kv_bucket *before = head;
    struct kv_bucket *last = kv_bucket_next(index, head, head);
    unsigned number = KV_BUCKET_SLOTS; /* of the last bucket's first slot */
    if ((control & KV_CONTROL_FROZEN) || !last || power != kv_index_power(index))
        return false;
    for (struct kv_bucket *next; (next = kv_bucket_next(index, head, last)) != U_NULL;
         number += KV_BUCKET_SLOTS) {
        before = last;
        last = next;
    }
    struct kv_cut_buckets *cut = cut_for(worker, power);
    if (!cut || !is_empty(last))
        return false;
    unsigned pend = kv_control_pend(control);
    uint64_t after = kv_control_next(control, pend > number ? 0 : pend);
    uint32_t link = (uint32_t)(last - kv_overflow_at(index, power, 0));
    bool done;
    if (before == head)
        done = kv_u64_cas_acq_rel(&head->control, &control, without_link(after));
    else
        done = cut_behind(head, control, after, before, link);
    if (done)
        cut->link[cut->count++] = link;
    return done;
}

void kv_overflow_cut(struct kv_worker *worker, struct kv_bucket *head)
{
    while (cut_last(worker, head))
        continue; /* bounded by the number of buckets */
}

/* ---- coming back ------------------------------------------------------------------------- */

static void come_back(struct kv_index *index, unsigned power, uint32_t link)
{
    while (link != 0) {
        uint32_t appended = link_of(kv_overflow_at(index, power, link));
        stack_push(index, power, link);
        link = appended;
    }
}

void kv_overflow_return(struct kv_worker *worker, struct kv_index *index)
{
    unsigned power = kv_index_power(index);
    struct kv_cut_buckets *cut = &worker->cut;
    for (unsigned i = 0; i < 2; i++) {
        struct kv_bucket_reserve *spares = &worker->spares[i];
        bool in_use =
            spares->power == power || kv_u32_load_relaxed(&index->moving) == spares->power;
        while (spares->count > 0) {
            uint32_t link = spares->link[--spares->count];
            if (in_use)
                stack_push(index, spares->power, link);
        }
    }
    for (unsigned i = 0; cut->power == power && i < cut->count; i++)
        come_back(index, power, cut->link[i]);
    cut->count = 0;
    cut->waiting = 0;
}

void kv_overflow_reclaim(struct kv_worker *worker)
{
    struct kv *kv = worker->kv;
    struct kv_cut_buckets *cut = &worker->cut;
    if (cut->power != kv_index_power(&kv->index)) {
        cut->count = 0; /* that table is being replaced, with all its buckets */
        cut->waiting = 0;
        return;
    }
    if (cut->waiting == 0) {
        cut->waiting = cut->count;
        cut->retired = kv_epoch_retire(&kv->epoch);
        return;
    }
    if (kv_epoch_oldest(&kv->epoch, U_NULL) < cut->retired)
        return;
    for (unsigned i = 0; i < cut->waiting; i++)
        come_back(&kv->index, cut->power, cut->link[i]);
    cut->count -= cut->waiting;
    for (unsigned i = 0; i < cut->count; i++)
        cut->link[i] = cut->link[i + cut->waiting];
    cut->waiting = 0;
}
