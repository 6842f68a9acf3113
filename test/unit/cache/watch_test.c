/* SPDX-License-Identifier: BSD-3-Clause */
/* Watchers: the command, the events of each command, other workers, bounds, endings. */
#include "rig.h"

#include <stdio.h>

#include "cache/cache_worker.h"

/* A second session that watches, with its own sink. */
struct watcher {
    struct rig *rig;
    struct cache_session *session;
    struct rig_sink out;
};

static void watcher_open(struct watcher *watcher, struct rig *rig, struct cache_worker *worker,
                         const char *command)
{
    struct cache_peer peer = {.transport = "tcp", .addr = {10, 0, 0, 9}, .port = 9};

    watcher->rig = rig;
    watcher->session = cache_session_open(worker, &peer);
    assert_non_null(watcher->session);
    cache_session_set_owner(watcher->session, watcher);
    rig_sink_init(&watcher->out, worker);
    cache_session_input(watcher->session, (const uint8_t *)command, (uint32_t)strlen(command),
                        &watcher->out.sink);
    cache_tick(rig->worker, rig->now_us);
}

static void watcher_close(struct watcher *watcher)
{
    rig_sink_free(&watcher->out);
    cache_session_close(watcher->session);
    cache_tick(watcher->rig->worker, watcher->rig->now_us);
}

/* The lines written to it since the last call. */
static const char *events(struct watcher *watcher)
{
    size_t from;

    rig_drain(&watcher->out);
    from = watcher->out.drained_len;
    cache_session_resume(watcher->session, &watcher->out.sink);
    rig_drain(&watcher->out);
    return (const char *)watcher->out.taken + from;
}

/* Skips "ts=.. gid=.. " of each line, which differ from run to run. */
static void expect_told(struct watcher *watcher, const char *expected)
{
    const char *at = events(watcher);
    char lines[4000] = "";
    size_t len = 0;

    while (*at != '\0') {
        const char *type = strstr(at, "type=");
        const char *end = strchr(at, '\n');

        assert_non_null(end);
        if (type == NULL || type > end)
            type = at;
        rig_append(lines, sizeof(lines), &len, "%.*s", (int)(end + 1 - type), type);
        at = end + 1;
    }
    assert_string_equal(lines, expected);
}

static void test_replies(void **state)
{
    static const char *const good[] = {
        "watch\r\n",
        "watch fetchers mutations evictions connevents deletions\r\n",
        "watch sysevents rawcmds proxyreqs proxyevents proxyuser\r\n",
    };
    struct rig *rig = *state;
    struct watcher watcher;

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        watcher_open(&watcher, rig, rig->worker, good[i]);
        rig_drain(&watcher.out);
        assert_memory_equal(watcher.out.taken, "OK\r\n", 4);
        assert_int_equal(rig_stat(rig, NULL, "log_watchers"), 1);
        watcher_close(&watcher);
        assert_int_equal(rig_stat(rig, NULL, "log_watchers"), 0);
    }
    rig_expect(rig, "watch foo\r\n", "ERROR\r\n");
    rig_expect(rig, "watch fetchers foo\r\n", "ERROR\r\n");
    rig_expect(rig, "version\r\nwatch\r\n",
               "VERSION 1.6.45\r\nERROR cannot pipeline other commands before watch\r\n");
    assert_int_equal(cache_resumable_count(rig->worker), 0);
}

static void test_not_allowed(void **state)
{
    struct cache_config config = rig_config();
    struct rig rig;

    config.settings.watch_disabled = true;
    rig_open(&rig, &config);
    rig_expect(&rig, "watch\r\n", "CLIENT_ERROR watch commands not allowed\r\n");
    rig_close(&rig);
}

static void test_not_over_datagrams(void **state)
{
    struct rig *rig = *state;
    struct cache_peer peer = {.transport = "udp"};
    struct cache_session *session = cache_session_open(rig->worker, &peer);
    struct rig_sink out;

    rig_sink_init(&out, rig->worker);
    cache_session_input(session, (const uint8_t *)"watch\r\n", 7, &out.sink);
    rig_drain(&out);
    assert_string_equal((const char *)out.taken, "WATCHER_FAILED failed to add log watcher\r\n");
    rig_sink_free(&out);
    cache_session_close(session);
}

