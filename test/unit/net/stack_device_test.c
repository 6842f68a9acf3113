/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stack worker and its device: one that does not take every frame, sends chains of segments,
 * changes while it is open, or in which the worker sleeps. The worker's clock is the test's.
 */
#define _GNU_SOURCE /* syscall() in stack_device.h */
#include "stack_device.h"

#define ETH_BYTES 14

static void find_in_use(void *ctx, const char *name, uint64_t value)
{
    if (strcmp(name, "loop_pool_in_use") == 0)
        *(uint64_t *)ctx = value;
}

/* While no frame is under way: all packets are free but those that the worker has taken to fill. */
static void expect_packets_returned(struct fixture *f)
{
    uint64_t in_use = UINT64_MAX;

    nic_stats(f->ends[0], find_in_use, &in_use);
    assert_int_equal(in_use, f->server->empty_end - f->server->empty_first);
}

static uint64_t pinned(const struct fixture *f)
{
    struct kv_stats stats;

    kv_stats(f->cache->kv, &stats);
    return stats.pinned;
}

/* ---- frames that the device does not take ------------------------------------------------ */

/* They are sent later: each once, in order, before others. */
static void test_device_takes_one_frame_at_a_time(void **state)
{
    struct fixture *f = *state;
    struct client *c = client_open(f);
    const size_t reply_len = strlen("VALUE v 0 200000\r\n") + 200000 + 2 + 5;

    store(f, c, "v", 'v', 200000);
    c->got_len = 0;
    device.takes_max = 1;
    client_send(c, "get v\r\n", 7);
    wait_for(f, c, reply_len);
    assert_string_equal(c->got + reply_len - 8, "v\r\nEND\r\n");
    assert_true(counter(f, NET_STACK_TX_RETRIES) > 0);
    assert_int_equal(us_counter_named(f, "tcp_retransmits"), 0);
    assert_int_equal(counter(f, NET_STACK_TX_DROPPED_UNSENT), 0);
    assert_int_equal(counter(f, NET_STACK_TX_FRAMES), device.frames);
    expect_packets_returned(f);
}

/* Each frame that the device takes later is work: the next turn follows without a pause. */
static void test_frames_that_are_taken_late_are_work(void **state)
{
    struct fixture *f = *state;
    struct client *c = client_open(f);
    unsigned left;

    store(f, c, "v", 'v', 10000);
    steps(f, 1000); /* nothing is unacknowledged */
    device.takes_max = 0;
    client_send(c, "get v\r\n", 7);
    step(f);
    left = f->server->unsent_count;
    assert_true(left > 2);
    assert_false(net_stack_turn(f->server, f->now_us));
    device.takes_max = 1;
    while (left-- > 0)
        assert_true(net_stack_turn(f->server, f->now_us));
    assert_false(net_stack_turn(f->server, f->now_us));
}

/* Here an acknowledgment, behind which there is no timer. */
static void test_worker_tries_again_soon(void **state)
{
    struct fixture *f = *state;
    struct client *c = client_open(f);

    ask(f, c, "get a\r\n", "END\r\n");
    steps(f, 1000); /* nothing is unacknowledged */
    f->server->idle = NET_IDLE_INTERRUPT;
    device.takes_max = 0;
    client_send(c, "ge", 2);
    steps(f, 1000);
    assert_int_equal(f->server->unsent_count, 1);
    assert_in_range(net_stack_sleep_us_max(f->server, f->now_us), 1, 1000);
    device.takes_max = NIC_BURST_MAX;
    server_turn(f);
    assert_true(net_stack_sleep_us_max(f->server, f->now_us) > 1000);
}

