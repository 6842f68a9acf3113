/* SPDX-License-Identifier: BSD-3-Clause */
#include "craft_nd.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "pair.h"
#include "ustack/ip/eth.h"
#include "ustack/ip/icmp6.h"

const struct us_ip6 nd_router = {{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9}};
const u_u8 nd_router_mac[6] = {2, 0, 0, 0, 0, 9};
const struct us_ip6 nd_far = {{0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
const struct us_ip6 nd_auto = {{0xfd, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, 0, 1}};

void nd_open(struct raw *raw, const struct us_config *config)
{
    pair_use_ip6(0);
    raw_open(raw, config);
    nd_skip_frames(raw);
    assert_int_equal(us_listen(raw->stack, RAW_PORT, NULL), 0);
}

void nd_open_autoconf(struct raw *raw)
{
    struct us_config config;

    pair_config(&config, 0);
    config.ip6_autoconf = 1;
    nd_open(raw, &config);
}

void nd_make(struct craft *c, const struct raw *raw, const struct us_ip6 *src,
             const struct us_ip6 *dst, const void *msg, u_u32 len)
{
    craft_ip6(c, raw, US_IP_ICMP6, msg, len);
    craft_ip6_hdr(c)->src = *src;
    craft_ip6_hdr(c)->dst = *dst;
    craft_ip6_hdr(c)->hop_limit = 255;
    if (us_ip6_is_multicast(dst))
        us_eth_multicast_mac(c->bytes, dst);
    craft_ip6_checksum(c, US_IP_ICMP6, 0, 2);
}

void nd_make_message(struct craft *c, const struct raw *raw, unsigned type, unsigned flags,
                     const struct us_ip6 *src, const struct us_ip6 *dst,
                     const struct us_ip6 *target, unsigned opt_type, u_u8 mac)
{
    u_u8 msg[32] = {0};

    msg[0] = (u_u8)type;
    msg[4] = (u_u8)flags;
    memcpy(msg + 8, target, 16);
    msg[24] = (u_u8)opt_type;
    msg[25] = 1;
    msg[26] = 2;
    msg[31] = mac;
    nd_make(c, raw, src, dst, msg, opt_type != 0 ? 32 : 24);
}

void nd_make_query(struct craft *c, const struct raw *raw, unsigned code, u_u32 len)
{
    static const u_u8 alert[8] = {58, 0, 5, 2, 0, 0, 1, 0};
    u_u8 query[28] = {130};

    query[4] = (u_u8)(code >> 8);
    query[5] = (u_u8)code;
    craft_l4_6(c, raw, 0, alert, 8, US_IP_ICMP6, query, len, 2);
    craft_ip6_hdr(c)->src = nd_router;
    craft_ip6_hdr(c)->dst = us_ip6_all_nodes;
    craft_ip6_hdr(c)->hop_limit = 1;
    us_eth_multicast_mac(c->bytes, &us_ip6_all_nodes);
    craft_ip6_checksum(c, US_IP_ICMP6, 8, 2);
}

const struct raw_frame *nd_expect(struct raw *raw, unsigned type)
{
    const struct raw_frame *frame = raw_frame(raw);

    assert_non_null(frame);
    assert_int_equal(frame->ethertype, US_ETH_IP6);
    assert_int_equal(frame->bytes[20], US_IP_ICMP6);
    assert_int_equal(frame->bytes[21], 255);
    assert_int_equal(frame->bytes[54], type);
    return frame;
}

unsigned nd_expect_report(struct raw *raw, unsigned kind)
{
    static const u_u8 alert[8] = {58, 0, 5, 2, 0, 0, 1, 0};
    const struct raw_frame *frame = raw_frame(raw);

    assert_non_null(frame);
    assert_int_equal(frame->bytes[20], 0);
    assert_int_equal(frame->bytes[21], 1);
    assert_memory_equal(frame->bytes + 54, alert, 8);
    assert_int_equal(frame->bytes[62], 143);
    assert_int_equal(frame->bytes[70], kind);
    assert_int_equal(frame->len, 14 + 40 + 8 + 8 + 20 * frame->bytes[69]);
    return frame->bytes[69];
}

struct us_addr nd_addr(const struct us_ip6 *ip)
{
    struct us_addr addr;

    memset(&addr, 0, sizeof(addr));
    addr.family = US_IP6;
    memcpy(addr.bytes, ip, 16);
    return addr;
}

void nd_skip_frames(struct raw *raw)
{
    while (raw_frame(raw) != NULL)
        continue;
}

static void put32(u_u8 *to, u_u32 v)
{
    struct u_be32 be = u_be32(v);

    memcpy(to, &be, 4);
}

void nd_make_router_advert(struct craft *c, const struct raw *raw,
                           const struct nd_router_advert *advert)
{
    u_u8 msg[16 + 8 + 8 + 32] = {ROUTER_ADVERT};

    msg[4] = advert->hop_limit;
    msg[6] = (u_u8)(advert->lifetime_s >> 8);
    msg[7] = (u_u8)advert->lifetime_s;
    msg[16] = 1;
    msg[17] = 1;
    memcpy(msg + 18, nd_router_mac, 6);
    msg[24] = advert->mtu != 0 ? 5 : 99;
    msg[25] = 1;
    put32(msg + 28, advert->mtu);
    msg[32] = 3;
    msg[33] = 4;
    msg[34] = advert->prefix_len != 0 ? advert->prefix_len : 64;
    msg[35] = advert->prefix_flags != 0 ? advert->prefix_flags : 0xc0;
    put32(msg + 36, advert->valid_s);
    put32(msg + 40, advert->preferred_s);
    msg[48] = 0xfd;
    msg[51] = advert->prefix_byte != 0 ? advert->prefix_byte : 5;
    nd_make(c, raw, &nd_router, &us_ip6_all_nodes, msg, sizeof(msg));
}

void nd_give_router_advert(struct raw *raw, const struct nd_router_advert *advert)
{
    struct craft c;

    nd_make_router_advert(&c, raw, advert);
    craft_give(raw, &c);
}

int nd_auto_answers(struct raw *raw)
{
    struct us_ip6 group = us_ip6_solicited_node(&nd_auto);
    const struct raw_frame *frame;
    struct craft c;
    int answered = 0;

    nd_make_message(&c, raw, SOLICIT, 0, &nd_router, &group, &nd_auto, 1, 9);
    craft_give(raw, &c);
    while ((frame = raw_frame(raw)) != NULL)
        answered |= frame->bytes[54] == ADVERT && memcmp(frame->bytes + 22, &nd_auto, 16) == 0;
    return answered;
}
