/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Workloads: a stream of requests with key, operation, sizes and time to live.
 *
 * The text of a workload is a preset and its modifications:
 *
 *     zipf    etc,keys=1e7    uniform,keys=1000,key=8,value=8,get=90,set=10,seed=7
 *
 * - keys=N: number of keys
 * - popularity=P: see popularity.h
 * - key=S value=S: lengths in bytes, see size.h
 * - ttl=S: time to live in seconds; 0: never expires
 * - get=W set=W delete=W incr=W touch=W insert=W: weights of the operations; an insert is a set of
 *   a new key
 * - once=SHARE: share of requests for keys that are requested only once
 * - scan=SHARE: share of requests in scans: runs of scan-length=N consecutive keys, cycling through
 *   scan-keys=N separate keys
 * - drift=N: a new key replaces an old one every N requests; 0: never
 * - rate=N: requests per second of the stream's time stamps
 * - seed=N: seed; the same seed gives the same stream
 *
 * The sizes and the time to live of a key are a function of its id.
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
    uint64_t id;          /* see load_key_write() */
    uint32_t time_s;      /* since the start of the stream */
    uint32_t value_bytes; /* of the key's value */
    uint32_t ttl_s;       /* 0: never expires */
    uint32_t key_bytes;
    enum load_op op; /* never LOAD_INSERT, which is drawn as LOAD_SET */
};

/* A workload and its state; copies are independent. Filled by load_workload_parse(). */
struct load_workload {
    struct load_popularity popularity;
    struct load_size key_bytes;
    struct load_size value_bytes;
    struct load_size ttl_s;
    double op_upto[LOAD_OPS]; /* cumulative probabilities */
    double once_share;
    double scan_begin; /* probability that a request starts a scan */
    uint64_t scan_length;
    uint64_t scan_keys;
    uint64_t drift_every;
    double rate;
    uint64_t seed;

    struct u_prng prng;
    uint64_t requests; /* drawn so far */
    uint64_t once;     /* keys requested once, so far */
    uint64_t scan_next;
    uint64_t scan_left;
};

/* Parses a text of the form above. Returns false with a message on failure. */
bool load_workload_parse(struct load_workload *workload, const char *text,
                         char error[LOAD_ERROR_MAX]);

/* Draws the next request. */
void load_workload_next(struct load_workload *workload, struct load_request *request);

/* Fills in the sizes and the time to live of a key. */
void load_workload_describe(const struct load_workload *workload, uint64_t id,
                            struct load_request *request);

/* Restarts the stream with another seed, for another thread; the keys are the same. */
void load_workload_reseed(struct load_workload *workload, uint64_t seed);

/* Total size of keys and values of all keys, within 0.1 %. */
double load_workload_footprint_bytes(const struct load_workload *workload);

/* The presets, ended by a null name. */
struct load_preset {
    const char *name;
    const char *text;
    const char *about;
};
extern const struct load_preset load_presets[];

#endif
