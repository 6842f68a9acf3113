/* SPDX-License-Identifier: BSD-3-Clause */
/* Short ways to set up a table and to store and read keys, for the tests of the engine. */
#ifndef KV_RIG_H
#define KV_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "kv/index.h"
#include "kv/kv.h"

#define MIB (UINT64_C(1) << 20)

/* A file in memory without a name. */
static inline int rig_memfd(void)
{
    int fd = (int)syscall(SYS_memfd_create, "kv", 0);
    assert_true(fd >= 0);
    return fd;
}

/*
 * With KV_TEST_MEMORY=file in the environment, tables live in a file; one after the other in the
 * same one, so there is one at a time.
 */
static inline const struct kv_file *rig_file(void)
{
    static struct kv_file file = {-1, 0};
    const char *memory = getenv("KV_TEST_MEMORY");
    if (!memory || strcmp(memory, "file") != 0)
        return NULL;
    if (file.fd < 0)
        file.fd = rig_memfd();
    return &file;
}

/* With a thread that touches so much ahead, if it is not 0; in the file, if it is not null. */
static inline struct kv *rig_create_in(const struct kv_file *file, uint64_t memory_bytes,
                                       unsigned workers, bool evict, enum kv_policy_kind policy,
                                       uint64_t touch_ahead_bytes)
{
    struct kv_config config = {.memory_bytes = memory_bytes,
                               .value_bytes_max = UINT32_C(1) << 30,
                               .worker_max = workers,
                               .evict = evict,
                               .policy = policy,
                               .touch_ahead_bytes = touch_ahead_bytes,
                               .file = file};
    memcpy(config.secret, "0123456789abcdef", sizeof(config.secret));
    const char *error = "not set";
    struct kv *kv = kv_create(&config, &error);
    if (!kv)
        fail_msg("kv_create: %s", error);
    return kv;
}

static inline struct kv *rig_create_ahead(uint64_t memory_bytes, unsigned workers, bool evict,
                                          enum kv_policy_kind policy, uint64_t touch_ahead_bytes)
{
    return rig_create_in(rig_file(), memory_bytes, workers, evict, policy, touch_ahead_bytes);
}

static inline struct kv *rig_create_policy(uint64_t memory_bytes, unsigned workers, bool evict,
                                           enum kv_policy_kind policy)
{
    return rig_create_ahead(memory_bytes, workers, evict, policy, 0);
}

static inline struct kv *rig_create(uint64_t memory_bytes, unsigned workers, bool evict)
{
    return rig_create_policy(memory_bytes, workers, evict, KV_POLICY_S3FIFO);
}

static inline void rig_check(const struct kv *kv)
{
    const char *broken = kv_check(kv);
    if (broken)
        fail_msg("kv_check: %s", broken);
}

static inline struct kv_stats rig_stats(const struct kv *kv)
{
    struct kv_stats stats;
    kv_stats(kv, &stats);
    return stats;
}

static inline struct kv_key rig_key(const struct kv *kv, const char *text)
{
    return kv_key(kv, text, (uint32_t)strlen(text));
}

/* A table with one worker, for tests that need no more. */
struct kv_rig {
    struct kv *kv;
    struct kv_worker *worker;
};

static inline int rig_open(struct kv_rig *rig, uint64_t memory_bytes, unsigned workers, bool evict,
                           uint32_t now_s)
{
    rig->kv = rig_create(memory_bytes, workers, evict);
    rig->worker = kv_join(rig->kv);
    kv_tick(rig->worker, now_s);
    return 0;
}

/* Checks everything once more; nothing is pinned or unpublished. */
static inline int rig_close(struct kv_rig *rig)
{
    rig_check(rig->kv);
    kv_leave(rig->worker);
    kv_destroy(rig->kv);
    return 0;
}

/* The byte of such a value at an offset. */
static inline uint8_t rig_byte(uint32_t offset, uint32_t seed)
{
    return (uint8_t)(offset * 31 + offset / 251 + seed);
}

/* Writes a value that depends on `seed` and the place, so that a wrong byte shows. */
static inline void rig_fill(struct kv_item *item, uint32_t value_len, uint32_t seed)
{
    uint32_t offset = 0;
    while (offset < value_len) {
        uint32_t len;
        uint8_t *room = kv_item_room(item, offset, &len);
        for (uint32_t i = 0; i < len; i++)
            room[i] = rig_byte(offset + i, seed);
        offset += len;
    }
}

static inline bool rig_is_present(struct kv_worker *worker, const struct kv_key *key)
{
    struct kv_view view;
    return kv_peek(worker, key, &view) == KV_HIT;
}

/* Is it the value that rig_fill() wrote? */
static inline bool rig_is_filled(const struct kv_item *item, uint32_t value_len, uint32_t seed)
{
    uint32_t offset = 0;
    while (offset < value_len) {
        uint32_t len;
        const uint8_t *bytes = kv_value(item, offset, &len);
        for (uint32_t i = 0; i < len; i++)
            if (bytes[i] != rig_byte(offset + i, seed))
                return false;
        offset += len;
    }
    return true;
}

static inline enum kv_verdict rig_decide_replace(void *ctx, const struct kv_view *old,
                                                 struct kv_change *change)
{
    (void)ctx;
    (void)old;
    change->state = 0;
    return KV_REPLACE;
}

static inline enum kv_verdict rig_decide_delete(void *ctx, const struct kv_view *old,
                                                struct kv_change *change)
{
    (void)ctx;
    (void)old;
    (void)change;
    return KV_DELETE;
}

/* Stores; returns the cas, or 0 with *error set. */
static inline uint64_t rig_store(struct kv_worker *worker, const struct kv_key *key,
                                 uint32_t value_len, uint32_t seed, uint32_t flags,
                                 uint32_t exptime, enum kv_error *error)
{
    struct kv_change change = {0};
    change.item = kv_item_new(worker, key, value_len, flags, exptime, error);
    if (!change.item)
        return 0;
    rig_fill(change.item, value_len, seed);
    assert_int_equal(kv_update(worker, key, rig_decide_replace, NULL, &change), KV_REPLACE);
    return change.cas;
}

/* Stores what must fit. */
static inline uint64_t rig_set(struct kv_worker *worker, const struct kv_key *key,
                               uint32_t value_len, uint32_t seed)
{
    enum kv_error error;
    uint64_t cas = rig_store(worker, key, value_len, seed, 0, 0, &error);
    assert_int_equal(error, KV_OK);
    assert_true(cas != 0);
    return cas;
}

static inline enum kv_verdict rig_delete(struct kv_worker *worker, const struct kv_key *key)
{
    struct kv_change change = {0};
    return kv_update(worker, key, rig_decide_delete, NULL, &change);
}

/* The item that a search finds, or null; its word, or 0. */
static inline struct kv_item *rig_find(const struct kv_index *index, const struct kv_key *key,
                                       uint64_t *word)
{
    struct kv_find find;
    bool found = kv_index_find(index, key, &find);
    *word = found ? find.word : 0;
    return found ? find.item : NULL;
}

#endif
