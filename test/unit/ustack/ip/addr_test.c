/* SPDX-License-Identifier: BSD-3-Clause */
/* Classes of addresses, local addresses, and the source address of a packet. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "craft_nd.h"
#include "pair.h"
#include "ustack/core/instance.h"

static void prefixes_are_compared_bit_by_bit(void **state)
{
    struct us_ip6 a = craft_local6;
    unsigned bits, bit;

    for (bit = 0; bit < 128; bit++) {
        struct us_ip6 b = a;
        b.b[bit / 8] ^= (u_u8)(0x80 >> bit % 8);
        for (bits = 0; bits <= 128; bits++)
            assert_int_equal(us_ip6_prefix_equal(&a, &b, bits), bits <= bit);
    }
    assert_true(us_ip6_prefix_equal(&a, &a, 128));
    (void)state;
}

static int is_host(const struct raw *raw, u_u32 ip)
{
    return us_ip_is_unicast(raw->stack, us_ip4(ip));
}

static int add4(struct raw *raw, u_u32 ip, unsigned prefix_len)
{
    struct us_addr addr;

    us_addr_from_ip(&addr, us_ip4(ip));
    return us_addr_add(raw->stack, &addr, prefix_len);
}

/* RFC 1122 3.2.1.3, RFC 919, RFC 3021. */
static void ipv4_addresses_have_classes(void **state)
{
    struct raw raw;

    raw_open(&raw, NULL);
    assert_int_equal(add4(&raw, 0x0a010001, 31), US_OK);
    assert_int_equal(add4(&raw, 0x0a020001, 30), US_OK);
    assert_true(is_host(&raw, 0x0a010000)); /* two hosts and nothing else */
    assert_true(us_ip_is_neighbour(raw.stack, us_ip4(0x0a010000)));
    assert_false(us_ip4_is_broadcast(raw.stack, 0x0a010000));
    assert_false(is_host(&raw, 0x0a020000));
    assert_true(is_host(&raw, 0x0a020002));
    assert_false(is_host(&raw, 0x0a020003));
    assert_true(us_ip4_is_broadcast(raw.stack, 0x0a020003));
    assert_false(us_ip4_is_broadcast(raw.stack, 0x0a020007)); /* of another network */
    assert_false(us_ip_is_neighbour(raw.stack, us_ip4(0x0a020004)));
    assert_int_equal(add4(&raw, 0x7f000001, 8), US_ERR_ARGUMENT);
    assert_int_equal(add4(&raw, 0xe0000001, 8), US_ERR_ARGUMENT);
    assert_int_equal(add4(&raw, 0xf0000001, 8), US_ERR_ARGUMENT);
    assert_int_equal(add4(&raw, 0x0a040001, 33), US_ERR_ARGUMENT);
    assert_int_equal(add4(&raw, 0x0a040001, 32), US_OK); /* nothing but itself */
    assert_false(us_ip_is_neighbour(raw.stack, us_ip4(0x0a040000)));
    assert_int_equal(add4(&raw, 0x0a030001, 0), US_OK); /* everything is on the link */
    assert_true(us_ip_is_neighbour(raw.stack, us_ip4(0xc0a80001)));
    assert_false(us_ip4_is_broadcast(raw.stack, 0));
    assert_true(us_ip4_is_broadcast(raw.stack, 0xffffffffu));
    raw_close(&raw);
    (void)state;
}

/* RFC 4291 2.5.5: IPv4 addresses in the form of IPv6 are not for the wire. */
static void ipv6_addresses_have_classes(void **state)
{
    static const struct us_ip6 bad[] = {
        {{0}},
        {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}},
        {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 1}},
        {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1}},
        {{0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}},
    };
    struct us_addr addr;
    struct raw raw;
    unsigned i;

    nd_open(&raw, NULL);
    for (i = 0; i < U_ARRAY_LEN(bad); i++) {
        addr = nd_addr(&bad[i]);
        assert_int_equal(us_addr_add(raw.stack, &addr, 64), US_ERR_ARGUMENT);
    }
    addr = nd_addr(&craft_local6);
    assert_int_equal(us_addr_add(raw.stack, &addr, 129), US_ERR_ARGUMENT);
    assert_int_equal(us_addr_add(raw.stack, &addr, 128), US_OK);
    raw_close(&raw);
    (void)state;
}

