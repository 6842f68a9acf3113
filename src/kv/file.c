/* SPDX-License-Identifier: BSD-3-Clause */
/* Saves a table into its file, and takes it over from there; file.h has the file's content. */
#define _GNU_SOURCE /* struct stat.st_mtim, futimens() */
#include "kv/file.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "kv/engine.h"

#define CLOCK_MAX_S (UINT32_C(1) << 27) /* half of what kv_item.access can count: four years */

/* ---- the header -------------------------------------------------------------------------- */

static uint64_t used_bytes(uint32_t bucket_count)
{
    return sizeof(struct kv_file_header) + sizeof(uint64_t) * (uint64_t)bucket_count;
}

static uint64_t header_bytes_for(uint32_t bucket_count)
{
    return (used_bytes(bucket_count) + KV_HUGE_PAGE_BYTES - 1) & ~(KV_HUGE_PAGE_BYTES - 1);
}

static uint64_t *buckets_of(struct kv_file_header *header)
{
    return (uint64_t *)(void *)(header + 1);
}

static uint64_t checksum_of(const struct kv_file_header *header)
{
    const uint8_t *from = (const uint8_t *)&header->file_bytes;
    const uint8_t *end = (const uint8_t *)header + used_bytes(header->bucket_count);
    return kv_checksum(from, (uint64_t)(end - from), header->format);
}

static uint64_t segments_checksum(const struct kv_segment *array, uint32_t count)
{
    return kv_checksum(array, (uint64_t)count * sizeof(*array), KV_FILE_FORMAT);
}

static bool are_same_sizes(const struct kv_file_header *header, const struct kv_sizes *sizes)
{
    return header->size_fixed_bytes == sizes->fixed_bytes &&
           header->class_count == sizes->class_count &&
           memcmp(header->class_bytes_max, sizes->class_bytes_max,
                  sizeof(header->class_bytes_max)) == 0;
}

/* What keeps an undamaged file from being taken over with this configuration; null: nothing. */
static const char *mismatch(const struct kv_file_header *header, const struct kv_config *config)
{
    struct kv_layout fresh;
    const char *error = kv_layout_plan(config, &fresh);
    if (error)
        return error;
    if (header->tag != config->file->tag)
        return "it was saved with another setting of cas";
    if (!are_same_sizes(header, &config->sizes))
        return "it was saved with other size classes";
    if (header->bucket_bytes != config->sizes.bucket_bytes ||
        header->bucket_count != config->sizes.bucket_count)
        return "it was saved with another setting for the statistics of sizes";
    if (header->policy != (uint32_t)config->policy)
        return "it was saved with another eviction policy";
    if (config->memory_bytes > header->memory_bytes_max)
        return "the memory limit is higher than the highest that it was made for";
    if (!kv_layout_has_enough(config, header->segments.in_service))
        return "it has too few segments for so many workers";
    if (header->saved_s > CLOCK_MAX_S)
        return "its clock has run for four years";
    uint64_t longest = kv_layout_value_bytes_max(fresh.segment_shift);
    if (kv_layout_value_bytes_max(header->segment_shift) <
        u_min64(longest, config->value_bytes_max))
        return "its segments are too small for the longest value";
    return NULL;
}

/* Whether the file is as kv_save() left it; else what is wrong. */
static const char *damage(const struct kv_file_header *header, const struct stat *file)
{
    if (header->magic != KV_FILE_MAGIC)
        return "it is no memory file of this server, or is damaged";
    if (header->format != KV_FILE_FORMAT)
        return "another version of the server has written it";
    if (header->state != KV_FILE_CLEAN)
        return "its server has not saved it: it was killed or has crashed";
    if (header->header_bytes != header_bytes_for(header->bucket_count) ||
        header->header_bytes > (uint64_t)file->st_size || checksum_of(header) != header->checksum)
        return "its header is damaged";
    if (header->file_bytes != (uint64_t)file->st_size)
        return "its size has changed since it was saved";
    if (header->modified_s != (uint64_t)file->st_mtim.tv_sec || file->st_mtim.tv_nsec != 0)
        return "it was changed, or copied without its time, since it was saved";
    return NULL;
}

