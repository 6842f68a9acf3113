/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames as a peer of the twins sends them: one right segment in the shape that all frames of the
 * test have, over IPv4 or IPv6, with or without timestamps and a tag.
 */
#ifndef TEST_USTACK_PEER_FRAME_H
#define TEST_USTACK_PEER_FRAME_H

#include "twins.h"
#include "ustack/tcp_hdr.h"

enum { FRAME_BYTES = 2048 };

struct frame {
    u_u8 bytes[FRAME_BYTES];
    u_u32 len;
    u_u32 flags; /* of the packet */
    u_u32 l3;    /* where the headers are */
    u_u32 l4;
    int chained;
};

/* TCP's header in it, to be changed; frame_sum() makes both checksums right again. */
struct us_tcp_hdr *frame_tcp(struct frame *f);
void frame_sum(const struct twins *t, struct frame *f);

/* Ethernet's and IP's header, and zeros behind them. */
void frame_headers(const struct twins *t, struct frame *f, u_u32 l4_bytes);

/* A segment of this peer as it has to be, with `len` bytes of payload, which are drawn. */
void frame_segment(struct twins *t, struct frame *f, struct peer *peer, unsigned flags, u_u32 seq,
                   u_u32 ack, u_u32 len);

#endif