static const struct us_ip6 *source_for(const struct raw *raw, const struct us_ip6 *dst)
{
    struct us_route route;

    assert_true(us_route_find(raw->stack, us_ip6(raw->stack, dst), &route));
    return &raw->stack->nd.locals[route.src_ip].addr;
}

/* RFC 6724 section 5: scope, then not deprecated, then the longest common prefix. */
static void sources_are_chosen(void **state)
{
    static const struct us_ip6 near_auto = {
        {0xfd, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, 0, 7}};
    const struct nd_router_advert advert = {1800, 30, 10, 0, 0, 0, 0, 0};
    struct us_ip6 link_local;
    struct raw raw;

    nd_open_autoconf(&raw);
    link_local = us_nd_link_local(raw.stack);
    raw_pump(&raw, SECOND);
    nd_give_router_advert(&raw, &advert);
    raw_pump(&raw, SECOND);
    assert_memory_equal(source_for(&raw, &nd_router), &link_local, 16);
    assert_memory_equal(source_for(&raw, &nd_far), &nd_auto, 16);
    raw_pump(&raw, 9 * SECOND); /* deprecated, but of the right scope */
    assert_memory_equal(source_for(&raw, &nd_far), &nd_auto, 16);
    nd_give_router_advert(&raw, &advert);
    craft_enable6(&raw);
    assert_memory_equal(source_for(&raw, &near_auto), &nd_auto, 16);
    assert_memory_equal(source_for(&raw, &craft_peer6), &craft_local6, 16);
    assert_memory_equal(source_for(&raw, &nd_router), &link_local, 16);
    raw_pump(&raw, 9 * SECOND);
    assert_memory_equal(source_for(&raw, &near_auto), &craft_local6, 16);
    raw_close(&raw);
    (void)state;
}

/* RFC 4862 5.4: until it is known to be no duplicate an address sends nothing. */
static void a_tentative_address_is_no_source(void **state)
{
    struct us_addr own = nd_addr(&craft_local6);
    struct us_addr peer = nd_addr(&craft_peer6);
    struct raw raw;
    unsigned usable;

    nd_open(&raw, NULL);
    assert_int_equal(us_addr_add(raw.stack, &own, 64), US_OK);
    for (usable = 0; usable < 2; usable++) {
        raw_pump(&raw, usable * SECOND);
        assert_int_equal(us_udp_send(raw.stack, &own, 1, &peer, 1, "x", 1),
                         usable ? US_OK : US_ERR_ARGUMENT);
    }
    raw_close(&raw);
    (void)state;
}

/* The prefix of an address that another host has says nothing about the link. */
static void a_duplicate_has_no_prefix(void **state)
{
    struct us_ip6 group = us_ip6_solicited_node(&craft_local6);
    struct us_addr own = nd_addr(&craft_local6);
    struct craft packet;
    struct raw raw;

    nd_open(&raw, NULL);
    assert_int_equal(us_addr_add(raw.stack, &own, 64), US_OK);
    assert_true(us_ip_is_neighbour(raw.stack, us_ip6(raw.stack, &craft_peer6)));
    nd_make_message(&packet, &raw, SOLICIT, 0, &us_ip6_any, &group, &craft_local6, 0, 0);
    craft_expect_counted(&raw, &packet, "nd_duplicates");
    assert_false(us_ip_is_neighbour(raw.stack, us_ip6(raw.stack, &craft_peer6)));
    raw_close(&raw);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prefixes_are_compared_bit_by_bit),
        cmocka_unit_test(ipv4_addresses_have_classes),
        cmocka_unit_test(ipv6_addresses_have_classes),
        cmocka_unit_test(sources_are_chosen),
        cmocka_unit_test(a_tentative_address_is_no_source),
        cmocka_unit_test(a_duplicate_has_no_prefix),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
