/* SPDX-License-Identifier: BSD-3-Clause */
/* The speed of a copy: limits of items and bytes per second, and the bar that shows progress. */
#ifndef UCWARM_PACE_H
#define UCWARM_PACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct pace {
    double items_per_s; /* 0: no limit */
    double bytes_per_s; /* 0: no limit */
    uint64_t due_ns;    /* the next batch may begin */
};

/* Nanoseconds of the monotonic clock. */
uint64_t pace_clock_ns(void);

/* The largest batch, of at most `most` items, that takes no more than a twentieth of a second. */
unsigned pace_batch(const struct pace *pace, unsigned most);

/* Waits until the limits allow the next batch after one of this size, unless *stop. */
void pace_wait(struct pace *pace, uint64_t items, uint64_t bytes, const atomic_bool *stop);

struct progress {
    bool shown; /* stderr is a terminal */
    const char *what;
    uint64_t total; /* items, about */
    uint64_t begun_ns;
    uint64_t shown_ns;
    bool dirty; /* the line has to be ended */
};

/* Shows the bar, at most ten times a second. */
void progress_show(struct progress *progress, uint64_t items, uint64_t bytes);

/* Ends the line of the bar. */
void progress_end(struct progress *progress);

#endif
