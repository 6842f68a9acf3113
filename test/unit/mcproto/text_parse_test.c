/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The text protocol rule by rule: an input line and what it must come to. Each line is parsed
 * against both guard pages, in all its prefixes, with other input behind it, and by the reference
 * parser.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guard.h"
#include "mcproto/mcproto.h"
#include "mcproto/mcproto_fast.h"
#include "ref_parser.h"
#include "show.h"

#define BAD_FORMAT "error=CLIENT_ERROR bad command line format"
#define BAD_EXPTIME "error=CLIENT_ERROR invalid exptime argument"
#define BAD_DELTA "error=CLIENT_ERROR invalid numeric delta argument"

#define K10 "kkkkkkkkkk"
#define K50 K10 K10 K10 K10 K10
#define K250 K50 K50 K50 K50 K50
#define K251 K250 "k"

#define SHOWN_MAX 2048

struct row {
    const char *input;
    const char *expected;
};

/* What the short way reads, the long way reads likewise. */
static void check_short_ways(const u_u8 *in, u_u32 len, enum mc_outcome outcome,
                             const struct mc_request *req)
{
    u_u32 key_len = 0;
    u_u32 line_bytes = mc_parse_get(in, len, &key_len);
    struct mc_set set;
    u_u32 set_bytes = mc_parse_set(in, len, &set);

    if (set_bytes > 0) {
        assert_int_equal(outcome, MC_REQUEST);
        assert_int_equal(req->command, MC_CMD_SET);
        assert_int_equal(req->line_bytes, set_bytes);
        assert_ptr_equal(req->key, in + MC_FAST_KEY_OFFSET);
        assert_int_equal(req->key_len, set.key_len);
        assert_int_equal(req->flags, set.flags);
        assert_int_equal(req->exptime, set.exptime);
        assert_int_equal(req->value_bytes, set.value_bytes);
        assert_int_equal(req->noreply, 0);
    }
    if (line_bytes == 0)
        return;
    assert_int_equal(outcome, MC_REQUEST);
    assert_int_equal(req->command, MC_CMD_GET);
    assert_int_equal(req->line_bytes, line_bytes);
    assert_ptr_equal(req->key, in + MC_FAST_KEY_OFFSET);
    assert_int_equal(req->key_len, key_len);
    assert_int_equal(req->args_len, key_len);
}

static void check_parse(const u_u8 *in, u_u32 len, u_u32 line_bytes, const char *expected)
{
    struct mc_request req;
    struct mc_request reference;
    char shown[SHOWN_MAX];
    enum mc_outcome outcome;

    memset(&req, 0xa5, sizeof req);
    outcome = mc_parse(in, len, &req);
    assert_string_equal(show(outcome, &req, shown, sizeof shown), expected);
    assert_int_equal(req.line_bytes, line_bytes);
    assert_int_equal(ref_parse(in, len, &reference), outcome);
    assert_true(ref_same(&req, &reference));
    check_short_ways(in, len, outcome, &req);
}

static void check_line(const char *line, size_t len, const char *expected)
{
    static const char behind[] = "get x\r\n \n";
    char more[GUARD_BYTES_MAX];
    u_u32 prefix;

    check_parse(guard_behind(line, len), (u_u32)len, (u_u32)len, expected);
    check_parse(guard_before(line, len), (u_u32)len, (u_u32)len, expected);
    for (prefix = 0; prefix < len; prefix++)
        check_parse(guard_behind(line, prefix), prefix, 0, "more");
    memcpy(more, line, len);
    memcpy(more + len, behind, sizeof behind - 1);
    check_parse(guard_behind(more, len + sizeof behind - 1), (u_u32)(len + sizeof behind - 1),
                (u_u32)len, expected);
}

/* Each row with both line ends. */
static void check_rows(const struct row *rows, size_t count)
{
    char line[GUARD_BYTES_MAX];
    size_t i;

    for (i = 0; i < count; i++) {
        int len = snprintf(line, sizeof line, "%s\r\n", rows[i].input);
        check_line(line, (size_t)len, rows[i].expected);
        len = snprintf(line, sizeof line, "%s\n", rows[i].input);
        check_line(line, (size_t)len, rows[i].expected);
    }
}

