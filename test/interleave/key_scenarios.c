/* SPDX-License-Identifier: BSD-3-Clause */
/* What threads do to the same keys: each scenario is two or three threads with a few operations. */
#include "scenarios.h"

#include "il.h"
#include "keys.h"

/* ---- how tables begin -------------------------------------------------------------------- */

static void with_nothing(void)
{
    keys_open();
}

static void with_a(void)
{
    keys_open();
    key_set(KEY_A, "1");
}

static void with_a_and_b(void)
{
    keys_open();
    key_set(KEY_A, "1");
    key_set(KEY_B, "2");
}

static uint32_t sealed;

/* The records of A and B are in a sealed segment, which any thread may empty. */
static void with_sealed(void)
{
    with_a_and_b();
    unsigned log = kv_log_for(table.workers[0], KV_POOL_MAIN, 0);
    sealed = table.workers[0]->log[log];
    kv_log_close(table.workers[0], log);
}

#define SWEEP_S 200 /* before A and B expire */
#define SOON_S 300  /* and so is this, to which A is touched */

/* The same segment seems to have an item that expired long ago. */
static void with_sealed_to_sweep(void)
{
    with_sealed();
    kv_segment_note_exptime(&table.kv->segments, sealed, 1);
}

/* ---- what threads do --------------------------------------------------------------------- */

static void get_a(void)
{
    key_get(KEY_A);
}

static void get_a_twice(void)
{
    key_get(KEY_A);
    key_get(KEY_A);
}

static void set_a(void)
{
    key_set(KEY_A, "7");
}

static void set_a_otherwise(void)
{
    key_set(KEY_A, "77");
}

static void set_a_short(void)
{
    key_set_short(KEY_A, "8");
}

static void set_a_short_seal(void)
{
    struct kv_worker *worker = keys_worker();
    key_set_short(KEY_A, "6");
    key_set_short(KEY_A, "66");
    kv_log_close(worker, kv_log_for(worker, KV_POOL_MAIN, 0));
}

static void set_a_twice(void)
{
    key_set(KEY_A, "2");
    key_set(KEY_A, "3");
}

static void delete_a_add_a(void)
{
    key_delete(KEY_A);
    key_add(KEY_A, "9");
}

static void add_a(void)
{
    key_add(KEY_A, "8");
}

static void add_a_get_a(void)
{
    key_add(KEY_A, "9");
    key_get(KEY_A);
}

static void add_b(void)
{
    key_add(KEY_B, "6");
}

static void incr_a(void)
{
    key_incr(KEY_A);
}

static void touch_a(void)
{
    key_touch(KEY_A, 1000);
}

static void touch_a_get_a(void)
{
    key_touch(KEY_A, 2000);
    key_get(KEY_A);
}

static void delete_a(void)
{
    key_delete(KEY_A);
}

static void delete_b(void)
{
    key_delete(KEY_B);
}

static void cas_a(void)
{
    key_cas(KEY_A, key_cas_now(KEY_A), "5");
}

static void set_a_then_delete(void)
{
    key_set(KEY_A, "4");
    key_delete(KEY_A);
}

/* Stores and seals the segment that it has stored to. */
static void set_a_seal(void)
{
    struct kv_worker *worker = keys_worker();
    key_set(KEY_A, "6");
    kv_log_close(worker, kv_log_for(worker, KV_POOL_MAIN, 0));
    key_get(KEY_A);
}

/* Moves what lives in the segment of A, unless nothing lives there any more. */
static void relocate(void)
{
    struct kv_worker *worker = keys_worker();
    if (!kv_clean_begin(worker, sealed, KV_CLEAN_COMPACT))
        return;
    kv_clean_step(worker, 100);
    if (worker->cleaner.mode != KV_CLEAN_NONE)
        il_fail("the scan did not end");
}

static void touch_a_soon(void)
{
    key_touch(KEY_A, SOON_S);
}

/* Nothing has expired: recomputes the lower bound of expiry. */
static void sweep(void)
{
    struct kv_worker *worker = keys_worker();
    kv_tick(worker, SWEEP_S);
    if (!kv_sweep_begin(worker, kv_segments_count(&table.kv->segments)))
        il_fail("no segment was worth a sweep");
    kv_clean_step(worker, 100);
}

/* Else the sweep would not find A when it has expired. */
static void check_bound(void)
{
    keys_check();
    if (kv_u32_load_relaxed(&table.kv->segments.array[sealed].exptime_min) > SOON_S)
        il_fail("the time that A was touched to is below the bound of its segment");
}

