/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All short inputs out of small alphabets, parsed by the library and by the reference parser: they
 * must agree in every field. Lines of words explore the arguments, strings of bytes the framing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "guard.h"
#include "mcproto/mcproto.h"
#include "mcproto/mcproto_fast.h"
#include "ref_parser.h"

static int same_set(const u_u8 *in, u_u32 len, const struct mc_request *req)
{
    struct mc_set set;
    u_u32 set_bytes = mc_parse_set(in, len, &set);

    return set_bytes == 0 ||
           (req->command == MC_CMD_SET && req->line_bytes == set_bytes && !req->noreply &&
            req->key == in + MC_FAST_KEY_OFFSET && req->key_len == set.key_len &&
            req->flags == set.flags && (u_u32)req->exptime == set.exptime &&
            req->value_bytes == set.value_bytes);
}

static void compare(const u_u8 *in, u_u32 len)
{
    struct mc_request req;
    struct mc_request reference;
    enum mc_outcome outcome = mc_parse(in, len, &req);
    u_u32 key_len = 0;
    u_u32 get_bytes = mc_parse_get(in, len, &key_len);

    if (get_bytes > 0 && (req.command != MC_CMD_GET || req.line_bytes != get_bytes ||
                          req.key != in + MC_FAST_KEY_OFFSET || req.args_len != key_len))
        fail_msg("mc_parse_get differs: %.*s", (int)len, (const char *)in);
    if (!same_set(in, len, &req))
        fail_msg("mc_parse_set differs: %.*s", (int)len, (const char *)in);
    if (outcome != ref_parse(in, len, &reference) || !ref_same(&req, &reference))
        fail_msg("differs: %.*s", (int)len, (const char *)in);
}

#define LINE_BYTES_MAX 600

/* Writes the line that `number` stands for, in base `count`, least digit first. */
static u_u32 line_write(char *out, const char *const *words, unsigned count, unsigned length,
                        unsigned long number)
{
    size_t len = 0;
    unsigned i;

    for (i = 0; i < length; i++) {
        const char *word = words[number % count];
        const char *gap = i == 0 ? "" : number % 7 == 0 ? "  " : " ";
        len += (size_t)snprintf(out + len, LINE_BYTES_MAX - len, "%s%s", gap, word);
        number /= count;
    }
    return (u_u32)len;
}

static void all_lines(const char *const *words, unsigned count, unsigned length_max)
{
    char line[LINE_BYTES_MAX];
    unsigned long number;
    unsigned long lines = 1;
    unsigned length;

    for (length = 1; length <= length_max; length++) {
        lines *= count;
        for (number = 0; number < lines; number++) {
            u_u32 len = line_write(line, words, count, length, number);
            memcpy(line + len, "\r\n", 2);
            compare(guard_behind(line, len + 2), len + 2);
            if (number % 5 == 0) {
                line[len] = '\n';
                compare(guard_behind(line, len + 1), len + 1);
            }
        }
    }
}

static void all_commands_with_few_words(void **state)
{
    static const char *const words[] = {
        "get",   "gats",    "set", "cas", "delete", "incr", "touch",  "flush_all", "verbosity",
        "stats", "noreply", "0",   "-1",  "k",      "+5",   "HTTP/1", "foo",
    };

    all_lines(words, sizeof words / sizeof words[0], 4);
}

static void meta_with_many_words(void **state)
{
    static const char *const words[] = {"mg", "ms", "ma", "md",   "me", "b", "T1",
                                        "Tx", "Fx", "Jx", "Zm9v", "MA", "q", "!"};

    all_lines(words, sizeof words / sizeof words[0], 4);
}

static void storage_with_many_words(void **state)
{
    static const char *const words[] = {"set", "cas", "noreply", "4", "-1", "\t7", "x"};

    all_lines(words, sizeof words / sizeof words[0], 7);
}

