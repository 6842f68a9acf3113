/* SPDX-License-Identifier: BSD-3-Clause */
/* The servers of keys; see routing.h. */
#include "routing.h"

#include <stdio.h>
#include <stdlib.h>

unsigned routing_compute(const struct routing *routing, uint64_t id)
{
    char key[LOAD_KEY_MAX];
    uint32_t len = load_key_write(key, id, keyspace_key_bytes(routing->keys, id));

    return load_ketama_server_of(&routing->ring, key, len);
}

int routing_open(struct routing *routing, const struct load_ketama_server *servers,
                 unsigned server_count, const struct keyspace *keys, uint64_t ids,
                 char error[ROUTING_ERROR_MAX])
{
    uint64_t owned[LOAD_KETAMA_SERVERS_MAX] = {0};

    routing->keys = keys;
    routing->known = 0;
    routing->servers = malloc(u_min64(ids, ROUTING_KNOWN_MAX));
    if (!routing->servers) {
        snprintf(error, ROUTING_ERROR_MAX, "no memory for the servers of keys");
        return -1;
    }
    if (load_ketama_open(&routing->ring, servers, server_count) < 0) {
        snprintf(error, ROUTING_ERROR_MAX, "a name is too long, or there are more than %d",
                 LOAD_KETAMA_SERVERS_MAX);
        return -1;
    }
    for (uint64_t id = 0; id < u_min64(ids, ROUTING_KNOWN_MAX); id++) {
        routing->servers[id] = (uint8_t)routing_compute(routing, id);
        if (id < keys->count)
            owned[routing->servers[id]]++;
    }
    routing->known = u_min64(ids, ROUTING_KNOWN_MAX);
    for (unsigned i = 0; i < server_count; i++) {
        if (owned[i] > 0)
            continue;
        snprintf(error, ROUTING_ERROR_MAX, "server %u of %u has none of the keys; use more keys",
                 i + 1, server_count);
        return -1;
    }
    return 0;
}

void routing_close(struct routing *routing)
{
    free(routing->servers);
}