/* ---- mapping ----------------------------------------------------------------------------- */

static bool map_header(struct kv_file_map *map, uint64_t bytes)
{
    void *at =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, map->file.fd, 0);
    if (at == MAP_FAILED)
        return false;
    map->header = (struct kv_file_header *)at;
    map->header_bytes = bytes;
    return true;
}

void kv_file_unmap(struct kv_file_map *map)
{
    if (map->header)
        munmap(map->header, map->header_bytes);
    map->header = NULL;
}

/* Maps the header with the size buckets. Null, or why not. */
static const char *map_saved(struct kv_file_map *map, const struct stat *file)
{
    uint64_t bytes = KV_HUGE_PAGE_BYTES;
    if ((uint64_t)file->st_size < bytes)
        return "it is truncated, or no memory file of this server";
    bool mapped = map_header(map, bytes);
    if (mapped)
        bytes = map->header->header_bytes;
    if (mapped && bytes != map->header_bytes && bytes <= (uint64_t)file->st_size &&
        bytes == header_bytes_for(map->header->bucket_count)) {
        kv_file_unmap(map);
        mapped = map_header(map, bytes);
    }
    return mapped ? NULL : "the system refuses to map it";
}

/* ---- restoring --------------------------------------------------------------------------- */

static bool layout_of(const struct kv_file_header *header, struct kv_layout *layout)
{
    layout->segment_shift = header->segment_shift;
    layout->index_power_max = header->index_power_max;
    layout->count_max = header->segments_count_max;
    if (layout->segment_shift > 31 || layout->index_power_max > 40)
        return false;
    kv_layout_place(layout);
    return header->file_bytes == header->header_bytes + layout->bytes_max &&
           header->segments.accessible <= layout->count_max &&
           header->segments.count <= layout->count_max;
}

static void restore_counters(struct kv *kv, struct kv_file_header *header)
{
    struct kv_worker *worker = &kv->workers[0];
    struct kv_restored *restored = &kv->file.restored;
    kv_count(worker, KV_COUNT_BYTES, header->bytes);
    for (unsigned i = 0; i < u_max32(header->class_count, 1); i++) {
        kv_class_count(worker, i, KV_CLASS_ITEMS, header->class_items[i]);
        kv_class_count(worker, i, KV_CLASS_SIZES, header->class_sizes[i]);
        kv_class_count(worker, i, KV_CLASS_PUBLISHED, header->class_items[i]);
        restored->items += header->class_items[i];
    }
    for (uint32_t i = 0; worker->buckets && i < header->bucket_count; i++)
        kv_u64_count(&worker->buckets[i], buckets_of(header)[i]);
    restored->bytes = header->bytes;
    restored->saved.unix_s = header->saved_unix_s;
    restored->saved.now_s = header->saved_s;
    restored->saved.note = header->saved_note;
    restored->restored = true;
}

/* The table's memory is mapped. Null, or why it can't be taken over. */
static const char *restore(struct kv *kv, struct kv_file_header *header,
                           const struct kv_layout *layout)
{
    uint8_t *base = kv->memory.base;
    struct kv_segment *array = (struct kv_segment *)(void *)(base + layout->headers_offset);
    if (segments_checksum(array, header->segments.count) != header->segments_checksum ||
        !kv_segments_restore(&kv->segments, &header->segments, base + layout->segments_offset,
                             array, layout->segment_shift, &kv->epoch))
        return "the headers of its segments are damaged";
    if (!kv_worker_buckets_make(&kv->workers[0], &kv->config.sizes))
        return "not enough memory";
    kv_index_init(&kv->index, base, (struct kv_bucket *)(void *)base,
                  (struct kv_bucket *)(void *)(base + layout->overflow_offset), layout->index_power,
                  layout->index_power_max);
    kv_index_restore(&kv->index, &header->index);
    memcpy(kv->config.secret, header->secret, sizeof(kv->config.secret));
    kv_hash_init(&kv->hash, kv->config.secret);
    kv->config.memory_bytes_max = header->memory_bytes_max;
    kv_u64_store_relaxed(&kv->memory_limit_bytes, header->memory_limit_bytes);
    kv_u64_store_relaxed(&kv->generation, header->generation);
    kv_u64_store_relaxed(&kv->purged, header->purged);
    kv_u64_store_relaxed(&kv->cas_next, header->cas_next);
    restore_counters(kv, header);
    return NULL;
}

