/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file that a table can live in, so that its items outlive the process:
 *
 *   | header, size buckets | the table's memory, as resize.c lays it out |
 *   0                      header_bytes, a multiple of huge pages
 *
 * The memory is a shared mapping of the file. It holds no pointers: slots of the index, lists of
 * segments and heads of large items name records and segments by offsets or numbers. kv_save()
 * writes what else a table consists of into the header. A table that is created in the file later
 * takes it over in a time that depends on the number of segments, not of items.
 *
 * The state of the header is KV_FILE_DIRTY while a table uses the file, so a file whose server
 * crashed is never taken over. Whether the file was changed since it was saved follows from
 *   - the checksums of the header with the size buckets, and of the headers of segments;
 *   - its size, and its time of last modification, which kv_save() sets to a whole second that it
 *     notes in the header: write() and truncate() set it to the present. Changes through a mapping
 *     that leave this time alone are not found, except in what the checksums cover.
 * Only the owner may access the file: the header has the secret of the hash.
 *
 * The hint tables of evicted keys (ghost.h) are not in the file; they start empty.
 */
#ifndef KV_FILE_H
#define KV_FILE_H

#include "base/base.h"
#include "kv/index.h"
#include "kv/kv.h"
#include "kv/segment.h"

#define KV_FILE_MAGIC UINT64_C(0x6465686361637500) /* the byte order shows in it */

/* Number of the format of header, segments, records and index: raise it with each change of them */
#define KV_FILE_FORMAT 1

enum kv_file_state { KV_FILE_DIRTY = 1, KV_FILE_CLEAN };

struct kv_file_header {
    uint64_t magic;
    uint32_t format;
    uint32_t state;    /* enum kv_file_state */
    uint64_t checksum; /* of what follows, and of the size buckets behind the header */

    uint64_t file_bytes;
    uint64_t header_bytes;
    uint64_t modified_s; /* time of last modification: this second, and 0 nanoseconds */
    uint64_t segments_checksum;

    /* What the table was created with. */
    uint64_t tag;
    uint64_t memory_bytes_max;
    uint32_t segment_shift;
    uint32_t segments_count_max;
    uint32_t index_power_max;
    uint32_t policy; /* enum kv_policy_kind */
    uint8_t secret[KV_SECRET_BYTES];
    uint32_t size_fixed_bytes; /* these as in struct kv_sizes */
    uint32_t class_count;
    uint32_t class_bytes_max[KV_CLASSES_MAX];
    uint32_t bucket_bytes;
    uint32_t bucket_count;

    /* Its state. */
    uint64_t saved_unix_s;
    uint32_t saved_s; /* the clock of the workers */
    uint32_t saved_note;
    uint64_t memory_limit_bytes;
    uint64_t generation;
    uint64_t purged;
    uint64_t cas_next;
    uint64_t bytes; /* of the records of live items */
    uint64_t class_items[KV_CLASSES_MAX];
    uint64_t class_sizes[KV_CLASSES_MAX];
    struct kv_saved_index index;
    struct kv_saved_segments segments;
};

/* A table's file, mapped; header is null if it has none. */
struct kv_file_map {
    struct kv_file_header *header;
    uint64_t header_bytes;
    struct kv_file file;
    struct kv_restored restored;
};

struct kv_layout;

/*
 * Takes over the table that was saved in the file, and sets its layout. False if there is none,
 * with nothing mapped and restored.why_not set unless the file is empty.
 */
bool kv_file_restore(struct kv *kv, struct kv_layout *layout);

/*
 * Empties the file, and maps it over the addresses of kv.memory for a new table. False if the
 * system refuses.
 */
bool kv_file_create(struct kv *kv, const struct kv_layout *layout);

void kv_file_unmap(struct kv_file_map *map);

#endif
