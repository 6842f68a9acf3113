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
    open_end(&server, ends[0], server_address);
    open_end(&client, ends[1], client_address);
    assert_int_equal(us_listen(server.host.stack, PORT, NULL), US_OK);
}

static unsigned turn(struct end *end, uint64_t now_us)
{
    unsigned n = host_receive(&end->host, now_us, on_event, end);

    return n + host_transmit(&end->host, now_us);
}

/* The client sends all bytes; the server receives in one of three turns. */
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
    host_close(&client.host, now_us);
    host_close(&server.host, now_us);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_lower_device_loses_no_frame),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
