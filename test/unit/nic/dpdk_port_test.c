/* SPDX-License-Identifier: BSD-3-Clause */
/* What the DPDK back end asks of a NIC: offloads, sizes, queues; and what a failure leaves. */
#include <sys/resource.h>

#include "base/base.h"
#include "dpdk_driver.h"

#define RX_CSUMS                                                                                   \
    (RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_TCP_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM)
#define RX_ALL (RX_CSUMS | RTE_ETH_RX_OFFLOAD_SCATTER | RTE_ETH_RX_OFFLOAD_TCP_LRO)
#define TX_L4 (RTE_ETH_TX_OFFLOAD_TCP_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM)
#define TX_IP RTE_ETH_TX_OFFLOAD_IPV4_CKSUM
#define TX_SG RTE_ETH_TX_OFFLOAD_MULTI_SEGS
#define TX_TSO RTE_ETH_TX_OFFLOAD_TCP_TSO
#define TX_ALL (TX_L4 | TX_IP | TX_SG | TX_TSO)

#define CAPS_CSUM (US_CAP_TX_L4_CSUM | US_CAP_TX_IP_CSUM)
#define CAPS_ALL (CAPS_CSUM | US_CAP_TX_SG | US_CAP_TX_TSO | US_CAP_RX_CSUM)

/* A NIC with offloads that the back end does not use. */
#define RX_OTHER (RTE_ETH_RX_OFFLOAD_VLAN_STRIP | RTE_ETH_RX_OFFLOAD_KEEP_CRC)
#define TX_OTHER (RTE_ETH_TX_OFFLOAD_VLAN_INSERT | RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE)

/* ---- offloads ---------------------------------------------------------------------------- */

static const struct {
    const char *name;
    unsigned without;
    uint64_t rx_offers, tx_offers, rx_used, tx_used;
    u_u32 caps;
} offloads[] = {
    {"net_test", 0, RX_ALL | RX_OTHER, TX_ALL | TX_OTHER, RX_ALL, TX_ALL, CAPS_ALL},
    {"net_test", 0, 0, 0, 0, 0, 0},
    {"net_test", NIC_DPDK_WITHOUT_CSUM, RX_ALL, TX_ALL, RTE_ETH_RX_OFFLOAD_SCATTER, TX_SG, 0},
    {"net_test", NIC_DPDK_WITHOUT_TSO, RX_ALL, TX_ALL, RX_CSUMS | RTE_ETH_RX_OFFLOAD_SCATTER,
     TX_ALL & ~TX_TSO, CAPS_CSUM | US_CAP_RX_CSUM},
    {"net_test", NIC_DPDK_WITHOUT_SG, RX_ALL, TX_ALL, RX_ALL, TX_L4 | TX_IP,
     CAPS_CSUM | US_CAP_RX_CSUM},
    /* TCP without UDP, and the reverse: there is one capability for both. */
    {"net_test", 0, 0, RTE_ETH_TX_OFFLOAD_TCP_CKSUM | TX_IP | TX_SG | TX_TSO, 0, TX_IP | TX_SG,
     US_CAP_TX_IP_CSUM},
    {"net_test", 0, 0, RTE_ETH_TX_OFFLOAD_UDP_CKSUM, 0, 0, 0},
    {"net_test", 0, 0, TX_L4, 0, TX_L4, US_CAP_TX_L4_CSUM},
    {"net_test", 0, 0, TX_L4 | TX_SG, 0, TX_L4 | TX_SG, US_CAP_TX_L4_CSUM},
    {"net_test", 0, 0, TX_L4 | TX_TSO, 0, TX_L4, US_CAP_TX_L4_CSUM},
    {"net_test", 0, 0, TX_L4 | TX_SG | TX_TSO, 0, TX_L4 | TX_SG | TX_TSO,
     US_CAP_TX_L4_CSUM | US_CAP_TX_SG | US_CAP_TX_TSO},
    {"net_test", 0, RTE_ETH_RX_OFFLOAD_IPV4_CKSUM, 0, RTE_ETH_RX_OFFLOAD_IPV4_CKSUM, 0,
     US_CAP_RX_CSUM},
    {"net_test", 0, RTE_ETH_RX_OFFLOAD_TCP_CKSUM, 0, RTE_ETH_RX_OFFLOAD_TCP_CKSUM, 0,
     US_CAP_RX_CSUM},
    {"net_test", 0, RTE_ETH_RX_OFFLOAD_SCATTER, 0, RTE_ETH_RX_OFFLOAD_SCATTER, 0, 0},
    /* The NIC has to verify what it merges. */
    {"net_test", 0, RTE_ETH_RX_OFFLOAD_TCP_LRO, 0, 0, 0, 0},
    /* Its offloads are software, and wrong for some frames; it copies, so segments are fine. */
    {"net_tap", 0, RX_ALL, TX_ALL, 0, TX_SG, US_CAP_TX_SG},
    {"net_tap", NIC_DPDK_WITHOUT_ZERO_COPY, RX_ALL, TX_ALL, 0, TX_SG, 0},
    {"net_af_packet", 0, 0, TX_SG, 0, TX_SG, US_CAP_TX_SG},
};

