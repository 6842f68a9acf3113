/* SPDX-License-Identifier: BSD-3-Clause */
/* Prepared requests; see form.h. */
#include "form.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/wire.h"
#include "mcproto/mcproto.h"

#define KEY_MARK 'K'
#define LENGTH_MARK 'V'
#define EXPTIME_MARK 'E'
#define MARK '%'

U_STATIC_ASSERT(FORM_BYTES_MAX % FORM_COPY_STEP == 0, form_is_copied_in_whole_steps);

/* ---- text and meta ----------------------------------------------------------------------- */

/* %K the key, %V the length of the value, %E the exptime. */
static const char *const patterns[][FORM_COUNT] = {
    [PROTOCOL_TEXT] =
        {
            [FORM_GET] = "get %K\r\n",
            [FORM_SET] = "set %K 0 %E %V\r\n",
            [FORM_DELETE] = "delete %K\r\n",
            [FORM_INCR] = "incr %K 1\r\n",
            [FORM_TOUCH] = "touch %K %E\r\n",
            [FORM_CREATE] = "set %K 0 %E 1\r\n0\r\n",
            [FORM_STATS] = "stats ustack\r\n",
            [FORM_MULTI_FIRST] = "get %K",
            [FORM_MULTI_NEXT] = " %K",
            [FORM_MULTI_END] = "\r\n",
            [FORM_HIT] = "VALUE %K 0 %V\r\n",
            [FORM_HIT_MULTI] = "VALUE %K 0 %V\r\n",
        },
    [PROTOCOL_META] =
        {
            [FORM_GET] = "mg %K v\r\n",
            [FORM_SET] = "ms %K %V T%E\r\n",
            [FORM_DELETE] = "md %K\r\n",
            [FORM_INCR] = "ma %K v\r\n",
            [FORM_TOUCH] = "mg %K T%E\r\n",
            [FORM_CREATE] = "ms %K 1 T%E\r\n0\r\n",
            [FORM_STATS] = "stats ustack\r\n",
            [FORM_MULTI_FIRST] = "mg %K k v q\r\n",
            [FORM_MULTI_NEXT] = "mg %K k v q\r\n",
            [FORM_MULTI_END] = "mn\r\n",
            [FORM_HIT] = "VA %V\r\n",
            [FORM_HIT_MULTI] = "VA %V k%K\r\n",
        },
};

static void add_text(struct form *form, const char *text, size_t len)
{
    U_ASSERT(form->len + len <= FORM_BYTES_MAX);
    memcpy(form->bytes + form->len, text, len);
    form->len = (uint16_t)(form->len + len);
}

static void add_number(struct form *form, uint64_t number)
{
    uint8_t digits[MC_NUMBER_MAX];

    add_text(form, (const char *)digits, mc_write_u64(digits, number));
}

/* The key 0: its digits are zeros, and so is what stands for the higher digits of any other. */
static void add_key(struct form *form, uint32_t key_bytes)
{
    uint32_t in_word = u_min32(key_bytes, sizeof(form->key_mask));

    form->key_at = form->len;
    form->len =
        (uint16_t)(form->len + load_key_write((char *)form->bytes + form->len, 0, key_bytes));
    memset(&form->key_mask, 0xff, in_word);
}

/* When all bytes are there: which of them no key changes. */
static void find_fixed(struct form *form)
{
    memset(form->fixed, 0xff, sizeof(form->fixed));
    if (form->key_at == 0)
        return;
    form->key_rest = form_word(form->bytes + form->key_at) & ~form->key_mask;
    memcpy(form->fixed + form->key_at, &form->key_mask, sizeof(form->key_mask));
    for (unsigned i = 0; i < sizeof(form->key_mask); i++)
        form->fixed[form->key_at + i] ^= 0xff;
    form->middle = sizeof(form->key_mask);
    while (form->middle < form->len && form->fixed[form->middle] == 0)
        form->middle++;
}

static void make_text(struct form *form, const char *pattern, const struct keyspace *keys,
                      uint32_t key_bytes, uint32_t exptime_s)
{
    for (; *pattern; pattern++) {
        if (*pattern != MARK) {
            add_text(form, pattern, 1);
            continue;
        }
        pattern++;
        if (*pattern == KEY_MARK)
            add_key(form, key_bytes);
        else if (*pattern == EXPTIME_MARK)
            add_number(form, exptime_s);
        else if (keys->value_fixed)
            add_number(form, keys->value_bytes_max);
        else
            form->length_at = form->len;
    }
    form->plain = form->key_at > 0 && form->length_at == 0;
}

/* ---- binary ------------------------------------------------------------------------------ */

#define BINARY_BODY_AT 8
#define BINARY_OPAQUE_AT 12

struct binary_pattern {
    uint8_t opcode;
    uint8_t extras;
    bool has_key;
    bool has_value;
};

