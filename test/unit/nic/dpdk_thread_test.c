/* SPDX-License-Identifier: BSD-3-Clause */
/* A DPDK queue loses no packets when threads start and end. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
#include <rte_lcore.h>

#include "nic/dpdk.h"
#include "nic_testing.h"

#define QUEUES 2

/* More threads than lcore ids. */
#define ROUNDS (RTE_MAX_LCORE + 2)

static struct nic *queues[QUEUES];

/* A thread that uses a queue and, before it ends, starts the thread that uses the next queue. */
struct user {
    unsigned queue;
    unsigned pkts;     /* that it could allocate */
    unsigned lcore;    /* its lcore id */
    struct user *then; /* null: none */
};

static void *use(void *arg)
{
    struct user *user = arg;
    struct us_pkt *pkt;
    pthread_t next;

    if (nic_rx_burst(queues[user->queue], &pkt, 1) > 0)
        nic_release(queues[user->queue], &pkt, 1);
    user->pkts = pkts_of(queues[user->queue]);
    user->lcore = rte_lcore_id();
    if (user->then != NULL && pthread_create(&next, NULL, use, user->then) == 0)
        pthread_join(next, NULL);
    return NULL;
}

static void ended_threads_leave_all_packets(void **state)
{
    unsigned all = pkts_of(queues[0]);
    unsigned round, i;
    pthread_t thread;

    assert_in_range(all, NIC_BURST_MAX, PKTS_MAX);
    for (round = 0; round < ROUNDS; round++) {
        struct user users[QUEUES] = {{.queue = round % QUEUES}, {.queue = (round + 1) % QUEUES}};

        users[0].then = &users[1];
        assert_int_equal(pthread_create(&thread, NULL, use, &users[0]), 0);
        pthread_join(thread, NULL);
        for (i = 0; i < QUEUES; i++) {
            assert_int_equal(users[i].pkts, all);
            assert_in_range(users[i].lcore, 0, RTE_MAX_LCORE - 1);
        }
    }
}

static int open_queues(void **state)
{
    struct nic_dpdk_config config = {.dev = "net_null0,no-rx=1", .eal = "--no-huge"};
    char error[NIC_ERROR_MAX];

    if (nic_dpdk_open(&config, QUEUES, queues, error) == QUEUES)
        return 0;
    fprintf(stderr, "%s\n", error);
    return -1;
}

static int close_queues(void **state)
{
    unsigned i;

    for (i = 0; i < QUEUES; i++)
        nic_close(queues[i]);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(ended_threads_leave_all_packets)};

    return cmocka_run_group_tests(tests, open_queues, close_queues);
}
