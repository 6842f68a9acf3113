/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Limits of UDP replies. The source address of a request may be forged, and then the reply goes to
 * a victim (reflection). So the length of one reply is bounded, and a token bucket bounds the bytes
 * per second that go to one source beyond what came from it: a reply that is no longer than its
 * request is of no use to an attacker and costs nothing.
 *
 * All workers share one table of buckets. A keyed hash of the source chooses the bucket; sources
 * may share a bucket, and nothing is evicted, so forged sources cannot clear the table. An
 * attacker that forges a client's address drains that client's bucket; one that does not know the
 * address has to drain all buckets. An IPv6 source counts by its /64, which one host may have.
 */
#ifndef NET_UDP_LIMIT_H
#define NET_UDP_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "net/net.h"

/* A source address, as the table knows it: bytes in network order, 4 or 16 of them. */
uint64_t net_udp_source(bool is_ip6, const uint8_t *bytes);

/* Longest reply to one request datagram, in bytes. */
uint32_t net_udp_limit_reply_bytes(const struct net_udp_limit *limit);

/*
 * Takes the cost of a reply out of its source's bucket. Returns whether it may be sent; if not,
 * nothing was taken. Any thread.
 */
bool net_udp_limit_take(struct net_udp_limit *limit, uint64_t source, uint32_t request_bytes,
                        uint32_t reply_bytes, uint64_t now_us);

#endif
