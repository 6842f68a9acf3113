/* SPDX-License-Identifier: BSD-3-Clause */
/* get, gets, gat, gats. */
#include "rig.h"

#include <stdio.h>

static void test_hit_and_miss(void **state)
{
    rig_expect(*state, "get a\r\n", "END\r\n");
    rig_expect(*state, "set a 7 0 3\r\nabc\r\n", "STORED\r\n");
    rig_expect(*state, "get a\r\n", "VALUE a 7 3\r\nabc\r\nEND\r\n");
    rig_expect(*state, "get a\n", "VALUE a 7 3\r\nabc\r\nEND\r\n");
    rig_expect(*state, "get  b  a b a\r\n", "VALUE a 7 3\r\nabc\r\nVALUE a 7 3\r\nabc\r\nEND\r\n");
}

static void test_empty_and_binary_values(void **state)
{
    struct rig *rig = *state;

    rig_expect(rig, "set e 4294967295 0 0\r\n\r\n", "STORED\r\n");
    rig_expect(rig, "get e\r\n", "VALUE e 4294967295 0\r\n\r\nEND\r\n");
    rig_expect(rig, "set n 0 0 4\r\n\r\n\r\n\r\n", "STORED\r\n");
    rig_expect(rig, "get n\r\n", "VALUE n 0 4\r\n\r\n\r\n\r\nEND\r\n");
    rig_feed_sliced(rig, "set z 0 0 3\r\n\0\0\0\r\nget z\r\n", 25, 0);
    rig_drain(&rig->out);
    assert_memory_equal(rig->out.taken + rig->out.taken_len - 10, "\0\0\0\r\nEND\r\n", 10);
}

static void test_cas_is_shown_by_gets_and_gats(void **state)
{
    char first[128];
    char second[128];

    rig_expect(*state, "set a 0 0 1\r\nx\r\n", "STORED\r\n");
    rig_feed(*state, "gets a\r\n");
    snprintf(first, sizeof(first), "%s", rig_reply(*state));
    assert_int_equal(sscanf(first, "VALUE a 0 1 %*u"), 0);
    rig_feed(*state, "gats 100 a\r\n");
    assert_string_equal(rig_reply(*state), first);
    rig_feed(*state, "gat 100 a\r\n");
    assert_string_equal(rig_reply(*state), "VALUE a 0 1\r\nx\r\nEND\r\n");
    rig_expect(*state, "set a 0 0 1\r\nx\r\n", "STORED\r\n");
    rig_feed(*state, "gets a\r\n");
    snprintf(second, sizeof(second), "%s", rig_reply(*state));
    assert_string_not_equal(first, second);
}

static void test_gat_sets_the_expiry(void **state)
{
    rig_expect(*state, "set a 0 0 1\r\nx\r\nset b 0 5 1\r\ny\r\n", "STORED\r\nSTORED\r\n");
    rig_expect(*state, "gat 2 a c b\r\n", "VALUE a 0 1\r\nx\r\nVALUE b 0 1\r\ny\r\nEND\r\n");
    rig_wait(*state, 1);
    rig_expect(*state, "gat 0 b\r\n", "VALUE b 0 1\r\ny\r\nEND\r\n");
    rig_wait(*state, 1);
    rig_expect(*state, "get a b\r\n", "VALUE b 0 1\r\ny\r\nEND\r\n");
    rig_wait(*state, 100);
    rig_expect(*state, "get a b\r\n", "VALUE b 0 1\r\ny\r\nEND\r\n");
    rig_expect(*state, "gat -1 b\r\n", "VALUE b 0 1\r\ny\r\nEND\r\n");
    rig_expect(*state, "get b\r\n", "END\r\n");
}

/* A reply that waits for room continues with the keys that are left, and as it began. */
static void test_interrupted(void **state)
{
    struct rig *rig = *state;
    const char *hits = "VALUE xa 0 1\r\n1\r\nVALUE xa 0 1\r\n1\r\nVALUE b 0 1\r\n2\r\nEND\r\n";

    for (size_t slice = 0; slice < 20; slice++) {
        rig_expect(rig, "set xa 0 0 1\r\n1\r\nset a 0 0 1\r\n3\r\nset b 0 0 1\r\n2\r\n",
                   "STORED\r\nSTORED\r\nSTORED\r\n");
        rig->out.full_bytes = 1;
        rig_forget(&rig->out);
        rig_feed_sliced(rig, "gat 100 xa xa b\r\n", 17, slice);
        rig_drain(&rig->out);
        assert_string_equal((const char *)rig->out.taken, hits);
        rig->out.full_bytes = 0;
        rig_expect(rig, "mg xa t\r\nmg b t\r\n", "HD t100\r\nHD t100\r\n");
    }
}

static void test_errors(void **state)
{
    rig_expect(*state, "get\r\n", "CLIENT_ERROR bad command line format\r\n");
    rig_expect(*state, "gets\r\n", "CLIENT_ERROR bad command line format\r\n");
    rig_expect(*state, "gat 0\r\n", "CLIENT_ERROR bad command line format\r\n");
    rig_expect(*state, "gat x k\r\n", "CLIENT_ERROR invalid exptime argument\r\n");
    rig_expect(*state, "get a noreply\r\n", "END\r\n");
}

