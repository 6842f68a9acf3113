/* SPDX-License-Identifier: BSD-3-Clause */
/* Bytes that are appended at one end and taken from the other, in one piece. */
#ifndef UCWARM_BUFFER_H
#define UCWARM_BUFFER_H

#include <stddef.h>
#include <stdint.h>

struct buffer {
    uint8_t *bytes; /* null: empty, never used */
    size_t at;      /* the first byte that has not been taken */
    size_t end;
    size_t capacity;
};

/*
 * Makes room for n bytes behind buffer->end, growing the buffer. Returns where they are, or null if
 * there is no memory. The caller adds what it writes to buffer->end.
 */
uint8_t *buffer_room(struct buffer *buffer, size_t n);

/* Appends bytes. Returns 0, or -1 if there is no memory. */
int buffer_add(struct buffer *buffer, const void *bytes, size_t n);

/* Takes n bytes, which are there. */
void buffer_take(struct buffer *buffer, size_t n);

static inline size_t buffer_len(const struct buffer *buffer)
{
    return buffer->end - buffer->at;
}

/* Frees a buffer that is empty and larger than a batch of short values. */
void buffer_trim(struct buffer *buffer);

void buffer_free(struct buffer *buffer);

#endif
