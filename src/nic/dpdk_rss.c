/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RSS of the device: configures the key and indirection table of nic/rss.h and reads back what the
 * device uses. A device that uses another key or table keeps its own; the workers then forward
 * frames to each other (nic/steer.h).
 */
#include <string.h>

#include "nic/dpdk_port.h"

void dpdk_rss_choose(struct dpdk_port *port, const struct nic_dpdk_config *config)
{
    const uint64_t tcp = RTE_ETH_RSS_NONFRAG_IPV4_TCP | RTE_ETH_RSS_NONFRAG_IPV6_TCP;
    const uint64_t all = tcp | RTE_ETH_RSS_NONFRAG_IPV4_UDP | RTE_ETH_RSS_NONFRAG_IPV6_UDP;
    uint8_t key_bytes = port->info.hash_key_size;

    if (port->queue_count == 1 || (config->without & NIC_DPDK_WITHOUT_RSS) ||
        (port->info.flow_type_rss_offloads & tcp) == 0)
        return;
    port->conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
    port->conf.rx_adv_conf.rss_conf.rss_hf = port->info.flow_type_rss_offloads & all;
    if (key_bytes > 0 && key_bytes <= NIC_RSS_KEY_BYTES) {
        memcpy(port->rss_key, nic_rss_key, sizeof(port->rss_key));
        port->conf.rx_adv_conf.rss_conf.rss_key = port->rss_key;
        port->conf.rx_adv_conf.rss_conf.rss_key_len = key_bytes;
    }
    if (port->info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_RSS_HASH)
        port->conf.rxmode.offloads |= RTE_ETH_RX_OFFLOAD_RSS_HASH;
}

/* Programs the device's indirection table and reads it back. */
static bool program_table(const struct dpdk_port *port)
{
    struct rte_eth_rss_reta_entry64 wanted[RTE_ETH_RSS_RETA_SIZE_512 / RTE_ETH_RETA_GROUP_SIZE];
    struct rte_eth_rss_reta_entry64 got[U_ARRAY_LEN(wanted)];
    uint16_t size = port->info.reta_size;
    uint16_t i;

    /* A larger table repeats the entries; a smaller one cannot hold them. */
    if (size < NIC_RSS_TABLE_SIZE || size > RTE_ETH_RSS_RETA_SIZE_512 ||
        size % NIC_RSS_TABLE_SIZE != 0)
        return false;
    memset(wanted, 0, sizeof(wanted));
    for (i = 0; i < size; i++) {
        struct rte_eth_rss_reta_entry64 *group = &wanted[i / RTE_ETH_RETA_GROUP_SIZE];

        group->mask = UINT64_MAX;
        group->reta[i % RTE_ETH_RETA_GROUP_SIZE] =
            (uint16_t)nic_rss_table(i % NIC_RSS_TABLE_SIZE, port->queue_count);
    }
    memcpy(got, wanted, sizeof(got));
    if (rte_eth_dev_rss_reta_update(port->id, wanted, size) < 0)
        return false;
    for (i = 0; i < U_ARRAY_LEN(got); i++)
        memset(got[i].reta, 0xff, sizeof(got[i].reta));
    if (rte_eth_dev_rss_reta_query(port->id, got, size) < 0)
        return false;
    for (i = 0; i < size / RTE_ETH_RETA_GROUP_SIZE; i++) {
        if (memcmp(got[i].reta, wanted[i].reta, sizeof(got[i].reta)) != 0)
            return false;
    }
    return true;
}

bool dpdk_rss_is_exact(const struct dpdk_port *port)
{
    const uint64_t tcp = RTE_ETH_RSS_NONFRAG_IPV4_TCP | RTE_ETH_RSS_NONFRAG_IPV6_TCP;
    uint8_t key[NIC_RSS_KEY_BYTES];
    struct rte_eth_rss_conf conf = {.rss_key = key, .rss_key_len = sizeof(key)};

    if (port->conf.rxmode.mq_mode != RTE_ETH_MQ_RX_RSS ||
        port->conf.rx_adv_conf.rss_conf.rss_key == NULL || !program_table(port))
        return false;
    memset(key, 0, sizeof(key));
    return rte_eth_dev_rss_hash_conf_get(port->id, &conf) == 0 && (conf.rss_hf & tcp) == tcp &&
           memcmp(key, nic_rss_key, port->info.hash_key_size) == 0;
}
