/* SPDX-License-Identifier: BSD-3-Clause */
/* The receive queue against a map of bytes; SACK blocks; bounds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "pair.h"
#include "ustack/tcp/tcp_rxq.h"

enum { SPACE = 20000 };

static struct us_stack *stack;
static void *memory;

static int setup(void **state)
{
    struct us_config config;
    unsigned long bytes;

    pair_config(&config, 0);
    bytes = us_memory_bytes(&config);
    memory = calloc(1, bytes);
    stack = us_create(&config, memory, bytes, 0);
    return stack == NULL;
}

static int teardown(void **state)
{
    assert_int_equal(stack->block_pool.used, 0);
    free(memory);
    return 0;
}

static u_u8 byte_at(u_u32 offset)
{
    return (u_u8)(offset * 17 + (offset >> 7));
}

static u_u32 ooo_blocks(const struct us_rxq *queue, u_u32 *bytes)
{
    const struct us_chunk *chunk;
    u_u32 blocks = 0;

    *bytes = 0;
    for (chunk = queue->ooo; chunk != NULL; chunk = chunk->next) {
        *bytes += chunk->len;
        blocks++;
    }
    return blocks;
}

/* Random segments in random order; what comes out must be the stream, up to the first gap. */
static void model_test(u_u32 seed, u_u32 max_len)
{
    static u_u8 have[SPACE];
    static u_u8 data[SPACE];
    struct us_rxq queue;
    struct u_prng prng;
    u_u32 start = 0xfffff000u + seed; /* the numbers wrap on the way */
    u_u32 nxt = start;
    u_u32 out = 0;
    u_u32 i;

    memset(have, 0, sizeof(have));
    memset(&queue, 0, sizeof(queue));
    u_prng_seed(&prng, seed);
    for (i = 0; i < SPACE; i++)
        data[i] = byte_at(i);
    while (nxt != start + SPACE) {
        u_u32 from = (nxt - start) + u_prng_below(&prng, 3 * max_len);
        u_u32 len = 1 + u_prng_below(&prng, max_len);
        struct us_chunk *chunk;

        if (from >= SPACE)
            continue;
        if (len > SPACE - from)
            len = SPACE - from;
        if (from == nxt - start)
            assert_int_equal(us_rxq_append(stack, &queue, nxt, data + from, len, 1000), len);
        else
            assert_true(us_rxq_store(stack, &queue, start + from, data + from, len, 1000));
        assert_true(ooo_blocks(&queue, &i) <= us_rxq_ooo_blocks_max(i));
        memset(have + from, 1, len);
        if (from == nxt - start)
            nxt = us_rxq_advance(stack, &queue, nxt + len);
        for (i = out; i < SPACE && have[i]; i++)
            continue;
        assert_int_equal(nxt - start, i);
        while ((chunk = us_rxq_take(&queue)) != NULL) {
            for (i = 0; i < chunk->len; i++)
                assert_int_equal(chunk->data[i], byte_at(out + i));
            out += chunk->len;
            us_block_put(stack, chunk);
        }
        assert_int_equal(out, nxt - start);
    }
    assert_int_equal(queue.blocks, 0);
}

static void agrees_with_the_model(void **state)
{
    u_u32 seed;

    for (seed = 0; seed < 60; seed++)
        model_test(seed, seed % 3 == 0 ? 10 : seed % 3 == 1 ? 1460 : 5000);
}

static void first_bytes_win(void **state)
{
    struct us_rxq queue;
    struct us_chunk *chunk;

    memset(&queue, 0, sizeof(queue));
    assert_true(us_rxq_store(stack, &queue, 105, (const u_u8 *)"BBB", 3, 10));
    assert_true(us_rxq_store(stack, &queue, 102, (const u_u8 *)"aaaaaaaaa", 9, 10));
    assert_int_equal(us_rxq_advance(stack, &queue, 102), 111);
    chunk = us_rxq_take(&queue);
    assert_int_equal(chunk->len, 9);
    assert_memory_equal(chunk->data, "aaaBBBaaa", 9);
    us_block_put(stack, chunk);
    assert_null(us_rxq_take(&queue));
}

