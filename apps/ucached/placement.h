/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the memory of the items is to come from, and what is said of where it has come from.
 */
#ifndef UCACHED_PLACEMENT_H
#define UCACHED_PLACEMENT_H

#include <stdint.h>

#include "common/cores.h"
#include "kv/kv.h"

#define PLACEMENT_TEXT_MAX 400

/* What the system has of huge pages of 2 MiB; and whether it makes them without being told. */
struct placement_system {
    bool reservable;   /* it has them at all */
    uint64_t reserved; /* that were set aside */
    uint64_t free;     /* of these: that nobody has or has claimed */
    bool transparent;  /* the kernel makes them of what it is asked to */
};

void placement_system_read(struct placement_system *system);

/*
 * The NUMA nodes of the cores that so many threads run on, a bit each; of all that the process may
 * use, if the list is empty. `node` says a core's: cores_node(). Those from 64 on are left out.
 */
uint64_t placement_nodes(const struct cores *cores, unsigned threads, int (*node)(unsigned core));

/*
 * What huge pages it has become, why, and what can be done about it. `before` is the system before
 * the memory was taken. Returns text.
 */
const char *placement_pages_text(const struct kv_placement *placement,
                                 const struct placement_system *before,
                                 char text[PLACEMENT_TEXT_MAX]);

#endif
