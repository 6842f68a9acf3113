/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Templates of requests, and of the heads of the expected replies, in the three protocols.
 *
 * A template is a complete message without the value; the digits of the key and, for variable
 * sizes, the length of the value are filled in. There is one template per kind of message and key
 * length.
 */
#ifndef UCLOAD_TEMPLATE_H
#define UCLOAD_TEMPLATE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "keyspace.h"

enum protocol { PROTOCOL_TEXT = 0, PROTOCOL_META, PROTOCOL_BINARY, PROTOCOL_COUNT };

/*
 * OP_GETS reads a value with its unique number, for the OP_CAS that follows. OP_CREATE creates a
 * counter for OP_INCR and OP_DECR; OP_STATS requests the server's statistics.
 */
enum op {
    OP_GET = 0,
    OP_SET,
    OP_DELETE,
    OP_INCR,
    OP_TOUCH,
    OP_DECR,
    OP_APPEND,
    OP_PREPEND,
    OP_GAT,
    OP_GETS,
    OP_CAS,
    OP_CREATE,
    OP_STATS,
    OP_COUNT
};

/* Operations of a mix, which come first. */
#define OP_MIXED OP_CREATE

extern const char *const op_names[OP_COUNT];

/* Whether the request carries the value of its key. */
static inline bool op_carries_value(enum op op)
{
    return (1u << op & (1u << OP_SET | 1u << OP_APPEND | 1u << OP_PREPEND | 1u << OP_CAS)) != 0;
}

/* Whether a hit is answered by the value of the key. */
static inline bool op_reads_value(enum op op)
{
    return (1u << op & (1u << OP_GET | 1u << OP_GAT | 1u << OP_GETS)) != 0;
}

/* Whether the key is a counter. */
static inline bool op_counts(enum op op)
{
    return op == OP_INCR || op == OP_DECR;
}

/* The first kinds are the requests of the operations with the same number. */
enum template_kind {
    TEMPLATE_GET = OP_GET,
    TEMPLATE_SET = OP_SET,
    TEMPLATE_DELETE = OP_DELETE,
    TEMPLATE_INCR = OP_INCR,
    TEMPLATE_TOUCH = OP_TOUCH,
    TEMPLATE_DECR = OP_DECR,
    TEMPLATE_APPEND = OP_APPEND,
    TEMPLATE_PREPEND = OP_PREPEND,
    TEMPLATE_GAT = OP_GAT,
    TEMPLATE_GETS = OP_GETS,
    TEMPLATE_CAS = OP_CAS,
    TEMPLATE_CREATE = OP_CREATE,
    TEMPLATE_STATS = OP_STATS, /* only in text protocols */
    TEMPLATE_MULTI_FIRST,      /* get of several keys: first key, further keys, end */
    TEMPLATE_MULTI_NEXT,
    TEMPLATE_MULTI_END,
    TEMPLATE_HIT,       /* head of the reply to a get; only in text protocols */
    TEMPLATE_HIT_MULTI, /* likewise, one key of several */
    TEMPLATE_COUNT
};

/*
 * The longest: header and extras of a binary set, or the words around a key. A multiple of
 * TEMPLATE_COPY_STEP.
 */
#define TEMPLATE_BYTES_MAX (LOAD_KEY_MAX + 70)

/* Templates are copied in steps; buffers need room for a multiple. */
#define TEMPLATE_COPY_STEP 16
#define TEMPLATE_ROOM (TEMPLATE_BYTES_MAX + 48)

/* Values up to this size are written together with their template. */
#define TEMPLATE_VALUE_MAX 600

#define BINARY_HEADER_BYTES 24

struct template
{
    uint16_t len;
    uint16_t key_offset;    /* offset of the key; 0: none */
    uint16_t length_offset; /* where to insert the value's length; 0: fixed */
    uint16_t key_end;       /* end of the key's first word */
    uint8_t opcode;         /* binary: opcode of the reply */
    bool key_only;          /* only the key is filled in */
    uint16_t unique_offset; /* where to insert the unique number of a cas; 0: none */
    uint64_t key_mask;      /* of the word at the key: the bytes of the key */
    uint64_t key_fill;      /* the other bytes of this word */
    uint8_t bytes[TEMPLATE_BYTES_MAX];
    uint8_t fixed[TEMPLATE_BYTES_MAX]; /* all ones where the byte is the same for all keys */
};

