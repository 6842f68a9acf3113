/* SPDX-License-Identifier: BSD-3-Clause */
/* Templates of requests and replies; see template.h. */
#include "template.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/wire.h"
#include "mcproto/mcproto.h"

#define KEY_MARK 'K'
#define LENGTH_MARK 'V'
#define EXPTIME_MARK 'E'
#define UNIQUE_MARK 'U'
#define MARK '%'

U_STATIC_ASSERT(TEMPLATE_BYTES_MAX % TEMPLATE_COPY_STEP == 0, template_is_copied_in_whole_steps);

const char *const op_names[OP_COUNT] = {
    [OP_GET] = "get",     [OP_SET] = "set",         [OP_DELETE] = "delete", [OP_INCR] = "incr",
    [OP_TOUCH] = "touch", [OP_DECR] = "decr",       [OP_APPEND] = "append", [OP_CAS] = "cas",
    [OP_GAT] = "gat",     [OP_PREPEND] = "prepend", [OP_GETS] = "gets",     [OP_CREATE] = "set",
    [OP_STATS] = "stats",
};

/* ---- text and meta ----------------------------------------------------------------------- */

/* %K key, %V length of the value, %E expiry time, %U unique number. */
static const char *const patterns[][TEMPLATE_COUNT] = {
    [PROTOCOL_TEXT] =
        {
            [TEMPLATE_GET] = "get %K\r\n",
            [TEMPLATE_SET] = "set %K 0 %E %V\r\n",
            [TEMPLATE_DELETE] = "delete %K\r\n",
            [TEMPLATE_INCR] = "incr %K 1\r\n",
            [TEMPLATE_TOUCH] = "touch %K %E\r\n",
            [TEMPLATE_DECR] = "decr %K 1\r\n",
            [TEMPLATE_APPEND] = "append %K 0 0 %V\r\n",
            [TEMPLATE_PREPEND] = "prepend %K 0 0 %V\r\n",
            [TEMPLATE_GAT] = "gat %E %K\r\n",
            [TEMPLATE_GETS] = "gets %K\r\n",
            [TEMPLATE_CAS] = "cas %K 0 %E %V %U\r\n",
            [TEMPLATE_CREATE] = "set %K 0 %E 1\r\n0\r\n",
            [TEMPLATE_STATS] = "stats ustack\r\n",
            [TEMPLATE_MULTI_FIRST] = "get %K",
            [TEMPLATE_MULTI_NEXT] = " %K",
            [TEMPLATE_MULTI_END] = "\r\n",
            [TEMPLATE_HIT] = "VALUE %K 0 %V\r\n",
            [TEMPLATE_HIT_MULTI] = "VALUE %K 0 %V\r\n",
        },
    [PROTOCOL_META] =
        {
            [TEMPLATE_GET] = "mg %K v\r\n",
            [TEMPLATE_SET] = "ms %K %V T%E\r\n",
            [TEMPLATE_DELETE] = "md %K\r\n",
            [TEMPLATE_INCR] = "ma %K v\r\n",
            [TEMPLATE_TOUCH] = "mg %K T%E\r\n",
            [TEMPLATE_DECR] = "ma %K MD v\r\n",
            [TEMPLATE_APPEND] = "ms %K %V MA\r\n",
            [TEMPLATE_PREPEND] = "ms %K %V MP\r\n",
            [TEMPLATE_GAT] = "mg %K v T%E\r\n",
            [TEMPLATE_GETS] = "mg %K v c\r\n",
            [TEMPLATE_CAS] = "ms %K %V C%U T%E\r\n",
            [TEMPLATE_CREATE] = "ms %K 1 T%E\r\n0\r\n",
            [TEMPLATE_STATS] = "stats ustack\r\n",
            [TEMPLATE_MULTI_FIRST] = "mg %K k v q\r\n",
            [TEMPLATE_MULTI_NEXT] = "mg %K k v q\r\n",
            [TEMPLATE_MULTI_END] = "mn\r\n",
            [TEMPLATE_HIT] = "VA %V\r\n",
            [TEMPLATE_HIT_MULTI] = "VA %V k%K\r\n",
        },
};

static void add_text(struct template *template, const char *text, size_t len)
{
    U_ASSERT(template->len + len <= TEMPLATE_BYTES_MAX);
    memcpy(template->bytes + template->len, text, len);
    template->len = (uint16_t)(template->len + len);
}

static void add_number(struct template *template, uint64_t number)
{
    uint8_t digits[MC_NUMBER_MAX];

    add_text(template, (const char *)digits, mc_write_u64(digits, number));
}

