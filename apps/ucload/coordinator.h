/* SPDX-License-Identifier: BSD-3-Clause */
/* --agents: a run that is distributed over agents of other machines; see agent_wire.h. */
#ifndef UCLOAD_COORDINATOR_H
#define UCLOAD_COORDINATOR_H

#include "agent_conn.h"
#include "options.h"

#define COORDINATOR_AGENTS_MAX 64
#define COORDINATOR_ERROR_MAX 900

struct coordinator_agent {
    struct agent_conn conn;
    const char *name;  /* HOST:PORT as given */
    bool owes;         /* has not answered the request */
    uint64_t heard_ns; /* when it has last sent a frame */
    uint64_t answered;
};

struct coordinator {
    struct coordinator_agent agents[COORDINATOR_AGENTS_MAX];
    unsigned count;
    char text[1000];   /* the list of their names */
    atomic_bool *stop; /* set to end a measurement */
    bool progress;
    bool misused; /* the error is a wrong option */
    char error[COORDINATOR_ERROR_MAX];
};

/*
 * Connects to the agents of o->agents, which open all their connections. The functions return 0, or
 * -1 with an error that names the agent; then all other agents end, too. coordinator_close() is
 * required in all cases.
 */
int coordinator_open(struct coordinator *c, const struct options *o, atomic_bool *stop);

/* Each agent stores its share of the keys. */
int coordinator_store(struct coordinator *c, struct result *result);

/* Runs a measurement; see run_measure(). All agents start when they get the request. */
int coordinator_measure(struct coordinator *c, const struct options *o, double rate, uint64_t salt,
                        struct result *result);

void coordinator_close(struct coordinator *c);

#endif
