/* SPDX-License-Identifier: BSD-3-Clause */
/* CPU cores that a program's threads are pinned to. */
#ifndef COMMON_CORES_H
#define COMMON_CORES_H

#include <stdint.h>

#define CORES_MAX 256
#define CORES_SET_BYTES 128
#define CORES_ERROR_MAX 200

#define CORES_NODE_UNKNOWN (-1)

struct cores {
    unsigned count; /* 0: no pinning */
    uint16_t list[CORES_MAX];
    uint8_t allowed[CORES_SET_BYTES]; /* affinity before pinning: cpu_set_t */
};

/*
 * Parses "0-3,8": cores and ranges, in the order in which threads get them, without duplicates.
 * Returns 0, or -1 with a message. Whether they exist is checked by cores_check().
 */
int cores_parse(const char *text, struct cores *cores, char error[CORES_ERROR_MAX]);

/*
 * Checks that this process may run on all cores in the list, and stores the present affinity.
 * Returns 0, or -1 with a message that names a core.
 */
int cores_check(struct cores *cores, char error[CORES_ERROR_MAX]);

/* Lists all cores that this process may run on. Returns 0, or -1 with a message. */
int cores_all(struct cores *cores, char error[CORES_ERROR_MAX]);

/*
 * The core of a thread; with more threads than cores they are assigned round-robin. The list must
 * not be empty.
 */
unsigned cores_of_thread(const struct cores *cores, unsigned thread);

/* Pins the calling thread to a core. Returns 0 or a negative errno value. */
int cores_pin(unsigned core);

/* Restores the affinity stored by cores_check(). */
void cores_unpin(const struct cores *cores);

/* The NUMA node of a core, or CORES_NODE_UNKNOWN. */
int cores_node(unsigned core);

#endif
