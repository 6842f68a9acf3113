/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The connection table, and the numbers that must be unpredictable for outsiders: initial sequence
 * numbers, timestamp offsets, ports.
 */
#include "ustack/tcp/tcp.h"
#include "ustack/tcp/tcp_synq.h"
#include "ustack/tcp/tcp_tw.h"

U_STATIC_ASSERT(sizeof(struct us_tcp_key) == 12, tcp_key_has_no_padding);

/* RFC 6056 3.2 recommends the largest possible range; this one excludes well-known servers. */
enum { PORT_FIRST = 0x8000, PORT_COUNT = 0x8000 };

/* Over IPv6 equal 4-tuples belong to one connection only if the whole addresses are equal. */
static int conn_is(const struct us_conn *conn, const struct us_tcp_key *key,
                   const struct us_ip6 *remote6)
{
    return us_tcp_key_equal(&conn->key, key) &&
           (U_LIKELY(remote6 == U_NULL) || us_ip6_equal(us_conn_remote6(conn), remote6));
}

struct us_conn *us_tcp_find(const struct us_stack *stack, const struct us_tcp_key *key,
                            const struct us_ip6 *remote6)
{
    struct us_conn *conn = *us_tcp_bucket(stack, key);

    while (conn != U_NULL && !conn_is(conn, key, remote6))
        conn = conn->hash_next;
    return conn;
}

void us_tcp_table_add(struct us_stack *stack, struct us_conn *conn)
{
    struct us_conn **bucket = us_tcp_bucket(stack, &conn->key);

    conn->hash_next = *bucket;
    *bucket = conn;
}

void us_tcp_table_remove(struct us_stack *stack, struct us_conn *conn)
{
    struct us_conn **at = us_tcp_bucket(stack, &conn->key);

    while (*at != conn) {
        U_ASSERT(*at != U_NULL);
        at = &(*at)->hash_next;
    }
    *at = conn->hash_next;
    conn->hash_next = (struct us_conn *)U_NULL;
}

u_u32 us_tcp_isn(const struct us_stack *stack, const struct us_tcp_key *key)
{
    u_u32 hash = (u_u32)u_siphash24(stack->key_isn, key, sizeof(*key));

    return hash + (u_u32)(stack->now_us >> 2);
}

u_u32 us_tcp_ts_offset(const struct us_stack *stack, const struct us_tcp_key *key)
{
    return (u_u32)u_siphash24(stack->key_ts, key, sizeof(*key));
}

int us_tcp_tuple_in_use(const struct us_stack *stack, const struct us_tcp_key *key,
                        const struct us_ip6 *remote6)
{
    return us_tcp_find(stack, key, remote6) != U_NULL ||
           us_synq_find(stack, key, remote6) != U_NULL || us_tw_find(stack, key, remote6) != U_NULL;
}

int us_tcp_port_choose(struct us_stack *stack, struct us_tcp_key *key, const struct us_ip6 *remote6)
{
    u_u32 offset;
    u_u32 i;

    key->local_port = 0;
    offset = (u_u32)u_siphash24(stack->key_port, key, sizeof(*key));
    for (i = 0; i < PORT_COUNT; i++) {
        u_u32 slot = (offset + stack->port_next++) & (PORT_COUNT - 1);
        key->local_port = (u_u16)(PORT_FIRST + slot);
        if (!us_tcp_tuple_in_use(stack, key, remote6) &&
            us_tcp_listener_find(stack, key->local_port) == U_NULL)
            return 1;
    }
    return 0;
}
