/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * liburcu's lock-free hash table (rculfhash) with quiescent-state reclamation. It gets its size if
 * that is known and grows by itself otherwise. Replaced nodes are collected and freed together
 * after one grace period, the cheapest way that the library has.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <urcu-qsbr.h>
#include <urcu/rculfhash.h>

#include "base/base.h"
#include "kvbench/node.h"
#include "kvbench/table.h"
#include "load/workload.h"

#define BUCKETS_FIRST 1024
#define RETIRED_MAX 4096

struct entry {
    struct cds_lfht_node link;
    struct node node;
};

struct rculf_table {
    struct cds_lfht *table;
    uint32_t value_bytes_max;
};

struct rculf_worker {
    struct cds_lfht *table;
    unsigned retired_count;
    struct entry *retired[RETIRED_MAX];
    uint8_t value[];
};

U_STATIC_ASSERT(sizeof(struct node) >= sizeof(struct entry *), node_has_room_for_a_pointer);

static struct entry *entry_of(struct cds_lfht_node *link)
{
    return U_CONTAINER_OF(link, struct entry, link);
}

static void *rculf_create(const struct table_config *config, const char **error)
{
    struct rculf_table *table = malloc(sizeof(*table));
    unsigned long buckets = BUCKETS_FIRST;

    table_hash_init();
    *error = "no memory";
    if (!table)
        return NULL;
    table->value_bytes_max = config->value_bytes_max;
    while (buckets < config->items)
        buckets *= 2;
    table->table =
        cds_lfht_new(buckets, BUCKETS_FIRST, 0, CDS_LFHT_AUTO_RESIZE | CDS_LFHT_ACCOUNTING, NULL);
    if (!table->table) {
        free(table);
        return NULL;
    }
    return table;
}

/* The key of a removed entry is not read any more: the entry's link in the list is stored there. */
static void gather(struct entry **list, struct entry *entry)
{
    memcpy(&entry->node, list, sizeof(*list));
    *list = entry;
}

static struct entry *gathered_next(const struct entry *entry)
{
    struct entry *next;

    memcpy(&next, &entry->node, sizeof(next));
    return next;
}

/* Frees entries after a grace period, as the library's threads may still be resizing the table. */
static void rculf_destroy(void *made)
{
    struct rculf_table *table = made;
    struct entry *list = NULL;
    struct cds_lfht_iter iter;
    struct cds_lfht_node *link;

    rcu_register_thread();
    cds_lfht_first(table->table, &iter);
    while ((link = cds_lfht_iter_get_node(&iter))) {
        cds_lfht_del(table->table, link);
        cds_lfht_next(table->table, &iter);
        gather(&list, entry_of(link));
    }
    synchronize_rcu();
    while (list) {
        struct entry *next = gathered_next(list);

        free(list);
        list = next;
    }
    rcu_unregister_thread();
    cds_lfht_destroy(table->table, NULL);
    free(table);
}

static void *rculf_join(void *made)
{
    struct rculf_table *table = made;
    struct rculf_worker *worker = malloc(sizeof(*worker) + table->value_bytes_max);

    if (!worker)
        return NULL;
    worker->table = table->table;
    worker->retired_count = 0;
    rcu_register_thread();
    return worker;
}

static void free_retired(struct rculf_worker *worker)
{
    synchronize_rcu();
    for (unsigned i = 0; i < worker->retired_count; i++)
        free(worker->retired[i]);
    worker->retired_count = 0;
}

static void rculf_leave(void *joined)
{
    struct rculf_worker *worker = joined;

    free_retired(worker);
    rcu_unregister_thread();
    free(worker);
}

static int matches(struct cds_lfht_node *link, const void *request)
{
    return node_is(&entry_of(link)->node, request);
}

static bool set(struct rculf_worker *worker, uint64_t hash, const struct table_request *request)
{
    struct entry *entry = malloc(sizeof(*entry) - sizeof(entry->node) + node_size(request));
    struct cds_lfht_node *old;

    if (!entry)
        return false;
    cds_lfht_node_init(&entry->link);
    node_fill(&entry->node, request);
    old = cds_lfht_add_replace(worker->table, hash, matches, request, &entry->link);
    if (old)
        worker->retired[worker->retired_count++] = entry_of(old);
    return true;
}

static struct cds_lfht_node *find(struct rculf_worker *worker, uint64_t hash,
                                  const struct table_request *request)
{
    struct cds_lfht_iter iter;

    cds_lfht_lookup(worker->table, hash, matches, request, &iter);
    return cds_lfht_iter_get_node(&iter);
}

static void execute(struct rculf_worker *worker, const struct table_request *request,
                    struct table_tally *tally)
{
    uint64_t hash = table_hash(request->key, request->key_bytes);
    struct cds_lfht_node *link;

    switch (request->op) {
    case LOAD_GET:
        link = find(worker, hash, request);
        if (link)
            node_read(&entry_of(link)->node, worker->value);
        tally->hits += link != NULL;
        tally->misses += link == NULL;
        break;
    case LOAD_SET:
        tally->failures += !set(worker, hash, request);
        break;
    case LOAD_DELETE:
        link = find(worker, hash, request);
        if (link && cds_lfht_del(worker->table, link) == 0)
            worker->retired[worker->retired_count++] = entry_of(link);
        break;
    }
}

static void rculf_run(void *joined, const struct table_requests *requests,
                      struct table_tally *tally)
{
    struct rculf_worker *worker = joined;

    rcu_read_lock();
    for (unsigned i = 0; i < requests->count; i++)
        execute(worker, table_request_at(requests, i), tally);
    rcu_read_unlock();
    if (worker->retired_count + TABLE_BURST > RETIRED_MAX)
        free_retired(worker);
    rcu_quiescent_state();
}

const struct table_ops table_rculf = {
    .name = "rculfhash",
    .about = "liburcu's lock-free table, quiescent states",
    .create = rculf_create,
    .destroy = rculf_destroy,
    .join = rculf_join,
    .leave = rculf_leave,
    .run = rculf_run,
};
