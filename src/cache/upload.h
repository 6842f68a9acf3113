/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Unfinished uploads: data blocks that have arrived in part. They hold memory that cannot be
 * evicted until the client sends the rest, so it is bounded:
 *
 *   - The item is made at the beginning, as long as the items of all unfinished uploads take no
 *     more than an eighth of the memory limit.
 *   - Else the upload is staged in a buffer that grows with the data, and the item is made when the
 *     data is complete. All buffers together take at most another eighth of the limit, or one
 *     item of the maximum size if that is more. At the bound, uploads of the same worker without
 *     progress for CACHE_UPLOAD_STALL_US are aborted; if there is none, the upload that needs
 *     memory is refused: SERVER_ERROR out of memory storing object.
 *   - An upload of which fewer than CACHE_UPLOAD_PROGRESS_BYTES come in settings.upload_timeout_s
 *     is aborted.
 *
 * Aborting an upload closes its connection. A data block that is complete in the input of its
 * request is not an unfinished upload.
 */
#ifndef CACHE_UPLOAD_H
#define CACHE_UPLOAD_H

#include "cache/op.h"

#define CACHE_UPLOAD_SHARE 8 /* of the memory limit: for items, and as much for buffers */
#define CACHE_UPLOAD_PROGRESS_BYTES 4096
#define CACHE_UPLOAD_STALL_US 1000000

/* Begins an unfinished upload of upload->value_len bytes. True: make the item now; false: stage. */
bool cache_upload_open(struct cache_worker *worker, struct cache_upload *upload);

/* Appends to a staged upload. False, counted: there is no memory. */
bool cache_upload_stage(struct cache_worker *worker, struct cache_upload *upload,
                        const uint8_t *data, uint32_t n);

/* Data has arrived. */
void cache_upload_progress(struct cache_worker *worker, struct cache_upload *upload);

/* Ends it: frees the buffer, not the item. */
void cache_upload_close(struct cache_worker *worker, struct cache_upload *upload);

/* Once per loop: aborts uploads that have timed out. */
void cache_upload_tick(struct cache_worker *worker);

/* ---- statistics -------------------------------------------------------------------------- */

struct cache_upload_sums {
    uint64_t open;
    uint64_t item_bytes;   /* of whole values */
    uint64_t staged_bytes; /* of buffers */
};

void cache_upload_sum(struct cache *cache, struct cache_upload_sums *sums);

#endif
