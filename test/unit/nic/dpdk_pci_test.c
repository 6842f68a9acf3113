/* SPDX-License-Identifier: BSD-3-Clause */
/* PCI addresses, and the messages about devices that DPDK cannot use. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "nic/dpdk_pci.h"

static void test_addresses(void **state)
{
    static const char *const names[] = {"17:00.0", "0000:17:00.0", "pci:0000:17:00.0"};
    static const char *const others[] = {"17:00", "0000:17:00.0,x", "net_tap0", ""};
    char address[DPDK_PCI_ADDRESS_MAX];
    size_t i;

    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        assert_true(dpdk_pci_address(names[i], address));
        assert_string_equal(address, "0000:17:00.0");
    }
    for (i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_false(dpdk_pci_address(others[i], address));
}

/* A device below a folder that stands for sysfs; the driver may be null. */
static void add_device(const char *sysfs, const char *address, const char *driver)
{
    char path[256], target[256];

    snprintf(path, sizeof(path), "%s/%s", sysfs, address);
    assert_int_equal(mkdir(path, 0700), 0);
    if (driver == NULL)
        return;
    snprintf(path, sizeof(path), "%s/%s/driver", sysfs, address);
    snprintf(target, sizeof(target), "../../drivers/%s", driver);
    assert_int_equal(symlink(target, path), 0);
}

static void test_what_to_do(void **state)
{
    static const char *const files[] = {"0000:01:00.0/driver", "0000:01:00.0", "0000:02:00.0",
                                        "0000:03:00.0/driver", "0000:03:00.0"};
    char sysfs[] = "/tmp/dpdk_pci_XXXXXX", path[256], error[NIC_ERROR_MAX];
    size_t i;

    assert_non_null(mkdtemp(sysfs));
    add_device(sysfs, "0000:01:00.0", "e1000e");
    add_device(sysfs, "0000:02:00.0", NULL);
    add_device(sysfs, "0000:03:00.0", "vfio-pci");
    assert_true(dpdk_pci_explain("01:00.0", sysfs, error));
    assert_non_null(strstr(error, "the driver e1000e"));
    assert_non_null(strstr(error, "dpdk-devbind.py -b vfio-pci 0000:01:00.0"));
    assert_true(dpdk_pci_explain("0000:02:00.0", sysfs, error));
    assert_non_null(strstr(error, "no driver"));
    assert_true(dpdk_pci_explain("0000:04:00.0", sysfs, error));
    assert_non_null(strstr(error, "no PCI device 0000:04:00.0"));
    assert_false(dpdk_pci_explain("0000:03:00.0", sysfs, error));
    assert_false(dpdk_pci_explain("net_tap0", sysfs, error));
    for (i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", sysfs, files[i]);
        assert_int_equal(remove(path), 0);
    }
    assert_int_equal(rmdir(sysfs), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_what_to_do),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
