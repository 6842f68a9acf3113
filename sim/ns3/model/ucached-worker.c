/* SPDX-License-Identifier: BSD-3-Clause */
/* A worker of ucached on a device of the caller; see ucached-worker.h. */
#include "ucached-worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/cache.h"
#include "net/stack_worker.h"
#include "nic/nic.h"
#include "nic/pool.h"

#define POOL_PKTS (8 * NIC_BURST_MAX)
#define TURNS_MAX 64 /* in one call; then the simulator's other events run first */

struct sim_nic {
    struct nic nic; /* first: the worker owns it */
    struct ucached_device device;
    struct nic_pool *pool;
    uint64_t rx_frames, tx_frames;
    bool is_down; /* frames are discarded: the simulation ends */
};

struct ucached_worker {
    struct sim_nic *nic;
    struct cache *cache;
    struct net_worker *net;
    struct net_stack_worker *loop; /* the same */
};

/* ---- the device -------------------------------------------------------------------------- */

static struct sim_nic *sim_of(struct nic *nic)
{
    return U_CONTAINER_OF(nic, struct sim_nic, nic);
}

static unsigned sim_alloc(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    return nic_pool_alloc(sim_of(nic)->pool, pkts, n);
}

static void sim_release(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    nic_pool_release(sim_of(nic)->pool, pkts, n);
}

static unsigned sim_rx_burst(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    struct sim_nic *sim = sim_of(nic);
    unsigned done = 0;

    while (!sim->is_down && done < n && nic_pool_alloc(sim->pool, &pkts[done], 1) == 1) {
        struct us_pkt *pkt = pkts[done];

        pkt->len = sim->device.receive(sim->device.ctx, pkt->data, pkt->room);
        if (pkt->len == 0) {
            nic_pool_release(sim->pool, &pkt, 1);
            break;
        }
        pkt->next_seg = NULL;
        pkt->flags = sim->device.checksums ? 0 : US_PKT_IP_CSUM_GOOD | US_PKT_L4_CSUM_GOOD;
        done++;
    }
    sim->rx_frames += done;
    return done;
}

static unsigned sim_tx_burst(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    struct sim_nic *sim = sim_of(nic);
    unsigned done = 0;

    while (!sim->is_down && done < n && sim->device.has_room(sim->device.ctx)) {
        sim->device.send(sim->device.ctx, pkts[done]->data, pkts[done]->len);
        done++;
    }
    sim->tx_frames += done;
    if (sim->is_down)
        done = n;
    nic_pool_release(sim->pool, pkts, done);
    return done;
}

static int sim_wait(struct nic *nic, uint64_t timeout_us)
{
    return 0; /* the caller waits */
}

static void sim_wake(struct nic *nic)
{
}

static void sim_stats(struct nic *nic, nic_stats_emit *emit, void *emit_ctx)
{
    emit(emit_ctx, "ns3_rx_frames", sim_of(nic)->rx_frames);
    emit(emit_ctx, "ns3_tx_frames", sim_of(nic)->tx_frames);
}

static void sim_close(struct nic *nic)
{
    nic_pool_destroy(sim_of(nic)->pool);
    free(sim_of(nic));
}

static const struct nic_ops sim_ops = {
    .name = "ns3",
    .rx_burst = sim_rx_burst,
    .alloc = sim_alloc,
    .release = sim_release,
    .tx_burst = sim_tx_burst,
    .wait = sim_wait,
    .wake = sim_wake,
    .stats = sim_stats,
    .close = sim_close,
};

static struct sim_nic *sim_open(const struct ucached_device *device)
{
    struct sim_nic *sim = calloc(1, sizeof(*sim));

    if (!sim)
        return NULL;
    sim->pool = nic_pool_create(POOL_PKTS, device->mtu);
    if (!sim->pool) {
        free(sim);
        return NULL;
    }
    sim->device = *device;
    sim->nic.ops = &sim_ops;
    sim->nic.mtu = device->mtu;
    sim->nic.queues = 1;
    sim->nic.numa_node = NIC_NUMA_ANY;
    if (!device->checksums)
        sim->nic.caps = US_CAP_RX_CSUM | US_CAP_TX_IP_CSUM | US_CAP_TX_L4_CSUM;
    memcpy(sim->nic.mac, device->mac, sizeof(sim->nic.mac));
    return sim;
}

