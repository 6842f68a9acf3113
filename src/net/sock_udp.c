/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UDP of a sock worker. Each worker has its own socket on each address; the kernel spreads the
 * clients over them. One system call receives or sends many datagrams.
 *
 * Datagrams that the kernel does not take are lost and counted.
 */
#define _GNU_SOURCE /* recvmmsg(), sendmmsg() */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "net/sock_worker.h"
#include "net/udp.h"

#define REQUESTS_MAX 16 /* per system call */
#define BATCHES_MAX 4   /* per event */
#define DATAGRAMS_MAX 64

/* SO_SNDBUF, for large replies; the kernel may grant less. */
#define SEND_BUFFER_BYTES (4 * 1024 * 1024)

struct net_sock_udp {
    struct net_udp udp;
    uint8_t *requests; /* REQUESTS_MAX of NET_UDP_REQUEST_MAX bytes; touched as it is used */
    struct mmsghdr in[REQUESTS_MAX];
    struct iovec in_parts[REQUESTS_MAX];
    struct sockaddr_storage peers[REQUESTS_MAX];

    struct mmsghdr out[DATAGRAMS_MAX];
    struct iovec out_parts[DATAGRAMS_MAX][2];
    uint8_t headers[DATAGRAMS_MAX][MC_UDP_HEADER_BYTES];
    unsigned out_count;
};

/* ---- sending ----------------------------------------------------------------------------- */

static void flush(struct net_sock_worker *worker, int fd)
{
    struct net_sock_udp *udp = worker->udp;
    unsigned at = 0;
    unsigned sent = 0;
    int n;

    while (at < udp->out_count) {
        n = sendmmsg(fd, udp->out + at, udp->out_count - at, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS))
            break;
        sent += n > 0 ? (unsigned)n : 0;
        /* Other errors concern the first datagram, whose receiver cannot be reached. */
        at += n > 0 ? (unsigned)n : 1;
    }
    net_sock_count(worker, NET_SOCK_UDP_SENT, sent);
    net_sock_count(worker, NET_SOCK_UDP_UNSENT, udp->out_count - sent);
    udp->out_count = 0;
}

static void queue(struct net_sock_worker *worker, int fd, struct net_udp_reply *reply,
                  const struct msghdr *request)
{
    struct net_sock_udp *udp = worker->udp;
    const uint8_t *payload;
    uint32_t len;

    while (net_udp_next_datagram(reply, udp->headers[udp->out_count], &payload, &len)) {
        struct msghdr *msg = &udp->out[udp->out_count].msg_hdr;
        struct iovec *parts = udp->out_parts[udp->out_count];

        parts[0].iov_base = udp->headers[udp->out_count];
        parts[0].iov_len = MC_UDP_HEADER_BYTES;
        parts[1].iov_base = (void *)(uintptr_t)payload;
        parts[1].iov_len = len;
        memset(msg, 0, sizeof(*msg));
        msg->msg_name = request->msg_name;
        msg->msg_namelen = request->msg_namelen;
        msg->msg_iov = parts;
        msg->msg_iovlen = 2;
        if (++udp->out_count == DATAGRAMS_MAX)
            flush(worker, fd);
    }
}

/* ---- receiving --------------------------------------------------------------------------- */

static uint64_t source_of(const struct msghdr *msg)
{
    const struct sockaddr *from = msg->msg_name;
    uint8_t addr[16] = {0};
    uint16_t port;

    net_read_address(from, addr, &port);
    return net_udp_source(from->sa_family == AF_INET6, addr);
}

