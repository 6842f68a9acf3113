/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Values that loads may return, and happens-before (il.h has the model).
 *
 * Each thread has a vector clock: its own entry counts its atomic operations, the other entries
 * those of other threads that happened before. Each recorded access carries the clock of its
 * thread, so "did it happen before?" is one comparison.
 *
 * The memory itself always holds the last value stored; older ones are in the location's messages.
 */
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "il.h"

#define REGIONS_MAX 32
#define LOCATIONS_MAX 4096 /* a power of 2, as the next two */
#define CELLS_MAX 65536
#define USAGES_MAX 8192
#define MESSAGES_MAX 16 /* older ones are forgotten, that is: never returned any more */
#define UNDO_MAX 1000000

/* ---- regions ----------------------------------------------------------------------------- */

struct region {
    const uint8_t *at;
    size_t bytes;
    const char *name;
};

static struct region regions[REGIONS_MAX];
static unsigned region_count;

void il_region(const void *at, size_t bytes, const char *name)
{
    if (region_count == REGIONS_MAX)
        il_fail("too many regions");
    regions[region_count++] = (struct region){(const uint8_t *)at, bytes, name};
}

static const struct region *region_of(const void *at)
{
    for (unsigned i = 0; i < region_count; i++)
        if ((uintptr_t)at - (uintptr_t)regions[i].at < regions[i].bytes)
            return &regions[i];
    return NULL;
}

void il_region_name(const void *at, char *text, size_t bytes)
{
    const struct region *region = region_of(at);
    if (region)
        snprintf(text, bytes, "%s+%zu", region->name,
                 (size_t)((uintptr_t)at - (uintptr_t)region->at));
    else
        snprintf(text, bytes, "%p", at);
}

/* ---- undoing ----------------------------------------------------------------------------- */

struct undo {
    uint8_t *at;
    uint64_t old;
    uint8_t bytes;
};

static struct undo undos[UNDO_MAX];
static unsigned undo_count;

static void undo_keep(void *at, size_t bytes)
{
    uint8_t *from = (uint8_t *)at;
    while (bytes > 0) {
        uint8_t part = bytes < 8 ? (uint8_t)bytes : 8;
        if (undo_count == UNDO_MAX)
            il_fail("a run writes too much");
        struct undo *undo = &undos[undo_count++];
        undo->at = from;
        undo->bytes = part;
        il_copy(&undo->old, from, part);
        from += part;
        bytes -= part;
    }
}

void il_memory_undo(void)
{
    while (undo_count > 0) {
        const struct undo *undo = &undos[--undo_count];
        il_copy(undo->at, &undo->old, undo->bytes);
    }
}

/* ---- threads ----------------------------------------------------------------------------- */

static struct il_clock clocks[IL_THREADS_MAX];
static unsigned thread_count; /* with number 0 */
static uint32_t run;          /* entries of other runs are invalid */

struct il_clock il_clock(void)
{
    static const struct il_clock none;
    return il_is_recording() ? clocks[il_thread()] : none;
}

static bool knows(unsigned thread, unsigned of, uint16_t when)
{
    return clocks[thread].of[of] >= when;
}

static void learn(unsigned thread, const struct il_clock *from)
{
    for (unsigned i = 0; i < IL_THREADS_MAX; i++)
        if (from->of[i] > clocks[thread].of[i])
            clocks[thread].of[i] = from->of[i];
}

static void clock_advance(unsigned thread)
{
    if (++clocks[thread].of[thread] == UINT16_MAX)
        il_fail("a run has too many atomic operations");
}

/* ---- locations --------------------------------------------------------------------------- */

struct message {
    uint64_t value;
    uint16_t when;
    uint8_t thread;
    bool releases; /* who acquires it learns `clock` */
    struct il_clock clock;
};

/* The latest message that a thread has stored or loaded at a time; only where that rose. */
struct sight {
    uint16_t when;
    uint16_t message;
};

