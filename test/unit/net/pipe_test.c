/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The pipe of records between two threads: its bounds, its wrapping, and both ends at once.
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

#include "net/pipe.h"

#define CAPACITY 1024u
#define UNIT ((uint32_t)sizeof(struct net_record))

/* Puts a record of `len` equal bytes in. Returns whether there was room. */
static bool put(struct net_pipe *pipe, uint32_t type, uint32_t len)
{
    uint32_t room = 0;
    struct net_record *record = net_pipe_reserve(pipe, len, len, &room);

    if (!record)
        return false;
    assert_int_equal(room, len);
    record->value = type * 3;
    memset(record + 1, (int)(type & 0xff), len);
    net_pipe_commit(pipe, record, type, len);
    return true;
}

static void check(const struct net_record *record, uint32_t type, uint32_t len)
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
    struct net_pipe *pipe = net_pipe_create(CAPACITY);

    assert_false(net_pipe_publish(pipe));
    assert_true(put(pipe, 1, 10));
    assert_null(net_pipe_take(pipe));
    assert_true(net_pipe_is_empty(pipe));
    assert_true(net_pipe_publish(pipe));
    assert_false(net_pipe_is_empty(pipe));
    check(net_pipe_take(pipe), 1, 10);
    assert_null(net_pipe_take(pipe));
    free(pipe);
}

static void a_full_pipe_takes_no_more_until_room_is_given_back(void **state)
{
    struct net_pipe *pipe = net_pipe_create(CAPACITY);
    unsigned n = 0;

    while (put(pipe, n + 1, 0))
        n++;
    assert_int_equal(n, CAPACITY / UNIT);
    assert_int_equal(net_pipe_room_seen(pipe), 0);
    net_pipe_publish(pipe);
    check(net_pipe_take(pipe), 1, 0);
    assert_false(put(pipe, 99, 0)); /* taken, but still being read */
    net_pipe_release(pipe);
    assert_true(put(pipe, 99, 0));
    assert_false(put(pipe, 100, 0));
    free(pipe);
}

static void the_longest_record_is_as_long_as_is_said(void **state)
{
    struct net_pipe *pipe = net_pipe_create(CAPACITY);

    assert_true(net_pipe_has_room(pipe, CAPACITY));
    assert_false(net_pipe_has_room(pipe, CAPACITY + 1));
    assert_false(put(pipe, 1, CAPACITY - UNIT + 1));
    assert_true(put(pipe, 1, CAPACITY - UNIT));
    net_pipe_publish(pipe);
    check(net_pipe_take(pipe), 1, CAPACITY - UNIT);
    free(pipe);
}

/* All lengths at all places: what does not fit before the end goes to the beginning. */
static void records_are_in_one_piece_wherever_the_memory_ends(void **state)
{
    struct net_pipe *pipe = net_pipe_create(CAPACITY);
    uint32_t put_count = 0, taken = 0;
    const struct net_record *record;

    while (taken < 20000) {
        while (put_count - taken < 7 && put(pipe, put_count + 1, put_count * 37 % 300))
            put_count++;
        net_pipe_publish(pipe);
        record = net_pipe_take(pipe);
        assert_non_null(record);
        check(record, taken + 1, taken * 37 % 300);
        taken++;
        net_pipe_release(pipe);
    }
    free(pipe);
}

static void only_who_sleeps_is_woken_and_once(void **state)
{
    struct net_pipe *pipe = net_pipe_create(CAPACITY);

    put(pipe, 1, 0);
    net_pipe_publish(pipe);
    assert_false(net_pipe_must_wake(pipe));
    assert_false(net_pipe_sleep_begin(pipe)); /* there is something to take */
    net_pipe_sleep_end(pipe);
    assert_non_null(net_pipe_take(pipe));
    assert_true(net_pipe_sleep_begin(pipe));
    put(pipe, 2, 0);
    net_pipe_publish(pipe);
    assert_true(net_pipe_must_wake(pipe));
    assert_false(net_pipe_must_wake(pipe));
    net_pipe_sleep_end(pipe);
    free(pipe);
}

#define WAIT_RECORDS 2000u

struct sleeper {
    struct net_pipe *pipe;
    int wake_fd;
};

/* A wake-up that is missed is one that is waited for as long as this: the test hangs. */
static void *sleep_and_take(void *arg)
{
    struct sleeper *sleeper = arg;
    uint32_t n = 0;

    while (n < WAIT_RECORDS) {
        if (net_pipe_take(sleeper->pipe))
            n++;
        else
            U_ASSERT(net_pipe_wait(sleeper->pipe, sleeper->wake_fd, 3600u * 1000000u) == 0);
        net_pipe_release(sleeper->pipe);
    }
    return NULL;
}

static void no_wake_up_is_missed(void **state)
{
    struct sleeper sleeper = {net_pipe_create(CAPACITY), eventfd(0, EFD_NONBLOCK)};
    pthread_t thread;
    uint32_t n = 0;

    assert_int_equal(net_pipe_wait(sleeper.pipe, sleeper.wake_fd, 1), 0); /* its time is up */
    assert_int_equal(pthread_create(&thread, NULL, sleep_and_take, &sleeper), 0);
    while (n < WAIT_RECORDS) {
        if (put(sleeper.pipe, n + 1, 0))
            n++;
        if (net_pipe_publish(sleeper.pipe) && net_pipe_must_wake(sleeper.pipe))
            assert_int_equal(eventfd_write(sleeper.wake_fd, 1), 0);
        if (n % 3 == 0)
            sched_yield();
    }
    pthread_join(thread, NULL);
    assert_true(net_pipe_is_drained(sleeper.pipe));
    close(sleeper.wake_fd);
    free(sleeper.pipe);
}

#define STRESS_RECORDS 200000u

static void *consume(void *arg)
{
    struct net_pipe *pipe = arg;
    uint32_t n = 0;

    while (n < STRESS_RECORDS) {
        const struct net_record *record = net_pipe_take(pipe);

        if (!record) {
            net_pipe_release(pipe);
            sched_yield();
            continue;
        }
        n++;
        U_ASSERT(record->type == n && record->len == n % 61 && record->value == n * 3);
        U_ASSERT(record->len == 0 || ((const uint8_t *)(record + 1))[record->len - 1] == (n & 255));
        if (n % 5 == 0)
            net_pipe_release(pipe);
    }
    net_pipe_release(pipe);
    return NULL;
}

static void two_threads_lose_nothing(void **state)
{
    struct net_pipe *pipe = net_pipe_create(CAPACITY);
    pthread_t thread;
    uint32_t n = 1;

    assert_int_equal(pthread_create(&thread, NULL, consume, pipe), 0);
    while (n <= STRESS_RECORDS) {
        if (put(pipe, n, n % 61))
            n++;
        else
            sched_yield();
        net_pipe_publish(pipe);
    }
    pthread_join(thread, NULL);
    assert_true(net_pipe_has_room(pipe, CAPACITY / 2));
    free(pipe);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_seen_before_it_is_published),
        cmocka_unit_test(a_full_pipe_takes_no_more_until_room_is_given_back),
        cmocka_unit_test(the_longest_record_is_as_long_as_is_said),
        cmocka_unit_test(records_are_in_one_piece_wherever_the_memory_ends),
        cmocka_unit_test(only_who_sleeps_is_woken_and_once),
        cmocka_unit_test(no_wake_up_is_missed),
        cmocka_unit_test(two_threads_lose_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