/*
 * Appends the key of id 0: its digit and the padding are zeros, as the higher digits of any other
 * key.
 */
static void add_key(struct template *template, uint32_t key_bytes)
{
    uint32_t in_word = u_min32(key_bytes, sizeof(template->key_mask));

    template->key_offset = template->len;
    template->len =
        (uint16_t)(template->len +
                   load_key_write((char *)template->bytes + template->len, 0, key_bytes));
    memset(&template->key_mask, 0xff, in_word);
}

/* Computes the bytes that are the same for all keys. */
static void find_fixed(struct template *template)
{
    memset(template->fixed, 0xff, sizeof(template->fixed));
    if (template->key_offset == 0)
        return;
    template->key_fill =
        template_word(template->bytes + template->key_offset) & ~template->key_mask;
    memcpy(template->fixed + template->key_offset, &template->key_mask, sizeof(template->key_mask));
    for (unsigned i = 0; i < sizeof(template->key_mask); i++)
        template->fixed[template->key_offset + i] ^= 0xff;
    template->key_end = sizeof(template->key_mask);
    while (template->key_end < template->len && template->fixed[template->key_end] == 0)
        template->key_end++;
}

static void make_text(struct template *template, enum template_kind kind, const char *pattern,
                      const struct keyspace *keys, uint32_t key_bytes, uint32_t exptime_s)
{
    for (; *pattern; pattern++) {
        if (*pattern != MARK) {
            add_text(template, pattern, 1);
            continue;
        }
        pattern++;
        if (*pattern == KEY_MARK)
            add_key(template, key_bytes);
        else if (*pattern == EXPTIME_MARK)
            add_number(template, exptime_s);
        else if (*pattern == UNIQUE_MARK)
            template->unique_offset = template->len;
        else if (keys->value_fixed)
            add_number(template, keys->value_bytes_max);
        else
            template->length_offset = template->len;
    }
    template->key_only = template->key_offset > 0 && template->length_offset == 0 &&
                         (kind == TEMPLATE_SET || !op_carries_value((enum op)kind));
}

/* ---- binary ------------------------------------------------------------------------------ */

#define BINARY_BODY_AT 8
#define BINARY_OPAQUE_AT 12
#define BINARY_CAS_AT 16

struct binary_pattern {
    uint8_t opcode;
    uint8_t extras;
    bool has_key;
    bool has_value;
};

static const struct binary_pattern binary_patterns[TEMPLATE_COUNT] = {
    [TEMPLATE_GET] = {0x00, 0, true, false},         /* get */
    [TEMPLATE_SET] = {0x01, 8, true, true},          /* set: flags, exptime */
    [TEMPLATE_DELETE] = {0x04, 0, true, false},      /* delete */
    [TEMPLATE_INCR] = {0x05, 20, true, false},       /* increment: delta, initial, exptime */
    [TEMPLATE_TOUCH] = {0x1c, 4, true, false},       /* touch: exptime */
    [TEMPLATE_DECR] = {0x06, 20, true, false},       /* decrement: likewise */
    [TEMPLATE_APPEND] = {0x0e, 0, true, true},       /* append */
    [TEMPLATE_PREPEND] = {0x0f, 0, true, true},      /* prepend */
    [TEMPLATE_GAT] = {0x1d, 4, true, false},         /* gat: exptime */
    [TEMPLATE_GETS] = {0x00, 0, true, false},        /* get */
    [TEMPLATE_CAS] = {0x01, 8, true, true},          /* set */
    [TEMPLATE_CREATE] = {0x01, 8, true, false},      /* set, with the value */
    [TEMPLATE_MULTI_FIRST] = {0x0d, 0, true, false}, /* getkq */
    [TEMPLATE_MULTI_NEXT] = {0x0d, 0, true, false},
    [TEMPLATE_MULTI_END] = {0x0a, 0, false, false}, /* noop */
};

static void put_be32(uint8_t *at, uint32_t v)
{
    struct u_be32 be = u_be32(v);

    memcpy(at, &be, sizeof(be));
}

