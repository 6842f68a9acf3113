/* SPDX-License-Identifier: BSD-3-Clause */
/* IPv4, ICMP and Ethernet: accepted packets, counted drops, echo replies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cksum.h"
#include "craft.h"
#include "pair.h"
#include "raw.h"
#include "ustack/ip/eth.h"
#include "ustack/ip/ip4.h"

static u_u8 frame[2048];
static u_u32 frame_len;

static int setup(void **state)
{
    static struct raw raw;

    raw_open(&raw, NULL);
    *state = &raw;
    return 0;
}

static int teardown(void **state)
{
    raw_close(*state);
    return 0;
}

/* Makes an echo request with `bytes` bytes of ICMP and option_bytes bytes of IP options. */
static void make_echo(u_u32 bytes, u_u32 option_bytes)
{
    static const u_u8 macs[12] = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2};
    u_u8 *ip = frame + 14;
    u_u8 *icmp = ip + 20 + option_bytes;
    struct us_ip4_hdr *hdr = (void *)ip;
    struct u_be16 sum;
    u_u32 i;

    memset(frame, 0, sizeof(frame));
    memcpy(frame, macs, 12);
    frame[12] = 8;
    us_ip4_build(ip, RAW_PEER_IP, RAW_LOCAL_IP, US_IP_ICMP);
    hdr->version_ihl = (u_u8)(0x45 + option_bytes / 4);
    memset(ip + 20, 1, option_bytes);
    hdr->total_bytes = u_be16(20 + option_bytes + bytes);
    icmp[0] = 8;
    for (i = 4; i < bytes; i++)
        icmp[i] = (u_u8)i;
    sum = u_be16(u_cksum_finish(u_cksum_add(0, icmp, bytes)));
    memcpy(icmp + 2, &sum, 2);
    frame_len = 14 + 20 + option_bytes + bytes;
}

/* Completes the IP checksum and gives the frame to the stack. */
static void give(struct raw *raw)
{
    struct us_ip4_hdr *hdr = (void *)(frame + 14);
    u_u32 hdr_bytes = (u_u32)(hdr->version_ihl & 15) * 4;

    hdr->checksum = u_be16(0);
    if (hdr_bytes >= 20)
        hdr->checksum = u_be16(u_cksum_finish(u_cksum_add(0, hdr, hdr_bytes)));
    raw_input(raw, frame, frame_len);
}

static void expect_drop(struct raw *raw, const char *counter)
{
    u_u64 before = raw_counter(raw, counter);

    give(raw);
    raw_expect_nothing(raw);
    assert_int_equal(raw_counter(raw, counter), before + 1);
}

static void echo_is_answered_with_the_same_bytes(void **state)
{
    static const u_u32 sizes[] = {8, 9, 64, 1480};
    struct raw *raw = *state;
    unsigned i;

    for (i = 0; i < 4; i++) {
        struct raw_frame *reply;
        make_echo(sizes[i], 0);
        give(raw);
        reply = raw_frame(raw);
        assert_non_null(reply);
        assert_int_equal(reply->ip_protocol, US_IP_ICMP);
        assert_int_equal(reply->len, frame_len);
        assert_int_equal(reply->bytes[34], 0);
        assert_int_equal(u_cksum_finish(u_cksum_add(0, reply->bytes + 34, sizes[i])), 0);
        assert_memory_equal(reply->bytes + 38, frame + 38, sizes[i] - 4);
    }
    raw_pump(raw, 0);
    assert_int_equal(raw_counter(raw, "buffer_bytes_used"), 0);
}

static void padding_and_options_are_skipped(void **state)
{
    struct raw *raw = *state;

    make_echo(10, 40);
    give(raw);
    assert_int_equal(raw_frame(raw)->len, 14 + 20 + 10);
    make_echo(10, 0);
    frame_len = 60; /* Ethernet's minimum: what follows is no part of the packet */
    frame[50] = 0x77;
    give(raw);
    assert_int_equal(raw_frame(raw)->len, 14 + 20 + 10);
}

