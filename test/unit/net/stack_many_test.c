/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several stack workers on one device of one queue, all in this thread and under a clock that the
 * test moves: a second stack plays the clients on the other end of a link in memory.
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
#include "net/stack_worker.h"
#include "nic/steer.h"

#define PORT 11211
#define WORKERS 3
#define CLIENTS 48
#define STEP_US 100

struct client {
    struct us_conn *conn;
    bool connected;
    char got[16];
    size_t got_len;
};

struct fixture {
    struct nic *peer;
    struct cache *cache;
    struct net_worker *workers[WORKERS];
    struct us_stack *stack; /* of the clients */
    void *memory;
    uint64_t now_us;
    struct client clients[CLIENTS];
};

static struct us_addr address(uint8_t last)
{
    struct us_addr addr = {.family = US_IP4, .bytes = {10, 0, 0, last}};

    return addr;
}

static struct net_stack_worker *worker_of(const struct fixture *f, unsigned i)
{
    return (struct net_stack_worker *)f->workers[i];
}

static void open_clients(struct fixture *f)
{
    struct us_addr addr = address(2);
    struct us_config config;

    us_config_defaults(&config);
    memcpy(config.mac, f->peer->mac, 6);
    memset(config.secret, 7, sizeof(config.secret));
    config.conn_max = config.half_open_max = CLIENTS;
    config.mtu = f->peer->mtu;
    f->memory = calloc(1, us_memory_bytes(&config));
    f->stack = us_create(&config, f->memory, us_memory_bytes(&config), f->now_us);
    assert_non_null(f->stack);
    assert_int_equal(us_addr_add(f->stack, &addr, 24), 0);
}

static void open_workers(struct fixture *f, struct nic *nic)
{
    struct cache_config cache = {.start_us = f->now_us, .start_unix_s = 1700000000};
    struct net_stack_config config = {.port = PORT, .addr_count = 1, .workers = WORKERS};
    struct nic *lanes[WORKERS];
    const char *why = NULL;
    char error[NET_ERROR_MAX];

    cache.settings.memory_bytes = 64 << 20;
    cache.settings.item_bytes_max = 1 << 20;
    cache.settings.connections_max = CLIENTS;
    cache.settings.threads = WORKERS;
    cache.settings.evict = true;
    f->cache = cache_create(&cache, &why);
    if (!f->cache)
        fail_msg("cache_create: %s", why);
    assert_int_equal(nic_steer_open(&nic, 1, WORKERS, lanes, error), 0);
    config.cache = f->cache;
    config.addrs[0].addr = address(1);
    config.addrs[0].prefix_len = 24;
    config.conn_max = CLIENTS;
    memset(config.secret, 9, sizeof(config.secret));
    for (config.number = 0; config.number < WORKERS; config.number++) {
        f->workers[config.number] = net_stack_worker_open(lanes[config.number], &config, error);
        assert_non_null(f->workers[config.number]);
    }
    assert_int_equal(net_stack_link_workers(f->cache, f->workers, WORKERS), 0);
    for (unsigned i = 0; i < WORKERS; i++)
        assert_int_equal(net_stack_begin(worker_of(f, i)), 0);
}

static struct fixture *fixture_open(void)
{
    struct nic_loopback_config loop = {0};
    struct fixture *f = calloc(1, sizeof(*f));
    struct nic *ends[2];
    char error[NIC_ERROR_MAX];

    f->now_us = 5000000;
    assert_int_equal(nic_loopback_open(&loop, ends, error), 0);
    f->peer = ends[0];
    open_clients(f);
    open_workers(f, ends[1]);
    return f;
}

static void fixture_close(struct fixture *f)
{
    unsigned i;

    for (i = 0; i < WORKERS; i++)
        net_stack_end(worker_of(f, i), f->now_us);
    for (i = 0; i < WORKERS; i++)
        net_worker_close(f->workers[i]);
    cache_end(f->cache);
    nic_close(f->peer);
    free(f->memory);
    free(f);
}

/* ---- the clients ------------------------------------------------------------------------- */

static void take_events(struct fixture *f)
{
    struct us_event ev;

    while (us_next_event(f->stack, &ev)) {
        struct client *client = ev.user;

        if (ev.type == US_EV_CONNECTED)
            client->connected = true;
        else if (ev.type == US_EV_CLOSED)
            client->conn = NULL;
        if (ev.type != US_EV_DATA)
            continue;
        assert_true(client->got_len + ev.len < sizeof(client->got));
        memcpy(client->got + client->got_len, ev.data, ev.len);
        client->got_len += ev.len;
    }
}

static void turn(struct fixture *f)
{
    struct us_pkt *pkts[NIC_BURST_MAX];
    unsigned n = nic_rx_burst(f->peer, pkts, NIC_BURST_MAX);
    unsigned i;

    us_input(f->stack, pkts, n, f->now_us);
    take_events(f);
    nic_release(f->peer, pkts, n);
    n = nic_alloc(f->peer, pkts, NIC_BURST_MAX);
    i = us_output(f->stack, pkts, n, f->now_us);
    assert_int_equal(nic_tx_burst(f->peer, pkts, i), i);
    nic_release(f->peer, pkts + i, n - i);
    for (i = 0; i < WORKERS; i++)
        net_stack_turn(worker_of(f, i), f->now_us);
    f->now_us += STEP_US;
}