static void expect_taken(struct us_rxq *queue, const char *bytes)
{
    struct us_chunk *chunk = us_rxq_take(queue);

    assert_non_null(chunk);
    assert_int_equal(chunk->len, strlen(bytes));
    assert_memory_equal(chunk->data, bytes, chunk->len);
    us_block_put(stack, chunk);
}

/*
 * Bytes that are kept or held again go behind those before, unless these have been taken, and
 * before data that has arrived meanwhile.
 */
static void kept_and_held_bytes_are_in_order(void **state)
{
    static const enum us_rxq_position places[] = {US_RXQ_KEPT, US_RXQ_HELD};
    struct us_rxq queue;
    unsigned i;

    memset(&queue, 0, sizeof(queue));
    for (i = 0; i < 4; i++) {
        assert_true(us_rxq_keep(stack, &queue, places[i / 2], (const u_u8 *)"ab", 2));
        assert_int_equal(us_rxq_append(stack, &queue, 1, (const u_u8 *)"ef", 2, 10), 2);
        assert_true(us_rxq_keep(stack, &queue, places[i / 2], (const u_u8 *)"cd", 2));
        expect_taken(&queue, "abcd");
        expect_taken(&queue, "ef");
        assert_null(us_rxq_take(&queue));
    }
}

static void block_limit_holds(void **state)
{
    struct us_rxq queue;
    u_u32 i;

    memset(&queue, 0, sizeof(queue));
    for (i = 0; i < 10; i++)
        assert_int_equal(us_rxq_store(stack, &queue, 100 + 2 * i, (const u_u8 *)"x", 1, 4), i < 4);
    assert_int_equal(queue.blocks, 4);
    /* Filling the gaps merges the blocks, so memory comes back. */
    for (i = 0; i < 3; i++)
        us_rxq_store(stack, &queue, 101 + 2 * i, (const u_u8 *)"x", 1, 4);
    assert_int_equal(queue.blocks, 1);
    us_rxq_clear(stack, &queue);
}

static void block_limit_holds_in_order(void **state)
{
    static const u_u8 data[3 * US_BLOCK_ROOM];
    struct us_rxq queue;

    memset(&queue, 0, sizeof(queue));
    assert_int_equal(us_rxq_append(stack, &queue, 1, data, sizeof(data), 2), 2 * US_BLOCK_ROOM);
    assert_int_equal(queue.blocks, 2);
    assert_int_equal(us_rxq_append(stack, &queue, 1 + 2 * US_BLOCK_ROOM, data, 1, 2), 0);
    us_rxq_clear(stack, &queue);
}

/* Up to the last byte of room. */
static void neighbours_that_fit_are_merged(void **state)
{
    static const u_u8 data[US_BLOCK_ROOM];
    struct us_rxq queue;
    u_u32 more;

    for (more = 4; more <= 5; more++) {
        memset(&queue, 0, sizeof(queue));
        assert_true(us_rxq_store(stack, &queue, 100 + US_BLOCK_ROOM - 4, data, more, 10));
        assert_true(us_rxq_store(stack, &queue, 100, data, US_BLOCK_ROOM - 4, 10));
        assert_int_equal(queue.blocks, more - 3);
        us_rxq_clear(stack, &queue);
    }
}

static void tiny_segments_far_apart_hold_few_blocks(void **state)
{
    struct us_rxq queue;
    u_u32 i;

    memset(&queue, 0, sizeof(queue));
    for (i = 0; i < 200; i++)
        assert_int_equal(us_rxq_store(stack, &queue, 100 + 2 * i, (const u_u8 *)"x", 1, 300),
                         i < US_RXQ_OOO_BLOCKS_MIN);
    assert_int_equal(queue.blocks, US_RXQ_OOO_BLOCKS_MIN);
    us_rxq_clear(stack, &queue);
}

