/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The SYN queue (RFC 4987 section 3.5): handshakes of listening ports between the SYN-ACK and the
 * ACK that completes them, as small entries in a pool of us_config.half_open_max. So SYNs from
 * forged addresses use no connections.
 *
 * The address of such a peer is unverified. So SYN-ACKs and other replies go to the MAC address
 * that the SYN came from, and neither create, use nor change a neighbour entry. tcp_listen.c makes
 * the connection when the ACK arrives.
 *
 * All entries with the same number of retransmissions wait equally long for the next one, so one
 * list per number is sorted by deadline, and one timer of the wheel serves all lists.
 */
#ifndef USTACK_TCP_TCP_SYNQ_H
#define USTACK_TCP_TCP_SYNQ_H

#include "ustack/tcp/tcp.h"

/*
 * A handshake: the data from which tcp_listen.c makes a connection. Also what a SYN cookie holds.
 */
struct us_synq_entry {
    struct us_synq_entry *hash_next;
    struct u_list link; /* in us_synq.levels */
    u_u64 due_us;       /* when the SYN-ACK is retransmitted, or the entry removed */
    struct us_tcp_key key;
    struct us_ip6 remote6; /* over IPv6; otherwise 0 */
    u_u32 iss;             /* of our SYN-ACK */
    u_u32 irs;             /* of the peer's SYN, as the fields below */
    u_u32 ts_recent;       /* with US_OPT_TS */
    u_u16 window;
    u_u16 mss;
    u_u16 listener; /* index + 1 */
    u_u16 listener_epoch;
    u_u8 mac[6];     /* where the SYN came from */
    u_u8 opts;       /* US_OPT_*: negotiated options */
    u_u8 scale;      /* with US_OPT_SCALE */
    u_u8 retries;    /* timeouts of the SYN-ACK */
    u_u8 resent;     /* the SYN-ACK was sent more than once */
    u_u8 challenges; /* challenge ACKs sent */
};

U_STATIC_ASSERT(sizeof(struct us_synq_entry) <= 96, synq_entry_is_small);

void us_synq_init(struct us_stack *stack);

/*
 * Creates an entry that waits for the ACK from now on; the caller fills in all but the key. Null if
 * the pool is empty.
 */
struct us_synq_entry *us_synq_add(struct us_stack *stack, const struct us_tcp_key *key,
                                  const struct us_ip6 *remote6);

struct us_synq_entry *us_synq_find(const struct us_stack *stack, const struct us_tcp_key *key,
                                   const struct us_ip6 *remote6);

void us_synq_remove(struct us_stack *stack, struct us_synq_entry *entry);

/*
 * Removes the entry with the most retransmissions, of these the oldest, and counts it. Returns 0 if
 * there is no entry.
 */
int us_synq_evict(struct us_stack *stack);

/* The peer's address over IPv6, null over IPv4. */
U_INLINE const struct us_ip6 *us_synq_remote6(const struct us_synq_entry *entry)
{
    return us_local_is_ip6(entry->key.local_ip) ? &entry->remote6 : (const struct us_ip6 *)U_NULL;
}

/* When the SYN-ACK of an entry without retransmissions was sent. */
u_u64 us_synq_sent_us(const struct us_stack *stack, const struct us_synq_entry *entry);

/*
 * Queues a SYN-ACK with this timestamp (if negotiated). Returns 0 if the queue of replies is full.
 */
int us_synq_send(struct us_stack *stack, const struct us_synq_entry *entry, u_u32 ts_val);

/* The same with the current timestamp. */
int us_synq_send_now(struct us_stack *stack, const struct us_synq_entry *entry);

/*
 * Processes a segment for an entry as RFC 9293 3.10.7.4 says for SYN-RECEIVED. Returns 1 if it is
 * acceptable and acknowledges the SYN-ACK: the caller continues. A RST removes the entry.
 */
int us_synq_input(struct us_stack *stack, struct us_synq_entry *entry, const struct us_seg *seg);

/* The timer of the queue has expired. */
void us_synq_timer(struct us_stack *stack);

/* Removes the entries of a local address that was removed. */
void us_synq_remove_local(struct us_stack *stack, u_u32 local_ip);

/* For us_check(): null, or what is wrong. */
const char *us_synq_check(const struct us_stack *stack);

#endif
