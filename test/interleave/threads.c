/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The threads of a scenario as fibres, switches between them, and the runs of an exploration.
 *
 * A thread that has loaded the same value from the same place by the same instruction three times
 * in a row spins: it continues when a value was stored, or when no other thread can.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <ucontext.h>

#include "il.h"

#define STACK_BYTES (256 * 1024)
#define SPIN_LOADS 3
#define IDLE_TURNS_MAX 1000 /* of threads that only spin, before that is an error */
#define LEARNING_RUNS 500

enum state { STATE_READY, STATE_SPINNING, STATE_DONE };

struct thread {
    ucontext_t context;
    enum state state;
    const void *loaded_at;
    const void *loaded_site;
    uint64_t loaded;
    unsigned loads;
};

enum phase { PHASE_NONE, PHASE_RUN, PHASE_CHECK };

static struct thread threads[IL_THREADS_MAX];
static unsigned char stacks[IL_THREADS_MAX][STACK_BYTES];
static unsigned current;
static enum phase phase;
static const struct il_scenario *scenario;
static struct il_bounds bounds;
static struct il_bounds spent;
static unsigned idle_turns;
static uint32_t ticks;
static uint32_t ticks_of_setup;

bool il_is_recording(void)
{
    return phase != PHASE_NONE;
}

bool il_is_running(void)
{
    return phase == PHASE_RUN;
}

unsigned il_thread(void)
{
    return current;
}

uint32_t il_time(void)
{
    return ++ticks;
}

void il_fail(const char *format, ...)
{
    char message[400];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    phase = PHASE_NONE;
    il_report(scenario ? scenario->name : "", message);
    exit(IL_EXIT_FOUND);
}

void il_assert_failed(const char *condition)
{
    il_fail("U_ASSERT: %s", condition);
}

/* ---- switching --------------------------------------------------------------------------- */

static void switch_to(unsigned next)
{
    unsigned last = current;
    if (next == last)
        return;
    current = next;
    if (swapcontext(&threads[last].context, &threads[next].context) != 0)
        abort();
}

/* The other threads that can continue. */
static unsigned others_ready(unsigned ready[IL_THREADS_MAX])
{
    unsigned count = 0;
    for (unsigned i = 1; i <= scenario->threads; i++)
        if (i != current && threads[i].state == STATE_READY)
            ready[count++] = i;
    return count;
}

void il_switch_point(void)
{
    unsigned ready[IL_THREADS_MAX];
    unsigned count = 0;
    if (spent.preemptions < bounds.preemptions || il_choices_are_given())
        count = others_ready(ready);
    unsigned taken = il_choose(1 + count);
    if (taken == 0)
        return;
    spent.preemptions++;
    switch_to(ready[taken - 1]);
}

static void spinning_get_ready(void)
{
    for (unsigned i = 1; i <= scenario->threads; i++)
        if (threads[i].state == STATE_SPINNING)
            threads[i].state = STATE_READY;
}

/* Switches to another thread that can continue; to the first thread when all have ended. */
static void give_way(void)
{
    unsigned ready[IL_THREADS_MAX];
    unsigned count = others_ready(ready);
    if (count == 0) {
        if (threads[current].state == STATE_SPINNING && ++idle_turns == IDLE_TURNS_MAX)
            il_fail("no progress: all remaining threads spin");
        spinning_get_ready();
        count = others_ready(ready);
    }
    if (count > 0)
        switch_to(ready[il_choose(count)]);
    else if (threads[current].state == STATE_DONE)
        switch_to(0);
}

static void spin(void)
{
    threads[current].state = STATE_SPINNING;
    give_way();
    threads[current].state = STATE_READY;
}

void il_loaded(const void *at, uint64_t value, const void *site)
{
    struct thread *thread = &threads[current];
    bool again = thread->loaded_at == at && thread->loaded == value && thread->loaded_site == site;
    thread->loads = again ? thread->loads + 1 : 1;
    thread->loaded_at = at;
    thread->loaded_site = site;
    thread->loaded = value;
    if (thread->loads < SPIN_LOADS || !il_is_shared(at))
        return;
    thread->loads = 0;
    spin();
}