static void offloads_are_those_that_the_nic_has(void **state)
{
    struct nic_dpdk_config config = DRIVER_CONFIG;
    struct nic *nic;
    size_t i;

    for (i = 0; i < U_ARRAY_LEN(offloads); i++) {
        driver_reset();
        driver.name = offloads[i].name;
        driver.rx_offers = offloads[i].rx_offers;
        driver.tx_offers = offloads[i].tx_offers;
        config.without = offloads[i].without;
        assert_int_equal(driver_open(&config, 1, &nic), 1);
        assert_int_equal(driver.configured.rxmode.offloads, offloads[i].rx_used);
        assert_int_equal(driver.configured.txmode.offloads, offloads[i].tx_used);
        assert_int_equal(nic->caps, offloads[i].caps);
        assert_int_equal(((struct dpdk_queue *)nic)->port->partial_csums,
                         strcmp(offloads[i].name, "net_af_packet") == 0);
        driver_close(&nic, 1);
    }
}

/* A merged segment fits into an IP packet, and is no larger than the NIC can build. */
static void merged_segments_have_the_size_of_the_nic(void **state)
{
    static const uint32_t limits[][2] = {{0, 0}, {9000, 9000}, {65535, 65535}, {70000, 65535}};
    struct nic_dpdk_config config = DRIVER_CONFIG;
    struct nic *nic;
    size_t i;

    for (i = 0; i < U_ARRAY_LEN(limits); i++) {
        driver_reset();
        driver.rx_offers = RX_ALL;
        driver.max_lro_bytes = limits[i][0];
        assert_int_equal(driver_open(&config, 1, &nic), 1);
        assert_int_equal(driver.configured.rxmode.max_lro_pkt_size, limits[i][1]);
        driver_close(&nic, 1);
    }
}

/* Drivers refuse what they offer: each attempt leaves out one thing more. */
static void a_refused_configuration_is_tried_with_less(void **state)
{
    struct nic_dpdk_config config = DRIVER_CONFIG;
    struct nic *nic[2];
    unsigned refused;

    for (refused = 0; refused < 5; refused++) {
        const struct rte_eth_conf *conf = &driver.configured;

        driver_reset();
        driver.rx_offers = RX_ALL;
        driver.rss_offers = RTE_ETH_RSS_NONFRAG_IPV4_TCP;
        driver.key_bytes = 40;
        driver.refused_configures = refused;
        if (refused == 4)
            driver_fails(&config, 2, "cannot configure it");
        else
            assert_int_equal(driver_open(&config, 2, nic), 2);
        assert_int_equal(driver.configures, u_min32(refused, 3) + 1);
        assert_int_equal(conf->intr_conf.rxq, refused == 0);
        assert_int_equal(conf->rxmode.mq_mode,
                         refused < 2 ? RTE_ETH_MQ_RX_RSS : RTE_ETH_MQ_RX_NONE);
        assert_int_equal((conf->rxmode.offloads & RTE_ETH_RX_OFFLOAD_TCP_LRO) != 0, refused < 3);
        assert_int_equal(conf->rxmode.offloads & RX_CSUMS, RX_CSUMS);
        if (refused == 4)
            break;
        assert_int_equal(((struct dpdk_queue *)nic[0])->port->interrupts, refused == 0);
        driver_close(nic, 2);
    }
}

