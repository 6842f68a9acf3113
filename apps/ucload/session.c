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
    if (multi > 1)
        s->ids = calloc((size_t)places * multi, sizeof(s->ids[0]));
    if (s->ring && (s->ids || multi == 1))
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

void session_keep_ids(struct session *s, const uint64_t *ids, uint32_t n)
{
    U_ASSERT(n <= s->multi);
    memcpy(s->ids + (uint64_t)(s->tail & s->mask) * s->multi, ids, n * sizeof(ids[0]));
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
    const struct pending *p = session_youngest(s);
    uint32_t key = s->next_key < p->keys ? s->next_key : 0;
    uint64_t id = key == 0 ? p->id : s->ids[(uint64_t)((s->tail - 1) & s->mask) * s->multi + key];
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
    return form_write(forms, form, key == 0 ? p->word : load_key_word(id), value_bytes, s->tail - 1,
                      out);
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

uint32_t session_write_steps(struct session *s, uint8_t *out, uint32_t room)
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
