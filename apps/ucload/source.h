/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which request is next: drawn from a mix of operations and the popularity of keys, or each key
 * once, to store its value before the measurement. Seeded; of one thread.
 */
#ifndef UCLOAD_SOURCE_H
#define UCLOAD_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "load/popularity.h"
#include "session.h"

/* Shares of the operations, added up, of 2^32. */
struct mix {
    uint64_t upto[OP_COUNT];
    bool single; /* all are alike, of `only` */
    enum op only;
    uint32_t multi; /* keys per retrieval */
};

/*
 * Reads "get:90,set:10": operations with weights. Returns 0, or -1 with a message.
 */
int mix_parse(struct mix *mix, const char *text, char error[LOAD_ERROR_MAX]);

/* Whether the mix has any of these. */
bool mix_has(const struct mix *mix, enum op op);

struct source {
    const struct mix *mix;
    const struct load_popularity *popularity;
    const struct replay *replay; /* instead of both, or null */
    uint64_t replay_at;
    uint32_t replay_step;
    bool replay_again; /* from the beginning when it ends */
    uint64_t count;    /* of keys; counters have the ids from here on */
    struct u_prng prng;
    bool storing; /* next..end instead of the mix */
    bool asking;  /* as many times as from next to end, instead of the mix */
    uint64_t next, end;
};

/* Before anything else. What it is given has to stay. */
void source_init(struct source *source, const struct mix *mix,
                 const struct load_popularity *popularity, uint64_t count);

/* Every `step`th request of a trace, from `first` on; once, or again and again. */
void source_replay(struct source *source, const struct replay *replay, uint32_t first,
                   uint32_t step, bool again);

/* Requests of the mix, or of the trace from where it was. */
void source_mix(struct source *source, uint64_t seed);

/* Each id from `from` to below `to` is stored once. */
void source_store(struct source *source, uint64_t from, uint64_t to);

/* One question for the server's statistics, or none. */
void source_ask(struct source *source, bool once);

/*
 * The next request: its operation and ids[0..mix.multi). Returns how many keys it is for, or 0 if
 * all are stored or the trace has ended.
 */
uint32_t source_next(struct source *source, enum op *op, uint64_t *ids);

/* The next n requests of a mix whose retrievals are of one key: ops[i] for the key ids[i]. */
void source_next_many(struct source *source, enum op *ops, uint64_t *ids, uint32_t n);

#endif
