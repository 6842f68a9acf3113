/* SPDX-License-Identifier: BSD-3-Clause */
/* Sources of requests. */
#include <stdlib.h>
#include <string.h>

#include "kvbench/bench.h"
#include "kvbench/source.h"
#include "load/random.h"

bool source_open(struct source *source, const struct options *options)
{
    memset(source, 0, sizeof(*source));
    source->options = options;
    source->workload = options->workload;
    if (options->trace_path) {
        source->trace = load_trace_open(options->trace_path,
                                        load_trace_format_of(options->trace_path), source->error);
        if (!source->trace)
            return bench_fail("%s", source->error);
    }
    return true;
}

void source_close(struct source *source)
{
    if (source->trace)
        load_trace_close(source->trace);
    source->trace = NULL;
}

void source_rewind(struct source *source)
{
    source->drawn = 0;
    source->workload = source->options->workload;
    if (source->trace)
        load_trace_rewind(source->trace);
}

int source_next(struct source *source, struct load_request *request)
{
    if (source->drawn == source->options->requests)
        return 0;
    source->drawn++;
    if (source->trace)
        return load_trace_next(source->trace, request, source->error);
    load_workload_next(&source->workload, request);
    return 1;
}

/* A growing set of ids; open addressing, at most half full. */
struct ids {
    uint64_t *slots; /* id + 1; 0 is free */
    size_t size;
    size_t count;
};

/* Whether the id was not there before; -1 if there is no memory. */
static int ids_add(struct ids *ids, uint64_t id)
{
    size_t at;

    if (2 * ids->count >= ids->size) {
        struct ids larger = {.size = ids->size > 0 ? 2 * ids->size : 1024};
        larger.slots = calloc(larger.size, sizeof(*larger.slots));
        if (!larger.slots)
            return -1;
        for (size_t i = 0; i < ids->size; i++)
            if (ids->slots[i] != 0)
                ids_add(&larger, ids->slots[i] - 1);
        free(ids->slots);
        *ids = larger;
    }
    id += id != UINT64_MAX; /* the two largest ids count as one */
    at = (size_t)load_random_hash(id, 0) & (ids->size - 1);
    while (ids->slots[at] != 0) {
        if (ids->slots[at] == id)
            return 0;
        at = (at + 1) & (ids->size - 1);
    }
    ids->slots[at] = id;
    ids->count++;
    return 1;
}

static bool look_through(struct source *source, struct source_facts *facts)
{
    struct ids ids = {0};
    struct load_request request;
    int got;

    source_rewind(source);
    while ((got = source_next(source, &request)) > 0) {
        int fresh = ids_add(&ids, request.id);
        if (fresh < 0) {
            free(ids.slots);
            return bench_fail("no memory to count the keys of the trace");
        }
        facts->requests++;
        if (request.value_bytes > facts->value_bytes_max)
            facts->value_bytes_max = request.value_bytes;
        facts->expires |= request.ttl_s > 0;
        if (fresh > 0)
            facts->footprint_bytes += request.key_bytes + request.value_bytes;
    }
    facts->objects = ids.count;
    free(ids.slots);
    source_rewind(source);
    return got == 0 || bench_fail("%s: %s", source->options->trace_path, source->error);
}

bool source_look(struct source *source, struct source_facts *facts)
{
    const struct options *options = source->options;

    *facts = (struct source_facts){0};
    if (source->trace)
        return look_through(source, facts);
    facts->requests = options->requests;
    facts->objects = options->workload.popularity.keys;
    facts->footprint_bytes = load_workload_footprint_bytes(&options->workload);
    facts->value_bytes_max = options_value_bytes_max(options);
    facts->expires = load_size_quantile(&options->workload.ttl_s, 1 - 0x1p-53) > 0 ||
                     load_size_quantile(&options->workload.ttl_s, 0) > 0;
    return true;
}
