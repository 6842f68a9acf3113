/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of neighbour discovery; see nd.h. */
#include "ustack/ip/nd.h"

#include "base/cksum.h"
#include "ustack/core/instance.h"
#include "ustack/ip/icmp.h"
#include "ustack/ip/icmp6.h"
#include "ustack/ip/ip6.h"

enum { OPT_MAC_BYTES = 8 };

enum { FLAG_ROUTER = 0x80, FLAG_SOLICITED = 0x40, FLAG_OVERRIDE = 0x20 };

/* A solicitation or an advertisement, without options (RFC 4861 4.3, 4.4). */
struct nd_message {
    u_u8 type;
    u_u8 code;
    struct u_be16 checksum;
    u_u8 flags; /* advertisements only */
    u_u8 reserved[3];
    struct us_ip6 target;
};

/* A router solicitation is the same without a target (4.1). */
enum { ND_MESSAGE_BYTES = 24, ROUTER_SOLICIT_BYTES = 8 };

U_STATIC_ASSERT(sizeof(struct nd_message) == ND_MESSAGE_BYTES, nd_message_size);

/* ---- parsing ---- */

int us_nd_find_mac(const struct us_rx *rx, u_u32 at, unsigned type, const u_u8 **mac)
{
    *mac = (const u_u8 *)U_NULL;
    while (at < rx->l4_bytes) {
        const u_u8 *opt = rx->l4 + at;
        u_u32 bytes;

        if (rx->l4_bytes - at < 8 || opt[1] == 0)
            return 0;
        bytes = (u_u32)opt[1] << 3;
        if (bytes > rx->l4_bytes - at)
            return 0;
        if (opt[0] == type && bytes == OPT_MAC_BYTES && *mac == U_NULL && !(opt[2] & 1))
            *mac = opt + 2;
        at += bytes;
    }
    return 1;
}

/* RFC 4861 7.1.1 and 7.1.2: the common requirements; counts messages that violate them. */
static int nd_check(struct us_stack *stack, const struct us_rx *rx, unsigned mac_type,
                    const u_u8 **mac)
{
    const struct nd_message *msg = (const struct nd_message *)rx->l4;

    if (rx->hop_limit == US_ND_HOP_LIMIT && rx->l4_bytes >= ND_MESSAGE_BYTES && msg->code == 0 &&
        !us_ip6_is_multicast(&msg->target) && us_nd_find_mac(rx, ND_MESSAGE_BYTES, mac_type, mac)) {
        us_count(stack, US_C_ND_RX);
        return 1;
    }
    us_count(stack, US_C_DROP_ND_MALFORMED);
    return 0;
}

/* ---- solicitations ---- */

void us_nd_learn_mac(struct us_stack *stack, struct us_ip ip, const u_u8 *mac)
{
    struct us_neighbour *neighbour = us_neighbour_find(stack, ip);

    if (neighbour == U_NULL)
        us_neighbour_learn(stack, ip, mac, 0);
    else if (neighbour->state == US_NEIGHBOUR_INCOMPLETE || !u_equal(neighbour->l2, mac, 6))
        us_neighbour_change(stack, neighbour, mac);
}

void us_nd_solicit_input(struct us_stack *stack, const struct us_rx *rx)
{
    const struct nd_message *msg = (const struct nd_message *)rx->l4;
    int from_unspecified = us_ip6_equal(rx->src6, &us_ip6_any);
    struct us_reply *reply;
    const u_u8 *mac;
    u_u32 index;

    if (!nd_check(stack, rx, US_ND_OPT_SOURCE_MAC, &mac))
        return;
    if (from_unspecified && (mac != U_NULL || rx->cast != US_CAST_MULTICAST)) {
        us_count(stack, US_C_DROP_ND_MALFORMED);
        return;
    }
    index = us_local6_find(stack, &msg->target);
    if (index == US_LOCAL6_MAX)
        return;
    if (from_unspecified && stack->nd.locals[index].state == US_LOCAL6_TENTATIVE)
        us_nd_duplicate(stack, index); /* RFC 4862 5.4.3 */
    if (!us_local6_is_usable(&stack->nd.locals[index]))
        return;
    if (mac != U_NULL)
        us_nd_learn_mac(stack, us_rx_source(rx), mac);
    if (stack->config.arp_passive)
        return;
    reply = us_reply_add(stack, rx, US_REPLY_ADVERT);
    if (reply == U_NULL)
        return;
    reply->src_ip = index;
    reply->flags = FLAG_SOLICITED | FLAG_OVERRIDE;
    if (from_unspecified) { /* RFC 4861 7.2.4: duplicate detection is answered to all nodes */
        reply->dst6 = us_ip6_all_nodes;
        us_eth_multicast_mac(reply->mac, &us_ip6_all_nodes);
        reply->flags = FLAG_OVERRIDE;
    }
}

