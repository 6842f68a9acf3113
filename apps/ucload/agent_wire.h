/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The protocol between a coordinator (--agents) and its agents (--agent), over TCP.
 *
 * Both send frames: the length of the payload in four bytes, a kind in one byte, and the payload.
 * Numbers are big-endian. After a WIRE_HELLO from each side the coordinator sends one request at a
 * time; WIRE_TICKs and one WIRE_DONE or WIRE_FAILED answer it. A side that closes the connection
 * ends the run.
 */
#ifndef UCLOAD_AGENT_WIRE_H
#define UCLOAD_AGENT_WIRE_H

#include <stddef.h>

#include "result.h"

#define WIRE_VERSION 1

/* The longest payload of a request, and of an answer: a result. */
#define WIRE_REQUEST_MAX 65536u
#define WIRE_ANSWER_MAX (8u * 1024 * 1024)

#define WIRE_HEAD_BYTES 5

/* Words of a command line. */
#define WIRE_WORDS_MAX 256

#define WIRE_TEXT_MAX 512

enum wire_kind {
    WIRE_HELLO = 1, /* a magic number and the version, both ways */
    WIRE_OPEN,      /* struct wire_open: open all connections */
    WIRE_STORE,     /* store this agent's share of the keys */
    WIRE_MEASURE,   /* struct wire_measure: run a measurement */
    WIRE_STOP,      /* end the measurement now; its answer follows */
    WIRE_TICK,      /* requests answered so far, once per second of a phase */
    WIRE_DONE,      /* the result; of WIRE_OPEN without payload */
    WIRE_FAILED,    /* a byte: 1 for a wrong option, and a text; the agent closes the connection */
    WIRE_BUSY       /* instead of WIRE_HELLO: the agent has another coordinator */
};

/* The command line of the coordinator, and what this agent has of it. */
struct wire_open {
    uint32_t index, agents;
    uint32_t connections, idle;
    int argc;
    char *argv[WIRE_WORDS_MAX + 1]; /* ends with null; the words lie in the payload */
};

struct wire_measure {
    double rate; /* of this agent; 0: closed loop */
    double seconds, warmup_s;
    uint64_t requests;
    uint64_t salt;
};

/*
 * The functions that make a payload return its length; `out` has the room that each says. Those
 * that read one return 0, or -1 if it is not one: every byte is checked.
 */

/* A frame's head, WIRE_HEAD_BYTES. */
void wire_put_head(uint8_t *out, enum wire_kind kind, uint32_t len);

/* The length and kind that a head announces; -1: longer than max, or not a kind. */
int wire_get_head(const uint8_t *head, uint32_t max, enum wire_kind *kind, uint32_t *len);

#define WIRE_HELLO_BYTES 12
uint32_t wire_put_hello(uint8_t *out);
int wire_get_hello(const uint8_t *data, uint32_t len, uint32_t *version);

/* WIRE_REQUEST_MAX; 0: the command line is too long. */
uint32_t wire_put_open(uint8_t *out, const struct wire_open *open);

/* argv[] points into data[]. */
int wire_get_open(uint8_t *data, uint32_t len, struct wire_open *open);

#define WIRE_MEASURE_BYTES 40
uint32_t wire_put_measure(uint8_t *out, const struct wire_measure *measure);
int wire_get_measure(const uint8_t *data, uint32_t len, struct wire_measure *measure);

#define WIRE_TICK_BYTES 8
uint32_t wire_put_tick(uint8_t *out, uint64_t answered);
int wire_get_tick(const uint8_t *data, uint32_t len, uint64_t *answered);

/* WIRE_ANSWER_MAX. The histogram of all operations is not part of it: see result_complete(). */
uint32_t wire_put_result(uint8_t *out, const struct result *result);
int wire_get_result(const uint8_t *data, uint32_t len, struct result *result);

#define WIRE_FAILED_BYTES (WIRE_TEXT_MAX + 1)
uint32_t wire_put_failed(uint8_t *out, bool misused, const char *text);

/* The text is printable. */
int wire_get_failed(const uint8_t *data, uint32_t len, bool *misused, char text[WIRE_TEXT_MAX]);

#endif
