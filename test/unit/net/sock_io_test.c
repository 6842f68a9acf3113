/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A sock worker that is run turn by turn in the thread of the test: its system calls and limits,
 * with epoll or, with the argument "uring", with io_uring.
 */
#define _GNU_SOURCE /* SO_SNDBUFFORCE, syscall() */
#include <linux/io_uring.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

#include "alarms.h"
#include "sock_loop.h"

#define VALUE_BYTES 20000 /* queued as a reference */

/* Connections: more than a submission queue has entries, and than there are receive buffers. */
#define MANY 600

/* ---- clients ----------------------------------------------------------------------------- */

static bool has_open(const struct loop *l)
{
    return !u_list_is_empty(&l->worker->conns.open);
}

static void store_value(struct loop *l, int fd)
{
    char request[VALUE_BYTES + 100], got[8];
    int head = snprintf(request, 100, "set v 0 0 %d\r\n", VALUE_BYTES);

    memset(request + head, 'v', VALUE_BYTES);
    memcpy(request + head + VALUE_BYTES, "\r\n", 2);
    must_send(fd, request, (size_t)head + VALUE_BYTES + 2);
    turns_until(l, fd, got, 8);
    assert_memory_equal(got, "STORED\r\n", 8);
}

/* A connection by TCP, which the worker has accepted or will. */
static int tcp_open(const struct loop *l)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(connect(fd, (const struct sockaddr *)&l->addr, l->addr_len), 0);
    return fd;
}

/* ---- tests ------------------------------------------------------------------------------- */

static int many_fds[MANY];

/* As many as this process may have. */
static unsigned open_many(struct loop *l, struct rlimit *before)
{
    struct rlimit more;
    unsigned n;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, before), 0);
    more = *before;
    more.rlim_cur = u_max32(3 * MANY, (uint32_t)u_min64(before->rlim_cur, UINT32_MAX));
    if (setrlimit(RLIMIT_NOFILE, &more) < 0)
        return 0;
    for (n = 0; n < MANY; n++)
        many_fds[n] = pair_open(l);
    return n;
}

