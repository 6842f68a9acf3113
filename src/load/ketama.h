/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ketama: the server of a key by consistent hashing. Servers have points on a ring of 2^32 by the
 * MD5 of their names; a key belongs to the server of the first point not below its own hash.
 *
 * The ring is that of libmemcached with MEMCACHED_BEHAVIOR_KETAMA_WEIGHTED (PHP's
 * OPT_LIBKETAMA_COMPATIBLE, pylibmc's ketama_weighted) and of twemproxy's `ketama`: 160 points for
 * a server of average weight, four for each digest of "host-N", or "host:port-N" if the port is not
 * 11211.
 */
#ifndef LOAD_KETAMA_H
#define LOAD_KETAMA_H

#include <stddef.h>
#include <stdint.h>

#define LOAD_KETAMA_SERVERS_MAX 64
#define LOAD_KETAMA_NAME_MAX 255 /* "host:port" */
#define LOAD_KETAMA_POINTS_MAX (LOAD_KETAMA_SERVERS_MAX * 160)

struct load_ketama_server {
    const char *host; /* as clients write it: names and addresses are different servers */
    uint16_t port;
    uint32_t weight; /* 0: 1 */
};

struct load_ketama_point {
    uint32_t hash;
    uint32_t server;
};

struct load_ketama {
    struct load_ketama_point points[LOAD_KETAMA_POINTS_MAX];
    uint32_t count;
};

/*
 * Makes the ring of 1..LOAD_KETAMA_SERVERS_MAX servers, which it does not refer to afterwards. A
 * server whose weight is small next to the others' may get no point. Returns 0, or -1 if there are
 * too few or too many servers or a host is longer than LOAD_KETAMA_NAME_MAX.
 */
int load_ketama_open(struct load_ketama *ring, const struct load_ketama_server *servers,
                     uint32_t count);

/* The index of the server that has the key. */
uint32_t load_ketama_server_of(const struct load_ketama *ring, const void *key, size_t len);

#endif
