/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A request datagram to the datagrams of its reply.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cache_end.h"
#include "net/udp.h"

struct fixture {
    struct cache *cache;
    struct cache_worker *worker;
    struct cache_session *session;
    struct net_udp udp;
    struct net_udp_reply reply;
    char text[NET_UDP_REPLY_BYTES_MAX + 1]; /* the payload of all datagrams of the last reply */
    size_t len;
    unsigned datagrams;
    uint64_t source;
    uint64_t now_us;
};

/* Other limits than none. */
static void open_limit(struct fixture *f, uint32_t reply_bytes, uint32_t bytes_per_s)
{
    static const uint8_t key[16] = {7};

    net_udp_close(&f->udp);
    net_udp_limit_destroy(f->udp.limit);
    assert_int_equal(net_udp_open(&f->udp, net_udp_limit_create(reply_bytes, bytes_per_s, key)), 0);
    assert_non_null(f->udp.limit);
}

static int setup(void **state)
{
    struct cache_config config = {.start_unix_s = 1700000000};
    struct cache_peer peer = {.transport = "udp"};
    struct fixture *f = calloc(1, sizeof(*f));
    const char *why;

    cache_settings_defaults(&config.settings);
    config.settings.threads = 1;
    config.settings.requests_per_event = 2;
    f->cache = cache_create(&config, &why);
    assert_non_null(f->cache);
    f->worker = cache_join(f->cache);
    f->session = cache_session_open(f->worker, &peer);
    open_limit(f, NET_UDP_REPLY_BYTES_MAX, 0);
    f->udp.cache_worker = f->worker;
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    net_udp_close(&f->udp);
    net_udp_limit_destroy(f->udp.limit);
    cache_session_close(f->session);
    cache_leave(f->worker);
    cache_end(f->cache);
    free(f);
    return 0;
}

/* Serves a datagram with this header, and puts the reply together, checking each header of it. */
static enum net_udp_result serve(struct fixture *f, const uint8_t header[8], const char *request,
                                 size_t len)
{
    static uint8_t datagram[NET_UDP_REQUEST_MAX];
    uint8_t head[MC_UDP_HEADER_BYTES];
    const struct net_udp_request asked = {
        .datagram = datagram, .len = 8 + (uint32_t)len, .source = f->source, .now_us = f->now_us};
    enum net_udp_result result;
    const uint8_t *payload;
    uint32_t payload_len;

    memcpy(datagram, header, 8);
    memcpy(datagram + 8, request, len);
    net_udp_clear(&f->udp);
    result = net_udp_serve(&f->udp, f->session, &asked, &f->reply);
    f->len = 0;
    f->datagrams = 0;
    while (net_udp_next_datagram(&f->reply, head, &payload, &payload_len)) {
        assert_in_range(payload_len, 1, 1392);
        assert_memory_equal(head, header, 2);
        assert_int_equal(head[2] << 8 | head[3], f->datagrams);
        assert_int_equal(head[4] << 8 | head[5], (f->reply.len + 1391) / 1392);
        assert_int_equal(head[6] << 8 | head[7], 0);
        memcpy(f->text + f->len, payload, payload_len);
        f->len += payload_len;
        f->datagrams++;
    }
    f->text[f->len] = '\0';
    assert_int_equal(f->datagrams, (f->reply.len + 1391) / 1392);
    return result;
}

static void ask(struct fixture *f, const char *request, const char *reply)
{
    static const uint8_t header[8] = {0x12, 0x34, 0, 0, 0, 1, 0, 0};

    assert_int_equal(serve(f, header, request, strlen(request)), NET_UDP_SERVED);
    assert_string_equal(f->text, reply);
}

