/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A NIC that DPDK has no driver for here: net_null with the properties, answers and failures that a
 * test sets. Functions of DPDK between the back end and the driver are replaced (--wrap, see
 * meson.build), and record what the back end asks for.
 */
#ifndef DPDK_DRIVER_H
#define DPDK_DRIVER_H

#define ALLOW_EXPERIMENTAL_API /* rte_dev_event_callback_register() */

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <rte_dev.h>
#include <rte_ethdev.h>
#include <rte_interrupts.h>
#include <rte_mempool.h>

#include "nic/dpdk.h"
#include "nic/dpdk_port.h"
#include "nic_testing.h"

#define DRIVER_QUEUES_MAX 4
#define DRIVER_SETUPS_MAX 8

/* Set by a test before it opens the device, and what the back end then asked for. */
static struct {
    /* Properties. */
    const char *name;
    uint64_t rx_offers, tx_offers, rss_offers;
    uint32_t max_lro_bytes;
    uint16_t rx_queues, tx_queues;
    uint16_t min_mtu, max_mtu;
    uint32_t max_frame_bytes;
    uint16_t ring_frames, ring_limit;
    uint16_t table_entries;
    uint8_t key_bytes;
    /* Failures and answers. */
    unsigned refused_configures;            /* how many of the first fail */
    int rx_results[DRIVER_SETUPS_MAX];      /* of setting up queues to receive, in order */
    int tx_results[DRIVER_SETUPS_MAX];      /* likewise, to send */
    int start_result, mac_result;           /* of these calls */
    int table_set_result, table_get_result; /* of the indirection table */
    unsigned table_fixed_from;              /* entries from here on stay 0 */
    bool table_not_read;                    /* the driver reads nothing, without a failure */
    bool has_own_key;
    uint64_t hashes_less;  /* types of frames that the device does not hash after all */
    unsigned missing_pool; /* the pool that there is no memory for, from 1; 0: none */
    int interrupt_result;  /* of adding the interrupt of a queue */
    bool link_down;
    int link_result;
    bool guest_takes_large;
    uint64_t now_us;                  /* of the clock */
    const char *const *counter_names; /* extended statistics; their values are 100, 101, ... */
    unsigned counters;
    /* What it was asked for. */
    struct rte_eth_conf configured;
    unsigned pools;
    sigset_t blocked;    /* signals, while it was started */
    bool signal_is_free; /* a real-time signal, at that time */
    unsigned configures, rx_setups, tx_setups, mac_sets, starts, stops, multicasts;
    uint16_t ring_asked, tx_ring_asked;
    uint32_t room_asked[DRIVER_SETUPS_MAX];
    uint8_t key[NIC_RSS_KEY_BYTES];
    uint16_t table[RTE_ETH_RSS_RETA_SIZE_512];
    unsigned table_sets;
    unsigned link_reads;
    unsigned arms;    /* of the interrupt; odd while a queue may raise it */
    int interrupt_fd; /* an eventfd; -1: no queue has the interrupt */
    rte_eth_dev_cb_fn on_link, on_removal;
    rte_dev_event_cb_fn on_device;
    void *ctx; /* of these */
} driver;

REPLACES(rte_eth_dev_info_get);
REPLACES(rte_eth_dev_configure);
REPLACES(rte_pktmbuf_pool_create);
REPLACES(rte_eth_dev_adjust_nb_rx_tx_desc);
REPLACES(rte_eth_rx_queue_setup);
REPLACES(rte_eth_tx_queue_setup);
REPLACES(rte_eth_dev_start);
REPLACES(rte_eth_dev_stop);
REPLACES(rte_eth_dev_default_mac_addr_set);
REPLACES(rte_eth_allmulticast_enable);
REPLACES(rte_eth_dev_rss_reta_update);
REPLACES(rte_eth_dev_rss_reta_query);
REPLACES(rte_eth_dev_rss_hash_conf_get);
REPLACES(rte_eth_dev_rx_intr_ctl_q);
REPLACES(rte_eth_dev_rx_intr_enable);
REPLACES(rte_eth_dev_rx_intr_disable);
REPLACES(rte_epoll_wait);
REPLACES(rte_eth_link_get_nowait);
REPLACES(rte_eth_dev_callback_register);
REPLACES(rte_eth_dev_callback_unregister);
REPLACES(rte_dev_event_callback_register);
REPLACES(rte_dev_event_callback_unregister);
REPLACES(rte_eth_stats_get);
REPLACES(rte_eth_xstats_get_names);
REPLACES(rte_eth_xstats_get_by_id);
REPLACES(dpdk_vhost_takes_large);
REPLACES(clock_gettime);

