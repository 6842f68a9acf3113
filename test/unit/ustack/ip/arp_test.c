/* SPDX-License-Identifier: BSD-3-Clause */
/* ARP: answering, asking, waiting, forgetting, following. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pair.h"
#include "raw.h"
#include "ustack/ip/neighbour.h"
#include "ustack/tcp/tcp.h"

enum { REQUEST = 1, REPLY = 2 };

static const u_u8 broadcast[6] = {255, 255, 255, 255, 255, 255};

static int setup(void **state)
{
    static struct raw raw;
    struct us_config config;

    pair_config(&config, 0);
    config.neighbour_max = 2;
    raw_open(&raw, &config);
    assert_int_equal(us_listen(raw.stack, RAW_PORT, NULL), 0);
    *state = &raw;
    return 0;
}

static int teardown(void **state)
{
    raw_close(*state);
    return 0;
}

static void put_ip(u_u8 *to, u_u32 ip)
{
    to[0] = (u_u8)(ip >> 24);
    to[1] = (u_u8)(ip >> 16);
    to[2] = (u_u8)(ip >> 8);
    to[3] = (u_u8)ip;
}

enum { ARP_FRAME_BYTES = 42 };

static void arp_make(u_u8 *frame, const u_u8 *dst, unsigned op, u_u8 mac, u_u32 sender,
                     u_u32 target)
{
    memset(frame, 0, ARP_FRAME_BYTES);
    memcpy(frame, dst, 6);
    frame[6] = 2;
    frame[11] = mac;
    frame[12] = 8;
    frame[13] = 6;
    frame[15] = 1;
    frame[16] = 8;
    frame[18] = 6;
    frame[19] = 4;
    frame[21] = (u_u8)op;
    frame[22] = 2;
    frame[27] = mac;
    put_ip(frame + 28, sender);
    put_ip(frame + 38, target);
}

/* Sends an ARP packet to the stack. */
static void arp_in(struct raw *raw, const u_u8 *dst, unsigned op, u_u8 mac, u_u32 sender,
                   u_u32 target)
{
    u_u8 frame[ARP_FRAME_BYTES];

    arp_make(frame, dst, op, mac, sender, target);
    raw_input(raw, frame, sizeof(frame));
}

/* The next frame must be an ARP packet like this. */
static void expect_arp_from(struct raw *raw, unsigned op, u_u32 sender, u_u32 target)
{
    struct raw_frame *frame = raw_frame(raw);
    u_u8 ip[4];

    assert_non_null(frame);
    assert_int_equal(frame->ethertype, 0x806);
    assert_int_equal(frame->len, 42);
    assert_int_equal(frame->bytes[21], op);
    assert_memory_equal(frame->bytes + 6, raw_our_mac, 6);
    assert_memory_equal(frame->bytes + 22, raw_our_mac, 6);
    put_ip(ip, sender);
    assert_memory_equal(frame->bytes + 28, ip, 4);
    put_ip(ip, target);
    assert_memory_equal(frame->bytes + 38, ip, 4);
}

static void expect_arp(struct raw *raw, unsigned op, u_u32 target)
{
    expect_arp_from(raw, op, RAW_LOCAL_IP, target);
}

static struct us_conn *connect_to(struct raw *raw, u_u32 ip)
{
    struct us_addr addr;

    memset(&addr, 0, sizeof(addr));
    addr.family = US_IP4;
    put_ip(addr.bytes, ip);
    return us_connect(raw->stack, &addr, 80, 0, NULL, NULL);
}

static void answers_requests_for_us_only(void **state)
{
    struct raw *raw = *state;
    u_u64 received = raw_counter(raw, "rx_bytes");
    u_u64 sent = raw_counter(raw, "tx_bytes");
    u_u64 frames = raw_counter(raw, "tx_frames");

    arp_in(raw, broadcast, REQUEST, 2, RAW_PEER_IP, RAW_LOCAL_IP);
    expect_arp(raw, REPLY, RAW_PEER_IP);
    assert_int_equal(raw_counter(raw, "rx_bytes") - received, ARP_FRAME_BYTES);
    assert_int_equal(raw_counter(raw, "tx_bytes") - sent, ARP_FRAME_BYTES);
    assert_int_equal(raw_counter(raw, "tx_frames") - frames, 1);
    arp_in(raw, broadcast, REQUEST, 2, RAW_PEER_IP, RAW_LOCAL_IP + 7);
    raw_expect_nothing(raw);
    arp_in(raw, broadcast, REQUEST, 5, RAW_PEER_IP + 3, RAW_LOCAL_IP + 7); /* is not learned */
    raw_expect_nothing(raw);
    arp_in(raw, raw_our_mac, REQUEST, 2, RAW_PEER_IP, RAW_LOCAL_IP); /* a peer that refreshes */
    expect_arp(raw, REPLY, RAW_PEER_IP);
    arp_in(raw, broadcast, REQUEST, 3, 0, RAW_LOCAL_IP); /* RFC 5227: a probe */
    expect_arp(raw, REPLY, 0);
    assert_int_equal(raw_counter(raw, "neighbours"), 1);
}

