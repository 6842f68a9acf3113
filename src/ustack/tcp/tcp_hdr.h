/* SPDX-License-Identifier: BSD-3-Clause */
/* The TCP header on the wire (RFC 9293 section 3.1). Parsing and emitting of options: tcp_opt.h. */
#ifndef USTACK_TCP_TCP_HDR_H
#define USTACK_TCP_TCP_HDR_H

#include "base/wire.h"

enum {
    US_TCP_FIN = 0x01,
    US_TCP_SYN = 0x02,
    US_TCP_RST = 0x04,
    US_TCP_PSH = 0x08,
    US_TCP_ACK = 0x10,
    US_TCP_URG = 0x20,
    US_TCP_ECE = 0x40,
    US_TCP_CWR = 0x80
};

struct us_tcp_hdr {
    struct u_be16 src_port;
    struct u_be16 dst_port;
    struct u_be32 seq;
    struct u_be32 ack;
    u_u8 offset; /* header length in 32-bit words, in the upper four bits */
    u_u8 flags;
    struct u_be16 window;
    struct u_be16 checksum;
    struct u_be16 urgent;
};

enum { US_TCP_HDR_BYTES = 20, US_TCP_HDR_MAX = 60 };

U_STATIC_ASSERT(sizeof(struct us_tcp_hdr) == US_TCP_HDR_BYTES, tcp_hdr_size);

#endif