static void test_at_most_twenty(void **state)
{
    struct rig *rig = *state;
    struct watcher watchers[CACHE_WATCHERS_MAX];

    for (unsigned i = 0; i < CACHE_WATCHERS_MAX; i++)
        watcher_open(&watchers[i], rig, rig->worker, "watch\r\n");
    rig_expect(rig, "watch\r\n", "WATCHER_TOO_MANY log watcher limit reached\r\n");
    watcher_close(&watchers[7]);
    watcher_open(&watchers[7], rig, rig->worker, "watch\r\n");
    rig_feed(rig, "get a\r\n");
    for (unsigned i = 0; i < CACHE_WATCHERS_MAX; i++) {
        assert_non_null(strstr(events(&watchers[i]), "key=a"));
        watcher_close(&watchers[i]);
    }
}

/* The worker makes no more events for a watcher that has gone, or whose command failed. */
static void test_events_end_with_their_watcher(void **state)
{
    struct rig *rig = *state;
    struct watcher watcher;

    watcher_open(&watcher, rig, rig->worker, "watch fetchers\r\n");
    rig_feed(rig, "get a\r\n");
    watcher_close(&watcher);
    rig_feed(rig, "get a\r\n");
    assert_int_equal(rig_stat(rig, NULL, "log_worker_written"), 1);
    rig_drain(&rig->out);
    rig->out.fail_after = 0;
    assert_int_equal(rig_offer(rig, "watch fetchers\r\n", 16, 0), 16);
    assert_int_equal(cache_session_state(rig->session), CACHE_SESSION_CLOSING);
    assert_int_equal(cache_sleep_us_max(rig->worker), UINT32_MAX);
    assert_int_equal(rig->worker->event_mask, 0);
}

/* The lines of memcached 1.6 for the same commands, but for the kinds that it lacks. */
static void test_fetchers_and_mutations(void **state)
{
    struct rig *rig = *state;
    struct watcher watcher;

    watcher_open(&watcher, rig, rig->worker, "watch fetchers mutations\r\n");
    rig_feed(rig, "set a 0 0 1\r\nx\r\n");
    expect_told(&watcher, "type=item_get key=a status=not_found clsid=0 cfd=64 size=0\n"
                          "type=item_store key=a status=stored cmd=set ttl=0 clsid=1 cfd=64 "
                          "size=1\n");
    rig_feed(rig, "get a\r\nget b\r\n");
    expect_told(&watcher, "type=item_get key=a status=found clsid=1 cfd=64 size=1\n"
                          "type=item_get key=b status=not_found clsid=0 cfd=64 size=0\n");
    rig_feed(rig, "touch a 0\r\ngat 0 a\r\n");
    expect_told(&watcher, "type=item_get key=a status=found clsid=1 cfd=64 size=1\n"
                          "type=item_get key=a status=found clsid=1 cfd=64 size=1\n");
    rig_feed(rig, "add n 0 100 1\r\n1\r\nincr n 1\r\n");
    expect_told(&watcher, "type=item_get key=n status=not_found clsid=0 cfd=64 size=0\n"
                          "type=item_store key=n status=stored cmd=add ttl=100 clsid=1 cfd=64 "
                          "size=1\n"
                          "type=item_get key=n status=found clsid=1 cfd=64 size=1\n");
    rig_feed(rig, "append a 0 0 1\r\ny\r\nreplace z 0 0 1\r\ny\r\ncas n 0 0 1 7\r\nx\r\n"
                  "cas zz 0 0 1 7\r\nx\r\n");
    expect_told(&watcher, "type=item_get key=a status=found clsid=1 cfd=64 size=1\n"
                          "type=item_store key=a status=stored cmd=append ttl=0 clsid=1 cfd=64 "
                          "size=2\n"
                          "type=item_get key=z status=not_found clsid=0 cfd=64 size=0\n"
                          "type=item_store key=z status=not_stored cmd=replace ttl=0 clsid=1 "
                          "cfd=64 size=1\n"
                          "type=item_get key=n status=found clsid=1 cfd=64 size=1\n"
                          "type=item_store key=n status=exists cmd=cas ttl=0 clsid=1 cfd=64 "
                          "size=1\n"
                          "type=item_get key=zz status=not_found clsid=0 cfd=64 size=0\n"
                          "type=item_store key=zz status=not_found cmd=cas ttl=0 clsid=1 cfd=64 "
                          "size=1\n");
    rig_feed(rig, "mg a v\r\nms q 2\r\nxx\r\n");
    expect_told(&watcher, "type=item_get key=a status=found clsid=1 cfd=64 size=2\n"
                          "type=item_get key=q status=not_found clsid=0 cfd=64 size=0\n"
                          "type=item_store key=q status=stored cmd=set ttl=0 clsid=1 cfd=64 "
                          "size=2\n");
    rig_expect_set(rig, "big", 2000000, 'x', "SERVER_ERROR object too large for cache\r\n");
    expect_told(&watcher, "type=item_store key=big status=too_large cmd=set ttl=0 clsid=0 cfd=64 "
                          "size=0\n"
                          "type=item_get key=big status=not_found clsid=0 cfd=64 size=0\n");
    watcher_close(&watcher);
}

