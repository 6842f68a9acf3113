/* SPDX-License-Identifier: BSD-3-Clause */
/* What a transport asks of a session: turns (-R), idleness, datagrams, and the limit. */
#include "rig.h"

#include "cache/session.h"

static uint32_t offer(struct rig *rig, const char *text)
{
    return cache_session_input(rig->session, (const uint8_t *)text, (uint32_t)strlen(text),
                               &rig->out.sink);
}

static void open_with(struct rig *rig, uint32_t requests_per_event, uint32_t idle_timeout_s)
{
    struct cache_config config = rig_config();

    config.settings.requests_per_event = requests_per_event;
    config.settings.idle_timeout_s = idle_timeout_s;
    rig_open(rig, &config);
}

static void test_a_turn_ends(void **state)
{
    const char *all = "get a\r\nget a\r\nget a\r\nget a\r\nget a\r\n";
    struct rig rig;

    open_with(&rig, 2, 0);
    assert_int_equal(offer(&rig, all), 14);
    assert_int_equal(cache_session_state(rig.session), CACHE_SESSION_YIELDED);
    assert_int_equal(offer(&rig, all + 14), 14);
    assert_int_equal(cache_session_state(rig.session), CACHE_SESSION_YIELDED);
    assert_int_equal(offer(&rig, all + 28), 7);
    assert_int_equal(cache_session_state(rig.session), CACHE_SESSION_OPEN);
    assert_string_equal(rig_reply(&rig), "END\r\nEND\r\nEND\r\nEND\r\nEND\r\n");
    /* Exactly as many as are allowed: there is nothing to wait for. */
    assert_int_equal(offer(&rig, "get a\r\nget a\r\n"), 14);
    assert_int_equal(cache_session_state(rig.session), CACHE_SESSION_OPEN);
    assert_int_equal(rig_stat(&rig, NULL, "conn_yields"), 2);
    rig_close(&rig);
}

/* A session that has used up its turn is not resumed by room in the sink. */
static void test_a_turn_is_not_resumed(void **state)
{
    struct rig rig;

    open_with(&rig, 1, 0);
    assert_int_equal(offer(&rig, "get a\r\nget a\r\n"), 7);
    cache_session_resume(rig.session, &rig.out.sink);
    assert_int_equal(cache_session_state(rig.session), CACHE_SESSION_YIELDED);
    rig_close(&rig);
}

/* A session that another process has left is idle for as long as this one's clock goes back. */
static void test_continued(void **state)
{
    const struct cache_session_saved saved = {.protocol = CACHE_PROTOCOL_TEXT,
                                              .idle_s = UINT32_MAX};
    struct rig *rig = *state;

    rig_wait(rig, 3);
    assert_true(cache_session_continue(rig->session, &saved));
    assert_int_equal(cache_session_idle_s(rig->session), rig->worker->now_s);
}

/* The data block belongs to its request: a turn never ends between them. */
static void test_a_value_is_no_request(void **state)
{
    struct rig rig;

    open_with(&rig, 1, 0);
    assert_int_equal(offer(&rig, "set a 0 0 4\r\nget"), 16);
    assert_int_equal(offer(&rig, "\n\r\nget a\r\n"), 10);
    assert_int_equal(cache_session_state(rig.session), CACHE_SESSION_OPEN);
    assert_string_equal(rig_reply(&rig), "STORED\r\nVALUE a 0 4\r\nget\n\r\nEND\r\n");
    rig_close(&rig);
}

static void test_idle(void **state)
{
    struct cache_peer peer = {.transport = "tcp"};
    struct rig rig;

    open_with(&rig, 0, 5);
    rig_wait(&rig, 3);
    assert_int_equal(cache_session_idle_s(rig.session), 3);
    offer(&rig, "get a\r\n");
    assert_int_equal(cache_session_idle_s(rig.session), 0);
    rig_wait(&rig, 7);
    assert_int_equal(cache_session_idle_s(rig.session), 7);
    offer(&rig, "set a 0 0 10\r\n123");
    rig_wait(&rig, 7);
    assert_int_equal(cache_session_idle_s(rig.session), 0);
    offer(&rig, "4567890\r\n");
    assert_int_equal(cache_session_idle_s(rig.session), 0);
    rig_wait(&rig, 7);
    assert_int_equal(cache_session_idle_s(rig.session), 7);

    cache_session_close_idle(rig.session);
    rig.session = cache_session_open(rig.worker, &peer);
    assert_non_null(rig.session);
    assert_int_equal(rig_stat(&rig, NULL, "idle_kicks"), 1);
    assert_int_equal(rig_stat(&rig, NULL, "curr_connections"), 1);
    rig_close(&rig);
}

static void test_restart(void **state)
{
    struct rig *rig = *state;

    offer(rig, "set a 0 0 10\r\n123");
    cache_session_restart(rig->session);
    rig_expect(rig, "get a\r\n", "END\r\n");
    offer(rig, "get a");
    cache_session_restart(rig->session);
    rig_expect(rig, "get b\r\n", "END\r\n");
    offer(rig, "quit\r\n");
    assert_int_equal(cache_session_state(rig->session), CACHE_SESSION_CLOSING);
    cache_session_restart(rig->session);
    rig_expect(rig, "get b\r\n", "END\r\n");
}

static void test_a_datagram_socket_is_no_connection(void **state)
{
    struct cache_config config = rig_config();
    struct cache_peer udp = {.transport = "udp"};
    struct cache_peer tcp = {.transport = "tcp"};
    struct cache_session *session;
    struct rig rig;

    config.settings.connections_max = 1;
    rig_open(&rig, &config);
    assert_true(cache_is_full(rig.cache));
    assert_null(cache_session_open(rig.worker, &tcp));
    session = cache_session_open(rig.worker, &udp);
    assert_non_null(session);
    assert_int_equal(rig_stat(&rig, NULL, "curr_connections"), 1);
    assert_int_equal(rig_stat(&rig, NULL, "total_connections"), 1);
    cache_session_close(session);
    cache_session_close(rig.session);
    session = cache_session_open(rig.worker, &udp); /* in the place of the connection */
    assert_null(cache_session_owner(session));
    cache_session_close(session);
    assert_false(cache_is_full(rig.cache));
    rig.session = cache_session_open(rig.worker, &tcp);
    rig_close(&rig);
}

static void test_accepting(void **state)
{
    struct rig *rig = *state;

    assert_int_equal(rig_stat(rig, NULL, "accepting_conns"), 1);
    cache_accept_stopped(rig->worker);
    cache_accept_stopped(rig->worker);
    assert_int_equal(rig_stat(rig, NULL, "accepting_conns"), 0);
    cache_accept_resumed(rig->worker, 700);
    assert_int_equal(rig_stat(rig, NULL, "accepting_conns"), 0);
    cache_accept_resumed(rig->worker, 800);
    assert_int_equal(rig_stat(rig, NULL, "accepting_conns"), 1);
    assert_int_equal(rig_stat(rig, NULL, "listen_disabled_num"), 1);
    assert_int_equal(rig_stat(rig, NULL, "time_in_listen_disabled_us"), 800);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_turn_ends),
        cmocka_unit_test(test_a_turn_is_not_resumed),
        cmocka_unit_test_setup_teardown(test_continued, rig_setup, rig_teardown),
        cmocka_unit_test(test_a_value_is_no_request),
        cmocka_unit_test(test_idle),
        cmocka_unit_test_setup_teardown(test_restart, rig_setup, rig_teardown),
        cmocka_unit_test(test_a_datagram_socket_is_no_connection),
        cmocka_unit_test_setup_teardown(test_accepting, rig_setup, rig_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
