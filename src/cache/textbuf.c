/* SPDX-License-Identifier: BSD-3-Clause */
/* A growing text, and the task that sends a long one. */
#include "cache/textbuf.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "cache/sink_reply.h"
#include "cache/task.h"

#define TEXT_BYTES_FIRST 8192

/* Up to this length a text is sent in one step, even if the sink is full. */
#define AT_ONCE_BYTES_MAX (16 * 1024)

/* One step of a longer text. */
#define STEP_BYTES (16 * 1024)

/* Makes room for n more bytes. False if there is no memory, now or earlier. */
static bool text_grow(struct cache_textbuf *text, size_t n)
{
    size_t capacity = text->capacity > 0 ? text->capacity : TEXT_BYTES_FIRST;
    uint8_t *bytes;

    while (capacity - text->len < n)
        capacity *= 2;
    bytes = text->failed ? NULL : realloc(text->bytes, capacity);
    text->failed = bytes == NULL;
    if (text->failed)
        return false;
    text->bytes = bytes;
    text->capacity = capacity;
    return true;
}

void cache_textbuf_add(struct cache_textbuf *text, const void *bytes, size_t n)
{
    if (text->capacity - text->len < n && !text_grow(text, n))
        return;
    if (n > 0)
        memcpy(text->bytes + text->len, bytes, n);
    text->len += n;
}

void cache_textbuf_free(struct cache_textbuf *text)
{
    free(text->bytes);
    memset(text, 0, sizeof(*text));
}

/* ---- sending ----------------------------------------------------------------------------- */

struct text_task {
    struct cache_task task;
    struct cache_textbuf text;
    size_t sent;
};

static enum cache_progress text_step(struct cache_task *task, struct cache_session *session,
                                     struct cache_sink *sink)
{
    struct text_task *sending = (struct text_task *)task;
    const struct cache_textbuf *text = &sending->text;

    while (sending->sent < text->len) {
        uint32_t n = (uint32_t)u_min64(text->len - sending->sent, STEP_BYTES);

        if (sink->full)
            return CACHE_INTERRUPTED;
        if (cache_reply_bytes(session->worker, sink, text->bytes + sending->sent, n) != 0)
            return CACHE_FAILED;
        sending->sent += n;
    }
    return CACHE_DONE;
}

static void text_drop(struct cache_task *task, struct cache_session *session)
{
    struct text_task *sending = (struct text_task *)task;

    cache_textbuf_free(&sending->text);
    free(sending);
}

static const struct cache_task_ops text_ops = {.step = text_step, .drop = text_drop};

int cache_textbuf_send(struct cache_session *session, struct cache_textbuf *text,
                       struct cache_sink *sink)
{
    struct text_task *sending;
    int result;

    if (!text->failed && text->len <= AT_ONCE_BYTES_MAX) {
        result = cache_reply_bytes(session->worker, sink, text->bytes, (uint32_t)text->len);
        cache_textbuf_free(text);
        return result;
    }
    sending = text->failed ? NULL : malloc(sizeof(*sending));
    if (sending == NULL) {
        cache_textbuf_free(text);
        cache_count(session->worker, CACHE_MALLOC_FAILS, 1);
        return cache_reply_status(session->worker, sink, MC_STATUS_NO_MEMORY_STATS);
    }
    *sending = (struct text_task){.task = {&text_ops}, .text = *text};
    memset(text, 0, sizeof(*text));
    return cache_task_start(session, &sending->task, sink);
}
