/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memcached's UDP: a request datagram in, the datagrams of its reply out. Shared by both kinds of
 * worker, which bring the datagrams.
 *
 * Each request datagram stands for itself and has one reply, a message of datagrams with sequence
 * numbers (doc/protocol.txt). What is incomplete is dropped. A datagram's sender may be forged, so
 * the reply is bounded: one value of the default size limit goes through, more does not.
 */
#ifndef NET_UDP_H
#define NET_UDP_H

#include "cache/cache.h"
#include "mcproto/mcproto.h"

/* Longest reply to one request datagram, in bytes. */
#define NET_UDP_REPLY_MAX (1024 * 1024 + 64 * 1024)

/* Largest datagram there is, headers of IP and UDP not counted. */
#define NET_UDP_REQUEST_MAX 65536

struct net_udp {
    struct cache_worker *cache_worker; /* null unless the loop runs */
    uint8_t *buffer;                   /* replies, one behind the other */
    uint32_t used;
};

struct net_udp_reply {
    const uint8_t *bytes; /* good until net_udp_clear() */
    uint32_t len;         /* 0: nothing is to be sent */
    uint32_t sent;        /* bytes of it that net_udp_next() has given out */
    struct mc_udp_frame frame;
};

enum net_udp_result {
    NET_UDP_SERVED = 0,
    NET_UDP_MALFORMED, /* dropped */
    NET_UDP_TOO_LARGE  /* what there was to say did not fit: an error instead, or silence */
};

/* Makes the buffer. Returns 0, or -1 if there is no memory. */
int net_udp_open(struct net_udp *udp);
void net_udp_close(struct net_udp *udp);

/* Forgets all replies. */
void net_udp_clear(struct net_udp *udp);

/* Whether the next reply fits in any case; if not, send what there is and call net_udp_clear(). */
bool net_udp_has_room(const struct net_udp *udp);

/* Serves a datagram with a session of the socket that it came to. */
enum net_udp_result net_udp_serve(struct net_udp *udp, struct cache_session *session,
                                  const uint8_t *datagram, uint32_t len,
                                  struct net_udp_reply *reply);

/*
 * The next datagram of a reply: its header, and which bytes follow. Returns false after the last.
 */
bool net_udp_next(struct net_udp_reply *reply, uint8_t header[MC_UDP_HEADER_BYTES],
                  const uint8_t **payload, uint32_t *payload_len);

#endif
