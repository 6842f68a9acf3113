/* SPDX-License-Identifier: BSD-3-Clause */
/* Neighbour discovery, our own IPv6 addresses, and reports of groups. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "craft_nd.h"
#include "pair.h"
#include "ustack/ip/addr.h"
#include "ustack/ip/eth.h"
#include "ustack/ip/icmp6.h"
#include "ustack/ip/nd.h"
#include "ustack/ip/neighbour.h"

static struct craft packet;

static void open_passive(struct raw *raw)
{
    struct us_config config;

    pair_config(&config, 0);
    config.arp_passive = 1;
    nd_open(raw, &config);
}

static int setup(void **state)
{
    static struct raw raw;

    nd_open(&raw, NULL);
    craft_enable6(&raw);
    *state = &raw;
    return 0;
}

static int teardown(void **state)
{
    raw_close(*state);
    return 0;
}

/* RFC 4862 5.4: MLD report, probe from ::, a second without an answer, then the address is usable.
 */
static void duplicate_detection_precedes_use(void **state)
{
    static const struct us_ip6 group = {{0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0, 0, 1}};
    struct us_addr addr = nd_addr(&craft_local6);
    struct us_addr peer = nd_addr(&craft_peer6);
    const struct raw_frame *frame;
    struct raw raw;
    int error;
    int i;

    nd_open(&raw, NULL);
    assert_int_equal(us_addr_add(raw.stack, &addr, 64), 0);
    raw_pump(&raw, 0);
    frame = &raw.frames[raw.frame_next];
    assert_int_equal(nd_expect_report(&raw, 4), 2);
    assert_memory_equal(frame->bytes + 22, &us_ip6_any, 16); /* RFC 3590 section 4 */
    for (i = 0; i < 2; i++) { /* the link-local address and this one */
        frame = nd_expect(&raw, SOLICIT);
        assert_memory_equal(frame->bytes + 22, &us_ip6_any, 16);
        assert_int_equal(frame->len, 14 + 40 + 24);
    }
    assert_memory_equal(frame->bytes + 38, &group, 16);
    assert_memory_equal(frame->bytes, "\x33\x33\xff\0\0\1", 6);
    assert_memory_equal(frame->bytes + 62, &craft_local6, 16);
    assert_null(us_connect(raw.stack, &peer, 80, 0, NULL, &error));
    assert_int_equal(error, US_ERR_NO_ROUTE);
    nd_make_message(&packet, &raw, SOLICIT, 0, &craft_peer6, &craft_local6, &craft_local6, 1, 2);
    craft_give(&raw, &packet);
    raw_expect_nothing(&raw); /* a tentative address sends no answer */
    raw_pump(&raw, SECOND);
    frame = &raw.frames[raw.frame_next];
    assert_int_equal(nd_expect_report(&raw, 4), 2); /* once more, in case it got lost */
    assert_int_equal(frame->bytes[22] << 8 | frame->bytes[23], 0xfe80);
    for (i = 0; i < 2; i++)
        assert_int_equal(nd_expect(&raw, ADVERT)->bytes[58], 0x20);
    assert_non_null(us_connect(raw.stack, &peer, 80, 0, NULL, &error));
    raw_close(&raw);
    (void)state;
}

/* An address that is added later does not put off the second report of the others. */
static void reports_are_repeated_in_time(void **state)
{
    struct us_addr addr = nd_addr(&craft_local6);
    struct us_addr second = addr;
    struct raw raw;

    nd_open(&raw, NULL);
    second.bytes[15] = 9;
    assert_int_equal(us_addr_add(raw.stack, &addr, 64), US_OK);
    raw_pump(&raw, 0);
    nd_skip_frames(&raw);
    raw_pump(&raw, SECOND / 2);
    assert_int_equal(us_addr_add(raw.stack, &second, 64), US_OK);
    raw_pump(&raw, 0);
    assert_int_equal(nd_expect_report(&raw, 4), 1);
    nd_skip_frames(&raw);
    raw_pump(&raw, SECOND / 2);
    assert_int_equal(nd_expect_report(&raw, 4), 3);
    raw_close(&raw);
    (void)state;
}