/* ---- advertisements ---- */

/* RFC 4861 7.2.5. Returns 0 if the entry takes nothing from the advertisement. */
static int advert_update(struct us_stack *stack, struct us_neighbour *neighbour, const u_u8 *mac,
                         unsigned flags)
{
    int incomplete = neighbour->state == US_NEIGHBOUR_INCOMPLETE;
    int same = !incomplete && (mac == U_NULL || u_equal(neighbour->l2, mac, 6));

    if (incomplete && mac == U_NULL)
        return 0;
    if (!incomplete && !same && !(flags & FLAG_OVERRIDE)) {
        us_neighbour_suspect(stack, neighbour);
        return 0;
    }
    if (flags & FLAG_SOLICITED)
        us_neighbour_confirm(stack, neighbour, mac != U_NULL ? mac : neighbour->l2);
    else if (!same)
        us_neighbour_change(stack, neighbour, mac);
    return 1;
}

void us_nd_advert_input(struct us_stack *stack, const struct us_rx *rx)
{
    const struct nd_message *msg = (const struct nd_message *)rx->l4;
    struct us_neighbour *neighbour;
    const u_u8 *mac;
    u_u32 index;

    if (!nd_check(stack, rx, US_ND_OPT_TARGET_MAC, &mac))
        return;
    if ((msg->flags & FLAG_SOLICITED) && rx->cast != US_CAST_UNICAST) {
        us_count(stack, US_C_DROP_ND_MALFORMED);
        return;
    }
    index = us_local6_find(stack, &msg->target);
    if (index < US_LOCAL6_MAX) {
        us_count(stack, US_C_ND_CONFLICTS);
        if (stack->nd.locals[index].state == US_LOCAL6_TENTATIVE)
            us_nd_duplicate(stack, index); /* RFC 4862 5.4.4 */
        return;
    }
    neighbour = us_neighbour_find(stack, us_ip6(stack, &msg->target));
    if (neighbour == U_NULL)
        return;
    if (advert_update(stack, neighbour, mac, msg->flags) && !(msg->flags & FLAG_ROUTER))
        us_nd_router_gone(stack, &msg->target);
}

/* ---- building ---- */

/* Builds a message; mac_type: the type of an option with config.mac, or 0. */
static void nd_build(struct us_stack *stack, struct us_pkt *pkt, const u_u8 *dst_mac,
                     const struct us_ip6 *src, const struct us_ip6 *dst,
                     const struct nd_message *msg, unsigned mac_type)
{
    u_u8 *ip = pkt->data + stack->l2_bytes;
    u_u8 *icmp = ip + US_IP6_HDR_BYTES;
    u_u32 bytes = msg->type == US_ICMP6_ROUTER_SOLICIT ? (u_u32)ROUTER_SOLICIT_BYTES
                                                       : (u_u32)ND_MESSAGE_BYTES;

    us_eth_build(stack, pkt->data, dst_mac, US_ETH_IP6);
    us_ip6_build(ip, src, dst, US_IP_ICMP6, US_ND_HOP_LIMIT);
    u_copy(icmp, msg, sizeof(*msg));
    if (mac_type != 0) {
        icmp[bytes] = (u_u8)mac_type;
        icmp[bytes + 1] = OPT_MAC_BYTES / 8;
        u_copy(icmp + bytes + 2, stack->config.mac, 6);
        bytes += OPT_MAC_BYTES;
    }
    us_nd_finish(stack, pkt, 0, bytes);
}

void us_nd_finish(struct us_stack *stack, struct us_pkt *pkt, u_u32 ext_bytes, u_u32 bytes)
{
    const struct us_ip6_hdr *ip = (const struct us_ip6_hdr *)(pkt->data + stack->l2_bytes);
    u_u8 *icmp = pkt->data + stack->l2_bytes + US_IP6_HDR_BYTES + ext_bytes;
    u_u32 sum = u_cksum_pseudo6(ip->src.b, ip->dst.b, US_IP_ICMP6, bytes);
    struct u_be16 field = u_be16(u_cksum_finish(u_cksum_add(sum, icmp, bytes)));

    u_copy(icmp + US_ICMP_CSUM_OFFSET, &field, sizeof(field));
    pkt->flags = 0;
    us_ip6_finish(stack, pkt, ext_bytes + bytes);
    us_count(stack, US_C_ND_TX);
}

