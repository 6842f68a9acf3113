/* SPDX-License-Identifier: BSD-3-Clause */
/* RSS of a NIC: which key and table it gets, and when the workers may rely on them. */
#include "base/base.h"
#include "dpdk_driver.h"

#define QUEUES 3

#define TCP4 RTE_ETH_RSS_NONFRAG_IPV4_TCP
#define TCP6 RTE_ETH_RSS_NONFRAG_IPV6_TCP
#define UDP (RTE_ETH_RSS_NONFRAG_IPV4_UDP | RTE_ETH_RSS_NONFRAG_IPV6_UDP)
#define KEY_BYTES 40

static struct nic *queues[QUEUES];

/* A NIC that does all that RSS needs, and more. */
static int setup(void **state)
{
    driver_reset();
    driver.rss_offers = TCP4 | TCP6 | UDP | RTE_ETH_RSS_IPV4 | RTE_ETH_RSS_FRAG_IPV4;
    driver.rx_offers = RTE_ETH_RX_OFFLOAD_RSS_HASH;
    driver.key_bytes = KEY_BYTES;
    driver.table_entries = NIC_RSS_TABLE_SIZE;
    return 0;
}

/* Opens and closes it. Returns whether the queues claim to have the frames of their lane only. */
static bool is_exact(unsigned without, unsigned count)
{
    struct nic_dpdk_config config = DRIVER_CONFIG;
    bool exact;
    unsigned i;

    config.without = without;
    assert_int_equal(driver_open(&config, count, queues), count);
    exact = queues[0]->rss_exact;
    for (i = 1; i < count; i++)
        assert_int_equal(queues[i]->rss_exact, exact);
    driver_close(queues, count);
    return exact;
}

static void the_nic_gets_key_types_and_table(void **state)
{
    const struct rte_eth_conf *conf = &driver.configured;
    static const uint16_t sizes[] = {NIC_RSS_TABLE_SIZE, 256, 512};
    unsigned i, j;

    for (i = 0; i < U_ARRAY_LEN(sizes); i++) {
        setup(NULL);
        driver.table_entries = sizes[i];
        assert_true(is_exact(0, QUEUES));
        assert_int_equal(conf->rxmode.mq_mode, RTE_ETH_MQ_RX_RSS);
        assert_int_equal(conf->rx_adv_conf.rss_conf.rss_hf, TCP4 | TCP6 | UDP);
        assert_int_equal(conf->rx_adv_conf.rss_conf.rss_key_len, KEY_BYTES);
        assert_int_equal(conf->rxmode.offloads, RTE_ETH_RX_OFFLOAD_RSS_HASH);
        assert_memory_equal(driver.key, nic_rss_key, KEY_BYTES);
        for (j = 0; j < sizes[i]; j++) /* the entry of a hash is its remainder */
            assert_int_equal(driver.table[j], nic_rss_lane(j, QUEUES));
    }
}

/* The longest key, and keys that the NIC keeps to itself. */
static void keys_have_the_length_of_the_nic(void **state)
{
    driver.key_bytes = NIC_RSS_KEY_BYTES;
    assert_true(is_exact(0, QUEUES));
    assert_memory_equal(driver.key, nic_rss_key, NIC_RSS_KEY_BYTES);
    setup(NULL);
    driver.key_bytes = 0;
    assert_false(is_exact(0, QUEUES));
    assert_null(driver.configured.rx_adv_conf.rss_conf.rss_key);
    setup(NULL);
    driver.key_bytes = NIC_RSS_KEY_BYTES + 1;
    assert_false(is_exact(0, QUEUES));
    assert_null(driver.configured.rx_adv_conf.rss_conf.rss_key);
}

/* Workers forward frames to each other unless the NIC reports what it was asked for. */
static void a_nic_that_does_otherwise_is_not_relied_on(void **state)
{
    static const uint16_t sizes[] = {0, 64, 192, 640};
    unsigned i;

    for (i = 0; i < U_ARRAY_LEN(sizes); i++) {
        setup(NULL);
        driver.table_entries = sizes[i];
        assert_false(is_exact(0, QUEUES));
        assert_int_equal(driver.table_sets, 0);
    }
    setup(NULL);
    driver.table_set_result = -EIO;
    assert_false(is_exact(0, QUEUES));
    setup(NULL);
    driver.table_get_result = -EIO;
    assert_false(is_exact(0, QUEUES));
    setup(NULL);
    driver.table_not_read = true;
    assert_false(is_exact(0, QUEUES));
    for (i = 0; i < 2; i++) { /* the last entry, or the second half, stays 0 */
        setup(NULL);
        driver.table_fixed_from = i == 0 ? NIC_RSS_TABLE_SIZE - 1 : NIC_RSS_TABLE_SIZE / 2;
        assert_false(is_exact(0, QUEUES));
    }
    setup(NULL);
    driver.has_own_key = true;
    assert_false(is_exact(0, QUEUES));
    for (i = 0; i < 2; i++) {
        setup(NULL);
        driver.hashes_less = i == 0 ? TCP4 : TCP6;
        assert_false(is_exact(0, QUEUES));
    }
    setup(NULL);
    driver.refused_configures = 2; /* RSS was left out */
    assert_false(is_exact(0, QUEUES));
}

/* One queue, no types of TCP, or not wanted: the NIC is not asked for RSS. */
static void rss_is_off_where_it_does_nothing(void **state)
{
    unsigned i;

    for (i = 0; i < 3; i++) {
        setup(NULL);
        if (i == 0)
            driver.rss_offers = UDP | RTE_ETH_RSS_IPV4;
        assert_int_equal(is_exact(i == 1 ? NIC_DPDK_WITHOUT_RSS : 0, i == 2 ? 1 : QUEUES), i == 2);
        assert_int_equal(driver.configured.rxmode.mq_mode, RTE_ETH_MQ_RX_NONE);
        assert_int_equal(driver.configured.rxmode.offloads, 0);
        assert_int_equal(driver.table_sets, 0);
    }
}

/* TCP over one of the two families is worth it: the other half of the traffic is forwarded. */
static void one_family_is_enough_to_ask_for_rss(void **state)
{
    unsigned i;

    for (i = 0; i < 2; i++) {
        uint64_t types = i == 0 ? TCP4 : TCP6;

        setup(NULL);
        driver.rss_offers = types;
        driver.rx_offers = 0;
        assert_false(is_exact(0, QUEUES));
        assert_int_equal(driver.configured.rxmode.mq_mode, RTE_ETH_MQ_RX_RSS);
        assert_int_equal(driver.configured.rx_adv_conf.rss_conf.rss_hf, types);
        assert_int_equal(driver.configured.rxmode.offloads, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_nic_gets_key_types_and_table, setup),
        cmocka_unit_test_setup(keys_have_the_length_of_the_nic, setup),
        cmocka_unit_test_setup(a_nic_that_does_otherwise_is_not_relied_on, setup),
        cmocka_unit_test_setup(rss_is_off_where_it_does_nothing, setup),
        cmocka_unit_test_setup(one_family_is_enough_to_ask_for_rss, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
