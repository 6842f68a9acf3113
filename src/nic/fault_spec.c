/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses fault specifications: "loss=5%,reorder=5%,dup=2%,corrupt=0.1%,seed=7". */
#include <string.h>

#include "base/base.h"
#include "nic/error.h"
#include "nic/nic.h"

#define PPM_MAX 1000000
#define PPM_PER_PERCENT 10000
#define EXPECTED "expected loss=, dup=, reorder=, corrupt= or seed="

static const struct {
    const char *name;
    size_t offset; /* of a uint32_t in struct nic_fault_config */
} probabilities[] = {
    {"loss=", offsetof(struct nic_fault_config, loss_ppm)},
    {"dup=", offsetof(struct nic_fault_config, duplicate_ppm)},
    {"reorder=", offsetof(struct nic_fault_config, reorder_ppm)},
    {"corrupt=", offsetof(struct nic_fault_config, corrupt_ppm)},
};

#define SEED U_ARRAY_LEN(probabilities)

/* Reads digits up to `end`. Returns the first other character, or null if there are no digits. */
static const char *read_digits(const char *at, const char *end, uint64_t *value)
{
    const char *start = at;

    for (*value = 0; at < end && *at >= '0' && *at <= '9'; at++) {
        unsigned digit = (unsigned)(*at - '0');

        if (*value > (UINT64_MAX - digit) / 10)
            return NULL;
        *value = *value * 10 + digit;
    }
    return at > start ? at : NULL;
}

/* Digits, optionally a point and one to four digits, a percent sign. */
static bool read_percent(const char *at, const char *end, uint32_t *ppm)
{
    uint32_t unit = PPM_PER_PERCENT;
    uint64_t value;

    at = read_digits(at, end, &value);
    if (at == NULL || value > 100)
        return false;
    value *= PPM_PER_PERCENT;
    if (at < end && *at == '.') {
        for (at++; at < end && *at >= '0' && *at <= '9' && unit > 1; at++) {
            unit /= 10;
            value += (uint32_t)(*at - '0') * unit;
        }
        if (unit == PPM_PER_PERCENT)
            return false;
    }
    *ppm = (uint32_t)value;
    return at + 1 == end && *at == '%' && value <= PPM_MAX;
}

static bool begins_with(const char *text, size_t len, const char *name)
{
    return len >= strlen(name) && memcmp(text, name, strlen(name)) == 0;
}

/* One "name=value". Bit i of *seen: probabilities[i], or the seed, was given before. */
static int parse_part(const char *text, size_t len, unsigned *seen, struct nic_fault_config *config,
                      char error[NIC_ERROR_MAX])
{
    int shown = (int)u_min64(len, 80);
    const char *end = text + len;
    unsigned key = 0;

    while (key < SEED && !begins_with(text, len, probabilities[key].name))
        key++;
    if (key == SEED && !begins_with(text, len, "seed="))
        return nic_error_set(error, "\"%.*s\": " EXPECTED, shown, text);
    if ((*seen & 1u << key) != 0)
        return nic_error_set(error, "%.*s: given twice", shown, text);
    *seen |= 1u << key;
    if (key == SEED && read_digits(text + strlen("seed="), end, &config->seed) != end)
        return nic_error_set(error, "%.*s: a number below 2^64, for instance seed=7", shown, text);
    if (key != SEED &&
        !read_percent(text + strlen(probabilities[key].name), end,
                      (uint32_t *)(void *)((char *)config + probabilities[key].offset)))
        return nic_error_set(error,
                             "%.*s: a percentage up to 100%% with at most four decimals, for "
                             "instance 5%% or 0.1%%",
                             shown, text);
    return 0;
}

int nic_fault_parse(const char *spec, struct nic_fault_config *config, char error[NIC_ERROR_MAX])
{
    struct nic_fault_config parsed = {.seed = 1};
    unsigned seen = 0;
    size_t len;

    for (;; spec += len + 1) {
        len = strcspn(spec, ",");
        if (parse_part(spec, len, &seen, &parsed, error) < 0)
            return -1;
        if (spec[len] == '\0')
            break;
    }
    *config = parsed;
    return 0;
}
