/* SPDX-License-Identifier: BSD-3-Clause */
/* Replies that are put together first. */
#include "rig.h"

#include "cache/textbuf.h"

static void test_grows_and_keeps_everything(void **state)
{
    struct cache_textbuf text = {0};

    for (unsigned i = 0; i < 100000; i++) {
        uint8_t byte = (uint8_t)(i * 7);

        cache_textbuf_add(&text, &byte, 1);
    }
    cache_textbuf_add(&text, "", 0);
    assert_int_equal(text.len, 100000);
    assert_false(text.failed);
    for (unsigned i = 0; i < 100000; i++)
        assert_int_equal(text.bytes[i], (uint8_t)(i * 7));
    cache_textbuf_free(&text);
    assert_null(text.bytes);
}

/* Once it has failed nothing is added, rather than leaving a hole. */
static void test_a_failed_text_grows_no_more(void **state)
{
    struct cache_textbuf text = {.failed = true};

    cache_textbuf_add(&text, "x", 1);
    assert_int_equal(text.len, 0);
    cache_textbuf_free(&text);
    assert_false(text.failed);
}

static void test_longest_text(void **state)
{
    static uint8_t bytes[CACHE_TEXT_BYTES_MAX];
    struct cache_textbuf text = {0};

    cache_textbuf_add(&text, bytes, sizeof(bytes));
    assert_false(text.failed);
    cache_textbuf_add(&text, "x", 1);
    assert_true(text.failed);
    cache_textbuf_free(&text);
}

static void test_a_failed_text_is_an_error(void **state)
{
    struct rig *rig = *state;
    struct cache_textbuf text = {0};

    cache_textbuf_add(&text, "half of it", 10);
    text.failed = true;
    assert_int_equal(cache_textbuf_send(rig->session, &text, &rig->out.sink), 0);
    assert_string_equal(rig_reply(rig), "SERVER_ERROR out of memory writing stats\r\n");
}

static void fill(struct cache_textbuf *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        cache_textbuf_add(text, &"abcdefghijklmnop"[i % 16], 1);
}

static void test_short_is_sent_at_once(void **state)
{
    struct rig *rig = *state;
    struct cache_textbuf text = {0};

    fill(&text, 1000);
    rig->out.full_bytes = 1;
    rig->out.sink.full = true;
    assert_int_equal(cache_textbuf_send(rig->session, &text, &rig->out.sink), 0);
    assert_int_equal(strlen(rig_reply(rig)), 1000);
    assert_int_equal(cache_session_state(rig->session), CACHE_SESSION_OPEN);
}

static void test_long_waits_for_the_client(void **state)
{
    struct rig *rig = *state;
    struct cache_textbuf text = {0};
    unsigned rounds = 0;

    fill(&text, 200000);
    rig->out.full_bytes = 20000;
    assert_int_equal(cache_textbuf_send(rig->session, &text, &rig->out.sink), 0);
    while (cache_session_state(rig->session) == CACHE_SESSION_BLOCKED) {
        assert_int_equal(cache_resumable_count(rig->worker), 0); /* the transport knows when */
        rig_drain(&rig->out);
        cache_session_resume(rig->session, &rig->out.sink);
        rounds++;
    }
    rig_drain(&rig->out);
    assert_in_range(rounds, 5, 10);
    assert_int_equal(rig->out.taken_len, 200000);
    for (size_t i = 0; i < 200000; i++)
        assert_int_equal(rig->out.taken[i], "abcdefghijklmnop"[i % 16]);
}

/* Texts of clients that do not read have a bound together; it is free again when they end. */
static void test_waiting_texts_are_bounded(void **state)
{
    enum { COUNT = CACHE_TEXTS_BYTES_MAX / CACHE_TEXT_BYTES_MAX };
    struct rig *rig = *state;
    struct cache_peer peer = {.transport = "tcp"};
    struct cache_session *sessions[COUNT];
    struct cache_textbuf text = {0};

    rig->out.full_bytes = 1000;
    for (unsigned i = 0; i < COUNT; i++) {
        sessions[i] = cache_session_open(rig->worker, &peer);
        assert_non_null(sessions[i]);
        fill(&text, CACHE_TEXT_BYTES_MAX);
        assert_int_equal(cache_textbuf_send(sessions[i], &text, &rig->out.sink), 0);
        assert_int_equal(cache_session_state(sessions[i]), CACHE_SESSION_BLOCKED);
    }
    rig_drain(&rig->out);
    for (unsigned round = 0; round < 3; round++) {
        fill(&text, 100000);
        assert_int_equal(cache_textbuf_send(rig->session, &text, &rig->out.sink), 0);
        assert_null(text.bytes);
        assert_string_equal(rig_reply(rig), "SERVER_ERROR out of memory writing stats\r\n");
    }
    fill(&text, 1000); /* is sent at once */
    assert_int_equal(cache_textbuf_send(rig->session, &text, &rig->out.sink), 0);
    assert_int_equal(strlen(rig_reply(rig)), 1000);
    cache_session_close(sessions[0]);
    fill(&text, CACHE_TEXT_BYTES_MAX); /* all that this one held is free */
    assert_int_equal(cache_textbuf_send(rig->session, &text, &rig->out.sink), 0);
    assert_int_equal(cache_session_state(rig->session), CACHE_SESSION_BLOCKED);
    for (unsigned i = 1; i < COUNT; i++)
        cache_session_close(sessions[i]);
}

static void test_connection_ends_meanwhile(void **state)
{
    struct cache_config config = rig_config();
    struct cache_textbuf text = {0};
    struct rig rig;

    rig_open(&rig, &config);
    fill(&text, 200000);
    rig.out.full_bytes = 1000;
    assert_int_equal(cache_textbuf_send(rig.session, &text, &rig.out.sink), 0);
    assert_int_equal(cache_session_state(rig.session), CACHE_SESSION_BLOCKED);
    rig_close(&rig); /* nothing leaks */
}

static void test_transport_without_memory(void **state)
{
    struct rig *rig = *state;
    struct cache_textbuf text = {0};

    fill(&text, 200000);
    rig->out.fail_after = 3;
    assert_int_equal(cache_textbuf_send(rig->session, &text, &rig->out.sink), -1);
}

static unsigned parts_made;

/* A cache_list_part. */
static bool empty_part(struct cache_session *session, struct cache_textbuf *text,
                       struct cache_list_at *at)
{
    return ++parts_made < 1000;
}

/* A list of parts without text does not hold up the loop either. */
static void test_parts_without_text(void **state)
{
    struct rig *rig = *state;
    unsigned turns = 0;

    parts_made = 0;
    assert_int_equal(cache_list_send(rig->session, empty_part, &rig->out.sink), 0);
    while (cache_resumable_count(rig->worker) > 0) {
        unsigned before = parts_made;

        rig_turn(rig);
        assert_in_range(parts_made - before, 1, 100);
        turns++;
    }
    assert_true(turns > 9);
    assert_int_equal(parts_made, 1000);
    assert_string_equal(rig_reply(rig), "END\r\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grows_and_keeps_everything),
        cmocka_unit_test(test_a_failed_text_grows_no_more),
        cmocka_unit_test(test_longest_text),
        cmocka_unit_test_setup_teardown(test_a_failed_text_is_an_error, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_short_is_sent_at_once, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_long_waits_for_the_client, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_waiting_texts_are_bounded, rig_setup, rig_teardown),
        cmocka_unit_test(test_connection_ends_meanwhile),
        cmocka_unit_test_setup_teardown(test_transport_without_memory, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_parts_without_text, rig_setup, rig_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
