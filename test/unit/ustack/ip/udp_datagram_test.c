/* SPDX-License-Identifier: BSD-3-Clause */
/* UDP: delivery, counted drops, sending. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cksum.h"
#include "craft.h"
#include "pair.h"
#include "ustack/core/instance.h"
#include "ustack/ip/eth.h"

enum { PORT = 11211 };

static struct craft packet;
static int port_user;

static int setup(void **state)
{
    static struct raw raw;

    raw_open(&raw, NULL);
    assert_int_equal(us_udp_bind(raw.stack, PORT, &port_user), 0);
    *state = &raw;
    return 0;
}

static int teardown(void **state)
{
    raw_close(*state);
    return 0;
}

static void expect_datagram(struct raw *raw, const char *text)
{
    const struct us_event *event = raw_expect_event(raw, US_EV_DATAGRAM);

    assert_int_equal(event->len, strlen(text));
    assert_ptr_equal(event->user, &port_user);
    assert_null(event->conn);
}

static void a_datagram_is_delivered(void **state)
{
    static const u_u8 peer[4] = {10, 0, 0, 2};
    static const u_u8 ours[4] = {10, 0, 0, 1};
    struct raw *raw = *state;
    const struct us_event *event;

    raw->no_pump = 1; /* the bytes are looked at before the packet is given back */
    craft_udp4(&packet, raw, PORT, "question", 8);
    craft_give(raw, &packet);
    raw_pump(raw, 0);
    event = raw_expect_event(raw, US_EV_DATAGRAM);
    assert_memory_equal(event->data, "question", 8);
    assert_int_equal(event->len, 8);
    assert_ptr_equal(event->user, &port_user);
    assert_int_equal(event->datagram->remote.family, US_IP4);
    assert_memory_equal(event->datagram->remote.bytes, peer, 4);
    assert_memory_equal(event->datagram->local.bytes, ours, 4);
    assert_int_equal(event->datagram->remote_port, RAW_PEER_PORT);
    assert_int_equal(event->datagram->local_port, PORT);
    assert_memory_equal(event->datagram->mac, raw_peer_mac, 6);
    raw_expect_nothing(raw);
}

static void lengths_are_checked(void **state)
{
    struct raw *raw = *state;

    craft_udp4(&packet, raw, PORT, "", 0); /* legal: no data at all */
    craft_give(raw, &packet);
    expect_datagram(raw, "");
    craft_udp4(&packet, raw, PORT, "abcd", 4);
    craft_udp4_hdr(&packet)->bytes = u_be16(7);
    craft_expect_counted(raw, &packet, "drop_udp_header");
    craft_udp4_hdr(&packet)->bytes = u_be16(13); /* more than there is */
    craft_expect_counted(raw, &packet, "drop_udp_header");
    craft_ip4(&packet, raw, US_IP_UDP, "abcdefg", 7);
    craft_expect_counted(raw, &packet, "drop_udp_header");
    assert_null(raw_event(raw));
}

/* RFC 768: nothing is sent to port 0. */
static void port_0_is_nobody_s(void **state)
{
    struct raw *raw = *state;

    craft_udp4(&packet, raw, 0, "question", 8);
    craft_expect_counted(raw, &packet, "drop_udp_header");
    raw_expect_nothing(raw);
}

/* A broadcast is answered from an address of ours (RFC 1122 4.1.3.5). */
static void a_broadcast_has_a_local_address(void **state)
{
    struct us_addr ours = pair_addr(0);
    struct raw *raw = *state;
    const struct us_datagram *info;

    craft_udp4(&packet, raw, PORT, "question", 8);
    memset(packet.bytes, 0xff, 6);
    craft_ip4_hdr(&packet)->dst = u_be32(RAW_LOCAL_IP | 0xff);
    craft_ip4_finish(&packet);
    craft_udp4_hdr(&packet)->checksum = u_be16(0);
    craft_give(raw, &packet);
    info = raw_expect_event(raw, US_EV_DATAGRAM)->datagram;
    assert_memory_equal(info->local.bytes, ours.bytes, 4);
    assert_int_equal(us_udp_reply(raw->stack, info, "answer", 6), US_OK);
}

