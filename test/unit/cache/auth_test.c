/* SPDX-License-Identifier: BSD-3-Clause */
/* Authentication and access lists: the file, and what a session may do before and after. */
#include "rig.h"

#include <stdio.h>
#include <unistd.h>

#include "cache/acl.h"
#include "cache/cache_worker.h"
#include "cache/session.h"

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
    static char junk[MC_LINE_MAX];
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
    assert_int_equal(cache_session_state(rig.session), CACHE_SESSION_OPEN);
    rig_feed_sliced(&rig, junk, 1, 0);
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

/* A client that has begun to authenticate has sent a command, as `stats conns` shows. */
static void test_time_of_the_line(void **state)
{
    struct cache_peer peer = {.transport = "tcp"};
    struct cache_session *other;
    char name[64];
    struct rig rig;

    (void)state;
    open_with(&rig, "foo:bar\n");
    other = cache_session_open(rig.worker, &peer);
    assert_non_null(other);
    rig_wait(&rig, 5);
    cache_session_input(other, (const uint8_t *)"set a 0 0 7\r\n", 13, &rig.out.sink);
    rig_expect(&rig, "set a 0 0 7\r\nfoo bar\r\n", "STORED\r\n");
    snprintf(name, sizeof(name), "%u:secs_since_last_cmd", other->id);
    assert_int_equal(rig_stat(&rig, "conns", name), 0);
    cache_session_close(other);
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

static void load_rules(struct rig *rig, const char *text, int result)
{
    char error[CACHE_ERROR_MAX];

    file_write(text);
    assert_int_equal(cache_acl_load(rig->cache, error), result);
    rig_wait(rig, 1);
}

/* A get that tells clients to fetch an item anew changes it: it needs both rights. */
static void test_which_rights_a_meta_get_needs(void **state)
{
    static const char *const flags[] = {"N30", "R30", "T30"};
    struct cache_config config = rig_config();
    char line[32];
    struct rig rig;

    (void)state;
    config.settings.acl_file = path;
    rig_open(&rig, &config);
    load_rules(&rig, "* a read,write\n* r read\n", 0);
    rig_expect(&rig, "mg r v\r\nmg r t f c s\r\n", "EN\r\nEN\r\n");
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        snprintf(line, sizeof(line), "mg r %s\r\n", flags[i]);
        rig_expect(&rig, line, DENIED);
    }
    rig_expect(&rig, "mg a R30\r\n", "EN\r\n");
    load_rules(&rig, "* a admin\n", -1);
    load_rules(&rig, "* * admin\n", 0);
    rig_close(&rig);
}

/* A prefix may be as long as a key, which it then names. */
static void test_longest_prefix(void **state)
{
    struct cache_config config = rig_config();
    char text[KV_KEY_MAX + 64];
    struct rig rig;

    (void)state;
    config.settings.acl_file = path;
    rig_open(&rig, &config);
    snprintf(text, sizeof(text), "* %0*d read\n", KV_KEY_MAX + 1, 0);
    load_rules(&rig, text, -1);
    snprintf(text, sizeof(text), "* %0*d read\n", KV_KEY_MAX, 0);
    load_rules(&rig, text, 0);
    snprintf(text, sizeof(text), "get %0*d\r\n", KV_KEY_MAX, 0);
    rig_expect(&rig, text, "END\r\n");
    snprintf(text, sizeof(text), "get %0*d\r\n", KV_KEY_MAX - 1, 0);
    rig_expect(&rig, text, DENIED);
    rig_close(&rig);
}

static void open_with_rules(struct rig *rig, const char *text)
{
    struct cache_config config = rig_config();

    config.settings.acl_file = path;
    rig_open(rig, &config);
    load_rules(rig, text, 0);
}

/* A session that has used its rights has those of the latest file, and of its latest user. */
static void test_rights_change(void **state)
{
    struct rig rig;

    (void)state;
    open_with_rules(&rig, "* a read\n");
    rig_expect(&rig, "get a\r\nget b\r\n", "END\r\n" DENIED);
    load_rules(&rig, "user:foo c read\n* b read\n", 0);
    rig_expect(&rig, "get a\r\nget b\r\nget c\r\n", DENIED "END\r\n" DENIED);
    cache_acl_set_user(rig.session, (const uint8_t *)"foo", 3);
    rig_expect(&rig, "get b\r\nget c\r\n", "END\r\nEND\r\n");
    cache_acl_set_user(rig.session, NULL, 0);
    rig_expect(&rig, "get b\r\nget c\r\n", "END\r\n" DENIED);
    rig_close(&rig);
}