int fake_rte_eth_dev_info_get(uint16_t id, struct rte_eth_dev_info *info)
{
    int rc = real_rte_eth_dev_info_get(id, info);

    info->driver_name = driver.name;
    info->rx_offload_capa = driver.rx_offers;
    info->tx_offload_capa = driver.tx_offers;
    info->flow_type_rss_offloads = driver.rss_offers;
    info->max_lro_pkt_size = driver.max_lro_bytes;
    info->max_rx_queues = driver.rx_queues;
    info->max_tx_queues = driver.tx_queues;
    info->min_mtu = driver.min_mtu;
    info->max_mtu = driver.max_mtu;
    info->max_rx_pktlen = driver.max_frame_bytes;
    info->default_rxportconf.ring_size = driver.ring_frames;
    info->default_txportconf.ring_size = driver.ring_frames;
    info->reta_size = driver.table_entries;
    info->hash_key_size = driver.key_bytes;
    return rc;
}

int fake_rte_eth_dev_configure(uint16_t id, uint16_t rx, uint16_t tx,
                               const struct rte_eth_conf *conf)
{
    const struct rte_eth_rss_conf *rss = &conf->rx_adv_conf.rss_conf;
    struct rte_eth_conf plain;

    memset(&plain, 0, sizeof(plain));
    driver.configured = *conf;
    if (rss->rss_key != NULL)
        memcpy(driver.key, rss->rss_key, rss->rss_key_len);
    if (driver.configures++ < driver.refused_configures)
        return -ENOTSUP;
    return real_rte_eth_dev_configure(id, rx, tx, &plain);
}

struct rte_mempool *fake_rte_pktmbuf_pool_create(const char *name, unsigned count, unsigned cache,
                                                 uint16_t private_bytes, uint16_t bytes, int socket)
{
    return ++driver.pools == driver.missing_pool
               ? NULL
               : real_rte_pktmbuf_pool_create(name, count, cache, private_bytes, bytes, socket);
}

int fake_rte_eth_dev_adjust_nb_rx_tx_desc(uint16_t id, uint16_t *rx, uint16_t *tx)
{
    *rx = *rx > driver.ring_limit ? driver.ring_limit : *rx;
    *tx = *tx > driver.ring_limit ? driver.ring_limit : *tx;
    return 0;
}

int fake_rte_eth_rx_queue_setup(uint16_t id, uint16_t queue, uint16_t frames, unsigned socket,
                                const struct rte_eth_rxconf *conf, struct rte_mempool *pool)
{
    unsigned number = driver.rx_setups++;

    assert_in_range(number, 0, DRIVER_SETUPS_MAX - 1);
    driver.ring_asked = frames;
    driver.room_asked[number] = rte_pktmbuf_data_room_size(pool) - RTE_PKTMBUF_HEADROOM;
    if (driver.rx_results[number] != 0)
        return driver.rx_results[number];
    return real_rte_eth_rx_queue_setup(id, queue, frames, socket, conf, pool);
}

int fake_rte_eth_tx_queue_setup(uint16_t id, uint16_t queue, uint16_t frames, unsigned socket,
                                const struct rte_eth_txconf *conf)
{
    unsigned number = driver.tx_setups++;

    assert_in_range(number, 0, DRIVER_SETUPS_MAX - 1);
    driver.tx_ring_asked = frames;
    if (driver.tx_results[number] != 0)
        return driver.tx_results[number];
    return real_rte_eth_tx_queue_setup(id, queue, frames, socket, conf);
}

int fake_rte_eth_dev_start(uint16_t id)
{
    struct sigaction action;

    driver.starts++;
    assert_int_equal(sigaction(SIGRTMIN + 1, NULL, &action), 0);
    driver.signal_is_free = action.sa_handler == SIG_DFL;
    assert_int_equal(pthread_sigmask(SIG_BLOCK, NULL, &driver.blocked), 0);
    return driver.start_result != 0 ? driver.start_result : real_rte_eth_dev_start(id);
}

int fake_rte_eth_dev_stop(uint16_t id)
{
    driver.stops++;
    return real_rte_eth_dev_stop(id);
}

int fake_rte_eth_dev_default_mac_addr_set(uint16_t id, struct rte_ether_addr *addr)
{
    driver.mac_sets++;
    return driver.mac_result;
}

int fake_rte_eth_allmulticast_enable(uint16_t id)
{
    driver.multicasts++;
    return 0;
}

