/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table and its workers: memory mapped, workers registered, time and quiescent states.
 *
 * The memory is one range of addresses: resize.c defines its layout, memory.h the kinds of pages.
 * The structs of workers are on the heap and do not count towards the memory limit.
 */
#include "kv/kv.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "kv/engine.h"
#include "kv/poison.h"

#define MEMORY_BYTES_MIN (UINT64_C(1) << 20)
#define HUGE_MEMORY_BYTES_MIN (16 * KV_HUGE_PAGE_BYTES) /* below: ordinary pages */
#define RECORDS_PER_QUIESCE 128
#define RECLAIM_PER_QUIESCE 16

/* ---- memory ------------------------------------------------------------------------------ */

/* Maps addresses for the highest limit, or else for the first one only. */
static bool map(struct kv *kv, const struct kv_layout *layout)
{
    if (!kv_memory_map(&kv->memory, layout->bytes_max))
        return false;
    if (!kv->config.file || kv_file_create(kv, layout))
        return true;
    kv_memory_unmap(&kv->memory);
    return false;
}

static const char *plan_and_map(struct kv *kv, struct kv_layout *layout)
{
    const char *error = kv_layout_plan(&kv->config, layout);
    if (error || map(kv, layout))
        return error;
    kv->config.memory_bytes_max = 0;
    error = kv_layout_plan(&kv->config, layout);
    if (error || map(kv, layout))
        return error;
    return kv->config.file ? "cannot map the file: is its file system full, or a limit of file "
                             "sizes set?"
                           : "cannot map the memory for items: lower the memory limit";
}

/* Maps zeroed pages for the ghost queue. */
static const char *ghosts_map(struct kv *kv)
{
    uint64_t bytes = kv_ghosts_bytes(&kv->config);
    if (bytes == 0)
        return NULL;
    void *words = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (words == MAP_FAILED)
        return "cannot map the memory for the eviction: lower the memory limit";
    kv->ghosts_bytes = bytes;
    kv_ghost_init(&kv->ghost, (kv_atomic_u64 *)words, (uint32_t)(bytes / KV_GHOST_SET_BYTES));
    return NULL;
}

/*
 * Makes accessible what is used from the start: the first table (and the next ones while they are
 * small), segment headers, and the segments of the limit.
 */
static bool open_memory(struct kv_memory *memory, const struct kv_layout *layout)
{
    uint8_t *base = memory->base;
    uint64_t heads_bytes = sizeof(struct kv_bucket) << layout->index_power;
    uint64_t tail_bytes = kv_table_bytes(layout->index_power) - heads_bytes;
    uint64_t end_bytes = 2 * sizeof(struct kv_bucket) << layout->index_power_open;
    uint64_t items_bytes = (uint64_t)layout->count << layout->segment_shift;
    uint8_t *items = base + layout->segments_offset;
    if (layout->index_power_open > layout->index_power)
        tail_bytes = end_bytes - heads_bytes;
    return kv_memory_open(memory, base + heads_bytes, end_bytes - heads_bytes) &&
           kv_memory_open(memory, base + layout->overflow_offset + heads_bytes, tail_bytes) &&
           kv_memory_open(memory, base + layout->headers_offset,
                          layout->segments_offset - layout->headers_offset) &&
           kv_memory_open(memory, items + memory->huge_bytes, items_bytes - memory->huge_bytes);
}

/* Sets kinds of pages and NUMA nodes, before any page is faulted in. */
static bool place_memory(struct kv *kv, const struct kv_layout *layout)
{
    const struct kv_config *config = &kv->config;
    uint8_t *items = kv->memory.base + layout->segments_offset;
    uint64_t items_bytes = (uint64_t)layout->count << layout->segment_shift;
    if (config->huge_pages && !kv->memory.shared &&
        !kv_memory_take_huge(&kv->memory, items, items_bytes, config->numa_nodes))
        return false;
    kv_memory_interleave(&kv->memory, config->numa_nodes);
    if (!config->dump_items)
        kv_memory_hide(&kv->memory, items);
    if (config->huge_pages || config->memory_bytes >= HUGE_MEMORY_BYTES_MIN)
        kv_memory_advise(&kv->memory, items);
    return true;
}

/* A new table. */
static const char *lay_out_new(struct kv *kv)
{
    struct kv_layout layout;
    const char *error = plan_and_map(kv, &layout);
    if (error)
        return error;
    if (!place_memory(kv, &layout))
        return "the system refuses the memory for items: lower the memory limit";
    if (!open_memory(&kv->memory, &layout))
        return kv->config.file
                   ? "too little space for the memory limit in the file system: enlarge it"
                   : "the system refuses the memory for items: lower the memory limit";

    uint8_t *base = kv->memory.base;
    kv->small_bytes_max = (UINT32_C(1) << layout.segment_shift) / 4;
    kv->segments_count_max = layout.count_max;
    kv_index_init(&kv->index, base, (struct kv_bucket *)(void *)base,
                  (struct kv_bucket *)(void *)(base + layout.overflow_offset), layout.index_power,
                  layout.index_power_max);
    if (layout.index_power_open > layout.index_power)
        kv->index.power_open = layout.index_power_open;
    kv_segments_init(&kv->segments, base + layout.segments_offset,
                     (struct kv_segment *)(void *)(base + layout.headers_offset), layout.count,
                     layout.segment_shift, &kv->epoch);
    kv_u64_store_relaxed(&kv->memory_limit_bytes, kv->config.memory_bytes);
    kv_segments_set_faulted(&kv->segments,
                            (uint32_t)(kv->memory.huge_bytes >> layout.segment_shift));
    kv_limit_derive(kv, layout.count);
    return NULL;
}

