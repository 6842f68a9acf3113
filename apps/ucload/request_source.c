/* SPDX-License-Identifier: BSD-3-Clause */
/* Chooses requests; see request_source.h. */
#include "request_source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

static int find_op(const char *text, size_t len)
{
    unsigned i;

    for (i = 0; i < OP_MIXED; i++) {
        if (i != OP_GETS && strlen(op_names[i]) == len && memcmp(op_names[i], text, len) == 0)
            return i == OP_CAS ? OP_GETS : (int)i; /* which the cas follows */
    }
    return -1;
}

static int fail(char error[LOAD_ERROR_MAX], const char *text)
{
    snprintf(error, LOAD_ERROR_MAX,
             "\"%.40s\" is no mix: give operations of get, set, delete, incr, decr, touch, append, "
             "prepend, gat and cas with their weights, for instance get:90,set:10",
             text);
    return -1;
}

/* Parses "get:90", "get=90" or "get"; moves *at behind it and the comma. */
static int read_part(const char **at, double weight[OP_COUNT])
{
    size_t len = strcspn(*at, ":=,");
    int op = find_op(*at, len);
    char *end = NULL;
    double w = 1;

    if (op < 0)
        return -1;
    *at += len;
    if (**at == ':' || **at == '=') {
        if ((*at)[1] < '0' || (*at)[1] > '9')
            return -1;
        w = strtod(*at + 1, &end);
        *at = end;
    }
    if (**at == ',' && (*at)[1] != '\0')
        (*at)++;
    else if (**at != '\0')
        return -1;
    if (w > 1e9)
        return -1;
    weight[op] += w;
    return 0;
}

int mix_parse(struct mix *mix, const char *text, char error[LOAD_ERROR_MAX])
{
    double weight[OP_COUNT] = {0};
    double sum = 0, upto = 0;
    const char *at = text;
    unsigned i, used = 0;

    do {
        if (read_part(&at, weight) < 0)
            return fail(error, text);
    } while (*at != '\0');
    for (i = 0; i < OP_COUNT; i++)
        sum += weight[i];
    if (sum <= 0)
        return fail(error, text);
    for (i = 0; i < OP_COUNT; i++) {
        upto += weight[i];
        mix->cumulative[i] = (uint64_t)(upto / sum * 0x1p32);
        if (weight[i] > 0) {
            used++;
            mix->single_op = (enum op)i;
        }
    }
    mix->cumulative[mix->single_op] = UINT64_C(1) << 32; /* without rounding error */
    mix->counts = weight[OP_INCR] > 0 || weight[OP_DECR] > 0;
    mix->grows = weight[OP_APPEND] > 0 || weight[OP_PREPEND] > 0;
    mix->swaps = weight[OP_GETS] > 0;
    mix->single = used == 1 && !mix->grows;
    return 0;
}

void source_init(struct source *source, const struct mix *mix,
                 const struct load_popularity *popularity, uint64_t count)
{
    memset(source, 0, sizeof(*source));
    source->mix = mix;
    source->popularity = popularity;
    source->count = count;
}

void source_replay(struct source *source, const struct loaded_trace *replay, uint32_t first,
                   uint32_t step, bool again)
{
    source->replay = replay;
    source->replay_at = first;
    source->replay_step = step;
    source->replay_again = again;
    for (unsigned i = 0; i < LOAD_KETAMA_SERVERS_MAX; i++)
        source->at[i] = first;
}

void source_mix(struct source *source, uint64_t seed)
{
    u_prng_seed(&source->prng, seed);
    source->storing = source->stats = false;
}

void source_store(struct source *source, uint64_t from, uint64_t to)
{
    source->storing = true;
    source->stats = false;
    source->next = from;
    source->end = to;
    for (unsigned i = 0; i < LOAD_KETAMA_SERVERS_MAX; i++)
        source->at[i] = from;
}

void source_stats(struct source *source, bool once)
{
    source_store(source, 0, once);
    source->stats = true;
}

static enum op draw_op(struct source *source)
{
    const struct mix *mix = source->mix;
    uint64_t r = u_prng_next(&source->prng) >> 32;
    unsigned op = 0;

    while (r >= mix->cumulative[op])
        op++;
    if (U_UNLIKELY(op == OP_APPEND || op == OP_PREPEND) &&
        u_prng_next(&source->prng) % MIX_RENEW == 0)
        return OP_SET;
    return (enum op)op;
}

