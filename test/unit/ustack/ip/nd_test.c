/* SPDX-License-Identifier: BSD-3-Clause */
/* Neighbour discovery, our own IPv6 addresses, routers and reports of groups. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "craft.h"
#include "pair.h"
#include "ustack/ip/addr.h"
#include "ustack/ip/eth.h"
#include "ustack/ip/icmp6.h"
#include "ustack/ip/neighbour.h"

enum { SOLICIT = 135, ADVERT = 136, ROUTER_SOLICIT = 133, ROUTER_ADVERT = 134, SECOND = 1000000 };

static const struct us_ip6 router = {{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9}};
static const u_u8 router_mac[6] = {2, 0, 0, 0, 0, 9};
static struct craft packet;

/* Opens a stack without IPv4 frames in the way. */
static void open_as(struct raw *raw, u_u32 autoconf, u_u32 arp_passive)
{
    struct us_config config;

    pair_config(&config, 0);
    config.ip6_autoconf = autoconf;
    config.arp_passive = arp_passive;
    pair_use_ip6(0);
    raw_open(raw, &config);
    while (raw_frame(raw) != NULL)
        continue;
    assert_int_equal(us_listen(raw->stack, RAW_PORT, NULL), 0);
}

static void open_with(struct raw *raw, u_u32 autoconf)
{
    open_as(raw, autoconf, 0);
}

static int setup(void **state)
{
    static struct raw raw;

    open_with(&raw, 0);
    craft_enable6(&raw);
    *state = &raw;
    return 0;
}

static int teardown(void **state)
{
    raw_close(*state);
    return 0;
}

/* Puts an ICMPv6 message with hop limit 255 into `packet`. */
static void make(struct raw *raw, const struct us_ip6 *src, const struct us_ip6 *dst,
                 const void *msg, u_u32 len)
{
    craft_ip6(&packet, raw, US_IP_ICMP6, msg, len);
    craft_ip6_hdr(&packet)->src = *src;
    craft_ip6_hdr(&packet)->dst = *dst;
    craft_ip6_hdr(&packet)->hop_limit = 255;
    if (us_ip6_is_multicast(dst))
        us_eth_multicast_mac(packet.bytes, dst);
    craft_ip6_checksum(&packet, US_IP_ICMP6, 0, 2);
}

/* A solicitation or advertisement with one option, of this type and MAC; type 0: without. */
static void make_nd(struct raw *raw, unsigned type, unsigned flags, const struct us_ip6 *src,
                    const struct us_ip6 *dst, const struct us_ip6 *target, unsigned opt_type,
                    u_u8 mac)
{
    u_u8 msg[32] = {0};

    msg[0] = (u_u8)type;
    msg[4] = (u_u8)flags;
    memcpy(msg + 8, target, 16);
    msg[24] = (u_u8)opt_type;
    msg[25] = 1;
    msg[26] = 2;
    msg[31] = mac;
    make(raw, src, dst, msg, opt_type != 0 ? 32 : 24);
}

/* The next frame must be an ICMPv6 message of this type behind the fixed header. */
static const struct raw_frame *expect(struct raw *raw, unsigned type)
{
    const struct raw_frame *frame = raw_frame(raw);

    assert_non_null(frame);
    assert_int_equal(frame->ethertype, US_ETH_IP6);
    assert_int_equal(frame->bytes[20], US_IP_ICMP6);
    assert_int_equal(frame->bytes[21], 255);
    assert_int_equal(frame->bytes[54], type);
    return frame;
}

/* The next frame must be a report of groups; returns how many it has. */
static unsigned expect_report(struct raw *raw, unsigned kind)
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

static struct us_addr addr6(const struct us_ip6 *ip)
{
    struct us_addr addr;

    memset(&addr, 0, sizeof(addr));
    addr.family = US_IP6;
    memcpy(addr.bytes, ip, 16);
    return addr;
}

/* RFC 4862 5.4: MLD report, probe from ::, a second without an answer, then the address is usable.
 */
