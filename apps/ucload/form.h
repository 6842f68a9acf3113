/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Prepared requests and the heads of the replies that are expected to them, in the three protocols.
 *
 * A form is all bytes of one message but the value; the digits of the key, and where sizes vary the
 * length of the value, are patched in where it is written to. There is one of each kind for each
 * length of a key.
 */
#ifndef UCLOAD_FORM_H
#define UCLOAD_FORM_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "keyspace.h"

enum protocol { PROTOCOL_TEXT = 0, PROTOCOL_META, PROTOCOL_BINARY, PROTOCOL_COUNT };

/* OP_CREATE makes a counter, which OP_INCR is for; OP_STATS asks for the server's statistics. */
enum op { OP_GET = 0, OP_SET, OP_DELETE, OP_INCR, OP_TOUCH, OP_CREATE, OP_STATS, OP_COUNT };

/* The first ones are the requests of the ops of the same number. */
enum form_kind {
    FORM_GET = OP_GET,
    FORM_SET = OP_SET,
    FORM_DELETE = OP_DELETE,
    FORM_INCR = OP_INCR,
    FORM_TOUCH = OP_TOUCH,
    FORM_CREATE = OP_CREATE,
    FORM_STATS = OP_STATS, /* in text protocols only */
    FORM_MULTI_FIRST,      /* of a retrieval of several keys: the first one, the others, the end */
    FORM_MULTI_NEXT,
    FORM_MULTI_END,
    FORM_HIT,       /* the head of the reply to FORM_GET; in text protocols only */
    FORM_HIT_MULTI, /* the same, one key of several */
    FORM_COUNT
};

/* The longest: a binary set's header and extras, or the words around a key; of whole steps. */
#define FORM_BYTES_MAX (LOAD_KEY_MAX + 70)

/* Forms are copied in steps, and need room for whole ones. */
#define FORM_COPY_STEP 16
#define FORM_ROOM (FORM_BYTES_MAX + 32)

/* Values up to here are written at once with their form. */
#define FORM_VALUE_MAX 600

#define BINARY_HEADER_BYTES 24

struct form {
    uint16_t len;
    uint16_t key_at;    /* where the key begins; 0: there is none */
    uint16_t length_at; /* where the length of the value is to be inserted; 0: it is there */
    uint16_t middle;    /* what no key changes, behind the first word, begins here */
    uint8_t opcode;     /* binary: what the reply has to repeat */
    bool plain;         /* nothing but the key is to be filled in */
    uint64_t key_mask;  /* of the eight bytes at key_at: those that are the key's */
    uint64_t key_rest;  /* the others of them */
    uint8_t bytes[FORM_BYTES_MAX];
    uint8_t fixed[FORM_BYTES_MAX]; /* all ones where a byte is the same for every key */
};

struct forms {
    enum protocol protocol;
    const struct keyspace *keys;
    struct form *list[FORM_COUNT]; /* by length of the key, from key_bytes_min */
    /* Of a kind that is plain and one for all keys; nothing but a set's short value may follow. */
    const struct form *only[FORM_COUNT]; /* or null */
    uint32_t room;                       /* that the largest of these needs, with its value */
};

/* exptime_s is of all requests that carry one. Returns 0, or -1 if there is no memory. */
int forms_open(struct forms *forms, enum protocol protocol, const struct keyspace *keys,
               uint32_t exptime_s);

void forms_close(struct forms *forms);

static inline const struct form *forms_of(const struct forms *forms, enum form_kind kind,
                                          uint64_t id)
{
    const struct form *shortest = forms->list[kind];

    if (forms->keys->key_fixed)
        return shortest;
    return shortest + (keyspace_key_bytes(forms->keys, id) - forms->keys->key_bytes_min);
}

/*
 * The form of a request for this key if it is all of the request, and plain; else null. That is
 * what forms.only would have if keys were not of several sizes.
 */
static inline const struct form *forms_whole(const struct forms *forms, enum op op, uint64_t id)
{
    const struct form *form;

    if (op == OP_SET || forms->keys->key_fixed)
        return forms->only[op];
    form = forms_of(forms, (enum form_kind)op, id);
    return form->plain ? form : NULL;
}

static inline uint64_t form_word(const uint8_t *at)
{
    uint64_t word;

    memcpy(&word, at, sizeof(word));
    return word;
}

static inline void form_copy(const struct form *form, uint8_t *out)
{
    uint32_t i;

    memcpy(out, form->bytes, FORM_COPY_STEP);
    for (i = FORM_COPY_STEP; i < form->len; i += FORM_COPY_STEP)
        memcpy(out + i, form->bytes + i, FORM_COPY_STEP);
}

/*
 * Writes the value of a key and what stands behind it, in whole steps. Returns the length. Of
 * values up to FORM_VALUE_MAX, in text protocols.
 */
static inline uint32_t form_write_value(const struct keyspace *keys, uint64_t id, uint8_t *out)
{
    const uint8_t *value = keyspace_value(keys, id);
    uint32_t bytes = keys->value_bytes_max;
    uint32_t i;

    for (i = 0; i < bytes; i += FORM_COPY_STEP)
        memcpy(out + i, value + i, FORM_COPY_STEP);
    memcpy(out + bytes, "\r\n", 2);
    return bytes + 2;
}

/*
 * Writes a plain form for the key that begins with this load_key_word() to `out`, which has
 * FORM_ROOM bytes. Returns the length.
 */
static inline uint32_t form_write_plain(const struct form *form, uint64_t word, uint8_t *out)
{
    form_copy(form, out);
    word = (word & form->key_mask) | form->key_rest;
    memcpy(out + form->key_at, &word, sizeof(word));
    return form->len;
}

/* Bits of the word at `at` that are not those of the form, and no key changes. */
static inline uint64_t form_differs(const struct form *form, const uint8_t *data, uint32_t at)
{
    return (form_word(data + at) ^ form_word(form->bytes + at)) & form_word(form->fixed + at);
}

/*
 * Whether these bytes, at least form->len, are what form_write_plain() would write. The form has
 * the length of a word or more; the last word may overlap the one before.
 */
static inline bool form_matches(const struct form *form, uint64_t word, const uint8_t *data)
{
    uint32_t last = form->len - (uint32_t)sizeof(word);
    uint64_t other = (form_word(data + form->key_at) ^ word) & form->key_mask;
    uint32_t i;

    other |= form_differs(form, data, 0) | form_differs(form, data, last);
    for (i = form->middle; i < last; i += (uint32_t)sizeof(word))
        other |= form_differs(form, data, i);
    return other == 0;
}

/*
 * Writes any form for the key that begins with this load_key_word() to `out`, which has FORM_ROOM
 * bytes. `opaque` is what a binary reply has to repeat. Returns the length.
 */
uint32_t form_write(const struct forms *forms, const struct form *form, uint64_t word,
                    uint32_t value_bytes, uint32_t opaque, uint8_t *out);

#endif
