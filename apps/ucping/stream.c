/* SPDX-License-Identifier: BSD-3-Clause */
/* A connection of ucping; see stream.h. */
#include "stream.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "ping.h"

static const char wrong_byte[] = "a wrong byte has come";
static const char early_end[] = "the server has closed it";

int stream_fail(struct stream *c, const char *reason)
{
    if (!c->failed)
        c->failed = reason;
    return -1;
}

static int fail_tls(struct stream *c)
{
    c->security->failures++;
    return stream_fail(c, tls_session_error(c->tls));
}

/* ---- ciphertext to send ------------------------------------------------------------------ */

/* Makes room for `len` bytes behind those that wait. Returns 0 or -1. */
static int make_room(struct stream *c, uint32_t len)
{
    uint32_t room = c->out_room > 0 ? c->out_room : 512;
    uint8_t *out;

    if (len > STREAM_OUT_MAX - c->out_len)
        return -1;
    if (c->out_at > 0)
        memmove(c->out, c->out + c->out_at, c->out_len);
    c->out_at = 0;
    while (room < c->out_len + len)
        room *= 2;
    if (room == c->out_room)
        return 0;
    out = realloc(c->out, room);
    if (!out)
        return -1;
    c->out = out;
    c->out_room = room;
    return 0;
}

/* A tls_emit. */
static bool emit(void *ctx, const uint8_t *data, uint32_t len)
{
    struct stream *c = ctx;

    if (make_room(c, len) < 0)
        return false;
    memcpy(c->out + c->out_len, data, len);
    c->out_len += len;
    return true;
}

/* ---- opening and closing ----------------------------------------------------------------- */

/* Connections of a client wait for each other. */
static bool has_begun(const struct stream *c)
{
    return !c->exchange.run || c->exchange.run->begun_ns > 0;
}

static int begin_tls(struct stream *c)
{
    struct security *security = c->security;

    c->begun_ns = ucping_clock_ns();
    c->tls = tls_session_open(security->context, security_keys(security), TLS_PEER_AS_CONFIGURED,
                              emit, c);
    if (!c->tls)
        return -1;
    if (!c->exchange.run)
        return 0;
    if (security->earlier)
        tls_session_resume(c->tls, security->earlier);
    return tls_session_start(c->tls);
}

int stream_open(struct stream *c, struct security *security, struct ping_run *run)
{
    memset(c, 0, sizeof(*c));
    c->security = security;
    c->open = !security;
    exchange_open(&c->exchange, run);
    if (!security || begin_tls(c) == 0)
        return 0;
    stream_close(c);
    return -1;
}

void stream_close(struct stream *c)
{
    if (c->tls)
        security_release(c->security, c->tls);
    free(c->out);
    c->tls = NULL;
    c->out = NULL;
    c->out_len = c->out_room = 0;
}

/* ---- sending ----------------------------------------------------------------------------- */

/* Makes the next record: of data, or at their end close_notify. */
static void make_record(struct stream *c)
{
    const uint8_t *data;
    uint32_t len;

    data = exchange_next(&c->exchange, &len);
    if (data) {
        len = u_min32(len, TLS_RECORD_MAX);
        if (tls_session_write(c->tls, data, len) < 0)
            (void)fail_tls(c);
        else
            exchange_sent(&c->exchange, len);
    } else if (c->exchange.done) {
        c->ended = true;
        tls_session_shutdown(c->tls);
    }
}

const uint8_t *stream_next(struct stream *c, uint32_t *len)
{
    if (!c->tls)
        return has_begun(c) ? exchange_next(&c->exchange, len) : NULL;
    if (c->out_len == 0 && !c->failed && c->open && !c->ended && has_begun(c))
        make_record(c);
    *len = c->out_len;
    return c->out_len > 0 ? c->out + c->out_at : NULL;
}

/* The peer is there. */
static void note_progress(struct stream *c)
{
    if (c->exchange.run)
        c->exchange.run->progress_ns = c->exchange.run->now_ns;
}

void stream_sent(struct stream *c, uint32_t len)
{
    if (len > 0)
        note_progress(c);
    if (!c->tls) {
        exchange_sent(&c->exchange, len);
        return;
    }
    c->out_at += len;
    c->out_len -= len;
}

/* ---- receiving --------------------------------------------------------------------------- */

static int take_data(struct stream *c, const uint8_t *data, uint32_t len)
{
    return exchange_received(&c->exchange, data, len) < 0 ? stream_fail(c, wrong_byte) : 0;
}

static int take_end(struct stream *c)
{
    bool unsent = c->tls && c->exchange.mode != MODE_RECEIVE && !c->ended;

    if (exchange_peer_closed(&c->exchange) == 0 && !(c->exchange.run && unsent))
        return 0;
    return stream_fail(c, early_end);
}

static void finish_handshake(struct stream *c)
{
    c->open = true;
    security_count(c->security, c->tls, ucping_clock_ns() - c->begun_ns);
}

static int take_records(struct stream *c, const uint8_t *data, uint32_t len)
{
    uint8_t *plain = c->security->plain;
    enum tls_result result;
    uint32_t used, plain_len;

    for (; len > 0 && !c->peer_ended; data += used, len -= used) {
        result = tls_session_read(c->tls, data, len, &used, plain, &plain_len);
        if (result == TLS_FAILED)
            return fail_tls(c);
        if (!c->open && tls_session_is_established(c->tls))
            finish_handshake(c);
        if (result == TLS_DATA && take_data(c, plain, plain_len) < 0)
            return -1;
        c->peer_ended = result == TLS_CLOSED;
    }
    return c->peer_ended ? take_end(c) : 0;
}

int stream_received(struct stream *c, const uint8_t *data, uint32_t len)
{
    note_progress(c);
    return c->tls ? take_records(c, data, len) : take_data(c, data, len);
}

int stream_peer_closed(struct stream *c)
{
    if (!c->tls)
        return take_end(c);
    return c->peer_ended ? 0 : stream_fail(c, "it was closed without the end of TLS");
}