static void duplicate_detection_precedes_use(void **state)
{
    static const struct us_ip6 group = {{0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0, 0, 1}};
    struct us_addr addr = addr6(&craft_local6);
    struct us_addr peer = addr6(&craft_peer6);
    const struct raw_frame *frame;
    struct raw raw;
    int error;
    int i;

    open_with(&raw, 0);
    assert_int_equal(us_addr_add(raw.stack, &addr, 64), 0);
    raw_pump(&raw, 0);
    assert_int_equal(expect_report(&raw, 4), 2);
    for (i = 0; i < 2; i++) { /* the link-local address and this one */
        frame = expect(&raw, SOLICIT);
        assert_memory_equal(frame->bytes + 22, &us_ip6_any, 16);
        assert_int_equal(frame->len, 14 + 40 + 24);
    }
    assert_memory_equal(frame->bytes + 38, &group, 16);
    assert_memory_equal(frame->bytes, "\x33\x33\xff\0\0\1", 6);
    assert_memory_equal(frame->bytes + 62, &craft_local6, 16);
    assert_null(us_connect(raw.stack, &peer, 80, 0, NULL, &error));
    assert_int_equal(error, US_ERR_NO_ROUTE);
    make_nd(&raw, SOLICIT, 0, &craft_peer6, &craft_local6, &craft_local6, 1, 2);
    craft_give(&raw, &packet);
    raw_expect_nothing(&raw); /* a tentative address sends no answer */
    raw_pump(&raw, SECOND);
    assert_int_equal(expect_report(&raw, 4), 2); /* once more, in case it got lost */
    for (i = 0; i < 2; i++)
        assert_int_equal(expect(&raw, ADVERT)->bytes[58], 0x20);
    assert_non_null(us_connect(raw.stack, &peer, 80, 0, NULL, &error));
    raw_close(&raw);
    (void)state;
}

static void duplicates_are_not_used(void **state)
{
    struct us_addr addr = addr6(&craft_local6);
    struct us_ip6 group = us_ip6_solicited_node(&craft_local6);
    struct raw raw;
    int advert;

    for (advert = 0; advert < 2; advert++) {
        open_with(&raw, 0);
        assert_int_equal(us_addr_add(raw.stack, &addr, 64), 0);
        raw_pump(&raw, 0);
        if (advert)
            make_nd(&raw, ADVERT, 0x20, &craft_local6, &us_ip6_all_nodes, &craft_local6, 2, 7);
        else
            make_nd(&raw, SOLICIT, 0, &us_ip6_any, &group, &craft_local6, 0, 0);
        if (advert) /* it comes from our own address: the neighbour has another one, too */
            craft_ip6_hdr(&packet)->src = craft_peer6;
        craft_ip6_checksum(&packet, US_IP_ICMP6, 0, 2);
        craft_expect_counted(&raw, &packet, "nd_duplicates");
        while (raw_frame(&raw) != NULL)
            continue;
        raw_pump(&raw, 3 * SECOND);
        while (raw_frame(&raw) != NULL)
            continue;
        make_nd(&raw, SOLICIT, 0, &craft_peer6, &group, &craft_local6, 1, 2);
        craft_give(&raw, &packet);
        raw_expect_nothing(&raw);
        raw_close(&raw);
    }
    (void)state;
}

/* A passive instance gets the address at the same time as the announcing one, and learns.
 */
static void arp_passive_learns_and_resolves_only(void **state)
{
    struct us_ip6 group = us_ip6_solicited_node(&craft_local6);
    struct us_addr addr = addr6(&craft_local6);
    struct us_addr peer = addr6(&craft_peer6);
    struct raw raw;
    int error;

    open_as(&raw, 0, 1);
    assert_int_equal(us_addr_add(raw.stack, &addr, 64), 0);
    raw_pump(&raw, 0);
    raw_expect_nothing(&raw);
    assert_null(us_connect(raw.stack, &peer, 80, 0, NULL, &error));
    raw_pump(&raw, 2 * SECOND);
    raw_expect_nothing(&raw);
    make_nd(&raw, SOLICIT, 0, &us_ip6_any, &group, &craft_local6, 0, 0);
    craft_give(&raw, &packet);
    raw_expect_nothing(&raw);
    assert_non_null(us_connect(raw.stack, &peer, 80, 0, NULL, &error));
    raw_pump(&raw, 0);
    expect(&raw, SOLICIT);
    make_nd(&raw, SOLICIT, 0, &craft_peer6, &group, &craft_local6, 1, 2);
    craft_give(&raw, &packet);
    assert_int_equal(raw_frame(&raw)->bytes[20], US_IP_TCP); /* learned: the SYN is sent */
    raw_expect_nothing(&raw);
    raw_close(&raw);

    open_as(&raw, 0, 1);
    assert_int_equal(us_addr_add(raw.stack, &addr, 64), 0);
    make_nd(&raw, SOLICIT, 0, &us_ip6_any, &group, &craft_local6, 0, 0);
    craft_expect_counted(&raw, &packet, "nd_duplicates");
    raw_close(&raw);
    (void)state;
}

