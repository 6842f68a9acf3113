/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * As much of cmocka's interface as the unit tests of the portable libraries use, for targets that
 * no distribution builds cmocka for: foreign_test.py compiles the tests with this header instead.
 * A failed assertion ends the program, so the first one is the last one.
 */
#ifndef FOREIGN_CMOCKA_H
#define FOREIGN_CMOCKA_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CMUnitTest {
    const char *name;
    void (*test)(void **state);
    int (*setup)(void **state);
    int (*teardown)(void **state);
};

#define cmocka_unit_test(f)                                                                        \
    {                                                                                              \
#f, f, NULL, NULL                                                                          \
    }
#define cmocka_unit_test_setup(f, setup)                                                           \
    {                                                                                              \
#f, f, setup, NULL                                                                         \
    }
#define cmocka_unit_test_setup_teardown(f, setup, teardown)                                        \
    {                                                                                              \
#f, f, setup, teardown                                                                     \
    }

#define foreign_check(holds, text)                                                                 \
    ((holds) ? (void)0 : (printf("%s:%d: %s\n", __FILE__, __LINE__, text), exit(1)))

#define assert_true(a) foreign_check(a, "assert_true(" #a ")")
#define assert_false(a) foreign_check(!(a), "assert_false(" #a ")")
#define assert_null(a) foreign_check((a) == NULL, "assert_null(" #a ")")
#define assert_non_null(a) foreign_check((a) != NULL, "assert_non_null(" #a ")")
#define assert_ptr_equal(a, b) foreign_check((a) == (b), #a " == " #b)
#define assert_ptr_not_equal(a, b) foreign_check((a) != (b), #a " != " #b)
#define assert_int_equal(a, b) foreign_check((uint64_t)(a) == (uint64_t)(b), #a " == " #b)
#define assert_int_not_equal(a, b) foreign_check((uint64_t)(a) != (uint64_t)(b), #a " != " #b)
#define assert_in_range(a, low, high)                                                              \
    foreign_check((uint64_t)(a) - (uint64_t)(low) <= (uint64_t)(high) - (uint64_t)(low),           \
                  #a " in " #low ".." #high)
#define assert_memory_equal(a, b, n) foreign_check(memcmp(a, b, n) == 0, #a " equals " #b)
#define assert_memory_not_equal(a, b, n) foreign_check(memcmp(a, b, n) != 0, #a " differs from " #b)
#define assert_string_equal(a, b) foreign_check(strcmp(a, b) == 0, #a " equals " #b)
#define assert_string_not_equal(a, b) foreign_check(strcmp(a, b) != 0, #a " differs from " #b)
#define fail_msg(...) (printf(__VA_ARGS__), printf(" (%s:%d)\n", __FILE__, __LINE__), exit(1))
#define fail() foreign_check(0, "fail()")

static inline int foreign_run(const struct CMUnitTest *tests, size_t count,
                              int (*setup)(void **state), int (*teardown)(void **state))
{
    void *group = NULL;
    if (setup && setup(&group) != 0)
        return 1;
    for (size_t i = 0; i < count; i++) {
        void *state = group;
        if (tests[i].setup && tests[i].setup(&state) != 0)
            return 1;
        tests[i].test(&state);
        if (tests[i].teardown)
            tests[i].teardown(&state);
    }
    if (teardown)
        teardown(&group);
    printf("%u passed\n", (unsigned)count);
    return 0;
}

#define cmocka_run_group_tests(tests, setup, teardown)                                             \
    foreign_run(tests, sizeof(tests) / sizeof((tests)[0]), setup, teardown)

#endif