static void segments_of_536_bytes_are_all_stored(void **state)
{
    static const u_u8 data[536];
    struct us_rxq queue;
    u_u32 i;

    memset(&queue, 0, sizeof(queue));
    for (i = 0; i < 150; i++)
        assert_true(us_rxq_store(stack, &queue, 100 + 537 * i, data, 536, 300));
    assert_int_equal(queue.blocks, 150);
    us_rxq_clear(stack, &queue);
}

/* Well filled blocks make room for tiny ones, and leave the list first: the bound holds on. */
static void bound_holds_when_full_blocks_leave(void **state)
{
    static const u_u8 data[20000];
    struct us_tcp_sack sacks[4];
    struct us_rxq queue;
    u_u32 before;
    u_u32 bytes;
    u_u32 i;

    memset(&queue, 0, sizeof(queue));
    assert_true(us_rxq_store(stack, &queue, 101, data, 20000, 300));
    for (i = 0; i < 50; i++)
        us_rxq_store(stack, &queue, 30000 + 2 * i, data, 1, 300);
    before = ooo_blocks(&queue, &bytes);
    assert_true(before > 2 * US_RXQ_OOO_BLOCKS_MIN);
    assert_true(before <= us_rxq_ooo_blocks_max(bytes));
    assert_int_equal(us_rxq_append(stack, &queue, 100, data, 1, 300), 1);
    assert_int_equal(us_rxq_advance(stack, &queue, 101), 20101);
    assert_int_equal(ooo_blocks(&queue, &bytes), US_RXQ_OOO_BLOCKS_MIN);
    assert_int_equal(queue.ooo->seq, 30000); /* the lowest ones are kept */
    assert_int_equal(us_chunk_end(queue.ooo_tail), 30000 + 2 * US_RXQ_OOO_BLOCKS_MIN - 1);
    for (i = us_rxq_sack(&queue, sacks, 4); i-- > 0;)
        assert_true(sacks[i].end <= us_chunk_end(queue.ooo_tail));
    us_rxq_clear(stack, &queue);
}

/* Likewise by a single block, when the data before it went to the application at once. */
static void bound_holds_when_a_block_leaves(void **state)
{
    static const u_u8 data[US_BLOCK_ROOM / 2];
    struct us_rxq queue;
    u_u32 bytes;
    u_u32 i;

    memset(&queue, 0, sizeof(queue));
    assert_true(us_rxq_store(stack, &queue, 101, data, sizeof(data), 300));
    for (i = 0; i < US_RXQ_OOO_BLOCKS_MIN + 1; i++)
        assert_true(us_rxq_store(stack, &queue, 30000 + 2 * i, data, 1, 300));
    assert_int_equal(us_rxq_advance(stack, &queue, 101), 101 + sizeof(data));
    assert_int_equal(ooo_blocks(&queue, &bytes), US_RXQ_OOO_BLOCKS_MIN);
    us_rxq_clear(stack, &queue);
}

static void duplicates_are_told_first_and_once(void **state)
{
    struct us_rxq queue;
    struct us_tcp_sack blocks[4];

    memset(&queue, 0, sizeof(queue));
    us_rxq_store(stack, &queue, 200, (const u_u8 *)"0123456789", 10, 10);
    assert_int_equal(us_rxq_sack(&queue, blocks, 4), 1);
    us_rxq_store(stack, &queue, 195, (const u_u8 *)"0123456789", 10, 10);
    assert_int_equal(us_rxq_sack(&queue, blocks, 4), 2);
    assert_int_equal(blocks[0].start, 200);
    assert_int_equal(blocks[0].end, 205);
    assert_int_equal(blocks[1].start, 195);
    assert_int_equal(blocks[1].end, 210);
    assert_int_equal(us_rxq_sack(&queue, blocks, 1), 1);
    assert_int_equal(blocks[0].start, 200);
    us_rxq_forget_duplicate(&queue);
    assert_int_equal(us_rxq_sack(&queue, blocks, 4), 1);
    us_rxq_clear(stack, &queue);
    assert_false(us_rxq_has_sack(&queue));
    us_rxq_note_duplicate(&queue, 5, 9);
    assert_true(us_rxq_has_sack(&queue));
    assert_int_equal(us_rxq_sack(&queue, blocks, 0), 0);
    assert_int_equal(us_rxq_sack(&queue, blocks, 4), 1);
    /* RFC 2883 section 4: the duplicate of the segment that came last, or none. */
    assert_true(us_rxq_store(stack, &queue, 300, (const u_u8 *)"abc", 3, 8));
    assert_int_equal(us_rxq_sack(&queue, blocks, 4), 1);
    assert_int_equal(blocks[0].start, 300);
    us_rxq_clear(stack, &queue);
}