int fake_rte_eth_dev_rss_reta_update(uint16_t id, struct rte_eth_rss_reta_entry64 *groups,
                                     uint16_t entries)
{
    unsigned i;

    assert_int_equal(entries, driver.table_entries);
    driver.table_sets++;
    for (i = 0; i < entries && i < driver.table_fixed_from; i++) {
        const struct rte_eth_rss_reta_entry64 *group = &groups[i / RTE_ETH_RETA_GROUP_SIZE];

        if (group->mask >> i % RTE_ETH_RETA_GROUP_SIZE & 1)
            driver.table[i] = group->reta[i % RTE_ETH_RETA_GROUP_SIZE];
    }
    return driver.table_set_result;
}

int fake_rte_eth_dev_rss_reta_query(uint16_t id, struct rte_eth_rss_reta_entry64 *groups,
                                    uint16_t entries)
{
    unsigned i;

    for (i = 0; i < entries && !driver.table_not_read; i++) {
        struct rte_eth_rss_reta_entry64 *group = &groups[i / RTE_ETH_RETA_GROUP_SIZE];

        if (group->mask >> i % RTE_ETH_RETA_GROUP_SIZE & 1)
            group->reta[i % RTE_ETH_RETA_GROUP_SIZE] = driver.table[i];
    }
    return driver.table_get_result;
}

int fake_rte_eth_dev_rss_hash_conf_get(uint16_t id, struct rte_eth_rss_conf *conf)
{
    assert_in_range(conf->rss_key_len, driver.key_bytes, NIC_RSS_KEY_BYTES);
    memcpy(conf->rss_key, driver.key, driver.key_bytes);
    if (driver.has_own_key)
        conf->rss_key[driver.key_bytes - 1] ^= 1;
    conf->rss_hf = driver.configured.rx_adv_conf.rss_conf.rss_hf & ~driver.hashes_less;
    return 0;
}

/* ---- interrupts and events --------------------------------------------------------------- */

int fake_rte_eth_dev_rx_intr_ctl_q(uint16_t id, uint16_t queue, int epoll_fd, int op, void *data)
{
    struct epoll_event event = {.events = EPOLLIN};

    if (op == RTE_INTR_EVENT_DEL) {
        assert_int_equal(epoll_ctl(epoll_fd, EPOLL_CTL_DEL, driver.interrupt_fd, NULL), 0);
        close(driver.interrupt_fd);
        driver.interrupt_fd = -1;
        return 0;
    }
    assert_int_equal(driver.interrupt_fd, -1); /* one queue at a time */
    if (driver.interrupt_result != 0)
        return driver.interrupt_result;
    driver.interrupt_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, driver.interrupt_fd, &event);
}

int fake_rte_eth_dev_rx_intr_enable(uint16_t id, uint16_t queue)
{
    assert_int_equal(driver.arms++ % 2, 0);
    return 0;
}

int fake_rte_eth_dev_rx_intr_disable(uint16_t id, uint16_t queue)
{
    assert_int_equal(driver.arms++ % 2, 1);
    return 0;
}

int fake_rte_epoll_wait(int epoll_fd, struct rte_epoll_event *events, int max, int timeout_ms)
{
    struct epoll_event event;
    eventfd_t count;
    int n = epoll_wait(epoll_fd, &event, 1, timeout_ms);

    if (n > 0)
        (void)eventfd_read(driver.interrupt_fd, &count);
    return n;
}

int fake_rte_eth_link_get_nowait(uint16_t id, struct rte_eth_link *link)
{
    driver.link_reads++;
    memset(link, 0, sizeof(*link));
    link->link_status = driver.link_down ? RTE_ETH_LINK_DOWN : RTE_ETH_LINK_UP;
    return driver.link_result;
}

static inline rte_eth_dev_cb_fn *driver_callback(enum rte_eth_event_type event)
{
    return event == RTE_ETH_EVENT_INTR_LSC ? &driver.on_link : &driver.on_removal;
}

int fake_rte_eth_dev_callback_register(uint16_t id, enum rte_eth_event_type event,
                                       rte_eth_dev_cb_fn function, void *ctx)
{
    assert_null(*driver_callback(event));
    *driver_callback(event) = function;
    driver.ctx = ctx;
    return 0;
}

int fake_rte_eth_dev_callback_unregister(uint16_t id, enum rte_eth_event_type event,
                                         rte_eth_dev_cb_fn function, void *ctx)
{
    assert_ptr_equal(*driver_callback(event), function);
    assert_ptr_equal(driver.ctx, ctx);
    *driver_callback(event) = NULL;
    return 0;
}

int fake_rte_dev_event_callback_register(const char *name, rte_dev_event_cb_fn function, void *ctx)
{
    driver.on_device = function;
    driver.ctx = ctx;
    return 0;
}

