/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the TCP or UDP header of a frame; see l4.h. */
#include "nic/l4.h"

#include "base/base.h"
#include "base/cksum.h"

enum { ETH_BYTES = 14, VLAN_BYTES = 4, IP4_BYTES_MIN = 20, IP6_BYTES = 40 };
enum { TYPE_IP4 = 0x0800, TYPE_VLAN = 0x8100, TYPE_IP6 = 0x86dd };

#define IP4_FRAGMENT_BITS 0x3fff /* "more fragments", and the offset */

static bool find4(const uint8_t *ip, uint32_t len, struct nic_l4 *l4)
{
    unsigned header_bytes, total;

    if (len < IP4_BYTES_MIN || ip[0] >> 4 != 4)
        return false;
    header_bytes = (ip[0] & 15) * 4u;
    total = nic_get16(ip + 2);
    if (header_bytes < IP4_BYTES_MIN || header_bytes > len || total < header_bytes ||
        (nic_get16(ip + 6) & IP4_FRAGMENT_BITS) != 0)
        return false;
    l4->is_ip6 = false;
    l4->protocol = ip[9];
    l4->l4_at = (uint16_t)(l4->l3_at + header_bytes);
    l4->bytes = total - header_bytes;
    return true;
}

static bool find6(const uint8_t *ip, uint32_t len, struct nic_l4 *l4)
{
    if (len < IP6_BYTES || ip[0] >> 4 != 6)
        return false;
    l4->is_ip6 = true;
    l4->protocol = ip[6];
    l4->l4_at = (uint16_t)(l4->l3_at + IP6_BYTES);
    l4->bytes = nic_get16(ip + 4);
    return true;
}

bool nic_l4_find(const uint8_t *data, uint32_t len, struct nic_l4 *l4)
{
    unsigned type;

    if (len < ETH_BYTES + VLAN_BYTES)
        return false;
    l4->l3_at = ETH_BYTES;
    type = nic_get16(data + ETH_BYTES - 2);
    if (type == TYPE_VLAN) {
        l4->l3_at = ETH_BYTES + VLAN_BYTES;
        type = nic_get16(data + l4->l3_at - 2);
    }
    if (type == TYPE_IP4)
        return find4(data + l4->l3_at, len - l4->l3_at, l4);
    return type == TYPE_IP6 && find6(data + l4->l3_at, len - l4->l3_at, l4);
}

uint32_t nic_l4_pseudo_sum(const uint8_t *data, const struct nic_l4 *l4)
{
    const uint8_t *ip = data + l4->l3_at;
    struct u_be32 addrs[2];

    if (l4->is_ip6)
        return u_cksum_pseudo6(ip + 8, ip + 24, l4->protocol, l4->bytes);
    u_copy(addrs, ip + 12, sizeof(addrs));
    return u_cksum_pseudo4(addrs[0], addrs[1], l4->protocol, l4->bytes);
}