static void nd_message_init(struct nd_message *msg, unsigned type, unsigned flags,
                            const struct us_ip6 *target)
{
    u_zero(msg, sizeof(*msg));
    msg->type = (u_u8)type;
    msg->flags = (u_u8)flags;
    msg->target = *target;
}

void us_nd_build_solicit(struct us_stack *stack, struct us_pkt *pkt, const struct us_ip6 *target,
                         const u_u8 *mac)
{
    struct us_ip6 group = us_ip6_solicited_node(target);
    struct nd_message msg;
    struct us_route route;
    u_u8 group_mac[6];

    us_eth_multicast_mac(group_mac, &group);
    nd_message_init(&msg, US_ICMP6_NEIGHBOUR_SOLICIT, 0, target);
    if (!us_route_find(stack, us_ip6(stack, target), &route)) {
        /* No local address is left: sent from ::, like a probe. */
        nd_build(stack, pkt, group_mac, &us_ip6_any, &group, &msg, 0);
        return;
    }
    nd_build(stack, pkt, mac != U_NULL ? mac : group_mac, &stack->nd.locals[route.src_ip].addr,
             mac != U_NULL ? target : &group, &msg, US_ND_OPT_SOURCE_MAC);
}

void us_nd_build_reply(struct us_stack *stack, struct us_pkt *pkt, const struct us_reply *reply)
{
    const struct us_ip6 *local = &stack->nd.locals[reply->src_ip].addr;
    struct nd_message msg;

    nd_message_init(&msg, US_ICMP6_NEIGHBOUR_ADVERT, reply->flags, local);
    nd_build(stack, pkt, reply->mac, local, &reply->dst6, &msg, US_ND_OPT_TARGET_MAC);
}

/* Removes the lowest bit of a set that is not empty and returns its number. */
static unsigned take_bit(u_u32 *set)
{
    unsigned i = u_lowest_bit(*set);

    *set &= *set - 1;
    return i;
}

/* RFC 4861 6.3.7: a router solicitation. */
static void nd_solicit_routers(struct us_stack *stack, struct us_pkt *pkt)
{
    static const struct us_ip6 all_routers = {{0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};
    const struct us_ip6 *src = us_nd_link_local_source(stack);
    struct nd_message msg;
    u_u8 mac[6];

    stack->nd.solicit_due = 0;
    us_eth_multicast_mac(mac, &all_routers);
    nd_message_init(&msg, US_ICMP6_ROUTER_SOLICIT, 0, &us_ip6_any);
    nd_build(stack, pkt, mac, src, &all_routers, &msg,
             us_ip6_equal(src, &us_ip6_any) ? 0 : (unsigned)US_ND_OPT_SOURCE_MAC);
}

int us_nd_output(struct us_stack *stack, struct us_pkt *pkt)
{
    struct us_nd *nd = &stack->nd;
    struct nd_message msg;
    u_u8 mac[6];

    if (U_LIKELY(!us_nd_has_output(nd)))
        return 0;
    if (us_mld_output(stack, pkt))
        return 1;
    if (nd->solicit_due) {
        nd_solicit_routers(stack, pkt);
        return 1;
    }
    if (nd->probes_due != 0) { /* RFC 4862 5.4.2 */
        const struct us_ip6 *addr = &nd->locals[take_bit(&nd->probes_due)].addr;
        struct us_ip6 group = us_ip6_solicited_node(addr);
        us_eth_multicast_mac(mac, &group);
        nd_message_init(&msg, US_ICMP6_NEIGHBOUR_SOLICIT, 0, addr);
        nd_build(stack, pkt, mac, &us_ip6_any, &group, &msg, 0);
        return 1;
    }
    if (nd->adverts_due != 0) { /* RFC 4861 7.2.6 */
        const struct us_ip6 *addr = &nd->locals[take_bit(&nd->adverts_due)].addr;
        us_eth_multicast_mac(mac, &us_ip6_all_nodes);
        nd_message_init(&msg, US_ICMP6_NEIGHBOUR_ADVERT, FLAG_OVERRIDE, addr);
        nd_build(stack, pkt, mac, addr, &us_ip6_all_nodes, &msg, US_ND_OPT_TARGET_MAC);
        return 1;
    }
    return 0;
}
