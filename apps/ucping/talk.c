/* SPDX-License-Identifier: BSD-3-Clause */
/* The application of ucping over the own stack; see stack.h. */
#include "base/base.h"
#include "stack.h"

void talk_pump(struct loop *l, struct line *line)
{
    const uint8_t *data;
    uint32_t len, n;
    bool by_reference;

    if (!line->open || line->closing)
        return;
    while ((data = conv_next(&line->conv, &len))) {
        by_reference = !l->s->copy && line->conv.mode != MODE_PING && len >= STACK_REF_BYTES;
        n = l->words->send(l, line, data, len, by_reference);
        conv_sent(&line->conv, n);
        if (n == 0)
            return; /* US_EV_SENDABLE will come */
    }
    if (!line->conv.over)
        return;
    line->closing = true;
    if (l->game && line->conv.mode == MODE_RECEIVE)
        l->words->abort(l, line); /* there is no end to what comes */
    else
        l->words->close(l, line);
}

static void fail_line(struct loop *l, struct line *line, const char *why)
{
    if (l->game && !l->failed) {
        l->failed = true;
        ucping_fail(l->s, "%s: %s", l->s->peer, why);
    }
    if (line->open && !line->closing) {
        line->closing = true;
        l->words->abort(l, line);
    }
}

void talk_open(struct loop *l, struct line *line)
{
    conv_open(&line->conv, l->game);
    u_list_init(&line->waiting);
    line->on_the_way = 0;
    line->closing = false;
    line->open = true;
    l->open++;
}

static void take_data(struct loop *l, struct line *line, const struct us_event *event)
{
    if (line->closing)
        return;
    if (conv_take(&line->conv, event->data, event->len) < 0)
        fail_line(l, line, "a wrong byte has come");
    talk_pump(l, line);
}

static void take_closed(struct loop *l, struct line *line, enum us_close_reason reason)
{
    bool in_order = reason == US_CLOSE_NORMAL || (line->closing && line->conv.over);

    line->open = false;
    l->open--;
    if (!in_order)
        fail_line(l, line, us_close_reason_name(reason));
}

void talk_event(struct loop *l, struct line *line, const struct us_event *event)
{
    switch (event->type) {
    case US_EV_ACCEPTED:
        talk_open(l, line);
        break;
    case US_EV_CONNECTED:
        l->connected++;
        break;
    case US_EV_DATA:
        take_data(l, line, event);
        break;
    case US_EV_SENDABLE:
        talk_pump(l, line);
        break;
    case US_EV_PEER_CLOSED:
        conv_peer_done(&line->conv);
        talk_pump(l, line);
        break;
    case US_EV_CLOSED:
        take_closed(l, line, event->reason);
        break;
    case US_EV_NONE:
    case US_EV_RELEASED:
    case US_EV_DATAGRAM:
        break;
    }
}

void talk_begin(struct loop *l)
{
    unsigned i;

    ucping_begin(l->s, l->game);
    for (i = 0; i < l->s->connections; i++) {
        l->lines[i].conv.begun_ns = l->game->begun_ns;
        talk_pump(l, &l->lines[i]);
    }
}
