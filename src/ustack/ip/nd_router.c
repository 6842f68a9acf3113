/* SPDX-License-Identifier: BSD-3-Clause */
/* Router advertisements (RFC 4861 section 6.3) and autoconfiguration (RFC 4862 5.5); see nd.h. */
#include "ustack/core/instance.h"
#include "ustack/ip/icmp.h"
#include "ustack/ip/icmp6.h"
#include "ustack/ip/ip6.h"
#include "ustack/ip/nd.h"

enum { RA_PREFIX = 3, RA_MTU = 5, PREFIX_BYTES = 32, MTU_BYTES = 8 };

enum { FLAG_ON_LINK = 0x80, FLAG_AUTO = 0x40 };

/* Bound of autoconfigured addresses; the other entries are for us_addr_add(). */
enum { AUTO_MAX = 5 };

/* RFC 4862 5.5.3: a forged advertisement cannot reduce a lifetime below this. */
static const u_u64 router_lifetime_floor_us = (u_u64)2 * 3600 * 1000 * 1000;

/* The fixed part of an advertisement (RFC 4861 4.2). */
struct router_advert {
    u_u8 type;
    u_u8 code;
    struct u_be16 checksum;
    u_u8 hop_limit; /* 0: unspecified */
    u_u8 flags;
    struct u_be16 lifetime_s;
    struct u_be32 reachable_ms;
    struct u_be32 retrans_ms;
};

enum { ADVERT_BYTES = 16 };

U_STATIC_ASSERT(sizeof(struct router_advert) == ADVERT_BYTES, router_advert_size);

/* A prefix option (RFC 4861 4.6.2). */
struct prefix_option {
    u_u8 type;
    u_u8 units;
    u_u8 prefix_len;
    u_u8 flags;
    struct u_be32 valid_s;
    struct u_be32 preferred_s;
    struct u_be32 reserved;
    struct us_ip6 prefix;
};

U_STATIC_ASSERT(sizeof(struct prefix_option) == PREFIX_BYTES, prefix_option_size);

/* The end of a lifetime; all ones means infinite. */
static u_u64 router_until(const struct us_stack *stack, u_u32 lifetime_s)
{
    if (lifetime_s == 0xffffffffu)
        return US_NEVER;
    return stack->now_us + (u_u64)lifetime_s * 1000 * 1000;
}

/* ---- routers ---- */

/* Index of a router; US_ROUTERS_MAX if it is not in the table. */
static unsigned router_find(const struct us_stack *stack, const struct us_ip6 *addr)
{
    unsigned i;

    for (i = 0; i < US_ROUTERS_MAX; i++)
        if (stack->nd.routers[i].until_us != 0 && us_ip6_equal(&stack->nd.routers[i].addr, addr))
            break;
    return i;
}

static void router_add(struct us_stack *stack, const struct us_ip6 *addr, u_u64 until_us)
{
    unsigned i = router_find(stack, addr);

    if (i == US_ROUTERS_MAX)
        for (i = 0; i < US_ROUTERS_MAX && stack->nd.routers[i].until_us != 0; i++)
            continue;
    if (i == US_ROUTERS_MAX) {
        us_count(stack, US_C_ND_TABLE_FULL);
        return;
    }
    if (stack->nd.routers[i].until_us == US_NEVER)
        return; /* set by us_gateway_set() */
    if (stack->nd.routers[i].until_us == 0)
        us_neighbour_reroute(stack);
    stack->nd.routers[i].addr = *addr;
    stack->nd.routers[i].until_us = until_us;
}

void us_nd_gateway_set(struct us_stack *stack, const struct us_ip6 *addr)
{
    stack->nd.routers[0].addr = *addr;
    stack->nd.routers[0].until_us = US_NEVER;
    stack->nd.router_first = 0;
}

const struct us_ip6 *us_nd_router(const struct us_stack *stack)
{
    const struct us_nd *nd = &stack->nd;
    unsigned i;

    for (i = 0; i < US_ROUTERS_MAX; i++) {
        const struct us_router *router = &nd->routers[(nd->router_first + i) % US_ROUTERS_MAX];
        if (router->until_us > stack->now_us)
            return &router->addr;
    }
    return (const struct us_ip6 *)U_NULL;
}

