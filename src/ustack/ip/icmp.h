/* SPDX-License-Identifier: BSD-3-Clause */
/* ICMP errors and echo replies of both families (RFC 792, RFC 4443). */
#ifndef USTACK_IP_ICMP_H
#define USTACK_IP_ICMP_H

#include "ustack/ip/ip.h"

enum { US_ICMP_HDR_BYTES = 8, US_ICMP_CSUM_OFFSET = 2 };

/* Types and codes of the errors sent. */
enum {
    US_ICMP4_UNREACHABLE = 3,
    US_ICMP4_PROTOCOL = 2, /* code */
    US_ICMP4_PORT = 3,     /* code */
    US_ICMP4_EXCEEDED = 11,
    US_ICMP6_UNREACHABLE = 1,
    US_ICMP6_PORT = 4, /* code */
    US_ICMP6_EXCEEDED = 3,
    US_ICMP_REASSEMBLY = 1, /* code of both EXCEEDED */
    US_ICMP6_PROBLEM = 4,
    US_ICMP6_PROBLEM_FIELD = 0, /* codes */
    US_ICMP6_PROBLEM_NEXT = 1,
    US_ICMP6_PROBLEM_OPTION = 2
};

/* The token bucket for errors (RFC 1812 4.3.2.8, RFC 4443 2.4 (f)). */
enum { US_ICMP_BURST = 50, US_ICMP_REFILL_US = 10 * 1000 };

/*
 * Sends an error about a packet, unless it must not be sent (RFC 1122 3.2.2, RFC 4443 2.4 (e)) or
 * the token bucket is empty, which is counted. value: the second word of the message.
 */
void us_icmp_error(struct us_stack *stack, const struct us_rx *rx, unsigned type, unsigned code,
                   u_u32 value);

/* Processes a received ICMP message over IPv4; rx->l4 is its header. icmp6.h: over IPv6. */
void us_icmp4_input(struct us_stack *stack, const struct us_rx *rx);

/* Answers an echo request with a verified checksum by a message of reply_type. */
void us_icmp_echo(struct us_stack *stack, const struct us_rx *rx, unsigned reply_type);

#endif
