/* SPDX-License-Identifier: BSD-3-Clause */
/* The log of commands and replies: its lines, and that it reads no byte beyond the input. */
#include "cache/wire_log.h"

#include "rig.h"

static char last_line[300];

static void keep_line(const char *line)
{
    assert_true(strlen(line) < sizeof(last_line));
    memcpy(last_line, line, strlen(line) + 1);
}

static void open_with(struct rig *rig)
{
    struct cache_config config = rig_config();

    config.log = keep_line;
    rig_open(rig, &config);
}

/* Logs a request of these bytes, in a block of their size; the line has to be this. */
static void expect_line(struct rig *rig, const void *bytes, uint32_t len, const char *text)
{
    uint8_t *block = malloc(len);

    assert_non_null(block);
    memcpy(block, bytes, len);
    last_line[0] = '\0';
    cache_wire_log_request(rig->session, block, len);
    free(block);
    if (text[0] != '\0')
        assert_string_equal(strchr(last_line, ' '), text);
    else
        assert_string_equal(last_line, "");
}

/* One line, without its end and without bytes that are not printed. */
static void test_lines(void **state)
{
    static char junk[300];
    struct rig rig;

    (void)state;
    open_with(&rig);
    expect_line(&rig, "get a\r\nget b\r\n", 14, " get a");
    expect_line(&rig, "get a\n", 6, " get a");
    expect_line(&rig, "get a\r", 6, " get a");
    expect_line(&rig, "get \1\377\r\n", 8, " get ??");
    expect_line(&rig, "\r\n", 2, " ");
    memset(junk, 'x', sizeof(junk));
    cache_wire_log_request(rig.session, (const uint8_t *)junk, sizeof(junk));
    assert_int_equal(strlen(strchr(last_line, ' ')), 1 + 200);
    rig_close(&rig);
}

/* The key is shown if all of it has come. */
static void test_binary_packets(void **state)
{
    static const uint8_t get[] = "\x80\0\0\3\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0\0\0\0\0\0foo";
    static const uint8_t set[] = "\x80\1\0\3\10\0\0\0\0\0\0\14\0\0\0\0\0\0\0\0\0\0\0\0"
                                 "\0\0\0\0\0\0\0\0foox";
    struct rig rig;

    (void)state;
    open_with(&rig);
    rig_feed_sliced(&rig, get, 27, 0); /* a session of the binary protocol from here on */
    expect_line(&rig, get, 27, " binary opcode 0x00 key foo");
    expect_line(&rig, get, 26, " binary opcode 0x00");
    expect_line(&rig, get, 24, " binary opcode 0x00");
    expect_line(&rig, get, 23, "");
    expect_line(&rig, set, 36, " binary opcode 0x01 key foo");
    expect_line(&rig, set, 34, " binary opcode 0x01");
    expect_line(&rig, set, 24, " binary opcode 0x01");
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_binary_packets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
