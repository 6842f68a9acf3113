/* SPDX-License-Identifier: BSD-3-Clause */
/* The text form of the harm that fault.c does: "loss=5%,reorder=5%,dup=2%,corrupt=0.1%,seed=7". */
#include <string.h>

#include "base/base.h"
#include "nic/error.h"
#include "nic/nic.h"

#define PPM_MAX 1000000
#define PPM_PER_PERCENT 10000

/* One "key=value" of the spec. */
struct part {
    const char *text;
    size_t len; /* of the whole part */
    const char *value;
    size_t value_len;
};

enum key { KEY_LOSS, KEY_DUP, KEY_REORDER, KEY_CORRUPT, KEY_SEED, KEY_COUNT };

static const char *const key_names[KEY_COUNT] = {"loss", "dup", "reorder", "corrupt", "seed"};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int fail(const struct part *part, const char *allowed, char error[NIC_ERROR_MAX])
{
    nic_error_set(error, "%.*s: %s", (int)u_min64(part->len, 80), part->text, allowed);
    return -1;
}

static int parse_seed(const struct part *part, uint64_t *seed, char error[NIC_ERROR_MAX])
{
    uint64_t value = 0;
    size_t i;

    if (part->value_len == 0)
        return fail(part, "a whole number, for instance seed=7", error);
    for (i = 0; i < part->value_len; i++) {
        unsigned digit = (unsigned)(part->value[i] - '0');

        if (!is_digit(part->value[i]))
            return fail(part, "a whole number, for instance seed=7", error);
        if (value > (UINT64_MAX - digit) / 10)
            return fail(part, "below 2^64", error);
        value = value * 10 + digit;
    }
    *seed = value;
    return 0;
}

/* Digits, then a point and one to four digits if any, then a percent sign. */
static int parse_percent(const struct part *part, uint32_t *ppm, char error[NIC_ERROR_MAX])
{
    const char *p = part->value;
    const char *end = part->value + part->value_len;
    uint32_t value = 0;
    uint32_t unit;

    if (p == end || !is_digit(*p) || end[-1] != '%')
        return fail(part, "a percentage, for instance 5% or 0.1%", error);
    for (; is_digit(*p); p++) {
        value = value * 10 + (uint32_t)(*p - '0') * PPM_PER_PERCENT;
        if (value > PPM_MAX)
            return fail(part, "between 0% and 100%", error);
    }
    if (*p == '.') {
        p++;
        if (!is_digit(*p))
            return fail(part, "a digit must follow the point", error);
        for (unit = PPM_PER_PERCENT / 10; is_digit(*p) && unit > 0; p++, unit /= 10)
            value += (uint32_t)(*p - '0') * unit;
        if (is_digit(*p))
            return fail(part, "at most four digits after the point", error);
    }
    if (p + 1 != end)
        return fail(part, "a percentage, for instance 5% or 0.1%", error);
    if (value > PPM_MAX)
        return fail(part, "between 0% and 100%", error);
    *ppm = value;
    return 0;
}

static enum key find_key(const struct part *part)
{
    size_t key_len = (size_t)(part->value - 1 - part->text);
    int key;

    for (key = 0; key < KEY_COUNT; key++)
        if (strlen(key_names[key]) == key_len && memcmp(key_names[key], part->text, key_len) == 0)
            break;
    return (enum key)key;
}

static int parse_part(struct part *part, unsigned *seen, struct nic_fault_config *config,
                      char error[NIC_ERROR_MAX])
{
    const char *equals = memchr(part->text, '=', part->len);
    enum key key;

    if (part->len == 0) {
        nic_error_set(error, "a part is empty; expected loss=, dup=, reorder=, corrupt= or seed=");
        return -1;
    }
    if (equals == NULL)
        return fail(part, "expected loss=, dup=, reorder=, corrupt= or seed=", error);
    part->value = equals + 1;
    part->value_len = part->len - (size_t)(part->value - part->text);
    key = find_key(part);
    if (key != KEY_COUNT && (*seen & 1u << key) != 0)
        return fail(part, "given twice", error);
    *seen |= 1u << key;

    switch (key) {
    case KEY_LOSS:
        return parse_percent(part, &config->loss_ppm, error);
    case KEY_DUP:
        return parse_percent(part, &config->duplicate_ppm, error);
    case KEY_REORDER:
        return parse_percent(part, &config->reorder_ppm, error);
    case KEY_CORRUPT:
        return parse_percent(part, &config->corrupt_ppm, error);
    case KEY_SEED:
        return parse_seed(part, &config->seed, error);
    case KEY_COUNT:
        break;
    }
    return fail(part, "unknown; loss, dup, reorder, corrupt and seed are known", error);
}

int nic_fault_parse(const char *spec, struct nic_fault_config *config, char error[NIC_ERROR_MAX])
{
    struct nic_fault_config parsed = {.seed = 1};
    struct part part = {.text = spec};
    unsigned seen = 0;

    for (;;) {
        part.len = strcspn(part.text, ",");
        if (parse_part(&part, &seen, &parsed, error) < 0)
            return -1;
        if (part.text[part.len] == '\0')
            break;
        part.text += part.len + 1;
    }
    *config = parsed;
    return 0;
}