/* Beyond CACHE_ACL_NAMES_MAX bytes of names a certificate's further ones give no rights. */
static void test_many_names(void **state)
{
    char name[CACHE_ACL_IDENTITY_MAX - 4];
    struct rig rig;

    (void)state;
    open_with_rules(&rig, "cert:last * read\n");
    for (unsigned i = 0; i <= CACHE_ACL_NAMES_MAX / sizeof(name); i++) {
        snprintf(name, sizeof(name), "%0*u", (int)sizeof(name) - 1, i);
        cache_session_add_cert_name(rig.session, name, sizeof(name) - 1);
    }
    for (unsigned i = 0; i < 50; i++)
        cache_session_add_cert_name(rig.session, "other", 5);
    cache_session_add_cert_name(rig.session, "last", 4);
    rig_expect(&rig, "get a\r\n", DENIED);
    reopen(&rig);
    cache_session_add_cert_name(rig.session, "last", 4);
    rig_expect(&rig, "get a\r\n", "END\r\n");
    rig_close(&rig);
}

/* The cache and its worker refer to the list, however often the worker looks for a newer one. */
static void test_references_to_the_list(void **state)
{
    struct rig rig;

    (void)state;
    open_with_rules(&rig, "* * read,admin\n");
    rig_expect(&rig, "stats detail on\r\nstats detail off\r\n", "OK\r\nOK\r\n");
    assert_int_equal(rig.cache->acl->references, 2);
    rig_close(&rig);
}

/* A session with an identity does not move to another process: its rights would not. */
static void test_an_identity_does_not_move(void **state)
{
    struct cache_config config = rig_config();
    struct cache_session_saved saved;
    struct rig rig;

    (void)state;
    config.settings.auth_file = path;
    config.settings.acl_file = path;
    rig_open(&rig, &config);
    load(&rig, "foo:bar\n", 0);
    load_rules(&rig, "user:foo * read\n", 0);
    assert_int_equal(cache_session_rest(rig.session, &saved), CACHE_REST_MOVES);
    rig_expect(&rig, "set a 0 0 7\r\nfoo bar\r\nget a\r\n", "STORED\r\nEND\r\n");
    assert_int_equal(cache_session_rest(rig.session, &saved), CACHE_REST_ENDS);
    rig_close(&rig);
}

/* A token may have CACHE_AUTH_TOKEN_MAX bytes, and no more. */
static void test_longest_token(void **state)
{
    static char request[CACHE_AUTH_TOKEN_MAX + 64];
    struct rig rig;

    (void)state;
    open_with(&rig, "foo:bar\n");
    snprintf(request, sizeof(request), "set a 0 0 %d\r\nfoo %0*d\r\n", CACHE_AUTH_TOKEN_MAX,
             CACHE_AUTH_TOKEN_MAX - 4, 0);
    rig_expect(&rig, request, FAILURE);
    snprintf(request, sizeof(request), "set a 0 0 %d\r\n", CACHE_AUTH_TOKEN_MAX + 1);
    rig_expect(&rig, request, "CLIENT_ERROR auth token too long\r\n");
    rig_close(&rig);
}

/* The status of a SASL PLAIN message. */
static unsigned plain_status_again(struct rig *rig, const char *name, const char *password)
{
    uint8_t packet[600] = {0x80, 0x21, 0, 5};
    size_t name_len = strlen(name), password_len = strlen(password);
    size_t body = 5 + 1 + name_len + 1 + password_len;

    packet[10] = (uint8_t)(body >> 8);
    packet[11] = (uint8_t)body;
    memcpy(packet + 24, "PLAIN", 6);
    memcpy(packet + 30, name, name_len + 1);
    memcpy(packet + 30 + name_len + 1, password, password_len);
    rig_forget(&rig->out);
    rig_feed_sliced(rig, packet, 24 + body, 0);
    rig_drain(&rig->out);
    assert_true(rig->out.taken_len >= 24);
    return (unsigned)rig->out.taken[6] << 8 | rig->out.taken[7];
}

/* The same on a new connection. */
static unsigned plain_status(struct rig *rig, const char *name, const char *password)
{
    reopen(rig);
    return plain_status_again(rig, name, password);
}

enum { SASL_OK = 0, SASL_DENIED = 0x20 };

static const uint8_t list_request[24] = {0x80, 0x20};
static const uint8_t noop_request[24] = {0x80, 0x0a};

static void open_with_sasl(struct rig *rig, const char *text)
{
    struct cache_config config = rig_config();

    config.settings.sasl = true;
    config.settings.sasl_file = path;
    rig_open(rig, &config);
    load(rig, text, 0);
}

