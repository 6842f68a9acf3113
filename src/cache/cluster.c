/* SPDX-License-Identifier: BSD-3-Clause */
/* The file of a pool's servers, and the commands that read it; see cluster.h. */
#include "cache/cluster.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "cache/exec.h"
#include "cache/sink_reply.h"

#define BLANKS " \t\r\n"
#define LINE_BYTES_MAX 8192
#define HOST_BYTES_MAX 255 /* of a name, RFC 1035 section 2.3.4 */
#define PORT_MAX 65535

/* `text` is what clients get: the version and the servers, a line each. */
struct cache_cluster {
    uint64_t version;
    unsigned nodes;
    uint32_t len;
    uint32_t nodes_at; /* where the servers begin in `text` */
    char text[CACHE_CLUSTER_TEXT_MAX];
};

__attribute__((format(printf, 2, 3))) static int fail(char error[CACHE_ERROR_MAX],
                                                      const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(error, CACHE_ERROR_MAX, format, args);
    va_end(args);
    return -1;
}

/* ---- the file ---------------------------------------------------------------------------- */

/* Reads a number of digits only, up to max; false if it is none. */
static bool number_read(const char *text, size_t len, uint64_t max, uint64_t *number)
{
    uint64_t n = 0;

    if (len == 0 || len > 18)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        n = n * 10 + (uint64_t)(text[i] - '0');
    }
    *number = n;
    return n > 0 && n <= max;
}

static bool is_address(const char *text, size_t len)
{
    char copy[INET6_ADDRSTRLEN];
    uint8_t address[16];

    if (len >= sizeof(copy))
        return false;
    memcpy(copy, text, len);
    copy[len] = '\0';
    return len == 0 || inet_pton(AF_INET, copy, address) == 1 ||
           inet_pton(AF_INET6, copy, address) == 1;
}

/* "name|address|port". */
static bool is_node(const char *word, size_t len)
{
    const char *end = word + len;
    const char *address = memchr(word, '|', len);
    const char *port =
        address != NULL ? memchr(address + 1, '|', (size_t)(end - address) - 1) : NULL;
    uint64_t number;

    if (port == NULL || address == word || address - word > HOST_BYTES_MAX)
        return false;
    for (const char *at = word; at != address; at++)
        if (*at <= ' ' || *at > '~')
            return false;
    return is_address(address + 1, (size_t)(port - address) - 1) &&
           number_read(port + 1, (size_t)(end - port) - 1, PORT_MAX, &number);
}

static int word_add(struct cache_cluster *cluster, const char *word, size_t len, unsigned line,
                    char error[CACHE_ERROR_MAX])
{
    bool first = cluster->version == 0;
    int shown = (int)(len < 100 ? len : 100);

    if (first && !number_read(word, len, UINT64_MAX, &cluster->version))
        return fail(error, "line %u: \"%.*s\" is not a version, a number from 1 on", line, shown,
                    word);
    if (!first && !is_node(word, len))
        return fail(error, "line %u: \"%.*s\" is not name|address|port", line, shown, word);
    if (!first && cluster->nodes == CACHE_CLUSTER_NODES_MAX)
        return fail(error, "line %u: more than %d servers", line, CACHE_CLUSTER_NODES_MAX);
    if (len + 2 > sizeof(cluster->text) - cluster->len)
        return fail(error, "line %u: more than %d bytes", line, CACHE_CLUSTER_TEXT_MAX);
    if (cluster->nodes > 0)
        cluster->text[cluster->len++] = ' ';
    memcpy(cluster->text + cluster->len, word, len);
    cluster->len += (uint32_t)len;
    if (!first) {
        cluster->nodes++;
        return 0;
    }
    cluster->text[cluster->len++] = '\n';
    cluster->nodes_at = cluster->len;
    return 0;
}

static int file_read(struct cache_cluster *cluster, FILE *file, char error[CACHE_ERROR_MAX])
{
    char line[LINE_BYTES_MAX + 2];

    for (unsigned number = 1; fgets(line, sizeof(line), file) != NULL; number++) {
        const char *at = line + strspn(line, BLANKS);

        if (strlen(line) > LINE_BYTES_MAX)
            return fail(error, "line %u is longer than %d bytes", number, LINE_BYTES_MAX);
        while (*at != '\0' && line[0] != '#') {
            size_t len = strcspn(at, BLANKS);

            if (word_add(cluster, at, len, number, error) < 0)
                return -1;
            at += len + strspn(at + len, BLANKS);
        }
    }
    if (ferror(file) != 0)
        return fail(error, "%s", strerror(errno));
    if (cluster->nodes == 0)
        return fail(error, "it names no server: a version and name|address|port are needed");
    cluster->text[cluster->len++] = '\n';
    return 0;
}

