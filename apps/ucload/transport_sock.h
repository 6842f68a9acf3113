/* SPDX-License-Identifier: BSD-3-Clause */
/* What the transports over kernel sockets, TCP and UDP, have in common: one epoll per thread. */
#ifndef UCLOAD_TRANSPORT_SOCK_H
#define UCLOAD_TRANSPORT_SOCK_H

#include <sys/epoll.h>

#include "client.h"

/* Events that one wait returns. */
#define SOCK_EVENTS_MAX 64

/* As in struct client_ops. */
int sock_open(struct client *client, struct nic *nic);
int sock_flush(struct client *client);
void sock_close(struct client *client);

/* Stores a message with the text of an errno. Returns -1. */
int sock_cannot_connect(struct client *client, int error);

/* epoll_ctl(); how: EPOLL_CTL_ADD or _MOD. Returns 0, or -1 after client_fail(). */
int sock_watch(struct client *client, struct conn *conn, uint32_t events, int how);

/* Waits at most wait_us. Returns the number of events, 0 after a signal, or -1 with errno. */
int sock_wait(struct client *client, struct epoll_event events[SOCK_EVENTS_MAX], uint64_t wait_us);

#endif
