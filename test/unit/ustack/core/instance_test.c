/* SPDX-License-Identifier: BSD-3-Clause */
/* The instance: configuration, errors of the calls, exhausted pools, counters, port choice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pair.h"
#include "raw.h"
#include "ustack/tcp/tcp.h"

static void configuration_is_checked(void **state)
{
    struct us_config good;
    struct us_config bad;
    unsigned long bytes;
    void *memory;

    pair_config(&good, 0);
    bytes = us_memory_bytes(&good);
    assert_true(bytes > 0);
    bad = good;
    bad.mtu = 575;
    assert_int_equal(us_memory_bytes(&bad), 0);
    bad = good;
    bad.mtu = 9217;
    assert_int_equal(us_memory_bytes(&bad), 0);
    bad = good;
    bad.conn_max = 0;
    assert_int_equal(us_memory_bytes(&bad), 0);
    bad = good;
    bad.half_open_max = 0; /* fine with SYN cookies */
    assert_int_not_equal(us_memory_bytes(&bad), 0);
    bad.syn_cookies = 0;
    assert_int_equal(us_memory_bytes(&bad), 0);
    bad = good;
    bad.rto_min_us = bad.rto_max_us + 1;
    assert_int_equal(us_memory_bytes(&bad), 0);
    bad = good;
    bad.ip6_autoconf = 1; /* RFC 8200 section 5: an MTU of 1280, and neighbours to discover */
    bad.mtu = 1280;
    assert_int_not_equal(us_memory_bytes(&bad), 0);
    bad.mtu = 1279;
    assert_int_equal(us_memory_bytes(&bad), 0);
    bad.mtu = 1280;
    bad.point_to_point = 1;
    assert_int_equal(us_memory_bytes(&bad), 0);
    bad.point_to_point = 0;
    bad.reply_to_source_mac = 1;
    assert_int_equal(us_memory_bytes(&bad), 0);
    bad = good;
    bad.buffer_bytes = 0;
    assert_int_equal(us_memory_bytes(&bad), 0);
    memory = calloc(1, bytes);
    assert_null(us_create(&good, memory, bytes - 1, 0));
    assert_null(us_create(&bad, memory, bytes, 0));
    assert_non_null(us_create(&good, memory, bytes, 0));
    free(memory);
    us_config_defaults(&good);
    assert_true(us_memory_bytes(&good) > good.buffer_bytes);
}

/* Each phrase begins with the name of the field that is out of range. */
static void a_refused_configuration_is_explained(void **state)
{
    struct us_config config;
    u_u32 *const fields[] = {&config.mtu, &config.rto_min_us, &config.rto_initial_us,
                             &config.keepalive_count, &config.half_open_max};
    const u_u32 values[] = {575, 600u * 1000 * 1000, 600u * 1000 * 1000, 201, (1 << 24) + 1};
    const char *const names[] = {"mtu ", "rto_min_us is above rto_max_us",
                                 "rto_initial_us is above rto_max_us", "keepalive_count ",
                                 "half_open_max "};
    unsigned i;

    for (i = 0; i < 5; i++) {
        pair_config(&config, 0);
        assert_null(us_config_error(&config));
        *fields[i] = values[i];
        assert_int_equal(us_memory_bytes(&config), 0);
        assert_int_equal(strncmp(us_config_error(&config), names[i], strlen(names[i])), 0);
    }
}

/* ---- us_config_fit() ---- */

enum { FIT_PORT = 7, FIT_CONNS_MAX = 3, FIT_BYTES_MAX = 262144 };

static u_u32 fit_bytes;

/* Both sides fill their send queues and keep all that they receive. */
static void fill_and_keep(struct pair_host *host, const struct us_event *event)
{
    static u_u8 bytes[FIT_BYTES_MAX];

    if (event->type == US_EV_ACCEPTED || event->type == US_EV_CONNECTED)
        assert_int_equal(us_send(host->stack, event->conn, bytes, fit_bytes), fit_bytes);
    else if (event->type == US_EV_DATA)
        assert_int_equal(us_recv_keep(host->stack, event->conn, event->data, event->len), US_OK);
}

