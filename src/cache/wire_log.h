/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log of commands and replies (-vv), as memcached's: "<3 get foo" and ">3 VALUE foo 0 5", with
 * the number of the connection in `stats conns`. Values are not shown: of a request and of a reply
 * only the first line. Of a binary request the header's fields are shown. Lines are cut and control
 * characters replaced; the log drops what comes too fast.
 *
 * On from verbosity 2, which turns the fast path off. Off, it costs a request one branch.
 */
#ifndef CACHE_WIRE_LOG_H
#define CACHE_WIRE_LOG_H

#include "cache/event_log.h"
#include "cache/session.h"

#define CACHE_WIRE_LOG_VERBOSITY 2

static inline bool cache_wire_log_is_on(const struct cache_worker *worker)
{
    return (worker->event_mask & CACHE_LOG_WIRE) != 0;
}

/* A request that was executed, or refused, began with these bytes. */
void cache_wire_log_request(const struct cache_session *session, const uint8_t *data, uint32_t len);

/* Where a reply begins, and the room that it begins in. */
struct cache_wire_mark {
    const uint8_t *at; /* null: there is no memory, and nothing to log */
    const uint8_t *end;
};

/* Opens room in the sink, so that the next reply of one line is contiguous. */
struct cache_wire_mark cache_wire_log_mark(struct cache_sink *sink);

/* The reply that has been written since the mark; nothing if it needed another room. */
void cache_wire_log_reply(const struct cache_session *session, const struct cache_wire_mark *mark,
                          const struct cache_sink *sink);

#endif
