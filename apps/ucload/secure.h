/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TLS between a connection and its transport (--tls). The transport passes received bytes to
 * secure_received() and sends what secure_send() and the handshake give to client_ops.put().
 */
#ifndef UCLOAD_SECURE_H
#define UCLOAD_SECURE_H

#include "client.h"

/*
 * The transport has connected: begins the handshake, at whose end client_opened() is called. A
 * connection that is reopened resumes its session if the plan says so. Returns 0, or -1 after
 * client_fail().
 */
int secure_begin(struct client *client, struct conn *conn);

/* Received bytes: passes plaintext to client_received(). Returns 0, or -1 after client_fail(). */
int secure_received(struct client *client, struct conn *conn, const uint8_t *data, uint32_t len);

/* Sends requests. Returns 0, or -1 after client_fail(). */
int secure_send(struct client *client, struct conn *conn, const uint8_t *data, uint32_t len);

/*
 * For a connection whose records are not OpenSSL's (tls_session_seals()): sends what has to precede
 * a record, before the memory of that is reserved. Returns 0, or -1 after client_fail().
 */
int secure_prepare(struct client *client, const struct conn *conn);

/* Makes a record in place: see tls_session_seal(). Returns its length, or 0 after client_fail(). */
uint32_t secure_seal(struct client *client, const struct conn *conn, uint8_t *record, uint32_t len);

/* Frees the session, if there is one. */
void secure_end(struct conn *conn);

#endif
