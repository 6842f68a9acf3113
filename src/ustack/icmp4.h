/* SPDX-License-Identifier: BSD-3-Clause */
/* ICMP over IPv4 (RFC 792): answers echo requests, passes errors about TCP on. */
#ifndef USTACK_ICMP4_H
#define USTACK_ICMP4_H

#include "base/base.h"

struct us_pkt;
struct us_reply;
struct us_rx;
struct us_stack;

/* Handles a received message. */
void us_icmp4_input(struct us_stack *stack, const struct us_rx *rx);

/* Builds the echo reply that a US_REPLY_ECHO describes and gives its block back. */
void us_icmp4_build_echo(struct us_stack *stack, struct us_pkt *pkt, struct us_reply *reply);

#endif
