/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SASL (-S): a binary connection authenticates by PLAIN (RFC 4616) with a user of the file, before
 * any other command than version. Replies are those of memcached with Cyrus SASL.
 */
#ifndef CACHE_SASL_H
#define CACHE_SASL_H

#include "cache/session.h"

/* Bits of cache_session.sasl. */
enum cache_sasl_state {
    CACHE_SASL_AUTHENTICATED = 1 << 0,
    CACHE_SASL_STARTED = 1 << 1, /* the mechanism was chosen: a step may follow */
    CACHE_SASL_DONE = 1 << 2     /* it has succeeded: no step may follow */
};

enum cache_sasl_verdict {
    CACHE_SASL_PERMITTED,
    CACHE_SASL_COMMAND,         /* list, auth or step: cache_sasl_run() when all has arrived */
    CACHE_SASL_BAD_MECHANISM,   /* its name is too long */
    CACHE_SASL_TOO_LONG,        /* the message is longer than CACHE_AUTH_TOKEN_MAX */
    CACHE_SASL_UNAUTHENTICATED, /* refused: the connection closes */
};

/*
 * What becomes of a binary request with -S: `packet` begins with its header, and the parser has
 * returned `outcome`, not MC_MORE. Of a command of SASL, request->discard_bytes follow the header.
 */
enum cache_sasl_verdict cache_sasl_check(const struct cache_session *session,
                                         enum mc_outcome outcome, const struct mc_request *request,
                                         const uint8_t *packet);

/* Runs a complete command of SASL. Returns 0 or -1 as in exec.h. */
int cache_sasl_run(struct cache_session *session, const uint8_t *packet, uint32_t len,
                   struct cache_sink *sink);

#endif
