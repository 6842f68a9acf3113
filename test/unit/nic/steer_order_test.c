/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lost wake-ups between two lanes: steer.c is compiled here with atomic functions before each of
 * which the other lane may run. In no interleaving does a lane sleep with an entry in its ring.
 */
#include <setjmp.h>
#include <stdatomic.h>

#include "narrow_device.h"
#include "steer_rig.h"

static void other_lane_may_run(void);

#undef atomic_init
#undef atomic_load
#undef atomic_load_explicit
#undef atomic_store
#undef atomic_store_explicit
#undef atomic_exchange
#undef atomic_fetch_or
#undef atomic_fetch_sub
#define _Atomic /* the functions of both compilers take plain objects */
#define atomic_init(object, value) __atomic_store_n(object, value, __ATOMIC_SEQ_CST)
#define atomic_load_explicit(object, order)                                                        \
    (other_lane_may_run(), __atomic_load_n(object, __ATOMIC_SEQ_CST))
#define atomic_load(object) atomic_load_explicit(object, 0)
#define atomic_store_explicit(object, value, order)                                                \
    (other_lane_may_run(), __atomic_store_n(object, value, __ATOMIC_SEQ_CST))
#define atomic_store(object, value) atomic_store_explicit(object, value, 0)
#define atomic_exchange(object, value)                                                             \
    (other_lane_may_run(), __atomic_exchange_n(object, value, __ATOMIC_SEQ_CST))
#define atomic_fetch_or(object, value)                                                             \
    (other_lane_may_run(), __atomic_fetch_or(object, value, __ATOMIC_SEQ_CST))
#define atomic_fetch_sub(object, value)                                                            \
    (other_lane_may_run(), __atomic_fetch_sub(object, value, __ATOMIC_SEQ_CST))
#define receive receive_from_queue /* steer_rig.h has another one */
#include "../../../src/nic/steer.c"
#undef receive
#undef _Atomic

#define HOUR_US UINT64_C(3600000000) /* a test that sleeps that long fails by its time limit */
#define MOMENTS_MAX 1000             /* a turn has some dozens of accesses */

static struct {
    struct fixture f;
    struct narrow narrow;
    struct nic_ops ops;      /* of the device of lane 0 */
    void (*run_other)(void); /* null: it has run, or is not to */
    unsigned moments;        /* accesses before it runs */
    bool sleeps, woken;      /* lane 0: in its device */
    bool stays;              /* it does not wake before the test looks */
    jmp_buf asleep;
    unsigned got; /* packets that the other lane has got */
} scene;

static void other_lane_may_run(void)
{
    void (*run)(void) = scene.run_other;

    if (run == NULL || scene.moments-- > 0)
        return;
    scene.run_other = NULL;
    run();
}

static int sleep_in_device(struct nic *nic, uint64_t timeout_us)
{
    scene.sleeps = true;
    if (scene.stays)
        longjmp(scene.asleep, 1);
    return 0;
}

static void wake_device(struct nic *nic)
{
    scene.woken = true;
}

/* Two lanes, and one queue, which lane 0 has. Lane 1 has empty packets if it is to send. */
static void open_scene(bool has_empties)
{
    struct us_pkt *pkts[NIC_BURST_MAX];
    struct nic *queue = &scene.narrow.nic;
    char error[NIC_ERROR_MAX];

    memset(&scene, 0, sizeof(scene));
    narrow_open(&scene.narrow, &scene.f.peer);
    scene.ops = *scene.narrow.nic.ops;
    scene.ops.wait = sleep_in_device;
    scene.ops.wake = wake_device;
    scene.narrow.nic.ops = &scene.ops;
    scene.f.lanes = 2;
    assert_int_equal(nic_steer_open(&queue, 1, 2, scene.f.lane, error), 0);
    if (has_empties)
        assert_int_equal(receive(scene.f.lane[0], pkts), 0);
}

/* Lets the other lane run after this number of accesses. */
static void run_other_after(unsigned moments, void (*run)(void))
{
    scene.moments = moments;
    scene.run_other = run;
}

/* Ends a scene. Returns whether the other lane has run, so that there may be a later moment. */
static bool close_scene(unsigned moment)
{
    bool has_run = scene.run_other == NULL;

    assert_true(moment < MOMENTS_MAX);
    scene.run_other = NULL;
    close_fixture(&scene.f);
    return has_run;
}

/* Runs one lane again and again, and the other one after each number of its accesses. */
static void try_moments(bool has_empties, void (*one)(void), void (*other)(void),
                        void (*expect)(void))
{
    unsigned moment = 0;

    do {
        open_scene(has_empties);
        run_other_after(moment, other);
        one();
        if (scene.run_other == NULL)
            expect();
    } while (close_scene(moment++));
    assert_true(moment > 2);
}

/* ---- frames for a lane ------------------------------------------------------------------- */

static void lane_1_sends(void)
{
    assert_true(send_port(scene.f.lane[1], 1));
}

static void lane_0_waits(void)
{
    assert_int_equal(nic_wait(scene.f.lane[0], HOUR_US), 0);
}

/* Lane 0 begins to sleep and does not return. */
static void lane_0_sleeps(void)
{
    scene.stays = true;
    if (setjmp(scene.asleep) == 0)
        lane_0_waits();
}

static void lane_0_is_woken(void)
{
    assert_true(!scene.sleeps || scene.woken);
}

static void a_frame_wakes_a_lane_that_goes_to_sleep(void **state)
{
    try_moments(true, lane_0_waits, lane_1_sends, lane_0_is_woken);
}

static void a_lane_that_sends_sees_one_that_goes_to_sleep(void **state)
{
    try_moments(true, lane_1_sends, lane_0_sleeps, lane_0_is_woken);
}

/* ---- empty packets for a lane ------------------------------------------------------------ */

static void lane_1_looks_for_a_packet(void)
{
    struct us_pkt *pkt;

    scene.got = nic_alloc(scene.f.lane[1], &pkt, 1);
    if (scene.got > 0)
        nic_release(scene.f.lane[1], &pkt, 1);
}

static void lane_0_supplies_packets(void)
{
    struct us_pkt *pkts[NIC_BURST_MAX];

    assert_int_equal(receive(scene.f.lane[0], pkts), 0);
}

/* Lane 1, which has no empty packets, gets some, or its wait returns immediately. */
static void lane_1_gets_packets(void)
{
    if (scene.got == 0)
        assert_int_equal(nic_wait(scene.f.lane[1], HOUR_US), 0);
}

static void a_supplier_sees_a_lane_that_waits_for_packets(void **state)
{
    try_moments(false, lane_0_supplies_packets, lane_1_looks_for_a_packet, lane_1_gets_packets);
}

static void a_lane_that_waits_for_packets_sees_new_ones(void **state)
{
    try_moments(false, lane_1_looks_for_a_packet, lane_0_supplies_packets, lane_1_gets_packets);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_frame_wakes_a_lane_that_goes_to_sleep),
        cmocka_unit_test(a_lane_that_sends_sees_one_that_goes_to_sleep),
        cmocka_unit_test(a_supplier_sees_a_lane_that_waits_for_packets),
        cmocka_unit_test(a_lane_that_waits_for_packets_sees_new_ones),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