/* RFC 1122 3.3.6: a link-layer broadcast to a unicast address is dropped. */
static void a_link_layer_broadcast_to_our_address_is_dropped(void **state)
{
    struct raw *raw = *state;

    craft_udp4(&packet, raw, PORT, "all", 3);
    memset(packet.bytes, 0xff, 6);
    craft_expect_counted(raw, &packet, "drop_ip_address");
    assert_null(raw_event(raw));
}

/* With reply_to_source_mac later datagrams go where the first one came from, too. */
static void the_mac_of_a_datagram_is_learned(void **state)
{
    struct us_addr peer = pair_addr(1);
    struct raw *raw = *state;
    const struct raw_frame *frame;

    raw->stack->config.reply_to_source_mac = 1;
    craft_udp4(&packet, raw, PORT, "question", 8);
    craft_give(raw, &packet);
    assert_int_equal(us_udp_send(raw->stack, NULL, PORT, &peer, 1, "news", 4), US_OK);
    raw_pump(raw, 0);
    frame = raw_frame(raw);
    assert_non_null(frame);
    assert_memory_equal(frame->bytes, raw_peer_mac, 6);
}

/* A datagram may use one block of the reserve; without buffers it is dropped as a whole. */
static void datagrams_need_buffers(void **state)
{
    static const u_u8 large[5000];
    struct us_addr peer = pair_addr(1);
    struct us_chunk *all = NULL;
    struct raw *raw = *state;
    struct us_chunk *chunk;
    unsigned use;

    us_mtu_set(raw->stack, 9000);
    for (use = US_BLOCK_SHARED + 1; use-- > US_BLOCK_MINIMUM;) {
        while ((chunk = us_block_get(raw->stack, 0, (enum us_block_use)use)) != NULL) {
            chunk->next = all;
            all = chunk;
        }
        assert_int_equal(us_udp_send(raw->stack, NULL, 1, &peer, 1, large, sizeof(large)),
                         US_ERR_NO_MEMORY);
        assert_int_equal(us_udp_send(raw->stack, NULL, 1, &peer, 1, large, 1472),
                         use == US_BLOCK_SHARED ? US_OK : US_ERR_NO_MEMORY);
        assert_int_equal(raw_counter(raw, "datagrams_waiting"), 1);
    }
    assert_int_equal(raw_counter(raw, "drop_datagram_queue"), 3);
    while ((chunk = all) != NULL) {
        all = chunk->next;
        us_block_put(raw->stack, chunk);
    }
    raw_pump(raw, 0);
}

/* RFC 768: the length in the header counts; what IP carries behind it is no part of the datagram.
 */
static void bytes_behind_the_datagram_are_ignored(void **state)
{
    struct raw *raw = *state;
    struct us_udp_hdr *udp = craft_udp4_hdr(&packet);
    u_u32 sum;

    craft_udp4(&packet, raw, PORT, "abcdefgh", 8);
    udp->bytes = u_be16(US_UDP_HDR_BYTES + 4);
    udp->checksum = u_be16(0);
    sum = u_cksum_pseudo4(u_be32(RAW_PEER_IP), u_be32(RAW_LOCAL_IP), US_IP_UDP, 12);
    udp->checksum = u_be16(u_cksum_finish(u_cksum_add(sum, udp, 12)));
    craft_give(raw, &packet);
    expect_datagram(raw, "abcd");
    raw->rx_flags = US_PKT_L4_CSUM_GOOD;
    craft_give(raw, &packet);
    expect_datagram(raw, "abcd");
}

