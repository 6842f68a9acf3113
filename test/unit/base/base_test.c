/* SPDX-License-Identifier: BSD-3-Clause */
/* The types' widths and signs, the small helpers, and that a failed assertion ends the program. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"

static void types_have_their_widths_and_signs(void **state)
{
    assert_int_equal(sizeof(u_u8), 1);
    assert_int_equal(sizeof(u_u16), 2);
    assert_int_equal(sizeof(u_u32), 4);
    assert_int_equal(sizeof(u_s32), 4);
    assert_int_equal(sizeof(u_u64), 8);
    assert_int_equal(sizeof(u_s64), 8);
    assert_true((u_u8)-1 > 0);
    assert_true((u_u16)-1 > 0);
    assert_true((u_u32)-1 > 0);
    assert_true((u_u64)-1 > 0);
    assert_true((u_s32)-1 < 0);
    assert_true((u_s64)-1 < 0);
    assert_int_equal((u_u64)-1, UINT64_MAX);
}

static void min_and_max_compare_unsigned(void **state)
{
    assert_int_equal(u_min32(1, 0xffffffff), 1);
    assert_int_equal(u_min32(0xffffffff, 1), 1);
    assert_int_equal(u_max32(1, 0xffffffff), 0xffffffff);
    assert_int_equal(u_max32(0x80000000, 0x7fffffff), 0x80000000);
    assert_int_equal(u_min64(UINT64_MAX, (u_u64)1 << 32), (u_u64)1 << 32);
    assert_int_equal(u_min64(5, 5), 5);
}

static void copy_zero_and_equal_touch_only_their_bytes(void **state)
{
    u_u8 from[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    u_u8 to[8] = {9, 9, 9, 9, 9, 9, 9, 9};

    u_copy(to + 1, from, 3);
    assert_memory_equal(to, ((u_u8[]){9, 1, 2, 3, 9, 9, 9, 9}), 8);
    u_zero(to + 2, 2);
    assert_memory_equal(to, ((u_u8[]){9, 1, 0, 0, 9, 9, 9, 9}), 8);
    u_copy(to, from, 0);
    u_zero(to, 0);
    assert_int_equal(to[0], 9);
    assert_true(u_equal(to, from, 0));
    assert_true(u_equal(to + 1, from, 1));
    assert_false(u_equal(to + 1, from, 2));
}

/* Every length up to the longest key, from and to heap blocks of that size. */
static void short_copies_and_comparisons_are_exact(void **state)
{
    size_t bytes;
    size_t i;

    for (bytes = 1; bytes <= 250; bytes++) {
        u_u8 *from = malloc(bytes);
        u_u8 *to = malloc(bytes + 2);

        assert_true(from != NULL && to != NULL);
        for (i = 0; i < bytes; i++)
            from[i] = (u_u8)(i * 7 + bytes);
        memset(to, 0x55, bytes + 2);
        u_copy_short(to + 1, from, bytes);
        assert_memory_equal(to + 1, from, bytes);
        assert_int_equal(to[0], 0x55);
        assert_int_equal(to[bytes + 1], 0x55);
        assert_true(u_equal_short(to + 1, from, bytes));
        for (i = 0; i < bytes; i++) {
            from[i] ^= 0x80;
            assert_false(u_equal_short(to + 1, from, bytes));
            from[i] ^= 0x80;
        }
        free(from);
        free(to);
    }
    u_copy_short(&bytes, U_NULL, 0);
    assert_true(u_equal_short(&bytes, U_NULL, 0));
}

static void container_is_found_from_its_member(void **state)
{
    struct outer {
        char before[5];
        int member;
    } outer;

    assert_ptr_equal(U_CONTAINER_OF(&outer.member, struct outer, member), &outer);
}

static void array_length_counts_elements(void **state)
{
    u_u16 numbers[7];

    assert_int_equal(U_ARRAY_LEN(numbers), 7);
}

static int checks_so_far;

static int count_and_return(int result)
{
    checks_so_far++;
    return result;
}

static void true_assertion_passes_and_is_evaluated_once(void **state)
{
    checks_so_far = 0;
    U_ASSERT(count_and_return(1));
    assert_int_equal(checks_so_far, 1);
}

static void false_assertion_ends_the_program(void **state)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        /* cmocka catches these, and would report the child as a failed test */
        signal(SIGILL, SIG_DFL);
        signal(SIGTRAP, SIG_DFL);
        signal(SIGABRT, SIG_DFL);
        U_ASSERT(count_and_return(0));
        _exit(0);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_have_their_widths_and_signs),
        cmocka_unit_test(min_and_max_compare_unsigned),
        cmocka_unit_test(copy_zero_and_equal_touch_only_their_bytes),
        cmocka_unit_test(short_copies_and_comparisons_are_exact),
        cmocka_unit_test(container_is_found_from_its_member),
        cmocka_unit_test(array_length_counts_elements),
        cmocka_unit_test(true_assertion_passes_and_is_evaluated_once),
        cmocka_unit_test(false_assertion_ends_the_program),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