static void numbers_in_every_place(void **state)
{
    static const char *const formats[] = {
        "gat %s k",           "set k %s 0 1",   "set k 0 %s 1 noreply",
        "set k 0 0 %s",       "cas k 0 0 1 %s", "incr k %s",
        "touch k %s",         "flush_all %s",   "verbosity %s",
        "touch k %s noreply", "ms k %s",        "mg k T%s",
        "mg k F%s",           "ma k D%s",       "mg k C%s",
    };
    static const char *const signs[] = {"", "+", "-", "0", "-0", "\t", "--", "000000000000"};
    static const char *const digits[] = {
        "",
        "0",
        "1",
        "2147483645",
        "2147483646",
        "2147483647",
        "2147483648",
        "2147483649",
        "4294967295",
        "4294967296",
        "9999999999",
        "99999999999",
        "999999999999",
        "9223372036854775807",
        "9223372036854775808",
        "9223372036854775809",
        "18446744073709551614",
        "18446744073709551615",
        "18446744073709551616",
        "100000000000000000000",
    };
    static const char *const tails[] = {"", "x", "\t", "\tx", "-", "\r", "."};
    char number[64];
    char line[160];
    size_t f, s, d, t;

    for (f = 0; f < sizeof formats / sizeof formats[0]; f++)
        for (s = 0; s < sizeof signs / sizeof signs[0]; s++)
            for (d = 0; d < sizeof digits / sizeof digits[0]; d++)
                for (t = 0; t < sizeof tails / sizeof tails[0]; t++) {
                    int len;
                    snprintf(number, sizeof number, "%s%s%s", signs[s], digits[d], tails[t]);
                    len = snprintf(line, sizeof line - 2, formats[f], number);
                    memcpy(line + len, "\r\n", 2);
                    compare(guard_behind(line, (size_t)len + 2), (u_u32)len + 2);
                }
}

/* Strings of bytes, each behind a beginning that leads into another part of the parser. */
static void all_short_strings(void **state)
{
    static const char alphabet[] = {'g', 'e', 't', ' ', '\r', '\n', '0'};
    static const char *const heads[] = {"",       "get ",  "get key_000", "gat 0",
                                        "delete", "stats", "mg ",         "ms k 1 "};
    char text[32];
    unsigned long number;
    size_t h;
    int i;

    for (h = 0; h < sizeof heads / sizeof heads[0]; h++) {
        size_t head_len = strlen(heads[h]);
        memcpy(text, heads[h], head_len);
        for (number = 0; number < 117649; number++) { /* 7^6 */
            unsigned long rest = number;
            for (i = 0; i < 6; i++, rest /= 7)
                text[head_len + (size_t)i] = alphabet[rest % 7];
            compare(guard_behind(text, head_len + 6), (u_u32)head_len + 6);
        }
    }
}

/* Lines of every length around the words that the search works with. */
static void all_key_lengths(void **state)
{
    static const char *const heads[] = {"get ",    "gets ", "get a ", "set ",
                                        "delete ", "incr ", "mg ",    "ms "};
    static const char *const tails[] = {
        "\r\n", "\n", " \r\n", " 1\r\n", " 0 0 1\r\n", " noreply\r\n", " 0 0 1 noreply\n", ""};
    char line[LINE_BYTES_MAX];
    char keys[261];
    size_t h, t, len;

    memset(keys, 'k', sizeof keys);
    for (h = 0; h < sizeof heads / sizeof heads[0]; h++)
        for (t = 0; t < sizeof tails / sizeof tails[0]; t++)
            for (len = 0; len <= 260; len++) {
                int bytes =
                    snprintf(line, sizeof line, "%s%.*s%s", heads[h], (int)len, keys, tails[t]);
                compare(guard_behind(line, (size_t)bytes), (u_u32)bytes);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_commands_with_few_words), cmocka_unit_test(meta_with_many_words),
        cmocka_unit_test(storage_with_many_words),     cmocka_unit_test(numbers_in_every_place),
        cmocka_unit_test(all_short_strings),           cmocka_unit_test(all_key_lengths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
