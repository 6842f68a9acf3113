/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections of sock workers: requests, replies that wait for a client, turns, and their ends. */
#define _GNU_SOURCE /* syscall() */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>

#include "alarms.h"
#include "cache/watch.h"
#include "sock_rig.h"

/* Ends, but in one of a thousand cases, behind the turn of a second: its nanoseconds carry. */
#define PATIENCE_MS 59999

static void test_set_and_get(void **state)
{
    int fd = client_open(*state);

    ask(fd, "get a\r\n", "END\r\n");
    ask(fd, "set a 5 0 3\r\nabc\r\n", "STORED\r\n");
    ask(fd, "get a\r\n", "VALUE a 5 3\r\nabc\r\nEND\r\n");
    close(fd);
}

/* A value that takes many reads and many writes, as one client sees it from another's thread. */
static void test_large_value(void **state)
{
    static char got[900100];
    const char *head = "VALUE big 0 900000\r\n";
    int fd = client_open(*state);
    int other = client_open(*state);

    store(fd, "big", 900000);
    must_send(other, "get big\r\n", 9);
    must_receive(other, got, strlen(head) + 900000 + 7);
    assert_memory_equal(got, head, strlen(head));
    assert_memory_equal(got + strlen(head) + 899999, "v\r\nEND\r\n", 8);
    close(fd);
    close(other);
}