/* The rest of a long reply is its own session's, whichever has had a request meanwhile. */
static void test_fetches_of_an_interrupted_reply(void **state)
{
    struct rig *rig = *state;
    struct cache_peer peer = {.transport = "tcp"};
    struct cache_session *other = cache_session_open(rig->worker, &peer);
    struct watcher watcher;
    struct rig_sink out;

    rig_sink_init(&out, rig->worker);
    rig_feed(rig, "set a 0 0 1\r\nx\r\n");
    watcher_open(&watcher, rig, rig->worker, "watch fetchers\r\n");
    rig->out.full_bytes = 1;
    rig_offer(rig, "get a a b\r\n", 11, 0);
    assert_int_equal(cache_session_state(rig->session), CACHE_SESSION_BLOCKED);
    cache_session_input(other, (const uint8_t *)"get c\r\n", 7, &out.sink);
    rig_drain(&rig->out);
    cache_session_resume(rig->session, &rig->out.sink);
    expect_told(&watcher, "type=item_get key=a status=found clsid=1 cfd=64 size=1\n"
                          "type=item_get key=a status=found clsid=1 cfd=64 size=1\n"
                          "type=item_get key=c status=not_found clsid=0 cfd=66 size=0\n"
                          "type=item_get key=b status=not_found clsid=0 cfd=64 size=0\n");
    rig_sink_free(&out);
    cache_session_close(other);
    watcher_close(&watcher);
}

static void test_expired_and_flushed(void **state)
{
    struct rig *rig = *state;
    struct watcher watcher;

    watcher_open(&watcher, rig, rig->worker, "watch\r\n");
    rig_feed(rig, "set a 0 1 1\r\nx\r\nset b 0 0 1\r\nx\r\n");
    events(&watcher);
    rig_wait(rig, 3);
    rig_feed(rig, "get a\r\nflush_all\r\nget b\r\n");
    expect_told(&watcher, "type=item_get key=a status=expired clsid=0 cfd=64 size=0\n"
                          "type=item_get key=b status=flushed clsid=0 cfd=64 size=0\n");
    watcher_close(&watcher);
}