struct location {
    const void *at;
    uint32_t run;
    uint8_t bytes;
    uint16_t first; /* messages remembered: [first, end) */
    uint16_t end;
    uint16_t seq_cst; /* the last seq_cst store */
    uint16_t sight_count[IL_THREADS_MAX];
    struct message messages[MESSAGES_MAX];
    struct sight sights[IL_THREADS_MAX][MESSAGES_MAX];
};

static struct location locations[LOCATIONS_MAX];

/*
 * The threads that use a location, over all runs of the scenario. Without a conflicting access of
 * another thread no switch is needed there.
 */
struct usage {
    const void *at;
    uint8_t users; /* bits of threads */
    uint8_t writers;
};

static struct usage usages[USAGES_MAX];
static unsigned usage_count;
static bool usage_grew;

static unsigned hash_of(const void *at)
{
    return (unsigned)(((uintptr_t)at * UINT64_C(0x9e3779b97f4a7c15)) >> 40);
}

static struct usage *usage_find(const void *at)
{
    unsigned i = hash_of(at) % USAGES_MAX;
    while (usages[i].at && usages[i].at != at)
        i = (i + 1) % USAGES_MAX;
    return &usages[i];
}

bool il_conflicts(const void *at, unsigned thread, bool writes)
{
    const struct usage *usage = usage_find(at);
    return ((writes ? usage->users : usage->writers) & ~(1u << thread)) != 0;
}

bool il_is_shared(const void *at)
{
    const struct usage *usage = usage_find(at);
    return usage->writers != 0 && (usage->users & (usage->users - 1)) != 0;
}

static void usage_note(const void *at, unsigned thread, bool writes)
{
    struct usage *usage = usage_find(at);
    uint8_t bit = (uint8_t)(1u << thread);
    if ((usage->users & bit) && (!writes || (usage->writers & bit)))
        return;
    if (!usage->at && ++usage_count == USAGES_MAX / 2)
        il_fail("too many locations");
    usage->at = at;
    usage->users |= bit;
    usage->writers |= writes ? bit : 0;
    usage_grew = usage_grew || il_is_shared(at);
}

bool il_memory_learned(void)
{
    bool grew = usage_grew;
    usage_grew = false;
    return grew;
}

static uint64_t memory_get(const void *at, unsigned bytes)
{
    uint64_t value = 0;
    il_copy(&value, at, bytes);
    return value;
}

static struct location *location_slot(const void *at)
{
    unsigned i = hash_of(at) % LOCATIONS_MAX;
    while (locations[i].run == run && locations[i].at != at)
        i = (i + 1) % LOCATIONS_MAX;
    return &locations[i];
}

static struct message *message_at(struct location *location, unsigned number)
{
    return &location->messages[number % MESSAGES_MAX];
}

/* Starts the history of a location, also after a plain write, with the value in memory. */
static void location_begin(struct location *location, const void *at, unsigned bytes)
{
    location->at = at;
    location->run = run;
    location->bytes = (uint8_t)bytes;
    location->first = 0;
    location->end = 1;
    location->seq_cst = 0;
    memset(location->sight_count, 0, sizeof(location->sight_count));
    location->messages[0] = (struct message){.value = memory_get(at, bytes)};
}

static struct location *location_get(const void *at, unsigned bytes, unsigned thread, bool writes)
{
    struct location *location = location_slot(at);
    if (location->run != run || location->end == 0)
        location_begin(location, at, bytes);
    if (location->bytes != bytes)
        il_fail("a location is used in different widths");
    usage_note(at, thread, writes);
    return location;
}

/* The oldest message that the thread may still load. */
static unsigned location_floor(const struct location *location, unsigned thread)
{
    unsigned floor = location->first;
    for (unsigned of = 0; of < IL_THREADS_MAX; of++) {
        unsigned count = location->sight_count[of];
        unsigned oldest = count > MESSAGES_MAX ? count - MESSAGES_MAX : 0;
        for (unsigned i = count; i-- > oldest;) {
            const struct sight *sight = &location->sights[of][i % MESSAGES_MAX];
            if (knows(thread, of, sight->when)) {
                floor = sight->message > floor ? sight->message : floor;
                break;
            }
        }
    }
    return floor;
}

