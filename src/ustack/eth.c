/* SPDX-License-Identifier: BSD-3-Clause */
/* Ethernet; see eth.h. */
#include "ustack/eth.h"

#include "ustack/arp.h"
#include "ustack/ip4.h"
#include "ustack/stack.h"

const u_u8 us_eth_broadcast[6] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

void us_eth_input(struct us_stack *stack, const struct us_pkt *pkt)
{
    const struct us_eth_hdr *hdr = (const struct us_eth_hdr *)pkt->data;
    const u_u8 *payload = pkt->data + US_ETH_HDR_BYTES;
    int to_us;

    us_count(stack, US_C_RX_FRAMES);
    us_count_add(stack, US_C_RX_BYTES, pkt->len);
    if (pkt->next_seg != U_NULL) {
        us_count(stack, US_C_DROP_ETH_CHAINED); /* US_CAP_RX_SG was not asked for */
        return;
    }
    if (pkt->len < US_ETH_HDR_BYTES || (hdr->src[0] & 1)) {
        us_count(stack, US_C_DROP_ETH_MALFORMED);
        return;
    }
    to_us = u_equal(hdr->dst, stack->config.mac, sizeof(hdr->dst));
    if (!to_us && !u_equal(hdr->dst, us_eth_broadcast, sizeof(hdr->dst))) {
        us_count(stack, US_C_DROP_ETH_ADDRESS);
        return;
    }
    switch (u_get_be16(hdr->type)) {
    case US_ETH_IP4:
        /* RFC 1122 3.3.6: an IP packet in a link-layer broadcast is for none of our services. */
        if (to_us)
            us_ip4_input(stack, hdr->src, payload, pkt->len - US_ETH_HDR_BYTES, pkt->flags);
        else
            us_count(stack, US_C_DROP_ETH_ADDRESS);
        break;
    case US_ETH_ARP:
        us_arp_input(stack, payload, pkt->len - US_ETH_HDR_BYTES);
        break;
    default:
        us_count(stack, US_C_DROP_ETH_TYPE);
        break;
    }
}

void us_eth_build(const struct us_stack *stack, u_u8 *frame, const u_u8 *dst, unsigned type)
{
    struct us_eth_hdr *hdr = (struct us_eth_hdr *)frame;

    u_copy(hdr->dst, dst, sizeof(hdr->dst));
    u_copy(hdr->src, stack->config.mac, sizeof(hdr->src));
    hdr->type = u_be16(type);
}