static void test_deletions(void **state)
{
    struct rig *rig = *state;
    struct watcher watcher;

    rig_feed(rig, "set a 0 0 3\r\nabc\r\nset b 0 0 3\r\nabc\r\nset c 0 0 3\r\nabc\r\n");
    watcher_open(&watcher, rig, rig->worker, "watch deletions\r\n");
    rig_feed(rig, "delete a\r\ndelete a\r\nmd b\r\nmd c I\r\nmd c x\r\nmd c q\r\n");
    expect_told(&watcher, "type=deleted key=a cmd=delete clsid=1 size=3\n"
                          "type=deleted key=b cmd=md clsid=1 size=3\n"
                          "type=deleted key=c cmd=md clsid=1 size=0\n");
    watcher_close(&watcher);
}

static void test_evictions(void **state)
{
    struct cache_config config = rig_config();
    struct watcher watcher;
    struct rig rig;
    char text[1100];
    const char *lines = "";

    config.settings.memory_bytes = 2 << 20;
    rig_open(&rig, &config);
    watcher_open(&watcher, &rig, rig.worker, "watch evictions\r\n");
    cache_suspend(rig.worker); /* a takeover has failed */
    assert_true(cache_continue(rig.worker));
    rig_wait(&rig, 1000);
    for (unsigned i = 0; i < 6000 && strstr(lines, "eviction") == NULL; i++) {
        size_t len = 0;

        rig_append(text, sizeof(text), &len, "set key%u 0 %u 900 noreply\r\n%0900u\r\n", i,
                   i % 2 ? 0 : 100, i);
        rig_feed_sliced(&rig, text, len, 0);
        if (i % 64 == 0) {
            rig_wait(&rig, 1);
            lines = events(&watcher);
        }
    }
    assert_non_null(strstr(lines, "type=eviction key=key0 fetch=no ttl="));
    assert_non_null(strstr(lines, "clsid=12 size=900\n"));
    assert_non_null(strstr(lines, "ttl=-1 la="));
    assert_in_range(strtoul(strstr(lines, "la=") + 3, NULL, 10), 1, 100); /* idle seconds */
    watcher_close(&watcher);
    rig_close(&rig);
}

static void test_connections(void **state)
{
    struct rig *rig = *state;
    struct cache_peer peer = {.transport = "tcp6", .addr = {[15] = 1}, .port = 5};
    struct cache_session *session;
    struct watcher watcher;

    watcher_open(&watcher, rig, rig->worker, "watch connevents\r\n");
    session = cache_session_open(rig->worker, &peer);
    cache_session_close(session);
    session = cache_session_open(rig->worker, &peer);
    cache_session_close_idle(session);
    expect_told(&watcher,
                "type=conn_new rip=::1 rport=5 transport=tcp cfd=68\n"
                "type=conn_close rip=::1 rport=5 transport=tcp reason=normal cfd=68\n"
                "type=conn_new rip=::1 rport=5 transport=tcp cfd=68\n"
                "type=conn_close rip=::1 rport=5 transport=tcp reason=idle_timeout cfd=68\n");
    watcher_close(&watcher);
}

/* Begins with the Unix time in microseconds. */
static void test_time_of_an_event(void **state)
{
    struct cache_config config = rig_config();
    struct watcher watcher;
    struct rig rig;

    config.start_unix_us = 250000;
    rig_open(&rig, &config);
    watcher_open(&watcher, &rig, rig.worker, "watch fetchers\r\n");
    rig_wait(&rig, 3);
    rig_feed(&rig, "get a\r\n");
    assert_memory_equal(events(&watcher), "ts=1700000003.250000 gid=1 type=item_get ", 41);
    watcher_close(&watcher);
    rig_close(&rig);
}

