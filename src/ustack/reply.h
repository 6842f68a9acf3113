/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames that answer a received frame and belong to no connection: ARP replies, neighbour
 * advertisements, RSTs and the ACKs of TIME-WAIT. They wait here for us_output() and go back to the
 * MAC address that the question came from, so none of them ever has to wait for ARP. The queue is
 * bounded; an answer that doesn't fit is dropped and counted, since the question will be asked
 * again.
 */
#ifndef USTACK_REPLY_H
#define USTACK_REPLY_H

#include "base/base.h"
#include "ustack/addr.h"

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
    u_u16 window; /* as it stands in the header */
    u_u8 flags;
    u_u8 has_ts;
    u_u8 has_scale;
    u_u8 scale;
    u_u8 sack_permitted;
    u_u16 mss; /* 0: no option */
};

struct us_reply {
    enum us_reply_kind kind;
    u_u8 mac[6]; /* where to */
    u_u8 is_ip6;
    u_u8 flags;              /* US_REPLY_ADVERT: of the message */
    u_u32 src_ip;            /* an address of ours */
    u_u32 dst_ip;            /* us_ip.id */
    struct us_ip6 dst6;      /* with is_ip6 */
    struct us_reply_tcp tcp; /* US_REPLY_TCP */
};

struct us_reply_queue {
    u_u32 head; /* counts what was taken */
    u_u32 tail; /* counts what was added */
    struct us_reply ring[US_REPLIES_MAX];
};

/*
 * Appends an answer to the frame that carried the given IP addresses and MAC, with the addresses
 * exchanged; the caller fills in the rest, of which all is 0. Null, and counted, if the queue is
 * full.
 */
struct us_reply *us_reply_add(struct us_stack *stack, const struct us_rx *rx,
                              enum us_reply_kind kind);

/* Builds the frame of the oldest answer into an empty packet. Returns 0 if there is none. */
int us_reply_output(struct us_stack *stack, struct us_pkt *pkt);

U_INLINE int us_reply_is_empty(const struct us_reply_queue *replies)
{
    return replies->head == replies->tail;
}

#endif
