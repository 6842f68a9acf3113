/* SPDX-License-Identifier: BSD-3-Clause */
/* ICMP; see icmp4.h. */
#include "ustack/icmp4.h"

#include "base/cksum.h"
#include "ustack/eth.h"
#include "ustack/ip4.h"
#include "ustack/stack.h"

enum { ICMP_ECHO_REPLY = 0, ICMP_UNREACHABLE = 3, ICMP_ECHO = 8, ICMP_TIME_EXCEEDED = 11 };

enum { ICMP_HDR_BYTES = 8, ICMP_CSUM_OFFSET = 2 };

/* Keeps the message until us_output(): exactly the bytes received, so nothing else can leak. */
static void icmp_echo(struct us_stack *stack, const struct us_rx *rx)
{
    struct us_reply *reply;
    struct us_chunk *block;

    us_count(stack, US_C_ICMP_RX_ECHO);
    if (rx->l4_bytes > US_BLOCK_ROOM || rx->l4_bytes + US_IP4_HDR_BYTES > stack->config.mtu) {
        us_count(stack, US_C_DROP_ICMP_LARGE);
        return;
    }
    block = us_block_get(stack, 0);
    if (block == U_NULL)
        return;
    reply = us_reply_add(stack, rx, US_REPLY_ECHO);
    if (reply == U_NULL) {
        us_block_put(stack, block);
        return;
    }
    us_chunk_append(block, rx->l4, rx->l4_bytes);
    reply->echo = block;
}

void us_icmp4_input(struct us_stack *stack, const struct us_rx *rx)
{
    if (rx->l4_bytes < ICMP_HDR_BYTES) {
        us_count(stack, US_C_DROP_ICMP_MALFORMED);
        return;
    }
    if (u_cksum_fold(u_cksum_add(0, rx->l4, rx->l4_bytes)) != 0) {
        us_count(stack, US_C_DROP_ICMP_CHECKSUM);
        return;
    }
    switch (rx->l4[0]) {
    case ICMP_ECHO:
        icmp_echo(stack, rx);
        break;
    case ICMP_UNREACHABLE:
    case ICMP_TIME_EXCEEDED:
        us_count(stack, US_C_ICMP_RX_ERRORS);
        break;
    default:
        us_count(stack, US_C_DROP_ICMP_TYPE);
        break;
    }
}

void us_icmp4_build_echo(struct us_stack *stack, struct us_pkt *pkt, struct us_reply *reply)
{
    u_u8 *ip = pkt->data + US_ETH_HDR_BYTES;
    u_u8 *icmp = ip + US_IP4_HDR_BYTES;
    u_u32 bytes = reply->echo->len;
    struct u_be16 sum = u_be16(0);

    us_eth_build(stack, pkt->data, reply->mac, US_ETH_IP4);
    us_ip4_build(ip, reply->src_ip, reply->dst_ip, US_IP_ICMP);
    u_copy(icmp, reply->echo->data, bytes);
    icmp[0] = ICMP_ECHO_REPLY;
    u_copy(icmp + ICMP_CSUM_OFFSET, &sum, sizeof(sum));
    sum = u_be16(u_cksum_fold(u_cksum_add(0, icmp, bytes)));
    u_copy(icmp + ICMP_CSUM_OFFSET, &sum, sizeof(sum));
    pkt->flags = 0;
    us_ip4_finish(stack, pkt, US_IP4_HDR_BYTES + bytes, u_cksum_add(0, ip, US_IP4_HDR_BYTES));
    us_block_put(stack, reply->echo);
    us_count(stack, US_C_ICMP_TX_ECHO);
}