/* As memcached reports it: the server closes the connection, or the client does by quit. */
static void test_reasons_of_closing(void **state)
{
    static const struct {
        const char *text;
        const char *reason;
    } inputs[] = {
        {"quit\r\n", "reason=normal"},
        {"\x80\x07\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", "reason=normal"},
        {"\x80\x00\xff\xff\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0", "reason=error"},
    };
    static char long_line[4096];
    struct rig *rig = *state;
    struct cache_peer peer = {.transport = "tcp"};
    struct watcher watcher;

    memset(long_line, 'x', sizeof(long_line));
    watcher_open(&watcher, rig, rig->worker, "watch connevents\r\n");
    for (unsigned i = 0; i < 4; i++) {
        struct cache_session *session = cache_session_open(rig->worker, &peer);
        const char *text = i < 3 ? inputs[i].text : long_line;
        uint32_t len = i == 0 ? 6 : i < 3 ? 24 : sizeof(long_line);

        cache_session_input(session, (const uint8_t *)text, len, &rig->out.sink);
        assert_int_equal(cache_session_state(session), CACHE_SESSION_CLOSING);
        cache_session_close(session);
        rig_wait(rig, 1);
        assert_non_null(strstr(events(&watcher), i < 3 ? inputs[i].reason : "reason=error"));
    }
    watcher_close(&watcher);
}

static void test_reason_of_a_shutdown(void **state)
{
    struct cache_config config = rig_config();
    struct watcher watcher;
    struct rig rig;

    config.settings.shutdown_enabled = true;
    rig_open(&rig, &config);
    watcher_open(&watcher, &rig, rig.worker, "watch connevents\r\n");
    rig_feed(&rig, "shutdown\r\n");
    cache_session_close(rig.session);
    assert_non_null(strstr(events(&watcher), "reason=shutdown cfd=64\n"));
    rig.session = cache_session_open(rig.worker, &(struct cache_peer){.transport = "tcp"});
    watcher_close(&watcher);
    rig_close(&rig);
}

static void test_reason_of_an_upload_without_progress(void **state)
{
    struct cache_config config = rig_config();
    struct watcher watcher;
    struct rig rig;

    config.settings.upload_timeout_s = 10;
    rig_open(&rig, &config);
    watcher_open(&watcher, &rig, rig.worker, "watch connevents\r\n");
    rig_feed(&rig, "set a 0 0 5\r\nx");
    rig_wait(&rig, 10);
    assert_int_equal(cache_session_state(rig.session), CACHE_SESSION_CLOSING);
    cache_session_close(rig.session);
    assert_non_null(strstr(events(&watcher), "reason=idle_timeout cfd=64\n"));
    rig.session = cache_session_open(rig.worker, &(struct cache_peer){.transport = "tcp"});
    watcher_close(&watcher);
    rig_close(&rig);
}

/* The watcher is one worker's, the event another one's; both workers' events come in order. */
static void test_other_worker(void **state)
{
    struct rig *rig = *state;
    struct cache_worker *second = cache_join(rig->cache);
    struct cache_peer peer = {.transport = "tcp"};
    struct cache_session *there = cache_session_open(second, &peer);
    struct watcher watcher, another;
    struct rig_sink out;
    const char *lines;

    rig_sink_init(&out, second);
    watcher_open(&watcher, rig, rig->worker, "watch\r\n");
    watcher_open(&another, rig, rig->worker, "watch\r\n");
    cache_session_input(there, (const uint8_t *)"get early\r\n", 11, &out.sink);
    cache_tick(second, rig->now_us);
    for (unsigned i = 0; i < 3; i++) {
        cache_session_input(there, (const uint8_t *)"get there\r\n", 11, &out.sink);
        rig_feed(rig, "get here\r\n");
    }
    lines = events(&watcher);
    for (unsigned i = 1; i <= 6; i++) {
        char start[32];
        size_t len = 0;

        rig_append(start, sizeof(start), &len, " gid=%u ", i);
        assert_non_null(strstr(lines, start));
        assert_int_equal(strncmp(strstr(lines, "key=") + 4, i % 2 ? "there" : "here", 4), 0);
        lines = strchr(lines, '\n') + 1;
    }
    assert_string_equal(lines, "");
    rig_sink_free(&out);
    cache_session_close(there);
    cache_leave(second); /* with references to both */
    watcher_close(&watcher);
    watcher_close(&another);
}

