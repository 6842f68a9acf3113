/* SPDX-License-Identifier: BSD-3-Clause */
/* Unfinished uploads: the bounds of their memory and time. */
#include "rig.h"

#include <stdio.h>

#include "cache/upload.h"

#define NO_MEMORY "SERVER_ERROR out of memory storing object\r\n"
#define MIB (1u << 20)
#define MEMORY_MIB 16
#define SHARE_BYTES (MEMORY_MIB / 8 * MIB) /* of items, and of buffers */
#define BIG 1000000
#define UPLOADS 64
#define TIMEOUT_S 60

struct upload {
    struct cache_session *session;
    struct rig_sink out;
};

static struct upload uploads[UPLOADS];
static uint8_t value[BIG + 2];

static int setup_with(void **state, unsigned memory_mib)
{
    struct cache_config config = rig_config();
    struct rig *rig = calloc(1, sizeof(*rig));

    config.settings.memory_bytes = memory_mib * MIB;
    config.settings.upload_timeout_s = TIMEOUT_S;
    rig_open(rig, &config);
    for (uint32_t i = 0; i < BIG; i++)
        value[i] = (uint8_t)(i * 7 + i / 251);
    memcpy(value + BIG, "\r\n", 2);
    *state = rig;
    return 0;
}

static int setup(void **state)
{
    return setup_with(state, MEMORY_MIB);
}

/* The share of uploads is less than the largest item. */
static int setup_small(void **state)
{
    return setup_with(state, 4);
}

static int teardown(void **state)
{
    rig_close(*state);
    free(*state);
    return 0;
}

static void feed(struct upload *upload, const void *bytes, uint32_t len)
{
    assert_int_equal(cache_session_input(upload->session, bytes, len, &upload->out.sink), len);
}

static void begin(struct rig *rig, unsigned number, const char *request)
{
    static const struct cache_peer peer = {.transport = "tcp"};
    struct upload *upload = &uploads[number];

    upload->session = cache_session_open(rig->worker, &peer);
    assert_non_null(upload->session);
    cache_session_set_owner(upload->session, upload);
    rig_sink_init(&upload->out, rig->worker);
    feed(upload, request, (uint32_t)strlen(request));
}

static void begin_set(struct rig *rig, unsigned number)
{
    char request[64];

    snprintf(request, sizeof(request), "set u%u 0 0 %u\r\n", number, BIG);
    begin(rig, number, request);
}

static void feed_value(struct upload *upload, uint32_t from, uint32_t to)
{
    while (from < to) {
        uint32_t n = to - from < 1400 ? to - from : 1400;

        feed(upload, value + from, n);
        from += n;
    }
}

static void end(unsigned number, const char *reply)
{
    struct upload *upload = &uploads[number];

    rig_drain(&upload->out);
    assert_int_equal(upload->out.taken_len, strlen(reply));
    assert_memory_equal(upload->out.taken, reply, strlen(reply));
    cache_session_close(upload->session);
    rig_sink_free(&upload->out);
}

static void assert_nothing_open(struct rig *rig)
{
    assert_int_equal(rig_stat(rig, "kv", "uploads_open"), 0);
    assert_int_equal(rig_stat(rig, "kv", "upload_item_bytes"), 0);
    assert_int_equal(rig_stat(rig, "kv", "upload_staged_bytes"), 0);
}

static void assert_stored(struct rig *rig, const char *key)
{
    char request[32];
    size_t head;

    snprintf(request, sizeof(request), "get %s\r\n", key);
    rig_forget(&rig->out);
    rig_feed(rig, request);
    rig_drain(&rig->out);
    head = rig->out.taken_len - (BIG + 2) - 5;
    assert_memory_equal(rig->out.taken + head, value, BIG + 2);
    rig_forget(&rig->out);
}

