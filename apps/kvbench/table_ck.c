/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Concurrency Kit's ck_ht: open addressing in cache lines, any number of readers, one writer at a
 * time (under a mutex). Replaced nodes are freed by ck_epoch.
 */
#include <pthread.h>
#include <stdlib.h>

#include <ck_epoch.h>
#include <ck_ht.h>

#include "base/base.h"
#include "kvbench/node.h"
#include "kvbench/table.h"
#include "load/workload.h"

#define ENTRIES_FIRST 1024

struct entry {
    ck_epoch_entry_t retired;
    struct node node;
};

/* A replaced array that readers may still use: freed with the table. */
struct outgrown {
    struct outgrown *next;
    void *array;
};

/* A thread's epoch record; reused by later threads, so it is freed with the table. */
struct reader {
    ck_epoch_record_t record;
    struct reader *next;
};

struct ck_table {
    ck_ht_t table;
    ck_epoch_t epoch;
    pthread_mutex_t writer; /* of the table, and of the list of readers */
    struct reader *readers;
    uint32_t value_bytes_max;
};

struct ck_worker {
    struct ck_table *table;
    ck_epoch_record_t *record;
    uint8_t value[];
};

static struct outgrown *outgrown; /* ck_ht's allocator has no context argument */
static pthread_mutex_t outgrown_lock = PTHREAD_MUTEX_INITIALIZER;

static void *array_new(size_t bytes)
{
    return malloc(bytes);
}

static void array_free(void *array, size_t bytes, bool defer)
{
    struct outgrown *kept = defer ? malloc(sizeof(*kept)) : NULL;

    (void)bytes;
    if (!defer) {
        free(array);
        return;
    }
    U_ASSERT(kept);
    kept->array = array;
    pthread_mutex_lock(&outgrown_lock);
    kept->next = outgrown;
    outgrown = kept;
    pthread_mutex_unlock(&outgrown_lock);
}

static struct ck_malloc arrays = {.malloc = array_new, .free = array_free};

static void hash_key(ck_ht_hash_t *hash, const void *key, size_t bytes, uint64_t seed)
{
    (void)seed;
    hash->value = table_hash(key, (uint32_t)bytes);
}

static void *ck_create(const struct table_config *config, const char **error)
{
    struct ck_table *table = aligned_alloc(128, (sizeof(*table) + 127) & ~(size_t)127);

    table_hash_init();
    *error = "no memory";
    if (!table)
        return NULL;
    table->value_bytes_max = config->value_bytes_max;
    table->readers = NULL;
    pthread_mutex_init(&table->writer, NULL);
    ck_epoch_init(&table->epoch);
    if (!ck_ht_init(&table->table, CK_HT_MODE_BYTESTRING, hash_key, &arrays, ENTRIES_FIRST, 0)) {
        free(table);
        return NULL;
    }
    return table;
}

static void ck_destroy(void *made)
{
    struct ck_table *table = made;
    ck_ht_iterator_t iterator = CK_HT_ITERATOR_INITIALIZER;
    ck_ht_entry_t *at;
    struct reader *reader;

    while (ck_ht_next(&table->table, &iterator, &at))
        free(ck_ht_entry_value(at));
    ck_ht_destroy(&table->table);
    while ((reader = table->readers)) {
        table->readers = reader->next;
        free(reader);
    }
    for (struct outgrown *kept = outgrown, *next; kept; kept = next) {
        next = kept->next;
        free(kept->array);
        free(kept);
    }
    outgrown = NULL;
    pthread_mutex_destroy(&table->writer);
    free(table);
}

/* An unused epoch record, or a new one. */
static ck_epoch_record_t *record_take(struct ck_table *table)
{
    ck_epoch_record_t *record = ck_epoch_recycle(&table->epoch, NULL);
    struct reader *reader;

    if (record)
        return record;
    reader = aligned_alloc(_Alignof(struct reader), sizeof(*reader));
    if (!reader)
        return NULL;
    ck_epoch_register(&table->epoch, &reader->record, NULL);
    pthread_mutex_lock(&table->writer);
    reader->next = table->readers;
    table->readers = reader;
    pthread_mutex_unlock(&table->writer);
    return &reader->record;
}