/* Every connection fills both of its queues while all others do. */
static void a_fitted_configuration_refuses_no_byte(void **state)
{
    static const u_u32 shapes[][2] = {{1, 1024}, {2, 2048}, {3, 40000}, {2, FIT_BYTES_MAX}};
    unsigned shape, i;

    for (shape = 0; shape < 4; shape++) {
        struct us_conn *conns[FIT_CONNS_MAX];
        struct us_addr server = pair_addr(1);
        struct us_config config;
        struct pair pair;

        pair_config(&config, 0);
        us_config_fit(&config, shapes[shape][0], shapes[shape][1]);
        assert_null(us_config_error(&config));
        fit_bytes = shapes[shape][1];
        pair_open(&pair, &config);
        pair.host[0].on_event = pair.host[1].on_event = fill_and_keep;
        us_listen(pair.host[1].stack, FIT_PORT, NULL);
        for (i = 0; i < shapes[shape][0]; i++)
            conns[i] = us_connect(pair.host[0].stack, &server, FIT_PORT, 0, NULL, NULL);
        pair_run(&pair, pair.now_us + 5 * 1000 * 1000);
        for (i = 0; i < shapes[shape][0]; i++) {
            struct us_conn_info info;
            us_conn_get_info(pair.host[0].stack, conns[i], &info);
            assert_int_equal(info.queued_bytes, 0);
            assert_int_equal(info.bytes_in, fit_bytes);
        }
        assert_int_equal(pair_counter(pair.host[0].stack, "drop_tcp_rx_memory"), 0);
        pair_close(&pair);
    }
}

/* Whatever the number of connections: all may be orphans or wait, and each has a next hop. */
static void a_fitted_configuration_suits_its_connections(void **state)
{
    struct us_config config;

    pair_config(&config, 0);
    us_config_fit(&config, 2, 2048);
    assert_int_equal(config.orphans_max, 2);
    assert_int_equal(config.time_wait_max, 2);
    assert_int_equal(config.half_open_max, 2);
    assert_int_equal(config.neighbour_max, 8); /* routers and the peers of datagrams, too */
    us_config_fit(&config, 100000, 1024);
    assert_int_equal(config.orphans_max, 100000);
    assert_int_equal(config.half_open_max, 1024);
    assert_int_equal(config.neighbour_max, 65536);
    assert_null(us_config_error(&config));
    (void)state;
}

/* docs/embedding.md promises the size. */
static void the_smallest_instance_is_small(void **state)
{
    struct us_config config;

    us_config_defaults(&config);
    us_config_fit(&config, 2, 2048);
    assert_in_range(us_memory_bytes(&config), 1, 136 * 1024);
}

/* us_close_within() after a sleep counts from us_now(); frames to send don't hide a timer. */
static void the_time_can_be_set_and_timers_be_asked_for(void **state)
{
    struct us_addr peer = pair_addr(1);
    struct us_conn *conn;
    struct raw raw;

    raw_open(&raw, NULL);
    assert_int_equal(us_timer_deadline(raw.stack), US_NEVER);
    conn = us_connect(raw.stack, &peer, 80, 0, NULL, NULL);
    us_send(raw.stack, conn, "x", 1);
    us_now(raw.stack, raw.now_us + 10 * 1000 * 1000);
    assert_int_equal(us_close_within(raw.stack, conn, 2000), US_OK);
    assert_int_equal(us_deadline(raw.stack), 0);
    assert_in_range(us_timer_deadline(raw.stack), raw.now_us + 2000 * 1000 + 1,
                    raw.now_us + 12 * 1000 * 1000);
    raw_close(&raw);
}

static void a_connection_is_small(void **state)
{
    assert_true(sizeof(struct us_conn) <= 640);
}

/* Untouched memory stays untouched: only the pages at the start and the tables are written. */
static void memory_is_carved_lazily(void **state)
{
    struct us_config config;
    unsigned long bytes;
    unsigned long used = 0;
    unsigned long i;
    u_u8 *memory;

    memset(&config, 0, sizeof(config));
    us_config_defaults(&config);
    bytes = us_memory_bytes(&config);
    memory = calloc(1, bytes);
    assert_non_null(us_create(&config, memory, bytes, 0));
    for (i = 0; i < bytes; i++)
        used += memory[i] != 0;
    assert_true(used < sizeof(struct us_stack));
    free(memory);
}

