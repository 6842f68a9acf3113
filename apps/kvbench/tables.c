/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of tables, with placeholders for those whose library is missing in this build. */
#include "kvbench/table.h"

#ifndef KVBENCH_URCU
const struct table_ops table_rculf = {
    .name = "rculfhash",
    .about = "liburcu's lock-free table",
    .absent = "built without liburcu (Debian: liburcu-dev)",
};
#endif

struct kv_hash table_hash_secret;

void table_hash_init(void)
{
    static const uint8_t secret[KV_SECRET_BYTES] = {1, 2, 3, 4, 5, 6, 7, 8};

    kv_hash_init(&table_hash_secret, secret);
}

const struct table_ops *const tables[] = {&table_engine, &table_mutex, &table_rculf, NULL};
