/* SPDX-License-Identifier: BSD-3-Clause */
/* A reply that is complete before it is sent: lists of unknown length, or filled under a lock. */
#ifndef CACHE_TEXTBUF_H
#define CACHE_TEXTBUF_H

#include "cache/session.h"

struct cache_textbuf {
    uint8_t *bytes;
    size_t len;
    size_t capacity;
    bool failed; /* there was no memory: the text is incomplete */
};

/* Adds n bytes, unless there is no memory. */
void cache_textbuf_add(struct cache_textbuf *text, const void *bytes, size_t n);

void cache_textbuf_free(struct cache_textbuf *text);

/*
 * Sends the text and frees it, a long one as the session's task, no faster than the client reads.
 * Without memory, replies SERVER_ERROR. Returns 0, or -1 if the connection has to close.
 */
int cache_textbuf_send(struct cache_session *session, struct cache_textbuf *text,
                       struct cache_sink *sink);

#endif
