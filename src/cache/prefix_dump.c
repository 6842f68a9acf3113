/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The dump of the statistics by prefix, in steps, so that it blocks neither the workers that count
 * nor the other sessions of this worker.
 */
#include "cache/prefix_dump.h"

#include <stdlib.h>

#include "cache/prefix_stats.h"
#include "cache/sink_reply.h"
#include "cache/task.h"

#define STEP_PARTS 8 /* of CACHE_PREFIX_PART prefixes */

struct detail_dump {
    struct cache_task task;
    uint32_t at; /* the next prefix */
};

/* Sends one part; sets *more if others follow. */
static int part_send(struct detail_dump *dump, struct cache_session *session,
                     struct cache_sink *sink, bool *more)
{
    struct cache_textbuf text = {0};
    int result = -1;

    *more = cache_prefix_dump(session->worker->cache, &text, &dump->at);
    if (!*more)
        cache_textbuf_add(&text, "END\r\n", 5);
    if (!text.failed)
        result = cache_reply_bytes(session->worker, sink, text.bytes, (uint32_t)text.len);
    else
        cache_count(session->worker, CACHE_MALLOC_FAILS, 1);
    cache_textbuf_free(&text);
    return result;
}

static enum cache_progress detail_step(struct cache_task *task, struct cache_session *session,
                                       struct cache_sink *sink)
{
    struct detail_dump *dump = (struct detail_dump *)task;
    bool more = true;

    for (unsigned parts = 0; more; parts++) {
        /* The session of a datagram is not resumed. */
        if (sink->full || (parts >= STEP_PARTS && session->owner != NULL))
            return CACHE_INTERRUPTED;
        if (part_send(dump, session, sink, &more) != 0)
            return CACHE_FAILED;
    }
    return CACHE_DONE;
}

static void detail_drop(struct cache_task *task, struct cache_session *session)
{
    free(task);
}

static const struct cache_task_ops detail_ops = {.step = detail_step, .drop = detail_drop};

int cache_detail_dump(struct cache_session *session, struct cache_sink *sink)
{
    struct detail_dump *dump = malloc(sizeof(*dump));

    if (dump == NULL) {
        cache_count(session->worker, CACHE_MALLOC_FAILS, 1);
        return cache_reply_status(session->worker, sink, MC_STATUS_NO_MEMORY_STATS);
    }
    *dump = (struct detail_dump){.task = {&detail_ops}};
    return cache_task_start(session, &dump->task, sink);
}
