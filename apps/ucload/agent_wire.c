/* SPDX-License-Identifier: BSD-3-Clause */
/* The protocol of agents; see agent_wire.h. */
#include "agent_wire.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MAGIC "ucload\r\n"
#define MAGIC_BYTES 8

/* The largest number of seconds or requests per second that a peer may ask for. */
#define NUMBER_MAX 1e15

/* A slot of a histogram and its count; the numbers of a histogram before its slots. */
#define SLOT_BYTES 10
#define HISTOGRAM_HEAD_BYTES 37

U_STATIC_ASSERT(OP_COUNT *(HISTOGRAM_HEAD_BYTES + LOAD_HISTOGRAM_SLOTS * SLOT_BYTES) + 1024 <
                    WIRE_ANSWER_MAX,
                every_result_fits);

/* ---- numbers ----------------------------------------------------------------------------- */

/* Bytes that are read; `bad` if they were too few. */
struct reader {
    const uint8_t *at, *end;
    bool bad;
};

static uint8_t *put(uint8_t *at, uint64_t v, unsigned bytes)
{
    while (bytes-- > 0)
        *at++ = (uint8_t)(v >> (8 * bytes));
    return at;
}

static uint8_t *put_double(uint8_t *at, double v)
{
    uint64_t bits;

    memcpy(&bits, &v, sizeof(bits));
    return put(at, bits, 8);
}

static uint64_t get(struct reader *r, unsigned bytes)
{
    uint64_t v = 0;

    if (r->bad || (size_t)(r->end - r->at) < bytes) {
        r->bad = true;
        return 0;
    }
    while (bytes-- > 0)
        v = v << 8 | *r->at++;
    return v;
}

/* A number of seconds or requests per second. */
static double get_double(struct reader *r)
{
    uint64_t bits = get(r, 8);
    double v;

    memcpy(&v, &bits, sizeof(v));
    if (!(v >= 0 && v <= NUMBER_MAX))
        r->bad = true;
    return r->bad ? 0 : v;
}

static int finish(const struct reader *r)
{
    return r->bad || r->at != r->end ? -1 : 0;
}

/* ---- frames ------------------------------------------------------------------------------ */

void wire_put_head(uint8_t *out, enum wire_kind kind, uint32_t len)
{
    put(put(out, len, 4), (uint64_t)kind, 1);
}

int wire_get_head(const uint8_t *head, uint32_t max, enum wire_kind *kind, uint32_t *len)
{
    struct reader r = {.at = head, .end = head + WIRE_HEAD_BYTES};
    uint64_t number;

    *len = (uint32_t)get(&r, 4);
    number = get(&r, 1);
    if (*len > max || number < WIRE_HELLO || number > WIRE_BUSY)
        return -1;
    *kind = (enum wire_kind)number;
    return 0;
}

uint32_t wire_put_hello(uint8_t *out)
{
    memcpy(out, MAGIC, MAGIC_BYTES);
    put(out + MAGIC_BYTES, WIRE_VERSION, 4);
    return WIRE_HELLO_BYTES;
}

int wire_get_hello(const uint8_t *data, uint32_t len, uint32_t *version)
{
    struct reader r = {.at = data, .end = data + len};

    if (len < MAGIC_BYTES || memcmp(data, MAGIC, MAGIC_BYTES) != 0)
        return -1;
    r.at += MAGIC_BYTES;
    *version = (uint32_t)get(&r, 4);
    return finish(&r);
}

uint32_t wire_put_open(uint8_t *out, const struct wire_open *open)
{
    uint8_t *at = out, *end = out + WIRE_REQUEST_MAX;

    at = put(at, open->index, 4);
    at = put(at, open->agents, 4);
    at = put(at, open->connections, 4);
    at = put(at, open->idle, 4);
    for (int i = 0; i < open->argc; i++) {
        size_t bytes = strlen(open->argv[i]) + 1;

        if (i == WIRE_WORDS_MAX || bytes > (size_t)(end - at))
            return 0;
        memcpy(at, open->argv[i], bytes);
        at += bytes;
    }
    return (uint32_t)(at - out);
}

