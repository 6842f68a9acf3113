/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connection of a sock worker over a socket that takes as many bytes as a test says: which events
 * it waits for, when its session continues, and what of it is handed over. One test has a socket of
 * the kernel, and epoll.
 */
#define _GNU_SOURCE /* SOCK_CLOEXEC, syscall() */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "cache_end.h"
#include "net/handover.h"
#include "net/sock_worker.h"

#define VALUE_MAX 300000

struct fixture {
    struct net_sock_worker worker; /* first */
    struct net_sock_conn *conn;
    uint64_t room; /* bytes that the socket takes */
    int refused;   /* what the interface of the kernel answers to requests: 0, or an error */
};

/* ---- the socket -------------------------------------------------------------------------- */

static int begin(struct net_sock_worker *worker, struct net_sock_conn *conn)
{
    return ((struct fixture *)worker)->refused;
}

static int want(struct net_sock_worker *worker, struct net_sock_conn *conn, uint32_t interest)
{
    conn->interest = interest;
    return ((struct fixture *)worker)->refused;
}

static enum net_sendq_result flush(struct net_sock_worker *worker, struct net_sock_conn *conn)
{
    struct fixture *f = (struct fixture *)worker;
    uint64_t n = u_min64(f->room, conn->out.queued_bytes);

    f->room -= n;
    net_sendq_advance(&conn->out, &worker->out_pool, n);
    return conn->out.queued_bytes == 0 ? NET_SENDQ_EMPTY : NET_SENDQ_PENDING;
}

static void accept_want(struct net_sock_worker *worker, bool on)
{
}

static const struct net_sock_io io = {
    .conn_bytes = sizeof(struct net_sock_conn),
    .accept_want = accept_want,
    .conn_begin = begin,
    .conn_want = want,
    .conn_flush = flush,
    .conn_end = net_sock_conn_free,
};

/* ---- the fixture ------------------------------------------------------------------------- */

static void release_ref(void *worker, void *cookie)
{
    cache_release(((struct net_sock_worker *)worker)->conns.cache_worker, cookie);
}

static const struct net_sock_listener listener = {
    .kind = NET_ENDPOINT_UNIX, .peer = {.transport = "unix", .binding = CACHE_BINDING_ASCII}};

static void open_conn(struct fixture *f, int fd)
{
    struct net_sock_worker *worker = &f->worker;

    assert_true(net_sock_conn_open(worker, fd, &listener, NULL));
    f->conn = net_sock_conn_of(U_CONTAINER_OF(worker->conns.open.prev, struct net_conn, link));
}

static struct fixture *open_worker(const struct net_sock_io *by, uint32_t requests_per_event)
{
    struct fixture *f = calloc(1, sizeof(*f));
    struct net_sock_worker *worker = &f->worker;
    struct cache_config config = {.start_us = 1, .start_unix_s = 1700000000};
    const char *why = NULL;

    cache_settings_defaults(&config.settings);
    config.settings.threads = 1;
    config.settings.requests_per_event = requests_per_event;
    worker->io = by;
    net_conns_init(&worker->conns, &net_sock_transport, cache_create(&config, &why), 0);
    assert_non_null(worker->conns.cache);
    worker->conns.cache_worker = cache_join(worker->conns.cache);
    u_list_init(&worker->ready);
    net_sendq_pool_init(&worker->out_pool, release_ref, worker);
    return f;
}

static void close_worker(struct fixture *f)
{
    net_sock_conns_close(&f->worker);
    net_sendq_pool_free(&f->worker.out_pool);
    cache_leave(f->worker.conns.cache_worker);
    cache_end(f->worker.conns.cache);
    free(f);
}

static int setup(void **state)
{
    struct fixture *f = open_worker(&io, 1000000);

    open_conn(f, open("/dev/null", O_RDWR | O_CLOEXEC));
    *state = f;
    return 0;
}

