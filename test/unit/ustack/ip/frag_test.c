/* SPDX-License-Identifier: BSD-3-Clause */
/* Reassembly of both families, its bounds, and datagrams that are sent in fragments. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cksum.h"
#include "base/prng.h"
#include "craft.h"
#include "pair.h"
#include "ustack/ip/frag.h"
#include "ustack/ip/icmp.h"

enum { PORT = 11211, DATA_BYTES = 4000, DATAGRAM_BYTES = DATA_BYTES + US_UDP_HDR_BYTES };

static struct craft packet;
static u_u8 data[DATA_BYTES];
static u_u8 datagram[CRAFT_BYTES];
static int six; /* the family that a test runs over */

static int setup(void **state)
{
    static struct raw raw;
    struct us_config config;
    unsigned i;

    pair_config(&config, 0);
    config.reassembly_max = 3;
    config.reassembly_bytes = 5000;
    raw_open(&raw, &config);
    craft_enable6(&raw);
    assert_int_equal(us_udp_bind(raw.stack, PORT, NULL), 0);
    for (i = 0; i < DATA_BYTES; i++)
        data[i] = (u_u8)(i * 31 + (i >> 8));
    if (six) {
        assert_int_equal(craft_datagram6(datagram, &raw, PORT, data, DATA_BYTES), DATAGRAM_BYTES);
    } else {
        craft_udp4(&packet, &raw, PORT, data, DATA_BYTES);
        memcpy(datagram, packet.bytes + CRAFT_L4, DATAGRAM_BYTES);
    }
    *state = &raw;
    return 0;
}

static int teardown(void **state)
{
    raw_close(*state);
    return 0;
}

/* Makes the packet with bytes start..end-1 of the datagram. */
static void make_fragment(struct raw *raw, u_u32 ident, u_u32 start, u_u32 end, int more)
{
    u_u8 bytes[CRAFT_BYTES];
    struct u_be16 field = u_be16(start | (more ? 1u : 0));
    struct u_be32 id = u_be32(ident);

    if (!six) {
        craft_ip4(&packet, raw, US_IP_UDP, datagram + start, end - start);
        craft_ip4_hdr(&packet)->id = u_be16(ident);
        craft_ip4_hdr(&packet)->fragment =
            u_be16(start >> 3 | (more ? (u_u32)US_IP4_MORE_FRAGMENTS : 0));
        craft_ip4_finish(&packet);
        return;
    }
    bytes[0] = US_IP_UDP;
    bytes[1] = 0;
    memcpy(bytes + 2, &field, 2);
    memcpy(bytes + 4, &id, 4);
    memcpy(bytes + 8, datagram + start, end - start);
    craft_ip6(&packet, raw, US_IP_FRAGMENT, bytes, 8 + end - start);
}

static void give_fragment(struct raw *raw, u_u32 ident, u_u32 start, u_u32 end)
{
    make_fragment(raw, ident, start, end, end < DATAGRAM_BYTES);
    craft_give(raw, &packet);
}

static void expect_whole(struct raw *raw)
{
    const struct us_event *event = raw_expect_event(raw, US_EV_DATAGRAM);

    assert_int_equal(event->len, DATA_BYTES);
    assert_memory_equal(event->data, data, DATA_BYTES);
    assert_null(raw_event(raw));
}

static void in_order_and_backwards(void **state)
{
    struct raw *raw = *state;

    give_fragment(raw, 1, 0, 1480);
    give_fragment(raw, 1, 1480, 2960);
    assert_null(raw_event(raw));
    give_fragment(raw, 1, 2960, DATAGRAM_BYTES);
    expect_whole(raw);
    give_fragment(raw, 2, 2960, DATAGRAM_BYTES);
    give_fragment(raw, 2, 1480, 2960);
    give_fragment(raw, 2, 0, 1480);
    expect_whole(raw);
    raw_pump(raw, 0);
    craft_give(raw, &packet); /* the next input gives the memory back: this one starts anew */
    assert_int_equal(raw_counter(raw, "reassemblies"), 1);
    assert_int_equal(raw_counter(raw, "frag_whole"), 2);
}

