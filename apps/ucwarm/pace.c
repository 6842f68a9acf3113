/* SPDX-License-Identifier: BSD-3-Clause */
/* Limits and progress; see pace.h. */
#include "pace.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define NS_PER_S 1000000000.0
#define SHOW_NS 100000000
#define SLEEP_NS_MAX 100000000 /* a signal is noticed that soon */
#define BATCHES_PER_S 20
#define BAR_CHARS 24

uint64_t pace_clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

unsigned pace_batch(const struct pace *pace, unsigned most)
{
    double items = pace->items_per_s / BATCHES_PER_S;

    if (pace->items_per_s <= 0 || items >= most)
        return most;
    return items < 1 ? 1 : (unsigned)items;
}

void pace_wait(struct pace *pace, uint64_t items, uint64_t bytes, const atomic_bool *stop)
{
    double items_s = pace->items_per_s > 0 ? (double)items / pace->items_per_s : 0;
    double bytes_s = pace->bytes_per_s > 0 ? (double)bytes / pace->bytes_per_s : 0;
    uint64_t now_ns = pace_clock_ns();

    if (pace->due_ns < now_ns)
        pace->due_ns = now_ns;
    pace->due_ns += (uint64_t)((items_s > bytes_s ? items_s : bytes_s) * NS_PER_S);
    while (now_ns < pace->due_ns && !atomic_load(stop)) {
        uint64_t left = pace->due_ns - now_ns;
        struct timespec pause = {.tv_nsec = (long)(left < SLEEP_NS_MAX ? left : SLEEP_NS_MAX - 1)};

        nanosleep(&pause, NULL);
        now_ns = pace_clock_ns();
    }
}

void progress_show(struct progress *progress, uint64_t items, uint64_t bytes)
{
    uint64_t now_ns = pace_clock_ns();
    double share, seconds, per_s;
    char bar[BAR_CHARS + 1];
    int full;

    if (!progress->shown || now_ns - progress->shown_ns < SHOW_NS)
        return;
    progress->shown_ns = now_ns;
    if (items > progress->total) /* the sources have grown */
        progress->total = items;
    share = progress->total > 0 ? (double)items / (double)progress->total : 1;
    seconds = (double)(now_ns - progress->begun_ns) / NS_PER_S;
    per_s = seconds > 0 ? (double)items / seconds : 0;
    full = (int)(share * BAR_CHARS);
    memset(bar, ' ', BAR_CHARS);
    memset(bar, '#', (size_t)full);
    bar[BAR_CHARS] = '\0';
    fprintf(stderr, "\r%s [%s] %3.0f %% %llu of %llu items, %.1f MB, %.0f/s, %.0f s left \033[K",
            progress->what, bar, share * 100, (unsigned long long)items,
            (unsigned long long)progress->total, (double)bytes / 1e6, per_s,
            per_s > 0 ? (double)(progress->total - items) / per_s : 0);
    progress->dirty = true;
}

void progress_end(struct progress *progress)
{
    if (progress->dirty)
        fputc('\n', stderr);
    progress->dirty = false;
}
