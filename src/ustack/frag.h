/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reassembly of IPv4 (RFC 791, RFC 815) and IPv6 (RFC 8200 4.5) in one store.
 *
 * Everything that strangers can make grow has a bound: the number of datagrams (beyond it the
 * oldest makes room), the bytes of each, and the fragments of each. A datagram has its time from
 * its first fragment to arrive; none that follows starts it anew. Fragments that overlap end the
 * whole datagram, with all that may still come of it (RFC 5722); one that came twice is ignored.
 */
#ifndef USTACK_FRAG_H
#define USTACK_FRAG_H

#include "base/list.h"
#include "ustack/ip.h"
#include "ustack/pool.h"
#include "ustack/timer.h"

enum {
    US_FRAGS_MAX = 128,    /* fragments of one datagram */
    US_FRAG_HEAD_MAX = 256 /* bytes of headers in front of what was cut */
};

/* One fragment's place in the datagram. */
struct us_frag_range {
    u_u16 start;
    u_u16 end;
};

/* A datagram of which fragments have come, or that is whole and being delivered. */
struct us_frag {
    struct u_list link; /* in us_frags.open, or .done */
    u_u64 until_us;
    struct us_ip6 src6; /* with is_ip6 */
    struct us_ip6 dst6;
    u_u32 src_ip; /* as in us_rx */
    u_u32 dst_ip;
    u_u32 ident;
    u_u8 protocol; /* IPv4: part of the name; IPv6: of the first fragment */
    u_u8 is_ip6;
    u_u8 cast;
    u_u8 tos;
    u_u8 is_dead; /* fragments overlapped: the rest of it is dropped */
    u_u8 mac[6];
    u_u16 head_bytes; /* headers in front of the first fragment's data; 0: it has not come */
    u_u16 next_at;    /* IPv6: where in them the field is that names the fragment header */
    u_u16 ranges_used;
    u_u32 received; /* bytes in all ranges */
    u_u32 total;    /* bytes of the datagram, once the last fragment has come; otherwise 0 */
    struct us_frag_range ranges[US_FRAGS_MAX]; /* sorted, disjoint */
};

/* The bytes follow the struct: US_FRAG_HEAD_MAX for headers, then config.reassembly_bytes. */

struct us_frags {
    struct us_pool pool;
    struct u_list open; /* oldest first */
    struct u_list done; /* whole ones that events may still point into */
    struct us_timer timer;
};

/* A received fragment. */
struct us_fragment {
    u_u32 ident;
    u_u32 offset;     /* bytes */
    int more;         /* not the last */
    u_u16 head_bytes; /* headers in front of rx->l4, which is the fragment's data */
    u_u16 next_at;
};

void us_frag_init(struct us_stack *stack);

/*
 * Takes a fragment. Returns 1 if the datagram is whole now: then *rx is the packet as if it had
 * never been cut (IPv6: without the fragment header), rx->l4 is its data, and all of it stays where
 * it is until the events have been taken. Otherwise returns 0.
 */
int us_frag_take(struct us_stack *stack, struct us_rx *rx, const struct us_fragment *fragment);

/* Gives back the memory of datagrams that were delivered, if all events have been taken. */
void us_frag_retire(struct us_stack *stack);

/* The time of the oldest is over. */
void us_frag_timer(struct us_stack *stack);

#endif
