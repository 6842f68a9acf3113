/* SPDX-License-Identifier: BSD-3-Clause */
/* Tasks of sessions, and the list of resumable sessions. */
#include "cache/task.h"

void cache_session_set_resumable(struct cache_session *session, bool eager)
{
    struct cache_worker *worker = session->worker;

    if (eager == !u_list_is_empty(&session->resumable_link) || session->owner == NULL)
        return;
    if (eager) {
        u_list_push_back(&worker->eager, &session->resumable_link);
        worker->resumable_count++;
    } else {
        u_list_remove(&session->resumable_link);
        worker->resumable_count--;
    }
}

/* A task that waits for room is resumed for room, one that listens in each loop. */
static enum cache_progress step(struct cache_session *session, struct cache_sink *sink)
{
    struct cache_task *task = session->u.task;
    enum cache_progress progress = task->ops->step(task, session, sink);

    if (progress == CACHE_INTERRUPTED)
        cache_session_set_resumable(session, task->ops->listens || !sink->full);
    return progress;
}

bool cache_task_step(struct cache_session *session, struct cache_sink *sink, int *result)
{
    enum cache_progress progress = step(session, sink);

    if (progress == CACHE_INTERRUPTED)
        return false;
    cache_task_drop(session);
    *result = progress == CACHE_DONE ? 0 : -1;
    return true;
}

int cache_task_start(struct cache_session *session, struct cache_task *task,
                     struct cache_sink *sink)
{
    int result;

    U_ASSERT(cache_session_phase(session) == CACHE_PHASE_LINE);
    session->u.task = task;
    cache_session_set_phase(session, CACHE_PHASE_TASK);
    return cache_task_step(session, sink, &result) ? result : 0;
}

void cache_task_wait(struct cache_session *session)
{
    if (cache_session_phase(session) == CACHE_PHASE_TASK && !session->u.task->ops->listens)
        cache_session_set_resumable(session, false);
}

void cache_task_drop(struct cache_session *session)
{
    struct cache_task *task = session->u.task;

    cache_session_set_resumable(session, false);
    cache_session_set_phase(session, CACHE_PHASE_LINE);
    task->ops->drop(task, session);
}

/* ---- for the transport ------------------------------------------------------------------- */

uint32_t cache_resumable_count(const struct cache_worker *worker)
{
    return worker->resumable_count;
}

struct cache_session *cache_resumable_next(struct cache_worker *worker)
{
    struct u_list *link = u_list_pop_front(&worker->eager);

    if (link == NULL)
        return NULL;
    u_list_push_back(&worker->eager, link);
    return U_CONTAINER_OF(link, struct cache_session, resumable_link);
}