/* RFC 2018 section 3 and RFC 2883 section 4: contiguous bytes are one range, in any memory. */
static void ranges_span_blocks(void **state)
{
    static const u_u8 data[3 * US_BLOCK_ROOM];
    struct us_rxq queue;
    struct us_tcp_sack blocks[4];

    memset(&queue, 0, sizeof(queue));
    assert_true(us_rxq_store(stack, &queue, 200, data, 2 * US_BLOCK_ROOM + 1, 10));
    assert_int_equal(queue.blocks, 3);
    assert_true(us_rxq_store(stack, &queue, 195, data, sizeof(data), 10));
    assert_int_equal(us_rxq_sack(&queue, blocks, 4), 2);
    assert_int_equal(blocks[0].start, 200);
    assert_int_equal(blocks[0].end, 200 + 2 * US_BLOCK_ROOM + 1);
    assert_int_equal(blocks[1].start, 195);
    assert_int_equal(blocks[1].end, 195 + sizeof(data));
    us_rxq_clear(stack, &queue);
}

static void sack_blocks_are_most_recent_first(void **state)
{
    struct us_rxq queue;
    struct us_tcp_sack blocks[4];
    u_u32 i;

    memset(&queue, 0, sizeof(queue));
    us_rxq_store(stack, &queue, 200, (const u_u8 *)"0123456789", 10, 10);
    us_rxq_store(stack, &queue, 400, (const u_u8 *)"0123456789", 10, 10);
    us_rxq_store(stack, &queue, 300, (const u_u8 *)"0123456789", 10, 10);
    assert_int_equal(us_rxq_sack(&queue, blocks, 4), 3);
    assert_int_equal(blocks[0].start, 300);
    assert_int_equal(blocks[1].start, 400);
    assert_int_equal(blocks[2].start, 200);
    us_rxq_store(stack, &queue, 210, (const u_u8 *)"0123456789", 10, 10);
    assert_int_equal(us_rxq_sack(&queue, blocks, 2), 2);
    assert_int_equal(blocks[0].start, 200);
    assert_int_equal(blocks[0].end, 220);
    for (i = 0; i < 8; i++) /* an extended block keeps its place */
        us_rxq_store(stack, &queue, 220 + i, (const u_u8 *)"x", 1, 10);
    assert_int_equal(us_rxq_sack(&queue, blocks, 4), 3);
    us_rxq_store(stack, &queue, 500, (const u_u8 *)"x", 1, 10);
    assert_int_equal(us_rxq_sack(&queue, blocks, 4), 4);
    assert_int_equal(blocks[0].start, 500);
    assert_int_equal(blocks[1].end, 228);
    assert_int_equal(blocks[3].start, 400);
    us_rxq_clear(stack, &queue);
}

/* Takes blocks until there are none for this use; puts them in front of `all`. */
static struct us_chunk *take_all(enum us_block_use use, struct us_chunk *all)
{
    struct us_chunk *chunk;

    while ((chunk = us_block_get(stack, 0, use)) != NULL) {
        chunk->next = all;
        all = chunk;
    }
    return all;
}

static void give_all(struct us_chunk *all)
{
    while (all != NULL) {
        struct us_chunk *chunk = all->next;
        us_block_put(stack, all);
        all = chunk;
    }
}

