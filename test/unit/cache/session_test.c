/* SPDX-License-Identifier: BSD-3-Clause */
/* The stream: slices, full sinks, failing sinks, connections that come, go and die. */
#include "rig.h"

#include <stdio.h>

#include "cache/session.h"
#include "mcproto/mcproto.h"

extern void *calloc_real(size_t count, size_t bytes) __asm__("__real_calloc");
extern void *calloc_watched(size_t count, size_t bytes) __asm__("__wrap_calloc");

static bool memory_is_refused;

void *calloc_watched(size_t count, size_t bytes)
{
    return memory_is_refused ? NULL : calloc_real(count, bytes);
}

#define BAD_FORMAT "CLIENT_ERROR bad command line format\r\n"

/* ---- segmentation invariance ------------------------------------------------------------- */

/* A bit of everything, with values of odd lengths, errors that swallow, and errors that do not. */
static const char script[] =
    "set a 1 0 3\r\nabc\r\nget a\r\nget a b a\r\n"
    "set b 0 0 0\r\n\r\nget b a\n"
    "add a 0 0 1\r\nx\r\nreplace a 2 0 5\r\nhello\r\nappend a 0 0 1\r\n!\r\n"
    "prepend a 0 0 4 noreply\r\nwell\r\nget a\r\ncas a 0 0 1 0\r\nx\r\n"
    "set n 0 0 2\r\n10\r\nincr n 5\r\ndecr n 10\r\nget n\r\nincr a 1\r\n"
    "incr n x\r\nincr none 1\r\ndelete none\r\ntouch n 100\r\n"
    "gat 100 n a none\r\nset bad 0 0 3\r\nabcdefg\r\n"
    "set k x 0 5\r\nget a\r\nset k 0 0 5 noreply\r\n\r\n\r\nx\r\nget k\r\n"
    "\r\nfoo\r\n get a\r\nfoo noreply\r\nverbosity 1\r\nversion\r\n"
    "set big 0 0 2000\r\n"
    "@\r\nget big a n\r\n"
    "delete a\r\nget a b\r\nstats reset\r\nstats bogus\r\nstats sizes\r\n"
    "flush_all 100\r\nflush_all noreply\r\nget b\r\nget big\r\nquit\r\n"
    "get after quit\r\n";

struct stream {
    char *bytes;
    size_t len;
    size_t len_to_quit; /* the bytes consumed */
};

/* The script with '@' written out as 2000 bytes. */
static struct stream stream_new(void)
{
    const char *at = strchr(script, '@');
    size_t before = (size_t)(at - script);
    struct stream stream;

    stream.len = sizeof(script) - 2 + 2000;
    stream.bytes = malloc(stream.len + 1);
    assert_non_null(stream.bytes);
    memcpy(stream.bytes, script, before);
    for (size_t i = 0; i < 2000; i++)
        stream.bytes[before + i] = (char)('\n' + i % 71);
    memcpy(stream.bytes + before + 2000, at + 1, sizeof(script) - before - 1);
    stream.len_to_quit = (size_t)(strstr(stream.bytes, "quit\r\n") - stream.bytes) + 6;
    return stream;
}

/* Runs the stream from an empty cache and compares with the replies of the first run. */
static void run_and_compare(struct rig *rig, const struct stream *stream, const char *expected,
                            const size_t *cuts, size_t cut_count)
{
    struct cache_peer peer = {.transport = "tcp"};
    size_t at = 0;

    rig_feed(rig, "flush_all\r\n");
    rig_forget(&rig->out);
    for (size_t i = 0; i <= cut_count; i++) {
        size_t end = i < cut_count ? cuts[i] : stream->len;

        at += rig_feed_sliced(rig, stream->bytes + at, end - at, 0);
        if (at < end)
            break;
    }
    assert_int_equal(at, stream->len_to_quit);
    assert_int_equal(cache_session_state(rig->session), CACHE_SESSION_CLOSING);
    rig_drain(&rig->out);
    assert_string_equal((char *)rig->out.taken, expected);
    cache_session_close(rig->session);
    rig->session = cache_session_open(rig->worker, &peer);
    assert_non_null(rig->session);
    rig_sink_free(&rig->out);
}

