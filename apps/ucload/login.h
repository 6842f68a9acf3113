/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Authentication of each connection before its first request: ASCII authentication (ucached -Y)
 * with the text protocols, SASL PLAIN (ucached -S) with the binary protocol.
 */
#ifndef UCLOAD_LOGIN_H
#define UCLOAD_LOGIN_H

#include <stdbool.h>
#include <stdint.h>

#define LOGIN_NAME_MAX 400 /* bytes of user and password together */
#define LOGIN_REQUEST_MAX (LOGIN_NAME_MAX + 64)
#define LOGIN_ERROR_MAX 120

/* The longest reply that is looked at: a line, or the binary header. */
#define LOGIN_REPLY_MAX 64

struct client;
struct conn;

struct login {
    bool binary;
    uint32_t len; /* of the request; 0: connections do not log in */
    uint8_t request[LOGIN_REQUEST_MAX];
};

/*
 * Reads USER:PASSWORD from the first line of a file. Returns 0, or -1 with a message in `error`.
 */
int login_open(struct login *login, const char *path, bool binary, char error[LOGIN_ERROR_MAX]);

/* Sends the request on a new connection. Returns 0, or -1 after client_fail(). */
int login_begin(struct client *client, struct conn *conn);

/*
 * Takes received bytes of a connection that is not open; calls client_opened() after a success.
 * Returns 0, or -1 after client_fail().
 */
int login_replied(struct client *client, struct conn *conn, const uint8_t *data, uint32_t len);

#endif