int wire_get_open(uint8_t *data, uint32_t len, struct wire_open *open)
{
    struct reader r = {.at = data, .end = data + len};
    char *at = (char *)data + 16, *end = (char *)data + len;

    open->index = (uint32_t)get(&r, 4);
    open->agents = (uint32_t)get(&r, 4);
    open->connections = (uint32_t)get(&r, 4);
    open->idle = (uint32_t)get(&r, 4);
    if (r.bad || open->agents == 0 || open->index >= open->agents || open->connections == 0 ||
        at == end || end[-1] != '\0')
        return -1;
    for (open->argc = 0; at < end; at += strlen(at) + 1) {
        if (open->argc == WIRE_WORDS_MAX)
            return -1;
        open->argv[open->argc++] = at;
    }
    open->argv[open->argc] = NULL;
    return 0;
}

uint32_t wire_put_measure(uint8_t *out, const struct wire_measure *measure)
{
    out = put_double(out, measure->rate);
    out = put_double(out, measure->seconds);
    out = put_double(out, measure->warmup_s);
    out = put(out, measure->requests, 8);
    put(out, measure->salt, 8);
    return WIRE_MEASURE_BYTES;
}

int wire_get_measure(const uint8_t *data, uint32_t len, struct wire_measure *measure)
{
    struct reader r = {.at = data, .end = data + len};

    measure->rate = get_double(&r);
    measure->seconds = get_double(&r);
    measure->warmup_s = get_double(&r);
    measure->requests = get(&r, 8);
    measure->salt = get(&r, 8);
    return finish(&r);
}

uint32_t wire_put_tick(uint8_t *out, uint64_t answered)
{
    put(out, answered, 8);
    return WIRE_TICK_BYTES;
}

int wire_get_tick(const uint8_t *data, uint32_t len, uint64_t *answered)
{
    struct reader r = {.at = data, .end = data + len};

    *answered = get(&r, 8);
    return finish(&r);
}

uint32_t wire_put_failed(uint8_t *out, bool misused, const char *text)
{
    size_t len = strnlen(text, WIRE_TEXT_MAX - 1);

    out[0] = misused;
    memcpy(out + 1, text, len);
    return (uint32_t)len + 1;
}

/* Text of a peer for the terminal. */
static void copy_text(char *to, const uint8_t *from, size_t len)
{
    for (size_t i = 0; i < len; i++)
        to[i] = from[i] >= 0x20 && from[i] < 0x7f ? (char)from[i] : '.';
    to[len] = '\0';
}

int wire_get_failed(const uint8_t *data, uint32_t len, bool *misused, char text[WIRE_TEXT_MAX])
{
    if (len == 0 || len > WIRE_TEXT_MAX || data[0] > 1)
        return -1;
    *misused = data[0] == 1;
    copy_text(text, data + 1, len - 1);
    return 0;
}

/* ---- results ----------------------------------------------------------------------------- */

static uint8_t *put_histogram(uint8_t *at, unsigned op, const struct load_histogram *h)
{
    uint8_t *slots_at;
    uint32_t slots = 0;

    at = put(at, op, 1);
    at = put(at, h->total, 8);
    at = put(at, h->sum, 8);
    at = put(at, h->min, 8);
    at = put(at, h->max, 8);
    slots_at = at;
    at += 4;
    for (unsigned i = 0; i < LOAD_HISTOGRAM_SLOTS; i++) {
        if (h->counts[i] == 0)
            continue;
        at = put(put(at, i, 2), h->counts[i], 8);
        slots++;
    }
    put(slots_at, slots, 4);
    return at;
}

/* Whether the numbers of a histogram belong to its counts, of which there is at least one. */
static bool is_histogram(const struct load_histogram *h, uint64_t counted, unsigned first,
                         unsigned last)
{
    return counted > 0 && counted == h->total && h->min <= h->max &&
           h->max <= LOAD_HISTOGRAM_VALUE_MAX && load_histogram_slot(h->min) == first &&
           load_histogram_slot(h->max) == last;
}