#define CHECK(rows) check_rows(rows, sizeof rows / sizeof rows[0])

static void framing(void **state)
{
    static const struct row rows[] = {
        {"get\ta", "malformed none error=ERROR"},
        {"get a\tb", "get key=a\\09b args=a\\09b"},
        {"get a\rb", "get key=a\\0db args=a\\0db"},
        {"get \x01\x7f\xff", "get key=\\01\\7f\\ff args=\\01\\7f\\ff"},
        {" get a", "malformed none error=ERROR"},
        {" flush_all", "malformed none error=ERROR"},
        {" get a noreply", "malformed none noreply"},
        {"GET a", "malformed none error=ERROR"},
        {"Get a", "malformed none error=ERROR"},
        {"get  a", "get key=a args=a"},
        {"get a ", "get key=a args=a "},
        {"get    a   b  ", "get key=a args=a   b  "},
        {"   ", "malformed none error=ERROR"},
        {"abc", "malformed none error=ERROR"},
        {"getx a", "malformed none error=ERROR"},
        {"ge a", "malformed none error=ERROR"},
    };

    CHECK(rows);
    check_line("\r\n", 2, "malformed none " BAD_FORMAT);
    check_line("\n", 1, "malformed none " BAD_FORMAT);
    check_line("a\r\n", 3, "malformed none " BAD_FORMAT);
    check_line("ab\n", 3, "malformed none " BAD_FORMAT);
    check_line("mn\n", 3, "malformed none " BAD_FORMAT);
    check_line("  \n", 3, "malformed none " BAD_FORMAT);
    check_line("mn\r\n", 4, "mn");
    check_line("abc\n", 4, "malformed none error=ERROR");
    check_line("get\n", 4, "malformed get " BAD_FORMAT);
    check_line("get a\r\r\n", 8, "get key=a\\0d args=a\\0d");
    check_line("get a\0b\r\n", 9, "get key=a\\00b args=a\\00b");
    check_line("g\0t a\r\n", 7, "malformed none error=ERROR");
}

static void unknown_commands(void **state)
{
    static const struct row rows[] = {
        {"foo noreply", "malformed none noreply"},
        {"foo bar noreply", "malformed none noreply"},
        {"foo noreply ", "malformed none noreply"},
        {"noreply", "malformed none noreply"},
        {"foo noreply bar", "malformed none error=ERROR"},
        {"foo NOREPLY", "malformed none error=ERROR"},
        {"foo noreplyx", "malformed none error=ERROR"},
        {"GET / HTTP/1.1", "malformed none close"},
        {"POST /x HTTP/1.0", "malformed none close"},
        {"foo HTTP/", "malformed none close"},
        {" foo HTTP/", "malformed none close"},
        {"foo HTTP", "malformed none error=ERROR"},
        {"foo http/1.1", "malformed none error=ERROR"},
        {"foo HTTP/1.1 bar", "malformed none error=ERROR"},
        {"HTTP/1.1", "malformed none error=ERROR"},
        {"get / HTTP/1.1", "get key=/ args=/ HTTP/1.1"},
        /* The 23rd token is the last that counts. */
        {"f 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 noreply",
         "malformed none noreply"},
        {"f 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 noreply",
         "malformed none error=ERROR"},
        {"f 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 noreply 24",
         "malformed none noreply"},
        {"f 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 HTTP/1 24",
         "malformed none close"},
    };

    CHECK(rows);
}

static void administrative_words(void **state)
{
    static const struct row rows[] = {
        {"slabs", "slabs"},
        {"slabs automove 1", "slabs args=automove 1"},
        {"slabs  reassign  1   2 ", "slabs args=reassign  1   2"},
        {"lru mode flat noreply", "lru noreply args=mode flat noreply"},
        {"lru_crawler enable noreply", "lru_crawler noreply args=enable noreply"},
        {"lru_crawler noreply enable", "lru_crawler args=noreply enable"},
        {"cache_memlimit 64", "cache_memlimit args=64"},
        {"shutdown graceful", "shutdown args=graceful"},
        {"shutdown noreply", "shutdown noreply args=noreply"},
        {"watch", "watch"},
        {"watch fetchers noreply", "watch args=fetchers noreply"},
        {"refresh_certs", "refresh_certs"},
        {"extstore max_sleep 1", "extstore args=max_sleep 1"},
        {"misbehave", "misbehave"},
        {"debugtime p", "debugtime args=p"},
        {"debugitem lock k", "debugitem args=lock k"},
        {"config get cluster", "config args=get cluster"},
        {"slab automove 1", "malformed none error=ERROR"},
        {"lru_crawler2", "malformed none error=ERROR"},
        {"cache_memlimits 64", "malformed none error=ERROR"},
    };

    CHECK(rows);
}

