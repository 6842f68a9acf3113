/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The keys that are asked for: how long each and its value are, and what the value is. All of it is
 * a function of the key's id, so that every reply can be verified, whoever stored the value.
 *
 * Ids below `count` have values; `count` further ones are the counters that incr is for.
 */
#ifndef UCLOAD_KEYSPACE_H
#define UCLOAD_KEYSPACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"
#include "load/key.h"
#include "load/size.h"
#include "replay.h"

#define KEYSPACE_VALUE_MAX (8u * 1024 * 1024)

/* Values are slices of one text that begin at different places; more keys than that share them. */
#define KEYSPACE_SLICES (1u << 20)

/* Values may be read so far beyond their end. */
#define KEYSPACE_SPARE 16

struct keyspace {
    uint64_t count;
    uint32_t key_bytes_min, key_bytes_max;
    bool key_fixed, value_fixed; /* one size for all */
    struct load_size key_size, value_size;
    const uint8_t *key_bytes; /* of a trace: by id; else null, and likewise the next */
    const uint32_t *value_bytes;
    uint32_t value_bytes_max;
    uint8_t *text;
};

/*
 * Reads the sizes in load/size.h's notation. Keys get at least the bytes that tell them apart.
 * Returns 0, or -1 with a message.
 */
int keyspace_open(struct keyspace *keys, uint64_t count, const char *key_size,
                  const char *value_size, char error[LOAD_ERROR_MAX]);

/* The same with the keys of a trace, which has to stay. */
int keyspace_open_replay(struct keyspace *keys, const struct replay *replay,
                         char error[LOAD_ERROR_MAX]);

void keyspace_close(struct keyspace *keys);

static inline uint32_t keyspace_key_bytes(const struct keyspace *keys, uint64_t id)
{
    if (keys->key_fixed)
        return keys->key_bytes_min;
    if (keys->key_bytes)
        return u_max32(keys->key_bytes[id % keys->count], keys->key_bytes_min);
    return load_size_at(&keys->key_size, load_random_share_of(id, 1));
}

static inline uint32_t keyspace_value_bytes(const struct keyspace *keys, uint64_t id)
{
    if (keys->value_fixed)
        return keys->value_bytes_max;
    if (keys->value_bytes)
        return keys->value_bytes[id % keys->count];
    return load_size_at(&keys->value_size, load_random_share_of(id, 2));
}

/* The value of a key: keyspace_value_bytes() long. */
static inline const uint8_t *keyspace_value(const struct keyspace *keys, uint64_t id)
{
    return keys->text + (id & (KEYSPACE_SLICES - 1));
}

#endif
