/* SPDX-License-Identifier: BSD-3-Clause */
/* Grace periods: who delays what. */
#include "kv_rig.h"

#include "kv/epoch.h"

struct rig {
    struct kv_epoch epoch;
    struct kv_epoch_member members[3];
};

static struct rig rig;

static int setup(void **unused)
{
    kv_epoch_init(&rig.epoch, rig.members, 3);
    return 0;
}

static void test_nobody_online_delays_nothing(void **unused)
{
    uint64_t number = kv_epoch_retire(&rig.epoch);
    assert_true(kv_epoch_oldest(&rig.epoch, NULL) >= number);
}

static void test_online_member_delays_until_it_announces(void **unused)
{
    kv_epoch_online(&rig.epoch, &rig.members[0]);
    uint64_t number = kv_epoch_retire(&rig.epoch);
    assert_true(kv_epoch_oldest(&rig.epoch, NULL) < number);
    kv_epoch_announce(&rig.epoch, &rig.members[0]);
    assert_true(kv_epoch_oldest(&rig.epoch, NULL) >= number);
}

static void test_the_slowest_counts(void **unused)
{
    for (unsigned i = 0; i < 3; i++)
        kv_epoch_online(&rig.epoch, &rig.members[i]);
    uint64_t number = kv_epoch_retire(&rig.epoch);
    kv_epoch_announce(&rig.epoch, &rig.members[0]);
    kv_epoch_announce(&rig.epoch, &rig.members[2]);
    assert_true(kv_epoch_oldest(&rig.epoch, NULL) < number);
    assert_true(kv_epoch_oldest(&rig.epoch, &rig.members[1]) >= number);
    kv_epoch_announce(&rig.epoch, &rig.members[1]);
    assert_true(kv_epoch_oldest(&rig.epoch, NULL) >= number);
}

static void test_offline_member_delays_nothing(void **unused)
{
    kv_epoch_online(&rig.epoch, &rig.members[0]);
    uint64_t number = kv_epoch_retire(&rig.epoch);
    kv_epoch_offline(&rig.members[0]);
    assert_true(kv_epoch_oldest(&rig.epoch, NULL) >= number);
}

static void test_announcing_early_is_not_enough(void **unused)
{
    kv_epoch_online(&rig.epoch, &rig.members[0]);
    kv_epoch_announce(&rig.epoch, &rig.members[0]);
    assert_true(kv_epoch_oldest(&rig.epoch, NULL) < kv_epoch_retire(&rig.epoch));
}

static void test_numbers_rise(void **unused)
{
    uint64_t first = kv_epoch_retire(&rig.epoch);
    assert_true(kv_epoch_retire(&rig.epoch) > first);
}

static void test_lag_is_that_of_the_slowest(void **unused)
{
    assert_int_equal(kv_epoch_lag(&rig.epoch), 0);
    kv_epoch_online(&rig.epoch, &rig.members[0]);
    kv_epoch_online(&rig.epoch, &rig.members[1]);
    kv_epoch_announce(&rig.epoch, &rig.members[0]);
    kv_epoch_announce(&rig.epoch, &rig.members[1]);
    assert_int_equal(kv_epoch_lag(&rig.epoch), 0);
    for (unsigned i = 1; i <= 5; i++) {
        kv_epoch_retire(&rig.epoch);
        kv_epoch_announce(&rig.epoch, &rig.members[1]);
        assert_int_equal(kv_epoch_lag(&rig.epoch), i);
    }
    kv_epoch_offline(&rig.members[0]);
    assert_int_equal(kv_epoch_lag(&rig.epoch), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_nobody_online_delays_nothing, setup),
        cmocka_unit_test_setup(test_online_member_delays_until_it_announces, setup),
        cmocka_unit_test_setup(test_the_slowest_counts, setup),
        cmocka_unit_test_setup(test_offline_member_delays_nothing, setup),
        cmocka_unit_test_setup(test_announcing_early_is_not_enough, setup),
        cmocka_unit_test_setup(test_lag_is_that_of_the_slowest, setup),
        cmocka_unit_test_setup(test_numbers_rise, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