/* The replies to the stream offered in one piece to a roomy sink. */
static char *reference_replies(const struct stream *stream)
{
    struct cache_config config = rig_config();
    struct rig rig;
    char *replies;

    rig_open(&rig, &config);
    rig.out.room_bytes = 65536;
    assert_int_equal(rig_feed_sliced(&rig, stream->bytes, stream->len, 0), stream->len_to_quit);
    replies = strdup(rig_reply(&rig));
    assert_non_null(replies);
    rig_close(&rig);
    return replies;
}

struct sink_shape {
    uint32_t room_bytes;
    uint32_t full_bytes;
};

static const struct sink_shape shapes[] = {
    {0, 0}, {1, 0}, {7, 1}, {700, 1}, {64, 10}, {1024, 100}, {65536, 0},
};

static void sink_shape_set(struct rig *rig, const struct sink_shape *shape)
{
    rig_sink_init(&rig->out, rig->worker);
    rig->out.room_bytes = shape->room_bytes;
    rig->out.full_bytes = shape->full_bytes;
}

static void test_the_reference_is_right(void **state)
{
    struct stream stream = stream_new();
    char *replies = reference_replies(&stream);
    static const char start[] = "STORED\r\n"
                                "VALUE a 1 3\r\nabc\r\nEND\r\n"
                                "VALUE a 1 3\r\nabc\r\nVALUE a 1 3\r\nabc\r\nEND\r\n"
                                "STORED\r\n"
                                "VALUE b 0 0\r\n\r\nVALUE a 1 3\r\nabc\r\nEND\r\n"
                                "NOT_STORED\r\nSTORED\r\nSTORED\r\n"
                                "VALUE a 2 10\r\nwellhello!\r\nEND\r\nEXISTS\r\n"
                                "STORED\r\n15\r\n5\r\nVALUE n 0 2\r\n5 \r\nEND\r\n";
    static const char end[] = "VALUE b 0 0\r\n\r\nEND\r\nRESET\r\nERROR\r\n"
                              "STAT sizes_status disabled\r\nEND\r\nOK\r\nEND\r\nEND\r\n";

    (void)state;
    assert_memory_equal(replies, start, sizeof(start) - 1);
    assert_string_equal(replies + strlen(replies) - (sizeof(end) - 1), end);
    free(replies);
    free(stream.bytes);
}

static void test_cut_at_every_byte(void **state)
{
    struct stream stream = stream_new();
    char *replies = reference_replies(&stream);
    struct rig *rig = *state;

    rig_sink_free(&rig->out);
    for (size_t cut = 0; cut <= rig_rounds(stream.len); cut++) {
        sink_shape_set(rig, &shapes[cut % (sizeof(shapes) / sizeof(shapes[0]))]);
        run_and_compare(rig, &stream, replies, &cut, 1);
    }
    rig_sink_init(&rig->out, rig->worker);
    free(replies);
    free(stream.bytes);
}

static void test_one_byte_at_a_time(void **state)
{
    struct stream stream = stream_new();
    char *replies = reference_replies(&stream);
    size_t *cuts = malloc(stream.len * sizeof(*cuts));
    struct rig *rig = *state;

    assert_non_null(cuts);
    for (size_t i = 0; i < stream.len; i++)
        cuts[i] = i;
    rig_sink_free(&rig->out);
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        sink_shape_set(rig, &shapes[i]);
        run_and_compare(rig, &stream, replies, cuts, stream.len);
    }
    rig_sink_init(&rig->out, rig->worker);
    free(cuts);
    free(replies);
    free(stream.bytes);
}

