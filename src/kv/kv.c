/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table and its workers: memory laid out, workers registered, time and quiescent states.
 *
 * The memory is one mapping of config.memory_bytes: heads of the hash chains (a sixteenth, rounded
 * down to a power of two), headers of the segments, segments. Pages are touched as they are used.
 * What depends on the number of workers only (their structs) is on the heap and not counted.
 */
#include "kv/kv.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "kv/engine.h"
#include "kv/poison.h"

#define MEMORY_BYTES_MIN (UINT64_C(1) << 20)
#define HUGE_PAGE_BYTES (UINT64_C(2) << 20)
#define SEGMENT_SHIFT_MIN 13
#define SEGMENT_SHIFT_MAX 20
#define SEGMENTS_WISHED 128
#define SEGMENTS_PER_WORKER 16
#define INDEX_SHARE 16       /* heads: at most a sixteenth of the memory */
#define INDEX_GROWTH_SHARE 4 /* overflow buckets: at most a quarter of the segments */
#define RESERVE_SHARE 12     /* kept free by housekeeping */
#define RECORDS_PER_QUIESCE 128
#define RECLAIM_PER_QUIESCE 16

/* ---- layout ------------------------------------------------------------------------------ */

/* Small memories and many workers get small segments, so that all have some to choose from. */
static unsigned segment_shift(const struct kv_config *config)
{
    uint64_t wished = (uint64_t)config->worker_max * SEGMENTS_PER_WORKER;
    if (wished < SEGMENTS_WISHED)
        wished = SEGMENTS_WISHED;
    unsigned shift = SEGMENT_SHIFT_MAX;
    while (shift > SEGMENT_SHIFT_MIN && config->memory_bytes >> shift < wished)
        shift--;
    return shift;
}

static unsigned index_power(const struct kv_config *config)
{
    uint64_t heads = config->memory_bytes / INDEX_SHARE / sizeof(struct kv_bucket);
    unsigned power = 0;
    while (heads >> (power + 1) != 0)
        power++;
    return power;
}

static const char *map_memory(struct kv *kv)
{
    uint64_t bytes = kv->config.memory_bytes + HUGE_PAGE_BYTES; /* room to align */
    void *mapping = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED)
        return "cannot map the memory for items: lower the memory limit";
    kv->mapping = mapping;
    kv->mapping_bytes = bytes;
    return NULL;
}

static const char *lay_out(struct kv *kv)
{
    const struct kv_config *config = &kv->config;
    uint64_t start = ((uintptr_t)kv->mapping + HUGE_PAGE_BYTES - 1) & ~(HUGE_PAGE_BYTES - 1);
    uint8_t *base = (uint8_t *)kv->mapping + (start - (uintptr_t)kv->mapping);
    unsigned power = index_power(config);
    unsigned shift = segment_shift(config);
    uint64_t heads_bytes = sizeof(struct kv_bucket) << power;
    uint64_t segment_bytes = UINT64_C(1) << shift;
    uint64_t count =
        (config->memory_bytes - heads_bytes) / (segment_bytes + sizeof(struct kv_segment));
    if (count < (uint64_t)config->worker_max * 4)
        return "the memory limit is too low for so many workers: raise it or use fewer threads";

    kv->fixed_bytes = heads_bytes + count * sizeof(struct kv_segment);
    uint8_t *headers = base + heads_bytes;
    kv->floor_segments = u_max32(2, u_min32(config->worker_max, (uint32_t)count / 16));
    kv->reserve_segments = kv->floor_segments + u_max32(2, (uint32_t)count / RESERVE_SHARE);
    kv->small_bytes_max = (uint32_t)segment_bytes / 4;
    kv_index_init(&kv->index, base, (struct kv_bucket *)(void *)base, power,
                  (uint32_t)count / INDEX_GROWTH_SHARE);
    kv_segments_init(&kv->segments, base + kv->fixed_bytes, (struct kv_segment *)(void *)headers,
                     (uint32_t)count, shift, &kv->epoch);
    if (config->memory_bytes >= 16 * HUGE_PAGE_BYTES)
        (void)madvise(base, config->memory_bytes, MADV_HUGEPAGE); /* a hint: may be refused */
    return NULL;
}

/* ---- table ------------------------------------------------------------------------------- */

static void *zeroed_lines(size_t count, size_t bytes)
{
    void *lines = aligned_alloc(64, count * bytes);
    if (lines)
        u_zero(lines, count * bytes);
    return lines;
}

