/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Headers of segments that several workers change at the same time.
 *
 * This file is compiled as the engine is: its accesses are tracked.
 */
#include "kv/epoch.h"
#include "kv/poison.h"
#include "kv/segment.h"
#include "scenarios.h"

#define SHIFT 6
#define COUNT 2

static struct kv_epoch epoch;
static struct kv_epoch_member members[IL_THREADS_MAX];
static struct kv_segments segments;
static struct kv_segment headers[COUNT];
static _Alignas(U_CACHE_LINE_BYTES) uint8_t memory[COUNT << SHIFT];

static void make(uint32_t count)
{
    il_region(&epoch, sizeof(epoch), "epoch");
    il_region(members, sizeof(members), "members");
    il_region(&segments, sizeof(segments), "segments");
    il_region(headers, sizeof(headers), "headers");
    kv_epoch_init(&epoch, members, IL_THREADS_MAX);
    kv_segments_init(&segments, memory, headers, count, SHIFT, &epoch);
}

static void teardown(void)
{
    kv_unpoison(memory, sizeof(memory));
}

/* ---- the last free one ------------------------------------------------------------------- */

static void all_free(void)
{
    make(COUNT);
}

static void take_leaving_one(void)
{
    kv_segment_take(&segments, 1);
}

static void check_one_left(void)
{
    if (kv_segment_list_count(&segments.free) != 1)
        il_fail("the reserve was taken");
}

/* ---- bounds of expiry -------------------------------------------------------------------- */

static void one_open(void)
{
    make(1);
    if (kv_segment_take(&segments, 0) != 0)
        il_fail("the segment can't be had");
}

static void note_20(void)
{
    kv_segment_note_exptime(&segments, 0, 20);
}

static void note_50(void)
{
    kv_segment_note_exptime(&segments, 0, 50);
}

static void check_bounds(void)
{
    if (kv_u32_load_relaxed(&headers[0].exptime_min) != 20 ||
        kv_u32_load_relaxed(&headers[0].exptime_max) != 50)
        il_fail("a time is outside of the bounds");
}

const struct il_scenario segment_scenarios[] = {
    {"segment-take",
     "two take a free segment, of which one has to stay",
     2,
     all_free,
     NULL,
     {take_leaving_one, take_leaving_one},
     check_one_left,
     teardown},
    {"segment-exptime",
     "two widen the bounds of expiry",
     2,
     one_open,
     NULL,
     {note_20, note_50},
     check_bounds,
     teardown},
};

const unsigned segment_scenario_count = sizeof(segment_scenarios) / sizeof(segment_scenarios[0]);
