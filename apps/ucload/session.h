/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One connection's conversation: requests are begun and written in pieces wherever there is room,
 * and every byte of the replies is held against what it has to be. Knows no transport.
 *
 * Requests are answered in their order. What is remembered of one is its key and when it was, or
 * should have been, sent; all memory is taken when the session is opened.
 */
#ifndef UCLOAD_SESSION_H
#define UCLOAD_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "form.h"
#include "load/histogram.h"

#define SESSION_DEPTH_MAX 4096
#define SESSION_MULTI_MAX 1000
#define SESSION_ERROR_MAX 200

/* Keys that wait to be stored; beyond that, misses are only counted. */
#define SESSION_MISSED_MAX 4096

/* The longest head of a reply: a line, or a binary header with extras and key. */
#define SESSION_HEAD_MAX 512

/* What was asked and answered. Of one thread; added up by tally_add(). */
struct tally {
    uint64_t requests; /* answered; a retrieval of several keys is one */
    uint64_t ops[OP_COUNT];
    uint64_t hits; /* keys that were there */
    uint64_t misses;
    uint64_t refused; /* replies that say so: SERVER_ERROR, NOT_STORED, a binary status */
    uint64_t wrong;   /* values that are not those of their keys, or not a reply at all */
    uint64_t bytes_in;
    uint64_t bytes_out;
    uint64_t connects; /* connections opened again */
};

void tally_add(struct tally *to, const struct tally *from);

/* What the sessions of one thread share. */
struct talk {
    const struct forms *forms;
    const struct keyspace *keys;
    bool verify;             /* the bytes of values too; their length and all else always */
    uint64_t now_ns;         /* of this loop: when replies count as arrived */
    uint64_t record_from_ns; /* requests from before then are not counted, but verified */
    uint64_t answered;       /* all requests so far */
    struct tally tally;
    struct load_histogram *latency; /* nanoseconds */
    bool fill;                      /* gets of one key that miss are remembered: */
    uint64_t server_cycles;         /* what the server has last said: of its busy loops */
    uint32_t missed_count;
    uint64_t missed[SESSION_MISSED_MAX];
    char error[SESSION_ERROR_MAX]; /* the first thing that was refused or wrong; or empty */
};

struct pending {
    uint64_t at_ns;
    uint64_t id;   /* of its key, or of the first one */
    uint64_t word; /* load_key_word() of it */
    uint32_t keys;
    uint32_t op;
};

enum session_step { SESSION_IDLE = 0, SESSION_HEAD, SESSION_BODY, SESSION_TAIL };

enum reply_phase { REPLY_HEAD = 0, REPLY_VALUE, REPLY_SKIP, REPLY_TAIL };

struct session {
    struct talk *talk;
    struct pending *ring; /* of a power of two; head and tail count on */
    uint64_t *ids;        /* `multi` of them for each place in the ring; null if that is one */
    uint32_t mask, multi;
    uint32_t head, tail;
    uint32_t depth;

    enum session_step step; /* of the request that is being written: the youngest one */
    uint32_t next_key;
    const uint8_t *body;
    uint32_t body_left;

    bool amid;              /* something of the oldest one's reply has come */
    enum reply_phase phase; /* of it */
    uint32_t reply_key;     /* keys of it that were answered or passed over */
    uint32_t reply_hits;
    const uint8_t *expect; /* REPLY_VALUE: what comes; null: anything */
    uint32_t left;         /* of this phase */
    bool value_wrong;
    uint32_t gathered; /* bytes of an incomplete head */
    uint8_t gather[SESSION_HEAD_MAX];
};

/* Returns 0, or -1 if there is no memory. depth 1..SESSION_DEPTH_MAX, multi 1..SESSION_MULTI_MAX */
int session_open(struct session *s, struct talk *talk, uint32_t depth, uint32_t multi);

void session_close(struct session *s);

static inline uint32_t session_in_flight(const struct session *s)
{
    return s->tail - s->head;
}

/* Whether a request may be begun. */
static inline bool session_is_free(const struct session *s)
{
    return session_in_flight(s) < s->depth && s->step == SESSION_IDLE;
}

