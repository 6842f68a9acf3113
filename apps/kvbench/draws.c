/* SPDX-License-Identifier: BSD-3-Clause */
/* Pre-generated requests. */
#include <stdlib.h>

#include "base/base.h"
#include "kvbench/draws.h"
#include "load/key.h"

#define DRAWS_MIN (1u << 16)
#define DRAWS_MAX (1u << 22)

unsigned draws_wanted(const struct load_workload *workload)
{
    uint64_t wanted = 4 * workload->popularity.keys;

    if (wanted < DRAWS_MIN)
        return DRAWS_MIN;
    if (wanted > DRAWS_MAX)
        return DRAWS_MAX;
    return (unsigned)(wanted / TABLE_BURST * TABLE_BURST);
}

static bool room_for(struct draws *draws, unsigned count, uint32_t key_bytes)
{
    size_t stride = (sizeof(struct table_request) + key_bytes + 7) & ~(size_t)7;

    draws->stride = stride;
    draws->count = count;
    if (draws->room < stride * count) {
        free(draws->at);
        draws->at = malloc(stride * count);
        draws->room = draws->at ? stride * count : 0;
    }
    return draws->at != NULL;
}

static void put(struct draws *draws, unsigned i, const struct load_request *request)
{
    struct table_request *to = (struct table_request *)(void *)(draws->at + i * draws->stride);

    to->value_bytes = request->value_bytes;
    to->op =
        (uint8_t)(request->op == LOAD_SET || request->op == LOAD_DELETE ? request->op : LOAD_GET);
    to->key_bytes = (uint8_t)load_key_write((char *)to->key, request->id, request->key_bytes);
}

bool draws_make(struct draws *draws, struct load_workload *workload, unsigned count)
{
    struct load_workload ahead = *workload;
    struct load_request request;
    uint32_t key_bytes = 0;

    for (unsigned i = 0; i < count; i++) {
        load_workload_next(&ahead, &request);
        key_bytes = u_max32(key_bytes, request.key_bytes);
    }
    if (!room_for(draws, count, key_bytes))
        return false;
    for (unsigned i = 0; i < count; i++) {
        load_workload_next(workload, &request);
        put(draws, i, &request);
    }
    return true;
}

bool draws_fill(struct draws *draws, const struct load_workload *workload, uint64_t first,
                unsigned count)
{
    struct load_request request;
    uint32_t key_bytes = 0;

    for (unsigned i = 0; i < count; i++) {
        load_workload_describe(workload, first + i, &request);
        key_bytes = u_max32(key_bytes, request.key_bytes);
    }
    if (!room_for(draws, count, key_bytes))
        return false;
    for (unsigned i = 0; i < count; i++) {
        load_workload_describe(workload, first + i, &request);
        request.op = LOAD_SET;
        put(draws, i, &request);
    }
    return true;
}

void draws_free(struct draws *draws)
{
    free(draws->at);
    draws->at = NULL;
    draws->room = 0;
}

struct table_requests draws_part(const struct draws *draws, unsigned from, unsigned count,
                                 unsigned group)
{
    return (struct table_requests){.at = draws->at + from * draws->stride,
                                   .stride = draws->stride,
                                   .count = count,
                                   .group = group};
}
