/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flushes beside stores, lookups and the purge, in tables in which the tags of items come round
 * (generation.h). A flush is one step; so many that a tag comes round are taken as one, too.
 *
 * This file is compiled as the engine is: its accesses are tracked.
 */
#include "keys.h"
#include "kv/engine.h"
#include "scenarios.h"

#define TAGS 256
#define PURGE_STEPS 8 /* more than the small table needs */

/* ---- steps ------------------------------------------------------------------------------- */

/* Many flushes in one step: no item is published between them. */
static void flush(uint64_t times)
{
    struct kv *kv = table.kv;
    struct history_op *op = keys_op_begin(KEY_A, HISTORY_FLUSH);
    uint64_t word = kv_u64_load_acquire(&kv->generation);
    uint64_t next;
    do {
        uint64_t number = kv_generation_number(word) + times;
        bool wide = number - kv_u64_load_acquire(&kv->purged) >= KV_GENERATIONS;
        next = kv_generation_word(number, wide);
    } while (!kv_u64_cas_acq_rel(&kv->generation, &word, next));
    keys_op_end(op);
}

static void flush_once(void)
{
    struct history_op *op = keys_op_begin(KEY_A, HISTORY_FLUSH);
    kv_flush(keys_worker());
    keys_op_end(op);
}

/* The worker of thread 0 takes no part in the purge. */
static void open_table(void)
{
    keys_open();
    kv_offline(table.workers[0]);
}

static void only(unsigned threads)
{
    for (unsigned i = threads + 1; i < U_ARRAY_LEN(table.workers); i++)
        kv_offline(table.workers[i]);
}

/* ---- how tables begin -------------------------------------------------------------------- */

/* One more flush makes the table wide. */
static void almost_wide(void)
{
    open_table();
    flush(KV_GENERATIONS - 1);
    key_set(KEY_A, "1");
}

/* The tag of A is that of the present generation, but A is flushed. */
static void round_once(void)
{
    open_table();
    key_set(KEY_A, "1");
    flush(TAGS);
}

static uint32_t sealed;

/* The same, but A was stored after the flushes, into the segment of before. */
static void round_once_sealed(void)
{
    open_table();
    flush(TAGS);
    key_set(KEY_A, "1");
    unsigned log = kv_log_for(table.workers[0], KV_POOL_MAIN, 0);
    sealed = table.workers[0]->log[log];
    kv_log_close(table.workers[0], log);
}

/* A purge that comes to its end leaves one flush less than would make the table wide again. */
static void purge_has_begun(void)
{
    open_table();
    key_set(KEY_A, "1");
    flush(2);
    kv_purge_step(table.workers[1]);
    for (unsigned i = 1; i < U_ARRAY_LEN(table.workers); i++)
        kv_epoch_announce(&table.workers[i]->kv->epoch, table.workers[i]->member);
}

/* The same in a wide table, of two threads. */
static void wide_purge_has_begun(void)
{
    open_table();
    flush(TAGS);
    key_set(KEY_A, "1");
    only(2);
    kv_purge_step(table.workers[1]);
    for (unsigned i = 1; i <= 2; i++)
        kv_epoch_announce(&table.workers[i]->kv->epoch, table.workers[i]->member);
}

/* ---- what threads do --------------------------------------------------------------------- */

static void get_twice(void)
{
    key_get(KEY_A);
    key_get(KEY_A);
}

static void get_leave(void)
{
    key_get(KEY_A);
    kv_offline(keys_worker());
}

static void set_get(void)
{
    key_set(KEY_A, "2");
    key_get(KEY_A);
}

static void set_short(void)
{
    key_set_short(KEY_A, "3");
}

static void incr(void)
{
    key_incr(KEY_A);
}

static void flush_get(void)
{
    flush_once();
    key_get(KEY_A);
}

/* Until the tag comes round, in two steps. */
static void flush_twice_get(void)
{
    flush_once();
    flush(TAGS - 1);
    key_get(KEY_A);
}

/* Until tags come round, and no further than a purge that has ended allows in a narrow table. */
static void flush_round(void)
{
    kv_epoch_announce(&keys_worker()->kv->epoch, keys_worker()->member);
    flush(TAGS - 2);
    kv_offline(keys_worker());
}

static void purge(void)
{
    for (unsigned i = 0; i < PURGE_STEPS; i++) {
        kv_epoch_announce(&keys_worker()->kv->epoch, keys_worker()->member);
        kv_purge_step(keys_worker());
    }
}

static void relocate(void)
{
    struct kv_worker *worker = keys_worker();
    if (kv_clean_begin(worker, sealed, KV_CLEAN_COMPACT))
        kv_clean_step(worker, 100);
}

const struct il_scenario flush_scenarios[] = {
    {"flush-set-get",
     "a flush makes the table wide beside a store and two lookups",
     3,
     almost_wide,
     keys_begin,
     {flush_get, set_get, get_twice},
     keys_check,
     keys_close},
    {"flush-short",
     "the same beside a store by the short way",
     2,
     almost_wide,
     keys_begin,
     {flush_get, set_short},
     keys_check,
     keys_close},
    {"flush-incr",
     "a flush between the decision about an item and its replacement by another one",
     2,
     almost_wide,
     keys_begin,
     {flush_get, incr},
     keys_check,
     keys_close},
    {"flush-round",
     "an item of 256 flushes before is not found, nor is a new one lost",
     3,
     round_once,
     keys_begin,
     {flush_once, set_get, get_twice},
     keys_check,
     keys_close},
    {"flush-relocate",
     "moved in a wide table beside a flush",
     2,
     round_once_sealed,
     keys_begin,
     {relocate, flush_twice_get},
     keys_check,
     keys_close},
    {"flush-relocate-get",
     "moved in a wide table and never missed",
     2,
     round_once_sealed,
     keys_begin,
     {relocate, get_twice},
     keys_check,
     keys_close},
    {"flush-purge-get",
     "tags repeat after a purge while a thread has found a purged item",
     3,
     purge_has_begun,
     keys_begin,
     {purge, get_leave, flush_round},
     keys_check,
     keys_close},
    {"flush-purge-set",
     "a purge makes the table narrow beside a store and a lookup",
     2,
     wide_purge_has_begun,
     keys_begin,
     {purge, set_get},
     keys_check,
     keys_close},
};

const unsigned flush_scenario_count = sizeof(flush_scenarios) / sizeof(flush_scenarios[0]);