/* A turn has one request, and others wait for theirs. */
static int setup_short_turns(void **state)
{
    struct fixture *f = open_worker(&io, 1);

    open_conn(f, open("/dev/null", O_RDWR | O_CLOEXEC));
    f->worker.crowded = true;
    f->room = UINT64_MAX;
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    close_worker(*state);
    return 0;
}

static void input(struct fixture *f, const char *bytes, size_t len)
{
    assert_true(net_sock_conn_input(&f->worker, f->conn, (const uint8_t *)bytes, (uint32_t)len) >=
                0);
    net_sock_conn_update(&f->worker, f->conn);
}

/* Stores a value of so many bytes. */
static void store(struct fixture *f, unsigned len)
{
    static char request[VALUE_MAX + 100];
    int head = snprintf(request, 100, "set v 0 0 %u\r\n", len);

    memset(request + head, 'v', len);
    memcpy(request + head + len, "\r\n", 2);
    f->room = strlen("STORED\r\n");
    input(f, request, (size_t)head + len + 2);
    assert_int_equal(f->room, 0);
    assert_int_equal(f->conn->interest, EPOLLIN);
}

static bool is_open(const struct fixture *f)
{
    return !u_list_is_empty(&f->worker.conns.open);
}

/* Requests of which the queue takes only a part of the replies. */
static void ask_until_blocked(struct fixture *f)
{
    enum { REQUESTS = 1000 };
    static char requests[7 * REQUESTS + 1];
    unsigned i;

    for (i = 0; i < REQUESTS; i++)
        memcpy(requests + (size_t)7 * i, "get v\r\n", 7);
    store(f, 1000);
    input(f, requests, sizeof(requests) - 1);
    assert_int_equal(f->conn->state, CACHE_SESSION_BLOCKED);
    assert_true(f->conn->out.queued_bytes >= NET_SOCK_SEND_HIGH_BYTES);
    assert_int_equal(f->conn->interest, EPOLLOUT);
    assert_non_null(f->conn->kept);
}

/* ---- tests ------------------------------------------------------------------------------- */

/* A long reply is a reason not to read, whether or not the session stops. */
static void test_input_is_read_while_little_is_queued(void **state)
{
    struct fixture *f = *state;

    store(f, VALUE_MAX);
    input(f, "get v\r\n", 7);
    assert_int_equal(f->conn->state, CACHE_SESSION_OPEN);
    assert_int_equal(f->conn->interest, EPOLLOUT);
    f->room = VALUE_MAX / 2;
    net_sock_conn_update(&f->worker, f->conn);
    assert_int_equal(f->conn->interest, EPOLLIN | EPOLLOUT);
    f->room = VALUE_MAX;
    net_sock_conn_update(&f->worker, f->conn);
    assert_int_equal(f->conn->interest, EPOLLIN);
}

/* The end of the input is always readable: it is not waited for again. */
static void test_no_input_is_read_after_its_end(void **state)
{
    struct fixture *f = *state;

    store(f, 1000);
    input(f, "get v\r\n", 7);
    assert_int_equal(f->conn->interest, EPOLLIN | EPOLLOUT);
    f->conn->eof = true;
    net_sock_conn_update(&f->worker, f->conn);
    assert_int_equal(f->conn->interest, EPOLLOUT);
    f->room = 2000;
    net_sock_conn_update(&f->worker, f->conn);
    assert_false(is_open(f));
}

/* A session that has stopped continues when half of the queue is written, and not before. */
static void test_session_continues_at_half_of_the_queue(void **state)
{
    struct fixture *f = *state;

    ask_until_blocked(f);
    f->room = f->conn->out.queued_bytes - NET_SOCK_SEND_HIGH_BYTES / 2 - 1;
    net_sock_conn_update(&f->worker, f->conn);
    assert_int_equal(net_counter_read(&f->worker.counters[NET_SOCK_BLOCKED]),
                     1); /* no other time */
    assert_int_equal(f->conn->out.queued_bytes, NET_SOCK_SEND_HIGH_BYTES / 2 + 1);
    f->room = 1;
    net_sock_conn_update(&f->worker, f->conn);
    assert_true(f->conn->out.queued_bytes >= NET_SOCK_SEND_HIGH_BYTES);
    assert_int_equal(f->conn->state, CACHE_SESSION_BLOCKED);
}

