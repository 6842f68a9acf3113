/* SPDX-License-Identifier: BSD-3-Clause */
/* Stub for builds without TAP devices. */
#include "nic/error.h"
#include "nic/nic.h"

int nic_tap_open(const struct nic_tap_config *config, unsigned queues, struct nic *queue[],
                 char error[NIC_ERROR_MAX])
{
    return nic_error_set(error, "tap %s: this build has no TAP support (Linux, meson option 'tap')",
                         config->name);
}
