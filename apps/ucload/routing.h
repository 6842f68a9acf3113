/* SPDX-License-Identifier: BSD-3-Clause */
/* Several servers: the server of each key by ketama, as most client libraries choose it. */
#ifndef UCLOAD_ROUTING_H
#define UCLOAD_ROUTING_H

#include "keyspace.h"
#include "load/ketama.h"

#define ROUTING_ERROR_MAX 200

/* Ids whose servers are computed at the start; those of others are computed each time. */
#define ROUTING_KNOWN_MAX (UINT64_C(1) << 24)

struct routing {
    struct load_ketama ring;
    const struct keyspace *keys;
    uint64_t known;
    uint8_t *servers; /* of the ids below `known` */
};

/*
 * The ring of the servers, for the ids below `ids`. Returns 0, or -1 with a message: there is no
 * memory, or a server has none of the keys. routing_close() is required in both cases.
 */
int routing_open(struct routing *routing, const struct load_ketama_server *servers,
                 unsigned server_count, const struct keyspace *keys, uint64_t ids,
                 char error[ROUTING_ERROR_MAX]);

void routing_close(struct routing *routing);

/* The server of a key that is not known. */
unsigned routing_compute(const struct routing *routing, uint64_t id);

static inline unsigned routing_server(const struct routing *routing, uint64_t id)
{
    return id < routing->known ? routing->servers[id] : routing_compute(routing, id);
}

#endif