static void addresses_and_ports_are_checked(void **state)
{
    struct us_addr addr = pair_addr(0);
    struct us_addr peer = pair_addr(1);
    struct us_conn *conn;
    struct raw raw;
    int error = 0;

    raw_open(&raw, NULL);
    assert_int_equal(us_addr_add(raw.stack, &addr, 24), US_ERR_IN_USE);
    addr.bytes[3] = 9;
    assert_int_equal(us_addr_add(raw.stack, &addr, 33), US_ERR_ARGUMENT);
    addr.family = 5;
    assert_int_equal(us_addr_add(raw.stack, &addr, 24), US_ERR_ARGUMENT);
    assert_null(us_connect(raw.stack, &addr, 80, 0, NULL, &error));
    assert_int_equal(error, US_ERR_ARGUMENT);
    addr = pair_addr(0);
    assert_null(us_connect(raw.stack, &addr, 80, 0, NULL, &error));
    assert_int_equal(error, US_ERR_NO_ROUTE);
    addr.bytes[3] = 255;
    assert_null(us_connect(raw.stack, &addr, 80, 0, NULL, &error));
    assert_int_equal(error, US_ERR_ARGUMENT);
    assert_null(us_connect(raw.stack, &peer, 0, 0, NULL, &error));
    assert_int_equal(error, US_ERR_ARGUMENT);

    conn = us_connect(raw.stack, &peer, 80, 1234, &raw, &error);
    assert_non_null(conn);
    assert_ptr_equal(us_conn_user(conn), &raw);
    assert_null(us_connect(raw.stack, &peer, 80, 1234, NULL, &error));
    assert_int_equal(error, US_ERR_IN_USE);
    assert_int_equal(us_close(raw.stack, conn), 0);
    raw_pump(&raw, 0);
    assert_int_equal(raw_expect_event(&raw, US_EV_CLOSED)->reason, US_CLOSE_ABORTED);

    assert_int_equal(us_listen(raw.stack, 0, NULL), US_ERR_ARGUMENT);
    assert_int_equal(us_listen(raw.stack, 1, NULL), 0);
    assert_int_equal(us_listen(raw.stack, 1, NULL), US_ERR_IN_USE);
    assert_int_equal(us_listen(raw.stack, 65, NULL), 0); /* the same bucket */
    assert_int_equal(us_listen(raw.stack, 129, NULL), 0);
    assert_int_equal(us_listen(raw.stack, 2, NULL), 0);
    assert_int_equal(us_listen(raw.stack, 3, NULL), US_ERR_NO_MEMORY);
    assert_int_equal(us_unlisten(raw.stack, 65), 0);
    assert_int_equal(us_unlisten(raw.stack, 65), US_ERR_ARGUMENT);
    assert_int_equal(us_listen(raw.stack, 3, NULL), 0);
    assert_int_equal(us_unlisten(raw.stack, 1), 0);
    assert_int_equal(us_unlisten(raw.stack, 129), 0);
    raw_close(&raw);
}

static void connection_pool_is_bounded(void **state)
{
    struct us_addr peer = pair_addr(1);
    struct us_config config;
    struct us_conn *conns[3];
    struct raw raw;
    int error = 0;
    int i;

    pair_config(&config, 0);
    config.conn_max = 3;
    config.half_open_max = 3;
    raw_open(&raw, &config);
    us_listen(raw.stack, RAW_PORT, NULL);
    for (i = 0; i < 3; i++)
        conns[i] = us_connect(raw.stack, &peer, 80, 0, NULL, &error);
    assert_null(us_connect(raw.stack, &peer, 80, 0, NULL, &error));
    assert_int_equal(error, US_ERR_NO_MEMORY);
    assert_int_equal(raw_counter(&raw, "pool_empty_conns"), 1);
    for (i = 0; i < 3; i++)
        us_abort(raw.stack, conns[i]);
    raw_pump(&raw, 0);
    assert_int_equal(raw_counter(&raw, "conns_open"), 0);
    raw_close(&raw);
}

