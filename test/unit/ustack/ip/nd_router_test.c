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

/* RFC 4861 6.3.6: a router that does not answer any more is passed over for the next one. */
static void a_silent_router_is_passed_over(void **state)
{
    static const struct us_ip6 second = {{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8}};
    static const u_u8 second_mac[6] = {2, 0, 0, 0, 0, 8};
    static const u_u8 advert[24] = {
        ROUTER_ADVERT, 0, 0, 0, 64, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 0, 0, 0, 0, 8};
    struct us_addr remote = nd_addr(&nd_far);
    const struct raw_frame *frame;
    int of_first = 0, of_second = 0;
    struct raw raw;
    unsigned i;

    nd_open_autoconf(&raw);
    raw_pump(&raw, SECOND);
    give_advert(&raw, 1800, 10000, 9000);
    nd_make(&packet, &raw, &second, &us_ip6_all_nodes, advert, sizeof(advert));
    craft_give(&raw, &packet);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(routers_and_their_prefixes),
        cmocka_unit_test(a_refused_advert_leaves_the_router),
        cmocka_unit_test(a_silent_router_is_passed_over),
        cmocka_unit_test(lifetimes_of_addresses),
        cmocka_unit_test(without_autoconf_routers_are_ignored),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
