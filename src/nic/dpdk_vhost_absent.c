/* SPDX-License-Identifier: BSD-3-Clause */
/* What stands in for dpdk_vhost.c where DPDK comes without its vhost driver. */
#include "nic/dpdk_port.h"

bool dpdk_vhost_takes_large(uint16_t port_id)
{
    return false;
}