/* A connection that found the pool empty gets SENDABLE when memory is freed. */
static void freed_memory_wakes_a_waiting_connection(void **state)
{
    static u_u8 data[20000];
    struct us_config config;
    struct us_conn *a;
    struct us_conn *b;
    struct raw raw;
    u_u32 snd;
    u_u32 room;

    pair_config(&config, 0);
    config.buffer_bytes = 4 * 2048;
    raw_open(&raw, &config);
    us_listen(raw.stack, RAW_PORT, NULL);
    a = raw_accept(&raw, &snd);
    raw.peer_port++;
    b = raw_accept(&raw, &snd);
    assert_int_equal(us_send(raw.stack, a, data, sizeof(data)), 4 * US_BLOCK_ROOM);
    assert_null(us_reserve(raw.stack, b, 10, 0, &room));
    assert_int_equal(us_send(raw.stack, b, data, 10), 0);
    us_abort(raw.stack, a);
    raw_pump(&raw, 0);
    assert_ptr_equal(raw_expect_event(&raw, US_EV_SENDABLE)->conn, b);
    assert_ptr_equal(raw_expect_event(&raw, US_EV_CLOSED)->conn, a);
    assert_int_equal(us_send(raw.stack, b, data, 10), 10);
    raw_close(&raw);
}

/* They wait in the order in which they found it empty; one that tries again keeps its place. */
static void connections_wait_for_memory_in_order(void **state)
{
    enum { WAITING = 3 };
    static u_u8 data[20000];
    struct us_conn *waiting[WAITING];
    struct us_config config;
    struct us_conn *first;
    struct raw raw;
    unsigned i;
    u_u32 snd;

    pair_config(&config, 0);
    config.buffer_bytes = 4 * 2048;
    raw_open(&raw, &config);
    us_listen(raw.stack, RAW_PORT, NULL);
    first = raw_accept(&raw, &snd);
    for (i = 0; i < WAITING; i++) {
        raw.peer_port++;
        waiting[i] = raw_accept(&raw, &snd);
    }
    assert_int_equal(us_send(raw.stack, first, data, sizeof(data)), 4 * US_BLOCK_ROOM);
    for (i = 0; i <= WAITING; i++)
        assert_int_equal(us_send(raw.stack, waiting[i % WAITING], data, 10), 0);
    us_abort(raw.stack, first);
    raw_pump(&raw, 0);
    raw_expect_event(&raw, US_EV_SENDABLE);
    for (i = 0; i < WAITING; i++)
        assert_ptr_equal(raw.events[raw.event_next - 1 + i].conn, waiting[i]);
    raw_close(&raw);
    (void)state;
}

/* A stack whose memory two connections can use up; *snd: the next sequence number of the second. */
static void open_with_two(struct raw *raw, struct us_conn **first, struct us_conn **second,
                          u_u32 *snd)
{
    struct us_config config;

    pair_config(&config, 0);
    config.buffer_bytes = 64 * 2048;
    raw_open(raw, &config);
    us_listen(raw->stack, RAW_PORT, NULL);
    *first = raw_accept(raw, snd);
    raw->peer_port++;
    *second = raw_accept(raw, snd);
}

/* So does one that has its minimum and found only the reserve of others. */
static void freed_memory_wakes_one_beyond_its_minimum(void **state)
{
    static u_u8 data[100000];
    struct us_conn *a;
    struct us_conn *b;
    struct raw raw;
    u_u32 snd;
    u_u32 sent;

    open_with_two(&raw, &a, &b, &snd);
    assert_in_range(us_send(raw.stack, a, data, sizeof(data)), 1, sizeof(data) - 1);
    sent = us_send(raw.stack, b, data, sizeof(data));
    assert_in_range(sent, 1, sizeof(data) - 1);
    us_abort(raw.stack, a);
    raw_pump(&raw, 0);
    assert_ptr_equal(raw_expect_event(&raw, US_EV_SENDABLE)->conn, b);
    assert_ptr_equal(raw_expect_event(&raw, US_EV_CLOSED)->conn, a);
    assert_true(us_send(raw.stack, b, data, sizeof(data)) > US_BLOCK_ROOM);
    raw_close(&raw);
    (void)state;
}

