/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames between a coordinator and an agent: split at any byte, longer than buffers, malformed. */
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent_conn.h"

#define LARGE (4u << 20)

static struct agent_conn conn;
static int peer;

static void open_pair(void)
{
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    agent_conn_open(&conn, fds[0]);
    peer = fds[1];
}

static void close_pair(void)
{
    agent_conn_close(&conn);
    close(peer);
}

static void peer_sends(const uint8_t *bytes, size_t len)
{
    assert_int_equal(send(peer, bytes, len, MSG_NOSIGNAL), len);
}

/* Takes a frame that is there; false: it is not complete. */
static bool takes(enum wire_kind wanted, const void *payload, uint32_t wanted_len)
{
    enum wire_kind kind;
    uint32_t len;
    int rc = agent_conn_receive(&conn, 0, WIRE_REQUEST_MAX, &kind, &len);

    if (rc == 0)
        return false;
    assert_int_equal(rc, 1);
    assert_int_equal(kind, wanted);
    assert_int_equal(len, wanted_len);
    assert_memory_equal(conn.payload, payload, len);
    return true;
}

/* Three frames, cut in two at every byte. */
static void test_cut_anywhere(void **state)
{
    static const char first[] = "the first frame", second[] = "x";
    uint8_t bytes[64];
    uint32_t ends[3], len = 0, cut;

    (void)state;
    wire_put_head(bytes, WIRE_FAILED, sizeof(first));
    memcpy(bytes + WIRE_HEAD_BYTES, first, sizeof(first));
    ends[0] = len = WIRE_HEAD_BYTES + sizeof(first);
    wire_put_head(bytes + len, WIRE_STOP, 0);
    ends[1] = len += WIRE_HEAD_BYTES;
    wire_put_head(bytes + len, WIRE_TICK, sizeof(second));
    memcpy(bytes + len + WIRE_HEAD_BYTES, second, sizeof(second));
    ends[2] = len += WIRE_HEAD_BYTES + sizeof(second);
    for (cut = 0; cut < len; cut++) {
        open_pair();
        peer_sends(bytes, cut);
        assert_int_equal(takes(WIRE_FAILED, first, sizeof(first)), cut >= ends[0]);
        if (cut >= ends[0])
            assert_int_equal(takes(WIRE_STOP, "", 0), cut >= ends[1]);
        peer_sends(bytes + cut, len - cut);
        if (cut < ends[0])
            assert_true(takes(WIRE_FAILED, first, sizeof(first)));
        if (cut < ends[1])
            assert_true(takes(WIRE_STOP, "", 0));
        assert_true(takes(WIRE_TICK, second, sizeof(second)));
        assert_false(takes(WIRE_TICK, second, sizeof(second)));
        close_pair();
    }
}

/* A byte at a time, and the next frame with the end of this one. */
static void test_single_bytes(void **state)
{
    uint8_t bytes[2 * (WIRE_HEAD_BYTES + 8)];
    const uint32_t one = WIRE_HEAD_BYTES + 8;

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        wire_put_head(bytes + i * one, WIRE_TICK, 8);
        memset(bytes + i * one + WIRE_HEAD_BYTES, 'a' + (int)i, 8);
    }
    open_pair();
    for (uint32_t i = 0; i < one - 1; i++) {
        peer_sends(bytes + i, 1);
        assert_false(takes(WIRE_TICK, "aaaaaaaa", 8));
    }
    peer_sends(bytes + one - 1, one + 1);
    assert_true(takes(WIRE_TICK, "aaaaaaaa", 8));
    assert_true(takes(WIRE_TICK, "bbbbbbbb", 8));
    close_pair();
}

/* Begins when the sender cannot send any more. */
static void *take_large(void *arg)
{
    struct pollfd sender = {.fd = conn.fd, .events = POLLOUT};
    uint8_t *to = arg;
    size_t have = 0;
    ssize_t n = 1;

    while (poll(&sender, 1, 0) == 1)
        usleep(100);
    while (have < WIRE_HEAD_BYTES + LARGE && n > 0) {
        n = recv(peer, to + have, WIRE_HEAD_BYTES + LARGE - have, 0);
        have += n > 0 ? (size_t)n : 0;
    }
    return NULL;
}

/* A frame that is longer than what the kernel buffers. */
static void test_peer_that_takes_its_time(void **state)
{
    uint8_t *payload = malloc(LARGE), *got = calloc(1, WIRE_HEAD_BYTES + LARGE);
    enum wire_kind kind;
    pthread_t thread;
    uint32_t len;

    (void)state;
    assert_true(payload && got);
    for (uint32_t i = 0; i < LARGE; i++)
        payload[i] = (uint8_t)(i * 7 + i / 251);
    open_pair();
    assert_int_equal(pthread_create(&thread, NULL, take_large, got), 0);
    assert_int_equal(agent_conn_send(&conn, WIRE_DONE, payload, LARGE), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(wire_get_head(got, LARGE, &kind, &len), 0);
    assert_int_equal(kind, WIRE_DONE);
    assert_int_equal(len, LARGE);
    assert_memory_equal(got + WIRE_HEAD_BYTES, payload, LARGE);
    close_pair();
    free(payload);
    free(got);
}

static void test_what_is_no_frame(void **state)
{
    static const uint8_t bytes[][WIRE_HEAD_BYTES] = {
        {0, 0, 0, 0, 0}, /* no such kind */
        {0, 0, 0, 0, WIRE_BUSY + 1},
        {0, 1, 0, 1, WIRE_OPEN}, /* too long */
        {0xff, 0xff, 0xff, 0xff, WIRE_OPEN},
    };
    enum wire_kind kind;
    uint32_t len;

    (void)state;
    for (unsigned i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++) {
        open_pair();
        peer_sends(bytes[i], sizeof(bytes[i]));
        assert_int_equal(agent_conn_receive(&conn, 0, WIRE_REQUEST_MAX, &kind, &len), -1);
        close_pair();
    }
    open_pair();
    peer_sends((const uint8_t *)"\0\0\0\2\6x", 6);
    shutdown(peer, SHUT_WR);
    assert_int_equal(agent_conn_receive(&conn, AGENT_CONN_FOREVER, WIRE_REQUEST_MAX, &kind, &len),
                     -1);
    close_pair();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut_anywhere),
        cmocka_unit_test(test_single_bytes),
        cmocka_unit_test(test_peer_that_takes_its_time),
        cmocka_unit_test(test_what_is_no_frame),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