static void retrieval(void **state)
{
    static const struct row rows[] = {
        {"get a", "get key=a args=a"},
        {"get key_0001", "get key=key_0001 args=key_0001"},
        {"get a b c", "get key=a args=a b c"},
        {"get a a", "get key=a args=a a"},
        {"gets a b", "gets key=a args=a b"},
        {"get noreply", "get key=noreply args=noreply"},
        {"get a noreply", "get key=a args=a noreply"},
        {"get ", "malformed get " BAD_FORMAT},
        {"get    ", "malformed get " BAD_FORMAT},
        {"gets", "malformed gets " BAD_FORMAT},
        {"gets ", "malformed gets " BAD_FORMAT},
        {"get " K250, "get key=" K250 " args=" K250},
        {"get " K251, "malformed get " BAD_FORMAT},
        {"get a " K251, "malformed get " BAD_FORMAT},
        {"get " K251 " a", "malformed get " BAD_FORMAT},
        {"get a " K251 " b noreply", "malformed get " BAD_FORMAT},
        {"gets a " K250, "gets key=a args=a " K250},
        {"gets a " K251, "malformed gets " BAD_FORMAT},
        {"gat 0 k", "gat key=k args=k"},
        {"gat 100 k l", "gat key=k args=k l exptime=100"},
        {"gats -1 k", "gats key=k args=k exptime=-1"},
        {"gat  7  k ", "gat key=k args=k  exptime=7"},
        {"gat -2147483648 k", "gat key=k args=k exptime=-2147483648"},
        {"gat 2147483647 k", "gat key=k args=k exptime=2147483647"},
        {"gat", "malformed gat " BAD_FORMAT},
        {"gat 0", "malformed gat " BAD_FORMAT},
        {"gat x", "malformed gat " BAD_FORMAT},
        {"gat 0 ", "malformed gat " BAD_FORMAT},
        {"gat x k", "malformed gat " BAD_EXPTIME},
        {"gat +5 k", "malformed gat " BAD_EXPTIME},
        {"gat 2147483648 k", "malformed gat " BAD_EXPTIME},
        {"gat x k noreply", "malformed gat " BAD_EXPTIME},
        {"gat x " K251, "malformed gat " BAD_EXPTIME},
        {"gat 0 " K251, "malformed gat " BAD_FORMAT},
        {"gat 0 a " K251, "malformed gat " BAD_FORMAT},
        {"gats 0 " K250, "gats key=" K250 " args=" K250},
        {"gat 0 noreply", "gat key=noreply args=noreply"},
    };

    CHECK(rows);
}

