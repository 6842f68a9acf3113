/* SPDX-License-Identifier: BSD-3-Clause */
/* ucwarm over the own TCP/IP stack; see peer_stack.h. */
#include "peer_stack.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/host.h"
#include "net/worker.h"

#define CONNECTIONS_MAX 256 /* of all sources, targets and a dump */
#define PORT_FIRST 20000
#define PORT_COUNT 40000

/* What is received of a dump and not used yet; beyond it the window closes. */
#define UNUSED_BYTES_MAX (256u * 1024)

struct peer_stack {
    struct host host;
    unsigned port_next;
};

struct peer_stack *peer_stack_open(const struct link_options *link, char error[LINK_ERROR_MAX])
{
    const struct link_params use = {.queues = 1};
    const struct host_config config = {.conn_max = CONNECTIONS_MAX};
    struct peer_stack *stack = calloc(1, sizeof(*stack));
    struct nic *nic[NIC_QUEUES_MAX];

    if (!stack) {
        snprintf(error, LINK_ERROR_MAX, "no memory for the stack");
        return NULL;
    }
    if (link_open(link, &use, nic, error) > 0) {
        if (host_open(&stack->host, nic[0], link, &config, error) == 0)
            return stack;
        nic_close(nic[0]);
    }
    free(stack);
    return NULL;
}

void peer_stack_close(struct peer_stack *stack)
{
    host_close(&stack->host, net_clock_us());
    free(stack);
}

/* ---- events ------------------------------------------------------------------------------ */

/* Bytes that were asked for are taken; those of a dump wait in the stack until they are needed. */
static bool takes_more(const struct peer *peer)
{
    return buffer_len(&peer->in) < UNUSED_BYTES_MAX ||
           (peer->answered < peer->asked && buffer_len(&peer->in) < 2 * (size_t)PEER_VALUE_MAX);
}

static void on_data(struct peer *peer, const struct us_event *event)
{
    struct us_stack *us = peer->stack->host.stack;

    if (!takes_more(peer)) {
        peer->kept = true;
        (void)us_recv_keep(us, event->conn, event->data, event->len); /* else CLOSED follows */
    } else if (buffer_add(&peer->in, event->data, event->len) < 0) {
        peer->lost = "no memory for a reply";
    }
}

static void on_event(void *ctx, const struct us_event *event)
{
    struct peer *peer = event->user;

    if (!peer)
        return;
    if (event->type == US_EV_CONNECTED)
        peer->connected = true;
    else if (event->type == US_EV_DATA)
        on_data(peer, event);
    else if (event->type == US_EV_PEER_CLOSED && !peer->lost)
        peer->lost = "it has closed the connection";
    if (event->type != US_EV_CLOSED)
        return;
    peer->us = NULL;
    if (!peer->lost)
        peer->lost = us_close_reason_name(event->reason);
}

/* ---- connections ------------------------------------------------------------------------- */

static uint16_t to_us_addr(const struct peer *peer, struct us_addr *addr)
{
    const struct sockaddr_in *in = (const struct sockaddr_in *)&peer->addr;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&peer->addr;

    memset(addr, 0, sizeof(*addr));
    addr->family = peer->addr.ss_family == AF_INET ? US_IP4 : US_IP6;
    if (addr->family == US_IP4)
        memcpy(addr->bytes, &in->sin_addr, 4);
    else
        memcpy(addr->bytes, &in6->sin6_addr, 16);
    return ntohs(addr->family == US_IP4 ? in->sin_port : in6->sin6_port);
}

int peer_stack_connect(struct peer *peer)
{
    struct peer_stack *stack = peer->stack;
    struct us_addr addr;
    uint16_t port = to_us_addr(peer, &addr);
    char error[LINK_ERROR_MAX];
    int rc;

    peer->connected = peer->kept = false;
    peer->lost = NULL;
    do {
        uint16_t local = (uint16_t)(PORT_FIRST + stack->port_next++ % PORT_COUNT);

        peer->us = us_connect(stack->host.stack, &addr, port, local, peer, &rc);
    } while (!peer->us && host_is_settling(&stack->host, rc, net_clock_us()) &&
             peer_stack_turn(stack, 1000, error) == 0);
    if (peer->us)
        return 0;
    peer->lost = us_strerror(rc);
    return -1;
}

void peer_stack_leave(struct peer *peer)
{
    if (!peer->us)
        return;
    us_conn_set_user(peer->us, NULL);
    us_abort(peer->stack->host.stack, peer->us);
    peer->us = NULL;
}

void peer_stack_send(struct peer *peer)
{
    size_t len = buffer_len(&peer->out);
    long n;

    if (!peer->us || len == 0)
        return;
    n = us_send(peer->stack->host.stack, peer->us, peer->out.bytes + peer->out.at,
                (u_u32)(len < UINT32_MAX ? len : UINT32_MAX));
    if (n > 0)
        buffer_take(&peer->out, (size_t)n);
}

bool peer_stack_resume(struct peer *peer)
{
    if (!takes_more(peer))
        return false;
    us_recv_resume(peer->stack->host.stack, peer->us);
    return true;
}

bool peer_stack_has_room(const struct peer *peer)
{
    return peer->us && us_send_room(peer->stack->host.stack, peer->us) > 0;
}

int peer_stack_turn(struct peer_stack *stack, uint64_t wait_us, char error[LINK_ERROR_MAX])
{
    uint64_t now_us = net_clock_us();
    int rc = 0;

    (void)host_transmit(&stack->host, now_us);
    if (wait_us > 0)
        rc = host_wait(&stack->host, now_us, wait_us);
    if (rc < 0) {
        snprintf(error, LINK_ERROR_MAX, "the device is gone: %s", strerror(-rc));
        return -1;
    }
    now_us = net_clock_us();
    (void)host_receive(&stack->host, now_us, on_event, NULL);
    (void)host_transmit(&stack->host, now_us);
    return 0;
}