static void solicitations_are_answered(void **state)
{
    struct raw *raw = *state;
    struct us_ip6 group = us_ip6_solicited_node(&craft_local6);
    const struct raw_frame *frame;

    make_nd(raw, SOLICIT, 0, &craft_peer6, &group, &craft_local6, 1, 2);
    craft_give(raw, &packet);
    frame = expect(raw, ADVERT);
    assert_int_equal(frame->bytes[58], 0x60); /* solicited, override */
    assert_memory_equal(frame->bytes + 22, &craft_local6, 16);
    assert_memory_equal(frame->bytes + 38, &craft_peer6, 16);
    assert_memory_equal(frame->bytes + 78, "\2\1\2\0\0\0\0\1", 8);
    make_nd(raw, SOLICIT, 0, &us_ip6_any, &group, &craft_local6, 0, 0);
    craft_give(raw, &packet); /* duplicate detection of another host is answered to all nodes */
    frame = expect(raw, ADVERT);
    assert_int_equal(frame->bytes[58], 0x20);
    assert_memory_equal(frame->bytes + 38, &us_ip6_all_nodes, 16);
    make_nd(raw, SOLICIT, 0, &craft_peer6, &group, &craft_peer6, 1, 2);
    craft_give(raw, &packet);
    raw_expect_nothing(raw);
}

/* An entry that is in use is verified after US_NEIGHBOUR_DELAY_US, and not before. */
static void expect_verification(struct raw *raw, struct us_neighbour *neighbour)
{
    raw_pump(raw, US_NEIGHBOUR_DELAY_US);
    assert_true(us_neighbour_use(raw->stack, neighbour));
    assert_int_equal(neighbour->state, US_NEIGHBOUR_REACHABLE);
    raw_pump(raw, 1);
    assert_true(us_neighbour_use(raw->stack, neighbour));
    assert_int_equal(neighbour->state, US_NEIGHBOUR_PROBE);
}

/* RFC 4861 7.3.2: a learned address is used at once, and verified if it still is 5 s later. */
static void a_learned_address_is_verified(void **state)
{
    struct raw *raw = *state;
    struct us_ip6 group = us_ip6_solicited_node(&craft_local6);
    struct us_neighbour *neighbour;

    make_nd(raw, SOLICIT, 0, &craft_peer6, &group, &craft_local6, 1, 2);
    craft_give(raw, &packet);
    expect(raw, ADVERT);
    neighbour = us_neighbour_find(raw->stack, us_ip6(raw->stack, &craft_peer6));
    assert_true(us_neighbour_use(raw->stack, neighbour));
    expect_verification(raw, neighbour);
    raw_pump(raw, 0);
    expect(raw, SOLICIT);
}

/*
 * RFC 4861 7.2.3, 7.2.5: an unsolicited message changes the MAC address. The new one is used at
 * once, and verified if it is still in use 5 s later.
 */
