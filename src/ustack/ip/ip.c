/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions for both IP families; see ip.h. */
#include "ustack/ip/ip.h"

#include "base/cksum.h"
#include "ustack/core/instance.h"
#include "ustack/ip/ip4.h"
#include "ustack/ip/ip6.h"

u_u32 us_ip_mtu(const struct us_stack *stack, int is_ip6)
{
    return is_ip6 ? stack->nd.mtu : stack->config.mtu;
}

u_u32 us_rx_pseudo_sum(const struct us_rx *rx, unsigned protocol, u_u32 l4_bytes)
{
    if (rx->src6 != U_NULL)
        return u_cksum_pseudo6(rx->src6->b, rx->dst6->b, protocol, l4_bytes);
    return u_cksum_pseudo4(u_be32(rx->src_ip), u_be32(rx->dst_ip), protocol, l4_bytes);
}

u_u32 us_ip_pseudo_sum(const struct us_stack *stack, u_u32 src_ip, struct us_ip dst,
                       unsigned protocol, u_u32 l4_bytes)
{
    if (dst.six != U_NULL)
        return u_cksum_pseudo6(stack->nd.locals[src_ip].addr.b, dst.six->b, protocol, l4_bytes);
    return u_cksum_pseudo4(u_be32(src_ip), u_be32(dst.id), protocol, l4_bytes);
}

u_u32 us_ip_build(const struct us_stack *stack, u_u8 *to, u_u32 src_ip, struct us_ip dst,
                  unsigned protocol)
{
    if (dst.six == U_NULL) {
        us_ip4_build(to, src_ip, dst.id, protocol);
        return US_IP4_HDR_BYTES;
    }
    us_ip6_build(to, &stack->nd.locals[src_ip].addr, dst.six, protocol, stack->nd.hop_limit);
    return US_IP6_HDR_BYTES;
}

void us_ip_finish(const struct us_stack *stack, struct us_pkt *pkt, u_u32 l4_bytes)
{
    const u_u8 *ip = pkt->data + stack->l2_bytes;

    if (ip[0] >> 4 == 4)
        us_ip4_finish(stack, pkt, US_IP4_HDR_BYTES + l4_bytes,
                      u_cksum_add(0, ip, US_IP4_HDR_BYTES));
    else
        us_ip6_finish(stack, pkt, l4_bytes);
}
