/* SPDX-License-Identifier: BSD-3-Clause */
/* Hand-made packets; see craft.h. */
#include "craft.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cksum.h"
#include "ustack/eth.h"

static const u_u8 craft_our_mac[6] = {2, 0, 0, 0, 0, 1};

void craft_eth(struct craft *c, const struct raw *raw, unsigned ethertype)
{
    struct us_eth_hdr *eth = (void *)c->bytes;

    memset(c->bytes, 0, sizeof(c->bytes));
    memcpy(eth->dst, craft_our_mac, 6);
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
    ip->checksum = u_be16(u_cksum_fold(u_cksum_add(0, ip, (u_u32)(ip->version_ihl & 15) * 4)));
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
    udp->checksum = u_be16(u_cksum_fold(u_cksum_add(sum, datagram, US_UDP_HDR_BYTES + len)));
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
