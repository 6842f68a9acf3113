/* SPDX-License-Identifier: BSD-3-Clause */
/* What the two halves of the fast path have in common: tcp_fast.c, tcp_fast_out.c. */
#ifndef USTACK_TCP_FAST_H
#define USTACK_TCP_FAST_H

#include "ustack/eth.h"
#include "ustack/ip4.h"
#include "ustack/tcp_hdr.h"
#include "ustack/tcp_opt.h"

/* RFC 7323 appendix A: two NOPs, then the timestamps' kind and length. */
enum { US_FAST_TS_HEAD = 0x0101080a };

/* The first bytes of a TCP header. */
enum { US_FAST_PORTS_BYTES = 4 };

/*
 * The headers that most frames have: Ethernet's without a tag, IPv4's without options, TCP's with a
 * timestamp.
 */
enum {
    US_USUAL_TCP_BYTES = US_TCP_HDR_BYTES + US_TCP_OPT_TS_BYTES,
    US_USUAL_BYTES = US_ETH_HDR_BYTES + US_IP4_HDR_BYTES + US_USUAL_TCP_BYTES
};

#endif
