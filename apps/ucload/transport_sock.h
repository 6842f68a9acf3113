/* SPDX-License-Identifier: BSD-3-Clause */
/* What the transports over kernel sockets, TCP and UDP, have in common: one epoll per thread. */
#ifndef UCLOAD_TRANSPORT_SOCK_H
#define UCLOAD_TRANSPORT_SOCK_H

#include <sys/epoll.h>

#include "client.h"

/* As in struct client_ops. */
int sock_open(struct client *client, struct nic *nic);
int sock_flush(struct client *client);
void sock_close(struct client *client);

/* Stores a message with the text of an errno. Returns -1. */
int sock_cannot_connect(struct client *client, int error);

/* epoll_ctl(); how: EPOLL_CTL_ADD or _MOD. Returns 0, or -1 after client_fail(). */
int sock_watch(struct client *client, struct conn *conn, uint32_t events, int how);

/* Handles the events of a connection. Returns 0, or -1 after client_fail(). */
typedef int sock_handler(struct client *client, struct conn *conn, uint32_t events);

/* Waits at most wait_us, sets ctx.now_ns and calls `handle` for each connection with events. */
int sock_each_event(struct client *client, uint64_t wait_us, sock_handler *handle);

#endif
