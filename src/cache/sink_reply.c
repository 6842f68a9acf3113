/* SPDX-License-Identifier: BSD-3-Clause */
/* Writing replies through a sink. */
#include "cache/sink_reply.h"

#include <string.h>

#include "base/base.h"
#include "cache/pending_items.h"

U_STATIC_ASSERT(MC_STATUS_MAX <= CACHE_SINK_NEED_MAX, a_status_fits_one_room);

int cache_reply_bytes(struct cache_worker *worker, struct cache_sink *sink, const void *bytes,
                      uint32_t len)
{
    const uint8_t *from = bytes;

    while (len > 0) {
        uint32_t n = len;

        if (sink->at == sink->end && sink->ops->more(sink, u_min32(len, CACHE_SINK_NEED_MAX)) != 0)
            return -1;
        if ((size_t)(sink->end - sink->at) < n)
            n = (uint32_t)(sink->end - sink->at);
        memcpy(sink->at, from, n);
        cache_reply_take(worker, sink, n);
        from += n;
        len -= n;
    }
    return 0;
}

int cache_reply_status(struct cache_worker *worker, struct cache_sink *sink, enum mc_status status)
{
    uint32_t len;
    const char *text = mc_status_text(status, &len);

    return cache_reply_bytes(worker, sink, text, len);
}

int cache_reply_unless_noreply(struct cache_worker *worker, struct cache_sink *sink,
                               const struct mc_request *request, enum mc_status status)
{
    return request->noreply ? 0 : cache_reply_status(worker, sink, status);
}

static const char end_line[] = "END\r\n";

int cache_reply_end(struct cache_worker *worker, struct cache_sink *sink)
{
    if (U_UNLIKELY((size_t)(sink->end - sink->at) < sizeof(end_line) - 1))
        return cache_reply_bytes(worker, sink, end_line, sizeof(end_line) - 1);
    memcpy(sink->at, end_line, sizeof(end_line) - 1);
    cache_reply_take(worker, sink, sizeof(end_line) - 1);
    return 0;
}

int cache_reply_number(struct cache_worker *worker, struct cache_sink *sink, uint64_t number)
{
    if (cache_reply_room(sink, MC_NUMBER_MAX + 2) != 0)
        return -1;
    cache_reply_take(worker, sink, mc_write_number(sink->at, number));
    return 0;
}

/* ---- values ------------------------------------------------------------------------------ */

/* Queues bytes of a pinned item. */
static int part_reference(struct cache_worker *worker, struct cache_sink *sink,
                          const struct kv_item *item, const uint8_t *part, uint32_t len)
{
    kv_pin(worker->kv_worker, item);
    if (sink->ops->ref(sink, part, len, (void *)(uintptr_t)item) != 0) {
        kv_unpin(worker->kv_worker, item);
        return -1;
    }
    cache_count(worker, CACHE_BYTES_WRITTEN, len);
    return 0;
}

/* One pin per extent, since the transport releases each reference by itself. */
static int value_extents(struct cache_worker *worker, struct cache_sink *sink,
                         const struct kv_item *item, uint32_t bytes)
{
    uint32_t done = 0;
    int result = 0;

    while (done < bytes && result == 0) {
        uint32_t len;
        const uint8_t *part = kv_value(item, done, &len);

        len = u_min32(len, bytes - done);
        if (bytes >= CACHE_REF_BYTES_MIN)
            result = part_reference(worker, sink, item, part, len);
        else
            result = cache_reply_bytes(worker, sink, part, len);
        done += len;
    }
    return result;
}

/* A short value is written together with its header, which may have up to header_max bytes. */
static inline bool value_is_short(uint32_t header_max, uint32_t bytes)
{
    return bytes <= CACHE_SINK_NEED_MAX - header_max;
}

/* Room for the header, and for the value if it is short. */
static inline int value_room(struct cache_sink *sink, uint32_t header_max, uint32_t bytes)
{
    return cache_reply_room(sink, header_max + (value_is_short(header_max, bytes) ? bytes : 0));
}

