/* SPDX-License-Identifier: BSD-3-Clause */
/* UDP; see udp.h. */
#include "ustack/ip/udp_datagram.h"

#include "base/cksum.h"
#include "ustack/core/instance.h"
#include "ustack/ip/icmp.h"
#include "ustack/ip/ip4.h"
#include "ustack/ip/ip6.h"

/* Checks lengths and checksum. Returns the length of header and data, or 0 if dropped. */
static u_u32 udp_check(struct us_stack *stack, const struct us_rx *rx)
{
    const struct us_udp_hdr *hdr = (const struct us_udp_hdr *)rx->l4;
    u_u32 bytes;
    u_u32 sum;

    if (rx->l4_bytes < US_UDP_HDR_BYTES || u_get_be16(hdr->bytes) < US_UDP_HDR_BYTES ||
        u_get_be16(hdr->bytes) > rx->l4_bytes || u_get_be16(hdr->dst_port) == 0) {
        us_count(stack, US_C_DROP_UDP_HEADER);
        return 0;
    }
    bytes = u_get_be16(hdr->bytes);
    /* RFC 768: 0 stands for no checksum. RFC 8200 8.1: invalid over IPv6. */
    if (u_get_be16(hdr->checksum) == 0) {
        if (rx->src6 == U_NULL)
            return bytes;
        us_count(stack, US_C_DROP_UDP_CHECKSUM);
        return 0;
    }
    if (rx->flags & US_PKT_L4_CSUM_GOOD)
        return bytes;
    sum = us_rx_pseudo_sum(rx, US_IP_UDP, bytes);
    if ((rx->flags & US_PKT_L4_CSUM_BAD) || u_cksum_finish(u_cksum_add(sum, rx->l4, bytes)) != 0) {
        us_count(stack, US_C_DROP_UDP_CHECKSUM);
        return 0;
    }
    return bytes;
}

/* The local address of a datagram; for a broadcast, the source address of a reply. */
static u_u32 udp_local(const struct us_stack *stack, const struct us_rx *rx)
{
    struct us_route route;

    if (rx->cast != US_CAST_UNICAST && us_route_find(stack, us_rx_source(rx), &route))
        return route.src_ip;
    return rx->dst_ip;
}

void us_udp_input(struct us_stack *stack, const struct us_rx *rx)
{
    const struct us_udp_hdr *hdr = (const struct us_udp_hdr *)rx->l4;
    const struct us_listener *bound;
    struct us_datagram_event *event;
    u_u32 bytes = udp_check(stack, rx);

    if (bytes == 0)
        return;
    bound = us_port_find(&stack->udp_ports, u_get_be16(hdr->dst_port));
    if (bound == U_NULL) {
        us_count(stack, US_C_DROP_UDP_NO_PORT);
        if (rx->src6 != U_NULL)
            us_icmp_error(stack, rx, US_ICMP6_UNREACHABLE, US_ICMP6_PORT, 0);
        else
            us_icmp_error(stack, rx, US_ICMP4_UNREACHABLE, US_ICMP4_PORT, 0);
        return;
    }
    us_count(stack, US_C_UDP_RX);
    if (stack->config.reply_to_source_mac)
        us_neighbour_learn(stack, us_rx_source(rx), rx->mac, 0);
    event = us_event_add_datagram(&stack->events);
    us_addr_from_local(stack, &event->info.local, udp_local(stack, rx));
    us_addr_from_ip(&event->info.remote, us_rx_source(rx));
    event->info.local_port = u_get_be16(hdr->dst_port);
    event->info.remote_port = u_get_be16(hdr->src_port);
    u_copy(event->info.mac, rx->mac, sizeof(event->info.mac));
    event->user = bound->user;
    event->data = rx->l4 + US_UDP_HDR_BYTES;
    event->len = bytes - US_UDP_HDR_BYTES;
}

int us_udp_bind(struct us_stack *stack, u_u16 port, void *user)
{
    return us_port_add(&stack->udp_ports, port, user);
}