static void malformed_packets_are_dropped(void **state)
{
    struct raw *raw = *state;
    u_u8 frame[60] = {0};
    unsigned len;

    memcpy(frame, broadcast, 6);
    frame[6] = 2;
    frame[12] = 8;
    frame[13] = 6;
    for (len = 14; len <= 60; len++)
        raw_input(raw, frame, len);
    arp_in(raw, broadcast, 3, 2, RAW_PEER_IP, RAW_LOCAL_IP);
    arp_make(frame, broadcast, REQUEST, 2, RAW_PEER_IP, RAW_LOCAL_IP);
    frame[22] |= 1; /* RFC 1812 3.3.2: a multicast MAC address is no sender's */
    raw_input(raw, frame, ARP_FRAME_BYTES);
    arp_in(raw, broadcast, REPLY, 2, RAW_LOCAL_IP, RAW_LOCAL_IP); /* claims our address */
    raw_expect_nothing(raw);
    assert_int_equal(raw_counter(raw, "drop_arp_malformed"), 49);
    assert_int_equal(raw_counter(raw, "arp_conflicts"), 1);
    assert_int_equal(raw_counter(raw, "neighbours"), 0);
}

/* RFC 5227 section 3; and the sender of a request is the address on the target's network. */
static void each_address_speaks_for_itself(void **state)
{
    struct raw *raw = *state;
    struct us_addr addr = pair_addr(0);
    u_u32 others = RAW_LOCAL_IP + (1 << 16);
    unsigned i;

    for (i = 1; i < 4; i++) {
        addr.bytes[1] = (u_u8)i;
        assert_int_equal(us_addr_add(raw->stack, &addr, 24), US_OK);
    }
    raw_pump(raw, 0);
    for (i = 0; i < 3; i++)
        expect_arp_from(raw, REQUEST, others + (i << 16), others + (i << 16));
    connect_to(raw, others + 7);
    raw_pump(raw, 0);
    expect_arp_from(raw, REQUEST, others, others + 7);
    raw_expect_nothing(raw);
}

/* Requests that arrive before one us_output(): a reply that does not fit is not counted as sent. */
static void replies_are_bounded(void **state)
{
    struct raw *raw = *state;
    unsigned i;

    raw->no_pump = 1;
    for (i = 0; i < 300; i++)
        arp_in(raw, broadcast, REQUEST, 2, RAW_PEER_IP, RAW_LOCAL_IP);
    assert_int_equal(raw_counter(raw, "arp_tx_replies"), 256);
    assert_int_equal(raw_counter(raw, "drop_reply_queue"), 300 - 256);
}

static void asks_with_backoff_then_gives_up(void **state)
{
    struct raw *raw = *state;

    assert_non_null(connect_to(raw, RAW_PEER_IP));
    assert_non_null(connect_to(raw, RAW_PEER_IP));
    assert_true(us_deadline(raw->stack) == 0);
    raw_pump(raw, 0);
    expect_arp(raw, REQUEST, RAW_PEER_IP);
    raw_expect_nothing(raw);
    raw_pump(raw, 999999);
    raw_expect_nothing(raw);
    raw_pump(raw, 1);
    expect_arp(raw, REQUEST, RAW_PEER_IP);
    raw_pump(raw, 2000000);
    expect_arp(raw, REQUEST, RAW_PEER_IP);
    raw_pump(raw, 3999999);
    assert_null(raw_event(raw));
    raw_pump(raw, 1);
    assert_int_equal(raw_expect_event(raw, US_EV_CLOSED)->reason, US_CLOSE_UNREACHABLE);
    assert_int_equal(raw_expect_event(raw, US_EV_CLOSED)->reason, US_CLOSE_UNREACHABLE);
    assert_int_equal(raw_counter(raw, "neighbours"), 0);
    assert_true(us_deadline(raw->stack) == US_NEVER);
}