/* While the worker rests requests are kept, also those of a client that sends no more. */
static void test_kept_requests_outlast_a_rest(void **state)
{
    struct fixture *f = *state;

    ask_until_blocked(f);
    f->conn->eof = true;
    f->worker.resting = true;
    f->room = UINT64_MAX;
    net_sock_conn_update(&f->worker, f->conn);
    assert_true(is_open(f));
    assert_int_equal(f->conn->out.queued_bytes, 0);
    assert_non_null(f->conn->kept);
    f->worker.resting = false;
    net_sock_conn_update(&f->worker, f->conn);
    assert_false(is_open(f));
    /* "VALUE v 0 1000", the value, "END" and line ends of each request */
    assert_int_equal(UINT64_MAX - f->room, 1000 * (16 + 1002 + 5));
}

/* A connection has the address that its client has named, not the listener's wildcard. */
static void test_addresses_of_a_peer(void **state)
{
    static const struct net_sock_listener tcp = {.kind = NET_ENDPOINT_TCP,
                                                 .peer = {.transport = "tcp"}};
    struct sockaddr_in local = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in from = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000002), .sin_port = htons(4711)};
    socklen_t len = sizeof(local);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct cache_peer peer;

    assert_int_equal(bind(fd, (const struct sockaddr *)&local, sizeof(local)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&local, &len), 0);
    net_sock_peer(fd, &tcp, (const struct sockaddr *)&from, &peer);
    assert_string_equal(peer.transport, "tcp");
    assert_memory_equal(peer.addr, "\x0a\0\0\2", 4);
    assert_int_equal(peer.port, 4711);
    assert_memory_equal(peer.local_addr, "\x7f\0\0\1", 4);
    assert_int_equal(peer.local_port, ntohs(local.sin_port));
    close(fd);
    (void)state;
}

/* The idle timeout is for TCP (-o idle_timeout), not for programs on the same machine. */
static void test_unix_sockets_are_not_timed(void **state)
{
    struct fixture *f = *state;

    f->worker.conns.idle_timeout_s = 10;
    open_conn(f, open("/dev/null", O_RDWR | O_CLOEXEC));
    assert_false(f->conn->conn.timed);
}

/* A connection that waits for no event, as its worker rests, ends when the other end is closed. */
static void test_close_is_noticed_in_a_rest(void **state)
{
    struct fixture *f = open_worker(&net_sock_epoll, 1000000);
    struct net_sock_worker *worker = &f->worker;
    int fds[2];

    worker->wake = (struct net_sock_source){NET_SOCK_WAKE, eventfd(0, EFD_CLOEXEC)};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    assert_int_equal(worker->io->begin(worker), 0);
    open_conn(f, fds[0]);
    worker->resting = true;
    net_sock_conn_update(worker, f->conn);
    assert_int_equal(f->conn->interest, 0);
    assert_int_equal(worker->io->wait(worker, 0), 0);
    close(fds[1]);
    assert_int_equal(worker->io->wait(worker, 60000), 1);
    worker->io->dispatch(worker, 1);
    assert_false(is_open(f));
    assert_int_equal(net_counter_read(&worker->counters[NET_SOCK_ABORTED]), 1);
    worker->io->end(worker);
    close(worker->wake.fd);
    close_worker(f);
}

/* Input behind requests that wait for their turn is kept behind them. */
static void test_input_is_kept_in_order(void **state)
{
    struct fixture *f = *state;

    input(f, "mn\r\nget a\r\nmn\r\n", 15);
    assert_int_equal(f->conn->state, CACHE_SESSION_YIELDED);
    net_sock_conns_run_ready(&f->worker);
    assert_int_equal(f->conn->kept_len - f->conn->kept_at, 4);
    input(f, "mn\r\nmn\r\n", 8);
    f->worker.crowded = false;
    net_sock_conns_run_ready(&f->worker);
    assert_null(f->conn->kept);
    assert_int_equal(UINT64_MAX - f->room, 4 * strlen("MN\r\n") + strlen("END\r\n"));
}