/* Two datagrams at a time keep apart, whatever the order. One bit tells them apart. */
static void in_any_order(void **state)
{
    enum { PIECES = 20, PIECE_BYTES = 208 };
    struct raw *raw = *state;
    struct u_prng prng;
    unsigned round;

    u_prng_seed(&prng, 7);
    for (round = 0; round < 50; round++) {
        unsigned order[2 * PIECES];
        unsigned i;
        for (i = 0; i < 2 * PIECES; i++)
            order[i] = i;
        for (i = 2 * PIECES; i > 1; i--) {
            unsigned j = u_prng_below(&prng, i);
            unsigned t = order[i - 1];
            order[i - 1] = order[j];
            order[j] = t;
        }
        for (i = 0; i < 2 * PIECES; i++) {
            u_u32 start = order[i] / 2 * PIECE_BYTES;
            u_u32 end = start + PIECE_BYTES < DATAGRAM_BYTES ? start + PIECE_BYTES : DATAGRAM_BYTES;
            if (start < DATAGRAM_BYTES)
                give_fragment(raw, round | (order[i] % 2) << (6 + round % 10), start, end);
        }
        assert_int_equal(raw_expect_event(raw, US_EV_DATAGRAM)->len, DATA_BYTES);
        assert_memory_equal(raw_expect_event(raw, US_EV_DATAGRAM)->data, data, DATA_BYTES);
    }
}

/* RFC 791 3.2, RFC 8200 4.5: addresses, identification and (IPv4) protocol tell datagrams apart. */
static void fragments_of_others_are_apart(void **state)
{
    struct us_addr second = {US_IP4, {10, 0, 0, 9}};
    struct us_addr second6 = {US_IP6, {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9}};
    struct raw *raw = *state;
    unsigned i;

    assert_int_equal(us_addr_add(raw->stack, six ? &second6 : &second, 24), US_OK);
    for (i = 0; i < (six ? 2u : 3u); i++) {
        give_fragment(raw, 1, 0, 1480);
        make_fragment(raw, 1, 1480, DATAGRAM_BYTES, 0);
        if (six) {
            if (i == 0)
                craft_ip6_hdr(&packet)->src.b[15] = 8;
            else
                craft_ip6_hdr(&packet)->dst.b[15] = 9;
        } else {
            if (i == 0)
                craft_ip4_hdr(&packet)->src = u_be32(RAW_PEER_IP + 6);
            else if (i == 1)
                craft_ip4_hdr(&packet)->dst = u_be32(RAW_LOCAL_IP + 8);
            else
                craft_ip4_hdr(&packet)->protocol = US_IP_TCP;
            craft_ip4_finish(&packet);
        }
        craft_give(raw, &packet);
        assert_null(raw_event(raw));
        assert_int_equal(raw_counter(raw, "reassemblies"), 2);
        give_fragment(raw, 1, 1480, DATAGRAM_BYTES);
        expect_whole(raw);
        raw_pump(raw, 61000000);
        while (raw_frame(raw) != NULL)
            continue;
    }
}

/* What the NIC says of the last fragment's checksum is about that fragment. */
static void verdicts_of_the_nic_are_not_used(void **state)
{
    struct raw *raw = *state;

    give_fragment(raw, 1, 0, 1480);
    raw->rx_flags = US_PKT_L4_CSUM_BAD;
    give_fragment(raw, 1, 1480, DATAGRAM_BYTES);
    expect_whole(raw);
    datagram[1480] ^= 1;
    raw->rx_flags = US_PKT_L4_CSUM_GOOD;
    give_fragment(raw, 2, 0, 1480);
    give_fragment(raw, 2, 1480, DATAGRAM_BYTES);
    raw->rx_flags = 0;
    assert_null(raw_event(raw));
    assert_int_equal(raw_counter(raw, "drop_udp_checksum"), 1);
}

/* RFC 6980 section 5: neighbour discovery is not accepted in fragments. */
static void no_neighbour_discovery_in_fragments(void **state)
{
    struct raw *raw = *state;
    unsigned i;

    memset(datagram, 0, 24);
    datagram[0] = 136;
    memcpy(datagram + 8, &craft_peer6, 16);
    datagram[2] = datagram[3] = 0;
    {
        u_u32 sum = u_cksum_pseudo6(craft_peer6.b, craft_local6.b, US_IP_ICMP6, 24);
        struct u_be16 field = u_be16(u_cksum_finish(u_cksum_add(sum, datagram, 24)));
        memcpy(datagram + 2, &field, 2);
    }
    for (i = 0; i < 3; i++) {
        make_fragment(raw, 1, 8 * i, 8 * i + 8, i < 2);
        packet.bytes[CRAFT_L4_6] = US_IP_ICMP6;
        craft_ip6_hdr(&packet)->hop_limit = 255;
        craft_give(raw, &packet);
    }
    assert_int_equal(raw_counter(raw, "frag_whole"), 1);
    assert_int_equal(raw_counter(raw, "drop_nd_malformed"), 1);
}