static void what_waited_is_sent_on_the_reply(void **state)
{
    struct raw *raw = *state;

    connect_to(raw, RAW_PEER_IP);
    connect_to(raw, RAW_PEER_IP);
    raw_pump(raw, 0);
    expect_arp(raw, REQUEST, RAW_PEER_IP);
    arp_in(raw, raw_our_mac, REPLY, 2, RAW_PEER_IP, RAW_LOCAL_IP);
    assert_int_equal(raw_frame(raw)->flags, US_TCP_SYN);
    assert_int_equal(raw_frame(raw)->flags, US_TCP_SYN);
    raw_expect_nothing(raw);
}

static void off_link_goes_to_the_gateway(void **state)
{
    struct raw *raw = *state;
    struct us_addr gateway = pair_addr(8);
    struct us_addr ours = pair_addr(0);
    struct us_addr far_gateway = pair_addr(0);

    assert_null(connect_to(raw, 0xc0a80001));
    far_gateway.bytes[1] = 9;
    assert_int_equal(us_gateway_set(raw->stack, &ours), US_ERR_ARGUMENT);
    assert_int_equal(us_gateway_set(raw->stack, &far_gateway), US_ERR_NO_ROUTE);
    assert_int_equal(us_gateway_set(raw->stack, &gateway), 0);
    assert_non_null(connect_to(raw, 0xc0a80001));
    raw_pump(raw, 0);
    expect_arp(raw, REQUEST, RAW_LOCAL_IP + 8);
}

static void entries_are_refreshed_and_stay_in_use(void **state)
{
    struct raw *raw = *state;
    struct us_conn *conn;
    u_u32 snd;

    conn = raw_accept(raw, &snd);
    raw_pump(raw, 60000001);
    raw_expect_nothing(raw); /* nothing is sent, so nothing is asked */
    us_send(raw->stack, conn, "x", 1);
    raw_pump(raw, 0);
    raw_expect(raw, US_TCP_ACK, snd, 1001, 1);
    expect_arp(raw, REQUEST, RAW_PEER_IP);
    arp_in(raw, raw_our_mac, REPLY, 2, RAW_PEER_IP, RAW_LOCAL_IP);
    raw_segment(raw, US_TCP_ACK, 1001, snd + 1, 65535, NULL, 0);
    us_send(raw->stack, conn, "x", 1);
    raw_pump(raw, 1000000);
    raw_expect(raw, US_TCP_ACK, snd + 1, 1001, 1);
    raw_pump(raw, 0);
    raw_expect_nothing(raw);
}

/* The neighbour's MAC address changes: by ARP, or by a valid segment. */
static void follows_a_changed_address(void **state)
{
    struct raw *raw = *state;
    struct us_conn *conn;
    u_u32 snd;

    conn = raw_accept(raw, &snd);
    us_send(raw->stack, conn, "x", 1);
    raw_pump(raw, 0);
    assert_int_equal(raw_expect(raw, US_TCP_ACK, snd, 1001, 1)->bytes[5], 2);
    arp_in(raw, broadcast, REQUEST, 7, RAW_PEER_IP, RAW_PEER_IP); /* gratuitous */
    raw_pump(raw, 1000000);
    assert_int_equal(raw_expect(raw, US_TCP_ACK, snd, 1001, 1)->bytes[5], 7);
    raw->peer_mac[5] = 9;
    raw_segment(raw, US_TCP_ACK, 1001, snd + 77, 65535, NULL, 0); /* not acceptable */
    assert_int_equal(raw_expect(raw, US_TCP_ACK, snd + 1, 1001, 0)->bytes[5], 7);
    raw_segment(raw, US_TCP_ACK, 1001, snd + 1, 65535, "ab", 2);
    raw_pump(raw, 40000);
    assert_int_equal(raw_expect(raw, US_TCP_ACK, snd + 1, 1003, 0)->bytes[5], 9);
    assert_int_equal(raw_counter(raw, "arp_changes"), 2);
}

