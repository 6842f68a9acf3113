/* SPDX-License-Identifier: BSD-3-Clause */
/* The ring of servers; see ketama.h. */
#include "load/ketama.h"

#include <md5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_PORT 11211
#define POINTS_PER_SERVER 160
#define POINTS_PER_DIGEST 4
#define ROUNDING 1e-10 /* against a product just below a whole number */

/* Room for ":port-N". */
#define NAME_ROOM (LOAD_KETAMA_NAME_MAX + 16)

static void digest_of(const void *data, size_t len, uint8_t digest[MD5_DIGEST_LENGTH])
{
    MD5_CTX md5;

    MD5Init(&md5);
    MD5Update(&md5, data, len);
    MD5Final(digest, &md5);
}

static uint32_t word_of(const uint8_t digest[MD5_DIGEST_LENGTH], unsigned i)
{
    const uint8_t *at = digest + 4 * (size_t)i;

    return (uint32_t)at[3] << 24 | (uint32_t)at[2] << 16 | (uint32_t)at[1] << 8 | at[0];
}

static uint32_t weight_of(const struct load_ketama_server *server)
{
    return server->weight == 0 ? 1 : server->weight;
}

/* Digests for the points of a server, proportional to its weight. */
static uint32_t digests_of(const struct load_ketama_server *server, uint32_t count, double total)
{
    double share = (double)weight_of(server) / total;

    return (uint32_t)(share * POINTS_PER_SERVER / POINTS_PER_DIGEST * (double)count + ROUNDING);
}

static void add_points(struct load_ketama *ring, const struct load_ketama_server *server,
                       uint32_t index, uint32_t digests)
{
    char name[NAME_ROOM];
    uint8_t digest[MD5_DIGEST_LENGTH];

    for (uint32_t n = 0; n < digests; n++) {
        int len = server->port == DEFAULT_PORT
                      ? snprintf(name, sizeof(name), "%s-%u", server->host, n)
                      : snprintf(name, sizeof(name), "%s:%u-%u", server->host, server->port, n);

        digest_of(name, (size_t)len, digest);
        for (unsigned i = 0; i < POINTS_PER_DIGEST; i++)
            ring->points[ring->count++] =
                (struct load_ketama_point){.hash = word_of(digest, i), .server = index};
    }
}

static int by_hash(const void *a, const void *b)
{
    const struct load_ketama_point *p = a, *q = b;

    return (p->hash > q->hash) - (p->hash < q->hash);
}

int load_ketama_open(struct load_ketama *ring, const struct load_ketama_server *servers,
                     uint32_t count)
{
    double total = 0;

    ring->count = 0;
    if (count == 0 || count > LOAD_KETAMA_SERVERS_MAX)
        return -1;
    for (uint32_t i = 0; i < count; i++) {
        if (strlen(servers[i].host) > LOAD_KETAMA_NAME_MAX)
            return -1;
        total += weight_of(&servers[i]);
    }
    for (uint32_t i = 0; i < count; i++)
        add_points(ring, &servers[i], i, digests_of(&servers[i], count, total));
    qsort(ring->points, ring->count, sizeof(ring->points[0]), by_hash);
    return 0;
}

uint32_t load_ketama_server_of(const struct load_ketama *ring, const void *key, size_t len)
{
    uint8_t digest[MD5_DIGEST_LENGTH];
    uint32_t low = 0, high = ring->count, hash;

    digest_of(key, len, digest);
    hash = word_of(digest, 0);
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (ring->points[middle].hash < hash)
            low = middle + 1;
        else
            high = middle;
    }
    return ring->points[low == ring->count ? 0 : low].server;
}
