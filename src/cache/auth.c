/* SPDX-License-Identifier: BSD-3-Clause */
/* The file of users, and the tokens of clients. */
#include "cache/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES_MIN 6 /* without the line feed: "set k " would be as long */

/* ---- the file ---------------------------------------------------------------------------- */

/* Reads "user:password" without its end. False if it has no colon or is too long. */
static bool user_read(struct cache_auth_user *user, const char *line)
{
    size_t len = strcspn(line, "\r\n");
    const char *colon = memchr(line, ':', len);

    if (colon == NULL || len > CACHE_AUTH_LINE_MAX)
        return false;
    memcpy(user->text, line, len);
    user->name_len = (uint32_t)(colon - line);
    user->password_len = (uint32_t)(len - user->name_len - 1);
    return true;
}

/* Returns null or a phrase. */
static const char *users_read(struct cache_auth *auth, FILE *file)
{
    char line[CACHE_AUTH_LINE_MAX + 3]; /* CR LF NUL */

    while (fgets(line, sizeof(line), file) != NULL) {
        if (auth->count == CACHE_AUTH_USERS_MAX)
            return "the authentication file has more users than 1024";
        if (!user_read(&auth->users[auth->count], line))
            return "the authentication file has a line that is not user:password";
        auth->count++;
    }
    return ferror(file) == 0 ? NULL : "the authentication file cannot be read";
}

const char *cache_auth_file(const struct cache *cache)
{
    const struct cache_settings *settings = &cache->settings;

    return settings->auth_file != NULL ? settings->auth_file : settings->sasl_file;
}

/* Replaces the users that sessions authenticate with. */
static void users_publish(struct cache *cache, struct cache_auth *auth)
{
    struct cache_auth *before;

    pthread_mutex_lock(&cache->auth_lock);
    before = cache->auth;
    cache->auth = auth;
    pthread_mutex_unlock(&cache->auth_lock);
    free(before);
}

int cache_auth_load(struct cache *cache, const char **error)
{
    const size_t bytes = CACHE_AUTH_USERS_MAX * sizeof(struct cache_auth_user);
    struct cache_auth *auth;
    FILE *file = fopen(cache_auth_file(cache), "re");

    if (file == NULL) {
        *error = "the authentication file cannot be opened";
        return -1;
    }
    auth = calloc(1, sizeof(*auth) + bytes);
    *error = auth != NULL ? users_read(auth, file) : "no memory for the users";
    fclose(file);
    if (*error == NULL) {
        users_publish(cache, auth);
        return 0;
    }
    free(auth);
    return -1;
}

/* ---- a client ---------------------------------------------------------------------------- */

enum cache_auth_verdict cache_auth_line(const uint8_t *line, uint32_t len, uint32_t *token_bytes)
{
    enum { SIZE_WORD = 4 };
    const uint8_t *end = line + len - 1;
    const uint8_t *at = line;
    const uint8_t *word = NULL;
    u_u32 word_len = 0;
    u_u32 bytes;

    if (len - 1 < LINE_BYTES_MIN)
        return CACHE_AUTH_CLOSE;
    if (memcmp(line, "set", 3) != 0)
        return CACHE_AUTH_REFUSED;
    if (end[-1] == '\r')
        end--;
    for (unsigned i = 0; i <= SIZE_WORD; i++)
        if (!mc_token_next(&at, end, &word, &word_len))
            return CACHE_AUTH_REFUSED;
    if (!mc_token_u32(word, word_len, &bytes))
        return CACHE_AUTH_REFUSED;
    *token_bytes = bytes;
    return bytes > CACHE_AUTH_TOKEN_MAX ? CACHE_AUTH_TOO_LONG : CACHE_AUTH_TOKEN;
}

/* 1 if the bytes are equal, else 0. */
static unsigned bytes_equal(const void *a, uint32_t a_len, const void *b, uint32_t b_len)
{
    const uint8_t *p = a;
    const uint8_t *q = b;
    unsigned difference = 0;

    if (a_len != b_len)
        return 0;
    for (uint32_t i = 0; i < a_len; i++)
        difference |= (unsigned)(p[i] ^ q[i]);
    return difference == 0;
}

/*
 * Whether the name in the file is that of the client, which SASL completes by the name of the host
 * if it has no realm: both "user" and "user@host" stand for a client "user".
 */
static unsigned name_is(const struct cache *cache, const struct cache_auth_user *user,
                        const uint8_t *name, uint32_t name_len)
{
    uint32_t host_len = (uint32_t)strlen(cache->sasl_host);
    const char *realm = user->text + name_len;
    unsigned same = bytes_equal(user->text, user->name_len, name, name_len);

    if (!cache->settings.sasl || memchr(name, '@', name_len) != NULL ||
        user->name_len != name_len + 1 + host_len)
        return same;
    return same | (bytes_equal(user->text, name_len, name, name_len) & (*realm == '@') &
                   bytes_equal(realm + 1, host_len, cache->sasl_host, host_len));
}

/* In the file of MEMCACHED_SASL_PWDB a password may be followed by a colon and more. */
static unsigned password_is(const struct cache *cache, const struct cache_auth_user *user,
                            const uint8_t *password, uint32_t password_len)
{
    const char *text = user->text + user->name_len + 1;
    unsigned same = bytes_equal(text, user->password_len, password, password_len);

    if (cache->settings.auth_file != NULL || user->password_len <= password_len)
        return same;
    return same |
           (bytes_equal(text, password_len, password, password_len) & (text[password_len] == ':'));
}

/* Compares with all users, in a time that depends on lengths only. */
bool cache_auth_check(struct cache *cache, const uint8_t *name, uint32_t name_len,
                      const uint8_t *password, uint32_t password_len)
{
    unsigned matches = 0;

    pthread_mutex_lock(&cache->auth_lock);
    for (unsigned i = 0; cache->auth != NULL && i < cache->auth->count; i++) {
        const struct cache_auth_user *user = &cache->auth->users[i];

        matches |=
            name_is(cache, user, name, name_len) & password_is(cache, user, password, password_len);
    }
    pthread_mutex_unlock(&cache->auth_lock);
    return matches != 0;
}

enum mc_status cache_auth_token(struct cache_session *session, const uint8_t *token, uint32_t len)
{
    const uint8_t *end = token + len - 2;
    const uint8_t *space;

    if (memcmp(end, "\r\n", 2) != 0)
        return MC_STATUS_AUTH_BAD_TERMINATION;
    space = memchr(token, ' ', (size_t)(end - token));
    if (space == NULL)
        return MC_STATUS_AUTH_BAD_FORMAT;
    cache_count(session->worker, CACHE_AUTH_CMDS, 1);
    if (cache_auth_check(session->worker->cache, token, (uint32_t)(space - token), space + 1,
                         (uint32_t)(end - space - 1)))
        return MC_STATUS_STORED;
    cache_count(session->worker, CACHE_AUTH_ERRORS, 1);
    return MC_STATUS_AUTH_FAILURE;
}