/* Memory that a connection itself gave back is not its own while the reserve is not whole. */
static void the_reserve_is_filled_first(void **state)
{
    static u_u8 data[100000];
    struct us_conn *a;
    struct us_conn *b;
    struct raw raw;
    u_u32 snd_a;

    open_with_two(&raw, &b, &a, &snd_a);
    assert_in_range(us_send(raw.stack, a, data, sizeof(data)), 1, sizeof(data) - 1);
    assert_in_range(us_send(raw.stack, b, data, sizeof(data)), 1, sizeof(data) - 1);
    raw_pump(&raw, 0);
    raw_segment(&raw, US_TCP_ACK, 1001, snd_a + 3 * US_BLOCK_ROOM / 2, 65535, NULL, 0);
    assert_null(raw_event(&raw));
    us_abort(raw.stack, b);
    raw_pump(&raw, 0);
    assert_ptr_equal(raw_expect_event(&raw, US_EV_SENDABLE)->conn, a);
    assert_ptr_equal(raw_expect_event(&raw, US_EV_CLOSED)->conn, b);
    raw_close(&raw);
    (void)state;
}

/* A single connection may use all references, and the next one waits for their release. */
static void released_references_wake_a_waiting_connection(void **state)
{
    enum { REFS = 40 };
    struct us_config config;
    struct us_conn *a;
    struct us_conn *b;
    struct raw raw;
    unsigned i;
    u_u32 snd;

    pair_config(&config, 0);
    config.buffer_bytes = 4 * 2048;
    config.send_refs_max = REFS;
    raw_open(&raw, &config);
    us_listen(raw.stack, RAW_PORT, NULL);
    a = raw_accept(&raw, &snd);
    raw.peer_port++;
    b = raw_accept(&raw, &snd);
    for (i = 0; i < REFS; i++)
        assert_int_equal(us_send_ref(raw.stack, a, "a", 1, NULL), US_OK);
    assert_int_equal(us_send_ref(raw.stack, a, "a", 1, NULL), US_ERR_FULL);
    assert_int_equal(us_send_ref(raw.stack, b, "b", 1, NULL), US_ERR_NO_MEMORY);
    us_abort(raw.stack, a);
    raw_pump(&raw, 0);
    for (i = 0; i < REFS; i++)
        raw_expect_event(&raw, US_EV_RELEASED);
    assert_ptr_equal(raw_expect_event(&raw, US_EV_CLOSED)->conn, a);
    assert_ptr_equal(raw_expect_event(&raw, US_EV_SENDABLE)->conn, b);
    assert_int_equal(us_send_ref(raw.stack, b, "b", 1, NULL), US_OK);
    raw_close(&raw);
    (void)state;
}

/* What a device can do may change at any time: the next frame follows it. */
static void capabilities_come_and_go(void **state)
{
    struct raw raw;
    struct us_conn *conn;
    u_u32 snd;
    int on;

    raw_open(&raw, NULL);
    raw.answer_arp = 1;
    us_listen(raw.stack, RAW_PORT, NULL);
    conn = raw_accept(&raw, &snd);
    for (on = 1; on >= 0; on--) {
        us_caps_set(raw.stack, on ? US_CAP_TX_L4_CSUM : 0);
        assert_int_equal(us_send(raw.stack, conn, "x", 1), 1);
        raw_pump(&raw, 0);
        assert_int_equal(raw_expect(&raw, US_TCP_ACK, snd++, 1001, 1)->pkt_flags,
                         on ? US_PKT_TX_L4_CSUM : 0);
        raw_segment(&raw, US_TCP_ACK, 1001, snd, 65535, NULL, 0);
    }
    raw_close(&raw);
    (void)state;
}