/*
 * Clients take a list only if its version is higher than that of the one they have, so other
 * servers with an old version would never be seen.
 */
static int check_version(const struct cache_cluster *old, const struct cache_cluster *new,
                         char error[CACHE_ERROR_MAX])
{
    bool same = old != NULL && old->len - old->nodes_at ==
                                   new->len - new->nodes_at &&memcmp(old->text + old->nodes_at,
                                                                     new->text + new->nodes_at,
                                                                     new->len - new->nodes_at) ==
                                   0;

    if (old == NULL || new->version > old->version || (same && new->version == old->version))
        return 0;
    return fail(error, "version %llu has to become greater than %llu, or clients ignore the list",
                (unsigned long long)new->version, (unsigned long long)old->version);
}

/* Makes a list the one that clients get. */
static int cluster_set(struct cache *cache, struct cache_cluster *cluster,
                       char error[CACHE_ERROR_MAX])
{
    struct cache_cluster *old;
    int result;

    pthread_mutex_lock(&cache->cluster_lock);
    old = cache->cluster;
    result = check_version(old, cluster, error);
    if (result == 0)
        cache->cluster = cluster;
    pthread_mutex_unlock(&cache->cluster_lock);
    free(result == 0 ? old : cluster);
    return result;
}

const char *cache_cluster_file(const struct cache *cache)
{
    return cache->settings.cluster_file;
}

int cache_cluster_load(struct cache *cache, char error[CACHE_ERROR_MAX])
{
    struct cache_cluster *cluster = calloc(1, sizeof(*cluster));
    FILE *file = fopen(cache->settings.cluster_file, "re");
    int result;

    if (cluster == NULL || file == NULL)
        result = fail(error, "%s", cluster == NULL ? "out of memory" : strerror(errno));
    else
        result = file_read(cluster, file, error);
    if (file != NULL)
        fclose(file);
    if (result == 0)
        return cluster_set(cache, cluster, error);
    free(cluster);
    return -1;
}

void cache_cluster_free(struct cache *cache)
{
    free(cache->cluster);
    cache->cluster = NULL;
}

/* ---- clients ----------------------------------------------------------------------------- */

/* The list and the line end that follows a data block. The caller holds the lock. */
static int text_reply(struct cache_worker *worker, struct cache_sink *sink)
{
    const struct cache_cluster *cluster = worker->cache->cluster;

    if (cache_reply_bytes(worker, sink, cluster->text, cluster->len) != 0)
        return -1;
    return cache_reply_bytes(worker, sink, "\r\n", 2);
}

int cache_cluster_value(struct cache_worker *worker, struct cache_sink *sink, bool with_cas)
{
    struct cache *cache = worker->cache;
    uint8_t header[MC_VALUE_HEADER_MAX];
    u_u64 cas;
    uint32_t n;
    int result;

    pthread_mutex_lock(&cache->cluster_lock);
    cas = cache->cluster->version;
    n = mc_write_value_header(header, (const u_u8 *)CACHE_CLUSTER_KEY,
                              sizeof(CACHE_CLUSTER_KEY) - 1, 0, cache->cluster->len,
                              with_cas ? &cas : NULL);
    result = cache_reply_bytes(worker, sink, header, n);
    if (result == 0)
        result = text_reply(worker, sink);
    pthread_mutex_unlock(&cache->cluster_lock);
    return result;
}

int cache_cluster_config(struct cache_session *session, const struct mc_request *request,
                         struct cache_sink *sink)
{
    struct cache_worker *worker = session->worker;
    struct cache_words words = cache_words_split(request);
    struct cache *cache = worker->cache;
    char header[64];
    int result;

    if (cache->settings.cluster_file == NULL || words.count != 2 ||
        !cache_word_is(&words, 0, "get") || !cache_word_is(&words, 1, "cluster"))
        return cache_reply_unless_noreply(worker, sink, request, MC_STATUS_ERROR);
    if (request->noreply)
        return 0;
    pthread_mutex_lock(&cache->cluster_lock);
    result = snprintf(header, sizeof(header), "CONFIG cluster 0 %u\r\n", cache->cluster->len);
    result = cache_reply_bytes(worker, sink, header, (uint32_t)result);
    if (result == 0)
        result = text_reply(worker, sink);
    pthread_mutex_unlock(&cache->cluster_lock);
    return result == 0 ? cache_reply_end(worker, sink) : -1;
}
