/* SPDX-License-Identifier: BSD-3-Clause */
/* IPv6 headers and their extensions, ICMPv6 and errors of both families, VLAN tags. */
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
#include "ustack/ip/icmp.h"
#include "ustack/ip/icmp6.h"

enum { PORT = 11211 };

static const u_u8 echo[12] = {128, 0, 0, 0, 0, 7, 0, 1, 'a', 'b', 'c', 'd'};
static struct craft packet;

static int setup(void **state)
{
    static struct raw raw;

    pair_use_ip6(0);
    raw_open(&raw, NULL);
    craft_enable6(&raw);
    assert_int_equal(us_udp_bind(raw.stack, PORT, NULL), 0);
    *state = &raw;
    return 0;
}

static int teardown(void **state)
{
    raw_close(*state);
    return 0;
}

static void make_echo(struct raw *raw)
{
    craft_l4_6(&packet, raw, US_IP_ICMP6, NULL, 0, US_IP_ICMP6, echo, sizeof(echo), 2);
}

static void expect_reply(struct raw *raw)
{
    const struct raw_frame *frame = raw_frame(raw);

    assert_non_null(frame);
    assert_int_equal(frame->len, 54 + sizeof(echo));
    assert_int_equal(frame->bytes[54], US_ICMP6_ECHO_REPLY);
    assert_memory_equal(frame->bytes + 58, echo + 4, sizeof(echo) - 4);
}

/* The next frame must be a parameter problem with this code and pointer. */
static void expect_problem(struct raw *raw, unsigned code, unsigned pointer)
{
    const struct raw_frame *frame = raw_frame(raw);

    assert_non_null(frame);
    assert_int_equal(frame->bytes[54], US_ICMP6_PROBLEM);
    assert_int_equal(frame->bytes[55], code);
    assert_int_equal(frame->bytes[61], pointer);
    assert_memory_equal(frame->bytes + 62, packet.bytes + 14, packet.len - 14);
}

static void headers_are_checked(void **state)
{
    struct raw *raw = *state;
    u_u32 len;

    make_echo(raw);
    for (len = 14; len < packet.len; len++)
        raw_input(raw, packet.bytes, len);
    raw_expect_nothing(raw);
    assert_int_equal(raw_counter(raw, "drop_ip_header"), packet.len - 14);
    packet.len += 10; /* padding */
    craft_give(raw, &packet);
    expect_reply(raw);
    make_echo(raw);
    packet.bytes[14] = 0x40;
    craft_expect_counted(raw, &packet, "drop_ip_header");
    make_echo(raw);
    packet.bytes[packet.len - 1] ^= 1;
    craft_expect_counted(raw, &packet, "drop_icmp_checksum");
    raw_expect_nothing(raw);
}

static void addresses_are_checked(void **state)
{
    static const struct us_ip6 bad_sources[] = {
        {{0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}},
        {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}},
        {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 2}},
        {{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}},
        {{0}},
    };
    struct raw *raw = *state;
    unsigned i;

    for (i = 0; i < sizeof(bad_sources) / sizeof(bad_sources[0]); i++) {
        make_echo(raw);
        craft_ip6_hdr(&packet)->src = bad_sources[i];
        craft_ip6_checksum(&packet, US_IP_ICMP6, 0, 2);
        craft_expect_counted(raw, &packet, "drop_ip_source");
    }
    make_echo(raw); /* nor to a group */
    craft_ip6_hdr(&packet)->src = us_ip6_any;
    craft_ip6_hdr(&packet)->dst = us_ip6_all_nodes;
    us_eth_multicast_mac(packet.bytes, &us_ip6_all_nodes);
    craft_ip6_checksum(&packet, US_IP_ICMP6, 0, 2);
    craft_expect_counted(raw, &packet, "drop_ip_source");
    make_echo(raw);
    craft_ip6_hdr(&packet)->dst.b[15] = 77;
    craft_ip6_checksum(&packet, US_IP_ICMP6, 0, 2);
    craft_expect_counted(raw, &packet, "drop_ip_address");
    raw_expect_nothing(raw);
}