/* What a session has not used moves with its connection, which stops between two requests. */
static void test_unused_input_is_handed_over(void **state)
{
    struct net_handover handover = {0};
    const struct net_handover_record *record;
    struct fixture *f = *state;

    input(f, "get a\r\nget b\r\nget c\r\nge", 23);
    net_sock_conns_run_ready(&f->worker);
    f->worker.resting = true;
    net_sock_conns_run_ready(&f->worker);
    assert_int_equal(f->conn->out.queued_bytes, 0);
    assert_int_equal(UINT64_MAX - f->room, 2 * strlen("END\r\n"));
    cache_tick(f->worker.conns.cache_worker, 1 + 30 * 1000000);
    net_sock_hand_over(&f->worker.worker, true, &handover);
    assert_true(net_handover_is_valid(&handover));
    record = net_handover_find(&handover, NET_HANDOVER_SOCKET);
    assert_non_null(record);
    assert_int_equal(record->transport, NET_ENDPOINT_UNIX);
    assert_int_equal(record->idle_s, 30);
    assert_int_equal(record->input_bytes, 9);
    assert_memory_equal(net_handover_input(record), "get c\r\nge", 9);
    assert_int_equal(handover.fds[record->fd], f->conn->source.fd);
    assert_int_equal(handover.left_out, 0);
    net_handover_free(&handover, false);
}

/* All are of the same listener, or of its connections. */
static unsigned count_records(const struct net_handover *handover, enum net_handover_kind kind)
{
    const struct net_handover_record *record;
    unsigned count = 0;
    size_t at = 0;

    while ((record = net_handover_next(handover, &at)) != NULL) {
        count += record->kind == kind;
        assert_int_equal(record->transport, NET_ENDPOINT_UNIX);
        assert_int_equal(record->binding, CACHE_BINDING_ASCII);
    }
    return count;
}

/* All workers have a socket that is shared, which one of them hands over. */
static void test_shared_socket_is_handed_over_once(void **state)
{
    struct net_handover handover = {0};
    struct fixture *f = *state;

    f->worker.listeners[0] = listener;
    f->worker.listeners[0].shared = true;
    f->worker.listeners[1] = listener;
    f->worker.listener_count = 2;
    net_sock_hand_over(&f->worker.worker, false, &handover);
    assert_int_equal(count_records(&handover, NET_HANDOVER_LISTENER), 1);
    net_sock_hand_over(&f->worker.worker, true, &handover);
    assert_int_equal(count_records(&handover, NET_HANDOVER_LISTENER), 1 + 2);
    net_handover_free(&handover, false);
}

/* ---- coming to rest ---------------------------------------------------------------------- */

#define REST_TURNS 3

static unsigned turns;       /* that the worker makes before it rests */
static uint64_t passed_us;   /* by CLOCK_MONOTONIC, more than the kernel says */
static uint64_t us_per_turn; /* of this time */

int clock_gettime(clockid_t id, struct timespec *now)
{
    int rc = (int)syscall(SYS_clock_gettime, id, now);
    uint64_t ns = id == CLOCK_MONOTONIC ? (uint64_t)now->tv_nsec + passed_us * 1000 : 0;

    if (id == CLOCK_MONOTONIC) {
        now->tv_sec += (time_t)(ns / 1000000000);
        now->tv_nsec = (long)(ns % 1000000000);
    }
    return rc;
}

static int wait_a_turn(struct net_sock_worker *worker, int timeout_ms)
{
    turns++;
    passed_us += us_per_turn;
    return 0;
}

