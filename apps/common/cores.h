/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cores that a program's threads run on.
 */
#ifndef COMMON_CORES_H
#define COMMON_CORES_H

#include <stdint.h>

#define CORES_MAX 256
#define CORES_SET_BYTES 128
#define CORES_ERROR_MAX 200

#define CORES_NODE_UNKNOWN (-1)

struct cores {
    unsigned count; /* 0: the kernel decides */
    uint16_t list[CORES_MAX];
    uint8_t allowed[CORES_SET_BYTES]; /* what the process had before: cpu_set_t */
};

/*
 * Reads "0-3,8": cores and ranges of them, in the order in which threads get them, each once.
 * Returns 0, or -1 with a message. Whether they exist is for cores_check().
 */
int cores_parse(const char *text, struct cores *cores, char error[CORES_ERROR_MAX]);

/*
 * Whether this process may run on all of them; remembers where it may run. Returns 0, or -1 with a
 * message that names one.
 */
int cores_check(struct cores *cores, char error[CORES_ERROR_MAX]);

/*
 * All cores that this process may run on, in their order. Returns 0, or -1 with a message.
 */
int cores_all(struct cores *cores, char error[CORES_ERROR_MAX]);

/*
 * The core of a thread by its number; with more threads than cores they take turns. Not for an
 * empty list.
 */
unsigned cores_of_thread(const struct cores *cores, unsigned thread);

/* Keeps the calling thread on a core. Returns 0 or a negative errno value. */
int cores_pin(unsigned core);

/* Lets the calling thread run where it might before cores_check(). */
void cores_unpin(const struct cores *cores);

/* The NUMA node of a core, or CORES_NODE_UNKNOWN. */
int cores_node(unsigned core);

#endif
