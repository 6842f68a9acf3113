/* SPDX-License-Identifier: BSD-3-Clause */
/* Access control lists: the file, the rules of a session, the rights of a request; see acl.h. */
#include "cache/acl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/event_log.h"
#include "cache/exec.h"

#define LINE_MAX_BYTES 1023
#define ALL_CLIENTS "*"
#define USER "user:"
#define CERT "cert:"

enum right { RIGHT_READ = 1 << 0, RIGHT_WRITE = 1 << 1, RIGHT_ADMIN = 1 << 2 };

/* ---- the file ---------------------------------------------------------------------------- */

static bool begins_with(const char *text, const char *word)
{
    return strncmp(text, word, strlen(word)) == 0;
}

/* "read,write": adds the rights. Returns null or what is wrong. */
static const char *rights_read(struct cache_acl_rule *rule, char *text)
{
    static const char *const names[] = {"read", "write", "admin"};
    char *word;

    while ((word = strsep(&text, ",")) != NULL) {
        unsigned i = 0;

        while (i < U_ARRAY_LEN(names) && strcmp(word, names[i]) != 0)
            i++;
        if (i == U_ARRAY_LEN(names))
            return "rights are read, write and admin, separated by commas";
        rule->rights |= (uint8_t)(1u << i);
    }
    if ((rule->rights & RIGHT_ADMIN) && rule->prefix_len > 0)
        return "admin is for the prefix * only";
    return NULL;
}

static const char *rule_read(struct cache_acl_rule *rule, const char *identity, const char *prefix,
                             char *rights)
{
    size_t len = strlen(prefix);

    if (strcmp(identity, ALL_CLIENTS) != 0 &&
        (!(begins_with(identity, USER) || begins_with(identity, CERT)) ||
         identity[strlen(USER)] == '\0'))
        return "an identity is user:NAME, cert:NAME or *";
    if (strlen(identity) > CACHE_ACL_IDENTITY_MAX)
        return "an identity has at most 255 bytes";
    if (len > 0 && prefix[len - 1] == '*')
        len--;
    if (len > KV_KEY_MAX)
        return "a prefix has at most 250 bytes";
    memcpy(rule->identity, identity, strlen(identity));
    memcpy(rule->prefix, prefix, len);
    rule->prefix_len = (uint8_t)len;
    return rights_read(rule, rights);
}

/* A line, without its end. Returns null or what is wrong. */
static const char *line_read(struct cache_acl *acl, char *line)
{
    static const char blanks[] = " \t\r\n";
    char *rest = line;
    char *identity = strtok_r(line, blanks, &rest);
    char *prefix = identity != NULL && identity[0] != '#' ? strtok_r(NULL, blanks, &rest) : NULL;
    char *rights = prefix != NULL ? strtok_r(NULL, blanks, &rest) : NULL;
    const char *error;

    if (identity == NULL || identity[0] == '#')
        return NULL;
    if (rights == NULL || strtok_r(NULL, blanks, &rest) != NULL)
        return "a line is IDENTITY PREFIX RIGHTS";
    if (acl->count == CACHE_ACL_RULES_MAX)
        return "there are more than 1024 rules";
    error = rule_read(&acl->rules[acl->count], identity, prefix, rights);
    acl->count++;
    return error;
}

static int file_read(struct cache_acl *acl, FILE *file, const char *path,
                     char error[CACHE_ERROR_MAX])
{
    char line[LINE_MAX_BYTES + 2];
    const char *why = NULL;
    unsigned number = 0;

    while (why == NULL && fgets(line, sizeof(line), file) != NULL) {
        number++;
        why = strlen(line) > LINE_MAX_BYTES ? "the line is longer than 1023 bytes"
                                            : line_read(acl, line);
    }
    if (why == NULL && ferror(file) == 0)
        return 0;
    snprintf(error, CACHE_ERROR_MAX, "%s:%u: %s", path, number,
             why != NULL ? why : "cannot be read");
    return -1;
}

static void publish(struct cache *cache, struct cache_acl *acl)
{
    struct cache_acl *before;

    pthread_mutex_lock(&cache->auth_lock);
    before = cache->acl;
    acl->references = 1;
    acl->version = before != NULL ? before->version + 1 : 1;
    cache->acl = acl;
    pthread_mutex_unlock(&cache->auth_lock);
    cache_acl_drop(cache, before);
    atomic_fetch_add_explicit(&cache->event_mask_version, 1, memory_order_release);
}

int cache_acl_load(struct cache *cache, char error[CACHE_ERROR_MAX])
{
    const char *path = cache->settings.acl_file;
    FILE *file = fopen(path, "re");
    struct cache_acl *acl;
    int rc = -1;

    if (file == NULL) {
        snprintf(error, CACHE_ERROR_MAX, "%s cannot be opened", path);
        return -1;
    }
    acl = calloc(1, sizeof(*acl) + CACHE_ACL_RULES_MAX * sizeof(acl->rules[0]));
    if (acl == NULL)
        snprintf(error, CACHE_ERROR_MAX, "%s: no memory for the rules", path);
    else
        rc = file_read(acl, file, path, error);
    fclose(file);
    if (rc == 0)
        publish(cache, acl);
    else
        free(acl);
    return rc;
}