static void test_requests(void **state)
{
    struct fixture *f = *state;

    ask(f, "set a 1 0 2\r\nxy\r\n", "STORED\r\n");
    ask(f, "get a\r\n", "VALUE a 1 2\r\nxy\r\nEND\r\n");
    ask(f, "mg a v\r\n", "VA 2\r\nxy\r\n");
    /* One message for all that a datagram asks, more requests than one turn has. */
    ask(f, "get a none a\r\nget none\r\nincr n 1\r\ndelete a\r\nget a\r\n",
        "VALUE a 1 2\r\nxy\r\nVALUE a 1 2\r\nxy\r\nEND\r\nEND\r\nNOT_FOUND\r\nDELETED\r\nEND\r\n");
    ask(f, "set a 1 0 2 noreply\r\nxy\r\n", "");
    ask(f, "foo\r\n", "ERROR\r\n");
}

/* A datagram stands for itself, whatever the one before it was. */
static void test_each_for_itself(void **state)
{
    struct fixture *f = *state;

    ask(f, "set a 0 0 10\r\n123", "");
    ask(f, "get a\r\n", "END\r\n");
    ask(f, "get a", "");
    ask(f, "get b\r\n", "END\r\n");
    ask(f, "quit\r\n", "");
    ask(f, "get b\r\n", "END\r\n");
}

/* Text and binary, datagram by datagram. */
static void test_binary(void **state)
{
    static const uint8_t header[8] = {0, 1, 0, 0, 0, 1, 0, 0};
    static const char noop[24] = {(char)0x80, 0x0a};
    static const char answer[24] = {(char)0x81, 0x0a};
    struct fixture *f = *state;

    ask(f, "get a\r\n", "END\r\n");
    assert_int_equal(serve(f, header, noop, sizeof(noop)), NET_UDP_SERVED);
    assert_int_equal(f->len, sizeof(answer));
    assert_memory_equal(f->text, answer, sizeof(answer));
    ask(f, "get a\r\n", "END\r\n");
}

static void test_malformed(void **state)
{
    static const uint8_t headers[][8] = {
        {0, 1, 0, 0, 0, 0, 0, 0}, /* a message of no datagrams */
        {0, 1, 0, 0, 0, 2, 0, 0}, /* of two */
        {0, 1, 0, 0, 1, 1, 0, 0},
    };
    static const uint8_t odd[8] = {0, 1, 0, 7, 0, 1, 9, 9}; /* sequence and reserved don't matter */
    static const struct net_udp_request cut = {.datagram = odd, .len = 3};
    struct fixture *f = *state;
    size_t i;

    for (i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
        assert_int_equal(serve(f, headers[i], "get a\r\n", 7), NET_UDP_MALFORMED);
        assert_int_equal(f->len, 0);
    }
    assert_int_equal(serve(f, odd, "", 0), NET_UDP_MALFORMED);
    assert_int_equal(net_udp_serve(&f->udp, f->session, &cut, &f->reply), NET_UDP_MALFORMED);
    assert_int_equal(serve(f, odd, "get a\r\n", 7), NET_UDP_SERVED);
    assert_string_equal(f->text, "END\r\n");
}

/* Stores a value by appending to it, since a datagram has a limit. */
static void store(struct fixture *f, const char *key, size_t len)
{
    static char request[40000];
    const size_t part = 30000;
    size_t n, head;

    snprintf(request, sizeof(request), "set %s 0 0 0\r\n\r\n", key);
    ask(f, request, "STORED\r\n");
    for (; len > 0; len -= n) {
        n = len < part ? len : part;
        head = (size_t)snprintf(request, sizeof(request), "append %s 0 0 %zu\r\n", key, n);
        memset(request + head, 'v', n);
        memcpy(request + head + n, "\r\n", 3);
        ask(f, request, "STORED\r\n");
    }
}

static void test_large_replies(void **state)
{
    static const uint8_t header[8] = {0xff, 0xff, 0, 0, 0, 1, 0, 0};
    static const size_t lens[] = {1361, 1362, 1363, 9000, 1000000};
    struct fixture *f = *state;
    char head[40];
    size_t i, reply_len;

    for (i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
        store(f, "big", lens[i]);
        reply_len = (size_t)snprintf(head, sizeof(head), "VALUE big 0 %zu\r\n", lens[i]);
        reply_len += lens[i] + 7;
        assert_int_equal(serve(f, header, "get big\r\n", 9), NET_UDP_SERVED);
        assert_int_equal(f->len, reply_len);
        assert_memory_equal(f->text, head, strlen(head));
        assert_string_equal(f->text + f->len - 8, "v\r\nEND\r\n");
    }
}

