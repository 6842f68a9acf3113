/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reassembly of IPv4 (RFC 791, RFC 815) and IPv6 (RFC 8200 4.5).
 *
 * Bounds: the number of datagrams (one more replaces the oldest), the bytes of each, and the
 * fragments of each. The timer of a datagram starts with the first fragment that arrives and is
 * never restarted. Overlapping fragments discard the whole datagram with its later fragments (RFC
 * 5722); an exact duplicate is ignored.
 */
#ifndef USTACK_IP_FRAG_H
#define USTACK_IP_FRAG_H

#include "base/list.h"
#include "ustack/core/object_pool.h"
#include "ustack/core/timer_wheel.h"
#include "ustack/ip/ip.h"

enum {
    US_FRAGS_MAX = 128,    /* fragments of one datagram */
    US_FRAG_HEAD_MAX = 256 /* bytes of headers in front of the fragmented part */
};

/* Position of a fragment in the datagram. */
struct us_frag_range {
    u_u16 start;
    u_u16 end;
};

/* A datagram in reassembly, or complete and being delivered. */
struct us_frag {
    struct u_list link; /* in us_frags.open, or .done */
    u_u64 until_us;
    struct us_ip6 src6; /* with is_ip6 */
    struct us_ip6 dst6;
    u_u32 src_ip; /* as in us_rx */
    u_u32 dst_ip;
    u_u32 ident;
    u_u8 protocol; /* IPv4: part of the key; IPv6: from the first fragment */
    u_u8 is_ip6;
    u_u8 cast;
    u_u8 tos;
    u_u8 is_dead; /* discarded: further fragments are dropped */
    u_u8 mac[6];
    u_u16 head_bytes; /* headers of the first fragment; 0: it has not arrived */
    u_u16 next_at;    /* IPv6: offset in them of the next-header field of the fragment header */
    u_u16 ranges_used;
    u_u32 received; /* bytes in all ranges */
    u_u32 total;    /* bytes of the datagram, known from the last fragment; else 0 */
    struct us_frag_range ranges[US_FRAGS_MAX]; /* sorted, disjoint */
};

/* The bytes follow the struct: US_FRAG_HEAD_MAX for headers, then config.reassembly_bytes. */

struct us_frags {
    struct us_pool pool;
    struct u_list open; /* oldest first */
    struct u_list done; /* complete; events may point into them */
    struct us_timer timer;
};

/* A received fragment. */
struct us_fragment {
    u_u32 ident;
    u_u32 offset;     /* bytes */
    int more;         /* not the last fragment */
    u_u16 head_bytes; /* headers in front of rx->l4, the data of the fragment */
    u_u16 next_at;
};

void us_frag_init(struct us_stack *stack);

/*
 * Adds a fragment. Returns 1 if the datagram is complete: then *rx is the unfragmented packet
 * (IPv6: without the fragment header), whose memory stays valid until the events are taken. Else
 * returns 0.
 */
int us_frag_input(struct us_stack *stack, struct us_rx *rx, const struct us_fragment *fragment);

/* Frees delivered datagrams if all events have been taken. */
void us_frag_retire(struct us_stack *stack);

/* us_frags.timer has expired. */
void us_frag_timer(struct us_stack *stack);

#endif
