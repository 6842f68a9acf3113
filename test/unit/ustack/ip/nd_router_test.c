/* SPDX-License-Identifier: BSD-3-Clause */
/* Routers, their prefixes, and the addresses that are made of these. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "craft_nd.h"
#include "pair.h"
#include "ustack/core/instance.h"
#include "ustack/ip/icmp6.h"

static struct craft packet;

static void put32(u_u8 *to, u_u32 v)
{
    struct u_be32 be = u_be32(v);

    memcpy(to, &be, 4);
}

static void give_advert_of_mtu(struct raw *raw, unsigned lifetime_s, u_u32 valid_s,
                               u_u32 preferred_s, u_u32 mtu)
{
    struct nd_router_advert advert = {lifetime_s, valid_s, preferred_s, mtu, 61, 0, 0, 0};

    nd_give_router_advert(raw, &advert);
}

static void give_advert(struct raw *raw, unsigned lifetime_s, u_u32 valid_s, u_u32 preferred_s)
{
    give_advert_of_mtu(raw, lifetime_s, valid_s, preferred_s, 1400);
}

static void routers_and_their_prefixes(void **state)
{
    struct us_addr remote = nd_addr(&nd_far);
    const struct raw_frame *frame;
    struct raw raw;
    int error;
    int i;

    nd_open_autoconf(&raw);
    for (i = 0; i < 2; i++)
        raw_pump(&raw, SECOND);
    while ((frame = raw_frame(&raw)) != NULL && frame->bytes[54] != ROUTER_SOLICIT)
        continue;
    assert_non_null(frame); /* RFC 4861 6.3.7, from the link-local address */
    assert_int_equal(frame->len, 14 + 40 + 16);
    assert_int_equal(frame->bytes[22], 0xfe);
    nd_skip_frames(&raw);
    raw_pump(&raw, 4 * SECOND);
    nd_expect(&raw, ROUTER_SOLICIT);
    assert_null(us_connect(raw.stack, &remote, 80, 0, NULL, &error));
    give_advert(&raw, 1800, 10000, 9000);
    raw_pump(&raw, SECOND);
    raw_pump(&raw, 60 * SECOND); /* no solicitation any more */
    while ((frame = raw_frame(&raw)) != NULL)
        assert_int_not_equal(frame->bytes[54], ROUTER_SOLICIT);
    assert_true(nd_auto_answers(&raw));
    assert_non_null(us_connect(raw.stack, &remote, 80, 0, NULL, &error));
    raw_pump(&raw, 0);
    frame = raw_frame(&raw);
    assert_memory_equal(frame->bytes, nd_router_mac, 6);
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
    nd_make_message(&packet, &raw, ADVERT, 0x20, &nd_router, &us_ip6_all_nodes, &nd_router, 2,
                    nd_router_mac[5]);
    craft_give(&raw, &packet);
    assert_null(us_connect(raw.stack, &remote, 80, 0, NULL, &error));
    raw_close(&raw);
    (void)state;
}

/* Opens a stack with an address and a router, and connects by it. */
static struct us_conn *connect_by_router(struct raw *raw)
{
    static const u_u8 syn_ack[24] = {0,      80,   0,    99, 0, 0, 0, 1, 0, 0, 0,    0,
                                     6 << 4, 0x12, 0xff, 0,  0, 0, 0, 0, 2, 4, 0x05, 0xa0};
    struct us_addr remote = nd_addr(&nd_far);
    const struct raw_frame *frame;
    struct us_conn *conn;
    u_u8 tcp[24];

    nd_open_autoconf(raw);
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
    craft_ip6_hdr(&packet)->src = nd_far;
    memcpy(&craft_ip6_hdr(&packet)->dst, frame->bytes + 22, 16);
    memcpy(packet.bytes + 6, nd_router_mac, 6);
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
    struct us_addr remote = nd_addr(&nd_far);
    struct raw raw;