/* A learned entry that no connection uses stays STALE when its neighbour sends more. */
static void an_unused_entry_stays_stale(void **state)
{
    struct raw *raw = *state;
    const struct us_neighbour *neighbour;
    unsigned i;

    for (i = 0; i < 3; i++) {
        arp_in(raw, broadcast, REQUEST, 9, RAW_PEER_IP + 1, RAW_LOCAL_IP);
        neighbour = us_neighbour_find(raw->stack, us_ip4(RAW_PEER_IP + 1));
        assert_non_null(neighbour);
        assert_int_equal(neighbour->state, US_NEIGHBOUR_STALE);
    }
}

static void full_table_evicts_the_oldest(void **state)
{
    struct raw *raw = *state;

    arp_in(raw, broadcast, REQUEST, 2, RAW_PEER_IP, RAW_LOCAL_IP);
    raw->now_us++;
    arp_in(raw, broadcast, REQUEST, 3, RAW_PEER_IP + 1, RAW_LOCAL_IP);
    arp_in(raw, broadcast, REQUEST, 4, RAW_PEER_IP + 2, RAW_LOCAL_IP);
    while (raw_frame(raw) != NULL)
        continue;
    assert_int_equal(raw_counter(raw, "neighbours"), 2);
    connect_to(raw, RAW_PEER_IP + 2);
    raw_pump(raw, 0);
    assert_int_equal(raw_frame(raw)->flags, US_TCP_SYN);
    connect_to(raw, RAW_PEER_IP);
    raw_pump(raw, 0);
    expect_arp(raw, REQUEST, RAW_PEER_IP);
    /* Connections wait for both entries: a third destination has to wait as well. */
    connect_to(raw, RAW_PEER_IP + 5);
    raw_pump(raw, 0);
    expect_arp(raw, REQUEST, RAW_PEER_IP + 5);
    connect_to(raw, RAW_PEER_IP + 6);
    raw_pump(raw, 0);
    raw_expect_nothing(raw);
    assert_int_equal(raw_counter(raw, "neighbours"), 2);
    raw_pump(raw, 500000000);
    while (raw_frame(raw) != NULL)
        raw_pump(raw, 1000000);
}

/*
 * Another stack, with an open connection of the peer whose next hop is resolved. *next: the
 * sequence number that the stack sends next.
 */
static struct us_conn *reopen_at(struct raw *raw, u_u32 neighbour_max, u_u32 *next)
{
    struct us_config config;
    struct us_conn *conn;
    u_u32 snd;

    raw_close(raw);
    pair_config(&config, 0);
    config.neighbour_max = neighbour_max;
    raw_open(raw, &config);
    assert_int_equal(us_listen(raw->stack, RAW_PORT, NULL), 0);
    assert_int_equal(us_udp_bind(raw->stack, RAW_PORT, NULL), 0);
    conn = raw_accept(raw, &snd);
    us_send(raw->stack, conn, "x", 1);
    raw_pump(raw, 0);
    raw_expect(raw, US_TCP_ACK, snd, 1001, 1);
    *next = snd + 1;
    raw_segment(raw, US_TCP_ACK, 1001, *next, 65535, NULL, 0);
    return conn;
}

static struct us_conn *reopen(struct raw *raw, u_u32 neighbour_max)
{
    u_u32 next;

    return reopen_at(raw, neighbour_max, &next);
}

/* Sends a datagram to an unknown address. */
static void queue_datagram(struct raw *raw, u_u32 ip)
{
    struct us_addr addr;

    memset(&addr, 0, sizeof(addr));
    addr.family = US_IP4;
    put_ip(addr.bytes, ip);
    us_udp_send(raw->stack, NULL, RAW_PORT, &addr, 5000, "x", 1);
}

static void send_datagram(struct raw *raw, u_u32 ip)
{
    queue_datagram(raw, ip);
    raw_pump(raw, 0);
}

static void take_all_frames(struct raw *raw)
{
    while (raw_frame(raw) != NULL)
        continue;
}

/* The connection sends without resolution: its next hop is known. */
static void expect_known_hop(struct raw *raw, struct us_conn *conn)
{
    const struct raw_frame *frame;

    take_all_frames(raw);
    us_send(raw->stack, conn, "x", 1);
    raw_pump(raw, 0);
    frame = raw_frame(raw);
    assert_non_null(frame);
    assert_int_equal(frame->ip_protocol, 6);
    assert_int_equal(raw_counter(raw, "arp_evictions_in_use"), 0);
}

