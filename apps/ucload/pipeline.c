/* SPDX-License-Identifier: BSD-3-Clause */
/* Writing requests; see pipeline.h. */
#include "pipeline.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"

#define TAIL_BYTES 2 /* the line end after a value */

void tally_add(struct tally *to, const struct tally *from)
{
    unsigned i;

    to->requests += from->requests;
    for (i = 0; i < OP_COUNT; i++)
        to->ops[i] += from->ops[i];
    to->hits += from->hits;
    to->misses += from->misses;
    to->exists += from->exists;
    to->refused += from->refused;
    to->wrong += from->wrong;
    to->bytes_in += from->bytes_in;
    to->bytes_out += from->bytes_out;
    to->connects += from->connects;
    to->unanswered += from->unanswered;
}

/* A request without a reply, which has waited until now. */
static void count_unanswered(struct thread_ctx *ctx, const struct pending *p)
{
    if (p->at_ns < ctx->record_from_ns || p->at_ns > ctx->now_ns)
        return;
    ctx->tally.unanswered++;
    load_histogram_count(&ctx->latency[p->op], ctx->now_ns - p->at_ns);
}

void pipeline_abandon(struct pipeline *s)
{
    for (uint32_t i = s->head; i != s->tail; i++)
        count_unanswered(s->ctx, &s->ring[i & s->mask]);
}

void pipeline_lose(struct pipeline *s)
{
    count_unanswered(s->ctx, pipeline_oldest(s));
    s->ctx->answered++;
    s->head++;
    s->in_reply = false;
    s->phase = REPLY_HEAD;
    s->gathered = 0;
    s->reply_key = 0;
    s->reply_hits = 0;
    s->value_wrong = false;
}

int pipeline_open(struct pipeline *s, struct thread_ctx *ctx, uint32_t depth, uint32_t multi)
{
    uint32_t places = 1;

    U_ASSERT(depth >= 1 && depth <= PIPELINE_DEPTH_MAX && multi >= 1 &&
             multi <= PIPELINE_MULTI_MAX);
    memset(s, 0, sizeof(*s));
    while (places < depth)
        places *= 2;
    s->ctx = ctx;
    s->depth = depth;
    s->mask = places - 1;
    s->multi = multi;
    s->ring = calloc(places, sizeof(s->ring[0]));
    if (multi > 1)
        s->ids = calloc((size_t)places * multi, sizeof(s->ids[0]));
    if (s->ring && (s->ids || multi == 1))
        return 0;
    pipeline_close(s);
    return -1;
}

void pipeline_close(struct pipeline *s)
{
    free(s->ring);
    free(s->ids);
    s->ring = NULL;
    s->ids = NULL;
}

void pipeline_store_ids(struct pipeline *s, const uint64_t *ids, uint32_t n)
{
    U_ASSERT(n <= s->multi);
    memcpy(s->ids + (uint64_t)(s->tail & s->mask) * s->multi, ids, n * sizeof(ids[0]));
}

static enum template_kind template_kind_of(const struct pending *p, uint32_t next_key)
{
    if (p->keys == 1)
        return (enum template_kind)p->op;
    if (next_key == p->keys)
        return TEMPLATE_MULTI_END;
    return next_key == 0 ? TEMPLATE_MULTI_FIRST : TEMPLATE_MULTI_NEXT;
}

/* Writes one template and sets the next step. */
static uint32_t write_head(struct pipeline *s, uint8_t *out)
{
    const struct templates *templates = s->ctx->templates;
    const struct pending *p = pipeline_newest(s);
    uint32_t key = s->next_key < p->keys ? s->next_key : 0;
    uint64_t id = key == 0 ? p->id : s->ids[(uint64_t)((s->tail - 1) & s->mask) * s->multi + key];
    const struct template *template =
        templates_get(templates, template_kind_of(p, s->next_key), id);
    uint32_t value_bytes = 0, len;

    if (op_carries_value((enum op)p->op)) {
        value_bytes = keyspace_value_bytes(s->ctx->keys, id);
        s->body = keyspace_value(s->ctx->keys, id);
        s->body_left = value_bytes;
        s->step = WRITE_BODY;
    } else if (p->keys == 1 || s->next_key == p->keys) {
        s->step = WRITE_IDLE;
    }
    s->next_key++;
    len = template_write(templates, template, key == 0 ? p->word : load_key_word(id), value_bytes,
                         s->tail - 1, out);
    return p->op == OP_CAS ? template_write_unique(templates, template, s->unique, len, out) : len;
}

/* Writes a part of the value. In text protocols a line end follows. */
static uint32_t write_body(struct pipeline *s, uint8_t *out, uint32_t room)
{
    uint32_t n = u_min32(s->body_left, room);

    memcpy(out, s->body, n);
    s->body += n;
    s->body_left -= n;
    if (s->body_left == 0)
        s->step = s->ctx->templates->protocol == PROTOCOL_BINARY ? WRITE_IDLE : WRITE_TAIL;
    return n;
}

uint32_t pipeline_room_min(const struct pipeline *s)
{
    if (s->step == WRITE_HEAD)
        return TEMPLATE_ROOM;
    return s->step == WRITE_TAIL ? TAIL_BYTES : 1;
}

uint32_t pipeline_write_parts(struct pipeline *s, uint8_t *out, uint32_t room)
{
    uint32_t used = 0;

    while (s->step != WRITE_IDLE && room - used >= pipeline_room_min(s)) {
        if (s->step == WRITE_HEAD) {
            used += write_head(s, out + used);
        } else if (s->step == WRITE_BODY) {
            used += write_body(s, out + used, room - used);
        } else {
            memcpy(out + used, "\r\n", TAIL_BYTES);
            used += TAIL_BYTES;
            s->step = WRITE_IDLE;
        }
    }
    s->ctx->tally.bytes_out += used;
    return used;
}