/* Sends until the server stops reading, while it has to serve another client; then reads all. */
static void never_reading(struct fixture *f, size_t value_len)
{
    int lazy = client_open(f);
    int busy = client_open(f);
    char *requests = repeat("get v\r\n", 1000000);
    size_t len = strlen(requests);
    size_t sent = 0;
    char head[40];
    size_t reply_len =
        (size_t)snprintf(head, sizeof(head), "VALUE v 0 %zu\r\n", value_len) + value_len + 2 + 5;
    char *got = malloc(reply_len);
    unsigned quiet = 0;
    size_t i;
    int small = 16384;
    ssize_t n;

    /* Or this side's kernel would take all requests although the server does not. */
    assert_int_equal(setsockopt(lazy, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
    store(busy, "v", value_len);
    while (sent < len && (quiet < 40 || counter(f, NET_SOCK_BLOCKED) == 0)) {
        assert_true(quiet < NAPS_MAX);
        n = send(lazy, requests + sent, len - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        quiet = n > 0 ? 0 : quiet + 1;
        sent += n > 0 ? (size_t)n : 0;
        if (n <= 0)
            nap();
    }
    assert_true(sent < len); /* the server has stopped reading */
    for (i = 0; i < 20; i++)
        ask(busy, "get nothing\r\n", "END\r\n");
    for (i = 0; i < 500; i++) {
        must_receive(lazy, got, reply_len);
        assert_memory_equal(got, head, strlen(head));
        assert_memory_equal(got + reply_len - 7, "\r\nEND\r\n", 7);
    }
    close(lazy); /* with much unread: the server gets a reset */
    ask(busy, "get nothing\r\n", "END\r\n");
    close(busy);
    free(got);
    free(requests);
}

static void test_never_reading_small(void **state)
{
    never_reading(*state, 300);
}

static void test_never_reading_references(void **state)
{
    never_reading(*state, 50000);
}

static void test_half_close(void **state)
{
    struct fixture *f = *state;
    const unsigned count = 5000;
    char *requests = repeat("get v\r\n", count);
    size_t reply_len = strlen("VALUE v 0 2000\r\n") + 2000 + 2 + 5;
    char *got = malloc(count * reply_len);
    int fd = client_open(f);

    store(fd, "v", 2000);
    must_send(fd, requests, strlen(requests));
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    nap();
    must_receive(fd, got, count * reply_len);
    assert_memory_equal(got + count * reply_len - 7, "\r\nEND\r\n", 7);
    expect_end(fd);
    close(fd);
    free(got);
    free(requests);
}

static void test_quit(void **state)
{
    int fd = client_open(*state);

    ask(fd, "get a\r\nquit\r\n", "END\r\n");
    expect_end(fd);
    close(fd);
}

/* Deep pipelines of several clients: they are served in turns, and all replies come in order. */
static void test_turns(void **state)
{
    struct shape shape = {.connections_max = 20, .requests_per_event = 3};
    struct fixture *f = fixture_shaped(&shape);
    char *requests = repeat("get t\r\nget none\r\n", 5000);
    char *replies = repeat("VALUE t 0 1\r\n7\r\nEND\r\nEND\r\n", 5000);
    size_t len = strlen(replies);
    char *got = malloc(len);
    int fds[6];
    unsigned i;

    for (i = 0; i < 6; i++)
        fds[i] = client_open(f);
    ask(fds[0], "set t 0 0 1\r\n7\r\n", "STORED\r\n");
    for (i = 0; i < 6; i++)
        must_send(fds[i], requests, strlen(requests));
    for (i = 0; i < 6; i++) {
        must_receive(fds[i], got, len);
        assert_memory_equal(got, replies, len);
    }
    for (i = 0; i < 6; i++)
        close(fds[i]);
    free(got);
    free(requests);
    free(replies);
    fixture_close(f);
}

/* Half-closed in the middle of its turns: it gets all replies, then the end. */
static void test_turns_and_half_close(void **state)
{
    struct shape shape = {.connections_max = 20, .requests_per_event = 1};
    struct fixture *f = fixture_shaped(&shape);
    char *requests = repeat("get none\r\n", 3000);
    char *got = malloc(3000 * 5);
    int fds[4];
    unsigned i;

    for (i = 0; i < 4; i++)
        fds[i] = client_open(f);
    for (i = 0; i < 4; i++) {
        must_send(fds[i], requests, strlen(requests));
        assert_int_equal(shutdown(fds[i], SHUT_WR), 0);
    }
    for (i = 0; i < 4; i++) {
        must_receive(fds[i], got, 3000 * 5);
        expect_end(fds[i]);
        close(fds[i]);
    }
    free(got);
    free(requests);
    fixture_close(f);
}

/* The time by CLOCK_MONOTONIC while a test moves it; 0: the kernel's. */
static atomic_uint_least64_t clock_us;

int clock_gettime(clockid_t id, struct timespec *now)
{
    uint64_t us = atomic_load(&clock_us);

    if (id != CLOCK_MONOTONIC || us == 0)
        return (int)syscall(SYS_clock_gettime, id, now);
    now->tv_sec = (time_t)(us / 1000000);
    now->tv_nsec = (long)(us % 1000000) * 1000;
    return 0;
}

/* Until each worker has begun and ended a turn; it counts a turn after reading the clock. */
static void wait_for_turns(const struct fixture *f)
{
    unsigned i, naps;

    for (i = 0; i < THREADS; i++) {
        const struct net_sock_worker *worker = (const struct net_sock_worker *)f->workers[i];
        uint64_t begin = net_counter_read(&worker->counters[NET_SOCK_LOOPS]);

        for (naps = 0; net_counter_read(&worker->counters[NET_SOCK_LOOPS]) < begin + 3; naps++) {
            assert_true(naps < NAPS_MAX);
            nap();
        }
    }
}

/*
 * An idle client is closed, also behind busy ones of the same worker; who asks, or is in the middle
 * of a request, stays.
 */
static void test_idle_timeout(void **state)
{
    struct shape shape = {.connections_max = 2 * CLIENTS_MAX, .idle_timeout_s = 2};
    struct fixture *f = fixture_idle(&shape);
    int busy[CLIENTS_MAX], idle, slow;
    unsigned busy_count, seconds, i;

    atomic_store(&clock_us, net_clock_us());
    fixture_start(f);
    busy_count = meet_workers(f, busy);
    idle = client_open(f);
    slow = client_open(f);
    ask(idle, "get a\r\n", "END\r\n");
    ask(slow, "get a\r\nset s 0 0 2\r\n1", "END\r\n");
    for (seconds = 1; seconds <= 3; seconds++) {
        atomic_fetch_add(&clock_us, 1000000);
        wait_for_turns(f);
        assert_int_equal(counter(f, NET_SOCK_IDLE_CLOSED), seconds > 2);
        for (i = 0; i < busy_count; i++)
            ask(busy[i], "get a\r\n", "END\r\n");
    }
    expect_end(idle);
    ask(slow, "2\r\n", "STORED\r\n");
    close(idle);
    close(slow);
    for (i = 0; i < busy_count; i++)
        close(busy[i]);
    fixture_close(f);
    atomic_store(&clock_us, 0);
}

/* A takeover that is given up: connections rest between two requests, and continue. */
static void test_connections_continue_after_a_pause(void **state)
{
    struct fixture *f = *state;
    int fds[CLIENTS_MAX];
    unsigned count = meet_workers(f, fds), i, pause;

    for (pause = 0; pause < 3; pause++) {
        for (i = 0; i < THREADS; i++)
            assert_int_equal(net_worker_pause(f->workers[i]), 0);
        for (i = 0; i < THREADS; i++)
            assert_true(net_worker_wait_paused(f->workers[i], PATIENCE_MS));
        for (i = 0; i < count; i++)
            must_send(fds[i], "mn\r\nget a\r\n", 11);
        for (i = 0; i < THREADS; i++)
            net_worker_resume(f->workers[i]);
        for (i = 0; i < count; i++)
            expect(fds[i], "MN\r\nEND\r\n");
    }
    for (i = 0; i < count; i++)
        close(fds[i]);
    assert_int_equal(counter(f, NET_SOCK_REST_CLOSED), 0);
}

/* The worker has come to rest after an earlier pause was given up: that is not this one's rest. */
static void test_rest_of_an_earlier_pause_does_not_count(void **state)
{
    struct shape shape = {.connections_max = 4};
    struct fixture *f = fixture_idle(&shape); /* no worker runs */
    struct net_worker *worker = f->workers[0];

    assert_int_equal(sem_post(&worker->paused), 0);
    assert_int_equal(net_worker_pause(worker), 0);
    assert_false(net_worker_wait_paused(worker, 1));
    net_worker_resume(worker);
    fixture_close_idle(f);
}

/* A worker that does not rest is waited for as long as asked, parts of a second included. */
static void test_wait_for_a_pause(void **state)
{
    struct shape shape = {.connections_max = 4};
    struct fixture *f = fixture_idle(&shape); /* no worker runs */
    struct timespec before, after;

    clock_gettime(CLOCK_MONOTONIC, &before);
    assert_false(net_worker_wait_paused(f->workers[0], 100));
    clock_gettime(CLOCK_MONOTONIC, &after);
    assert_true((after.tv_sec - before.tv_sec) * 1000000000 + after.tv_nsec - before.tv_nsec >
                50000000);
    fixture_close_idle(f);
}

static _Atomic(struct net_worker *) rests_late;
static atomic_uint alarms;

/* The worker has come to rest after some signals, which any thread may handle. */
static void on_alarm(int number)
{
    if (atomic_fetch_add(&alarms, 1) == 2)
        (void)sem_post(&atomic_load(&rests_late)->paused);
}

/* Signals that are handled meanwhile do not end the wait. */
static void test_wait_for_a_pause_with_signals(void **state)
{
    struct shape shape = {.connections_max = 4};
    struct fixture *f = fixture_idle(&shape); /* no worker runs */

    atomic_store(&rests_late, f->workers[0]);
    atomic_store(&alarms, 0);
    alarms_begin(on_alarm);
    assert_true(net_worker_wait_paused(f->workers[0], PATIENCE_MS));
    alarms_end();
    assert_true(atomic_load(&alarms) >= 3);
    fixture_close_idle(f);
}

/* ---- how long a worker sleeps ------------------------------------------------------------ */

/* At most: before anything, with a connection, without accepting, with a watcher, busy. */
static int slept_ms[5];
static unsigned sleeps;

static int sleep_begin(struct net_sock_worker *worker)
{
    sleeps = 0;
    return 0;
}

static void sleep_end(struct net_sock_worker *worker)
{
}

static int sleep_wait(struct net_sock_worker *worker, int timeout_ms)
{
    slept_ms[sleeps] = timeout_ms;
    return 0;
}

static int serve_none(struct net_sock_worker *worker, struct net_sock_conn *conn)
{
    return 0;
}

static int want_none(struct net_sock_worker *worker, struct net_sock_conn *conn, uint32_t interest)
{
    return 0;
}

static enum net_sendq_result write_none(struct net_sock_worker *worker, struct net_sock_conn *conn)
{
    return NET_SENDQ_PENDING;
}

/* Gives the session more than it uses in its turn and the next one. */
static void use_turn(struct net_sock_worker *worker, struct net_sock_conn *conn)
{
    struct net_conn *net = &conn->conn;

    net->timed = false; /* it keeps its place in the list */
    assert_true(net_sock_conn_input(worker, conn, (const uint8_t *)"mn\r\nmn\r\nmn\r\n", 12) >= 0);
    net_sock_conn_update(worker, conn);
}

static struct net_sock_conn *open_conn(struct net_sock_worker *worker)
{
    static const struct net_sock_listener tcp = {.kind = NET_ENDPOINT_TCP,
                                                 .peer = {.transport = "tcp"}};
    static const struct sockaddr from = {.sa_family = AF_UNSPEC};

    assert_true(net_sock_conn_open(worker, dup(worker->wake.fd), &tcp, &from));
    return net_sock_conn_of(U_CONTAINER_OF(worker->conns.open.prev, struct net_conn, link));
}

/* Each turn adds a reason for a shorter sleep. */
static void sleep_dispatch(struct net_sock_worker *worker, int events)
{
    static const uint8_t watch[] = "watch fetchers\r\n";
    static struct net_sock_conn *asking[2];
    struct net_sock_conn *watcher;
    unsigned i;

    sleeps++;
    for (i = 0; sleeps == 1 && i < 2; i++)
        asking[i] = open_conn(worker);
    if (sleeps == 2)
        worker->accept = NET_SOCK_ACCEPT_PAUSED;
    if (sleeps == 3) {
        watcher = open_conn(worker);
        assert_true(net_sock_conn_input(worker, watcher, watch, sizeof(watch) - 1) >= 0);
        net_sock_conn_update(worker, watcher);
    }
    worker->crowded = true;
    for (i = 0; sleeps == 4 && i < 2; i++)
        use_turn(worker, asking[i]);
    worker->accept_retry_us = UINT64_MAX;
    if (sleeps == 5)
        net_worker_stop(&worker->worker);
}

/* Time limits of connections, held back clients, watchers and turns left each have their own. */
static void test_sleeps(void **state)
{
    static const struct net_sock_io io = {
        .conn_bytes = sizeof(struct net_sock_conn),
        .begin = sleep_begin,
        .end = sleep_end,
        .wait = sleep_wait,
        .dispatch = sleep_dispatch,
        .conn_begin = serve_none,
        .conn_want = want_none,
        .conn_flush = write_none,
        .conn_end = net_sock_conn_free,
    };
    struct shape shape = {.connections_max = 4, .idle_timeout_s = 10, .requests_per_event = 1};
    struct fixture *f = fixture_idle(&shape);

    ((struct net_sock_worker *)f->workers[0])->io = &io;
    assert_int_equal(net_worker_run(f->workers[0]), 0);
    assert_int_equal(slept_ms[0], 1000);
    assert_int_equal(slept_ms[1], 250);
    assert_int_equal(slept_ms[2], 10);
    assert_int_equal(slept_ms[3], CACHE_WATCH_POLL_US / 1000);
    assert_int_equal(slept_ms[4], 0);
    fixture_close_idle(f);
}

/* Runs a worker on a thread that may make no ring. */
static void *run_without_rings(void *worker)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOMEM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {U_ARRAY_LEN(code), code};

    assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    assert_int_equal(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter), 0);
    return run(worker);
}

/* A worker that reaches a limit of io_uring when it begins serves its clients by epoll. */
static void test_rings_that_cannot_be_made(void **state)
{
    struct shape shape = {.connections_max = 4};
    bool before = by_uring;
    struct fixture *f;
    unsigned i;
    int fd;

    if (!net_sock_uring.begin || getenv("UCACHED_VALGRIND"))
        skip();
    by_uring = true;
    f = fixture_idle(&shape);
    by_uring = before;
    for (i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&f->threads[i], NULL, run_without_rings, f->workers[i]), 0);
    fd = client_open(f);
    ask(fd, "get a\r\n", "END\r\n");
    close(fd);
    fixture_close(f);
}

