/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Work is proportional to the traffic, not to the number of open connections: while busy
 * connections exchange data the memory of the idle ones is protected, so any access to it is a
 * fault.
 */
#define _DEFAULT_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "pair.h"
#include "ustack/tcp/tcp.h"

enum { IDLE = 2000, BUSY = 8, PORT = 7000, ROUNDS = 200 };

static struct pair pair;
static unsigned accepted, echoed, closed;

static void on_server_event(struct pair_host *host, const struct us_event *event)
{
    if (event->type == US_EV_ACCEPTED)
        accepted++;
    else if (event->type == US_EV_DATA)
        us_send(host->stack, event->conn, event->data, event->len);
    else if (event->type == US_EV_PEER_CLOSED)
        us_close(host->stack, event->conn);
}

static void on_client_event(struct pair_host *host, const struct us_event *event)
{
    (void)host;
    echoed += event->type == US_EV_DATA ? event->len : 0;
    closed += event->type == US_EV_CLOSED;
}

static void open_pair(u_u32 conn_max)
{
    struct us_config config;

    pair_config(&config, 0);
    config.conn_max = conn_max;
    config.half_open_max = conn_max;
    config.time_wait_max = 16;
    pair_open(&pair, &config);
    pair.host[0].on_event = on_server_event;
    pair.host[1].on_event = on_client_event;
    accepted = echoed = closed = 0;
    assert_int_equal(us_listen(pair.host[0].stack, PORT, NULL), 0);
}

static struct us_conn *connect_one(void)
{
    struct us_addr to = pair_addr(0);
    struct us_conn *conn = us_connect(pair.host[1].stack, &to, PORT, 0, NULL, NULL);

    assert_non_null(conn);
    return conn;
}

static void open_idle(void)
{
    unsigned i;

    for (i = 0; i < IDLE; i++) {
        connect_one();
        if (i % 64 == 63)
            pair_run(&pair, pair.now_us + 10000);
    }
    pair_run(&pair, pair.now_us + 100000000); /* until no timer is left of the handshakes */
    assert_int_equal(accepted, IDLE);
}

/* Whole pages of the pool that hold nothing but its first `items` objects. */
static void lock_pool(const struct us_pool *pool, unsigned items, int protection)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t begin = ((uintptr_t)pool->base + page - 1) & ~(page - 1);
    uintptr_t end = ((uintptr_t)pool->base + (uintptr_t)items * pool->item_bytes) & ~(page - 1);

    assert_true(end - begin > 100 * page);
    assert_int_equal(mprotect((void *)begin, end - begin, protection), 0);
}

static void lock_idle(int protection)
{
    lock_pool(&pair.host[0].stack->conn_pool, IDLE, protection);
    lock_pool(&pair.host[1].stack->conn_pool, IDLE, protection);
}

static void busy_ones_do_not_touch_idle_ones(void **state)
{
    struct us_conn *conns[BUSY];
    unsigned i, round;

    (void)state;
    open_pair(IDLE + BUSY);
    open_idle();
    /* They come first in the chains of the table, where some share a bucket with an idle one. */
    for (i = 0; i < BUSY; i++)
        conns[i] = connect_one();
    pair_run(&pair, pair.now_us + 10000000);
    pair.check = 0; /* us_check() looks at all of them */
    lock_idle(PROT_NONE);
    pair.lose_every = 50;
    for (round = 0; round < ROUNDS; round++) {
        for (i = 0; i < BUSY; i++)
            assert_int_equal(us_send(pair.host[1].stack, conns[i], "0123456789abcdef", 16), 16);
        pair_run(&pair, pair.now_us + 2000);
    }
    pair.lose_every = 0;
    for (i = 0; i < BUSY; i++)
        us_close(pair.host[1].stack, conns[i]);
    pair_run(&pair, pair.now_us + 5000000);
    lock_idle(PROT_READ | PROT_WRITE);
    assert_int_equal(echoed, ROUNDS * BUSY * 16);
    assert_null(us_check(pair.host[0].stack));
    assert_null(us_check(pair.host[1].stack));
    pair_close(&pair);
}

/* A connection with its share of the table; the aim of half of that would leave out IPv6. */
static void an_idle_connection_is_small(void **state)
{
    struct us_config config;
    unsigned long with_few, with_many;

    (void)state;
    us_config_defaults(&config);
    config.conn_max = 1 << 10;
    with_few = us_memory_bytes(&config);
    config.conn_max = 1 << 17;
    with_many = us_memory_bytes(&config);
    assert_true(with_many - with_few <= ((1ul << 17) - (1ul << 10)) * 1024);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(busy_ones_do_not_touch_idle_ones),
        cmocka_unit_test(an_idle_connection_is_small),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
