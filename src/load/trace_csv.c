/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses lines of CSV traces. Quoted fields are not supported. */
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "base/siphash.h"
#include "load/trace.h"
#include "load/trace_csv.h"

/* Column names of published traces. */
static const struct {
    const char *name;
    enum trace_csv_column column;
} names[] = {
    {"time", TRACE_CSV_TIME},
    {"timestamp", TRACE_CSV_TIME},
    {"id", TRACE_CSV_ID},
    {"obj_id", TRACE_CSV_ID},
    {"key", TRACE_CSV_ID},
    {"size", TRACE_CSV_SIZE},
    {"obj_size", TRACE_CSV_SIZE},
    {"op", TRACE_CSV_OP},
    {"operation", TRACE_CSV_OP},
    {"ttl", TRACE_CSV_TTL},
    {"key_size", TRACE_CSV_KEY_SIZE},
    {"value_size", TRACE_CSV_VALUE_SIZE},
};

static const struct {
    const char *name;
    enum load_op op;
} ops[] = {
    /* the first name of an operation is used for writing */
    {"get", LOAD_GET},     {"set", LOAD_SET},     {"delete", LOAD_DELETE}, {"incr", LOAD_INCR},
    {"touch", LOAD_TOUCH}, {"gets", LOAD_GET},    {"read", LOAD_GET},      {"write", LOAD_SET},
    {"add", LOAD_SET},     {"replace", LOAD_SET}, {"cas", LOAD_SET},       {"append", LOAD_SET},
    {"prepend", LOAD_SET}, {"decr", LOAD_INCR},
};

const char *trace_csv_op_name(enum load_op op)
{
    for (unsigned i = 0; i < U_ARRAY_LEN(ops); i++)
        if (ops[i].op == op)
            return ops[i].name;
    return ops[1].name; /* an insert is a set */
}

struct field {
    const char *at;
    size_t len;
};

/* Takes the next field, without surrounding blanks. Returns false at the end of the line. */
static bool field_next(const char **line, struct field *field)
{
    const char *at = *line;
    size_t len;

    if (!at)
        return false;
    len = strcspn(at, ",");
    *line = at[len] == ',' ? at + len + 1 : NULL;
    for (; len > 0 && at[0] == ' '; at++)
        len--;
    for (; len > 0 && at[len - 1] == ' ';)
        len--;
    field->at = at;
    field->len = len;
    return true;
}

static bool field_is(const struct field *field, const char *word)
{
    return strlen(word) == field->len && memcmp(word, field->at, field->len) == 0;
}

static enum trace_csv_column column_of(const struct field *field)
{
    for (unsigned i = 0; i < U_ARRAY_LEN(names); i++)
        if (field_is(field, names[i].name))
            return names[i].column;
    return TRACE_CSV_SKIPPED;
}

bool trace_csv_is_header(const char *line)
{
    struct field field;

    while (field_next(&line, &field))
        if (column_of(&field) != TRACE_CSV_SKIPPED)
            return true;
    return false;
}

bool trace_csv_header(struct trace_csv *csv, const char *line, char error[LOAD_ERROR_MAX])
{
    struct field field;
    bool id = false;

    memset(csv, 0, sizeof(*csv));
    while (field_next(&line, &field)) {
        enum trace_csv_column column = column_of(&field);
        if (csv->count == TRACE_CSV_COLUMNS_MAX) {
            snprintf(error, LOAD_ERROR_MAX, "there are more than %d columns",
                     TRACE_CSV_COLUMNS_MAX);
            return false;
        }
        id |= column == TRACE_CSV_ID;
        csv->columns[csv->count++] = column;
        if (column != TRACE_CSV_SKIPPED)
            csv->needed = csv->count;
    }
    if (!id)
        snprintf(error, LOAD_ERROR_MAX, "no column is the id");
    return id;
}