/* Whatever arrives from or is sent to others, the next hop of a connection stays. */
static void next_hop_of_a_connection_stays(void **state)
{
    struct raw *raw = *state;
    struct us_conn *conn = reopen(raw, 4);
    unsigned i;

    for (i = 0; i < 20; i++) {
        arp_in(raw, broadcast, REQUEST, 9, RAW_PEER_IP + 20 + i, RAW_LOCAL_IP);
        take_all_frames(raw);
    }
    expect_known_hop(raw, conn);
    for (i = 0; i < 20; i++) {
        send_datagram(raw, RAW_PEER_IP + 60 + i);
        arp_in(raw, raw_our_mac, REPLY, 9, RAW_PEER_IP + 60 + i, RAW_LOCAL_IP);
        take_all_frames(raw);
    }
    expect_known_hop(raw, conn);
    for (i = 0; i < 20; i++) {
        send_datagram(raw, RAW_PEER_IP + 100 + i);
        take_all_frames(raw);
    }
    expect_known_hop(raw, conn);
    assert_true(raw_counter(raw, "arp_evictions") >= 50);
    assert_int_equal(raw_counter(raw, "neighbours"), 4);
}

/* Datagrams to the silent keep a quarter of the table; the oldest question makes room. */
static void questions_for_datagrams_are_bounded(void **state)
{
    struct raw *raw = *state;
    unsigned i;

    reopen(raw, 16);
    for (i = 0; i < 10; i++) {
        send_datagram(raw, RAW_PEER_IP + 20 + i);
        take_all_frames(raw);
    }
    assert_int_equal(raw_counter(raw, "neighbours"), 1 + 4);
    assert_int_equal(raw_counter(raw, "arp_evictions_incomplete"), 6);
    assert_int_equal(raw_counter(raw, "drop_datagram_no_hop"), 6);
    assert_int_equal(raw_counter(raw, "datagrams_waiting"), 4);
    arp_in(raw, raw_our_mac, REPLY, 9, RAW_PEER_IP + 20 + 9, RAW_LOCAL_IP);
    assert_int_equal(raw_frame(raw)->ip_protocol, 17);
}

/* The same at once: questions that have made room before they were sent are not asked. */
static void questions_that_made_room_are_not_asked(void **state)
{
    struct raw *raw = *state;
    unsigned i;

    reopen(raw, 16);
    for (i = 0; i < 10; i++)
        queue_datagram(raw, RAW_PEER_IP + 20 + i);
    raw_pump(raw, 0);
    for (i = 6; i < 10; i++)
        expect_arp(raw, REQUEST, RAW_PEER_IP + 20 + i);
    raw_expect_nothing(raw);
    assert_int_equal(raw_counter(raw, "datagrams_waiting"), 4);
}

/* Learned addresses keep three quarters, questions for datagrams a quarter, both rounded up. */
static void shares_of_the_table(void **state)
{
    struct raw *raw = *state;
    struct us_config config;
    const u_u32 *counts;
    unsigned i;

    raw_close(raw);
    pair_config(&config, 0);
    config.neighbour_max = 6;
    raw_open(raw, &config);
    counts = raw->stack->neighbours.counts;
    for (i = 0; i < 20; i++) {
        arp_in(raw, broadcast, REQUEST, 9, RAW_PEER_IP + 20 + i, RAW_LOCAL_IP);
        take_all_frames(raw);
    }
    assert_int_equal(counts[US_NC_STALE], 5);
    for (i = 0; i < 10; i++) {
        send_datagram(raw, RAW_PEER_IP + 60 + i);
        take_all_frames(raw);
    }
    assert_int_equal(counts[US_NC_STALE], 4);
    assert_int_equal(counts[US_NC_INCOMPLETE], 2);
}

