/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Access control lists (-o acl_file): which keys a client may read and write, and whether it may
 * administer the server. A line of the file grants rights:
 *
 *     IDENTITY     PREFIX  RIGHTS
 *     user:alice   app1:   read,write
 *     cert:batch   *       read
 *     *            pub:*   read
 *     user:ops     *       read,write,admin
 *
 * A client has the identities "user:NAME" after authentication (-Y, -S), "cert:NAME" for each name
 * in its verified certificate, and "*". What no line grants is refused. A star behind a prefix may
 * be left out; "*" alone is all keys.
 *
 * The table of rules does not change; cache_acl_load() publishes another one. Each worker holds a
 * reference to the one that it uses, renewed in cache_log_mask_update(). Sessions keep which rules
 * are theirs from their first request on, until the worker has another table.
 */
#ifndef CACHE_ACL_H
#define CACHE_ACL_H

#include <stdlib.h>

#include "cache/session.h"

#define CACHE_ACL_RULES_MAX 1024
#define CACHE_ACL_IDENTITY_MAX 255
#define CACHE_ACL_NAMES_MAX 4096 /* bytes of all identities of a session, each with its end */

struct cache_acl_rule {
    uint8_t rights;
    uint8_t prefix_len;
    char prefix[KV_KEY_MAX];
    char identity[CACHE_ACL_IDENTITY_MAX + 1];
};

struct cache_acl {
    unsigned references; /* of the cache and its workers; under cache.auth_lock */
    unsigned version;
    unsigned count;
    struct cache_acl_rule rules[];
};

/* The identities of a session and the rules that concern it; allocated where there are rules. */
struct cache_access {
    unsigned version;                         /* of the table of `rules`; 0: of none */
    uint64_t rules[CACHE_ACL_RULES_MAX / 64]; /* bits of those of its identities */
    uint32_t names_len;
    char names[]; /* identities, each with its NUL */
};

/* Renews the worker's reference. */
void cache_acl_adopt(struct cache_worker *worker);

/* Drops a reference to a table; null is allowed. */
void cache_acl_drop(struct cache *cache, struct cache_acl *acl);

/* Whether the session may run this well-formed request. If not, it is counted and logged (-v). */
bool cache_acl_permits(struct cache_session *session, const struct mc_request *request);

/* Sets the user of a session that has authenticated, in place of an earlier one. */
void cache_acl_set_user(struct cache_session *session, const uint8_t *name, uint32_t len);

/* Frees what the session has. */
static inline void cache_acl_end(struct cache_session *session)
{
    free(session->access);
    session->access = NULL;
}

#endif
