/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker's part of handshakes on threads beside it (tls_steps.h). While a step of a connection is
 * on its way, the connection's state is BLOCKED, its transport keeps the input, and nothing but the
 * step refers to the session. The result says how much of the input is used, which the connection
 * skips when the transport offers it again; so what follows the client's last message stays in the
 * transport, encrypted.
 *
 * A connection that ends meanwhile leaves the session to the step, which frees it when the result
 * comes.
 */
#ifndef NET_TLS_OFFLOAD_H
#define NET_TLS_OFFLOAD_H

#include "net/tls_conn.h"

/* Results that a worker takes in one turn of its loop. */
#define NET_TLS_RESULTS_PER_TURN 64

/* ---- tls_offload.c ----------------------------------------------------------------------- */

/* Submits a step with this input; without memory the connection fails. */
void net_tls_offload(struct net_tls_conn *tc, const uint8_t *data, uint32_t len);

/* Continues connections whose results have come. */
void net_tls_take_results(struct net_tls *tls);

/* The connection ends: a step that is on its way takes the session. */
void net_tls_abandon_step(struct net_tls_conn *tc);

/* Frees the steps that are on their way, when threads have finished theirs. */
void net_tls_end_offloading(struct net_tls *tls);

/* ---- tls_conn.c -------------------------------------------------------------------------- */

/* A tls_name: to the session of the connection `ctx`. */
void net_tls_add_name(void *ctx, const char *name, uint32_t len);

/* The handshake is complete. */
void net_tls_handshake_done(struct net_tls_conn *tc);

/* TLS has failed: an alert was queued, if there was room, and the connection closes after it. */
void net_tls_fail(struct net_tls_conn *tc, const char *reason);

#endif
