/* SPDX-License-Identifier: BSD-3-Clause */
/* The search for a linear order of the operations (history.h). */
#include "history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS (HISTORY_WIDTH_MAX / 64)

/* ---- one key ----------------------------------------------------------------------------- */

struct state {
    bool present;
    struct history_value value;
    uint64_t cas;
    uint32_t exptime;
};

struct history_value history_text(const char *text)
{
    struct history_value value = {0};
    size_t len = strlen(text);
    value.len = (uint8_t)(len < HISTORY_VALUE_MAX ? len : HISTORY_VALUE_MAX);
    memcpy(value.bytes, text, value.len);
    return value;
}

struct history_value history_number(uint64_t number)
{
    char text[24];
    snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
    return history_text(text);
}

static uint64_t number_of(const struct history_value *value)
{
    char text[HISTORY_VALUE_MAX + 1];
    memcpy(text, value->bytes, value->len);
    text[value->len] = '\0';
    return strtoull(text, NULL, 10);
}

static bool is_same(const struct history_value *a, const struct history_value *b)
{
    return a->len == b->len && memcmp(a->bytes, b->bytes, a->len) == 0;
}

static bool join(struct history_value *to, const struct history_value *front,
                 const struct history_value *back)
{
    struct history_value made = {0};
    if (front->len + back->len > HISTORY_VALUE_MAX)
        return false;
    memcpy(made.bytes, front->bytes, front->len);
    memcpy(made.bytes + front->len, back->bytes, back->len);
    made.len = (uint8_t)(front->len + back->len);
    *to = made;
    return true;
}

/* A change gives a cas that the item did not have. */
static bool take_cas(struct state *state, const struct history_op *op)
{
    if (op->cas != 0 && state->present && op->cas == state->cas)
        return false;
    state->cas = op->cas;
    return true;
}

static bool store(struct state *state, const struct history_op *op)
{
    if (op->result != HISTORY_DONE || !take_cas(state, op))
        return false;
    state->present = true;
    state->value = op->value;
    state->exptime = op->exptime;
    return true;
}

static bool get(const struct state *state, const struct history_op *op)
{
    if (!state->present)
        return op->result == HISTORY_ABSENT;
    return op->result == HISTORY_DONE && is_same(&state->value, &op->seen) &&
           (op->cas == 0 || op->cas == state->cas) &&
           (op->seen_exptime == 0 || op->seen_exptime == state->exptime);
}

static bool extend(struct state *state, const struct history_op *op)
{
    if (op->result != HISTORY_DONE || !take_cas(state, op))
        return false;
    if (op->action == HISTORY_APPEND)
        return join(&state->value, &state->value, &op->value);
    return join(&state->value, &op->value, &state->value);
}

static bool count(struct state *state, const struct history_op *op)
{
    uint64_t number = number_of(&state->value);
    if (op->result != HISTORY_DONE || !take_cas(state, op))
        return false;
    if (op->action == HISTORY_INCR)
        number += op->delta;
    else
        number = number > op->delta ? number - op->delta : 0;
    state->value = history_number(number);
    return number_of(&op->seen) == number;
}

/* An operation on a key that is there. */
static bool step_present(struct state *state, const struct history_op *op)
{
    switch (op->action) {
    case HISTORY_ADD:
        return op->result == HISTORY_REFUSED;
    case HISTORY_CAS:
        if (op->expected != state->cas)
            return op->result == HISTORY_REFUSED;
        return store(state, op);
    case HISTORY_APPEND:
    case HISTORY_PREPEND:
        return extend(state, op);
    case HISTORY_INCR:
    case HISTORY_DECR:
        return count(state, op);
    case HISTORY_TOUCH:
        state->exptime = op->exptime;
        return op->result == HISTORY_DONE;
    case HISTORY_DELETE:
        state->present = false;
        return op->result == HISTORY_DONE;
    default:
        return store(state, op); /* set, replace */
    }
}

/* Carries the operation out. False if its outcome is not that of the state. */
static bool step(struct state *state, const struct history_op *op)
{
    if (op->action == HISTORY_GET)
        return get(state, op);
    if (op->action == HISTORY_FLUSH) {
        state->present = false;
        return true;
    }
    if (state->present)
        return step_present(state, op);
    if (op->action == HISTORY_SET || op->action == HISTORY_ADD)
        return store(state, op);
    return op->result == HISTORY_ABSENT;
}

/* ---- visited states ---------------------------------------------------------------------- */

struct memory {
    uint64_t *seen; /* open addressing; 0 is free */
    uint64_t capacity;
    uint64_t count;
};

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