static void test_stalled_uploads_hold_a_share(void **state)
{
    struct rig *rig = *state;

    for (unsigned i = 0; i < UPLOADS; i++) {
        begin_set(rig, i);
        feed_value(&uploads[i], 0, 2);
    }
    assert_int_equal(rig_stat(rig, "kv", "uploads_open"), UPLOADS);
    assert_in_range(rig_stat(rig, "kv", "upload_item_bytes"), 1, SHARE_BYTES);
    assert_in_range(rig_stat(rig, "kv", "upload_staged_bytes"), 1, UPLOADS * 4096);
    rig_expect_set(rig, "small", 1000, 'x', "STORED\r\n");
    feed_value(&uploads[UPLOADS - 1], 2, BIG + 2); /* one that makes progress is not blocked */
    end(UPLOADS - 1, "STORED\r\n");
    assert_stored(rig, "u63");
    feed_value(&uploads[0], 2, BIG + 2);
    end(0, "STORED\r\n");
    assert_stored(rig, "u0");
    for (unsigned i = 1; i < UPLOADS - 1; i++)
        end(i, "");
    assert_nothing_open(rig);
    assert_int_equal(rig_stat(rig, "kv", "uploads_refused"), 0);
}

/* More than both shares has come: who sends the next byte is refused, and its value skipped. */
static void test_refused_beyond_the_shares(void **state)
{
    struct rig *rig = *state;
    unsigned stalled = 2 * SHARE_BYTES / BIG;

    rig_expect_set(rig, "u9", 10, 'x', "STORED\r\n");
    for (unsigned i = 0; i < stalled; i++) {
        begin_set(rig, i);
        feed_value(&uploads[i], 0, BIG - 1);
    }
    begin_set(rig, 9);
    feed_value(&uploads[9], 0, BIG + 2);
    feed(&uploads[9], "mn\r\n", 4);
    end(9, NO_MEMORY "MN\r\n");
    assert_int_equal(rig_stat(rig, "kv", "uploads_refused"), 1);
    assert_int_equal(rig_stat(rig, NULL, "store_no_memory"), 1);
    rig_expect(rig, "get u9\r\n", "END\r\n"); /* no old value stays that was to be replaced */
    rig_expect_set(rig, "small", 1000, 'x', "STORED\r\n");
    for (unsigned i = 0; i < stalled; i++) {
        feed_value(&uploads[i], BIG - 1, BIG + 2);
        end(i, "STORED\r\n");
    }
    assert_nothing_open(rig);
}

static void test_noreply_and_other_verbs_when_refused(void **state)
{
    static const char *const requests[] = {"set k 0 0 1000000 noreply\r\n",
                                           "append k 0 0 1000000\r\n", "ms k 1000000\r\n"};
    static const char *const replies[] = {"MN\r\n", NO_MEMORY "MN\r\n", NO_MEMORY "MN\r\n"};
    struct rig *rig = *state;
    unsigned stalled = 2 * SHARE_BYTES / BIG;

    for (unsigned i = 0; i < stalled; i++) {
        begin_set(rig, i);
        feed_value(&uploads[i], 0, BIG - 1);
    }
    for (unsigned i = 0; i < 3; i++) {
        begin(rig, 10, requests[i]);
        feed_value(&uploads[10], 0, BIG + 2);
        feed(&uploads[10], "mn\r\n", 4);
        end(10, replies[i]);
    }
    for (unsigned i = 0; i < stalled; i++)
        end(i, "");
    assert_nothing_open(rig);
}

/* header (24), extras (8), key: a binary set of BIG bytes. */
static uint32_t binary_set(uint8_t *packet)
{
    uint32_t body = 8 + 1 + BIG;

    memset(packet, 0, 33);
    packet[0] = 0x80;
    packet[1] = 0x01;
    packet[3] = 1;
    packet[4] = 8;
    for (unsigned i = 0; i < 4; i++)
        packet[8 + i] = (uint8_t)(body >> (24 - 8 * i));
    packet[32] = 'b';
    return 33;
}

