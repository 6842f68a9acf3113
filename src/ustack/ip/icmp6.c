/* SPDX-License-Identifier: BSD-3-Clause */
/* ICMP over IPv6; see icmp6.h. */
#include "ustack/ip/icmp6.h"

#include "base/cksum.h"
#include "ustack/core/instance.h"
#include "ustack/ip/icmp.h"
#include "ustack/ip/ip6.h"
#include "ustack/tcp/tcp.h"

/* Bytes of the quoted TCP header that are read. */
enum { QUOTE_BYTES = 8 };

/* The meaning of an error for a connection; sets *mtu with US_ICMP_TOO_BIG. */
static enum us_icmp_error icmp6_error_kind(const struct us_rx *rx, u_u32 *mtu)
{
    unsigned code = rx->l4[1];
    struct u_be32 word;

    switch (rx->l4[0]) {
    case US_ICMP6_TOO_BIG:
        u_copy(&word, rx->l4 + 4, sizeof(word));
        *mtu = u_get_be32(word);
        return US_ICMP_TOO_BIG;
    case US_ICMP6_UNREACHABLE: /* RFC 4443 3.1: prohibited or port unreachable */
        return code == 1 || code == US_ICMP6_PORT ? US_ICMP_HARD : US_ICMP_SOFT;
    case US_ICMP6_PROBLEM:
        return code == US_ICMP6_PROBLEM_NEXT ? US_ICMP_HARD : US_ICMP_SOFT;
    default:
        return US_ICMP_SOFT;
    }
}

/* Passes an error to TCP if it quotes the beginning of a TCP segment. */
static void icmp6_error(struct us_stack *stack, const struct us_rx *rx)
{
    const struct us_ip6_hdr *ip = (const struct us_ip6_hdr *)(rx->l4 + US_ICMP_HDR_BYTES);
    const struct us_tcp_hdr *tcp = (const struct us_tcp_hdr *)(ip + 1);
    struct us_tcp_key key;
    enum us_icmp_error kind;
    u_u32 mtu = 0;

    us_count(stack, US_C_ICMP_RX_ERRORS);
    if (rx->l4_bytes < US_ICMP_HDR_BYTES + US_IP6_HDR_BYTES + QUOTE_BYTES ||
        ip->first.b[0] >> 4 != 6 || ip->next != US_IP_TCP) {
        us_count(stack, US_C_DROP_ICMP_QUOTE);
        return;
    }
    key.local_ip = us_local6_find(stack, &ip->src);
    key.remote_ip = us_ip6_id(stack, &ip->dst);
    key.local_port = u_get_be16(tcp->src_port);
    key.remote_port = u_get_be16(tcp->dst_port);
    kind = icmp6_error_kind(rx, &mtu);
    if (kind == US_ICMP_TOO_BIG && mtu < US_IP6_MTU_MIN) { /* RFC 8201 section 4 */
        us_count(stack, US_C_DROP_ICMP_MALFORMED);
        return;
    }
    us_tcp_icmp_error(stack, &key, &ip->dst, u_get_be32(tcp->seq), kind, mtu);
}

/* Messages that need neither a source nor a usable local address. */
static void icmp6_group_input(struct us_stack *stack, const struct us_rx *rx)
{
    switch (rx->l4[0]) {
    case US_ICMP6_NEIGHBOUR_SOLICIT:
        us_nd_solicit_input(stack, rx);
        break;
    case US_ICMP6_NEIGHBOUR_ADVERT:
        us_nd_advert_input(stack, rx);
        break;
    case US_ICMP6_ROUTER_ADVERT:
        us_nd_router_input(stack, rx);
        break;
    case US_ICMP6_MLD_QUERY:
        us_mld_query_input(stack, rx);
        break;
    default: /* includes redirects: routes come from the configuration and router advertisements */
        us_count(stack, US_C_DROP_ICMP_TYPE);
        break;
    }
}

void us_icmp6_input(struct us_stack *stack, const struct us_rx *rx, int for_protocols)
{
    if (rx->l4_bytes < US_ICMP_HDR_BYTES) {
        us_count(stack, US_C_DROP_ICMP_MALFORMED);
        return;
    }
    if (u_cksum_finish(u_cksum_add(us_rx_pseudo_sum(rx, US_IP_ICMP6, rx->l4_bytes), rx->l4,
                                   rx->l4_bytes)) != 0) {
        us_count(stack, US_C_DROP_ICMP_CHECKSUM);
        return;
    }
    switch (rx->l4[0]) {
    case US_ICMP6_ECHO: /* RFC 4443 4.2: a request to a multicast group is answered */
        if (us_ip6_equal(rx->src6, &us_ip6_any) || (rx->cast == US_CAST_UNICAST && !for_protocols))
            us_count(stack, US_C_DROP_IP_SOURCE);
        else
            us_icmp_echo(stack, rx, US_ICMP6_ECHO_REPLY);
        break;
    case US_ICMP6_UNREACHABLE:
    case US_ICMP6_TOO_BIG:
    case US_ICMP6_EXCEEDED:
    case US_ICMP6_PROBLEM:
        if (for_protocols)
            icmp6_error(stack, rx);
        else
            us_count(stack, US_C_DROP_IP_ADDRESS);
        break;
    default:
        icmp6_group_input(stack, rx);
        break;
    }
}
