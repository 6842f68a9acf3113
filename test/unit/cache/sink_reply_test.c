/* SPDX-License-Identifier: BSD-3-Clause */
/* Writing through a sink, with rooms of all sizes. */
#include "cache/sink_reply.h"

#include "rig.h"

static const uint32_t room_sizes[] = {0, 1, 2, 5, 8, 100, 1023, 1024, 5000};

static void test_bytes_through_any_room(void **state)
{
    struct rig *rig = *state;
    static char text[5001];

    for (size_t i = 0; i < sizeof(text) - 1; i++)
        text[i] = (char)('a' + i % 26);
    for (size_t r = 0; r < sizeof(room_sizes) / sizeof(room_sizes[0]); r++) {
        static const uint32_t lens[] = {0, 1, 2, 1023, 1024, 1025, 5000};

        rig->out.room_bytes = room_sizes[r];
        rig_forget(&rig->out);
        for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
            size_t before = rig->out.taken_len;

            assert_int_equal(cache_reply_bytes(rig->worker, &rig->out.sink, text, lens[i]), 0);
            rig_drain(&rig->out);
            assert_int_equal(rig->out.taken_len - before, lens[i]);
            assert_memory_equal(rig->out.taken + before, text, lens[i]);
        }
    }
}

static void test_numbers_and_statuses(void **state)
{
    struct rig *rig = *state;

    for (size_t r = 0; r < sizeof(room_sizes) / sizeof(room_sizes[0]); r++) {
        rig->out.room_bytes = room_sizes[r];
        assert_int_equal(cache_reply_number(rig->worker, &rig->out.sink, 0), 0);
        assert_int_equal(cache_reply_number(rig->worker, &rig->out.sink, UINT64_MAX), 0);
        assert_int_equal(cache_reply_status(rig->worker, &rig->out.sink, MC_STATUS_TOO_LARGE), 0);
        assert_string_equal(rig_reply(rig), "0\r\n18446744073709551615\r\n"
                                            "SERVER_ERROR object too large for cache\r\n");
    }
}

static void test_out_of_memory(void **state)
{
    struct rig *rig = *state;

    rig->out.fail_after = 0;
    assert_int_equal(cache_reply_status(rig->worker, &rig->out.sink, MC_STATUS_END), -1);
    assert_int_equal(cache_reply_number(rig->worker, &rig->out.sink, 1), -1);
    rig->out.fail_after = 1;
    rig->out.room_bytes = 1;
    assert_int_equal(cache_reply_bytes(rig->worker, &rig->out.sink, "abcdef", 6), 0);
    assert_int_equal(cache_reply_bytes(rig->worker, &rig->out.sink, "abcdef", 6), -1);
}

static struct kv_view view_of(struct rig *rig, const char *key)
{
    struct kv_key hashed = kv_key(rig->worker->kv, key, (uint32_t)strlen(key));
    struct kv_view view;

    assert_int_equal(kv_peek(rig->worker->kv_worker, &hashed, &view), KV_HIT);
    return view;
}

static void test_values(void **state)
{
    struct rig *rig = *state;
    struct kv_view view;

    rig_feed(rig, "set key 4294967295 0 5\r\nhello\r\n");
    rig_forget(&rig->out);
    view = view_of(rig, "key");
    for (size_t r = 0; r < sizeof(room_sizes) / sizeof(room_sizes[0]); r++) {
        rig->out.room_bytes = room_sizes[r];
        assert_int_equal(cache_reply_value(rig->worker, &rig->out.sink, &view, false), 0);
        assert_string_equal(rig_reply(rig), "VALUE key 4294967295 5\r\nhello\r\n");
    }
    view.cas = UINT64_MAX;
    assert_int_equal(cache_reply_value(rig->worker, &rig->out.sink, &view, true), 0);
    assert_string_equal(rig_reply(rig), "VALUE key 4294967295 5 18446744073709551615\r\nhello\r\n");
}

/* A reference that the transport refuses is released by us. */
static void test_refused_reference(void **state)
{
    struct rig *rig = *state;
    struct kv_view view;
    struct kv_stats stats;

    rig_expect_set(rig, "big", 500000, 'x', "STORED\r\n");
    view = view_of(rig, "big");
    int calls = 0;
    rig->out.fail_after = 0;
    while (cache_reply_value(rig->worker, &rig->out.sink, &view, false) != 0) {
        kv_stats(rig->cache->kv, &stats);
        assert_int_equal(stats.pinned, 0);
        rig_drain(&rig->out);
        rig->out.fail_after = ++calls;
        assert_in_range(calls, 1, 1000);
    }
    assert_true(calls > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_bytes_through_any_room, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_numbers_and_statuses, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_out_of_memory, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_values, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_refused_reference, rig_setup, rig_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
