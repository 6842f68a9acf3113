/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Multicast listener discovery (RFC 2710, RFC 3810): reports the joined groups to routers and
 * switches, so that they forward packets to these. The joined groups are the solicited-node groups
 * of the local addresses; bit i of a set is the group of us_nd.locals[i].
 */
#ifndef USTACK_IP_MLD_H
#define USTACK_IP_MLD_H

#include "base/base.h"

struct us_pkt;
struct us_rx;
struct us_stack;

enum { US_MLD_ROBUSTNESS = 2, US_MLD_INTERVAL_US = 1000 * 1000 };

struct us_mld {
    u_u32 joins_due;   /* new groups to report now */
    u_u32 joins_again; /* new groups to report again at joins_us */
    u_u32 answers_due; /* groups to report to a querier now */
    u_u32 answers;     /* groups to report to a querier at answers_us */
    u_u64 joins_us;
    u_u64 answers_us;
    u_u64 old_until_us; /* RFC 3810 8.2.1: end of version 1 compatibility */
};

void us_mld_init(struct us_stack *stack);

/* Joins the group of a local address. */
void us_mld_join(struct us_stack *stack, u_u32 index);

/* Leaves the group of a removed local address. */
void us_mld_leave(struct us_stack *stack, u_u32 index);

/* Processes a query; rx->l4 is its ICMP header. */
void us_mld_query_input(struct us_stack *stack, const struct us_rx *rx);

/* Moves the groups whose time has come to the sets to report now. */
void us_mld_timer(struct us_stack *stack);

/* Time of the next call of us_mld_timer(). */
u_u64 us_mld_next_us(const struct us_stack *stack);

/* Builds one pending report. Returns 0 if there is none. */
int us_mld_output(struct us_stack *stack, struct us_pkt *pkt);

#endif
