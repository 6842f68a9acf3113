/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagrams to sock workers, which receive and answer them in batches. */
#define _GNU_SOURCE /* recvmmsg(), sendmmsg() */
#include <netinet/in.h>
#include <sys/syscall.h>

#include "sock_rig.h"

static int datagram_client(const struct fixture *f)
{
    int fd = socket(AF_INET, SOCK_DGRAM, 0);

    assert_true(fd >= 0);
    must_connect(f, fd);
    return fd;
}

/* Many datagrams from many sockets, so that both workers have some and batches form. */
static void test_datagrams(void **state)
{
    static const char request[] = "\0\7\0\0\0\1\0\0incr n 1\r\n";
    struct shape shape = {.connections_max = 4, .udp = true};
    struct fixture *f = fixture_shaped(&shape);
    const unsigned clients = 8, rounds = 20;
    unsigned replies = 0;
    char got[2000];
    int fds[8];
    unsigned i, round;
    int tcp = client_open(f);
    ssize_t n;

    ask(tcp, "set n 0 0 1\r\n0\r\n", "STORED\r\n");
    for (i = 0; i < clients; i++)
        fds[i] = datagram_client(f);
    for (round = 0; round < rounds; round++) {
        for (i = 0; i < clients; i++)
            must_send(fds[i], request, 18);
        for (i = 0; i < clients; i++) {
            n = receive(fds[i], got, sizeof(got));
            assert_true(n >= 8 + 3);
            assert_memory_equal(got, "\0\7\0\0\0\1\0\0", 8);
            replies++;
        }
    }
    ask(tcp, "get n\r\n", "VALUE n 0 3\r\n160\r\nEND\r\n");
    assert_int_equal(replies, clients * rounds);

    /* Nonsense is dropped, and a large reply comes in order on this loopback. */
    must_send(fds[0], "x", 1);
    store(tcp, "big", 20000);
    must_send(fds[0], "\1\1\0\0\0\1\0\0get big\r\n", 17);
    for (i = 0; i < 15; i++) {
        n = receive(fds[0], got, sizeof(got));
        assert_int_equal(n, i < 14 ? 1400 : 20000 + 26 - 14 * 1392 + 8);
        assert_int_equal(got[3], (int)i);
        assert_int_equal(got[5], 15);
    }
    wait_for_count(f, NET_SOCK_UDP_SENT, clients * rounds + 15);
    assert_int_equal(counter(f, NET_SOCK_UDP_MALFORMED), 1);
    assert_int_equal(counter(f, NET_SOCK_UDP_REQUESTS), clients * rounds + 1);
    assert_int_equal(counter(f, NET_SOCK_UDP_SENT), clients * rounds + 15);
    assert_int_equal(counter(f, NET_SOCK_UDP_UNSENT), 0);
    for (i = 0; i < clients; i++)
        close(fds[i]);
    close(tcp);
    fixture_close(f);
}

/*
 * Datagrams that are queued before the worker starts are served in one turn. Their replies, 1 MB
 * each, exceed the worker's reply buffer.
 */
static void test_datagrams_with_large_replies(void **state)
{
    enum { VALUE = 60000, KEYS = 17, REQUESTS = 8 };
    struct shape shape = {.connections_max = 4, .udp = true};
    struct fixture *f = fixture_idle(&shape);
    char *keys = repeat(" v", KEYS);
    char datagram[VALUE + 100] = "\0\1\0\0\0\1\0\0";
    unsigned reply = KEYS * (VALUE + 19) + 5; /* "VALUE v 0 60000" and two line ends, "END" */
    int fd = datagram_client(f);
    int len = 8 + snprintf(datagram + 8, 100, "set v 0 0 %d\r\n", VALUE);
    unsigned i;

    memset(datagram + len, 'v', VALUE);
    memcpy(datagram + len + VALUE, "\r\n", 2);
    must_send(fd, datagram, (size_t)len + VALUE + 2);
    len = 8 + snprintf(datagram + 8, 100, "get%s\r\n", keys);
    for (i = 0; i < REQUESTS; i++)
        must_send(fd, datagram, (size_t)len);
    fixture_start(f);
    wait_for_count(f, NET_SOCK_UDP_REQUESTS, 1 + REQUESTS);
    for (i = 0; i < NAPS_MAX; i++) {
        if (counter(f, NET_SOCK_UDP_SENT) + counter(f, NET_SOCK_UDP_UNSENT) ==
            1 + REQUESTS * ((reply + 1391) / 1392))
            break;
        nap();
    }
    assert_true(i < NAPS_MAX);
    assert_int_equal(counter(f, NET_SOCK_UDP_MALFORMED), 0);
    close(fd);
    free(keys);
    fixture_close(f);
}

