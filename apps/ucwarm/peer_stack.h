/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections of ucwarm over the own TCP/IP stack: all peers share one. */
#ifndef UCWARM_PEER_STACK_H
#define UCWARM_PEER_STACK_H

#include "common/link.h"
#include "peer.h"

/* Opens the device and the stack. Returns it, or null with a message. */
struct peer_stack *peer_stack_open(const struct link_options *link, char error[LINK_ERROR_MAX]);
void peer_stack_close(struct peer_stack *stack);

/*
 * Begins to connect peer->addr; peer->connected or peer->lost is set later. Returns 0, or -1
 * with peer->lost.
 */
int peer_stack_connect(struct peer *peer);

/* Ends the connection; the peer gets no more events. */
void peer_stack_leave(struct peer *peer);

/* Gives the stack as much of peer->out as it takes. */
void peer_stack_send(struct peer *peer);

/* Delivers the bytes that were held back, if the peer takes them now. Returns whether it does. */
bool peer_stack_resume(struct peer *peer);

/* Whether the stack takes more of peer->out now. */
bool peer_stack_has_room(const struct peer *peer);

/*
 * Receives, runs timers and sends, after a wait of at most wait_us: received bytes are appended to
 * the peers' `in`. Returns 0, or -1 with a message if the device is gone.
 */
int peer_stack_turn(struct peer_stack *stack, uint64_t wait_us, char error[LINK_ERROR_MAX]);

#endif