static void checksums_are_checked(void **state)
{
    struct raw *raw = *state;

    craft_udp4(&packet, raw, PORT, "abcd", 4);
    packet.bytes[packet.len - 1] ^= 1;
    craft_expect_counted(raw, &packet, "drop_udp_checksum");
    raw->rx_flags = US_PKT_L4_CSUM_GOOD; /* the NIC knows better */
    craft_give(raw, &packet);
    expect_datagram(raw, "abcd");
    raw->rx_flags = US_PKT_L4_CSUM_BAD;
    craft_udp4(&packet, raw, PORT, "abcd", 4);
    craft_expect_counted(raw, &packet, "drop_udp_checksum");
    raw->rx_flags = 0;
    craft_udp4_hdr(&packet)->checksum = u_be16(0); /* RFC 768: made without one */
    craft_give(raw, &packet);
    expect_datagram(raw, "abcd");
}

static void ports_are_bound_once_and_unbound(void **state)
{
    struct raw *raw = *state;

    assert_int_equal(us_udp_bind(raw->stack, 0, NULL), US_ERR_ARGUMENT);
    assert_int_equal(us_udp_bind(raw->stack, PORT, NULL), US_ERR_IN_USE);
    assert_int_equal(us_listen(raw->stack, 53, NULL), 0); /* TCP ports are separate */
    assert_int_equal(us_udp_bind(raw->stack, 53, NULL), 0);
    assert_int_equal(us_udp_unbind(raw->stack, PORT), 0);
    assert_int_equal(us_udp_unbind(raw->stack, PORT), US_ERR_ARGUMENT);
    craft_udp4(&packet, raw, PORT, "abcd", 4);
    craft_expect_counted(raw, &packet, "drop_udp_no_port");
    assert_null(raw_event(raw));
}

static void expect_sent(struct raw *raw, const void *data, u_u32 len)
{
    const struct raw_frame *frame = raw_frame(raw);
    const struct us_udp_hdr *udp;
    u_u32 sum;

    assert_non_null(frame);
    assert_int_equal(frame->ip_protocol, US_IP_UDP);
    assert_memory_equal(frame->bytes, raw->peer_mac, 6);
    udp = (const void *)(frame->bytes + CRAFT_L4);
    assert_int_equal(u_get_be16(udp->src_port), PORT);
    assert_int_equal(u_get_be16(udp->dst_port), RAW_PEER_PORT);
    assert_int_equal(u_get_be16(udp->bytes), US_UDP_HDR_BYTES + len);
    assert_int_equal(frame->len, CRAFT_L4 + US_UDP_HDR_BYTES + len);
    assert_int_not_equal(u_get_be16(udp->checksum), 0);
    sum = u_cksum_pseudo4(u_be32(RAW_LOCAL_IP), u_be32(RAW_PEER_IP), US_IP_UDP,
                          US_UDP_HDR_BYTES + len);
    assert_int_equal(u_cksum_finish(u_cksum_add(sum, udp, US_UDP_HDR_BYTES + len)), 0);
    assert_memory_equal((const u_u8 *)udp + US_UDP_HDR_BYTES, data, len);
}

static void datagrams_are_sent(void **state)
{
    static u_u8 large[1472];
    struct raw *raw = *state;
    struct us_addr peer = pair_addr(1);
    struct us_addr ours = pair_addr(0);
    unsigned i;

    for (i = 0; i < sizeof(large); i++)
        large[i] = (u_u8)(i * 7);
    raw->answer_arp = 1;
    assert_int_equal(us_udp_send(raw->stack, NULL, PORT, &peer, RAW_PEER_PORT, "answer", 6), 0);
    assert_int_equal(
        us_udp_send(raw->stack, &ours, PORT, &peer, RAW_PEER_PORT, large, sizeof(large)), 0);
    assert_int_equal(us_udp_send(raw->stack, &ours, PORT, &peer, RAW_PEER_PORT, "", 0), 0);
    assert_int_equal(us_deadline(raw->stack), 0);
    raw_pump(raw, 0);
    expect_sent(raw, "answer", 6);
    expect_sent(raw, large, sizeof(large));
    expect_sent(raw, "", 0);
    raw_expect_nothing(raw);
    assert_int_equal(raw_counter(raw, "buffer_bytes_used"), 0);
    assert_int_equal(raw_counter(raw, "udp_tx"), 3);
    assert_int_equal(raw_counter(raw, "frag_tx"), 0); /* the large one just fits */
}