/* All clients send requests before the worker runs, and again while it runs. */
static void test_many_at_once(void **state)
{
    static const char head[] = "VALUE v 0 20000\r\n";
    static char got[sizeof(head) - 1 + VALUE_BYTES + 7];
    struct loop *l = *state;
    struct u_list *link, *next;
    struct rlimit limit;
    unsigned count = open_many(l, &limit);
    unsigned i, round;

    if (count == 0)
        skip();
    store_value(l, many_fds[0]);
    for (link = l->worker->conns.open.next; link != &l->worker->conns.open; link = next) {
        struct net_sock_conn *conn = net_sock_conn_of(U_CONTAINER_OF(link, struct net_conn, link));

        next = link->next;
        assert_true(net_sock_conn_input(l->worker, conn, (const uint8_t *)"get v\r\n", 7) >= 0);
        net_sock_conn_update(l->worker, conn);
    }
    for (round = 0; round < 2; round++) {
        for (i = 0; i < count; i++) {
            turns_until(l, many_fds[i], got, sizeof(got));
            assert_memory_equal(got, head, sizeof(head) - 1);
            assert_memory_equal(got + sizeof(got) - 7, "\r\nEND\r\n", 7);
        }
        for (i = 0; i < count && round == 0; i++)
            must_send(many_fds[i], "get v\r\n", 7);
    }
    assert_int_equal(count_of(l, NET_SOCK_ABORTED), 0);
    for (i = 0; i < count; i++)
        turns_until_end(l, (shutdown(many_fds[i], SHUT_WR), many_fds[i]));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* Input beyond the receive buffers stays in the kernel until buffers are free again. */
static void test_more_input_than_buffers(void **state)
{
    enum { CLIENTS = 30, LINES = 20000 };
    static char got[4 * LINES];
    struct loop *l = *state;
    char *requests = repeat("mn\r\n", LINES), *replies = repeat("MN\r\n", LINES);
    int fds[CLIENTS];
    unsigned i;

    for (i = 0; i < CLIENTS; i++)
        fds[i] = pair_open(l);
    turn(l);
    for (i = 0; i < CLIENTS; i++)
        must_send(fds[i], requests, sizeof(got));
    for (i = 0; i < CLIENTS; i++) /* io_uring reads without a turn */
        assert_true(l->worker->io->wait(l->worker, 0) > 0);
    for (i = 0; i < CLIENTS; i++) {
        turns_until(l, fds[i], got, sizeof(got));
        assert_memory_equal(got, replies, sizeof(got));
        close(fds[i]);
    }
    free(requests);
    free(replies);
}

/* Input that comes while its connection ends takes no buffer away from the others. */
static void test_input_of_ended_connections(void **state)
{
    struct loop *l = *state;
    unsigned i;
    int fd, n;

    for (i = 0; i < 300; i++) {
        fd = pair_open(l);
        turn(l);
        must_send(fd, "get a\r\n", 7);
        n = l->worker->io->wait(l->worker, 0);
        assert_true(n >= 0);
        net_sock_conn_close(l->worker, newest(l));
        if (by_uring) /* events of epoll may not outlive their connection */
            l->worker->io->dispatch(l->worker, n);
        turns_until_end(l, fd);
    }
    fd = pair_open(l);
    converse(l, fd, "get a\r\n", "END\r\n");
    close(fd);
}

/* A connection that its client ends is closed at once, even with a reply unsent. */
static void test_end_in_a_reply(void **state)
{
    struct loop *l = *state;
    int fd = pair_open(l);
    unsigned i;

    store_value(l, fd);
    for (i = 0; i < 100; i++)
        must_send(fd, "get v\r\n", 7);
    turns(l, 50);
    assert_true(newest(l)->out.queued_bytes > 0);
    net_sock_conn_close(l->worker, newest(l));
    turns(l, 50);
    assert_int_equal(fcntl(l->held, F_GETFD), -1);
    close(fd);
}

/* The end of the client is no signal to the process, and ends the connection. */
static void test_reply_without_a_reader(void **state)
{
    struct loop *l = *state;
    int fd = pair_open(l);

    turn(l);
    must_send(fd, "mn\r\n", 4);
    close(fd);
    turns(l, 20);
    assert_false(has_open(l));

    fd = pair_open(l);
    turn(l);
    assert_int_equal(shutdown(fd, SHUT_RD), 0); /* which ends no input of the server */
    must_send(fd, "mn\r\n", 4);
    turns(l, 20);
    assert_false(has_open(l));
    assert_true(count_of(l, NET_SOCK_ABORTED) >= 1);
    close(fd);
}

/* A hold that is released at once does not interrupt accepting; the next hold stops it. */
static void test_accepting_is_held(void **state)
{
    struct loop *l = *state;
    struct net_sock_worker *worker = l->worker;
    int fd;

    turns(l, 3);
    net_sock_accept_hold(worker);
    if (by_uring)
        assert_false(worker->io->listeners_rest(worker)); /* an accept is still pending */
    net_sock_accept_release(worker);
    turns(l, 10);
    fd = tcp_open(l);
    converse(l, fd, "get a\r\n", "END\r\n");
    close(fd);
    turns(l, 10);

    net_sock_accept_hold(worker);
    turns(l, 10);
    if (by_uring)
        assert_true(worker->io->listeners_rest(worker));
    fd = tcp_open(l);
    turns(l, 10);
    assert_int_equal(worker->io->wait(worker, 0), 0); /* nor is there an event each time */
    assert_int_equal(count_of(l, NET_SOCK_ACCEPTED), 1);
    net_sock_accept_release(worker);
    converse(l, fd, "get a\r\n", "END\r\n");
    close(fd);
}

/* A call from another thread makes one event. */
static void test_wake_is_one_event(void **state)
{
    struct loop *l = *state;
    unsigned i;

    turns(l, 3);
    for (i = 0; i < 3; i++) {
        assert_int_equal(net_worker_pause(&l->worker->worker), 0);
        net_worker_resume(&l->worker->worker);
        assert_int_equal(net_sock_turn(l->worker, 60000), 0);
        turn(l);
        assert_int_equal(l->worker->io->wait(l->worker, 0), 0);
    }
}

/* One read and one write for a request; no write without a reply. */
static void test_calls_are_counted(void **state)
{
    struct loop *l = *state;
    int fd = pair_open(l);

    converse(l, fd, "get a\r\n", "END\r\n");
    turns(l, 3);
    assert_int_equal(count_of(l, NET_SOCK_READS), 1);
    assert_int_equal(count_of(l, NET_SOCK_WRITES), 1);
    must_send(fd, "delete a noreply\r\n", 18);
    turns(l, 3);
    assert_int_equal(count_of(l, NET_SOCK_READS), 2);
    assert_int_equal(count_of(l, NET_SOCK_WRITES), 1);
    close(fd);
}

/* Input that fills the read buffer exactly is all there is. */
static void test_input_of_a_full_buffer(void **state)
{
    enum { LINES = NET_SOCK_READ_BYTES / 4 };
    static char got[4 * LINES];
    struct loop *l = *state;
    char *requests = repeat("mn\r\n", LINES), *replies = repeat("MN\r\n", LINES);
    int fd = pair_open(l);

    must_send(fd, requests, sizeof(got));
    turns_until(l, fd, got, sizeof(got));
    assert_memory_equal(got, replies, sizeof(got));
    free(replies);
    converse(l, fd, "mn\r\n", "MN\r\n");
    free(requests);
    close(fd);
}

/* Accepted sockets have TCP_NODELAY and keepalives. */
static void test_options_of_sockets(void **state)
{
    struct loop *l = *state;
    int fd = tcp_open(l), accepted, on = 0, fresh = socket(AF_INET, SOCK_DGRAM, 0);
    int fresh_bytes = 0, bytes = 0;
    socklen_t len = sizeof(on);

    converse(l, fd, "get a\r\n", "END\r\n");
    accepted = newest(l)->source.fd;
    assert_int_equal(getsockopt(accepted, IPPROTO_TCP, TCP_NODELAY, &on, &len), 0);
    assert_true(on);
    assert_int_equal(getsockopt(accepted, SOL_SOCKET, SO_KEEPALIVE, &on, &len), 0);
    assert_true(on);
    assert_int_equal(
        getsockopt(l->worker->listeners[0].source.fd, SOL_SOCKET, SO_REUSEADDR, &on, &len), 0);
    assert_true(on);
    /* Large replies by UDP take as much room as the system grants. */
    assert_int_equal(getsockopt(fresh, SOL_SOCKET, SO_SNDBUF, &fresh_bytes, &len), 0);
    assert_int_equal(
        getsockopt(l->worker->listeners[1].source.fd, SOL_SOCKET, SO_SNDBUF, &bytes, &len), 0);
    assert_true(bytes > fresh_bytes);
    close(fresh);
    close(fd);
}

static void on_alarm(int number)
{
}

/* A signal ends a wait, and is no error; no signal, and it lasts as long as asked. */
static void test_waits(void **state)
{
    struct loop *l = *state;
    struct timespec begin, end;
    unsigned i;

    turns(l, 3);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    assert_int_equal(l->worker->io->wait(l->worker, 100), 0);
    clock_gettime(CLOCK_MONOTONIC, &end);
    assert_true((end.tv_sec - begin.tv_sec) * 1000 + (end.tv_nsec - begin.tv_nsec) / 1000000 > 50);

    alarms_begin(on_alarm);
    for (i = 0; i < 3; i++)
        assert_int_equal(l->worker->io->wait(l->worker, 1000), 0);
    alarms_end();
}

/* A loop that cannot begin leaves nothing behind. */
static void test_begin_fails(void **state)
{
    struct loop *l = loop_open(false);
    struct rlimit limit, low;
    int fd = l->worker->listeners[0].source.fd;

    l->worker->listeners[0].source.fd = -1;
    assert_int_equal(l->worker->io->begin(l->worker), -EBADF);
    l->worker->listeners[0].source.fd = fd;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    low = limit;
    low.rlim_cur = 3;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    assert_int_equal(l->worker->io->begin(l->worker), -EMFILE);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    loop_close(l, false);
}

/* Of many that come at once some are taken in each turn, so that the others are served, too. */
static void test_bounds_of_a_turn(void **state)
{
    static const char datagram[] = "\0\1\0\0\0\1\0\0mn\r\n";
    struct loop *l = *state;
    struct sockaddr_storage udp;
    socklen_t len = sizeof(udp);
    int fds[40], fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    unsigned i;

    turns(l, 3);
    assert_int_equal(getsockname(l->worker->listeners[1].source.fd, (struct sockaddr *)&udp, &len),
                     0);
    for (i = 0; i < 100; i++)
        assert_int_equal(sendto(fd, datagram, sizeof(datagram) - 1, 0, (void *)&udp, len), 12);
    turn(l);
    assert_int_equal(count_of(l, NET_SOCK_UDP_REQUESTS), 64);
    turns(l, 3);
    assert_int_equal(count_of(l, NET_SOCK_UDP_REQUESTS), 100);
    close(fd);
    if (by_uring)
        return;
    for (i = 0; i < 40; i++)
        fds[i] = tcp_open(l);
    turn(l);
    assert_int_equal(count_of(l, NET_SOCK_ACCEPTED), 32);
    turn(l);
    assert_int_equal(count_of(l, NET_SOCK_ACCEPTED), 40);
    for (i = 0; i < 40; i++)
        close(fds[i]);
}

/* A client that sends much is read from a few times, then others are. */
static void test_reads_of_a_turn(void **state)
{
    enum { BYTES = 8 * NET_SOCK_READ_BYTES };
    struct loop *l = *state;
    int fd, room = 4 * BYTES;
    char *value;

    if (by_uring)
        return; /* there the kernel reads */
    fd = pair_open(l);
    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room)) < 0) {
        close(fd);
        skip();
    }
    value = repeat("v", BYTES);
    must_send(fd, "set v 0 0 1000000\r\n", 19);
    must_send(fd, value, BYTES);
    turn(l);
    assert_int_equal(count_of(l, NET_SOCK_READS), 4);
    turn(l);
    assert_int_equal(count_of(l, NET_SOCK_READS), 8);
    close(fd);
    free(value);
}