static uint32_t next_of_replay(struct source *source, enum op *op, uint64_t *ids)
{
    const struct loaded_trace *replay = source->replay;
    const struct loaded_request *request;

    if (source->replay_at >= replay->count) {
        if (!source->replay_again || replay->count < source->replay_step)
            return 0;
        source->replay_at %= replay->count;
    }
    request = &replay->requests[source->replay_at];
    source->replay_at += source->replay_step;
    *op = (enum op)request->op;
    ids[0] = request->id + (op_counts(*op) ? source->count : 0);
    return 1;
}

uint32_t source_next(struct source *source, enum op *op, uint64_t *ids)
{
    uint32_t n = 1, i;

    if (source->storing) {
        if (source->next == source->end)
            return 0;
        *ids = source->next++;
        *op = source->stats ? OP_STATS : *ids < source->count ? OP_SET : OP_CREATE;
        return 1;
    }
    if (source->replay)
        return next_of_replay(source, op, ids);
    *op = source->mix->single ? source->mix->single_op : draw_op(source);
    ids[0] = load_popularity_draw(source->popularity, &source->prng);
    if (*op == OP_GET)
        n = source->mix->multi;
    for (i = 1; i < n; i++)
        ids[i] = load_popularity_draw(source->popularity, &source->prng);
    if (op_counts(*op))
        ids[0] += source->count;
    return n;
}

void source_next_many(struct source *source, enum op *ops, uint64_t *ids, uint32_t n)
{
    const struct mix *mix = source->mix;
    uint32_t i;

    U_ASSERT(mix->multi == 1 && !source->storing && !source->replay);
    if (mix->single) {
        for (i = 0; i < n; i++)
            ops[i] = mix->single_op;
    } else {
        for (i = 0; i < n; i++)
            ops[i] = draw_op(source);
    }
    load_popularity_draw_many(source->popularity, &source->prng, ids, n);
    if (mix->counts) {
        for (i = 0; i < n; i++)
            ids[i] += op_counts(ops[i]) ? source->count : 0;
    }
}

/* ---- several servers --------------------------------------------------------------------- */

/* Draws that may miss the server before an id is searched for. */
#define DRAWS_MAX 4096

void source_route(struct source *source, const struct routing *routing, unsigned servers)
{
    source->routing = routing;
    source->servers = servers;
}

static bool belongs(const struct source *source, unsigned server, uint64_t id)
{
    return routing_server(source->routing, id) == server;
}

/* An id from the popularity, plus `offset`, of this server. Each server has keys. */
static uint64_t draw_of(struct source *source, unsigned server, uint64_t offset)
{
    uint64_t id = 0;

    for (unsigned i = 0; i < DRAWS_MAX; i++) {
        id = load_popularity_draw(source->popularity, &source->prng) + offset;
        if (belongs(source, server, id))
            return id;
    }
    for (uint64_t i = 0; i < source->count && !belongs(source, server, id); i++)
        id = offset + (id - offset + 1) % source->count;
    return id;
}

static uint32_t store_next_for(struct source *source, unsigned server, enum op *op, uint64_t *ids)
{
    uint64_t *at = &source->at[server];

    while (*at < source->end && !belongs(source, server, *at))
        (*at)++;
    if (*at == source->end)
        return 0;
    ids[0] = (*at)++;
    *op = ids[0] < source->count ? OP_SET : OP_CREATE;
    return 1;
}

/* The order of requests to different servers is not kept. */
static uint32_t replay_next_for(struct source *source, unsigned server, enum op *op, uint64_t *ids)
{
    uint64_t tries = source->replay->count + 1;

    source->replay_at = source->at[server];
    while (tries-- > 0 && next_of_replay(source, op, ids) > 0) {
        source->at[server] = source->replay_at;
        if (belongs(source, server, ids[0]))
            return 1;
    }
    source->at[server] = source->replay_at;
    return 0;
}

uint32_t source_next_for(struct source *source, unsigned server, enum op *op, uint64_t *ids)
{
    uint32_t n, i;

    if (source->stats)
        return source_next(source, op, ids);
    if (source->storing)
        return store_next_for(source, server, op, ids);
    if (source->replay)
        return replay_next_for(source, server, op, ids);
    *op = draw_op(source);
    n = *op == OP_GET ? source->mix->multi : 1;
    for (i = 0; i < n; i++)
        ids[i] = draw_of(source, server, op_counts(*op) ? source->count : 0);
    return n;
}

bool source_is_done(const struct source *source)
{
    uint64_t end = source->storing ? source->end : source->replay ? source->replay->count : 0;

    if (source->stats)
        return source->next == source->end;
    if (!source->storing && (!source->replay || source->replay_again))
        return false;
    for (unsigned i = 0; i < source->servers; i++)
        if (source->at[i] < end)
            return false;
    return true;
}