static void test_cut_at_random(void **state)
{
    struct stream stream = stream_new();
    char *replies = reference_replies(&stream);
    struct rig *rig = *state;
    uint32_t random = 1;

    rig_sink_free(&rig->out);
    for (size_t run = 0; run < rig_rounds(500); run++) {
        size_t cuts[64];
        size_t count = 0;
        size_t at = 0;

        while (count < 64) {
            random = random * 1664525u + 1013904223u;
            at += random >> (20 + (random & 3) * 3);
            if (at >= stream.len)
                break;
            cuts[count++] = at;
        }
        sink_shape_set(rig, &shapes[run % (sizeof(shapes) / sizeof(shapes[0]))]);
        run_and_compare(rig, &stream, replies, cuts, count);
    }
    rig_sink_init(&rig->out, rig->worker);
    free(replies);
    free(stream.bytes);
}

static void test_deep_pipeline(void **state)
{
    static char request[65536];
    static char reply[65536];
    size_t n = 0;
    size_t m = 0;

    for (unsigned i = 0; i < 64; i++) {
        rig_append(request, sizeof(request), &n, "set k%u 0 0 2\r\n%02u\r\nget k%u\r\n", i, i, i);
        rig_append(reply, sizeof(reply), &m, "STORED\r\nVALUE k%u 0 2\r\n%02u\r\nEND\r\n", i, i);
    }
    rig_expect(*state, request, reply);
}

/* ---- lines ------------------------------------------------------------------------------- */

static void test_long_lines(void **state)
{
    struct cache_peer peer = {.transport = "tcp"};
    struct rig *rig = *state;
    static char line[4096];

    memset(line, 'x', sizeof(line));
    for (int whole = 0; whole < 2; whole++) {
        size_t fed = rig_feed_sliced(rig, line, 2048, whole ? 0 : 100);

        assert_int_equal(fed, 2048);
        assert_int_equal(cache_session_state(rig->session), CACHE_SESSION_OPEN);
        rig_feed_sliced(rig, line, 1, 0);
        assert_int_equal(cache_session_state(rig->session), CACHE_SESSION_CLOSING);
        assert_string_equal(rig_reply(rig), "");
        cache_session_close(rig->session);
        rig->session = cache_session_open(rig->worker, &peer);
    }
}

/* The keys of get may fill a line of a mebibyte, no more, however it arrives. */
static void test_long_get(void **state)
{
    enum { KEYS = 100000, LINE_MAX_BYTES = 3 + KEYS * 8 + 2 };
    struct rig *rig = *state;
    static char line[MC_KEYS_LINE_MAX + 10];
    size_t n = 3;

    rig_expect(rig, "set key0007 0 0 1\r\nx\r\nset key9999 0 0 1\r\ny\r\n", "STORED\r\nSTORED\r\n");
    memcpy(line, "get", 3);
    for (unsigned i = 0; i < KEYS; i++)
        rig_append(line, sizeof(line), &n, " key%04u", i % 10000);
    memcpy(line + n, "\r\n", 3);
    for (size_t slice = 1; slice <= 1 << 20; slice = slice * 37 + 1) {
        const char *reply;

        assert_int_equal(rig_feed_sliced(rig, line, n + 2, slice), n + 2);
        reply = rig_reply(rig);
        assert_int_equal(strlen(reply), 10 * 2 * strlen("VALUE key0007 0 1\r\nx\r\n") + 5);
        assert_string_equal(reply + strlen(reply) - 25, "LUE key9999 0 1\r\ny\r\nEND\r\n");
    }
    memset(line + 4, 'x', sizeof(line) - 4);
    line[3] = ' ';
    assert_int_equal(rig_feed_sliced(rig, line, MC_KEYS_LINE_MAX, 1460), MC_KEYS_LINE_MAX);
    assert_int_equal(cache_session_state(rig->session), CACHE_SESSION_OPEN);
    rig_feed_sliced(rig, line, 10, 0);
    assert_int_equal(cache_session_state(rig->session), CACHE_SESSION_CLOSING);
}

static void test_http_is_hung_up_on(void **state)
{
    struct rig *rig = *state;

    assert_int_equal(rig_feed(rig, "GET / HTTP/1.1\r\nget a\r\n"), 16);
    assert_int_equal(cache_session_state(rig->session), CACHE_SESSION_CLOSING);
    assert_string_equal(rig_reply(rig), "");
}