static void a_changed_address_is_verified(void **state)
{
    struct raw *raw = *state;
    struct us_ip6 group = us_ip6_solicited_node(&craft_local6);
    struct us_neighbour *neighbour;
    unsigned i;

    make_nd(raw, SOLICIT, 0, &craft_peer6, &group, &craft_local6, 1, 2);
    craft_give(raw, &packet);
    neighbour = us_neighbour_find(raw->stack, us_ip6(raw->stack, &craft_peer6));
    for (i = 0; i < 2; i++) {
        assert_true(us_neighbour_use(raw->stack, neighbour));
        make_nd(raw, ADVERT, 0x60, &craft_peer6, &craft_local6, &craft_peer6, 2, 2);
        craft_give(raw, &packet); /* an answer: valid for a minute */
        raw_pump(raw, 2 * US_NEIGHBOUR_DELAY_US);
        assert_true(us_neighbour_use(raw->stack, neighbour));
        assert_int_equal(neighbour->state, US_NEIGHBOUR_REACHABLE);
        if (i == 0)
            make_nd(raw, SOLICIT, 0, &craft_peer6, &group, &craft_local6, 1, 6);
        else
            make_nd(raw, ADVERT, 0x20, &craft_peer6, &us_ip6_all_nodes, &craft_peer6, 2, 6);
        craft_give(raw, &packet);
        assert_int_equal(neighbour->l2[5], 6);
        expect_verification(raw, neighbour);
    }
}

/* RFC 4862 5.4: a tentative address receives neighbour discovery only; nothing else is answered. */
static void a_tentative_address_answers_nothing(void **state)
{
    static const u_u8 echo[8] = {128, 0, 0, 0, 0, 7, 0, 1};
    static const u_u8 unknown_option[8] = {US_IP_NOTHING, 0, 0x80, 4};
    struct us_addr addr = addr6(&craft_local6);
    struct raw raw;
    int usable;

    open_with(&raw, 0);
    assert_int_equal(us_addr_add(raw.stack, &addr, 64), 0);
    for (usable = 0; usable < 2; usable++) {
        raw_pump(&raw, usable * SECOND);
        while (raw_frame(&raw) != NULL)
            continue;
        craft_ip6(&packet, &raw, 253, "hello", 5);
        craft_give(&raw, &packet);
        craft_ip6(&packet, &raw, US_IP_DST_OPTIONS, unknown_option, sizeof(unknown_option));
        craft_give(&raw, &packet);
        assert_int_equal(raw_counter(&raw, "icmp_tx_errors"), usable ? 2 : 0);
        craft_l4_6(&packet, &raw, US_IP_ICMP6, NULL, 0, US_IP_ICMP6, echo, sizeof(echo), 2);
        craft_expect_counted(&raw, &packet, usable ? "icmp_tx_echo" : "drop_ip_source");
    }
    raw_close(&raw);
    (void)state;
}

/* A multicast MAC address is not valid in the option, which counts as absent. */
static void a_multicast_mac_is_not_learned(void **state)
{
    struct raw *raw = *state;
    struct us_ip6 group = us_ip6_solicited_node(&craft_local6);
    struct us_addr peer = addr6(&craft_peer6);

    make_nd(raw, SOLICIT, 0, &craft_peer6, &group, &craft_local6, 1, 2);
    packet.bytes[80] |= 1;
    craft_ip6_checksum(&packet, US_IP_ICMP6, 0, 2);
    craft_give(raw, &packet);
    expect(raw, ADVERT);
    assert_non_null(us_connect(raw->stack, &peer, 80, 0, NULL, NULL));
    raw_pump(raw, 0);
    expect(raw, SOLICIT);
}

/* RFC 4861 7.1. */
static void bad_messages_are_dropped(void **state)
{
    struct raw *raw = *state;
    struct us_ip6 group = us_ip6_solicited_node(&craft_local6);
    unsigned i;

    for (i = 0; i < 7; i++) {
        make_nd(raw, SOLICIT, 0, i == 4 || i == 5 ? &us_ip6_any : &craft_peer6,
                i == 5 ? &craft_local6 : &group, i == 6 ? &us_ip6_all_nodes : &craft_local6,
                i == 5 ? 0 : 1, 2);
        if (i == 0)
            craft_ip6_hdr(&packet)->hop_limit = 254;
        if (i == 1)
            packet.bytes[55] = 1; /* code */
        if (i == 2)
            packet.bytes[79] = 0; /* an option of length 0 */
        if (i == 3)
            packet.bytes[79] = 2; /* one that is longer than the message */
        craft_ip6_checksum(&packet, US_IP_ICMP6, 0, 2);
        craft_expect_counted(raw, &packet, "drop_nd_malformed");
    }
    make_nd(raw, ADVERT, 0x40, &craft_peer6, &us_ip6_all_nodes, &craft_peer6, 2, 2);
    craft_expect_counted(raw, &packet,
                         "drop_nd_malformed"); /* a solicited advertisement to all nodes */
    raw_expect_nothing(raw);
}

