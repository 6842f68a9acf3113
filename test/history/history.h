/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks a history of one key for linearizability: whether an order of all operations exists that
 * respects the times at which each began and ended, and in which every outcome is right.
 *
 * The search is Wing and Gong's with Lowe's memory of visited states: depth-first over the
 * operations that may come next, never twice the same set of operations with the same state. Keys
 * are independent, so each is checked by itself.
 */
#ifndef HISTORY_H
#define HISTORY_H

#include <stdbool.h>
#include <stdint.h>

#define HISTORY_VALUE_MAX 63
#define HISTORY_WIDTH_MAX 256 /* operations that may begin during another one */

enum history_action {
    HISTORY_GET = 0,
    HISTORY_SET,
    HISTORY_ADD,
    HISTORY_REPLACE,
    HISTORY_APPEND,
    HISTORY_PREPEND,
    HISTORY_CAS,
    HISTORY_INCR, /* by `delta`; the value is a decimal number */
    HISTORY_DECR,
    HISTORY_TOUCH,
    HISTORY_DELETE,
    HISTORY_ACTIONS,
    HISTORY_FLUSH = HISTORY_ACTIONS /* of all keys: one need not have been there */
};

enum history_result {
    HISTORY_DONE = 0, /* found, stored, deleted, ... */
    HISTORY_ABSENT,   /* the key was not there, and had to be */
    HISTORY_REFUSED   /* it was there and must not be, or had another cas */
};

struct history_value {
    uint8_t len;
    char bytes[HISTORY_VALUE_MAX];
};

struct history_op {
    enum history_action action;
    /* The request. */
    struct history_value value;
    uint64_t delta;
    uint64_t expected; /* the cas that HISTORY_CAS wants */
    uint32_t exptime;  /* stored or touched to; far in the future, as time stands still here */
    /* What came out. */
    enum history_result result;
    struct history_value seen; /* HISTORY_GET, HISTORY_INCR, HISTORY_DECR, if done */
    uint64_t cas;              /* of the item found or made; 0: unknown */
    uint32_t seen_exptime;     /* HISTORY_GET; 0: unknown, or none */
    /* When. Times of all clients are of one clock. */
    uint64_t from;
    uint64_t to;
    unsigned id; /* the caller's */
};

enum history_verdict {
    HISTORY_LINEARIZABLE = 0,
    HISTORY_WRONG,
    HISTORY_TOO_WIDE, /* undecided: more than HISTORY_WIDTH_MAX operations during one */
    HISTORY_NO_MEMORY
};

/* The history of a key that was not there at first. Sorts the operations by their beginning. */
enum history_verdict history_check(struct history_op *ops, unsigned count);

/*
 * The same for operations ordered by a partial order instead of times. An operation that precedes
 * another one has the earlier `from`. At most HISTORY_WIDTH_MAX operations.
 */
typedef bool history_before(const struct history_op *a, const struct history_op *b);
enum history_verdict history_check_partial(struct history_op *ops, unsigned count,
                                           history_before *before);

struct history_value history_number(uint64_t number);
struct history_value history_text(const char *text);

#endif
