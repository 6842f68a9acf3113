/* SPDX-License-Identifier: BSD-3-Clause */
/* A stack with a crafted peer; see raw.h. */
#include "raw.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cksum.h"
#include "pair.h"
#include "ustack/ip/eth.h"
#include "ustack/ip/ip4.h"

enum { L4_OFFSET = US_ETH_HDR_BYTES + US_IP4_HDR_BYTES };

const u_u8 raw_our_mac[6] = {2, 0, 0, 0, 0, 1};
const u_u8 raw_peer_mac[6] = {2, 0, 0, 0, 0, 2};

void raw_open(struct raw *raw, const struct us_config *config)
{
    struct us_addr addr = pair_addr(0);
    struct us_config own;
    unsigned long bytes;

    memset(raw, 0, sizeof(*raw));
    pair_config(&own, 0);
    if (config != NULL)
        own = *config;
    bytes = us_memory_bytes(&own);
    assert_true(bytes > 0);
    raw->memory = calloc(1, bytes);
    raw->now_us = 5000000;
    raw->stack = us_create(&own, raw->memory, bytes, raw->now_us);
    assert_non_null(raw->stack);
    memcpy(raw->peer_mac, raw_peer_mac, sizeof(raw_peer_mac));
    raw->peer_ip = RAW_PEER_IP;
    raw->peer_port = RAW_PEER_PORT;
    assert_int_equal(us_addr_add(raw->stack, &addr, 24), 0);
    raw_pump(raw, 0);
    if (!own.arp_passive && !own.point_to_point)
        assert_int_equal(raw_frame(raw)->ethertype, US_ETH_ARP);
}

void raw_close(struct raw *raw)
{
    while (raw->kept_count > 0)
        free(raw->kept[--raw->kept_count]);
    free(raw->memory);
}

static void frame_parse(struct raw_frame *frame)
{
    const struct us_eth_hdr *eth = (const void *)frame->bytes;
    const struct us_ip4_hdr *ip = (const void *)(frame->bytes + US_ETH_HDR_BYTES);
    const struct us_tcp_hdr *tcp = (const void *)(frame->bytes + L4_OFFSET);
    u_u32 l4_bytes;
    u_u32 hdr_bytes;

    frame->ethertype = u_get_be16(eth->type);
    frame->ip_protocol = 0;
    if (frame->ethertype != US_ETH_IP4)
        return;
    frame->ip_protocol = ip->protocol;
    assert_int_equal(u_get_be16(ip->total_bytes) + US_ETH_HDR_BYTES, frame->len);
    if (!(frame->pkt_flags & US_PKT_TX_IP_CSUM))
        assert_int_equal(u_cksum_finish(u_cksum_add(0, ip, US_IP4_HDR_BYTES)), 0);
    if (ip->protocol != US_IP_TCP)
        return;
    l4_bytes = frame->len - L4_OFFSET;
    if (!(frame->pkt_flags & US_PKT_TX_L4_CSUM))
        assert_int_equal(
            u_cksum_finish(
                u_cksum_add(u_cksum_pseudo4(ip->src, ip->dst, US_IP_TCP, l4_bytes), tcp, l4_bytes)),
            0);
    hdr_bytes = (u_u32)(tcp->offset >> 4) * 4;
    frame->seq = u_get_be32(tcp->seq);
    frame->ack = u_get_be32(tcp->ack);
    frame->flags = tcp->flags;
    frame->window = u_get_be16(tcp->window);
    frame->src_port = u_get_be16(tcp->src_port);
    frame->dst_port = u_get_be16(tcp->dst_port);
    us_tcp_opts_parse(&frame->opts, frame->bytes + L4_OFFSET + US_TCP_HDR_BYTES,
                      hdr_bytes - US_TCP_HDR_BYTES);
    frame->data = frame->bytes + L4_OFFSET + hdr_bytes;
    frame->data_len = l4_bytes - hdr_bytes;
}

static void raw_check(struct raw *raw)
{
    const char *broken = us_check(raw->stack);

    if (broken != NULL)
        fail_msg("us_check: %s", broken);
}