/* A packet of the caller may have had segments before: a frame of ARP has one. */
static void frames_of_other_protocols_have_one_segment(void **state)
{
    struct us_addr peer = pair_addr(1);
    u_u8 bytes[RAW_FRAME_BYTES];
    struct us_pkt *list;
    struct us_pkt pkt;
    struct raw raw;

    raw_open(&raw, NULL);
    assert_non_null(us_connect(raw.stack, &peer, RAW_PEER_PORT, 0, NULL, NULL));
    memset(&pkt, 0, sizeof(pkt));
    pkt.data = bytes;
    pkt.room = sizeof(bytes);
    pkt.next_seg = &pkt;
    list = &pkt;
    assert_int_equal(us_output(raw.stack, &list, 1, raw.now_us), 1);
    assert_int_equal(raw_counter(&raw, "arp_tx_requests"), 1);
    assert_null(pkt.next_seg);
    raw_close(&raw);
    (void)state;
}

/* Whatever the driver left in it, a packet describes its frame; each is counted. */
static void segments_are_described_and_counted(void **state)
{
    struct raw *raw = *state;
    u_u8 bytes[RAW_FRAME_BYTES];
    struct us_pkt *list;
    struct us_pkt pkt;
    struct us_conn *conn;
    u_u32 snd;
    unsigned i;

    conn = raw_accept(raw, &snd);
    for (i = 0; i < 4; i++) { /* data, and then a FIN */
        u_u64 frames = raw_counter(raw, "tx_frames");
        if (i < 3)
            assert_int_equal(us_send(raw->stack, conn, "x", 1), 1);
        else
            us_close(raw->stack, conn);
        memset(&pkt, 0, sizeof(pkt));
        pkt.data = bytes;
        pkt.room = sizeof(bytes);
        pkt.next_seg = &pkt;
        pkt.flags = US_PKT_TX_TSO;
        list = &pkt;
        assert_int_equal(us_output(raw->stack, &list, 1, raw->now_us), 1);
        assert_null(pkt.next_seg);
        assert_int_equal(pkt.flags & US_PKT_TX_TSO, 0);
        assert_int_equal(raw_counter(raw, "tx_frames"), frames + 1);
        raw_segment(raw, US_TCP_ACK, 1001 + i, snd + i + 1, 65535, "y", 1);
        raw_expect_event(raw, US_EV_DATA);
    }
}

/* The reserve counts a block for each datagram that may wait. */
static void the_reserve_has_blocks_for_datagrams(void **state)
{
    struct us_config config;
    struct raw raw;

    pair_config(&config, 0);
    config.conn_max = 2;
    config.datagram_max = 5;
    config.buffer_bytes = 1 << 20;
    raw_open(&raw, &config);
    assert_int_equal(us_buffer_reserve(raw.stack), (2ul * US_CONN_MIN_BLOCKS + 5) * US_BLOCK_BYTES);
    raw_close(&raw);
    (void)state;
}

/* Takes one more block, or fails. */
static void take_block(struct raw *raw, enum us_block_use use, struct us_chunk **all)
{
    struct us_chunk *chunk = us_block_get(raw->stack, 0, use);

    assert_non_null(chunk);
    chunk->next = *all;
    *all = chunk;
}