static void duplicates_are_not_used(void **state)
{
    struct us_addr addr = nd_addr(&craft_local6);
    struct us_ip6 group = us_ip6_solicited_node(&craft_local6);
    const u_u8 echo[8] = {US_ICMP6_ECHO};
    struct raw raw;
    int advert;

    for (advert = 0; advert < 2; advert++) {
        nd_open(&raw, NULL);
        assert_int_equal(us_addr_add(raw.stack, &addr, 64), 0);
        raw_pump(&raw, 0);
        if (advert)
            nd_make_message(&packet, &raw, ADVERT, 0x20, &craft_local6, &us_ip6_all_nodes,
                            &craft_local6, 2, 7);
        else
            nd_make_message(&packet, &raw, SOLICIT, 0, &us_ip6_any, &group, &craft_local6, 0, 0);
        if (advert) /* it comes from our own address: the neighbour has another one, too */
            craft_ip6_hdr(&packet)->src = craft_peer6;
        craft_ip6_checksum(&packet, US_IP_ICMP6, 0, 2);
        craft_expect_counted(&raw, &packet, "nd_duplicates");
        assert_int_equal(raw_counter(&raw, "nd_conflicts"), advert);
        nd_skip_frames(&raw);
        raw_pump(&raw, 3 * SECOND);
        nd_skip_frames(&raw);
        nd_make_message(&packet, &raw, SOLICIT, 0, &craft_peer6, &group, &craft_local6, 1, 2);
        craft_give(&raw, &packet);
        nd_make(&packet, &raw, &craft_peer6, &craft_local6, echo, sizeof(echo));
        craft_expect_counted(&raw, &packet, "drop_ip_address"); /* it is another host's */
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
    struct us_addr addr = nd_addr(&craft_local6);
    struct us_addr peer = nd_addr(&craft_peer6);
    struct raw raw;
    int error;

    open_passive(&raw);
    assert_int_equal(us_addr_add(raw.stack, &addr, 64), 0);
    raw_pump(&raw, 0);
    raw_expect_nothing(&raw);
    assert_null(us_connect(raw.stack, &peer, 80, 0, NULL, &error));
    raw_pump(&raw, 2 * SECOND);
    raw_expect_nothing(&raw);
    nd_make_message(&packet, &raw, SOLICIT, 0, &us_ip6_any, &group, &craft_local6, 0, 0);
    craft_give(&raw, &packet);
    raw_expect_nothing(&raw);
    assert_non_null(us_connect(raw.stack, &peer, 80, 0, NULL, &error));
    raw_pump(&raw, 0);
    nd_expect(&raw, SOLICIT);
    nd_make_message(&packet, &raw, SOLICIT, 0, &craft_peer6, &group, &craft_local6, 1, 2);
    craft_give(&raw, &packet);
    assert_int_equal(raw_frame(&raw)->bytes[20], US_IP_TCP); /* learned: the SYN is sent */
    raw_expect_nothing(&raw);
    raw_close(&raw);

    open_passive(&raw);
    assert_int_equal(us_addr_add(raw.stack, &addr, 64), 0);
    nd_make_message(&packet, &raw, SOLICIT, 0, &us_ip6_any, &group, &craft_local6, 0, 0);
    craft_expect_counted(&raw, &packet, "nd_duplicates");
    raw_close(&raw);
    (void)state;
}

static void solicitations_are_answered(void **state)
{
    struct raw *raw = *state;
    struct us_ip6 group = us_ip6_solicited_node(&craft_local6);
    const struct raw_frame *frame;

    nd_make_message(&packet, raw, SOLICIT, 0, &craft_peer6, &group, &craft_local6, 1, 2);
    craft_give(raw, &packet);
    frame = nd_expect(raw, ADVERT);
    assert_int_equal(frame->bytes[58], 0x60); /* solicited, override */
    assert_memory_equal(frame->bytes + 22, &craft_local6, 16);
    assert_memory_equal(frame->bytes + 38, &craft_peer6, 16);
    assert_memory_equal(frame->bytes + 78, "\2\1\2\0\0\0\0\1", 8);
    nd_make_message(&packet, raw, SOLICIT, 0, &us_ip6_any, &group, &craft_local6, 0, 0);
    craft_give(raw, &packet); /* duplicate detection of another host is answered to all nodes */
    frame = nd_expect(raw, ADVERT);
    assert_int_equal(frame->bytes[58], 0x20);
    assert_memory_equal(frame->bytes, "\x33\x33\0\0\0\1", 6);
    assert_memory_equal(frame->bytes + 38, &us_ip6_all_nodes, 16);
    nd_make_message(&packet, raw, SOLICIT, 0, &craft_peer6, &group, &craft_peer6, 1, 2);
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

    nd_make_message(&packet, raw, SOLICIT, 0, &craft_peer6, &group, &craft_local6, 1, 2);
    craft_give(raw, &packet);
    nd_expect(raw, ADVERT);
    neighbour = us_neighbour_find(raw->stack, us_ip6(raw->stack, &craft_peer6));
    assert_true(us_neighbour_use(raw->stack, neighbour));
    expect_verification(raw, neighbour);
    raw_pump(raw, 0);
    nd_expect(raw, SOLICIT);
    /* What it asks says nothing new, so it is no answer (7.2.3). */
    nd_make_message(&packet, raw, SOLICIT, 0, &craft_peer6, &group, &craft_local6, 1, 2);
    craft_give(raw, &packet);
    nd_expect(raw, ADVERT);
    assert_int_equal(neighbour->state, US_NEIGHBOUR_PROBE);
    /* The answer to a unicast need not say its MAC address (4.4). */
    nd_make_message(&packet, raw, ADVERT, 0x60, &craft_peer6, &craft_local6, &craft_peer6, 0, 0);
    craft_give(raw, &packet);
    assert_int_equal(neighbour->state, US_NEIGHBOUR_REACHABLE);
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

    nd_make_message(&packet, raw, SOLICIT, 0, &craft_peer6, &group, &craft_local6, 1, 2);
    craft_give(raw, &packet);
    neighbour = us_neighbour_find(raw->stack, us_ip6(raw->stack, &craft_peer6));
    for (i = 0; i < 2; i++) {
        assert_true(us_neighbour_use(raw->stack, neighbour));
        nd_make_message(&packet, raw, ADVERT, 0x60, &craft_peer6, &craft_local6, &craft_peer6, 2,
                        2);
        craft_give(raw, &packet); /* an answer: valid for a minute */
        raw_pump(raw, 2 * US_NEIGHBOUR_DELAY_US);
        assert_true(us_neighbour_use(raw->stack, neighbour));
        assert_int_equal(neighbour->state, US_NEIGHBOUR_REACHABLE);
        if (i == 0)
            nd_make_message(&packet, raw, SOLICIT, 0, &craft_peer6, &group, &craft_local6, 1, 6);
        else
            nd_make_message(&packet, raw, ADVERT, 0x20, &craft_peer6, &us_ip6_all_nodes,
                            &craft_peer6, 2, 6);
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
    struct us_addr addr = nd_addr(&craft_local6);
    struct raw raw;
    int usable;

    nd_open(&raw, NULL);
    assert_int_equal(us_addr_add(raw.stack, &addr, 64), 0);
    for (usable = 0; usable < 2; usable++) {
        raw_pump(&raw, usable * SECOND);
        nd_skip_frames(&raw);
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
    struct us_addr peer = nd_addr(&craft_peer6);

    nd_make_message(&packet, raw, SOLICIT, 0, &craft_peer6, &group, &craft_local6, 1, 2);
    packet.bytes[80] |= 1;
    craft_ip6_checksum(&packet, US_IP_ICMP6, 0, 2);
    craft_give(raw, &packet);
    nd_expect(raw, ADVERT);
    assert_non_null(us_connect(raw->stack, &peer, 80, 0, NULL, NULL));
    raw_pump(raw, 0);
    nd_expect(raw, SOLICIT);
}

/* RFC 4861 7.1. */
static void bad_messages_are_dropped(void **state)
{
    struct raw *raw = *state;
    struct us_ip6 group = us_ip6_solicited_node(&craft_local6);
    unsigned i;

    for (i = 0; i < 7; i++) {
        nd_make_message(&packet, raw, SOLICIT, 0, i == 4 || i == 5 ? &us_ip6_any : &craft_peer6,
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
    nd_make_message(&packet, raw, ADVERT, 0x40, &craft_peer6, &us_ip6_all_nodes, &craft_peer6, 2,
                    2);
    craft_expect_counted(raw, &packet,
                         "drop_nd_malformed"); /* a solicited advertisement to all nodes */
    for (i = 8; i < 32; i++) {                 /* the target is cut off, or an option */
        u_u8 msg[32] = {SOLICIT};
        memcpy(msg + 8, &craft_local6, 16);
        if (i == 24)
            continue;
        nd_make(&packet, raw, &craft_peer6, &group, msg, i);
        craft_expect_counted(raw, &packet, "drop_nd_malformed");
    }
    raw_expect_nothing(raw);
}

/* RFC 4861 6.3.4 for all messages: of two options the first one counts. */
static void the_first_mac_is_learned(void **state)
{
    struct raw *raw = *state;
    struct us_ip6 group = us_ip6_solicited_node(&craft_local6);
    u_u8 msg[40] = {SOLICIT};

    memcpy(msg + 8, &craft_local6, 16);
    memcpy(msg + 24, "\1\1\2\0\0\0\0\5", 8);
    memcpy(msg + 32, "\1\1\2\0\0\0\0\6", 8);
    nd_make(&packet, raw, &craft_peer6, &group, msg, sizeof(msg));
    craft_give(raw, &packet);
    nd_expect(raw, ADVERT);
    assert_int_equal(us_neighbour_find(raw->stack, us_ip6(raw->stack, &craft_peer6))->l2[5], 5);
}

/* With a lifetime below US_NEIGHBOUR_DELAY_US the lifetime alone says when to verify. */
static void a_short_lifetime_is_the_only_one(void **state)
{
    struct us_neighbour *neighbour;
    struct us_config config;
    struct us_ip6 group = us_ip6_solicited_node(&craft_local6);
    struct raw raw;

    pair_config(&config, 0);
    config.neighbour_lifetime_us = SECOND;
    nd_open(&raw, &config);
    craft_enable6(&raw);
    nd_make_message(&packet, &raw, SOLICIT, 0, &craft_peer6, &group, &craft_local6, 1, 2);
    craft_give(&raw, &packet);
    neighbour = us_neighbour_find(raw.stack, us_ip6(raw.stack, &craft_peer6));
    raw_pump(&raw, SECOND);
    assert_true(us_neighbour_use(raw.stack, neighbour));
    assert_int_equal(neighbour->state, US_NEIGHBOUR_REACHABLE);
    raw_pump(&raw, 1);
    assert_true(us_neighbour_use(raw.stack, neighbour));
    assert_int_equal(neighbour->state, US_NEIGHBOUR_PROBE);
    raw_close(&raw);
    (void)state;
}

/* RFC 4861 7.2.5: an advertisement without a MAC address is no answer, and says nothing else. */
static void an_advert_without_a_mac_changes_nothing(void **state)
{
    static const u_u8 router_advert[16] = {ROUTER_ADVERT, 0, 0, 0, 0, 0, 7, 8};
    struct us_addr remote = nd_addr(&nd_far);
    struct raw raw;

    nd_open_autoconf(&raw);
    craft_enable6(&raw);
    nd_make(&packet, &raw, &nd_router, &us_ip6_all_nodes, router_advert, sizeof(router_advert));
    craft_give(&raw, &packet);
    assert_non_null(us_connect(raw.stack, &remote, 80, 0, NULL, NULL));
    raw_pump(&raw, 0);
    nd_skip_frames(&raw);
    nd_make_message(&packet, &raw, ADVERT, 0x60, &nd_router, &craft_local6, &nd_router, 0, 0);
    craft_give(&raw, &packet);
    raw_expect_nothing(&raw);
    assert_non_null(us_nd_router(raw.stack));
    nd_make_message(&packet, &raw, ADVERT, 0xe0, &nd_router, &craft_local6, &nd_router, 2, 9);
    craft_give(&raw, &packet);
    assert_int_equal(raw_frame(&raw)->bytes[20], US_IP_TCP);
    raw_close(&raw);
    (void)state;
}

/* A probe that us_output() has not taken yet is not sent for an address that is a duplicate. */
static void a_duplicate_is_not_probed(void **state)
{
    struct us_addr addr = nd_addr(&craft_local6);
    struct us_ip6 group = us_ip6_solicited_node(&craft_local6);
    const struct raw_frame *frame;
    struct raw raw;

    nd_open(&raw, NULL);
    assert_int_equal(us_addr_add(raw.stack, &addr, 64), US_OK);
    raw.no_pump = 1;
    nd_make_message(&packet, &raw, SOLICIT, 0, &us_ip6_any, &group, &craft_local6, 0, 0);
    craft_expect_counted(&raw, &packet, "nd_duplicates");
    raw_pump(&raw, 0);
    while ((frame = raw_frame(&raw)) != NULL)
        assert_true(frame->bytes[54] != SOLICIT ||
                    memcmp(frame->bytes + 62, &craft_local6, 16) != 0);
    raw_close(&raw);
    (void)state;
}

static void neighbours_are_asked_for(void **state)
{
    struct raw *raw = *state;
    struct us_addr peer = nd_addr(&craft_peer6);
    struct us_conn *conn = us_connect(raw->stack, &peer, 80, 0, NULL, NULL);
    const struct raw_frame *frame;

    assert_non_null(conn);
    raw_pump(raw, 0);
    frame = nd_expect(raw, SOLICIT);
    assert_memory_equal(frame->bytes + 62, &craft_peer6, 16);
    assert_memory_equal(frame->bytes + 78, "\1\1\2\0\0\0\0\1", 8);
    nd_make_message(&packet, raw, ADVERT, 0x60, &craft_peer6, &craft_local6, &craft_peer6, 2, 5);
    craft_give(raw, &packet);
    frame = raw_frame(raw);
    assert_int_equal(frame->bytes[20], US_IP_TCP);
    assert_memory_equal(frame->bytes, "\2\0\0\0\0\5", 6);
    /* There is a flow label. */
    assert_true((frame->bytes[15] & 15) != 0 || frame->bytes[16] != 0 || frame->bytes[17] != 0);
    /* Without the override flag another address is only verified, with it used (7.2.5). */
    nd_make_message(&packet, raw, ADVERT, 0x00, &craft_peer6, &craft_local6, &craft_peer6, 2, 6);
    craft_give(raw, &packet);
    frame = nd_expect(raw, SOLICIT);
    assert_memory_equal(frame->bytes, "\2\0\0\0\0\5", 6); /* by itself, at the old address */
    assert_memory_equal(frame->bytes + 38, &craft_peer6, 16);
    nd_make_message(&packet, raw, ADVERT, 0x20, &craft_peer6, &craft_local6, &craft_peer6, 2, 6);
    craft_give(raw, &packet);
    raw_pump(raw, SECOND);
    assert_memory_equal(raw_frame(raw)->bytes, "\2\0\0\0\0\6", 6); /* the SYN again */
    assert_int_equal(raw_counter(raw, "arp_changes"), 1);
}

/* RFC 3810, RFC 2710: what a querier asks is answered in its version. */
static void queries_are_answered(void **state)
{
    struct raw *raw = *state;
    const struct raw_frame *frame;
    unsigned version;

    for (version = 2; version > 0; version--) {
        nd_make_query(&packet, raw, 1000, version == 2 ? 28 : 24);
        craft_ip6_hdr(&packet)->hop_limit = 64;
        craft_expect_counted(raw, &packet, "drop_nd_malformed");
        craft_ip6_hdr(&packet)->hop_limit = 1;
        craft_give(raw, &packet);
        raw_pump(raw, 1024 * 1000);
        if (version == 2) {
            assert_int_equal(nd_expect_report(raw, 2), 2);
        } else {
            frame = raw_frame(raw);
            assert_int_equal(frame->bytes[62], 131);
            assert_memory_equal(frame->bytes + 38, frame->bytes + 70, 16); /* to the group */
            assert_int_equal(raw_frame(raw)->bytes[62], 131);
        }
        raw_expect_nothing(raw);
    }
}

/* When a query with this code for the delay is answered. */
static u_u64 answer_after_us(struct raw *raw, unsigned code)
{
    u_u64 from_us = raw->now_us;

    nd_make_query(&packet, raw, code, 28);
    craft_give(raw, &packet);
    while (raw->frame_next == raw->frame_count)
        raw_pump(raw, us_deadline(raw->stack) - raw->now_us);
    assert_int_equal(nd_expect_report(raw, 2), 2);
    return raw->now_us - from_us;
}

/* RFC 3810 5.1.3: from 0x8000 on the delay is a mantissa, with a bit in front, and an exponent. */
static void long_delays_of_queries(void **state)
{
    struct raw *raw = *state;
    u_u64 short_us;

    nd_make_query(&packet, raw, 0x8000, 28);
    craft_give(raw, &packet);
    raw_expect_nothing(raw);
    raw_pump(raw, 0x1000 << 3 << 10); /* a 1024th at most counts as a ms */
    assert_int_equal(nd_expect_report(raw, 2), 2);
    /* 0x7fff ms and 0x1000 << 3 ms are nearly the same: so is the part of them that it waits. */
    short_us = answer_after_us(raw, 0x7fff);
    assert_true(short_us > 0);
    assert_in_range(answer_after_us(raw, 0x8000), short_us, short_us + 1024);
}

/* RFC 3810 5.1: from a neighbour, with a router alert, and long enough. */
static void bad_queries_are_dropped(void **state)
{
    struct raw *raw = *state;
    u_u8 query[28] = {130, 0, 0, 0, 3, 0xe8};
    u_u32 len;

    for (len = 8; len < 28; len++) {
        if (len == 24)
            continue; /* version 1 */
        nd_make_query(&packet, raw, 1000, len);
        craft_expect_counted(raw, &packet, "drop_nd_malformed");
    }
    nd_make_query(&packet, raw, 1000, 28);
    craft_ip6_hdr(&packet)->src = craft_peer6;
    craft_ip6_checksum(&packet, US_IP_ICMP6, 8, 2);
    craft_expect_counted(raw, &packet, "drop_nd_malformed");
    nd_make(&packet, raw, &nd_router, &us_ip6_all_nodes, query, sizeof(query));
    craft_ip6_hdr(&packet)->hop_limit = 1;
    craft_expect_counted(raw, &packet, "drop_nd_malformed");
    raw_pump(raw, 10 * SECOND);
    raw_expect_nothing(raw);
}

/* RFC 3810 6.2: a query that allows for a longer delay does not postpone an answer. */
static void the_first_delay_counts(void **state)
{
    struct raw *raw = *state;

    nd_make_query(&packet, raw, 1000, 28);
    craft_give(raw, &packet);
    nd_make_query(&packet, raw, 0x9fff, 28);
    craft_give(raw, &packet);
    raw_pump(raw, 1024 * 1000);
    assert_int_equal(nd_expect_report(raw, 2), 2);
    raw_pump(raw, 1000 * (u_u64)SECOND);
    raw_expect_nothing(raw);
}

/* Gives a query about one group, and moves the clock beyond the delay of the answer. */
static void ask_for_group(struct raw *raw, const struct us_ip6 *group)
{
    nd_make_query(&packet, raw, 1000, 28);
    memcpy(packet.bytes + 14 + 40 + 8 + 8, group, sizeof(*group));
    craft_ip6_checksum(&packet, US_IP_ICMP6, 8, 2);
    craft_give(raw, &packet);
    raw_pump(raw, 1024 * 1000);
}

/* RFC 3810 6.2: of a query about one group the answer has that group alone. */
static void queries_about_a_group(void **state)
{
    static const struct us_ip6 another = {{0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 8, 7}};
    const struct us_addr addr = nd_addr(&another);
    struct us_ip6 group = us_ip6_solicited_node(&another);
    struct us_ip6 first = us_ip6_solicited_node(&craft_local6);
    struct raw *raw = *state;
    unsigned i;

    assert_int_equal(us_addr_add(raw->stack, &addr, 64), US_OK);
    for (i = 0; i < 3; i++)
        raw_pump(raw, SECOND);
    while (raw_frame(raw) != NULL)
        continue;
    for (i = 0; i < 2; i++) {
        ask_for_group(raw, &group);
        assert_int_equal(nd_expect_report(raw, 2), 1);
        ask_for_group(raw, &first); /* that of the link-local address, too */
        assert_int_equal(nd_expect_report(raw, 2), 2);
    }
    group.b[15]++;
    ask_for_group(raw, &group);
    raw_expect_nothing(raw);
}

/* RFC 3810 8.2.1 and 9.12: after a query of version 1 that one is spoken, for 260 s. */
static void an_old_querier_is_remembered(void **state)
{
    struct raw *raw = *state;
    unsigned old;

    nd_make_query(&packet, raw, 0xffff, 24); /* a number of ms: version 1 has no exponents */
    craft_give(raw, &packet);
    raw_pump(raw, 70 * SECOND);
    for (old = 0; old < 2; old++)
        assert_int_equal(raw_frame(raw)->bytes[62], 131);
    raw_pump(raw, 190 * SECOND - 2 * 1024 * 1000);
    for (old = 2; old-- > 0;) {
        nd_make_query(&packet, raw, 1000, 28);
        craft_give(raw, &packet);
        raw_pump(raw, 1024 * 1000);
        if (old) {
            assert_int_equal(raw_frame(raw)->bytes[62], 131);
            assert_int_equal(raw_frame(raw)->bytes[62], 131);
            raw_pump(raw, 1024 * 1000);
        } else {
            assert_int_equal(nd_expect_report(raw, 2), 2);
        }
        raw_expect_nothing(raw);
    }
}

/* Another stack speaks for this host. */
static void a_passive_host_answers_no_query(void **state)
{
    struct us_addr addr = nd_addr(&craft_local6);
    struct raw raw;

    open_passive(&raw);
    assert_int_equal(us_addr_add(raw.stack, &addr, 64), US_OK);
    nd_make_query(&packet, &raw, 1000, 28);
    craft_expect_counted(&raw, &packet, "nd_rx");
    raw_pump(&raw, 10 * SECOND);
    raw_expect_nothing(&raw);
    raw_close(&raw);
    (void)state;
}

int main(void)
{
#define RAW_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(duplicate_detection_precedes_use),
        cmocka_unit_test(reports_are_repeated_in_time),
        cmocka_unit_test(duplicates_are_not_used),
        cmocka_unit_test(arp_passive_learns_and_resolves_only),
        RAW_TEST(solicitations_are_answered),
        RAW_TEST(a_learned_address_is_verified),
        RAW_TEST(a_changed_address_is_verified),
        cmocka_unit_test(a_tentative_address_answers_nothing),
        RAW_TEST(a_multicast_mac_is_not_learned),
        RAW_TEST(bad_messages_are_dropped),
        RAW_TEST(the_first_mac_is_learned),
        cmocka_unit_test(a_short_lifetime_is_the_only_one),
        cmocka_unit_test(an_advert_without_a_mac_changes_nothing),
        cmocka_unit_test(a_duplicate_is_not_probed),
        RAW_TEST(neighbours_are_asked_for),
        RAW_TEST(queries_are_answered),
        RAW_TEST(long_delays_of_queries),
        RAW_TEST(bad_queries_are_dropped),
        RAW_TEST(the_first_delay_counts),
        RAW_TEST(queries_about_a_group),
        RAW_TEST(an_old_querier_is_remembered),
        cmocka_unit_test(a_passive_host_answers_no_query),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