/* The same while the device has no packets: here for a reply, which has no timer yet. */
static void test_worker_asks_for_packets_again_soon(void **state)
{
    struct fixture *f = *state;
    struct client *c = client_open(f);
    unsigned i;

    ask(f, c, "get a\r\n", "END\r\n");
    steps(f, 1000);
    f->server->idle = NET_IDLE_INTERRUPT;
    device.is_empty = true;
    for (i = 0; i < NIC_BURST_MAX && counter(f, NET_STACK_ALLOC_EMPTY) == 0; i++) {
        client_send(c, "get a\r\n", 7);
        steps(f, 50);
    }
    c->got_len = 0;
    client_send(c, "get a\r\n", 7);
    steps(f, 50);
    assert_int_equal(c->got_len, 0);
    assert_in_range(net_stack_sleep_us_max(f->server, f->now_us), 1, 1000);
    device.is_empty = false;
    wait_for(f, c, 5);
    assert_string_equal(c->got, "END\r\n");
}

/* Without chains no frame shows an item: its memory is free as soon as its reply has ended. */
static void test_copied_frames_hold_no_item(void **state)
{
    struct fixture *f = *state;
    struct client *c = client_open(f);

    store(f, c, "v", 'v', 30000);
    device.takes_max = 0;
    client_send(c, "get v\r\n", 7);
    step(f);
    assert_true(f->server->unsent_count > 0);
    us_abort(f->stack, c->conn);
    steps(f, 3);
    assert_true(f->server->unsent_count > 0);
    assert_int_equal(pinned(f), 0);
}

/* A chain that is not sent yet shows an item, whose memory is kept for it. */
static void test_item_is_kept_for_a_chain(void **state)
{
    struct fixture *f = *state;
    struct client *c = client_open(f);

    f->ends[1]->caps |= US_CAP_TX_SG; /* as a device may that was opened without */
    store(f, c, "v", 'v', 30000);
    device.takes_max = 0;
    client_send(c, "get v\r\n", 7);
    step(f);
    us_abort(f->stack, c->conn);
    steps(f, 3);
    assert_true(f->server->unsent_count > 0);
    assert_true(pinned(f) > 0);
    device.takes_max = NIC_BURST_MAX;
    steps(f, 3);
    assert_true(device.chains > 0);
    assert_int_equal(pinned(f), 0);
    expect_packets_returned(f);
}

/* Asks for large values on so many connections, and resets these before a frame is sent. */
static void reset_with_chains_unsent(struct fixture *f, unsigned clients)
{
    char *requests = repeat("get v\r\n", 60);
    struct client *first = &f->clients[f->client_count];
    unsigned i;

    device.takes_max = NIC_BURST_MAX;
    for (i = 0; i < clients; i++)
        client_open(f);
    steps(f, 100);
    device.takes_max = 0;
    for (i = 0; i < clients; i++)
        client_send(&first[i], requests, strlen(requests));
    steps(f, 3);
    assert_true(f->server->unsent_count > 0);
    for (i = 0; i < clients; i++)
        us_abort(f->stack, first[i].conn);
    steps(f, 3);
    free(requests);
}

/* A device that takes nothing keeps items for a bounded number of references. */
static void test_frames_are_dropped_for_references(void **state)
{
    struct fixture *f = *state;

    f->ends[1]->caps |= US_CAP_TX_SG;
    store(f, client_open(f), "v", 'v', 8192);
    reset_with_chains_unsent(f, 20);
    assert_true(counter(f, NET_STACK_TX_DROPPED_UNSENT) > 0);
    assert_true(pinned(f) <= NET_STACK_HELD_MAX);
    device.takes_max = NIC_BURST_MAX;
    steps(f, 100);
    assert_int_equal(pinned(f), 0);
    expect_packets_returned(f);
    assert_int_equal(us_counter_named(f, "tx_frames"),
                     device.frames + counter(f, NET_STACK_TX_DROPPED_UNSENT));
}

/* teardown() sees no reference left. */
static void test_end_with_chains_unsent(void **state)
{
    struct fixture *f = *state;

    f->ends[1]->caps |= US_CAP_TX_SG;
    store(f, client_open(f), "v", 'v', 8192);
    reset_with_chains_unsent(f, 3);
    assert_true(pinned(f) > 0);
}