/* The client reads at last. */
static void dispatch(struct net_sock_worker *worker, int events)
{
    struct fixture *f = (struct fixture *)worker;

    if (turns < REST_TURNS || !is_open(f))
        return;
    f->room = UINT64_MAX;
    net_sock_conn_update(worker, f->conn);
}

static void wake(struct net_worker *worker)
{
}

static void *resume_at_rest(void *worker)
{
    (void)net_worker_wait_paused(worker, 60000);
    net_worker_resume(worker);
    return NULL;
}

/* Pauses the worker until it is at rest. */
static void rest(struct fixture *f, uint64_t turn_us)
{
    static const struct net_worker_ops ops = {.wake = wake};
    static struct net_sock_io resting;
    struct net_worker *worker = &f->worker.worker;
    pthread_t thread;

    resting = io;
    resting.wait = wait_a_turn;
    resting.dispatch = dispatch;
    f->worker.io = &resting;
    net_worker_init(worker, &ops);
    turns = 0;
    us_per_turn = turn_us;
    assert_int_equal(net_worker_pause(worker), 0);
    assert_int_equal(pthread_create(&thread, NULL, resume_at_rest, worker), 0);
    assert_int_equal(net_sock_pause(&f->worker), 0);
    pthread_join(thread, NULL);
}

/* A connection is not at rest while replies are queued: the process may end after that. */
static void test_rest_waits_for_replies(void **state)
{
    struct fixture *f = *state;

    f->room = 0;
    input(f, "mn\r\n", 4);
    rest(f, 0);
    assert_int_equal(turns, REST_TURNS);
    assert_true(is_open(f));
    assert_int_equal(f->conn->out.queued_bytes, 0);
}

/* Connections that do not come to rest are closed after a second, and are known to be missing. */
static void test_late_connections_are_counted(void **state)
{
    struct net_handover handover = {.left_out = 5}; /* of other workers */
    struct fixture *f = *state;

    f->worker.conns.left_out = 7; /* of an earlier pause */
    f->room = 0;
    input(f, "mn\r\n", 4);
    rest(f, NET_REST_US / 2 + 1); /* late after two turns */
    assert_false(is_open(f));
    assert_int_equal(net_counter_read(&f->worker.counters[NET_SOCK_REST_CLOSED]), 1);
    net_sock_hand_over(&f->worker.worker, true, &handover);
    assert_int_equal(handover.left_out, 5 + 1);
    open_conn(f, open("/dev/null", O_RDWR | O_CLOEXEC));
    input(f, "set v 0 0 10\r\n12", 16); /* which cannot move, either */
    net_sock_hand_over(&f->worker.worker, true, &handover);
    assert_int_equal(handover.left_out, 5 + 1 + 1 + 1);
    assert_int_equal(count_records(&handover, NET_HANDOVER_SOCKET), 0);
    net_handover_free(&handover, false);
}

/* Opens connections until the cache takes no more. Returns their number. */
static unsigned fill_cache(struct fixture *f)
{
    unsigned count = 0;

    for (; !cache_is_full(f->worker.conns.cache); count++)
        open_conn(f, open("/dev/null", O_RDWR | O_CLOEXEC));
    return count;
}

static void stat_take(void *ctx, const char *name, const char *value)
{
    if (strcmp(name, "time_in_listen_disabled_us") == 0)
        *(uint64_t *)ctx = strtoull(value, NULL, 10);
}

