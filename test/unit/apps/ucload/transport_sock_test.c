/* SPDX-License-Identifier: BSD-3-Clause */
/* A client on kernel sockets whose kernel takes a little of each request at a time. */
#include <arpa/inet.h>
#include <netinet/in.h>
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

#include "client.h"

#define KEYS 3
#define VALUE_BYTES 300000
#define VALUE_TEXT "300000"
#define TIMEOUT_NS UINT64_C(600000000000)

static struct plan plan;
static struct client client;
static struct thread_group group;
static int listener, accepted;
static unsigned wrong; /* bytes that the server has not got as it should */

/* Small buffers on both sides: one set is taken in some hundred pieces. */
static void shrink(int fd)
{
    const int least = 1;

    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &least, sizeof(least)), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &least, sizeof(least)), 0);
}

static void run_phase(enum phase_kind kind)
{
    client.phase = (struct phase){.kind = kind, .start_ns = client_clock_ns(), .to = KEYS};
    atomic_store(&group.busy, 1);
    atomic_store(&client.done, false);
    assert_int_equal(client_run(&client), 0);
}

static void open_client(void)
{
    struct sockaddr_in *addr = (struct sockaddr_in *)&plan.servers[0].addr;
    char error[LOAD_ERROR_MAX];

    listener = socket(AF_INET, SOCK_STREAM, 0);
    shrink(listener);
    addr->sin_family = AF_INET;
    addr->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    plan.servers[0].addr_len = sizeof(*addr);
    assert_int_equal(bind(listener, (struct sockaddr *)addr, sizeof(*addr)), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)addr, &plan.servers[0].addr_len), 0);
    plan.server_count = plan.threads = plan.depth = 1;
    plan.timeout_ns = TIMEOUT_NS;
    assert_int_equal(mix_parse(&plan.mix, "get", error), 0);
    plan.mix.multi = 1;
    assert_true(load_popularity_parse(&plan.popularity, "uniform", KEYS, 1, error));
    assert_int_equal(keyspace_open(&plan.keys, KEYS, "8", VALUE_TEXT, error), 0);
    assert_int_equal(templates_open(&plan.templates, PROTOCOL_TEXT, &plan.keys, 0), 0);
    client.group = &group;
    assert_int_equal(client_open(&client, &plan, 1, NULL), 0);
    run_phase(PHASE_CONNECT);
    accepted = accept(listener, NULL, NULL);
    assert_true(accepted >= 0);
    shrink(client.conns[0].fd);
}

static void close_client(void)
{
    client_close(&client);
    templates_close(&plan.templates);
    keyspace_close(&plan.keys);
    close(accepted);
    close(listener);
}

/* Receives these bytes. */
static void expect(const void *bytes, size_t len)
{
    const uint8_t *wanted = bytes;
    uint8_t got[4096];

    while (len > 0) {
        ssize_t n = recv(accepted, got, len < sizeof(got) ? len : sizeof(got), 0);

        if (n <= 0) {
            wrong++;
            return;
        }
        wrong += memcmp(got, wanted, (size_t)n) != 0;
        wanted += n;
        len -= (size_t)n;
    }
}

/* The server: takes the sets of all keys. */
static void *serve(void *arg)
{
    char head[64], key[LOAD_KEY_MAX];

    for (uint64_t id = 0; id < KEYS; id++) {
        uint32_t key_bytes = load_key_write(key, id, 8);
        int len =
            snprintf(head, sizeof(head), "set %.*s 0 0 " VALUE_TEXT "\r\n", (int)key_bytes, key);

        expect(head, (size_t)len);
        expect(keyspace_value(&plan.keys, id), VALUE_BYTES);
        expect("\r\n", 2);
        if (send(accepted, "STORED\r\n", 8, MSG_NOSIGNAL) != 8)
            wrong++;
    }
    return arg;
}

static void test_requests_that_are_taken_in_pieces(void **state)
{
    pthread_t server;

    (void)state;
    open_client();
    assert_int_equal(pthread_create(&server, NULL, serve, NULL), 0);
    run_phase(PHASE_STORE);
    assert_int_equal(pthread_join(server, NULL), 0);
    assert_int_equal(wrong, 0);
    assert_int_equal(client.ctx.tally.ops[OP_SET], KEYS);
    assert_int_equal(client.ctx.tally.wrong, 0);
    close_client();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_requests_that_are_taken_in_pieces)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
