/* SPDX-License-Identifier: BSD-3-Clause */
/* UDP of a stack worker: datagrams come as events of the stack and go where TCP's frames go. */
#include <string.h>

#include "net/port.h"

/* Datagrams that may wait to be sent: those of the largest reply, and some more. */
#define WAITING_MAX 1024

uint32_t net_stack_udp_waiting_max(void)
{
    return WAITING_MAX;
}

int net_stack_udp_begin(struct net_stack_worker *worker)
{
    struct cache_peer peer = {.transport = "udp", .local_port = worker->udp_port};

    if (worker->udp_port == 0)
        return 0;
    worker->udp.cache_worker = worker->conns.cache_worker;
    memcpy(peer.local_addr, worker->udp_addr.bytes, sizeof(peer.local_addr));
    if (worker->udp_addr.family == US_IP6)
        peer.transport = "udp6";
    worker->udp_session = cache_session_open(worker->conns.cache_worker, &peer);
    return worker->udp_session ? 0 : -1;
}

void net_stack_udp_end(struct net_stack_worker *worker)
{
    if (worker->udp_session)
        cache_session_close(worker->udp_session);
    worker->udp_session = NULL;
}

void net_stack_send_datagram(struct net_stack_worker *worker, const struct us_datagram *request,
                             const void *data, uint32_t len)
{
    int rc = us_udp_reply(worker->stack, request, data, len);

    net_stack_count(worker, rc == US_OK ? NET_STACK_UDP_SENT : NET_STACK_UDP_UNSENT, 1);
}

static void send_reply(struct net_stack_worker *worker, const struct us_datagram *request,
                       struct net_udp_reply *reply)
{
    uint8_t datagram[MC_UDP_DATAGRAM_MAX];
    const uint8_t *payload;
    uint32_t len;

    while (net_udp_next_datagram(reply, datagram, &payload, &len)) {
        memcpy(datagram + MC_UDP_HEADER_BYTES, payload, len);
        net_port_send_datagram(worker, request, datagram, MC_UDP_HEADER_BYTES + len);
    }
}

void net_stack_serve_datagram(struct net_stack_worker *worker, const struct us_event *ev)
{
    const struct us_addr *remote = &ev->datagram->remote;
    const struct net_udp_request request = {
        .datagram = ev->data,
        .len = ev->len,
        .source = net_udp_source(remote->family == US_IP6, remote->bytes),
        .now_us = worker->now_us,
    };
    struct net_udp_reply reply;

    net_udp_clear(&worker->udp);
    switch (net_udp_serve(&worker->udp, worker->udp_session, &request, &reply)) {
    case NET_UDP_SERVED:
        net_stack_count(worker, NET_STACK_UDP_REQUESTS, 1);
        break;
    case NET_UDP_MALFORMED:
        net_stack_count(worker, NET_STACK_UDP_MALFORMED, 1);
        break;
    case NET_UDP_TOO_LARGE:
        net_stack_count(worker, NET_STACK_UDP_TOO_LARGE, 1);
        break;
    case NET_UDP_LIMITED:
        net_stack_count(worker, NET_STACK_UDP_LIMITED, 1);
        break;
    }
    send_reply(worker, ev->datagram, &reply);
}