/* RFC 1122 2.3.2.1 (2): by unicast once, then by broadcast; a further suspicion adds no request. */
static void a_suspect_is_verified_once(void **state)
{
    struct raw *raw = *state;
    struct us_neighbour *neighbour;
    unsigned i;

    reopen(raw, 4);
    neighbour = us_neighbour_find(raw->stack, us_ip4(RAW_PEER_IP));
    us_neighbour_suspect(raw->stack, neighbour);
    us_neighbour_suspect(raw->stack, neighbour);
    arp_in(raw, raw_our_mac, REPLY, 2, RAW_PEER_IP, RAW_LOCAL_IP);
    raw_expect_nothing(raw); /* the answer has come before the question */
    us_neighbour_suspect(raw->stack, neighbour);
    for (i = 0; i < 2; i++) {
        us_neighbour_suspect(raw->stack, neighbour);
        raw_pump(raw, i == 0 ? 0 : 999999);
        if (i == 0) {
            assert_memory_equal(raw->frames[raw->frame_next].bytes, raw_peer_mac, 6);
            expect_arp(raw, REQUEST, RAW_PEER_IP);
        }
        raw_expect_nothing(raw);
    }
    for (i = 0; i < 2; i++) {
        raw_pump(raw, i == 0 ? 1 : 2000000);
        assert_memory_equal(raw->frames[raw->frame_next].bytes, broadcast, 6);
        expect_arp(raw, REQUEST, RAW_PEER_IP);
    }
}

/* RFC 1122 2.3.2.1: a frame that is no valid segment changes no entry before its lifetime ends. */
static void untrusted_frames_change_no_entry(void **state)
{
    static const u_u8 macs[2][6] = {{2, 0, 0, 0, 0, 5}, {2, 0, 0, 0, 0, 6}};
    const struct us_neighbour *neighbour;
    struct raw raw;
    unsigned by_source;

    for (by_source = 0; by_source < 2; by_source++) {
        raw_open(&raw, NULL);
        raw.stack->config.reply_to_source_mac = by_source;
        us_neighbour_learn(raw.stack, us_ip4(RAW_PEER_IP), macs[0], 0);
        neighbour = us_neighbour_find(raw.stack, us_ip4(RAW_PEER_IP));
        raw_pump(&raw, raw.stack->config.neighbour_lifetime_us);
        us_neighbour_learn(raw.stack, us_ip4(RAW_PEER_IP), macs[1], 0);
        assert_memory_equal(neighbour->l2, macs[0], 6);
        raw_pump(&raw, 1); /* with reply_to_source_mac no request can verify it */
        us_neighbour_learn(raw.stack, us_ip4(RAW_PEER_IP), macs[1], 0);
        assert_memory_equal(neighbour->l2, macs[by_source], 6);
        raw_close(&raw);
    }
    (void)state;
}

/*
 * What waits for a router's MAC address goes to the router that replaces it, wherever in the table
 * the former one is, beside others or not.
 */
static void what_waits_follows_the_gateway(void **state)
{
    struct raw *raw = *state;
    struct us_addr gateway;
    unsigned former, kind, i;

    for (former = 8; former < 16; former++) {
        for (kind = 0; kind < 2; kind++) {
            reopen(raw, 16);
            gateway = pair_addr((int)former);
            assert_int_equal(us_gateway_set(raw->stack, &gateway), US_OK);
            if (kind == 0)
                send_datagram(raw, 0xc0a80001);
            else
                assert_non_null(connect_to(raw, 0xc0a80001));
            raw_pump(raw, 0);
            expect_arp(raw, REQUEST, RAW_LOCAL_IP + former);
            for (i = 0; i < 4; i++) /* one more in the same chain, and in others */
                arp_in(raw, broadcast, REQUEST, 9, RAW_LOCAL_IP + former + 15 + i, RAW_LOCAL_IP);
            take_all_frames(raw);
            gateway = pair_addr(7);
            assert_int_equal(us_gateway_set(raw->stack, &gateway), US_OK);
            raw_pump(raw, 0);
            expect_arp(raw, REQUEST, RAW_LOCAL_IP + 7);
            arp_in(raw, raw_our_mac, REPLY, 9, RAW_LOCAL_IP + 7, RAW_LOCAL_IP);
            assert_int_equal(raw_frame(raw)->ip_protocol, kind == 0 ? 17 : 6);
            raw_expect_nothing(raw);
        }
    }
}

/* With all entries in use a connection takes the oldest one's, a datagram is dropped. */
static void table_full_of_next_hops(void **state)
{
    struct raw *raw = *state;

    reopen(raw, 1);
    send_datagram(raw, RAW_PEER_IP + 20);
    raw_expect_nothing(raw);
    assert_int_equal(raw_counter(raw, "arp_table_full"), 1);
    assert_int_equal(raw_counter(raw, "drop_datagram_no_hop"), 1);
    connect_to(raw, RAW_PEER_IP + 20);
    raw_pump(raw, 0);
    expect_arp(raw, REQUEST, RAW_PEER_IP + 20);
    assert_int_equal(raw_counter(raw, "arp_evictions_in_use"), 1);
}