/* When an eighth of the shared blocks is left, one connection drops its out-of-order data. */
static void the_last_blocks_cost_data_out_of_order(void **state)
{
    struct us_chunk *all = NULL;
    struct us_chunk *chunk;
    struct us_conn *conns[3];
    u_u32 items, reserve, snd[3], i;
    unsigned pruned = 0;
    unsigned round;
    struct raw raw;

    raw_open(&raw, NULL);
    us_listen(raw.stack, RAW_PORT, NULL);
    raw.peer_port = 0;
    for (i = 0; i < 3; i++) {
        raw.peer_port++;
        conns[i] = raw_accept(&raw, &snd[i]);
    }
    items = raw.stack->block_pool.items;
    reserve = (u_u32)(us_buffer_reserve(raw.stack) / US_BLOCK_BYTES);
    for (round = 0; round < 2; round++) {
        for (i = 0; i < 3; i += 2) { /* the second one has none */
            raw.peer_port = (u_u16)(i + 1);
            raw_segment(&raw, US_TCP_ACK, 1011, snd[i], 65535, "abc", 3);
            raw_expect(&raw, US_TCP_ACK, snd[i], 1001, 0);
        }
        while (us_pool_free(&raw.stack->block_pool) > reserve + (items - reserve) / 8)
            take_block(&raw, US_BLOCK_SHARED, &all);
        assert_null(us_block_get(raw.stack, 0, US_BLOCK_OUT_OF_ORDER)); /* more of it costs none */
        assert_int_equal(raw_counter(&raw, "tcp_ooo_pruned"), pruned);
        for (i = 1; i <= 2; i++) { /* one connection loses its data, then the other */
            take_block(&raw, US_BLOCK_SHARED, &all);
            assert_int_equal(raw_counter(&raw, "tcp_ooo_pruned"), ++pruned);
            assert_int_equal((conns[0]->rxq.ooo != NULL) + (conns[2]->rxq.ooo != NULL), 2 - i);
            take_block(&raw, US_BLOCK_MINIMUM, &all); /* the block that it gave back */
        }
        while ((chunk = all) != NULL) {
            all = chunk->next;
            us_block_put(raw.stack, chunk);
        }
    }
    raw_close(&raw);
    (void)state;
}

/* Segments in pairs, the second one first, that the application holds back: all fit. */
static void half_full_blocks_hold_a_whole_window(void **state)
{
    enum { BYTES = 1200, SEGMENTS = 33 };
    static u_u8 bytes[BYTES];
    const struct us_event *event;
    struct us_config config;
    struct us_conn *conn;
    struct raw raw;
    u_u32 snd, i;

    pair_config(&config, 0);
    config.recv_window_bytes = BYTES * SEGMENTS;
    raw_open(&raw, &config);
    us_listen(raw.stack, RAW_PORT, NULL);
    conn = raw_accept(&raw, &snd);
    raw.no_pump = 1;
    raw_segment(&raw, US_TCP_ACK, 1001, snd, 65535, bytes, BYTES);
    raw.no_pump = 0;
    raw_pump(&raw, 0);
    event = raw_expect_event(&raw, US_EV_DATA);
    assert_int_equal(us_recv_keep(raw.stack, conn, event->data, event->len), US_OK);
    for (i = 1; i < SEGMENTS; i += 2) {
        raw_segment(&raw, US_TCP_ACK, 1001 + BYTES * (i + 1), snd, 65535, bytes, BYTES);
        raw_segment(&raw, US_TCP_ACK, 1001 + BYTES * i, snd, 65535, bytes, BYTES);
        while (raw_frame(&raw) != NULL)
            continue;
    }
    assert_int_equal(conn->rcv_queued, BYTES * SEGMENTS);
    assert_int_equal(raw_counter(&raw, "drop_tcp_rx_memory"), 0);
    assert_int_equal(raw_counter(&raw, "drop_tcp_ooo_memory"), 0);
    raw_close(&raw);
    (void)state;
}

