/* SPDX-License-Identifier: BSD-3-Clause */
/* When a queue is trusted to hold its own flows only, and that it is not before. */
#include <string.h>

#include "nic/rss_check.h"
#include "nic_testing.h"

static const struct nic_rss_flow ip4;
static const struct nic_rss_flow ip6 = {.is_ip6 = true};

/* A hash of the n-th place that belongs to a queue. */
static uint32_t hash_of(unsigned n, unsigned queue, unsigned queues)
{
    return 0xabcd0000u + queue + n * queues;
}

static void trust_needs_flows_of_several_places(void **state)
{
    struct nic_rss_check check = {.verified = 0};
    unsigned n, again;

    for (n = 0; n < NIC_RSS_CHECK_PLACES; n++) {
        assert_false(nic_rss_check_trusts(&check, false));
        for (again = 0; again < 20; again++) /* many frames of a flow tell no more than one */
            assert_true(nic_rss_check_note(&check, &ip4, hash_of(n, 1, 2), 1, 2));
    }
    assert_true(nic_rss_check_trusts(&check, false));
    assert_int_equal(check.verified, 20 * NIC_RSS_CHECK_PLACES);
    assert_int_equal(check.mismatches, 0);
}

static void families_are_trusted_one_by_one(void **state)
{
    struct nic_rss_check check = {.verified = 0};
    unsigned n;

    for (n = 0; n < NIC_RSS_CHECK_PLACES; n++)
        assert_true(nic_rss_check_note(&check, &ip6, hash_of(n, 0, 3), 0, 3));
    assert_true(nic_rss_check_trusts(&check, true));
    assert_false(nic_rss_check_trusts(&check, false));
}

/* With many queues each has only two places of the table, or one. */
static void all_places_of_a_queue_are_enough(void **state)
{
    struct nic_rss_check check = {.verified = 0};

    assert_true(nic_rss_check_note(&check, &ip4, hash_of(0, 63, 64), 63, 64));
    assert_false(nic_rss_check_trusts(&check, false));
    assert_true(nic_rss_check_note(&check, &ip4, hash_of(1, 63, 64), 63, 64));
    assert_true(nic_rss_check_trusts(&check, false));

    memset(&check, 0, sizeof(check));
    assert_true(nic_rss_check_note(&check, &ip4, 127, 127, 128));
    assert_true(nic_rss_check_trusts(&check, false));
}

static void what_belongs_elsewhere_is_counted(void **state)
{
    struct nic_rss_check check = {.verified = 0};
    unsigned n;

    for (n = 0; n < 100; n++)
        assert_false(nic_rss_check_note(&check, &ip4, hash_of(n, 1, 4), 2, 4));
    assert_false(nic_rss_check_trusts(&check, false));
    assert_int_equal(check.mismatches, 100);
    assert_int_equal(check.verified, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trust_needs_flows_of_several_places),
        cmocka_unit_test(families_are_trusted_one_by_one),
        cmocka_unit_test(all_places_of_a_queue_are_enough),
        cmocka_unit_test(what_belongs_elsewhere_is_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
