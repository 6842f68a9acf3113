/* SPDX-License-Identifier: BSD-3-Clause */
/* Stub for DPDK builds without the vhost driver. */
#include "nic/dpdk_port.h"

bool dpdk_vhost_takes_large(uint16_t port_id)
{
    return false;
}