    connect_by_router(&raw);
    nd_make_message(&packet, &raw, ADVERT, 0, &nd_router, &us_ip6_all_nodes, &nd_router, 2, 66);
    craft_give(&raw, &packet);
    assert_non_null(us_connect(raw.stack, &remote, 81, 0, NULL, NULL));
    nd_make_message(&packet, &raw, ADVERT, 0, &nd_router, &us_ip6_all_nodes, &nd_router, 2,
                    nd_router_mac[5]);
    craft_give(&raw, &packet);
    assert_null(us_connect(raw.stack, &remote, 82, 0, NULL, NULL));
    raw_close(&raw);
    (void)state;
}

static const u_u8 second_mac[6] = {2, 0, 0, 0, 0, 8};

/* An advertisement of fe80::8, for two hours. */
static void give_second_advert(struct raw *raw)
{
    static const struct us_ip6 second = {{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8}};
    u_u8 advert[24] = {ROUTER_ADVERT};

    advert[4] = 64;
    advert[6] = 7200 >> 8;
    advert[7] = 7200 & 0xff;
    advert[16] = advert[17] = 1; /* its MAC address */
    memcpy(advert + 18, second_mac, 6);
    nd_make(&packet, raw, &second, &us_ip6_all_nodes, advert, sizeof(advert));
    craft_give(raw, &packet);
}