/* ---- references -------------------------------------------------------------------------- */

void cache_acl_drop(struct cache *cache, struct cache_acl *acl)
{
    unsigned left;

    if (acl == NULL)
        return;
    pthread_mutex_lock(&cache->auth_lock);
    left = --acl->references;
    pthread_mutex_unlock(&cache->auth_lock);
    if (left == 0)
        free(acl);
}

void cache_acl_adopt(struct cache_worker *worker)
{
    struct cache *cache = worker->cache;
    struct cache_acl *before = worker->acl;

    pthread_mutex_lock(&cache->auth_lock);
    worker->acl = cache->acl;
    if (worker->acl != NULL)
        worker->acl->references++;
    pthread_mutex_unlock(&cache->auth_lock);
    cache_acl_drop(cache, before);
}

/* ---- the identities of a session --------------------------------------------------------- */

/* Appends "KIND:NAME"; without memory or room the session gets no rights by it. */
static void name_add(struct cache_session *session, const char *kind, const uint8_t *name,
                     uint32_t len)
{
    struct cache_access *access = session->access;
    uint32_t before = access != NULL ? access->names_len : 0;
    uint32_t kind_len = (uint32_t)strlen(kind);
    char *at;

    if (session->worker->cache->settings.acl_file == NULL || memchr(name, '\0', len) != NULL ||
        kind_len + len > CACHE_ACL_IDENTITY_MAX ||
        before + kind_len + len + 1 > CACHE_ACL_NAMES_MAX)
        return;
    access = realloc(access, sizeof(*access) + before + kind_len + len + 1);
    if (access == NULL) {
        cache_count(session->worker, CACHE_MALLOC_FAILS, 1);
        return;
    }
    if (session->access == NULL)
        memset(access, 0, sizeof(*access));
    at = access->names + before;
    memcpy(at, kind, kind_len);
    memcpy(at + kind_len, name, len);
    at[kind_len + len] = '\0';
    access->names_len = before + kind_len + len + 1;
    access->version = 0;
    session->access = access;
}

const char *cache_acl_file(const struct cache *cache)
{
    return cache->settings.acl_file;
}

void cache_session_add_cert_name(struct cache_session *session, const char *name, uint32_t len)
{
    name_add(session, CERT, (const uint8_t *)name, len);
}

void cache_acl_set_user(struct cache_session *session, const uint8_t *name, uint32_t len)
{
    struct cache_access *access = session->access;
    uint32_t kept = 0;

    /* Certificates' names come first: a user follows them, if there is one. */
    while (access != NULL && kept < access->names_len && begins_with(access->names + kept, CERT))
        kept += (uint32_t)strlen(access->names + kept) + 1;
    if (access != NULL) {
        access->names_len = kept;
        access->version = 0;
    }
    if (len > 0)
        name_add(session, USER, name, len);
}

static bool has_identity(const struct cache_access *access, const char *identity)
{
    const char *end = access->names + access->names_len;

    if (strcmp(identity, ALL_CLIENTS) == 0)
        return true;
    for (const char *at = access->names; at < end; at += strlen(at) + 1)
        if (strcmp(at, identity) == 0)
            return true;
    return false;
}

/* The session's rules in the worker's table; null without memory. */
static const struct cache_access *access_of(struct cache_session *session)
{
    const struct cache_acl *acl = session->worker->acl;
    struct cache_access *access = session->access;

    if (access == NULL) {
        access = calloc(1, sizeof(*access));
        if (access == NULL) {
            cache_count(session->worker, CACHE_MALLOC_FAILS, 1);
            return NULL;
        }
        session->access = access;
    }
    if (access->version == acl->version)
        return access;
    memset(access->rules, 0, sizeof(access->rules));
    for (unsigned i = 0; i < acl->count; i++)
        if (has_identity(access, acl->rules[i].identity))
            access->rules[i / 64] |= UINT64_C(1) << i % 64;
    access->version = acl->version;
    return access;
}

/* ---- the rights of a request ------------------------------------------------------------- */

/* Whether rules of the session grant all of `needed` for a key; null: for none. */
static bool grants(const struct cache_acl *acl, const struct cache_access *access, unsigned needed,
                   const uint8_t *key, uint32_t key_len)
{
    for (unsigned word = 0; word < U_ARRAY_LEN(access->rules) && needed != 0; word++) {
        for (uint64_t left = access->rules[word]; left != 0; left &= left - 1) {
            const struct cache_acl_rule *rule =
                &acl->rules[word * 64 + (unsigned)__builtin_ctzll(left)];

            if (rule->prefix_len <= key_len && memcmp(rule->prefix, key, rule->prefix_len) == 0)
                needed &= ~(unsigned)rule->rights;
        }
    }
    return needed == 0;
}

