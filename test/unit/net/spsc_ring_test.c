/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ring of records between two threads: bounds, wrapping, and both ends in two threads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "alarms.h"
#include "net/spsc_ring.h"

#define CAPACITY 1024u
#define UNIT ((uint32_t)sizeof(struct net_ring_record))

/* Puts a record of `len` equal bytes in. Returns whether there was room. */
static bool put(struct net_ring *ring, uint32_t type, uint32_t len)
{
    uint32_t room = 0;
    struct net_ring_record *record = net_ring_reserve(ring, len, len, &room);

    if (!record)
        return false;
    assert_int_equal(room, len);
    record->value = type * 3;
    memset(record + 1, (int)(type & 0xff), len);
    net_ring_commit(ring, record, type, len);
    return true;
}

static void check(const struct net_ring_record *record, uint32_t type, uint32_t len)
{
    const uint8_t *bytes = (const uint8_t *)(record + 1);
    uint32_t i;

    assert_int_equal(record->type, type);
    assert_int_equal(record->len, len);
    assert_int_equal(record->value, type * 3);
    for (i = 0; i < len; i++)
        assert_int_equal(bytes[i], type & 0xff);
}

static void nothing_is_seen_before_it_is_published(void **state)
{
    struct net_ring *ring = net_ring_create(CAPACITY);

    assert_false(net_ring_publish(ring));
    assert_true(put(ring, 1, 10));
    assert_null(net_ring_take(ring));
    assert_true(net_ring_is_empty(ring));
    assert_true(net_ring_publish(ring));
    assert_false(net_ring_is_empty(ring));
    check(net_ring_take(ring), 1, 10);
    assert_null(net_ring_take(ring));
    free(ring);
}

static void a_full_ring_takes_no_record_until_room_is_released(void **state)
{
    struct net_ring *ring = net_ring_create(CAPACITY);
    unsigned n = 0;

    while (put(ring, n + 1, 0))
        n++;
    assert_int_equal(n, CAPACITY / UNIT);
    assert_int_equal(net_ring_known_room(ring), 0);
    net_ring_publish(ring);
    check(net_ring_take(ring), 1, 0);
    assert_false(put(ring, 99, 0)); /* taken, but still being read */
    net_ring_release(ring);
    assert_true(put(ring, 99, 0));
    assert_false(put(ring, 100, 0));
    free(ring);
}

static void the_longest_record_is_as_long_as_is_said(void **state)
{
    struct net_ring *ring = net_ring_create(CAPACITY);

    assert_true(net_ring_has_room(ring, CAPACITY));
    assert_false(net_ring_has_room(ring, CAPACITY + 1));
    assert_false(put(ring, 1, CAPACITY - UNIT + 1));
    assert_true(put(ring, 1, CAPACITY - UNIT));
    net_ring_publish(ring);
    check(net_ring_take(ring), 1, CAPACITY - UNIT);
    free(ring);
}

/* All lengths at all places: what does not fit before the end goes to the beginning. */
static void records_are_in_one_piece_wherever_the_memory_ends(void **state)
{
    struct net_ring *ring = net_ring_create(CAPACITY);
    uint32_t put_count = 0, taken = 0;
    const struct net_ring_record *record;

    while (taken < 20000) {
        while (put_count - taken < 7 && put(ring, put_count + 1, put_count * 37 % 300))
            put_count++;
        net_ring_publish(ring);
        record = net_ring_take(ring);
        assert_non_null(record);
        check(record, taken + 1, taken * 37 % 300);
        taken++;
        net_ring_release(ring);
    }
    free(ring);
}

static void only_who_sleeps_is_woken_and_once(void **state)
{
    struct net_ring *ring = net_ring_create(CAPACITY);

    put(ring, 1, 0);
    net_ring_publish(ring);
    assert_false(net_ring_must_wake(ring));
    assert_false(net_ring_sleep_begin(ring)); /* there is something to take */
    net_ring_sleep_end(ring);
    assert_non_null(net_ring_take(ring));
    assert_true(net_ring_sleep_begin(ring));
    put(ring, 2, 0);
    net_ring_publish(ring);
    assert_true(net_ring_must_wake(ring));
    assert_false(net_ring_must_wake(ring));
    net_ring_sleep_end(ring);
    free(ring);
}

