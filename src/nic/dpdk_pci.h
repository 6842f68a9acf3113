/* SPDX-License-Identifier: BSD-3-Clause */
/* PCI addresses, and why DPDK cannot use the device with one. */
#ifndef NIC_DPDK_PCI_H
#define NIC_DPDK_PCI_H

#include "nic/nic.h"

#define DPDK_PCI_ADDRESS_MAX 32
#define DPDK_PCI_SYSFS "/sys/bus/pci/devices"

/*
 * Whether a name is a PCI address ("17:00.0", "0000:17:00.0", "pci:17:00.0"); stores it with all
 * four parts.
 */
bool dpdk_pci_address(const char *dev, char address[DPDK_PCI_ADDRESS_MAX]);

/*
 * After a failure: whether there is no such PCI device below `sysfs`, or its driver is one whose
 * devices DPDK cannot use; then with a message that says what to do.
 */
bool dpdk_pci_explain(const char *dev, const char *sysfs, char error[NIC_ERROR_MAX]);

#endif