void us_nd_router_failed(struct us_stack *stack, const struct us_ip6 *addr)
{
    unsigned i = router_find(stack, addr);

    if (i < US_ROUTERS_MAX)
        stack->nd.router_first = (i + 1) % US_ROUTERS_MAX;
}

void us_nd_router_gone(struct us_stack *stack, const struct us_ip6 *addr)
{
    unsigned i = router_find(stack, addr);

    if (i == US_ROUTERS_MAX || stack->nd.routers[i].until_us == US_NEVER)
        return;
    stack->nd.routers[i].until_us = 0;
    us_neighbour_reroute(stack);
}

/* ---- prefixes ---- */

int us_nd_prefix_is_on_link(const struct us_stack *stack, const struct us_ip6 *addr)
{
    unsigned i;

    for (i = 0; i < US_PREFIXES_MAX; i++) {
        const struct us_prefix *prefix = &stack->nd.prefixes[i];
        if (prefix->until_us > stack->now_us &&
            us_ip6_prefix_equal(&prefix->addr, addr, prefix->prefix_len))
            return 1;
    }
    return 0;
}

/* RFC 4861 6.3.4: an on-link prefix. */
static void prefix_on_link(struct us_stack *stack, const struct prefix_option *option)
{
    struct us_prefix *prefixes = stack->nd.prefixes;
    unsigned i = 0;

    while (i < US_PREFIXES_MAX &&
           !(prefixes[i].until_us != 0 && prefixes[i].prefix_len == option->prefix_len &&
             us_ip6_prefix_equal(&prefixes[i].addr, &option->prefix, option->prefix_len)))
        i++;
    if (i == US_PREFIXES_MAX) {
        if (u_get_be32(option->valid_s) == 0)
            return;
        for (i = 0; i < US_PREFIXES_MAX && prefixes[i].until_us != 0; i++)
            continue;
    }
    if (i == US_PREFIXES_MAX) {
        us_count(stack, US_C_ND_TABLE_FULL);
        return;
    }
    if (prefixes[i].until_us == 0)
        us_neighbour_reroute(stack);
    prefixes[i].addr = option->prefix;
    prefixes[i].prefix_len = option->prefix_len;
    prefixes[i].until_us = router_until(stack, u_get_be32(option->valid_s));
}

/* RFC 4862 5.5.3 (e): new lifetimes of an address autoconfigured from the prefix. */
static void auto_renew(struct us_stack *stack, struct us_local6 *local, u_u64 preferred_until_us,
                       u_u64 valid_until_us)
{
    u_u64 floor_us = stack->now_us + router_lifetime_floor_us;

    local->preferred_until_us = preferred_until_us;
    if (valid_until_us > floor_us || valid_until_us > local->valid_until_us)
        local->valid_until_us = valid_until_us;
    else if (local->valid_until_us > floor_us)
        local->valid_until_us = floor_us;
    if (local->state == US_LOCAL6_DEPRECATED && preferred_until_us > stack->now_us)
        local->state = US_LOCAL6_PREFERRED;
}

/* RFC 4862 5.5.3: an address of the prefix and the interface identifier. */
static void prefix_auto(struct us_stack *stack, const struct prefix_option *option)
{
    u_u32 valid_s = u_get_be32(option->valid_s);
    u_u32 preferred_s = u_get_be32(option->preferred_s);
    struct us_ip6 addr = us_nd_link_local(stack);
    unsigned made = 0;
    u_u32 i;

    if (option->prefix_len != 64 || preferred_s > valid_s)
        return;
    u_copy(addr.b, option->prefix.b, 8);
    for (i = 0; i < US_LOCAL6_MAX; i++) {
        struct us_local6 *local = &stack->nd.locals[i];
        if (local->state == US_LOCAL6_FREE)
            continue;
        if (us_ip6_equal(&local->addr, &addr)) {
            if (local->is_auto)
                auto_renew(stack, local, router_until(stack, preferred_s),
                           router_until(stack, valid_s));
            return;
        }
        made += local->is_auto;
    }
    if (valid_s == 0 || !us_ip_is_unicast(stack, us_ip6(stack, &addr)))
        return;
    if (made == AUTO_MAX || us_nd_addr_make(stack, &addr, 128, &i) != US_OK) {
        us_count(stack, US_C_ND_TABLE_FULL);
        return;
    }
    stack->nd.locals[i].is_auto = 1;
    stack->nd.locals[i].preferred_until_us = router_until(stack, preferred_s);
    stack->nd.locals[i].valid_until_us = router_until(stack, valid_s);
}

