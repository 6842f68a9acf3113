/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The protocol of one ucping connection, for any transport.
 *
 * The client sends a header of 16 bytes: "ucping1", a letter for the mode, and the number of bytes
 * that the server shall send (8 bytes, big-endian). Each direction then carries a fixed pattern,
 * of which the receiver compares every byte. In ping mode the server sends one byte for each
 * received one; in send mode it only receives; in receive mode it sends.
 */
#ifndef UCPING_EXCHANGE_H
#define UCPING_EXCHANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "load/histogram.h"

enum mode { MODE_PING = 0, MODE_SEND, MODE_RECEIVE, MODE_COUNT };

/* Their names; the first letter stands for the mode in the header. */
extern const char *const exchange_mode_names[MODE_COUNT];

#define EXCHANGE_HEADER_BYTES 16

/* Period of the pattern, and the longest slice. */
#define EXCHANGE_PATTERN_BYTES (256u * 1024)

/* The longest ping. */
#define EXCHANGE_PING_MAX 65536

/* The task of a client's connections and its results. */
struct ping_run {
    enum mode mode;
    uint32_t bytes;       /* of a ping */
    uint64_t count;       /* pings, or bytes of bulk, of each connection; 0: no bound */
    uint64_t end_ns;      /* no ping starts after this; 0: no bound */
    uint64_t now_ns;      /* set by the loop */
    uint64_t begun_ns;    /* when all connections were open; 0: not yet */
    uint64_t ended_ns;    /* when the last one was closed */
    uint64_t progress_ns; /* when a byte was sent or received last */
    uint64_t rounds;      /* completed pings */
    uint64_t moved;       /* bytes of bulk that have arrived */
    bool mismatch;        /* a received byte differs from the pattern */
    struct load_histogram latency;
};

struct exchange {
    struct ping_run *run; /* null: the server's side */
    uint8_t header[EXCHANGE_HEADER_BYTES];
    unsigned header_at; /* bytes of it that were sent or received */
    enum mode mode;
    uint64_t sent, taken; /* bytes of the pattern */
    uint64_t due;         /* bytes of the text that may be sent now; UINT64_MAX: any number */
    uint64_t begun_ns;    /* the ping in flight */
    uint64_t pings;
    bool done; /* nothing more will be sent: the sending side has to be closed */
};

/* To be called once, first. Returns 0, or -1 if there is no memory. */
int exchange_init(void);

/* `run` of a client; null for a server. */
void exchange_open(struct exchange *c, struct ping_run *run);

/*
 * The next bytes to send: returns a piece that stays valid and sets *len, or null if there is
 * nothing to send now.
 */
const uint8_t *exchange_next(struct exchange *c, uint32_t *len);

/* `len` bytes of that piece were queued. */
void exchange_sent(struct exchange *c, uint32_t len);

/* Handles received bytes. Returns 0, or -1 if they differ from the pattern. */
int exchange_received(struct exchange *c, const uint8_t *data, uint32_t len);

/*
 * The peer has closed its sending side. Returns 0, or -1 for a client whose task is not complete.
 */
int exchange_peer_closed(struct exchange *c);

#endif