/* An accepted connection waits for a session: it moves as it is, and gets the next one. */
static void test_connection_that_waits_for_a_session(void **state)
{
    struct net_sock_listener secure = listener;
    const struct net_handover_record *record;
    struct net_handover handover = {0};
    struct fixture *f = *state;
    struct net_sock_worker *worker = &f->worker;
    uint64_t stopped_us = 0;
    unsigned before;
    int fd;

    worker->accept_waits = true;
    (void)fill_cache(f);
    worker->now_us = 1000000;
    fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    net_sock_accepted(worker, &secure, fd);
    assert_int_equal(worker->accept, NET_SOCK_ACCEPT_FULL);
    secure.peer.tls = CACHE_TLS_ON;
    net_sock_hand_over(&worker->worker, true, &handover);
    before = count_records(&handover, NET_HANDOVER_SOCKET);
    assert_int_equal(handover.fds[handover.fd_count - 1], fd);
    record = (const void *)(handover.bytes + handover.len - sizeof(*record));
    assert_int_equal(record->tls, CACHE_TLS_ON);
    net_handover_free(&handover, false);

    secure.peer.tls = CACHE_TLS_OFF;
    worker->now_us = 1020000;
    net_sock_accept_resume(worker);
    assert_int_equal(worker->accept, NET_SOCK_ACCEPT_FULL);
    net_sock_accept_hold(worker); /* for a takeover that is given up */
    net_sock_accept_resume(worker);
    net_sock_accept_release(worker);
    assert_int_equal(worker->accept, NET_SOCK_ACCEPT_FULL);
    net_sock_conn_close(worker, f->conn);
    worker->now_us = 1500000;
    net_sock_accept_resume(worker);
    assert_int_equal(worker->accept, NET_SOCK_ACCEPTING);
    assert_null(worker->waiting.listener);
    net_sock_hand_over(&worker->worker, true, &handover);
    assert_int_equal(count_records(&handover, NET_HANDOVER_SOCKET), before - 1);
    net_handover_free(&handover, false);
    assert_true(
        cache_stats_read(worker->conns.cache, worker->now_us, NULL, stat_take, &stopped_us));
    assert_int_equal(stopped_us, 500000);
}

/* The end of the worker closes it. */
static void test_waiting_connection_is_closed_at_the_end(void **state)
{
    struct fixture *f = *state;
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    f->worker.accept_waits = true;
    (void)fill_cache(f);
    net_sock_accepted(&f->worker, &listener, fd);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    net_sock_accept_close(&f->worker);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
}

/* A reply of many values stops when enough is queued, in the middle of its request. */
static void test_long_reply_stops_in_the_middle(void **state)
{
    struct fixture *f = *state;

    store(f, VALUE_MAX);
    input(f, "get v v v v v v v v v v\r\n", 25);
    assert_int_equal(f->conn->state, CACHE_SESSION_BLOCKED);
    assert_true(f->conn->out.queued_bytes < NET_SOCK_SEND_HIGH_BYTES + VALUE_MAX + 100);
}

/* Each time that a session stops counts; one event writes a bounded part of its replies. */
static void test_session_stops_again(void **state)
{
    struct fixture *f = *state;
    char *requests = calloc(1000, 7);
    unsigned i;

    for (i = 0; i < 1000; i++)
        memcpy(requests + (size_t)7 * i, "get v\r\n", 7);
    store(f, 9000);
    for (i = 1; i <= 2; i++) {
        f->room = 0;
        input(f, requests, (size_t)7 * 1000);
        assert_int_equal(f->conn->state, CACHE_SESSION_BLOCKED);
        f->room = UINT64_MAX;
        net_sock_conn_update(&f->worker, f->conn);
        assert_true(UINT64_MAX - f->room < 5000000); /* of 9 MB */
        while (f->conn->kept || f->conn->state != CACHE_SESSION_OPEN)
            net_sock_conn_update(&f->worker, f->conn);
        net_sock_conn_update(&f->worker, f->conn);
        assert_int_equal(f->conn->out.queued_bytes, 0);
        assert_true(net_counter_read(&f->worker.counters[NET_SOCK_BLOCKED]) >= i);
    }
    free(requests);
}

