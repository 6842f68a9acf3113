/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replies of unknown length: texts that are complete before they are sent, and lists that are
 * written in parts, no faster than the client reads.
 */
#ifndef CACHE_TEXTBUF_H
#define CACHE_TEXTBUF_H

#include "cache/session.h"

/* The longest text, and all that wait for their clients together. */
#define CACHE_TEXT_BYTES_MAX (1024 * 1024)
#define CACHE_TEXTS_BYTES_MAX (16 * 1024 * 1024)

struct cache_textbuf {
    uint8_t *bytes;
    size_t len;
    size_t capacity;
    bool failed; /* too long, or there was no memory: the text is incomplete */
};

/* Adds n bytes, unless the text gets too long or there is no memory. */
void cache_textbuf_add(struct cache_textbuf *text, const void *bytes, size_t n);

void cache_textbuf_free(struct cache_textbuf *text);

/*
 * Sends the text and frees it, a long one as the session's task, no faster than the client reads.
 * Replies SERVER_ERROR without memory, or if all waiting texts would be longer than
 * CACHE_TEXTS_BYTES_MAX. Returns 0, or -1 if the connection has to close.
 */
int cache_textbuf_send(struct cache_session *session, struct cache_textbuf *text,
                       struct cache_sink *sink);

/* A part of a list may have as many bytes. */
#define CACHE_LIST_PART_BYTES_MAX (16 * 1024)

/* The position in a list; the function that writes its parts decides what the numbers mean. */
struct cache_list_at {
    uint32_t group;
    uint32_t block;
    uint32_t item;
};

/* Adds the next part of a list, possibly nothing, and moves *at. True if there are more. */
typedef bool cache_list_part(struct cache_session *session, struct cache_textbuf *text,
                             struct cache_list_at *at);

/*
 * Sends a list and END, a few parts in each step of a task, so that neither its length nor a slow
 * client blocks other sessions. Returns 0, or -1 if the connection has to close.
 */
int cache_list_send(struct cache_session *session, cache_list_part *part, struct cache_sink *sink);

#endif
