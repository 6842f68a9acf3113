/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memcached's UDP: a request datagram in, the datagrams of its reply out. Shared by both kinds of
 * worker, which bring the datagrams.
 *
 * Each request is one datagram and has one reply, a message of datagrams with sequence numbers
 * (doc/protocol.txt). Incomplete requests are dropped. A datagram's source may be forged, so
 * replies are limited (udp_limit.h).
 */
#ifndef NET_UDP_H
#define NET_UDP_H

#include "cache/cache.h"
#include "mcproto/mcproto.h"
#include "net/udp_limit.h"

/* Largest datagram there is, headers of IP and UDP not counted. */
#define NET_UDP_REQUEST_MAX 65536

struct net_udp {
    struct cache_worker *cache_worker; /* null unless the loop runs */
    struct net_udp_limit *limit;
    uint8_t *buffer; /* replies, one behind the other */
    uint32_t used;
};

struct net_udp_request {
    const uint8_t *datagram;
    uint32_t len;
    uint64_t source; /* net_udp_source() */
    uint64_t now_us;
};

struct net_udp_reply {
    const uint8_t *bytes; /* good until net_udp_clear() */
    uint32_t len;         /* 0: nothing is to be sent */
    uint32_t sent;        /* bytes of it that net_udp_next_datagram() has given out */
    struct mc_udp_frame frame;
};

enum net_udp_result {
    NET_UDP_SERVED = 0,
    NET_UDP_MALFORMED, /* dropped */
    NET_UDP_TOO_LARGE, /* the reply is longer than the limit: an error instead, or silence */
    NET_UDP_LIMITED    /* served, but its source has been sent too much lately: no reply */
};

/* Makes the buffer. Returns 0, or -1 if there is no memory. */
int net_udp_open(struct net_udp *udp, struct net_udp_limit *limit);
void net_udp_close(struct net_udp *udp);

/* Forgets all replies. */
void net_udp_clear(struct net_udp *udp);

/* Whether the next reply fits in any case; if not, send what there is and call net_udp_clear(). */
bool net_udp_has_room(const struct net_udp *udp);

/* Serves a datagram with a session of the socket that it came to. */
enum net_udp_result net_udp_serve(struct net_udp *udp, struct cache_session *session,
                                  const struct net_udp_request *request,
                                  struct net_udp_reply *reply);

/*
 * The next datagram of a reply: its header, and which bytes follow. Returns false after the last.
 */
bool net_udp_next_datagram(struct net_udp_reply *reply, uint8_t header[MC_UDP_HEADER_BYTES],
                           const uint8_t **payload, uint32_t *payload_len);

#endif
