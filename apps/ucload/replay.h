/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A recorded stream of requests (load/trace.h), read as a whole before the measurement. Its keys
 * are numbered in the order of their first appearance, and each keeps the sizes that it has there.
 */
#ifndef UCLOAD_REPLAY_H
#define UCLOAD_REPLAY_H

#include <stdint.h>

#include "load/random.h"

struct replay_request {
    uint32_t id;
    uint32_t op; /* enum op */
};

struct replay {
    struct replay_request *requests;
    uint64_t count;
    uint32_t keys;
    uint8_t *key_bytes;    /* by id; 1..250 */
    uint32_t *value_bytes; /* by id */
};

/*
 * Reads a trace; values are cut at value_bytes_max. Returns 0, or -1 with a message. Close it
 * anyway; all zero is closed too.
 */
int replay_open(struct replay *replay, const char *path, uint32_t value_bytes_max,
                char error[LOAD_ERROR_MAX]);

void replay_close(struct replay *replay);

#endif
