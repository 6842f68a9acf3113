/* SPDX-License-Identifier: BSD-3-Clause */
/* A trace loaded into memory; see loaded_trace.h. */
#include "loaded_trace.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "load/trace.h"
#include "template.h"

/* Key numbers have 32 bits, as do the slots of the table that maps ids to them. */
#define KEYS_MAX (1u << 30)

/* While a trace is loaded: the key number of each id. Open addressing, at most half full. */
struct numbers {
    uint64_t *ids;
    uint32_t *number; /* plus one; 0: free slot */
    uint32_t places;  /* a power of two */
};

struct reader {
    struct loaded_trace *replay;
    struct numbers numbers;
    uint64_t requests_room;
    uint32_t keys_room;
};

static uint32_t place_of(const struct numbers *n, uint64_t id)
{
    uint32_t at = (uint32_t)load_random_hash(id, 0) & (n->places - 1);

    while (n->number[at] != 0 && n->ids[at] != id)
        at = (at + 1) & (n->places - 1);
    return at;
}

static bool numbers_grow(struct numbers *n)
{
    struct numbers more = {.places = n->places ? n->places * 2 : 1024};
    uint32_t i, at;

    more.ids = calloc(more.places, sizeof(more.ids[0]));
    more.number = calloc(more.places, sizeof(more.number[0]));
    if (!more.ids || !more.number) {
        free(more.ids);
        free(more.number);
        return false;
    }
    for (i = 0; i < n->places; i++) {
        if (n->number[i] == 0)
            continue;
        at = place_of(&more, n->ids[i]);
        more.ids[at] = n->ids[i];
        more.number[at] = n->number[i];
    }
    free(n->ids);
    free(n->number);
    *n = more;
    return true;
}

static bool keys_grow(struct reader *r)
{
    uint32_t room = r->keys_room ? r->keys_room * 2 : 1024;
    uint8_t *key_bytes = realloc(r->replay->key_bytes, room * sizeof(key_bytes[0]));
    uint32_t *value_bytes;

    if (!key_bytes)
        return false;
    r->replay->key_bytes = key_bytes;
    value_bytes = realloc(r->replay->value_bytes, room * sizeof(value_bytes[0]));
    if (!value_bytes)
        return false;
    r->replay->value_bytes = value_bytes;
    r->keys_room = room;
    return true;
}

static bool requests_grow(struct reader *r)
{
    uint64_t room = r->requests_room ? r->requests_room * 2 : 1024;
    struct loaded_request *requests = realloc(r->replay->requests, room * sizeof(requests[0]));

    if (!requests)
        return false;
    r->replay->requests = requests;
    r->requests_room = room;
    return true;
}

/* Finds or assigns the number of a key. Returns false without memory. */
static bool number_key(struct reader *r, const struct load_request *request,
                       uint32_t value_bytes_max, uint32_t *number)
{
    struct loaded_trace *replay = r->replay;
    uint32_t at;

    if (replay->keys >= r->numbers.places / 2 && !numbers_grow(&r->numbers))
        return false;
    at = place_of(&r->numbers, request->id);
    if (r->numbers.number[at] == 0) {
        if (replay->keys == KEYS_MAX || (replay->keys == r->keys_room && !keys_grow(r)))
            return false;
        r->numbers.ids[at] = request->id;
        replay->key_bytes[replay->keys] =
            (uint8_t)u_min32(request->key_bytes ? request->key_bytes : 1, LOAD_KEY_MAX);
        replay->value_bytes[replay->keys] = u_min32(request->value_bytes, value_bytes_max);
        r->numbers.number[at] = ++replay->keys;
    }
    *number = r->numbers.number[at] - 1;
    return true;
}

static enum op op_of(enum load_op op)
{
    switch (op) {
    case LOAD_GET:
        return OP_GET;
    case LOAD_DELETE:
        return OP_DELETE;
    case LOAD_INCR:
        return OP_INCR;
    case LOAD_TOUCH:
        return OP_TOUCH;
    case LOAD_SET:
    case LOAD_INSERT:
    case LOAD_OPS:
        break;
    }
    return OP_SET;
}

static int read_all(struct reader *r, struct load_trace *trace, uint32_t value_bytes_max,
                    char error[LOAD_ERROR_MAX])
{
    struct loaded_trace *replay = r->replay;
    struct load_request request;
    uint32_t id;
    int rc;

    while ((rc = load_trace_next(trace, &request, error)) == 1) {
        if (!number_key(r, &request, value_bytes_max, &id) ||
            (replay->count == r->requests_room && !requests_grow(r))) {
            snprintf(error, LOAD_ERROR_MAX, "the trace does not fit into memory");
            return -1;
        }
        replay->requests[replay->count].id = id;
        replay->requests[replay->count++].op = op_of(request.op);
    }
    if (rc == 0 && replay->count == 0) {
        snprintf(error, LOAD_ERROR_MAX, "the trace is empty");
        return -1;
    }
    return rc;
}

int loaded_trace_open(struct loaded_trace *replay, const char *path, uint32_t value_bytes_max,
                      char error[LOAD_ERROR_MAX])
{
    struct reader reader = {.replay = replay};
    struct load_trace *trace = load_trace_open(path, load_trace_format_of(path), error);
    int rc;

    if (!trace)
        return -1;
    rc = read_all(&reader, trace, value_bytes_max, error);
    load_trace_close(trace);
    free(reader.numbers.ids);
    free(reader.numbers.number);
    return rc;
}

void loaded_trace_close(struct loaded_trace *replay)
{
    free(replay->requests);
    free(replay->key_bytes);
    free(replay->value_bytes);
    memset(replay, 0, sizeof(*replay));
}