/* The mechanisms are listed for all clients; text, which cannot authenticate, ends a session. */
static void test_before_sasl(void **state)
{
    struct rig rig;

    (void)state;
    open_with_sasl(&rig, "foo:bar\n");
    rig_feed_sliced(&rig, list_request, sizeof(list_request), 0);
    rig_drain(&rig.out);
    assert_int_equal(rig.out.taken_len, 24 + 5);
    assert_memory_equal(rig.out.taken + 24, "PLAIN", 5);
    reopen(&rig);
    rig_forget(&rig.out);
    rig_feed(&rig, "version\r\n");
    assert_int_equal(rig.out.taken_len, 0);
    assert_int_equal(cache_session_state(rig.session), CACHE_SESSION_CLOSING);
    rig_close(&rig);
}

/* As with Cyrus SASL, after a success a message fails, and the next one succeeds again. */
static void test_sasl_again(void **state)
{
    struct cache_session_saved saved;
    struct rig rig;

    (void)state;
    open_with_sasl(&rig, "foo:bar\n");
    assert_int_equal(plain_status(&rig, "foo", "bar"), SASL_OK);
    assert_int_equal(cache_session_rest(rig.session, &saved), CACHE_REST_ENDS);
    assert_int_equal(plain_status_again(&rig, "foo", "bar"), SASL_DENIED);
    assert_int_equal(plain_status_again(&rig, "foo", "bar"), SASL_OK);
    assert_int_equal(plain_status_again(&rig, "foo", "baz"), SASL_DENIED);
    assert_int_equal(plain_status_again(&rig, "foo", "baz"), SASL_DENIED);
    assert_int_equal(plain_status_again(&rig, "foo", "bar"), SASL_OK);
    rig_feed_sliced(&rig, list_request, sizeof(list_request), 0); /* begins anew */
    rig_forget(&rig.out);
    rig_feed_sliced(&rig, noop_request, sizeof(noop_request), 0);
    rig_drain(&rig.out);
    assert_int_equal(rig.out.taken[7], SASL_DENIED);
    rig_close(&rig);
}

/*
 * As in memcached: what follows a second colon is no part of the password, and name and password
 * have at most 252 bytes together.
 */
static void test_lines_of_sasl(void **state)
{
    enum { PASSWORD = 252 - 3 };
    char text[2 * PASSWORD + 32];
    char password[PASSWORD + 2];
    struct rig rig;

    (void)state;
    open_with_sasl(&rig, "foo:bar:\nfox:bar:more\n");
    assert_int_equal(plain_status(&rig, "foo", "bar"), SASL_OK);
    assert_int_equal(plain_status(&rig, "foo", "bar:"), SASL_OK);
    assert_int_equal(plain_status(&rig, "fox", "bar"), SASL_OK);
    assert_int_equal(plain_status(&rig, "fox", "bar:"), SASL_DENIED);
    assert_int_equal(plain_status(&rig, "fox", "ba"), SASL_DENIED);
    snprintf(text, sizeof(text), "u@h:%0*d\n", PASSWORD, 0);
    load(&rig, text, 0);
    snprintf(password, sizeof(password), "%0*d", PASSWORD, 0);
    assert_int_equal(plain_status(&rig, "u@h", password), SASL_OK);
    snprintf(text, sizeof(text), "u@h:%0*d\n", PASSWORD + 1, 0);
    load(&rig, text, 0);
    snprintf(password, sizeof(password), "%0*d", PASSWORD + 1, 0);
    assert_int_equal(plain_status(&rig, "u@h", password), SASL_DENIED);
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
        cmocka_unit_test(test_time_of_the_line),
        cmocka_unit_test(test_every_cut_of_sasl),
        cmocka_unit_test(test_refused_by_an_access_list),
        cmocka_unit_test(test_which_rights_a_meta_get_needs),
        cmocka_unit_test(test_longest_prefix),
        cmocka_unit_test(test_rights_change),
        cmocka_unit_test(test_many_names),
        cmocka_unit_test(test_references_to_the_list),
        cmocka_unit_test(test_longest_token),
        cmocka_unit_test(test_an_identity_does_not_move),
        cmocka_unit_test(test_before_sasl),
        cmocka_unit_test(test_sasl_again),
        cmocka_unit_test(test_lines_of_sasl),
        cmocka_unit_test(test_the_file),
    };
    int fd = mkstemp(path);

    if (fd < 0)
        return 1;
    close(fd);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
