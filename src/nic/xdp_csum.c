/* SPDX-License-Identifier: BSD-3-Clause */
/* Checksums that nobody has finished; see xdp_csum.h. */
#include "nic/xdp_csum.h"

#include <stdbool.h>

#include "base/cksum.h"

enum { ETH_BYTES = 14, IP4_BYTES_MIN = 20, IP6_BYTES = 40 };

enum { TYPE_IP4 = 0x0800, TYPE_IP6 = 0x86dd };

enum { PROTOCOL_TCP = 6, PROTOCOL_UDP = 17 };

/* Where the checksum is in a TCP and a UDP header. */
enum { TCP_CSUM_OFFSET = 16, UDP_CSUM_OFFSET = 6 };

static u_u32 read16(const u_u8 *at)
{
    return (u_u32)at[0] << 8 | at[1];
}

/* Whether the field in l4_bytes of TCP or UDP holds the sum over the pseudo-header. */
static bool is_partial(const u_u8 *l4, u_u32 l4_bytes, unsigned protocol, u_u32 pseudo)
{
    u_u32 at = protocol == PROTOCOL_TCP ? TCP_CSUM_OFFSET : UDP_CSUM_OFFSET;

    if ((protocol != PROTOCOL_TCP && protocol != PROTOCOL_UDP) || l4_bytes < at + 2)
        return false;
    return read16(l4 + at) == u_cksum_partial(pseudo);
}

static bool is_partial4(const u_u8 *ip, u_u32 bytes)
{
    struct u_be32 src, dst;
    u_u32 header_bytes, total;

    if (bytes < IP4_BYTES_MIN || ip[0] >> 4 != 4)
        return false;
    header_bytes = (u_u32)(ip[0] & 15) * 4;
    total = read16(ip + 2);
    /* A fragment's checksum is over more than itself. */
    if (header_bytes < IP4_BYTES_MIN || total < header_bytes || total > bytes ||
        (read16(ip + 6) & 0x3fff) != 0)
        return false;
    u_copy(&src, ip + 12, sizeof(src));
    u_copy(&dst, ip + 16, sizeof(dst));
    return is_partial(ip + header_bytes, total - header_bytes, ip[9],
                      u_cksum_pseudo4(src, dst, ip[9], total - header_bytes));
}

static bool is_partial6(const u_u8 *ip, u_u32 bytes)
{
    u_u32 payload;

    if (bytes < IP6_BYTES || ip[0] >> 4 != 6)
        return false;
    payload = read16(ip + 4);
    if (payload > bytes - IP6_BYTES)
        return false;
    return is_partial(ip + IP6_BYTES, payload, ip[6],
                      u_cksum_pseudo6(ip + 8, ip + 24, ip[6], payload));
}

void nic_xdp_csum_partial(struct us_pkt *pkt)
{
    u_u32 type;
    bool partial = false;

    if (pkt->len < ETH_BYTES)
        return;
    type = read16(pkt->data + ETH_BYTES - 2);
    if (type == TYPE_IP4)
        partial = is_partial4(pkt->data + ETH_BYTES, pkt->len - ETH_BYTES);
    else if (type == TYPE_IP6)
        partial = is_partial6(pkt->data + ETH_BYTES, pkt->len - ETH_BYTES);
    if (partial)
        pkt->flags |= US_PKT_L4_CSUM_GOOD;
}
