/* SPDX-License-Identifier: BSD-3-Clause */
/* The placement of the memory for items: NUMA nodes, and messages about huge pages. */
#ifndef UCACHED_PLACEMENT_H
#define UCACHED_PLACEMENT_H

#include <stdint.h>

#include "common/cores.h"
#include "kv/kv.h"

#define PLACEMENT_TEXT_MAX 400

/* Huge pages of 2 MiB of the system. */
struct placement_system {
    bool reservable;   /* the kernel supports them */
    uint64_t reserved; /* reserved pages (vm.nr_hugepages) */
    uint64_t free;     /* reserved, not used and not claimed */
    bool transparent;  /* the kernel makes transparent huge pages on request */
};

void placement_system_read(struct placement_system *system);

/*
 * The NUMA nodes of the cores that the threads run on, one bit each; of all allowed cores if the
 * list is empty. `node` returns a core's node (cores_node()). Nodes from 64 on are omitted.
 */
uint64_t placement_nodes(const struct cores *cores, unsigned threads, int (*node)(unsigned core));

/*
 * Describes which pages are used, why, and how to get huge pages. `before` is the state before the
 * memory was allocated. Returns text.
 */
const char *placement_pages_text(const struct kv_placement *placement,
                                 const struct placement_system *before,
                                 char text[PLACEMENT_TEXT_MAX]);

#endif