static void *ck_join(void *made)
{
    struct ck_table *table = made;
    struct ck_worker *worker = malloc(sizeof(*worker) + table->value_bytes_max);

    if (!worker)
        return NULL;
    worker->table = table;
    worker->record = record_take(table);
    if (!worker->record) {
        free(worker);
        return NULL;
    }
    return worker;
}

static void ck_leave(void *joined)
{
    struct ck_worker *worker = joined;

    ck_epoch_barrier(worker->record);
    ck_epoch_unregister(worker->record);
    free(worker);
}

static void free_entry(ck_epoch_entry_t *retired)
{
    free(U_CONTAINER_OF(retired, struct entry, retired));
}

static bool set(struct ck_worker *worker, ck_ht_hash_t hash, const struct table_request *request)
{
    struct entry *entry = malloc(sizeof(*entry) - sizeof(entry->node) + node_size(request));
    ck_ht_entry_t slot;
    bool done;

    if (!entry)
        return false;
    node_fill(&entry->node, request);
    ck_ht_entry_set(&slot, hash, entry->node.bytes, request->key_bytes, entry);
    pthread_mutex_lock(&worker->table->writer);
    done = ck_ht_set_spmc(&worker->table->table, hash, &slot);
    pthread_mutex_unlock(&worker->table->writer);
    if (!done) {
        free(entry);
        return false;
    }
    if (!ck_ht_entry_empty(&slot)) { /* the previous entry */
        struct entry *old = ck_ht_entry_value(&slot);
        ck_epoch_call(worker->record, &old->retired, free_entry);
    }
    return true;
}

static void get(struct ck_worker *worker, ck_ht_hash_t hash, const struct table_request *request,
                struct table_tally *tally)
{
    ck_ht_entry_t slot;

    ck_ht_entry_key_set(&slot, request->key, request->key_bytes);
    if (!ck_ht_get_spmc(&worker->table->table, hash, &slot)) {
        tally->misses++;
        return;
    }
    tally->hits++;
    node_read(&((struct entry *)ck_ht_entry_value(&slot))->node, worker->value);
}

static void delete (struct ck_worker *worker, ck_ht_hash_t hash,
                    const struct table_request *request)
{
    ck_ht_entry_t slot;
    bool done;

    ck_ht_entry_key_set(&slot, request->key, request->key_bytes);
    pthread_mutex_lock(&worker->table->writer);
    done = ck_ht_remove_spmc(&worker->table->table, hash, &slot);
    pthread_mutex_unlock(&worker->table->writer);
    if (done) {
        struct entry *old = ck_ht_entry_value(&slot);
        ck_epoch_call(worker->record, &old->retired, free_entry);
    }
}

static void ck_run(void *joined, const struct table_requests *requests, struct table_tally *tally)
{
    struct ck_worker *worker = joined;

    ck_epoch_begin(worker->record, NULL);
    for (unsigned i = 0; i < requests->count; i++) {
        const struct table_request *request = table_request_at(requests, i);
        ck_ht_hash_t hash;
        ck_ht_hash(&hash, &worker->table->table, request->key, request->key_bytes);
        switch (request->op) {
        case LOAD_GET:
            get(worker, hash, request, tally);
            break;
        case LOAD_SET:
            tally->failures += !set(worker, hash, request);
            break;
        case LOAD_DELETE:
            delete (worker, hash, request);
            break;
        }
    }
    ck_epoch_end(worker->record, NULL);
    ck_epoch_poll(worker->record);
}

const struct table_ops table_ck = {
    .name = "ck_ht",
    .about = "Concurrency Kit's table, one writer at a time",
    .create = ck_create,
    .destroy = ck_destroy,
    .join = ck_join,
    .leave = ck_leave,
    .run = ck_run,
};