static void storage(void **state)
{
    static const struct row rows[] = {
        {"set k 0 0 3", "set key=k bytes=3"},
        {"set k 5 100 3", "set key=k flags=5 exptime=100 bytes=3"},
        {"add k 1 -1 0", "add key=k flags=1 exptime=-1"},
        {"replace k 1 2 3 noreply", "replace noreply key=k flags=1 exptime=2 bytes=3"},
        {"append k 0 0 1", "append key=k bytes=1"},
        {"prepend k 0 0 1", "prepend key=k bytes=1"},
        {"set  k  1  2  3  noreply  ", "set noreply key=k flags=1 exptime=2 bytes=3"},
        {"set k 1 0 3 foo", "set key=k flags=1 bytes=3"},
        {"set k 1 0 3 foo noreply", "set noreply key=k flags=1 bytes=3"},
        {"set k 1 0 3 noreply foo", "set key=k flags=1 bytes=3"},
        {"set k 1 0 3 NOREPLY", "set key=k flags=1 bytes=3"},
        {"set noreply 1 0 3", "set key=noreply flags=1 bytes=3"},
        {"set " K250 " 0 0 1", "set key=" K250 " bytes=1"},
        /* The first stage: answered in spite of noreply, nothing to skip. */
        {"set", "malformed set " BAD_FORMAT},
        {"set k", "malformed set " BAD_FORMAT},
        {"set k 0 0", "malformed set " BAD_FORMAT},
        {"set k 0 0 noreply", "malformed set " BAD_FORMAT},
        {"set k 0 noreply", "malformed set " BAD_FORMAT},
        {"set k 0 0 -1", "malformed set " BAD_FORMAT},
        {"set k 0 0 -1 noreply", "malformed set " BAD_FORMAT},
        {"set k 0 0 x noreply", "malformed set " BAD_FORMAT},
        {"set k 0 0 +3", "malformed set " BAD_FORMAT},
        {"set k 0 0 3x", "malformed set " BAD_FORMAT},
        {"set k 0 0 2147483645", "set key=k bytes=2147483645"},
        {"set k 0 0 2147483646", "malformed set " BAD_FORMAT},
        {"set k 0 0 2147483647", "malformed set " BAD_FORMAT},
        {"set k 0 0 4294967297", "malformed set " BAD_FORMAT},
        {"set k 0 0 00000000003", "set key=k bytes=3"},
        {"set k 0 0 000000000003", "malformed set " BAD_FORMAT},
        {"set k 0 0 -0", "set key=k"},
        {"set " K251 " 0 0 -1 noreply", "malformed set " BAD_FORMAT},
        /* The second stage: silent with noreply, the data block is skipped. */
        {"set " K251 " 0 0 3", "malformed set " BAD_FORMAT " swallow=5"},
        {"set " K251 " 0 0 3 noreply", "malformed set noreply swallow=5"},
        {"set k x 0 3", "malformed set " BAD_FORMAT " swallow=5"},
        {"set k -1 0 3", "malformed set " BAD_FORMAT " swallow=5"},
        {"set k x 0 3 noreply", "malformed set noreply swallow=5"},
        {"set k 0 x 3", "malformed set " BAD_FORMAT " swallow=5"},
        {"set k 0 x 0", "malformed set " BAD_FORMAT " swallow=2"},
        {"set k 0 x 2147483645", "malformed set " BAD_FORMAT " swallow=2147483647"},
        {"set k noreply 0 3", "malformed set " BAD_FORMAT " swallow=5"},
        /* Loose numbers. */
        {"set k +5 +6 3", "set key=k flags=5 exptime=6 bytes=3"},
        {"set k \t5 \v6 3", "set key=k flags=5 exptime=6 bytes=3"},
        {"set k 5\tx 6\ry 3", "set key=k flags=5 exptime=6 bytes=3"},
        {"set k 4294967295 0 3", "set key=k flags=4294967295 bytes=3"},
        {"set k 4294967296 4294967296 3", "set key=k bytes=3"},
        {"set k 18446744073709551616 0 3", "malformed set " BAD_FORMAT " swallow=5"},
        {"set k 0 99999999999 3", "set key=k exptime=1215752191 bytes=3"},
        {"set k 0 9223372036854775808 3", "malformed set " BAD_FORMAT " swallow=5"},
        {"set k 0 -2147483648 3", "set key=k exptime=-2147483648 bytes=3"},
        /* 23 tokens count. */
        {"set k 1 2 3 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 noreply 24",
         "set noreply key=k flags=1 exptime=2 bytes=3"},
        {"set k 1 2 3 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 noreply",
         "set key=k flags=1 exptime=2 bytes=3"},
    };

    CHECK(rows);
}

