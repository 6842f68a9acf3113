/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Nanoseconds per operation of the engine alone, one thread.
 *
 *     kv_micro [keys [value_bytes [memory_mib]]]        defaults: 1000 8 64
 *
 * Keys are 8 bytes. Prints hits per lookup too, because a miss is cheaper than a hit.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kv/kv.h"

#define BATCH 64
#define OPERATIONS 8000000

struct bench {
    struct kv *kv;
    struct kv_worker *worker;
    unsigned keys;
    uint32_t value_bytes;
    uint64_t random;
    uint64_t hits;
};

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void key_name(char name[16], unsigned number)
{
    snprintf(name, 16, "k%07u", number);
}

static unsigned pick(struct bench *bench)
{
    bench->random = bench->random * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (unsigned)((bench->random >> 33) % bench->keys);
}

static enum kv_verdict decide_replace(void *ctx, const struct kv_view *old,
                                      struct kv_change *change)
{
    (void)ctx;
    (void)old;
    change->state = 0;
    return KV_REPLACE;
}

static void set(struct bench *bench, const char *name)
{
    struct kv_key key = kv_key(bench->kv, name, 8);
    enum kv_error error;
    struct kv_change change = {0};
    change.item = kv_item_new(bench->worker, &key, bench->value_bytes, 0, 0, &error);
    if (!change.item) {
        fprintf(stderr, "kv_micro: no memory\n");
        exit(1);
    }
    uint32_t len;
    uint8_t *room = kv_item_room(change.item, 0, &len);
    memset(room, 'v', len);
    kv_update(bench->worker, &key, decide_replace, NULL, &change);
}

/* Looks up what a burst would: hash all, prefetch all, then execute. */
static void get_batch(struct bench *bench, const char (*names)[16])
{
    struct kv_key keys[BATCH];
    for (unsigned i = 0; i < BATCH; i++) {
        keys[i] = kv_key(bench->kv, names[i], 8);
        kv_prefetch_bucket(bench->worker, &keys[i]);
    }
    for (unsigned i = 0; i < BATCH; i++)
        kv_prefetch_item(bench->worker, &keys[i]);
    for (unsigned i = 0; i < BATCH; i++) {
        struct kv_view view;
        bench->hits += kv_get(bench->worker, &keys[i], &view) == KV_HIT;
    }
}

static void get_single(struct bench *bench, const char (*names)[16])
{
    for (unsigned i = 0; i < BATCH; i++) {
        struct kv_key key = kv_key(bench->kv, names[i], 8);
        struct kv_view view;
        bench->hits += kv_get(bench->worker, &key, &view) == KV_HIT;
    }
}

static void set_batch(struct bench *bench, const char (*names)[16])
{
    for (unsigned i = 0; i < BATCH; i++)
        set(bench, names[i]);
}

static void hash_batch(struct bench *bench, const char (*names)[16])
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < BATCH; i++)
        sum += kv_key(bench->kv, names[i], 8).hash;
    bench->hits += sum == 0;
}

static void measure(struct bench *bench, const char *what,
                    void (*run)(struct bench *, const char (*)[16]))
{
    enum { SETS = 4096 };
    static char names[SETS][BATCH][16]; /* prepared, so that only the engine is timed */
    for (unsigned i = 0; i < SETS; i++)
        for (unsigned j = 0; j < BATCH; j++)
            key_name(names[i][j], pick(bench));
    double best = 1e9;
    bench->hits = 0;
    for (unsigned round = 0; round < OPERATIONS / (SETS * BATCH); round++) {
        double start = now_ns();
        for (unsigned i = 0; i < SETS; i++) {
            run(bench, (const char(*)[16])names[i]);
            kv_quiesce(bench->worker);
        }
        double ns = (now_ns() - start) / (SETS * BATCH);
        if (ns < best)
            best = ns;
    }
    double hits = (double)bench->hits / (OPERATIONS / (SETS * BATCH) * SETS * BATCH);
    printf("%-12s %7.1f ns/op  %6.1f M/s  hits %.3f\n", what, best, 1e3 / best, hits);
}

int main(int argc, char **argv)
{
    struct bench bench = {.keys = 1000, .value_bytes = 8, .random = 1};
    struct kv_config config = {
        .memory_bytes = 64 << 20, .value_bytes_max = 1 << 20, .worker_max = 1, .evict = true};
    const char *error;
    if (argc > 1)
        bench.keys = (unsigned)strtoul(argv[1], NULL, 10);
    if (argc > 2)
        bench.value_bytes = (uint32_t)strtoul(argv[2], NULL, 10);
    if (argc > 3)
        config.memory_bytes = strtoull(argv[3], NULL, 10) << 20;
    bench.kv = kv_create(&config, &error);
    if (!bench.kv) {
        fprintf(stderr, "kv_micro: %s\n", error);
        return 1;
    }
    bench.worker = kv_join(bench.kv);
    kv_tick(bench.worker, 1);
    for (unsigned i = 0; i < bench.keys; i++) {
        char name[16];
        key_name(name, i);
        set(&bench, name);
        kv_quiesce(bench.worker);
    }
    measure(&bench, "hash", hash_batch);
    measure(&bench, "get", get_single);
    measure(&bench, "get batched", get_batch);
    measure(&bench, "set", set_batch);

    struct kv_stats stats;
    kv_stats(bench.kv, &stats);
    printf("%llu items of %u + 8 bytes: %.1f bytes of overhead each, %.1f with the index heads\n",
           (unsigned long long)stats.items, bench.value_bytes,
           (double)stats.item_bytes / (double)stats.items - bench.value_bytes - 8,
           (double)(stats.item_bytes + stats.index_bytes) / (double)stats.items -
               bench.value_bytes - 8);
    kv_leave(bench.worker);
    kv_destroy(bench.kv);
    return 0;
}