/* Maps the memory of the saved table and takes it over. Null, or why not. */
static const char *take_over(struct kv *kv, struct kv_layout *layout)
{
    struct kv_file_header *header = kv->file.header;
    if (!layout_of(header, layout))
        return "its layout is not that of this version";
    layout->index_power = (unsigned)(header->index.shape & KV_SHAPE_POWER_MASK);
    layout->count = header->segments.count;
    if (!kv_memory_map(&kv->memory, layout->bytes_max))
        return "there are not enough addresses for it";
    const char *why_not = "the system refuses to map it";
    if (kv_memory_share(&kv->memory, kv->file.file.fd, header->header_bytes))
        why_not = restore(kv, header, layout);
    if (why_not) {
        kv_unpoison(kv->memory.base, kv->memory.bytes);
        kv_memory_unmap(&kv->memory);
    }
    return why_not;
}

bool kv_file_restore(struct kv *kv, struct kv_layout *layout)
{
    struct kv_file_map *map = &kv->file;
    struct stat file;
    if (fstat(map->file.fd, &file) < 0 || file.st_size == 0)
        return false;
    const char *why_not = map_saved(map, &file);
    if (!why_not)
        why_not = damage(map->header, &file);
    if (!why_not)
        why_not = mismatch(map->header, &kv->config);
    if (!why_not)
        why_not = take_over(kv, layout);
    map->restored.why_not = why_not;
    if (why_not) {
        kv_file_unmap(map);
        return false;
    }
    map->header->state = KV_FILE_DIRTY;
    (void)msync(map->header, map->header_bytes, MS_SYNC);
    return true;
}

/* ---- a new table ------------------------------------------------------------------------- */

static void header_init(struct kv_file_header *header, const struct kv *kv,
                        const struct kv_layout *layout, uint64_t header_bytes)
{
    const struct kv_sizes *sizes = &kv->config.sizes;
    u_zero(header, sizeof(*header));
    header->magic = KV_FILE_MAGIC;
    header->format = KV_FILE_FORMAT;
    header->state = KV_FILE_DIRTY;
    header->file_bytes = header_bytes + layout->bytes_max;
    header->header_bytes = header_bytes;
    header->tag = kv->config.file->tag;
    header->memory_bytes_max = u_max64(kv->config.memory_bytes_max, kv->config.memory_bytes);
    header->segment_shift = layout->segment_shift;
    header->segments_count_max = layout->count_max;
    header->index_power_max = layout->index_power_max;
    header->policy = (uint32_t)kv->config.policy;
    memcpy(header->secret, kv->config.secret, sizeof(header->secret));
    header->size_fixed_bytes = sizes->fixed_bytes;
    header->class_count = sizes->class_count;
    memcpy(header->class_bytes_max, sizes->class_bytes_max, sizeof(header->class_bytes_max));
    header->bucket_bytes = sizes->bucket_bytes;
    header->bucket_count = sizes->bucket_count;
}

bool kv_file_create(struct kv *kv, const struct kv_layout *layout)
{
    struct kv_file_map *map = &kv->file;
    uint64_t header_bytes = header_bytes_for(kv->config.sizes.bucket_count);
    int fd = map->file.fd;
    /* Bytes of an earlier table must not show: all of the new one's are zero. */
    if (ftruncate(fd, 0) < 0 || ftruncate(fd, (off_t)(header_bytes + layout->bytes_max)) < 0 ||
        !kv_memory_share(&kv->memory, fd, header_bytes))
        return false;
    if (!map_header(map, header_bytes))
        return false;
    struct kv_memory header = {.base = (uint8_t *)map->header, .shared = true, .fd = fd};
    if (!kv_memory_open(&header, header.base, used_bytes(kv->config.sizes.bucket_count))) {
        kv_file_unmap(map);
        return false;
    }
    header_init(map->header, kv, layout, header_bytes);
    return true;
}