/* RFC 4861 6.3.6: a router that does not answer any more is passed over for the next one. */
static void a_silent_router_is_passed_over(void **state)
{
    struct us_addr remote = nd_addr(&nd_far);
    const struct raw_frame *frame;
    int of_first = 0, of_second = 0;
    struct raw raw;
    unsigned i;

    nd_open_autoconf(&raw);
    raw_pump(&raw, SECOND);
    give_advert(&raw, 1800, 10000, 9000);
    give_second_advert(&raw);
    for (i = 0; i < 2; i++)
        raw_pump(&raw, SECOND);
    assert_non_null(us_connect(raw.stack, &remote, 80, 99, NULL, NULL));
    for (i = 0; i < 30; i++) {
        raw_pump(&raw, SECOND);
        while ((frame = raw_frame(&raw)) != NULL) {
            if (frame->bytes[20] != US_IP_TCP)
                continue;
            of_first += memcmp(frame->bytes, nd_router_mac, 6) == 0;
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

    nd_open_autoconf(&raw);
    raw_pump(&raw, SECOND);
    give_advert(&raw, 1800, 10000, 9000);
    for (i = 0; i < 2; i++)
        raw_pump(&raw, SECOND);
    assert_true(nd_auto_answers(&raw));
    give_advert(&raw, 1800, 1, 1); /* less than two hours is not accepted */
    raw_pump(&raw, 100 * SECOND);
    assert_true(nd_auto_answers(&raw));
    raw_pump(&raw, 7000 * (u_u64)SECOND);
    assert_true(nd_auto_answers(&raw));
    raw_pump(&raw, 200 * SECOND);
    assert_false(nd_auto_answers(&raw));
    raw_close(&raw);
    (void)state;
}

static void without_autoconf_routers_are_ignored(void **state)
{
    struct raw raw;

    nd_open(&raw, NULL);
    craft_enable6(&raw);
    give_advert(&raw, 1800, 10000, 9000);
    raw_pump(&raw, 2 * SECOND);
    assert_false(nd_auto_answers(&raw));
    raw_close(&raw);
    (void)state;
}

/* ---- addresses ---- */

/* Opens a stack that has made nd_auto of an advertisement, whose times count from now. */
static void open_with_address(struct raw *raw, u_u32 valid_s, u_u32 preferred_s)
{
    nd_open_autoconf(raw);
    raw_pump(raw, SECOND);
    give_advert_of_mtu(raw, 1800, valid_s, preferred_s, 0);
    raw_pump(raw, SECOND);
    raw_pump(raw, SECOND);
    nd_skip_frames(raw);
    assert_true(nd_auto_answers(raw));
}

static unsigned auto_state(const struct raw *raw)
{
    u_u32 i = us_local6_find(raw->stack, &nd_auto);

    return i < US_LOCAL6_MAX ? raw->stack->nd.locals[i].state : (unsigned)US_LOCAL6_FREE;
}

/* A segment without payload from the far host, by the router. */
static void give_segment(struct raw *raw, unsigned port, unsigned flags, u_u32 seq, u_u32 ack)
{
    u_u8 tcp[20] = {0};

    tcp[1] = (u_u8)port;
    tcp[2] = RAW_PORT >> 8;
    tcp[3] = RAW_PORT & 0xff;
    put32(tcp + 4, seq);
    put32(tcp + 8, ack);
    tcp[12] = 5 << 4;
    tcp[13] = (u_u8)flags;
    tcp[14] = 0xff;
    craft_ip6(&packet, raw, US_IP_TCP, tcp, sizeof(tcp));
    craft_ip6_hdr(&packet)->src = nd_far;
    craft_ip6_hdr(&packet)->dst = nd_auto;
    memcpy(packet.bytes + 6, nd_router_mac, 6);
    craft_ip6_checksum(&packet, US_IP_TCP, 0, 16);
    craft_give(raw, &packet);
}

/* A connection in TIME-WAIT, one whose handshake is under way, and one that tries to connect. */
static void make_connections(struct raw *raw)
{
    struct us_addr far = nd_addr(&nd_far);
    struct us_conn *conn;
    u_u32 iss;
    u_u8 *seq;

    give_segment(raw, 1, US_TCP_SYN, 1000, 0);
    seq = raw_frame(raw)->bytes + 58;
    iss = (u_u32)seq[0] << 24 | (u_u32)seq[1] << 16 | (u_u32)seq[2] << 8 | seq[3];
    give_segment(raw, 1, US_TCP_ACK, 1001, iss + 1);
    conn = raw_expect_event(raw, US_EV_ACCEPTED)->conn;
    assert_int_equal(us_close(raw->stack, conn), US_OK);
    raw_pump(raw, 0);
    give_segment(raw, 1, US_TCP_FIN | US_TCP_ACK, 1001, iss + 2);
    while (raw_event(raw) != NULL)
        continue;
    give_segment(raw, 2, US_TCP_SYN, 1000, 0);
    assert_non_null(us_connect(raw->stack, &far, 80, 0, NULL, NULL));
    raw_pump(raw, 0);
    assert_int_equal(raw_counter(raw, "time_wait"), 1);
    assert_int_equal(raw_counter(raw, "half_open"), 1);
    assert_int_equal(raw_counter(raw, "conns_open"), 1);
}

/* RFC 4862 5.5.4: deprecated to the microsecond, then gone, with all that used it. */
static void an_expired_address_leaves_nothing(void **state)
{
    struct raw raw;

    open_with_address(&raw, 30, 20); /* two seconds ago */
    make_connections(&raw);
    raw_pump(&raw, 18 * SECOND - 1);
    assert_int_equal(auto_state(&raw), US_LOCAL6_PREFERRED);
    raw_pump(&raw, 1);
    assert_int_equal(auto_state(&raw), US_LOCAL6_DEPRECATED);
    raw_pump(&raw, 10 * SECOND - 1);
    nd_skip_frames(&raw);
    nd_make_query(&packet, &raw, 0x7fff, 28);
    craft_give(&raw, &packet);
    raw_expect_nothing(&raw);
    assert_int_equal(auto_state(&raw), US_LOCAL6_DEPRECATED);
    raw_pump(&raw, 1);
    assert_int_equal(auto_state(&raw), US_LOCAL6_FREE);
    assert_int_equal(raw_expect_event(&raw, US_EV_CLOSED)->reason, US_CLOSE_UNREACHABLE);
    assert_int_equal(raw_counter(&raw, "time_wait"), 0);
    assert_int_equal(raw_counter(&raw, "half_open"), 0);
    assert_int_equal(raw_counter(&raw, "conns_open"), 0);
    raw_pump(&raw, 40 * SECOND);
    assert_int_equal(nd_expect_report(&raw, 2), 1); /* the group of the link-local address */
    raw_close(&raw);
    (void)state;
}

/* Connections of other addresses stay open. */
static void an_expired_address_takes_no_other_connections(void **state)
{
    struct us_conn *conn;
    struct raw raw;
    u_u32 snd;

    open_with_address(&raw, 30, 20);
    raw.answer_arp = 1;
    conn = raw_accept(&raw, &snd);
    assert_int_equal(us_close(raw.stack, conn), US_OK);
    raw_pump(&raw, 0);
    raw_segment(&raw, US_TCP_FIN | US_TCP_ACK, 1001, snd + 1, 65535, NULL, 0);
    raw_expect_event(&raw, US_EV_PEER_CLOSED);
    raw_expect_event(&raw, US_EV_CLOSED);
    nd_skip_frames(&raw);
    raw.peer_port++;
    raw_accept(&raw, &snd);
    raw_pump(&raw, 30 * SECOND);
    assert_int_equal(auto_state(&raw), US_LOCAL6_FREE);
    assert_null(raw_event(&raw));
    assert_int_equal(raw_counter(&raw, "time_wait"), 1);
    assert_int_equal(raw_counter(&raw, "conns_open"), 1);
    raw_close(&raw);
    (void)state;
}

/* The end of a router's lifetime is a deadline, also without a prefix and solicitations. */
static void a_routers_lifetime_is_a_deadline(void **state)
{
    const struct nd_router_advert advert = {5, 0, 0, 0, 0, 0, 0x40, 0};
    struct raw raw;
    unsigned i;

    nd_open_autoconf(&raw);
    for (i = 0; i < 8; i++)
        raw_pump(&raw, 4 * SECOND);
    nd_give_router_advert(&raw, &advert);
    assert_true(us_deadline(raw.stack) <= raw.now_us + 5 * SECOND);
    raw_close(&raw);
    (void)state;
}

/* An address that ends before us_output() is called: nothing is sent about it. */
static void nothing_is_sent_about_a_removed_address(void **state)
{
    struct us_config config;
    struct raw_frame *frame;
    struct raw raw;
    unsigned probes;

    for (probes = 0; probes < 3; probes++) { /* an announcement is due, or a probe */
        pair_config(&config, 0);
        config.ip6_autoconf = 1;
        config.dad_probes = probes;
        nd_open(&raw, &config);
        raw_pump(&raw, 10 * SECOND);
        raw_pump(&raw, 10 * SECOND);
        nd_skip_frames(&raw);
        raw.no_pump = 1;
        give_advert_of_mtu(&raw, 1800, 1, 1, 0);
        assert_int_not_equal(auto_state(&raw), US_LOCAL6_FREE);
        us_input(raw.stack, NULL, 0, raw.now_us += SECOND);
        assert_int_equal(auto_state(&raw), US_LOCAL6_FREE);
        raw_pump(&raw, 0);
        raw_pump(&raw, 10 * SECOND);
        while ((frame = raw_frame(&raw)) != NULL)
            assert_int_equal(frame->bytes[54], ROUTER_SOLICIT);
        raw_close(&raw);
    }
    (void)state;
}

/* RFC 4862 5.5.3 (e): short lifetimes are extended, and preferred again. */
static void short_lifetimes_are_extended(void **state)
{
    struct raw raw;

    open_with_address(&raw, 30, 10);
    raw_pump(&raw, 10 * SECOND);
    assert_int_equal(auto_state(&raw), US_LOCAL6_DEPRECATED);
    give_advert(&raw, 1800, 100, 50);
    assert_int_equal(auto_state(&raw), US_LOCAL6_PREFERRED);
    raw_pump(&raw, 100 * SECOND - 1);
    assert_int_equal(auto_state(&raw), US_LOCAL6_DEPRECATED);
    raw_pump(&raw, 1);
    assert_int_equal(auto_state(&raw), US_LOCAL6_FREE);
    raw_close(&raw);
    (void)state;
}

/* RFC 4862 5.5.3 (e): a lifetime above two hours is taken although it is shorter. */
static void long_lifetimes_are_shortened(void **state)
{
    enum { DAY_S = 24 * 3600 };
    struct raw raw;

    open_with_address(&raw, 30 * DAY_S, DAY_S);
    give_advert(&raw, 1800, DAY_S / 8, 60);
    raw_pump(&raw, DAY_S / 8 * (u_u64)SECOND - 1);
    assert_int_equal(auto_state(&raw), US_LOCAL6_DEPRECATED);
    raw_pump(&raw, 1);
    assert_int_equal(auto_state(&raw), US_LOCAL6_FREE);
    raw_close(&raw);
    (void)state;
}

/* RFC 4861 4.6.2: all bits set mean that it does not end. */
static void infinite_lifetimes_do_not_end(void **state)
{
    struct raw raw;

    open_with_address(&raw, 0xffffffffu, 0xffffffffu);
    raw_pump(&raw, (u_u64)SECOND << 32);
    assert_int_equal(auto_state(&raw), US_LOCAL6_PREFERRED);
    raw_close(&raw);
    (void)state;
}

/* RFC 4862 5.5.3 (e) is for addresses that are made of a prefix: one that the host sets stays. */
static void an_advert_does_not_limit_an_address_that_was_set(void **state)
{
    struct us_addr addr = nd_addr(&nd_auto);
    struct raw raw;

    open_with_address(&raw, 30, 20);
    raw_pump(&raw, 30 * SECOND);
    assert_int_equal(auto_state(&raw), US_LOCAL6_FREE);
    assert_int_equal(us_addr_add(raw.stack, &addr, 64), US_OK);
    give_advert(&raw, 1800, 30, 20);
    raw_pump(&raw, SECOND);
    raw_pump(&raw, (u_u64)10000 * SECOND);
    assert_int_equal(auto_state(&raw), US_LOCAL6_PREFERRED);
    raw_close(&raw);
    (void)state;
}

/* RFC 4862 5.5.3 (c), (d); and the bound of addresses. */
static void which_prefixes_make_addresses(void **state)
{
    static const struct nd_router_advert bad[] = {
        {1800, 30, 31, 0, 0, 0, 0, 0},    {1800, 0, 0, 0, 0, 0, 0, 0},
        {1800, 30, 20, 0, 0, 63, 0, 0},   {1800, 30, 20, 0, 0, 65, 0, 0},
        {1800, 30, 20, 0, 0, 0, 0x80, 0},
    };
    struct nd_router_advert good = {1800, 30, 20, 0, 0, 0, 0x40, 0};
    struct raw raw;
    unsigned i;

    nd_open_autoconf(&raw);
    for (i = 0; i < U_ARRAY_LEN(bad); i++) {
        nd_give_router_advert(&raw, &bad[i]);
        assert_int_equal(auto_state(&raw), US_LOCAL6_FREE);
    }
    for (i = 0; i < 5; i++) {
        good.prefix_byte = (u_u8)(i + 1);
        nd_give_router_advert(&raw, &good);
        assert_int_equal(raw_counter(&raw, "nd_table_full"), 0);
    }
    good.prefix_byte = 6; /* the others are for us_addr_add() */
    nd_give_router_advert(&raw, &good);
    assert_int_equal(raw_counter(&raw, "nd_table_full"), 1);
    raw_close(&raw);
    (void)state;
}

/* ---- advertisements ---- */

/* RFC 4861 6.1.2. */
static void bad_adverts_are_dropped(void **state)
{
    static const struct us_ip6 global = {{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9}};
    const struct nd_router_advert advert = {1800, 30, 20, 0, 0, 0, 0, 0};
    struct raw raw;
    unsigned i;

    nd_open_autoconf(&raw);
    for (i = 0; i < 4; i++) {
        nd_make_router_advert(&packet, &raw, &advert);
        if (i == 0)
            craft_ip6_hdr(&packet)->src = global;
        if (i == 1)
            craft_ip6_hdr(&packet)->hop_limit = 254;
        if (i == 2)
            packet.bytes[55] = 1; /* code */
        if (i == 3) {
            packet.len = 54 + 15;
            craft_ip6_hdr(&packet)->payload_bytes = u_be16(15);
        }
        craft_ip6_checksum(&packet, US_IP_ICMP6, 0, 2);
        craft_expect_counted(&raw, &packet, "drop_nd_malformed");
    }
    assert_null(us_nd_router(raw.stack));
    raw_close(&raw);
    (void)state;
}

/* RFC 4861 6.3.4: invalid options of an advertisement are ignored. */
static void senseless_options_are_ignored(void **state)
{
    static const u_u32 mtus[][2] = {{1279, 1500}, {1501, 1500}, {1280, 1280}, {1500, 1500}};
    struct nd_router_advert advert = {1800, 30, 20, 0, 0, 129, 0x80, 0};
    struct raw raw;
    unsigned i;

    nd_open_autoconf(&raw);
    nd_give_router_advert(&raw, &advert); /* a prefix of 129 bits */
    assert_int_equal(raw.stack->nd.prefixes[0].until_us, 0);
    assert_int_equal(raw.stack->nd.hop_limit, 64); /* 0 says nothing */
    advert.prefix_len = 64;
    nd_make_router_advert(&packet, &raw, &advert);
    memcpy(packet.bytes + 54 + 48, "\xfe\x80\0\0", 4);
    craft_ip6_checksum(&packet, US_IP_ICMP6, 0, 2);
    craft_give(&raw, &packet); /* the link-local prefix */
    assert_int_equal(raw.stack->nd.prefixes[0].until_us, 0);
    for (i = 0; i < U_ARRAY_LEN(mtus); i++) {
        advert.mtu = mtus[i][0];
        nd_give_router_advert(&raw, &advert);
        assert_int_equal(raw.stack->nd.mtu, mtus[i][1]);
    }
    raw_close(&raw);
    (void)state;
}

/* The MTU of a router advertisement applies while that of the link is larger. */
static void the_smaller_mtu_counts(void **state)
{
    static const u_u32 mtus[][2] = {{1450, 1400}, {1300, 1300}, {1500, 1500}};
    struct raw raw;
    unsigned i;

    nd_open_autoconf(&raw);
    give_advert_of_mtu(&raw, 1800, 30, 20, 1400);
    assert_int_equal(us_ip_mtu(raw.stack, 1), 1400);
    for (i = 0; i < U_ARRAY_LEN(mtus); i++) {
        us_mtu_set(raw.stack, mtus[i][0]);
        assert_int_equal(us_ip_mtu(raw.stack, 1), mtus[i][1]);
    }
    raw_close(&raw);
    (void)state;
}

/* The end of a prefix that is not in the table needs no room there. */
static void prefixes_are_bounded(void **state)
{
    struct nd_router_advert advert = {1800, 30, 20, 0, 0, 0, 0x80, 0};
    struct raw raw;
    unsigned i;

    nd_open_autoconf(&raw);
    for (i = 0; i < US_PREFIXES_MAX; i++) {
        advert.prefix_byte = (u_u8)(i + 1);
        nd_give_router_advert(&raw, &advert);
    }
    advert.prefix_byte++;
    advert.valid_s = advert.preferred_s = 0;
    nd_give_router_advert(&raw, &advert);
    assert_int_equal(raw_counter(&raw, "nd_table_full"), 0);
    advert.valid_s = 30;
    nd_give_router_advert(&raw, &advert);
    assert_int_equal(raw_counter(&raw, "nd_table_full"), 1);
    raw_close(&raw);
    (void)state;
}

/* ---- routers ---- */

/* RFC 4861 6.3.7: three solicitations, 4 s apart, from when the link-local address is usable. */
static void solicitations_are_few(void **state)
{
    struct us_addr addr = nd_addr(&craft_local6);
    const struct raw_frame *frame;
    struct us_config config;
    struct raw raw;
    unsigned passive, s;

    for (passive = 0; passive < 2; passive++) {
        pair_config(&config, 0);
        config.ip6_autoconf = 1;
        config.arp_passive = passive;
        nd_open(&raw, &config);
        raw_pump(&raw, 0);
        nd_skip_frames(&raw);
        for (s = 1; s < 60; s++) {
            int solicited = 0;
            raw_pump(&raw, SECOND);
            while ((frame = raw_frame(&raw)) != NULL)
                solicited += frame->bytes[54] == ROUTER_SOLICIT;
            assert_int_equal(solicited, !passive && (s == 1 || s == 5 || s == 9));
            if (s == 2) /* this one is usable a second later */
                assert_int_equal(us_addr_add(raw.stack, &addr, 64), US_OK);
        }
        raw_close(&raw);
    }
    (void)state;
}

/* RFC 4861 6.3.7: none once a router has advertised itself. */
static void no_solicitation_after_an_advert(void **state)
{
    const struct raw_frame *frame;
    struct raw raw;
    unsigned s;

    nd_open_autoconf(&raw);
    give_advert(&raw, 1800, 10000, 9000); /* before the link-local address may be used */
    for (s = 0; s < 60; s++) {
        raw_pump(&raw, SECOND);
        while ((frame = raw_frame(&raw)) != NULL)
            assert_int_not_equal(frame->bytes[54], ROUTER_SOLICIT);
    }
    raw_close(&raw);
    (void)state;
}

/* A router that the host has set has no lifetime, whatever it advertises. */
static void a_router_that_was_set_stays(void **state)
{
    struct us_addr gateway = nd_addr(&nd_router);
    struct us_ip6 other = nd_router;
    struct raw raw;

    nd_open_autoconf(&raw);
    raw_pump(&raw, SECOND);
    assert_int_equal(us_gateway_set(raw.stack, &gateway), US_OK);
    give_advert(&raw, 10, 10000, 9000);
    raw_pump(&raw, 20 * SECOND);
    give_advert(&raw, 0, 10000, 9000);
    assert_memory_equal(us_nd_router(raw.stack), &nd_router, 16);
    /* Another one is preferred as soon as it is set, whichever is now. */
    us_nd_router_failed(raw.stack, &nd_router);
    other.b[15] = 8;
    gateway = nd_addr(&other);
    assert_int_equal(us_gateway_set(raw.stack, &gateway), US_OK);
    give_advert(&raw, 1800, 10000, 9000);
    assert_memory_equal(us_nd_router(raw.stack), &other, 16);
    raw_close(&raw);
    (void)state;
}

/* The destination of the next frame with TCP, within so many seconds. */
static const u_u8 *next_hop_of_tcp(struct raw *raw, unsigned within_s)
{
    const struct raw_frame *frame;

    for (; within_s > 0; within_s--) {
        raw_pump(raw, SECOND);
        while ((frame = raw_frame(raw)) != NULL)
            if (frame->bytes[20] == US_IP_TCP)
                return frame->bytes;
    }
    fail();
    return NULL;
}

/* RFC 4861 5.2: a connection goes to its peer while that is on the link, else by the router. */
static void connections_follow_prefixes(void **state)
{
    static const struct us_ip6 peer = {{0xfd, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7}};
    static const u_u8 peer_mac[6] = {2, 0, 0, 0, 0, 7};
    struct nd_router_advert advert = {1800, 1000, 1000, 0, 0, 0, 0x80, 0};
    struct us_addr remote = nd_addr(&peer);
    struct us_addr own = nd_addr(&craft_local6);
    struct raw raw;

    nd_open_autoconf(&raw);
    assert_int_equal(us_addr_add(raw.stack, &own, 64), US_OK);
    raw_pump(&raw, SECOND);
    raw_pump(&raw, SECOND);
    advert.prefix_byte = 6;
    nd_give_router_advert(&raw, &advert); /* a router, and another prefix */
    assert_non_null(us_connect(raw.stack, &remote, 80, 0, NULL, NULL));
    assert_memory_equal(next_hop_of_tcp(&raw, 2), nd_router_mac, 6);
    advert.prefix_byte = 5;
    advert.valid_s = advert.preferred_s = 5;
    nd_give_router_advert(&raw, &advert);
    raw_pump(&raw, 4 * SECOND); /* the SYN is due again: it waits for the peer's MAC address */
    nd_make_message(&packet, &raw, ADVERT, 0x60, &peer, &craft_local6, &peer, 2, 7);
    craft_give(&raw, &packet);
    assert_memory_equal(next_hop_of_tcp(&raw, 2), peer_mac, 6);
    assert_memory_equal(next_hop_of_tcp(&raw, 30), nd_router_mac, 6);
    raw_close(&raw);
    (void)state;
}

/* RFC 4861 6.3.5: connections leave a router whose lifetime has ended. */
static void connections_leave_an_expired_router(void **state)
{
    struct us_conn *conn;
    struct raw raw;

    conn = connect_by_router(&raw);
    give_second_advert(&raw);
    raw_pump(&raw, 1790 * (u_u64)SECOND);
    nd_skip_frames(&raw);
    assert_int_equal(us_send(raw.stack, conn, "a", 1), 1);
    assert_memory_equal(next_hop_of_tcp(&raw, 1), nd_router_mac, 6);
    raw_pump(&raw, 10 * SECOND);
    nd_skip_frames(&raw);
    assert_int_equal(us_send(raw.stack, conn, "b", 1), 1);
    assert_memory_equal(next_hop_of_tcp(&raw, 10), second_mac, 6);
    raw_close(&raw);
}

/* RFC 4861 6.2.8: a lifetime of 0 says that it is no router any more. */
static void connections_leave_a_router_that_ceases(void **state)
{
    struct us_conn *conn;
    struct raw raw;

    conn = connect_by_router(&raw);
    give_second_advert(&raw);
    nd_skip_frames(&raw);
    assert_int_equal(us_send(raw.stack, conn, "a", 1), 1);
    assert_memory_equal(next_hop_of_tcp(&raw, 1), nd_router_mac, 6);
    give_advert(&raw, 0, 30, 20);
    nd_skip_frames(&raw);
    assert_int_equal(us_send(raw.stack, conn, "b", 1), 1);
    assert_memory_equal(next_hop_of_tcp(&raw, 10), second_mac, 6);
    give_advert(&raw, 1800, 30, 20); /* it is one again, the first of the list */
    nd_skip_frames(&raw);
    assert_int_equal(us_send(raw.stack, conn, "c", 1), 1);
    assert_memory_equal(next_hop_of_tcp(&raw, 10), nd_router_mac, 6);
    raw_close(&raw);
}

/* Without a router nothing is sent, until there is one again. */
static void connections_wait_for_a_router(void **state)
{
    const struct raw_frame *frame;
    struct us_conn *conn;
    struct raw raw;

    conn = connect_by_router(&raw);
    give_advert(&raw, 0, 10000, 9000);
    nd_skip_frames(&raw);
    assert_int_equal(us_send(raw.stack, conn, "a", 1), 1);
    raw_pump(&raw, 0);
    while ((frame = raw_frame(&raw)) != NULL)
        assert_int_not_equal(frame->bytes[20], US_IP_TCP);
    give_advert(&raw, 1800, 10000, 9000);
    assert_memory_equal(next_hop_of_tcp(&raw, 10), nd_router_mac, 6);
    raw_close(&raw);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(routers_and_their_prefixes),
        cmocka_unit_test(a_refused_advert_leaves_the_router),
        cmocka_unit_test(a_silent_router_is_passed_over),
        cmocka_unit_test(lifetimes_of_addresses),
        cmocka_unit_test(without_autoconf_routers_are_ignored),
        cmocka_unit_test(an_expired_address_leaves_nothing),
        cmocka_unit_test(an_expired_address_takes_no_other_connections),
        cmocka_unit_test(a_routers_lifetime_is_a_deadline),
        cmocka_unit_test(nothing_is_sent_about_a_removed_address),
        cmocka_unit_test(short_lifetimes_are_extended),
        cmocka_unit_test(long_lifetimes_are_shortened),
        cmocka_unit_test(infinite_lifetimes_do_not_end),
        cmocka_unit_test(an_advert_does_not_limit_an_address_that_was_set),
        cmocka_unit_test(which_prefixes_make_addresses),
        cmocka_unit_test(bad_adverts_are_dropped),
        cmocka_unit_test(senseless_options_are_ignored),
        cmocka_unit_test(the_smaller_mtu_counts),
        cmocka_unit_test(prefixes_are_bounded),
        cmocka_unit_test(solicitations_are_few),
        cmocka_unit_test(no_solicitation_after_an_advert),
        cmocka_unit_test(a_router_that_was_set_stays),
        cmocka_unit_test(connections_follow_prefixes),
        cmocka_unit_test(connections_leave_an_expired_router),
        cmocka_unit_test(connections_leave_a_router_that_ceases),
        cmocka_unit_test(connections_wait_for_a_router),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
