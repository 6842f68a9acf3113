/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The send queue of a socket: order, bounds, references, partial writes.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/sock_sendq.h"

struct fixture {
    struct net_sendq_pool pool;
    struct net_sendq out;
    int fds[2]; /* we write to the first */
    unsigned released;
    uint64_t writes;
};

static void count_release(void *ctx, void *cookie)
{
    struct fixture *f = ctx;

    assert_ptr_equal(cookie, (uint8_t *)f + f->released); /* in order */
    f->released++;
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    net_sendq_pool_init(&f->pool, count_release, f);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, f->fds), 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    net_sendq_clear(&f->out, &f->pool);
    assert_null(f->out.head);
    assert_null(f->out.block);
    net_sendq_pool_free(&f->pool);
    close(f->fds[0]);
    if (f->fds[1] >= 0)
        close(f->fds[1]);
    free(f);
    return 0;
}

static void put(struct fixture *f, const void *bytes, uint32_t len)
{
    uint8_t *end;
    uint8_t *at = net_sendq_reserve(&f->out, &f->pool, len, &end);

    assert_non_null(at);
    assert_true((size_t)(end - at) >= len);
    memcpy(at, bytes, len);
    net_sendq_commit(&f->out, (uint32_t)len);
}

static enum net_sendq_result flush(struct fixture *f)
{
    return net_sendq_flush(&f->out, &f->pool, f->fds[0], &f->writes);
}

static void expect(struct fixture *f, const char *text)
{
    char got[256];
    ssize_t n = read(f->fds[1], got, sizeof(got));

    assert_int_equal(n, strlen(text));
    assert_memory_equal(got, text, (size_t)n);
}

static void test_order(void **state)
{
    struct fixture *f = *state;

    put(f, "a", 1);
    put(f, "bc", 2);
    assert_int_equal(net_sendq_add_ref(&f->out, &f->pool, "REF", 3, (uint8_t *)f), 0);
    put(f, "d", 1);
    assert_int_equal(net_sendq_add_ref(&f->out, &f->pool, "two", 3, (uint8_t *)f + 1), 0);
    assert_int_equal(f->out.queued_bytes, 10);
    assert_int_equal(flush(f), NET_SENDQ_EMPTY);
    assert_int_equal(f->writes, 1);
    assert_int_equal(f->released, 2);
    assert_int_equal(f->out.queued_bytes, 0);
    assert_null(f->out.block);
    expect(f, "abcREFdtwo");
}

static void test_one_block_for_small_pieces(void **state)
{
    struct fixture *f = *state;
    unsigned i;

    for (i = 0; i < 20; i++) {
        put(f, "header", 6);
        assert_int_equal(net_sendq_add_ref(&f->out, &f->pool, "x", 1, (uint8_t *)f + i), 0);
    }
    assert_int_equal(f->out.block->users, 21);
    assert_int_equal(flush(f), NET_SENDQ_EMPTY);
    assert_int_equal(f->pool.block_count, 1);
}

/* Room that is opened and not used leaves nothing behind. */
static void test_empty_room(void **state)
{
    struct fixture *f = *state;
    uint8_t *end;
    uint8_t *at = net_sendq_reserve(&f->out, &f->pool, NET_SENDQ_BLOCK_BYTES, &end);

    assert_int_equal(end - at, NET_SENDQ_BLOCK_BYTES);
    net_sendq_commit(&f->out, 0);
    assert_int_equal(flush(f), NET_SENDQ_EMPTY);
    assert_int_equal(f->writes, 0);
    assert_null(f->out.head);
    assert_null(f->out.block);
}