static void compare_and_swap(void **state)
{
    static const struct row rows[] = {
        {"cas k 1 2 3 4", "cas key=k flags=1 exptime=2 bytes=3 cas=4"},
        {"cas k 0 0 3 0", "cas key=k bytes=3"},
        {"cas k 0 0 3 18446744073709551615", "cas key=k bytes=3 cas=18446744073709551615"},
        {"cas k 0 0 3 7 noreply", "cas noreply key=k bytes=3 cas=7"},
        {"cas k 0 0 3 7 foo", "cas key=k bytes=3 cas=7"},
        {"cas k 0 0 3", "malformed cas " BAD_FORMAT " swallow=5"},
        {"cas k 0 0 3 noreply", "malformed cas noreply swallow=5"},
        {"cas k 0 0 3 x", "malformed cas " BAD_FORMAT " swallow=5"},
        {"cas k 0 0 3 -1", "malformed cas " BAD_FORMAT " swallow=5"},
        {"cas k 0 0 3 +1", "malformed cas " BAD_FORMAT " swallow=5"},
        {"cas k 0 0 3 18446744073709551616", "malformed cas " BAD_FORMAT " swallow=5"},
        {"cas k 0 0 3 x noreply", "malformed cas noreply swallow=5"},
        {"cas k 0 0", "malformed cas " BAD_FORMAT},
        {"cas k 0 0 x 1", "malformed cas " BAD_FORMAT},
        {"cas " K251 " 0 0 3 1", "malformed cas " BAD_FORMAT " swallow=5"},
    };

    CHECK(rows);
}

static void delete_touch_counters(void **state)
{
    static const struct row rows[] = {
        {"delete k", "delete key=k"},
        {"delete k noreply", "delete noreply key=k"},
        {"delete k 0", "delete key=k"},
        {"delete k 10", "delete key=k"},
        {"delete k 10 noreply", "delete noreply key=k"},
        {"delete k foo bar", "delete key=k"},
        {"delete noreply", "delete noreply key=noreply"},
        {"delete", "malformed delete " BAD_FORMAT},
        {"delete ", "malformed delete " BAD_FORMAT},
        {"delete " K250, "delete key=" K250},
        {"delete " K251, "malformed delete " BAD_FORMAT},
        {"delete " K251 " noreply", "malformed delete noreply"},
        {"touch k 10", "touch key=k exptime=10"},
        {"touch k -1 noreply", "touch noreply key=k exptime=-1"},
        {"touch k 0 foo", "touch key=k"},
        {"touch", "malformed touch " BAD_FORMAT},
        {"touch k", "malformed touch " BAD_FORMAT},
        {"touch noreply", "malformed touch " BAD_FORMAT},
        {"touch k x", "malformed touch " BAD_EXPTIME},
        {"touch k +1", "malformed touch " BAD_EXPTIME},
        {"touch k 2147483648", "malformed touch " BAD_EXPTIME},
        {"touch k noreply", "malformed touch noreply"},
        {"touch k x noreply", "malformed touch noreply"},
        {"touch " K251 " 0", "malformed touch " BAD_FORMAT},
        {"touch " K251 " x", "malformed touch " BAD_FORMAT},
        {"touch " K251 " 0 noreply", "malformed touch noreply"},
        {"incr k 1", "incr key=k delta=1"},
        {"decr k 18446744073709551615", "decr key=k delta=18446744073709551615"},
        {"incr k 0000000000000000000001", "incr key=k delta=1"},
        {"incr k 00000000000000000000001", "malformed incr " BAD_DELTA},
        {"incr k 5 noreply", "incr noreply key=k delta=5"},
        {"incr k 5 foo", "incr key=k delta=5"},
        {"incr", "malformed incr " BAD_FORMAT},
        {"incr k", "malformed incr " BAD_FORMAT},
        {"decr noreply", "malformed decr " BAD_FORMAT},
        {"incr k x", "malformed incr " BAD_DELTA},
        {"incr k -1", "malformed incr " BAD_DELTA},
        {"incr k +1", "malformed incr " BAD_DELTA},
        {"decr k 1x", "malformed decr " BAD_DELTA},
        {"decr k 18446744073709551616", "malformed decr " BAD_DELTA},
        {"incr k noreply", "malformed incr noreply"},
        {"incr k x noreply", "malformed incr noreply"},
        {"incr " K251 " x", "malformed incr " BAD_FORMAT},
        {"incr " K251 " 1 noreply", "malformed incr noreply"},
    };

    CHECK(rows);
}