/* A connection with many requests has its turns when another one has an event, or waits, too. */
static void test_turns_of_two(void **state)
{
    enum { LINES = 1000 };
    static char got[4 * (LINES + 1)];
    struct loop *l = *state;
    char *requests = repeat("mn\r\n", LINES);
    struct net_sock_conn *conns[2];
    int fds[2];
    unsigned i;

    for (i = 0; i < 2; i++) {
        fds[i] = pair_open(l);
        conns[i] = newest(l);
    }
    turns(l, 3);
    must_send(fds[0], requests, (size_t)4 * LINES);
    must_send(fds[1], "mn\r\n", 4);
    turn(l);
    assert_int_equal(conns[0]->state, CACHE_SESSION_YIELDED);
    assert_int_equal(conns[1]->state, CACHE_SESSION_OPEN);
    must_send(fds[1], requests, (size_t)4 * LINES);
    turn(l);
    assert_int_equal(conns[1]->state, CACHE_SESSION_YIELDED);
    for (i = 0; i < 2; i++)
        turns_until(l, fds[i], got, (size_t)4 * (LINES + i));
    for (i = 0; i < 2; i++)
        close(fds[i]);
    free(requests);
}

/* The descriptor of the worker's ring, or -1. */
static int find_ring(void)
{
    char path[40], name[40];
    ssize_t len;
    int fd;

    for (fd = 0; fd < 1000; fd++) {
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        len = readlink(path, name, sizeof(name) - 1);
        name[len > 0 ? len : 0] = '\0';
        if (strcmp(name, "anon_inode:[io_uring]") == 0)
            return fd;
    }
    return -1;
}

