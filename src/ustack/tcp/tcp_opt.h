/* SPDX-License-Identifier: BSD-3-Clause */
/* TCP options (RFC 9293 3.2, RFC 7323, RFC 2018): bytes <-> a struct. Pure functions. */
#ifndef USTACK_TCP_TCP_OPT_H
#define USTACK_TCP_TCP_OPT_H

#include "base/base.h"

enum {
    US_TCP_OPT_TS_BYTES = 12, /* two NOPs and the timestamps option */
    US_TCP_SACK_BLOCKS_MAX = 4,
    US_TCP_SCALE_MAX = 14,    /* RFC 7323 2.3: larger values are taken as this */
    US_TCP_MSS_DEFAULT = 536, /* RFC 9293 3.7.1: when the peer says nothing */
    US_TCP_MSS_DEFAULT_IP6 = 1220
};

struct us_tcp_sack {
    u_u32 start; /* first sequence number of the block */
    u_u32 end;   /* the one after the last */
};

struct us_tcp_opts {
    u_u16 mss; /* 0: absent */
    u_u8 has_scale;
    u_u8 scale; /* 0..US_TCP_SCALE_MAX */
    u_u8 sack_permitted;
    u_u8 has_ts;
    u_u8 sack_blocks; /* how many of sack[] are used */
    u_u32 ts_val;
    u_u32 ts_ecr;
    struct us_tcp_sack sack[US_TCP_SACK_BLOCKS_MAX];
};

/*
 * Parses `bytes` bytes of options. Unknown options are skipped; a malformed length ends parsing,
 * and options before it are valid. A known option with a wrong length is ignored.
 */
void us_tcp_opts_parse(struct us_tcp_opts *opts, const u_u8 *data, unsigned bytes);

/*
 * Writes the options that are set, padded with NOPs to a multiple of four bytes, to `to`, which has
 * room for 40. Returns the number of bytes. The caller ensures that they are at most 40: MSS 4,
 * scale 4, SACK-permitted 4 (0 with timestamps), timestamps 12, SACK 4 + 8 per block.
 */
unsigned us_tcp_opts_emit(const struct us_tcp_opts *opts, u_u8 *to);

#endif
