/* SPDX-License-Identifier: BSD-3-Clause */
/* --agent: a load generator that a coordinator of another machine uses; see agent_wire.h. */
#ifndef UCLOAD_AGENT_H
#define UCLOAD_AGENT_H

/*
 * Listens at HOST:PORT and serves coordinators, one at a time and each in a process of its own,
 * until a signal ends it. Returns an exit status after a message on stderr.
 */
int agent_serve(const char *address);

#endif
