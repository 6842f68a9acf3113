/* SPDX-License-Identifier: BSD-3-Clause */
#include "rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "coherence.h"
#include "net/stack_worker.h"

#define PORT 11211
#define STEP_US 20
#define TURNS_MAX 2000       /* of each worker, for one request */
#define TURNS_OF_SECOND 1000 /* enough for all that is due once a second */
#define REQUEST_BYTES_MAX 65536
#define SECOND_US 1000000

struct lane {
    struct nic *peer; /* the client's end of the link */
    struct net_worker *worker;
    struct us_stack *client;
    void *memory;
    struct us_conn *conn;
    bool connected;
    char request[REQUEST_BYTES_MAX];
    size_t request_len, sent;
    char end[16]; /* of what was received */
    bool replied;
};

struct rig {
    struct cache *cache;
    unsigned workers;
    uint64_t now_us;
    void (*before)(void *ctx, unsigned worker);
    void *before_ctx;
    const char *ending; /* of the replies */
    struct lane lanes[COHERENCE_WORKERS_MAX];
};

static struct us_addr address(uint8_t last)
{
    struct us_addr addr = {.family = US_IP4, .bytes = {10, 0, 0, last}};

    return addr;
}

static void open_cache(struct rig *rig)
{
    struct cache_config config = {.start_us = rig->now_us, .start_unix_s = 1700000000};
    const char *why = NULL;

    config.settings.memory_bytes = 64 << 20;
    config.settings.item_bytes_max = 1 << 20;
    config.settings.connections_max = 64;
    config.settings.threads = rig->workers;
    config.settings.evict = true;
    rig->cache = cache_create(&config, &why);
    if (!rig->cache)
        fail_msg("cache_create: %s", why);
}

static void open_client(struct lane *lane, uint64_t now_us)
{
    struct us_addr own = address(2), server = address(1);
    struct us_config config;

    us_config_defaults(&config);
    memcpy(config.mac, lane->peer->mac, sizeof(config.mac));
    memset(config.secret, 7, sizeof(config.secret));
    config.conn_max = config.half_open_max = 4;
    lane->memory = calloc(1, us_memory_bytes(&config));
    lane->client = us_create(&config, lane->memory, us_memory_bytes(&config), now_us);
    assert_non_null(lane->client);
    assert_int_equal(us_addr_add(lane->client, &own, 24), 0);
    lane->conn = us_connect(lane->client, &server, PORT, 0, NULL, NULL);
    assert_non_null(lane->conn);
}

/* Each worker has a link of its own, so that each announces the address on it. */
static void open_lane(struct rig *rig, struct lane *lane)
{
    struct net_stack_config config = {.port = PORT, .addr_count = 1, .workers = rig->workers};
    struct nic_loopback_config loop = {0};
    struct nic *ends[2];
    char error[NET_ERROR_MAX];

    assert_int_equal(nic_loopback_open(&loop, ends, error), 0);
    lane->peer = ends[0];
    config.cache = rig->cache;
    config.addrs[0].addr = address(1);
    config.addrs[0].prefix_len = 24;
    config.conn_max = 4;
    memset(config.secret, 9, sizeof(config.secret));
    lane->worker = net_stack_worker_open(ends[1], &config, error);
    assert_non_null(lane->worker);
    open_client(lane, rig->now_us);
}

/* ---- turns ------------------------------------------------------------------------------- */

static void take_data(const struct rig *rig, struct lane *lane, const struct us_event *event)
{
    size_t kept = sizeof(lane->end) - 1, n = event->len < kept ? event->len : kept;
    size_t ending = rig->ending ? strlen(rig->ending) : 0;

    memmove(lane->end, lane->end + n, kept - n);
    memcpy(lane->end + kept - n, event->data + event->len - n, n);
    lane->replied = ending > 0 && memcmp(lane->end + kept - ending, rig->ending, ending) == 0;
}

