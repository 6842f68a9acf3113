/* SPDX-License-Identifier: BSD-3-Clause */
/* The send queue: every cut of it gives the right bytes, and nothing stays behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cksum.h"
#include "base/prng.h"
#include "pair.h"
#include "ustack/tcp/tcp_sendq.h"

enum { SPACE = 30000 };

static struct us_stack *stack;
static void *memory;
static u_u8 stream[SPACE];

static int setup(void **state)
{
    struct us_config config;
    unsigned long bytes;
    unsigned i;

    pair_config(&config, 0);
    bytes = us_memory_bytes(&config);
    memory = calloc(1, bytes);
    stack = us_create(&config, memory, bytes, 0);
    for (i = 0; i < SPACE; i++)
        stream[i] = (u_u8)(i * 11 + (i >> 8));
    return stack == NULL;
}

static int teardown(void **state)
{
    assert_int_equal(stack->block_pool.used, 0);
    free(memory);
    return 0;
}

/* Appends the next piece in one of the three ways. */
static u_u32 append_some(struct us_sendq *queue, struct u_prng *prng, u_u32 start, u_u32 at)
{
    u_u32 len = 1 + u_prng_below(prng, 3000);

    if (len > SPACE - at)
        len = SPACE - at;
    if (u_prng_below(prng, 3) == 0) {
        struct us_ref *ref = (struct us_ref *)us_pool_get(&stack->ref_pool);
        ref->conn = NULL;
        ref->cookie = NULL;
        ref->chunk.data = stream + at;
        ref->chunk.seq = start + at;
        ref->chunk.len = len;
        us_sendq_append_ref(queue, ref);
    } else if (len <= US_RESERVE_MAX) {
        struct us_chunk *chunk = us_sendq_reserve(stack, queue, start + at, len);
        memcpy(us_chunk_tail(chunk), stream + at, len);
        us_sendq_commit(stack, queue, len);
    } else {
        len = us_sendq_append(stack, queue, start + at, stream + at, len);
    }
    return len;
}

static void any_offset_can_be_built(void **state)
{
    u_u32 seed;

    for (seed = 0; seed < 50; seed++) {
        struct us_sendq queue;
        struct u_prng prng;
        u_u32 start = 0u - 15000 + seed;
        u_u32 end = 0;
        u_u32 acked = 0;

        memset(&queue, 0, sizeof(queue));
        u_prng_seed(&prng, seed);
        while (acked < SPACE) {
            u_u8 out[3000];
            u_u32 from;
            u_u32 len;
            u_u32 sum;

            if (end < SPACE)
                end += append_some(&queue, &prng, start, end);
            from = acked + u_prng_below(&prng, end - acked);
            len = 1 + u_prng_below(&prng, end - from < 3000 ? end - from : 3000);
            sum = us_sendq_copy(&queue, start + from, out, len, 0, 1);
            assert_memory_equal(out, stream + from, len);
            assert_int_equal(u_cksum_finish(sum),
                             u_cksum_finish(u_cksum_add(0, stream + from, len)));
            if (u_prng_below(&prng, 2) == 0 || end == SPACE) {
                acked += 1 + u_prng_below(&prng, end - acked);
                us_sendq_drop(stack, &queue, start + acked);
            }
            if (end == acked) {
                assert_null(queue.head);
                assert_null(queue.tail);
                assert_null(queue.cursor);
                assert_int_equal(queue.copied, 0);
                assert_int_equal(queue.refs, 0);
                if (end < SPACE)
                    end += append_some(&queue, &prng, start, end);
            }
        }
    }
}

/* The bytes of a frame made of segments, those of the first behind `at` bytes of headers. */
static u_u32 flatten(const struct us_pkt *pkt, u_u32 at, u_u32 first_len, u_u8 *to)
{
    u_u32 len = first_len;

    memcpy(to, pkt->data + at, first_len);
    for (pkt = pkt->next_seg; pkt != NULL; pkt = pkt->next_seg) {
        assert_true(pkt->len > 0);
        memcpy(to + len, pkt->data, pkt->len);
        len += pkt->len;
    }
    return len;
}

/* One frame from a random place, with random bounds, against the stream. */
static void gather_once(struct us_sendq *queue, struct u_prng *prng, u_u32 start)
{
    enum { AT = 66, SEGS = 8 };
    static u_u8 room[SPACE + AT], flat[SPACE];
    struct us_pkt pkt, segs[SEGS];
    struct us_gather gather = {&pkt, segs, room + AT, 0};
    u_u32 at = u_prng_below(prng, SPACE);
    u_u32 want = 1 + u_prng_below(prng, SPACE - at);
    u_u32 copy_max = u_prng_below(prng, 4000);
    u_u32 segs_max = u_prng_below(prng, SEGS + 1);
    u_u32 got = us_sendq_fit(queue, start + at, want, copy_max, segs_max);
    u_u32 fewer, sum;

    assert_true(got <= want);
    if (got == 0)
        return;
    /* Less is never more difficult. */
    fewer = 1 + u_prng_below(prng, got);
    assert_int_equal(us_sendq_fit(queue, start + at, fewer, copy_max, segs_max), fewer);
    memset(&pkt, 0, sizeof(pkt));
    pkt.data = room;
    sum = us_sendq_gather(queue, start + at, fewer, &gather, 0, 1);
    assert_true(gather.segs <= segs + segs_max);
    assert_true(gather.to <= room + AT + copy_max);
    assert_int_equal(flatten(&pkt, AT, fewer - gather.outside, flat), fewer);
    assert_memory_equal(flat, stream + at, fewer);
    assert_int_equal(u_cksum_finish(sum), u_cksum_finish(u_cksum_add(0, stream + at, fewer)));
}

