/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucping over the own TCP/IP stack, in two parts that know little of each other:
 *
 *   the application     talk.c: takes events, says what is to be sent
 *   the stack's side    stack.c: the device, the stack, the table of connections
 *
 * With --threading=unified one loop does both (stack.c), else each has a thread, and two pipes
 * between them (threads.c): the same events and the same words, handed over in batches.
 */
#ifndef UCPING_STACK_H
#define UCPING_STACK_H

#include "base/list.h"
#include "common/cores.h"
#include "ucping.h"

/* What is queued by reference is as long as this; shorter pieces are copied. */
#define STACK_REF_BYTES 65536u

/* How long a loop stays awake without work, and then sleeps at most. */
#define STACK_SPIN_NS 50000
#define STACK_WAIT_US 50000

struct late;

/* A connection, as both parts know it; each has cache lines of its own. */
struct line {
    /* The stack's side. */
    _Alignas(U_LINE_BYTES) struct us_conn *us; /* null: there is none, or it is closed */
    struct line *next_free;
    struct late *late; /* threads.c: what the stack has not taken yet; or null */
    uint32_t untold;   /* threads.c: bytes taken that the application was not told of */
    bool close_due;    /* threads.c: behind what is late */

    /* The application's. */
    _Alignas(U_LINE_BYTES) struct conv conv;
    struct u_list waiting; /* threads.c: for room to say something, or on no list */
    uint32_t on_the_way;   /* threads.c: bytes handed over, not known to be taken */
    bool open;
    bool closing;
};

struct loop;

/* What the application says. */
struct stack_words {
    /*
     * Queues a piece: by reference if so wished, which takes STACK_REF_BYTES of a text that never
     * changes, else a copy. Returns how much was taken; 0: not now, US_EV_SENDABLE will come.
     */
    uint32_t (*send)(struct loop *l, struct line *line, const uint8_t *data, uint32_t len,
                     bool by_reference);
    /* Sends what is queued, then closes this side. */
    void (*close)(struct loop *l, struct line *line);
    void (*abort)(struct loop *l, struct line *line);
};

struct loop {
    struct settings *s;
    struct game *game; /* null: a server */
    uint64_t now_ns, active_ns;

    /* The application's. */
    const struct stack_words *words;
    unsigned open; /* connections that are not closed */
    unsigned connected;
    bool failed; /* with settings->error */

    /* The stack's side. */
    struct host host;
    struct line *lines, *free;
    struct split *split; /* threads.c: null with one loop */
};

/* ---- talk.c ------------------------------------------------------------------------------ */

/* Something has happened to a connection; CLOSED is the last that does. */
void talk_event(struct loop *l, struct line *line, const struct us_event *event);

/* Sends what there is to send. */
void talk_pump(struct loop *l, struct line *line);

/* A connection is there: a client's by us_connect(), a server's accepted. */
void talk_open(struct loop *l, struct line *line);

/* The game begins: the time counts, and everybody sends. */
void talk_begin(struct loop *l);

/* ---- stack.c ----------------------------------------------------------------------------- */

/* Queues a piece, as stack_words.send does, on a connection that is not closed. */
uint32_t stack_send(struct loop *l, const struct line *line, const uint8_t *data, uint32_t len,
                    bool by_reference);

/* A line for a connection that was accepted; null: there is none, and it was reset. */
struct line *stack_accepted(struct loop *l, struct us_conn *us);

/* Nobody speaks of this line any more. */
void stack_line_free(struct loop *l, struct line *line);

/* ---- threads.c --------------------------------------------------------------------------- */

/*
 * The game, or the serving, in two threads: the calling one has the stack, a new one the
 * application. `before` is where the process might run before the device was opened. Returns 0, or
 * -1 with settings->error.
 */
int threads_run(struct loop *l, const struct cores *before);

#endif