/* Connections that wait for a session keep no datagrams from being answered. */
static void test_datagrams_while_connections_wait(void **state)
{
    struct shape shape = {.connections_max = 1, .udp = true, .accept_waits = true};
    struct fixture *f = fixture_shaped(&shape);
    int first = client_open(f), waiting[8], fds[8];
    char got[100];
    unsigned i;

    ask(first, "get a\r\n", "END\r\n");
    for (i = 0; i < 8; i++)
        waiting[i] = client_open(f);
    for (i = 0; i < NAPS_MAX; i++) { /* until a worker has stopped accepting */
        static char stats[STATS_MAX];

        read_stats(first, "stats\r\n", stats);
        if (strstr(stats, "STAT accepting_conns 0\r\n"))
            break;
        nap();
    }
    assert_true(i < NAPS_MAX);
    for (i = 0; i < 8; i++) {
        fds[i] = datagram_client(f);
        must_send(fds[i], "\0\1\0\0\0\1\0\0get a\r\n", 15);
    }
    for (i = 0; i < 8; i++) {
        assert_int_equal(receive(fds[i], got, sizeof(got)), 13);
        close(fds[i]);
        close(waiting[i]);
    }
    close(first);
    fixture_close(f);
}

/* What the next sendmmsg() of a worker fails with; 0: it does not. */
static atomic_int sendmmsg_error;

int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
    int error = atomic_exchange(&sendmmsg_error, 0);

    if (error == 0)
        return (int)syscall(SYS_sendmmsg, fd, messages, count, flags);
    errno = error;
    return -1;
}

/* A reply that cannot be sent does not keep the replies to others. */
static void test_datagram_to_nowhere(void **state)
{
    struct shape shape = {.connections_max = 4, .udp = true};
    struct fixture *f = fixture_idle(&shape);
    int fd = datagram_client(f);
    char got[100];

    must_send(fd, "\0\1\0\0\0\1\0\0get a\r\n", 15);
    must_send(fd, "\0\2\0\0\0\1\0\0get a\r\n", 15);
    atomic_store(&sendmmsg_error, EHOSTUNREACH);
    fixture_start(f);
    wait_for_count(f, NET_SOCK_UDP_UNSENT, 1);
    assert_int_equal(counter(f, NET_SOCK_UDP_UNSENT), 1);
    assert_int_equal(receive(fd, got, sizeof(got)), 13);
    assert_memory_equal(got, "\0\2\0\0\0\1\0\0END\r\n", 13);
    close(fd);
    fixture_close(f);
}

/* The network of IPv6 that datagrams seem to come from; 0: none, as they do not. */
static atomic_uchar network;

int recvmmsg(int fd, struct mmsghdr *msgs, unsigned count, int flags, struct timespec *timeout)
{
    struct sockaddr_in6 from = {.sin6_family = AF_INET6, .sin6_port = htons(1024)};
    int n = (int)syscall(SYS_recvmmsg, fd, msgs, count, flags, timeout);
    int i;

    memcpy(&from.sin6_addr, "\x20\x01\x0d\xb8\0\0\0", 7);
    from.sin6_addr.s6_addr[7] = atomic_load(&network);
    for (i = 0; i < n && from.sin6_addr.s6_addr[7] > 0; i++)
        memcpy(msgs[i].msg_hdr.msg_name, &from, sizeof(from));
    return n;
}

/* A network of IPv6 that has used up its rate takes nothing away from others of its provider. */
static void test_rate_of_a_network(void **state)
{
    enum { VALUE = 400000, REQUESTS = NET_UDP_REPLY_BYTES_MAX / VALUE + 1 };
    struct shape shape = {.connections_max = 4, .udp = true, .udp_bytes_per_s = 1};
    struct fixture *f = fixture_shaped(&shape);
    int fd = datagram_client(f), tcp = client_open(f);
    unsigned i;

    store(tcp, "v", VALUE);
    atomic_store(&network, 1);
    for (i = 1; i < REQUESTS; i++) {
        must_send(fd, "\0\1\0\0\0\1\0\0get v\r\n", 15);
        wait_for_count(f, NET_SOCK_UDP_REQUESTS, i);
    }
    must_send(fd, "\0\1\0\0\0\1\0\0get v\r\n", 15);
    wait_for_count(f, NET_SOCK_UDP_LIMITED, 1);
    atomic_store(&network, 2);
    must_send(fd, "\0\1\0\0\0\1\0\0get v\r\n", 15);
    for (i = 0; counter(f, NET_SOCK_UDP_REQUESTS) + counter(f, NET_SOCK_UDP_LIMITED) <= REQUESTS;
         i++) {
        assert_true(i < NAPS_MAX);
        nap();
    }
    assert_int_equal(counter(f, NET_SOCK_UDP_LIMITED), 1);
    atomic_store(&network, 0);
    close(fd);
    close(tcp);
    fixture_close(f);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_datagrams),
        cmocka_unit_test(test_datagrams_with_large_replies),
        cmocka_unit_test(test_datagrams_while_connections_wait),
        cmocka_unit_test(test_datagram_to_nowhere),
        cmocka_unit_test(test_rate_of_a_network),
    };
    int skipped = rig_begin(argc, argv);

    return skipped ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