/* Of a worker with two sides. */
static int setup_two_sides(void **state)
{
    rig_threading = NET_THREADING_SPLIT;
    return setup_device(state);
}

static int teardown_two_sides(void **state)
{
    int rc = teardown_device(state);

    rig_threading = NET_THREADING_UNIFIED;
    return rc;
}

/* The link's MTU was reduced: no longer frame is sent. */
static void test_mtu_changes(void **state)
{
    struct fixture *f = *state;
    struct client *c = client_open(f);

    store(f, c, "v", 'v', 100000);
    c->got_len = 0;
    client_send(c, "get v\r\n", 7);
    wait_for(f, c, strlen("VALUE v 0 100000\r\n") + 100000 + 2 + 5);
    assert_int_equal(device.longest_bytes, 1500 + ETH_BYTES);
    device.mtu = 600;
    steps(f, 2000);
    device.longest_bytes = 0;
    c->got_len = 0;
    client_send(c, "get v\r\n", 7);
    wait_for(f, c, strlen("VALUE v 0 100000\r\n") + 100000 + 2 + 5);
    assert_int_equal(device.longest_bytes, 600 + ETH_BYTES);
}

/* ---- the worker's loop: it sleeps in the device ------------------------------------------ */

/* Runs the worker in this thread until a wait stops it, then begins anew for teardown(). */
static void run_worker(struct fixture *f)
{
    f->server->app->end(f->server);
    device.waits = 0;
    clock_step_us = 1;
    assert_int_equal(net_worker_run(&f->server->worker), 0);
    device.wait = NULL;
    clock_step_us = 0;
    assert_int_equal(net_stack_begin(f->server), 0);
}

/* Sixteen sleeps that end at once, then as many long ones. */
static void spin_wait(struct fixture *f, uint64_t timeout_us)
{
    uint64_t busy_us = f->server->busy_us;

    if (device.waits == 17) {
        assert_int_equal(net_stack_sleep_us_max(f->server, busy_us + 60), 0);
        assert_true(net_stack_sleep_us_max(f->server, busy_us + 70) > 0);
    }
    if (device.waits > 16)
        f->now_us += timeout_us;
    if (device.waits < 33)
        return;
    assert_int_equal(net_stack_sleep_us_max(f->server, busy_us + 1), 0);
    assert_true(net_stack_sleep_us_max(f->server, busy_us + 5) > 0);
    net_worker_stop(&f->server->worker);
}

/* Behind short sleeps the worker polls for longer, behind long ones it does not. */
static void test_polling_follows_the_sleeps(void **state)
{
    struct fixture *f = *state;

    device.wait = spin_wait;
    run_worker(f);
}

struct seen {
    const struct fixture *f;
    uint64_t segments; /* of TCP, received */
};

static void find_segments(void *ctx, const char *name, const char *value)
{
    if (strcmp(name, "tcp_rx_segments") == 0)
        *(uint64_t *)ctx = strtoull(value, NULL, 10);
}

static void *ask_statistics(void *ctx)
{
    struct seen *seen = ctx;

    net_stack_fill_ustack(seen->f->server, find_segments, &seen->segments);
    return NULL;
}