static void location_see(struct location *location, unsigned thread, unsigned message)
{
    unsigned count = location->sight_count[thread];
    if (count > 0 && location->sights[thread][(count - 1) % MESSAGES_MAX].message >= message)
        return;
    location->sights[thread][count % MESSAGES_MAX] =
        (struct sight){clocks[thread].of[thread], (uint16_t)message};
    location->sight_count[thread]++;
}

static bool acquires(int order)
{
    return order != IL_RELAXED && order != IL_RELEASE;
}

static bool releases(int order)
{
    return order >= IL_RELEASE;
}

/* ---- bytes: plain accesses, and atomic ones as plain ones see them ----------------------- */

struct byte {
    uint16_t plain_write;
    uint8_t plain_writer;
    uint16_t plain_reads[IL_THREADS_MAX];
    uint16_t atomic_writes[IL_THREADS_MAX];
    uint16_t atomic_reads[IL_THREADS_MAX];
};

struct cell {
    uintptr_t at; /* address of 8 bytes, divided by 8 */
    uint32_t run;
    bool atomic; /* locations may begin here */
    struct byte bytes[8];
};

static struct cell cells[CELLS_MAX];

static struct cell *cell_of(const uint8_t *at)
{
    uintptr_t number = (uintptr_t)at / 8;
    unsigned i = hash_of((const void *)number) % CELLS_MAX;
    while (cells[i].run == run && cells[i].at != number)
        i = (i + 1) % CELLS_MAX;
    if (cells[i].run != run) {
        cells[i] = (struct cell){.at = number, .run = run};
    }
    return &cells[i];
}

static void race(const void *at, const char *now, const char *before, unsigned other)
{
    char name[80];
    il_region_name(at, name, sizeof(name));
    il_fail("data race at %s: %s, and thread %u %s", name, now, other, before);
}

static void check_known(unsigned thread, const uint16_t whens[IL_THREADS_MAX], const void *at,
                        const char *now, const char *before)
{
    for (unsigned i = 0; i < IL_THREADS_MAX; i++)
        if (whens[i] != 0 && !knows(thread, i, whens[i]))
            race(at, now, before, i);
}

static void check_plain_write(unsigned thread, const struct byte *byte, const void *at,
                              const char *now)
{
    if (byte->plain_write != 0 && !knows(thread, byte->plain_writer, byte->plain_write))
        race(at, now, "has written without an order", byte->plain_writer);
}

static void byte_read(unsigned thread, struct byte *byte, const void *at)
{
    check_plain_write(thread, byte, at, "a plain read");
    check_known(thread, byte->atomic_writes, at, "a plain read", "has stored atomically");
    byte->plain_reads[thread] = clocks[thread].of[thread];
}

static void byte_write(unsigned thread, struct byte *byte, const void *at)
{
    check_plain_write(thread, byte, at, "a plain write");
    check_known(thread, byte->plain_reads, at, "a plain write", "has read without an order");
    check_known(thread, byte->atomic_reads, at, "a plain write", "has loaded atomically");
    check_known(thread, byte->atomic_writes, at, "a plain write", "has stored atomically");
    *byte = (struct byte){clocks[thread].of[thread], (uint8_t)thread, {0}, {0}, {0}};
}

/* A plain write ends the history of atomic stores. */
static void cell_forget_locations(struct cell *cell)
{
    for (unsigned i = 0; i < 8; i++) {
        struct location *location = location_slot((const void *)(cell->at * 8 + i));
        if (location->run == run)
            location->end = 0;
    }
    cell->atomic = false;
}

void il_read(const void *at, size_t bytes, const void *site)
{
    if (!il_is_running() || !region_of(at))
        return;
    unsigned thread = il_thread();
    const uint8_t *from = (const uint8_t *)at;
    struct il_event event = {.thread = (uint8_t)thread, .what = "reads", .at = at, .site = site};
    il_event(&event);
    for (size_t i = 0; i < bytes; i++)
        byte_read(thread, &cell_of(from + i)->bytes[(uintptr_t)(from + i) % 8], from + i);
}

