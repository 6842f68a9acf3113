/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines of servers, well-formed and hostile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "reply.h"

/* From a block of exactly its length, so that reading beyond it is noticed. */
static struct reply read_line(const char *text)
{
    size_t len = strlen(text);
    char *line = malloc(len + (len == 0));
    struct reply reply;

    assert_non_null(line);
    memcpy(line, text, len);
    reply_read(&reply, line, len);
    free(line);
    reply.line = NULL;
    return reply;
}

static void test_replies(void **state)
{
    struct reply reply = read_line("VA 5 f4294967295 t-1");

    (void)state;
    assert_int_equal(reply.code, REPLY_VALUE);
    assert_int_equal(reply.value_bytes, 5);
    assert_int_equal(reply.flags, UINT32_MAX);
    assert_int_equal(reply.ttl_s, REPLY_EXPIRES_NEVER);
    assert_false(reply.stale);
    reply = read_line("VA 0 f0 t86400 W X");
    assert_int_equal(reply.code, REPLY_VALUE);
    assert_int_equal(reply.ttl_s, 86400);
    assert_true(reply.stale);
    assert_int_equal(read_line("HD").code, REPLY_DONE);
    assert_int_equal(read_line("EN").code, REPLY_MISS);
    assert_int_equal(read_line("NF").code, REPLY_MISS);
    assert_int_equal(read_line("NS").code, REPLY_STORED_NOT);
}

static void test_what_is_no_reply(void **state)
{
    static const char *const lines[] = {
        "",
        " ",
        "V",
        "VA",
        "VA ",
        "VA x",
        "VA -1 f0 t1",
        "VA 2147483646 f0 t1",
        "VA 9999999999999999999999 f0",
        "VA 1 f4294967296",
        "VA 1 f",
        "VA 1 t",
        "VA 1 t-2",
        "VAL 1",
        "SERVER_ERROR out of memory",
        "CLIENT_ERROR bad data chunk",
        "ERROR",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        assert_int_equal(read_line(lines[i]).code, REPLY_REFUSED);
}

static bool read_dump(struct dump_item *item, const char *text)
{
    size_t len = strlen(text);
    char *line = malloc(len + 1);
    bool read;

    assert_non_null(line);
    memcpy(line, text, len);
    read = reply_read_dump(item, line, len);
    free(line);
    return read;
}

static void test_dumps(void **state)
{
    struct dump_item item;
    char line[1024];

    (void)state;
    assert_true(read_dump(&item, "key=a%20%62%fF exp=-1 la=1 cas=2 fetch=no cls=1 size=63 "));
    assert_int_equal(item.key_len, 4);
    assert_memory_equal(item.key, "a b\xff", 4);
    assert_int_equal(item.expires_s, REPLY_EXPIRES_NEVER);
    assert_int_equal(item.bytes, 63);
    assert_true(read_dump(&item, "key=k exp=1795518289 size=1 flags=7"));
    assert_int_equal(item.expires_s, 1795518289);
    memcpy(line, "key=", 4);
    memset(line + 4, 'k', MC_KEY_MAX + 1);
    line[4 + MC_KEY_MAX] = '\0';
    assert_true(read_dump(&item, line));
    assert_int_equal(item.key_len, MC_KEY_MAX);
    line[4 + MC_KEY_MAX] = 'k';
    line[5 + MC_KEY_MAX] = '\0';
    assert_false(read_dump(&item, line));
}

static void test_what_is_no_dump(void **state)
{
    static const char *const lines[] = {
        "",          "END",     "OK",      "BUSY",           "key=",          "key= exp=1",
        "key=%",     "key=%2",  "key=%2x", "key=a exp=1x",   "key=a size=-5", "Key=a",
        "ERROR foo", "key=%zz", "key=a%4", "key=a size=1e3", "kex=a",
    };
    struct dump_item item;

    (void)state;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        assert_false(read_dump(&item, lines[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replies),
        cmocka_unit_test(test_what_is_no_reply),
        cmocka_unit_test(test_dumps),
        cmocka_unit_test(test_what_is_no_dump),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