static void administration(void **state)
{
    static const struct row rows[] = {
        {"version", "version"},
        {"version foo", "version"},
        {"version noreply", "version"},
        {"quit", "quit"},
        {"quit foo noreply", "quit"},
        {"verbosity 1", "verbosity level=1"},
        {"verbosity 4294967295", "verbosity level=4294967295"},
        {"verbosity 0 foo", "verbosity"},
        {"verbosity 1 noreply", "verbosity noreply level=1"},
        {"verbosity", "malformed verbosity " BAD_FORMAT},
        {"verbosity x", "malformed verbosity " BAD_FORMAT},
        {"verbosity -1", "malformed verbosity " BAD_FORMAT},
        {"verbosity 4294967296", "malformed verbosity " BAD_FORMAT},
        {"verbosity noreply", "malformed verbosity noreply"},
        {"verbosity x noreply", "malformed verbosity noreply"},
        {"flush_all", "flush_all"},
        {"flush_all 0", "flush_all"},
        {"flush_all -1", "flush_all exptime=-1"},
        {"flush_all 10", "flush_all exptime=10"},
        {"flush_all 10 foo", "flush_all exptime=10"},
        {"flush_all noreply", "flush_all noreply"},
        {"flush_all 10 noreply", "flush_all noreply exptime=10"},
        {"flush_all x", "malformed flush_all " BAD_EXPTIME},
        {"flush_all +1", "malformed flush_all " BAD_EXPTIME},
        {"flush_all x noreply", "malformed flush_all noreply"},
        {"flush_all noreply noreply", "malformed flush_all noreply"},
        {"flush_all noreply 1", "malformed flush_all " BAD_EXPTIME},
        {"flush_al", "malformed none error=ERROR"},
        {"flush_all_", "malformed none error=ERROR"},
        {"stats", "stats"},
        {"stats  ", "stats"},
        {"stats settings", "stats args=settings"},
        {"stats   cachedump  1 2  ", "stats args=cachedump  1 2"},
        {"stats noreply", "stats args=noreply"},
    };

    CHECK(rows);
}

/* `head`, then so many `fill` that there are `len` bytes, then `tail`. */
static void check_long(const char *head, char fill, u_u32 len, const char *tail, u_u32 line_bytes,
                       enum mc_outcome expected)
{
    u_u32 head_len = (u_u32)strlen(head);
    u_u32 tail_len = (u_u32)strlen(tail);
    u_u8 *in = malloc(len); /* a sanitizer sees a read behind it */
    struct mc_request req;
    struct mc_request reference;

    assert_non_null(in);
    memcpy(in, head, head_len);
    memset(in + head_len, fill, len - head_len - tail_len);
    memcpy(in + len - tail_len, tail, tail_len);
    assert_int_equal(mc_parse(in, len, &req), expected);
    assert_int_equal(req.line_bytes, line_bytes);
    assert_int_equal(ref_parse(in, len, &reference), expected);
    assert_true(ref_same(&req, &reference));
    free(in);
}

static void long_lines(void **state)
{
    u_u32 keys_max = MC_KEYS_LINE_MAX;

    check_long("set ", 'x', MC_LINE_MAX, "", 0, MC_MORE);
    check_long("set ", 'x', MC_LINE_MAX + 1, "", MC_LINE_MAX + 1, MC_MALFORMED);
    check_long("gat 0 ", 'x', MC_LINE_MAX + 1, "", 0, MC_MORE);
    check_long("gats 0 ", 'x', keys_max + 1, "", keys_max + 1, MC_MALFORMED);
    check_long("get ", 'x', MC_LINE_MAX + 1, "", 0, MC_MORE);
    check_long("gets ", ' ', 100000, "", 0, MC_MORE);
    check_long("get ", ' ', keys_max, "", 0, MC_MORE);
    check_long("get ", ' ', keys_max + 1, "", keys_max + 1, MC_MALFORMED);
    /* With the end in sight, the length does not matter. */
    check_long("get ", ' ', keys_max + 9, "k\r\n", keys_max + 9, MC_REQUEST);
    check_long("set k 0 0 ", ' ', 4000, "3\r\n", 4000, MC_REQUEST);
    check_long("delete ", 'k', 4000, "\r\n", 4000, MC_MALFORMED);
    check_long("xyz", ' ', 4000, "\n", 4000, MC_MALFORMED);
}

