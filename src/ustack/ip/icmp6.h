/* SPDX-License-Identifier: BSD-3-Clause */
/* Received ICMP over IPv6 (RFC 4443): echo, neighbour discovery, MLD and errors about TCP. */
#ifndef USTACK_IP_ICMP6_H
#define USTACK_IP_ICMP6_H

#include "ustack/ip/ip.h"

/* Message types; those of errors that are sent are in icmp.h. */
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
 * Processes a received message. for_protocols: the source is a host address and the destination a
 * usable local address; otherwise only neighbour discovery and MLD accept it.
 */
void us_icmp6_input(struct us_stack *stack, const struct us_rx *rx, int for_protocols);

#endif