/* ---- the worker -------------------------------------------------------------------------- */

static struct cache *make_cache(const struct ucached_worker_config *config, uint64_t now_us,
                                const char **why)
{
    struct cache_config cache = {.start_us = now_us, .start_unix_s = 1700000000, .memory_fd = -1};

    cache_settings_defaults(&cache.settings);
    cache.settings.memory_bytes = config->memory_bytes;
    cache.settings.item_bytes_max = config->item_bytes_max;
    cache.settings.connections_max = config->connections_max;
    cache.settings.tcp_port = config->port;
    cache.settings.threads = 1;
    memcpy(cache.secret, config->us.secret, sizeof(cache.secret));
    return cache_create(&cache, why);
}

static struct net_worker *open_net(struct ucached_worker *worker,
                                   const struct ucached_worker_config *config, uint64_t now_us,
                                   char error[NET_ERROR_MAX])
{
    struct net_stack_config net = {.cache = worker->cache,
                                   .idle = NET_IDLE_INTERRUPT,
                                   .addr_count = 1,
                                   .port = config->port,
                                   .conn_max = config->connections_max,
                                   .us = &config->us,
                                   .clock_us = &now_us};

    net.addrs[0].addr = config->addr;
    net.addrs[0].prefix_len = config->prefix_len;
    net.gateway_count = config->has_gateway;
    net.gateways[0] = config->gateway;
    memcpy(net.secret, config->us.secret, sizeof(net.secret));
    return net_stack_worker_open(&worker->nic->nic, &net, error);
}

static void free_worker(struct ucached_worker *worker)
{
    if (worker->net)
        net_worker_close(worker->net); /* and its nic */
    else if (worker->nic)
        sim_close(&worker->nic->nic);
    if (worker->cache)
        cache_destroy(worker->cache);
    free(worker);
}

struct ucached_worker *ucached_worker_open(const struct ucached_device *device,
                                           const struct ucached_worker_config *config,
                                           uint64_t now_us, char error[UCACHED_WORKER_ERROR_MAX])
{
    struct ucached_worker *worker = calloc(1, sizeof(*worker));
    const char *why = "no memory";

    error[0] = '\0';
    if (!worker) {
        snprintf(error, UCACHED_WORKER_ERROR_MAX, "%s", why);
        return NULL;
    }
    worker->nic = sim_open(device);
    worker->cache = worker->nic ? make_cache(config, now_us, &why) : NULL;
    if (!worker->cache)
        snprintf(error, UCACHED_WORKER_ERROR_MAX, "%s", why);
    else
        worker->net = open_net(worker, config, now_us, error);
    worker->loop = (struct net_stack_worker *)worker->net;
    if (worker->net && net_stack_link_workers(worker->cache, &worker->net, 1) == 0 &&
        net_stack_begin(worker->loop) == 0)
        return worker;
    if (error[0] == '\0')
        snprintf(error, UCACHED_WORKER_ERROR_MAX, "the cache takes no worker");
    free_worker(worker);
    return NULL;
}

uint64_t ucached_worker_run(struct ucached_worker *worker, uint64_t now_us)
{
    unsigned turns;

    for (turns = 0; turns < TURNS_MAX && net_stack_turn(worker->loop, now_us); turns++)
        continue;
    if (turns == TURNS_MAX)
        return now_us;
    /* A stalled device: its next free place is an event of the caller. */
    return now_us + u_max64(net_stack_sleep_us_max(worker->loop, now_us), 1);
}

uint64_t ucached_worker_counter(const struct ucached_worker *worker, const char *name)
{
    unsigned i;

    for (i = 0; i < us_counter_count(); i++)
        if (strcmp(name, us_counter_name(i)) == 0)
            return us_counter(worker->loop->stack, i);
    return UINT64_MAX;
}

void ucached_worker_close(struct ucached_worker *worker, uint64_t now_us)
{
    worker->nic->is_down = true;
    net_stack_end(worker->loop, now_us);
    free_worker(worker);
}