static void test_key_lengths(void **state)
{
    char key[252];
    char text[1024];

    memset(key, 'k', 251);
    key[250] = '\0';
    snprintf(text, sizeof(text), "set %s 0 0 1\r\nx\r\n", key);
    rig_expect(*state, text, "STORED\r\n");
    snprintf(text, sizeof(text), "get %s\r\n", key);
    rig_feed(*state, text);
    snprintf(text, sizeof(text), "VALUE %s 0 1\r\nx\r\nEND\r\n", key);
    assert_string_equal(rig_reply(*state), text);

    key[250] = 'k';
    key[251] = '\0';
    rig_expect(*state, "set a 0 0 1\r\nx\r\n", "STORED\r\n");
    snprintf(text, sizeof(text), "get a %s\r\nget a\r\n", key);
    rig_expect(*state, text, "CLIENT_ERROR bad command line format\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
}

/* More keys than are looked up at a time, and exactly as many. */
static void test_many_keys(void **state)
{
    static char request[8192];
    static char reply[8192];

    for (unsigned count = 1; count <= 33; count++) {
        size_t n = 0;
        size_t m = 0;

        for (unsigned i = 0; i < count; i++) {
            snprintf(request, sizeof(request), "set key%u %u 0 2\r\n%02u\r\n", i, i, i);
            rig_expect(*state, request, "STORED\r\n");
        }
        rig_append(request, sizeof(request), &n, "get");
        for (unsigned i = 0; i < count; i++) {
            rig_append(request, sizeof(request), &n, " key%u none%u", i, i);
            rig_append(reply, sizeof(reply), &m, "VALUE key%u %u 2\r\n%02u\r\n", i, i, i);
        }
        rig_append(request, sizeof(request), &n, "\r\n");
        rig_append(reply, sizeof(reply), &m, "END\r\n");
        rig_expect(*state, request, reply);
    }
}

static void test_counters(void **state)
{
    struct rig *rig = *state;

    rig_feed(rig, "set a 0 1 1\r\nx\r\nset b 0 0 1\r\nx\r\nget a b c\r\ngat 0 b c\r\ngats 0 b\r\n");
    assert_int_equal(rig_stat(rig, NULL, "cmd_get"), 3);
    assert_int_equal(rig_stat(rig, NULL, "get_hits"), 2);
    assert_int_equal(rig_stat(rig, NULL, "get_misses"), 1);
    assert_int_equal(rig_stat(rig, NULL, "cmd_touch"), 3);
    assert_int_equal(rig_stat(rig, NULL, "touch_hits"), 2);
    assert_int_equal(rig_stat(rig, NULL, "touch_misses"), 1);
    assert_int_equal(rig_stat(rig, NULL, "get_expired"), 0);
    rig_wait(rig, 1);
    rig_feed(rig, "get a\r\n");
    assert_int_equal(rig_stat(rig, NULL, "get_expired"), 1);
    assert_int_equal(rig_stat(rig, NULL, "get_misses"), 2);
    rig_feed(rig, "flush_all\r\nget b\r\n");
    assert_int_equal(rig_stat(rig, NULL, "get_flushed"), 1);
}

/* memcached counts expired and flushed items for all commands that look a key up, but no store. */
static void test_gone_items(void **state)
{
    static const struct {
        const char *request;
        uint64_t count;
    } cases[] = {
        {"get a", 1},
        {"gets a", 1},
        {"gat 0 a", 1},
        {"touch a 0", 1},
        {"incr a 1", 1},
        {"decr a 1", 1},
        {"delete a", 1},
        {"mg a", 1},
        {"mg a T5", 1},
        {"mg a N5", 1},
        {"mg a N5 T5", 1},
        {"ma a", 1},
        {"ma a N0", 1},
        {"md a", 1},
        {"md a I", 1},
        {"me a", 1},
        {"set a 0 0 1\r\nx", 0},
        {"add a 0 0 1\r\nx", 0},
    };
    struct rig *rig = *state;
    char input[100];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        rig_feed(rig, "stats reset\r\nset a 0 -1 1\r\n1\r\n");
        snprintf(input, sizeof(input), "%s\r\n", cases[i].request);
        rig_feed(rig, input);
        assert_int_equal(rig_stat(rig, NULL, "get_expired"), cases[i].count);
        rig_feed(rig, "set a 0 0 1\r\n1\r\nflush_all\r\n");
        rig_feed(rig, input);
        assert_int_equal(rig_stat(rig, NULL, "get_flushed"), cases[i].count);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_hit_and_miss, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_empty_and_binary_values, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_cas_is_shown_by_gets_and_gats, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(test_gat_sets_the_expiry, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_interrupted, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_errors, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_key_lengths, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_many_keys, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_counters, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_gone_items, rig_setup, rig_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
