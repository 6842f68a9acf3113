/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The instance: state shared by all protocols of a stack. struct us_stack lies at the start of the
 * memory given to us_create(), its tables and pools behind it; there is no global state.
 *
 * src/ustack has three folders. core/ holds the instance and what is not about a protocol: object
 * pools, buffers, the timer wheel, ports, counters, the queue of events, and us_check(). ip/ holds
 * Ethernet, ARP, IPv4, IPv6, ICMP, neighbour discovery, UDP and reassembly. tcp/ holds TCP. All see
 * this header; object_pool, timer_wheel, port_table and counters include nothing of the other
 * folders. ip/ calls TCP through tcp/tcp.h only.
 */
#ifndef USTACK_CORE_INSTANCE_H
#define USTACK_CORE_INSTANCE_H

#include "base/base.h"
#include "base/list.h"
#include "base/pairhash.h"
#include "base/siphash.h"
#include "ustack/core/buffer.h"
#include "ustack/core/counters.h"
#include "ustack/core/event.h"
#include "ustack/core/object_pool.h"
#include "ustack/core/port_table.h"
#include "ustack/core/timer_wheel.h"
#include "ustack/ip/addr.h"
#include "ustack/ip/datagram_queue.h"
#include "ustack/ip/frag.h"
#include "ustack/ip/ip.h"
#include "ustack/ip/nd.h"
#include "ustack/ip/neighbour.h"
#include "ustack/ip/reply_queue.h"
#include "ustack/ustack.h"

/* Lists of connections that wait for blocks: US_BLOCK_MINIMUM and US_BLOCK_SHARED. */
enum { US_MEMORY_LISTS = US_BLOCK_OUT_OF_ORDER };

enum { US_TIMERS_PER_INPUT = 64 }; /* timers that expire or cascade in one us_input() */

/* The struct that contains a us_timer. */
enum us_timer_kind { US_TIMER_CONN, US_TIMER_NEIGHBOUR, US_TIMER_ND, US_TIMER_FRAG, US_TIMER_SYNQ };

/* Doublings of 1 us that exceed every rto_max_us; see instance.c. */
enum { US_SYNQ_LEVELS = 31 };

/* Handshakes of listening ports under way; see tcp_synq.h. */
struct us_synq {
    struct us_pool pool;
    struct us_synq_entry **table; /* buckets; mask + 1 of them */
    u_u32 mask;
    struct us_timer timer;                /* not later than the first entry is due */
    struct u_list levels[US_SYNQ_LEVELS]; /* by retransmissions; each sorted by deadline */
};

/* The queue in front of new segments; see tcp_local_queue.h. */
struct us_queueing {
    u_u64 sent_us;              /* when the newest segment that is known to have arrived was sent */
    u_u64 seen_us;              /* when its acknowledgment came */
    const struct us_conn *conn; /* whose it was; may have ended */
    u_u32 delay_us;  /* how much longer than the best round trip of its connection that took */
    u_u64 probed_us; /* when a connection last sent a tail loss probe */
};

struct us_stack {
    struct us_config config;
    u_u64 now_us;
    u_u64 counters[US_COUNTERS];
    struct u_pairhash tuple_hash; /* 4-tuples of connections; all keys derive from config.secret */
    struct u_pairhash id_hash;    /* IPv6 addresses */
    u_u8 key_isn[U_SIPHASH_KEY_BYTES];
    u_u8 key_port[U_SIPHASH_KEY_BYTES];
    u_u8 key_ts[U_SIPHASH_KEY_BYTES];
    u_u8 key_cookie[U_SIPHASH_KEY_BYTES];

    struct us_local locals[US_LOCAL_MAX];
    unsigned local_count;
    u_u32 announce; /* bit i: a gratuitous ARP for locals[i] is pending */
    u_u32 gateway;  /* IPv4 default router; 0: none */
    u_u8 l2_bytes;  /* length of a sent Ethernet header, with or without a VLAN tag */

    struct us_event_queue events;
    struct us_reply_queue replies;
    struct us_neighbours neighbours;
    struct us_nd nd;
    struct us_wheel wheel;

    struct us_pool conn_pool;
    struct us_pool block_pool;
    u_u32 block_floor[US_BLOCK_USES]; /* by use: blocks that must stay free, see us_memory_init() */
    u_u32 prune_floor; /* with this many free blocks or fewer, out-of-order data is dropped */
    u_u32 prune_next;  /* index in conn_pool of the next connection examined for that */
    struct us_pool ref_pool;
    struct us_pool tw_pool;
    struct us_conn **conn_table; /* buckets; conn_mask + 1 of them */
    u_u32 conn_mask;
    struct us_synq synq;
    struct us_tw **tw_table;
    u_u32 tw_mask;
    struct u_list tw_list;                       /* by time of expiry */
    struct u_list out_list;                      /* connections with output for us_output() */
    struct u_list memory_lists[US_MEMORY_LISTS]; /* connections that wait for a block of this use */
    struct u_list orphans;                       /* closed by the application, oldest first */
    u_u32 orphan_count;
    u_u32 port_next; /* RFC 6056 3.3.3: added to the hash of the destination */

    struct us_port_table listeners; /* of TCP */
    struct us_port_table udp_ports;
    struct us_dgram_queue dgrams;
    struct us_frags frags;

    struct us_queueing queueing;
    u_u64 cookie_until_us; /* no SYN cookie sent is valid from then on */

    u_u64 icmp_filled_us;    /* last refill of icmp_tokens */
    u_u32 icmp_tokens;       /* token bucket of ICMP errors */
    u_u64 challenge_from_us; /* start of the second of challenge_left */
    u_u32 challenge_left;
    u_u32 rx_block_max; /* blocks that the receive queue of one connection may hold */
};

/* Whether no ARP, neighbour discovery or MLD is sent. */
U_INLINE int us_link_is_unresolved(const struct us_stack *stack)
{
    return (stack->config.reply_to_source_mac | stack->config.point_to_point) != 0;
}

enum { US_TS_CLOCK_SHIFT = 10 };

/* The clock of TCP timestamps, 1024 us per tick, without a connection's offset. */
U_INLINE u_u32 us_ts_clock(u_u64 now_us)
{
    return (u_u32)(now_us >> US_TS_CLOCK_SHIFT);
}

/* After an object was freed: raises SENDABLE on a connection that waits for memory. */
U_INLINE void us_memory_freed(struct us_stack *stack)
{
    if (U_UNLIKELY(!u_list_is_empty(&stack->memory_lists[US_BLOCK_MINIMUM]) ||
                   !u_list_is_empty(&stack->memory_lists[US_BLOCK_SHARED])))
        us_memory_wake(stack);
}

/* Frees a block, and raises SENDABLE on a connection that waits for memory. */
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
