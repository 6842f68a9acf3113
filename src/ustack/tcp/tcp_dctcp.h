/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * DCTCP (RFC 8257), the sender's part: the share of marked bytes decides how far cwnd falls. Needs
 * switches that mark early and peers that echo each mark; with other peers it behaves like Reno.
 * For networks under one administration only (section 5).
 */
#ifndef USTACK_TCP_TCP_DCTCP_H
#define USTACK_TCP_TCP_DCTCP_H

#include "base/base.h"

struct us_dctcp {
    u_u32 acked;      /* bytes acknowledged in this observation window */
    u_u32 marked;     /* of these, with ECE */
    u_u32 window_end; /* sequence number */
    u_u16 alpha;      /* estimated share of marked bytes, 1024 is all */
    u_u8 observing;   /* window_end is valid */
};

/* Begins with alpha = 1: cautious (3.3). */
void us_dctcp_init(struct us_dctcp *dctcp);

/*
 * `acked` bytes, up to sequence number `ack`, were acknowledged by a segment with or without ECE;
 * snd_nxt is where the next observation window ends (3.3, steps 1 to 8).
 */
void us_dctcp_acked(struct us_dctcp *dctcp, u_u32 acked, int ece, u_u32 ack, u_u32 snd_nxt);

/* The window that a marked round trip leaves: cwnd * (1 - alpha / 2) (3.3, step 9). */
u_u32 us_dctcp_decrease(const struct us_dctcp *dctcp, u_u32 cwnd);

#endif
