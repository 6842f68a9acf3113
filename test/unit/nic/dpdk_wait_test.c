/* SPDX-License-Identifier: BSD-3-Clause */
/* How a DPDK queue sleeps: by the NIC's interrupt or by naps, and what ends the sleep. */
#include <poll.h>
#include <sys/prctl.h>

#include "base/base.h"
#include "dpdk_driver.h"

#define HOUR_US (3600ull * 1000000) /* a test that sleeps that long fails by its time limit */

static struct {
    unsigned polls;    /* of the queue */
    unsigned at;       /* the poll that finds a frame; 0: none */
    unsigned raise_at; /* the poll after which the interrupt is raised; 0: none */
} link_state;

/* The NIC's receive queue: one frame at a certain look at it. */
static uint16_t look(void *queue, struct rte_mbuf **mbufs, uint16_t n)
{
    struct rte_mempool *pool = ((struct dpdk_port *)driver.ctx)->queues[0]->pool;

    link_state.polls++;
    if (link_state.polls == link_state.raise_at)
        assert_int_equal(eventfd_write(driver.interrupt_fd, 1), 0);
    if (link_state.polls != link_state.at)
        return 0;
    mbufs[0] = rte_pktmbuf_alloc(pool);
    assert_non_null(mbufs[0]);
    assert_non_null(rte_pktmbuf_append(mbufs[0], 60));
    return 1;
}

static void open_nic(struct nic **nic)
{
    struct nic_dpdk_config config = DRIVER_CONFIG;

    assert_int_equal(driver_open(&config, 1, nic), 1);
    driver_bursts(*nic)->rx_pkt_burst = look;
    memset(&link_state, 0, sizeof(link_state));
}

/* Sleeps; the frame comes at a look at the queue, and the interrupt after one. */
static void sleep_until(struct nic *nic, unsigned frame_at, unsigned raise_at)
{
    link_state.polls = 0;
    link_state.at = frame_at;
    link_state.raise_at = raise_at;
    assert_int_equal(nic_wait(nic, HOUR_US), 0);
    assert_int_equal(driver.arms % 2, 0); /* not armed while the worker polls */
}

/* The frame that ended a sleep is received next. */
static void receive(struct nic *nic)
{
    struct us_pkt *pkts[NIC_BURST_MAX];

    assert_int_equal(nic_rx_burst(nic, pkts, NIC_BURST_MAX), 1);
    assert_int_equal(pkts[0]->len, 60);
    nic_release(nic, pkts, 1);
}

static void a_queue_without_interrupt_naps(void **state)
{
    struct nic *nic;

    open_nic(&nic);
    sleep_until(nic, 1, 0); /* there already: no sleep */
    assert_int_equal(stat_of(nic, "dpdk_timed_waits"), 0);
    receive(nic);
    sleep_until(nic, 4, 0);
    assert_int_equal(link_state.polls, 4);
    assert_int_equal(stat_of(nic, "dpdk_timed_waits"), 1);
    assert_in_range(prctl(PR_GET_TIMERSLACK), 1, 10000); /* naps last from 10 us on */
    sleep_until(nic, 0, 0); /* the frame of the last sleep is still there */
    assert_int_equal(link_state.polls, 0);
    receive(nic);
    nic_wake(nic);
    sleep_until(nic, 0, 0);
    assert_int_equal(stat_of(nic, "dpdk_timed_waits"), 2);
    link_state.polls = 0;
    assert_int_equal(nic_wait(nic, 1000), 0); /* until its end: the wake was used up */
    /* Naps of 20, 40, 80, eight times 100 and 60 us, with a look before each and at the start. */
    assert_int_equal(link_state.polls, 13);
    assert_int_equal(stat_of(nic, "dpdk_interrupt_waits"), 0);
    driver_close(&nic, 1);
}

