/* SPDX-License-Identifier: BSD-3-Clause */
/* The classic commands without a value: delete, touch, verbosity, version. */
#include "rig.h"

static void test_delete(void **state)
{
    struct rig *rig = *state;

    rig_expect(rig, "delete a\r\n", "NOT_FOUND\r\n");
    rig_expect(rig, "set a 0 0 1\r\nx\r\ndelete a\r\nget a\r\n", "STORED\r\nDELETED\r\nEND\r\n");
    rig_expect(rig, "set a 0 0 1\r\nx\r\ndelete a noreply\r\nget a\r\n", "STORED\r\nEND\r\n");
    rig_expect(rig, "set a 0 0 1\r\nx\r\ndelete a 0\r\nget a\r\n", "STORED\r\nDELETED\r\nEND\r\n");
    rig_expect(rig, "delete a noreply\r\n", "");
    rig_expect(rig, "delete\r\n", "CLIENT_ERROR bad command line format\r\n");
    assert_int_equal(rig_stat(rig, NULL, "delete_hits"), 3);
    assert_int_equal(rig_stat(rig, NULL, "delete_misses"), 2);
}

static void test_touch(void **state)
{
    struct rig *rig = *state;

    rig_expect(rig, "touch a 1\r\n", "NOT_FOUND\r\n");
    rig_expect(rig, "set a 3 1 1\r\nx\r\ntouch a 3\r\n", "STORED\r\nTOUCHED\r\n");
    rig_wait(rig, 2);
    rig_expect(rig, "get a\r\n", "VALUE a 3 1\r\nx\r\nEND\r\n");
    rig_wait(rig, 1);
    rig_expect(rig, "get a\r\ntouch a 1\r\n", "END\r\nNOT_FOUND\r\n");
    rig_expect(rig, "set a 3 0 1\r\nx\r\ntouch a -1\r\nget a\r\n", "STORED\r\nTOUCHED\r\nEND\r\n");
    rig_expect(rig, "set a 3 1 1\r\nx\r\ntouch a 0 noreply\r\n", "STORED\r\n");
    rig_wait(rig, 1000);
    rig_expect(rig, "get a\r\n", "VALUE a 3 1\r\nx\r\nEND\r\n");
    rig_expect(rig, "touch a 1000000000\r\nget a\r\n", "TOUCHED\r\nEND\r\n");
    rig_expect(rig, "touch a x\r\n", "CLIENT_ERROR invalid exptime argument\r\n");
    rig_expect(rig, "touch a x noreply\r\n", "");
    rig_expect(rig, "touch a\r\n", "CLIENT_ERROR bad command line format\r\n");
    assert_int_equal(rig_stat(rig, NULL, "cmd_touch"), 6);
    assert_int_equal(rig_stat(rig, NULL, "touch_hits"), 4);
    assert_int_equal(rig_stat(rig, NULL, "touch_misses"), 2);
    assert_int_equal(rig_stat(rig, NULL, "cmd_get"), 5);
}

static void test_version_and_verbosity(void **state)
{
    struct rig *rig = *state;

    rig_expect(rig, "version\r\nversion foo\r\n", "VERSION 1.6.45\r\nVERSION 1.6.45\r\n");
    assert_int_equal(cache_verbosity(rig->cache), 0);
    rig_expect(rig, "verbosity 1\r\n", "OK\r\n");
    assert_int_equal(cache_verbosity(rig->cache), 1);
    rig_expect(rig, "verbosity 99 foo\r\n", "OK\r\n");
    assert_int_equal(cache_verbosity(rig->cache), 2);
    assert_int_equal(rig_stat(rig, "settings", "verbosity"), 2);
    rig_expect(rig, "verbosity 0 noreply\r\n", "");
    assert_int_equal(cache_verbosity(rig->cache), 0);
    rig_expect(rig, "verbosity\r\n", "CLIENT_ERROR bad command line format\r\n");
    rig_expect(rig, "verbosity x\r\n", "CLIENT_ERROR bad command line format\r\n");
    rig_expect(rig, "verbosity noreply\r\n", "");
}

/* -C: no cas is shown, so none matches. */
static void test_without_cas(void **state)
{
    struct cache_config config = rig_config();
    struct rig rig;

    (void)state;
    config.settings.cas_disabled = true;
    rig_open(&rig, &config);
    rig_expect(&rig, "set a 0 0 1\r\nx\r\ngets a\r\n", "STORED\r\nVALUE a 0 1 0\r\nx\r\nEND\r\n");
    rig_expect(&rig, "cas a 0 0 1 0\r\ny\r\ncas a 0 0 1 5\r\ny\r\ncas b 0 0 1 5\r\ny\r\n",
               "EXISTS\r\nEXISTS\r\nNOT_FOUND\r\n");
    rig_expect(&rig, "mg a c\r\nms a 1 c\r\nz\r\nms a 1 C1\r\nz\r\nms a 1 MA C7\r\nz\r\n",
               "HD c0\r\nHD c0\r\nEX\r\nHD\r\n");
    rig_expect(&rig, "md a C1\r\nmd a C0\r\nset n 0 0 1\r\n1\r\nma n C5\r\nma n c\r\n",
               "EX\r\nHD\r\nSTORED\r\nEX\r\nHD c0\r\n");
    rig_expect_set(&rig, "k", 1048516 + 8, 'x', "STORED\r\n");
    rig_expect_set(&rig, "k", 1048516 + 9, 'x', "SERVER_ERROR object too large for cache\r\n");
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_cas),
        cmocka_unit_test_setup_teardown(test_delete, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_touch, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_version_and_verbosity, rig_setup, rig_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
