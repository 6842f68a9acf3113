/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses inside the stack, local addresses, and routes.
 *
 * An IPv4 address is a number in host byte order. An IPv6 address is its 16 bytes, and has a 32-bit
 * id for compact keys such as the 4-tuple of a connection: for a local address its index in
 * us_nd.locals (0..US_LOCAL6_MAX-1, which is no IPv4 host address), for another address a keyed
 * hash; a lookup by hash also compares the whole address.
 */
#ifndef USTACK_IP_ADDR_H
#define USTACK_IP_ADDR_H

#include "base/base.h"
#include "ustack/ustack.h"

struct us_ip6 {
    u_u8 b[16];
};

U_STATIC_ASSERT(sizeof(struct us_ip6) == 16, ip6_size);

/* An address of either family, passed by value. */
struct us_ip {
    u_u32 id;                 /* IPv4: the address; IPv6: us_ip6_id() */
    const struct us_ip6 *six; /* null: IPv4 */
};

enum { US_LOCAL_MAX = 8, US_LOCAL6_MAX = 8 };

/* A local IPv4 address. */
struct us_local {
    u_u32 ip;
    u_u32 mask;
};

enum us_local6_state {
    US_LOCAL6_FREE,      /* the entry is unused */
    US_LOCAL6_TENTATIVE, /* RFC 4862 5.4: duplicate detection in progress */
    US_LOCAL6_PREFERRED,
    US_LOCAL6_DEPRECATED, /* RFC 4862 5.5.4: not the source of new connections */
    US_LOCAL6_DUPLICATE   /* another host has it: not used */
};

/* A local IPv6 address. */
struct us_local6 {
    struct us_ip6 addr;
    u_u8 state;      /* enum us_local6_state */
    u_u8 prefix_len; /* on-link prefix; 128 for an autoconfigured address */
    u_u8 probes;     /* probes of duplicate detection still to be sent */
    u_u8 is_auto;    /* autoconfigured from a router's prefix */
    u_u64 next_us;   /* the next probe or the end of detection; else US_NEVER */
    u_u64 preferred_until_us;
    u_u64 valid_until_us;
};

/* The route to a destination. */
struct us_route {
    u_u32 src_ip; /* id of the source address */
    struct us_ip next_hop;
};

struct us_stack;

/* Whether the id of a local address is that of an IPv6 address. */
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

/* The id of a remote address. */
u_u32 us_ip6_id(const struct us_stack *stack, const struct us_ip6 *addr);

U_INLINE struct us_ip us_ip6(const struct us_stack *stack, const struct us_ip6 *addr)
{
    struct us_ip r;
    r.id = us_ip6_id(stack, addr);
    r.six = addr;
    return r;
}

/* By words: on 32-bit machines compilers call memcmp() for 16 bytes. */
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

/* The solicited-node multicast group of an address (RFC 4291 2.7.1). */
struct us_ip6 us_ip6_solicited_node(const struct us_ip6 *addr);

/* Whether the first `bits` bits are equal. */
int us_ip6_prefix_equal(const struct us_ip6 *a, const struct us_ip6 *b, unsigned bits);

/* Converts an address of the API; ip->six points into it. Returns 0 if the family is unknown. */
int us_addr_to_ip(const struct us_stack *stack, const struct us_addr *addr, struct us_ip *ip);

/* Converts a remote address, and a local address by its id, for the API. */
void us_addr_from_ip(struct us_addr *addr, struct us_ip ip);
void us_addr_from_local(const struct us_stack *stack, struct us_addr *addr, u_u32 id);

/* Whether it is a host address: not ::, multicast, loopback or a broadcast. */
int us_ip_is_unicast(const struct us_stack *stack, struct us_ip ip);

/* Whether it is the limited broadcast or that of a local network (RFC 919). */
int us_ip4_is_broadcast(const struct us_stack *stack, u_u32 ip);

/* Whether it is a local address, in any state. */
int us_ip_is_local(const struct us_stack *stack, struct us_ip ip);

/* us_ip_is_local() for IPv4. */
int us_ip4_is_local(const struct us_stack *stack, u_u32 ip);

/* Index of a local address in any state; US_LOCAL6_MAX if it is not local. */
u_u32 us_local6_find(const struct us_stack *stack, const struct us_ip6 *addr);

/* Whether packets may be sent from it and accepted for it. */
U_INLINE int us_local6_is_usable(const struct us_local6 *local)
{
    return local->state == US_LOCAL6_PREFERRED || local->state == US_LOCAL6_DEPRECATED;
}

/* Sets *id to the id of a usable local address. Returns 0 if the address is not local or usable. */
int us_local_id(const struct us_stack *stack, struct us_ip ip, u_u32 *id);

/* Whether it is a host address on a local network and not local. */
int us_ip_is_neighbour(const struct us_stack *stack, struct us_ip ip);

/* Finds the route to an address. Returns 0 if there is none. */
int us_route_find(const struct us_stack *stack, struct us_ip dst, struct us_route *route);

#endif
