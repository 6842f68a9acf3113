/* SPDX-License-Identifier: BSD-3-Clause */
/* ICMP over IPv6 (RFC 4443): checks messages and hands them to echo, neighbour discovery or TCP. */
#ifndef USTACK_ICMP6_H
#define USTACK_ICMP6_H

#include "ustack/ip.h"

/* Types of messages; those of errors that we send are in icmp.h. */
enum {
    US_ICMP6_TOO_BIG = 2,
    US_ICMP6_ECHO = 128,
    US_ICMP6_ECHO_REPLY = 129,
    US_ICMP6_MLD_QUERY = 130,
    US_ICMP6_MLD_REPORT = 131,
    US_ICMP6_ROUTER_SOLICIT = 133,
    US_ICMP6_ROUTER_ADVERT = 134,
    US_ICMP6_NEIGHBOUR_SOLICIT = 135,
    US_ICMP6_NEIGHBOUR_ADVERT = 136,
    US_ICMP6_REDIRECT = 137,
    US_ICMP6_MLD2_REPORT = 143
};

/*
 * Handles a received message. for_protocols: it came from a host's address to one of ours that is
 * in use; otherwise it is for neighbour discovery and groups only.
 */
void us_icmp6_input(struct us_stack *stack, const struct us_rx *rx, int for_protocols);

#endif
