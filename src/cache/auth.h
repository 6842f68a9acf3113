/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ASCII authentication (-Y): the first command of a session has to be a set whose value is
 * "user password", as in the file of users.
 */
#ifndef CACHE_AUTH_H
#define CACHE_AUTH_H

#include "cache/cache_worker.h"
#include "mcproto/mcproto.h"

#define CACHE_AUTH_TOKEN_MAX 16384 /* of what a client may send */

/* The kind of a line before authentication. */
enum cache_auth_verdict {
    CACHE_AUTH_TOKEN,    /* the token follows */
    CACHE_AUTH_REFUSED,  /* another command */
    CACHE_AUTH_TOO_LONG, /* the token is too long */
    CACHE_AUTH_CLOSE     /* too short for a command */
};

/* Reads a line with its line feed; *token_bytes is the length of the token without its CRLF. */
enum cache_auth_verdict cache_auth_line(const uint8_t *line, uint32_t len, uint32_t *token_bytes);

/*
 * Checks a token with its CRLF; returns the status to reply: MC_STATUS_STORED if it is right.
 * Counted. Its time depends on lengths only, not on how much of a password is right.
 */
enum mc_status cache_auth_token(struct cache_worker *worker, const uint8_t *token, uint32_t len);

#endif
