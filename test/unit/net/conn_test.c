/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections with output that is due without input, and idle ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

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

static void remove_idle(struct net_conns *all, struct net_conn *conn)
{
    u_list_remove(&conn->link);
}

static const struct net_transport transport = {.resume = count_resume, .close_idle = remove_idle};

static void open_all(struct net_conns *all, uint32_t idle_timeout_s)
{
    struct cache_config config = {.start_us = 1, .start_unix_s = 1700000000};
    const struct cache_peer peer = {.transport = "tcp"};
    const char *why = NULL;

    memset(all, 0, sizeof(*all));
    memset(conns, 0, sizeof(conns));
    config.settings.memory_bytes = 64 << 20;
    config.settings.item_bytes_max = 1 << 20;
    config.settings.connections_max = CONNS;
    config.settings.threads = 1;
    all->cache = cache_create(&config, &why);
    assert_non_null(all->cache);
    net_conns_init(all, &transport, all->cache, idle_timeout_s);
    all->cache_worker = cache_join(all->cache);
    assert_non_null(all->cache_worker);
    for (unsigned i = 0; i < CONNS; i++) {
        conns[i].timed = idle_timeout_s > 0;
        u_list_push_back(&all->open, &conns[i].link);
        assert_true(net_conn_open_session(all, &conns[i], &peer));
    }
}

/* Of many sessions that always have output a loop resumes some, and each has its turn. */
static void test_pending_output_is_resumed_in_turns(void **state)
{
    struct net_conns all;

    open_all(&all, 0);
    for (unsigned i = 0; i < CONNS; i++)
        cache_session_set_resumable(conns[i].session, true);
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

/* Of many connections that are idle for too long a loop closes some, and the next the others. */
static void test_idle_connections_are_closed_in_turns(void **state)
{
    const uint64_t now_us = 10 * 1000000;
    struct net_counter closed = {0};
    struct net_conns all;

    open_all(&all, 5);
    net_conns_tick(&all, 1, &closed);
    assert_int_equal(net_counter_read(&closed), 0);
    cache_tick(all.cache_worker, now_us);
    net_conns_tick(&all, now_us, &closed);
    assert_in_range(net_counter_read(&closed), 1, CONNS - 1);
    net_conns_tick(&all, now_us, &closed);
    assert_int_equal(net_counter_read(&closed), CONNS);
    assert_true(u_list_is_empty(&all.open));
    cache_leave(all.cache_worker);
    cache_destroy(all.cache);
}

/* Connections that are not timed keep none of the others from being closed, however many. */
static void test_connections_without_timeout_are_passed_over(void **state)
{
    const uint64_t now_us = 10 * 1000000;
    struct net_counter closed = {0};
    struct net_conns all;
    unsigned i;

    open_all(&all, 5);
    for (i = 0; i < CONNS - 1; i++)
        conns[i].timed = false;
    cache_tick(all.cache_worker, now_us);
    for (i = 0; i < CONNS; i++)
        net_conns_tick(&all, now_us + i * NET_IDLE_CHECK_US, &closed);
    assert_int_equal(net_counter_read(&closed), 1);
    assert_null(conns[CONNS - 1].session);
    for (i = 0; i < CONNS - 1; i++)
        net_conn_close_session(&conns[i]);
    cache_leave(all.cache_worker);
    cache_destroy(all.cache);
}

/* A client with TLS could make nothing of a line in the clear. */
static void test_refusal_has_words_without_tls(void **state)
{
    struct cache_peer peer = {.transport = "tcp"};
    struct net_conns all;
    const char *text;
    u_u32 len;

    open_all(&all, 0);
    text = net_conn_refuse(&all, &peer, &len);
    assert_memory_equal(text, "ERROR Too many open connections\r\n", len);
    assert_true(len > 0);
    peer.tls = CACHE_TLS_ON;
    (void)net_conn_refuse(&all, &peer, &len);
    assert_int_equal(len, 0);
    for (unsigned i = 0; i < CONNS; i++)
        net_conn_close_session(&conns[i]);
    cache_leave(all.cache_worker);
    cache_destroy(all.cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pending_output_is_resumed_in_turns),
        cmocka_unit_test(test_idle_connections_are_closed_in_turns),
        cmocka_unit_test(test_connections_without_timeout_are_passed_over),
        cmocka_unit_test(test_refusal_has_words_without_tls),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