static void test_quit_leaves_the_rest_unread(void **state)
{
    struct rig *rig = *state;

    assert_int_equal(rig_feed(rig, "set a 0 0 1\r\nx\r\nget a\r\nquit foo\r\nset a 0 0 1\r\ny\r\n"),
                     33);
    assert_string_equal(rig_reply(rig), "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
    assert_int_equal(cache_session_state(rig->session), CACHE_SESSION_CLOSING);
    assert_int_equal(
        cache_session_input(rig->session, (const uint8_t *)"get a\r\n", 7, &rig->out.sink), 0);
}

/* ---- sinks ------------------------------------------------------------------------------- */

static uint32_t offer(struct rig *rig, const char *text)
{
    return cache_session_input(rig->session, (const uint8_t *)text, (uint32_t)strlen(text),
                               &rig->out.sink);
}

static void test_a_full_sink_blocks(void **state)
{
    struct rig *rig = *state;

    rig_expect(rig, "set a 0 0 1\r\nx\r\n", "STORED\r\n");
    rig->out.sink.full = true;
    assert_int_equal(offer(rig, "get a\r\n"), 0);
    assert_int_equal(cache_session_state(rig->session), CACHE_SESSION_BLOCKED);
    cache_session_resume(rig->session, &rig->out.sink);
    assert_int_equal(cache_session_state(rig->session), CACHE_SESSION_BLOCKED);
    assert_int_equal(offer(rig, "get a\r\n"), 0);
    rig->out.sink.full = false;
    assert_int_equal(offer(rig, "get a\r\n"), 0);
    cache_session_resume(rig->session, &rig->out.sink);
    assert_int_equal(cache_session_state(rig->session), CACHE_SESSION_OPEN);
    assert_int_equal(offer(rig, "get a\r\n"), 7);
    assert_string_equal(rig_reply(rig), "VALUE a 0 1\r\nx\r\nEND\r\n");
}

/* Full after each value: a reply of many keys stops and continues after each. */
static void test_multi_get_is_interrupted(void **state)
{
    struct rig *rig = *state;
    unsigned stops = 0;

    rig_expect(rig, "set a 0 0 1\r\nx\r\nset b 0 0 1\r\ny\r\n", "STORED\r\nSTORED\r\n");
    rig->out.full_bytes = 1;
    rig->out.room_bytes = 1;
    rig_forget(&rig->out);
    assert_int_equal(offer(rig, "get a none b a b a b\r\nget b\r\n"), 22);
    while (cache_session_state(rig->session) == CACHE_SESSION_BLOCKED) {
        stops++;
        assert_int_equal(offer(rig, "get b\r\n"), 0);
        rig_drain(&rig->out);
        cache_session_resume(rig->session, &rig->out.sink);
    }
    assert_true(stops >= 2);
    rig_drain(&rig->out);
    assert_string_equal((char *)rig->out.taken, "VALUE a 0 1\r\nx\r\nVALUE b 0 1\r\ny\r\n"
                                                "VALUE a 0 1\r\nx\r\nVALUE b 0 1\r\ny\r\n"
                                                "VALUE a 0 1\r\nx\r\nVALUE b 0 1\r\ny\r\n"
                                                "END\r\n");
}

static void test_interrupted_gat_touches_each_key_once(void **state)
{
    struct rig *rig = *state;

    rig_feed(rig, "set a 0 0 1\r\nx\r\nset b 0 0 1\r\ny\r\nset c 0 0 1\r\nz\r\n");
    rig->out.full_bytes = 1;
    rig->out.room_bytes = 1;
    rig_drain(&rig->out);
    rig_feed_sliced(rig, "gats 5 a b c\r\n", 14, 3);
    rig->out.full_bytes = 0;
    assert_int_equal(rig_stat(rig, NULL, "cmd_touch"), 3);
    rig_wait(rig, 5);
    rig_expect(rig, "get a b c\r\n", "END\r\n");
}

static void test_closed_in_the_middle_of_a_reply(void **state)
{
    struct cache_peer peer = {.transport = "tcp"};
    struct rig *rig = *state;

    rig_feed(rig, "set a 0 0 1\r\nx\r\n");
    rig->out.full_bytes = 1;
    rig->out.room_bytes = 1;
    rig_drain(&rig->out);
    offer(rig, "get a a a a\r\n");
    assert_int_equal(cache_session_state(rig->session), CACHE_SESSION_BLOCKED);
    cache_session_close(rig->session);
    rig->session = cache_session_open(rig->worker, &peer);
}

/* Whichever call fails, the session gives the connection up and everything is given back. */
static void test_failing_sink(void **state)
{
    struct cache_peer peer = {.transport = "tcp"};
    struct rig *rig = *state;
    char text[] = "get small\r\nget big\r\nincr n 1\r\nset x 0 0 1\r\nx\r\nget big small\r\n"
                  "stats\r\nversion\r\nfoo\r\nset y x 0 1\r\nx\r\n";
    bool finished = false;

    rig_feed(rig, "set small 0 0 1\r\nx\r\nset n 0 0 1\r\n1\r\n");
    rig_expect_set(rig, "big", 100000, 'x', "STORED\r\n");
    for (int calls = 0; !finished; calls++) {
        rig_drain(&rig->out);
        rig->out.fail_after = calls;
        rig_feed_sliced(rig, text, sizeof(text) - 1, 5);
        finished = cache_session_state(rig->session) == CACHE_SESSION_OPEN;
        cache_session_close(rig->session);
        rig->session = cache_session_open(rig->worker, &peer);
        assert_true(calls < 1000);
    }
}

/* ---- values by reference ----------------------------------------------------------------- */

static void test_sizes_of_values(void **state)
{
    static const uint32_t sizes[] = {0,    1,    100,  700,   720,     721,     722,    723,  724,
                                     725,  1000, 1024, 1025,  8188,    8189,    8190,   8191, 8192,
                                     8193, 8194, 9000, 65536, 1 << 17, 1000000, 1048510};
    struct rig *rig = *state;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        char line[64];
        const char *reply;

        rig_expect_set(rig, "value", sizes[i], 'v', "STORED\r\n");
        rig_drain(&rig->out);
        rig->out.ref_calls = 0;
        rig_feed(rig, "get value\r\n");
        reply = rig_reply(rig);
        snprintf(line, sizeof(line), "VALUE value 0 %u\r\n", sizes[i]);
        assert_memory_equal(reply, line, strlen(line));
        reply += strlen(line);
        assert_int_equal(strspn(reply, "v"), sizes[i]);
        assert_string_equal(reply + sizes[i], "\r\nEND\r\n");
        if (sizes[i] + 2 < 8192)
            assert_int_equal(rig->out.ref_calls, 0);
        else
            assert_true(rig->out.ref_calls > 0);
    }
}