static void counters_have_unique_names(void **state)
{
    unsigned i;
    unsigned j;

    for (i = 0; i < us_counter_count(); i++) {
        const char *name = us_counter_name(i);
        assert_true(strlen(name) > 0);
        assert_int_equal(strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_"), strlen(name));
        for (j = 0; j < i; j++)
            assert_string_not_equal(name, us_counter_name(j));
    }
    assert_string_equal(us_counter_name(us_counter_count()), "");
}

static void names_are_never_null(void **state)
{
    int i;

    for (i = -10; i < 3; i++)
        assert_non_null(us_strerror(i));
    for (i = 0; i < 12; i++)
        assert_non_null(us_tcp_state_name((enum us_tcp_state)i));
    assert_string_equal(us_tcp_state_name(US_TCP_FIN_WAIT_1), "FIN-WAIT-1");
    assert_string_equal(us_strerror(US_OK), "success");
    assert_string_equal(us_strerror(US_ERR_VERSION), "state of another version or byte order");
    assert_string_equal(us_strerror(US_ERR_VERSION - 1), "unknown error");
}

/* The header's version is one and the project's (which test/foreign does not define). */
static void version_is_the_project_s(void **state)
{
    char version[32];

    snprintf(version, sizeof(version), "%d.%d.%d", US_VERSION_MAJOR, US_VERSION_MINOR,
             US_VERSION_PATCH);
    assert_string_equal(US_VERSION_STRING, version);
#ifdef UCACHED_VERSION
    assert_string_equal(US_VERSION_STRING, UCACHED_VERSION);
#endif
}

/* RFC 6528, RFC 6056: different for each destination and each secret, and moving with time. */
static void numbers_depend_on_name_secret_and_time(void **state)
{
    struct us_tcp_key key = {RAW_LOCAL_IP, RAW_PEER_IP, 1, 2};
    struct us_tcp_key other = {RAW_LOCAL_IP, RAW_PEER_IP, 1, 3};
    struct us_config config;
    struct raw a;
    struct raw b;
    u_u32 isn;

    pair_config(&config, 0);
    raw_open(&a, &config);
    config.secret[31] ^= 1;
    raw_open(&b, &config);
    isn = us_tcp_isn(a.stack, &key);
    assert_true(isn != us_tcp_isn(a.stack, &other));
    assert_true(isn != us_tcp_isn(b.stack, &key));
    assert_true(us_tcp_hash(a.stack, &key) != us_tcp_hash(b.stack, &key));
    assert_true(us_tcp_ts_offset(a.stack, &key) != us_tcp_ts_offset(a.stack, &other));
    /* Each use has a key of its own, even with a secret that is the same byte throughout. */
    assert_true(memcmp(a.stack->key_isn, a.stack->key_port, U_SIPHASH_KEY_BYTES) != 0);
    assert_true(memcmp(a.stack->key_isn, a.stack->key_ts, U_SIPHASH_KEY_BYTES) != 0);
    assert_true(memcmp(a.stack->key_isn, a.stack->key_cookie, U_SIPHASH_KEY_BYTES) != 0);
    assert_true(memcmp(a.stack->key_port, a.stack->key_ts, U_SIPHASH_KEY_BYTES) != 0);
    assert_true(memcmp(a.stack->key_port, a.stack->key_cookie, U_SIPHASH_KEY_BYTES) != 0);
    assert_true(memcmp(a.stack->key_ts, a.stack->key_cookie, U_SIPHASH_KEY_BYTES) != 0);
    raw_pump(&a, 4000);
    assert_int_equal(us_tcp_isn(a.stack, &key), isn + 1000); /* one per 4 us */
    raw_close(&a);
    raw_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(configuration_is_checked),
        cmocka_unit_test(a_refused_configuration_is_explained),
        cmocka_unit_test(a_fitted_configuration_refuses_no_byte),
        cmocka_unit_test(a_fitted_configuration_suits_its_connections),
        cmocka_unit_test(the_smallest_instance_is_small),
        cmocka_unit_test(the_time_can_be_set_and_timers_be_asked_for),
        cmocka_unit_test(a_connection_is_small),
        cmocka_unit_test(memory_is_carved_lazily),
        cmocka_unit_test(addresses_and_ports_are_checked),
        cmocka_unit_test(connection_pool_is_bounded),
        cmocka_unit_test(freed_memory_wakes_a_waiting_connection),
        cmocka_unit_test(connections_wait_for_memory_in_order),
        cmocka_unit_test(freed_memory_wakes_one_beyond_its_minimum),
        cmocka_unit_test(the_reserve_is_filled_first),
        cmocka_unit_test(released_references_wake_a_waiting_connection),
        cmocka_unit_test(the_reserve_has_blocks_for_datagrams),
        cmocka_unit_test(capabilities_come_and_go),
        cmocka_unit_test(frames_of_other_protocols_have_one_segment),
        cmocka_unit_test_setup_teardown(segments_are_described_and_counted, raw_setup,
                                        raw_teardown),
        cmocka_unit_test(the_last_blocks_cost_data_out_of_order),
        cmocka_unit_test(half_full_blocks_hold_a_whole_window),
        cmocka_unit_test(counters_have_unique_names),
        cmocka_unit_test(names_are_never_null),
        cmocka_unit_test(version_is_the_project_s),
        cmocka_unit_test(numbers_depend_on_name_secret_and_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
