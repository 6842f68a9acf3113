/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ASCII authentication (-Y): a session may do nothing before a set whose value is "user password"
 * with a user and a password of the file.
 */
#ifndef CACHE_AUTH_H
#define CACHE_AUTH_H

#include "cache/worker.h"
#include "mcproto/mcproto.h"

#define CACHE_AUTH_TOKEN_MAX 16384 /* of what a client may send */

/* What the line of a session that has not authenticated yet comes to. */
enum cache_auth_verdict {
    CACHE_AUTH_TOKEN,    /* the token follows */
    CACHE_AUTH_REFUSED,  /* something else */
    CACHE_AUTH_TOO_LONG, /* the token is too long */
    CACHE_AUTH_CLOSE     /* too short to be anything */
};

/* Takes a line with its line feed; *token_bytes is the length of the token without its CRLF. */
enum cache_auth_verdict cache_auth_line(const uint8_t *line, uint32_t len, uint32_t *token_bytes);

/*
 * Takes a token with its CRLF; says what to answer: MC_STATUS_STORED if it is right. Counted. The
 * time that it takes depends on lengths only, not on how much of a password is right.
 */
enum mc_status cache_auth_token(struct cache_worker *worker, const uint8_t *token, uint32_t len);

#endif