static void test_binary_staged_and_refused(void **state)
{
    struct rig *rig = *state;
    uint8_t packet[33];
    unsigned stalled = 2 * SHARE_BYTES / BIG;
    unsigned status;

    for (unsigned i = 0; i < stalled; i++) {
        begin_set(rig, i);
        feed_value(&uploads[i], 0, i < 3 ? BIG - 1 : 2);
    }
    for (unsigned round = 0; round < 2; round++) {
        begin(rig, 20, "");
        feed(&uploads[20], packet, binary_set(packet));
        feed_value(&uploads[20], 0, BIG);
        rig_drain(&uploads[20].out);
        assert_true(uploads[20].out.taken_len >= 24);
        status = uploads[20].out.taken[7];
        assert_int_equal(status, round == 0 ? 0 : 0x82);
        feed(&uploads[20], "\x80\x0a\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24);
        rig_drain(&uploads[20].out);
        assert_int_equal(uploads[20].out.taken[uploads[20].out.taken_len - 23], 0x0a);
        cache_session_close(uploads[20].session);
        rig_sink_free(&uploads[20].out);
        if (round == 0) {
            assert_stored(rig, "b");
            feed_value(&uploads[3], 2, BIG - 1);
        }
    }
    for (unsigned i = 0; i < stalled; i++)
        end(i, "");
    assert_nothing_open(rig);
}

static bool is_closing(unsigned number)
{
    return cache_session_state(uploads[number].session) == CACHE_SESSION_CLOSING;
}

static void test_given_up_after_the_timeout(void **state)
{
    struct rig *rig = *state;

    for (unsigned i = 0; i < 4; i++) {
        begin_set(rig, i);
        feed_value(&uploads[i], 0, 2);
    }
    assert_true(cache_sleep_us_max(rig->worker) <= 1000000);
    rig_wait(rig, TIMEOUT_S - 1);
    feed_value(&uploads[1], 2, 2 + 4096);
    feed_value(&uploads[2], 2, 102);
    rig_wait(rig, 1);
    assert_true(is_closing(0) && !is_closing(1) && is_closing(2) && is_closing(3));
    assert_int_equal(cache_resumable_count(rig->worker), 3);
    for (unsigned i = 0; i < 3; i++) {
        struct cache_session *session = cache_resumable_next(rig->worker);

        cache_session_resume(session, &uploads[0].out.sink);
    }
    assert_int_equal(cache_resumable_count(rig->worker), 0);
    assert_int_equal(rig_stat(rig, "kv", "uploads_timed_out"), 3);
    assert_int_equal(rig_stat(rig, "kv", "uploads_open"), 1);
    feed_value(&uploads[1], 2 + 4096, BIG + 2);
    end(1, "STORED\r\n");
    end(0, "");
    end(2, "");
    end(3, "");
    assert_nothing_open(rig);
    assert_int_equal(cache_sleep_us_max(rig->worker), UINT32_MAX);
}

/* After some progress a little more is none, again. */
static void test_each_progress_counts_for_itself(void **state)
{
    struct rig *rig = *state;

    begin_set(rig, 0);
    feed_value(&uploads[0], 0, 10000);
    rig_wait(rig, TIMEOUT_S - 1);
    feed_value(&uploads[0], 10000, 10100);
    rig_wait(rig, 1);
    assert_true(is_closing(0));
    end(0, "");
    assert_nothing_open(rig);
}

/* So many bytes are progress, and one less is none. */
static void test_least_progress(void **state)
{
    struct rig *rig = *state;

    begin_set(rig, 0);
    begin_set(rig, 1);
    rig_wait(rig, TIMEOUT_S - 1);
    feed_value(&uploads[0], 0, CACHE_UPLOAD_PROGRESS_BYTES);
    feed_value(&uploads[1], 0, CACHE_UPLOAD_PROGRESS_BYTES - 1);
    rig_wait(rig, 1);
    assert_false(is_closing(0));
    assert_true(is_closing(1));
    end(0, "");
    end(1, "");
    assert_nothing_open(rig);
}

/* Uploads without progress give their memory to one that needs some, the most silent one first. */
static void test_stalled_uploads_make_room(void **state)
{
    struct rig *rig = *state;
    unsigned stalled = 2 * SHARE_BYTES / BIG;

    for (unsigned i = 0; i < stalled; i++) {
        begin_set(rig, i);
        feed_value(&uploads[i], 0, BIG - 1);
        rig_wait(rig, 1);
    }
    begin_set(rig, 9);
    feed_value(&uploads[9], 0, BIG + 2);
    end(9, "STORED\r\n");
    assert_stored(rig, "u9");
    assert_true(is_closing(0));
    assert_true(!is_closing(stalled - 1));
    assert_int_equal(cache_resumable_count(rig->worker), rig_stat(rig, "kv", "uploads_evicted"));
    assert_int_equal(rig_stat(rig, "kv", "uploads_refused"), 0);
    while (cache_resumable_count(rig->worker) > 0)
        cache_session_resume(cache_resumable_next(rig->worker), &uploads[0].out.sink);
    feed_value(&uploads[stalled - 1], BIG - 1, BIG + 2);
    end(stalled - 1, "STORED\r\n");
    for (unsigned i = 0; i < stalled - 1; i++)
        end(i, "");
    assert_nothing_open(rig);
}

/* An upload that makes progress again is not given up for its own sake, however silent it was. */
static void test_an_upload_makes_no_room_for_itself(void **state)
{
    struct rig *rig = *state;
    unsigned in_items = SHARE_BYTES / BIG;

    for (unsigned i = 0; i < in_items; i++)
        begin_set(rig, i);
    begin_set(rig, 9);
    feed_value(&uploads[9], 0, 2);
    rig_wait(rig, 1);
    for (unsigned i = in_items; i < 2 * in_items; i++) {
        begin_set(rig, i);
        feed_value(&uploads[i], 0, BIG - 1);
    }
    for (unsigned i = 0; i < in_items; i++)
        feed_value(&uploads[i], 0, BIG - 1);
    rig_wait(rig, 1);
    feed(&uploads[9], value + 2, BIG); /* in one piece: it is the most silent one */
    end(9, "STORED\r\n");
    assert_stored(rig, "u9");
    assert_int_equal(rig_stat(rig, "kv", "uploads_evicted"), 1);
    assert_true(is_closing(in_items));
    assert_int_equal(cache_resumable_count(rig->worker), 1);
    cache_session_resume(cache_resumable_next(rig->worker), &uploads[in_items].out.sink);
    for (unsigned i = 0; i < 2 * in_items; i++)
        end(i, "");
    assert_nothing_open(rig);
}

/* What fits into one input is not bounded by what others have left unfinished. */
static void test_whole_values_are_not_bounded(void **state)
{
    struct rig *rig = *state;

    for (unsigned i = 0; i < UPLOADS; i++)
        begin_set(rig, i);
    for (unsigned i = 0; i < 100; i++)
        rig_expect_set(rig, "whole", 100000, 'w', "STORED\r\n");
    for (unsigned i = 0; i < UPLOADS; i++)
        end(i, "");
    assert_nothing_open(rig);
}

static void test_one_upload_is_always_possible(void **state)
{
    struct rig *rig = *state;

    begin_set(rig, 0);
    feed_value(&uploads[0], 0, BIG + 2);
    end(0, "STORED\r\n");
    assert_stored(rig, "u0");
    assert_nothing_open(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_stalled_uploads_hold_a_share, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused_beyond_the_shares, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stalled_uploads_make_room, setup, teardown),
        cmocka_unit_test_setup_teardown(test_an_upload_makes_no_room_for_itself, setup, teardown),
        cmocka_unit_test_setup_teardown(test_noreply_and_other_verbs_when_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_binary_staged_and_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_given_up_after_the_timeout, setup, teardown),
        cmocka_unit_test_setup_teardown(test_each_progress_counts_for_itself, setup, teardown),
        cmocka_unit_test_setup_teardown(test_least_progress, setup, teardown),
        cmocka_unit_test_setup_teardown(test_whole_values_are_not_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_upload_is_always_possible, setup_small, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