/* Until an interrupt has announced a frame the queue is polled too: some never come. */
static void an_interrupt_is_relied_on_once_it_has_come(void **state)
{
    struct nic *nic;

    driver.interrupt_result = 0;
    open_nic(&nic);
    assert_int_not_equal(driver.interrupt_fd, -1);
    sleep_until(nic, 3, 0); /* a frame without interrupt */
    assert_int_equal(stat_of(nic, "dpdk_interrupts"), 0);
    receive(nic);
    sleep_until(nic, 3, 2); /* one with */
    assert_int_equal(stat_of(nic, "dpdk_interrupts"), 1);
    receive(nic);

    /* The interrupt ends the sleep; there was no look at the queue in between. */
    sleep_until(nic, 3, 2);
    assert_int_equal(link_state.polls, 3);
    assert_int_equal(stat_of(nic, "dpdk_interrupts"), 2);
    receive(nic);
    /* A frame between the last look and the arming raises none. */
    sleep_until(nic, 2, 0);
    assert_int_equal(link_state.polls, 2);
    receive(nic);
    /* An interrupt without a frame is not counted, and does not end the next sleep. */
    sleep_until(nic, 0, 2);
    assert_int_equal(stat_of(nic, "dpdk_interrupts"), 2);
    /* One long sleep instead of naps. */
    link_state.polls = link_state.raise_at = 0;
    assert_int_equal(nic_wait(nic, 50000), 0);
    assert_int_equal(link_state.polls, 2);
    nic_wake(nic);
    sleep_until(nic, 0, 0);
    assert_int_equal(poll(&(struct pollfd){.fd = driver.interrupt_fd, .events = POLLIN}, 1, 0), 0);
    assert_int_equal(stat_of(nic, "dpdk_interrupts"), 2);
    assert_int_equal(stat_of(nic, "dpdk_interrupt_waits"), 7);
    assert_int_equal(stat_of(nic, "dpdk_timed_waits"), 0);
    assert_int_equal(driver.arms, 14);
    driver_close(&nic, 1);
}

/* A wake ends the sleep also as long as the queue is polled, and so does an interrupt. */
static void a_wake_or_an_interrupt_ends_the_polling(void **state)
{
    struct nic *nic;

    driver.interrupt_result = 0;
    open_nic(&nic);
    nic_wake(nic);
    sleep_until(nic, 0, 0);
    assert_in_range(link_state.polls, 1, 3);
    sleep_until(nic, 0, 2); /* without a frame */
    assert_int_equal(link_state.polls, 3);
    assert_int_equal(stat_of(nic, "dpdk_interrupts"), 0);
    driver_close(&nic, 1);
}

/* A NIC that was configured without interrupts, or has none for the queue: naps. */
static void a_queue_without_its_interrupt_naps(void **state)
{
    struct nic *nic;
    unsigned before, i;

    open_nic(&nic);
    driver_close(&nic, 1);
    before = descriptors();
    for (i = 0; i < 3; i++) {
        driver_reset();
        driver.refused_configures = i == 0;
        driver.interrupt_result = i == 1 ? -EIO : 0;
        open_nic(&nic);
        sleep_until(nic, 3, 0);
        assert_int_equal(stat_of(nic, "dpdk_timed_waits"), i < 2);
        assert_int_equal(stat_of(nic, "dpdk_interrupt_waits"), i == 2);
        receive(nic);
        driver_close(&nic, 1);
        assert_int_equal(descriptors(), before);
    }
}

/* ---- a device that is unplugged ---------------------------------------------------------- */

static void a_removed_device_ends_all_sleeps(void **state)
{
    struct nic_dpdk_config config = DRIVER_CONFIG;
    struct nic *nic[2];
    unsigned i, j;

    for (i = 0; i < 2; i++) {
        assert_int_equal(driver_open(&config, 2, nic), 2);
        driver.on_device("other", RTE_DEV_EVENT_ADD, driver.ctx);
        assert_int_equal(nic_wait(nic[0], 0), 0);
        if (i == 0)
            (void)driver.on_removal(0, RTE_ETH_EVENT_INTR_RMV, driver.ctx, NULL);
        else
            driver.on_device("test", RTE_DEV_EVENT_REMOVE, driver.ctx);
        for (j = 0; j < 2; j++) {
            struct pollfd wake = {.fd = ((struct dpdk_queue *)nic[j])->wake_fd, .events = POLLIN};

            assert_int_equal(poll(&wake, 1, 0), 1); /* a thread that sleeps would wake */
            assert_int_equal(nic_wait(nic[j], HOUR_US), -ENODEV);
        }
        driver_close(nic, 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_queue_without_interrupt_naps, driver_setup),
        cmocka_unit_test_setup(an_interrupt_is_relied_on_once_it_has_come, driver_setup),
        cmocka_unit_test_setup(a_wake_or_an_interrupt_ends_the_polling, driver_setup),
        cmocka_unit_test_setup(a_queue_without_its_interrupt_naps, driver_setup),
        cmocka_unit_test_setup(a_removed_device_ends_all_sleeps, driver_setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
