/* SPDX-License-Identifier: BSD-3-Clause */
/* The log of commands and replies; see wire_log.h. */
#include "cache/wire_log.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LINE_MAX_BYTES 200

static void log_line(const struct cache_session *session, char direction, const uint8_t *bytes,
                     uint32_t len)
{
    const struct cache *cache = session->worker->cache;
    char line[LINE_MAX_BYTES + 1];
    char text[LINE_MAX_BYTES + 32];
    uint32_t n;

    for (n = 0; n < len && n < LINE_MAX_BYTES && bytes[n] != '\n'; n++)
        line[n] = bytes[n] >= ' ' && bytes[n] < 127 ? (char)bytes[n] : '?';
    if (n > 0 && bytes[n - 1] == '\r')
        n--;
    line[n] = '\0';
    snprintf(text, sizeof(text), "%c%" PRIu32 " %s", direction, session->id, line);
    cache->log(text);
}

/* A packet of the binary protocol: "binary opcode 0x00 key foo", "binary opcode 0x00 status 0". */
static void log_packet(const struct cache_session *session, char direction, const uint8_t *bytes,
                       uint32_t len)
{
    uint32_t key_len = (uint32_t)bytes[2] << 8 | bytes[3];
    uint32_t key_at = MC_BINARY_HEADER_BYTES + bytes[4];
    char text[LINE_MAX_BYTES];
    int n;

    if (direction == '>')
        n = snprintf(text, sizeof(text), "binary opcode 0x%02x status %u", bytes[1],
                     (unsigned)bytes[6] << 8 | bytes[7]);
    else if (len >= key_at + key_len)
        n = snprintf(text, sizeof(text), "binary opcode 0x%02x key %.*s", bytes[1],
                     (int)u_min32(key_len, LINE_MAX_BYTES / 2), (const char *)bytes + key_at);
    else
        n = snprintf(text, sizeof(text), "binary opcode 0x%02x", bytes[1]);
    log_line(session, direction, (const uint8_t *)text, (uint32_t)n);
}

static void log_any(const struct cache_session *session, char direction, const uint8_t *bytes,
                    uint32_t len)
{
    if (session->state.protocol != CACHE_PROTOCOL_BINARY)
        log_line(session, direction, bytes, len);
    else if (len >= MC_BINARY_HEADER_BYTES)
        log_packet(session, direction, bytes, len);
}

void cache_wire_log_request(const struct cache_session *session, const uint8_t *data, uint32_t len)
{
    log_any(session, '<', data, len);
}

struct cache_wire_mark cache_wire_log_mark(struct cache_sink *sink)
{
    struct cache_wire_mark mark = {NULL, NULL};

    if ((size_t)(sink->end - sink->at) < CACHE_SINK_NEED_MAX &&
        sink->ops->more(sink, CACHE_SINK_NEED_MAX) != 0)
        return mark;
    mark.at = sink->at;
    mark.end = sink->end;
    return mark;
}

void cache_wire_log_reply(const struct cache_session *session, const struct cache_wire_mark *mark,
                          const struct cache_sink *sink)
{
    if (mark->at != NULL && sink->end == mark->end && sink->at > mark->at)
        log_any(session, '>', mark->at, (uint32_t)(sink->at - mark->at));
}