/* Only our groups get in: on the link by their MAC address, and by the address itself. */
static void groups_are_filtered(void **state)
{
    static const struct us_ip6 far_away = {
        {0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
    static const struct us_ip6 other = {{0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x42}};
    struct raw *raw = *state;
    struct us_ip6 nodes;
    unsigned i;

    make_echo(raw);
    nodes = us_ip6_solicited_node(&craft_ip6_hdr(&packet)->dst);
    craft_ip6_hdr(&packet)->dst = us_ip6_all_nodes;
    us_eth_multicast_mac(packet.bytes, &us_ip6_all_nodes);
    craft_ip6_checksum(&packet, US_IP_ICMP6, 0, 2);
    craft_give(raw, &packet);
    expect_reply(raw);
    craft_ip6_hdr(&packet)->src = far_away;
    craft_ip6_checksum(&packet, US_IP_ICMP6, 0, 2);
    craft_expect_counted(raw, &packet, "drop_datagram_no_hop"); /* no address to answer from */
    craft_ip6_hdr(&packet)->dst = other;
    craft_expect_counted(raw, &packet, "drop_ip_address");
    us_eth_multicast_mac(packet.bytes, &other);
    craft_expect_counted(raw, &packet, "drop_eth_address");
    us_eth_multicast_mac(packet.bytes, &nodes); /* three bytes of an address */
    craft_expect_counted(raw, &packet, "drop_ip_address");
    craft_ip6_hdr(&packet)->dst = us_ip6_solicited_node(&us_ip6_any); /* no address of ours */
    craft_expect_counted(raw, &packet, "drop_ip_address");
    for (i = 3; i < 6; i++) {
        us_eth_multicast_mac(packet.bytes, &nodes);
        packet.bytes[i] ^= 1;
        craft_expect_counted(raw, &packet, "drop_eth_address");
    }
    raw_expect_nothing(raw);
}

static void extensions_are_walked(void **state)
{
    static const u_u8 good[] = {60, 0, 1, 4, 0,  0, 0, 0, 43, 0, 0x1e, 4,
                                1,  2, 3, 4, 58, 0, 0, 0, 0,  0, 0,    0};
    static const u_u8 cut_off[15] = {58, 1, 1, 12}; /* of a header of 16 bytes */
    struct raw *raw = *state;
    u_u8 many[8 * 8] = {0};
    unsigned i;

    /* Options for each hop and for us, unknown ones that may be skipped, a route at its end. */
    craft_l4_6(&packet, raw, 0, good, sizeof(good), US_IP_ICMP6, echo, sizeof(echo), 2);
    craft_give(raw, &packet);
    expect_reply(raw);
    for (i = 0; i < 8; i++) {
        many[8 * i] = i < 7 ? 60 : 58;
        many[8 * i + 2] = 1;
        many[8 * i + 3] = 4;
    }
    craft_l4_6(&packet, raw, 60, many, sizeof(many), US_IP_ICMP6, echo, sizeof(echo), 2);
    craft_expect_counted(raw, &packet, "drop_ip_extension");
    craft_l4_6(&packet, raw, 60, many + 8, 7 * 8, US_IP_ICMP6, echo, sizeof(echo), 2);
    craft_give(raw, &packet); /* the last one is the eighth */
    expect_reply(raw);
    craft_ip6(&packet, raw, 60, cut_off, sizeof(cut_off));
    craft_expect_counted(raw, &packet, "drop_ip_header");
    many[1] = 200; /* longer than the packet */
    craft_l4_6(&packet, raw, 60, many, sizeof(many), US_IP_ICMP6, echo, sizeof(echo), 2);
    craft_expect_counted(raw, &packet, "drop_ip_header");
    raw_expect_nothing(raw);
}

/* RFC 8200 4.2: the upper two bits of an option that is not known say what to do. */
static void unknown_options(void **state)
{
    struct raw *raw = *state;
    u_u8 ext[8] = {58, 0, 0, 4, 0, 0, 0, 0};
    unsigned action;

    for (action = 0; action < 4; action++) {
        ext[2] = (u_u8)(action << 6 | 0x1e);
        craft_l4_6(&packet, raw, 60, ext, 8, US_IP_ICMP6, echo, sizeof(echo), 2);
        craft_give(raw, &packet);
        if (action == 0)
            expect_reply(raw);
        else if (action > 1)
            expect_problem(raw, US_ICMP6_PROBLEM_OPTION, 42);
        raw_expect_nothing(raw);
        craft_ip6_hdr(&packet)->dst = us_ip6_all_nodes;
        us_eth_multicast_mac(packet.bytes, &us_ip6_all_nodes);
        craft_ip6_checksum(&packet, US_IP_ICMP6, 8, 2);
        craft_give(raw, &packet);
        if (action == 0)
            expect_reply(raw);
        else if (action == 2) /* the one that is answered even to a group */
            expect_problem(raw, US_ICMP6_PROBLEM_OPTION, 42);
        raw_expect_nothing(raw);
    }
}

static void what_is_not_understood_is_told(void **state)
{
    struct raw *raw = *state;
    u_u8 route[24] = {58, 2, 0, 1}; /* RFC 5095: one more stop */
    u_u8 late[16] = {0, 0, 1, 4, 0, 0, 0, 0, 58, 0, 1, 4};
    u_u8 longer[8] = {58, 0, 0x1e, 5}; /* an option of one byte more than its header has */
    u_u8 type_only[8] = {58, 0, 1, 3, 0, 0, 0, 0x1e}; /* one that ends before its length */

    craft_l4_6(&packet, raw, 43, route, 24, US_IP_ICMP6, echo, sizeof(echo), 2);
    craft_give(raw, &packet);
    expect_problem(raw, US_ICMP6_PROBLEM_FIELD, 42);
    craft_ip6(&packet, raw, 99, echo, sizeof(echo));
    craft_give(raw, &packet);
    expect_problem(raw, US_ICMP6_PROBLEM_NEXT, 6);
    craft_l4_6(&packet, raw, 60, late, 16, US_IP_ICMP6, echo, sizeof(echo), 2);
    craft_give(raw, &packet); /* options for each hop that are not the first header */
    expect_problem(raw, US_ICMP6_PROBLEM_NEXT, 40);
    craft_l4_6(&packet, raw, 60, longer, 8, US_IP_ICMP6, echo, sizeof(echo), 2);
    craft_give(raw, &packet);
    expect_problem(raw, US_ICMP6_PROBLEM_FIELD, 42);
    craft_l4_6(&packet, raw, 60, type_only, 8, US_IP_ICMP6, echo, sizeof(echo), 2);
    craft_give(raw, &packet);
    expect_problem(raw, US_ICMP6_PROBLEM_FIELD, 47);
    craft_ip6(&packet, raw, US_IP_NOTHING, echo, sizeof(echo));
    craft_expect_counted(raw, &packet, "drop_ip_protocol");
    raw_expect_nothing(raw);
}

/* RFC 4443 2.4 (e.6): no error about a packet whose source is no single node. */
static void no_error_without_a_source(void **state)
{
    struct raw *raw = *state;

    craft_ip6(&packet, raw, 99, echo, sizeof(echo));
    craft_ip6_hdr(&packet)->src = us_ip6_any;
    craft_expect_counted(raw, &packet, "drop_ip_protocol");
    assert_int_equal(raw_counter(raw, "icmp_tx_errors"), 0);
    raw_expect_nothing(raw);
}

/* RFC 4443 2.4 (e.3): nor about one to a group, unless an option demands it. */
static void no_error_about_a_packet_to_a_group(void **state)
{
    struct raw *raw = *state;

    craft_ip6(&packet, raw, 99, echo, sizeof(echo));
    craft_ip6_hdr(&packet)->dst = us_ip6_all_nodes;
    us_eth_multicast_mac(packet.bytes, &us_ip6_all_nodes);
    craft_expect_counted(raw, &packet, "drop_ip_protocol");
    raw_expect_nothing(raw);
}

/* RFC 4291 2.5.2: TCP and UDP take nothing from the unspecified address. */
static void protocols_need_a_source(void **state)
{
    struct raw *raw = *state;
    u_u8 datagram[64];
    u_u32 len = craft_datagram6(datagram, raw, PORT, "hello", 5);

    craft_ip6(&packet, raw, US_IP_UDP, datagram, len);
    craft_ip6_hdr(&packet)->src = us_ip6_any;
    craft_ip6_checksum(&packet, US_IP_UDP, 0, 6);
    craft_expect_counted(raw, &packet, "drop_ip_address");
    assert_null(raw_event(raw));
}

/* A host without an IPv6 address does not speak it. */
static void no_address_means_no_ipv6(void **state)
{
    struct raw *raw = *state;

    make_echo(raw);
    raw_close(raw);
    raw_open(raw, NULL);
    craft_expect_counted(raw, &packet, "drop_eth_type");
    raw_expect_nothing(raw);
}

/* RFC 8200 4.5: the reserved bits of a fragment header have no meaning; its end has a limit. */
static void fragment_headers_are_checked(void **state)
{
    u_u8 ext[16] = {US_IP_ICMP6, 0xff, 0, 6, 0, 0, 0, 1};
    struct raw *raw = *state;
    unsigned len;

    craft_l4_6(&packet, raw, US_IP_FRAGMENT, ext, 8, US_IP_ICMP6, echo, sizeof(echo), 2);
    craft_give(raw, &packet); /* whole, in spite of reserved bits */
    expect_reply(raw);
    ext[0] = US_IP_UDP;
    ext[2] = 0xff;
    ext[3] = 0xf8;
    craft_ip6(&packet, raw, US_IP_FRAGMENT, ext, 15); /* ends at 65535: too much for this host */
    craft_expect_counted(raw, &packet, "drop_frag_bound");
    raw_expect_nothing(raw);
    craft_ip6(&packet, raw, US_IP_FRAGMENT, ext, 16); /* ends at 65536 */
    craft_give(raw, &packet);
    expect_problem(raw, US_ICMP6_PROBLEM_FIELD, 42);
    for (len = 0; len < 8; len++) {
        craft_ip6(&packet, raw, US_IP_FRAGMENT, ext, len);
        craft_expect_counted(raw, &packet, "drop_ip_header");
    }
    raw_expect_nothing(raw);
    assert_int_equal(raw_counter(raw, "reassemblies"), 0);
}

/* RFC 8200 8.1: over IPv6 there is no datagram without a checksum. */
static void udp_needs_a_checksum(void **state)
{
    struct raw *raw = *state;
    u_u8 datagram[64];
    u_u32 len = craft_datagram6(datagram, raw, PORT, "hello", 5);

    craft_ip6(&packet, raw, US_IP_UDP, datagram, len);
    craft_give(raw, &packet);
    assert_int_equal(raw_expect_event(raw, US_EV_DATAGRAM)->len, 5);
    packet.bytes[CRAFT_L4_6 + 6] = 0;
    packet.bytes[CRAFT_L4_6 + 7] = 0;
    craft_expect_counted(raw, &packet, "drop_udp_checksum");
    assert_null(raw_event(raw));
}

/* RFC 4443 2.4 (f): a burst, then one each ten milliseconds; never about errors or to groups. */
static void errors_are_limited(void **state)
{
    struct raw *raw = *state;
    u_u8 datagram[64];
    u_u32 len = craft_datagram6(datagram, raw, 9, "hello", 5);
    u_u8 error[64] = {1, 4};
    unsigned sent = 0;
    unsigned i;

    craft_l4_6(&packet, raw, US_IP_ICMP6, NULL, 0, US_IP_ICMP6, error, 48, 2);
    craft_ip6_hdr(&packet)->next = 99;
    for (i = 0; i < 200; i++) {
        if (i % 2)
            craft_ip6(&packet, raw, US_IP_UDP, datagram, len);
        else
            craft_udp4(&packet, raw, 9, "hello", 5);
        craft_give(raw, &packet);
        while (raw_frame(raw) != NULL)
            sent++;
    }
    assert_int_equal(sent, US_ICMP_BURST);
    assert_int_equal(raw_counter(raw, "icmp_tx_limited"), 200 - US_ICMP_BURST);
    raw_pump(raw, 3 * US_ICMP_REFILL_US);
    for (i = 0; i < 10; i++)
        craft_give(raw, &packet);
    assert_int_equal(raw_counter(raw, "icmp_tx_errors"), US_ICMP_BURST + 3);
    for (i = 0; i < 3; i++) { /* to the microsecond */
        raw_pump(raw, US_ICMP_REFILL_US - 1);
        craft_give(raw, &packet);
        raw_pump(raw, 1);
        assert_int_equal(raw_counter(raw, "icmp_tx_errors"), US_ICMP_BURST + 3 + i);
        craft_give(raw, &packet);
        assert_int_equal(raw_counter(raw, "icmp_tx_errors"), US_ICMP_BURST + 4 + i);
    }
}

enum { ERROR_BYTES = 8 + 40 + 20 };

/* Connects from a port and makes an error that quotes the SYN; its type and code are 0. */
static void connect_and_quote(struct raw *raw, u_u16 local_port, u_u8 *error)
{
    const struct raw_frame *frame;
    struct us_addr peer;

    memset(&peer, 0, sizeof(peer));
    peer.family = US_IP6;
    memcpy(peer.bytes, &craft_peer6, 16);
    assert_non_null(us_connect(raw->stack, &peer, 80, local_port, NULL, NULL));
    raw_pump(raw, 0);
    frame = raw_frame(raw);
    if (frame->bytes[20] != US_IP_TCP) { /* the first one asks for the MAC address */
        u_u8 advert[32] = {136, 0, 0, 0, 0x60};
        memcpy(advert + 8, frame->bytes + 62, 16);
        memcpy(advert + 24, "\2\1\2\0\0\0\0\2", 8);
        craft_l4_6(&packet, raw, US_IP_ICMP6, NULL, 0, US_IP_ICMP6, advert, 32, 2);
        craft_ip6_hdr(&packet)->hop_limit = 255;
        craft_give(raw, &packet);
        frame = raw_frame(raw);
    }
    memset(error, 0, 8);
    memcpy(error + 8, frame->bytes + 14, 60);
}

static void make_error(struct raw *raw, u_u8 *error, unsigned type, unsigned code, u_u32 bytes)
{
    error[0] = (u_u8)type;
    error[1] = (u_u8)code;
    craft_l4_6(&packet, raw, US_IP_ICMP6, NULL, 0, US_IP_ICMP6, error, bytes, 2);
}

/* RFC 5927: an error counts only if it quotes data in flight. */
static void errors_about_connections(void **state)
{
    struct raw *raw = *state;
    u_u8 error[ERROR_BYTES];
    u_u32 bytes;
    unsigned i;

    connect_and_quote(raw, 5555, error);
    for (i = 0; i < 4; i++) {
        u_u8 wrong[ERROR_BYTES];
        memcpy(wrong, error, sizeof(error));
        wrong[8 + 40 + 7] ^= i == 0; /* sequence number */
        wrong[8 + 40 + 1] ^= i == 1; /* our port */
        wrong[8 + 39] ^= i == 2;     /* the peer's address */
        wrong[8 + 6] = i == 3 ? 17 : 6;
        make_error(raw, wrong, 1, 4, sizeof(wrong));
        craft_expect_counted(raw, &packet,
                             i == 0   ? "drop_icmp_sequence"
                             : i == 3 ? "drop_icmp_quote"
                                      : "drop_icmp_no_conn");
        assert_null(raw_event(raw));
    }
    for (bytes = 8; bytes < 8 + 40 + 8; bytes++) { /* not up to the sequence number */
        make_error(raw, error, 1, 4, bytes);
        craft_expect_counted(raw, &packet, "drop_icmp_quote");
    }
    assert_null(raw_event(raw));
    make_error(raw, error, 1, 4, bytes); /* up to it, the least */
    craft_give(raw, &packet);
    assert_int_equal(raw_expect_event(raw, US_EV_CLOSED)->reason, US_CLOSE_UNREACHABLE);
}

/* RFC 1122 4.2.3.9 for the errors of RFC 4443: which end a handshake, and which do not. */
static void hard_errors_end_a_connect(void **state)
{
    static const u_u8 hard[][2] = {{1, 1}, {1, 4}, {4, 1}};
    static const u_u8 soft[][2] = {{1, 0}, {1, 2}, {1, 3}, {1, 5}, {3, 0}, {3, 1}, {4, 0}, {4, 2}};
    struct raw *raw = *state;
    u_u8 error[ERROR_BYTES];
    unsigned i;

    connect_and_quote(raw, 5555, error);
    for (i = 0; i < U_ARRAY_LEN(soft); i++) {
        make_error(raw, error, soft[i][0], soft[i][1], sizeof(error));
        craft_expect_counted(raw, &packet, "icmp_rx_errors");
        assert_null(raw_event(raw));
    }
    for (i = 0; i < U_ARRAY_LEN(hard); i++) {
        connect_and_quote(raw, (u_u16)(6000 + i), error);
        make_error(raw, error, hard[i][0], hard[i][1], sizeof(error));
        craft_give(raw, &packet);
        assert_int_equal(raw_expect_event(raw, US_EV_CLOSED)->reason, US_CLOSE_UNREACHABLE);
    }
}

/* RFC 8201 section 4: no link of IPv6 has a smaller MTU than 1280, so such a report is forged. */
static void too_small_an_mtu_is_ignored(void **state)
{
    static const u_u8 mtus[][2] = {{0, 0}, {2, 0}, {4, 0xff}};
    struct raw *raw = *state;
    u_u8 error[8 + 40 + 20] = {2};
    unsigned i;

    error[8] = 6 << 4;
    error[8 + 6] = US_IP_TCP;
    for (i = 0; i < U_ARRAY_LEN(mtus); i++) {
        memcpy(error + 6, mtus[i], 2);
        craft_l4_6(&packet, raw, US_IP_ICMP6, NULL, 0, US_IP_ICMP6, error, sizeof(error), 2);
        craft_expect_counted(raw, &packet, "drop_icmp_malformed");
    }
    error[6] = 5;
    error[7] = 0;
    craft_l4_6(&packet, raw, US_IP_ICMP6, NULL, 0, US_IP_ICMP6, error, sizeof(error), 2);
    craft_expect_counted(raw, &packet, "drop_icmp_no_conn");
}

/* Fragments of one datagram stay fragments when the MTU grows between them. */
static void fragments_stay_fragments(void **state)
{
    struct raw *raw = *state;
    u_u8 request[1400] = {128};
    u_u8 frame[RAW_FRAME_BYTES];
    struct us_pkt pkt;
    struct us_pkt *list = &pkt;
    unsigned i;

    us_mtu_set(raw->stack, 1280);
    craft_l4_6(&packet, raw, US_IP_ICMP6, NULL, 0, US_IP_ICMP6, request, sizeof(request), 2);
    raw->no_pump = 1;
    craft_give(raw, &packet);
    for (i = 0; i < 2; i++) {
        memset(&pkt, 0, sizeof(pkt));
        pkt.data = frame;
        pkt.room = sizeof(frame);
        assert_int_equal(us_output(raw->stack, &list, 1, raw->now_us), 1);
        assert_int_equal(frame[20], US_IP_FRAGMENT);
        assert_int_equal(frame[56] << 8 | frame[57], i == 0 ? 1 : 1232);
        us_mtu_set(raw->stack, 1500);
    }
    assert_int_equal(us_output(raw->stack, &list, 1, raw->now_us), 0);
}

/* Tagged frames are for the VLAN of the configuration, and all that is sent carries its tag. */
static void vlan_tags(void **state)
{
    static const u_u8 tags[][4] = {{0x81, 0, 0xf0, 42}, {0x81, 0, 0, 43}, {0x81, 0, 0, 0}};
    struct us_config config;
    struct raw raw;
    unsigned vlan;
    unsigned i;

    pair_use_ip6(0);
    for (vlan = 0; vlan < 2; vlan++) {
        pair_config(&config, 0);
        raw_open(&raw, NULL);
        craft_ip4(&packet, &raw, US_IP_ICMP, "\10\0\xf7\xff\0\0\0\0", 8);
        raw_close(&raw);
        config.vlan_id = vlan ? 42 : 0;
        memset(&raw, 0, sizeof(raw));
        {
            struct us_addr addr = pair_addr(0);
            unsigned long bytes = us_memory_bytes(&config);
            raw.memory = calloc(1, bytes);
            raw.now_us = 1000;
            raw.stack = us_create(&config, raw.memory, bytes, raw.now_us);
            assert_int_equal(us_addr_add(raw.stack, &addr, 24), 0);
        }
        raw_pump(&raw, 0);
        assert_int_equal(raw_frame(&raw)->len, vlan ? 46 : 42);
        craft_expect_counted(&raw, &packet, vlan ? "drop_eth_vlan" : "icmp_tx_echo");
        while (raw_frame(&raw) != NULL)
            continue;
        for (i = 0; i < 3; i++) {
            struct craft tagged = packet;
            int ours = vlan ? i == 0 : i == 2;
            memmove(tagged.bytes + 16, tagged.bytes + 12, tagged.len - 12);
            memcpy(tagged.bytes + 12, tags[i], 4);
            tagged.len += 4;
            craft_expect_counted(&raw, &tagged, ours ? "icmp_tx_echo" : "drop_eth_vlan");
            if (ours && vlan)
                assert_memory_equal(raw_frame(&raw)->bytes + 12, "\x81\0\0\x2a\x08\0", 6);
            while (raw_frame(&raw) != NULL)
                continue;
        }
        craft_eth(&packet, &raw, US_ETH_VLAN); /* no tag, or a part of one, behind the type */
        for (i = 0; i < 4; i++, packet.len++)
            craft_expect_counted(&raw, &packet, "drop_eth_malformed");
        raw_close(&raw);
    }
    (void)state;
}

int main(void)
{
#define RAW_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        RAW_TEST(headers_are_checked),
        RAW_TEST(addresses_are_checked),
        RAW_TEST(groups_are_filtered),
        RAW_TEST(extensions_are_walked),
        RAW_TEST(unknown_options),
        RAW_TEST(what_is_not_understood_is_told),
        RAW_TEST(no_error_without_a_source),
        RAW_TEST(udp_needs_a_checksum),
        RAW_TEST(protocols_need_a_source),
        RAW_TEST(fragment_headers_are_checked),
        RAW_TEST(errors_are_limited),
        RAW_TEST(too_small_an_mtu_is_ignored),
        RAW_TEST(fragments_stay_fragments),
        RAW_TEST(errors_about_connections),
        RAW_TEST(no_address_means_no_ipv6),
        RAW_TEST(hard_errors_end_a_connect),
        RAW_TEST(no_error_about_a_packet_to_a_group),
        cmocka_unit_test(vlan_tags),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
