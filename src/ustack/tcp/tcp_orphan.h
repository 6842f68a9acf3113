/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Orphans: accepted connections that the application has closed and that have not ended: the peer
 * has not acknowledged all data and the FIN, or has not sent its own FIN. Connections that we
 * opened are none: a client that closes its side first may wait for a reply.
 *
 * An orphan does not count for its listener. It ends when the peer makes no progress for
 * us_config.orphan_ms. The one that was closed first is reset when a new connection needs its
 * place, or when there are more than us_config.orphans_max; the latter at the earliest a second
 * after its close, so that a server which closes all of its connections lets them end in order.
 */
#ifndef USTACK_TCP_TCP_ORPHAN_H
#define USTACK_TCP_TCP_ORPHAN_H

#include "ustack/tcp/tcp.h"

/* The application closes the connection: becomes the youngest orphan if it was accepted. */
void us_orphan_add(struct us_stack *stack, struct us_conn *conn);

/* The connection ends. No effect unless it is an orphan. */
void us_orphan_remove(struct us_stack *stack, struct us_conn *conn);

/*
 * A connection is to be created: resets the oldest orphan if few places are left. Its place is free
 * once its CLOSED event was taken and its RST was sent.
 */
void us_orphan_make_room(struct us_stack *stack);

/* When the connection became an orphan, to a second; 0: it is none. */
u_u64 us_orphan_closed_us(const struct us_stack *stack, const struct us_conn *conn);

#endif