/* A connection that the kernel's interface cannot serve is closed, and leaves nothing. */
static void test_connections_that_cannot_be_served(void **state)
{
    struct fixture *f = *state;
    unsigned count = atomic_load(&f->worker.conns.cache->connections);
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    f->refused = -EBUSY;
    assert_true(net_sock_conn_open(&f->worker, fd, &listener, NULL));
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    assert_ptr_equal(f->worker.conns.open.next, f->worker.conns.open.prev);
    assert_int_equal(atomic_load(&f->worker.conns.cache->connections), count);
    assert_int_equal(net_counter_read(&f->worker.counters[NET_SOCK_ABORTED]), 1);
    f->room = 0;
    input(f, "mn\r\n", 4); /* which waits for room */
    assert_false(is_open(f));
    assert_int_equal(net_counter_read(&f->worker.counters[NET_SOCK_ABORTED]), 2);
}

/* A reply that could not be queued as a whole ends its connection, and no other one follows it. */
static void test_failed_reply_ends_the_connection(void **state)
{
    struct fixture *f = *state;
    uint64_t queued;

    ask_until_blocked(f);
    queued = f->conn->out.queued_bytes;
    f->room = UINT64_MAX;
    f->conn->conn.failed = true;
    net_sock_conn_update(&f->worker, f->conn);
    assert_false(is_open(f));
    assert_int_equal(UINT64_MAX - f->room, queued);
    assert_int_equal(net_counter_read(&f->worker.counters[NET_SOCK_ABORTED]), 1);
}

/* A connection that waits for its turn reads nothing, and its replies are sent before long. */
static void test_turns_are_bounded(void **state)
{
    static char requests[7 * 200 + 1];
    struct fixture *f = *state;
    unsigned i;

    for (i = 0; i < 200; i++)
        memcpy(requests + (size_t)7 * i, "get v\r\n", 7);
    input(f, "set v 0 0 1000\r\n", 16);
    input(f, requests, 1000);
    input(f, "\r\n", 2);
    net_sock_conns_run_ready(&f->worker);
    input(f, requests, (size_t)7 * 200);
    assert_int_equal(f->conn->interest, 0);
    for (i = 0; i < 100; i++) {
        net_sock_conns_run_ready(&f->worker);
        assert_true(f->conn->out.queued_bytes < NET_SOCK_TURN_BYTES + 2000);
    }
    assert_non_null(f->conn->kept);
    assert_false(u_list_is_empty(&f->worker.ready));
    net_sock_conn_close(&f->worker, f->conn);
    assert_true(u_list_is_empty(&f->worker.ready));
}

/* Without descriptors or memory accepting pauses; other errors concern one connection. */
static void test_errors_of_accepting(void **state)
{
    static const int codes[] = {EMFILE, ENFILE, ENOBUFS, ENOMEM};
    struct fixture *f = *state;
    unsigned i;

    net_sock_accepted(&f->worker, &listener, -ECONNABORTED);
    assert_int_equal(f->worker.accept, NET_SOCK_ACCEPTING);
    for (i = 0; i < 4; i++) {
        net_sock_accepted(&f->worker, &listener, -codes[i]);
        assert_int_equal(f->worker.accept, NET_SOCK_ACCEPT_PAUSED);
        assert_int_equal(net_counter_read(&f->worker.counters[NET_SOCK_ACCEPT_PAUSES]), i + 1);
        f->worker.now_us += 1000000;
        net_sock_accept_resume(&f->worker);
        assert_int_equal(f->worker.accept, NET_SOCK_ACCEPTING);
    }
}

/*
 * What another process has handed over continues as old as it was, or is closed if it cannot. No
 * key of TLS stays behind.
 */
