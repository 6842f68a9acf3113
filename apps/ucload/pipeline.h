/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The requests in flight on one connection: writes requests, in parts where the room is limited,
 * and checks every byte of the replies. Independent of the transport.
 *
 * Requests are answered in order. A pending request is stored as its key and the time when it was,
 * or should have been, sent. All memory is allocated by pipeline_open().
 */
#ifndef UCLOAD_PIPELINE_H
#define UCLOAD_PIPELINE_H

#include <stdbool.h>
#include <stdint.h>

#include "load/histogram.h"
#include "template.h"

#define PIPELINE_DEPTH_MAX 4096
#define PIPELINE_MULTI_MAX 1000
#define PIPELINE_ERROR_MAX 200

/* Requests that wait to follow a reply (struct followup); further ones are left out. */
#define PIPELINE_FOLLOWUPS_MAX 4096

/* The longest head of a reply: a line, or a binary header with extras and key. */
#define PIPELINE_HEAD_MAX 512

/* Counters of one thread; summed by tally_add(). */
struct tally {
    uint64_t requests; /* answered requests; a get of several keys is one */
    uint64_t ops[OP_COUNT];
    uint64_t hits; /* keys found */
    uint64_t misses;
    uint64_t exists;  /* cas of values that had changed since they were read */
    uint64_t refused; /* error replies: SERVER_ERROR, NOT_STORED, a binary status */
    uint64_t wrong;   /* wrong values, and replies that are not understood */
    uint64_t bytes_in;
    uint64_t bytes_out;
    uint64_t connects;   /* reopened connections */
    uint64_t unanswered; /* requests without a reply at the end of the run, or lost by UDP */
};

void tally_add(struct tally *to, const struct tally *from);

/* A request that follows from a reply: a set after a miss (--fill), a cas after its gets. */
struct followup {
    uint64_t id;
    uint64_t unique; /* OP_CAS: of the value that was read */
    enum op op;
};

/* State shared by the connections of one thread. */
struct thread_ctx {
    const struct templates *templates;
    const struct keyspace *keys;
    bool verify;             /* compare the bytes of values; everything else is always compared */
    uint64_t now_ns;         /* arrival time of the replies in this turn */
    uint64_t record_from_ns; /* requests sent earlier are verified, but not counted */
    uint64_t answered;       /* all answered requests */
    struct tally tally;
    struct load_histogram *latency; /* nanoseconds: one for each enum op */
    bool fill;                      /* missed gets of one key are followed by a set */
    bool grown;                     /* values may be repeated: the mix has append or prepend */
    uint64_t server_cycles;         /* last `cycles_busy` that the server reported */
    uint32_t followup_count;
    struct followup followups[PIPELINE_FOLLOWUPS_MAX];
    char error[PIPELINE_ERROR_MAX]; /* the first wrong or refused reply, or empty */
};

struct pending {
    uint64_t at_ns;
    uint64_t id;   /* of its first key */
    uint64_t word; /* load_key_word(id) */
    uint32_t keys;
    uint32_t op;
};

enum write_step { WRITE_IDLE = 0, WRITE_HEAD, WRITE_BODY, WRITE_TAIL };

enum reply_phase { REPLY_HEAD = 0, REPLY_VALUE, REPLY_SKIP, REPLY_TAIL };

struct pipeline {
    struct thread_ctx *ctx;
    struct pending *ring; /* capacity: a power of two; head and tail only increase */
    uint64_t *ids;        /* `multi` ids per entry of the ring; null if multi is 1 */
    uint32_t mask, multi;
    uint32_t head, tail;
    uint32_t depth;

    enum write_step step; /* of the newest request, which is being written */
    uint32_t next_key;
    const uint8_t *body;
    uint32_t body_left;
    uint64_t unique; /* OP_CAS: to be written */

    bool in_reply;          /* part of the oldest request's reply was received */
    enum reply_phase phase; /* of this reply */
    uint32_t reply_key;     /* keys of it that were answered or missed */
    uint32_t reply_hits;
    uint64_t reply_unique; /* OP_GETS: of the value */
    const uint8_t *expect; /* REPLY_VALUE: the expected bytes; null: any */
    uint32_t expect_bytes; /* after which they are repeated */
    uint32_t expect_at;
    uint32_t left; /* bytes left in this phase */
    bool value_wrong;
    bool changed;      /* REPLY_SKIP: the status is MC_BINARY_EXISTS, to a cas */
    uint32_t gathered; /* length of an incomplete head */
    uint8_t gather[PIPELINE_HEAD_MAX];
};

/* depth 1..PIPELINE_DEPTH_MAX, multi 1..PIPELINE_MULTI_MAX. Returns 0, or -1 without memory. */
int pipeline_open(struct pipeline *s, struct thread_ctx *ctx, uint32_t depth, uint32_t multi);

void pipeline_close(struct pipeline *s);

static inline uint32_t pipeline_in_flight(const struct pipeline *s)
{
    return s->tail - s->head;
}

