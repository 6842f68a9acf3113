/* SPDX-License-Identifier: BSD-3-Clause */
/* The lines of a watcher's stream, to the byte. */
#include "rig.h"

#include <stdio.h>

#include "cache/watch.h"

static void expect_line(const struct cache_event *event, const char *expected)
{
    uint8_t line[CACHE_WATCH_LINE_MAX + 1];
    uint32_t n = cache_watch_line(line, event);

    assert_in_range(n, 1, CACHE_WATCH_LINE_MAX);
    line[n] = '\0';
    assert_string_equal((const char *)line, expected);
}

static struct cache_event keyed(enum cache_event_kind kind, const char *key)
{
    struct cache_event event = {
        .kind = (uint8_t)kind,
        .key_len = (uint8_t)strlen(key),
        .id = 12,
        .unix_us = UINT64_C(1700000000000042),
        .class_id = 3,
        .conn = 65,
        .value_bytes = 70,
        .command = "set",
    };

    memcpy(event.what.key, key, strlen(key));
    return event;
}

static void test_item_get(void **state)
{
    static const struct {
        enum kv_found found;
        const char *line;
    } cases[] = {
        {KV_HIT, "ts=1700000000.000042 gid=12 type=item_get key=a%20b%2F status=found clsid=3 "
                 "cfd=65 size=70\n"},
        {KV_MISS, "ts=1700000000.000042 gid=12 type=item_get key=a%20b%2F status=not_found "
                  "clsid=3 cfd=65 size=70\n"},
        {KV_MISS_EXPIRED, "ts=1700000000.000042 gid=12 type=item_get key=a%20b%2F status=expired "
                          "clsid=3 cfd=65 size=70\n"},
        {KV_MISS_FLUSHED, "ts=1700000000.000042 gid=12 type=item_get key=a%20b%2F status=flushed "
                          "clsid=3 cfd=65 size=70\n"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct cache_event event = keyed(CACHE_EVENT_GET, "a b/");

        event.status = (uint8_t)cases[i].found;
        expect_line(&event, cases[i].line);
    }
}

static void test_item_store(void **state)
{
    static const struct {
        enum cache_outcome outcome;
        const char *name;
    } cases[] = {
        {CACHE_OK, "stored"},           {CACHE_NOT_FOUND, "not_found"},
        {CACHE_EXISTS, "exists"},       {CACHE_NOT_STORED, "not_stored"},
        {CACHE_TOO_LARGE, "too_large"}, {CACHE_NO_MEMORY, "no_memory"},
    };
    char expected[200];

    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct cache_event event = keyed(CACHE_EVENT_STORE, "k");

        event.status = (uint8_t)cases[i].outcome;
        event.ttl_s = 100;
        snprintf(expected, sizeof(expected),
                 "ts=1700000000.000042 gid=12 type=item_store key=k status=%s cmd=set ttl=100 "
                 "clsid=3 cfd=65 size=70\n",
                 cases[i].name);
        expect_line(&event, expected);
    }
}

static void test_eviction_and_deletion(void **state)
{
    struct cache_event eviction = keyed(CACHE_EVENT_EVICTION, "k");
    struct cache_event deletion = keyed(CACHE_EVENT_DELETION, "k");

    eviction.ttl_s = -1;
    eviction.idle_s = 9;
    expect_line(&eviction, "ts=1700000000.000042 gid=12 type=eviction key=k fetch=no ttl=-1 la=9 "
                           "clsid=3 size=70\n");
    eviction.status = 1;
    eviction.ttl_s = 30;
    expect_line(&eviction, "ts=1700000000.000042 gid=12 type=eviction key=k fetch=yes ttl=30 la=9 "
                           "clsid=3 size=70\n");
    deletion.command = "md";
    expect_line(&deletion,
                "ts=1700000000.000042 gid=12 type=deleted key=k cmd=md clsid=3 size=70\n");
}

static void test_connections(void **state)
{
    struct cache_event event = {.kind = CACHE_EVENT_CONN_NEW, .id = 1, .conn = 70};

    event.what.peer = (struct cache_peer){.transport = "tcp", .addr = {10, 1, 2, 3}, .port = 99};
    expect_line(&event,
                "ts=0.000000 gid=1 type=conn_new rip=10.1.2.3 rport=99 transport=tcp cfd=70\n");
    event.kind = CACHE_EVENT_CONN_CLOSE;
    event.status = CACHE_CLOSE_IDLE;
    event.what.peer = (struct cache_peer){.transport = "tcp6", .addr = {[15] = 1}, .port = 99};
    expect_line(&event, "ts=0.000000 gid=1 type=conn_close rip=::1 rport=99 transport=tcp "
                        "reason=idle_timeout cfd=70\n");
    event.status = CACHE_CLOSE_NORMAL;
    event.what.peer = (struct cache_peer){.transport = "unix"};
    expect_line(&event, "ts=0.000000 gid=1 type=conn_close rip=unix rport=0 transport=local "
                        "reason=normal cfd=70\n");
}

/* All numbers at their largest, and a key of which each byte takes three. */
static void test_longest(void **state)
{
    struct cache_event event;
    uint8_t line[CACHE_WATCH_LINE_MAX];

    memset(&event, 0xff, sizeof(event));
    event.kind = CACHE_EVENT_STORE;
    event.status = CACHE_NOT_STORED;
    event.key_len = KV_KEY_MAX;
    event.ttl_s = INT64_MIN;
    event.command = "prepend";
    assert_in_range(cache_watch_line(line, &event), 3 * KV_KEY_MAX, CACHE_WATCH_LINE_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_item_get),
        cmocka_unit_test(test_item_store),
        cmocka_unit_test(test_eviction_and_deletion),
        cmocka_unit_test(test_connections),
        cmocka_unit_test(test_longest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