/* Ends a connection and waits until the server has: the next one finds its place free. */
static void client_close(int fd)
{
    char byte;

    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    assert_int_equal(receive(fd, &byte, 1), 0);
    close(fd);
}

/* Clients that connect and disconnect while others work, on both threads. */
static void test_many_clients(void **state)
{
    int fds[60];
    unsigned round, i;

    for (round = 0; round < 20; round++) {
        for (i = 0; i < 50; i++)
            fds[i] = client_open(*state);
        for (i = 0; i < 50; i++)
            ask(fds[i], "set m 0 0 1\r\n1\r\nget m\r\n", "STORED\r\nVALUE m 0 1\r\n1\r\nEND\r\n");
        for (i = 0; i < 50; i++)
            client_close(fds[i]);
    }
}

/* The sums of all workers. */
static void test_stats(void **state)
{
    char got[STATS_MAX], line[64];
    int fds[CLIENTS_MAX];
    unsigned count = meet_workers(*state, fds);

    read_stats(fds[0], "stats sock\r\n", got);
    snprintf(line, sizeof(line), "STAT sessions_accepted %u\r\n", count);
    assert_non_null(strstr(got, line));
    while (count > 0)
        close(fds[--count]);
}

/* The end closes all connections. */
static void test_stop_with_open_connections(void **state)
{
    struct fixture *f = fixture_open(64);
    char *requests = repeat("get v\r\n", 2000);
    int fds[10];
    unsigned i;

    for (i = 0; i < 10; i++) {
        fds[i] = client_open(f);
        store(fds[i], "v", 50000);
    }
    for (i = 0; i < 10; i++)
        must_send(fds[i], requests, strlen(requests));
    nap();
    fixture_close(f);
    for (i = 0; i < 10; i++)
        close(fds[i]);
    free(requests);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_set_and_get, setup, teardown),
        cmocka_unit_test_setup_teardown(test_large_value, setup, teardown),
        cmocka_unit_test_setup_teardown(test_never_reading_small, setup, teardown),
        cmocka_unit_test_setup_teardown(test_never_reading_references, setup, teardown),
        cmocka_unit_test_setup_teardown(test_half_close, setup, teardown),
        cmocka_unit_test_setup_teardown(test_quit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many_clients, setup, teardown),
        cmocka_unit_test_setup_teardown(test_connections_continue_after_a_pause, setup, teardown),
        cmocka_unit_test(test_rest_of_an_earlier_pause_does_not_count),
        cmocka_unit_test(test_wait_for_a_pause),
        cmocka_unit_test(test_wait_for_a_pause_with_signals),
        cmocka_unit_test_setup_teardown(test_stats, setup, teardown),
        cmocka_unit_test(test_stop_with_open_connections),
        cmocka_unit_test(test_turns),
        cmocka_unit_test(test_turns_and_half_close),
        cmocka_unit_test(test_idle_timeout),
        cmocka_unit_test(test_sleeps),
        cmocka_unit_test(test_rings_that_cannot_be_made),
    };
    int skipped = rig_begin(argc, argv);

    return skipped ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
