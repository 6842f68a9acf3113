/* SPDX-License-Identifier: BSD-3-Clause */
/* Unfinished uploads: their memory and their time. */
#include "cache/upload.h"

#include <stdlib.h>
#include <string.h>

#include "cache/linebuf.h"
#include "cache/session.h"
#include "cache/task.h"

#define STAGED_BYTES_FIRST 2048

/* ---- the bounds -------------------------------------------------------------------------- */

/*
 * Adds to a sum of all workers unless it would exceed max. A refused charge never enters the sum,
 * not even briefly: another worker would be refused for it.
 */
static bool charge(_Atomic uint64_t *sum, uint64_t bytes, uint64_t max)
{
    uint64_t before = atomic_load_explicit(sum, memory_order_relaxed);

    do {
        if (before + bytes > max)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(sum, &before, before + bytes,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

static uint64_t items_bytes_max(const struct cache *cache)
{
    return kv_memory_limit(cache->kv) / CACHE_UPLOAD_SHARE;
}

static uint64_t staged_bytes_max(const struct cache *cache)
{
    return u_max64(items_bytes_max(cache), cache->settings.item_bytes_max);
}

/* ---- aborting ---------------------------------------------------------------------------- */

/* The transport closes the connection in the next loop. */
static void abort_upload(struct cache_worker *worker, struct cache_upload *upload,
                         enum cache_counter counter)
{
    struct cache_session *session = U_CONTAINER_OF(upload, struct cache_session, u.upload);

    cache_store_drop(worker, upload);
    cache_linebuf_drop(worker, &session->line);
    cache_count(worker, counter, 1);
    session->close_reason = CACHE_CLOSE_IDLE;
    cache_session_set_phase(session, CACHE_PHASE_CLOSING);
    cache_session_set_resumable(session, true);
}

/*
 * Aborts the worker's upload that has been without progress for longest, if for
 * CACHE_UPLOAD_STALL_US, to free memory for `needy`. Returns whether there was one.
 */
static bool abort_stalled(struct cache_worker *worker, const struct cache_upload *needy)
{
    struct u_list *link = worker->uploads.next;
    struct cache_upload *oldest;

    if (link == &needy->link)
        link = link->next;
    if (link == &worker->uploads)
        return false;
    oldest = U_CONTAINER_OF(link, struct cache_upload, link);
    if (worker->now_us - oldest->marked_us < CACHE_UPLOAD_STALL_US)
        return false;
    abort_upload(worker, oldest, CACHE_UPLOADS_EVICTED);
    return true;
}

/* ---- the life of an upload --------------------------------------------------------------- */

bool cache_upload_open(struct cache_worker *worker, struct cache_upload *upload)
{
    struct cache *cache = worker->cache;

    upload->is_unfinished = true;
    upload->staged = NULL;
    upload->staged_bytes = 0;
    upload->marked_left = upload->value_len;
    upload->marked_us = worker->now_us;
    u_list_push_back(&worker->uploads, &upload->link);
    cache_add(&worker->uploads_open, 1);
    upload->item_bytes = upload->value_len;
    if (charge(&cache->upload_item_bytes, upload->item_bytes, items_bytes_max(cache)))
        return true;
    upload->item_bytes = 0;
    return false;
}

/* Makes room for `bytes` bytes in all. */
static bool staged_grow(struct cache_worker *worker, struct cache_upload *upload, uint32_t bytes)
{
    struct cache *cache = worker->cache;
    uint64_t capacity = u_max32(upload->staged_bytes, STAGED_BYTES_FIRST);
    uint64_t more;
    uint8_t *grown;

    while (capacity < bytes)
        capacity *= 2;
    capacity = u_min64(capacity, upload->value_len);
    more = capacity - upload->staged_bytes;
    while (!charge(&cache->upload_staged_bytes, more, staged_bytes_max(cache))) {
        if (!abort_stalled(worker, upload))
            return false;
    }
    grown = realloc(upload->staged, capacity);
    if (grown == NULL) {
        atomic_fetch_sub_explicit(&cache->upload_staged_bytes, more, memory_order_relaxed);
        cache_count(worker, CACHE_MALLOC_FAILS, 1);
        return false;
    }
    upload->staged = grown;
    upload->staged_bytes = (uint32_t)capacity;
    return true;
}

bool cache_upload_stage(struct cache_worker *worker, struct cache_upload *upload,
                        const uint8_t *data, uint32_t n)
{
    uint32_t at = upload->value_len - upload->left;

    if (n > upload->staged_bytes - at && !staged_grow(worker, upload, at + n)) {
        cache_count(worker, CACHE_UPLOADS_REFUSED, 1);
        return false;
    }
    if (n > 0)
        memcpy(upload->staged + at, data, n);
    return true;
}

void cache_upload_progress(struct cache_worker *worker, struct cache_upload *upload)
{
    if (upload->marked_left - upload->left < CACHE_UPLOAD_PROGRESS_BYTES)
        return;
    upload->marked_left = upload->left;
    upload->marked_us = worker->now_us;
    u_list_remove(&upload->link);
    u_list_push_back(&worker->uploads, &upload->link);
}

void cache_upload_close(struct cache_worker *worker, struct cache_upload *upload)
{
    struct cache *cache = worker->cache;

    upload->is_unfinished = false;
    u_list_remove(&upload->link);
    cache_add(&worker->uploads_open, UINT64_MAX);
    atomic_fetch_sub_explicit(&cache->upload_item_bytes, upload->item_bytes, memory_order_relaxed);
    if (upload->staged == NULL)
        return;
    free(upload->staged);
    upload->staged = NULL;
    atomic_fetch_sub_explicit(&cache->upload_staged_bytes, upload->staged_bytes,
                              memory_order_relaxed);
}

/* ---- time -------------------------------------------------------------------------------- */

void cache_upload_tick(struct cache_worker *worker)
{
    uint64_t timeout_us = (uint64_t)worker->cache->settings.upload_timeout_s * 1000000;

    if (timeout_us == 0)
        return;
    while (!u_list_is_empty(&worker->uploads)) {
        struct cache_upload *oldest =
            U_CONTAINER_OF(worker->uploads.next, struct cache_upload, link);

        if (worker->now_us - oldest->marked_us < timeout_us)
            return;
        abort_upload(worker, oldest, CACHE_UPLOADS_TIMED_OUT);
    }
}

/* ---- statistics -------------------------------------------------------------------------- */

void cache_upload_sum(struct cache *cache, struct cache_upload_sums *sums)
{
    sums->item_bytes = atomic_load_explicit(&cache->upload_item_bytes, memory_order_relaxed);
    sums->staged_bytes = atomic_load_explicit(&cache->upload_staged_bytes, memory_order_relaxed);
    sums->open = 0;
    pthread_mutex_lock(&cache->lock);
    for (unsigned i = 0; i < cache->settings.threads; i++)
        if (cache->workers[i] != NULL)
            sums->open +=
                atomic_load_explicit(&cache->workers[i]->uploads_open, memory_order_relaxed);
    pthread_mutex_unlock(&cache->lock);
}
