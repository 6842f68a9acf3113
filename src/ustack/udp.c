/* SPDX-License-Identifier: BSD-3-Clause */
/* UDP; see udp.h. */
#include "ustack/udp.h"

#include "base/cksum.h"
#include "ustack/ip4.h"
#include "ustack/stack.h"

/* Checks lengths and checksum. Returns the length of header and data, 0 if it was dropped. */
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
    /* RFC 768: a checksum of 0 says that the sender has made none. */
    if (u_get_be16(hdr->checksum) == 0 || (rx->flags & US_PKT_L4_CSUM_GOOD))
        return bytes;
    sum = u_cksum_pseudo4(u_be32(rx->src_ip), u_be32(rx->dst_ip), US_IP_UDP, bytes);
    if ((rx->flags & US_PKT_L4_CSUM_BAD) || u_cksum_fold(u_cksum_add(sum, rx->l4, bytes)) != 0) {
        us_count(stack, US_C_DROP_UDP_CHECKSUM);
        return 0;
    }
    return bytes;
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
        return;
    }
    us_count(stack, US_C_UDP_RX);
    event = us_event_add_datagram(&stack->events);
    us_addr_from_ip4(&event->info.local, rx->dst_ip);
    us_addr_from_ip4(&event->info.remote, rx->src_ip);
    event->info.local_port = u_get_be16(hdr->dst_port);
    event->info.remote_port = u_get_be16(hdr->src_port);
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

/* Where a datagram is to come from. Returns 0 or an error. */
static int udp_source(const struct us_stack *stack, const struct us_addr *local, u_u32 dst_ip,
                      u_u32 *src_ip)
{
    struct us_route route;

    if (local != U_NULL && (!us_addr_to_ip4(local, src_ip) || !us_local_is(stack, *src_ip)))
        return US_ERR_ARGUMENT;
    if (!us_route_find(stack, dst_ip, &route))
        return US_ERR_NO_ROUTE;
    if (local == U_NULL)
        *src_ip = route.src_ip;
    return US_OK;
}

/* The checksum to send: 0 would say that there is none (RFC 768). */
static struct u_be16 udp_checksum(u_u32 sum)
{
    u_u16 folded = u_cksum_fold(sum);

    return u_be16(folded == 0 ? 0xffffu : folded);
}

int us_udp_send(struct us_stack *stack, const struct us_addr *local, u_u16 local_port,
                const struct us_addr *remote, u_u16 remote_port, const void *data, u_u32 len)
{
    struct us_udp_hdr hdr;
    struct us_dgram *dgram;
    u_u32 src_ip = 0;
    u_u32 dst_ip;
    u_u32 sum;
    int error;

    if (local_port == 0 || remote_port == 0 || !us_addr_to_ip4(remote, &dst_ip) ||
        !us_ip_is_unicast(stack, dst_ip) || us_local_is(stack, dst_ip) ||
        len > stack->config.mtu - US_IP4_HDR_BYTES - US_UDP_HDR_BYTES)
        return US_ERR_ARGUMENT;
    error = udp_source(stack, local, dst_ip, &src_ip);
    if (error != US_OK)
        return error;
    hdr.src_port = u_be16(local_port);
    hdr.dst_port = u_be16(remote_port);
    hdr.bytes = u_be16(US_UDP_HDR_BYTES + len);
    hdr.checksum = u_be16(0);
    sum = u_cksum_pseudo4(u_be32(src_ip), u_be32(dst_ip), US_IP_UDP, US_UDP_HDR_BYTES + len);
    sum = u_cksum_add(sum, &hdr, US_UDP_HDR_BYTES);
    hdr.checksum = udp_checksum(u_cksum_add(sum, data, len));
    dgram = us_dgram_new(stack, src_ip, dst_ip, US_IP_UDP);
    if (dgram == U_NULL || !us_dgram_append(stack, dgram, &hdr, US_UDP_HDR_BYTES) ||
        !us_dgram_append(stack, dgram, data, len))
        return US_ERR_NO_MEMORY;
    us_dgram_queue(stack, dgram);
    us_count(stack, US_C_UDP_TX);
    return US_OK;
}
