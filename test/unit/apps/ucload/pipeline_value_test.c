/* SPDX-License-Identifier: BSD-3-Clause */
/* Every byte of a hit is compared, in each of the ways that values and heads are compared. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline_fixture.h"

/* Starts a get of key 1 and receives the reply in one part with byte `flip` changed. */
static int feed_flipped(uint8_t *reply, uint32_t len, uint32_t flip)
{
    uint8_t out[TEMPLATE_ROOM];
    uint64_t id = 1;
    int rc;

    write_request(OP_GET, &id, 1, out, TEMPLATE_ROOM);
    reply[flip] ^= 1;
    rc = pipeline_receive(&s, reply, len);
    reply[flip] ^= 1;
    return rc;
}

/* Several sizes, since values are compared in several ways. Only the flags may differ. */
static void test_every_byte_of_a_hit(void **state)
{
    static const unsigned sizes[] = {0, 1, 7, 8, 9, 15, 16, 17, 63, 64, 65, 200};
    const char *flags = "VALUE 10000000 0 ";
    uint8_t out[TEMPLATE_ROOM], reply[300];
    uint32_t head, len, i, k;
    uint64_t id = 1;
    char size[8];

    (void)state;
    for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        snprintf(size, sizeof(size), "%u", sizes[i]);
        open_with(PROTOCOL_TEXT, size, 1);
        head = (uint32_t)snprintf((char *)reply, sizeof(reply), "%s%s\r\n", flags, size);
        memcpy(reply + head, keyspace_value(&keys, 1), sizes[i]);
        memcpy(reply + head + sizes[i], "\r\nEND\r\n", 7);
        len = head + sizes[i] + 7;
        write_request(OP_GET, &id, 1, out, TEMPLATE_ROOM);
        assert_int_equal(pipeline_receive(&s, reply, len), 0);
        assert_int_equal(ctx.tally.hits, 1);
        close_all();
        for (k = 0; k < len; k++) {
            open_with(PROTOCOL_TEXT, size, 1);
            if (k == strlen(flags) - 2)
                assert_int_equal(feed_flipped(reply, len, k), 0);
            else if (feed_flipped(reply, len, k) == 0)
                assert_true(ctx.tally.wrong == 1 || pipeline_in_flight(&s) == 1);
            close_all();
        }
    }
}

/* Bytes between the key and the last word of the head are compared separately. */
static void test_every_byte_of_a_long_head(void **state)
{
    static uint8_t reply[30000];
    uint32_t bytes = 12345, head, k;

    (void)state;
    for (k = 0; k < strlen("VALUE 10000000 0 12345\r\n"); k++) {
        open_with(PROTOCOL_TEXT, "12345", 1);
        head = (uint32_t)snprintf((char *)reply, sizeof(reply), "VALUE 10000000 0 12345\r\n");
        memcpy(reply + head, keyspace_value(&keys, 1), bytes);
        memcpy(reply + head + bytes, "\r\nEND\r\n", 7);
        assert_true(feed_flipped(reply, head + bytes + 7, k) < 0 || k == 15 ||
                    ctx.tally.wrong > 0 || pipeline_in_flight(&s) > 0);
        close_all();
    }
}

/* With append and prepend a value is itself once or several times; other ones are wrong. */
static void test_repeated_values(void **state)
{
    static const char *const sizes[] = {"5", "4-5"};
    uint8_t out[2048];
    char reply[128], value[6];
    uint64_t id = 1;
    uint32_t len, cut, n;

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        open_with(PROTOCOL_TEXT, sizes[i], 1);
        ctx.grown = true;
        n = keyspace_value_bytes(&keys, 1);
        snprintf(value, sizeof(value), "%.*s", (int)n, (const char *)keyspace_value(&keys, 1));
        len = (uint32_t)snprintf(reply, sizeof(reply), "VALUE 10000000 0 %u\r\n%s%s%s\r\nEND\r\n",
                                 3 * n, value, value, value);
        for (cut = 0; cut < len; cut++) {
            write_request(OP_GET, &id, 1, out, TEMPLATE_ROOM);
            assert_int_equal(feed_cut((uint8_t *)reply, len, cut), 0);
        }
        assert_int_equal(ctx.tally.wrong, 0);
        assert_int_equal(ctx.tally.hits, len);
        for (cut = 0; cut < 3 * n; cut++) {
            reply[21 + cut] ^= 1;
            write_request(OP_GET, &id, 1, out, TEMPLATE_ROOM);
            assert_int_equal(pipeline_receive(&s, (uint8_t *)reply, len), 0);
            assert_int_equal(ctx.tally.wrong, cut + 1);
            reply[21 + cut] ^= 1;
        }
        len = (uint32_t)snprintf(reply, sizeof(reply), "VALUE 10000000 0 %u\r\n%s%.1s\r\nEND\r\n",
                                 n + 1, value, value);
        write_request(OP_GET, &id, 1, out, TEMPLATE_ROOM);
        assert_int_equal(pipeline_receive(&s, (uint8_t *)reply, len), 0);
        assert_int_equal(ctx.tally.wrong, 3 * n + 1);
        close_all();
    }
}

/* A reply whose rest is lost is forgotten, whatever its part was: the next one begins anew. */
static void test_lost_replies(void **state)
{
    static uint8_t out[TEMPLATE_ROOM * 3];
    const uint64_t ids[2] = {1, 2};
    char reply[128];
    uint32_t len, cut;

    (void)state;
    open_with(PROTOCOL_TEXT, "5", 2);
    len = (uint32_t)snprintf(
        reply, sizeof(reply), "VALUE 10000000 0 5\r\n%.5s\r\nVALUE 20000000 0 5\r\n%.5s\r\nEND\r\n",
        (const char *)keyspace_value(&keys, 1), (const char *)keyspace_value(&keys, 2));
    for (cut = 0; cut < len; cut++) {
        write_request(OP_GET, ids, 2, out, TEMPLATE_ROOM);
        assert_int_equal(feed_cut((uint8_t *)reply, cut, cut), 0);
        pipeline_lose(&s);
        write_request(OP_GET, ids, 2, out, TEMPLATE_ROOM);
        assert_int_equal(pipeline_receive(&s, (const uint8_t *)"END\r\n", 5), 0);
        assert_int_equal(pipeline_in_flight(&s), 0);
    }
    assert_int_equal(ctx.tally.unanswered, len);
    assert_int_equal(ctx.tally.requests, len);
    assert_int_equal(ctx.tally.misses, 2 * len);
    assert_int_equal(ctx.tally.hits, 0);
    assert_int_equal(ctx.tally.wrong, 0);
    close_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_byte_of_a_hit),
        cmocka_unit_test(test_every_byte_of_a_long_head),
        cmocka_unit_test(test_repeated_values),
        cmocka_unit_test(test_lost_replies),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
