/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames of a peer in lockstep.h: valid segments in the shape that all frames of a test have, over
 * IPv4 or IPv6, with or without timestamps and a VLAN tag.
 */
#ifndef TEST_USTACK_PEER_FRAME_H
#define TEST_USTACK_PEER_FRAME_H

#include "lockstep.h"
#include "ustack/tcp/tcp_hdr.h"

enum { FRAME_BYTES = 2048 };

struct frame {
    u_u8 bytes[FRAME_BYTES];
    u_u32 len;
    u_u32 flags; /* of the packet */
    u_u32 l3;    /* where the headers are */
    u_u32 l4;
    int chained;
};

/* The TCP header; after changes frame_sum() makes both checksums valid again. */
struct us_tcp_hdr *frame_tcp(struct frame *f);
void frame_sum(const struct lockstep *t, struct frame *f);

/* Writes the Ethernet and IP headers, and zeros behind them. */
void frame_headers(const struct lockstep *t, struct frame *f, u_u32 l4_bytes);

/* Writes a valid segment of this peer with `len` random payload bytes. */
void frame_segment(struct lockstep *t, struct frame *f, struct peer *peer, unsigned flags,
                   u_u32 seq, u_u32 ack, u_u32 len);

#endif
