/* SPDX-License-Identifier: BSD-3-Clause */
/* An item of the tables other than the engine: one block of malloc with key and value. */
#ifndef KVBENCH_NODE_H
#define KVBENCH_NODE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kvbench/table.h"

struct node {
    uint32_t value_bytes;
    uint8_t key_bytes;
    uint8_t bytes[]; /* the key, then the value */
};

/* Bytes that a node for a request takes. */
static inline size_t node_size(const struct table_request *request)
{
    return sizeof(struct node) + request->key_bytes + request->value_bytes;
}

static inline void node_fill(struct node *node, const struct table_request *request)
{
    node->value_bytes = request->value_bytes;
    node->key_bytes = request->key_bytes;
    memcpy(node->bytes, request->key, request->key_bytes);
    memset(node->bytes + request->key_bytes, 'v', request->value_bytes);
}

static inline bool node_is(const struct node *node, const struct table_request *request)
{
    return node->key_bytes == request->key_bytes &&
           memcmp(node->bytes, request->key, request->key_bytes) == 0;
}

static inline void node_read(const struct node *node, uint8_t *to)
{
    memcpy(to, node->bytes + node->key_bytes, node->value_bytes);
}

#endif
