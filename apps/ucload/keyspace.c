/* SPDX-License-Identifier: BSD-3-Clause */
/* Keys and values; see keyspace.h. */
#include "keyspace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"

/* The same text in every run, so that values stored by earlier runs can be verified. */
#define TEXT_SEED 11211

static const char letters[64] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";

/* Printable text; slices with different offsets differ in the first bytes. */
static void write_text(uint8_t *text, size_t bytes)
{
    struct u_prng prng;
    uint64_t bits = 0;
    size_t i;

    u_prng_seed(&prng, TEXT_SEED);
    for (i = 0; i < bytes; i++, bits >>= 6) {
        if (i % 10 == 0)
            bits = u_prng_next(&prng);
        text[i] = (uint8_t)letters[bits & 63];
    }
}

/* The smallest and the largest number of a distribution. */
static void find_bounds(const struct load_size *size, uint32_t *min, uint32_t *max)
{
    *min = size->min;
    *max = size->max;
    if (size->choices > 0 || size->law != LOAD_SIZE_UNIFORM)
        return;
    *min = load_size_quantile(size, 0);
    *max = load_size_quantile(size, 1 - 0x1p-53);
}

/* Allocates the text that all values are slices of. */
static int open_text(struct keyspace *keys, char error[LOAD_ERROR_MAX])
{
    size_t bytes = (size_t)KEYSPACE_SLICES + keys->value_bytes_max + KEYSPACE_SPARE;

    keys->text = malloc(bytes);
    if (!keys->text) {
        snprintf(error, LOAD_ERROR_MAX, "no memory for values of up to %u bytes",
                 keys->value_bytes_max);
        return -1;
    }
    write_text(keys->text, bytes);
    return 0;
}

int keyspace_open(struct keyspace *keys, uint64_t count, const char *key_size,
                  const char *value_size, char error[LOAD_ERROR_MAX])
{
    uint32_t needed = load_key_bytes_min(2 * count);
    uint32_t value_bytes_min;

    memset(keys, 0, sizeof(*keys));
    keys->count = count;
    if (!load_size_parse(&keys->key_size, key_size, needed, LOAD_KEY_MAX, error))
        return -1;
    find_bounds(&keys->key_size, &keys->key_bytes_min, &keys->key_bytes_max);
    keys->key_fixed = keys->key_bytes_min == keys->key_bytes_max;
    if (!load_size_parse(&keys->value_size, value_size, 0, KEYSPACE_VALUE_MAX, error))
        return -1;
    find_bounds(&keys->value_size, &value_bytes_min, &keys->value_bytes_max);
    keys->value_fixed = value_bytes_min == keys->value_bytes_max;
    return open_text(keys, error);
}

int keyspace_open_trace(struct keyspace *keys, const struct loaded_trace *replay,
                        char error[LOAD_ERROR_MAX])
{
    uint32_t i;

    memset(keys, 0, sizeof(*keys));
    keys->count = replay->keys;
    keys->key_bytes = replay->key_bytes;
    keys->value_bytes = replay->value_bytes;
    keys->key_bytes_min = load_key_bytes_min(2 * keys->count);
    keys->key_bytes_max = keys->key_bytes_min;
    for (i = 0; i < replay->keys; i++) {
        keys->key_bytes_max = u_max32(keys->key_bytes_max, replay->key_bytes[i]);
        keys->value_bytes_max = u_max32(keys->value_bytes_max, replay->value_bytes[i]);
    }
    return open_text(keys, error);
}

void keyspace_close(struct keyspace *keys)
{
    free(keys->text);
    keys->text = NULL;
}