static void an_exact_copy_is_ignored(void **state)
{
    struct raw *raw = *state;

    give_fragment(raw, 1, 0, 1480);
    give_fragment(raw, 1, 0, 1480);
    give_fragment(raw, 1, 2960, DATAGRAM_BYTES);
    give_fragment(raw, 1, 2960, DATAGRAM_BYTES);
    assert_int_equal(raw_counter(raw, "drop_frag_copy"), 2);
    give_fragment(raw, 1, 1480, 2960);
    expect_whole(raw);
}

/* RFC 5722: what overlaps ends the datagram, with all that is still to come. */
static void an_overlap_ends_the_datagram(void **state)
{
    static const u_u32 bad[][2] = {{1472, 2960}, {1480, 2968}, {8, 16}, {0, 1488}, {0, 8}};
    struct raw *raw = *state;
    unsigned i;

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        give_fragment(raw, 10 + i, 0, 1480);
        give_fragment(raw, 10 + i, 2960, DATAGRAM_BYTES);
        give_fragment(raw, 10 + i, bad[i][0], bad[i][1]);
        give_fragment(raw, 10 + i, 1480, 2960);
        give_fragment(raw, 10 + i, 0, 1480);
        assert_null(raw_event(raw));
    }
    assert_true(raw_counter(raw, "drop_frag_overlap") >= 10);
    raw_pump(raw, 61000000);
    raw_expect_nothing(raw); /* RFC 5722: silently */
    assert_int_equal(raw_counter(raw, "reassemblies"), 0);
}

static void a_copy_with_other_bytes_ends_the_datagram(void **state)
{
    struct raw *raw = *state;

    give_fragment(raw, 1, 0, 1480);
    make_fragment(raw, 1, 0, 1480, 1);
    packet.bytes[packet.len - 1] ^= 1;
    craft_expect_counted(raw, &packet, "drop_frag_overlap");
}

static void two_ends_end_the_datagram(void **state)
{
    struct raw *raw = *state;

    give_fragment(raw, 1, 2960, DATAGRAM_BYTES);
    make_fragment(raw, 1, 8, 1480, 0);
    craft_expect_counted(raw, &packet, "drop_frag_overlap");
    make_fragment(raw, 2, 200, 1480, 0);
    craft_give(raw, &packet);
    make_fragment(raw, 2, 2960, DATAGRAM_BYTES, 1); /* beyond the end */
    craft_expect_counted(raw, &packet, "drop_frag_overlap");
    give_fragment(raw, 3, 2960, DATAGRAM_BYTES);
    make_fragment(raw, 3, 2960, DATAGRAM_BYTES, 1); /* the last bytes, but more are to follow */
    craft_expect_counted(raw, &packet, "drop_frag_overlap");
    give_fragment(raw, 4, 1480, 2960);
    make_fragment(raw, 4, 8, 1480, 0); /* an end before them */
    craft_expect_counted(raw, &packet, "drop_frag_overlap");
    assert_null(raw_event(raw));
}

static void time_is_not_started_anew(void **state)
{
    struct raw *raw = *state;
    struct raw_frame *frame;

    give_fragment(raw, 1, 0, 1480);
    raw_pump(raw, 59000000);
    give_fragment(raw, 1, 1480, 2960);
    raw_pump(raw, 999999);
    raw_expect_nothing(raw);
    raw_pump(raw, 1);
    assert_int_equal(raw_counter(raw, "frag_timeouts"), 1);
    assert_int_equal(raw_counter(raw, "reassemblies"), 0);
    frame = raw_frame(raw); /* time exceeded, to who sent the first fragment */
    assert_non_null(frame);
    assert_int_equal(frame->bytes[six ? 54 : 34], six ? 3 : 11);
    assert_int_equal(frame->bytes[six ? 55 : 35], 1);
    make_fragment(raw, 1, 0, 1480, 1); /* what it quotes is that fragment */
    assert_memory_equal(frame->bytes + (six ? 62 : 42), packet.bytes + 14, six ? 1232 : 548);
    assert_int_equal(frame->len, six ? 14 + 1280 : 14 + 576);
    raw_expect_nothing(raw);
    give_fragment(raw, 2, 1480, 2960); /* without the first one no ICMP error is sent */
    raw_pump(raw, 60000000);
    raw_expect_nothing(raw);
    assert_int_equal(raw_counter(raw, "frag_timeouts"), 2);
}

