/* SPDX-License-Identifier: BSD-3-Clause */
/* SASL; see sasl.h. */
#include "cache/sasl.h"

#include <string.h>
#include <strings.h>

#include "cache/acl.h"
#include "cache/exec.h"

#define MECHANISM "PLAIN"
#define MECHANISM_BYTES (sizeof(MECHANISM) - 1)
#define MECHANISM_MAX 32   /* bytes of a name, as in memcached */
#define CREDENTIAL_MAX 252 /* bytes of user and password, as in memcached */

enum opcode { OPCODE_VERSION = 0x0b, OPCODE_LIST = 0x20, OPCODE_AUTH = 0x21, OPCODE_STEP = 0x22 };

enum sasl_result { SASL_DENIED, SASL_CONTINUE, SASL_OK };

static uint32_t mechanism_len(const uint8_t *packet)
{
    return (uint32_t)packet[2] << 8 | packet[3]; /* the key */
}

/* Whether the parser has refused a packet that memcached refuses before it looks for permission. */
static bool is_no_packet(const struct mc_request *request)
{
    return request->error == NULL ||
           (request->close && request->binary.error[7] == (MC_BINARY_UNKNOWN_COMMAND & 0xff));
}

enum cache_sasl_verdict cache_sasl_check(const struct cache_session *session,
                                         enum mc_outcome outcome, const struct mc_request *request,
                                         const uint8_t *packet)
{
    uint8_t opcode = request->binary.opcode;

    if (outcome == MC_MALFORMED && is_no_packet(request))
        return CACHE_SASL_PERMITTED;
    if (opcode == OPCODE_VERSION)
        return CACHE_SASL_PERMITTED;
    if (opcode < OPCODE_LIST || opcode > OPCODE_STEP)
        return session->sasl & CACHE_SASL_AUTHENTICATED ? CACHE_SASL_PERMITTED
                                                        : CACHE_SASL_UNAUTHENTICATED;
    if (request->close)
        return CACHE_SASL_PERMITTED; /* to be refused for its lengths */
    if (mechanism_len(packet) > MECHANISM_MAX)
        return CACHE_SASL_BAD_MECHANISM;
    return request->discard_bytes > CACHE_AUTH_TOKEN_MAX ? CACHE_SASL_TOO_LONG : CACHE_SASL_COMMAND;
}

/* ---- PLAIN ------------------------------------------------------------------------------- */

struct plain {
    const uint8_t *authority; /* on whose behalf; empty: the user's own */
    const uint8_t *name;
    const uint8_t *password;
    uint32_t authority_len;
    uint32_t name_len;
    uint32_t password_len;
};

/* "authority NUL name NUL password"; false if it is not that. */
static bool plain_read(struct plain *plain, const uint8_t *at, uint32_t len)
{
    const uint8_t *end = at + len;
    const uint8_t *first = len > 0 ? memchr(at, '\0', len) : NULL;
    const uint8_t *second =
        first != NULL ? memchr(first + 1, '\0', (size_t)(end - first - 1)) : NULL;

    if (second == NULL || memchr(second + 1, '\0', (size_t)(end - second - 1)) != NULL)
        return false;
    plain->authority = at;
    plain->authority_len = (uint32_t)(first - at);
    plain->name = first + 1;
    plain->name_len = (uint32_t)(second - plain->name);
    plain->password = second + 1;
    plain->password_len = (uint32_t)(end - plain->password);
    return plain->name_len > 0 && plain->password_len > 0;
}

/* Bytes of a name with its realm, which is the host's unless it has one. */
static uint32_t full_len(const struct cache *cache, const uint8_t *name, uint32_t len)
{
    return memchr(name, '@', len) != NULL ? len : len + 1 + (uint32_t)strlen(cache->sasl_host);
}

/* The i-th byte of that. */
static char full_at(const struct cache *cache, const uint8_t *name, uint32_t len, uint32_t i)
{
    if (i < len)
        return (char)name[i];
    return i == len ? '@' : cache->sasl_host[i - len - 1];
}

