/* SPDX-License-Identifier: BSD-3-Clause */
/* The cache and its workers: limits, two workers, threads. */
#include "rig.h"

#include <pthread.h>
#include <stdio.h>

static void test_bad_settings(void **state)
{
    struct cache_config config = rig_config();
    const char *error = NULL;

    (void)state;
    config.settings.threads = 0;
    assert_null(cache_create(&config, &error));
    assert_non_null(error);
    config = rig_config();
    config.settings.memory_bytes = 0;
    error = NULL;
    assert_null(cache_create(&config, &error));
    assert_non_null(error);
}

static void test_number_of_workers(void **state)
{
    struct rig *rig = *state;
    struct cache_worker *second = cache_join(rig->cache);

    assert_non_null(second);
    assert_null(cache_join(rig->cache));
    cache_leave(second);
    second = cache_join(rig->cache);
    assert_non_null(second);
    cache_offline(second);
    cache_online(second);
    cache_leave(second);
}

/* What one worker does the other sees; counters are summed, those of the departed included. */
static void test_two_workers(void **state)
{
    struct rig *rig = *state;
    struct rig other = *rig;
    struct cache_peer peer = {.transport = "tcp"};

    other.worker = cache_join(rig->cache);
    other.session = cache_session_open(other.worker, &peer);
    rig_sink_init(&other.out, other.worker);

    rig_expect(rig, "set a 0 0 1\r\n1\r\n", "STORED\r\n");
    rig_expect(&other, "get a\r\nincr a 1\r\n", "VALUE a 0 1\r\n1\r\nEND\r\n2\r\n");
    rig_expect(rig, "get a\r\ndelete a\r\n", "VALUE a 0 1\r\n2\r\nEND\r\nDELETED\r\n");
    rig_expect(&other, "get a\r\nset a 0 0 1\r\nx\r\nflush_all 2\r\n", "END\r\nSTORED\r\nOK\r\n");
    assert_int_equal(rig_stat(rig, NULL, "cmd_get"), 3);
    assert_int_equal(rig_stat(rig, NULL, "curr_connections"), 2);

    rig_wait(rig, 1);
    rig_wait(&other, 1);
    rig_expect(rig, "get a\r\n", "END\r\n");
    rig_expect(&other, "set a 0 0 1\r\nx\r\nget a\r\n", "STORED\r\nEND\r\n");
    rig_wait(rig, 1);
    rig_wait(&other, 1);
    rig_expect(&other, "set a 0 0 1\r\nx\r\n", "STORED\r\n");
    rig_expect(rig, "get a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n");

    rig_sink_free(&other.out);
    cache_session_close(other.session);
    cache_leave(other.worker);
    assert_int_equal(rig_stat(rig, NULL, "cmd_get"), 6);
    assert_int_equal(rig_stat(rig, NULL, "curr_connections"), 1);
}

/* A reference may be released by a worker other than the one that made it. */
static void test_release_by_another_worker(void **state)
{
    struct rig *rig = *state;
    struct cache_worker *second = cache_join(rig->cache);

    rig->out.hold_refs = true;
    rig_expect_set(rig, "big", 20000, 'x', "STORED\r\n");
    rig_feed(rig, "get big\r\ndelete big\r\n");
    rig_reply(rig);
    assert_true(rig->out.ref_count > 0);
    rig->out.worker = second;
    rig_release(&rig->out);
    cache_leave(second);
}

/* ---- two threads ------------------------------------------------------------------------- */

#define ROUNDS 3000

struct mate {
    struct rig rig; /* cache shared; worker, session, sink own */
    pthread_t thread;
};

static void *mate_run(void *arg)
{
    struct mate *mate = arg;
    struct rig *rig = &mate->rig;
    struct cache_peer peer = {.transport = "tcp"};

    rig->worker = cache_join(rig->cache);
    rig->session = cache_session_open(rig->worker, &peer);
    rig_sink_init(&rig->out, rig->worker);
    for (unsigned i = 0; i < ROUNDS; i++) {
        rig_feed(rig, "incr n 1 noreply\r\nappend log 0 0 1 noreply\r\nx\r\n"
                      "set k 1 0 3\r\nabc\r\nget k n\r\n");
        if (i % 100 == 0)
            rig_feed(rig, "stats\r\nstats conns\r\nstats settings\r\ntouch n 0\r\n");
        rig_forget(&rig->out);
        cache_tick(rig->worker, rig->now_us + i);
    }
    rig_sink_free(&rig->out);
    cache_session_close(rig->session);
    cache_leave(rig->worker);
    return NULL;
}

/* Concurrent incr and append of several workers are all applied. */
static void test_threads(void **state)
{
    struct cache_config config = rig_config();
    struct mate mates[2];
    struct rig rig;
    char text[128];

    (void)state;
    config.settings.threads = 3;
    rig_open(&rig, &config);
    rig_expect(&rig, "set n 0 0 1\r\n0\r\nset log 0 0 0\r\n\r\n", "STORED\r\nSTORED\r\n");
    cache_offline(rig.worker);
    for (unsigned i = 0; i < 2; i++) {
        mates[i].rig = rig;
        assert_int_equal(pthread_create(&mates[i].thread, NULL, mate_run, &mates[i]), 0);
    }
    for (unsigned i = 0; i < 2; i++)
        pthread_join(mates[i].thread, NULL);
    cache_online(rig.worker);
    snprintf(text, sizeof(text), "VALUE n 0 4\r\n%u\r\nEND\r\n", 2 * ROUNDS);
    rig_expect(&rig, "get n\r\n", text);
    snprintf(text, sizeof(text), "VALUE log 0 %u\r\n", 2 * ROUNDS);
    rig_feed(&rig, "get log\r\n");
    assert_memory_equal(rig_reply(&rig), text, strlen(text));
    assert_int_equal(rig_stat(&rig, NULL, "incr_hits"), 2 * ROUNDS);
    assert_int_equal(rig_stat(&rig, NULL, "cmd_get"), 4 * ROUNDS + 2);
    assert_int_equal(rig_stat(&rig, NULL, "curr_items"), 3);
    rig_close(&rig);
}

/* In another order than before: each has its own time nevertheless. */
static void test_workers_continue(void **state)
{
    struct rig *rig = *state;
    struct cache_worker *second = cache_join(rig->cache);

    rig_expect(rig, "set a 0 50 1\r\nx\r\n", "STORED\r\n");
    rig_wait(rig, 100);
    cache_suspend(rig->worker);
    cache_suspend(second);
    assert_true(cache_continue(second));
    assert_true(cache_continue(rig->worker));
    rig_expect(rig, "get a\r\n", "END\r\n");
    cache_leave(second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_settings),
        cmocka_unit_test_setup_teardown(test_number_of_workers, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_two_workers, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_release_by_another_worker, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_workers_continue, rig_setup, rig_teardown),
        cmocka_unit_test(test_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