static void get_histogram(struct reader *r, struct result *result)
{
    unsigned op = (unsigned)get(r, 1), slot, first = 0, last = 0;
    struct load_histogram *h = &result->by_op[op < OP_COUNT ? op : 0];
    uint64_t counted = 0, count;
    uint32_t slots;

    if (op >= OP_COUNT || h->total > 0)
        r->bad = true;
    h->total = get(r, 8);
    h->sum = get(r, 8);
    h->min = get(r, 8);
    h->max = get(r, 8);
    slots = (uint32_t)get(r, 4);
    for (uint32_t i = 0; i < slots && !r->bad; i++) {
        slot = (unsigned)get(r, 2);
        count = get(r, 8);
        if (slot >= LOAD_HISTOGRAM_SLOTS || (i > 0 && slot <= last) || count == 0 ||
            count > UINT64_MAX - counted) {
            r->bad = true;
            return;
        }
        first = i == 0 ? slot : first;
        last = slot;
        counted += count;
        h->counts[slot] = count;
    }
    if (!is_histogram(h, counted, first, last))
        r->bad = true;
}

/* The counters of a tally, in the order of the protocol. */
#define TALLY_COUNTERS 10

static void tally_counters(struct tally *t, uint64_t *counters[TALLY_COUNTERS])
{
    uint64_t *const all[TALLY_COUNTERS] = {&t->requests, &t->hits,      &t->misses,   &t->exists,
                                           &t->refused,  &t->wrong,     &t->bytes_in, &t->bytes_out,
                                           &t->connects, &t->unanswered};

    memcpy(counters, all, sizeof(all));
}

uint32_t wire_put_result(uint8_t *out, const struct result *result)
{
    uint64_t *counters[TALLY_COUNTERS];
    struct tally tally = result->tally;
    uint8_t *at = out;
    size_t len = strlen(result->example);
    unsigned op, used = 0;

    tally_counters(&tally, counters);
    for (unsigned i = 0; i < TALLY_COUNTERS; i++)
        at = put(at, *counters[i], 8);
    for (op = 0; op < OP_COUNT; op++) {
        at = put(at, tally.ops[op], 8);
        used += result->by_op[op].total > 0;
    }
    at = put_double(at, result->seconds);
    at = put_double(at, result->offered);
    at = put_double(at, result->cpu_s);
    at = put(at, result->hiccups.count, 8);
    at = put(at, result->hiccups.longest_ns, 8);
    at = put(at, result->hiccups.worst_ns, 8);
    at = put(at, len, 2);
    memcpy(at, result->example, len);
    at = put(at + len, used, 1);
    for (op = 0; op < OP_COUNT; op++) {
        if (result->by_op[op].total > 0)
            at = put_histogram(at, op, &result->by_op[op]);
    }
    return (uint32_t)(at - out);
}

int wire_get_result(const uint8_t *data, uint32_t len, struct result *result)
{
    struct reader r = {.at = data, .end = data + len};
    uint64_t *counters[TALLY_COUNTERS];
    size_t text;
    unsigned used;

    result_clear(result);
    tally_counters(&result->tally, counters);
    for (unsigned i = 0; i < TALLY_COUNTERS; i++)
        *counters[i] = get(&r, 8);
    for (unsigned op = 0; op < OP_COUNT; op++)
        result->tally.ops[op] = get(&r, 8);
    result->seconds = get_double(&r);
    result->offered = get_double(&r);
    result->cpu_s = get_double(&r);
    result->hiccups.count = get(&r, 8);
    result->hiccups.longest_ns = get(&r, 8);
    result->hiccups.worst_ns = get(&r, 8);
    text = get(&r, 2);
    if (r.bad || text >= RESULT_EXAMPLE_MAX || text > (size_t)(r.end - r.at))
        return -1;
    copy_text(result->example, r.at, text);
    r.at += text;
    used = (unsigned)get(&r, 1);
    for (unsigned i = 0; i < used && !r.bad; i++)
        get_histogram(&r, result);
    return finish(&r);
}
