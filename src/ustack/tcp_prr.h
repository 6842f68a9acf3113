/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Proportional rate reduction (RFC 9937): in a recovery with SACK the window goes to ssthresh by
 * sending a share of what the ACKs say has left the network, neither nothing for half a round trip
 * nor a burst. Knows of sequence numbers and amounts only.
 */
#ifndef USTACK_TCP_PRR_H
#define USTACK_TCP_PRR_H

#include "base/base.h"

struct us_prr {
    u_u32 mark;      /* SND.UNA plus the SACKed bytes: moves on by what was delivered */
    u_u32 una;       /* SND.UNA at the last ACK */
    u_u32 flight;    /* RecoverFS: bytes in flight when the recovery began */
    u_u32 delivered; /* prr_delivered: since then */
    u_u32 out;       /* prr_out: sent since then */
};

/* Nothing is SACKed yet; no recovery. */
void us_prr_reset(struct us_prr *prr, u_u32 una);

/* A recovery begins; `max` is SND.MAX. Before us_prr_take() for the ACK that began it. */
void us_prr_start(struct us_prr *prr, u_u32 max);

/*
 * Takes in an ACK, with or without news, and returns the congestion window: what is in the network
 * (pipe) and what may be sent besides, one segment at least. more_lost: the ACK has shown further
 * losses. Outside of a recovery the result means nothing.
 */
u_u32 us_prr_take(struct us_prr *prr, u_u32 una, u_u32 sacked_bytes, int more_lost, u_u32 pipe,
                  u_u32 ssthresh, u_u32 mss);

#endif