/* ---- sizes ------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    uint32_t mtu;
    uint16_t min_mtu, max_mtu;
    uint32_t max_frame_bytes;
    uint16_t configured; /* 0: refused */
} mtus[] = {
    {"net_test", 1500, 68, UINT16_MAX, 1518, 1500}, /* the frame has a VLAN tag */
    {"net_test", 1501, 68, UINT16_MAX, 1518, 0},    {"net_test", 1500, 68, 1500, 1500, 0},
    {"net_test", 9000, 68, 9000, 9026, 9000}, /* the driver counts two tags and the CRC */
    {"net_test", 1500, 68, 1500, 1514, 1500}, /* or none of these */
    {"net_test", 9001, 68, 9000, 9022, 0},          {"net_test", 1501, 68, 1500, 9022, 0},
    {"net_test", 8997, 68, 9000, 9022, 8997},       {"net_test", 9000, 68, 9000, 9000, 0},
    {"net_test", 600, 600, 1500, 1518, 600},        {"net_test", 599, 600, 1500, 1518, 0},
    {"net_af_packet", 9000, 68, 1500, 1518, 1500}, /* it refuses MTUs that it passes */
};

static void an_mtu_is_within_the_limits_of_the_nic(void **state)
{
    struct nic_dpdk_config config = DRIVER_CONFIG;
    struct nic *nic;
    size_t i;

    for (i = 0; i < U_ARRAY_LEN(mtus); i++) {
        driver_reset();
        driver.name = mtus[i].name;
        driver.min_mtu = mtus[i].min_mtu;
        driver.max_mtu = mtus[i].max_mtu;
        driver.max_frame_bytes = mtus[i].max_frame_bytes;
        config.mtu = mtus[i].mtu;
        if (mtus[i].configured == 0) {
            driver_fails(&config, 1, "the driver allows up to");
            continue;
        }
        assert_int_equal(driver_open(&config, 1, &nic), 1);
        assert_int_equal(driver.configured.rxmode.mtu, mtus[i].configured);
        assert_int_equal(nic->mtu, mtus[i].mtu);
        assert_int_equal(nic_burst(nic), 16); /* both ends of a link have work then */
        assert_in_range(driver.room_asked[0], mtus[i].mtu + 18, UINT16_MAX);
        driver_close(&nic, 1);
    }
}

/* The driver's recommendation within bounds, and what the device then has. */
static void rings_have_the_size_that_the_driver_recommends(void **state)
{
    static const uint16_t sizes[][3] = {
        {0, UINT16_MAX, 512}, {64, UINT16_MAX, 64}, {4096, UINT16_MAX, 1024}, {1024, 256, 256}};
    struct nic_dpdk_config config = DRIVER_CONFIG;
    struct nic *nic;
    size_t i;

    for (i = 0; i < U_ARRAY_LEN(sizes); i++) {
        driver_reset();
        driver.ring_frames = sizes[i][0];
        driver.ring_limit = sizes[i][1];
        assert_int_equal(driver_open(&config, 1, &nic), 1);
        assert_int_equal(driver.ring_asked, sizes[i][2]);
        assert_int_equal(driver.tx_ring_asked, sizes[i][2]);
        assert_in_range(pkts_of(nic), 2 * sizes[i][2] + NIC_BURST_MAX, PKTS_MAX);
        driver_close(&nic, 1);
    }
}

