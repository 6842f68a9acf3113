/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Multicast listener discovery (RFC 2710, RFC 3810): tells routers and switches which groups we are
 * in, so that they pass on what is sent there. Our groups are those that each of our addresses is
 * asked for at; bit i of a set stands for the group of us_nd.locals[i].
 */
#ifndef USTACK_MLD_H
#define USTACK_MLD_H

#include "base/base.h"

struct us_pkt;
struct us_rx;
struct us_stack;

enum { US_MLD_ROBUSTNESS = 2, US_MLD_INTERVAL_US = 1000 * 1000 };

struct us_mld {
    u_u32 joins_due;   /* to be reported as new now */
    u_u32 joins_again; /* once more at joins_us: a report may get lost */
    u_u32 answers_due; /* to be reported to a querier now */
    u_u32 answers;     /* at answers_us */
    u_u64 joins_us;
    u_u64 answers_us;
    u_u64 old_until_us; /* RFC 3810 8.2.1: a querier of version 1 is there */
};

void us_mld_init(struct us_stack *stack);

/* We have entered the group of this address. */
void us_mld_join(struct us_stack *stack, u_u32 index);

/* The address is gone, and the group with it. */
void us_mld_leave(struct us_stack *stack, u_u32 index);

/* Handles a query; rx->l4 is its ICMP header. */
void us_mld_query_input(struct us_stack *stack, const struct us_rx *rx);

/* Something may be due. */
void us_mld_timer(struct us_stack *stack);

/* When that will be. */
u_u64 us_mld_next_us(const struct us_stack *stack);

/* Builds a report that is due. Returns 0 if there is none. */
int us_mld_output(struct us_stack *stack, struct us_pkt *pkt);

#endif
