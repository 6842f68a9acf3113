/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A thread of the table's own that touches memory before the workers come to it: the kernel clears
 * a page when it is touched first, and a huge one takes longer than anything that a worker does.
 *
 *   items       free segments, next those that are taken next: as many as are in use, within the
 *               bounds of config.touch_ahead_bytes. More would be memory that nobody asked for
 *   index       a larger table, opened and touched as a whole when a worker asks for it (grow.c)
 *
 * The thread sleeps while nothing is to be done; a worker that takes a segment wakes it when a part
 * of what was touched ahead is used up. Nobody waits for it: what it has not come to, because no
 * core had time for it, workers touch themselves, as they do where there is no thread.
 *
 * Memory is touched by asking the kernel for its pages (MADV_POPULATE_WRITE), which changes no byte
 * of it: workers may use it, or have used it, at the same time. mprotect() waits for such a call to
 * end, so the thread does that for a table as well.
 *
 * States of the job, and who brings it there:
 *
 *            ask                take               finish                poll
 *   NONE -----------> ASKED ----------> TAKEN ---------------> DONE ------------> NONE
 *    ^       worker     |     thread      |  worker             | REFUSED   worker
 *    |------------------'                 '--------> CANCELLED
 *    |  worker: cancel                      cancel       |
 *    '---------------------------------------------------'
 *                             thread
 *
 * The parts are written in NONE and read in TAKEN. Their way there is ASKED: release by the worker,
 * acquire by the thread; that back is NONE: release by the thread, acquire by the worker.
 */
#ifndef KV_TOUCH_H
#define KV_TOUCH_H

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>

#include "kv/atomic.h"

struct kv_segments;

#define KV_TOUCH_PARTS 2

struct kv_touch_part {
    uint8_t *from;
    uint64_t bytes;
};

struct kv_touch {
    struct kv_segments *segments;
    uint64_t nodes; /* as in struct kv_config */
    bool runs;      /* there is a thread; does not change while workers are there */
    pthread_t thread;
    sem_t due;
    kv_atomic_u32 asleep; /* the thread waits for `due`, or is about to */
    kv_atomic_u32 over;
    kv_atomic_u32 job; /* its state */
    struct kv_touch_part parts[KV_TOUCH_PARTS];
};

/*
 * Touches what an empty table is to have, and starts the thread, which touches at most ahead_bytes
 * of free segments; none if that is 0, if the process may use one core only (it would take the
 * workers' time), if the kernel can't do it (Linux before 5.14) or refuses a thread.
 */
void kv_touch_start(struct kv_touch *touch, struct kv_segments *segments, uint64_t ahead_bytes,
                    uint64_t nodes);

/* Ends the thread, if there is one. No worker is there any more. */
void kv_touch_stop(struct kv_touch *touch);

/* There is something to do. Any thread. */
void kv_touch_wake(struct kv_touch *touch);

/*
 * Asks for memory to be made accessible and touched: no more than KV_TOUCH_PARTS parts. False if
 * there is no thread, or it has not left the last job yet. One caller at a time, of these three.
 */
bool kv_touch_ask(struct kv_touch *touch, const struct kv_touch_part *parts, unsigned count);

enum kv_touched { KV_TOUCH_PENDING = 0, KV_TOUCH_DONE, KV_TOUCH_REFUSED };

/* What has become of it. Once it is done or refused the next may be asked for. */
enum kv_touched kv_touch_poll(struct kv_touch *touch);

/* The job is the caller's affair from now on. False if it is not pending any more: poll again. */
bool kv_touch_cancel(struct kv_touch *touch);

#endif
