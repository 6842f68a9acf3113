/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tasks: what a session does for longer than a request should take. A task goes on bit by bit, each
 * time the transport resumes its session, so neither a slow client nor a large answer keeps the
 * worker from its other sessions.
 *
 * The worker keeps a list of the sessions that are to be resumed soon although nothing happens on
 * their connection: those whose task has more to say than its share of a loop, and those that
 * listen for events of other workers (cache_eager_next()).
 */
#ifndef CACHE_TASK_H
#define CACHE_TASK_H

#include "cache/exec.h"

struct cache_task_ops {
    /* Goes on for a bounded while, or until the sink is full: then CACHE_INTERRUPTED. */
    enum cache_progress (*step)(struct cache_task *task, struct cache_session *session,
                                struct cache_sink *sink);

    /* Frees the task: it has ended, or its connection has. */
    void (*drop)(struct cache_task *task, struct cache_session *session);

    /* It never ends by itself and takes input meanwhile, which it throws away; else input waits. */
    bool listens;
};

/* First member of whatever a task consists of. */
struct cache_task {
    const struct cache_task_ops *ops;
};

/*
 * Makes a task the session's, which the present request then ends with, and does the first step.
 * Returns what a command returns: 0, or -1 if the connection has to be given up.
 */
int cache_task_start(struct cache_session *session, struct cache_task *task,
                     struct cache_sink *sink);

/*
 * Does a step of the session's task. True if the task has ended, with *result as a command returns
 * it; false if it is to go on.
 */
bool cache_task_step(struct cache_session *session, struct cache_sink *sink, int *result);

/* The session's sink is full: its task, if it has one, goes on when the transport says so. */
void cache_task_wait(struct cache_session *session);

/* Ends the session's task. */
void cache_task_drop(struct cache_session *session);

#endif