static void bad_headers_are_dropped(void **state)
{
    struct raw *raw = *state;
    u_u32 len;

    for (len = 0; len < 34; len++) {
        make_echo(8, 0);
        raw_input(raw, frame, len);
    }
    raw_expect_nothing(raw);
    assert_int_equal(raw_counter(raw, "drop_eth_malformed"), 14);
    make_echo(8, 0);
    frame[14] = 0x65;
    expect_drop(raw, "drop_ip_header");
    make_echo(8, 0);
    frame[14] = 0x44;
    expect_drop(raw, "drop_ip_header");
    make_echo(8, 0);
    frame[14] = 0x4f; /* longer than the packet */
    expect_drop(raw, "drop_ip_header");
    make_echo(8, 0);
    frame[17]++; /* total length beyond the frame */
    expect_drop(raw, "drop_ip_header");
    make_echo(8, 0);
    frame[20] = 0x20; /* more fragments */
    expect_drop(raw, "frag_rx");
    make_echo(9, 0); /* no multiple of eight bytes in front of others */
    frame[20] = 0x20;
    expect_drop(raw, "drop_ip_fragment");
    make_echo(8, 0);
    frame[23] = 99;
    give(raw);
    assert_int_equal(raw_counter(raw, "drop_ip_protocol"), 1);
    assert_memory_equal(raw_frame(raw)->bytes + 34, "\3\2", 2); /* protocol unreachable */
}

/* RFC 1122 3.2.1.8: options are skipped, but a route of the sender's choice is not taken. */
static void options_are_checked(void **state)
{
    static const u_u8 bad[][4] = {
        {131, 3, 4, 0}, {137, 3, 4, 0}, {7, 0, 0, 0}, {7, 1, 0, 0}, {7, 5, 0, 0}, {1, 1, 1, 7},
    };
    static const u_u8 good[][4] = {{7, 4, 4, 0}, {0, 131, 0, 0}, {1, 7, 2, 0}, {148, 4, 0, 0}};
    struct raw *raw = *state;
    unsigned i;

    for (i = 0; i < sizeof(bad) / 4; i++) {
        make_echo(8, 4);
        memcpy(frame + 34, bad[i], 4);
        expect_drop(raw, "drop_ip_options");
    }
    make_echo(0, 4); /* nothing is behind the option without a length */
    memcpy(frame + 34, bad[i - 1], 4);
    expect_drop(raw, "drop_ip_options");
    for (i = 0; i < sizeof(good) / 4; i++) {
        make_echo(8, 4);
        memcpy(frame + 34, good[i], 4);
        give(raw);
        assert_int_equal(raw_frame(raw)->bytes[34], 0);
    }
}

static void addresses_are_checked(void **state)
{
    static const u_u8 sources[][4] = {{0, 0, 0, 0},   {127, 0, 0, 1},       {224, 0, 0, 1},
                                      {10, 0, 0, 1},  {255, 255, 255, 255}, {10, 0, 0, 255},
                                      {240, 0, 0, 1}, {10, 0, 0, 0}};
    struct raw *raw = *state;
    unsigned i;

    for (i = 0; i < sizeof(sources) / 4; i++) {
        make_echo(8, 0);
        memcpy(frame + 26, sources[i], 4);
        expect_drop(raw, "drop_ip_source");
    }
    make_echo(8, 0);
    frame[33] = 9;
    expect_drop(raw, "drop_ip_address");
    make_echo(8, 0);
    frame[33] = 255;
    expect_drop(raw, "drop_ip_address");
    make_echo(8, 0);
    frame[5] = 9;
    expect_drop(raw, "drop_eth_address");
    make_echo(8, 0);
    memset(frame, 255, 6);
    expect_drop(raw, "drop_ip_address");
    make_echo(8, 0);
    frame[6] = 1;
    expect_drop(raw, "drop_eth_malformed");
    make_echo(8, 0);
    frame[13] = 0xdd;
    expect_drop(raw, "drop_eth_type");
}

static void checksums_are_checked_unless_known(void **state)
{
    struct raw *raw = *state;

    make_echo(8, 0);
    frame[24] = 1;
    raw_input(raw, frame, frame_len); /* no verdict: checked in software */
    raw_expect_nothing(raw);
    assert_int_equal(raw_counter(raw, "drop_ip_checksum"), 1);
    raw->rx_flags = US_PKT_IP_CSUM_GOOD;
    raw_input(raw, frame, frame_len);
    assert_non_null(raw_frame(raw));
    raw->rx_flags = US_PKT_IP_CSUM_BAD;
    make_echo(8, 0);
    expect_drop(raw, "drop_ip_checksum");
    raw->rx_flags = 0;
    make_echo(8, 0);
    frame[37] ^= 1;
    expect_drop(raw, "drop_icmp_checksum");
    make_echo(7, 0);
    expect_drop(raw, "drop_icmp_malformed");
}

static void tcp_checksum_verdicts(void **state)
{
    struct raw *raw = *state;

    raw->rx_flags = US_PKT_L4_CSUM_BAD;
    raw_segment(raw, US_TCP_SYN, 1, 0, 1, NULL, 0);
    raw_expect_nothing(raw);
    assert_int_equal(raw_counter(raw, "drop_tcp_checksum"), 1);
    raw->rx_flags = US_PKT_L4_CSUM_GOOD | US_PKT_IP_CSUM_GOOD;
    raw_segment(raw, US_TCP_SYN, 1, 0, 1, NULL, 0);
    raw_expect(raw, US_TCP_RST | US_TCP_ACK, 0, 2, 0);
}