static void too_long_closes_silently(void **state)
{
    static u_u8 in[MC_LINE_MAX + 1];
    struct mc_request req;

    memset(in, ' ', sizeof in);
    assert_int_equal(mc_parse(in, sizeof in, &req), MC_MALFORMED);
    assert_int_equal(req.close, 1);
    assert_null(req.error);
    assert_int_equal(req.error_len, 0);
}

static void keys_are_walked(void **state)
{
    static const char *const keys[] = {"a", "bb", K250, "a", "noreply"};
    const char line[] = "gats 0  a bb   " K250 " a noreply \r\n";
    const u_u8 *in = guard_behind(line, sizeof line - 1);
    struct mc_request req;
    const u_u8 *at;
    const u_u8 *end;
    const u_u8 *key;
    u_u32 key_len;
    int i;

    assert_int_equal(mc_parse(in, sizeof line - 1, &req), MC_REQUEST);
    at = req.args;
    end = req.args + req.args_len;
    for (i = 0; i < 5; i++) {
        assert_int_equal(mc_token_next(&at, end, &key, &key_len), 1);
        assert_int_equal(key_len, strlen(keys[i]));
        assert_memory_equal(key, keys[i], key_len);
    }
    assert_int_equal(mc_token_next(&at, end, &key, &key_len), 0);
    assert_ptr_equal(at, end);
    assert_int_equal(mc_token_next(&at, end, &key, &key_len), 0);
}

/* More keys than tokens are kept of other commands. */
static void many_keys(void **state)
{
    char line[4096] = "get";
    size_t len = strlen(line);
    struct mc_request req;
    const u_u8 *at;
    const u_u8 *key;
    u_u32 key_len;
    int i;

    for (i = 0; i < 500; i++)
        len += (size_t)snprintf(line + len, sizeof line - len, " k%03d", i);
    line[len++] = '\n';
    assert_int_equal(mc_parse((u_u8 *)line, (u_u32)len, &req), MC_REQUEST);
    at = req.args;
    for (i = 0; mc_token_next(&at, req.args + req.args_len, &key, &key_len); i++)
        assert_int_equal(key_len, 4);
    assert_int_equal(i, 500);
}

/* A get of one key, and all that is almost one: how much of it the short way takes. */
static void get_of_one_key(void **state)
{
    static const struct {
        const char *input;
        u_u32 line_bytes;
        u_u32 key_len;
    } rows[] = {
        {"get k\r\n", 7, 1},
        {"get k\n", 6, 1},
        {"get " K250 "\r\n", 256, 250},
        {"get " K250 "\n", 255, 250},
        {"get k\r\nget l\r\n", 7, 1},
        {"get k\n\r\n", 6, 1},
        {"get " K250 "\r\nget", 256, 250},
        {"get " K251 "\r\n", 0, 0},
        {"get " K251 "\n", 0, 0},
        {"get " K251 K250 "\n", 0, 0},
        {"get key_0042\n", 13, 8},
        {"get key_0042key_0042\r\n", 22, 16},
        {"get key_0042key_00421\r\n", 23, 17},
        {"get key_0042 key_004\r\n", 0, 0},
        {"get key_0042key_004\r\r\n", 0, 0},
        {"get key_0042key_004\t\r\n", 0, 0},
        {"set key_0042key_0042\r\n", 0, 0},
        {"get k l\r\n", 0, 0},
        {"get k \r\n", 0, 0},
        {"get  k\r\n", 0, 0},
        {" get k\r\n", 0, 0},
        {"get \r\n", 0, 0},
        {"get\r\n", 0, 0},
        {"get \n", 0, 0},
        {"get k\r", 0, 0},
        {"get k\rl\r\n", 0, 0},
        {"get k\r\r\n", 0, 0},
        {"get k\tl\r\n", 0, 0},
        {"get k\x01\r\n", 0, 0},
        {"gets k\r\n", 0, 0},
        {"GET k\r\n", 0, 0},
        {"ge", 0, 0},
        {"", 0, 0},
    };
    size_t i;

    for (i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        u_u32 len = (u_u32)strlen(rows[i].input);
        u_u32 key_len = 0;

        assert_int_equal(mc_parse_get(guard_behind(rows[i].input, len), len, &key_len),
                         rows[i].line_bytes);
        if (rows[i].line_bytes > 0)
            assert_int_equal(key_len, rows[i].key_len);
        for (len = 0; len < rows[i].line_bytes; len++)
            assert_int_equal(mc_parse_get(guard_behind(rows[i].input, len), len, &key_len), 0);
    }
}