static void make_binary(struct template *template, enum template_kind kind,
                        const struct keyspace *keys, uint32_t key_bytes, uint32_t exptime_s)
{
    const struct binary_pattern *pattern = &binary_patterns[kind];
    uint8_t *extras = template->bytes + BINARY_HEADER_BYTES;
    uint32_t body = pattern->extras + (pattern->has_key ? key_bytes : 0);

    if (pattern->has_value && keys->value_fixed)
        body += keys->value_bytes_max;
    template->opcode = pattern->opcode;
    template->bytes[0] = MC_BINARY_MAGIC_REQUEST;
    template->bytes[1] = pattern->opcode;
    template->bytes[3] = (uint8_t)(pattern->has_key ? key_bytes : 0);
    template->bytes[4] = pattern->extras;
    put_be32(template->bytes + BINARY_BODY_AT, body);
    if (op_counts((enum op)kind)) {
        extras[7] = 1; /* the delta */
        put_be32(extras + 16, MC_BINARY_NO_CREATE);
    } else if (pattern->extras > 0) {
        put_be32(extras + pattern->extras - 4, exptime_s);
    }
    template->len = (uint16_t)(BINARY_HEADER_BYTES + pattern->extras);
    if (pattern->has_key)
        add_key(template, key_bytes);
    if (kind == TEMPLATE_CREATE) {
        add_text(template, "0", 1);
        put_be32(template->bytes + BINARY_BODY_AT, body + 1);
    }
    if (pattern->has_value && !keys->value_fixed)
        template->length_offset = BINARY_BODY_AT;
    if (kind == TEMPLATE_CAS)
        template->unique_offset = BINARY_CAS_AT;
}

/* ---- all of them ------------------------------------------------------------------------- */

int templates_open(struct templates *templates, enum protocol protocol, const struct keyspace *keys,
                   uint32_t exptime_s)
{
    uint32_t sizes = keys->key_bytes_max - keys->key_bytes_min + 1;
    unsigned kinds = protocol == PROTOCOL_BINARY ? TEMPLATE_HIT : TEMPLATE_COUNT;
    unsigned kind;
    uint32_t i;

    memset(templates, 0, sizeof(*templates));
    templates->protocol = protocol;
    templates->keys = keys;
    templates->room = TEMPLATE_ROOM;
    for (kind = 0; kind < kinds; kind++) {
        templates->list[kind] = calloc(sizes, sizeof(struct template));
        if (!templates->list[kind]) {
            templates_close(templates);
            return -1;
        }
        for (i = 0; i < sizes; i++) {
            struct template *template = &templates->list[kind][i];

            if (protocol == PROTOCOL_BINARY)
                make_binary(template, (enum template_kind)kind, keys, keys->key_bytes_min + i,
                            exptime_s);
            else
                make_text(template, (enum template_kind)kind, patterns[protocol][kind], keys,
                          keys->key_bytes_min + i, exptime_s);
            find_fixed(template);
        }
        if (keys->key_fixed && templates->list[kind]->key_only &&
            (kind != TEMPLATE_SET || keys->value_bytes_max <= TEMPLATE_VALUE_MAX))
            templates->whole[kind] = templates->list[kind];
    }
    if (templates->whole[TEMPLATE_SET])
        templates->room += keys->value_bytes_max + TEMPLATE_COPY_STEP;
    return 0;
}

void templates_close(struct templates *templates)
{
    unsigned kind;

    for (kind = 0; kind < TEMPLATE_COUNT; kind++)
        free(templates->list[kind]);
    memset(templates->list, 0, sizeof(templates->list));
}

/* Inserts a number into a message of `len` bytes. Returns the new length. */
static uint32_t insert_number(uint64_t number, uint32_t offset, uint32_t len, uint8_t *out)
{
    uint8_t digits[MC_NUMBER_MAX];
    uint32_t n = mc_write_u64(digits, number);

    memmove(out + offset + n, out + offset, len - offset);
    memcpy(out + offset, digits, n);
    return len + n;
}

uint32_t template_write(const struct templates *templates, const struct template *template,
                        uint64_t word, uint32_t value_bytes, uint32_t opaque, uint8_t *out)
{
    if (template->key_offset > 0)
        template_write_key(template, word, out);
    else
        template_copy(template, out);
    if (templates->protocol == PROTOCOL_BINARY) {
        put_be32(out + BINARY_OPAQUE_AT, opaque);
        if (template->length_offset > 0)
            put_be32(out + template->length_offset,
                     template->len - BINARY_HEADER_BYTES + value_bytes);
        return template->len;
    }
    return template->length_offset > 0
               ? insert_number(value_bytes, template->length_offset, template->len, out)
               : template->len;
}

uint32_t template_write_unique(const struct templates *templates, const struct template *template,
                               uint64_t unique, uint32_t len, uint8_t *out)
{
    /* The length of the value was inserted before it. */
    uint32_t offset = template->unique_offset + (len - template->len);

    if (templates->protocol != PROTOCOL_BINARY)
        return insert_number(unique, offset, len, out);
    put_be32(out + offset, (uint32_t)(unique >> 32));
    put_be32(out + offset + 4, (uint32_t)unique);
    return len;
}
