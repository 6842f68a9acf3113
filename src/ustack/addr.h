/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses behind the API, and the way to them.
 *
 * An IPv4 address is a number in host byte order. An IPv6 address stays as it came, 16 bytes, and
 * has an id of 32 bits for the places where space counts, above all the names of connections: of
 * an address of ours its place in the table (0..US_LOCAL6_MAX-1, which is no IPv4 address of any
 * host), of another host's a keyed hash, beside which the whole address is compared.
 */
#ifndef USTACK_ADDR_H
#define USTACK_ADDR_H

#include "base/base.h"
#include "ustack/ustack.h"

struct us_ip6 {
    u_u8 b[16];
};

U_STATIC_ASSERT(sizeof(struct us_ip6) == 16, ip6_size);

/* An address of either family, to be passed by value. */
struct us_ip {
    u_u32 id;                 /* IPv4: the address; IPv6: us_ip6_id() */
    const struct us_ip6 *six; /* null: IPv4 */
};

enum { US_LOCAL_MAX = 8, US_LOCAL6_MAX = 8 };

/* One IPv4 address of ours. */
struct us_local {
    u_u32 ip;
    u_u32 mask;
};

enum us_local6_state {
    US_LOCAL6_FREE,      /* nothing is here */
    US_LOCAL6_TENTATIVE, /* RFC 4862 5.4: perhaps somebody else has it */
    US_LOCAL6_PREFERRED,
    US_LOCAL6_DEPRECATED, /* RFC 4862 5.5.4: not for new connections of ours */
    US_LOCAL6_DUPLICATE   /* somebody else has it: not used */
};

/* One IPv6 address of ours. */
struct us_local6 {
    struct us_ip6 addr;
    u_u8 state;      /* enum us_local6_state */
    u_u8 prefix_len; /* what is on the link with it; 128 where a router's prefix says that */
    u_u8 probes;     /* of the detection of duplicates, still to be sent */
    u_u8 is_auto;    /* made of a router's prefix */
    u_u64 next_us;   /* the next probe, or the end of the wait behind the last; else US_NEVER */
    u_u64 preferred_until_us;
    u_u64 valid_until_us;
};

/* How a destination is reached. */
struct us_route {
    u_u32 src_ip; /* the address of ours to use: IPv4, or a place in the table */
    struct us_ip next_hop;
};

struct us_stack;

/* Whether the id of an address of ours is an IPv6 one's. */
U_INLINE int us_local_is_ip6(u_u32 id)
{
    return id < US_LOCAL6_MAX;
}

U_INLINE struct us_ip us_ip4(u_u32 ip)
{
    struct us_ip r;
    r.id = ip;
    r.six = (const struct us_ip6 *)U_NULL;
    return r;
}

/* The id of another host's address. */
u_u32 us_ip6_id(const struct us_stack *stack, const struct us_ip6 *addr);

U_INLINE struct us_ip us_ip6(const struct us_stack *stack, const struct us_ip6 *addr)
{
    struct us_ip r;
    r.id = us_ip6_id(stack, addr);
    r.six = addr;
    return r;
}

/* In words: a comparison of 16 bytes would be left to the C library on 32-bit machines. */
U_INLINE int us_ip6_equal(const struct us_ip6 *a, const struct us_ip6 *b)
{
    u_u32 x[4];
    u_u32 y[4];

    u_copy(x, a, sizeof(x));
    u_copy(y, b, sizeof(y));
    return ((x[0] ^ y[0]) | (x[1] ^ y[1]) | (x[2] ^ y[2]) | (x[3] ^ y[3])) == 0;
}

U_INLINE int us_ip6_is_multicast(const struct us_ip6 *addr)
{
    return addr->b[0] == 0xff;
}

U_INLINE int us_ip6_is_link_local(const struct us_ip6 *addr)
{
    return addr->b[0] == 0xfe && (addr->b[1] & 0xc0) == 0x80;
}

extern const struct us_ip6 us_ip6_any;       /* :: */
extern const struct us_ip6 us_ip6_all_nodes; /* ff02::1 */

/* The multicast group that an address is asked for at (RFC 4291 2.7.1). */
struct us_ip6 us_ip6_solicited_node(const struct us_ip6 *addr);

/* Whether the first `bits` bits are the same. */
int us_ip6_prefix_equal(const struct us_ip6 *a, const struct us_ip6 *b, unsigned bits);

/* An address of the API; ip->six points into it. Returns 0 if its family is unknown. */
int us_addr_to_ip(const struct us_stack *stack, const struct us_addr *addr, struct us_ip *ip);

/* The other way: of another host's address, and of one of ours by its id. */
void us_addr_from_ip(struct us_addr *addr, struct us_ip ip);
void us_addr_from_local(const struct us_stack *stack, struct us_addr *addr, u_u32 id);

/* Whether an address can name one host at all: not ::, multicast, loopback or a broadcast. */
int us_ip_is_unicast(const struct us_stack *stack, struct us_ip ip);

/* Whether an IPv4 address is that of all hosts, or of all on a network of ours (RFC 919). */
int us_ip4_is_broadcast(const struct us_stack *stack, u_u32 ip);

/* Whether an address is one of ours. */
int us_ip_is_local(const struct us_stack *stack, struct us_ip ip);

/* The same for IPv4. */
int us_local_is(const struct us_stack *stack, u_u32 ip);

/* The place of an address in the table, whatever its state; US_LOCAL6_MAX if it isn't ours. */
u_u32 us_local6_find(const struct us_stack *stack, const struct us_ip6 *addr);

/* Whether packets may be sent from and taken at it. */
U_INLINE int us_local6_is_usable(const struct us_local6 *local)
{
    return local->state == US_LOCAL6_PREFERRED || local->state == US_LOCAL6_DEPRECATED;
}

/*
 * The id of an address of ours that can be used: what a packet of this family names us by. Returns
 * 1, or 0 if it isn't ours.
 */
int us_local_id(const struct us_stack *stack, struct us_ip ip, u_u32 *id);

/* Whether an address is a neighbour's: on a network of ours, no broadcast and not ours. */
int us_ip_is_neighbour(const struct us_stack *stack, struct us_ip ip);

/* Finds the way to an address. Returns 1, or 0 if there is none. */
int us_route_find(const struct us_stack *stack, struct us_ip dst, struct us_route *route);

#endif
