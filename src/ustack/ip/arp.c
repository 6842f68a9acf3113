/* SPDX-License-Identifier: BSD-3-Clause */
/* ARP; see arp.h. */
#include "ustack/ip/arp.h"

#include "base/wire.h"
#include "ustack/core/instance.h"
#include "ustack/ip/eth.h"

enum { ARP_REQUEST = 1, ARP_REPLY = 2, ARP_HW_ETHERNET = 1 };

struct arp_packet {
    struct u_be16 hw_type;
    struct u_be16 proto_type;
    u_u8 hw_bytes;
    u_u8 proto_bytes;
    struct u_be16 operation;
    u_u8 sender_mac[6];
    struct u_be32 sender_ip;
    u_u8 target_mac[6];
    struct u_be32 target_ip;
};

enum { ARP_PACKET_BYTES = 28 };

U_STATIC_ASSERT(sizeof(struct arp_packet) == ARP_PACKET_BYTES, arp_packet_size);

static const u_u8 arp_no_mac[6] = {0, 0, 0, 0, 0, 0};

static int arp_is_well_formed(const struct arp_packet *arp)
{
    return u_get_be16(arp->hw_type) == ARP_HW_ETHERNET &&
           u_get_be16(arp->proto_type) == US_ETH_IP4 && arp->hw_bytes == 6 &&
           arp->proto_bytes == 4 && !(arp->sender_mac[0] & 1) &&
           (u_get_be16(arp->operation) == ARP_REQUEST || u_get_be16(arp->operation) == ARP_REPLY);
}

/* RFC 826: updates an existing entry; adds one only if the packet is for a local address. */
static void arp_merge(struct us_stack *stack, const struct arp_packet *arp, int for_us)
{
    struct us_ip ip = us_ip4(u_get_be32(arp->sender_ip));
    struct us_neighbour *neighbour = us_neighbour_find(stack, ip);

    if (neighbour != U_NULL)
        us_neighbour_confirm(stack, neighbour, arp->sender_mac);
    else if (for_us)
        us_neighbour_learn(stack, ip, arp->sender_mac, 0);
}

void us_arp_input(struct us_stack *stack, const u_u8 *data, u_u32 bytes)
{
    const struct arp_packet *arp = (const struct arp_packet *)data;
    struct us_reply *reply;
    struct us_rx rx;
    int for_us;

    if (bytes < ARP_PACKET_BYTES || !arp_is_well_formed(arp)) {
        us_count(stack, US_C_DROP_ARP_MALFORMED);
        return;
    }
    us_count(stack, US_C_ARP_RX);
    if (us_ip4_is_local(stack, u_get_be32(arp->sender_ip))) {
        us_count(stack, US_C_ARP_CONFLICTS); /* RFC 5227 2.4: another host claims a local address */
        return;
    }
    for_us = us_ip4_is_local(stack, u_get_be32(arp->target_ip));
    arp_merge(stack, arp, for_us);
    if (!for_us || u_get_be16(arp->operation) != ARP_REQUEST || stack->config.arp_passive)
        return;
    u_zero(&rx, sizeof(rx));
    rx.mac = arp->sender_mac;
    rx.src_ip = u_get_be32(arp->sender_ip);
    rx.dst_ip = u_get_be32(arp->target_ip);
    reply = us_reply_add(stack, &rx, US_REPLY_ARP);
    if (reply != U_NULL)
        us_count(stack, US_C_ARP_TX_REPLIES);
}

static void arp_build(struct us_stack *stack, struct us_pkt *pkt, const u_u8 *eth_dst,
                      unsigned operation, u_u32 sender_ip, const u_u8 *target_mac, u_u32 target_ip)
{
    struct arp_packet *arp = (struct arp_packet *)(pkt->data + stack->l2_bytes);

    us_eth_build(stack, pkt->data, eth_dst, US_ETH_ARP);
    arp->hw_type = u_be16(ARP_HW_ETHERNET);
    arp->proto_type = u_be16(US_ETH_IP4);
    arp->hw_bytes = 6;
    arp->proto_bytes = 4;
    arp->operation = u_be16(operation);
    u_copy(arp->sender_mac, stack->config.mac, 6);
    arp->sender_ip = u_be32(sender_ip);
    u_copy(arp->target_mac, target_mac, 6);
    arp->target_ip = u_be32(target_ip);
    pkt->len = stack->l2_bytes + ARP_PACKET_BYTES;
    pkt->flags = 0;
}

void us_arp_build_reply(struct us_stack *stack, struct us_pkt *pkt, u_u32 src_ip, u_u32 dst_ip,
                        const u_u8 *dst_mac)
{
    arp_build(stack, pkt, dst_mac, ARP_REPLY, src_ip, dst_mac, dst_ip);
}

void us_arp_build_request(struct us_stack *stack, struct us_pkt *pkt, u_u32 ip, const u_u8 *mac)
{
    struct us_route route;

    us_count(stack, US_C_ARP_TX_REQUESTS);
    if (!us_route_find(stack, us_ip4(ip), &route))
        route.src_ip = stack->locals[0].ip;
    arp_build(stack, pkt, mac != U_NULL ? mac : us_eth_broadcast, ARP_REQUEST, route.src_ip,
              arp_no_mac, ip);
}

/* RFC 5227 section 3: an announcement is a request for the local address itself. */
int us_arp_output(struct us_stack *stack, struct us_pkt *pkt)
{
    u_u32 ip;

    if (stack->announce == 0)
        return 0;
    ip = stack->locals[u_lowest_bit(stack->announce)].ip;
    stack->announce &= stack->announce - 1;
    arp_build(stack, pkt, us_eth_broadcast, ARP_REQUEST, ip, arp_no_mac, ip);
    return 1;
}
