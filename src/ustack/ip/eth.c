/* SPDX-License-Identifier: BSD-3-Clause */
/* Ethernet; see eth.h. */
#include "ustack/ip/eth.h"

#include "ustack/core/instance.h"
#include "ustack/ip/arp.h"
#include "ustack/ip/ip4.h"
#include "ustack/ip/ip6.h"

enum { VLAN_ID_MASK = 0x0fff };

const u_u8 us_eth_broadcast[6] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

/* Whether a multicast MAC address is that of a joined group (RFC 2464 section 7). */
static int eth_is_our_group(const struct us_stack *stack, const u_u8 *mac)
{
    static const u_u8 all_nodes[6] = {0x33, 0x33, 0, 0, 0, 1};
    static const u_u8 solicited[3] = {0x33, 0x33, 0xff};
    unsigned i;

    if (!stack->nd.enabled)
        return 0;
    if (u_equal(mac, all_nodes, sizeof(all_nodes)))
        return 1;
    if (!u_equal(mac, solicited, sizeof(solicited)))
        return 0;
    for (i = 0; i < US_LOCAL6_MAX; i++)
        if (stack->nd.locals[i].state != US_LOCAL6_FREE &&
            u_equal(mac + 3, stack->nd.locals[i].addr.b + 13, 3))
            return 1;
    return 0;
}

/* enum us_cast of a destination address; -1 if the frame is for other hosts. */
static int eth_cast(const struct us_stack *stack, const u_u8 *dst)
{
    if (U_LIKELY(u_equal(dst, stack->config.mac, sizeof(stack->config.mac))) ||
        stack->config.point_to_point)
        return US_CAST_UNICAST;
    if (u_equal(dst, us_eth_broadcast, sizeof(us_eth_broadcast)))
        return US_CAST_BROADCAST;
    return eth_is_our_group(stack, dst) ? US_CAST_MULTICAST : -1;
}

/*
 * Checks the VLAN tag: it must be config.vlan_id, where 0 stands for no tag or a priority tag of
 * VLAN 0 (IEEE 802.1Q 6.9). Returns the length of the header, or 0 if the frame was dropped.
 */
static u_u32 eth_check_tag(struct us_stack *stack, const struct us_pkt *pkt, unsigned *type)
{
    const struct us_eth_hdr *hdr = (const struct us_eth_hdr *)pkt->data;
    struct u_be16 tag[2];
    unsigned vlan_id = 0;
    u_u32 hdr_bytes = US_ETH_HDR_BYTES;

    *type = u_get_be16(hdr->type);
    if (*type == US_ETH_VLAN) {
        if (pkt->len < US_L2_HDR_MAX) {
            us_count(stack, US_C_DROP_ETH_MALFORMED);
            return 0;
        }
        u_copy(tag, pkt->data + US_ETH_HDR_BYTES, sizeof(tag));
        vlan_id = u_get_be16(tag[0]) & VLAN_ID_MASK;
        *type = u_get_be16(tag[1]);
        hdr_bytes = US_L2_HDR_MAX;
    }
    if (U_UNLIKELY(vlan_id != stack->config.vlan_id)) {
        us_count(stack, US_C_DROP_ETH_VLAN);
        return 0;
    }
    return hdr_bytes;
}

void us_eth_input(struct us_stack *stack, const struct us_pkt *pkt)
{
    const struct us_eth_hdr *hdr = (const struct us_eth_hdr *)pkt->data;
    struct us_rx rx;
    unsigned type;
    u_u32 hdr_bytes;
    int cast;

    if (pkt->next_seg != U_NULL) {
        us_count(stack, US_C_DROP_ETH_CHAINED); /* the stack does not use US_CAP_RX_SG */
        return;
    }
    if (pkt->len < US_ETH_HDR_BYTES || (hdr->src[0] & 1)) {
        us_count(stack, US_C_DROP_ETH_MALFORMED);
        return;
    }
    hdr_bytes = eth_check_tag(stack, pkt, &type);
    if (hdr_bytes == 0)
        return;
    cast = eth_cast(stack, hdr->dst);
    if (cast < 0) {
        us_count(stack, US_C_DROP_ETH_ADDRESS);
        return;
    }
    rx.mac = hdr->src;
    rx.l3 = pkt->data + hdr_bytes;
    rx.l3_bytes = pkt->len - hdr_bytes;
    rx.flags = pkt->flags;
    rx.cast = (u_u8)cast;
    rx.is_reassembled = 0;
    switch (type) {
    case US_ETH_IP4:
        us_ip4_input(stack, &rx);
        break;
    case US_ETH_IP6:
        us_ip6_input(stack, &rx);
        break;
    case US_ETH_ARP:
        us_arp_input(stack, rx.l3, rx.l3_bytes);
        break;
    default:
        us_count(stack, US_C_DROP_ETH_TYPE);
        break;
    }
}

void us_eth_build(const struct us_stack *stack, u_u8 *frame, const u_u8 *dst, unsigned type)
{
    struct us_eth_hdr *hdr = (struct us_eth_hdr *)frame;
    struct u_be16 tag[2];

    u_copy(hdr->dst, dst, sizeof(hdr->dst));
    u_copy(hdr->src, stack->config.mac, sizeof(hdr->src));
    hdr->type = u_be16(type);
    if (stack->config.vlan_id != 0) {
        hdr->type = u_be16(US_ETH_VLAN);
        tag[0] = u_be16(stack->config.vlan_id);
        tag[1] = u_be16(type);
        u_copy(frame + US_ETH_HDR_BYTES, tag, sizeof(tag));
    }
}

void us_eth_multicast_mac(u_u8 *mac, const struct us_ip6 *group)
{
    mac[0] = 0x33;
    mac[1] = 0x33;
    u_copy(mac + 2, group->b + 12, 4);
}
