/* SPDX-License-Identifier: BSD-3-Clause */
/* stats conns: addresses and states of connections and listeners. */
#include "rig.h"

static void test_sessions_of_all_workers(void **state)
{
    struct rig *rig = *state;
    struct cache_worker *second = cache_join(rig->cache);
    struct cache_peer peer = {.transport = "tcp6",
                              .addr = {[15] = 1},
                              .port = 77,
                              .local_addr = {[15] = 2},
                              .local_port = 11211};
    struct cache_session *session;
    const char *reply;

    assert_non_null(second);
    rig_expect(rig, "stats conns\r\n",
               "STAT 64:addr tcp:127.0.0.1:4242\r\n"
               "STAT 64:listen_addr tcp:0.0.0.0:0\r\n"
               "STAT 64:state conn_parse_cmd\r\n"
               "STAT 64:secs_since_last_cmd 0\r\nEND\r\n");
    session = cache_session_open(second, &peer);
    rig_wait(rig, 2);
    cache_tick(second, rig->now_us);
    assert_int_equal(
        cache_session_input(session, (const uint8_t *)"set a 0 0 9\r\nx", 14, &rig->out.sink), 14);
    rig_wait(rig, 3);
    rig_feed(rig, "stats conns\r\n");
    reply = rig_reply(rig);
    assert_non_null(strstr(reply, "STAT 65:addr tcp6:[::1]:77\r\n"
                                  "STAT 65:listen_addr tcp6:[::2]:11211\r\n"
                                  "STAT 65:state conn_nread\r\n"
                                  "STAT 65:secs_since_last_cmd 3\r\n"));
    assert_non_null(strstr(reply, "STAT 64:secs_since_last_cmd 0\r\n")); /* this one */
    /* Its worker's second has begun earlier. */
    cache_tick(second, rig->now_us + 1000000);
    cache_session_input(session, (const uint8_t *)"23456789\r\n", 10, &rig->out.sink);
    rig_feed(rig, "stats conns\r\n");
    assert_non_null(strstr(rig_reply(rig), "STAT 65:secs_since_last_cmd 0\r\n"));
    cache_session_close(session);
    rig_feed(rig, "stats conns\r\n");
    assert_null(strstr(rig_reply(rig), "STAT 65:"));
    cache_leave(second);
}

static void test_other_transports_and_listeners(void **state)
{
    struct cache_config config = rig_config();
    const struct cache_peer tcp = {.transport = "tcp", .local_port = 11211};
    const struct cache_peer local = {.transport = "unix"};
    const struct cache_peer udp = {
        .transport = "udp6", .local_addr = {[15] = 1}, .local_port = 11211};
    struct cache_session *by_unix, *by_udp;
    struct rig rig;

    config.settings.unix_path = "/run/cache.sock";
    rig_open(&rig, &config);
    assert_int_equal(cache_listener_add(rig.cache, &tcp), 0);
    assert_int_equal(cache_listener_add(rig.cache, &local), 0);
    by_unix = cache_session_open(rig.worker, &local);
    by_udp = cache_session_open(rig.worker, &udp);
    rig_expect(&rig, "stats conns\r\n",
               "STAT 1:addr tcp:0.0.0.0:11211\r\n"
               "STAT 1:state conn_listening\r\n"
               "STAT 1:secs_since_last_cmd 0\r\n"
               "STAT 2:addr unix:/run/cache.sock\r\n"
               "STAT 2:state conn_listening\r\n"
               "STAT 2:secs_since_last_cmd 0\r\n"
               "STAT 64:addr tcp:127.0.0.1:4242\r\n"
               "STAT 64:listen_addr tcp:0.0.0.0:0\r\n"
               "STAT 64:state conn_parse_cmd\r\n"
               "STAT 64:secs_since_last_cmd 0\r\n"
               "STAT 66:addr unix:/run/cache.sock\r\n"
               "STAT 66:listen_addr unix:/run/cache.sock\r\n"
               "STAT 66:state conn_read\r\n"
               "STAT 66:secs_since_last_cmd 0\r\n"
               "STAT 68:UDP UDP\r\n"
               "STAT 68:addr udp6:[::1]:11211\r\n"
               "STAT 68:state conn_read\r\n"
               "STAT 68:secs_since_last_cmd 0\r\n"
               "END\r\n");
    for (unsigned i = 2; i < CACHE_LISTENERS_MAX; i++)
        assert_int_equal(cache_listener_add(rig.cache, &tcp), 0);
    assert_int_equal(cache_listener_add(rig.cache, &tcp), -1);
    cache_session_close(by_unix);
    cache_session_close(by_udp);
    rig_close(&rig);
}