struct templates {
    enum protocol protocol;
    const struct keyspace *keys;
    struct template *list[TEMPLATE_COUNT]; /* by key length, from key_bytes_min */
    /*
     * The template of a kind if it fits all keys and only the key is filled in; for set also if the
     * value is short. Else null.
     */
    const struct template *whole[TEMPLATE_COUNT];
    uint32_t room; /* bytes of the longest of these, with its value */
};

/* exptime_s applies to all requests with an expiry time. Returns 0, or -1 without memory. */
int templates_open(struct templates *templates, enum protocol protocol, const struct keyspace *keys,
                   uint32_t exptime_s);

void templates_close(struct templates *templates);

static inline const struct template *templates_get(const struct templates *templates,
                                                   enum template_kind kind, uint64_t id)
{
    const struct template *shortest = templates->list[kind];

    if (templates->keys->key_fixed)
        return shortest;
    return shortest + (keyspace_key_bytes(templates->keys, id) - templates->keys->key_bytes_min);
}

/*
 * The template of a complete request for this key, or null: like templates.whole, for keys of
 * variable size.
 */
static inline const struct template *templates_get_whole(const struct templates *templates,
                                                         enum op op, uint64_t id)
{
    const struct template *template;

    if (op == OP_SET || templates->keys->key_fixed)
        return templates->whole[op];
    template = templates_get(templates, (enum template_kind)op, id);
    return template->key_only ? template : NULL;
}

static inline uint64_t template_word(const uint8_t *at)
{
    uint64_t word;

    memcpy(&word, at, sizeof(word));
    return word;
}

static inline void template_copy(const struct template *template, uint8_t *out)
{
    uint32_t i;

    memcpy(out, template->bytes, TEMPLATE_COPY_STEP);
    for (i = TEMPLATE_COPY_STEP; i < template->len; i += TEMPLATE_COPY_STEP)
        memcpy(out + i, template->bytes + i, TEMPLATE_COPY_STEP);
}

/*
 * Writes the value of a key and the line end, in steps of TEMPLATE_COPY_STEP. Returns the length.
 * Only for values up to TEMPLATE_VALUE_MAX in text protocols.
 */
static inline uint32_t template_write_value(const struct keyspace *keys, uint64_t id, uint8_t *out)
{
    const uint8_t *value = keyspace_value(keys, id);
    uint32_t bytes = keys->value_bytes_max;
    uint32_t i;

    for (i = 0; i < bytes; i += TEMPLATE_COPY_STEP)
        memcpy(out + i, value + i, TEMPLATE_COPY_STEP);
    memcpy(out + bytes, "\r\n", 2);
    return bytes + 2;
}

/*
 * Writes a template whose only variable is the key, given by its load_key_word(), to `out`, which
 * has TEMPLATE_ROOM bytes. Returns the length.
 */
static inline uint32_t template_write_key(const struct template *template, uint64_t word,
                                          uint8_t *out)
{
    template_copy(template, out);
    word = (word & template->key_mask) | template->key_fill;
    memcpy(out + template->key_offset, &word, sizeof(word));
    return template->len;
}

/* Bits of the word at `at` that differ from the template outside of the key. */
static inline uint64_t template_differs(const struct template *template, const uint8_t *data,
                                        uint32_t at)
{
    return (template_word(data + at) ^ template_word(template->bytes + at)) &
           template_word(template->fixed + at);
}

/*
 * Whether the bytes, at least template->len, are what template_write_key() writes. The template has
 * at least the length of a word; the last word may overlap the previous one.
 */
static inline bool template_matches(const struct template *template, uint64_t word,
                                    const uint8_t *data)
{
    uint32_t last = template->len - (uint32_t)sizeof(word);
    uint64_t other = (template_word(data + template->key_offset) ^ word) & template->key_mask;
    uint32_t i;

    other |= template_differs(template, data, 0) | template_differs(template, data, last);
    for (i = template->key_end; i < last; i += (uint32_t)sizeof(word))
        other |= template_differs(template, data, i);
    return other == 0;
}

/*
 * Writes any template for the key with this load_key_word() to `out`, which has TEMPLATE_ROOM
 * bytes. `opaque` is repeated by a binary reply. Returns the length.
 */
uint32_t template_write(const struct templates *templates, const struct template *template,
                        uint64_t word, uint32_t value_bytes, uint32_t opaque, uint8_t *out);

/* Inserts the unique number into a cas of `len` bytes. Returns the new length. */
uint32_t template_write_unique(const struct templates *templates, const struct template *template,
                               uint64_t unique, uint32_t len, uint8_t *out);

#endif
