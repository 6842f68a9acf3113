/* SPDX-License-Identifier: BSD-3-Clause */
/* ICMP over IPv4 (RFC 792): answers echo requests, passes errors about TCP on. */
#ifndef USTACK_ICMP4_H
#define USTACK_ICMP4_H

struct us_rx;
struct us_stack;

/* Handles a received message. */
void us_icmp4_input(struct us_stack *stack, const struct us_rx *rx);

#endif
