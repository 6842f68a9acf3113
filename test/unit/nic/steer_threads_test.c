/* SPDX-License-Identifier: BSD-3-Clause */
/* Software flow steering with a thread per lane. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "steer_rig.h"

#define THREAD_FRAMES 30000

static struct fixture shared;
static atomic_bool stopping;
static atomic_uint echoed;
static uint64_t sleep_us;

/* Sends received frames back, and sleeps without frames. */
static void *echo_loop(void *arg)
{
    unsigned number = (unsigned)(uintptr_t)arg;
    struct nic *nic = shared.lane[number];
    struct us_pkt *pkts[NIC_BURST_MAX], *out;
    unsigned i, n;

    while (!atomic_load(&stopping)) {
        n = receive(nic, pkts);
        for (i = 0; i < n; i++) {
            uint16_t port = port_of(pkts[i]);

            assert_int_equal(lane_of_port(port, shared.lanes), number);
            if (nic_alloc(nic, &out, 1) == 1) {
                fill(out, port);
                if (nic_tx_burst(nic, &out, 1) == 1)
                    atomic_fetch_add(&echoed, 1);
                else
                    nic_release(nic, &out, 1);
            }
        }
        nic_release(nic, pkts, n);
        if (n == 0)
            assert_int_equal(nic_wait(nic, sleep_us), 0);
    }
    return NULL;
}

/*
 * This thread runs lane 0 and the peer, since a loopback link is used by one thread. The other
 * lanes sleep in between and must be woken; no frame is lost uncounted.
 */
static void threads_forward_frames_and_return_packets(void **state)
{
    struct us_pkt *pkts[NIC_BURST_MAX];
    pthread_t threads[3];
    unsigned back = 0, own = 0, sent = 0, idle = 0;
    unsigned i, n;

    open_fixture(&shared, 4, 1024);
    sleep_us = 20000;
    atomic_store(&stopping, false);
    atomic_store(&echoed, 0);
    for (i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, echo_loop, (void *)(uintptr_t)(i + 1)),
                         0);
    while (sent < THREAD_FRAMES || idle < 2000) {
        for (i = 0; i < 8 && sent < THREAD_FRAMES && send_port(shared.peer, (uint16_t)(1 + sent));
             i++)
            sent++;
        n = receive(shared.lane[0], pkts);
        own += n;
        nic_release(shared.lane[0], pkts, n);
        idle = n > 0 ? 0 : idle + 1;
        n = receive(shared.peer, pkts);
        back += n;
        nic_release(shared.peer, pkts, n);
        if (n > 0)
            idle = 0;
        else
            sched_yield();
    }
    atomic_store(&stopping, true);
    for (i = 0; i < 3; i++) {
        nic_wake(shared.lane[i + 1]);
        pthread_join(threads[i], NULL);
    }
    for (idle = 0; idle < 4; idle++) { /* frames sent last */
        n = receive(shared.lane[0], pkts);
        nic_release(shared.lane[0], pkts, n);
        n = receive(shared.peer, pkts);
        back += n;
        nic_release(shared.peer, pkts, n);
    }
    assert_int_equal(back, atomic_load(&echoed));
    assert_int_equal(own + stat_of(shared.lane[0], "lane_forwarded") +
                         stat_of(shared.lane[0], "lane_ring_full"),
                     THREAD_FRAMES);
    assert_true(back > THREAD_FRAMES / 10);
    close_fixture(&shared);
}

/* Two threads sleep in turns: after a lost wakeup the test does not end in time. */
static void a_sleeper_is_always_woken(void **state)
{
    struct us_pkt *pkts[NIC_BURST_MAX];
    pthread_t thread;
    unsigned round, n;
    uint16_t port = 1;

    while (lane_of_port(port, 2) != 1)
        port++;
    open_fixture(&shared, 2, 64);
    sleep_us = UINT64_C(3600000000);
    atomic_store(&stopping, false);
    assert_int_equal(pthread_create(&thread, NULL, echo_loop, (void *)(uintptr_t)1), 0);
    for (round = 0; round < 500; round++) {
        assert_true(send_port(shared.peer, port));
        for (n = 0; n == 0; n = receive(shared.peer, pkts)) {
            struct us_pkt *none[NIC_BURST_MAX];

            assert_int_equal(receive(shared.lane[0], none), 0);
            sched_yield();
        }
        nic_release(shared.peer, pkts, n);
    }
    atomic_store(&stopping, true);
    nic_wake(shared.lane[1]);
    pthread_join(thread, NULL);
    close_fixture(&shared);
}

/* What came before a sleep ends it: a frame, and an empty packet for a lane that had none. */
static void no_lane_sleeps_on_what_it_waits_for(void **state)
{
    const uint64_t hour_us = UINT64_C(3600000000); /* a lost wakeup outlasts the test */
    struct fixture f;
    struct us_pkt *pkts[NIC_BURST_MAX];
    uint16_t port = 1;

    while (lane_of_port(port, 3) != 1)
        port++;
    open_fixture(&f, 3, 0);
    assert_true(send_port(f.peer, port));
    assert_int_equal(receive(f.lane[0], pkts), 0); /* forwards it */
    assert_int_equal(nic_wait(f.lane[1], hour_us), 0);
    assert_int_equal(receive(f.lane[1], pkts), 1);
    nic_release(f.lane[1], pkts, 1);
    assert_true(send_port(f.peer, port) && send_port(f.peer, port));
    assert_int_equal(receive(f.lane[0], pkts), 0);
    assert_int_equal(nic_rx_burst(f.lane[1], pkts, 1), 1);
    nic_release(f.lane[1], pkts, 1);
    assert_int_equal(nic_wait(f.lane[1], hour_us), 0); /* for the other one */
    assert_int_equal(receive(f.lane[1], pkts), 1);
    nic_release(f.lane[1], pkts, 1);
    while (send_port(f.lane[2], port)) /* until there are no empty packets */
        continue;
    assert_int_equal(receive(f.lane[0], pkts), 0); /* sends, and supplies empty packets */
    assert_int_equal(nic_wait(f.lane[2], hour_us), 0);
    assert_true(send_port(f.lane[2], port));
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_forward_frames_and_return_packets),
        cmocka_unit_test(a_sleeper_is_always_woken),
        cmocka_unit_test(no_lane_sleeps_on_what_it_waits_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