/* A worker that knows a watcher may leave, or outlive it. */
static void test_ends_in_any_order(void **state)
{
    struct rig *rig = *state;
    struct cache_worker *second = cache_join(rig->cache);
    struct watcher watcher;

    watcher_open(&watcher, rig, rig->worker, "watch\r\n");
    cache_tick(second, rig->now_us);
    watcher_close(&watcher);
    cache_tick(second, rig->now_us);
    watcher_open(&watcher, rig, second, "watch\r\n");
    watcher_close(&watcher);
    cache_leave(second);
    watcher_open(&watcher, rig, rig->worker, "watch\r\n");
    second = cache_join(rig->cache);
    cache_leave(second);
    rig_feed(rig, "get a\r\n");
    assert_non_null(strstr(events(&watcher), "key=a"));
    watcher_close(&watcher);
}

/* What the client is too slow for is skipped, and said so. */
static void test_too_slow(void **state)
{
    struct rig *rig = *state;
    struct watcher watcher;
    unsigned lines = 0, skipped = 0;
    bool more = true;

    watcher_open(&watcher, rig, rig->worker, "watch\r\n");
    watcher.out.full_bytes = 1000;
    for (unsigned i = 0; i < 1000; i++)
        rig_feed(rig, "get abcdefgh\r\n");
    while (more) {
        const char *at = events(&watcher);

        more = *at != '\0';
        for (; (at = strchr(at, '\n')) != NULL; at++)
            lines++;
        at = (const char *)watcher.out.taken;
        if ((at = strstr(at, "skipped=")) != NULL)
            skipped = (unsigned)strtoul(at + 8, NULL, 10);
    }
    assert_in_range(skipped, 500, 999);
    assert_int_equal(lines - 1 + skipped, 1000);
    assert_int_equal(rig_stat(rig, NULL, "log_watcher_skipped"), skipped);
    assert_int_equal(rig_stat(rig, NULL, "log_worker_dropped"), skipped);
    assert_int_equal(rig_stat(rig, NULL, "log_worker_written"), 1000 - skipped);
    assert_int_equal(rig_stat(rig, NULL, "log_watcher_sent"), 1000 - skipped);
    rig_feed(rig, "get again\r\n");
    assert_non_null(strstr(events(&watcher), "key=again status=not_found"));
    watcher_close(&watcher);
}

static void test_each_is_told_its_kinds(void **state)
{
    struct rig *rig = *state;
    struct watcher fetchers, deletions;

    watcher_open(&fetchers, rig, rig->worker, "watch fetchers\n");
    watcher_open(&deletions, rig, rig->worker, "watch deletions\n");
    (void)events(&fetchers);
    (void)events(&deletions);
    rig_feed(rig, "get a\r\n");
    expect_told(&deletions, "");
    assert_string_not_equal(events(&fetchers), "");
    watcher_close(&fetchers);
    watcher_close(&deletions);
    assert_int_equal(rig->worker->watching, 0);
}

static void test_nobody_watches(void **state)
{
    struct rig *rig = *state;

    rig_feed(rig, "set a 0 0 1\r\nx\r\nget a\r\ndelete a\r\n");
    assert_int_equal(rig_stat(rig, NULL, "log_worker_written"), 0);
    assert_int_equal(rig->worker->event_mask, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_replies),
        cmocka_unit_test(test_not_allowed),
        TEST(test_not_over_datagrams),
        TEST(test_at_most_twenty),
        TEST(test_events_end_with_their_watcher),
        TEST(test_fetchers_and_mutations),
        TEST(test_fetches_of_an_interrupted_reply),
        TEST(test_expired_and_flushed),
        TEST(test_deletions),
        cmocka_unit_test(test_evictions),
        TEST(test_connections),
        cmocka_unit_test(test_time_of_an_event),
        TEST(test_reasons_of_closing),
        cmocka_unit_test(test_reason_of_a_shutdown),
        cmocka_unit_test(test_reason_of_an_upload_without_progress),
        TEST(test_other_worker),
        TEST(test_ends_in_any_order),
        TEST(test_too_slow),
        TEST(test_each_is_told_its_kinds),
        TEST(test_nobody_watches),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
