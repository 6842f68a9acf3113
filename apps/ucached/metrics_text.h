/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Statistics as OpenMetrics text: the lists `stats`, `stats kv`, `ustack`, `nic` and `sock`, and
 * the latency histograms.
 *
 * A line NAME of list LIST becomes the metric ucached_LIST_NAME, of `stats` itself ucached_NAME.
 * metrics_names.c says which are gauges and describes all. A line whose value is a word becomes an
 * info metric with the word as its label.
 */
#ifndef UCACHED_METRICS_TEXT_H
#define UCACHED_METRICS_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "cache/cache.h"

/* A growing text. `failed`: there was no memory, and the text is incomplete. */
struct metrics_text {
    char *bytes;
    size_t len;
    size_t capacity;
    bool failed;
};

/*
 * Writes all metrics of the server behind what the text contains. connections: of the listener.
 */
void metrics_text_fill(struct metrics_text *text, struct cache *cache, unsigned connections);

void metrics_text_free(struct metrics_text *text);

/* What a line of a list is. */
struct metrics_name {
    const char *list; /* null: `stats` itself */
    const char *name; /* or the beginning of several, with a * behind it */
    bool is_gauge;
    const char *help;
};

/* The first row that fits; the last rows fit everything. */
const struct metrics_name *metrics_name_find(const char *list, const char *name);

#endif
