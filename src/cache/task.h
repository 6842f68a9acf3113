/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tasks: the work of a session that takes longer than a request should. A task makes a bounded step
 * each time the transport resumes its session, so neither a slow client nor a large reply blocks
 * the worker's other sessions.
 *
 * The worker lists the sessions to resume in each loop without input (cache_resumable_next()):
 * those whose task has more to write than one step allows, and those that wait for events of other
 * workers.
 */
#ifndef CACHE_TASK_H
#define CACHE_TASK_H

#include "cache/exec.h"

enum cache_progress {
    CACHE_FAILED = -1, /* the transport has no memory: the connection closes */
    CACHE_DONE = 0,
    CACHE_INTERRUPTED /* the sink is full, or the task's share of this loop is used up */
};

struct cache_task_ops {
    /* Makes a bounded step. */
    enum cache_progress (*step)(struct cache_task *task, struct cache_session *session,
                                struct cache_sink *sink);

    /* Frees the task; it or its connection has ended. */
    void (*drop)(struct cache_task *task, struct cache_session *session);

    /* It never ends by itself, and discards input meanwhile; else input waits. */
    bool listens;
};

/* First member of the struct of each task. */
struct cache_task {
    const struct cache_task_ops *ops;
};

/*
 * Makes a task the session's, which ends the current request, and makes the first step. Returns 0,
 * or -1 if the connection has to close.
 */
int cache_task_start(struct cache_session *session, struct cache_task *task,
                     struct cache_sink *sink);

/*
 * Makes a step of the session's task. True if the task has ended, with *result 0 or -1 as above;
 * false if it continues.
 */
bool cache_task_step(struct cache_session *session, struct cache_sink *sink, int *result);

/* The session's sink is full: its task continues when the transport resumes it for room. */
void cache_task_wait(struct cache_session *session);

/*
 * Sets whether the transport resumes the session in each loop; has no effect without an owner. A
 * CLOSING session is resumed once.
 */
void cache_session_set_resumable(struct cache_session *session, bool eager);

/* Ends the session's task. */
void cache_task_drop(struct cache_session *session);

#endif
