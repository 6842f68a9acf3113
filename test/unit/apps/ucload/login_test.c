/* SPDX-License-Identifier: BSD-3-Clause */
/* The login of a connection: its request, and replies in pieces and of hostile servers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "client.h"

static char path[] = "/tmp/ucload_login_XXXXXX";
static struct plan plan;
static struct client client;
static struct conn conn;
static uint8_t sent[LOGIN_REQUEST_MAX];
static uint32_t sent_len;

static int note(struct client *to, struct conn *on, const uint8_t *data, uint32_t len)
{
    assert_true(to == &client && on == &conn && len <= sizeof(sent));
    memcpy(sent, data, len);
    sent_len = len;
    return 0;
}

static const struct client_ops ops = {.put = note};

static int open_file(const char *line, bool binary, char error[LOGIN_ERROR_MAX])
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fputs(line, file);
    fclose(file);
    return login_open(&plan.login, path, binary, error);
}

/* A connection that has sent its login. */
static void begin(const char *line, bool binary)
{
    char error[LOGIN_ERROR_MAX];

    memset(&plan, 0, sizeof(plan));
    assert_int_equal(open_file(line, binary, error), 0);
    memset(&client, 0, sizeof(client));
    memset(&conn, 0, sizeof(conn));
    client.plan = &plan;
    client.ops = &ops;
    client.phase.kind = PHASE_CONNECT;
    assert_int_equal(client_opened(&client, &conn), 0);
    assert_false(conn.is_open);
}

static void test_text(void **state)
{
    static const char wanted[] = "set auth 0 0 9\r\nuser pa:s\r\n", stored[] = "STORED\r\n";

    (void)state;
    begin("user:pa:s\nother:line\n", false);
    assert_int_equal(sent_len, strlen(wanted));
    assert_memory_equal(sent, wanted, sent_len);
    for (uint32_t cut = 0; cut < strlen(stored); cut++) {
        begin("user:pa:s\n", false);
        assert_int_equal(login_replied(&client, &conn, (const uint8_t *)stored, cut), 0);
        assert_false(conn.is_open);
        assert_int_equal(login_replied(&client, &conn, (const uint8_t *)stored + cut,
                                       (uint32_t)strlen(stored) - cut),
                         0);
        assert_true(conn.is_open);
    }
}

/* RFC 4616, with a body longer than 255 bytes. */
static void test_binary(void **state)
{
    char line[LOGIN_NAME_MAX + 2];
    uint8_t reply[24 + 300] = {0x81, 0x21};

    (void)state;
    memset(line, 'p', sizeof(line));
    memcpy(line, "user:", 5);
    line[305] = '\0';
    begin(line, true);
    assert_int_equal(sent_len, 24 + 5 + 1 + 4 + 1 + 300);
    assert_memory_equal(sent, "\x80\x21\0\5\0\0\0\0\0\0\x01\x37", 12);
    assert_memory_equal(sent + 24, "PLAIN\0user\0ppp", 14);
    reply[10] = 1; /* a text of 300 bytes follows */
    reply[11] = 300 - 256;
    for (uint32_t cut = 0; cut < sizeof(reply); cut += 23) {
        begin(line, true);
        assert_int_equal(login_replied(&client, &conn, reply, cut), 0);
        assert_false(conn.is_open);
        assert_int_equal(login_replied(&client, &conn, reply + cut, sizeof(reply) - cut), 0);
        assert_true(conn.is_open);
        assert_null(conn.unsent); /* the rest of the text is not kept */
        assert_int_equal(conn.unsent_len, 0);
        assert_false(conn.wants_write);
    }
}

static void test_refused(void **state)
{
    static const char *const replies[] = {"CLIENT_ERROR authentication failure\r\n", "X",
                                          "STORED\n\n", "STORED\r\nSTORED\r\n"};
    static const char *const words[] = {"CLIENT_E", ": X", "STORED", "more than a reply"};
    uint8_t reply[24] = {0x81, 0x21};

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        begin("user:password\n", false);
        assert_int_equal(login_replied(&client, &conn, (const uint8_t *)replies[i],
                                       (uint32_t)strlen(replies[i])),
                         -1);
        assert_non_null(strstr(client.error, words[i]));
        assert_false(conn.is_open);
    }
    for (unsigned i = 0; i < 4; i++) { /* another magic, opcode or status */
        static const unsigned at[] = {0, 1, 6, 7};

        begin("user:password\n", true);
        reply[at[i]] ^= 0x20;
        assert_int_equal(login_replied(&client, &conn, reply, sizeof(reply)), -1);
        reply[at[i]] ^= 0x20;
        assert_non_null(strstr(client.error, "an error status"));
    }
}

static void test_files(void **state)
{
    char error[LOGIN_ERROR_MAX], line[LOGIN_NAME_MAX + 3];

    (void)state;
    memset(line, 'x', sizeof(line));
    memcpy(line, "u:", 2);
    line[LOGIN_NAME_MAX] = '\0';
    assert_int_equal(open_file(line, false, error), 0);
    line[LOGIN_NAME_MAX] = 'x';
    line[LOGIN_NAME_MAX + 1] = '\0';
    assert_int_equal(open_file(line, false, error), -1);
    assert_int_equal(open_file("", false, error), -1);
    assert_int_equal(open_file("user\n", false, error), -1);
    assert_int_equal(open_file(":password\n", false, error), -1);
    assert_int_equal(login_open(&plan.login, "/nonexistent", false, error), -1);
    assert_non_null(strstr(error, "No such file"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_binary),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_files),
    };
    int fd = mkstemp(path);
    int failed;

    if (fd < 0)
        return 1;
    close(fd);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
