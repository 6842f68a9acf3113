/* SPDX-License-Identifier: BSD-3-Clause */
/* The keys of a server, by lru_crawler metadump: read no faster than they are needed. */
#ifndef UCWARM_DUMP_H
#define UCWARM_DUMP_H

#include "peer.h"

struct dump {
    struct peer *peer; /* connected, for this dump only */
    bool ended;
};

/* Begins a dump; waits while another one runs. Returns 0, or -1 with a message in peer->error. */
int dump_begin(struct dump *dump, struct peer *peer);

/* Returns 1 with the next item, 0 at the end, -1 with a message in peer->error. */
int dump_next(struct dump *dump, struct dump_item *item);

#endif
