/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bytes of one ucping connection: its exchange, in the clear or in TLS. A transport sends what
 * stream_next() gives and passes on what it receives.
 */
#ifndef UCPING_STREAM_H
#define UCPING_STREAM_H

#include "exchange.h"
#include "security.h"

/*
 * Ciphertext of a connection that its transport has not sent yet: a record of data, and handshake
 * messages and alerts. A peer that makes more of these than it reads is disconnected.
 */
#define STREAM_OUT_MAX (256u * 1024)

struct stream {
    struct exchange exchange;
    struct security *security; /* null: in the clear */
    struct tls_session *tls;   /* null: in the clear */
    uint8_t *out;              /* out_len bytes of ciphertext from out_at on; owned */
    uint32_t out_at, out_len, out_room;
    uint64_t begun_ns;  /* the handshake */
    bool open;          /* data may be exchanged: without TLS from the beginning */
    bool ended;         /* close_notify was made */
    bool peer_ended;    /* the peer's has come */
    const char *failed; /* the reason; null: it has not */
};

/*
 * Begins the connection of a client with `run`, or that of a server with null. `security` is null
 * for one in the clear. Returns 0, or -1 if there is no memory.
 */
int stream_open(struct stream *c, struct security *security, struct ping_run *run);

/* Frees what it has. */
void stream_close(struct stream *c);

/*
 * The next bytes to send: returns a piece that stays valid until the next call for this stream and
 * sets *len, or null if there is nothing to send now. A client sends no data before the run has
 * begun. It may fail: see c->failed.
 */
const uint8_t *stream_next(struct stream *c, uint32_t *len);

/* `len` bytes of that piece were queued. */
void stream_sent(struct stream *c, uint32_t len);

/* Handles received bytes. Returns 0, or -1: failed. An alert may have to be sent then. */
int stream_received(struct stream *c, const uint8_t *data, uint32_t len);

/*
 * The peer has closed its sending side. Returns 0, or -1: failed, as it is too early: a client has
 * more to exchange, or TLS was not ended.
 */
int stream_peer_closed(struct stream *c);

/* The connection is lost; `reason` stays valid. Returns -1. */
int stream_fail(struct stream *c, const char *reason);

/* Whether everything was sent: the sending side has to be closed when stream_next() gives null. */
static inline bool stream_is_done(const struct stream *c)
{
    return c->exchange.done && (!c->tls || c->ended);
}

#endif