/* The table in config.file, or a new one. */
static const char *lay_out(struct kv *kv)
{
    struct kv_layout layout;
    if (!kv->config.file || !kv_file_restore(kv, &layout))
        return lay_out_new(kv);
    (void)place_memory(kv, &layout); /* loses no addresses, as it takes no huge pages */
    kv->small_bytes_max = (UINT32_C(1) << layout.segment_shift) / 4;
    kv->segments_count_max = layout.count_max;
    kv_limit_derive(kv, kv_u32_load_relaxed(&kv->segments.wanted));
    return NULL;
}

/* Starts to approach the configured limit if a restored table has another one. */
static void follow_limit(struct kv *kv)
{
    if (kv_u64_load_relaxed(&kv->memory_limit_bytes) == kv->config.memory_bytes)
        return;
    kv_u64_store_relaxed(&kv->memory_limit_bytes, kv->config.memory_bytes);
    (void)kv_limit_follow(kv); /* a file's addresses are accessible */
}

void kv_placement(const struct kv *kv, struct kv_placement *placement)
{
    *placement = kv->memory.placement;
}

/* ---- table ------------------------------------------------------------------------------- */

static void *zeroed_lines(size_t count, size_t bytes)
{
    void *lines = aligned_alloc(U_CACHE_LINE_BYTES, count * bytes);
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
    return NULL;
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
    if (config->file) {
        kv->file.file = *config->file;
        kv->config.file = &kv->file.file;
    }
    kv->policy = kv_policy_at(config->policy);
    kv->config.memory_bytes &= ~(uint64_t)(sizeof(struct kv_bucket) - 1);
    kv_hash_init(&kv->hash, config->secret);
    kv_u64_store_relaxed(&kv->cas_next, 1);
    *error = kv_sizes_init(&kv->config.sizes) ? allocate(kv) : "the size classes don't rise";
    if (!*error)
        *error = lay_out(kv);
    if (!*error)
        *error = ghosts_map(kv);
    if (*error) {
        kv_destroy(kv);
        return NULL;
    }
    follow_limit(kv);
    kv_prefault_start(&kv->prefault, &kv->segments, &kv->memory, config->touch_ahead_bytes,
                      config->numa_nodes);
    return kv;
}

void kv_destroy(struct kv *kv)
{
    kv_prefault_stop(&kv->prefault);
    if (kv->workers)
        for (unsigned i = 0; i < kv->config.worker_max; i++) {
            free(kv->workers[i].seen);
            free(kv->workers[i].buckets);
        }
    const struct kv_segments *segments = &kv->segments;
    kv_unpoison(segments->base, (uint64_t)kv_segments_count(segments) << segments->shift);
    kv_memory_unmap(&kv->memory);
    kv_file_unmap(&kv->file);
    if (kv->ghosts_bytes > 0)
        munmap((void *)(uintptr_t)kv->ghost.words, kv->ghosts_bytes);
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

bool kv_worker_buckets_make(struct kv_worker *worker, const struct kv_sizes *sizes)
{
    if (!worker->buckets && sizes->bucket_count > 0)
        worker->buckets = (kv_atomic_u64 *)calloc(sizes->bucket_count, sizeof(*worker->buckets));
    return worker->buckets || sizes->bucket_count == 0;
}

struct kv_worker *kv_join(struct kv *kv)
{
    struct kv_worker *worker = claim_worker(kv);
    if (!worker)
        return NULL;
    if (!worker->seen)
        worker->seen = (uint32_t *)calloc(kv->segments_count_max, sizeof(*worker->seen));
    if (!kv_worker_buckets_make(worker, &kv->config.sizes) || !worker->seen) {
        kv_u32_store_release(&worker->joined, 0);
        return NULL;
    }
    worker->kv = kv;
    worker->view_version++;
    for (unsigned log = 0; log < KV_LOGS; log++)
        worker->log[log] = KV_SEGMENT_NONE;
    worker->evicted = NULL;
    kv_evict_init(worker);
    kv_epoch_online(&kv->epoch, worker->member);
    return worker;
}

void kv_leave(struct kv_worker *worker)
{
    U_ASSERT(kv_u32_load_relaxed(&worker->joined) == 1);
    kv_clean_end(worker);
    for (unsigned log = 0; log < KV_LOGS; log++)
        kv_log_close(worker, log);
    if (kv_u64_load_relaxed(&worker->member->announced) != KV_EPOCH_OFFLINE)
        kv_epoch_offline(worker->member);
    kv_u32_store_release(&worker->joined, 0);
}

void kv_tick(struct kv_worker *worker, uint32_t now_s)
{
    worker->now_s = now_s;
    worker->access_saturated = kv_access_saturated(worker);
}

void kv_on_evicted(struct kv_worker *worker, kv_evicted *tell, void *ctx)
{
    worker->evicted = tell;
    worker->evicted_ctx = ctx;
}

void kv_quiesce(struct kv_worker *worker)
{
    worker->view_version++;
    kv_epoch_announce(&worker->kv->epoch, worker->member);
    kv_log_reclaim(worker, RECLAIM_PER_QUIESCE);
    if (U_UNLIKELY(kv_segments_differ(&worker->kv->segments)))
        kv_resize_step(worker);
    if (worker->cut.count > 0)
        kv_overflow_reclaim(worker);
    kv_grow_step(worker);
    kv_purge_step(worker);
    kv_sweep_step(worker);
    kv_evict_step(worker, RECORDS_PER_QUIESCE);
}

void kv_release_views(struct kv_worker *worker)
{
    worker->view_version++;
}

void kv_offline(struct kv_worker *worker)
{
    worker->view_version++;
    kv_epoch_offline(worker->member);
}

void kv_online(struct kv_worker *worker)
{
    kv_epoch_online(&worker->kv->epoch, worker->member);
}