/* A client asks; in a sleep behind its request another thread asks for the counters. */
static void counters_wait(struct fixture *f, uint64_t timeout_us)
{
    struct seen seen = {.f = f};
    pthread_t thread;

    f->now_us += 10;
    if (device.waits == 1)
        client_begin(f);
    if (device.waits == 10)
        client_send(&f->clients[0], "get a\r\n", 7);
    clients_turn(f);
    if (device.waits < 20)
        return;
    assert_int_equal(f->clients[0].got_len, 5);
    assert_int_equal(pthread_create(&thread, NULL, ask_statistics, &seen), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(seen.segments > 0);
    assert_int_equal(seen.segments, us_counter_named(f, "tcp_rx_segments"));
    net_worker_stop(&f->server->worker);
}

/* Other threads see all that has happened before a sleep. */
static void test_counters_are_up_to_date_in_a_sleep(void **state)
{
    struct fixture *f = *state;

    device.wait = counters_wait;
    run_worker(f);
}

/* A client's frames end sleeps, but for those of one request, at which the device does not wake. */
static void oversleeping_wait(struct fixture *f, uint64_t timeout_us)
{
    if (device.waits == 1)
        client_begin(f);
    if (device.waits == 10)
        client_send(&f->clients[0], "get a\r\n", 7);
    clients_turn(f);
    f->now_us += device.waits == 10 ? timeout_us : timeout_us / 2;
    if (device.waits < 20)
        return;
    assert_string_equal(f->clients[0].got, "END\r\n");
    net_worker_stop(&f->server->worker);
}

/* A sleep of full length that a frame should have ended is counted, so that it is noticed. */
static void test_device_that_does_not_wake(void **state)
{
    struct fixture *f = *state;

    device.wait = oversleeping_wait;
    run_worker(f);
    assert_int_equal(counter(f, NET_STACK_MISSED_WAKEUPS), 1);
}

/* A client connects, the worker is stopped, another client connects, and the first one agrees. */
static void end_wait(struct fixture *f, uint64_t timeout_us)
{
    f->now_us += 1000;
    if (device.waits == 1)
        client_begin(f);
    if (device.waits == 10) {
        assert_true(f->clients[0].connected);
        net_worker_stop(&f->server->worker);
    }
    if (device.waits == 13) {
        assert_true(f->clients[0].eof);
        client_begin(f);
    }
    if (device.waits == 16) {
        assert_int_equal(f->clients[1].reason, US_CLOSE_REFUSED);
        assert_int_equal(us_close(f->stack, f->clients[0].conn), 0);
    }
    clients_turn(f);
}

/* It closes in order, takes no more connections, and ends when the last one has ended. */
static void test_end_in_order(void **state)
{
    struct fixture *f = *state;

    device.wait = end_wait;
    run_worker(f);
    assert_in_range(device.waits, 16, 24);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_device_takes_one_frame_at_a_time, setup_device,
                                        teardown_device),
        cmocka_unit_test_setup_teardown(test_frames_that_are_taken_late_are_work, setup_device,
                                        teardown_device),
        cmocka_unit_test_setup_teardown(test_worker_tries_again_soon, setup_device,
                                        teardown_device),
        cmocka_unit_test_setup_teardown(test_worker_asks_for_packets_again_soon, setup_device,
                                        teardown_device),
        cmocka_unit_test_setup_teardown(test_copied_frames_hold_no_item, setup_device,
                                        teardown_device),
        cmocka_unit_test_setup_teardown(test_item_is_kept_for_a_chain, setup_device,
                                        teardown_device),
        cmocka_unit_test_setup_teardown(test_frames_are_dropped_for_references, setup_device,
                                        teardown_device),
        cmocka_unit_test_setup_teardown(test_end_with_chains_unsent, setup_device, teardown_device),
        cmocka_unit_test_setup_teardown(test_item_is_kept_for_a_chain, setup_two_sides,
                                        teardown_two_sides),
        cmocka_unit_test_setup_teardown(test_mtu_changes, setup_device, teardown_device),
        cmocka_unit_test_setup_teardown(test_polling_follows_the_sleeps, setup_device,
                                        teardown_device),
        cmocka_unit_test_setup_teardown(test_counters_are_up_to_date_in_a_sleep, setup_device,
                                        teardown_device),
        cmocka_unit_test_setup_teardown(test_device_that_does_not_wake, setup_device,
                                        teardown_device),
        cmocka_unit_test_setup_teardown(test_end_in_order, setup_device, teardown_device),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
