/* SPDX-License-Identifier: BSD-3-Clause */
/* Writing requests; see session.h. */
#include "session.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"

#define TAIL_BYTES 2 /* the line end behind a value */

void tally_add(struct tally *to, const struct tally *from)
{
    unsigned i;

    to->requests += from->requests;
    for (i = 0; i < OP_COUNT; i++)
        to->ops[i] += from->ops[i];
    to->hits += from->hits;
    to->misses += from->misses;
    to->refused += from->refused;
    to->wrong += from->wrong;
    to->bytes_in += from->bytes_in;
    to->bytes_out += from->bytes_out;
    to->connects += from->connects;
}

int session_open(struct session *s, struct talk *talk, uint32_t depth, uint32_t multi)
{
    uint32_t places = 1;

    U_ASSERT(depth >= 1 && depth <= SESSION_DEPTH_MAX && multi >= 1 && multi <= SESSION_MULTI_MAX);
    memset(s, 0, sizeof(*s));
    while (places < depth)
        places *= 2;
    s->talk = talk;
    s->depth = depth;
    s->mask = places - 1;
    s->multi = multi;
    s->ring = calloc(places, sizeof(s->ring[0]));
    s->ids = calloc((size_t)places * multi, sizeof(s->ids[0]));
    if (s->ring && s->ids)
        return 0;
    session_close(s);
    return -1;
}

void session_close(struct session *s)
{
    free(s->ring);
    free(s->ids);
    s->ring = NULL;
    s->ids = NULL;
}

void session_begin(struct session *s, enum op op, const uint64_t *ids, uint32_t n, uint64_t at_ns)
{
    struct pending *p = &s->ring[s->tail & s->mask];
    uint64_t *kept = s->ids + (uint64_t)(s->tail & s->mask) * s->multi;
    uint32_t i;

    U_ASSERT(session_is_free(s) && n >= 1 && n <= s->multi);
    p->at_ns = at_ns;
    p->keys = n;
    p->op = (uint8_t)op;
    kept[0] = ids[0]; /* the only one nearly always */
    for (i = 1; i < n; i++)
        kept[i] = ids[i];
    s->tail++;
    s->step = SESSION_HEAD;
    s->next_key = 0;
}

static enum form_kind form_of(const struct pending *p, uint32_t next_key)
{
    if (p->keys == 1)
        return (enum form_kind)p->op;
    if (next_key == p->keys)
        return FORM_MULTI_END;
    return next_key == 0 ? FORM_MULTI_FIRST : FORM_MULTI_NEXT;
}

/* One form, and what the next step is. */
static uint32_t write_head(struct session *s, uint8_t *out)
{
    const struct forms *forms = s->talk->forms;
    const struct pending *p = &s->ring[(s->tail - 1) & s->mask];
    uint32_t key = s->next_key < p->keys ? s->next_key : 0;
    uint64_t id = s->ids[(uint64_t)((s->tail - 1) & s->mask) * s->multi + key];
    const struct form *form = forms_of(forms, form_of(p, s->next_key), id);
    uint32_t value_bytes = 0;

    if (p->op == OP_SET) {
        value_bytes = keyspace_value_bytes(s->talk->keys, id);
        s->body = keyspace_value(s->talk->keys, id);
        s->body_left = value_bytes;
        s->step = SESSION_BODY;
    } else if (p->keys == 1 || s->next_key == p->keys) {
        s->step = SESSION_IDLE;
    }
    s->next_key++;
    return form_write(forms, form, id, value_bytes, s->tail - 1, out);
}

/* A piece of the value; behind it the line end, if the protocol has one. */
static uint32_t write_body(struct session *s, uint8_t *out, uint32_t room)
{
    uint32_t n = u_min32(s->body_left, room);

    memcpy(out, s->body, n);
    s->body += n;
    s->body_left -= n;
    if (s->body_left == 0)
        s->step = s->talk->forms->protocol == PROTOCOL_BINARY ? SESSION_IDLE : SESSION_TAIL;
    return n;
}

uint32_t session_want(const struct session *s)
{
    if (s->step == SESSION_HEAD)
        return FORM_ROOM;
    return s->step == SESSION_TAIL ? TAIL_BYTES : 1;
}

/* Step by step, as far as there is room. */
static __attribute__((noinline)) uint32_t write_steps(struct session *s, uint8_t *out,
                                                      uint32_t room)
{
    uint32_t used = 0;

    while (s->step != SESSION_IDLE && room - used >= session_want(s)) {
        if (s->step == SESSION_HEAD) {
            used += write_head(s, out + used);
        } else if (s->step == SESSION_BODY) {
            used += write_body(s, out + used, room - used);
        } else {
            memcpy(out + used, "\r\n", TAIL_BYTES);
            used += TAIL_BYTES;
            s->step = SESSION_IDLE;
        }
    }
    s->talk->tally.bytes_out += used;
    return used;
}

/* The usual request is for one key and ends with its form. */
uint32_t session_write(struct session *s, uint8_t *out, uint32_t room)
{
    uint32_t place = (s->tail - 1) & s->mask;
    const struct pending *p = &s->ring[place];
    const struct form *form;
    uint64_t id;
    uint32_t used;

    if (s->step != SESSION_HEAD || p->keys != 1 || p->op == OP_SET || room < FORM_ROOM)
        return write_steps(s, out, room);
    id = s->ids[(uint64_t)place * s->multi];
    form = forms_of(s->talk->forms, (enum form_kind)p->op, id);
    if (!form->plain)
        return write_steps(s, out, room);
    used = form_write_plain(form, id, out);
    s->step = SESSION_IDLE;
    s->talk->tally.bytes_out += used;
    return used;
}