/* Large segments are chains, which take more packets, in either direction. */
static void chains_have_packets_of_their_own(void **state)
{
    static const uint64_t offers[][2] = {
        {0, 0}, {RTE_ETH_RX_OFFLOAD_SCATTER, 0}, {0, TX_L4 | TX_SG | TX_TSO}};
    struct nic_dpdk_config config = DRIVER_CONFIG;
    unsigned counts[U_ARRAY_LEN(offers)];
    struct nic *nic;
    size_t i;

    for (i = 0; i < U_ARRAY_LEN(offers); i++) {
        driver_reset();
        driver.rx_offers = offers[i][0];
        driver.tx_offers = offers[i][1];
        assert_int_equal(driver_open(&config, 1, &nic), 1);
        counts[i] = pkts_of(nic);
        driver_close(&nic, 1);
    }
    assert_in_range(counts[1], counts[0] + 1024, PKTS_MAX);
    assert_int_equal(counts[1], counts[2]);
}

/* ---- queues ------------------------------------------------------------------------------ */

/* Some drivers need larger buffers than the MTU; what does not help is not tried again. */
static void a_driver_gets_larger_buffers_when_it_needs_them(void **state)
{
    struct nic_dpdk_config config = DRIVER_CONFIG;
    struct us_pkt *pkt;
    struct nic *nic;
    unsigned i;

    driver.rx_results[0] = -EINVAL;
    driver.rx_results[1] = -ENOMEM;
    assert_int_equal(driver_open(&config, 1, &nic), 1);
    assert_int_equal(driver.rx_setups, 3);
    for (i = 0; i < 3; i++)
        assert_int_equal(driver.room_asked[i], 2048u << i);
    assert_int_equal(nic_alloc(nic, &pkt, 1), 1);
    assert_int_equal(pkt->room, 8192);
    nic_release(nic, &pkt, 1);
    driver_close(&nic, 1);

    driver_reset();
    driver.rx_results[0] = -ENODEV;
    driver_fails(&config, 1, "cannot set up a queue to receive");
    assert_int_equal(driver.rx_setups, 1);

    driver_reset();
    for (i = 0; i < DRIVER_SETUPS_MAX; i++)
        driver.rx_results[i] = -EINVAL;
    driver_fails(&config, 1, "cannot set up a queue to receive");
    assert_int_equal(driver.room_asked[driver.rx_setups - 1], 32768); /* a length has 16 bits */
}

/* Whatever fails, nothing of the device is left, and it can be opened again. */
static void a_failure_leaves_nothing(void **state)
{
    static const char *const messages[] = {
        "set up a queue to receive", "set up a queue to send", "start it",
        "set its MAC address",       "it has no queues",       "no memory for packets",
        "no memory for packets"};
    struct nic_dpdk_config config = DRIVER_CONFIG;
    unsigned before, i;
    struct nic *nic[2];

    assert_int_equal(driver_open(&config, 2, nic), 2); /* EAL keeps some descriptors */
    driver_close(nic, 2);
    before = descriptors();
    for (i = 0; i < U_ARRAY_LEN(messages); i++) {
        driver_reset();
        driver.name = "net_tap"; /* has a pool for segments, too */
        driver.rx_results[1] = i == 0 ? -ENODEV : 0;
        driver.tx_results[1] = i == 1 ? -ENODEV : 0;
        driver.start_result = i == 2 ? -EIO : 0;
        if (i == 3) {
            driver.name = "net_test";
            driver.mac_result = -EIO;
            config.mac[0] = 2;
        }
        driver.tx_queues = i == 4 ? 0 : DRIVER_QUEUES_MAX;
        driver.missing_pool = i == 5 ? 3 : i == 6 ? 4 : 0; /* of packets, of segments in place */
        driver_fails(&config, 2, messages[i]);
        memset(config.mac, 0, sizeof(config.mac));
        driver_reset();
        assert_int_equal(driver_open(&config, 2, nic), 2);
        driver_close(nic, 2);
        assert_int_equal(descriptors(), before);
    }
}