static void a_datagram_comes_from_the_address_asked_for(void **state)
{
    struct raw *raw = *state;
    struct us_addr peer = pair_addr(1);
    struct us_addr second = pair_addr(0);

    second.bytes[3] = 77;
    assert_int_equal(us_addr_add(raw->stack, &second, 24), US_OK);
    raw->answer_arp = 1;
    raw_pump(raw, 0);
    while (raw_frame(raw) != NULL) /* the announcement */
        continue;
    assert_int_equal(us_udp_send(raw->stack, &second, PORT, &peer, RAW_PEER_PORT, "x", 1), US_OK);
    raw_pump(raw, 0);
    assert_memory_equal(raw_frame(raw)->bytes + 26, second.bytes, 4);
}

/* A checksum that comes out as 0 is sent as 0xffff: 0 would say that there is none (RFC 768). */
static void a_checksum_of_zero_is_not_sent(void **state)
{
    struct raw *raw = *state;
    struct us_addr peer = pair_addr(1);
    u_u8 data[2] = {0, 0};
    unsigned sum;
    unsigned i;
    struct u_be16 words[] = {{{10, 0}}, {{0, 1}},  {{10, 0}}, {{0, 2}}, {{0, 17}},
                             {{0, 10}}, {{0, 10}}, {{0, 0}},  {{0, 0}}};

    words[7] = u_be16(PORT);
    words[8] = u_be16(RAW_PEER_PORT);
    for (sum = 0, i = 0; i < 9; i++)
        sum += u_get_be16(words[i]);
    sum = (sum & 0xffff) + (sum >> 16);
    data[0] = (u_u8)(~sum >> 8);
    data[1] = (u_u8)~sum;
    raw->answer_arp = 1;
    assert_int_equal(us_udp_send(raw->stack, NULL, PORT, &peer, RAW_PEER_PORT, data, 2), 0);
    raw_pump(raw, 0);
    assert_int_equal(raw->frames[0].bytes[CRAFT_L4 + 6], 0xff);
    assert_int_equal(raw->frames[0].bytes[CRAFT_L4 + 7], 0xff);
    expect_sent(raw, data, 2);
}

