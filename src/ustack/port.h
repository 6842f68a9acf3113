/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables of local ports: the listening ones of TCP, the bound ones of UDP. */
#ifndef USTACK_PORT_H
#define USTACK_PORT_H

#include "base/base.h"

enum { US_PORT_BUCKETS = 64 };

/* A port that somebody waits at. */
struct us_listener {
    void *user;
    u_u32 conns;    /* of TCP: accepted from here and not ended */
    u_u32 conn_max; /* of these */
    u_u32 local;    /* of TCP, with one_address: the only address of ours that it is for */
    u_u16 port;
    u_u16 next;  /* index + 1 of the next in the same bucket, or of the free list */
    u_u16 epoch; /* changes when the port is removed: its connections are not the next one's */
    u_u8 over;   /* enum us_listen_over: what becomes of connections beyond conn_max */
    u_u8 one_address;
};

struct us_port_table {
    struct us_listener *items; /* the caller's memory */
    u_u16 max;                 /* how many there are */
    u_u16 touched;             /* items 0..touched-1 have been in use at some time */
    u_u16 free_list;           /* index + 1 */
    u_u16 buckets[US_PORT_BUCKETS];
};

/* Who waits at a port, or null. */
struct us_listener *us_port_find(const struct us_port_table *table, u_u16 port);

/* Adds a port. Returns 0, US_ERR_ARGUMENT (port 0), US_ERR_IN_USE or US_ERR_NO_MEMORY. */
int us_port_add(struct us_port_table *table, u_u16 port, void *user);

/* Removes a port. Returns 0, or US_ERR_ARGUMENT if it isn't there. */
int us_port_remove(struct us_port_table *table, u_u16 port);

#endif
