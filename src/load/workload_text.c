/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses the text of a workload. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "load/key.h"
#include "load/workload.h"

#define TEXT_MAX 160
#define VALUE_BYTES_MAX (1u << 30)
#define COUNT_MAX 0x1p40

const struct load_preset load_presets[] = {
    {"uniform", "popularity=uniform", "all keys with the same probability"},
    {"zipf", "popularity=zipf:0.99", "Zipf's law with YCSB's exponent"},
    {"hot", "popularity=hot:0.1:0.9", "a tenth of the keys gets nine tenths of the requests"},
    {"latest", "popularity=latest:0.99,get=95,insert=5", "the youngest keys are the most popular"},
    {"ycsb-a", "key=24,value=1000,get=50,set=50", "YCSB A: half reads, half updates"},
    {"ycsb-b", "key=24,value=1000,get=95,set=5", "YCSB B: mostly reads"},
    {"ycsb-c", "key=24,value=1000", "YCSB C: reads only"},
    {"ycsb-d", "key=24,value=1000,popularity=latest:0.99,get=95,insert=5", "YCSB D: read latest"},
    {"etc", "key=etc-key,value=etc-value,get=30,set=1",
     "Facebook's ETC pool: its sizes, 30 reads to an update"},
    {"scan", "scan=0.2,scan-length=10000,scan-keys=4e6,once=0.1",
     "zipf with scans (a fifth of the requests) and one-time keys (a tenth)"},
    {"ttl", "ttl=10@50/60@30/0@20,rate=100000", "zipf where most keys live for seconds"},
    {"drift", "drift=20", "zipf where a new key takes an old one's place every 20 requests"},
    {"twitter-52",
     "key=20,value=273,popularity=zipf:1.21,get=91,set=9,"
     "ttl=86400@65/1209600@27/43200@7,rate=1000",
     "like Twitter's cluster 52"},
    {"twitter-12", "key=44,value=1030,popularity=zipf:0.3,get=20,set=80,ttl=300,rate=10000",
     "like Twitter's cluster 12: writes that live for 300 s"},
    {NULL, NULL, NULL},
};

static const char *const op_names[LOAD_OPS] = {"get", "set", "delete", "incr", "touch", "insert"};

/* The settings of a text. */
struct spec {
    char popularity[TEXT_MAX];
    char key[TEXT_MAX];
    char value[TEXT_MAX];
    char ttl[TEXT_MAX];
    double ops[LOAD_OPS];
    double keys, once, scan, scan_length, scan_keys, drift, rate, seed;
};

static const struct spec defaults = {.popularity = "zipf:0.99",
                                     .key = "20",
                                     .value = "200",
                                     .ttl = "0",
                                     .keys = 1e6,
                                     .scan_length = 10000,
                                     .scan_keys = 4e6,
                                     .rate = 100000,
                                     .seed = 1};

/* Finds a numeric setting and its bounds. Returns null if there is none of that name. */
static double *number_of(struct spec *spec, const char *name, double *min, double *max)
{
    struct {
        const char *name;
        double *at;
        double min, max;
    } numbers[] = {
        {"keys", &spec->keys, 1, COUNT_MAX},
        {"once", &spec->once, 0, 1},
        {"scan", &spec->scan, 0, 0.999},
        {"scan-length", &spec->scan_length, 1, COUNT_MAX},
        {"scan-keys", &spec->scan_keys, 1, COUNT_MAX},
        {"drift", &spec->drift, 0, COUNT_MAX},
        {"rate", &spec->rate, 1e-3, 1e12},
        {"seed", &spec->seed, 0, COUNT_MAX},
    };

    for (unsigned i = 0; i < U_ARRAY_LEN(numbers); i++) {
        if (strcmp(numbers[i].name, name) == 0) {
            *min = numbers[i].min;
            *max = numbers[i].max;
            return numbers[i].at;
        }
    }
    for (unsigned op = 0; op < LOAD_OPS; op++) {
        if (strcmp(op_names[op], name) == 0) {
            *min = 0;
            *max = 1e9;
            return &spec->ops[op];
        }
    }
    return NULL;
}

static char *text_of(struct spec *spec, const char *name)
{
    if (strcmp(name, "popularity") == 0)
        return spec->popularity;
    if (strcmp(name, "key") == 0)
        return spec->key;
    if (strcmp(name, "value") == 0)
        return spec->value;
    return strcmp(name, "ttl") == 0 ? spec->ttl : NULL;
}

/*
 * Applies one "name=value". `fresh`: no weight was given yet, so the first one replaces the
 * preset's weights.
 */