/* What the short way takes and what it leaves to the general one. */
static void plain_set(void **state)
{
    static const struct {
        const char *input;
        u_u32 line_bytes;
        struct mc_set set;
    } rows[] = {
        {"set k 0 0 8\r\n", 13, {1, 0, 0, 8}},
        {"set k 0 0 8\r\n12345678\r\n", 13, {1, 0, 0, 8}},
        {"set k 0 0 8\n12345678\r\n", 12, {1, 0, 0, 8}},
        {"set k 0 0 0\r\n\r\n", 13, {1, 0, 0, 0}},
        {"set key_0000 12345 3600 100\r\n", 29, {8, 12345, 3600, 100}},
        {"set key_00000 999999999 999999999 8\n", 36, {9, 999999999, 999999999, 8}},
        {"set k 00 000 010\r\n", 18, {1, 0, 0, 10}},
        {"set " K250 " 0 0 8\r\n", 262, {250, 0, 0, 8}},
        {"set " K251 " 0 0 8\r\n", 0, {0}},
        {"set k 0 0 8", 0, {0}},
        {"set k 0 0 8\r", 0, {0}},
        {"set k 0 0 8 \r\n", 0, {0}},
        {"set k 0 0 8 noreply\r\n", 0, {0}},
        {"set k 0 0 8x\r\n", 0, {0}},
        {"set k 0 0 \r\n", 0, {0}},
        {"set k 0 0\r\n", 0, {0}},
        {"set k 0  0 8\r\n", 0, {0}},
        {"set  k 0 0 8\r\n", 0, {0}},
        {"set k  0 0 8\r\n", 0, {0}},
        {"set k 0 -1 8\r\n", 0, {0}},
        {"set k 0 +1 8\r\n", 0, {0}},
        {"set k 0 0 -1\r\n", 0, {0}},
        {"set k 1234567890 0 8\r\n", 0, {0}},
        {"set k 0 1234567890 8\r\n", 0, {0}},
        {"set k 0 0 1234567890\r\n", 0, {0}},
        {"set k 0 0 8\r\r\n", 0, {0}},
        {"set k\t0 0 8\r\n", 0, {0}},
        {"set \x01k 0 0 8\r\n", 0, {0}},
        {"sets k 0 0 8\r\n", 0, {0}},
        {"SET k 0 0 8\r\n", 0, {0}},
        {"set\r\n", 0, {0}},
        {"set ", 0, {0}},
        {"", 0, {0}},
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        u_u32 len = (u_u32)strlen(rows[i].input);
        struct mc_set set;

        assert_int_equal(mc_parse_set(guard_behind(rows[i].input, len), len, &set),
                         rows[i].line_bytes);
        if (rows[i].line_bytes > 0)
            assert_memory_equal(&set, &rows[i].set, sizeof set);
        for (len = 0; len < rows[i].line_bytes; len++)
            assert_int_equal(mc_parse_set(guard_behind(rows[i].input, len), len, &set), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(framing),
        cmocka_unit_test(unknown_commands),
        cmocka_unit_test(administrative_words),
        cmocka_unit_test(retrieval),
        cmocka_unit_test(get_of_one_key),
        cmocka_unit_test(plain_set),
        cmocka_unit_test(storage),
        cmocka_unit_test(compare_and_swap),
        cmocka_unit_test(delete_touch_counters),
        cmocka_unit_test(administration),
        cmocka_unit_test(long_lines),
        cmocka_unit_test(too_long_closes_silently),
        cmocka_unit_test(keys_are_walked),
        cmocka_unit_test(many_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