/* Whether the user authenticates on its own behalf: no other is allowed. */
static bool authority_is_own(const struct cache *cache, const struct plain *plain)
{
    uint32_t len = full_len(cache, plain->name, plain->name_len);

    if (plain->authority_len == 0)
        return true;
    if (full_len(cache, plain->authority, plain->authority_len) != len)
        return false;
    for (uint32_t i = 0; i < len; i++)
        if (full_at(cache, plain->authority, plain->authority_len, i) !=
            full_at(cache, plain->name, plain->name_len, i))
            return false;
    return true;
}

static enum sasl_result plain_check(struct cache_session *session, const uint8_t *message,
                                    uint32_t len)
{
    struct cache *cache = session->worker->cache;
    struct plain plain;

    if (!plain_read(&plain, message, len) || !authority_is_own(cache, &plain) ||
        full_len(cache, plain.name, plain.name_len) + plain.password_len > CREDENTIAL_MAX)
        return SASL_DENIED;
    if (!cache_auth_check(cache, plain.name, plain.name_len, plain.password, plain.password_len))
        return SASL_DENIED;
    cache_acl_set_user(session, plain.name, plain.name_len);
    return SASL_OK;
}

/* ---- commands ---------------------------------------------------------------------------- */

/*
 * Chooses the mechanism; without a message the client has to send it in a step. As with Cyrus SASL,
 * a message after success fails, and only the next one can succeed again.
 */
static enum sasl_result run_auth(struct cache_session *session, const uint8_t *mechanism,
                                 uint32_t name_len, uint32_t len)
{
    enum sasl_result result = SASL_DENIED;

    if (name_len == MECHANISM_BYTES &&
        strncasecmp((const char *)mechanism, MECHANISM, MECHANISM_BYTES) == 0) {
        if (len == name_len)
            result = SASL_CONTINUE;
        else if (!(session->sasl & CACHE_SASL_DONE))
            result = plain_check(session, mechanism + name_len, len - name_len);
    }
    if (result == SASL_DENIED)
        session->sasl = 0;
    else
        session->sasl |= CACHE_SASL_STARTED;
    return result;
}

static enum sasl_result run_step(struct cache_session *session, const uint8_t *message,
                                 uint32_t len)
{
    if ((session->sasl & (CACHE_SASL_STARTED | CACHE_SASL_DONE)) != CACHE_SASL_STARTED)
        return SASL_DENIED;
    return plain_check(session, message, len);
}

static int reply(struct cache_session *session, const struct mc_request *request,
                 enum sasl_result result, struct cache_sink *sink)
{
    struct cache_worker *worker = session->worker;

    if (result == SASL_CONTINUE)
        return cache_binary_error(worker, request, MC_BINARY_AUTH_CONTINUE, "", sink);
    cache_count(worker, CACHE_AUTH_CMDS, 1);
    if (result == SASL_OK) {
        session->sasl |= CACHE_SASL_AUTHENTICATED | CACHE_SASL_DONE;
        return cache_binary_error(worker, request, MC_BINARY_OK, "Authenticated", sink);
    }
    cache_count(worker, CACHE_AUTH_ERRORS, 1);
    return cache_binary_error(worker, request, MC_BINARY_AUTH_ERROR, NULL, sink);
}

int cache_sasl_run(struct cache_session *session, const uint8_t *packet, uint32_t len,
                   struct cache_sink *sink)
{
    const uint8_t *mechanism = packet + MC_BINARY_HEADER_BYTES;
    uint32_t name_len = mechanism_len(packet);
    struct mc_request request;

    U_ASSERT(len >= MC_BINARY_HEADER_BYTES + name_len);
    len -= MC_BINARY_HEADER_BYTES;
    (void)mc_parse_binary(packet, MC_BINARY_HEADER_BYTES, &request); /* for its header */
    session->sasl &= (uint8_t)~CACHE_SASL_AUTHENTICATED;
    cache_acl_set_user(session, NULL, 0);
    switch (request.binary.opcode) {
    case OPCODE_LIST:
        return cache_binary_error(session->worker, &request, MC_BINARY_OK, MECHANISM, sink);
    case OPCODE_AUTH:
        return reply(session, &request, run_auth(session, mechanism, name_len, len), sink);
    default:
        return reply(session, &request, run_step(session, mechanism + name_len, len - name_len),
                     sink);
    }
}