/* Whether a request may start. */
static inline bool pipeline_is_free(const struct pipeline *s)
{
    return pipeline_in_flight(s) < s->depth && s->step == WRITE_IDLE;
}

/* Stores the keys of the request that pipeline_begin() starts, n > 1. */
void pipeline_store_ids(struct pipeline *s, const uint64_t *ids, uint32_t n);

/*
 * Starts a request for `n` keys (several only for OP_GET), whose latency counts from at_ns.
 * pipeline_is_free() must be true. Then pipeline_write() must be called until the step is
 * WRITE_IDLE.
 */
static inline void pipeline_begin(struct pipeline *s, enum op op, const uint64_t *ids, uint32_t n,
                                  uint64_t at_ns)
{
    struct pending *p = &s->ring[s->tail & s->mask];

    p->at_ns = at_ns;
    p->id = ids[0];
    p->word = load_key_word(ids[0]);
    p->keys = n;
    p->op = op;
    if (n > 1)
        pipeline_store_ids(s, ids, n);
    s->tail++;
    s->step = WRITE_HEAD;
    s->next_key = 0;
}

/* The minimum room for the next pipeline_write(); at most TEMPLATE_ROOM. */
uint32_t pipeline_room_min(const struct pipeline *s);

/* pipeline_write() for all kinds of requests. */
uint32_t pipeline_write_parts(struct pipeline *s, uint8_t *out, uint32_t room);

/* The newest request. */
static inline const struct pending *pipeline_newest(const struct pipeline *s)
{
    return &s->ring[(s->tail - 1) & s->mask];
}

/*
 * Writes a complete request for one key to `out`, which has templates.room bytes. Returns the
 * length.
 */
static inline uint32_t pipeline_write_whole(struct pipeline *s, enum op op, uint64_t id,
                                            uint64_t word, const struct template *template,
                                            uint8_t *out)
{
    uint32_t used = template_write_key(template, word, out);

    if (op == OP_SET)
        used += template_write_value(s->ctx->keys, id, out + used);
    s->ctx->tally.bytes_out += used;
    return used;
}

/*
 * Writes as much of the newest request as fits. Returns the length, 0 if the room is below
 * pipeline_room_min(). A request for one key with templates.whole is written at once.
 */
static inline uint32_t pipeline_write(struct pipeline *s, uint8_t *out, uint32_t room)
{
    const struct pending *p = pipeline_newest(s);
    const struct template *template = s->ctx->templates->whole[p->op];
    uint32_t used;

    if (!template || s->step != WRITE_HEAD || p->keys != 1 || room < s->ctx->templates->room)
        return pipeline_write_parts(s, out, room);
    used = pipeline_write_whole(s, (enum op)p->op, p->id, p->word, template, out);
    s->step = WRITE_IDLE;
    return used;
}

/* Starts a request for one key and writes it completely. */
static inline uint32_t pipeline_begin_whole(struct pipeline *s, enum op op, uint64_t id,
                                            const struct template *template, uint64_t at_ns,
                                            uint8_t *out)
{
    struct pending *p = &s->ring[s->tail & s->mask];
    uint64_t word = load_key_word(id);

    p->at_ns = at_ns;
    p->id = id;
    p->word = word;
    p->keys = 1;
    p->op = op;
    s->tail++;
    return pipeline_write_whole(s, op, id, word, template, out);
}

/*
 * Processes received bytes. Returns 0, or -1 if they are not a reply: the position in the stream is
 * unknown then, and ctx.error has a message. Wrong values and error replies are only counted.
 */
int pipeline_receive(struct pipeline *s, const uint8_t *data, uint32_t len);

/* ---- between session.c and reply.c ------------------------------------------------------- */

static inline const struct pending *pipeline_oldest(const struct pipeline *s)
{
    return &s->ring[s->head & s->mask];
}

static inline const uint64_t *pipeline_oldest_ids(const struct pipeline *s)
{
    if (pipeline_oldest(s)->keys == 1)
        return &pipeline_oldest(s)->id;
    return s->ids + (uint64_t)(s->head & s->mask) * s->multi;
}

/*
 * The run has ended with requests in flight: counts them as unanswered, and their waiting times
 * among the latencies.
 */
void pipeline_abandon(struct pipeline *s);

/* UDP has lost the oldest request or its reply: counts it so, and awaits the next reply. */
void pipeline_lose(struct pipeline *s);

/* Completes the oldest request, for `keys` keys of which `hits` were found. */
static inline void pipeline_complete(struct pipeline *s, enum op op, uint32_t keys, uint32_t hits)
{
    struct thread_ctx *ctx = s->ctx;
    uint64_t at_ns = pipeline_oldest(s)->at_ns;

    ctx->answered++;
    s->head++;
    if (at_ns < ctx->record_from_ns)
        return;
    ctx->tally.requests++;
    ctx->tally.ops[op]++;
    ctx->tally.hits += hits;
    ctx->tally.misses += keys - hits;
    load_histogram_count(&ctx->latency[op], ctx->now_ns - at_ns);
}

#endif
