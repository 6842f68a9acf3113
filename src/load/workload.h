/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stream of requests: which key, what is done to it, how large it is, how long it lives.
 *
 * A workload is written as the name of a preset and what is different from it:
 *
 *     zipf    etc,keys=1e7    uniform,keys=1000,key=8,value=8,get=90,set=10,seed=7
 *
 * keys=N            how many keys                      popularity=P   see popularity.h
 * key=S value=S     lengths in bytes, see size.h       ttl=S          seconds; 0: never expires
 * get=W set=W delete=W incr=W touch=W insert=W         weights of the operations; an insert is a
 *                                                      set of a key that was never there before
 * once=SHARE        share of requests for a key that is asked for only once
 * scan=SHARE        share of requests that are scans: runs of scan-length=N neighbouring keys that
 *                   go round and round scan-keys=N keys of their own
 * drift=N           a new key takes the place of an old one every N requests; 0: never
 * rate=N            requests per second of the time that the stream tells
 * seed=N            another seed is another stream; the same seed is the same one again
 *
 * The lengths and the time to live of a key belong to its id: they stay the same for ever.
 */
#ifndef LOAD_WORKLOAD_H
#define LOAD_WORKLOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "load/popularity.h"
#include "load/random.h"
#include "load/size.h"

enum load_op { LOAD_GET = 0, LOAD_SET, LOAD_DELETE, LOAD_INCR, LOAD_TOUCH, LOAD_INSERT, LOAD_OPS };

struct load_request {
    uint64_t id;          /* load_key_write() makes a text of it */
    uint32_t time_s;      /* since the beginning of the stream */
    uint32_t value_bytes; /* of the key's value */
    uint32_t ttl_s;       /* 0: never expires */
    uint32_t key_bytes;
    enum load_op op; /* never LOAD_INSERT: that is a LOAD_SET */
};

/* All of a workload; copies of it go on independently. Filled by load_workload_parse(). */
struct load_workload {
    struct load_popularity popularity;
    struct load_size key_bytes;
    struct load_size value_bytes;
    struct load_size ttl_s;
    double op_upto[LOAD_OPS]; /* cumulative shares */
    double once_share;
    double scan_begin; /* probability that a request begins a scan */
    uint64_t scan_length;
    uint64_t scan_keys;
    uint64_t drift_every;
    double rate;
    uint64_t seed;

    struct u_prng prng;
    uint64_t requests; /* drawn so far */
    uint64_t once;     /* keys asked for once, so far */
    uint64_t scan_next;
    uint64_t scan_left;
};

/* Reads a text of the form above. False with a message that says what is wrong with it. */
bool load_workload_parse(struct load_workload *workload, const char *text,
                         char error[LOAD_ERROR_MAX]);

/* Draws the next request. */
void load_workload_next(struct load_workload *workload, struct load_request *request);

/* The lengths and the time to live of a key. */
void load_workload_describe(const struct load_workload *workload, uint64_t id,
                            struct load_request *request);

/* Begins the stream anew with another seed, for another thread; the keys stay what they are. */
void load_workload_reseed(struct load_workload *workload, uint64_t seed);

/* Bytes of the keys and values of all keys of the popularity, to within a thousandth. */
double load_workload_footprint_bytes(const struct load_workload *workload);

/* The presets: name and the text that it stands for; null names end the table. */
struct load_preset {
    const char *name;
    const char *text;
    const char *about;
};
extern const struct load_preset load_presets[];

#endif
