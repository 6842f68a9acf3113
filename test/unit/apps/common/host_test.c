/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two hosts connected by a loopback link: all data arrives, also if a host takes one event at a
 * time and has no room for more.
 */
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
    unsigned room; /* room for events, if limited */
    unsigned events;
    uint32_t got;
};

static struct end server, client;
static uint8_t bytes[BYTES];

static bool room_left(void *ctx)
{
    const struct end *end = ctx;

    return end->room > 0;
}

static void on_event(void *ctx, const struct us_event *event)
{
    struct end *end = ctx;

    end->events++;
    end->room -= end->room > 0;
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
    open_end(&server, ends[0], server_address);
    open_end(&client, ends[1], client_address);
    assert_int_equal(us_listen(server.host.stack, PORT, NULL), US_OK);
}

static unsigned turn(struct end *end, uint64_t now_us)
{
    unsigned n = host_receive(&end->host, now_us, on_event, end);

    return n + host_transmit(&end->host, now_us);
}

/* The client sends all bytes; the server has room for one event per turn. */
static void a_full_lower_device_loses_no_frame(void **state)
{
    struct us_addr addr = {.family = US_IP4, .bytes = {10, 0, 0, 1}};
    uint64_t now_us = 1000000;
    unsigned turns, full = 0;
    uint32_t sent = 0;
    int error;

    open_both("10.0.0.1/24", "10.0.0.2/24");
    server.host.has_room = room_left;
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
        server.room = turns % 3 == 0; /* no room in two of three turns */
        server.events = 0;
        turn(&server, now_us);
        assert_true(server.events <= (turns % 3 == 0));
        full += server.host.full;
    }
    assert_true(client.closed);
    assert_int_equal(server.got, BYTES);
    assert_true(full > BYTES / 1500); /* segments waited */
    host_close(&client.host, now_us);
    host_close(&server.host, now_us);
}

/* Closing a host releases the packets that it holds; the pool's assertion would fail otherwise. */
static void a_host_can_be_closed_while_it_is_full(void **state)
{
    struct us_addr addr = {.family = US_IP4, .bytes = {10, 0, 0, 1}};
    uint64_t now_us = 1000000;
    unsigned turns;
    int error;

    open_both("10.0.0.1/24", "10.0.0.2/24");
    client.conn = us_connect(client.host.stack, &addr, PORT, 0, NULL, &error);
    assert_non_null(client.conn);
    for (turns = 0; !server.connected && turns < 100; turns++, now_us += STEP_US) {
        turn(&client, now_us);
        turn(&server, now_us);
    }
    assert_true(server.connected);
    server.host.has_room = room_left;
    server.room = 0;
    assert_true(us_send(client.host.stack, client.conn, bytes, 20000) > 0);
    turn(&client, now_us);
    turn(&server, now_us);
    assert_true(server.host.full);
    assert_int_equal(server.got, 0);
    host_close(&server.host, now_us);
    host_close(&client.host, now_us);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_lower_device_loses_no_frame),
        cmocka_unit_test(a_host_can_be_closed_while_it_is_full),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