/* Each datagram has its own reassembly timeout. */
static void each_datagram_has_its_time(void **state)
{
    struct raw *raw = *state;
    unsigned i;

    for (i = 0; i < 2; i++) {
        give_fragment(raw, i, 1480, 2960);
        raw_pump(raw, 10000000);
    }
    for (i = 0; i < 2; i++) {
        assert_int_equal(raw_counter(raw, "frag_timeouts"), i);
        raw_pump(raw, i == 0 ? 40000000 : 10000000);
    }
    assert_int_equal(raw_counter(raw, "frag_timeouts"), 2);
}

/* An error quotes the first fragment, not what lies in memory where the next one is missing. */
static void what_has_not_arrived_is_not_quoted(void **state)
{
    struct raw *raw = *state;
    const struct raw_frame *frame;

    give_fragment(raw, 1, 0, 8);
    give_fragment(raw, 1, 1480, 2960);
    raw_pump(raw, 60000000);
    frame = raw_frame(raw);
    assert_non_null(frame);
    make_fragment(raw, 1, 0, 8, 1);
    assert_int_equal(frame->len, packet.len + (six ? 48 : 28));
    assert_memory_equal(frame->bytes + (six ? 62 : 42), packet.bytes + 14, packet.len - 14);
}

/* The first bytes of a message, as the only fragment of it that arrives. */
static void give_icmp_fragment(struct raw *raw, u_u32 ident, unsigned type)
{
    datagram[0] = (u_u8)type;
    make_fragment(raw, ident, 0, 8, 1);
    if (six) {
        packet.bytes[CRAFT_L4_6] = US_IP_ICMP6;
    } else {
        craft_ip4_hdr(&packet)->protocol = US_IP_ICMP;
        craft_ip4_finish(&packet);
    }
    craft_give(raw, &packet);
}

/* RFC 1122 3.2.2, RFC 4443 2.4 (e): of ICMP, an error is sent about queries only. */
static void no_error_about_an_error(void **state)
{
    static const u_u8 types[2][2][4] = {{{8, 0, 13, 18}, {3, 5, 12, 19}},
                                        {{128, 129, 135, 255}, {1, 4, 127, 137}}};
    struct raw *raw = *state;
    unsigned error, i;

    for (error = 0; error < 2; error++) {
        for (i = 0; i < 4; i++) {
            u_u64 before = raw_counter(raw, "icmp_tx_errors");
            give_icmp_fragment(raw, i, types[six][error][i]);
            raw_pump(raw, 60000000);
            assert_int_equal(raw_counter(raw, "reassemblies"), 0);
            assert_int_equal(raw_counter(raw, "icmp_tx_errors"), before + !error);
        }
    }
}

static void the_oldest_makes_room(void **state)
{
    struct raw *raw = *state;
    u_u32 i;

    for (i = 0; i < 4; i++)
        give_fragment(raw, i, 0, 1480);
    assert_int_equal(raw_counter(raw, "frag_evictions"), 1);
    assert_int_equal(raw_counter(raw, "reassemblies"), 3);
    for (i = 1; i < 4; i++) {
        give_fragment(raw, i, 1480, 2960);
        give_fragment(raw, i, 2960, DATAGRAM_BYTES);
        expect_whole(raw);
        raw_pump(raw, 0);
    }
}

static void bytes_and_pieces_are_bounded(void **state)
{
    struct raw *raw = *state;
    u_u32 i;

    make_fragment(raw, 1, 4992, 5008, 1);
    craft_expect_counted(raw, &packet, "drop_frag_bound");
    assert_int_equal(raw_counter(raw, "reassemblies"), 0);
    for (i = 0; i < US_FRAGS_MAX; i++)
        give_fragment(raw, 2, 16 * i, 16 * i + 8);
    assert_int_equal(raw_counter(raw, "drop_frag_bound"), 1);
    give_fragment(raw, 2, 16 * i, 16 * i + 8);
    assert_int_equal(raw_counter(raw, "drop_frag_bound"), 2);
}

