/* SPDX-License-Identifier: BSD-3-Clause */
/* A growing text, and the tasks that send a long one or a list in parts. */
#include "cache/textbuf.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "cache/sink_reply.h"
#include "cache/task.h"

#define TEXT_BYTES_FIRST 8192

/* Up to this length a text is sent in one step, even if the sink is full. */
#define AT_ONCE_BYTES_MAX CACHE_LIST_PART_BYTES_MAX

/* One step of a longer text. */
#define STEP_BYTES (16 * 1024)

/* Makes room for n more bytes. False once the text is too long or there was no memory. */
static bool text_grow(struct cache_textbuf *text, size_t n)
{
    size_t capacity = text->capacity > 0 ? text->capacity : TEXT_BYTES_FIRST;
    uint8_t *bytes;

    while (capacity - text->len < n)
        capacity *= 2;
    if (text->failed || capacity > CACHE_TEXT_BYTES_MAX)
        bytes = NULL;
    else
        bytes = realloc(text->bytes, capacity);
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

    atomic_fetch_sub_explicit(&session->worker->cache->text_bytes, sending->text.capacity,
                              memory_order_relaxed);
    cache_textbuf_free(&sending->text);
    free(sending);
}

static const struct cache_task_ops text_ops = {.step = text_step, .drop = text_drop};

/* A task with the text, which is then empty. Null without memory or beyond the bound. */
static struct text_task *text_task_new(struct cache *cache, struct cache_textbuf *text)
{
    struct text_task *sending;

    if (text->failed)
        return NULL;
    if (atomic_fetch_add_explicit(&cache->text_bytes, text->capacity, memory_order_relaxed) +
            text->capacity <=
        CACHE_TEXTS_BYTES_MAX) {
        sending = malloc(sizeof(*sending));
        if (sending != NULL) {
            *sending = (struct text_task){.task = {&text_ops}, .text = *text};
            memset(text, 0, sizeof(*text));
            return sending;
        }
    }
    atomic_fetch_sub_explicit(&cache->text_bytes, text->capacity, memory_order_relaxed);
    return NULL;
}

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
    sending = text_task_new(session->worker->cache, text);
    if (sending == NULL) {
        cache_textbuf_free(text);
        cache_count(session->worker, CACHE_MALLOC_FAILS, 1);
        return cache_reply_status(session->worker, sink, MC_STATUS_NO_MEMORY_STATS);
    }
    return cache_task_start(session, &sending->task, sink);
}

/* ---- lists ------------------------------------------------------------------------------- */

/*
 * A step ends after so many bytes or parts, which may be empty. Many sessions may send a list, and
 * each makes a step in a loop of the worker.
 */
#define LIST_STEP_BYTES 4096
#define LIST_STEP_PARTS 64

struct list_task {
    struct cache_task task;
    cache_list_part *part;
    struct cache_list_at at;
};

/* Sends one part and adds its length to *sent; sets *more if others follow. */
static int part_send(struct list_task *list, struct cache_session *session, struct cache_sink *sink,
                     size_t *sent, bool *more)
{
    struct cache_textbuf text = {0};
    int result = 0;

    *more = list->part(session, &text, &list->at);
    if (!*more)
        cache_textbuf_add(&text, "END\r\n", 5);
    if (text.failed) {
        cache_count(session->worker, CACHE_MALLOC_FAILS, 1);
        result = -1;
    } else if (text.len > 0) {
        result = cache_reply_bytes(session->worker, sink, text.bytes, (uint32_t)text.len);
    }
    *sent += text.len;
    cache_textbuf_free(&text);
    return result;
}

static enum cache_progress list_step(struct cache_task *task, struct cache_session *session,
                                     struct cache_sink *sink)
{
    struct list_task *list = (struct list_task *)task;
    size_t sent = 0;
    bool more = true;

    for (unsigned parts = 0; more; parts++) {
        bool enough = sent >= LIST_STEP_BYTES || parts >= LIST_STEP_PARTS;

        /* The session of a datagram is not resumed. */
        if (sink->full || (enough && session->owner != NULL))
            return CACHE_INTERRUPTED;
        if (part_send(list, session, sink, &sent, &more) != 0)
            return CACHE_FAILED;
    }
    return CACHE_DONE;
}

static void list_drop(struct cache_task *task, struct cache_session *session)
{
    free(task);
}

static const struct cache_task_ops list_ops = {.step = list_step, .drop = list_drop};

int cache_list_send(struct cache_session *session, cache_list_part *part, struct cache_sink *sink)
{
    struct list_task *list = malloc(sizeof(*list));

    if (list == NULL) {
        cache_count(session->worker, CACHE_MALLOC_FAILS, 1);
        return cache_reply_status(session->worker, sink, MC_STATUS_NO_MEMORY_STATS);
    }
    *list = (struct list_task){.task = {&list_ops}, .part = part};
    return cache_task_start(session, &list->task, sink);
}
