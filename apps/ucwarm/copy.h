/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copying items from servers to servers, a batch at a time: keys from a dump of the source, values
 * by mg, to the targets by ms. Memory is bounded by PEER_BATCH_MAX keys and COPY_BATCH_BYTES of
 * values, or one longer value.
 */
#ifndef UCWARM_COPY_H
#define UCWARM_COPY_H

#include "dump.h"
#include "load/ketama.h"
#include "options.h"
#include "pace.h"
#include "state.h"

#define COPY_BATCH_BYTES (4u * 1024 * 1024)
#define COPY_ERROR_MAX STATE_ERROR_MAX

struct tally {
    uint64_t scanned;   /* keys that the dumps named, */
    uint64_t staying;   /* of these: keys whose target is their source */
    uint64_t misplaced; /* keys that clients look for on another source */
    uint64_t gone;      /* expired, deleted, evicted or invalidated meanwhile */
    uint64_t too_large; /* longer than PEER_VALUE_MAX */
    uint64_t present;   /* keys that the target had already */
    uint64_t refused;   /* by a server, with an error */
    uint64_t copied;
    uint64_t bytes;                     /* of the values copied */
    uint64_t equal, missing, different; /* found by --verify */
};

struct item {
    uint8_t key[MC_KEY_MAX];
    uint32_t key_len;
    uint16_t target;
    bool continued; /* an earlier run may have copied it */
    bool wanted;    /* its value is to be read */
    uint32_t value_bytes;
    /* Of the source, for --verify. */
    bool has_value;
    size_t value_at; /* in copy.values */
    uint32_t flags;
    int64_t ttl_s;
};

struct copy {
    const struct options *options;
    const atomic_bool *stop;
    struct peer_stack *stack; /* null: kernel sockets */
    struct peer sources[OPTIONS_SERVERS_MAX];
    struct peer targets[OPTIONS_SERVERS_MAX];
    struct load_ketama from, to; /* the rings */
    struct state state;
    uint64_t continued[STATE_SOURCES_MAX]; /* keys that an earlier run has handled */
    uint64_t saved_ns;
    bool state_failed;
    struct pace pace;
    struct progress progress;
    struct item items[PEER_BATCH_MAX];
    unsigned item_count;
    struct buffer values;
    struct tally tally;
    char refusal[PEER_ERROR_MAX]; /* the first one */
    char error[COPY_ERROR_MAX];
};

/* Connects to all servers and reads the state. Returns 0, or -1 with a message in copy->error. */
int copy_open(struct copy *copy, const struct options *options, const atomic_bool *stop);
void copy_close(struct copy *copy);

/* Copies until the end or *stop. Returns 0, or -1 with a message. The state is saved either way. */
int copy_run(struct copy *copy);

/* Compares until the end or *stop. Returns 0, or -1 with a message. */
int copy_verify(struct copy *copy);

/* ---- what both do (batch.c) -------------------------------------------------------------- */

/*
 * Takes the next keys of a source's dump that the copy is about. Returns 1, 0 if the dump has ended
 * and none is left, or -1 with a message.
 */
int batch_fill(struct copy *copy, unsigned source, struct dump *dump);

/* Queues mg for an item; `flags` as in " v f t". Returns 0, or -1 with a message. */
int batch_ask(struct copy *copy, struct peer *peer, uint16_t tag, const char *flags);

/* Queues ms for an item with its value. Returns 0, or -1 with a message. */
int batch_store(struct copy *copy, uint16_t tag, const struct reply *reply, const uint8_t *value);

/* Counts an error of a server. Returns 0, or -1 with a message if no copy is possible. */
int batch_refused(struct copy *copy, struct peer *peer, const struct reply *reply);

/* Sets the message of a peer, or none. Returns -1. */
int batch_failed(struct copy *copy, const struct peer *peer);

#endif