/* The header of header_len bytes has been written at sink->at; the value follows. */
static inline int value_send(struct cache_worker *worker, struct cache_sink *sink,
                             uint32_t header_len, uint32_t header_max, const struct kv_view *view,
                             uint32_t bytes)
{
    if (value_is_short(header_max, bytes)) {
        uint32_t len;
        const uint8_t *part = kv_value(view->item, 0, &len);

        if (U_LIKELY(len >= bytes)) {
            if (bytes > MC_SHORT_VALUE_MAX + CACHE_CRLF_BYTES)
                cache_mark_long_value(worker);
            memcpy(sink->at + header_len, part, bytes);
            cache_reply_take(worker, sink, header_len + bytes);
            return 0;
        }
    }
    cache_reply_take(worker, sink, header_len);
    cache_mark_long_value(worker);
    return value_extents(worker, sink, view->item, bytes);
}

int cache_reply_value(struct cache_worker *worker, struct cache_sink *sink,
                      const struct kv_view *view, bool with_cas)
{
    u_u64 cas = with_cas ? cache_cas_shown(worker, view->cas) : 0;
    uint32_t n;

    if (value_room(sink, MC_VALUE_HEADER_MAX, view->value_len) != 0)
        return -1;
    cache_pending_add(worker, view->item);
    n = mc_write_value_header(sink->at, view->key, view->key_len, view->flags,
                              view->value_len - CACHE_CRLF_BYTES, with_cas ? &cas : NULL);
    return value_send(worker, sink, n, MC_VALUE_HEADER_MAX, view, view->value_len);
}

#define SHORT_AROUND_MAX (MC_VALUE_HEADER_MAX + sizeof(end_line) - 1)

U_STATIC_ASSERT(SHORT_AROUND_MAX + KV_SHORT_MAX <= CACHE_SINK_NEED_MAX, a_short_hit_fits_one_room);

uint32_t cache_reply_short(struct cache_worker *worker, uint8_t *room, const struct kv_key *key,
                           const uint8_t *value, uint32_t value_len)
{
    uint32_t value_bytes = value_len - CACHE_CRLF_BYTES;
    uint8_t *at = room;

    if (U_LIKELY(value_bytes <= MC_SHORT_VALUE_MAX))
        return mc_write_short_hit(at, key->bytes, key->len, value, value_bytes);
    cache_mark_long_value(worker);
    at += mc_write_value_header(at, key->bytes, key->len, 0, value_bytes, NULL);
    memcpy(at, value, value_len);
    memcpy(at + value_len, end_line, sizeof(end_line) - 1);
    return (uint32_t)(at - room) + value_len + (uint32_t)sizeof(end_line) - 1;
}

int cache_reply_meta(struct cache_worker *worker, struct cache_sink *sink,
                     const struct mc_meta *meta, const struct mc_meta_reply *reply,
                     const struct kv_view *view)
{
    uint32_t bytes = reply->code == MC_META_VA ? view->value_len : 0;
    uint32_t n;

    if (value_room(sink, MC_META_LINE_MAX, bytes) != 0)
        return -1;
    if (view != NULL && reply->code != MC_META_EN)
        cache_pending_add(worker, view->item);
    n = mc_write_meta(sink->at, meta, reply);
    if (bytes > 0)
        return value_send(worker, sink, n, MC_META_LINE_MAX, view, bytes);
    cache_reply_take(worker, sink, n);
    return 0;
}

int cache_reply_binary_value(struct cache_worker *worker, struct cache_sink *sink,
                             const struct mc_binary *binary, const struct kv_view *view,
                             bool with_value)
{
    uint32_t bytes = with_value ? view->value_len - CACHE_CRLF_BYTES : 0;
    uint32_t n;

    if (value_room(sink, MC_BINARY_REQUEST_MAX, bytes) != 0)
        return -1;
    cache_pending_add(worker, view->item);
    n = mc_write_binary_value_header(sink->at, binary, view->key, view->key_len, view->flags, bytes,
                                     cache_cas_shown(worker, view->cas));
    return value_send(worker, sink, n, MC_BINARY_REQUEST_MAX, view, bytes);
}
