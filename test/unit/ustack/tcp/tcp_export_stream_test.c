/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams whose server moves from instance to instance, with and without losses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "pair.h"

enum { QUEUE_ROOM = 1 << 20 };

static u_u8 queue[QUEUE_ROOM];

enum { STREAM_BYTES = 2000 * 1000 };

/* An echo server that moves to a new instance again and again, and its client. */
struct stream {
    struct pair pair;
    struct us_conn *server;
    u_u32 sent;
    u_u32 received;
    u_u64 next_us; /* of the handover */
    u_u32 every_us;
    unsigned moves;
};

static u_u8 stream_byte(u_u32 at)
{
    return (u_u8)(at * 7 + (at >> 8) * 13);
}

static void client_send(struct stream *stream, struct us_conn *conn)
{
    u_u8 bytes[3000];
    u_u32 n, i;
    long taken;

    do {
        n = STREAM_BYTES - stream->sent < sizeof(bytes) ? STREAM_BYTES - stream->sent
                                                        : (u_u32)sizeof(bytes);
        for (i = 0; i < n; i++)
            bytes[i] = stream_byte(stream->sent + i);
        taken = us_send(stream->pair.host[1].stack, conn, bytes, n);
        assert_true(taken >= 0);
        stream->sent += (u_u32)taken;
    } while (taken == (long)sizeof(bytes));
}

static void client_event(struct pair_host *host, const struct us_event *event)
{
    struct stream *stream = host->app;
    u_u32 i;

    if (event->type == US_EV_CONNECTED || event->type == US_EV_SENDABLE)
        client_send(stream, event->conn);
    assert_int_not_equal(event->type, US_EV_CLOSED);
    if (event->type != US_EV_DATA)
        return;
    for (i = 0; i < event->len; i++)
        assert_int_equal(event->data[i], stream_byte(stream->received + i));
    stream->received += event->len;
}

static void server_event(struct pair_host *host, const struct us_event *event)
{
    struct stream *stream = host->app;
    long taken;

    if (event->type == US_EV_ACCEPTED)
        stream->server = event->conn;
    if (event->type == US_EV_SENDABLE)
        us_recv_resume(host->stack, event->conn);
    assert_int_not_equal(event->type, US_EV_CLOSED);
    if (event->type != US_EV_DATA)
        return;
    taken = us_send(host->stack, event->conn, event->data, event->len);
    assert_true(taken >= 0);
    assert_int_equal(
        us_recv_keep(host->stack, event->conn, event->data + taken, event->len - (u_u32)taken),
        US_OK);
}

static void old_instance_ends(struct us_stack *stack, struct us_conn *conn, void *memory)
{
    struct us_event event;
    int closed = 0;

    us_conn_forget(stack, conn);
    while (us_next_event(stack, &event))
        closed += event.type == US_EV_CLOSED && event.reason == US_CLOSE_EXPORTED;
    assert_int_equal(closed, 1);
    assert_null(us_check(stack));
    free(memory);
}

/* Replaces the server's instance if its connection can be exported now. */
static void server_moves(struct pair_host *host)
{
    struct stream *stream = host->app;
    struct us_conn *former = stream->server;
    struct us_stack *old = host->stack;
    void *memory = host->memory;
    struct us_addr addr = pair_addr(0);
    struct us_conn_state moved;
    struct us_config config;

    if (stream->server == NULL || stream->pair.now_us < stream->next_us)
        return;
    if (us_conn_export(old, stream->server, &moved, queue, QUEUE_ROOM) != US_OK)
        return;
    pair_config(&config, 0);
    config.dad_probes = 0;
    memset(config.secret, (int)stream->moves, sizeof(config.secret));
    host->memory = calloc(1, host->memory_bytes);
    host->stack = us_create(&config, host->memory, host->memory_bytes, stream->pair.now_us);
    assert_int_equal(us_addr_add(host->stack, &addr, addr.family == US_IP6 ? 64 : 24), 0);
    assert_int_equal(us_listen(host->stack, 7, NULL), 0);
    stream->server = us_conn_import(host->stack, &moved, queue, NULL, NULL);
    assert_non_null(stream->server);
    us_request_sendable(host->stack, stream->server); /* for kept bytes, if there are any */
    old_instance_ends(old, former, memory);
    if (++stream->moves % 2 == 0)
        host->head = host->tail; /* what arrives during the handover is lost */
    stream->next_us = stream->pair.now_us + stream->every_us;
}

static void run_stream(u_u32 every_us, u_u32 lose_percent, int ip6, u_u64 limit_us)
{
    static struct stream stream;
    struct us_addr to;
    u_u64 end_us;

    memset(&stream, 0, sizeof(stream));
    pair_use_ip6(ip6);
    to = pair_addr(0);
    pair_open(&stream.pair, NULL);
    u_prng_seed(&stream.pair.prng, every_us);
    stream.every_us = every_us;
    stream.pair.host[0].app = stream.pair.host[1].app = &stream;
    stream.pair.host[0].on_event = server_event;
    stream.pair.host[0].on_idle = server_moves;
    stream.pair.host[1].on_event = client_event;
    stream.pair.lose_percent = lose_percent;
    assert_int_equal(us_listen(stream.pair.host[0].stack, 7, NULL), 0);
    assert_non_null(us_connect(stream.pair.host[1].stack, &to, 7, 0, NULL, NULL));
    end_us = stream.pair.now_us + limit_us;
    while (stream.received < STREAM_BYTES && stream.pair.now_us < end_us)
        pair_run(&stream.pair, stream.pair.now_us + 10000);
    assert_int_equal(stream.received, STREAM_BYTES);
    assert_true(stream.moves >= 2);
    pair_close(&stream.pair);
    pair_use_ip6(0);
}

#define SECOND ((u_u64)1000 * 1000)

static void stream_survives_moves(void **state)
{
    (void)state;
    run_stream(300, 0, 0, 10 * SECOND);
    run_stream(500, 0, 1, 10 * SECOND);
}

static void stream_survives_moves_with_loss(void **state)
{
    u_u32 every_us;

    (void)state;
    for (every_us = 3000; every_us < 40000; every_us = every_us * 2 + 777) {
        run_stream(every_us, 5, 0, 400 * SECOND);
        run_stream(every_us, 5, 1, 400 * SECOND);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stream_survives_moves),
        cmocka_unit_test(stream_survives_moves_with_loss),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
