/* SPDX-License-Identifier: BSD-3-Clause */
/* Appending and taking in any sizes, compared with one block of the same bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "buffer.h"

#define BYTES 200000

static void test_stream(void **state)
{
    static uint8_t sent[BYTES];
    struct buffer buffer = {0};
    struct u_prng prng;
    size_t added = 0, taken = 0, n;

    (void)state;
    u_prng_seed(&prng, 1);
    for (size_t i = 0; i < BYTES; i++)
        sent[i] = (uint8_t)u_prng_next(&prng);
    while (taken < BYTES) {
        n = u_prng_next(&prng) % 9000;
        n = n < BYTES - added ? n : BYTES - added;
        assert_int_equal(buffer_add(&buffer, sent + added, n), 0);
        added += n;
        assert_int_equal(buffer_len(&buffer), added - taken);
        n = u_prng_next(&prng) % (added - taken + 1);
        assert_memory_equal(buffer.bytes + buffer.at, sent + taken, n);
        buffer_take(&buffer, n);
        taken += n;
    }
    assert_true(buffer.capacity < 2 * BYTES);
    buffer_free(&buffer);
}

static void test_trim(void **state)
{
    struct buffer buffer = {0};

    (void)state;
    assert_non_null(buffer_room(&buffer, 100));
    buffer_trim(&buffer);
    assert_non_null(buffer.bytes);
    assert_non_null(buffer_room(&buffer, 20u << 20));
    buffer.end = 1;
    buffer_trim(&buffer);
    assert_non_null(buffer.bytes);
    buffer_take(&buffer, 1);
    buffer_trim(&buffer);
    assert_null(buffer.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_stream), cmocka_unit_test(test_trim)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
