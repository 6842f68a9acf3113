/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A small table under the model checker: what threads do to its keys is kept as a history, which
 * must be linearizable after each run.
 */
#ifndef KEYS_H
#define KEYS_H

#include "../history/history.h"
#include "kv/engine.h"

/* Two keys of the same chain, as many more as fill two buckets of it, and one of another chain. */
enum key { KEY_A = 0, KEY_B, KEY_FILL, KEY_ELSEWHERE = KEY_FILL + 2 * KV_BUCKET_SLOTS, KEYS };

struct table {
    struct kv *kv;
    struct kv_worker *workers[4]; /* by number of the thread */
    struct kv_key keys[KEYS];
};

extern struct table table;

/* A table with a worker for each thread, each with an open segment. */
void keys_open(void);
void keys_close(void);

/* Looks for keys of one chain in which nothing is; keys_open() has done so for an empty table. */
void keys_choose(void);

kv_decide keys_decide_replace;

/* Clears the history of the last run except for sets before the threads began. */
void keys_begin(void);

/* The invariants of the table, and the histories of all keys. */
void keys_check(void);

/* The worker of the thread that calls. */
struct kv_worker *keys_worker(void);

/* Operations of the thread that calls. Values are texts of at most 7 characters. */
void key_get(enum key key);
void key_set(enum key key, const char *text);
void key_set_short(enum key key, const char *text); /* by kv_replace_short(), if that can be */
void key_add(enum key key, const char *text);
void key_cas(enum key key, uint64_t expected, const char *text);
void key_incr(enum key key);
void key_touch(enum key key, uint32_t exptime);
void key_delete(enum key key);

/* An operation that the caller carries out itself, between these two calls. */
struct history_op *keys_op_begin(enum key key, enum history_action action);
void keys_op_end(struct history_op *op);

/* The histories alone, of items that were not accounted for. */
void keys_check_histories(void);

/* The cas of the key's current item. */
uint64_t key_cas_now(enum key key);

#endif
