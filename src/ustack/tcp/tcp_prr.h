/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Proportional rate reduction (RFC 9937): in a recovery with SACK, cwnd approaches ssthresh by
 * sending a share of the bytes that leave the network with each ACK. Pure functions of sequence
 * numbers and amounts.
 */
#ifndef USTACK_TCP_TCP_PRR_H
#define USTACK_TCP_TCP_PRR_H

#include "base/base.h"

struct us_prr {
    u_u32 mark;      /* SND.UNA plus the SACKed bytes: grows by the delivered bytes */
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
 * Processes an ACK and returns cwnd: pipe plus the bytes that may be sent besides, at least one
 * segment. more_lost: the ACK has shown further losses. Without a recovery the result is
 * meaningless.
 */
u_u32 us_prr_take(struct us_prr *prr, u_u32 una, u_u32 sacked_bytes, int more_lost, u_u32 pipe,
                  u_u32 ssthresh, u_u32 mss);

#endif