/* A datagram of all the bytes that there is room for, behind headers of all there is room for. */
static void what_just_fits_is_taken(void **state)
{
    enum { OPTIONS_BYTES = US_FRAG_HEAD_MAX - US_IP6_HDR_BYTES - US_IP6_FRAGMENT_HDR_BYTES };
    struct raw *raw = *state;
    u_u8 bytes[CRAFT_BYTES];
    unsigned more;

    make_fragment(raw, 1, 4992, 5000, 0);
    craft_give(raw, &packet);
    assert_int_equal(raw_counter(raw, "reassemblies"), 1);
    assert_int_equal(raw_counter(raw, "drop_frag_bound"), 0);
    for (more = 0; six && more < 2; more++) {
        u_u32 ext_bytes = OPTIONS_BYTES + 8 * more;
        make_fragment(raw, 2 + more, 0, 1480, 1);
        memset(bytes, 0, ext_bytes); /* padding */
        bytes[0] = US_IP_FRAGMENT;
        bytes[1] = (u_u8)(ext_bytes / 8 - 1);
        memcpy(bytes + ext_bytes, packet.bytes + CRAFT_L4_6, 8 + 1480);
        craft_ip6(&packet, raw, US_IP_DST_OPTIONS, bytes, ext_bytes + 8 + 1480);
        craft_give(raw, &packet);
        assert_int_equal(raw_counter(raw, "reassemblies"), 2);
        assert_int_equal(raw_counter(raw, "drop_frag_bound"), more);
    }
}

/* An error about a datagram that came in fragments quotes the header of a whole one. */
static void an_error_quotes_a_whole_header(void **state)
{
    struct raw *raw = *state;
    struct us_ip6_hdr *hdr6;
    struct us_ip4_hdr *hdr4;
    struct raw_frame *frame;

    assert_int_equal(us_udp_unbind(raw->stack, PORT), US_OK);
    give_fragment(raw, 1, 0, 1480);
    give_fragment(raw, 1, 1480, DATAGRAM_BYTES);
    frame = raw_frame(raw);
    assert_non_null(frame);
    assert_memory_equal(frame->bytes, raw_peer_mac, 6);
    hdr6 = (void *)(frame->bytes + 54 + 8);
    hdr4 = (void *)(frame->bytes + 34 + 8);
    if (six) {
        assert_int_equal(hdr6->next, US_IP_UDP);
        assert_int_equal(u_get_be16(hdr6->payload_bytes), DATAGRAM_BYTES);
    } else {
        assert_int_equal(u_get_be16(hdr4->total_bytes), US_IP4_HDR_BYTES + DATAGRAM_BYTES);
        assert_int_equal(u_get_be16(hdr4->fragment), 0);
    }
}

/* Puts options in front of the fragment: 4 bytes of IPv4, or a header of 8 bytes. */
static void add_options(void)
{
    static const u_u8 padding[8] = {US_IP_FRAGMENT, 0, 1, 4};
    u_u32 at = six ? CRAFT_L4_6 : CRAFT_L4;
    u_u32 bytes = six ? 8 : 4;
    u_u32 payload = packet.len - at;

    memmove(packet.bytes + at + bytes, packet.bytes + at, payload);
    packet.len += bytes;
    if (six) {
        memcpy(packet.bytes + at, padding, 8);
        craft_ip6_hdr(&packet)->next = US_IP_DST_OPTIONS;
        craft_ip6_hdr(&packet)->payload_bytes = u_be16(bytes + payload);
    } else {
        memset(packet.bytes + at, 1, 4); /* no operation */
        craft_ip4_hdr(&packet)->version_ihl = 0x46;
        craft_ip4_hdr(&packet)->total_bytes = u_be16(US_IP4_HDR_BYTES + bytes + payload);
        craft_ip4_finish(&packet);
    }
}

/* Options precede the whole datagram as they precede its first fragment. */
static void an_error_quotes_options(void **state)
{
    struct raw *raw = *state;
    struct raw_frame *frame;
    const struct us_ip6_hdr *hdr6;
    const struct us_ip4_hdr *hdr4;
    const struct us_udp_hdr *udp;

    assert_int_equal(us_udp_unbind(raw->stack, PORT), US_OK);
    make_fragment(raw, 1, 0, 1480, 1);
    add_options();
    craft_give(raw, &packet);
    make_fragment(raw, 1, 1480, DATAGRAM_BYTES, 0);
    add_options();
    craft_give(raw, &packet);
    frame = raw_frame(raw);
    assert_non_null(frame);
    hdr6 = (const void *)(frame->bytes + 54 + 8);
    hdr4 = (const void *)(frame->bytes + 34 + 8);
    if (six) {
        assert_int_equal(hdr6->next, US_IP_DST_OPTIONS);
        assert_int_equal(u_get_be16(hdr6->payload_bytes), 8 + DATAGRAM_BYTES);
        assert_int_equal(*(const u_u8 *)(hdr6 + 1), US_IP_UDP);
        udp = (const void *)((const u_u8 *)(hdr6 + 1) + 8);
    } else {
        assert_int_equal(hdr4->version_ihl, 0x46);
        assert_int_equal(u_get_be16(hdr4->total_bytes), US_IP4_HDR_BYTES + 4 + DATAGRAM_BYTES);
        assert_memory_equal(hdr4 + 1, "\1\1\1\1", 4);
        udp = (const void *)((const u_u8 *)(hdr4 + 1) + 4);
    }
    assert_int_equal(u_get_be16(udp->dst_port), PORT);
}