enum { COUNT = 1000 };

static void open_many(struct rig *rig, struct cache_session *sessions[COUNT])
{
    struct cache_peer peer = {.transport = "tcp", .addr = {10, 0, 0, 1}, .port = 1};

    for (unsigned i = 0; i < COUNT; i++) {
        sessions[i] = cache_session_open(rig->worker, &peer);
        assert_non_null(sessions[i]);
    }
}

static void close_many(struct cache_session *sessions[COUNT])
{
    for (unsigned i = 0; i < COUNT; i++)
        cache_session_close(sessions[i]);
}

static unsigned lines_in(const char *reply)
{
    unsigned lines = 0;

    for (const char *at = reply; (at = strstr(at, ":addr tcp")) != NULL; at++)
        lines++;
    return lines;
}

/* A list longer than the sink is sent as fast as it is read; the session continues afterwards. */
static void test_many(void **state)
{
    struct rig *rig = *state;
    struct cache_session *sessions[COUNT];
    const char *reply;

    open_many(rig, sessions);
    rig->out.full_bytes = 5000;
    rig_feed(rig, "stats conns\r\nversion\r\n");
    reply = (const char *)rig->out.taken;
    assert_int_equal(lines_in(reply), COUNT + 1);
    assert_non_null(strstr(reply, "END\r\nVERSION 1.6.45\r\n"));
    close_many(sessions);
}

/* A session that is never resumed, as one of UDP, sends the whole list in one call. */
static void test_many_at_once(void **state)
{
    static const char request[] = "stats conns\r\n";
    struct rig *rig = *state;
    struct cache_session *sessions[COUNT];

    open_many(rig, sessions);
    cache_session_set_owner(rig->session, NULL);
    cache_session_input(rig->session, (const uint8_t *)request, strlen(request), &rig->out.sink);
    assert_int_equal(cache_session_state(rig->session), CACHE_SESSION_OPEN);
    assert_int_equal(lines_in(rig_reply(rig)), COUNT + 1);
    close_many(sessions);
}

/* Nothing of a list is in memory before the client reads it. */
static void test_many_that_end_while_the_list_waits(void **state)
{
    static const char request[] = "stats conns\r\n";
    struct rig *rig = *state;
    struct cache_session *sessions[COUNT];
    const char *reply;

    open_many(rig, sessions);
    rig->out.full_bytes = 5000;
    cache_session_input(rig->session, (const uint8_t *)request, strlen(request), &rig->out.sink);
    assert_int_equal(cache_session_state(rig->session), CACHE_SESSION_BLOCKED);
    close_many(sessions);
    while (cache_session_state(rig->session) == CACHE_SESSION_BLOCKED) {
        rig_drain(&rig->out);
        cache_session_resume(rig->session, &rig->out.sink);
    }
    rig_drain(&rig->out);
    reply = (const char *)rig->out.taken;
    assert_in_range(lines_in(reply), 16, COUNT / 2);
    assert_string_equal(reply + rig->out.taken_len - 5, "END\r\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_sessions_of_all_workers, rig_setup, rig_teardown),
        cmocka_unit_test(test_other_transports_and_listeners),
        cmocka_unit_test_setup_teardown(test_many, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_many_at_once, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_many_that_end_while_the_list_waits, rig_setup,
                                        rig_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
