/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices that EAL has opened: how one of them is named. */
#define _GNU_SOURCE /* CPU_EQUAL */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <rte_ethdev.h>

#include "base/base.h"
#include "nic/dpdk.h"
#include "nic/dpdk_port.h"
#include "nic_testing.h"

static const struct {
    const char *dev;
    unsigned port;
    const char *message; /* null: it is found */
} rows[] = {
    {NULL, 0,
     "several devices, choose one with --dev: 0 (net_null0), 1 (net_null1), 2 (net_null2)"},
    {"3", 0, "no port 3; there are 0 (net_null0), 1 (net_null1), 2 (net_null2)"},
    {"99999999999", 0, "no port 99999999999"},
    {"net_null7", 7, NULL}, /* made here */
    {"1", 1, NULL},
    {"net_null0", 0, NULL},
    {NULL, 2, NULL}, /* the only one then: a closed device is gone */
};

static void devices_are_found_by_number_and_by_name(void **state)
{
    char error[NIC_ERROR_MAX], name[RTE_ETH_NAME_MAX_LEN], eal[160];
    struct nic_dpdk_config config = {.eal = eal};
    cpu_set_t before, after;
    struct nic *nic;
    int cpu = 0;
    unsigned i;

    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    while (!CPU_ISSET(cpu, &before))
        cpu++;
    snprintf(eal, sizeof(eal),
             "--no-huge --lcores=0@%d --vdev=net_null0,no-rx=1 --vdev=net_null1,no-rx=1 "
             "--vdev=net_null2,no-rx=1",
             cpu);
    for (i = 0; i < U_ARRAY_LEN(rows); i++) {
        config.dev = rows[i].dev;
        error[0] = '\0';
        if (rows[i].message != NULL) {
            assert_int_equal(nic_dpdk_open(&config, 1, &nic, error), -1);
            assert_non_null(strstr(error, rows[i].message));
            continue;
        }
        if (nic_dpdk_open(&config, 1, &nic, error) != 1)
            fail_msg("%s", error);
        assert_int_equal(rte_eth_dev_get_name_by_port(((struct dpdk_queue *)nic)->port->id, name),
                         0);
        assert_int_equal(name[strlen("net_null")] - '0', rows[i].port);
        nic_close(nic);
    }
    /* EAL pins the thread that starts it, but the workers run where the program may. */
    assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
    assert_true(CPU_EQUAL(&before, &after));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(devices_are_found_by_number_and_by_name)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
