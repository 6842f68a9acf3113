/* SPDX-License-Identifier: BSD-3-Clause */
/* The engine as a table, used like a server's worker uses it. */
#include <stdlib.h>
#include <string.h>

#include "kvbench/decide.h"
#include "kvbench/table.h"
#include "load/workload.h"

struct engine {
    struct kv *kv;
    uint32_t value_bytes_max;
};

struct engine_worker {
    struct kv *kv;
    struct kv_worker *worker;
    uint8_t value[]; /* destination of GETs */
};

static void *engine_create(const struct table_config *config, const char **error)
{
    struct engine *engine = malloc(sizeof(*engine));
    struct kv_config kv_config = {.memory_bytes = config->memory_bytes,
                                  .value_bytes_max = config->value_bytes_max,
                                  .worker_max = config->threads_max + 1,
                                  .evict = true,
                                  .policy = config->policy,
                                  .touch_ahead_bytes = config->touch_ahead_bytes,
                                  .secret = "kvbench's secret"};

    *error = "no memory";
    if (!engine)
        return NULL;
    engine->value_bytes_max = config->value_bytes_max;
    engine->kv = kv_create(&kv_config, error);
    if (!engine->kv) {
        free(engine);
        return NULL;
    }
    return engine;
}

static void engine_destroy(void *table)
{
    struct engine *engine = table;

    kv_destroy(engine->kv);
    free(engine);
}

struct kv *table_engine_kv(void *table)
{
    return ((struct engine *)table)->kv;
}

static void *engine_join(void *table)
{
    struct engine *engine = table;
    struct engine_worker *worker = malloc(sizeof(*worker) + engine->value_bytes_max);

    if (!worker)
        return NULL;
    worker->kv = engine->kv;
    worker->worker = kv_join(engine->kv);
    if (!worker->worker) {
        free(worker);
        return NULL;
    }
    kv_tick(worker->worker, 1);
    return worker;
}

static void engine_leave(void *joined)
{
    struct engine_worker *worker = joined;

    kv_leave(worker->worker);
    free(worker);
}

static bool set(struct engine_worker *worker, const struct kv_key *key, uint32_t value_bytes)
{
    enum kv_error error;
    struct kv_change change = {0};

    kv_release_views(worker->worker);
    change.item = kv_item_new(worker->worker, key, value_bytes, 0, 0, &error);
    if (!change.item)
        return false;
    for (uint32_t done = 0, len; done < value_bytes; done += len) {
        uint8_t *room = kv_item_room(change.item, done, &len);
        memset(room, 'v', len);
    }
    kv_update(worker->worker, key, always_replace, NULL, &change);
    return true;
}

static void get(struct engine_worker *worker, const struct kv_key *key, struct table_tally *tally)
{
    struct kv_view view;

    if (kv_get(worker->worker, key, &view) != KV_HIT) {
        tally->misses++;
        return;
    }
    tally->hits++;
    for (uint32_t done = 0, len; done < view.value_len; done += len) {
        const uint8_t *part = kv_value(view.item, done, &len);
        memcpy(worker->value + done, part, len);
    }
}

static void execute(struct engine_worker *worker, const struct kv_key *key,
                    const struct table_request *request, struct table_tally *tally)
{
    struct kv_change change = {0};

    switch (request->op) {
    case LOAD_GET:
        get(worker, key, tally);
        break;
    case LOAD_SET:
        tally->failures += !set(worker, key, request->value_bytes);
        break;
    case LOAD_DELETE:
        kv_update(worker->worker, key, delete_if_found, NULL, &change);
        break;
    }
}

/* Executes a batch in stages: hash and prefetch buckets, items, values; then execute. */
static void run_group(struct engine_worker *worker, const struct table_requests *requests,
                      unsigned from, unsigned count, struct table_tally *tally)
{
    struct kv_key keys[TABLE_BURST];
    const struct kv_item *items[TABLE_BURST];

    for (unsigned i = 0; i < count; i++) {
        const struct table_request *request = table_request_at(requests, from + i);
        keys[i] = kv_key(worker->kv, request->key, request->key_bytes);
        kv_prefetch_bucket(worker->worker, &keys[i]);
    }
    for (unsigned i = 0; i < count; i++)
        items[i] = kv_prefetch_item(worker->worker, &keys[i]);
    for (unsigned i = 0; i < count; i++)
        if (items[i])
            kv_prefetch_value(items[i]);
    for (unsigned i = 0; i < count; i++)
        execute(worker, &keys[i], table_request_at(requests, from + i), tally);
}

static void engine_run(void *joined, const struct table_requests *requests,
                       struct table_tally *tally)
{
    struct engine_worker *worker = joined;

    for (unsigned i = 0; i < requests->count;) {
        unsigned count = requests->count - i;
        if (requests->group > 1) {
            if (count > requests->group)
                count = requests->group;
            run_group(worker, requests, i, count, tally);
            i += count;
        } else {
            const struct table_request *request = table_request_at(requests, i++);
            struct kv_key key = kv_key(worker->kv, request->key, request->key_bytes);
            execute(worker, &key, request, tally);
        }
    }
    kv_quiesce(worker->worker);
}

const struct table_ops table_engine = {
    .name = "engine",
    .about = "the engine of ucached",
    .staged = true,
    .create = engine_create,
    .destroy = engine_destroy,
    .join = engine_join,
    .leave = engine_leave,
    .run = engine_run,
};
