/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state file of a copy, for continuing one that was interrupted: how many keys of each source
 * have been handled. Dumps have no lasting order, so a continued copy asks the targets for that
 * many keys before it reads their values.
 */
#ifndef UCWARM_STATE_H
#define UCWARM_STATE_H

#include <stdbool.h>
#include <stdint.h>

#define STATE_SOURCES_MAX 64
#define STATE_ERROR_MAX 400
#define STATE_LINE_MAX 16384

struct state {
    const char *path;          /* null: none is kept */
    char copy[STATE_LINE_MAX]; /* "SRC... to DST...": which copy it is */
    unsigned sources;
    uint64_t passed[STATE_SOURCES_MAX]; /* keys handled */
    bool done[STATE_SOURCES_MAX];
};

/*
 * Reads the file of state->path for the copy named state->copy; no file is a fresh start. Returns
 * 0, or -1 with a message if it cannot be read or is of another copy.
 */
int state_load(struct state *state, char error[STATE_ERROR_MAX]);

/* Replaces the file. Returns 0, or -1 with a message. */
int state_save(const struct state *state, char error[STATE_ERROR_MAX]);

/* The copy is complete: removes the file. */
void state_remove(const struct state *state);

#endif