/* Bytes of an event stay until it is taken, whatever arrives. */
static void events_keep_their_bytes(void **state)
{
    struct us_event event;
    struct raw *raw = *state;
    u_u32 i;

    raw->no_pump = 1;
    give_fragment(raw, 1, 0, 1480);
    give_fragment(raw, 1, 1480, DATAGRAM_BYTES);
    memset(datagram, 0, DATAGRAM_BYTES);
    for (i = 0; i < 5; i++)
        give_fragment(raw, 10 + i, 0, DATAGRAM_BYTES - 8);
    assert_int_equal(us_next_event(raw->stack, &event), 1);
    assert_int_equal(event.len, DATA_BYTES);
    assert_memory_equal(event.data, data, DATA_BYTES);
    raw->no_pump = 0;
    raw_pump(raw, 0);
}

/* The headers count in an IPv4 packet's length, which has 16 bits. */
static void a_whole_packet_fits_the_length_field(void **state)
{
    struct raw *raw = *state;
    struct us_config config;

    if (six)
        return;
    raw_close(raw);
    pair_config(&config, 0);
    config.reassembly_max = 3;
    config.reassembly_bytes = 0xffff;
    raw_open(raw, &config);
    make_fragment(raw, 1, 0, 8, 0);
    craft_ip4_hdr(&packet)->fragment = u_be16((0xffff - 8) >> 3);
    craft_ip4_finish(&packet);
    craft_expect_counted(raw, &packet, "drop_frag_bound");
    assert_int_equal(raw_counter(raw, "reassemblies"), 0);
    make_fragment(raw, 1, 0, 0xffff - 20 - 0xffe8, 0); /* the largest packet ends with it */
    craft_ip4_hdr(&packet)->fragment = u_be16(0xffe8 >> 3);
    craft_ip4_finish(&packet);
    craft_expect_counted(raw, &packet, "reassemblies");
}

/* What is reassembled is not put together again: that would have no end. */
static void fragments_of_fragments_are_dropped(void **state)
{
    u_u8 bytes[8 + 8 + 16] = {US_IP_FRAGMENT, 0, 0, 1, 0, 0, 0, 1, /* 16 bytes of the datagram */
                              US_IP_UDP,      0, 0, 1, 0, 0, 0, 2};
    struct raw *raw = *state;

    if (!six)
        return;
    craft_ip6(&packet, raw, US_IP_FRAGMENT, bytes, 8 + 16);
    craft_give(raw, &packet);
    bytes[3] = 16; /* the last ones */
    craft_ip6(&packet, raw, US_IP_FRAGMENT, bytes, 8 + 8);
    craft_expect_counted(raw, &packet, "drop_ip_fragment");
    assert_int_equal(raw_counter(raw, "frag_whole"), 1);
}

/* RFC 791: fragments but the last have a multiple of eight bytes, and none has none. */
static void odd_lengths_are_refused(void **state)
{
    struct raw *raw = *state;
    const struct raw_frame *frame;
    u_u32 end;

    for (end = 1473; end < 1480; end++) {
        make_fragment(raw, 1, 0, end, 1);
        if (six) {
            craft_expect_counted(raw, &packet, "drop_ip_extension");
            frame = raw_frame(raw);
            assert_int_equal(frame->bytes[54], US_ICMP6_PROBLEM);
            assert_int_equal(frame->bytes[61], 4); /* where the payload's length stands */
        } else {
            craft_expect_counted(raw, &packet, "drop_ip_fragment");
        }
    }
    make_fragment(raw, 1, 8, 8, 1);
    craft_expect_counted(raw, &packet, "drop_ip_fragment");
    raw_expect_nothing(raw);
    assert_int_equal(raw_counter(raw, "reassemblies"), 0);
}