/* Whoever takes over the worker cannot change what its ring may do (docs/administration.md). */
static void test_ring_is_restricted(void **state)
{
    int ring = find_ring();

    assert_int_equal(ring >= 0, by_uring);
    if (!by_uring)
        return;
    assert_int_equal(syscall(__NR_io_uring_register, ring, IORING_UNREGISTER_EVENTFD, NULL, 0), -1);
    assert_int_equal(errno, EACCES);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_many_at_once, setup_loop, teardown_loop),
        cmocka_unit_test_setup_teardown(test_more_input_than_buffers, setup_loop, teardown_loop),
        cmocka_unit_test_setup_teardown(test_input_of_ended_connections, setup_loop, teardown_loop),
        cmocka_unit_test_setup_teardown(test_end_in_a_reply, setup_loop, teardown_loop),
        cmocka_unit_test_setup_teardown(test_reply_without_a_reader, setup_loop, teardown_loop),
        cmocka_unit_test_setup_teardown(test_accepting_is_held, setup_loop, teardown_loop),
        cmocka_unit_test_setup_teardown(test_wake_is_one_event, setup_loop, teardown_loop),
        cmocka_unit_test_setup_teardown(test_calls_are_counted, setup_loop, teardown_loop),
        cmocka_unit_test_setup_teardown(test_input_of_a_full_buffer, setup_loop, teardown_loop),
        cmocka_unit_test_setup_teardown(test_options_of_sockets, setup_loop, teardown_loop),
        cmocka_unit_test_setup_teardown(test_waits, setup_loop, teardown_loop),
        cmocka_unit_test(test_begin_fails),
        cmocka_unit_test_setup_teardown(test_bounds_of_a_turn, setup_loop, teardown_loop),
        cmocka_unit_test_setup_teardown(test_reads_of_a_turn, setup_loop, teardown_loop),
        cmocka_unit_test_setup_teardown(test_turns_of_two, setup_loop, teardown_loop),
        cmocka_unit_test_setup_teardown(test_ring_is_restricted, setup_loop, teardown_loop),
    };
    int skipped = rig_begin(argc, argv);

    return skipped ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
