/* SPDX-License-Identifier: BSD-3-Clause */
/* memcached's UDP. See udp.h. */
#include "net/udp.h"

#include <string.h>
#include <sys/mman.h>

#include "base/base.h"

/* Room for several replies, so that many small ones go out in one call. Touched as it is used. */
#define BUFFER_BYTES (2 * NET_UDP_REPLY_BYTES_MAX)

#define BINARY_MAGIC 0x80

static const char too_large[] = "SERVER_ERROR the reply is too large for UDP\r\n";

int net_udp_open(struct net_udp *udp, struct net_udp_limit *limit)
{
    void *buffer = mmap(NULL, BUFFER_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (buffer == MAP_FAILED)
        return -1;
    udp->limit = limit;
    udp->buffer = buffer;
    udp->used = 0;
    return 0;
}

void net_udp_close(struct net_udp *udp)
{
    if (udp->buffer)
        munmap(udp->buffer, BUFFER_BYTES);
    udp->buffer = NULL;
}

void net_udp_clear(struct net_udp *udp)
{
    udp->used = 0;
}

bool net_udp_has_room(const struct net_udp *udp)
{
    return udp->used <= BUFFER_BYTES - NET_UDP_REPLY_BYTES_MAX;
}

/* ---- the sink ---------------------------------------------------------------------------- */

/* All room there is lies open from the start; a reply that needs more is too large. */
struct udp_sink {
    struct cache_sink sink; /* first: the session sees only this */
    struct net_udp *udp;
    bool failed;
};

static int sink_more(struct cache_sink *sink, uint32_t need)
{
    struct udp_sink *s = (struct udp_sink *)sink;

    if ((uint32_t)(sink->end - sink->at) >= need)
        return 0;
    s->failed = true;
    return -1;
}

static int sink_ref(struct cache_sink *sink, const void *data, uint32_t len, void *cookie)
{
    struct udp_sink *s = (struct udp_sink *)sink;

    if (sink_more(sink, len) < 0)
        return -1;
    memcpy(sink->at, data, len);
    sink->at += len;
    cache_release(s->udp->cache_worker, cookie);
    return 0;
}

static const struct cache_sink_ops sink_ops = {.more = sink_more, .ref = sink_ref};

/* ---- serving ----------------------------------------------------------------------------- */

/*
 * Runs the requests that a datagram has. Returns the end of the reply, or null if it did not fit.
 */
static uint8_t *run(struct net_udp *udp, struct cache_session *session, const uint8_t *data,
                    uint32_t len)
{
    struct udp_sink s = {.udp = udp};
    uint32_t at = 0;
    bool fits;

    s.sink.ops = &sink_ops;
    s.sink.at = udp->buffer + udp->used;
    s.sink.end = s.sink.at + net_udp_limit_reply_bytes(udp->limit);
    cache_session_restart(session);
    do {
        at += cache_session_input(session, data + at, len - at, &s.sink);
    } while (cache_session_state(session) == CACHE_SESSION_YIELDED);
    fits = cache_session_state(session) != CACHE_SESSION_BLOCKED && !s.failed;
    cache_session_restart(session);
    return fits ? s.sink.at : NULL;
}

enum net_udp_result net_udp_serve(struct net_udp *udp, struct cache_session *session,
                                  const struct net_udp_request *request,
                                  struct net_udp_reply *reply)
{
    const uint8_t *message = request->datagram + MC_UDP_HEADER_BYTES;
    enum net_udp_result result = NET_UDP_SERVED;
    uint8_t *start = udp->buffer + udp->used;
    uint8_t *end;

    memset(reply, 0, sizeof(*reply));
    if (!mc_udp_parse(request->datagram, request->len, &reply->frame))
        return NET_UDP_MALFORMED;
    end = run(udp, session, message, request->len - MC_UDP_HEADER_BYTES);
    if (!end) {
        result = NET_UDP_TOO_LARGE;
        end = start;
        /* A binary client can make nothing of a line. */
        if (message[0] != BINARY_MAGIC) {
            memcpy(start, too_large, sizeof(too_large) - 1);
            end = start + sizeof(too_large) - 1;
        }
    }
    reply->frame.sequence = 0;
    reply->frame.datagrams = mc_udp_datagrams((uint32_t)(end - start));
    if (!net_udp_limit_take(udp->limit, request->source, request->len,
                            (uint32_t)(end - start) +
                                reply->frame.datagrams * (uint32_t)MC_UDP_HEADER_BYTES,
                            request->now_us))
        return NET_UDP_LIMITED;
    reply->bytes = start;
    reply->len = (uint32_t)(end - start);
    udp->used += reply->len;
    return result;
}

bool net_udp_next_datagram(struct net_udp_reply *reply, uint8_t header[MC_UDP_HEADER_BYTES],
                           const uint8_t **payload, uint32_t *payload_len)
{
    if (reply->sent == reply->len)
        return false;
    mc_udp_write(header, &reply->frame);
    *payload = reply->bytes + reply->sent;
    *payload_len = u_min32(reply->len - reply->sent, MC_UDP_PAYLOAD_MAX);
    reply->sent += *payload_len;
    reply->frame.sequence++;
    return true;
}