/* RFC 6946: a packet that is its own only fragment meets no other with its identification. */
static void atomic_fragments_stand_alone(void **state)
{
    struct raw *raw = *state;
    u_u32 bytes;

    give_fragment(raw, 1, 0, 1480);
    bytes = craft_datagram6(datagram, raw, PORT, "alone", 5);
    make_fragment(raw, 1, 0, bytes, 0);
    craft_give(raw, &packet);
    assert_int_equal(raw_expect_event(raw, US_EV_DATAGRAM)->len, 5);
    assert_int_equal(raw_counter(raw, "drop_frag_overlap"), 0);
    assert_int_equal(raw_counter(raw, "reassemblies"), 1);
}

/* A segment of TCP in pieces, and bytes that stay valid until its events are taken. */
static void a_segment_in_fragments(void **state)
{
    struct raw *raw = *state;
    u_u8 segment[20 + 64];
    struct us_tcp_hdr *tcp = (void *)segment;
    u_u32 snd;
    u_u32 at;
    u_u32 sum;

    assert_int_equal(us_listen(raw->stack, RAW_PORT, NULL), 0);
    raw_accept(raw, &snd);
    memset(segment, 0, sizeof(segment));
    tcp->src_port = u_be16(RAW_PEER_PORT);
    tcp->dst_port = u_be16(RAW_PORT);
    tcp->seq = u_be32(1001);
    tcp->ack = u_be32(snd);
    tcp->offset = 5 << 4;
    tcp->flags = US_TCP_ACK;
    tcp->window = u_be16(60000);
    memset(segment + 20, 'x', 64);
    sum = u_cksum_pseudo4(u_be32(RAW_PEER_IP), u_be32(RAW_LOCAL_IP), US_IP_TCP, sizeof(segment));
    tcp->checksum = u_be16(u_cksum_finish(u_cksum_add(sum, segment, sizeof(segment))));
    for (at = 0; at < sizeof(segment); at += 24) {
        u_u32 n = sizeof(segment) - at < 24 ? (u_u32)sizeof(segment) - at : 24;
        craft_ip4(&packet, raw, US_IP_TCP, segment + at, n);
        craft_ip4_hdr(&packet)->id = u_be16(5);
        craft_ip4_hdr(&packet)->fragment =
            u_be16(at >> 3 | (at + n < sizeof(segment) ? (u_u32)US_IP4_MORE_FRAGMENTS : 0));
        craft_ip4_finish(&packet);
        craft_give(raw, &packet);
    }
    assert_memory_equal(raw_expect_event(raw, US_EV_DATA)->data, segment + 20, 64);
}

/* An echo that came in fragments goes back in fragments, with exactly the bytes that came. */
/* RFC 1122 3.2.2.6: to a broadcast address it is not answered, in fragments neither. */
static void broadcast_echo_in_fragments(void **state)
{
    static const u_u8 request[16] = {8, 0, 0xf7, 0xff};
    struct raw *raw = *state;
    unsigned broadcast, i;

    memcpy(datagram, request, sizeof(request));
    for (broadcast = 0; broadcast < 2; broadcast++) {
        for (i = 0; i < 2; i++) {
            make_fragment(raw, broadcast, i * 8, i * 8 + 8, i == 0);
            craft_ip4_hdr(&packet)->protocol = US_IP_ICMP;
            if (broadcast) {
                memset(packet.bytes, 0xff, 6);
                craft_ip4_hdr(&packet)->dst = u_be32(RAW_LOCAL_IP | 0xff);
            }
            craft_ip4_finish(&packet);
            craft_give(raw, &packet);
        }
        assert_int_equal(raw_counter(raw, "frag_whole"), broadcast + 1);
        if (!broadcast)
            assert_int_equal(raw_frame(raw)->ip_protocol, US_IP_ICMP);
        raw_expect_nothing(raw);
    }
}

enum { ECHO_BYTES = 4008 };

/* Gives an echo request in three fragments to the stack. */
static void give_echo(struct raw *raw)
{
    struct u_be16 sum;
    u_u32 at;

    memset(datagram, 0, 8);
    memcpy(datagram + 8, data, ECHO_BYTES - 8);
    datagram[0] = six ? 128 : 8;
    sum = u_be16(u_cksum_finish(u_cksum_add(
        six ? u_cksum_pseudo6(craft_peer6.b, craft_local6.b, US_IP_ICMP6, ECHO_BYTES) : 0, datagram,
        ECHO_BYTES)));
    memcpy(datagram + 2, &sum, 2);
    for (at = 0; at < ECHO_BYTES; at += 1336) {
        make_fragment(raw, 9, at, at + 1336, at + 1336 < ECHO_BYTES);
        if (six) {
            packet.bytes[CRAFT_L4_6] = US_IP_ICMP6;
        } else {
            craft_ip4_hdr(&packet)->protocol = US_IP_ICMP;
            craft_ip4_finish(&packet);
        }
        craft_give(raw, &packet);
    }
}

