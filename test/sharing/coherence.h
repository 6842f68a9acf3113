/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cache lines that move between workers. The product is compiled with -fsanitize=thread, and
 * coherence.c takes the compiler's calls (test/interleave/hooks.c) in place of the sanitizer. It
 * models a cache without limits for each worker:
 *
 *   a store counts if another worker has accessed the line since this worker's last store to it
 *   a load counts if another worker has stored to the line since this worker's last access
 *
 * Workers take turns in one thread, so that counts are the same in each run. The first access to a
 * line never counts. What the C library accesses is not seen, but for the functions that the test
 * links with --wrap.
 */
#ifndef COHERENCE_H
#define COHERENCE_H

#include <stdint.h>

#define COHERENCE_WORKERS_MAX 32
#define COHERENCE_NOBODY (-1)

/* Whose accesses follow; those of COHERENCE_NOBODY are ignored. */
void coherence_run_as(int worker);

/* No worker has any line: memory has been freed and may serve another purpose. */
void coherence_forget(void);

/* Sets the counts to 0. The lines that each worker has are kept. */
void coherence_count_from_here(void);

struct coherence_counts {
    uint64_t stores;
    uint64_t loads;
};

struct coherence_counts coherence_counts(void);

/* Prints the instructions whose accesses counted, those with the highest counts first. */
void coherence_report(void);

#endif
