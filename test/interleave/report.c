/* SPDX-License-Identifier: BSD-3-Clause */
/* The report of a failed run: message, relevant steps, command to repeat it. */
#include <stdio.h>
#include <string.h>

#include "il.h"

#define EVENTS_MAX 4096 /* a power of 2: the last ones of a run are kept */
#define TAIL 6          /* the last ones are shown even if they don't concern another thread */

static struct il_event events[EVENTS_MAX];
static unsigned event_count;

void il_events_begin(void)
{
    event_count = 0;
}

void il_event(const struct il_event *event)
{
    events[event_count++ % EVENTS_MAX] = *event;
}

static bool is_plain(const struct il_event *event)
{
    return strcmp(event->what, "reads") == 0 || strcmp(event->what, "writes") == 0;
}

static void event_print(const struct il_event *event)
{
    static const char *const orders[] = {"relaxed", "consume", "acquire",
                                         "release", "acq_rel", "seq_cst"};
    char name[80];
    il_region_name(event->at, name, sizeof(name));
    printf("  thread %u %s %s", event->thread, event->what, name);
    if (!is_plain(event))
        printf(" %s %#lx%s", orders[event->order], (unsigned long)event->value,
               event->stale ? " (not the last value)" : "");
    printf("   ");
    il_site_print(event->site);
    printf("\n");
}

static bool concerns_others(const struct il_event *event)
{
    bool writes = strcmp(event->what, "loads") != 0 && strcmp(event->what, "fails to set") != 0;
    return !is_plain(event) && il_conflicts(event->at, event->thread, writes);
}

void il_report(const char *scenario, const char *message)
{
    char choices[2000];
    unsigned from = event_count > EVENTS_MAX ? event_count - EVENTS_MAX : 0;
    unsigned last = 0;
    il_choices_print(choices, sizeof(choices));
    printf("\n%s: %s\n", scenario, message);
    for (unsigned i = from; i < event_count; i++) {
        const struct il_event *event = &events[i % EVENTS_MAX];
        if (i + TAIL < event_count && !concerns_others(event))
            continue;
        if (event->thread != last)
            printf("  --\n");
        last = event->thread;
        event_print(event);
    }
    printf("%s: %s\nrepeat it: --replay=%s:%s\n", scenario, message, scenario, choices);
    fflush(stdout);
}
