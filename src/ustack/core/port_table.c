/* SPDX-License-Identifier: BSD-3-Clause */
/* Port tables; see port_table.h. */
#include "ustack/core/port_table.h"

#include "ustack/ustack.h"

static unsigned port_bucket(u_u16 port)
{
    return port % US_PORT_BUCKETS;
}

struct us_listener *us_port_find(const struct us_port_table *table, u_u16 port)
{
    u_u16 at = table->buckets[port_bucket(port)];

    while (at != 0) {
        struct us_listener *listener = &table->items[at - 1];
        if (listener->port == port)
            return listener;
        at = listener->next;
    }
    return (struct us_listener *)U_NULL;
}

int us_port_add(struct us_port_table *table, u_u16 port, void *user)
{
    struct us_listener *listener;
    u_u16 at = table->free_list;
    u_u16 *bucket = &table->buckets[port_bucket(port)];

    if (port == 0)
        return US_ERR_ARGUMENT;
    if (us_port_find(table, port) != U_NULL)
        return US_ERR_IN_USE;
    if (at == 0) {
        if (table->touched == table->max)
            return US_ERR_NO_MEMORY;
        at = ++table->touched;
    } else {
        table->free_list = table->items[at - 1].next;
    }
    listener = &table->items[at - 1];
    listener->port = port;
    listener->user = user;
    listener->conns = 0;
    listener->conn_max = ~(u_u32)0;
    listener->over = US_LISTEN_DROP;
    listener->one_address = 0;
    listener->next = *bucket;
    *bucket = at;
    return US_OK;
}

int us_port_remove(struct us_port_table *table, u_u16 port)
{
    u_u16 *at = &table->buckets[port_bucket(port)];

    while (*at != 0) {
        struct us_listener *listener = &table->items[*at - 1];
        if (listener->port == port) {
            u_u16 index = *at;
            *at = listener->next;
            listener->port = 0;
            listener->epoch++;
            listener->next = table->free_list;
            table->free_list = index;
            return US_OK;
        }
        at = &listener->next;
    }
    return US_ERR_ARGUMENT;
}
