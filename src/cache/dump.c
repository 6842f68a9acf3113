/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Dumps of the items. A dump is a task: each step scans a bounded part of the table and writes a
 * line per item; it pauses while the sink is full. Workers do not wait for it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "cache/clock.h"
#include "cache/exec.h"
#include "cache/sink_reply.h"
#include "cache/slab_class.h"
#include "cache/task.h"

/* The bounds of one kv_scan() and of one step, in chains and items. */
#define PART_CHAINS 64
#define PART_ITEMS 16
#define STEP_CHAINS 4096
#define STEP_ITEMS 512

#define CACHEDUMP_BYTES_MAX (2 * 1024 * 1024)

U_STATIC_ASSERT(MC_ITEM_LINE_MAX <= CACHE_SINK_NEED_MAX, a_line_fits_one_room);

struct dump {
    struct cache_task task;
    enum cache_dump_kind kind;
    uint64_t classes;
    struct kv_cursor cursor;
    uint32_t lines_left; /* of a cachedump */
    uint32_t bytes_left;
    struct cache_worker *worker;
    struct cache_sink *sink; /* of the current step */
    uint32_t items;          /* of the current step */
    bool failed;             /* the sink had no memory */
};

static bool is_selected(const struct cache *cache, uint64_t classes, const struct kv_view *view)
{
    unsigned class_id = cache_slab_class(cache, view->key_len, view->flags, view->value_len);

    return classes >> (class_id - 1) & 1;
}

/* The facts of `me`, but with Unix times. */
static struct mc_item_info facts_of(const struct cache_worker *worker, const struct kv_view *view)
{
    struct mc_item_info facts = cache_item_info(worker, view);

    facts.exptime = (uint32_t)cache_clock_unix_of(worker->cache, view->exptime);
    facts.access = (uint32_t)cache_clock_unix_of(worker->cache, view->last_access);
    return facts;
}

static uint32_t cachedump_write(uint8_t *out, const struct cache *cache, const struct kv_view *view)
{
    uint64_t expires = view->exptime != 0 ? cache_clock_unix_of(cache, view->exptime) : 0;
    uint32_t at = 5 + view->key_len;
    int n;

    memcpy(out, "ITEM ", 5);
    memcpy(out + 5, view->key, view->key_len);
    n = snprintf((char *)out + at, MC_ITEM_LINE_MAX - at, " [%" PRIu32 " b; %" PRIu64 " s]\r\n",
                 view->value_len - CACHE_CRLF_BYTES, expires);
    return at + (uint32_t)n;
}

/* The line of an item at `out`, which has MC_ITEM_LINE_MAX bytes; returns its length, 0 if none. */
static uint32_t line_write(const struct dump *dump, const struct kv_view *view, uint8_t *out)
{
    bool binary = (view->state & KV_KEY_BINARY) != 0;
    struct mc_item_info facts;

    switch (dump->kind) {
    case CACHE_DUMP_METADUMP:
        facts = facts_of(dump->worker, view);
        return mc_write_metadump(out, &facts);
    case CACHE_DUMP_MGDUMP:
        return mc_write_mgdump(out, view->key, view->key_len, binary);
    case CACHE_DUMP_CACHEDUMP:
        /* memcached omits binary keys. */
        return binary ? 0 : cachedump_write(out, dump->worker->cache, view);
    }
    return 0;
}

/* A kv_visit. */
static void dump_item(void *ctx, const struct kv_view *view)
{
    struct dump *dump = ctx;
    uint32_t n;

    dump->items++;
    if (dump->failed || dump->lines_left == 0 ||
        !is_selected(dump->worker->cache, dump->classes, view))
        return;
    if (cache_reply_room(dump->sink, MC_ITEM_LINE_MAX) != 0) {
        dump->failed = true;
        return;
    }
    n = line_write(dump, view, dump->sink->at);
    if (n > dump->bytes_left) {
        dump->lines_left = 0;
        return;
    }
    cache_reply_take(dump->worker, dump->sink, n);
    if (dump->kind == CACHE_DUMP_CACHEDUMP) {
        dump->lines_left -= n > 0;
        dump->bytes_left -= n;
    }
}

static int end_write(const struct dump *dump)
{
    bool meta = dump->kind == CACHE_DUMP_MGDUMP;

    return cache_reply_status(dump->worker, dump->sink, meta ? MC_STATUS_META_MISS : MC_STATUS_END);
}

static enum cache_progress dump_step(struct cache_task *task, struct cache_session *session,
                                     struct cache_sink *sink)
{
    static const struct kv_quantum part = {PART_CHAINS, PART_ITEMS};
    struct dump *dump = (struct dump *)task;
    bool more = dump->lines_left > 0 && dump->classes != 0;

    dump->sink = sink;
    dump->items = 0;
    for (unsigned chains = 0; more && chains < STEP_CHAINS; chains += PART_CHAINS) {
        if (sink->full || dump->items >= STEP_ITEMS)
            return CACHE_INTERRUPTED;
        more = kv_scan(dump->worker->kv_worker, &dump->cursor, &part, dump_item, dump);
        more = more && dump->lines_left > 0;
        if (dump->failed)
            return CACHE_FAILED;
    }
    if (more)
        return CACHE_INTERRUPTED;
    return end_write(dump) == 0 ? CACHE_DONE : CACHE_FAILED;
}

static void dump_drop(struct cache_task *task, struct cache_session *session)
{
    free(task);
}

static const struct cache_task_ops dump_ops = {.step = dump_step, .drop = dump_drop};

int cache_dump_start(struct cache_session *session, enum cache_dump_kind kind, uint64_t classes,
                     uint32_t lines_max, struct cache_sink *sink)
{
    struct cache_worker *worker = session->worker;
    bool cachedump = kind == CACHE_DUMP_CACHEDUMP;
    struct dump *dump = malloc(sizeof(*dump));

    if (dump == NULL) {
        cache_count(worker, CACHE_MALLOC_FAILS, 1);
        return cache_reply_status(worker, sink, MC_STATUS_CRAWLER_ERROR);
    }
    *dump = (struct dump){
        .task = {&dump_ops},
        .kind = kind,
        .classes = classes,
        .lines_left = lines_max,
        .bytes_left = cachedump ? CACHEDUMP_BYTES_MAX : UINT32_MAX,
        .worker = worker,
    };
    if (!cachedump && cache_reply_status(worker, sink, MC_STATUS_OK) != 0) {
        free(dump);
        return -1;
    }
    return cache_task_start(session, &dump->task, sink);
}

/* ---- selecting classes ------------------------------------------------------------------- */

/* memcached's ids are 1 to 63, whether there is such a class or not. */
static bool class_add(const uint8_t *word, uint32_t len, uint64_t *classes)
{
    u_u32 id;

    if (!mc_token_u32(word, len, &id) || id < 1 || id >= KV_CLASSES_MAX)
        return false;
    *classes |= UINT64_C(1) << (id - 1);
    return true;
}

bool cache_dump_classes(const uint8_t *word, uint32_t len, uint64_t *classes)
{
    uint32_t start = 0;

    *classes = UINT64_MAX;
    if (mc_token_is(word, len, "all") || mc_token_is(word, len, "hash"))
        return true;
    *classes = 0;
    for (uint32_t i = 0; i <= len; i++) {
        if (i < len && word[i] != ',')
            continue;
        if (i > start && !class_add(word + start, i - start, classes))
            return false;
        start = i + 1;
    }
    return *classes != 0;
}
