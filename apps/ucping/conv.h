/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is said on one connection of ucping, apart from any transport.
 *
 * The client begins with a header of 16 bytes: "ucping1", a letter for the mode, and in eight bytes
 * (big-endian) how much the server is to send. After it each direction carries a fixed text, so
 * both sides can hold every byte against what it has to be. In ping mode the server answers every
 * byte by one; in send mode it only takes; in receive mode it sends.
 */
#ifndef UCPING_CONV_H
#define UCPING_CONV_H

#include <stdbool.h>
#include <stdint.h>

#include "load/histogram.h"

enum mode { MODE_PING = 'p', MODE_SEND = 's', MODE_RECEIVE = 'r' };

#define CONV_HEADER_BYTES 16

/* The text repeats after so many bytes; slices of as many can begin anywhere in it. */
#define CONV_TEXT_BYTES (256u * 1024)

/* Of one message of ping mode. */
#define CONV_PING_MAX 65536

/* What all connections of a client do, and what came of it. */
struct game {
    enum mode mode;
    uint32_t bytes;    /* of a ping */
    uint64_t count;    /* pings, or bytes of bulk, of each connection; 0: no bound */
    uint64_t end_ns;   /* nothing is begun after this; 0: no bound */
    uint64_t now_ns;   /* set by the loop */
    uint64_t begun_ns; /* when all connections were open; 0: they never were */
    uint64_t over_ns;  /* when the last one was closed */
    uint64_t rounds;   /* pings answered */
    uint64_t moved;    /* bytes of bulk that have arrived */
    bool wrong;        /* a byte was not what it has to be */
    struct load_histogram latency;
};

struct conv {
    struct game *game; /* null: the server's side */
    uint8_t header[CONV_HEADER_BYTES];
    unsigned header_at; /* bytes of it that were sent or have come */
    enum mode mode;
    uint64_t sent, taken; /* bytes of the text */
    uint64_t due;         /* bytes of the text that may be sent now; UINT64_MAX: any number */
    uint64_t begun_ns;    /* the ping in flight */
    uint64_t pings;
    bool over; /* nothing more will be sent: the sending side is to be closed */
};

/* Once, before anything else. Returns 0, or -1 if there is no memory. */
int conv_start(void);

/* `game` of a client; null for a server. */
void conv_open(struct conv *c, struct game *game);

/*
 * What is to be sent next: returns a piece that never changes and sets *len, or null if there is
 * nothing now.
 */
const uint8_t *conv_next(struct conv *c, uint32_t *len);

/* So much of that piece was taken. */
void conv_sent(struct conv *c, uint32_t len);

/* Bytes have come. Returns 0, or -1 if they are not what they have to be. */
int conv_take(struct conv *c, const uint8_t *data, uint32_t len);

/* The peer sends no more. */
void conv_peer_done(struct conv *c);

#endif