/* A small question has no huge answer, and nothing is left behind of what did not fit. */
static void test_too_large(void **state)
{
    static const uint8_t header[8] = {0, 9, 0, 0, 0, 1, 0, 0};
    static const char binary_get[] = "\x80\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x03"
                                     "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
                                     "big";
    struct fixture *f = *state;
    char twice[2 * sizeof(binary_get)];

    store(f, "big", 1000000);
    assert_int_equal(serve(f, header, "get big big\r\n", 13), NET_UDP_TOO_LARGE);
    assert_string_equal(f->text, "SERVER_ERROR the reply is too large for UDP\r\n");
    ask(f, "get b\r\n", "END\r\n");
    memcpy(twice, binary_get, 27);
    memcpy(twice + 27, binary_get, 27);
    assert_int_equal(serve(f, header, twice, 54), NET_UDP_TOO_LARGE);
    assert_int_equal(f->len, 0);
    ask(f, "get b\r\n", "END\r\n");
}

static void test_room(void **state)
{
    static const uint8_t datagram[] = "\0\1\0\0\0\1\0\0get b\r\n";
    static const struct net_udp_request request = {.datagram = datagram, .len = 15};
    struct fixture *f = *state;
    struct net_udp_reply first, second;

    net_udp_clear(&f->udp);
    assert_int_equal(net_udp_serve(&f->udp, f->session, &request, &first), NET_UDP_SERVED);
    assert_true(net_udp_has_room(&f->udp));
    assert_int_equal(net_udp_serve(&f->udp, f->session, &request, &second), NET_UDP_SERVED);
    assert_ptr_equal(second.bytes, first.bytes + 5);
    assert_memory_equal(first.bytes, "END\r\nEND\r\n", 10);
    f->udp.used = NET_UDP_REPLY_BYTES_MAX + 1;
    assert_false(net_udp_has_room(&f->udp));
}

/* A request that its datagram does not end holds no memory until the next one. */
static void test_cut_request_holds_nothing(void **state)
{
    static const uint8_t datagram[] = "\0\1\0\0\0\1\0\0set b 0 0 100000\r\nabc";
    static const struct net_udp_request request = {.datagram = datagram,
                                                   .len = sizeof(datagram) - 1};
    struct fixture *f = *state;

    (void)net_udp_serve(&f->udp, f->session, &request, &f->reply);
    assert_true(u_list_is_empty(&f->worker->uploads));
    net_udp_clear(&f->udp);
    ask(f, "get b\r\n", "END\r\n");
}

/* A reply of exactly the limit passes, one byte more does not. */
static void test_longest_reply(void **state)
{
    static const uint8_t header[8] = {0, 9, 0, 0, 0, 1, 0, 0};
    struct fixture *f = *state;

    store(f, "big", 1000);
    open_limit(f, 1000 + 27 - 2, 0); /* VALUE big 0 1000, END and line ends */
    assert_int_equal(serve(f, header, "get big\r\n", 9), NET_UDP_SERVED);
    assert_int_equal(f->len, 1000 + 27 - 2);
    open_limit(f, 1000 + 27 - 3, 0);
    assert_int_equal(serve(f, header, "get big\r\n", 9), NET_UDP_TOO_LARGE);
    assert_string_equal(f->text, "SERVER_ERROR the reply is too large for UDP\r\n");
}

