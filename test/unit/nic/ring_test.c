/* SPDX-License-Identifier: BSD-3-Clause */
/* The ring between two threads: order, capacity, wrap-around, and concurrent use. */
#include <pthread.h>
#include <sched.h>

#include "nic/ring.h"
#include "nic_testing.h"

#define WORDS 200000

static struct nic_ring *create(uint32_t capacity)
{
    struct nic_ring *ring = nic_ring_create(capacity);

    if (!ring)
        abort();
    return ring;
}

static void words_arrive_in_order_within_the_capacity(void **state)
{
    struct nic_ring *ring = create(8);
    uintptr_t words[16];
    uintptr_t next_in = 0, next_out = 0;
    unsigned round, i, n;

    assert_int_equal(nic_ring_take(ring, words, 4), 0);
    for (round = 0; round < 1000; round++) {
        for (i = 0; i < 1 + round % 11; i++)
            words[i] = next_in + i;
        n = nic_ring_put(ring, words, 1 + round % 11);
        assert_true(n <= 8);
        next_in += n;
        assert_true(next_in - next_out <= 8);
        n = nic_ring_take(ring, words, 1 + round % 7);
        for (i = 0; i < n; i++)
            assert_int_equal(words[i], next_out + i);
        next_out += n;
    }
    while (nic_ring_put(ring, &next_in, 1) == 1)
        next_in++;
    assert_int_equal(next_in - next_out, 8);
    free(ring);
}

/* The counters wrap after 2^32 words. */
static void counters_wrap(void **state)
{
    struct nic_ring *ring = create(4);
    uintptr_t words[4] = {1, 2, 3, 4};

    atomic_store(&ring->tail, UINT32_MAX - 1);
    atomic_store(&ring->head, UINT32_MAX - 1);
    ring->head_seen = ring->tail_seen = UINT32_MAX - 1;
    assert_int_equal(nic_ring_put(ring, words, 4), 4);
    assert_int_equal(nic_ring_put(ring, words, 1), 0);
    memset(words, 0, sizeof(words));
    assert_int_equal(nic_ring_take(ring, words, 4), 4);
    assert_int_equal(words[0], 1);
    assert_int_equal(words[3], 4);
    assert_int_equal(nic_ring_take(ring, words, 1), 0);
    free(ring);
}

/* Words and room that came after the last look at the other side are used, not the known part. */
static void a_part_that_is_known_is_not_all(void **state)
{
    struct nic_ring *ring = create(4);
    uintptr_t words[4] = {1, 2, 3, 4};

    assert_int_equal(nic_ring_put(ring, words, 2), 2);
    assert_int_equal(nic_ring_take(ring, words, 1), 1); /* knows of another one */
    assert_int_equal(nic_ring_put(ring, words, 1), 1);  /* knows of room for another one */
    assert_int_equal(nic_ring_put(ring, words, 2), 2);
    assert_int_equal(nic_ring_put(ring, words, 1), 0);
    assert_int_equal(nic_ring_take(ring, words, 4), 4);
    assert_int_equal(nic_ring_take(ring, words, 4), 0);
    free(ring);
}

/* Each word points at a number written just before, which the consumer must see. */
static uintptr_t numbers[WORDS];

static void *produce(void *arg)
{
    struct nic_ring *ring = arg;
    unsigned i = 0;

    while (i < WORDS) {
        uintptr_t word = (uintptr_t)&numbers[i];

        numbers[i] = i * 7;
        if (nic_ring_put(ring, &word, 1) == 1)
            i++;
        else
            sched_yield();
    }
    return NULL;
}

static void two_threads_agree(void **state)
{
    struct nic_ring *ring = create(64);
    uintptr_t words[16];
    pthread_t thread;
    unsigned i, n;
    unsigned taken = 0;

    assert_int_equal(pthread_create(&thread, NULL, produce, ring), 0);
    while (taken < WORDS) {
        n = nic_ring_take(ring, words, 16);
        for (i = 0; i < n; i++, taken++) {
            assert_ptr_equal((void *)words[i], &numbers[taken]);
            assert_int_equal(*(uintptr_t *)words[i], taken * 7);
        }
        if (n == 0)
            sched_yield();
    }
    pthread_join(thread, NULL);
    free(ring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_arrive_in_order_within_the_capacity),
        cmocka_unit_test(counters_wrap),
        cmocka_unit_test(a_part_that_is_known_is_not_all),
        cmocka_unit_test(two_threads_agree),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
