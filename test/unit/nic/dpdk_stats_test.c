/* SPDX-License-Identifier: BSD-3-Clause */
/* Statistics of a NIC: each number under its name, and the device's once. */
#include "base/base.h"
#include "dpdk_driver.h"

static struct {
    char names[128][64];
    uint64_t values[128];
    unsigned count;
} said;

static void collect(void *ctx, const char *name, uint64_t value)
{
    assert_in_range(said.count, 0, U_ARRAY_LEN(said.values) - 1);
    assert_in_range(strlen(name), 1, sizeof(said.names[0]) - 1);
    memcpy(said.names[said.count], name, strlen(name) + 1);
    said.values[said.count++] = value;
}

/* Whether there is a counter with this name, and its value. */
static bool has(const char *name, uint64_t value)
{
    unsigned i;

    for (i = 0; i < said.count; i++) {
        if (strcmp(said.names[i], name) == 0) {
            assert_int_equal(said.values[i], value);
            return true;
        }
    }
    return false;
}

static unsigned extended(void)
{
    unsigned count = 0, i;

    for (i = 0; i < said.count; i++)
        count += strncmp(said.names[i], "dpdk_x_", 7) == 0;
    return count;
}

static void the_device_is_reported_by_its_first_queue(void **state)
{
    static const char *const names[] = {"link_up",   "rx_frames", "tx_frames",
                                        "rx_bytes",  "tx_bytes",  "rx_missed",
                                        "rx_errors", "tx_errors", "rx_no_packet"};
    struct nic_dpdk_config config = DRIVER_CONFIG;
    struct nic *nic[2];
    unsigned i;

    assert_int_equal(driver_open(&config, 2, nic), 2);
    for (i = 0; i < 2; i++) {
        char name[32];
        unsigned j;

        said.count = 0;
        driver.link_down = false;
        nic_stats(nic[i], collect, NULL);
        assert_true(has("dpdk_tx_full", 0)); /* each queue's own */
        for (j = 0; j < U_ARRAY_LEN(names); j++) {
            snprintf(name, sizeof(name), "dpdk_%s", names[j]);
            assert_int_equal(has(name, j == 0 ? 1 : j), i == 0);
        }
        assert_int_equal(has("dpdk_intr_handled", 0), i == 0);
    }
    said.count = 0;
    driver.link_down = true;
    nic_stats(nic[0], collect, NULL);
    assert_true(has("dpdk_link_up", 0));
    driver_close(nic, 2);
}

/* Of the driver's own statistics those about lost frames that no other counter has. */
static void the_drivers_own_statistics_of_losses_are_chosen(void **state)
{
    static const char *const names[] = {"rx_good_packets",
                                        "rx_missed_errors",
                                        "tx_q0_drops",
                                        "mac_local_errors",
                                        "rx_errors",
                                        "rx_dropped_with_a_name_too_long_for_a_row",
                                        "rx_dropped_with_a_name_as_long_as_can_be"};
    struct nic_dpdk_config config = DRIVER_CONFIG;
    struct nic *nic;

    driver.counter_names = names;
    driver.counters = U_ARRAY_LEN(names);
    assert_int_equal(driver_open(&config, 1, &nic), 1);
    said.count = 0;
    nic_stats(nic, collect, NULL);
    assert_true(has("dpdk_x_tx_q0_drops", 102));
    assert_true(has("dpdk_x_mac_local_errors", 103));
    assert_true(has("dpdk_x_rx_dropped_with_a_name_as_long_as_can_be", 106));
    assert_int_equal(extended(), 3);
    driver_close(&nic, 1);
}

/* A NIC may have hundreds. */
static void the_drivers_own_statistics_are_bounded(void **state)
{
    static const char *names[DPDK_XSTATS_MAX + 4];
    struct nic_dpdk_config config = DRIVER_CONFIG;
    struct nic *nic;
    unsigned i;

    for (i = 0; i < U_ARRAY_LEN(names); i++)
        names[i] = "rx_q_drops";
    driver.counter_names = names;
    driver.counters = U_ARRAY_LEN(names);
    assert_int_equal(driver_open(&config, 1, &nic), 1);
    said.count = 0;
    nic_stats(nic, collect, NULL);
    assert_int_equal(extended(), DPDK_XSTATS_MAX);
    driver_close(&nic, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_device_is_reported_by_its_first_queue, driver_setup),
        cmocka_unit_test_setup(the_drivers_own_statistics_of_losses_are_chosen, driver_setup),
        cmocka_unit_test_setup(the_drivers_own_statistics_are_bounded, driver_setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
