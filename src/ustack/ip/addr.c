/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses and routes; see addr.h. */
#include "ustack/ip/addr.h"

#include "base/wire.h"
#include "ustack/core/instance.h"

const struct us_ip6 us_ip6_any = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}};
const struct us_ip6 us_ip6_all_nodes = {{0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};

/* ---- IPv6 addresses ---- */

u_u32 us_ip6_id(const struct us_stack *stack, const struct us_ip6 *addr)
{
    u_u32 words[4];

    u_copy(words, addr, sizeof(words));
    return u_pairhash4(&stack->id_hash, words);
}

struct us_ip6 us_ip6_solicited_node(const struct us_ip6 *addr)
{
    struct us_ip6 group = {{0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0, 0, 0}};

    u_copy(group.b + 13, addr->b + 13, 3);
    return group;
}

int us_ip6_prefix_equal(const struct us_ip6 *a, const struct us_ip6 *b, unsigned bits)
{
    unsigned bytes = bits >> 3;
    unsigned rest = bits & 7;
    unsigned i;

    for (i = 0; i < bytes; i++)
        if (a->b[i] != b->b[i])
            return 0;
    return (rest == 0 || ((a->b[bytes] ^ b->b[bytes]) & 0xff << (8 - rest) & 0xff) == 0);
}

/* ::/96 (with :: and ::1) and IPv4-mapped addresses, which never appear on the wire. */
static int ip6_is_special(const struct us_ip6 *addr)
{
    static const struct us_ip6 mapped = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0}};

    return us_ip6_prefix_equal(addr, &us_ip6_any, 96) || us_ip6_prefix_equal(addr, &mapped, 96);
}

/* ---- addresses of the API ---- */

int us_addr_to_ip(const struct us_stack *stack, const struct us_addr *addr, struct us_ip *ip)
{
    struct u_be32 be;

    switch (addr->family) {
    case US_IP4:
        u_copy(&be, addr->bytes, sizeof(be));
        *ip = us_ip4(u_get_be32(be));
        return 1;
    case US_IP6:
        *ip = us_ip6(stack, (const struct us_ip6 *)addr->bytes);
        return 1;
    default:
        return 0;
    }
}

void us_addr_from_ip(struct us_addr *addr, struct us_ip ip)
{
    struct u_be32 be = u_be32(ip.id);

    if (ip.six != U_NULL) {
        addr->family = US_IP6;
        u_copy(addr->bytes, ip.six, sizeof(*ip.six));
        return;
    }
    u_zero(addr, sizeof(*addr));
    addr->family = US_IP4;
    u_copy(addr->bytes, &be, sizeof(be));
}

void us_addr_from_local(const struct us_stack *stack, struct us_addr *addr, u_u32 id)
{
    struct us_ip ip = us_ip4(id);

    if (us_local_is_ip6(id))
        ip.six = &stack->nd.locals[id].addr;
    us_addr_from_ip(addr, ip);
}

/* ---- classification ---- */

/* Whether it is no host address on any network: RFC 1122 3.2.1.3. */
static int ip4_is_special(u_u32 ip)
{
    return ip >> 24 == 0 || ip >> 24 == 127 || ip >> 28 >= 14;
}

/* Whether it is the broadcast address of a local network, or the network itself. */
static int ip4_is_network(const struct us_stack *stack, u_u32 ip)
{
    unsigned i;

    for (i = 0; i < stack->local_count; i++) {
        const struct us_local *local = &stack->locals[i];
        u_u32 host = ip & ~local->mask;
        if (((ip ^ local->ip) & local->mask) == 0 && ~local->mask > 1 &&
            (host == 0 || host == ~local->mask))
            return 1;
    }
    return 0;
}

int us_ip4_is_broadcast(const struct us_stack *stack, u_u32 ip)
{
    return ip == 0xffffffffu || (ip4_is_network(stack, ip) && !ip4_is_special(ip));
}

int us_ip_is_unicast(const struct us_stack *stack, struct us_ip ip)
{
    if (ip.six != U_NULL)
        return !us_ip6_is_multicast(ip.six) && !ip6_is_special(ip.six);
    return !ip4_is_special(ip.id) && !ip4_is_network(stack, ip.id);
}

/* ---- local addresses ---- */

int us_ip4_is_local(const struct us_stack *stack, u_u32 ip)
{
    unsigned i;

    for (i = 0; i < stack->local_count; i++)
        if (stack->locals[i].ip == ip)
            return 1;
    return 0;
}

u_u32 us_local6_find(const struct us_stack *stack, const struct us_ip6 *addr)
{
    u_u32 i;

    for (i = 0; i < US_LOCAL6_MAX; i++)
        if (stack->nd.locals[i].state != US_LOCAL6_FREE &&
            us_ip6_equal(&stack->nd.locals[i].addr, addr))
            break;
    return i;
}

int us_ip_is_local(const struct us_stack *stack, struct us_ip ip)
{
    if (ip.six != U_NULL)
        return us_local6_find(stack, ip.six) < US_LOCAL6_MAX;
    return us_ip4_is_local(stack, ip.id);
}

int us_local_id(const struct us_stack *stack, struct us_ip ip, u_u32 *id)
{
    if (ip.six == U_NULL) {
        *id = ip.id;
        return us_ip4_is_local(stack, ip.id);
    }
    *id = us_local6_find(stack, ip.six);
    return *id < US_LOCAL6_MAX && us_local6_is_usable(&stack->nd.locals[*id]);
}

/* ---- routes ---- */

