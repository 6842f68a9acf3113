/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The queue of replies that belong to no connection: ARP replies, neighbour advertisements, RSTs
 * and ACKs of TIME-WAIT. They are sent by us_output() to the source MAC address of the frame they
 * answer, so they need no address resolution. The queue is bounded; a reply that does not fit is
 * dropped and counted, because the peer repeats its request.
 */
#ifndef USTACK_IP_REPLY_QUEUE_H
#define USTACK_IP_REPLY_QUEUE_H

#include "base/base.h"
#include "ustack/ip/addr.h"

struct us_pkt;
struct us_rx;
struct us_stack;

enum { US_REPLIES_MAX = 256 };

enum us_reply_kind { US_REPLY_ARP, US_REPLY_ADVERT, US_REPLY_TCP };

/* A TCP segment without data and without a connection. */
struct us_reply_tcp {
    u_u32 seq;
    u_u32 ack;
    u_u32 ts_val;
    u_u32 ts_ecr;
    u_u16 src_port;
    u_u16 dst_port;
    u_u16 window; /* value of the header field */
    u_u8 flags;
    u_u8 has_ts;
    u_u8 has_scale;
    u_u8 scale;
    u_u8 sack_permitted;
    u_u16 mss; /* 0: no option */
};

struct us_reply {
    enum us_reply_kind kind;
    u_u8 mac[6]; /* destination */
    u_u8 is_ip6;
    u_u8 flags;              /* US_REPLY_ADVERT: flags of the message */
    u_u32 src_ip;            /* id of the local address */
    u_u32 dst_ip;            /* us_ip.id */
    struct us_ip6 dst6;      /* with is_ip6 */
    struct us_reply_tcp tcp; /* US_REPLY_TCP */
};

struct us_reply_queue {
    u_u32 head; /* replies taken, in total */
    u_u32 tail; /* replies added, in total */
    struct us_reply ring[US_REPLIES_MAX];
};

/*
 * Appends a reply with the addresses of *rx exchanged; the caller fills in `flags` or `tcp`, whose
 * fields are 0. Returns null, and counts it, if the queue is full.
 */
struct us_reply *us_reply_add(struct us_stack *stack, const struct us_rx *rx,
                              enum us_reply_kind kind);

/* Builds the frame of the oldest reply into an empty packet. Returns 0 if there is none. */
int us_reply_output(struct us_stack *stack, struct us_pkt *pkt);

U_INLINE int us_reply_is_empty(const struct us_reply_queue *replies)
{
    return replies->head == replies->tail;
}

#endif