static bool setting(struct spec *spec, const char *name, const char *value, bool *fresh,
                    char *error)
{
    double min, max;
    char *text = text_of(spec, name);
    double *number = text ? NULL : number_of(spec, name, &min, &max);
    char *end;
    double n;

    if (text) {
        snprintf(text, TEXT_MAX, "%s", value);
        return true;
    }
    if (!number) {
        snprintf(error, LOAD_ERROR_MAX, "a workload has no setting \"%.40s\"", name);
        return false;
    }
    n = strtod(value, &end);
    if (end == value || *end != '\0' || !(n >= min && n <= max)) {
        snprintf(error, LOAD_ERROR_MAX, "%.20s=%.40s: give a number between %g and %g", name, value,
                 min, max);
        return false;
    }
    if (number >= spec->ops && number < spec->ops + LOAD_OPS && *fresh) {
        memset(spec->ops, 0, sizeof(spec->ops));
        *fresh = false;
    }
    *number = n;
    return true;
}

/* Applies "name=value,name=value". */
static bool settings(struct spec *spec, const char *text, char *error)
{
    bool fresh = true;

    while (*text != '\0') {
        char pair[TEXT_MAX];
        size_t len = strcspn(text, ",");
        char *equals;
        if (len >= sizeof(pair)) {
            snprintf(error, LOAD_ERROR_MAX, "\"%.40s...\" is too long", text);
            return false;
        }
        memcpy(pair, text, len);
        pair[len] = '\0';
        equals = strchr(pair, '=');
        if (!equals) {
            snprintf(error, LOAD_ERROR_MAX, "\"%.40s\" is no setting: write NAME=VALUE", pair);
            return false;
        }
        *equals = '\0';
        if (!setting(spec, pair, equals + 1, &fresh, error))
            return false;
        text += len;
        if (*text == ',')
            text++;
    }
    return true;
}

static const struct load_preset *preset_of(const char *text, size_t len)
{
    for (const struct load_preset *preset = load_presets; preset->name; preset++)
        if (strlen(preset->name) == len && memcmp(preset->name, text, len) == 0)
            return preset;
    return NULL;
}

static bool ops_build(struct load_workload *workload, const struct spec *spec, char *error)
{
    double sum = 0, upto = 0;

    for (unsigned op = 0; op < LOAD_OPS; op++)
        sum += spec->ops[op];
    if (sum == 0) {
        snprintf(error, LOAD_ERROR_MAX, "all operations have the weight 0");
        return false;
    }
    for (unsigned op = 0; op < LOAD_OPS; op++) {
        upto += spec->ops[op] / sum;
        workload->op_upto[op] = upto;
    }
    /* Rounding must not leave a gap above the last operation with a weight. */
    for (unsigned op = LOAD_OPS; op-- > 0;) {
        workload->op_upto[op] = 2;
        if (spec->ops[op] > 0)
            break;
    }
    return true;
}

static bool build(struct load_workload *workload, const struct spec *spec, char *error)
{
    memset(workload, 0, sizeof(*workload));
    workload->seed = (uint64_t)spec->seed;
    if (!load_popularity_parse(&workload->popularity, spec->popularity, (uint64_t)spec->keys,
                               workload->seed, error) ||
        !load_size_parse(&workload->key_bytes, spec->key, 1, LOAD_KEY_MAX, error) ||
        !load_size_parse(&workload->value_bytes, spec->value, 0, VALUE_BYTES_MAX, error) ||
        !load_size_parse(&workload->ttl_s, spec->ttl, 0, UINT32_MAX / 2, error) ||
        !ops_build(workload, spec, error))
        return false;
    workload->once_share = spec->once;
    workload->scan_length = (uint64_t)spec->scan_length;
    workload->scan_keys = (uint64_t)spec->scan_keys;
    /*
     * A scan starts with probability `begin` after a request outside of a scan: share = begin *
     * length / (1 + begin * length).
     */
    workload->scan_begin = spec->scan / (spec->scan_length * (1 - spec->scan) + spec->scan);
    workload->drift_every = (uint64_t)spec->drift;
    workload->rate = spec->rate;
    load_workload_reseed(workload, 0);
    return true;
}

bool load_workload_parse(struct load_workload *workload, const char *text,
                         char error[LOAD_ERROR_MAX])
{
    struct spec spec = defaults;
    size_t len = strcspn(text, ",");
    const struct load_preset *preset = preset_of(text, len);

    spec.ops[LOAD_GET] = 1;
    if (!preset && !memchr(text, '=', len)) {
        snprintf(error, LOAD_ERROR_MAX, "there is no workload \"%.*s\"", (int)(len < 40 ? len : 40),
                 text);
        return false;
    }
    if (preset) {
        if (!settings(&spec, preset->text, error))
            return false;
        text += len;
        if (*text == ',')
            text++;
    }
    return settings(&spec, text, error) && build(workload, &spec, error);
}