int fake_rte_dev_event_callback_unregister(const char *name, rte_dev_event_cb_fn function,
                                           void *ctx)
{
    assert_ptr_equal(driver.on_device, function);
    driver.on_device = NULL;
    return 0;
}

bool fake_dpdk_vhost_takes_large(uint16_t id)
{
    return driver.guest_takes_large;
}

int fake_clock_gettime(clockid_t id, struct timespec *now)
{
    now->tv_sec = (time_t)(driver.now_us / 1000000);
    now->tv_nsec = (long)(driver.now_us % 1000000) * 1000;
    return 0;
}

/* ---- statistics -------------------------------------------------------------------------- */

int fake_rte_eth_stats_get(uint16_t id, struct rte_eth_stats *stats)
{
    memset(stats, 0, sizeof(*stats));
    stats->ipackets = 1;
    stats->opackets = 2;
    stats->ibytes = 3;
    stats->obytes = 4;
    stats->imissed = 5;
    stats->ierrors = 6;
    stats->oerrors = 7;
    stats->rx_nombuf = 8;
    return 0;
}

int fake_rte_eth_xstats_get_names(uint16_t id, struct rte_eth_xstat_name *names, unsigned size)
{
    unsigned i;

    for (i = 0; i < driver.counters && i < size; i++)
        snprintf(names[i].name, sizeof(names[i].name), "%s", driver.counter_names[i]);
    return (int)driver.counters;
}

int fake_rte_eth_xstats_get_by_id(uint16_t id, const uint64_t *ids, uint64_t *values, unsigned size)
{
    unsigned i;

    for (i = 0; i < size; i++)
        values[i] = 100 + ids[i];
    return (int)size;
}

/* ---- for the tests ----------------------------------------------------------------------- */

#define DRIVER_CONFIG                                                                              \
    {                                                                                              \
        .dev = "net_null0,no-rx=1", .eal = "--no-huge -m 512"                                      \
    }

/* A NIC of one queue, without offloads, for the largest MTU. */
static inline void driver_reset(void)
{
    memset(&driver, 0, sizeof(driver));
    driver.name = "net_test";
    driver.rx_queues = driver.tx_queues = DRIVER_QUEUES_MAX;
    driver.min_mtu = 68;
    driver.max_mtu = UINT16_MAX;
    driver.max_frame_bytes = UINT16_MAX;
    driver.ring_frames = 256;
    driver.ring_limit = UINT16_MAX;
    driver.table_fixed_from = UINT16_MAX;
    driver.interrupt_result = -ENOTSUP;
    driver.interrupt_fd = -1;
}

static inline int driver_setup(void **state)
{
    driver_reset();
    return 0;
}

static inline void count_pool(struct rte_mempool *pool, void *count)
{
    ++*(unsigned *)count;
}

/* The pools of packets of all devices. */
static inline unsigned driver_pools(void)
{
    unsigned count = 0;

    rte_mempool_walk(count_pool, &count);
    return count;
}

/* Opens the device, which succeeds. Returns the number of queues. */
static inline unsigned driver_open(const struct nic_dpdk_config *config, unsigned queues,
                                   struct nic *queue[])
{
    char error[NIC_ERROR_MAX] = "";
    int count = nic_dpdk_open(config, queues, queue, error);

    if (count < 0)
        fail_msg("%s", error);
    return (unsigned)count;
}

/* Opens the device, which fails with a message that has this text, and leaves nothing. */
static inline void driver_fails(const struct nic_dpdk_config *config, unsigned queues,
                                const char *text)
{
    struct nic *queue[NIC_QUEUES_MAX];
    char error[NIC_ERROR_MAX] = "";

    assert_int_equal(nic_dpdk_open(config, queues, queue, error), -1);
    if (strstr(error, text) == NULL)
        fail_msg("'%s' is not in '%s'", text, error);
    assert_int_equal(driver_pools(), 0);
    assert_int_equal(rte_eth_dev_count_avail(), 0);
}

/* The functions that the driver runs for a burst. */
static inline struct rte_eth_fp_ops *driver_bursts(struct nic *nic)
{
    return &rte_eth_fp_ops[((struct dpdk_queue *)nic)->port->id];
}

/* Closes all queues; nothing of the device is left. */
static inline void driver_close(struct nic *queue[], unsigned count)
{
    while (count > 0)
        nic_close(queue[--count]);
    assert_int_equal(driver_pools(), 0);
    assert_int_equal(rte_eth_dev_count_avail(), 0);
    assert_null(driver.on_link);
    assert_null(driver.on_removal);
    assert_null(driver.on_device);
    assert_int_equal(driver.interrupt_fd, -1);
}

#endif
