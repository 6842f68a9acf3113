/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fast path: header prediction (Van Jacobson, 1990) in both directions, for established
 * connections on which requests and responses alternate.
 *
 *   tcp_fast_state.c  decides whether a connection may take it: us_conn.fast_path
 *   tcp_fast_in.c     received frames, from the Ethernet header to the DATA event
 *   tcp_fast_out.c    the segment that is sent while nothing is in flight
 *
 * General code (eth.c, ip4.c, ip6.c, tcp_in.c, tcp_ack.c, tcp_recv.c, tcp_out.c, tcp_build.c)
 * defines what is done with a segment. The fast path does the same, or returns without having
 * changed or counted anything: then general code handles the frame or the connection. So it can be
 * left out: us_config.no_fast_path does that, with the same result.
 *
 * Each direction is one always-inlined function, instantiated twice: with constant header lengths
 * for the common headers, and with those of the connection.
 */
#ifndef USTACK_TCP_FAST_H
#define USTACK_TCP_FAST_H

#include "ustack/tcp/tcp.h"

enum {
    US_TCP_PORTS_BYTES = 4,
    US_TCP_OPT_TS_WORD = 0x0101080a, /* RFC 7323 appendix A: two NOPs, kind, length */
    /* The common headers: untagged Ethernet, IPv4 without options, TCP with a timestamp. */
    US_COMMON_TCP_BYTES = US_TCP_HDR_BYTES + US_TCP_OPT_TS_BYTES,
    US_COMMON_HDR_BYTES = US_ETH_HDR_BYTES + US_IP4_HDR_BYTES + US_COMMON_TCP_BYTES
};

/* Lengths of the headers in front of the payload, and whether us_conn.is_common_rxtx holds. */
struct us_fast_shape {
    u_u32 l2_bytes;
    u_u32 l3_bytes;
    u_u32 tcp_bytes;
    int is_common;
};

static const struct us_fast_shape us_fast_shape_common = {US_ETH_HDR_BYTES, US_IP4_HDR_BYTES,
                                                          US_COMMON_TCP_BYTES, 1};

U_INLINE struct us_fast_shape us_fast_shape_of(const struct us_stack *stack,
                                               const struct us_conn *conn)
{
    struct us_fast_shape shape;

    shape.l2_bytes = stack->l2_bytes;
    shape.l3_bytes = us_tcp_template_l3_bytes(&conn->head);
    shape.tcp_bytes = US_TCP_HDR_BYTES + (conn->opts & US_OPT_TS ? (u_u32)US_TCP_OPT_TS_BYTES : 0);
    shape.is_common = 0;
    return shape;
}

/*
 * Handles received frames as long as header prediction takes them: an established connection's
 * next segment in order, an acknowledgment of data in flight, or both. `n` is at least 1, and there
 * is room for the events of `n` frames. Returns how many frames it took; of the next one nothing
 * was changed or counted: us_eth_input() is to handle it.
 */
unsigned us_tcp_fast_input(struct us_stack *stack, struct us_pkt *const *pkts, unsigned n);

/*
 * Fills packets for the connections at the head of stack->out_list, as long as each has one segment
 * of new data to send and nothing in flight. Returns how many it filled; of the connection that is
 * then the first nothing was changed: us_tcp_plan() is to decide.
 */
unsigned us_tcp_fast_output(struct us_stack *stack, struct us_pkt **pkts, unsigned n);

#endif