static void connect_all(struct fixture *f)
{
    struct us_addr server = address(1);
    unsigned i;

    for (i = 0; i < CLIENTS; i++) {
        f->clients[i].conn = us_connect(f->stack, &server, PORT, 0, &f->clients[i], NULL);
        assert_non_null(f->clients[i].conn);
    }
    for (i = 0; i < 200; i++)
        turn(f);
    for (i = 0; i < CLIENTS; i++)
        assert_true(f->clients[i].connected);
}

static uint64_t counter_of(const struct fixture *f, unsigned worker, const char *name)
{
    unsigned i;

    for (i = 0; i < us_counter_count(); i++) {
        if (strcmp(us_counter_name(i), name) == 0)
            return us_counter(worker_of(f, worker)->stack, i);
    }
    fail_msg("no counter %s", name);
    return 0;
}

/* ---- tests ------------------------------------------------------------------------------- */

static void connections_are_shared_out_and_served(void **state)
{
    struct fixture *f = fixture_open();
    uint64_t accepted = 0;
    unsigned i;

    connect_all(f);
    for (i = 0; i < WORKERS; i++) {
        uint64_t own = net_counter_read(&worker_of(f, i)->counters[NET_STACK_ACCEPTED]);

        assert_true(own > 0);
        accepted += own;
    }
    assert_int_equal(accepted, CLIENTS);
    for (i = 0; i < CLIENTS; i++)
        assert_int_equal(us_send(f->stack, f->clients[i].conn, "mn\r\n", 4), 4);
    for (i = 0; i < 100; i++)
        turn(f);
    for (i = 0; i < CLIENTS; i++) {
        assert_int_equal(f->clients[i].got_len, 4);
        assert_memory_equal(f->clients[i].got, "MN\r\n", 4);
    }
    fixture_close(f);
}

/* Every worker knows the client; the first alone has announced and answered. */
static void one_speaks_for_the_addresses(void **state)
{
    struct fixture *f = fixture_open();
    unsigned i;

    connect_all(f);
    assert_true(counter_of(f, 0, "arp_tx_replies") > 0);
    for (i = 1; i < WORKERS; i++) {
        assert_int_equal(counter_of(f, i, "arp_tx_replies"), 0);
        assert_true(counter_of(f, i, "arp_rx") > 0);
    }
    fixture_close(f);
}

/* The first worker's device, in which nothing is under way. */
static struct nic_ops first_ops;
static struct net_worker *first_worker;
static unsigned looks;

/* The pause is given up when the worker looks for the third time. */
static bool give_up_third(struct nic *nic)
{
    if (++looks == 3)
        net_worker_resume(first_worker);
    return false;
}

/* A worker at rest does not stop while others work: each takes back its vote, and continues. */
static void one_does_not_rest_alone(void **state)
{
    struct fixture *f = fixture_open();
    struct nic *nic = worker_of(f, 0)->nic;
    const struct nic_ops *lane_ops = nic->ops;

    connect_all(f);
    first_ops = *lane_ops;
    first_ops.has_in_transit = give_up_third;
    first_worker = f->workers[0];
    looks = 0;
    nic->ops = &first_ops;
    assert_int_equal(net_worker_pause(first_worker), 0);
    assert_int_equal(net_stack_pause(worker_of(f, 0)), 0);
    nic->ops = lane_ops;
    assert_int_equal(looks, 3);
    assert_false(net_worker_wait_paused(first_worker, 0));
    assert_int_equal(atomic_load(&worker_of(f, 0)->rest_votes), 0);
    fixture_close(f);
}

struct wanted {
    const char *name;
    uint64_t value;
};

static void match(void *ctx, const char *name, const char *value)
{
    struct wanted *wanted = ctx;

    if (strcmp(name, wanted->name) == 0)
        wanted->value = strtoull(value, NULL, 10);
}

static void add_value(void *ctx, const char *name, uint64_t value)
{
    struct wanted *wanted = ctx;

    if (strcmp(name, wanted->name) == 0)
        wanted->value += value;
}

/* The sum of what the devices of the workers say. */
static uint64_t sum_of(const struct fixture *f, const char *name)
{
    struct wanted sum = {.name = name};
    unsigned i;

    for (i = 0; i < WORKERS; i++)
        nic_stats(worker_of(f, i)->nic, add_value, &sum);
    return sum.value;
}

/* The lists of statistics are sums over the workers, asked by way of any connection. */
static void statistics_are_sums(void **state)
{
    static const char *const names[] = {"lane_forwarded", "lane_received"};
    struct fixture *f = fixture_open();
    struct wanted wanted;
    unsigned i;

    connect_all(f);
    for (i = 0; i < 2; i++) {
        assert_true(sum_of(f, names[i]) > CLIENTS);
        wanted = (struct wanted){.name = names[i]};
        net_stack_fill_nic(worker_of(f, 0), match, &wanted);
        assert_int_equal(wanted.value, sum_of(f, names[i]));
    }
    wanted = (struct wanted){.name = "sessions_accepted"};
    net_stack_fill_ustack(worker_of(f, 0), match, &wanted);
    assert_int_equal(wanted.value, CLIENTS);
    wanted = (struct wanted){.name = "conns_open"};
    net_stack_fill_ustack(worker_of(f, 0), match, &wanted);
    assert_int_equal(wanted.value, CLIENTS);
    fixture_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connections_are_shared_out_and_served),
        cmocka_unit_test(one_speaks_for_the_addresses),
        cmocka_unit_test(one_does_not_rest_alone),
        cmocka_unit_test(statistics_are_sums),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
