/* SPDX-License-Identifier: BSD-3-Clause */
/* The commands of packet scripts that are calls of the application: send, close, keep, ... */
#ifndef TEST_CALLS_H
#define TEST_CALLS_H

#include "script.h"

/* Runs the command of this name on the rest of the line. Returns 0 if there is none. */
int calls_run(struct script *s, const char *name);

/* The flow that the line names, at the time of the line; fails if it has no connection. */
struct rig_flow *calls_flow(struct script *s);

#endif