/* An idle connection outlives that an ACK had no next hop, since it is owed nothing. */
static void ack_without_a_next_hop_ends_nothing(void **state)
{
    struct raw *raw = *state;
    u_u32 next;
    unsigned i;

    reopen_at(raw, 1, &next);
    connect_to(raw, RAW_PEER_IP + 20);
    raw_pump(raw, 0);
    raw_segment(raw, US_TCP_ACK, 1001, next, 65535, "ab", 2);
    for (i = 0; i < 300; i++) {
        raw_pump(raw, 1000000);
        take_all_frames(raw);
    }
    assert_int_equal(raw_counter(raw, "tcp_r2_timeouts"), 0);
    assert_int_equal(raw_counter(raw, "tcp_timeouts"), 0);
}

/* An entry is a connection's for as long as that exists. */
static void entry_is_free_when_its_connection_ends(void **state)
{
    struct raw *raw = *state;
    struct us_conn *conn = reopen(raw, 1);

    us_abort(raw->stack, conn);
    raw_pump(raw, 0);
    take_all_frames(raw);
    send_datagram(raw, RAW_PEER_IP + 20);
    expect_arp(raw, REQUEST, RAW_PEER_IP + 20);
    assert_int_equal(raw_counter(raw, "arp_evictions"), 1);
    assert_int_equal(raw_counter(raw, "arp_evictions_in_use"), 0);
}

/* us_neighbour_add(): no request, no eviction, no change by messages, no end of its lifetime. */
static void a_static_neighbour_stays(void **state)
{
    static const u_u8 mac[6] = {2, 0, 0, 0, 0, 9};
    static const u_u8 group[6] = {3, 0, 0, 0, 0, 9};
    struct raw *raw = *state;
    struct us_addr addr = pair_addr(1);
    struct us_addr far = {US_IP4, {192, 0, 2, 1}};
    struct us_neighbour *neighbour;
    struct raw_frame *frame;
    unsigned i;

    assert_int_equal(us_neighbour_add(raw->stack, &addr, group), US_ERR_ARGUMENT);
    assert_int_equal(us_neighbour_add(raw->stack, &far, mac), US_ERR_NO_ROUTE);
    arp_in(raw, broadcast, REQUEST, 2, RAW_PEER_IP, RAW_LOCAL_IP); /* what is learned is replaced */
    assert_non_null(raw_frame(raw));
    assert_int_equal(us_neighbour_add(raw->stack, &addr, mac), US_OK);
    addr.bytes[3] = 3; /* neighbour_max is 2 */
    assert_int_equal(us_neighbour_add(raw->stack, &addr, mac), US_ERR_NO_MEMORY);
    addr.bytes[3] = 2; /* an entry that is there already may be given again */
    assert_int_equal(us_neighbour_add(raw->stack, &addr, mac), US_OK);
    for (i = 0; i < 5; i++) { /* others use and free the only other entry */
        arp_in(raw, broadcast, REQUEST, (u_u8)(20 + i), RAW_PEER_IP + 10 + i, RAW_LOCAL_IP);
        assert_non_null(raw_frame(raw));
    }
    arp_in(raw, broadcast, REQUEST, 2, RAW_PEER_IP, RAW_LOCAL_IP); /* another MAC address */
    assert_non_null(raw_frame(raw));
    for (i = 0; i < 2; i++) {
        connect_to(raw, RAW_PEER_IP);
        raw_pump(raw, 0);
        frame = raw_frame(raw);
        assert_non_null(frame);
        assert_int_equal(frame->ip_protocol, 6);
        assert_memory_equal(frame->bytes, mac, 6);
        raw_pump(raw, (u_u64)1000 * 1000 * 1000); /* beyond neighbour_lifetime_us */
        while ((frame = raw_frame(raw)) != NULL)
            assert_int_equal(frame->ip_protocol, 6);
        neighbour = us_neighbour_find(raw->stack, us_ip4(RAW_PEER_IP));
        assert_true(us_neighbour_use(raw->stack, neighbour));
        assert_true(us_neighbour_is_fresh(raw->stack, neighbour)); /* for the fast path */
    }
    assert_null(us_check(raw->stack));
}