/* One source is sent so much and no more; others are not affected, and time passes. */
static void test_rate_of_a_source(void **state)
{
    static const uint8_t header[8] = {0, 9, 0, 0, 0, 1, 0, 0};
    struct fixture *f = *state;
    unsigned served = 0, i;

    store(f, "v", 1000);
    open_limit(f, 64 * 1024, 100 * 1000);
    f->now_us = 1000000;
    f->source = 1;
    for (i = 0; i < 200; i++)
        served += serve(f, header, "get v\r\n", 7) == NET_UDP_SERVED;
    assert_in_range(served, 97, 98); /* each has 1023 bytes, a header of 8, less 15 asked with */
    assert_int_equal(serve(f, header, "get v\r\n", 7), NET_UDP_LIMITED);
    assert_int_equal(f->len, 0);
    ask(f, "set v 0 0 1000 noreply\r\n", "");

    /* A reply that is no longer than its request is never withheld, and is served. */
    ask(f, "set a_key_that_is_long_enough 0 0 2\r\nxy\r\n", "STORED\r\n");
    f->source = 2;
    assert_int_equal(serve(f, header, "get v\r\n", 7), NET_UDP_SERVED);
    f->source = 1;
    f->now_us += 100 * 1000; /* a tenth of a second: 10,000 bytes */
    for (served = 0, i = 0; i < 200; i++)
        served += serve(f, header, "get v\r\n", 7) == NET_UDP_SERVED;
    assert_in_range(served, 9, 10);
}

/* The longest reply passes at any rate. */
static void test_slow_rate(void **state)
{
    static const uint8_t header[8] = {0, 9, 0, 0, 0, 1, 0, 0};
    struct fixture *f = *state;

    store(f, "big", 60000);
    open_limit(f, 64 * 1024, 1);
    f->now_us = 1000000;
    assert_int_equal(serve(f, header, "get big\r\n", 9), NET_UDP_SERVED);
    assert_int_equal(serve(f, header, "get big\r\n", 9), NET_UDP_LIMITED);
}

/* A reply of no more bytes than its request amplifies nothing: it passes at any time. */
static void test_no_amplification(void **state)
{
    static const uint8_t key[16] = {3}, ip[4] = {10, 0, 0, 1};
    struct net_udp_limit *limit = net_udp_limit_create(1000, 1000, key);
    uint64_t source = net_udp_source(false, ip);

    assert_true(net_udp_limit_take(limit, source, 0, 1000, 5000000));
    assert_false(net_udp_limit_take(limit, source, 99, 100, 5000000));
    assert_true(net_udp_limit_take(limit, source, 100, 100, 4999999)); /* a clock that is behind */
    assert_true(net_udp_limit_take(limit, source, 101, 100, 5000000));
    net_udp_limit_destroy(limit);
    (void)state;
}

/* An IPv6 source is its network of 64 bits; forged sources drain other buckets than a client's. */
static void test_sources(void **state)
{
    static const uint8_t key[16] = {3};
    uint8_t one[16] = {0xfd, 1}, other[16] = {0xfd, 1};
    struct net_udp_limit *limit = net_udp_limit_create(1000, 1000, key);
    unsigned refused = 0, i;
    uint8_t ip[4];

    other[15] = 9;
    assert_true(net_udp_source(true, one) == net_udp_source(true, other));
    other[7] = 1;
    assert_true(net_udp_source(true, one) != net_udp_source(true, other));
    for (i = 0; i < 1000; i++) {
        memcpy(ip, &i, 4);
        refused += !net_udp_limit_take(limit, net_udp_source(false, ip), 0, 1000, 5000000);
    }
    assert_in_range(refused, 1, 200); /* of 4096 buckets some are met twice */
    net_udp_limit_destroy(limit);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_requests, setup, teardown),
        cmocka_unit_test_setup_teardown(test_each_for_itself, setup, teardown),
        cmocka_unit_test_setup_teardown(test_binary, setup, teardown),
        cmocka_unit_test_setup_teardown(test_malformed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_large_replies, setup, teardown),
        cmocka_unit_test_setup_teardown(test_too_large, setup, teardown),
        cmocka_unit_test_setup_teardown(test_longest_reply, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rate_of_a_source, setup, teardown),
        cmocka_unit_test_setup_teardown(test_slow_rate, setup, teardown),
        cmocka_unit_test(test_no_amplification),
        cmocka_unit_test(test_sources),
        cmocka_unit_test_setup_teardown(test_room, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cut_request_holds_nothing, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
