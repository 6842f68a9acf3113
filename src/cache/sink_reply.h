/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writing replies through a sink.
 *
 * All functions return 0, or -1 if the transport has no memory; the reply is then incomplete and
 * the connection has to close. They count the written bytes as bytes_written.
 */
#ifndef CACHE_SINK_REPLY_H
#define CACHE_SINK_REPLY_H

#include "base/base.h"
#include "cache/op.h"
#include "mcproto/mcproto.h"
#include "mcproto/mcproto_fast.h"

/* Values from this length on are queued by reference instead of being copied. */
#define CACHE_REF_BYTES_MIN 8192

/* Room for `need` bytes (at most CACHE_SINK_NEED_MAX), to be written at sink->at and then taken. */
static inline int cache_reply_room(struct cache_sink *sink, uint32_t need)
{
    if (U_LIKELY((size_t)(sink->end - sink->at) >= need))
        return 0;
    return sink->ops->more(sink, need);
}

/* Says that n bytes have been written at sink->at. */
static inline void cache_reply_take(struct cache_worker *worker, struct cache_sink *sink,
                                    uint32_t n)
{
    sink->at += n;
    cache_count(worker, CACHE_BYTES_WRITTEN, n);
}

/* Any number of bytes, copied. */
int cache_reply_bytes(struct cache_worker *worker, struct cache_sink *sink, const void *bytes,
                      uint32_t len);

int cache_reply_status(struct cache_worker *worker, struct cache_sink *sink, enum mc_status status);

/* The same for a text request, which may say noreply. */
int cache_reply_unless_noreply(struct cache_worker *worker, struct cache_sink *sink,
                               const struct mc_request *request, enum mc_status status);

/* END, which closes the reply to every retrieval. */
int cache_reply_end(struct cache_worker *worker, struct cache_sink *sink);

/* The reply of incr and decr. */
int cache_reply_number(struct cache_worker *worker, struct cache_sink *sink, uint64_t number);

/* A hit: the VALUE line, the data and its CRLF. The view is of this loop. */
int cache_reply_value(struct cache_worker *worker, struct cache_sink *sink,
                      const struct kv_view *view, bool with_cas);

/*
 * The whole reply to a get of one key without flags: the same, and END. value_len is at most
 * KV_SHORT_MAX. Written at `room`, which has CACHE_SINK_NEED_MAX bytes, and not counted; returns
 * its length.
 */
uint32_t cache_reply_short(struct cache_worker *worker, uint8_t *room, const struct kv_key *key,
                           const uint8_t *value, uint32_t value_len);

/* The line of a meta reply; if its code is VA, the value of the view and its CRLF. */
int cache_reply_meta(struct cache_worker *worker, struct cache_sink *sink,
                     const struct mc_meta *meta, const struct mc_meta_reply *reply,
                     const struct kv_view *view);

/* A binary hit: header, flags, the key if the request wants it, and the value without its CRLF. */
int cache_reply_binary_value(struct cache_worker *worker, struct cache_sink *sink,
                             const struct mc_binary *binary, const struct kv_view *view,
                             bool with_value);

#endif