static u_u32 pool_free(void)
{
    return us_pool_free(&stack->block_pool);
}

/* Each use leaves blocks to those that matter more, and the reserve is for minimums only. */
static void uses_have_their_floors(void **state)
{
    static const u_u8 block[US_BLOCK_ROOM];
    const u_u32 items = stack->block_pool.items;
    struct us_rxq queue;
    struct us_chunk *all = NULL;
    u_u32 reserve;
    u_u32 left;
    u_u32 i;

    memset(&queue, 0, sizeof(queue));
    all = take_all(US_BLOCK_OUT_OF_ORDER, all);
    assert_false(us_rxq_store(stack, &queue, 10, (const u_u8 *)"x", 1, 10));
    left = pool_free();
    all = take_all(US_BLOCK_SHARED, all);
    reserve = pool_free();
    assert_int_equal(left, reserve + (items - reserve) / 4);
    assert_int_equal(reserve * 2048ul, us_buffer_reserve(stack));
    assert_true(reserve > 0 && reserve <= items / 2);
    for (i = 0; i < US_RXQ_MIN_BLOCKS; i++) /* the minimum of a receive queue, and no more */
        assert_int_equal(us_rxq_append(stack, &queue, US_BLOCK_ROOM * i, block, US_BLOCK_ROOM, 300),
                         US_BLOCK_ROOM);
    assert_int_equal(us_rxq_append(stack, &queue, US_BLOCK_ROOM * i, block, US_BLOCK_ROOM, 300), 0);
    assert_int_equal(pool_free(), reserve - US_RXQ_MIN_BLOCKS);
    all = take_all(US_BLOCK_MINIMUM, all);
    assert_int_equal(pool_free(), 0);
    us_rxq_clear(stack, &queue);
    give_all(all);
}

static void empty_pool_drops(void **state)
{
    struct us_rxq queue;
    struct us_chunk *all = take_all(US_BLOCK_MINIMUM, NULL);
    u_u64 empty = pair_counter(stack, "pool_empty_buffers");
    u_u64 low = pair_counter(stack, "pool_low_buffers");

    memset(&queue, 0, sizeof(queue));
    assert_false(us_rxq_store(stack, &queue, 10, (const u_u8 *)"x", 1, 10));
    assert_int_equal(us_rxq_append(stack, &queue, 10, (const u_u8 *)"x", 1, 10), 0);
    assert_false(us_rxq_keep(stack, &queue, US_RXQ_KEPT, (const u_u8 *)"x", 1));
    assert_int_equal(queue.blocks, 0);
    assert_int_equal(pair_counter(stack, "pool_empty_buffers"), empty + 2);
    assert_int_equal(pair_counter(stack, "pool_low_buffers"), low + 1);
    give_all(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(agrees_with_the_model, setup, teardown),
        cmocka_unit_test_setup_teardown(first_bytes_win, setup, teardown),
        cmocka_unit_test_setup_teardown(kept_and_held_bytes_are_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(block_limit_holds, setup, teardown),
        cmocka_unit_test_setup_teardown(block_limit_holds_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(neighbours_that_fit_are_merged, setup, teardown),
        cmocka_unit_test_setup_teardown(tiny_segments_far_apart_hold_few_blocks, setup, teardown),
        cmocka_unit_test_setup_teardown(segments_of_536_bytes_are_all_stored, setup, teardown),
        cmocka_unit_test_setup_teardown(bound_holds_when_full_blocks_leave, setup, teardown),
        cmocka_unit_test_setup_teardown(bound_holds_when_a_block_leaves, setup, teardown),
        cmocka_unit_test_setup_teardown(uses_have_their_floors, setup, teardown),
        cmocka_unit_test_setup_teardown(duplicates_are_told_first_and_once, setup, teardown),
        cmocka_unit_test_setup_teardown(ranges_span_blocks, setup, teardown),
        cmocka_unit_test_setup_teardown(sack_blocks_are_most_recent_first, setup, teardown),
        cmocka_unit_test_setup_teardown(empty_pool_drops, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
