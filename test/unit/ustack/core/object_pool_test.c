/* SPDX-License-Identifier: BSD-3-Clause */
/* Pools: order of reuse, exhaustion, soundness. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ustack/core/object_pool.h"

static void takes_all_and_no_more(void **state)
{
    u_u64 memory[4 * 2];
    struct us_pool pool;
    void *items[4];
    int i;

    memset(memory, 0, sizeof(memory));
    us_pool_init(&pool, memory, 16, 4);
    assert_int_equal(us_pool_free(&pool), 4);
    for (i = 0; i < 4; i++) {
        items[i] = us_pool_get(&pool);
        assert_ptr_equal(items[i], &memory[2 * i]);
    }
    assert_null(us_pool_get(&pool));
    assert_int_equal(us_pool_free(&pool), 0);
    us_pool_put(&pool, items[1]);
    us_pool_put(&pool, items[3]);
    assert_true(us_pool_is_sound(&pool));
    assert_ptr_equal(us_pool_get(&pool), items[3]); /* last in, first out */
    assert_ptr_equal(us_pool_get(&pool), items[1]);
    assert_null(us_pool_get(&pool));
    assert_true(us_pool_is_sound(&pool));
}

static void leaves_memory_untouched(void **state)
{
    u_u64 memory[100];
    struct us_pool pool;
    unsigned i;

    memset(memory, 0, sizeof(memory));
    us_pool_init(&pool, memory, 8, 100);
    for (i = 0; i < 50; i++)
        us_pool_put(&pool, us_pool_get(&pool));
    for (i = 1; i < 100; i++)
        assert_true(memory[i] == 0);
}

static void soundness_sees_a_broken_list(void **state)
{
    u_u64 memory[8];
    struct us_pool pool;
    void *item;
    void *link;

    memset(memory, 0, sizeof(memory));
    us_pool_init(&pool, memory, 8, 8);
    item = us_pool_get(&pool);
    us_pool_put(&pool, item);
    us_pool_put(&pool, us_pool_get(&pool));
    assert_true(us_pool_is_sound(&pool));
    link = &pool; /* points somewhere else */
    memcpy(memory, &link, sizeof(link));
    assert_false(us_pool_is_sound(&pool));
    link = memory; /* a cycle */
    memcpy(memory, &link, sizeof(link));
    assert_false(us_pool_is_sound(&pool));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_all_and_no_more),
        cmocka_unit_test(leaves_memory_untouched),
        cmocka_unit_test(soundness_sees_a_broken_list),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