int us_udp_unbind(struct us_stack *stack, u_u16 port)
{
    return us_port_remove(&stack->udp_ports, port);
}

/*
 * Checks the addresses of a datagram to send: `local` is a usable local address or null (the route
 * decides), `remote` a host address that is not local. Returns 0 or US_ERR_ARGUMENT.
 */
static int udp_check_addrs(const struct us_stack *stack, const struct us_addr *local,
                           const struct us_addr *remote, u_u32 *src_ip, struct us_ip *dst)
{
    struct us_ip src;

    if (!us_addr_to_ip(stack, remote, dst) || !us_ip_is_unicast(stack, *dst) ||
        us_ip_is_local(stack, *dst))
        return US_ERR_ARGUMENT;
    if (local != U_NULL &&
        (!us_addr_to_ip(stack, local, &src) || (src.six == U_NULL) != (dst->six == U_NULL) ||
         !us_local_id(stack, src, src_ip)))
        return US_ERR_ARGUMENT;
    return US_OK;
}

/* The most data that fits into one packet. */
static u_u32 udp_data_max(const struct us_stack *stack, struct us_ip dst)
{
    u_u32 hdr_bytes = dst.six != U_NULL ? (u_u32)US_IP6_HDR_BYTES : (u_u32)US_IP4_HDR_BYTES;

    return us_ip_mtu(stack, dst.six != U_NULL) - hdr_bytes - US_UDP_HDR_BYTES;
}

/* Queues a datagram to a MAC address, or (null) to the next hop of the route. */
static int udp_queue(struct us_stack *stack, u_u32 src_ip, u_u16 src_port, struct us_ip dst,
                     u_u16 dst_port, const u_u8 *mac, const void *data, u_u32 len)
{
    struct us_udp_hdr hdr;
    struct us_dgram *dgram;

    if (src_port == 0 || dst_port == 0 || len > udp_data_max(stack, dst))
        return US_ERR_ARGUMENT;
    hdr.src_port = u_be16(src_port);
    hdr.dst_port = u_be16(dst_port);
    hdr.bytes = u_be16(US_UDP_HDR_BYTES + len);
    hdr.checksum = u_be16(0);
    dgram = us_dgram_new(stack, src_ip, dst, US_IP_UDP);
    if (dgram == U_NULL || !us_dgram_append(stack, dgram, &hdr, US_UDP_HDR_BYTES) ||
        !us_dgram_append(stack, dgram, data, len))
        return US_ERR_NO_MEMORY;
    if (mac != U_NULL)
        us_dgram_set_l2(stack, dgram, mac);
    us_dgram_checksum(stack, dgram, US_UDP_CSUM_OFFSET);
    us_dgram_queue(stack, dgram);
    us_count(stack, US_C_UDP_TX);
    return US_OK;
}

int us_udp_send(struct us_stack *stack, const struct us_addr *local, u_u16 local_port,
                const struct us_addr *remote, u_u16 remote_port, const void *data, u_u32 len)
{
    struct us_route route;
    struct us_ip dst;
    u_u32 src_ip = 0;

    if (udp_check_addrs(stack, local, remote, &src_ip, &dst) != US_OK)
        return US_ERR_ARGUMENT;
    if (!us_route_find(stack, dst, &route))
        return US_ERR_NO_ROUTE;
    return udp_queue(stack, local != U_NULL ? src_ip : route.src_ip, local_port, dst, remote_port,
                     (const u_u8 *)U_NULL, data, len);
}

int us_udp_reply(struct us_stack *stack, const struct us_datagram *request, const void *data,
                 u_u32 len)
{
    struct us_ip dst;
    u_u32 src_ip = 0;

    if (udp_check_addrs(stack, &request->local, &request->remote, &src_ip, &dst) != US_OK)
        return US_ERR_ARGUMENT;
    return udp_queue(stack, src_ip, request->local_port, dst, request->remote_port, request->mac,
                     data, len);
}