/* Whether an IPv6 address is on the link: RFC 4861 section 5.2. */
static int ip6_is_on_link(const struct us_stack *stack, const struct us_ip6 *addr)
{
    unsigned i;

    if (us_ip6_is_link_local(addr))
        return 1;
    for (i = 0; i < US_LOCAL6_MAX; i++) {
        const struct us_local6 *local = &stack->nd.locals[i];
        if (local->state != US_LOCAL6_FREE && local->state != US_LOCAL6_DUPLICATE &&
            us_ip6_prefix_equal(&local->addr, addr, local->prefix_len))
            return 1;
    }
    return us_nd_prefix_is_on_link(stack, addr);
}

int us_ip_is_neighbour(const struct us_stack *stack, struct us_ip ip)
{
    unsigned i;

    if (!us_ip_is_unicast(stack, ip) || us_ip_is_local(stack, ip))
        return 0;
    if (ip.six != U_NULL)
        return ip6_is_on_link(stack, ip.six);
    for (i = 0; i < stack->local_count; i++)
        if (((ip.id ^ stack->locals[i].ip) & stack->locals[i].mask) == 0)
            return 1;
    return 0;
}

static int route_find4(const struct us_stack *stack, u_u32 dst, struct us_route *route)
{
    u_u32 hop = dst;
    unsigned tries;
    unsigned i;

    for (tries = 0; tries < 2 && hop != 0; tries++) {
        for (i = 0; i < stack->local_count; i++) {
            if (((hop ^ stack->locals[i].ip) & stack->locals[i].mask) == 0) {
                route->src_ip = stack->locals[i].ip;
                route->next_hop = us_ip4(hop);
                return 1;
            }
        }
        hop = stack->gateway;
    }
    return 0;
}

/* Length of the common prefix, bits. */
static unsigned ip6_common_bits(const struct us_ip6 *a, const struct us_ip6 *b)
{
    unsigned bits = 0;

    while (bits < 128 && us_ip6_prefix_equal(a, b, bits + 1))
        bits++;
    return bits;
}

/*
 * Source address selection: RFC 6724 section 5, rules 2 (scope), 3 (not deprecated) and 8 (longest
 * common prefix). US_LOCAL6_MAX if no address is usable.
 */
static u_u32 source_choose6(const struct us_stack *stack, const struct us_ip6 *dst)
{
    u_u32 best = US_LOCAL6_MAX;
    unsigned best_score = 0;
    u_u32 i;

    for (i = 0; i < US_LOCAL6_MAX; i++) {
        const struct us_local6 *local = &stack->nd.locals[i];
        unsigned score;

        if (!us_local6_is_usable(local))
            continue;
        score = 1 + ip6_common_bits(&local->addr, dst);
        if (local->state == US_LOCAL6_PREFERRED)
            score += 256;
        if (us_ip6_is_link_local(&local->addr) == us_ip6_is_link_local(dst))
            score += 512;
        if (score > best_score) {
            best_score = score;
            best = i;
        }
    }
    return best;
}

static int route_find6(const struct us_stack *stack, struct us_ip dst, struct us_route *route)
{
    const struct us_ip6 *router;

    route->src_ip = source_choose6(stack, dst.six);
    if (route->src_ip == US_LOCAL6_MAX)
        return 0;
    if (ip6_is_on_link(stack, dst.six)) {
        route->next_hop = dst;
        return 1;
    }
    router = us_nd_router(stack);
    if (router == U_NULL)
        return 0;
    route->next_hop = us_ip6(stack, router);
    return 1;
}

int us_route_find(const struct us_stack *stack, struct us_ip dst, struct us_route *route)
{
    return dst.six != U_NULL ? route_find6(stack, dst, route) : route_find4(stack, dst.id, route);
}

/* ---- the API ---- */

static int addr_add4(struct us_stack *stack, u_u32 ip, unsigned prefix_len)
{
    struct us_local *local;

    if (prefix_len > 32 || ip4_is_special(ip))
        return US_ERR_ARGUMENT;
    if (us_ip4_is_local(stack, ip))
        return US_ERR_IN_USE;
    if (stack->local_count == US_LOCAL_MAX)
        return US_ERR_NO_MEMORY;
    if (!us_link_is_unresolved(stack) && !stack->config.arp_passive)
        stack->announce |= 1u << stack->local_count;
    local = &stack->locals[stack->local_count++];
    local->ip = ip;
    local->mask = prefix_len == 0 ? 0 : 0xffffffffu << (32 - prefix_len);
    return US_OK;
}

int us_addr_add(struct us_stack *stack, const struct us_addr *addr, unsigned prefix_len)
{
    struct us_ip ip;

    if (!us_addr_to_ip(stack, addr, &ip))
        return US_ERR_ARGUMENT;
    if (ip.six == U_NULL)
        return addr_add4(stack, ip.id, prefix_len);
    if (!us_ip_is_unicast(stack, ip) || prefix_len > 128)
        return US_ERR_ARGUMENT;
    return us_nd_addr_add(stack, ip.six, prefix_len);
}

int us_gateway_set(struct us_stack *stack, const struct us_addr *gateway)
{
    struct us_ip ip;

    if (!us_addr_to_ip(stack, gateway, &ip) || (ip.six == U_NULL && ip4_is_special(ip.id)) ||
        us_ip_is_local(stack, ip))
        return US_ERR_ARGUMENT;
    if (!us_ip_is_neighbour(stack, ip))
        return US_ERR_NO_ROUTE;
    if (ip.six != U_NULL)
        us_nd_gateway_set(stack, ip.six);
    else
        stack->gateway = ip.id;
    us_neighbour_reroute(stack);
    return US_OK;
}
