/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The keys and their values: sizes and contents are functions of the key's id, so that every reply
 * can be verified, independent of who stored the value.
 *
 * Ids below `count` have values; the next `count` ids are counters for incr.
 */
#ifndef UCLOAD_KEYSPACE_H
#define UCLOAD_KEYSPACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"
#include "load/key.h"
#include "load/size.h"
#include "loaded_trace.h"

#define KEYSPACE_VALUE_MAX (8u * 1024 * 1024)

/* Values are slices of one text with different offsets; keys beyond this number share offsets. */
#define KEYSPACE_SLICES (1u << 20)

/* Readable bytes after the end of a value. */
#define KEYSPACE_SPARE 16

struct keyspace {
    uint64_t count;
    uint32_t key_bytes_min, key_bytes_max;
    bool key_fixed, value_fixed; /* the same size for all keys */
    struct load_size key_size, value_size;
    const uint8_t *key_bytes; /* trace: size by id; else null; likewise value_bytes */
    const uint32_t *value_bytes;
    uint32_t value_bytes_max;
    uint8_t *text;
};

/*
 * Parses the sizes in the notation of load/size.h. Keys are long enough to have different texts.
 * Returns 0, or -1 with a message.
 */
int keyspace_open(struct keyspace *keys, uint64_t count, const char *key_size,
                  const char *value_size, char error[LOAD_ERROR_MAX]);

/* The same for the keys of a trace, which must outlive it. */
int keyspace_open_trace(struct keyspace *keys, const struct loaded_trace *replay,
                        char error[LOAD_ERROR_MAX]);

void keyspace_close(struct keyspace *keys);

static inline uint32_t keyspace_key_bytes(const struct keyspace *keys, uint64_t id)
{
    if (keys->key_fixed)
        return keys->key_bytes_min;
    if (keys->key_bytes)
        return u_max32(keys->key_bytes[id % keys->count], keys->key_bytes_min);
    return load_size_quantile(&keys->key_size, load_random_unit_of(id, 1));
}

static inline uint32_t keyspace_value_bytes(const struct keyspace *keys, uint64_t id)
{
    if (keys->value_fixed)
        return keys->value_bytes_max;
    if (keys->value_bytes)
        return keys->value_bytes[id % keys->count];
    return load_size_quantile(&keys->value_size, load_random_unit_of(id, 2));
}

/* The value of a key, of keyspace_value_bytes(). */
static inline const uint8_t *keyspace_value(const struct keyspace *keys, uint64_t id)
{
    return keys->text + (id & (KEYSPACE_SLICES - 1));
}

#endif