/* A descriptor for the first queue, and none for the second. */
static void too_few_descriptors_leave_nothing(void **state)
{
    struct nic_dpdk_config config = DRIVER_CONFIG;
    struct rlimit limit, few;
    struct nic *nic[2];
    unsigned before;
    int next;

    assert_int_equal(driver_open(&config, 2, nic), 2); /* EAL keeps some */
    driver_close(nic, 2);
    before = descriptors();
    next = dup(STDERR_FILENO);
    assert_true(next >= 0);
    close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    few = limit;
    few.rlim_cur = (rlim_t)next + 1;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    driver_fails(&config, 2, "out of descriptors");
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(descriptors(), before);
}

/* No more queues than the device has of both kinds, or its driver can use. */
static void the_number_of_queues_is_that_of_the_device(void **state)
{
    static const struct {
        const char *name;
        uint16_t rx, tx;
        unsigned used;
    } rows[] = {{"net_test", 4, 4, 3},
                {"net_test", 2, 4, 2},
                {"net_test", 4, 1, 1},
                {"net_e1000_em", 4, 4, 1}};
    struct nic_dpdk_config config = DRIVER_CONFIG;
    struct nic *nic[3];
    unsigned i, j;

    for (i = 0; i < U_ARRAY_LEN(rows); i++) {
        driver_reset();
        driver.name = rows[i].name;
        driver.rx_queues = rows[i].rx;
        driver.tx_queues = rows[i].tx;
        assert_int_equal(driver_open(&config, 3, nic), rows[i].used);
        assert_int_equal(driver.rx_setups, rows[i].used);
        assert_int_equal(driver.tx_setups, rows[i].used);
        for (j = 0; j < rows[i].used; j++) {
            assert_int_equal(nic[j]->queue, j);
            assert_int_equal(nic[j]->queues, rows[i].used);
            assert_int_equal(nic[j]->rss_exact, rows[i].used == 1);
        }
        assert_int_equal(driver.multicasts, 1); /* for neighbour solicitations (RFC 4861 7.1) */
        driver_close(nic, rows[i].used);
        assert_int_equal(driver.stops, 1);
    }
}

/* ---- the MAC address --------------------------------------------------------------------- */

static void the_mac_address_is_set_where_that_is_possible(void **state)
{
    static const uint8_t wanted[6] = {2, 0, 0, 1, 2, 3};
    struct nic_dpdk_config config = DRIVER_CONFIG;
    struct rte_ether_addr own;
    struct nic *nic;

    assert_int_equal(driver_open(&config, 1, &nic), 1);
    assert_int_equal(driver.mac_sets, 0);
    assert_int_equal(rte_eth_macaddr_get(((struct dpdk_queue *)nic)->port->id, &own), 0);
    assert_memory_equal(nic->mac, own.addr_bytes, 6);
    driver_close(&nic, 1);

    memcpy(config.mac, wanted, 6);
    for (driver.mac_result = 0;; driver.mac_result = -ENOTSUP) {
        int result = driver.mac_result;

        assert_int_equal(driver_open(&config, 1, &nic), 1);
        assert_int_equal(driver.mac_sets, 1);
        assert_memory_equal(nic->mac, wanted, 6);
        driver_close(&nic, 1);
        driver_reset();
        if (result != 0)
            break;
    }

    /* A TAP device has the address of the kernel's end. */
    driver.name = "net_tap";
    assert_int_equal(driver_open(&config, 1, &nic), 1);
    assert_memory_equal(nic->mac, wanted, 6);
    driver_close(&nic, 1);
    memset(config.mac, 0, sizeof(config.mac));
    assert_int_equal(driver_open(&config, 1, &nic), 1);
    assert_memory_not_equal(nic->mac, own.addr_bytes, 6);
    assert_int_equal(nic->mac[0] & 3, 2); /* unicast, locally administered */
    driver_close(&nic, 1);
    assert_int_equal(driver.mac_sets, 0);
}

static void handle_signal(int number)
{
}

/*
 * While a device starts, all signals but SIGSYS (privileges.c) are blocked, which the threads of
 * DPDK inherit, and no real-time signal is free: net_tap would take it and read its device only
 * after it. Then mask and handlers are restored.
 */
