/* SPDX-License-Identifier: BSD-3-Clause */
/* Crafted packets; see craft.h. */
#include "craft.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cksum.h"
#include "ustack/ip/eth.h"

void craft_eth(struct craft *c, const struct raw *raw, unsigned ethertype)
{
    struct us_eth_hdr *eth = (void *)c->bytes;

    memset(c->bytes, 0, sizeof(c->bytes));
    memcpy(eth->dst, raw_our_mac, 6);
    memcpy(eth->src, raw->peer_mac, 6);
    eth->type = u_be16(ethertype);
    c->len = US_ETH_HDR_BYTES;
}

struct us_ip4_hdr *craft_ip4_hdr(struct craft *c)
{
    return (void *)(c->bytes + US_ETH_HDR_BYTES);
}

void craft_ip4_finish(struct craft *c)
{
    struct us_ip4_hdr *ip = craft_ip4_hdr(c);

    ip->checksum = u_be16(0);
    ip->checksum = u_be16(u_cksum_finish(u_cksum_add(0, ip, (u_u32)(ip->version_ihl & 15) * 4)));
}

void craft_ip4(struct craft *c, const struct raw *raw, unsigned protocol, const void *data,
               u_u32 len)
{
    assert_true(CRAFT_L4 + len <= CRAFT_BYTES);
    craft_eth(c, raw, US_ETH_IP4);
    us_ip4_build((u_u8 *)craft_ip4_hdr(c), raw->peer_ip, RAW_LOCAL_IP, protocol);
    craft_ip4_hdr(c)->total_bytes = u_be16(US_IP4_HDR_BYTES + len);
    memcpy(c->bytes + CRAFT_L4, data, len);
    c->len = CRAFT_L4 + len;
    craft_ip4_finish(c);
}

struct us_udp_hdr *craft_udp4_hdr(struct craft *c)
{
    return (void *)(c->bytes + CRAFT_L4);
}

void craft_udp4(struct craft *c, const struct raw *raw, unsigned dst_port, const void *data,
                u_u32 len)
{
    u_u8 datagram[CRAFT_BYTES];
    struct us_udp_hdr *udp = (void *)datagram;
    u_u32 sum;

    assert_true(US_UDP_HDR_BYTES + len <= sizeof(datagram));
    udp->src_port = u_be16(raw->peer_port);
    udp->dst_port = u_be16(dst_port);
    udp->bytes = u_be16(US_UDP_HDR_BYTES + len);
    udp->checksum = u_be16(0);
    memcpy(datagram + US_UDP_HDR_BYTES, data, len);
    sum = u_cksum_pseudo4(u_be32(raw->peer_ip), u_be32(RAW_LOCAL_IP), US_IP_UDP,
                          US_UDP_HDR_BYTES + len);
    udp->checksum = u_be16(u_cksum_finish(u_cksum_add(sum, datagram, US_UDP_HDR_BYTES + len)));
    craft_ip4(c, raw, US_IP_UDP, datagram, US_UDP_HDR_BYTES + len);
}

void craft_give(struct raw *raw, const struct craft *c)
{
    raw_input(raw, c->bytes, c->len);
}

void craft_expect_counted(struct raw *raw, const struct craft *c, const char *counter)
{
    u_u64 before = raw_counter(raw, counter);

    craft_give(raw, c);
    assert_int_equal(raw_counter(raw, counter), before + 1);
}

/* ---- IPv6 ---- */

const struct us_ip6 craft_local6 = {{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
const struct us_ip6 craft_peer6 = {{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};

void craft_enable6(struct raw *raw)
{
    struct us_addr addr;

    memset(&addr, 0, sizeof(addr));
    addr.family = US_IP6;
    memcpy(addr.bytes, &craft_local6, 16);
    assert_int_equal(us_addr_add(raw->stack, &addr, 64), 0);
    raw_pump(raw, 0);
    raw_pump(raw, 1000 * 1000);
    raw_pump(raw, 1000 * 1000);
    while (raw_frame(raw) != NULL)
        continue;
}

struct us_ip6_hdr *craft_ip6_hdr(struct craft *c)
{
    return (void *)(c->bytes + US_ETH_HDR_BYTES);
}

void craft_ip6(struct craft *c, const struct raw *raw, unsigned next, const void *data, u_u32 len)
{
    assert_true(CRAFT_L4_6 + len <= CRAFT_BYTES);
    craft_eth(c, raw, US_ETH_IP6);
    us_ip6_build(c->bytes + US_ETH_HDR_BYTES, &craft_peer6, &craft_local6, next, 64);
    craft_ip6_hdr(c)->payload_bytes = u_be16(len);
    memcpy(c->bytes + CRAFT_L4_6, data, len);
    c->len = CRAFT_L4_6 + len;
}

void craft_ip6_checksum(struct craft *c, unsigned protocol, u_u32 ext_bytes, u_u32 csum_offset)
{
    const struct us_ip6_hdr *ip = craft_ip6_hdr(c);
    u_u8 *l4 = c->bytes + CRAFT_L4_6 + ext_bytes;
    u_u32 len = c->len - CRAFT_L4_6 - ext_bytes;
    struct u_be16 sum;

    memset(l4 + csum_offset, 0, 2);
    sum = u_be16(
        u_cksum_finish(u_cksum_add(u_cksum_pseudo6(ip->src.b, ip->dst.b, protocol, len), l4, len)));
    memcpy(l4 + csum_offset, &sum, 2);
}

void craft_l4_6(struct craft *c, const struct raw *raw, unsigned next, const void *ext,
                u_u32 ext_bytes, unsigned protocol, const void *data, u_u32 len, u_u32 csum_offset)
{
    u_u8 all[CRAFT_BYTES];

    assert_true(ext_bytes + len <= sizeof(all));
    if (ext_bytes > 0)
        memcpy(all, ext, ext_bytes);
    memcpy(all + ext_bytes, data, len);
    craft_ip6(c, raw, next, all, ext_bytes + len);
    craft_ip6_checksum(c, protocol, ext_bytes, csum_offset);
}

u_u32 craft_datagram6(u_u8 *to, const struct raw *raw, unsigned dst_port, const void *data,
                      u_u32 len)
{
    struct us_udp_hdr *udp = (void *)to;
    u_u32 bytes = US_UDP_HDR_BYTES + len;

    udp->src_port = u_be16(raw->peer_port);
    udp->dst_port = u_be16(dst_port);
    udp->bytes = u_be16(bytes);
    udp->checksum = u_be16(0);
    memcpy(to + US_UDP_HDR_BYTES, data, len);
    udp->checksum = u_be16(u_cksum_finish(
        u_cksum_add(u_cksum_pseudo6(craft_peer6.b, craft_local6.b, US_IP_UDP, bytes), to, bytes)));
    return bytes;
}
