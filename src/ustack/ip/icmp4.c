/* SPDX-License-Identifier: BSD-3-Clause */
/* ICMP over IPv4; see icmp.h. */
#include "base/cksum.h"
#include "ustack/core/instance.h"
#include "ustack/ip/icmp.h"
#include "ustack/ip/ip4.h"
#include "ustack/tcp/tcp.h"

enum { ICMP_ECHO_REPLY = 0, ICMP_UNREACHABLE = 3, ICMP_ECHO = 8, ICMP_TIME_EXCEEDED = 11 };

enum { ICMP_MTU_OFFSET = 6 };

enum {
    ICMP_TOO_BIG = 4,    /* code of ICMP_UNREACHABLE */
    ICMP_QUOTE_BYTES = 8 /* behind the quoted IP header: the minimum that an error quotes */
};

/* The meaning of an error for a connection; sets *mtu with US_ICMP_TOO_BIG. */
static enum us_icmp_error icmp_error_kind(const struct us_rx *rx, u_u32 *mtu)
{
    unsigned code = rx->l4[1];
    struct u_be16 next_mtu;

    if (rx->l4[0] == ICMP_TIME_EXCEEDED)
        return US_ICMP_SOFT;
    if (code == ICMP_TOO_BIG) { /* RFC 1191 section 4 */
        u_copy(&next_mtu, rx->l4 + ICMP_MTU_OFFSET, sizeof(next_mtu));
        *mtu = u_get_be16(next_mtu);
        return US_ICMP_TOO_BIG;
    }
    /* RFC 1122 4.2.3.9: protocol or port unreachable; RFC 1812 5.2.7.1: forbidden. */
    return code == 2 || code == 3 || code == 9 || code == 10 || code == 13 ? US_ICMP_HARD
                                                                           : US_ICMP_SOFT;
}

/* Passes an error to TCP if it quotes the beginning of a TCP segment. */
static void icmp_error(struct us_stack *stack, const struct us_rx *rx)
{
    const struct us_ip4_hdr *ip = (const struct us_ip4_hdr *)(rx->l4 + US_ICMP_HDR_BYTES);
    u_u32 bytes = rx->l4_bytes - US_ICMP_HDR_BYTES;
    const struct us_tcp_hdr *tcp;
    struct us_tcp_key key;
    u_u32 hdr_bytes;
    u_u32 mtu = 0;
    enum us_icmp_error kind;

    us_count(stack, US_C_ICMP_RX_ERRORS);
    hdr_bytes = bytes < US_IP4_HDR_BYTES ? 0 : (u_u32)(ip->version_ihl & 15) << 2;
    if (hdr_bytes < US_IP4_HDR_BYTES || bytes < hdr_bytes + ICMP_QUOTE_BYTES ||
        ip->version_ihl >> 4 != 4 || ip->protocol != US_IP_TCP ||
        (u_get_be16(ip->fragment) & US_IP4_OFFSET_MASK) != 0) {
        us_count(stack, US_C_DROP_ICMP_QUOTE);
        return;
    }
    tcp = (const struct us_tcp_hdr *)((const u_u8 *)ip + hdr_bytes);
    key.local_ip = u_get_be32(ip->src);
    key.remote_ip = u_get_be32(ip->dst);
    key.local_port = u_get_be16(tcp->src_port);
    key.remote_port = u_get_be16(tcp->dst_port);
    kind = icmp_error_kind(rx, &mtu);
    us_tcp_icmp_error(stack, &key, (const struct us_ip6 *)U_NULL, u_get_be32(tcp->seq), kind, mtu);
}

void us_icmp4_input(struct us_stack *stack, const struct us_rx *rx)
{
    if (rx->l4_bytes < US_ICMP_HDR_BYTES) {
        us_count(stack, US_C_DROP_ICMP_MALFORMED);
        return;
    }
    if (u_cksum_finish(u_cksum_add(0, rx->l4, rx->l4_bytes)) != 0) {
        us_count(stack, US_C_DROP_ICMP_CHECKSUM);
        return;
    }
    switch (rx->l4[0]) {
    case ICMP_ECHO:
        us_icmp_echo(stack, rx, ICMP_ECHO_REPLY);
        break;
    case ICMP_UNREACHABLE:
    case ICMP_TIME_EXCEEDED:
        icmp_error(stack, rx);
        break;
    default:
        us_count(stack, US_C_DROP_ICMP_TYPE);
        break;
    }
}
