/* SPDX-License-Identifier: BSD-3-Clause */
/* Growing and compacting; see buffer.h. */
#include "buffer.h"

#include <stdlib.h>
#include <string.h>

#define CAPACITY_MIN 4096
#define CAPACITY_KEPT (8u * 1024 * 1024)

uint8_t *buffer_room(struct buffer *buffer, size_t n)
{
    size_t len = buffer_len(buffer);
    size_t capacity = buffer->capacity < CAPACITY_MIN ? CAPACITY_MIN : buffer->capacity;
    uint8_t *bytes;

    if (buffer->capacity - buffer->end >= n && buffer->bytes)
        return buffer->bytes + buffer->end;
    if (buffer->at > 0)
        memmove(buffer->bytes, buffer->bytes + buffer->at, len);
    buffer->at = 0;
    buffer->end = len;
    while (capacity - len < n)
        capacity *= 2;
    if (capacity != buffer->capacity) {
        bytes = realloc(buffer->bytes, capacity);
        if (!bytes)
            return NULL;
        buffer->bytes = bytes;
        buffer->capacity = capacity;
    }
    return buffer->bytes + buffer->end;
}

int buffer_add(struct buffer *buffer, const void *bytes, size_t n)
{
    uint8_t *room = buffer_room(buffer, n);

    if (!room)
        return -1;
    memcpy(room, bytes, n);
    buffer->end += n;
    return 0;
}

void buffer_take(struct buffer *buffer, size_t n)
{
    buffer->at += n;
    if (buffer->at == buffer->end)
        buffer->at = buffer->end = 0;
}

void buffer_trim(struct buffer *buffer)
{
    if (buffer_len(buffer) == 0 && buffer->capacity > CAPACITY_KEPT)
        buffer_free(buffer);
}

void buffer_free(struct buffer *buffer)
{
    free(buffer->bytes);
    memset(buffer, 0, sizeof(*buffer));
}
