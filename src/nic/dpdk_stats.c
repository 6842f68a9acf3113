/* SPDX-License-Identifier: BSD-3-Clause */
/* Statistics: the device's, reported by its first queue, and each queue's. */
#include <stdlib.h>
#include <string.h>

#include "nic/dpdk_port.h"

/* Whether the name of an extended statistic is about lost or wrong frames. */
static bool is_of_interest(const char *name)
{
    static const char *const words[] = {"drop",   "miss",   "err", "discard", "no_mbuf",
                                        "nombuf", "jabber", "bad", "alloc"};
    size_t i;

    for (i = 0; i < U_ARRAY_LEN(words); i++) {
        if (strstr(name, words[i]) != NULL)
            return true;
    }
    return false;
}

/* Whether rte_eth_stats_get() or our own counters report it already. */
static bool is_reported(const char *name)
{
    static const char *const names[] = {"rx_missed_errors", "rx_errors", "tx_errors",
                                        "rx_mbuf_allocation_errors"};
    size_t i;

    for (i = 0; i < U_ARRAY_LEN(names); i++) {
        if (strcmp(name, names[i]) == 0)
            return true;
    }
    return false;
}

void dpdk_stats_choose(struct dpdk_port *port)
{
    int count = rte_eth_xstats_get_names(port->id, NULL, 0);
    struct rte_eth_xstat_name *names;
    int i;

    if (count <= 0)
        return;
    names = calloc((size_t)count, sizeof(names[0]));
    if (names == NULL || rte_eth_xstats_get_names(port->id, names, (unsigned)count) != count)
        count = 0;
    for (i = 0; i < count && port->xstats_count < DPDK_XSTATS_MAX; i++) {
        const char *name = names[i].name;
        char *to = port->xstats_names[port->xstats_count];

        if (!is_of_interest(name) || is_reported(name) ||
            strlen(name) + sizeof("dpdk_x_") > sizeof(port->xstats_names[0]))
            continue;
        memcpy(to, "dpdk_x_", sizeof("dpdk_x_"));
        strncat(to, name, sizeof(port->xstats_names[0]) - sizeof("dpdk_x_"));
        port->xstats_ids[port->xstats_count++] = (uint64_t)i;
    }
    free(names);
}

static void emit_device(const struct dpdk_port *port, nic_stats_emit *emit, void *emit_ctx)
{
    uint64_t values[DPDK_XSTATS_MAX] = {0};
    struct rte_eth_stats stats = {0};
    struct rte_eth_link link = {0};
    unsigned i;

    (void)rte_eth_stats_get(port->id, &stats); /* zeros if the device has none */
    (void)rte_eth_link_get_nowait(port->id, &link);
    emit(emit_ctx, "dpdk_link_up", link.link_status == RTE_ETH_LINK_UP);
    emit(emit_ctx, "dpdk_rx_frames", stats.ipackets);
    emit(emit_ctx, "dpdk_rx_bytes", stats.ibytes);
    emit(emit_ctx, "dpdk_rx_missed", stats.imissed);
    emit(emit_ctx, "dpdk_rx_errors", stats.ierrors);
    emit(emit_ctx, "dpdk_rx_no_packet", stats.rx_nombuf);
    emit(emit_ctx, "dpdk_tx_frames", stats.opackets);
    emit(emit_ctx, "dpdk_tx_bytes", stats.obytes);
    emit(emit_ctx, "dpdk_tx_errors", stats.oerrors);
    (void)rte_eth_xstats_get_by_id(port->id, port->xstats_ids, values, port->xstats_count);
    for (i = 0; i < port->xstats_count; i++)
        emit(emit_ctx, port->xstats_names[i], values[i]);
}

void dpdk_stats(struct nic *nic, nic_stats_emit *emit, void *emit_ctx)
{
    const struct dpdk_queue *queue = U_CONTAINER_OF(nic, struct dpdk_queue, nic);
    const struct dpdk_counters *c = &queue->counters;

    if (nic->queue == 0) {
        emit_device(queue->port, emit, emit_ctx);
        emit(emit_ctx, "dpdk_intr_handled", queue->port->intr.handled);
    }
    emit(emit_ctx, "dpdk_rx_csum_good", c->rx_csum_good);
    emit(emit_ctx, "dpdk_rx_segmented", c->rx_segmented);
    emit(emit_ctx, "dpdk_rx_chain_drops", c->rx_chain_drops);
    emit(emit_ctx, "dpdk_tx_full", c->tx_full);
    emit(emit_ctx, "dpdk_tx_down_drops", c->tx_down_drops);
    emit(emit_ctx, "dpdk_tx_no_memory", c->tx_no_memory);
    emit(emit_ctx, "dpdk_tx_refused", c->tx_refused);
    emit(emit_ctx, "dpdk_tx_zero_copy", c->tx_zero_copy);
    emit(emit_ctx, "dpdk_tx_offloads", c->tx_offloads);
    emit(emit_ctx, "dpdk_alloc_failed", c->alloc_failed);
    emit(emit_ctx, "dpdk_interrupt_waits", c->interrupt_waits);
    emit(emit_ctx, "dpdk_timed_waits", c->timed_waits);
    emit(emit_ctx, "dpdk_interrupts", c->interrupts);
    emit(emit_ctx, "dpdk_pool_in_use", rte_mempool_in_use_count(queue->pool) - queue->kept_count);
}