/* Referenced bytes stay unchanged until they are released. */
static void test_references_outlive_the_item(void **state)
{
    struct rig *rig = *state;

    rig->out.hold_refs = true;
    rig_expect_set(rig, "big", 30000, 'a', "STORED\r\n");
    rig_feed(rig, "get big\r\ndelete big\r\n");
    rig_expect_set(rig, "big", 30000, 'b', "STORED\r\n");
    rig_feed(rig, "get big\r\nflush_all\r\n");
    for (unsigned i = 0; i < 40; i++) {
        rig_expect_set(rig, "other", 900000 + i, 'c', "STORED\r\n");
        rig_wait(rig, 1);
    }
    assert_true(rig->out.ref_count >= 2);
    rig_release(&rig->out);
}

/* ---- connections ------------------------------------------------------------------------- */

static void test_dies_in_the_middle_of_an_upload(void **state)
{
    struct cache_peer peer = {.transport = "tcp"};
    struct rig *rig = *state;

    rig_feed(rig, "set a 0 0 1\r\nx\r\n");
    for (int i = 0; i < 200; i++) {
        rig_feed(rig, "set a 0 0 1000000\r\nabc");
        cache_session_close(rig->session);
        rig->session = cache_session_open(rig->worker, &peer);
        rig_wait(rig, 1);
    }
    rig_drain(&rig->out);
    rig_expect(rig, "get a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n");
    rig_expect(rig, "set a 0 0 2000000\r\n", "");
    cache_session_close(rig->session);
    rig->session = cache_session_open(rig->worker, &peer);
    rig_feed(rig, "get a");
    cache_session_close(rig->session);
    rig->session = cache_session_open(rig->worker, &peer);
    rig_expect(rig, "version\r\n", "VERSION 1.6.45\r\n");
}