/* Lists of statistics that show neither keys nor clients, and change nothing. */
static bool stats_are_public(const struct mc_request *request)
{
    static const char *const lists[] = {"settings", "items", "slabs", "sizes", "kv",
                                        "ustack",   "nic",   "sock",  "tls",   "latency"};
    struct cache_words words = cache_words_split(request);

    if (words.count == 0)
        return true;
    for (unsigned i = 0; i < U_ARRAY_LEN(lists) && words.count == 1; i++)
        if (cache_word_is(&words, 0, lists[i]))
            return true;
    return false;
}

/* The rights that a request needs: for each of its keys, or if it has none. */
static unsigned rights_needed(const struct mc_request *request)
{
    switch (request->command) {
    case MC_CMD_NONE:
    case MC_CMD_VERSION:
    case MC_CMD_QUIT:
    case MC_CMD_NOOP:
    case MC_CMD_MN:
        return 0;
    case MC_CMD_GET:
    case MC_CMD_GETS:
    case MC_CMD_ME:
        return RIGHT_READ;
    case MC_CMD_MG:
        return request->meta.has & (MC_META_SET_TTL | MC_META_VIVIFY | MC_META_RECACHE)
                   ? RIGHT_READ | RIGHT_WRITE
                   : RIGHT_READ;
    case MC_CMD_GAT:
    case MC_CMD_GATS:
    case MC_CMD_INCR: /* the reply shows the number */
    case MC_CMD_DECR:
    case MC_CMD_MA:
        return RIGHT_READ | RIGHT_WRITE;
    case MC_CMD_SET:
    case MC_CMD_ADD:
    case MC_CMD_REPLACE:
    case MC_CMD_APPEND:
    case MC_CMD_PREPEND:
    case MC_CMD_CAS:
    case MC_CMD_MS:
    case MC_CMD_DELETE:
    case MC_CMD_MD:
    case MC_CMD_TOUCH:
        return RIGHT_WRITE;
    case MC_CMD_STATS:
        return stats_are_public(request) ? 0 : RIGHT_ADMIN;
    default:
        return RIGHT_ADMIN;
    }
}

/*
 * The first key that is not granted; an empty one if the request has none. Null: all are. A text
 * request has further keys in its arguments.
 */
static const uint8_t *refused_key(const struct cache_session *session,
                                  const struct cache_access *access,
                                  const struct mc_request *request, uint32_t *len)
{
    static const uint8_t none[1];
    const struct cache_acl *acl = session->worker->acl;
    bool words = session->state.protocol != CACHE_PROTOCOL_BINARY &&
                 mc_command_is_retrieval(request->command);
    const uint8_t *key = request->key != NULL ? request->key : none;
    const uint8_t *at = request->args;
    const uint8_t *end = at + request->args_len;
    unsigned needed = rights_needed(request);

    *len = request->key_len;
    if (!words)
        return grants(acl, access, needed, key, *len) ? NULL : key;
    while (mc_token_next(&at, end, &key, len))
        if (!grants(acl, access, needed, key, *len))
            return key;
    return NULL;
}

/* "connection 65 (user:alice): set app2:key refused", at -v. */
static void log_refusal(const struct cache_session *session, const struct mc_request *request,
                        const uint8_t *key, uint32_t key_len)
{
    const struct cache *cache = session->worker->cache;
    const struct cache_access *access = session->access;
    char name[KV_KEY_MAX + 1];
    char line[CACHE_ACL_IDENTITY_MAX + KV_KEY_MAX + 100];
    const char *identity = "no identity";

    if (cache->log_refusal == NULL || cache_verbosity(cache) == 0)
        return;
    for (uint32_t i = 0; i < key_len; i++)
        name[i] = key[i] > ' ' && key[i] < 127 ? (char)key[i] : '?';
    name[key_len] = '\0';
    if (access != NULL && access->names_len > 0)
        identity = access->names;
    snprintf(line, sizeof(line), "ucached: connection %u (%s): %s%s%s refused", session->id,
             identity, mc_command_name(request->command), key_len > 0 ? " " : "", name);
    cache->log_refusal(line);
}

bool cache_acl_permits(struct cache_session *session, const struct mc_request *request)
{
    const struct cache_access *access = access_of(session);
    const uint8_t *key = request->key;
    uint32_t key_len = request->key_len;

    if (access != NULL)
        key = refused_key(session, access, request, &key_len);
    if (access != NULL && key == NULL)
        return true;
    cache_count(session->worker, CACHE_ACL_REFUSALS, 1);
    log_refusal(session, request, key, key_len);
    return false;
}
