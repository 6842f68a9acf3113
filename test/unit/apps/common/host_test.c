/* SPDX-License-Identifier: BSD-3-Clause */
/* Two hosts connected by a loopback link: all data arrives, although the link is often full. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/host.h"
#include "common/value.h"

#define PORT 7
#define BYTES 200000u
#define STEP_US 100
#define TURNS_MAX 100000

struct end {
    struct host host;
    struct us_conn *conn;
    bool connected, peer_closed, closed;
    uint32_t got;
};

static struct end server, client;
static uint8_t bytes[BYTES];

/* The devices' functions, and those of devices that take a part of each burst or nothing. */
static const struct nic_ops *loopback;
static struct nic_ops limited;
static bool takes_nothing;
static uint64_t waited_us;

static unsigned take_half(struct nic *nic, struct us_pkt **pkts, unsigned n)
{
    return takes_nothing ? 0 : loopback->tx_burst(nic, pkts, n - n / 2);
}

static int note_wait(struct nic *nic, uint64_t timeout_us)
{
    waited_us = timeout_us;
    return 0;
}

static void on_event(void *ctx, const struct us_event *event)
{
    struct end *end = ctx;

    if (event->type == US_EV_ACCEPTED || event->type == US_EV_CONNECTED) {
        end->conn = event->conn;
        end->connected = true;
    } else if (event->type == US_EV_DATA) {
        assert_true(end->got + event->len <= BYTES);
        assert_memory_equal(event->data, bytes + end->got, event->len);
        end->got += event->len;
    } else if (event->type == US_EV_PEER_CLOSED) {
        end->peer_closed = true;
        us_close(end->host.stack, end->conn);
    } else if (event->type == US_EV_CLOSED) {
        end->closed = true;
    }
}

static void open_end(struct end *end, struct nic *nic, const char *address)
{
    const struct host_config config = {.conn_max = 4};
    struct link_options link = {0};
    char error[LINK_ERROR_MAX];

    memset(end, 0, sizeof(*end));
    assert_int_equal(value_network(address, &link.ip[0]), 0);
    link.ip_count = 1;
    assert_int_equal(host_open(&end->host, nic, &link, &config, error), 0);
}

static void open_both(const char *server_address, const char *client_address)
{
    const struct nic_loopback_config config = {0};
    char error[NIC_ERROR_MAX];
    struct nic *ends[2];
    unsigned i;

    for (i = 0; i < BYTES; i++)
        bytes[i] = (uint8_t)(i * 7 + i / 251);
    assert_int_equal(nic_loopback_open(&config, ends, error), 0);
    loopback = ends[0]->ops;
    limited = *loopback;
    limited.tx_burst = take_half;
    limited.wait = note_wait;
    takes_nothing = false;
    ends[0]->ops = ends[1]->ops = &limited;
    open_end(&server, ends[0], server_address);
    open_end(&client, ends[1], client_address);
    assert_int_equal(us_listen(server.host.stack, PORT, NULL), US_OK);
}

static unsigned turn(struct end *end, uint64_t now_us)
{
    unsigned n = host_receive(&end->host, now_us, on_event, end);

    return n + host_transmit(&end->host, now_us);
}

static u_u64 counter(const struct end *end, const char *name)
{
    unsigned i;

    for (i = 0; i < us_counter_count(); i++) {
        if (strcmp(us_counter_name(i), name) == 0)
            return us_counter(end->host.stack, i);
    }
    fail_msg("no counter %s", name);
    return 0;
}

/*
 * The client sends all bytes; the server receives in one of three turns. The device takes a half of
 * each burst, and no frame has to be sent again.
 */
static void a_full_lower_device_loses_no_frame(void **state)
{
    struct us_addr addr = {.family = US_IP4, .bytes = {10, 0, 0, 1}};
    uint64_t now_us = 1000000;
    unsigned turns;
    uint32_t sent = 0;
    int error;

    open_both("10.0.0.1/24", "10.0.0.2/24");
    client.conn = us_connect(client.host.stack, &addr, PORT, 0, NULL, &error);
    assert_non_null(client.conn);
    for (turns = 0; !client.closed && turns < TURNS_MAX; turns++, now_us += STEP_US) {
        long n = 0;

        if (client.connected && sent < BYTES)
            n = us_send(client.host.stack, client.conn, bytes + sent, BYTES - sent);
        sent += n > 0 ? (uint32_t)n : 0;
        if (client.connected && sent == BYTES && !client.peer_closed)
            us_close(client.host.stack, client.conn);
        turn(&client, now_us);
        if (turns % 3 == 0)
            turn(&server, now_us);
    }
    assert_true(client.closed);
    assert_int_equal(server.got, BYTES);
    assert_int_equal(counter(&client, "tcp_retransmits"), 0);
    assert_int_equal(counter(&client, "tcp_rx_dup_acks"), 0);
    host_close(&client.host, now_us);
    host_close(&server.host, now_us);
}

/* A wait ends with the next timer, or soon if the device has not taken all frames. */
static void a_wait_ends_in_time(void **state)
{
    struct us_addr addr = {.family = US_IP4, .bytes = {10, 0, 0, 1}};
    const uint64_t now_us = 1000000;
    uint64_t deadline_us;
    int error;

    open_both("10.0.0.1/24", "10.0.0.2/24");
    assert_non_null(us_connect(client.host.stack, &addr, PORT, 0, NULL, &error));
    while (turn(&client, now_us) > 0 || client.host.unsent_count > 0)
        continue;
    deadline_us = us_deadline(client.host.stack);
    assert_in_range(deadline_us, now_us + 1, now_us + 10000000);
    assert_int_equal(host_wait(&client.host, now_us, 20000000), 0);
    assert_int_equal(waited_us, deadline_us - now_us);
    assert_int_equal(host_wait(&client.host, now_us, 7), 0);
    assert_int_equal(waited_us, 7);
    waited_us = 0;
    assert_int_equal(host_wait(&client.host, deadline_us, 20000000), 0);
    assert_int_equal(waited_us, 0); /* the timer is due */
    takes_nothing = true;
    addr.bytes[3] = 3; /* whose hardware address is asked for */
    assert_non_null(us_connect(client.host.stack, &addr, PORT, 0, NULL, &error));
    turn(&client, now_us);
    assert_int_equal(host_wait(&client.host, now_us, 20000000), 0);
    assert_in_range(waited_us, 1, 10000);
    takes_nothing = false;
    host_close(&client.host, now_us);
    host_close(&server.host, now_us);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wait_ends_in_time),
        cmocka_unit_test(a_full_lower_device_loses_no_frame),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