static bool memory_insert(uint64_t *seen, uint64_t capacity, uint64_t hash)
{
    uint64_t i = hash & (capacity - 1);
    while (seen[i] != 0 && seen[i] != hash)
        i = (i + 1) & (capacity - 1);
    bool is_new = seen[i] == 0;
    seen[i] = hash;
    return is_new;
}

static bool memory_grow(struct memory *memory)
{
    uint64_t capacity = memory->capacity ? memory->capacity * 2 : 1024;
    uint64_t *seen = (uint64_t *)calloc(capacity, sizeof(*seen));
    if (!seen)
        return false;
    for (uint64_t i = 0; i < memory->capacity; i++)
        if (memory->seen[i] != 0)
            memory_insert(seen, capacity, memory->seen[i]);
    free(memory->seen);
    memory->seen = seen;
    memory->capacity = capacity;
    return true;
}

/* ---- the search -------------------------------------------------------------------------- */

/* All operations before `base` are placed, and those of the bits after it. */
struct place {
    unsigned base;
    uint64_t placed[WORDS];
    struct state state;
};

struct search {
    const struct history_op *ops;
    unsigned count;
    history_before *before; /* null: times tell */
    struct memory memory;
    enum history_verdict trouble;
};

static bool is_placed(const struct place *place, unsigned op)
{
    unsigned bit = op - place->base;
    return (place->placed[bit / 64] >> bit % 64 & 1) != 0;
}

static void put(struct place *place, unsigned op, unsigned count)
{
    unsigned bit = op - place->base;
    place->placed[bit / 64] |= UINT64_C(1) << bit % 64;
    while (place->base < count && (place->placed[0] & 1) != 0) {
        for (unsigned i = 0; i < WORDS; i++) {
            uint64_t next = i + 1 < WORDS ? place->placed[i + 1] : 0;
            place->placed[i] = place->placed[i] >> 1 | next << 63;
        }
        place->base++;
    }
}

/* False if the same place was searched before. */
static bool remember(struct search *search, const struct place *place)
{
    struct memory *memory = &search->memory;
    uint64_t hash = mix(place->base, place->state.present);
    for (unsigned i = 0; i < WORDS; i++)
        hash = mix(hash, place->placed[i]);
    if (place->state.present) {
        hash = mix(hash, place->state.cas);
        hash = mix(hash, (uint64_t)place->state.exptime << 8 | place->state.value.len);
        for (unsigned i = 0; i < place->state.value.len; i++)
            hash = mix(hash, (uint8_t)place->state.value.bytes[i]);
    }
    if (memory->count * 2 >= memory->capacity && !memory_grow(memory)) {
        search->trouble = HISTORY_NO_MEMORY;
        return false;
    }
    bool is_new = memory_insert(memory->seen, memory->capacity, hash | 1);
    memory->count += is_new;
    return is_new;
}

/* Whether an operation that isn't placed yet has to come before this one. */
static bool has_to_wait(const struct search *search, const struct place *place, unsigned op)
{
    if (search->before)
        for (unsigned i = place->base; i < op; i++)
            if (!is_placed(place, i) && search->before(&search->ops[i], &search->ops[op]))
                return true;
    return false;
}

static bool search_from(struct search *search, const struct place *place)
{
    if (place->base == search->count)
        return true;
    if (!remember(search, place))
        return false;
    uint64_t first_end = UINT64_MAX;
    for (unsigned i = place->base; i < search->count; i++) {
        const struct history_op *op = &search->ops[i];
        if (op->from > first_end && !search->before)
            return false;
        if (i - place->base >= HISTORY_WIDTH_MAX) {
            search->trouble = HISTORY_TOO_WIDE;
            return false;
        }
        if (is_placed(place, i) || has_to_wait(search, place, i))
            continue;
        struct place next = *place;
        if (step(&next.state, op)) {
            put(&next, i, search->count);
            if (search_from(search, &next))
                return true;
        }
        first_end = op->to < first_end ? op->to : first_end;
    }
    return false;
}

static int by_beginning(const void *a, const void *b)
{
    const struct history_op *x = (const struct history_op *)a;
    const struct history_op *y = (const struct history_op *)b;
    return x->from < y->from ? -1 : x->from > y->from;
}

enum history_verdict history_check_partial(struct history_op *ops, unsigned count,
                                           history_before *before)
{
    struct search search = {.ops = ops, .count = count, .before = before, .trouble = HISTORY_WRONG};
    struct place place = {0};
    qsort(ops, count, sizeof(*ops), by_beginning);
    bool found = search_from(&search, &place);
    free(search.memory.seen);
    return found ? HISTORY_LINEARIZABLE : search.trouble;
}

enum history_verdict history_check(struct history_op *ops, unsigned count)
{
    return history_check_partial(ops, count, NULL);
}
