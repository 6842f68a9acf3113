/* SPDX-License-Identifier: BSD-3-Clause */
/* The packets of the binary protocol, byte by byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "mcproto/mcproto.h"

static const u_u8 key[] = "key";

static struct mc_binary request(int return_key)
{
    struct mc_binary binary;

    memset(&binary, 0, sizeof binary);
    binary.opcode = 0x0c;
    binary.return_key = (u_u8)return_key;
    memcpy(binary.opaque, "\1\2\3\4", 4);
    return binary;
}

/* Compares with a header of 24 bytes and a body. */
static void check(const u_u8 *out, u_u32 len, const char *header, const char *body, u_u32 body_len)
{
    assert_int_equal(len, MC_BINARY_HEADER_BYTES + body_len);
    assert_memory_equal(out, header, MC_BINARY_HEADER_BYTES);
    assert_memory_equal(out + MC_BINARY_HEADER_BYTES, body, body_len);
}

static void headers(void **state)
{
    struct mc_binary binary = request(0);
    u_u64 cas = (u_u64)0x11223344 << 32 | 0x55667788;
    u_u8 out[MC_BINARY_HEADER_BYTES];
    u_u32 len;

    len = mc_write_binary_header(out, &binary, MC_BINARY_AUTH_ERROR, 8, 250, 0x01020304, cas);
    check(out, len,
          "\x81\x0c\0\xfa\x08\0\0\x20\x01\x02\x04\x06\1\2\3\4\x11\x22\x33\x44\x55\x66\x77\x88", "",
          0);
    len = mc_write_binary_done(out, &binary, 7);
    check(out, len, "\x81\x0c\0\0\0\0\0\0\0\0\0\0\1\2\3\4\0\0\0\0\0\0\0\7", "", 0);
}

static void errors(void **state)
{
    static const struct {
        enum mc_binary_status status;
        const char *text;
    } rows[] = {
        {MC_BINARY_NOT_FOUND, "Not found"},
        {MC_BINARY_EXISTS, "Data exists for key."},
        {MC_BINARY_TOO_LARGE, "Too large."},
        {MC_BINARY_INVALID, "Invalid arguments"},
        {MC_BINARY_NOT_STORED, "Not stored."},
        {MC_BINARY_NON_NUMERIC, "Non-numeric server-side value for incr or decr"},
        {MC_BINARY_AUTH_ERROR, "Auth failure."},
        {MC_BINARY_UNKNOWN_COMMAND, "Unknown command"},
        {MC_BINARY_NO_MEMORY, "Out of memory"},
    };
    struct mc_binary binary = request(1);
    u_u8 out[MC_BINARY_STATUS_MAX];
    size_t i;

    for (i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        u_u32 text_len = (u_u32)strlen(rows[i].text);
        u_u32 len = mc_write_binary_error(out, &binary, rows[i].status);
        u_u8 header[] = "\x81\x0c\0\0\0\0\0\0\0\0\0\0\1\2\3\4\0\0\0\0\0\0\0\0";

        header[7] = (u_u8)rows[i].status;
        header[11] = (u_u8)text_len;
        check(out, len, (const char *)header, rows[i].text, text_len);
    }
    check(out, mc_write_binary_text(out, &binary, MC_BINARY_NO_MEMORY, "none left"),
          "\x81\x0c\0\0\0\0\0\x82\0\0\0\x09\1\2\3\4\0\0\0\0\0\0\0\0", "none left", 9);
}

static void retrievals(void **state)
{
    struct mc_binary plain = request(0);
    struct mc_binary with_key = request(1);
    u_u8 out[MC_BINARY_REQUEST_MAX];

    check(out, mc_write_binary_miss(out, &plain, key, 3),
          "\x81\x0c\0\0\0\0\0\1\0\0\0\x09\1\2\3\4\0\0\0\0\0\0\0\0", "Not found", 9);
    check(out, mc_write_binary_miss(out, &with_key, key, 3),
          "\x81\x0c\0\3\0\0\0\1\0\0\0\3\1\2\3\4\0\0\0\0\0\0\0\0", "key", 3);
    check(out, mc_write_binary_value_header(out, &plain, key, 3, 0xdeadbeefu, 100, 9),
          "\x81\x0c\0\0\4\0\0\0\0\0\0\x68\1\2\3\4\0\0\0\0\0\0\0\x09", "\xde\xad\xbe\xef", 4);
    check(out, mc_write_binary_value_header(out, &with_key, key, 3, 1, 0, 9),
          "\x81\x0c\0\3\4\0\0\0\0\0\0\7\1\2\3\4\0\0\0\0\0\0\0\x09", "\0\0\0\1key", 7);
}

static void the_longest_key_fits(void **state)
{
    struct mc_binary binary = request(1);
    u_u8 out[MC_BINARY_REQUEST_MAX];
    u_u8 long_key[MC_KEY_MAX];

    memset(long_key, 'k', sizeof long_key);
    assert_int_equal(mc_write_binary_miss(out, &binary, long_key, MC_KEY_MAX), 24 + 250);
    assert_int_equal(mc_write_binary_value_header(out, &binary, long_key, MC_KEY_MAX, 0, 0, 0),
                     24 + 4 + 250);
}

static void numbers(void **state)
{
    struct mc_binary binary = request(0);
    u_u8 out[MC_BINARY_HEADER_BYTES + 8];

    check(out, mc_write_binary_number(out, &binary, ~(u_u64)0 - 1, 1),
          "\x81\x0c\0\0\0\0\0\0\0\0\0\x08\1\2\3\4\0\0\0\0\0\0\0\1",
          "\xff\xff\xff\xff\xff\xff\xff\xfe", 8);
}

static void statistics(void **state)
{
    struct mc_binary binary = request(0);
    u_u8 out[MC_BINARY_REQUEST_MAX];

    check(out, mc_write_binary_stat_header(out, &binary, "pid", 3, 5),
          "\x81\x0c\0\3\0\0\0\0\0\0\0\x08\1\2\3\4\0\0\0\0\0\0\0\0", "pid", 3);
    check(out, mc_write_binary_stat_header(out, &binary, "", 0, 0),
          "\x81\x0c\0\0\0\0\0\0\0\0\0\0\1\2\3\4\0\0\0\0\0\0\0\0", "", 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(headers),    cmocka_unit_test(errors),
        cmocka_unit_test(retrievals), cmocka_unit_test(the_longest_key_fits),
        cmocka_unit_test(numbers),    cmocka_unit_test(statistics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