static void bad_arguments_are_refused(void **state)
{
    static const u_u8 large[1473];
    struct raw *raw = *state;
    struct us_addr peer = pair_addr(1);
    struct us_addr ours = pair_addr(0);
    struct us_addr far_away = pair_addr(1);
    struct us_addr ours6 = {US_IP6, {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};

    assert_int_equal(us_udp_send(raw->stack, NULL, 0, &peer, 1, "", 0), US_ERR_ARGUMENT);
    assert_int_equal(us_udp_send(raw->stack, NULL, 1, &peer, 0, "", 0), US_ERR_ARGUMENT);
    assert_int_equal(us_udp_send(raw->stack, &peer, 1, &peer, 1, "", 0), US_ERR_ARGUMENT);
    assert_int_equal(us_udp_send(raw->stack, NULL, 1, &ours, 1, "", 0), US_ERR_ARGUMENT);
    craft_enable6(raw);
    assert_int_equal(us_udp_send(raw->stack, &ours6, 1, &peer, 1, "", 0), US_ERR_ARGUMENT);
    assert_int_equal(us_udp_send(raw->stack, NULL, 1, &peer, 1, large, 1473), US_ERR_ARGUMENT);
    far_away.bytes[0] = 192;
    assert_int_equal(us_udp_send(raw->stack, NULL, 1, &far_away, 1, "", 0), US_ERR_NO_ROUTE);
    far_away.bytes[0] = 224;
    assert_int_equal(us_udp_send(raw->stack, NULL, 1, &far_away, 1, "", 0), US_ERR_ARGUMENT);
    raw_pump(raw, 0);
    raw_expect_nothing(raw);
}

static void waiting_datagrams_are_bounded_and_dropped_if_unresolved(void **state)
{
    struct us_config config;
    struct us_addr peer = pair_addr(1);
    struct raw raw;
    unsigned i;

    pair_config(&config, 0);
    config.datagram_max = 3;
    raw_open(&raw, &config);
    for (i = 0; i < 3; i++)
        assert_int_equal(us_udp_send(raw.stack, NULL, 1, &peer, 1, "x", 1), 0);
    assert_int_equal(us_udp_send(raw.stack, NULL, 1, &peer, 1, "x", 1), US_ERR_NO_MEMORY);
    assert_int_equal(raw_counter(&raw, "drop_datagram_queue"), 1);
    raw_pump(&raw, 0);
    assert_int_equal(raw_counter(&raw, "datagrams_waiting"), 3);
    for (i = 0; i < 8; i++)
        raw_pump(&raw, 1000 * 1000);
    assert_int_equal(raw_counter(&raw, "datagrams_waiting"), 0);
    assert_int_equal(raw_counter(&raw, "drop_datagram_no_hop"), 3);
    assert_int_equal(raw_counter(&raw, "buffer_bytes_used"), 0);
    raw_close(&raw);
    (void)state;
}

/* The next frame is a reply to this MAC address, and no neighbour is asked for. */
static void expect_reply(struct raw *raw, const u_u8 *mac)
{
    const struct raw_frame *frame = raw_frame(raw);

    assert_non_null(frame);
    assert_int_equal(frame->bytes[frame->ethertype == US_ETH_IP6 ? 20 : 23], US_IP_UDP);
    assert_memory_equal(frame->bytes, mac, 6);
    assert_memory_equal(frame->bytes + 6, raw_our_mac, 6);
    raw_expect_nothing(raw);
    assert_int_equal(raw_counter(raw, "datagrams_waiting"), 0);
    assert_int_equal(raw_counter(raw, "neighbours"), 0);
}

static void reply_to_next(struct raw *raw)
{
    const struct us_event *event = raw_expect_event(raw, US_EV_DATAGRAM);

    assert_int_equal(us_udp_reply(raw->stack, event->datagram, "answer", 6), 0);
    raw_pump(raw, 0);
}

/* Requests from many addresses that answer no ARP: no reply waits, and none keeps others waiting.
 */
static void a_reply_goes_to_the_mac_of_the_request(void **state)
{
    static const u_u8 router[6] = {2, 0, 0, 0, 0, 0x77};
    static const u_u8 question[] = "question";
    struct us_config config;
    u_u8 datagram[64];
    struct raw raw;
    u_u32 i, len;

    pair_config(&config, 0);
    config.datagram_max = 3;
    raw_open(&raw, &config);
    assert_int_equal(us_udp_bind(raw.stack, PORT, &port_user), 0);
    memcpy(raw.peer_mac, router, sizeof(router));
    for (i = 0; i < 50; i++) {
        /* Every other one is of a network that there is no route to. */
        raw.peer_ip = (i % 2 == 0 ? RAW_PEER_IP : 0xc6336401) + i;
        craft_udp4(&packet, &raw, PORT, question, 8);
        craft_give(&raw, &packet);
        reply_to_next(&raw);
        expect_reply(&raw, router);
    }
    craft_enable6(&raw);
    for (i = 0; i < 50; i++) {
        len = craft_datagram6(datagram, &raw, PORT, question, 8);
        craft_ip6(&packet, &raw, US_IP_UDP, datagram, len);
        craft_ip6_hdr(&packet)->src.b[15] = (u_u8)(2 + i);
        craft_ip6_checksum(&packet, US_IP_UDP, 0, 6);
        craft_give(&raw, &packet);
        reply_to_next(&raw);
        expect_reply(&raw, router);
    }
    raw_close(&raw);
    (void)state;
}

static void a_reply_needs_sound_addresses(void **state)
{
    static const u_u8 large[1473];
    struct raw *raw = *state;
    struct us_datagram request, bad;

    craft_udp4(&packet, raw, PORT, "question", 8);
    craft_give(raw, &packet);
    request = *raw_expect_event(raw, US_EV_DATAGRAM)->datagram;
    assert_int_equal(us_udp_reply(raw->stack, &request, large, 1473), US_ERR_ARGUMENT);
    bad = request;
    bad.local = request.remote;
    assert_int_equal(us_udp_reply(raw->stack, &bad, "", 0), US_ERR_ARGUMENT);
    bad = request;
    bad.remote = request.local;
    assert_int_equal(us_udp_reply(raw->stack, &bad, "", 0), US_ERR_ARGUMENT);
    bad = request;
    bad.remote_port = 0;
    assert_int_equal(us_udp_reply(raw->stack, &bad, "", 0), US_ERR_ARGUMENT);
    raw_pump(raw, 0);
    raw_expect_nothing(raw);
}

/* us_input() takes no more frames than it has room for events; time passes nevertheless. */
static void input_stops_when_the_events_are_full(void **state)
{
    struct raw *raw = *state;
    struct us_pkt pkt;
    struct us_pkt *list = &pkt;
    struct us_addr peer = pair_addr(1);
    struct us_event event;
    unsigned taken = 0;
    unsigned i;

    assert_int_equal(us_udp_send(raw->stack, NULL, PORT, &peer, RAW_PEER_PORT, "x", 1), US_OK);
    raw_pump(raw, 0);
    assert_int_equal(raw_counter(raw, "arp_tx_requests"), 1);
    craft_udp4(&packet, raw, PORT, "abcd", 4);
    memset(&pkt, 0, sizeof(pkt));
    pkt.data = packet.bytes;
    pkt.len = packet.len;
    for (i = 0; i < 10000 && us_input(raw->stack, &list, 1, raw->now_us) == 1; i++)
        ;
    assert_in_range(i, 1, 9999);
    assert_null(us_check(raw->stack));
    raw->now_us += 2000000;
    assert_int_equal(us_input(raw->stack, &list, 1, raw->now_us), 0);
    assert_int_equal(us_deadline(raw->stack), 0); /* the request again */
    memset(&event, 0xff, sizeof(event));
    while (us_next_event(raw->stack, &event)) {
        taken += event.type == US_EV_DATAGRAM;
        assert_null(event.conn);
        assert_null(event.cookie);
    }
    assert_int_equal(taken, i);
    assert_int_equal(us_input(raw->stack, &list, 1, raw->now_us), 1);
    assert_int_equal(us_next_event(raw->stack, &event), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_datagram_is_delivered, setup, teardown),
        cmocka_unit_test_setup_teardown(lengths_are_checked, setup, teardown),
        cmocka_unit_test_setup_teardown(port_0_is_nobody_s, setup, teardown),
        cmocka_unit_test_setup_teardown(a_broadcast_has_a_local_address, setup, teardown),
        cmocka_unit_test_setup_teardown(a_link_layer_broadcast_to_our_address_is_dropped, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(the_mac_of_a_datagram_is_learned, setup, teardown),
        cmocka_unit_test_setup_teardown(datagrams_need_buffers, setup, teardown),
        cmocka_unit_test_setup_teardown(bytes_behind_the_datagram_are_ignored, setup, teardown),
        cmocka_unit_test_setup_teardown(checksums_are_checked, setup, teardown),
        cmocka_unit_test_setup_teardown(ports_are_bound_once_and_unbound, setup, teardown),
        cmocka_unit_test_setup_teardown(datagrams_are_sent, setup, teardown),
        cmocka_unit_test_setup_teardown(a_datagram_comes_from_the_address_asked_for, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_checksum_of_zero_is_not_sent, setup, teardown),
        cmocka_unit_test(a_reply_goes_to_the_mac_of_the_request),
        cmocka_unit_test_setup_teardown(a_reply_needs_sound_addresses, setup, teardown),
        cmocka_unit_test_setup_teardown(bad_arguments_are_refused, setup, teardown),
        cmocka_unit_test(waiting_datagrams_are_bounded_and_dropped_if_unresolved),
        cmocka_unit_test_setup_teardown(input_stops_when_the_events_are_full, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
