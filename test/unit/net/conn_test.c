/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections with output that is due without input. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base.h"
#include "cache/cache.h"
#include "cache/task.h"
#include "net/conn.h"

#define CONNS (3 * NET_PENDING_BATCH)

static struct net_conn conns[CONNS];
static unsigned resumed[CONNS];

static void count_resume(struct net_conns *all, struct net_conn *conn)
{
    resumed[conn - conns]++;
}

static const struct net_transport transport = {.resume = count_resume};

/* Of many sessions that always have output a loop resumes some, and each has its turn. */
static void test_pending_output_is_resumed_in_turns(void **state)
{
    struct cache_config config = {.start_us = 1, .start_unix_s = 1700000000};
    const struct cache_peer peer = {.transport = "tcp"};
    struct net_conns all = {0};
    const char *why = NULL;

    config.settings.memory_bytes = 64 << 20;
    config.settings.item_bytes_max = 1 << 20;
    config.settings.connections_max = CONNS;
    config.settings.threads = 1;
    all.cache = cache_create(&config, &why);
    assert_non_null(all.cache);
    net_conns_init(&all, &transport, all.cache, 0);
    all.cache_worker = cache_join(all.cache);
    assert_non_null(all.cache_worker);
    for (unsigned i = 0; i < CONNS; i++) {
        assert_true(net_conn_open_session(&all, &conns[i], &peer));
        cache_session_set_resumable(conns[i].session, true);
    }
    for (unsigned loop = 1; loop <= 2 * CONNS / NET_PENDING_BATCH; loop++) {
        unsigned sum = 0;

        net_conns_flush_pending(&all);
        for (unsigned i = 0; i < CONNS; i++) {
            assert_in_range(resumed[i], (loop - 1) * NET_PENDING_BATCH / CONNS,
                            (loop - 1) * NET_PENDING_BATCH / CONNS + 1);
            sum += resumed[i];
        }
        assert_int_equal(sum, loop * NET_PENDING_BATCH);
    }
    for (unsigned i = 0; i < CONNS; i++) {
        cache_session_set_resumable(conns[i].session, false);
        net_conn_close_session(&conns[i]);
    }
    cache_leave(all.cache_worker);
    cache_destroy(all.cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pending_output_is_resumed_in_turns)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
