/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A chained hash table with locks, as a baseline: 1024 shards, each with a mutex in its own cache
 * line and buckets that double when items outnumber them. A GET copies the value under the lock.
 */
#include <pthread.h>
#include <stdlib.h>

#include "kvbench/node.h"
#include "kvbench/table.h"
#include "load/workload.h"

#define SHARD_BITS 10
#define SHARDS (1u << SHARD_BITS)
#define BUCKETS_FIRST 8

struct entry {
    struct entry *next;
    uint64_t hash;
    struct node node;
};

struct shard {
    _Alignas(U_CACHE_LINE_BYTES) pthread_mutex_t lock;
    struct entry **buckets;
    size_t count; /* of buckets, a power of two */
    size_t items;
};

struct mutex_table {
    struct shard shards[SHARDS];
    uint32_t value_bytes_max;
};

struct mutex_worker {
    struct mutex_table *table;
    uint8_t value[];
};

static void mutex_destroy(void *table)
{
    struct mutex_table *mutexes = table;

    for (unsigned s = 0; s < SHARDS; s++) {
        struct shard *shard = &mutexes->shards[s];
        for (size_t b = 0; shard->buckets && b < shard->count; b++) {
            for (struct entry *entry = shard->buckets[b], *next; entry; entry = next) {
                next = entry->next;
                free(entry);
            }
        }
        free(shard->buckets);
        pthread_mutex_destroy(&shard->lock);
    }
    free(mutexes);
}

static void *mutex_create(const struct table_config *config, const char **error)
{
    struct mutex_table *table = aligned_alloc(_Alignof(struct mutex_table), sizeof(*table));
    bool whole = true;

    table_hash_init();
    *error = "no memory";
    if (!table)
        return NULL;
    table->value_bytes_max = config->value_bytes_max;
    for (unsigned s = 0; s < SHARDS; s++) {
        struct shard *shard = &table->shards[s];
        pthread_mutex_init(&shard->lock, NULL);
        shard->count = BUCKETS_FIRST;
        shard->items = 0;
        shard->buckets = calloc(shard->count, sizeof(struct entry *));
        whole = whole && shard->buckets;
    }
    if (!whole) {
        mutex_destroy(table);
        return NULL;
    }
    return table;
}

static void *mutex_join(void *table)
{
    struct mutex_table *mutexes = table;
    struct mutex_worker *worker = malloc(sizeof(*worker) + mutexes->value_bytes_max);

    if (worker)
        worker->table = mutexes;
    return worker;
}

static void mutex_leave(void *worker)
{
    free(worker);
}

static struct entry **place_of(struct shard *shard, uint64_t hash,
                               const struct table_request *request)
{
    struct entry **at = &shard->buckets[hash & (shard->count - 1)];

    while (*at && ((*at)->hash != hash || !node_is(&(*at)->node, request)))
        at = &(*at)->next;
    return at;
}

/* Doubles the buckets; without memory the chains get longer instead. */
static void grow(struct shard *shard)
{
    size_t count = 2 * shard->count;
    struct entry **buckets = calloc(count, sizeof(struct entry *));

    if (!buckets)
        return;
    for (size_t b = 0; b < shard->count; b++) {
        for (struct entry *entry = shard->buckets[b], *next; entry; entry = next) {
            struct entry **to = &buckets[entry->hash & (count - 1)];
            next = entry->next;
            entry->next = *to;
            *to = entry;
        }
    }
    free(shard->buckets);
    shard->buckets = buckets;
    shard->count = count;
}

static bool set(struct shard *shard, uint64_t hash, const struct table_request *request)
{
    struct entry *entry = malloc(sizeof(*entry) - sizeof(entry->node) + node_size(request));
    struct entry **at, *old;

    if (!entry)
        return false;
    entry->hash = hash;
    node_fill(&entry->node, request);
    pthread_mutex_lock(&shard->lock);
    at = place_of(shard, hash, request);
    old = *at;
    entry->next = old ? old->next : NULL;
    *at = entry;
    if (!old && ++shard->items > shard->count)
        grow(shard);
    pthread_mutex_unlock(&shard->lock);
    free(old);
    return true;
}

static void get(struct mutex_worker *worker, struct shard *shard, uint64_t hash,
                const struct table_request *request, struct table_tally *tally)
{
    struct entry *entry;

    pthread_mutex_lock(&shard->lock);
    entry = *place_of(shard, hash, request);
    if (entry)
        node_read(&entry->node, worker->value);
    pthread_mutex_unlock(&shard->lock);
    tally->hits += entry != NULL;
    tally->misses += entry == NULL;
}

static void delete (struct shard *shard, uint64_t hash, const struct table_request *request)
{
    struct entry **at, *old;

    pthread_mutex_lock(&shard->lock);
    at = place_of(shard, hash, request);
    old = *at;
    if (old) {
        *at = old->next;
        shard->items--;
    }
    pthread_mutex_unlock(&shard->lock);
    free(old);
}

static void mutex_run(void *joined, const struct table_requests *requests,
                      struct table_tally *tally)
{
    struct mutex_worker *worker = joined;

    for (unsigned i = 0; i < requests->count; i++) {
        const struct table_request *request = table_request_at(requests, i);
        uint64_t hash = table_hash(request->key, request->key_bytes);
        struct shard *shard = &worker->table->shards[hash >> (64 - SHARD_BITS)];
        switch (request->op) {
        case LOAD_GET:
            get(worker, shard, hash, request, tally);
            break;
        case LOAD_SET:
            tally->failures += !set(shard, hash, request);
            break;
        case LOAD_DELETE:
            delete (shard, hash, request);
            break;
        }
    }
}

const struct table_ops table_mutex = {
    .name = "mutexes",
    .about = "chains in 1024 shards, each behind a mutex",
    .create = mutex_create,
    .destroy = mutex_destroy,
    .join = mutex_join,
    .leave = mutex_leave,
    .run = mutex_run,
};
