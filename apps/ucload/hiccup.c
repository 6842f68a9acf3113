/* SPDX-License-Identifier: BSD-3-Clause */
/* Hiccup detection; see hiccup.h. */
#define _GNU_SOURCE /* pthread_attr_setaffinity_np() */
#include "hiccup.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#define PERIOD_NS 2000000
#define LATE_NS 1000000

static uint64_t clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void sleep_until(uint64_t at_ns)
{
    struct timespec at = {.tv_sec = (time_t)(at_ns / 1000000000),
                          .tv_nsec = (long)(at_ns % 1000000000)};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
        continue;
}

void hiccup_woke(struct hiccup_core *core, uint64_t due_ns, uint64_t now_ns)
{
    uint64_t late_ns = now_ns > due_ns ? now_ns - due_ns : 0;

    if (late_ns < LATE_NS)
        return;
    pthread_mutex_lock(&core->watch->lock);
    if (due_ns >= core->watch->from_ns) {
        core->count++;
        core->total_ns += late_ns;
        if (late_ns > core->longest_ns)
            core->longest_ns = late_ns;
    }
    pthread_mutex_unlock(&core->watch->lock);
}

static void *watch_core(void *arg)
{
    struct hiccup_core *core = arg;
    uint64_t due_ns;

    (void)prctl(PR_SET_TIMERSLACK, 1UL);
    while (!atomic_load_explicit(&core->watch->stop, memory_order_relaxed)) {
        due_ns = clock_ns() + PERIOD_NS;
        sleep_until(due_ns);
        hiccup_woke(core, due_ns, clock_ns());
    }
    return NULL;
}

static int start(struct hiccup_core *core)
{
    pthread_attr_t attr;
    cpu_set_t set;
    int rc;

    CPU_ZERO(&set);
    CPU_SET(core->core, &set);
    rc = pthread_attr_init(&attr);
    if (rc != 0)
        return -rc;
    rc = pthread_attr_setaffinity_np(&attr, sizeof(set), &set);
    if (rc == 0)
        rc = pthread_create(&core->thread, &attr, watch_core, core);
    pthread_attr_destroy(&attr);
    return -rc;
}

int hiccup_open(struct hiccup_watch *watch, const struct cores *cores)
{
    int rc;

    memset(watch, 0, sizeof(*watch));
    rc = -pthread_mutex_init(&watch->lock, NULL);
    while (rc == 0 && watch->count < cores->count && watch->count < HICCUP_CORES_MAX) {
        struct hiccup_core *core = &watch->cores[watch->count];

        core->watch = watch;
        core->core = cores->list[watch->count];
        rc = start(core);
        if (rc == 0)
            watch->count++;
    }
    return rc;
}

void hiccup_close(struct hiccup_watch *watch)
{
    unsigned i;

    atomic_store(&watch->stop, true);
    for (i = 0; i < watch->count; i++)
        pthread_join(watch->cores[i].thread, NULL);
    if (watch->count > 0)
        pthread_mutex_destroy(&watch->lock);
    watch->count = 0;
}

void hiccup_start(struct hiccup_watch *watch, uint64_t from_ns)
{
    unsigned i;

    pthread_mutex_lock(&watch->lock);
    watch->from_ns = from_ns;
    for (i = 0; i < watch->count; i++) {
        struct hiccup_core *core = &watch->cores[i];

        core->count = core->longest_ns = core->total_ns = 0;
    }
    pthread_mutex_unlock(&watch->lock);
}

struct hiccups hiccup_read(struct hiccup_watch *watch)
{
    struct hiccups all = {0};
    unsigned i;

    pthread_mutex_lock(&watch->lock);
    for (i = 0; i < watch->count; i++) {
        const struct hiccup_core *core = &watch->cores[i];

        all.count += core->count;
        if (core->longest_ns > all.longest_ns)
            all.longest_ns = core->longest_ns;
        if (core->total_ns > all.worst_ns)
            all.worst_ns = core->total_ns;
    }
    pthread_mutex_unlock(&watch->lock);
    return all;
}