/* ---- saving ------------------------------------------------------------------------------ */

static void save_counters(struct kv *kv, struct kv_file_header *header)
{
    struct kv_class_stats stats;
    header->bytes = kv_counter_sum(kv, KV_COUNT_BYTES);
    for (unsigned i = 0; i < u_max32(header->class_count, 1); i++) {
        kv_class_stats(kv, i, &stats);
        header->class_items[i] = stats.items;
        header->class_sizes[i] = stats.bytes;
    }
    for (uint32_t i = 0; i < header->bucket_count; i++)
        buckets_of(header)[i] = kv_bucket_items(kv, i);
}

/* Frees what a grace period or a worker's reserve keeps. Null, or what is in the way. */
static const char *settle(struct kv *kv)
{
    for (unsigned i = 0; i < kv->config.worker_max; i++)
        if (kv_u32_load_relaxed(&kv->workers[i].joined) != 0)
            return "a worker has not left";
    struct kv_worker *worker = kv_join(kv);
    if (!worker)
        return "not enough memory";
    for (unsigned i = 0; i < kv->config.worker_max; i++)
        kv_overflow_return(&kv->workers[i], &kv->index);
    kv_log_reclaim(worker, UINT32_MAX);
    kv_leave(worker);
    return kv_counter_sum(kv, KV_COUNT_PINS) != 0 ? "an item is still being sent" : NULL;
}

/* Marks the file as saved. Its time of last modification is the last thing that changes. */
static bool finish(struct kv_file_map *map)
{
    struct kv_file_header *header = map->header;
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = (time_t)header->modified_s}};
    header->checksum = checksum_of(header);
    if (fsync(map->file.fd) < 0)
        return false;
    header->state = KV_FILE_CLEAN;
    return msync(header, map->header_bytes, MS_SYNC) == 0 && futimens(map->file.fd, times) == 0;
}

const char *kv_save(struct kv *kv, const struct kv_moment *moment)
{
    struct kv_file_header *header = kv->file.header;
    if (!header)
        return "the items are in no file";
    kv_prefault_stop(&kv->prefault);
    const char *error = settle(kv);
    if (error)
        return error;
    if (!kv_segments_save(&kv->segments, &header->segments))
        return "an item is still in use";
    kv_index_save(&kv->index, &header->index);
    save_counters(kv, header);
    header->modified_s = moment->unix_s;
    header->saved_unix_s = moment->unix_s;
    header->saved_s = moment->now_s;
    header->saved_note = moment->note;
    header->memory_limit_bytes = kv_u64_load_relaxed(&kv->memory_limit_bytes);
    header->generation = kv_u64_load_relaxed(&kv->generation);
    header->purged = kv_u64_load_relaxed(&kv->purged);
    header->cas_next = kv_u64_load_relaxed(&kv->cas_next);
    header->segments_checksum = segments_checksum(kv->segments.array, header->segments.count);
    return finish(&kv->file) ? NULL : "the system refuses to write the file";
}

void kv_save_undo(struct kv *kv)
{
    kv->file.header->state = KV_FILE_DIRTY;
}

const char *kv_file_examine(const struct kv_config *config)
{
    struct kv_config sized = *config;
    struct kv_file_map map = {.file = *config->file};
    struct stat file;
    const char *why_not = "the system refuses to read it";
    if (!kv_sizes_init(&sized.sizes))
        return "the size classes don't rise";
    if (fstat(map.file.fd, &file) == 0)
        why_not = map_saved(&map, &file);
    if (!why_not)
        why_not = damage(map.header, &file);
    if (!why_not)
        why_not = mismatch(map.header, &sized);
    kv_file_unmap(&map);
    return why_not;
}

const struct kv_restored *kv_restored(const struct kv *kv)
{
    return &kv->file.restored;
}