static void test_limit_of_connections(void **state)
{
    struct cache_config config = rig_config();
    struct cache_peer peer = {.transport = "tcp"};
    struct cache_session *sessions[199];
    struct rig rig;

    (void)state;
    config.settings.connections_max = 200;
    rig_open(&rig, &config);
    for (unsigned i = 0; i < 199; i++) {
        sessions[i] = cache_session_open(rig.worker, &peer);
        assert_non_null(sessions[i]);
    }
    assert_null(cache_session_open(rig.worker, &peer));
    assert_null(cache_session_open(rig.worker, &peer));
    assert_int_equal(rig_stat(&rig, NULL, "curr_connections"), 200);
    assert_int_equal(rig_stat(&rig, NULL, "rejected_connections"), 2);
    assert_int_equal(rig_stat(&rig, NULL, "total_connections"), 200);
    cache_session_close(sessions[0]);
    sessions[0] = cache_session_open(rig.worker, &peer);
    assert_non_null(sessions[0]);
    for (unsigned i = 0; i < 199; i++)
        cache_session_close(sessions[i]);
    assert_int_equal(rig_stat(&rig, NULL, "curr_connections"), 1);
    rig_close(&rig);
}

/* Errors of TLS within the handshake and after it, and handshakes that resume no session. */
static void test_tls_is_counted(void **state)
{
    struct cache_config config = rig_config();
    struct rig rig;

    (void)state;
    config.settings.tls.enabled = true;
    config.settings.tls.session_cache = true;
    rig_open(&rig, &config);
    cache_session_tls_failed(rig.session, true, "no shared cipher");
    assert_int_equal(rig_stat(&rig, NULL, "ssl_handshake_errors"), 1);
    assert_int_equal(rig_stat(&rig, NULL, "ssl_proto_errors"), 0);
    cache_session_tls_failed(rig.session, false, "bad record mac");
    cache_session_tls_failed(rig.session, false, "bad record mac");
    assert_int_equal(rig_stat(&rig, NULL, "ssl_handshake_errors"), 1);
    assert_int_equal(rig_stat(&rig, NULL, "ssl_proto_errors"), 2);
    cache_count_tls_handshake(rig.worker, true);
    assert_int_equal(rig_stat(&rig, NULL, "ssl_new_sessions"), 0);
    cache_count_tls_handshake(rig.worker, false);
    assert_int_equal(rig_stat(&rig, NULL, "ssl_new_sessions"), 1);
    rig_close(&rig);
}

/* A connection for which there is no memory is none. */
static void test_connection_without_memory(void **state)
{
    struct cache_session *sessions[CACHE_SESSIONS_PER_SLAB];
    struct cache_peer peer = {.transport = "tcp"};
    struct rig *rig = *state;
    unsigned count = 0;

    memory_is_refused = true;
    while ((sessions[count] = cache_session_open(rig->worker, &peer)) != NULL) {
        count++;
        assert_true(count < CACHE_SESSIONS_PER_SLAB);
    }
    memory_is_refused = false;
    assert_int_equal(rig_stat(rig, NULL, "curr_connections"), 1 + count);
    assert_int_equal(rig_stat(rig, NULL, "malloc_fails"), 1);
    while (count > 0)
        cache_session_close(sessions[--count]);
    assert_int_equal(rig_stat(rig, NULL, "curr_connections"), 1);
}