static const struct binary_pattern binary_patterns[FORM_COUNT] = {
    [FORM_GET] = {0x00, 0, true, false},         /* get */
    [FORM_SET] = {0x01, 8, true, true},          /* set: flags, exptime */
    [FORM_DELETE] = {0x04, 0, true, false},      /* delete */
    [FORM_INCR] = {0x05, 20, true, false},       /* increment: delta, initial, exptime */
    [FORM_TOUCH] = {0x1c, 4, true, false},       /* touch: exptime */
    [FORM_CREATE] = {0x01, 8, true, false},      /* set; the value is in the form */
    [FORM_MULTI_FIRST] = {0x0d, 0, true, false}, /* getkq */
    [FORM_MULTI_NEXT] = {0x0d, 0, true, false},
    [FORM_MULTI_END] = {0x0a, 0, false, false}, /* noop */
};

static void put_be32(uint8_t *at, uint32_t v)
{
    struct u_be32 be = u_be32(v);

    memcpy(at, &be, sizeof(be));
}

static void make_binary(struct form *form, enum form_kind kind, const struct keyspace *keys,
                        uint32_t key_bytes, uint32_t exptime_s)
{
    const struct binary_pattern *pattern = &binary_patterns[kind];
    uint8_t *extras = form->bytes + BINARY_HEADER_BYTES;
    uint32_t body = pattern->extras + (pattern->has_key ? key_bytes : 0);

    if (pattern->has_value && keys->value_fixed)
        body += keys->value_bytes_max;
    form->opcode = pattern->opcode;
    form->bytes[0] = MC_BINARY_MAGIC_REQUEST;
    form->bytes[1] = pattern->opcode;
    form->bytes[3] = (uint8_t)(pattern->has_key ? key_bytes : 0);
    form->bytes[4] = pattern->extras;
    put_be32(form->bytes + BINARY_BODY_AT, body);
    if (pattern->opcode == 0x05) {
        extras[7] = 1; /* the delta */
        put_be32(extras + 16, MC_BINARY_NO_CREATE);
    } else if (pattern->extras > 0) {
        put_be32(extras + pattern->extras - 4, exptime_s);
    }
    form->len = (uint16_t)(BINARY_HEADER_BYTES + pattern->extras);
    if (pattern->has_key)
        add_key(form, key_bytes);
    if (kind == FORM_CREATE) {
        add_text(form, "0", 1);
        put_be32(form->bytes + BINARY_BODY_AT, body + 1);
    }
    if (pattern->has_value && !keys->value_fixed)
        form->length_at = BINARY_BODY_AT;
}

/* ---- all of them ------------------------------------------------------------------------- */

int forms_open(struct forms *forms, enum protocol protocol, const struct keyspace *keys,
               uint32_t exptime_s)
{
    uint32_t sizes = keys->key_bytes_max - keys->key_bytes_min + 1;
    unsigned kinds = protocol == PROTOCOL_BINARY ? FORM_HIT : FORM_COUNT;
    unsigned kind;
    uint32_t i;

    memset(forms, 0, sizeof(*forms));
    forms->protocol = protocol;
    forms->keys = keys;
    forms->room = FORM_ROOM;
    for (kind = 0; kind < kinds; kind++) {
        forms->list[kind] = calloc(sizes, sizeof(struct form));
        if (!forms->list[kind]) {
            forms_close(forms);
            return -1;
        }
        for (i = 0; i < sizes; i++) {
            struct form *form = &forms->list[kind][i];

            if (protocol == PROTOCOL_BINARY)
                make_binary(form, (enum form_kind)kind, keys, keys->key_bytes_min + i, exptime_s);
            else
                make_text(form, patterns[protocol][kind], keys, keys->key_bytes_min + i, exptime_s);
            find_fixed(form);
        }
        if (keys->key_fixed && forms->list[kind]->plain &&
            (kind != FORM_SET || keys->value_bytes_max <= FORM_VALUE_MAX))
            forms->only[kind] = forms->list[kind];
    }
    if (forms->only[FORM_SET])
        forms->room += keys->value_bytes_max + FORM_COPY_STEP;
    return 0;
}

void forms_close(struct forms *forms)
{
    unsigned kind;

    for (kind = 0; kind < FORM_COUNT; kind++)
        free(forms->list[kind]);
    memset(forms->list, 0, sizeof(forms->list));
}

/* Opens a gap where the length belongs. Returns how long the form is then. */
static uint32_t insert_length(const struct form *form, uint32_t value_bytes, uint8_t *out)
{
    uint8_t digits[MC_NUMBER_MAX];
    uint32_t n = mc_write_u64(digits, value_bytes);

    memmove(out + form->length_at + n, out + form->length_at, form->len - form->length_at);
    memcpy(out + form->length_at, digits, n);
    return form->len + n;
}

uint32_t form_write(const struct forms *forms, const struct form *form, uint64_t word,
                    uint32_t value_bytes, uint32_t opaque, uint8_t *out)
{
    if (form->key_at > 0)
        form_write_plain(form, word, out);
    else
        form_copy(form, out);
    if (forms->protocol == PROTOCOL_BINARY) {
        put_be32(out + BINARY_OPAQUE_AT, opaque);
        if (form->length_at > 0)
            put_be32(out + form->length_at, form->len - BINARY_HEADER_BYTES + value_bytes);
        return form->len;
    }
    return form->length_at > 0 ? insert_length(form, value_bytes, out) : form->len;
}
