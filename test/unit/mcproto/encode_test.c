/* SPDX-License-Identifier: BSD-3-Clause */
/* Base64 in both directions, invalid base64, and percent encoding. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "guard.h"
#include "mcproto/mcproto.h"

static void check_encoded(const char *in, size_t len, const char *expected)
{
    u_u8 out[MC_BASE64_BYTES(16) + 1];
    u_u32 n;

    memset(out, '!', sizeof out);
    n = mc_base64_encode(out, guard_behind(in, len), (u_u32)len);
    assert_int_equal(n, strlen(expected));
    assert_int_equal(n, MC_BASE64_BYTES(len));
    assert_memory_equal(out, expected, n);
    assert_int_equal(out[n], '!');
}

/* The examples of RFC 4648, and letters from both ends of the alphabet. */
static void base64_is_written(void **state)
{
    check_encoded("", 0, "");
    check_encoded("f", 1, "Zg==");
    check_encoded("fo", 2, "Zm8=");
    check_encoded("foo", 3, "Zm9v");
    check_encoded("foob", 4, "Zm9vYg==");
    check_encoded("fooba", 5, "Zm9vYmE=");
    check_encoded("foobar", 6, "Zm9vYmFy");
    check_encoded("\0\0\0", 3, "AAAA");
    check_encoded("\xff\xff\xff", 3, "////");
    check_encoded("\xfb\xef\xbe\xff", 4, "++++/w==");
}

static void check_decoded(const char *in, const char *expected, size_t len)
{
    u_u8 out[64];
    size_t in_len = strlen(in);

    assert_int_equal(mc_base64_decode(out, guard_behind(in, in_len), (u_u32)in_len), len);
    assert_memory_equal(out, expected, len);
}

static void base64_is_read(void **state)
{
    check_decoded("Zg==", "f", 1);
    check_decoded("Zm8=", "fo", 2);
    check_decoded("Zm9v", "foo", 3);
    check_decoded("Zm9vYmE=", "fooba", 5);
    check_decoded("++++/w==", "\xfb\xef\xbe\xff", 4);
    /* Bits that the padding leaves over do not matter. */
    check_decoded("Zh==", "f", 1);
    /* Foreign bytes are passed over, wherever they stand. */
    check_decoded("Z!m-9\tv", "foo", 3);
    check_decoded("!Zm9v\xff", "foo", 3);
    check_decoded("Zg=-=", "f", 1);
    /* The first group with padding is the last one that counts. */
    check_decoded("Zg==Zm9v", "f", 1);
    check_decoded("Zg=v", "f\0", 2);
}

static void what_is_no_base64_is_nothing(void **state)
{
    static const char *const bad[] = {
        "", "Z", "Zg", "Zg=", "Zm9vZ", "!!!!", "====", "Z===", "=", "Zm9v====", "Zm9vZ===", "Zm9v=",
    };
    size_t i;

    for (i = 0; i < sizeof bad / sizeof bad[0]; i++)
        check_decoded(bad[i], "", 0);
}

static void base64_comes_back(void **state)
{
    u_u8 in[MC_META_KEY_DECODED_MAX];
    u_u8 text[MC_BASE64_BYTES(MC_META_KEY_DECODED_MAX)];
    u_u8 out[sizeof text / 4 * 3];
    u_u32 len, i;

    for (i = 0; i < sizeof in; i++)
        in[i] = (u_u8)(i * 151 + 7);
    for (len = 1; len <= sizeof in; len++) {
        u_u32 n = mc_base64_encode(text, in, len);
        assert_int_equal(mc_base64_decode(out, guard_behind(text, n), n), len);
        assert_memory_equal(out, in, len);
    }
}

/* A key of 250 characters fits into the struct of a request. */
static void the_longest_key_fits(void **state)
{
    u_u8 out[MC_META_KEY_DECODED_MAX];
    char text[MC_KEY_MAX];

    memset(text, 'A', sizeof text);
    assert_int_equal(mc_base64_decode(out, (const u_u8 *)text, 248), 186);
    assert_int_equal(mc_base64_decode(out, (const u_u8 *)text, 250), 0);
}

static void uri_encoding(void **state)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    u_u8 out[MC_URI_BYTES(256)];
    u_u8 in[256];
    u_u32 i, n;

    n = mc_uri_encode(out, guard_behind(plain, sizeof plain - 1), sizeof plain - 1);
    assert_int_equal(n, sizeof plain - 1);
    assert_memory_equal(out, plain, n);
    n = mc_uri_encode(out, guard_behind("a b/\xfe%", 6), 6);
    assert_int_equal(n, 14);
    assert_memory_equal(out, "a%20b%2F%FE%25", 14);
    for (i = 0; i < 256; i++)
        in[i] = (u_u8)i;
    assert_int_equal(mc_uri_encode(out, in, 256), 66 + 190 * 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(base64_is_written),
        cmocka_unit_test(base64_is_read),
        cmocka_unit_test(what_is_no_base64_is_nothing),
        cmocka_unit_test(base64_comes_back),
        cmocka_unit_test(the_longest_key_fits),
        cmocka_unit_test(uri_encoding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