/* Remembers the keys of the request that session_begin() is for, which are more than one. */
void session_keep_ids(struct session *s, const uint64_t *ids, uint32_t n);

/*
 * Begins a request for `n` keys (1; more for OP_GET) that counts from at_ns on. The session is
 * free. Then session_write() until the step is SESSION_IDLE again.
 */
static inline void session_begin(struct session *s, enum op op, const uint64_t *ids, uint32_t n,
                                 uint64_t at_ns)
{
    struct pending *p = &s->ring[s->tail & s->mask];

    p->at_ns = at_ns;
    p->id = ids[0];
    p->word = load_key_word(ids[0]);
    p->keys = n;
    p->op = op;
    if (n > 1)
        session_keep_ids(s, ids, n);
    s->tail++;
    s->step = SESSION_HEAD;
    s->next_key = 0;
}

/* How many bytes of room the next session_write() wants at least; FORM_ROOM at most. */
uint32_t session_want(const struct session *s);

/* session_write() of requests of all kinds. */
uint32_t session_write_steps(struct session *s, uint8_t *out, uint32_t room);

/* The request that is being written. */
static inline const struct pending *session_youngest(const struct session *s)
{
    return &s->ring[(s->tail - 1) & s->mask];
}

/*
 * Writes all of a request for one key that has this form (forms.only), to `out`, which has
 * forms.room bytes. Returns the length.
 */
static inline uint32_t session_put(struct session *s, enum op op, uint64_t id, uint64_t word,
                                   const struct form *form, uint8_t *out)
{
    uint32_t used = form_write_plain(form, word, out);

    if (op == OP_SET)
        used += form_write_value(s->talk->keys, id, out + used);
    s->talk->tally.bytes_out += used;
    return used;
}

/*
 * Writes as much of the request as fits. Returns how much; 0 if less is there than it wants. The
 * usual request is for one key and written at once.
 */
static inline uint32_t session_write(struct session *s, uint8_t *out, uint32_t room)
{
    const struct pending *p = session_youngest(s);
    const struct form *form = s->talk->forms->only[p->op];
    uint32_t used;

    if (!form || s->step != SESSION_HEAD || p->keys != 1 || room < s->talk->forms->room)
        return session_write_steps(s, out, room);
    used = session_put(s, (enum op)p->op, p->id, p->word, form, out);
    s->step = SESSION_IDLE;
    return used;
}

/* session_begin() and session_put() at once. */
static inline uint32_t session_ask(struct session *s, enum op op, uint64_t id,
                                   const struct form *form, uint64_t at_ns, uint8_t *out)
{
    struct pending *p = &s->ring[s->tail & s->mask];
    uint64_t word = load_key_word(id);

    p->at_ns = at_ns;
    p->id = id;
    p->word = word;
    p->keys = 1;
    p->op = op;
    s->tail++;
    return session_put(s, op, id, word, form, out);
}

/*
 * Takes bytes of replies. Returns 0, or -1 if they are no reply to what was asked: nothing more can
 * be understood then, and talk.error says why. A wrong value and a refusal are only counted.
 */
int session_feed(struct session *s, const uint8_t *data, uint32_t len);

/* ---- between session.c and reply.c ------------------------------------------------------- */

static inline const struct pending *session_oldest(const struct session *s)
{
    return &s->ring[s->head & s->mask];
}

static inline const uint64_t *session_oldest_ids(const struct session *s)
{
    if (session_oldest(s)->keys == 1)
        return &session_oldest(s)->id;
    return s->ids + (uint64_t)(s->head & s->mask) * s->multi;
}

/* The oldest request, for `keys` keys, is answered; hits of these were there. */
static inline void session_count(struct session *s, enum op op, uint32_t keys, uint32_t hits)
{
    struct talk *talk = s->talk;
    uint64_t at_ns = session_oldest(s)->at_ns;

    talk->answered++;
    s->head++;
    if (at_ns < talk->record_from_ns)
        return;
    talk->tally.requests++;
    talk->tally.ops[op]++;
    talk->tally.hits += hits;
    talk->tally.misses += keys - hits;
    load_histogram_count(talk->latency, talk->now_ns - at_ns);
}

#endif