static void echo_in_fragments(void **state)
{
    struct raw *raw = *state;
    u_u32 hdr_bytes = six ? 62 : 34;
    u_u8 answer[ECHO_BYTES];
    unsigned frames = 0;
    u_u32 seen = 0;
    u_u8 ident[4];
    struct raw_frame *frame;

    give_echo(raw);
    while ((frame = raw_frame(raw)) != NULL) {
        u_u32 offset = six ? (u_u32)frame->bytes[56] << 8 | (frame->bytes[57] & 0xf8)
                           : ((u_u32)(frame->bytes[20] & 0x1f) << 8 | frame->bytes[21]) << 3;
        assert_true(frame->len <= 1514);
        if (six)
            assert_int_equal(frame->bytes[55], 0); /* reserved */
        if (frames++ == 0)
            memcpy(ident, frame->bytes + (six ? 58 : 18), sizeof(ident));
        assert_memory_equal(frame->bytes + (six ? 58 : 18), ident, six ? 4 : 2);
        assert_true(offset + frame->len - hdr_bytes <= ECHO_BYTES);
        memcpy(answer + offset, frame->bytes + hdr_bytes, frame->len - hdr_bytes);
        seen += frame->len - hdr_bytes;
    }
    assert_int_equal(seen, ECHO_BYTES);
    assert_int_equal(raw_counter(raw, "frag_tx"), frames);
    assert_int_equal(answer[0], six ? 129 : 0);
    assert_memory_equal(answer + 8, data, ECHO_BYTES - 8);
    assert_int_equal(
        u_cksum_finish(u_cksum_add(
            six ? u_cksum_pseudo6(craft_local6.b, craft_peer6.b, US_IP_ICMP6, ECHO_BYTES) : 0,
            answer, ECHO_BYTES)),
        0);
    assert_int_equal(raw_counter(raw, "buffer_bytes_used"), 0);
    give_echo(raw); /* another datagram with another identification */
    assert_memory_not_equal(raw_frame(raw)->bytes + (six ? 58 : 18), ident, six ? 4 : 2);
}

static int over_ip4(void **state)
{
    six = 0;
    return 0;
}

static int over_ip6(void **state)
{
    six = 1;
    return 0;
}

#define RAW_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest both[] = {
        RAW_TEST(in_order_and_backwards),
        RAW_TEST(in_any_order),
        RAW_TEST(fragments_of_others_are_apart),
        RAW_TEST(verdicts_of_the_nic_are_not_used),
        RAW_TEST(an_exact_copy_is_ignored),
        RAW_TEST(an_overlap_ends_the_datagram),
        RAW_TEST(a_copy_with_other_bytes_ends_the_datagram),
        RAW_TEST(two_ends_end_the_datagram),
        RAW_TEST(time_is_not_started_anew),
        RAW_TEST(each_datagram_has_its_time),
        RAW_TEST(what_has_not_arrived_is_not_quoted),
        RAW_TEST(no_error_about_an_error),
        RAW_TEST(the_oldest_makes_room),
        RAW_TEST(bytes_and_pieces_are_bounded),
        RAW_TEST(what_just_fits_is_taken),
        RAW_TEST(an_error_quotes_a_whole_header),
        RAW_TEST(an_error_quotes_options),
        RAW_TEST(events_keep_their_bytes),
        RAW_TEST(a_whole_packet_fits_the_length_field),
        RAW_TEST(fragments_of_fragments_are_dropped),
        RAW_TEST(odd_lengths_are_refused),
        RAW_TEST(echo_in_fragments),
    };
    const struct CMUnitTest only4[] = {RAW_TEST(a_segment_in_fragments),
                                       RAW_TEST(broadcast_echo_in_fragments)};
    const struct CMUnitTest only6[] = {RAW_TEST(atomic_fragments_stand_alone),
                                       RAW_TEST(no_neighbour_discovery_in_fragments)};

    return cmocka_run_group_tests(both, over_ip4, NULL) +
           cmocka_run_group_tests(only4, over_ip4, NULL) +
           cmocka_run_group_tests(both, over_ip6, NULL) +
           cmocka_run_group_tests(only6, over_ip6, NULL);
}