static void neighbours_are_asked_for(void **state)
{
    struct raw *raw = *state;
    struct us_addr peer = addr6(&craft_peer6);
    struct us_conn *conn = us_connect(raw->stack, &peer, 80, 0, NULL, NULL);
    const struct raw_frame *frame;

    assert_non_null(conn);
    raw_pump(raw, 0);
    frame = expect(raw, SOLICIT);
    assert_memory_equal(frame->bytes + 62, &craft_peer6, 16);
    assert_memory_equal(frame->bytes + 78, "\1\1\2\0\0\0\0\1", 8);
    make_nd(raw, ADVERT, 0x60, &craft_peer6, &craft_local6, &craft_peer6, 2, 5);
    craft_give(raw, &packet);
    frame = raw_frame(raw);
    assert_int_equal(frame->bytes[20], US_IP_TCP);
    assert_memory_equal(frame->bytes, "\2\0\0\0\0\5", 6);
    /* There is a flow label. */
    assert_true((frame->bytes[15] & 15) != 0 || frame->bytes[16] != 0 || frame->bytes[17] != 0);
    /* Without the override flag another address is only verified, with it used (7.2.5). */
    make_nd(raw, ADVERT, 0x00, &craft_peer6, &craft_local6, &craft_peer6, 2, 6);
    craft_give(raw, &packet);
    frame = expect(raw, SOLICIT);
    assert_memory_equal(frame->bytes, "\2\0\0\0\0\5", 6); /* by itself, at the old address */
    make_nd(raw, ADVERT, 0x20, &craft_peer6, &craft_local6, &craft_peer6, 2, 6);
    craft_give(raw, &packet);
    raw_pump(raw, SECOND);
    assert_memory_equal(raw_frame(raw)->bytes, "\2\0\0\0\0\6", 6); /* the SYN again */
    assert_int_equal(raw_counter(raw, "arp_changes"), 1);
}

static void put32(u_u8 *to, u_u32 v)
{
    struct u_be32 be = u_be32(v);

    memcpy(to, &be, 4);
}

/* An advertisement of fd00:5::/64 and of an MTU by `router`. */
static void give_advert_of_mtu(struct raw *raw, unsigned lifetime_s, u_u32 valid_s,
                               u_u32 preferred_s, u_u32 mtu)
{
    u_u8 msg[16 + 8 + 8 + 32] = {0};

    msg[0] = ROUTER_ADVERT;
    msg[4] = 61;
    msg[6] = (u_u8)(lifetime_s >> 8);
    msg[7] = (u_u8)lifetime_s;
    msg[16] = 1;
    msg[17] = 1;
    memcpy(msg + 18, router_mac, 6);
    msg[24] = 5;
    msg[25] = 1;
    put32(msg + 28, mtu);
    msg[32] = 3;
    msg[33] = 4;
    msg[34] = 64;
    msg[35] = 0xc0;
    put32(msg + 36, valid_s);
    put32(msg + 40, preferred_s);
    msg[48] = 0xfd;
    msg[51] = 5;
    make(raw, &router, &us_ip6_all_nodes, msg, sizeof(msg));
    craft_give(raw, &packet);
}

static void give_advert(struct raw *raw, unsigned lifetime_s, u_u32 valid_s, u_u32 preferred_s)
{
    give_advert_of_mtu(raw, lifetime_s, valid_s, preferred_s, 1400);
}