void il_write(const void *at, size_t bytes, const void *site)
{
    if (!il_is_recording() || !region_of(at))
        return;
    undo_keep((void *)(uintptr_t)at, bytes);
    if (!il_is_running())
        return;
    unsigned thread = il_thread();
    const uint8_t *from = (const uint8_t *)at;
    struct il_event event = {.thread = (uint8_t)thread, .what = "writes", .at = at, .site = site};
    il_event(&event);
    for (size_t i = 0; i < bytes; i++) {
        struct cell *cell = cell_of(from + i);
        byte_write(thread, &cell->bytes[(uintptr_t)(from + i) % 8], from + i);
        if (cell->atomic)
            cell_forget_locations(cell);
    }
}

void il_plain_read(const void *at, size_t bytes)
{
    il_read(at, bytes, __builtin_return_address(0));
}

void il_plain_write(const void *at, size_t bytes)
{
    il_write(at, bytes, __builtin_return_address(0));
}

static void note_atomic(const void *at, unsigned bytes, unsigned thread, bool writes)
{
    const uint8_t *from = (const uint8_t *)at;
    const char *now = writes ? "an atomic store" : "an atomic load";
    struct cell *cell = cell_of(from);
    cell->atomic = true;
    for (unsigned i = 0; i < bytes; i++) {
        struct byte *byte = &cell->bytes[(uintptr_t)(from + i) % 8];
        check_plain_write(thread, byte, from, now);
        if (writes) {
            check_known(thread, byte->plain_reads, from, now, "has read without an order");
            byte->atomic_writes[thread] = clocks[thread].of[thread];
        } else {
            byte->atomic_reads[thread] = clocks[thread].of[thread];
        }
    }
}

/* ---- atomic operations ------------------------------------------------------------------- */

static void record(const char *what, const void *at, uint64_t value, int order, const void *site,
                   bool stale)
{
    struct il_event event = {(uint8_t)il_thread(), what, at, value, order, site, stale};
    il_event(&event);
}

static void before(const void *at, bool writes)
{
    if (il_conflicts(at, il_thread(), writes) || il_choices_are_given())
        il_switch_point();
    else
        (void)il_choose(1);
}

static void memory_put(void *at, unsigned bytes, uint64_t value)
{
    if (il_is_recording() && region_of(at))
        undo_keep(at, bytes);
    il_copy(at, &value, bytes);
}

/* Appends a store; `after` is the message that a read-modify-write has read. */
static void append(struct location *location, unsigned thread, uint64_t value, int order,
                   const struct message *after)
{
    unsigned number = location->end;
    struct message made = {.value = value,
                           .when = clocks[thread].of[thread],
                           .thread = (uint8_t)thread,
                           .releases = releases(order)};
    if (made.releases)
        made.clock = clocks[thread];
    if (after && after->releases) {
        made.releases = true;
        for (unsigned i = 0; i < IL_THREADS_MAX; i++)
            made.clock.of[i] =
                made.clock.of[i] > after->clock.of[i] ? made.clock.of[i] : after->clock.of[i];
    }
    *message_at(location, number) = made;
    location->end++;
    if (location->end - location->first > MESSAGES_MAX)
        location->first++;
    location_see(location, thread, number);
    if (order == IL_SEQ_CST)
        location->seq_cst = (uint16_t)number;
    memory_put((void *)(uintptr_t)location->at, location->bytes, value);
    il_stored();
}

/* Which message a load returns; those with the value `except` are passed over, but for the last. */
static unsigned message_choose(struct location *location, unsigned thread, int order,
                               const uint64_t *except)
{
    unsigned last = location->end - 1u;
    unsigned floor = location_floor(location, thread);
    if (order == IL_SEQ_CST && location->seq_cst > floor)
        floor = location->seq_cst;
    unsigned fit[MESSAGES_MAX];
    unsigned count = 0;
    fit[count++] = last;
    if (il_stale_load_allowed())
        for (unsigned i = last; i-- > floor;)
            if (!except || message_at(location, i)->value != *except)
                fit[count++] = i;
    unsigned taken = il_choose(count);
    if (taken > 0)
        il_stale_load_taken();
    return fit[taken];
}

