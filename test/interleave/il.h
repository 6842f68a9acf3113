/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A bounded model checker for code with atomics: runs a few threads of the real sources in every
 * relevant order, within bounds, and lets loads return every value that the memory model allows.
 *
 * The sources are compiled unchanged with -fsanitize=thread, which makes the compiler call a
 * function before each plain access and in place of each atomic operation. hooks.c implements these
 * functions instead of the sanitizer. All threads are fibres of one OS thread, so a run is
 * determined by its choices, and a failed run can be repeated from them.
 *
 *   choice.c    choices made and to make: depth-first, random, or given
 *   threads.c   the fibres, and switches between them
 *   memory.c    values that loads may return, happens-before, data races, undoing a run's writes
 *   report.c    the report of a failed run
 *
 * Threads are switched before an atomic operation on a location that two threads use and one of
 * them writes. Such a switch is a preemption, of which a run has a bounded number; switches from a
 * thread that has ended or spins are free.
 *
 * The memory model: each location has the sequence of all values stored to it. A load returns any
 * of them that is not older than one that the thread has stored or loaded there, or that happened
 * before by release and acquire (only read-modify-writes continue release sequences, as in C20); a
 * seq_cst load returns none older than the last seq_cst store. The number of loads per run that
 * return another value than the last one is bounded, too. This covers store buffers, relaxed stores
 * that become visible in any order, loads executed early, threads that disagree about the order of
 * independent stores, and failed compare-and-swaps that read an old value. Plain accesses that are
 * not ordered by happens-before are reported as data races, which also finds memory that is reused
 * while a thread may still read it.
 *
 * Not covered: a load that returns a value stored later in the run (load buffering), a store that
 * precedes another thread's in the sequence of its location although it is executed after it,
 * spurious failures of weak compare-and-swaps, fences (rejected), and accesses of different widths
 * to the same bytes (rejected).
 */
#ifndef IL_H
#define IL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IL_THREADS_MAX 4 /* number 0 sets up and looks afterwards; the others are fibres */

/* ---- a scenario -------------------------------------------------------------------------- */

struct il_scenario {
    const char *name;
    const char *what;
    unsigned threads;
    void (*setup)(void); /* once; says what memory the threads write to: il_region() */
    void (*begin)(void); /* before each run; may be null */
    void (*run[IL_THREADS_MAX - 1])(void);
    void (*check)(void); /* after each run, all threads being through */
    void (*teardown)(void);
};

struct il_bounds {
    unsigned preemptions;
    unsigned stale_loads;
};

struct il_options {
    double seconds;     /* per scenario; bounds are raised until they have passed */
    const char *replay; /* the choices of one run, as printed; null: explore */
    bool quiet;         /* one line for each scenario */
};

/* Explores. A failure is printed and ends the process with IL_EXIT_FOUND. */
void il_explore(const struct il_scenario *scenario, const struct il_options *options);

#define IL_EXIT_FOUND 3

/* ---- for scenarios ----------------------------------------------------------------------- */

/* Memory that the threads may write to. It is put back after each run; the name is for reports. */
void il_region(const void *at, size_t bytes, const char *name);

/* A plain access by code that is not instrumented: that of the scenario itself. */
void il_plain_read(const void *at, size_t bytes);
void il_plain_write(const void *at, size_t bytes);

/* A clock that advances with each read. */
uint32_t il_time(void);

/* 0 outside of fibres. */
unsigned il_thread(void);

/* The vector clock of the calling thread: decides "happens before". */
struct il_clock {
    uint16_t of[IL_THREADS_MAX];
};

struct il_clock il_clock(void);

/* Whether a load of this run has returned another value than the last one. */
bool il_was_stale(void);

/* What U_ASSERT calls in the tracked sources. */
void il_assert_failed(const char *condition);

__attribute__((noreturn, format(printf, 1, 2))) void il_fail(const char *format, ...);

/* ---- choice.c ---------------------------------------------------------------------------- */

enum il_choosing { IL_CHOOSE_NEXT, IL_CHOOSE_RANDOM, IL_CHOOSE_GIVEN };

/* `text`: the choices of IL_CHOOSE_GIVEN, as il_choices_print() prints them. */
void il_choices_reset(enum il_choosing how, const char *text);
void il_choices_begin(void);
bool il_choices_are_given(void);

/*
 * One of `count` alternatives; 0 is the ordinary one. Also called where there is only one, so that
 * the places are the same whatever the bounds are.
 */
unsigned il_choose(unsigned count);

/* Turns to the next run. False if all have been. */
bool il_choices_advance(void);

/* How to repeat the run: "place=alternative,..." with the choices that were not 0. */
void il_choices_print(char *text, size_t bytes);

/* ---- threads.c --------------------------------------------------------------------------- */

/* Before an atomic operation on a location that several threads use. */
void il_switch_point(void);

/* An atomic load: notices if the thread has seen the same again and again, that is: spins. */
void il_loaded(const void *at, uint64_t value, const void *site);

/* A value was stored: spinning threads can continue. */
void il_stored(void);

bool il_stale_load_allowed(void);
void il_stale_load_taken(void);

/* Whether writes have to be kept for undoing, and whether accesses are to be tracked. */
bool il_is_recording(void);
bool il_is_running(void);

/* ---- memory.c ---------------------------------------------------------------------------- */

enum il_order { IL_RELAXED = 0, IL_ACQUIRE = 2, IL_RELEASE = 3, IL_ACQ_REL = 4, IL_SEQ_CST = 5 };

void il_memory_begin(unsigned threads);
void il_memory_join(void); /* all threads are through: the first one knows of everything */
void il_memory_undo(void);
void il_memory_forget(void); /* regions and shared locations: for another scenario */

/* Whether more locations turned out to be shared since the last call: the tree has changed. */
bool il_memory_learned(void);

uint64_t il_load(const void *at, unsigned bytes, int order, const void *site);
void il_store(void *at, unsigned bytes, uint64_t value, int order, const void *site);

/* The new value of a read-modify-write. */
typedef uint64_t il_modify(uint64_t old, uint64_t operand);
uint64_t il_exchange(void *at, unsigned bytes, il_modify *modify, uint64_t operand, int order,
                     const void *site);
bool il_compare_exchange(void *at, unsigned bytes, uint64_t *expected, uint64_t value, int order,
                         int failure_order, const void *site);
void il_read(const void *at, size_t bytes, const void *site);
void il_write(const void *at, size_t bytes, const void *site);

/* memcpy() that no hook notices (hooks.c). */
void *il_copy(void *to, const void *from, size_t bytes) __asm__("__real_memcpy");

/* Whether several threads use the location, one of them writing. */
bool il_is_shared(const void *at);

/* Whether another thread accesses the location, and one of the two writes. */
bool il_conflicts(const void *at, unsigned thread, bool writes);

/* "name+offset" of an address in a region. */
void il_region_name(const void *at, char *text, size_t bytes);

/* ---- report.c ---------------------------------------------------------------------------- */

struct il_event {
    uint8_t thread;
    const char *what;
    const void *at;
    uint64_t value;
    int order;
    const void *site;
    bool stale;
};

void il_events_begin(void);
void il_event(const struct il_event *event);
void il_report(const char *scenario, const char *message);

/* ---- site.c ------------------------------------------------------------------------------ */

/* Prints the source line of an instruction, by addr2line; inlined calls are joined. */
void il_site_print(const void *site);

#endif