static void serve(struct net_sock_worker *worker, const struct net_sock_listener *listener,
                  const struct mmsghdr *msg)
{
    const struct net_udp_request request = {
        .datagram = msg->msg_hdr.msg_iov->iov_base,
        .len = msg->msg_len,
        .source = source_of(&msg->msg_hdr),
        .now_us = worker->now_us,
    };
    struct net_sock_udp *udp = worker->udp;
    struct net_udp_reply reply;

    if (!net_udp_has_room(&udp->udp)) {
        flush(worker, listener->source.fd);
        net_udp_clear(&udp->udp);
    }
    switch (net_udp_serve(&udp->udp, listener->session, &request, &reply)) {
    case NET_UDP_SERVED:
        net_sock_count(worker, NET_SOCK_UDP_REQUESTS, 1);
        break;
    case NET_UDP_MALFORMED:
        net_sock_count(worker, NET_SOCK_UDP_MALFORMED, 1);
        break;
    case NET_UDP_TOO_LARGE:
        net_sock_count(worker, NET_SOCK_UDP_TOO_LARGE, 1);
        break;
    case NET_UDP_LIMITED:
        net_sock_count(worker, NET_SOCK_UDP_LIMITED, 1);
        break;
    }
    queue(worker, listener->source.fd, &reply, &msg->msg_hdr);
}

/* Receives one batch of datagrams. Returns how many, or -1. */
static int take(struct net_sock_udp *udp, int fd)
{
    unsigned i;

    for (i = 0; i < REQUESTS_MAX; i++) {
        struct msghdr *msg = &udp->in[i].msg_hdr;

        udp->in_parts[i].iov_base = udp->requests + i * NET_UDP_REQUEST_MAX;
        udp->in_parts[i].iov_len = NET_UDP_REQUEST_MAX;
        memset(msg, 0, sizeof(*msg));
        msg->msg_name = &udp->peers[i];
        msg->msg_namelen = sizeof(udp->peers[i]);
        msg->msg_iov = &udp->in_parts[i];
        msg->msg_iovlen = 1;
    }
    return recvmmsg(fd, udp->in, REQUESTS_MAX, MSG_DONTWAIT, NULL);
}

void net_sock_udp_event(struct net_sock_worker *worker, const struct net_sock_listener *listener)
{
    struct net_sock_udp *udp = worker->udp;
    int n = REQUESTS_MAX;
    unsigned batch;
    int i;

    for (batch = 0; batch < BATCHES_MAX && n == REQUESTS_MAX; batch++) {
        n = take(udp, listener->source.fd);
        for (i = 0; i < n; i++)
            serve(worker, listener, &udp->in[i]);
        flush(worker, listener->source.fd);
        net_udp_clear(&udp->udp);
    }
}

/* ---- opening and closing ----------------------------------------------------------------- */

static int make_buffers(struct net_sock_worker *worker, struct net_udp_limit *limit)
{
    struct net_sock_udp *udp = calloc(1, sizeof(*udp));
    void *requests;

    if (!udp)
        return -1;
    worker->udp = udp;
    requests = mmap(NULL, REQUESTS_MAX * NET_UDP_REQUEST_MAX, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (requests == MAP_FAILED)
        return -1;
    udp->requests = requests;
    return net_udp_open(&udp->udp, limit);
}

int net_sock_udp_open(struct net_sock_worker *worker, int fd, struct net_udp_limit *limit)
{
    int bytes = SEND_BUFFER_BYTES;

    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
    return worker->udp ? 0 : make_buffers(worker, limit);
}

int net_sock_udp_begin(struct net_sock_worker *worker)
{
    struct net_sock_listener *listener;

    for (listener = worker->listeners; listener < worker->listeners + worker->listener_count;
         listener++) {
        if (listener->kind != NET_ENDPOINT_UDP)
            continue;
        worker->udp->udp.cache_worker = worker->conns.cache_worker;
        listener->session = cache_session_open(worker->conns.cache_worker, &listener->peer);
        if (!listener->session)
            return -ENOMEM;
    }
    return 0;
}

void net_sock_udp_end(struct net_sock_worker *worker)
{
    struct net_sock_listener *listener;

    for (listener = worker->listeners; listener < worker->listeners + worker->listener_count;
         listener++) {
        if (listener->session)
            cache_session_close(listener->session);
        listener->session = NULL;
    }
}

void net_sock_udp_close(struct net_sock_worker *worker)
{
    struct net_sock_udp *udp = worker->udp;

    if (!udp)
        return;
    net_udp_close(&udp->udp);
    if (udp->requests)
        munmap(udp->requests, REQUESTS_MAX * NET_UDP_REQUEST_MAX);
    free(udp);
}
