/* SPDX-License-Identifier: BSD-3-Clause */
/* Both sides of an exchange, connected without a network: what arrives is counted and checked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "exchange.h"

static struct ping_run run;
static struct exchange client, server;
static uint8_t *copy; /* from a block of its length, so that reading beyond it is noticed */

static void open_both(enum mode mode, uint32_t bytes, uint64_t count)
{
    memset(&run, 0, sizeof(run));
    load_histogram_clear(&run.latency);
    run.mode = mode;
    run.bytes = bytes;
    run.count = count;
    exchange_open(&client, &run);
    exchange_open(&server, NULL);
}

/* Moves at most `most` bytes from one side to the other. Returns whether there were any. */
static bool move(struct exchange *from, struct exchange *to, uint32_t most)
{
    uint32_t len;
    const uint8_t *data = exchange_next(from, &len);

    if (!data)
        return false;
    len = len < most ? len : most;
    copy = malloc(len);
    assert_non_null(copy);
    memcpy(copy, data, len);
    exchange_sent(from, len);
    run.now_ns += 1000;
    assert_int_equal(exchange_received(to, copy, len), 0);
    free(copy);
    return true;
}

/* Until neither side has anything to send. */
static void move_all(uint32_t most)
{
    bool moved = true;

    while (moved) {
        moved = move(&client, &server, most);
        moved = move(&server, &client, most) || moved;
    }
}

static void test_pings(void **state)
{
    static const uint32_t pieces[] = {1, 7, 100, 1000000};

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        open_both(MODE_PING, 100, 5);
        move_all(pieces[i]);
        assert_true(client.done);
        assert_false(server.done);
        assert_int_equal(run.rounds, 5);
        assert_int_equal(run.latency.total, 5);
        assert_int_equal(client.sent, 500);
        assert_int_equal(client.taken, 500);
        assert_int_equal(server.taken, 500);
        assert_int_equal(exchange_peer_closed(&server), 0);
        assert_true(server.done);
        assert_int_equal(exchange_peer_closed(&client), 0);
    }
}

/* A ping begins when the one before is complete, and its time counts from then on. */
static void test_times_of_pings(void **state)
{
    (void)state;
    open_both(MODE_PING, 1, 2);
    run.now_ns = client.begun_ns = 1000000;
    while (run.rounds == 0)
        assert_true(move(&client, &server, 100) || move(&server, &client, 100));
    assert_int_equal(client.begun_ns, run.now_ns);
    run.now_ns += 50000;
    assert_true(move(&client, &server, 100));
    assert_true(move(&server, &client, 100));
    assert_in_range(run.latency.max, 50000, 60000);
}

/* More than a period of the pattern, in pieces that do not divide it. */
static void test_bulk(void **state)
{
    const uint64_t count = 3 * EXCHANGE_PATTERN_BYTES + 12345;
    static const uint32_t pieces[] = {10007, 65536, UINT32_MAX};

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        open_both(MODE_SEND, 1, count);
        move_all(pieces[i]);
        assert_true(client.done);
        assert_int_equal(server.taken, count);
        assert_int_equal(run.moved, count);
        assert_int_equal(exchange_peer_closed(&server), 0);
        open_both(MODE_RECEIVE, 1, count);
        move_all(pieces[i]);
        assert_true(server.done);
        assert_int_equal(client.taken, count);
        assert_int_equal(run.moved, count);
        assert_int_equal(exchange_peer_closed(&client), 0);
    }
}

/* Without a count the time ends the exchange; without a time nothing does. */
static void test_time(void **state)
{
    static const enum mode modes[] = {MODE_PING, MODE_SEND, MODE_RECEIVE};

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        open_both(modes[i], 10, 0);
        for (unsigned turns = 0; turns < 200; turns++) {
            (void)move(&client, &server, 50);
            (void)move(&server, &client, 50);
        }
        assert_false(client.done);
        run.end_ns = run.now_ns + 5000;
        for (unsigned turns = 0; turns < 200 && !client.done; turns++) {
            (void)move(&client, &server, 50);
            (void)move(&server, &client, 50);
        }
        assert_true(client.done);
        assert_in_range(run.now_ns, run.end_ns, run.end_ns + 3000);
    }
}

/* The end of the other side comes too early, except behind all that was due. */
static void test_early_ends(void **state)
{
    static const enum mode modes[] = {MODE_PING, MODE_SEND, MODE_RECEIVE};

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        open_both(modes[i], 100, 500);
        for (unsigned turns = 0; turns < 5; turns++) {
            (void)move(&client, &server, 50);
            (void)move(&server, &client, 50);
        }
        assert_int_equal(exchange_peer_closed(&client), -1);
        assert_true(client.done);
        assert_int_equal(exchange_peer_closed(&server), 0);
    }
}

/* Every byte of the header and of the text. */
static void test_wrong_bytes(void **state)
{
    uint8_t bytes[EXCHANGE_HEADER_BYTES + 32];
    const uint8_t *data;
    uint32_t len;

    (void)state;
    open_both(MODE_PING, 32, 1);
    data = exchange_next(&client, &len);
    assert_int_equal(len, EXCHANGE_HEADER_BYTES);
    memcpy(bytes, data, len);
    exchange_sent(&client, len);
    data = exchange_next(&client, &len);
    assert_int_equal(len, 32);
    memcpy(bytes + EXCHANGE_HEADER_BYTES, data, len);
    exchange_sent(&client, len);
    for (unsigned i = 0; i < sizeof(bytes); i++) {
        if (i >= 8 && i < EXCHANGE_HEADER_BYTES) /* a number */
            continue;
        exchange_open(&server, NULL);
        bytes[i] ^= 1;
        assert_int_equal(exchange_received(&server, bytes, sizeof(bytes)), -1);
        bytes[i] ^= 1;
    }
    exchange_open(&server, NULL);
    assert_int_equal(exchange_received(&server, bytes, sizeof(bytes)), 0);
    assert_false(run.mismatch);
    bytes[sizeof(bytes) - 1] ^= 1;
    assert_int_equal(exchange_received(&client, bytes + EXCHANGE_HEADER_BYTES, 32), -1);
    assert_true(run.mismatch);
    assert_int_equal(run.rounds, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pings),      cmocka_unit_test(test_times_of_pings),
        cmocka_unit_test(test_bulk),       cmocka_unit_test(test_time),
        cmocka_unit_test(test_early_ends), cmocka_unit_test(test_wrong_bytes),
    };

    if (exchange_init() < 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
