/* SPDX-License-Identifier: BSD-3-Clause */
/* Authentication and access lists: the file, and what a session may do before and after. */
#include "rig.h"

#include <stdio.h>
#include <unistd.h>

#include "cache/cache_worker.h"

#define UNAUTHENTICATED "CLIENT_ERROR unauthenticated\r\n"
#define FAILURE "CLIENT_ERROR authentication failure\r\n"
#define DENIED "CLIENT_ERROR access denied\r\n"

static char path[] = "/tmp/ucached_auth_XXXXXX";

static void file_write(const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void load(struct rig *rig, const char *text, int result)
{
    const char *error = NULL;

    file_write(text);
    assert_int_equal(cache_auth_load(rig->cache, &error), result);
    assert_int_equal(error == NULL, result == 0);
}

static void open_with(struct rig *rig, const char *text)
{
    struct cache_config config = rig_config();

    config.settings.auth_file = path;
    rig_open(rig, &config);
    load(rig, text, 0);
}

static void reopen(struct rig *rig)
{
    struct cache_peer peer = {.transport = "tcp"};

    cache_session_close(rig->session);
    rig->session = cache_session_open(rig->worker, &peer);
    assert_non_null(rig->session);
}

static void test_before_and_after(void **state)
{
    struct rig rig;

    (void)state;
    open_with(&rig, "foo:bar\nuser:pass word:x\r\n");
    rig_expect(&rig, "get foo\r\nversion\r\n", UNAUTHENTICATED UNAUTHENTICATED);
    rig_expect(&rig, "set a 0 0\r\nset a 0 0 x\r\nget a 0 0 7\r\n",
               UNAUTHENTICATED UNAUTHENTICATED UNAUTHENTICATED);
    rig_expect(&rig, "set a 0 0 7\r\nfoo baz\r\n", FAILURE);
    rig_expect(&rig, "set a 0 0 6\r\nfoobar\r\n",
               "CLIENT_ERROR bad authentication token format\r\n");
    rig_expect(&rig, "set a 0 0 7\r\nfoo barxx", "CLIENT_ERROR bad command line termination\r\n");
    rig_expect(&rig, "set a 0 0 16385\r\n", "CLIENT_ERROR auth token too long\r\n");
    rig_expect(&rig, "set a 0 0 0\r\n\r\n", "CLIENT_ERROR bad authentication token format\r\n");
    rig_expect(&rig, "set a 0 0 7 noreply\r\nfoo bar\r\nget a\r\n", "STORED\r\nEND\r\n");
    assert_int_equal(rig_stat(&rig, NULL, "auth_cmds"), 2);
    assert_int_equal(rig_stat(&rig, NULL, "auth_errors"), 1);
    reopen(&rig);
    rig_expect(&rig, "set a 0 0 16\r\nuser pass word:x\r\nversion\r\n",
               "STORED\r\nVERSION 1.6.45\r\n");
    rig_close(&rig);
}

static void test_what_closes(void **state)
{
    static const char *const short_lines[] = {"quit\r\n", "mn\r\n", "\n", "abcde\n"};
    static char junk[2049];
    struct rig rig;

    (void)state;
    open_with(&rig, "foo:bar\n");
    for (size_t i = 0; i < sizeof(short_lines) / sizeof(short_lines[0]); i++) {
        rig_expect(&rig, short_lines[i], "");
        assert_int_equal(cache_session_state(rig.session), CACHE_SESSION_CLOSING);
        reopen(&rig);
    }
    rig_expect(&rig, "\x80\n234567\r\n", "");
    reopen(&rig);
    memset(junk, 'x', sizeof(junk));
    rig_feed_sliced(&rig, junk, sizeof(junk), 100);
    assert_int_equal(cache_session_state(rig.session), CACHE_SESSION_CLOSING);
    assert_string_equal(rig_reply(&rig), "");
    rig_close(&rig);
}

static void test_every_cut(void **state)
{
    static const char talk[] = "get foo\r\nset a 0 0 7\r\nfoo bay\r\nset a 0 0 7\r\nfoo bar\r\n"
                               "set a 0 0 1\r\nx\r\nget a\r\n";
    struct rig rig;

    (void)state;
    open_with(&rig, "foo:bar\n");
    for (size_t slice = 1; slice < sizeof(talk); slice++) {
        rig_forget(&rig.out);
        rig_feed_sliced(&rig, talk, sizeof(talk) - 1, slice);
        assert_string_equal(rig_reply(&rig), UNAUTHENTICATED FAILURE
                            "STORED\r\nSTORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
        reopen(&rig);
    }
    rig_close(&rig);
}

/* -S: a command that authenticates may be cut anywhere, also within its header. */
static void test_every_cut_of_sasl(void **state)
{
    static const uint8_t auth[] = "\x80\x21\0\5\0\0\0\0\0\0\0\15\0\0\0\0\0\0\0\0\0\0\0\0"
                                  "PLAIN\0foo\0bar";
    static const uint8_t noop[24] = {0x80, 0x0a};
    struct cache_config config = rig_config();
    uint8_t talk[sizeof(auth) - 1 + sizeof(noop)];
    struct rig rig;

    (void)state;
    config.settings.sasl = true;
    config.settings.sasl_file = path;
    rig_open(&rig, &config);
    load(&rig, "foo:bar\n", 0);
    memcpy(talk, auth, sizeof(auth) - 1);
    memcpy(talk + sizeof(auth) - 1, noop, sizeof(noop));
    for (size_t slice = 1; slice <= sizeof(talk); slice++) {
        rig_forget(&rig.out);
        assert_int_equal(rig_feed_sliced(&rig, talk, sizeof(talk), slice), sizeof(talk));
        rig_drain(&rig.out);
        assert_int_equal(rig.out.taken_len, 24 + strlen("Authenticated") + 24);
        assert_int_equal(rig.out.taken[7], 0);
        assert_memory_equal(rig.out.taken + 24, "Authenticated\x81\x0a", 15);
        reopen(&rig);
    }
    rig_close(&rig);
}

/* A refused request gets an error as the others do: none with noreply. Its value is skipped. */
static void test_refused_by_an_access_list(void **state)
{
    struct cache_config config = rig_config();
    char error[CACHE_ERROR_MAX];
    struct rig rig;

    (void)state;
    config.settings.acl_file = path;
    file_write("* app: read,write\n");
    rig_open(&rig, &config);
    assert_int_equal(cache_acl_load(rig.cache, error), 0);
    rig_wait(&rig, 1);
    rig_expect(&rig, "set app:a 0 0 1\r\nx\r\nset a 0 0 1\r\nx\r\nget a\r\ndelete a\r\n",
               "STORED\r\n" DENIED DENIED DENIED);
    rig_expect(&rig, "set a 0 0 1 noreply\r\nx\r\nms a 1 q\r\nx\r\ndelete a noreply\r\n", DENIED);
    rig_expect(&rig, "get app:a\r\n", "VALUE app:a 0 1\r\nx\r\nEND\r\n");
    assert_int_equal(rig_stat(&rig, NULL, "acl_refusals"), 6);
    rig_close(&rig);
}

static void test_the_file(void **state)
{
    static char many[3 * (CACHE_AUTH_USERS_MAX + 1) + 1];
    char line[300];
    struct rig rig;

    (void)state;
    open_with(&rig, "a:1\nb:2\nc:3\nd:4\ne:5\nf:6\ng:7\nh:8\ni:9\n");
    rig_expect(&rig, "set a 0 0 3\r\ni 8\r\nset a 0 0 3\r\ni 9\r\n", FAILURE "STORED\r\n");
    reopen(&rig);
    load(&rig, "no colon\n", -1);
    rig_expect(&rig, "set a 0 0 3\r\nh 8\r\n", "STORED\r\n");
    reopen(&rig);
    load(&rig, "h:9", 0);
    rig_expect(&rig, "set a 0 0 3\r\nh 8\r\nset a 0 0 3\r\nh 9\r\n", FAILURE "STORED\r\n");
    memset(line, 'p', sizeof(line));
    memcpy(line, "u:", 2);
    line[255] = '\0';
    load(&rig, line, 0);
    line[255] = 'p';
    line[256] = '\0';
    load(&rig, line, -1);
    for (unsigned i = 0; i <= CACHE_AUTH_USERS_MAX; i++)
        memcpy(many + 3 * i, "u:\n", 3);
    load(&rig, many, -1);
    many[3 * CACHE_AUTH_USERS_MAX] = '\0';
    load(&rig, many, 0);
    unlink(path);
    assert_int_equal(cache_auth_load(rig.cache, &(const char *){NULL}), -1);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_before_and_after),
        cmocka_unit_test(test_what_closes),
        cmocka_unit_test(test_every_cut),
        cmocka_unit_test(test_every_cut_of_sasl),
        cmocka_unit_test(test_refused_by_an_access_list),
        cmocka_unit_test(test_the_file),
    };
    int fd = mkstemp(path);

    if (fd < 0)
        return 1;
    close(fd);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
