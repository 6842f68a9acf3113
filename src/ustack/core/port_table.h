/* SPDX-License-Identifier: BSD-3-Clause */
/* Hash tables of local ports: listening TCP ports, bound UDP ports. */
#ifndef USTACK_CORE_PORT_TABLE_H
#define USTACK_CORE_PORT_TABLE_H

#include "base/base.h"

enum { US_PORT_BUCKETS = 64 };

/* A listening or bound port. */
struct us_listener {
    void *user;
    u_u32 conns;    /* TCP: accepted connections that exist */
    u_u32 conn_max; /* bound of conns */
    u_u32 local;    /* TCP, with one_address: id of the only local address */
    u_u16 port;
    u_u16 next;  /* index + 1 of the next in the same bucket, or of the free list */
    u_u16 epoch; /* changes on removal: connections of a former listener don't match */
    u_u8 over;   /* enum us_listen_overflow: for SYNs beyond conn_max */
    u_u8 one_address;
};

struct us_port_table {
    struct us_listener *items; /* the caller's memory */
    u_u16 max;                 /* size of items */
    u_u16 touched;             /* items 0..touched-1 were used at some time */
    u_u16 free_list;           /* index + 1 */
    u_u16 buckets[US_PORT_BUCKETS];
};

/* Returns the entry of a port, or null. */
struct us_listener *us_port_find(const struct us_port_table *table, u_u16 port);

/* Adds a port. Returns 0, US_ERR_ARGUMENT (port 0), US_ERR_IN_USE or US_ERR_NO_MEMORY. */
int us_port_add(struct us_port_table *table, u_u16 port, void *user);

/* Removes a port. Returns 0, or US_ERR_ARGUMENT if it is not in the table. */
int us_port_remove(struct us_port_table *table, u_u16 port);

#endif
