/* SPDX-License-Identifier: BSD-3-Clause */
/* The model of coherence.h, and what test/interleave/hooks.c calls. */
#include "coherence.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "interleave/il.h"

#define LINES_MAX (1u << 20) /* powers of 2, of which half may be in use */
#define SITES_MAX (1u << 12)
#define SITES_SHOWN 12

/* `holders`: a bit for each worker that has the line; `dirty`: the only holder has stored to it. */
struct line {
    uintptr_t number; /* 0: free */
    uint32_t holders;
    bool dirty;
};

struct site {
    const void *at; /* null: free */
    uint64_t stores, loads;
};

static struct line lines[LINES_MAX];
static struct site sites[SITES_MAX];
static unsigned line_count, site_count;
static struct coherence_counts counts;
static int worker = COHERENCE_NOBODY;
static uintptr_t stack_end; /* of the frames that the worker's calls have */

void coherence_run_as(int number)
{
    U_ASSERT(number < COHERENCE_WORKERS_MAX);
    worker = number;
    stack_end = (uintptr_t)__builtin_frame_address(0);
}

void coherence_forget(void)
{
    memset(lines, 0, sizeof(lines));
    line_count = 0;
}

void coherence_count_from_here(void)
{
    memset(&counts, 0, sizeof(counts));
    memset(sites, 0, sizeof(sites));
    site_count = 0;
}

struct coherence_counts coherence_counts(void)
{
    return counts;
}

static unsigned slot_of(uintptr_t number, unsigned size)
{
    return (unsigned)((uint64_t)number * 0x9E3779B97F4A7C15u >> 32) & (size - 1);
}

static struct line *line_of(uintptr_t number)
{
    unsigned i = slot_of(number, LINES_MAX);

    while (lines[i].number != number && lines[i].number != 0)
        i = (i + 1) & (LINES_MAX - 1);
    if (lines[i].number == 0) {
        line_count++;
        U_ASSERT(line_count <= LINES_MAX / 2);
        lines[i].number = number;
    }
    return &lines[i];
}

static struct site *site_of(const void *at)
{
    unsigned i = slot_of((uintptr_t)at, SITES_MAX);

    while (sites[i].at != at && sites[i].at != NULL)
        i = (i + 1) & (SITES_MAX - 1);
    if (sites[i].at == NULL) {
        site_count++;
        U_ASSERT(site_count <= SITES_MAX / 2);
        sites[i].at = at;
    }
    return &sites[i];
}

static void store_to(struct line *line, const void *site)
{
    uint32_t own = 1u << worker;

    if ((line->holders & ~own) != 0) {
        counts.stores++;
        site_of(site)->stores++;
    }
    line->holders = own;
    line->dirty = true;
}

static void load_from(struct line *line, const void *site)
{
    uint32_t own = 1u << worker;

    if ((line->holders & own) != 0)
        return;
    if (line->dirty && line->holders != 0) {
        counts.loads++;
        site_of(site)->loads++;
    }
    line->holders |= own;
    line->dirty = false;
}

/* The workers share the stack of the test's thread, where each would have its own. */
static bool is_on_stack(uintptr_t at)
{
    return at >= (uintptr_t)__builtin_frame_address(0) && at < stack_end;
}

static void access_range(const void *at, size_t bytes, bool is_store, const void *site)
{
    uintptr_t number = (uintptr_t)at / U_CACHE_LINE_BYTES;
    uintptr_t last = ((uintptr_t)at + bytes - 1) / U_CACHE_LINE_BYTES;

    if (worker == COHERENCE_NOBODY || bytes == 0 || is_on_stack((uintptr_t)at))
        return;
    for (; number <= last; number++)
        (is_store ? store_to : load_from)(line_of(number), site);
}

/* ---- the report -------------------------------------------------------------------------- */

static int compare_sites(const void *a, const void *b)
{
    const struct site *one = a, *two = b;
    uint64_t first = one->stores + one->loads, second = two->stores + two->loads;

    return (first < second) - (first > second);
}

void coherence_report(void)
{
    static struct site sorted[SITES_MAX];

    memcpy(sorted, sites, sizeof(sorted));
    qsort(sorted, SITES_MAX, sizeof(sorted[0]), compare_sites);
    for (unsigned i = 0; i < SITES_SHOWN && sorted[i].at; i++) {
        printf("  %6lu stores, %6lu loads   ", (unsigned long)sorted[i].stores,
               (unsigned long)sorted[i].loads);
        il_site_print(sorted[i].at);
        printf("\n");
    }
}

/* ---- the compiler's calls ---------------------------------------------------------------- */

void il_fail(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    abort();
}

void il_read(const void *at, size_t bytes, const void *site)
{
    access_range(at, bytes, false, site);
}

void il_write(const void *at, size_t bytes, const void *site)
{
    access_range(at, bytes, true, site);
}

static uint64_t value_at(const void *at, unsigned bytes)
{
    uint64_t value = 0;

    il_copy(&value, at, bytes); /* little-endian */
    return value;
}

uint64_t il_load(const void *at, unsigned bytes, int order, const void *site)
{
    il_read(at, bytes, site);
    return value_at(at, bytes);
}

void il_store(void *at, unsigned bytes, uint64_t value, int order, const void *site)
{
    il_write(at, bytes, site);
    il_copy(at, &value, bytes);
}

uint64_t il_exchange(void *at, unsigned bytes, il_modify *modify, uint64_t operand, int order,
                     const void *site)
{
    uint64_t old = value_at(at, bytes);

    il_store(at, bytes, modify(old, operand), order, site);
    return old;
}

/* A failed exchange takes the line as well. */
bool il_compare_exchange(void *at, unsigned bytes, uint64_t *expected, uint64_t value, int order,
                         int failure_order, const void *site)
{
    uint64_t old = value_at(at, bytes), mask = bytes == 8 ? UINT64_MAX : (1ull << 8 * bytes) - 1;
    bool same = old == (*expected & mask);

    il_store(at, bytes, same ? value : old, order, site);
    *expected = old;
    return same;
}

/* ---- the C library (linked with --wrap) -------------------------------------------------- */

void *real_memmove(void *to, const void *from, size_t bytes) __asm__("__real_memmove");
void *wrap_memmove(void *to, const void *from, size_t bytes) __asm__("__wrap_memmove");
void *wrap_memmove(void *to, const void *from, size_t bytes)
{
    il_read(from, bytes, __builtin_return_address(0));
    il_write(to, bytes, __builtin_return_address(0));
    return real_memmove(to, from, bytes);
}