static void take_events(struct raw *raw)
{
    if (raw->event_next == raw->event_count)
        raw->event_next = raw->event_count = 0;
    while (us_next_event(raw->stack, &raw->events[raw->event_count])) {
        raw->event_count++;
        assert_true(raw->event_count < RAW_EVENTS);
    }
    raw_check(raw);
}

/* The peer's answer to an ARP request of the stack: sender and target exchanged. */
static void arp_answer(struct raw *raw, const struct raw_frame *request)
{
    enum { OPERATION = 20, SENDER = 22, TARGET = 32, ADDRESSES_BYTES = 10 };
    struct us_pkt pkt;
    struct us_pkt *list = &pkt;
    u_u8 bytes[US_ETH_HDR_BYTES + 28];
    struct u_be32 peer_ip = u_be32(raw->peer_ip);

    memcpy(bytes, request->bytes, sizeof(bytes));
    memcpy(bytes, request->bytes + 6, 6);
    memcpy(bytes + 6, raw->peer_mac, 6);
    bytes[OPERATION + 1] = 2;
    memcpy(bytes + TARGET, request->bytes + SENDER, ADDRESSES_BYTES);
    memcpy(bytes + SENDER, raw->peer_mac, 6);
    memcpy(bytes + SENDER + 6, &peer_ip, 4);
    memset(&pkt, 0, sizeof(pkt));
    pkt.data = bytes;
    pkt.len = sizeof(bytes);
    assert_int_equal(us_input(raw->stack, &list, 1, raw->now_us), 1);
}

static void take_frames(struct raw *raw)
{
    struct us_pkt pkt;
    struct us_pkt *list = &pkt;

    if (raw->frame_next == raw->frame_count)
        raw->frame_next = raw->frame_count = 0;
    for (;;) {
        struct raw_frame *frame = &raw->frames[raw->frame_count];
        assert_true(raw->frame_count < RAW_FRAMES);
        memset(&pkt, 0xa5, sizeof(pkt));
        pkt.data = frame->bytes;
        pkt.room = RAW_FRAME_BYTES;
        if (us_output(raw->stack, &list, 1, raw->now_us) == 0)
            break;
        frame->len = pkt.len;
        frame->pkt_flags = pkt.flags;
        frame_parse(frame);
        if (raw->answer_arp && frame->ethertype == US_ETH_ARP)
            arp_answer(raw, frame);
        else
            raw->frame_count++;
        raw_check(raw);
    }
}

void raw_pump(struct raw *raw, u_u64 move_us)
{
    raw->now_us += move_us;
    us_input(raw->stack, NULL, 0, raw->now_us);
    take_events(raw);
    take_frames(raw);
}

void raw_input(struct raw *raw, const u_u8 *bytes, u_u32 len)
{
    struct us_pkt pkt;
    struct us_pkt *list = &pkt;
    u_u8 *copy = malloc(len + 1); /* exact, so that a sanitizer sees each byte read beyond it */

    copy = realloc(copy, len > 0 ? len : 1);
    memcpy(copy, bytes, len);
    memset(&pkt, 0, sizeof(pkt));
    pkt.data = copy;
    pkt.len = len;
    pkt.flags = raw->rx_flags;
    assert_int_equal(us_input(raw->stack, &list, 1, raw->now_us), 1);
    raw_check(raw);
    if (!raw->no_pump) {
        take_events(raw);
        take_frames(raw);
        free(copy);
    } else {
        assert_true(raw->kept_count < RAW_KEPT);
        raw->kept[raw->kept_count++] = copy;
    }
}

