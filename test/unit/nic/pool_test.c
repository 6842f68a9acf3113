/* SPDX-License-Identifier: BSD-3-Clause */
/* The packet pool: allocation, release, and assertions on misuse. */
#include "nic/pool.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nic_testing.h"

static void allocates_all_and_counts_exhaustion(void **state)
{
    struct nic_pool *pool = nic_pool_create(5, 1500);
    struct us_pkt *pkts[8];

    assert_non_null(pool);
    assert_int_equal(nic_pool_in_use(pool), 0);
    assert_int_equal(nic_pool_alloc(pool, pkts, 0), 0);
    assert_int_equal(nic_pool_alloc(pool, pkts, 3), 3);
    assert_int_equal(nic_pool_exhausted(pool), 0);
    assert_int_equal(nic_pool_alloc(pool, pkts + 3, 5), 2);
    assert_int_equal(nic_pool_exhausted(pool), 1);
    assert_int_equal(nic_pool_alloc(pool, pkts + 5, 1), 0);
    assert_int_equal(nic_pool_exhausted(pool), 2);
    assert_int_equal(nic_pool_in_use(pool), 5);
    nic_pool_release(pool, pkts, 5);
    assert_int_equal(nic_pool_in_use(pool), 0);
    assert_int_equal(nic_pool_alloc(pool, pkts, 5), 5);
    nic_pool_release(pool, pkts, 5);
    nic_pool_destroy(pool);
}

static void packets_are_apart_and_have_room(void **state)
{
    /* The last but one fills buffers of a multiple of 2048 bytes. */
    static const uint32_t mtus[] = {NIC_MTU_MIN, 1500, 2000,
                                    4096 - NIC_POOL_HEADROOM_BYTES - NIC_ETH_HEADER_BYTES - 4,
                                    NIC_MTU_MAX};
    struct us_pkt *pkts[7];
    unsigned i, j;

    for (i = 0; i < sizeof(mtus) / sizeof(mtus[0]); i++) {
        struct nic_pool *pool = nic_pool_create(7, mtus[i]);

        assert_int_equal(nic_pool_alloc(pool, pkts, 7), 7);
        for (j = 0; j < 7; j++) {
            assert_true(pkts[j]->room > mtus[i] + NIC_ETH_HEADER_BYTES + 4);
            memset(pkts[j]->data - NIC_POOL_HEADROOM_BYTES, (int)j,
                   NIC_POOL_HEADROOM_BYTES + pkts[j]->room);
        }
        for (j = 0; j < 7; j++) {
            assert_int_equal(pkts[j]->data[-NIC_POOL_HEADROOM_BYTES], j);
            assert_int_equal(pkts[j]->data[pkts[j]->room - 1], j);
        }
        nic_pool_release(pool, pkts, 7);
        nic_pool_destroy(pool);
    }
}

static void a_reused_packet_is_reset(void **state)
{
    struct nic_pool *pool = nic_pool_create(1, 1500);
    struct us_pkt unused;
    struct us_pkt *pkt;

    nic_pool_alloc(pool, &pkt, 1);
    memcpy(&unused, pkt, sizeof(unused));
    pkt->data += 14;
    pkt->room -= 14;
    pkt->len = 99;
    pkt->flags = US_PKT_TX_L4_CSUM;
    pkt->next_seg = pkt;
    pkt->rss_hash = pkt->csum_start = pkt->csum_offset = 1;
    pkt->tso_mss = pkt->l2_len = pkt->l3_len = pkt->l4_len = 1;
    nic_pool_release(pool, &pkt, 1);
    nic_pool_alloc(pool, &pkt, 1);
    assert_memory_equal(pkt, &unused, sizeof(unused));
    nic_pool_release(pool, &pkt, 1);
    nic_pool_destroy(pool);
}

static void give_twice(void)
{
    struct nic_pool *pool = nic_pool_create(2, 1500);
    struct us_pkt *pkts[2];

    nic_pool_alloc(pool, pkts, 2);
    nic_pool_release(pool, pkts, 1);
    nic_pool_release(pool, pkts, 1);
}

static void give_to_another_pool(void)
{
    struct nic_pool *pool = nic_pool_create(2, 1500);
    struct nic_pool *other = nic_pool_create(2, 1500);
    struct us_pkt *pkt;

    nic_pool_alloc(pool, &pkt, 1);
    nic_pool_release(other, &pkt, 1);
}

/* Runs a misuse in a child process, which must be killed by the assertion. */
static void assert_stops(void (*misuse)(void))
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        struct rlimit no_core = {0, 0};

        setrlimit(RLIMIT_CORE, &no_core);
        signal(SIGILL, SIG_DFL);
        signal(SIGTRAP, SIG_DFL);
        misuse();
        _exit(0);
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
}

static void double_release_stops_the_process(void **state)
{
    assert_stops(give_twice);
    assert_stops(give_to_another_pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocates_all_and_counts_exhaustion),
        cmocka_unit_test(packets_are_apart_and_have_room),
        cmocka_unit_test(a_reused_packet_is_reset),
        cmocka_unit_test(double_release_stops_the_process),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
