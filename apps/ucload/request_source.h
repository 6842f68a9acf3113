/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chooses requests: drawn from a mix of operations and the popularity of keys, or from a trace; or
 * each key once for the preload. Seeded; used by one thread.
 */
#ifndef UCLOAD_REQUEST_SOURCE_H
#define UCLOAD_REQUEST_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "load/popularity.h"
#include "pipeline.h"
#include "routing.h"

/* Cumulative shares of the operations, times 2^32. */
struct mix {
    uint64_t cumulative[OP_COUNT];
    bool single; /* all operations are single_op */
    enum op single_op;
    bool counts;    /* incr or decr is among them */
    bool grows;     /* append or prepend */
    bool swaps;     /* cas, which is drawn as OP_GETS */
    uint32_t multi; /* keys per get */
};

/*
 * With append or prepend, values are limited to this size, and one in MIX_RENEW of these requests
 * is sent as a set, at random: that a value grows to the server's limit of 1 MiB has a probability
 * of (1 - 1/8)^256.
 */
#define MIX_GROWN_BYTES_MAX 4096
#define MIX_RENEW 8

/*
 * Parses "get:90,set:10" or "get=90,set=10": operations with weights. Returns 0, or -1 with a
 * message.
 */
int mix_parse(struct mix *mix, const char *text, char error[LOAD_ERROR_MAX]);

struct source {
    const struct mix *mix;
    const struct load_popularity *popularity;
    const struct loaded_trace *replay; /* trace to replay instead, or null */
    uint64_t replay_at;                /* several servers: of each, in `at` */
    uint32_t replay_step;
    bool replay_again; /* restart at the end */
    uint64_t count;    /* number of keys; counters have the ids from here on */
    struct u_prng prng;
    bool storing; /* store the ids next..end */
    bool stats;   /* request statistics, end - next times */
    uint64_t next, end;
    const struct routing *routing; /* several servers, or null */
    unsigned servers;
    uint64_t at[LOAD_KETAMA_SERVERS_MAX]; /* of each: the next id to store, or place in the trace */
};

/* The arguments must outlive the source. */
void source_init(struct source *source, const struct mix *mix,
                 const struct load_popularity *popularity, uint64_t count);

/* Replays every `step`th request of a trace, from `first` on, once or repeatedly. */
void source_replay(struct source *source, const struct loaded_trace *replay, uint32_t first,
                   uint32_t step, bool again);

/* Draws from the mix, or continues the trace. */
void source_mix(struct source *source, uint64_t seed);

/* Stores each id in [from, to) once. */
void source_store(struct source *source, uint64_t from, uint64_t to);

/* Several servers: requests are drawn by source_next_for(). */
void source_route(struct source *source, const struct routing *routing, unsigned servers);

/*
 * Chooses the next request whose keys belong to one of several servers, as source_next() does. 0:
 * there is none any more for this server; source_is_done() says whether that is so for all.
 */
uint32_t source_next_for(struct source *source, unsigned server, enum op *op, uint64_t *ids);
bool source_is_done(const struct source *source);

/* Requests the server's statistics once, or not at all. */
void source_stats(struct source *source, bool once);

/*
 * Chooses the next request: its operation and ids[0..mix.multi). Returns the number of keys, or 0
 * at the end.
 */
uint32_t source_next(struct source *source, enum op *op, uint64_t *ids);

/* Draws n requests of one key each: ops[i] for the key ids[i]. */
void source_next_many(struct source *source, enum op *ops, uint64_t *ids, uint32_t n);

#endif
