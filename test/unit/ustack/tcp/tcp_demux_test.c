/* SPDX-License-Identifier: BSD-3-Clause */
/* Unpredictable numbers, and the distribution of 4-tuples over the connection table. */
#include "craft.h"
#include "raw.h"
#include "ustack/core/instance.h"
#include "ustack/tcp/tcp.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { NAMES = 16384, BUCKETS = 16384, CHAIN_MAX = 10 };

/* Two instances at most, in the same memory. */
static struct us_stack *make(unsigned char secret)
{
    static void *memory[3];
    struct us_config config;
    unsigned long bytes;

    memset(&config, 0, sizeof(config));
    us_config_defaults(&config);
    config.mac[0] = 2;
    config.secret[3] = secret;
    config.conn_max = 16;
    config.half_open_max = 16;
    config.time_wait_max = 16;
    config.buffer_bytes = 65536;
    bytes = us_memory_bytes(&config);
    free(memory[secret]);
    memory[secret] = calloc(1, bytes);
    return us_create(&config, memory[secret], bytes, 1000000);
}

static struct us_tcp_key name(u_u32 number)
{
    struct us_tcp_key key;

    memset(&key, 0, sizeof(key));
    key.local_ip = 0x0a000001;
    key.remote_ip = 0x0a000002 + (number >> 12);
    key.local_port = 11211;
    key.remote_port = (u_u16)(1024 + (number & 4095));
    return key;
}

/* 4-tuples of one attacker or one busy proxy: chains stay short. */
static void tuples_are_spread(void **state)
{
    static unsigned char chains[BUCKETS];
    struct us_stack *stack = make(1);
    u_u32 i;

    memset(chains, 0, sizeof(chains));
    for (i = 0; i < NAMES; i++) {
        struct us_tcp_key key = name(i);
        u_u32 bucket = us_tcp_hash(stack, &key) & (BUCKETS - 1);
        assert_true(++chains[bucket] <= CHAIN_MAX);
    }
}

/* 4-tuples that share a bucket under one secret do not under another. */
static void the_hash_is_keyed(void **state)
{
    struct us_stack *one = make(1);
    struct us_stack *other = make(2);
    unsigned together = 0;
    unsigned still = 0;
    u_u32 first = 0;
    u_u32 i;

    for (i = 0; i < NAMES; i++) {
        struct us_tcp_key key = name(i);
        struct us_tcp_key key0 = name(0);
        first = us_tcp_hash(one, &key0) & 63;
        if ((us_tcp_hash(one, &key) & 63) != first)
            continue;
        together++;
        still += (us_tcp_hash(other, &key) & 63) == (us_tcp_hash(other, &key0) & 63);
    }
    assert_true(together > NAMES / 64 / 2);
    assert_true(still < together / 8);
}

/* RFC 6528: F(4-tuple, secret) + M, where M counts 4 us. */
static void initial_numbers_are_a_hash_and_a_clock(void **state)
{
    struct us_stack *one = make(1);
    struct us_stack *other = make(2);
    struct us_tcp_key a = name(1);
    struct us_tcp_key b = name(2);
    u_u32 at_first = us_tcp_isn(one, &a);

    assert_int_not_equal(at_first, us_tcp_isn(one, &b));
    assert_int_not_equal(at_first, us_tcp_isn(other, &a));
    assert_int_equal(at_first, us_tcp_isn(one, &a));
    one->now_us += 4000;
    assert_int_equal((u_u32)(us_tcp_isn(one, &a) - at_first), 1000);
}

static void timestamp_offsets_differ(void **state)
{
    struct us_stack *one = make(1);
    struct us_stack *other = make(2);
    struct us_tcp_key a = name(1);
    struct us_tcp_key b = name(2);

    assert_int_not_equal(us_tcp_ts_offset(one, &a), us_tcp_ts_offset(one, &b));
    assert_int_not_equal(us_tcp_ts_offset(one, &a), us_tcp_ts_offset(other, &a));
    assert_int_equal(us_tcp_ts_offset(one, &a), us_tcp_ts_offset(one, &a));
}

/* RFC 6056: ephemeral, different for each destination, and not one after the other. */
static void ports_are_chosen_apart(void **state)
{
    struct us_stack *stack = make(1);
    struct us_tcp_key a = name(1);
    struct us_tcp_key b = name(5000);
    u_u16 first;

    assert_true(us_tcp_port_choose(stack, &a, NULL));
    assert_true(us_tcp_port_choose(stack, &b, NULL));
    assert_true(a.local_port >= 0x8000 && b.local_port >= 0x8000);
    assert_int_not_equal(a.local_port, b.local_port);
    first = a.local_port;
    assert_true(us_tcp_port_choose(stack, &a, NULL));
    assert_int_not_equal(a.local_port, first);
    /* A port with a listener is passed over. */
    first = (u_u16)(a.local_port == 0xffff ? 0x8000 : a.local_port + 1);
    assert_int_equal(us_listen(stack, first, NULL), US_OK);
    assert_true(us_tcp_port_choose(stack, &a, NULL));
    assert_int_equal(a.local_port, first == 0xffff ? 0x8000 : first + 1);
}

/* ---- IPv6 addresses with the same id ---- */

enum { ADDRESSES = 1 << 18 };

struct numbered {
    u_u32 id;
    u_u32 number;
};