void il_stored(void)
{
    idle_turns = 0;
    spinning_get_ready();
}

bool il_stale_load_allowed(void)
{
    return spent.stale_loads < bounds.stale_loads || il_choices_are_given();
}

void il_stale_load_taken(void)
{
    spent.stale_loads++;
}

bool il_was_stale(void)
{
    return spent.stale_loads > 0;
}

/* Called by the engine's waits. */
int il_sched_yield(void) __asm__("__wrap_sched_yield");

int il_sched_yield(void)
{
    if (phase == PHASE_RUN)
        spin();
    return 0;
}

/* ---- runs -------------------------------------------------------------------------------- */

static void thread_main(void)
{
    scenario->run[current - 1]();
    threads[current].state = STATE_DONE;
    give_way();
}

static void run_once(void)
{
    il_choices_begin();
    il_events_begin();
    il_memory_begin(scenario->threads);
    spent = (struct il_bounds){0, 0};
    idle_turns = 0;
    ticks = ticks_of_setup;
    for (unsigned i = 1; i <= scenario->threads; i++) {
        struct thread *thread = &threads[i];
        thread->state = STATE_READY;
        thread->loads = 0;
        if (getcontext(&thread->context) != 0)
            abort();
        thread->context.uc_stack.ss_sp = stacks[i];
        thread->context.uc_stack.ss_size = STACK_BYTES;
        thread->context.uc_link = NULL;
        makecontext(&thread->context, thread_main, 0);
    }
    if (scenario->begin)
        scenario->begin();
    phase = PHASE_RUN;
    unsigned ready[IL_THREADS_MAX];
    switch_to(ready[il_choose(others_ready(ready))]);
    phase = PHASE_CHECK;
    il_memory_join();
    scenario->check();
    phase = PHASE_NONE;
    il_memory_undo();
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Runs at random find most of the locations where switching matters. */
static void learn_locations(void)
{
    bounds = (struct il_bounds){8, 4};
    il_choices_reset(IL_CHOOSE_RANDOM, NULL);
    for (unsigned i = 0; i < LEARNING_RUNS; i++)
        run_once();
    (void)il_memory_learned();
}

/* All runs within the bounds. False if the time was over before. */
static bool explore_within(double until, unsigned long *runs)
{
    il_choices_reset(IL_CHOOSE_NEXT, NULL);
    do {
        run_once();
        ++*runs;
        if (il_memory_learned())
            il_choices_reset(IL_CHOOSE_NEXT, NULL); /* there are new places to switch: all anew */
        else if (*runs % 256 == 0 && now() > until)
            return false;
    } while (il_choices_advance());
    return true;
}

static void explore(const struct il_options *options)
{
    static const struct il_bounds ladder[] = {{1, 0}, {1, 1}, {2, 0}, {2, 1}, {3, 0}, {2, 2},
                                              {3, 1}, {4, 0}, {3, 2}, {4, 1}, {5, 1}};
    double start = now();
    unsigned long runs = 0;
    learn_locations();
    printf("%-24s", scenario->name);
    for (unsigned i = 0; i < sizeof(ladder) / sizeof(ladder[0]); i++) {
        bounds = ladder[i];
        /* The first is gone through however long that takes. */
        if (!explore_within(i == 0 ? start + 3600 : start + options->seconds, &runs))
            break;
        printf(" %u+%u", bounds.preemptions, bounds.stale_loads);
        fflush(stdout);
    }
    printf(" preemptions+stale loads: %lu runs, %.1f s\n", runs, now() - start);
}

void il_explore(const struct il_scenario *what, const struct il_options *options)
{
    phase = PHASE_NONE;
    scenario = what;
    scenario->setup();
    ticks_of_setup = ticks;
    if (options->replay) {
        il_choices_reset(IL_CHOOSE_GIVEN, options->replay);
        run_once();
        printf("%s: the run went well\n", scenario->name);
        exit(0);
    }
    explore(options);
    scenario->teardown();
    il_memory_forget();
    scenario = NULL;
}
