/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A reply that is put together first and sent then: lists whose length nobody knows beforehand, or
 * that are filled under a lock.
 */
#ifndef CACHE_TEXT_H
#define CACHE_TEXT_H

#include "cache/session.h"

struct cache_text {
    uint8_t *bytes;
    size_t len;
    size_t capacity;
    bool failed; /* there was no memory: what is there is not all */
};

/* Room for n bytes at the end, which count as written; null if there is no memory. */
uint8_t *cache_text_room(struct cache_text *text, size_t n);

void cache_text_add(struct cache_text *text, const void *bytes, size_t n);

void cache_text_free(struct cache_text *text);

/*
 * Sends the text and frees it. What is long is sent as the session's task, no faster than the
 * client reads. Returns 0, or -1 if the connection has to be given up.
 */
int cache_text_send(struct cache_session *session, struct cache_text *text,
                    struct cache_sink *sink);

#endif
