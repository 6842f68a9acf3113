/* SPDX-License-Identifier: BSD-3-Clause */
/* The queue of replies; see reply_queue.h. */
#include "ustack/ip/reply_queue.h"

#include "ustack/core/instance.h"
#include "ustack/ip/arp.h"
#include "ustack/tcp/tcp.h"

struct us_reply *us_reply_add(struct us_stack *stack, const struct us_rx *rx,
                              enum us_reply_kind kind)
{
    struct us_reply_queue *replies = &stack->replies;
    struct us_reply *reply;

    if (replies->tail - replies->head == US_REPLIES_MAX) {
        us_count(stack, US_C_DROP_REPLY_QUEUE);
        return (struct us_reply *)U_NULL;
    }
    reply = &replies->ring[replies->tail % US_REPLIES_MAX];
    replies->tail++;
    reply->kind = kind;
    u_copy(reply->mac, rx->mac, sizeof(reply->mac));
    reply->src_ip = rx->dst_ip;
    reply->dst_ip = rx->src_ip;
    reply->is_ip6 = rx->src6 != U_NULL;
    if (reply->is_ip6)
        reply->dst6 = *rx->src6;
    u_zero(&reply->tcp, sizeof(reply->tcp));
    return reply;
}

int us_reply_output(struct us_stack *stack, struct us_pkt *pkt)
{
    struct us_reply_queue *replies = &stack->replies;
    struct us_reply *reply;

    if (us_reply_is_empty(replies))
        return 0;
    reply = &replies->ring[replies->head % US_REPLIES_MAX];
    replies->head++;
    switch (reply->kind) {
    case US_REPLY_ARP:
        us_arp_build_reply(stack, pkt, reply->src_ip, reply->dst_ip, reply->mac);
        break;
    case US_REPLY_ADVERT:
        us_nd_build_reply(stack, pkt, reply);
        break;
    case US_REPLY_TCP:
        us_tcp_build_reply(stack, pkt, reply);
        break;
    }
    return 1;
}
