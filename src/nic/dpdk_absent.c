/* SPDX-License-Identifier: BSD-3-Clause */
/* Stub for builds without DPDK. */
#include "nic/dpdk.h"
#include "nic/error.h"

int nic_dpdk_open(const struct nic_dpdk_config *config, unsigned queues, struct nic *queue[],
                  char error[NIC_ERROR_MAX])
{
    return nic_error_set(error,
                         "this build has no DPDK: install libdpdk-dev (22.11 or later), then "
                         "configure again with -Ddpdk=enabled");
}

int nic_dpdk_prepare(const struct nic_dpdk_config *config, unsigned queues,
                     char error[NIC_ERROR_MAX])
{
    return 0; /* nic_dpdk_open() has the message */
}

bool nic_dpdk_close_frees(const struct nic_dpdk_config *config)
{
    return false;
}
