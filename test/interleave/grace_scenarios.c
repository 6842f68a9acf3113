/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Grace periods: a reader with a pointer into a segment, and a writer who unlinks what is there,
 * and reuses the segment as soon as it gets it. A read that the reuse might disturb is a data race.
 *
 * This file is compiled as the engine is: its accesses are tracked.
 */
#include "kv/epoch.h"
#include "kv/poison.h"
#include "kv/segment.h"
#include "scenarios.h"

#define SHIFT 6
#define LIVE_BYTES 16

/* One segment, with one record of which a word is read. */
static struct kv_epoch epoch;
static struct kv_epoch_member members[IL_THREADS_MAX];
static struct kv_segments segments;
static struct kv_segment headers[1];
static _Alignas(U_CACHE_LINE_BYTES) uint64_t memory[1 << (SHIFT - 3)];
static kv_atomic_u64 published; /* 1: there is a record */
static uint32_t seen[IL_THREADS_MAX][1];
static unsigned long reuses; /* in all runs */

static void setup(void)
{
    il_region(&epoch, sizeof(epoch), "epoch");
    il_region(members, sizeof(members), "members");
    il_region(&segments, sizeof(segments), "segments");
    il_region(headers, sizeof(headers), "segment");
    il_region(memory, sizeof(memory), "memory");
    il_region(&published, sizeof(published), "published");
    il_region(seen, sizeof(seen), "seen");
    headers[0] = (struct kv_segment){0};
    kv_epoch_init(&epoch, members, IL_THREADS_MAX);
    kv_segments_init(&segments, (uint8_t *)memory, headers, 1, SHIFT, &epoch);
    if (kv_segment_take(&segments, 0) != 0)
        il_fail("the segment can't be had");
    memory[0] = 1;
    kv_segment_add(&segments, 0, LIVE_BYTES);
    kv_segment_seal(&segments, 0);
    kv_u64_store_release(&published, 1);
}

static void setup_two_online(void)
{
    setup();
    for (unsigned i = 1; i <= 2; i++)
        kv_epoch_online(&epoch, &members[i]);
}

static void setup_three_online(void)
{
    setup_two_online();
    kv_epoch_online(&epoch, &members[3]);
}

static void setup_held(void)
{
    setup_three_online();
    kv_segment_add(&segments, 0, KV_SEGMENT_HOLD);
}

static void read_record(void)
{
    if (kv_u64_load_acquire(&published) != 0 && memory[0] != 1)
        il_fail("the record was overwritten while it was read");
}

static void reader_comes_online(void)
{
    kv_epoch_online(&epoch, &members[il_thread()]);
    read_record();
    kv_epoch_offline(&members[il_thread()]);
}

static void reader_announces(void)
{
    struct kv_epoch_member *member = &members[il_thread()];
    read_record();
    kv_epoch_announce(&epoch, member);
    read_record();
    kv_epoch_announce(&epoch, member);
}

static void reader_goes_and_comes(void)
{
    struct kv_epoch_member *member = &members[il_thread()];
    read_record();
    kv_epoch_offline(member);
    kv_epoch_online(&epoch, member);
    read_record();
}

static void reuse(void)
{
    unsigned self = il_thread();
    struct kv_segment_reader reader = {&members[self], seen[self], 1};
    kv_segment_reclaim(&segments, &reader, 1);
    if (kv_segment_take(&segments, 0) == KV_SEGMENT_NONE)
        return;
    memory[0] = 2;
    reuses++;
    kv_segment_add(&segments, 0, KV_SEGMENT_HOLD);
}

/* The writer is not registered as online itself: only readers delay it. */
static void writer(void)
{
    kv_u64_store_release(&published, 0);
    kv_segment_subtract(&segments, 0, LIVE_BYTES);
    reuse();
}

static void writer_online(void)
{
    writer();
    kv_epoch_announce(&epoch, &members[il_thread()]);
    reuse();
}

static void reclaimer(void)
{
    kv_epoch_announce(&epoch, &members[il_thread()]);
    reuse();
}

/* Views an item, pins it, is quiescent, reads it again, and unpins. */
static void reader_pins(void)
{
    struct kv_epoch_member *member = &members[il_thread()];
    bool there = kv_u64_load_acquire(&published) != 0;
    if (there)
        kv_segment_add(&segments, 0, KV_SEGMENT_HOLD);
    kv_epoch_offline(member);
    if (!there)
        return;
    if (memory[0] != 1)
        il_fail("a pinned record was overwritten");
    kv_segment_subtract(&segments, 0, KV_SEGMENT_HOLD);
}

static void unlinker(void)
{
    kv_u64_store_release(&published, 0);
    kv_segment_subtract(&segments, 0, LIVE_BYTES);
    kv_epoch_offline(&members[il_thread()]);
}

static void unpinner(void)
{
    kv_segment_subtract(&segments, 0, KV_SEGMENT_HOLD);
    kv_epoch_offline(&members[il_thread()]);
}

/* The state of the segment goes with its usage, and with the list that it is in. */
static void check(void)
{
    uint8_t state = kv_u8_load_seq_cst(&headers[0].state);
    uint64_t usage = kv_u64_load_seq_cst(&headers[0].usage);
    uint32_t retired = kv_segment_list_count(&segments.retired);
    uint32_t is_free = kv_segment_list_count(&segments.free);
    if (kv_segment_list_count(&segments.sealed[KV_POOL_MAIN]) != 0 || state == KV_SEGMENT_SEALED)
        il_fail("an empty segment stayed sealed");
    if (retired != (state == KV_SEGMENT_RETIRED) || is_free != (state == KV_SEGMENT_FREE))
        il_fail("the segment is in the wrong list");
    if ((state == KV_SEGMENT_OPEN) != (usage != 0))
        il_fail("the usage does not go with the state");
}

static void teardown(void)
{
    if (reuses == 0)
        il_fail("the segment was never reused: nothing has been tested");
    reuses = 0;
    kv_unpoison(memory, sizeof(memory));
}

const struct il_scenario grace_scenarios[] = {
    {"grace-online",
     "a reader comes online while memory is retired",
     2,
     setup,
     NULL,
     {reader_comes_online, writer},
     check,
     teardown},
    {"grace-announce",
     "a reader announces between two reads",
     2,
     setup_two_online,
     NULL,
     {reader_announces, writer_online},
     check,
     teardown},
    {"grace-offline",
     "a reader goes offline and comes back",
     2,
     setup_two_online,
     NULL,
     {reader_goes_and_comes, writer_online},
     check,
     teardown},
    {"grace-pin",
     "a pin is taken while the record is unlinked, and outlives the grace",
     3,
     setup_three_online,
     NULL,
     {reader_pins, unlinker, reclaimer},
     check,
     teardown},
    {"grace-unpin",
     "the last live bytes and the last hold are removed concurrently",
     3,
     setup_held,
     NULL,
     {unpinner, unlinker, reclaimer},
     check,
     teardown},
};

const unsigned grace_scenario_count = sizeof(grace_scenarios) / sizeof(grace_scenarios[0]);