static void signals_are_as_before(void **state)
{
    const struct sigaction handled = {.sa_handler = handle_signal};
    struct nic_dpdk_config config = DRIVER_CONFIG;
    struct sigaction action;
    sigset_t before, after;
    struct nic *nic;
    unsigned i;

    assert_int_equal(sigaction(SIGRTMIN + 2, &handled, NULL), 0);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, NULL, &before), 0);
    for (i = 0; i < 2; i++) {
        driver_reset();
        driver.start_result = i == 1 ? -EIO : 0;
        if (i == 0)
            assert_int_equal(driver_open(&config, 1, &nic), 1);
        else
            driver_fails(&config, 1, "start it");
        assert_false(driver.signal_is_free);
        assert_true(sigismember(&driver.blocked, SIGTERM));
        assert_false(sigismember(&driver.blocked, SIGSYS));
        assert_int_equal(sigaction(SIGRTMIN + 1, NULL, &action), 0);
        assert_ptr_equal(action.sa_handler, SIG_DFL);
        assert_int_equal(sigaction(SIGRTMIN + 2, NULL, &action), 0);
        assert_ptr_equal(action.sa_handler, handle_signal);
        assert_int_equal(pthread_sigmask(SIG_BLOCK, NULL, &after), 0);
        assert_int_equal(sigismember(&after, SIGTERM), sigismember(&before, SIGTERM));
        if (i == 0)
            driver_close(&nic, 1);
    }
}

/* Closing removes the socket file of a listening link. A link that did not start is closed, too. */
static void other_links_of_virtio_are_closed(void **state)
{
    struct nic_dpdk_config config = DRIVER_CONFIG;
    struct nic *nic;

    driver.name = "net_virtio_user";
    assert_int_equal(driver_open(&config, 1, &nic), 1);
    ((struct dpdk_queue *)nic)->port->connects = false;
    driver_close(&nic, 1);
    driver_reset();
    driver.name = "net_virtio_user";
    driver.start_result = -EIO;
    driver_fails(&config, 1, "start it");
}

/* Its driver frees memory in use when it closes a link that it has connected. */
static void a_link_of_virtio_that_connects_is_left_open(void **state)
{
    struct nic_dpdk_config config = DRIVER_CONFIG;
    struct nic *nic;

    config.dev = "net_null1,no-rx=1";
    driver.name = "net_virtio_user";
    assert_int_equal(driver_open(&config, 1, &nic), 1);
    nic_close(nic);
    assert_int_equal(driver.stops, 1);
    assert_int_equal(rte_eth_dev_count_avail(), 1);
    assert_int_equal(driver_pools(), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(offloads_are_those_that_the_nic_has, driver_setup),
        cmocka_unit_test_setup(merged_segments_have_the_size_of_the_nic, driver_setup),
        cmocka_unit_test_setup(a_refused_configuration_is_tried_with_less, driver_setup),
        cmocka_unit_test_setup(an_mtu_is_within_the_limits_of_the_nic, driver_setup),
        cmocka_unit_test_setup(rings_have_the_size_that_the_driver_recommends, driver_setup),
        cmocka_unit_test_setup(chains_have_packets_of_their_own, driver_setup),
        cmocka_unit_test_setup(a_driver_gets_larger_buffers_when_it_needs_them, driver_setup),
        cmocka_unit_test_setup(a_failure_leaves_nothing, driver_setup),
        cmocka_unit_test_setup(too_few_descriptors_leave_nothing, driver_setup),
        cmocka_unit_test_setup(the_number_of_queues_is_that_of_the_device, driver_setup),
        cmocka_unit_test_setup(the_mac_address_is_set_where_that_is_possible, driver_setup),
        cmocka_unit_test_setup(signals_are_as_before, driver_setup),
        cmocka_unit_test_setup(other_links_of_virtio_are_closed, driver_setup),
        /* The last one: the device stays. */
        cmocka_unit_test_setup(a_link_of_virtio_that_connects_is_left_open, driver_setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