/* A reserved but unused block yields no empty iovec. */
static void test_empty_room_is_not_gathered(void **state)
{
    struct fixture *f = *state;
    struct iovec iov[1];
    uint64_t total;
    uint8_t *end;

    assert_non_null(net_sendq_reserve(&f->out, &f->pool, 10, &end));
    assert_int_equal(net_sendq_add_ref(&f->out, &f->pool, "ref", 3, (uint8_t *)f), 0);
    assert_int_equal(net_sendq_gather(&f->out, iov, 1, &total), 1);
    assert_int_equal(total, 3);
    assert_int_equal(iov[0].iov_len, 3);
    assert_memory_equal(iov[0].iov_base, "ref", 3);
    assert_int_equal(flush(f), NET_SENDQ_EMPTY);
    expect(f, "ref");
}

/* Everything arrives in order through a socket that takes it in small parts. */
static void test_partial_writes(void **state)
{
    struct fixture *f = *state;
    static uint8_t big[300000];
    static uint8_t got[600000];
    size_t total = 0;
    size_t have = 0;
    size_t i;
    ssize_t n;

    for (i = 0; i < sizeof(big); i++)
        big[i] = (uint8_t)(i * 2654435761u >> 24);
    put(f, "<", 1);
    assert_int_equal(net_sendq_add_ref(&f->out, &f->pool, big, sizeof(big), (uint8_t *)f), 0);
    for (i = 0; i < 10; i++)
        put(f, big + i * 9000, 9000);
    total = 1 + sizeof(big) + 90000;
    assert_int_equal(flush(f), NET_SENDQ_PENDING);
    for (i = 0; have < total; i++) {
        n = read(f->fds[1], got + have, 7777);
        assert_true(n > 0 || errno == EAGAIN);
        have += n > 0 ? (size_t)n : 0;
        assert_int_not_equal(flush(f), NET_SENDQ_ERROR);
        assert_true(i < 10000);
    }
    assert_int_equal(flush(f), NET_SENDQ_EMPTY);
    assert_int_equal(f->released, 1);
    assert_int_equal(got[0], '<');
    assert_memory_equal(got + 1, big, sizeof(big));
    assert_memory_equal(got + 1 + sizeof(big), big, 90000);
}

static void test_peer_gone(void **state)
{
    struct fixture *f = *state;

    close(f->fds[1]);
    f->fds[1] = -1;
    put(f, "a", 1);
    assert_int_equal(net_sendq_add_ref(&f->out, &f->pool, "x", 1, (uint8_t *)f), 0);
    assert_int_equal(flush(f), NET_SENDQ_ERROR);
    assert_int_equal(f->released, 0);
    net_sendq_clear(&f->out, &f->pool);
    assert_int_equal(f->released, 1);
    assert_int_equal(f->out.queued_bytes, 0);
}

/* The pool gives memory beyond its bound back to the heap. */
static void test_pool_bound(void **state)
{
    struct fixture *f = *state;
    static uint8_t block[NET_SENDQ_BLOCK_BYTES];
    unsigned i;

    for (i = 0; i < 200; i++)
        put(f, block, sizeof(block));
    assert_int_equal(f->out.queued_bytes, 200 * sizeof(block));
    net_sendq_clear(&f->out, &f->pool);
    assert_int_equal(f->pool.block_count, 64);
    for (i = 0; i < 2000; i++)
        assert_int_equal(
            net_sendq_add_ref(&f->out, &f->pool, block, 1, (uint8_t *)f + f->released + i), 0);
    net_sendq_clear(&f->out, &f->pool);
    assert_int_equal(f->pool.piece_count, 1024);
    for (i = 0; i < 2000; i++) { /* what is taken from the pool comes back to it */
        put(f, block, 1);
        net_sendq_clear(&f->out, &f->pool);
    }
    assert_int_equal(f->pool.block_count, 64);
    assert_int_equal(f->pool.piece_count, 1024);
    assert_non_null(f->pool.blocks);
    assert_non_null(f->pool.pieces);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_block_for_small_pieces, setup, teardown),
        cmocka_unit_test_setup_teardown(test_empty_room, setup, teardown),
        cmocka_unit_test_setup_teardown(test_empty_room_is_not_gathered, setup, teardown),
        cmocka_unit_test_setup_teardown(test_partial_writes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_peer_gone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pool_bound, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
