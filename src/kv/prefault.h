/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A background thread that prefaults memory, because the kernel clears a page at its first access,
 * and clearing a huge page takes longer than anything that a worker does.
 *
 *   items       free segments, the next to be taken first: as many as are in use, within bounds
 *   that
 *               follow from config.touch_ahead_bytes
 *   index       a larger table, made accessible and faulted in as a whole on request (grow.c)
 *
 * The thread sleeps while there is nothing to do; a worker that takes a segment wakes it when part
 * of the prefaulted ones is used up. Workers never wait for it: pages that it has not reached fault
 * at their first use.
 *
 * It uses MADV_POPULATE_WRITE, which changes no byte, so workers may use the memory at the same
 * time. mprotect() waits for such a call to end, so the thread makes tables accessible as well.
 *
 * States of the job, and who changes them:
 *
 *          request              take               finish                poll
 *   NONE -----------> ASKED ----------> TAKEN ---------------> DONE ------------> NONE
 *    ^       worker     |     thread      |  worker             | REFUSED   worker
 *    |------------------'                 '--------> CANCELLED
 *    |  worker: cancel                      cancel       |
 *    '---------------------------------------------------'
 *                             thread
 *
 * The worker writes the ranges in NONE, the thread reads them in TAKEN. ASKED publishes them
 * (release by the worker, acquire by the thread); NONE hands them back (release, acquire).
 */
#ifndef KV_PREFAULT_H
#define KV_PREFAULT_H

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>

#include "kv/atomic.h"

struct kv_memory;
struct kv_segments;

#define KV_PREFAULT_RANGES 2

struct kv_prefault_range {
    uint8_t *from;
    uint64_t bytes;
};

struct kv_prefault {
    struct kv_segments *segments;
    const struct kv_memory *memory;
    uint64_t nodes; /* as in struct kv_config */
    bool runs;      /* the thread exists; constant while workers are joined */
    pthread_t thread;
    sem_t due;
    kv_atomic_u32 asleep; /* the thread waits for `due` or is about to */
    kv_atomic_u32 stop;
    kv_atomic_u32 job; /* state of the job */
    struct kv_prefault_range parts[KV_PREFAULT_RANGES];
};

/*
 * Prefaults the first segments and starts the thread, which prefaults at most ahead_bytes of free
 * segments. No thread if that is 0, if the process may use one core only, if the kernel lacks
 * MADV_POPULATE_WRITE (before Linux 5.14) or refuses a thread.
 */
void kv_prefault_start(struct kv_prefault *prefault, struct kv_segments *segments,
                       const struct kv_memory *memory, uint64_t ahead_bytes, uint64_t nodes);

/* Ends the thread, if there is one. No worker is joined. */
void kv_prefault_stop(struct kv_prefault *prefault);

/* Wakes the thread. Any thread may call it. */
void kv_prefault_wake(struct kv_prefault *prefault);

/*
 * Requests that up to KV_PREFAULT_RANGES ranges are made accessible and prefaulted. False if there
 * is no thread or it still has the previous job. The caller serializes request, poll and cancel.
 */
bool kv_prefault_request(struct kv_prefault *prefault, const struct kv_prefault_range *parts,
                         unsigned count);

enum kv_prefault_result { KV_PREFAULT_PENDING = 0, KV_PREFAULT_DONE, KV_PREFAULT_REFUSED };

/* Result of the request. After DONE or REFUSED the next request is possible. */
enum kv_prefault_result kv_prefault_poll(struct kv_prefault *prefault);

/* Cancels a pending request. False if it is not pending any more: poll again. */
bool kv_prefault_cancel(struct kv_prefault *prefault);

#endif