static void any_frame_of_segments_can_be_built(void **state)
{
    const u_u32 start = 0xffffff00u; /* sequence numbers wrap within the stream */
    struct us_sendq queue;
    struct u_prng prng;
    u_u32 at = 0;
    int round;

    memset(&queue, 0, sizeof(queue));
    u_prng_seed(&prng, 11);
    while (at < SPACE)
        at += append_some(&queue, &prng, start, at);
    for (round = 0; round < 20000; round++)
        gather_once(&queue, &prng, start);
    us_sendq_clear(stack, &queue);
}

static void a_short_reference_is_copied(void **state)
{
    struct us_ref *ref = (struct us_ref *)us_pool_get(&stack->ref_pool);
    struct us_sendq queue;

    memset(&queue, 0, sizeof(queue));
    ref->conn = NULL;
    ref->cookie = NULL;
    ref->chunk.data = stream;
    ref->chunk.seq = 0;
    ref->chunk.len = 1000;
    us_sendq_append_ref(&queue, ref);
    assert_int_equal(us_sendq_fit(&queue, 0, 1000, 0, 1), 1000);
    assert_int_equal(us_sendq_fit(&queue, 0, 1000, 999, 0), 0);
    assert_int_equal(us_sendq_fit(&queue, 600, 400, 0, 8), 0);
    assert_int_equal(us_sendq_fit(&queue, 600, 400, 300, 8), 300);
    us_sendq_clear(stack, &queue);
}

static void an_unused_reservation_holds_nothing(void **state)
{
    struct us_sendq queue;

    memset(&queue, 0, sizeof(queue));
    assert_non_null(us_sendq_reserve(stack, &queue, 5, 100));
    us_sendq_commit(stack, &queue, 0);
    assert_null(queue.head);
    assert_int_equal(stack->block_pool.used, 0);
}

/* The block of a response that was acknowledged takes the next one, or is given back. */
static void an_acknowledged_block_waits(void **state)
{
    struct us_sendq queue;
    struct us_chunk *chunk;

    memset(&queue, 0, sizeof(queue));
    chunk = us_sendq_reserve(stack, &queue, 5, 100);
    us_sendq_commit(stack, &queue, 40);
    us_sendq_park_block(stack, &queue, 45);
    assert_int_equal(queue.copied, 0);
    assert_ptr_equal(us_sendq_reserve(stack, &queue, 45, US_RESERVE_MAX), chunk);
    assert_int_equal(chunk->room, US_BLOCK_ROOM);
    assert_int_equal(chunk->seq, 45);
    us_sendq_commit(stack, &queue, 7);
    us_sendq_unpark_block(stack, &queue);
    assert_ptr_equal(queue.head, chunk); /* it is not empty */
    us_sendq_park_block(stack, &queue, 52);
    us_sendq_unpark_block(stack, &queue);
    assert_null(queue.head);
    assert_null(queue.tail);
    assert_int_equal(stack->block_pool.used, 0);
    us_sendq_unpark_block(stack, &queue);
}

/* It does not while blocks are scarce, and several are never kept. */
static void blocks_do_not_wait_when_they_are_scarce(void **state)
{
    u_u32 taken = us_pool_free(&stack->block_pool) - US_SENDQ_PARK_FREE_MIN + 1;
    struct us_chunk *held = NULL;
    struct us_sendq queue;
    u_u32 i;

    memset(&queue, 0, sizeof(queue));
    (void)us_sendq_append(stack, &queue, 0, stream, 2 * US_BLOCK_ROOM);
    us_sendq_park_block(stack, &queue, 2 * US_BLOCK_ROOM);
    assert_null(queue.head);
    for (i = 0; i < taken; i++) {
        struct us_chunk *chunk = us_block_get(stack, 0, US_BLOCK_MINIMUM);
        assert_non_null(chunk);
        chunk->next = held;
        held = chunk;
    }
    us_sendq_reserve(stack, &queue, 5, 100);
    us_sendq_commit(stack, &queue, 40);
    us_sendq_park_block(stack, &queue, 45);
    assert_null(queue.head);
    while (held != NULL) {
        struct us_chunk *chunk = held;
        held = chunk->next;
        us_block_put(stack, chunk);
    }
}

static void clear_gives_everything_back(void **state)
{
    struct us_sendq queue;
    struct u_prng prng;
    u_u32 at = 0;

    memset(&queue, 0, sizeof(queue));
    u_prng_seed(&prng, 3);
    while (at < SPACE)
        at += append_some(&queue, &prng, 0, at);
    us_sendq_clear(stack, &queue);
    assert_int_equal(queue.copied, 0);
    assert_int_equal(queue.refs, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(any_offset_can_be_built, setup, teardown),
        cmocka_unit_test_setup_teardown(any_frame_of_segments_can_be_built, setup, teardown),
        cmocka_unit_test_setup_teardown(a_short_reference_is_copied, setup, teardown),
        cmocka_unit_test_setup_teardown(an_unused_reservation_holds_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(an_acknowledged_block_waits, setup, teardown),
        cmocka_unit_test_setup_teardown(blocks_do_not_wait_when_they_are_scarce, setup, teardown),
        cmocka_unit_test_setup_teardown(clear_gives_everything_back, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
