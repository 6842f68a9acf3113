/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of tables. Those whose library was not there when this was built say so. */
#include "kvbench/table.h"

#ifndef KVBENCH_URCU
const struct table_ops table_rculf = {
    .name = "rculfhash",
    .about = "liburcu's lock-free table",
    .absent = "this build was made without liburcu (Debian: liburcu-dev)",
};
#endif

#ifndef KVBENCH_CK
const struct table_ops table_ck = {
    .name = "ck_ht",
    .about = "Concurrency Kit's table",
    .absent = "this build was made without Concurrency Kit (Debian: libck-dev)",
};
#endif

const struct table_ops *const tables[] = {&table_engine, &table_mutex, &table_rculf, &table_ck,
                                          NULL};