/* The stack has not offered US_CAP_RX_SG. */
static void a_frame_of_several_segments_is_dropped(void **state)
{
    struct raw *raw = *state;
    struct us_pkt pkts[2];
    struct us_pkt *list = &pkts[0];

    make_echo(8, 0);
    memset(pkts, 0, sizeof(pkts));
    pkts[0].data = frame;
    pkts[0].len = frame_len;
    pkts[0].next_seg = &pkts[1];
    assert_int_equal(us_input(raw->stack, &list, 1, raw->now_us), 1);
    raw_pump(raw, 0);
    raw_expect_nothing(raw);
    assert_int_equal(raw_counter(raw, "drop_eth_chained"), 1);
}

static void other_icmp_is_counted(void **state)
{
    struct raw *raw = *state;

    make_echo(36, 0);
    frame[34] = 3;
    frame[36]++; /* type 8 has become 3 in the upper byte: 5 more keep the sum */
    frame[36] = (u_u8)(frame[36] + 4);
    expect_drop(raw, "icmp_rx_errors");
    make_echo(36, 0);
    frame[34] = 0;
    frame[36] = (u_u8)(frame[36] + 8);
    expect_drop(raw, "drop_icmp_type");
}

/* RFC 5927 section 4.1: an error counts only if it quotes a segment, not another protocol. */
static void an_error_quotes_a_segment(void **state)
{
    enum { OPTION_BYTES = 4, QUOTE_BYTES = 20 + OPTION_BYTES + 8, ERROR_BYTES = 8 + QUOTE_BYTES };
    static struct craft packet;
    struct us_addr peer = pair_addr(1);
    struct raw *raw = *state;
    u_u8 error[ERROR_BYTES];
    const struct raw_frame *syn;
    unsigned i;

    raw->answer_arp = 1;
    assert_non_null(us_connect(raw->stack, &peer, RAW_PEER_PORT, 0, NULL, NULL));
    raw_pump(raw, 0);
    syn = raw_frame(raw);
    memcpy(error + 8, syn->bytes + 14, 20);
    error[8] = 0x46; /* a router has added an option */
    memset(error + 28, 1, OPTION_BYTES);
    memcpy(error + 28 + OPTION_BYTES, syn->bytes + CRAFT_L4, 8);
    for (i = 0; i < 3; i++) { /* another protocol; the last byte cut off; all there */
        u_u32 bytes = i == 1 ? ERROR_BYTES - 1 : ERROR_BYTES;
        struct u_be16 sum;
        memcpy(error, "\3\3\0\0\0\0\0\0", 8); /* port unreachable */
        error[8 + 9] = i == 0 ? US_IP_UDP : US_IP_TCP;
        sum = u_be16(u_cksum_finish(u_cksum_add(0, error, bytes)));
        memcpy(error + 2, &sum, 2);
        craft_ip4(&packet, raw, US_IP_ICMP, error, bytes);
        craft_give(raw, &packet);
        assert_int_equal(raw_counter(raw, "drop_icmp_quote"), i == 0 ? 1 : 2);
        if (i < 2)
            assert_null(raw_event(raw));
    }
    assert_int_equal(raw_expect_event(raw, US_EV_CLOSED)->reason, US_CLOSE_UNREACHABLE);
}

static void answers_are_bounded(void **state)
{
    struct raw *raw = *state;
    int i;

    raw->no_pump = 1;
    make_echo(8, 0);
    for (i = 0; i < 300; i++)
        give(raw);
    assert_int_equal(raw_counter(raw, "drop_datagram_queue"), 300 - 256);
    assert_true(us_deadline(raw->stack) == 0);
    assert_int_equal(raw_counter(raw, "buffer_bytes_used"), 256 * 2048);
}

int main(void)
{
#define RAW_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        RAW_TEST(echo_is_answered_with_the_same_bytes),
        RAW_TEST(padding_and_options_are_skipped),
        RAW_TEST(bad_headers_are_dropped),
        RAW_TEST(options_are_checked),
        RAW_TEST(addresses_are_checked),
        RAW_TEST(checksums_are_checked_unless_known),
        RAW_TEST(tcp_checksum_verdicts),
        RAW_TEST(a_frame_of_several_segments_is_dropped),
        RAW_TEST(other_icmp_is_counted),
        RAW_TEST(an_error_quotes_a_segment),
        RAW_TEST(answers_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
