/* SPDX-License-Identifier: BSD-3-Clause */
/* What ICMP for IPv4 (RFC 792) and for IPv6 (RFC 4443) have in common. */
#ifndef USTACK_ICMP_H
#define USTACK_ICMP_H

#include "ustack/ip.h"

enum { US_ICMP_HDR_BYTES = 8, US_ICMP_CSUM_OFFSET = 2 };

/* Types and codes of the errors that we send. */
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

/* The token bucket of errors (RFC 1812 4.3.2.8, RFC 4443 2.4 (f)). */
enum { US_ICMP_BURST = 50, US_ICMP_REFILL_US = 10 * 1000 };

/*
 * Answers a packet with an error of its family, unless one must not be sent about it (RFC 1122
 * 3.2.2, RFC 4443 2.4 (e)) or too many were sent lately, which is counted. value: the second word
 * of the message.
 */
void us_icmp_error(struct us_stack *stack, const struct us_rx *rx, unsigned type, unsigned code,
                   u_u32 value);

/* Answers an echo request, whose checksum is right, with a message of this type. */
void us_icmp_echo(struct us_stack *stack, const struct us_rx *rx, unsigned reply_type);

#endif