static void test_bytes_are_counted(void **state)
{
    struct rig *rig = *state;
    uint64_t written;

    rig_feed(rig, "set a 0 0 1\r\nx\r\nget a\r\n");
    rig_expect_set(rig, "big", 20000, 'x', "STORED\r\n");
    rig_feed(rig, "get big\r\n");
    written = rig->out.taken_len;
    assert_int_equal(rig_stat(rig, NULL, "bytes_written"), written);
    assert_int_equal(rig_stat(rig, NULL, "bytes_read"),
                     23 + 19 + 20002 + 9 + 2 * strlen("stats\r\n"));
    rig_feed(rig, "quit\r\nget a\r\n");
}

/* What a session leaves because its sink is full is offered again, but read once. */
static void test_bytes_offered_again_are_counted_once(void **state)
{
    static const char requests[] = "get a\r\nget a\r\nget a\r\n";
    struct rig *rig = *state;

    rig->out.full_bytes = 1;
    rig_feed(rig, requests);
    assert_string_equal(rig_reply(rig), "END\r\n");
    rig->out.full_bytes = 0;
    assert_int_equal(rig_stat(rig, NULL, "bytes_read"), strlen(requests) + strlen("stats\r\n"));
}

/* A hint for data that never came must not lead to another key. */
static void test_stale_hint(void **state)
{
    struct rig *rig = *state;
    uint8_t data[] = "get aaaa\r\n";

    rig_feed(rig, "set aaaa 0 0 1\r\nx\r\nset bbbb 0 0 1\r\ny\r\n");
    cache_session_prefetch_bucket(rig->session, data, sizeof(data) - 1);
    cache_session_prefetch_item(rig->session);
    cache_session_prefetch_value(rig->session);
    rig_wait(rig, 0);
    memcpy(data + 4, "bbbb", 4);
    rig_drain(&rig->out);
    cache_session_input(rig->session, data, sizeof(data) - 1, &rig->out.sink);
    assert_string_equal(rig_reply(rig), "VALUE bbbb 0 1\r\ny\r\nEND\r\n");
}

static void test_prefetch_of_anything(void **state)
{
    static const char *const inputs[] = {
        "",      " ",          "g",         "get",    "get ",
        "get  ", "get a",      "get a\r\n", "set \n", "abcdefgh ijk\r\n",
        "\r\n",  "gat 0 a\r\n"};
    struct rig *rig = *state;
    static char line[600];

    for (size_t i = 0; i < sizeof(inputs) / sizeof(inputs[0]); i++) {
        cache_session_prefetch_bucket(rig->session, (const uint8_t *)inputs[i],
                                      (uint32_t)strlen(inputs[i]));
        cache_session_prefetch_item(rig->session);
        cache_session_prefetch_value(rig->session);
    }
    memset(line, 'k', sizeof(line));
    memcpy(line, "get ", 4);
    cache_session_prefetch_bucket(rig->session, (const uint8_t *)line, sizeof(line));
    cache_session_prefetch_item(rig->session);
    cache_session_prefetch_value(rig->session);
    rig_expect(rig, "get a\r\n", "END\r\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_reference_is_right),
        cmocka_unit_test_setup_teardown(test_cut_at_every_byte, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_one_byte_at_a_time, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_cut_at_random, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_deep_pipeline, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_long_lines, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_long_get, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_http_is_hung_up_on, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_quit_leaves_the_rest_unread, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_a_full_sink_blocks, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_multi_get_is_interrupted, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_interrupted_gat_touches_each_key_once, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(test_closed_in_the_middle_of_a_reply, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(test_failing_sink, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_sizes_of_values, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_references_outlive_the_item, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_dies_in_the_middle_of_an_upload, rig_setup,
                                        rig_teardown),
        cmocka_unit_test(test_limit_of_connections),
        cmocka_unit_test(test_tls_is_counted),
        cmocka_unit_test_setup_teardown(test_connection_without_memory, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_bytes_are_counted, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_bytes_offered_again_are_counted_once, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(test_stale_hint, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_prefetch_of_anything, rig_setup, rig_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
