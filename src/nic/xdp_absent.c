/* SPDX-License-Identifier: BSD-3-Clause */
/* Stub for builds without AF_XDP. */
#include "nic/error.h"
#include "nic/xdp.h"

static void report_absent(const char *dev, char error[NIC_ERROR_MAX])
{
    nic_error_set(error,
                  "xdp %s: this build has no AF_XDP: install libxdp-dev, libbpf-dev and clang, "
                  "and build again (Linux, meson option 'xdp')",
                  dev);
}

int nic_xdp_open(const struct nic_xdp_config *config, unsigned queues, struct nic *queue[],
                 char error[NIC_ERROR_MAX])
{
    report_absent(config->dev, error);
    return -1;
}

unsigned nic_xdp_host_addrs(const char *dev, struct nic_xdp_addr *addrs, unsigned max,
                            char error[NIC_ERROR_MAX])
{
    report_absent(dev, error);
    return 0;
}