static int by_id(const void *a, const void *b)
{
    const struct numbered *x = a;
    const struct numbered *y = b;

    return x->id < y->id ? -1 : x->id > y->id;
}

/* An address of our link whose last 64 bits look random. */
static struct us_ip6 numbered_address(u_u32 number)
{
    struct us_ip6 addr = craft_peer6;
    struct u_be32 words[2];

    words[0] = u_be32(number * 0x9e3779b1u);
    words[1] = u_be32((number ^ 0x5555u) * 0x85ebca6bu);
    memcpy(addr.b + 8, words, sizeof(words));
    return addr;
}

/* Among so many addresses two have the same id: the secret is fixed, so they always do. */
static void find_peers_of_one_id(const struct us_stack *stack, struct us_ip6 *peers)
{
    struct numbered *all = malloc(ADDRESSES * sizeof(*all));
    u_u32 i;

    for (i = 0; i < ADDRESSES; i++) {
        struct us_ip6 addr = numbered_address(i);
        all[i].id = us_ip6_id(stack, &addr);
        all[i].number = i;
    }
    qsort(all, ADDRESSES, sizeof(*all), by_id);
    for (i = 1; i < ADDRESSES && all[i].id != all[i - 1].id; i++)
        continue;
    assert_true(i < ADDRESSES);
    peers[0] = numbered_address(all[i - 1].number);
    peers[1] = numbered_address(all[i].number);
    free(all);
}

/* A segment without data or options. */
static void segment6(struct raw *raw, const struct us_ip6 *src, unsigned flags, u_u32 seq,
                     u_u32 ack)
{
    static struct craft packet;
    struct us_tcp_hdr tcp;

    memset(&tcp, 0, sizeof(tcp));
    tcp.src_port = u_be16(raw->peer_port);
    tcp.dst_port = u_be16(RAW_PORT);
    tcp.seq = u_be32(seq);
    tcp.ack = u_be32(ack);
    tcp.offset = US_TCP_HDR_BYTES << 2;
    tcp.flags = (u_u8)flags;
    tcp.window = u_be16(65535);
    craft_l4_6(&packet, raw, US_IP_TCP, NULL, 0, US_IP_TCP, &tcp, sizeof(tcp), 16);
    craft_ip6_hdr(&packet)->src = *src;
    craft_ip6_checksum(&packet, US_IP_TCP, 0, 16);
    craft_give(raw, &packet);
}

/* The next frame is a segment with these flags; returns its sequence number. */
static u_u32 expect6(struct raw *raw, unsigned flags)
{
    const struct raw_frame *frame = raw_frame(raw);
    struct us_tcp_hdr tcp;

    assert_non_null(frame);
    assert_int_equal(frame->bytes[20], US_IP_TCP);
    memcpy(&tcp, frame->bytes + CRAFT_L4_6, sizeof(tcp));
    assert_int_equal(tcp.flags, flags);
    return u_get_be32(tcp.seq);
}

/* Peers whose addresses have the same id and who use the same port are distinct. */
static void peers_of_one_id_have_connections_of_their_own(void **state)
{
    struct raw *raw = *state;
    struct us_conn *conns[2];
    struct us_conn_info info;
    struct us_ip6 peers[2];
    u_u32 snd[2];
    int i;

    craft_enable6(raw);
    find_peers_of_one_id(raw->stack, peers);
    for (i = 0; i < 2; i++) {
        segment6(raw, &peers[i], US_TCP_SYN, 1000, 0);
        snd[i] = expect6(raw, US_TCP_SYN | US_TCP_ACK) + 1;
    }
    for (i = 0; i < 2; i++) {
        segment6(raw, &peers[i], US_TCP_ACK, 1001, snd[i]);
        conns[i] = raw_expect_event(raw, US_EV_ACCEPTED)->conn;
        us_conn_get_info(raw->stack, conns[i], &info);
        assert_memory_equal(info.remote.bytes, peers[i].b, 16);
        assert_int_equal(info.mss, 1220); /* RFC 9293 3.7.1, without an option */
    }
    segment6(raw, &peers[1], US_TCP_RST, 1001, 0);
    assert_ptr_equal(raw_expect_event(raw, US_EV_CLOSED)->conn, conns[1]);
    assert_int_equal(us_close(raw->stack, conns[0]), US_OK);
    raw_pump(raw, 0);
    assert_int_equal(expect6(raw, US_TCP_FIN | US_TCP_ACK), snd[0]);
    segment6(raw, &peers[0], US_TCP_FIN | US_TCP_ACK, 1001, snd[0] + 1);
    expect6(raw, US_TCP_ACK);
    assert_int_equal(raw_counter(raw, "time_wait"), 1);
    segment6(raw, &peers[1], US_TCP_SYN, 500, 0); /* too old for the peer in TIME-WAIT */
    expect6(raw, US_TCP_SYN | US_TCP_ACK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tuples_are_spread),
        cmocka_unit_test(the_hash_is_keyed),
        cmocka_unit_test(initial_numbers_are_a_hash_and_a_clock),
        cmocka_unit_test(timestamp_offsets_differ),
        cmocka_unit_test(ports_are_chosen_apart),
        cmocka_unit_test_setup_teardown(peers_of_one_id_have_connections_of_their_own, raw_setup,
                                        raw_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
