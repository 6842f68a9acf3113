/* SPDX-License-Identifier: BSD-3-Clause */
/* Draws requests from a workload; its text is parsed in workload_text.c. */
#include "load/workload.h"
#include "base/base.h"
#include "load/key.h"

/* Ids of keys outside of the popularity distribution; their texts have 8 digits. */
#define ID_SCAN (UINT64_C(1) << 45)
#define ID_ONCE (UINT64_C(1) << 46)

/* Salts for the properties that are derived from an id. */
enum { SALT_KEY = 1, SALT_VALUE, SALT_TTL };

void load_workload_describe(const struct load_workload *workload, uint64_t id,
                            struct load_request *request)
{
    uint64_t salt = workload->seed * 4;
    uint32_t digits = load_key_bytes_min(id + 1);

    request->id = id;
    request->key_bytes =
        load_size_quantile(&workload->key_bytes, load_random_unit_of(id, salt + SALT_KEY));
    if (request->key_bytes < digits)
        request->key_bytes = digits;
    request->value_bytes =
        load_size_quantile(&workload->value_bytes, load_random_unit_of(id, salt + SALT_VALUE));
    request->ttl_s = load_size_quantile(&workload->ttl_s, load_random_unit_of(id, salt + SALT_TTL));
}

static enum load_op draw_op(struct load_workload *workload)
{
    double u = load_random_unit(&workload->prng);
    unsigned op = 0;

    while (op + 1 < LOAD_OPS && u >= workload->op_upto[op])
        op++;
    return (enum load_op)op;
}

/* Draws the id of a request outside of a scan. */
static uint64_t draw_id(struct load_workload *workload, enum load_op *op)
{
    if (*op == LOAD_INSERT) {
        *op = LOAD_SET;
        return load_popularity_grow(&workload->popularity);
    }
    if (workload->once_share > 0 && load_random_unit(&workload->prng) < workload->once_share)
        return ID_ONCE + workload->once++;
    return load_popularity_draw(&workload->popularity, &workload->prng);
}

static bool scans(struct load_workload *workload)
{
    if (workload->scan_left == 0) {
        if (workload->scan_begin == 0 || load_random_unit(&workload->prng) >= workload->scan_begin)
            return false;
        workload->scan_left = workload->scan_length;
    }
    workload->scan_left--;
    return true;
}

void load_workload_next(struct load_workload *workload, struct load_request *request)
{
    uint64_t id;

    workload->requests++;
    if (workload->drift_every > 0 && workload->requests % workload->drift_every == 0)
        (void)load_popularity_grow(&workload->popularity);
    if (scans(workload)) {
        request->op = LOAD_GET;
        id = ID_SCAN + workload->scan_next++ % workload->scan_keys;
    } else {
        request->op = draw_op(workload);
        id = draw_id(workload, &request->op);
    }
    request->time_s = (uint32_t)((double)(workload->requests - 1) / workload->rate);
    load_workload_describe(workload, id, request);
}

void load_workload_reseed(struct load_workload *workload, uint64_t seed)
{
    u_prng_seed(&workload->prng, load_random_hash(workload->seed, seed));
    workload->requests = 0;
}

double load_workload_footprint_bytes(const struct load_workload *workload)
{
    enum { SAMPLE = 1 << 20 };
    uint64_t keys = workload->popularity.keys;
    uint64_t seen = keys < SAMPLE ? keys : SAMPLE;
    double bytes = 0;

    for (uint64_t i = 0; i < seen; i++) {
        struct load_request request;
        load_workload_describe(workload, i, &request);
        bytes += request.key_bytes + request.value_bytes;
    }
    return bytes / (double)seen * (double)keys;
}
