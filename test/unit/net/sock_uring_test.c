/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A sock worker's requests to io_uring that fail: those that were only interrupted are made again,
 * others end their connection. The calls of liburing are wrapped.
 */
#define _GNU_SOURCE /* for liburing.h */
#include <liburing.h>

#include "../nic/nic_testing.h"
#include "sock_loop.h"

#define TAG_CANCEL 2u /* completions with this tag change nothing */

static struct {
    struct io_uring *ring;
    int opcode; /* the next request with this one is to fail; -1: none */
    int code;
    uint64_t failing; /* it, until it has completed */
    int wait_code;    /* the next call to wait has no other result; 0: it works */
    bool refuses;     /* no request is submitted */
} faults;

/* ---- liburing ---------------------------------------------------------------------------- */

REPLACES(io_uring_submit);
REPLACES(io_uring_submit_and_get_events);
REPLACES(io_uring_peek_batch_cqe);

/* Takes the file from the request that is to fail. */
static void spoil_request(struct io_uring *ring)
{
    unsigned at;

    for (at = ring->sq.sqe_head; at != ring->sq.sqe_tail && faults.opcode >= 0; at++) {
        struct io_uring_sqe *sqe = &ring->sq.sqes[at & *ring->sq.kring_mask];

        if (sqe->opcode != faults.opcode)
            continue;
        sqe->fd = -1;
        faults.failing = sqe->user_data;
        faults.opcode = -1;
    }
}

int fake_io_uring_submit(struct io_uring *ring)
{
    if (faults.refuses)
        return -EBUSY;
    spoil_request(ring);
    return real_io_uring_submit(ring);
}

int fake_io_uring_submit_and_get_events(struct io_uring *ring)
{
    int code = faults.wait_code;

    faults.ring = ring;
    faults.wait_code = 0;
    if (code != 0)
        return code;
    if (!faults.refuses)
        spoil_request(ring);
    return real_io_uring_submit_and_get_events(ring);
}

/* The request that was to fail has. */
unsigned fake_io_uring_peek_batch_cqe(struct io_uring *ring, struct io_uring_cqe **cqes,
                                      unsigned count)
{
    unsigned n = real_io_uring_peek_batch_cqe(ring, cqes, count);
    unsigned i;

    for (i = 0; i < n && faults.failing != 0; i++) {
        if (cqes[i]->user_data != faults.failing || cqes[i]->res != -EBADF)
            continue;
        cqes[i]->res = faults.code;
        faults.failing = 0;
    }
    return n;
}

static void fail_next(int opcode, int code)
{
    faults.opcode = opcode;
    faults.code = code;
}

static bool has_failed(void)
{
    return faults.opcode < 0 && faults.failing == 0;
}

/* The submission queue is full, and stays so until it may be submitted. */
static void fill_queue(void)
{
    struct io_uring_sqe *sqe;

    faults.refuses = true;
    while ((sqe = io_uring_get_sqe(faults.ring)) != NULL) {
        io_uring_prep_cancel64(sqe, 0, 0);
        io_uring_sqe_set_data64(sqe, TAG_CANCEL);
    }
}

static int setup_faults(void **state)
{
    memset(&faults, 0, sizeof(faults));
    faults.opcode = -1;
    return setup_loop(state);
}

/* ---- tests ------------------------------------------------------------------------------- */

/* What was interrupted, or could not be done at the moment, is done again. */
static void test_interrupted_requests(void **state)
{
    static const int codes[] = {-EINTR, -EAGAIN};
    static const int opcodes[] = {IORING_OP_RECV, IORING_OP_SEND};
    struct loop *l = *state;
    unsigned i, k;

    for (i = 0; i < 2; i++) {
        for (k = 0; k < 2; k++) {
            int fd;

            fail_next(opcodes[i], codes[k]);
            fd = pair_open(l);
            converse(l, fd, "get a\r\n", "END\r\n");
            assert_true(has_failed());
            converse(l, fd, "mn\r\n", "MN\r\n");
            turns_until_end(l, (shutdown(fd, SHUT_WR), fd));
        }
    }
    assert_int_equal(count_of(l, NET_SOCK_ABORTED), 0);
}

/* Other errors end the connection. */
static void test_failed_requests(void **state)
{
    struct loop *l = *state;
    int fd;

    fail_next(IORING_OP_RECV, -ECONNRESET);
    fd = pair_open(l);
    turns_until_end(l, fd);
    fail_next(IORING_OP_SEND, -EPIPE);
    fd = pair_open(l);
    must_send(fd, "mn\r\n", 4);
    turns_until_end(l, fd);
    assert_int_equal(count_of(l, NET_SOCK_ABORTED), 2);
    assert_int_equal(fcntl(l->held, F_GETFD), -1);
}

/* A wait is repeated that was interrupted, or for which the kernel has no memory or no room. */
static void test_interrupted_waits(void **state)
{
    static const int codes[] = {-EINTR, -EAGAIN, -EBUSY};
    struct loop *l = *state;
    int fd = pair_open(l);
    unsigned i;

    turns(l, 3);
    for (i = 0; i < 3; i++) {
        faults.wait_code = codes[i];
        converse(l, fd, "mn\r\n", "MN\r\n");
        assert_int_equal(faults.wait_code, 0);
    }
    faults.wait_code = -ENXIO;
    assert_int_equal(net_sock_turn(l->worker, 0), -ENXIO);
    close(fd);
}

/* A connection that can make no request, of any kind, is closed, and holds no descriptor. */
static void test_queue_is_full(void **state)
{
    struct loop *l = *state;
    int fds[3], held[3], n;
    unsigned i;

    for (i = 0; i < 2; i++) {
        fds[i] = pair_open(l);
        held[i] = l->held;
        turns(l, 3);
    }
    fail_next(IORING_OP_RECV, -EINTR);
    fds[2] = pair_open(l);
    held[2] = l->held;
    must_send(fds[0], "mn\r\n", 4);
    n = l->worker->io->wait(l->worker, 0);
    assert_true(n >= 2);
    fill_queue();
    l->worker->io->dispatch(l->worker, n); /* asks to send to the first, and to receive again */
    assert_true(has_failed());
    assert_int_equal(count_of(l, NET_SOCK_ABORTED), 2);
    turns_until_end(l, pair_open(l)); /* has asked to receive */
    assert_int_equal(count_of(l, NET_SOCK_ABORTED), 3);
    faults.refuses = false;
    turns_until_end(l, fds[0]);
    turns_until_end(l, fds[2]);
    turns(l, 3);
    assert_int_equal(fcntl(held[0], F_GETFD), -1);
    assert_int_equal(fcntl(held[2], F_GETFD), -1);
    converse(l, fds[1], "mn\r\n", "MN\r\n");
    assert_true(fcntl(held[1], F_GETFD) >= 0);
    close(fds[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_interrupted_requests, setup_faults, teardown_loop),
        cmocka_unit_test_setup_teardown(test_failed_requests, setup_faults, teardown_loop),
        cmocka_unit_test_setup_teardown(test_interrupted_waits, setup_faults, teardown_loop),
        cmocka_unit_test_setup_teardown(test_queue_is_full, setup_faults, teardown_loop),
    };
    char name[] = "sock_uring_test", uring[] = "uring";
    char *argv[] = {name, uring, NULL};
    int skipped = rig_begin(2, argv);

    return skipped ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
