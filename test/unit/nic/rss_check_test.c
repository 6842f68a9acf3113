/* SPDX-License-Identifier: BSD-3-Clause */
/* A queue is trusted only after enough table entries were verified. */
#include <string.h>

#include "nic/rss_check.h"
#include "nic_testing.h"

static const struct nic_rss_flow ip4;
static const struct nic_rss_flow ip6 = {.is_ip6 = true};

/* A hash of the n-th table entry that belongs to a queue. */
static uint32_t hash_of(unsigned n, unsigned queue, unsigned queues)
{
    return 0xabcd0000u + queue + n * queues;
}

static void trust_needs_flows_of_several_entries(void **state)
{
    struct nic_rss_check check = {.verified = 0};
    unsigned n, again;

    for (n = 0; n < NIC_RSS_CHECK_ENTRIES; n++) {
        assert_false(nic_rss_check_is_trusted(&check, false));
        for (again = 0; again < 20; again++) /* many frames of a flow count as one */
            assert_true(nic_rss_check_record(&check, &ip4, hash_of(n, 1, 2), 1, 2));
    }
    assert_true(nic_rss_check_is_trusted(&check, false));
    assert_int_equal(check.verified, 20 * NIC_RSS_CHECK_ENTRIES);
    assert_int_equal(check.mismatches, 0);
}

static void families_are_trusted_one_by_one(void **state)
{
    struct nic_rss_check check = {.verified = 0};
    unsigned n;

    for (n = 0; n < NIC_RSS_CHECK_ENTRIES; n++)
        assert_true(nic_rss_check_record(&check, &ip6, hash_of(n, 0, 3), 0, 3));
    assert_true(nic_rss_check_is_trusted(&check, true));
    assert_true(nic_rss_check_record(&check, &ip4, hash_of(0, 0, 3), 0, 3));
    assert_false(nic_rss_check_is_trusted(&check, false));
}

/* With many queues each has only two entries of the table, or one. */
static void all_entries_of_a_queue_are_enough(void **state)
{
    struct nic_rss_check check = {.verified = 0};

    assert_true(nic_rss_check_record(&check, &ip4, hash_of(0, 63, 64), 63, 64));
    assert_false(nic_rss_check_is_trusted(&check, false));
    assert_true(nic_rss_check_record(&check, &ip4, hash_of(1, 63, 64), 63, 64));
    assert_true(nic_rss_check_is_trusted(&check, false));

    memset(&check, 0, sizeof(check));
    assert_true(nic_rss_check_record(&check, &ip4, 127, 127, 128));
    assert_true(nic_rss_check_is_trusted(&check, false));
}

static void frames_of_other_queues_are_counted(void **state)
{
    struct nic_rss_check check = {.verified = 0};
    unsigned n;

    for (n = 0; n < 100; n++)
        assert_false(nic_rss_check_record(&check, &ip4, hash_of(n, 1, 4), 2, 4));
    assert_false(nic_rss_check_is_trusted(&check, false));
    assert_int_equal(check.mismatches, 100);
    assert_int_equal(check.verified, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trust_needs_flows_of_several_entries),
        cmocka_unit_test(families_are_trusted_one_by_one),
        cmocka_unit_test(all_entries_of_a_queue_are_enough),
        cmocka_unit_test(frames_of_other_queues_are_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
