/* SPDX-License-Identifier: BSD-3-Clause */
/* The ring between a worker and a watcher: nothing lost but what doesn't fit, nothing torn. */
#include "rig.h"

#include <pthread.h>

#include "cache/watch_ring.h"

static struct cache_event event_of(uint64_t id)
{
    struct cache_event event = {
        .kind = CACHE_EVENT_STORE,
        .status = (uint8_t)(id % 6),
        .class_id = (uint8_t)(id % 40),
        .key_len = (uint8_t)(1 + id % 250),
        .id = id,
        .unix_us = id * 3,
        .ttl_s = -(int64_t)id,
        .value_bytes = (uint32_t)id,
        .command = "set",
    };

    memset(event.what.key, (int)('a' + id % 26), event.key_len);
    return event;
}

static void expect_event(struct cache_watch_ring *ring, uint64_t id)
{
    struct cache_event expected = event_of(id), event;

    assert_int_equal(cache_watch_ring_next(ring), id);
    cache_watch_ring_take(ring, &event);
    assert_int_equal(event.kind, expected.kind);
    assert_int_equal(event.status, expected.status);
    assert_int_equal(event.key_len, expected.key_len);
    assert_int_equal(event.unix_us, expected.unix_us);
    assert_int_equal(event.ttl_s, expected.ttl_s);
    assert_ptr_equal(event.command, expected.command);
    assert_memory_equal(event.what.key, expected.what.key, expected.key_len);
}

static void test_in_order_around_the_end(void **state)
{
    struct cache_watch_ring ring;
    uint64_t put = 0, taken = 0;

    assert_true(cache_watch_ring_init(&ring, 1));
    assert_int_equal(cache_watch_ring_next(&ring), UINT64_MAX);
    while (taken < 5000) {
        struct cache_event event = event_of(put + 1);

        if ((put % 7) != 3 && cache_watch_ring_put(&ring, &event)) {
            put++;
            continue;
        }
        if (put % 7 == 3) {
            struct cache_event odd = event_of(put + 1);

            if (cache_watch_ring_put(&ring, &odd))
                put++;
        }
        while (taken < put)
            expect_event(&ring, ++taken);
    }
    cache_watch_ring_free(&ring);
}

/* The ring holds as many bytes of events as it has. */
static void test_exactly_full(void **state)
{
    enum { EVENT_BYTES = 256, HEAD_BYTES = offsetof(struct cache_event, what) };
    struct cache_watch_ring ring;
    uint64_t put = 0;
    struct cache_event event = {.kind = CACHE_EVENT_STORE, .key_len = EVENT_BYTES - HEAD_BYTES};

    assert_true(cache_watch_ring_init(&ring, 1));
    for (unsigned round = 0; round < 2; round++) {
        while (cache_watch_ring_put(&ring, &event))
            put++;
        assert_int_equal(put, ring.size / EVENT_BYTES);
        assert_int_equal(cache_watch_ring_dropped(&ring), 1);
        for (; put > 0; put--)
            cache_watch_ring_take(&ring, &event);
    }
    cache_watch_ring_free(&ring);
}

/* The ring is nearly full all the time. Bytes skipped at its end count as used. */
static void test_full_around_the_end(void **state)
{
    struct cache_watch_ring ring;
    uint64_t put = 0, taken = 0;

    assert_true(cache_watch_ring_init(&ring, 1));
    while (taken < 5000) {
        struct cache_event event = event_of(put + 1);

        if (cache_watch_ring_put(&ring, &event))
            put++;
        else
            expect_event(&ring, ++taken);
    }
    cache_watch_ring_free(&ring);
}

static void test_what_does_not_fit_is_counted(void **state)
{
    struct cache_watch_ring ring;
    struct cache_event event;
    uint64_t put = 0;

    assert_true(cache_watch_ring_init(&ring, 8192));
    for (;;) {
        event = event_of(put + 1);
        if (!cache_watch_ring_put(&ring, &event))
            break;
        put++;
    }
    assert_in_range(put, 20, 8192 / 56);
    for (unsigned i = 0; i < 9; i++)
        assert_false(cache_watch_ring_put(&ring, &event));
    assert_int_equal(cache_watch_ring_dropped(&ring), 10);
    assert_int_equal(cache_watch_ring_dropped(&ring), 0);
    for (uint64_t id = 1; id <= put; id++)
        expect_event(&ring, id);
    assert_true(cache_watch_ring_put(&ring, &event));
    expect_event(&ring, event.id);
    cache_watch_ring_free(&ring);
}

static void test_peers_of_connections(void **state)
{
    struct cache_event event = {.kind = CACHE_EVENT_CONN_NEW, .id = 1, .conn = 7}, taken;
    struct cache_watch_ring ring;

    event.what.peer = (struct cache_peer){.transport = "tcp6", .addr = {[15] = 9}, .port = 4711};
    assert_true(cache_watch_ring_init(&ring, 4096));
    assert_true(cache_watch_ring_put(&ring, &event));
    cache_watch_ring_take(&ring, &taken);
    assert_int_equal(taken.conn, 7);
    assert_string_equal(taken.what.peer.transport, "tcp6");
    assert_memory_equal(taken.what.peer.addr, event.what.peer.addr, 16);
    assert_int_equal(taken.what.peer.port, 4711);
    cache_watch_ring_free(&ring);
}

#define THREAD_EVENTS 200000

static void *put_many(void *arg)
{
    struct cache_watch_ring *ring = arg;

    for (uint64_t id = 1; id <= THREAD_EVENTS; id++) {
        struct cache_event event = event_of(id);

        cache_watch_ring_put(ring, &event);
    }
    return NULL;
}

/* Two threads: what arrives is whole and in order, and what doesn't is counted. */
static void test_writer_and_reader_at_once(void **state)
{
    struct cache_watch_ring ring;
    pthread_t writer;
    uint64_t taken = 0, dropped = 0, last = 0;

    assert_true(cache_watch_ring_init(&ring, 4096));
    assert_int_equal(pthread_create(&writer, NULL, put_many, &ring), 0);
    while (taken + dropped < THREAD_EVENTS) {
        uint64_t id = cache_watch_ring_next(&ring);

        if (id == UINT64_MAX) {
            dropped += cache_watch_ring_dropped(&ring);
            continue;
        }
        assert_true(id > last);
        last = id;
        expect_event(&ring, id);
        taken++;
    }
    pthread_join(writer, NULL);
    assert_int_equal(taken + dropped, THREAD_EVENTS);
    assert_true(taken > 0);
    cache_watch_ring_free(&ring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_order_around_the_end),
        cmocka_unit_test(test_exactly_full),
        cmocka_unit_test(test_full_around_the_end),
        cmocka_unit_test(test_what_does_not_fit_is_counted),
        cmocka_unit_test(test_peers_of_connections),
        cmocka_unit_test(test_writer_and_reader_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
