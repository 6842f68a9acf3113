/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Removal of a device while it is in use.
 *
 * Drivers of virtual devices report it as an event of the port. For a PCI device behind vfio the
 * kernel requests it from the process that has the device open and waits until it is closed; EAL
 * reports that request as an event of the device.
 */
#define ALLOW_EXPERIMENTAL_API /* rte_dev_event_callback_register() */

#include <rte_dev.h>

#include "nic/dpdk_port.h"

static void set_removed(struct dpdk_port *port)
{
    unsigned i;

    __atomic_store_n(&port->removed, true, __ATOMIC_RELEASE);
    for (i = 0; i < port->queue_count; i++)
        dpdk_wake(&port->queues[i]->nic);
}

static int on_port_event(uint16_t id, enum rte_eth_event_type event, void *ctx, void *result)
{
    set_removed(ctx);
    return 0;
}

static void on_device_event(const char *name, enum rte_dev_event_type event, void *ctx)
{
    if (event == RTE_DEV_EVENT_REMOVE)
        set_removed(ctx);
}

void dpdk_unplug_watch(struct dpdk_port *port)
{
    (void)rte_eth_dev_callback_register(port->id, RTE_ETH_EVENT_INTR_RMV, on_port_event, port);
    (void)rte_dev_event_callback_register(rte_dev_name(port->info.device), on_device_event, port);
}

void dpdk_unplug_ignore(struct dpdk_port *port)
{
    (void)rte_eth_dev_callback_unregister(port->id, RTE_ETH_EVENT_INTR_RMV, on_port_event, port);
    (void)rte_dev_event_callback_unregister(rte_dev_name(port->info.device), on_device_event, port);
}
