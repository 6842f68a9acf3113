/* SPDX-License-Identifier: BSD-3-Clause */
/* PCI addresses, and why DPDK cannot use the device with one. */
#include "nic/dpdk_pci.h"

#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "nic/error.h"

#define PATH_BYTES 512

bool dpdk_pci_address(const char *dev, char address[DPDK_PCI_ADDRESS_MAX])
{
    unsigned domain = 0, bus, device, function;
    char end;

    if (strncmp(dev, "pci:", 4) == 0)
        dev += 4;
    if (sscanf(dev, "%x:%x:%x.%x%c", &domain, &bus, &device, &function, &end) != 4) {
        domain = 0;
        if (sscanf(dev, "%x:%x.%x%c", &bus, &device, &function, &end) != 3)
            return false;
    }
    return snprintf(address, DPDK_PCI_ADDRESS_MAX, "%04x:%02x:%02x.%x", domain, bus, device,
                    function) < DPDK_PCI_ADDRESS_MAX;
}

/* The drivers whose devices DPDK can use; others leave a device to the kernel. */
static bool is_for_dpdk(const char *driver)
{
    static const char *const drivers[] = {"vfio-pci", "uio_pci_generic", "igb_uio", "mlx5_core",
                                          "mlx4_core"};
    size_t i;

    for (i = 0; i < U_ARRAY_LEN(drivers) && strcmp(driver, drivers[i]) != 0; i++)
        continue;
    return i < U_ARRAY_LEN(drivers);
}

bool dpdk_pci_explain(const char *dev, const char *sysfs, char error[NIC_ERROR_MAX])
{
    char address[DPDK_PCI_ADDRESS_MAX], path[PATH_BYTES], link[PATH_BYTES];
    const char *driver = NULL;
    ssize_t bytes;

    if (!dpdk_pci_address(dev, address))
        return false;
    snprintf(path, sizeof(path), "%s/%s", sysfs, address);
    if (access(path, F_OK) < 0) {
        nic_error_set(error, "dpdk: there is no PCI device %s: see dpdk-devbind.py --status",
                      address);
        return true;
    }
    snprintf(path, sizeof(path), "%s/%s/driver", sysfs, address);
    bytes = readlink(path, link, sizeof(link) - 1);
    if (bytes > 0) {
        link[bytes] = '\0';
        driver = basename(link);
        if (is_for_dpdk(driver))
            return false;
    }
    nic_error_set(error,
                  "dpdk: %s is bound to %s%.40s, which DPDK cannot use: dpdk-devbind.py -b "
                  "vfio-pci %s (the kernel then no longer has the interface)",
                  address, driver != NULL ? "the driver " : "no driver",
                  driver != NULL ? driver : "", address);
    return true;
}
