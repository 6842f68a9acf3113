/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writing replies through a sink.
 */
#include "cache/reply.h"

#include <string.h>

#include "base/base.h"

/* A value up to this length is written together with its VALUE line. */
#define INLINE_BYTES_MAX (CACHE_SINK_NEED_MAX - MC_VALUE_HEADER_MAX)

U_STATIC_ASSERT(MC_STATUS_MAX <= CACHE_SINK_NEED_MAX, a_status_fits_one_room);

/* Makes sure that `need` bytes may be written at sink->at. */
static inline int sink_room(struct cache_sink *sink, uint32_t need)
{
    if (U_LIKELY((size_t)(sink->end - sink->at) >= need))
        return 0;
    return sink->ops->more(sink, need);
}

/* Says that n bytes have been written at sink->at. */
static inline void sink_advance(struct cache_worker *worker, struct cache_sink *sink, uint32_t n)
{
    sink->at += n;
    cache_count(worker, CACHE_BYTES_WRITTEN, n);
}

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
        sink_advance(worker, sink, n);
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

int cache_reply_end(struct cache_worker *worker, struct cache_sink *sink)
{
    static const char end[] = "END\r\n";

    if (U_UNLIKELY((size_t)(sink->end - sink->at) < sizeof(end) - 1))
        return cache_reply_bytes(worker, sink, end, sizeof(end) - 1);
    memcpy(sink->at, end, sizeof(end) - 1);
    sink_advance(worker, sink, sizeof(end) - 1);
    return 0;
}

int cache_reply_number(struct cache_worker *worker, struct cache_sink *sink, uint64_t number)
{
    if (sink_room(sink, MC_NUMBER_MAX + 2) != 0)
        return -1;
    sink_advance(worker, sink, mc_write_number(sink->at, number));
    return 0;
}

static int reply_copy(struct cache_worker *worker, struct cache_sink *sink,
                      const struct kv_view *view)
{
    uint32_t done = 0;

    while (done < view->value_len) {
        uint32_t len;
        const uint8_t *bytes = kv_value(view->item, done, &len);

        if (cache_reply_bytes(worker, sink, bytes, len) != 0)
            return -1;
        done += len;
    }
    return 0;
}

/* One pin per extent, since the transport releases each reference by itself. */
static int reply_reference(struct cache_worker *worker, struct cache_sink *sink,
                           const struct kv_view *view)
{
    uint32_t done = 0;

    while (done < view->value_len) {
        uint32_t len;
        const uint8_t *bytes = kv_value(view->item, done, &len);

        kv_pin(worker->kv_worker, view->item);
        if (sink->ops->ref(sink, bytes, len, (void *)(uintptr_t)view->item) != 0) {
            kv_unpin(worker->kv_worker, view->item);
            return -1;
        }
        cache_count(worker, CACHE_BYTES_WRITTEN, len);
        done += len;
    }
    return 0;
}

int cache_reply_value(struct cache_worker *worker, struct cache_sink *sink,
                      const struct kv_view *view, bool with_cas)
{
    bool whole = view->value_len <= INLINE_BYTES_MAX;
    uint32_t n;

    if (sink_room(sink, MC_VALUE_HEADER_MAX + (whole ? view->value_len : 0)) != 0)
        return -1;
    n = mc_write_value_header(sink->at, view->key, view->key_len, view->flags,
                              view->value_len - CACHE_CRLF_BYTES, with_cas ? &view->cas : NULL);
    if (whole) {
        uint32_t len;
        const uint8_t *bytes = kv_value(view->item, 0, &len);

        if (U_LIKELY(len >= view->value_len)) {
            memcpy(sink->at + n, bytes, view->value_len);
            sink_advance(worker, sink, n + view->value_len);
            return 0;
        }
    }
    sink_advance(worker, sink, n);
    if (view->value_len >= CACHE_REF_BYTES_MIN)
        return reply_reference(worker, sink, view);
    return reply_copy(worker, sink, view);
}