void trace_csv_default(struct trace_csv *csv)
{
    static const enum trace_csv_column order[] = {
        TRACE_CSV_TIME, TRACE_CSV_ID,  TRACE_CSV_SIZE,
        TRACE_CSV_OP,   TRACE_CSV_TTL, TRACE_CSV_KEY_SIZE,
    };

    memset(csv, 0, sizeof(*csv));
    memcpy(csv->columns, order, sizeof(order));
    csv->count = U_ARRAY_LEN(order);
    csv->needed = 3;
}

/* Parses an integer up to max. */
static bool number(const struct field *field, uint64_t max, uint64_t *value)
{
    uint64_t n = 0;

    if (field->len == 0)
        return false;
    for (size_t i = 0; i < field->len; i++) {
        unsigned digit = (unsigned)(field->at[i] - '0');
        if (digit > 9 || n > (max - digit) / 10)
            return false;
        n = n * 10 + digit;
    }
    *value = n;
    return true;
}

/* Parses seconds; fractions are dropped. */
static bool seconds(struct field field, uint64_t *value)
{
    const char *point = memchr(field.at, '.', field.len);

    if (point) {
        for (const char *c = point + 1; c < field.at + field.len; c++)
            if (*c < '0' || *c > '9')
                return false;
        field.len = (size_t)(point - field.at);
    }
    return number(&field, UINT32_MAX, value);
}

static bool id_of(const struct field *field, uint64_t *id)
{
    static const u_u8 key[U_SIPHASH_KEY_BYTES] = {0}; /* the same ids in every run */

    if (field->len == 0)
        return false;
    if (!number(field, UINT64_MAX, id))
        *id = u_siphash13(key, field->at, (u_u32)field->len);
    return true;
}

static bool op_of(const struct field *field, uint64_t *op)
{
    for (unsigned i = 0; i < U_ARRAY_LEN(ops); i++) {
        if (field_is(field, ops[i].name)) {
            *op = ops[i].op;
            return true;
        }
    }
    return false;
}

static bool column_read(enum trace_csv_column column, const struct field *field, uint64_t *value)
{
    switch (column) {
    case TRACE_CSV_SKIPPED:
        return true;
    case TRACE_CSV_TIME:
        return seconds(*field, value);
    case TRACE_CSV_ID:
        return id_of(field, value);
    case TRACE_CSV_OP:
        return op_of(field, value);
    case TRACE_CSV_SIZE:
    case TRACE_CSV_TTL:
    case TRACE_CSV_KEY_SIZE:
    case TRACE_CSV_VALUE_SIZE:
        return number(field, UINT32_MAX / 2, value);
    }
    return false;
}

bool trace_csv_line(const struct trace_csv *csv, const char *line, struct load_request *request,
                    char error[LOAD_ERROR_MAX])
{
    uint64_t values[TRACE_CSV_VALUE_SIZE + 1] = {0};
    uint64_t key_bytes = LOAD_TRACE_KEY_BYTES;
    struct field field;
    unsigned i = 0;

    for (; i < csv->count && field_next(&line, &field); i++) {
        enum trace_csv_column column = csv->columns[i];
        if (!column_read(column, &field, &values[column])) {
            snprintf(error, LOAD_ERROR_MAX, "\"%.*s\" in column %u is not what it should be",
                     (int)(field.len < 40 ? field.len : 40), field.at, i + 1);
            return false;
        }
    }
    if (i < csv->needed) {
        snprintf(error, LOAD_ERROR_MAX, "there are %u columns, not %u", i, csv->needed);
        return false;
    }
    if (values[TRACE_CSV_KEY_SIZE] > 0)
        key_bytes = values[TRACE_CSV_KEY_SIZE];
    if (values[TRACE_CSV_SIZE] > key_bytes)
        values[TRACE_CSV_VALUE_SIZE] = values[TRACE_CSV_SIZE] - key_bytes;
    request->id = values[TRACE_CSV_ID];
    request->time_s = (uint32_t)values[TRACE_CSV_TIME];
    request->ttl_s = (uint32_t)values[TRACE_CSV_TTL];
    request->key_bytes = (uint32_t)key_bytes;
    request->value_bytes = (uint32_t)values[TRACE_CSV_VALUE_SIZE];
    request->op = (enum load_op)values[TRACE_CSV_OP];
    return true;
}