const struct il_scenario key_scenarios[] = {
    {"add-add",
     "two threads add one new key: one of them succeeds",
     2,
     with_nothing,
     keys_begin,
     {add_a, add_a_get_a},
     keys_check,
     keys_close},
    {"add-add-delete",
     "and a third deletes it",
     3,
     with_nothing,
     keys_begin,
     {add_a, add_a_get_a, delete_a},
     keys_check,
     keys_close},
    {"add-two",
     "new keys of one chain, and one that goes",
     3,
     with_a,
     keys_begin,
     {add_b, set_a_then_delete, get_a},
     keys_check,
     keys_close},
    {"set-delete-get",
     "overwritten and deleted and read",
     3,
     with_a,
     keys_begin,
     {set_a, delete_a, get_a_twice},
     keys_check,
     keys_close},
    {"set-set-get",
     "two overwrite, a third reads",
     3,
     with_a,
     keys_begin,
     {set_a, set_a_otherwise, get_a_twice},
     keys_check,
     keys_close},
    {"set-twice",
     "overwritten where it was found the last time, deleted and added, read",
     3,
     with_a,
     keys_begin,
     {set_a_twice, delete_a_add_a, get_a},
     keys_check,
     keys_close},
    {"seal-delete",
     "a segment is sealed while the last item in it goes",
     2,
     with_a,
     keys_begin,
     {set_a_seal, delete_a},
     keys_check,
     keys_close},
    {"seal-set",
     "a segment is sealed while other threads overwrite its items",
     3,
     with_a,
     keys_begin,
     {set_a_seal, set_a_otherwise, set_a},
     keys_check,
     keys_close},
    {"short-set",
     "overwritten where its prefetch has seen it, by two ways, and deleted",
     3,
     with_a,
     keys_begin,
     {set_a_short, set_a_otherwise, delete_a},
     keys_check,
     keys_close},
    {"short-short",
     "by the short way of two threads, and read",
     3,
     with_a,
     keys_begin,
     {set_a_short, set_a_short_seal, get_a_twice},
     keys_check,
     keys_close},
    {"short-incr",
     "no touch or increment is taken for one of the item before",
     3,
     with_a,
     keys_begin,
     {set_a_short, incr_a, touch_a_get_a},
     keys_check,
     keys_close},
    {"short-relocate",
     "moved and overwritten by the short way",
     2,
     with_sealed,
     keys_begin,
     {relocate, set_a_short},
     keys_check,
     keys_close},
    {"incr-incr",
     "no increment is lost",
     2,
     with_a,
     keys_begin,
     {incr_a, incr_a},
     keys_check,
     keys_close},
    {"cas-cas",
     "of two with the same cas at most one succeeds",
     2,
     with_a,
     keys_begin,
     {cas_a, cas_a},
     keys_check,
     keys_close},
    {"touch-set-get",
     "a touch goes to the old or the new item",
     3,
     with_a,
     keys_begin,
     {touch_a, set_a, get_a_twice},
     keys_check,
     keys_close},
    {"touch-touch",
     "touched by two",
     2,
     with_a,
     keys_begin,
     {touch_a, touch_a_get_a},
     keys_check,
     keys_close},
    {"touch-incr",
     "an increment keeps the time that a touch has set",
     2,
     with_a,
     keys_begin,
     {touch_a_get_a, incr_a},
     keys_check,
     keys_close},
    {"touch-delete",
     "touched and deleted",
     2,
     with_a,
     keys_begin,
     {touch_a_get_a, delete_a},
     keys_check,
     keys_close},
    {"touch-sweep",
     "the sweep that meets a touch finds the item when it has expired",
     2,
     with_sealed_to_sweep,
     keys_begin,
     {touch_a_soon, sweep},
     check_bound,
     keys_close},
    {"relocate-get",
     "a key that moves is never missed",
     2,
     with_sealed,
     keys_begin,
     {relocate, get_a_twice},
     keys_check,
     keys_close},
    {"relocate-set",
     "moved and overwritten",
     2,
     with_sealed,
     keys_begin,
     {relocate, set_a},
     keys_check,
     keys_close},
    {"relocate-touch",
     "no touch is lost in a move",
     2,
     with_sealed,
     keys_begin,
     {relocate, touch_a_get_a},
     keys_check,
     keys_close},
    {"relocate-delete",
     "moved and deleted",
     3,
     with_sealed,
     keys_begin,
     {relocate, delete_a, delete_b},
     keys_check,
     keys_close},
};

const unsigned key_scenario_count = sizeof(key_scenarios) / sizeof(key_scenarios[0]);