static void client_turn(const struct rig *rig, struct lane *lane)
{
    struct us_pkt *pkts[NIC_BURST_MAX];
    unsigned n = nic_rx_burst(lane->peer, pkts, NIC_BURST_MAX);
    unsigned filled, sent;
    struct us_event event;
    long queued;

    us_input(lane->client, pkts, n, rig->now_us);
    while (us_next_event(lane->client, &event)) {
        assert_int_not_equal(event.type, US_EV_CLOSED);
        if (event.type == US_EV_CONNECTED)
            lane->connected = true;
        else if (event.type == US_EV_DATA)
            take_data(rig, lane, &event);
    }
    nic_release(lane->peer, pkts, n);
    if (lane->connected && lane->sent < lane->request_len) {
        queued = us_send(lane->client, lane->conn, lane->request + lane->sent,
                         (u_u32)(lane->request_len - lane->sent));
        assert_true(queued >= 0);
        lane->sent += (size_t)queued;
    }
    n = nic_alloc(lane->peer, pkts, NIC_BURST_MAX);
    filled = us_output(lane->client, pkts, n, rig->now_us);
    sent = nic_tx_burst(lane->peer, pkts, filled);
    nic_release(lane->peer, pkts + sent, n - sent);
}

static void turn(struct rig *rig)
{
    for (unsigned i = 0; i < rig->workers; i++) {
        struct lane *lane = &rig->lanes[i];

        client_turn(rig, lane);
        coherence_run_as((int)i);
        if (rig->before)
            rig->before(rig->before_ctx, i);
        net_stack_turn((struct net_stack_worker *)lane->worker, rig->now_us);
        coherence_run_as(COHERENCE_NOBODY);
    }
    rig->now_us += STEP_US;
}

static bool all(const struct rig *rig, bool (*holds)(const struct lane *lane))
{
    unsigned i = 0;

    while (i < rig->workers && holds(&rig->lanes[i]))
        i++;
    return i == rig->workers;
}

static bool is_connected(const struct lane *lane)
{
    return lane->connected;
}

static bool has_replied(const struct lane *lane)
{
    return lane->replied;
}

static void turn_until(struct rig *rig, bool (*holds)(const struct lane *lane))
{
    for (unsigned i = 0; i < TURNS_MAX && !all(rig, holds); i++)
        turn(rig);
    assert_true(all(rig, holds));
}

/* ---- for the test ------------------------------------------------------------------------ */

struct rig *rig_open(unsigned workers)
{
    struct rig *rig = calloc(1, sizeof(*rig));
    struct net_worker *all_workers[COHERENCE_WORKERS_MAX];

    assert_non_null(rig);
    coherence_forget();
    rig->workers = workers;
    rig->now_us = 5 * SECOND_US;
    open_cache(rig);
    for (unsigned i = 0; i < workers; i++) {
        open_lane(rig, &rig->lanes[i]);
        all_workers[i] = rig->lanes[i].worker;
    }
    assert_int_equal(net_stack_link_workers(rig->cache, all_workers, workers), 0);
    for (unsigned i = 0; i < workers; i++)
        assert_int_equal(net_stack_begin((struct net_stack_worker *)all_workers[i]), 0);
    turn_until(rig, is_connected);
    return rig;
}

void rig_close(struct rig *rig)
{
    for (unsigned i = 0; i < rig->workers; i++)
        net_stack_end((struct net_stack_worker *)rig->lanes[i].worker, rig->now_us);
    for (unsigned i = 0; i < rig->workers; i++) {
        net_worker_close(rig->lanes[i].worker);
        nic_close(rig->lanes[i].peer);
        free(rig->lanes[i].memory);
    }
    cache_destroy(rig->cache);
    free(rig);
}

void rig_before_turn(struct rig *rig, void (*run)(void *ctx, unsigned worker), void *ctx)
{
    rig->before = run;
    rig->before_ctx = ctx;
}

void rig_next_second(struct rig *rig)
{
    rig->now_us += SECOND_US - rig->now_us % SECOND_US;
    for (unsigned i = 0; i < TURNS_OF_SECOND; i++)
        turn(rig);
}

void rig_serve(struct rig *rig, rig_write_request *write_request, unsigned count,
               const char *ending)
{
    rig->ending = ending;
    for (unsigned number = 0; number < count; number++) {
        for (unsigned i = 0; i < rig->workers; i++) {
            struct lane *lane = &rig->lanes[i];
            int len = write_request(lane->request, sizeof(lane->request), i, number);

            assert_in_range(len, 1, sizeof(lane->request));
            lane->request_len = (size_t)len;
            lane->sent = 0;
            lane->replied = false;
            memset(lane->end, 0, sizeof(lane->end));
        }
        turn_until(rig, has_replied);
    }
}
