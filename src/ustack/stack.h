/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The instance: what all protocols of the stack share. Nothing here is global; struct us_stack
 * lies at the start of the caller's memory and the tables and pools behind it.
 */
#ifndef USTACK_STACK_H
#define USTACK_STACK_H

#include "base/base.h"
#include "base/list.h"
#include "base/pairhash.h"
#include "base/siphash.h"
#include "ustack/addr.h"
#include "ustack/chunk.h"
#include "ustack/dgram.h"
#include "ustack/event.h"
#include "ustack/frag.h"
#include "ustack/ip.h"
#include "ustack/nd.h"
#include "ustack/neighbour.h"
#include "ustack/pool.h"
#include "ustack/port.h"
#include "ustack/reply.h"
#include "ustack/stats.h"
#include "ustack/timer.h"
#include "ustack/ustack.h"

enum { US_TIMERS_PER_INPUT = 64 }; /* timers taken or moved by one us_input() */

/* Which struct a us_timer is part of. */
enum us_timer_kind { US_TIMER_CONN, US_TIMER_NEIGHBOUR, US_TIMER_ND, US_TIMER_FRAG };

/* Which connection is heard of next, see tcp_fast.c. */
struct us_guess {
    u_u32 *at;   /* us_conn.heard_next of the one before */
    u_u32 holds; /* the last one was right */
};

struct us_stack {
    struct us_config config;
    u_u64 now_us;
    u_u64 counters[US_COUNTERS];
    struct u_pairhash name_hash; /* of connections; all keys are cut from config.secret */
    struct u_pairhash id_hash;   /* of IPv6 addresses */
    u_u8 key_isn[U_SIPHASH_KEY_BYTES];
    u_u8 key_port[U_SIPHASH_KEY_BYTES];
    u_u8 key_ts[U_SIPHASH_KEY_BYTES];
    u_u8 key_cookie[U_SIPHASH_KEY_BYTES];

    struct us_local locals[US_LOCAL_MAX];
    unsigned local_count;
    u_u32 announce; /* bit i: a gratuitous ARP for locals[i] is due */
    u_u32 gateway;  /* of IPv4; 0: none */
    u_u8 l2_bytes;  /* length of an Ethernet header that we send: with a VLAN tag or without */
    u_u8 slow_only; /* tests set it: everything goes the way of the unusual */

    struct us_event_queue events;
    struct us_reply_queue replies;
    struct us_neighbours neighbours;
    struct us_nd nd;
    struct us_wheel wheel;

    struct us_pool conn_pool;
    struct us_pool block_pool;
    struct us_pool ref_pool;
    struct us_pool tw_pool;
    struct us_conn **conn_table; /* buckets; conn_mask + 1 of them */
    struct us_guess guess;
    u_u32 guess_first; /* what guess.at points to as long as none was heard of */
    u_u32 conn_mask;
    u_u32 half_open; /* connections in SYN-RECEIVED, passively opened */
    struct us_tw **tw_table;
    u_u32 tw_mask;
    struct u_list tw_list;     /* by time of expiry */
    struct u_list out_list;    /* connections that us_output() is to look at */
    struct u_list memory_list; /* connections that wait for a block of the pool */
    u_u32 port_next;           /* RFC 6056 3.3.3: added to the hash of the destination */

    struct us_port_table listeners; /* of TCP */
    struct us_port_table udp_ports;
    struct us_dgram_queue dgrams;
    struct us_frags frags;

    u_u64 cookie_until_us; /* no ACK can bring a SYN cookie back from then on */

    u_u64 icmp_filled_us;    /* when icmp_tokens was last filled up */
    u_u32 icmp_tokens;       /* ICMP errors that may be sent now */
    u_u64 challenge_from_us; /* start of the second that challenge_left is for */
    u_u32 challenge_left;
    u_u32 rx_block_max; /* blocks that the receive queue of one connection may hold */
};

enum { US_TS_CLOCK_SHIFT = 10 };

/* The clock of TCP timestamps, without a connection's offset: about a millisecond per tick. */
U_INLINE u_u32 us_ts_clock(u_u64 now_us)
{
    return (u_u32)(now_us >> US_TS_CLOCK_SHIFT);
}

/* Something went back to a pool: tells one connection that waits for memory. */
U_INLINE void us_memory_freed(struct us_stack *stack)
{
    if (U_UNLIKELY(!u_list_is_empty(&stack->memory_list)))
        us_memory_wake(stack);
}

/* Gives a block back; a connection that waits for memory is told that there is some. */
U_INLINE void us_block_put(struct us_stack *stack, struct us_chunk *chunk)
{
    U_ASSERT(!chunk->is_ref);
    us_pool_put(&stack->block_pool, chunk);
    us_memory_freed(stack);
}

U_INLINE void us_count(struct us_stack *stack, enum us_counter_index index)
{
    stack->counters[index]++;
}

U_INLINE void us_count_add(struct us_stack *stack, enum us_counter_index index, u_u32 n)
{
    stack->counters[index] += n;
}

#endif