/* Whether our address fd00:5::ff:fe00:1 answers. */
static int auto_answers(struct raw *raw)
{
    static const struct us_ip6 own = {{0xfd, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, 0, 1}};
    struct us_ip6 group = us_ip6_solicited_node(&own);
    const struct raw_frame *frame;
    int answered = 0;

    make_nd(raw, SOLICIT, 0, &router, &group, &own, 1, 9);
    craft_give(raw, &packet);
    while ((frame = raw_frame(raw)) != NULL)
        answered |= frame->bytes[54] == ADVERT && memcmp(frame->bytes + 22, &own, 16) == 0;
    return answered;
}

static void routers_and_their_prefixes(void **state)
{
    static const struct us_ip6 far_away = {
        {0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
    struct us_addr remote = addr6(&far_away);
    const struct raw_frame *frame;
    struct raw raw;
    int error;
    int i;

    open_with(&raw, 1);
    for (i = 0; i < 2; i++)
        raw_pump(&raw, SECOND);
    while ((frame = raw_frame(&raw)) != NULL && frame->bytes[54] != ROUTER_SOLICIT)
        continue;
    assert_non_null(frame); /* RFC 4861 6.3.7, from the link-local address */
    assert_int_equal(frame->len, 14 + 40 + 16);
    assert_int_equal(frame->bytes[22], 0xfe);
    while (raw_frame(&raw) != NULL)
        continue;
    raw_pump(&raw, 4 * SECOND);
    expect(&raw, ROUTER_SOLICIT);
    assert_null(us_connect(raw.stack, &remote, 80, 0, NULL, &error));
    give_advert(&raw, 1800, 10000, 9000);
    raw_pump(&raw, SECOND);
    raw_pump(&raw, 60 * SECOND); /* no solicitation any more */
    while ((frame = raw_frame(&raw)) != NULL)
        assert_int_not_equal(frame->bytes[54], ROUTER_SOLICIT);
    assert_true(auto_answers(&raw));
    assert_non_null(us_connect(raw.stack, &remote, 80, 0, NULL, &error));
    raw_pump(&raw, 0);
    frame = raw_frame(&raw);
    assert_memory_equal(frame->bytes, router_mac, 6);
    assert_int_equal(frame->bytes[20], US_IP_TCP);
    assert_int_equal(frame->bytes[21], 61); /* the hop limit that was advertised */
    assert_int_equal(frame->bytes[74] << 8 | frame->bytes[75], 0x0204); /* MSS from 1400 */
    assert_int_equal(frame->bytes[76] << 8 | frame->bytes[77], 1400 - 60);
    give_advert(&raw, 0, 10000, 9000); /* no router any more */
    assert_null(us_connect(raw.stack, &remote, 80, 0, NULL, &error));
    assert_int_equal(error, US_ERR_NO_ROUTE);
    give_advert(&raw, 1800, 10000, 9000);
    assert_non_null(us_connect(raw.stack, &remote, 80, 0, NULL, &error));
    /* RFC 4861 7.2.5: it says that it is none, without the flag. */
    make_nd(&raw, ADVERT, 0x20, &router, &us_ip6_all_nodes, &router, 2, router_mac[5]);
    craft_give(&raw, &packet);
    assert_null(us_connect(raw.stack, &remote, 80, 0, NULL, &error));
    raw_close(&raw);
    (void)state;
}

static const struct us_ip6 server6 = {{0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};

/* Opens a stack with an address and a router, and connects by it. */
static struct us_conn *connect_by_router(struct raw *raw)
{
    static const u_u8 syn_ack[24] = {0,      80,   0,    99, 0, 0, 0, 1, 0, 0, 0,    0,
                                     6 << 4, 0x12, 0xff, 0,  0, 0, 0, 0, 2, 4, 0x05, 0xa0};
    struct us_addr remote = addr6(&server6);
    const struct raw_frame *frame;
    struct us_conn *conn;
    u_u8 tcp[24];

    open_with(raw, 1);
    raw_pump(raw, SECOND);
    give_advert_of_mtu(raw, 1800, 10000, 9000, 1500);
    raw_pump(raw, SECOND);
    raw_pump(raw, SECOND);
    conn = us_connect(raw->stack, &remote, 80, 99, NULL, NULL);
    assert_non_null(conn);
    raw_pump(raw, 0);
    while ((frame = raw_frame(raw)) != NULL && frame->bytes[20] != US_IP_TCP)
        continue;
    assert_non_null(frame);
    memcpy(tcp, syn_ack, sizeof(tcp));
    memcpy(tcp + 8, frame->bytes + 58, 4); /* acknowledges the SYN */
    put32(tcp + 8, 1 + ((u_u32)tcp[8] << 24 | (u_u32)tcp[9] << 16 | (u_u32)tcp[10] << 8 | tcp[11]));
    craft_ip6(&packet, raw, US_IP_TCP, tcp, sizeof(tcp));
    craft_ip6_hdr(&packet)->src = server6;
    memcpy(&craft_ip6_hdr(&packet)->dst, frame->bytes + 22, 16);
    memcpy(packet.bytes + 6, router_mac, 6);
    craft_ip6_checksum(&packet, US_IP_TCP, 0, 16);
    craft_give(raw, &packet);
    raw_expect_event(raw, US_EV_CONNECTED);
    return conn;
}

/*
 * RFC 4861 7.2.5: an advertisement with another MAC address, but not to override, changes nothing:
 * not even whether its sender is a router.
 */
static void a_refused_advert_leaves_the_router(void **state)
{
    struct us_addr remote = addr6(&server6);
    struct raw raw;

    connect_by_router(&raw);
    make_nd(&raw, ADVERT, 0, &router, &us_ip6_all_nodes, &router, 2, 66);
    craft_give(&raw, &packet);
    assert_non_null(us_connect(raw.stack, &remote, 81, 0, NULL, NULL));
    make_nd(&raw, ADVERT, 0, &router, &us_ip6_all_nodes, &router, 2, router_mac[5]);
    craft_give(&raw, &packet);
    assert_null(us_connect(raw.stack, &remote, 82, 0, NULL, NULL));
    raw_close(&raw);
    (void)state;
}

/* RFC 4861 6.3.6: a router that does not answer any more is passed over for the next one. */
static void a_silent_router_is_passed_over(void **state)
{
    static const struct us_ip6 second = {{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8}};
    static const u_u8 second_mac[6] = {2, 0, 0, 0, 0, 8};
    static const u_u8 advert[24] = {
        ROUTER_ADVERT, 0, 0, 0, 64, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 0, 0, 0, 0, 8};
    struct us_addr remote = addr6(&server6);
    const struct raw_frame *frame;
    int of_first = 0, of_second = 0;
    struct raw raw;
    unsigned i;

    open_with(&raw, 1);
    raw_pump(&raw, SECOND);
    give_advert(&raw, 1800, 10000, 9000);
    make(&raw, &second, &us_ip6_all_nodes, advert, sizeof(advert));
    craft_give(&raw, &packet);
    for (i = 0; i < 2; i++)
        raw_pump(&raw, SECOND);
    assert_non_null(us_connect(raw.stack, &remote, 80, 99, NULL, NULL));
    for (i = 0; i < 30; i++) {
        raw_pump(&raw, SECOND);
        while ((frame = raw_frame(&raw)) != NULL) {
            if (frame->bytes[20] != US_IP_TCP)
                continue;
            of_first += memcmp(frame->bytes, router_mac, 6) == 0;
            of_second += memcmp(frame->bytes, second_mac, 6) == 0;
        }
    }
    assert_true(of_first > 0);
    assert_true(of_second > 0);
    raw_close(&raw);
    (void)state;
}

/* RFC 4862 5.5.3 (e) and 5.5.4. */
static void lifetimes_of_addresses(void **state)
{
    struct raw raw;
    int i;

    open_with(&raw, 1);
    raw_pump(&raw, SECOND);
    give_advert(&raw, 1800, 10000, 9000);
    for (i = 0; i < 2; i++)
        raw_pump(&raw, SECOND);
    assert_true(auto_answers(&raw));
    give_advert(&raw, 1800, 1, 1); /* less than two hours is not accepted */
    raw_pump(&raw, 100 * SECOND);
    assert_true(auto_answers(&raw));
    raw_pump(&raw, 7000 * (u_u64)SECOND);
    assert_true(auto_answers(&raw));
    raw_pump(&raw, 200 * SECOND);
    assert_false(auto_answers(&raw));
    raw_close(&raw);
    (void)state;
}

static void without_autoconf_routers_are_ignored(void **state)
{
    struct raw *raw = *state;

    give_advert(raw, 1800, 10000, 9000);
    raw_pump(raw, 2 * SECOND);
    assert_false(auto_answers(raw));
}

/* RFC 3810, RFC 2710: what a querier asks is answered in its version. */
static void queries_are_answered(void **state)
{
    static const u_u8 alert[8] = {58, 0, 5, 2, 0, 0, 1, 0};
    struct raw *raw = *state;
    const struct raw_frame *frame;
    u_u8 query[28] = {130};
    unsigned version;

    query[4] = 1000 >> 8;
    query[5] = 1000 & 0xff;
    for (version = 2; version > 0; version--) {
        u_u32 len = version == 2 ? 28 : 24;
        craft_l4_6(&packet, raw, 0, alert, 8, US_IP_ICMP6, query, len, 2);
        craft_ip6_hdr(&packet)->src = router;
        craft_ip6_hdr(&packet)->dst = us_ip6_all_nodes;
        us_eth_multicast_mac(packet.bytes, &us_ip6_all_nodes);
        craft_ip6_checksum(&packet, US_IP_ICMP6, 8, 2);
        craft_expect_counted(raw, &packet, "drop_nd_malformed"); /* hop limit 64 */
        craft_ip6_hdr(&packet)->hop_limit = 1;
        craft_give(raw, &packet);
        raw_pump(raw, 1024 * 1000);
        if (version == 2) {
            assert_int_equal(expect_report(raw, 2), 2);
        } else {
            frame = raw_frame(raw);
            assert_int_equal(frame->bytes[62], 131);
            assert_memory_equal(frame->bytes + 38, frame->bytes + 70, 16); /* to the group */
            assert_int_equal(raw_frame(raw)->bytes[62], 131);
        }
        raw_expect_nothing(raw);
    }
}

/* RFC 3810 5.1.3: from 0x8000 on the delay is a mantissa, with a bit in front, and an exponent. */
static void long_delays_of_queries(void **state)
{
    static const u_u8 alert[8] = {58, 0, 5, 2, 0, 0, 1, 0};
    struct raw *raw = *state;
    u_u8 query[28] = {130, 0, 0, 0, 0x80};

    craft_l4_6(&packet, raw, 0, alert, 8, US_IP_ICMP6, query, sizeof(query), 2);
    craft_ip6_hdr(&packet)->src = router;
    craft_ip6_hdr(&packet)->dst = us_ip6_all_nodes;
    craft_ip6_hdr(&packet)->hop_limit = 1;
    us_eth_multicast_mac(packet.bytes, &us_ip6_all_nodes);
    craft_ip6_checksum(&packet, US_IP_ICMP6, 8, 2);
    craft_give(raw, &packet);
    raw_expect_nothing(raw);
    raw_pump(raw, 0x1000 << 3 << 10); /* a 1024th at most counts as a ms */
    assert_int_equal(expect_report(raw, 2), 2);
}

int main(void)
{
#define RAW_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(duplicate_detection_precedes_use),
        cmocka_unit_test(duplicates_are_not_used),
        cmocka_unit_test(arp_passive_learns_and_resolves_only),
        RAW_TEST(solicitations_are_answered),
        RAW_TEST(a_learned_address_is_verified),
        RAW_TEST(a_changed_address_is_verified),
        cmocka_unit_test(a_tentative_address_answers_nothing),
        RAW_TEST(a_multicast_mac_is_not_learned),
        RAW_TEST(bad_messages_are_dropped),
        RAW_TEST(neighbours_are_asked_for),
        cmocka_unit_test(routers_and_their_prefixes),
        cmocka_unit_test(a_refused_advert_leaves_the_router),
        cmocka_unit_test(a_silent_router_is_passed_over),
        cmocka_unit_test(lifetimes_of_addresses),
        RAW_TEST(without_autoconf_routers_are_ignored),
        RAW_TEST(queries_are_answered),
        RAW_TEST(long_delays_of_queries),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