/* ---- advertisements ---- */

static void advert_option(struct us_stack *stack, const u_u8 *opt, u_u32 bytes)
{
    const struct prefix_option *prefix = (const struct prefix_option *)opt;
    struct u_be32 word;

    if (opt[0] == RA_MTU && bytes == MTU_BYTES) {
        u_copy(&word, opt + 4, sizeof(word));
        if (u_get_be32(word) >= US_IP6_MTU_MIN && u_get_be32(word) <= stack->config.mtu)
            stack->nd.mtu = u_get_be32(word);
    } else if (opt[0] == RA_PREFIX && bytes == PREFIX_BYTES && prefix->prefix_len <= 128 &&
               !us_ip6_is_link_local(&prefix->prefix) && !us_ip6_is_multicast(&prefix->prefix)) {
        if (prefix->flags & FLAG_ON_LINK)
            prefix_on_link(stack, prefix);
        if (prefix->flags & FLAG_AUTO)
            prefix_auto(stack, prefix);
    }
}

void us_nd_router_input(struct us_stack *stack, const struct us_rx *rx)
{
    const struct router_advert *advert = (const struct router_advert *)rx->l4;
    const u_u8 *mac;
    u_u32 at;

    if (rx->hop_limit != US_ND_HOP_LIMIT || rx->l4_bytes < ADVERT_BYTES || advert->code != 0 ||
        !us_ip6_is_link_local(rx->src6) ||
        !us_nd_find_mac(rx, ADVERT_BYTES, US_ND_OPT_SOURCE_MAC, &mac)) {
        us_count(stack, US_C_DROP_ND_MALFORMED);
        return;
    }
    if (!stack->config.ip6_autoconf) {
        us_count(stack, US_C_DROP_ICMP_TYPE); /* addresses and routes are configured */
        return;
    }
    us_count(stack, US_C_ND_RX);
    stack->nd.solicits_left = 0;
    stack->nd.solicit_us = US_NEVER;
    if (advert->hop_limit != 0)
        stack->nd.hop_limit = advert->hop_limit;
    if (mac != U_NULL)
        us_nd_learn_mac(stack, us_rx_source(rx), mac);
    for (at = ADVERT_BYTES; at < rx->l4_bytes; at += (u_u32)rx->l4[at + 1] << 3)
        advert_option(stack, rx->l4 + at, (u_u32)rx->l4[at + 1] << 3);
    if (u_get_be16(advert->lifetime_s) > 0)
        router_add(stack, rx->src6, router_until(stack, u_get_be16(advert->lifetime_s)));
    else
        us_nd_router_gone(stack, rx->src6);
    us_nd_reschedule(stack);
}

/* ---- expiry ---- */

void us_nd_router_expire(struct us_stack *stack)
{
    struct us_nd *nd = &stack->nd;
    unsigned i;

    for (i = 0; i < US_ROUTERS_MAX; i++) {
        if (nd->routers[i].until_us != 0 && nd->routers[i].until_us <= stack->now_us) {
            nd->routers[i].until_us = 0;
            us_neighbour_reroute(stack);
        }
    }
    for (i = 0; i < US_PREFIXES_MAX; i++) {
        if (nd->prefixes[i].until_us != 0 && nd->prefixes[i].until_us <= stack->now_us) {
            nd->prefixes[i].until_us = 0;
            us_neighbour_reroute(stack);
        }
    }
}

u_u64 us_nd_router_next_us(const struct us_stack *stack)
{
    const struct us_nd *nd = &stack->nd;
    u_u64 next_us = nd->solicit_us;
    unsigned i;

    for (i = 0; i < US_ROUTERS_MAX; i++)
        if (nd->routers[i].until_us != 0)
            next_us = u_min64(next_us, nd->routers[i].until_us);
    for (i = 0; i < US_PREFIXES_MAX; i++)
        if (nd->prefixes[i].until_us != 0)
            next_us = u_min64(next_us, nd->prefixes[i].until_us);
    return next_us;
}