static uint64_t load_message(struct location *location, unsigned thread, unsigned number, int order)
{
    const struct message *message = message_at(location, number);
    location_see(location, thread, number);
    if (acquires(order) && message->releases)
        learn(thread, &message->clock);
    return message->value;
}

uint64_t il_load(const void *at, unsigned bytes, int order, const void *site)
{
    if (!il_is_running())
        return memory_get(at, bytes);
    before(at, false);
    unsigned thread = il_thread();
    struct location *location = location_get(at, bytes, thread, false);
    note_atomic(at, bytes, thread, false);
    unsigned number = message_choose(location, thread, order, NULL);
    bool stale = number + 1 != location->end;
    uint64_t value = load_message(location, thread, number, order);
    record("loads", at, value, order, site, stale);
    clock_advance(thread);
    il_loaded(at, value, site);
    return value;
}

void il_store(void *at, unsigned bytes, uint64_t value, int order, const void *site)
{
    if (!il_is_running()) {
        memory_put(at, bytes, value);
        return;
    }
    before(at, true);
    unsigned thread = il_thread();
    struct location *location = location_get(at, bytes, thread, true);
    note_atomic(at, bytes, thread, true);
    append(location, thread, value, order, NULL);
    record("stores", at, value, order, site, false);
    clock_advance(thread);
}

uint64_t il_exchange(void *at, unsigned bytes, il_modify *modify, uint64_t operand, int order,
                     const void *site)
{
    if (!il_is_running()) {
        uint64_t old = memory_get(at, bytes);
        memory_put(at, bytes, modify(old, operand));
        return old;
    }
    before(at, true);
    unsigned thread = il_thread();
    struct location *location = location_get(at, bytes, thread, true);
    note_atomic(at, bytes, thread, true);
    (void)il_choose(1);
    struct message last = *message_at(location, location->end - 1u);
    uint64_t old = load_message(location, thread, location->end - 1u, order);
    append(location, thread, modify(old, operand), order, &last);
    record("exchanges", at, modify(old, operand), order, site, false);
    clock_advance(thread);
    return old;
}

bool il_compare_exchange(void *at, unsigned bytes, uint64_t *expected, uint64_t value, int order,
                         int failure_order, const void *site)
{
    if (!il_is_running()) {
        uint64_t old = memory_get(at, bytes);
        bool same = old == *expected;
        if (same)
            memory_put(at, bytes, value);
        *expected = old;
        return same;
    }
    before(at, true);
    unsigned thread = il_thread();
    struct location *location = location_get(at, bytes, thread, true);
    unsigned number = message_choose(location, thread, failure_order, expected);
    bool stale = number + 1 != location->end;
    struct message read = *message_at(location, number);
    bool same = read.value == *expected;
    note_atomic(at, bytes, thread, same);
    *expected = load_message(location, thread, number, same ? order : failure_order);
    if (same)
        append(location, thread, value, order, &read);
    record(same ? "sets" : "fails to set", at, value, order, site, stale);
    clock_advance(thread);
    if (!same)
        il_loaded(at, *expected, site);
    return same;
}

/* ---- runs -------------------------------------------------------------------------------- */

void il_memory_begin(unsigned threads)
{
    run++;
    thread_count = threads + 1;
    for (unsigned i = 0; i < IL_THREADS_MAX; i++) {
        clocks[i] = (struct il_clock){{0}};
        clocks[i].of[i] = 1;
    }
}

void il_memory_join(void)
{
    for (unsigned i = 1; i < thread_count; i++)
        learn(0, &clocks[i]);
}

void il_memory_forget(void)
{
    region_count = 0;
    memset(usages, 0, sizeof(usages));
    usage_count = 0;
}