static const char *allocate(struct kv *kv)
{
    unsigned count = kv->config.worker_max;
    kv->workers = (struct kv_worker *)zeroed_lines(count, sizeof(*kv->workers));
    kv->members = (struct kv_epoch_member *)zeroed_lines(count, sizeof(*kv->members));
    if (!kv->workers || !kv->members)
        return "not enough memory for the workers: use fewer threads";
    kv_epoch_init(&kv->epoch, kv->members, count);
    return map_memory(kv);
}

struct kv *kv_create(const struct kv_config *config, const char **error)
{
    *error = NULL;
    if (config->memory_bytes < MEMORY_BYTES_MIN)
        *error = "the memory limit is below 1 MiB: raise it";
    else if (config->worker_max == 0)
        *error = "there must be at least one worker";
    if (*error)
        return NULL;
    struct kv *kv = (struct kv *)zeroed_lines(1, sizeof(*kv));
    if (!kv) {
        *error = "not enough memory for the table";
        return NULL;
    }
    kv->config = *config;
    kv->config.memory_bytes &= ~(uint64_t)(sizeof(struct kv_bucket) - 1);
    kv_u64_store_relaxed(&kv->cas_next, 1);
    *error = allocate(kv);
    if (!*error)
        *error = lay_out(kv);
    if (*error) {
        kv_destroy(kv);
        return NULL;
    }
    return kv;
}

void kv_destroy(struct kv *kv)
{
    if (kv->workers)
        for (unsigned i = 0; i < kv->config.worker_max; i++)
            free(kv->workers[i].seen);
    if (kv->mapping) {
        kv_unpoison(kv->mapping, kv->mapping_bytes);
        munmap(kv->mapping, kv->mapping_bytes);
    }
    free(kv->workers);
    free(kv->members);
    free(kv);
}

/* ---- workers ----------------------------------------------------------------------------- */

static struct kv_worker *claim_worker(struct kv *kv)
{
    for (unsigned i = 0; i < kv->config.worker_max; i++) {
        struct kv_worker *worker = &kv->workers[i];
        uint32_t expected = 0;
        if (kv_u32_cas_acq_rel(&worker->joined, &expected, 1)) {
            worker->member = &kv->members[i];
            return worker;
        }
    }
    return NULL;
}

struct kv_worker *kv_join(struct kv *kv)
{
    struct kv_worker *worker = claim_worker(kv);
    if (!worker)
        return NULL;
    if (!worker->seen)
        worker->seen = (uint32_t *)calloc(kv->segments.count, sizeof(*worker->seen));
    if (!worker->seen) {
        kv_u32_store_release(&worker->joined, 0);
        return NULL;
    }
    worker->kv = kv;
    worker->turn++;
    worker->log[KV_LOG_NEW] = KV_SEGMENT_NONE;
    worker->log[KV_LOG_RESCUED] = KV_SEGMENT_NONE;
    kv_evict_init(worker);
    kv_epoch_online(&kv->epoch, worker->member);
    return worker;
}

void kv_leave(struct kv_worker *worker)
{
    struct kv *kv = worker->kv;
    kv_walk_end(worker);
    kv_log_close(worker, KV_LOG_NEW);
    kv_log_close(worker, KV_LOG_RESCUED);
    if (worker->spare_bucket != 0)
        kv_index_pool_give(&kv->index, worker->spare_bucket);
    worker->spare_bucket = 0;
    if (kv_u64_load_relaxed(&worker->member->announced) != KV_EPOCH_OFFLINE)
        kv_epoch_offline(worker->member);
    kv_u32_store_release(&worker->joined, 0);
}

void kv_tick(struct kv_worker *worker, uint32_t now_s)
{
    U_ASSERT(now_s >= worker->now_s);
    worker->now_s = now_s;
}

void kv_quiesce(struct kv_worker *worker)
{
    worker->turn++;
    kv_epoch_announce(&worker->kv->epoch, worker->member);
    kv_log_reclaim(worker, RECLAIM_PER_QUIESCE);
    kv_sweep_step(worker);
    kv_evict_step(worker, RECORDS_PER_QUIESCE);
}

void kv_views_done(struct kv_worker *worker)
{
    worker->turn++;
}

void kv_offline(struct kv_worker *worker)
{
    worker->turn++;
    kv_epoch_offline(worker->member);
}

void kv_online(struct kv_worker *worker)
{
    kv_epoch_online(&worker->kv->epoch, worker->member);
}