#define WAIT_RECORDS 2000u

struct sleeper {
    struct net_ring *ring;
    int wake_fd;
};

/* A wake-up that is missed is one that is waited for as long as this: the test hangs. */
static void *sleep_and_take(void *arg)
{
    struct sleeper *sleeper = arg;
    uint32_t n = 0;

    while (n < WAIT_RECORDS) {
        if (net_ring_take(sleeper->ring))
            n++;
        else
            U_ASSERT(net_ring_wait(sleeper->ring, sleeper->wake_fd, 3600u * 1000000u) == 0);
        net_ring_release(sleeper->ring);
    }
    return NULL;
}

static void no_wake_up_is_missed(void **state)
{
    struct sleeper sleeper = {net_ring_create(CAPACITY), eventfd(0, EFD_NONBLOCK)};
    pthread_t thread;
    uint32_t n = 0;

    assert_int_equal(net_ring_wait(sleeper.ring, sleeper.wake_fd, 1), 0); /* its time is up */
    assert_int_equal(pthread_create(&thread, NULL, sleep_and_take, &sleeper), 0);
    while (n < WAIT_RECORDS) {
        if (put(sleeper.ring, n + 1, 0))
            n++;
        if (net_ring_publish(sleeper.ring) && net_ring_must_wake(sleeper.ring))
            assert_int_equal(eventfd_write(sleeper.wake_fd, 1), 0);
        if (n % 3 == 0)
            sched_yield();
    }
    pthread_join(thread, NULL);
    assert_true(net_ring_is_drained(sleeper.ring));
    close(sleeper.wake_fd);
    free(sleeper.ring);
}

static void on_alarm(int number)
{
}

/* The consumer looks for records then, and has not failed. */
static void a_signal_ends_a_sleep(void **state)
{
    struct net_ring *ring = net_ring_create(CAPACITY);
    int wake_fd = eventfd(0, EFD_NONBLOCK);
    unsigned i;

    alarms_begin(on_alarm);
    for (i = 0; i < 3; i++)
        assert_int_equal(net_ring_wait(ring, wake_fd, 1000000), 0);
    alarms_end();
    assert_false(net_ring_must_wake(ring));
    close(wake_fd);
    free(ring);
}

/* Many laps of the ring, each of which needs both threads on their cores. */
#define STRESS_RECORDS 20000u

static void *consume(void *arg)
{
    struct net_ring *ring = arg;
    uint32_t n = 0;

    while (n < STRESS_RECORDS) {
        const struct net_ring_record *record = net_ring_take(ring);

        if (!record) {
            net_ring_release(ring);
            sched_yield();
            continue;
        }
        n++;
        U_ASSERT(record->type == n && record->len == n % 61 && record->value == n * 3);
        U_ASSERT(record->len == 0 || ((const uint8_t *)(record + 1))[record->len - 1] == (n & 255));
        if (n % 5 == 0)
            net_ring_release(ring);
    }
    net_ring_release(ring);
    return NULL;
}

static void two_threads_lose_nothing(void **state)
{
    struct net_ring *ring = net_ring_create(CAPACITY);
    pthread_t thread;
    uint32_t n = 1;

    assert_int_equal(pthread_create(&thread, NULL, consume, ring), 0);
    while (n <= STRESS_RECORDS) {
        if (put(ring, n, n % 61))
            n++;
        else
            sched_yield();
        net_ring_publish(ring);
    }
    pthread_join(thread, NULL);
    assert_true(net_ring_has_room(ring, CAPACITY / 2));
    free(ring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_seen_before_it_is_published),
        cmocka_unit_test(a_full_ring_takes_no_record_until_room_is_released),
        cmocka_unit_test(the_longest_record_is_as_long_as_is_said),
        cmocka_unit_test(records_are_in_one_piece_wherever_the_memory_ends),
        cmocka_unit_test(only_who_sleeps_is_woken_and_once),
        cmocka_unit_test(no_wake_up_is_missed),
        cmocka_unit_test(a_signal_ends_a_sleep),
        cmocka_unit_test(two_threads_lose_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