static void test_take_over(void **state)
{
    struct net_handover handover = {0};
    struct fixture *f = *state;
    struct net_handover_record record = {
        .kind = NET_HANDOVER_SOCKET, .transport = NET_ENDPOINT_UNIX, .idle_s = 30};
    int fds[2], kept, closed;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    kept = fds[0];
    record.fd = net_handover_add_fd(&handover, kept);
    net_handover_begin(&handover, &record);
    net_handover_end(&handover, &record);
    closed = dup(fds[1]);
    record.tls = CACHE_TLS_ON;
    record.tls_bytes = 8;
    record.fd = net_handover_add_fd(&handover, closed);
    net_handover_begin(&handover, &record);
    net_handover_add(&handover, "key of 8", 8);
    net_handover_end(&handover, &record);
    assert_true(net_handover_is_valid(&handover));
    f->worker.workers = 1;
    f->worker.handover = &handover;
    net_sock_take_over(&f->worker);
    assert_null(f->worker.conns.taken);
    assert_int_equal(fcntl(closed, F_GETFD), -1);
    assert_memory_equal(handover.bytes + handover.len - 8, "\0\0\0\0\0\0\0", 8);
    assert_int_equal(net_counter_read(&f->worker.counters[NET_SOCK_TAKEN_OVER]), 1);
    f->conn = net_sock_conn_of(U_CONTAINER_OF(f->worker.conns.open.prev, struct net_conn, link));
    assert_int_equal(f->conn->source.fd, kept);
    assert_int_equal(cache_session_idle_s(f->conn->conn.session), 30);
    net_handover_free(&handover, true);
    close(fds[1]);
}

/* Without a session for it a connection that was handed over is refused. */
static void test_take_over_without_room(void **state)
{
    struct net_handover handover = {0};
    struct fixture *f = *state;
    struct net_handover_record record = {.kind = NET_HANDOVER_SOCKET,
                                         .transport = NET_ENDPOINT_UNIX};
    int fds[2];

    (void)fill_cache(f);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    record.fd = net_handover_add_fd(&handover, fds[0]);
    net_handover_begin(&handover, &record);
    net_handover_end(&handover, &record);
    f->worker.workers = 2;
    f->worker.number = 1;
    f->worker.handover = &handover;
    net_sock_take_over(&f->worker); /* leaves it to the first worker */
    assert_int_equal(net_counter_read(&f->worker.counters[NET_SOCK_REJECTED]), 0);
    f->worker.number = 0;
    net_sock_take_over(&f->worker);
    assert_int_equal(fcntl(fds[0], F_GETFD), -1);
    assert_int_equal(net_counter_read(&f->worker.counters[NET_SOCK_REJECTED]), 1);
    net_handover_free(&handover, true);
    close(fds[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_input_is_read_while_little_is_queued, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_input_is_read_after_its_end, setup, teardown),
        cmocka_unit_test_setup_teardown(test_session_continues_at_half_of_the_queue, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_kept_requests_outlast_a_rest, setup, teardown),
        cmocka_unit_test(test_addresses_of_a_peer),
        cmocka_unit_test_setup_teardown(test_unix_sockets_are_not_timed, setup, teardown),
        cmocka_unit_test(test_close_is_noticed_in_a_rest),
        cmocka_unit_test_setup_teardown(test_input_is_kept_in_order, setup_short_turns, teardown),
        cmocka_unit_test_setup_teardown(test_unused_input_is_handed_over, setup_short_turns,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_shared_socket_is_handed_over_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rest_waits_for_replies, setup, teardown),
        cmocka_unit_test_setup_teardown(test_late_connections_are_counted, setup, teardown),
        cmocka_unit_test_setup_teardown(test_connection_that_waits_for_a_session, setup, teardown),
        cmocka_unit_test_setup_teardown(test_waiting_connection_is_closed_at_the_end, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_long_reply_stops_in_the_middle, setup, teardown),
        cmocka_unit_test_setup_teardown(test_session_stops_again, setup, teardown),
        cmocka_unit_test_setup_teardown(test_connections_that_cannot_be_served, setup, teardown),
        cmocka_unit_test_setup_teardown(test_failed_reply_ends_the_connection, setup, teardown),
        cmocka_unit_test_setup_teardown(test_turns_are_bounded, setup_short_turns, teardown),
        cmocka_unit_test_setup_teardown(test_errors_of_accepting, setup, teardown),
        cmocka_unit_test_setup_teardown(test_take_over, setup, teardown),
        cmocka_unit_test_setup_teardown(test_take_over_without_room, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