void raw_segment(struct raw *raw, unsigned flags, u_u32 seq, u_u32 ack, unsigned window,
                 const void *data, u_u32 len)
{
    u_u8 bytes[RAW_FRAME_BYTES];
    struct us_eth_hdr *eth = (void *)bytes;
    struct us_ip4_hdr *ip = (void *)(bytes + US_ETH_HDR_BYTES);
    struct us_tcp_hdr *tcp = (void *)(bytes + L4_OFFSET);
    u_u32 hdr_bytes = US_TCP_HDR_BYTES + us_tcp_opts_emit(&raw->opts, (u_u8 *)(tcp + 1));
    u_u32 l4_bytes = hdr_bytes + len;

    memcpy(eth->dst, raw_our_mac, 6);
    memcpy(eth->src, raw->peer_mac, 6);
    eth->type = u_be16(US_ETH_IP4);
    us_ip4_build((u_u8 *)ip, raw->peer_ip, RAW_LOCAL_IP, US_IP_TCP);
    ip->total_bytes = u_be16(US_IP4_HDR_BYTES + l4_bytes);
    ip->checksum = u_be16(u_cksum_finish(u_cksum_add(0, ip, US_IP4_HDR_BYTES)));
    tcp->src_port = u_be16(raw->peer_port);
    tcp->dst_port = u_be16(RAW_PORT);
    tcp->seq = u_be32(seq);
    tcp->ack = u_be32(ack);
    tcp->offset = (u_u8)(hdr_bytes << 2);
    tcp->flags = (u_u8)flags;
    tcp->window = u_be16(window);
    tcp->urgent = u_be16(0);
    tcp->checksum = u_be16(0);
    if (len > 0)
        memcpy((u_u8 *)tcp + hdr_bytes, data, len);
    tcp->checksum = u_be16(u_cksum_finish(
        u_cksum_add(u_cksum_pseudo4(ip->src, ip->dst, US_IP_TCP, l4_bytes), tcp, l4_bytes)));
    raw_input(raw, bytes, L4_OFFSET + l4_bytes);
}

struct raw_frame *raw_frame(struct raw *raw)
{
    if (raw->frame_next == raw->frame_count)
        return NULL;
    return &raw->frames[raw->frame_next++];
}

struct us_event *raw_event(struct raw *raw)
{
    if (raw->event_next == raw->event_count)
        return NULL;
    return &raw->events[raw->event_next++];
}

struct raw_frame *raw_expect(struct raw *raw, unsigned flags, u_u32 seq, u_u32 ack, u_u32 len)
{
    struct raw_frame *frame = raw_frame(raw);

    assert_non_null(frame);
    assert_int_equal(frame->ip_protocol, US_IP_TCP);
    assert_int_equal(frame->flags & ~(unsigned)US_TCP_PSH, flags);
    assert_int_equal(frame->seq, seq);
    assert_int_equal(frame->ack, ack);
    assert_int_equal(frame->data_len, len);
    return frame;
}

void raw_expect_nothing(struct raw *raw)
{
    struct raw_frame *frame = raw_frame(raw);

    if (frame != NULL)
        fail_msg("unexpected frame: protocol %u flags %#x seq %u ack %u len %u", frame->ip_protocol,
                 frame->flags, frame->seq, frame->ack, frame->data_len);
}

struct us_event *raw_expect_event(struct raw *raw, enum us_event_type type)
{
    struct us_event *event = raw_event(raw);

    assert_non_null(event);
    assert_int_equal(event->type, type);
    return event;
}

struct us_conn *raw_accept(struct raw *raw, u_u32 *snd)
{
    struct raw_frame *frame;
    u_u32 iss;

    raw_segment(raw, US_TCP_SYN, 1000, 0, 65535, NULL, 0);
    frame = raw_frame(raw);
    assert_non_null(frame);
    assert_int_equal(frame->flags, US_TCP_SYN | US_TCP_ACK);
    assert_int_equal(frame->ack, 1001);
    iss = frame->seq;
    raw->opts.mss = 0;
    raw->opts.has_scale = 0;
    raw->opts.sack_permitted = 0;
    raw->opts.ts_ecr = frame->opts.ts_val;
    raw_segment(raw, US_TCP_ACK, 1001, iss + 1, 65535, NULL, 0);
    *snd = iss + 1;
    return raw_expect_event(raw, US_EV_ACCEPTED)->conn;
}

u_u64 raw_counter(struct raw *raw, const char *name)
{
    return pair_counter(raw->stack, name);
}

int raw_setup(void **state)
{
    static struct raw raw;

    raw_open(&raw, NULL);
    raw.answer_arp = 1;
    assert_int_equal(us_listen(raw.stack, RAW_PORT, NULL), 0);
    *state = &raw;
    return 0;
}

int raw_teardown(void **state)
{
    raw_close(*state);
    return 0;
}
