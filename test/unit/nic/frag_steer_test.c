/* SPDX-License-Identifier: BSD-3-Clause */
/* Fragments are assigned to the lane of their flow in any order, within limits. */
#include "nic/frag_steer.h"
#include "nic_testing.h"

#define LANES 4

static struct us_pkt pkts[1024];
static struct nic_frag_steer frags;

static int setup(void **state)
{
    memset(&frags, 0, sizeof(frags));
    return 0;
}

/* An IPv4 flow. The 12 unused bytes of its addresses differ in each call. */
static struct nic_rss_flow flow_of(uint32_t ident, bool first)
{
    static uint8_t unset;
    struct nic_rss_flow flow = {.ident = ident, .is_first = first};

    memset(flow.from.addr + 4, unset++, sizeof(flow.from.addr) - 4);
    memset(flow.to.addr + 4, unset++, sizeof(flow.to.addr) - 4);
    flow.from.addr[3] = 1;
    flow.to.addr[3] = 2;
    if (first) {
        flow.has_ports = true;
        flow.from.port = (uint16_t)(1000 + ident);
        flow.to.port = 11211;
    }
    return flow;
}

static unsigned lane_of_datagram(uint32_t ident)
{
    struct nic_rss_flow flow = flow_of(ident, true);

    return nic_rss_lane(nic_rss_hash(&flow), LANES);
}

static struct nic_frag_result sort(uint32_t ident, bool first, unsigned pkt)
{
    struct nic_rss_flow flow = flow_of(ident, first);
    struct nic_frag_result sorted;

    nic_frag_steer_add(&frags, &flow, &pkts[pkt], LANES, &sorted);
    return sorted;
}

static void the_first_fragment_selects_the_lane(void **state)
{
    uint32_t ident;

    for (ident = 0; ident < 10; ident++) {
        struct nic_frag_result sorted = sort(ident, true, 0);

        assert_int_equal(sorted.ready_count, 1);
        assert_int_equal(sorted.lane, lane_of_datagram(ident));
        sorted = sort(ident, false, 1);
        assert_int_equal(sorted.ready_count, 1);
        assert_ptr_equal(sorted.ready[0], &pkts[1]);
        assert_int_equal(sorted.lane, lane_of_datagram(ident));
        assert_int_equal(sorted.dropped_count, 0);
    }
}

static void fragments_wait_for_the_first_one(void **state)
{
    struct nic_frag_result sorted;
    unsigned i;

    for (i = 0; i < 5; i++)
        assert_int_equal(sort(77, false, i).ready_count, 0);
    sorted = sort(78, true, 9); /* another datagram */
    assert_int_equal(sorted.ready_count, 1);
    sorted = sort(77, true, 5);
    assert_int_equal(sorted.lane, lane_of_datagram(77));
    assert_int_equal(sorted.ready_count, 6);
    for (i = 0; i < 6; i++)
        assert_ptr_equal(sorted.ready[i], &pkts[i]);
    assert_null(nic_frag_steer_pop(&frags));
}

/* Without ports, as in a ping, the addresses select the lane. */
static void packets_without_ports_are_hashed_by_addresses(void **state)
{
    struct nic_rss_flow flow = flow_of(5, true);
    struct nic_frag_result sorted;

    flow.has_ports = false;
    nic_frag_steer_add(&frags, &flow, &pkts[0], LANES, &sorted);
    assert_int_equal(sorted.ready_count, 1);
    assert_int_equal(sorted.lane, nic_rss_lane(nic_rss_hash(&flow), LANES));
}

static void waiting_fragments_are_limited(void **state)
{
    struct nic_frag_result sorted;
    unsigned i;

    for (i = 0; i < NIC_FRAG_WAITING_MAX; i++)
        assert_int_equal(sort(1, false, i).dropped_count, 0);
    sorted = sort(1, false, i);
    assert_int_equal(sorted.dropped_count, 1);
    assert_ptr_equal(sorted.dropped[0], &pkts[i]);
    for (i = 1; i < NIC_FRAG_DATAGRAMS_MAX; i++)
        assert_int_equal(sort(1 + i, false, 100 + i).dropped_count, 0);
    sorted = sort(1000, false, 200); /* replaces the oldest */
    assert_int_equal(sorted.dropped_count, NIC_FRAG_WAITING_MAX);
    assert_ptr_equal(sorted.dropped[0], &pkts[0]);
    for (i = 0; nic_frag_steer_pop(&frags) != NULL; i++)
        continue;
    assert_int_equal(i, NIC_FRAG_DATAGRAMS_MAX);
}

/* An entry is used again for a datagram whose lane is not known yet. */
static void a_reused_entry_knows_no_lane(void **state)
{
    struct nic_frag_result sorted;
    unsigned i;

    for (i = 0; i < NIC_FRAG_DATAGRAMS_MAX; i++)
        assert_int_equal(sort(i, true, i).ready_count, 1);
    assert_int_equal(sort(1000, false, 200).ready_count, 0);
    sorted = sort(1000, true, 201);
    assert_int_equal(sorted.ready_count, 2);
    assert_int_equal(sorted.lane, lane_of_datagram(1000));
}

/* The same identification and bytes of addresses, in the other family. */
static void families_are_apart(void **state)
{
    struct nic_rss_flow flow = flow_of(7, true);
    struct nic_frag_result sorted;

    nic_frag_steer_add(&frags, &flow, &pkts[0], LANES, &sorted);
    flow.is_first = false;
    flow.is_ip6 = true;
    nic_frag_steer_add(&frags, &flow, &pkts[1], LANES, &sorted);
    assert_int_equal(sorted.ready_count, 0);
}

/* The same identification: datagrams to two addresses, or from two. */
static void datagrams_of_other_addresses_are_apart(void **state)
{
    struct nic_frag_result sorted;
    unsigned six;

    for (six = 0; six < 2; six++) {
        struct nic_rss_flow flow = flow_of(7, true), other;
        unsigned last = six ? 15 : 3;

        flow.is_ip6 = six;
        nic_frag_steer_add(&frags, &flow, &pkts[0], LANES, &sorted);
        flow.is_first = false;
        other = flow;
        other.to.addr[last]++;
        nic_frag_steer_add(&frags, &other, &pkts[1], LANES, &sorted);
        assert_int_equal(sorted.ready_count, 0);
        other = flow;
        other.from.addr[last]++;
        nic_frag_steer_add(&frags, &other, &pkts[2], LANES, &sorted);
        assert_int_equal(sorted.ready_count, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_first_fragment_selects_the_lane, setup),
        cmocka_unit_test_setup(fragments_wait_for_the_first_one, setup),
        cmocka_unit_test_setup(packets_without_ports_are_hashed_by_addresses, setup),
        cmocka_unit_test_setup(waiting_fragments_are_limited, setup),
        cmocka_unit_test_setup(a_reused_entry_knows_no_lane, setup),
        cmocka_unit_test_setup(families_are_apart, setup),
        cmocka_unit_test_setup(datagrams_of_other_addresses_are_apart, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