/* A link with two ends: nothing is resolved, the peer's MAC is learned. */
static void a_point_to_point_link_needs_no_resolution(void **state)
{
    struct us_addr ip6 = {US_IP6, {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
    struct us_addr peer6 = {US_IP6, {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};
    struct us_addr addr = pair_addr(0);
    struct us_addr peer = pair_addr(1);
    struct us_config config;
    struct raw_frame *frame;
    struct us_ip6 link_local;
    struct us_event *event;
    struct raw raw;

    pair_config(&config, 0);
    config.point_to_point = 1;
    raw_open(&raw, &config);
    raw_expect_nothing(&raw);
    assert_int_equal(us_addr_add(raw.stack, &ip6, 64), US_OK);
    assert_int_equal(us_addr_add(raw.stack, &addr, 24), US_ERR_IN_USE);
    raw_pump(&raw, 5 * 1000 * 1000);
    raw_expect_nothing(&raw); /* no announcement, duplicate detection or MLD */
    link_local = us_nd_link_local(raw.stack);
    assert_int_equal(us_local6_find(raw.stack, &link_local), US_LOCAL6_MAX);
    assert_non_null(us_connect(raw.stack, &peer6, 80, 0, NULL, NULL));
    assert_non_null(us_connect(raw.stack, &peer, RAW_PEER_PORT, RAW_PORT, NULL, NULL));
    raw_pump(&raw, 0);
    frame = raw_frame(&raw);
    assert_non_null(frame);
    assert_int_equal(frame->ethertype, 0x86dd);
    frame = raw_frame(&raw);
    assert_non_null(frame);
    assert_memory_equal(frame->bytes, broadcast, 6);
    raw_segment(&raw, US_TCP_SYN | US_TCP_ACK, 1, frame->seq + 1, 1000, NULL, 0);
    event = raw_event(&raw);
    assert_non_null(event);
    assert_int_equal(event->type, US_EV_CONNECTED);
    frame = raw_frame(&raw);
    assert_non_null(frame);
    memset(raw.peer_mac, 0xff, 6); /* a broadcast address, which no sender has */
    raw_segment(&raw, US_TCP_ACK, 2, frame->seq, 1000, "x", 1);
    assert_int_equal(raw_counter(&raw, "drop_eth_malformed"), 1);
    memcpy(raw.peer_mac, raw_peer_mac, 6);
    raw_segment(&raw, US_TCP_ACK, 2, frame->seq, 1000, "x", 1);
    raw_pump(&raw, 100 * 1000); /* a delayed ACK */
    frame = raw_frame(&raw);
    assert_non_null(frame);
    assert_memory_equal(frame->bytes, raw_peer_mac, 6);
    raw_close(&raw);
}

int main(void)
{
#define RAW_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        RAW_TEST(answers_requests_for_us_only),
        RAW_TEST(malformed_packets_are_dropped),
        RAW_TEST(each_address_speaks_for_itself),
        RAW_TEST(replies_are_bounded),
        RAW_TEST(asks_with_backoff_then_gives_up),
        RAW_TEST(what_waited_is_sent_on_the_reply),
        RAW_TEST(off_link_goes_to_the_gateway),
        RAW_TEST(entries_are_refreshed_and_stay_in_use),
        RAW_TEST(follows_a_changed_address),
        RAW_TEST(an_unused_entry_stays_stale),
        RAW_TEST(full_table_evicts_the_oldest),
        RAW_TEST(next_hop_of_a_connection_stays),
        RAW_TEST(questions_for_datagrams_are_bounded),
        RAW_TEST(questions_that_made_room_are_not_asked),
        RAW_TEST(shares_of_the_table),
        RAW_TEST(a_suspect_is_verified_once),
        cmocka_unit_test(untrusted_frames_change_no_entry),
        RAW_TEST(what_waits_follows_the_gateway),
        RAW_TEST(table_full_of_next_hops),
        RAW_TEST(entry_is_free_when_its_connection_ends),
        RAW_TEST(ack_without_a_next_hop_ends_nothing),
        RAW_TEST(a_static_neighbour_stays),
        cmocka_unit_test(a_point_to_point_link_needs_no_resolution),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
