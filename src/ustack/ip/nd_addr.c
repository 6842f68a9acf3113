/* SPDX-License-Identifier: BSD-3-Clause */
/* Local IPv6 addresses (RFC 4862): duplicate detection, lifetimes, removal; see nd.h. */
#include "ustack/core/instance.h"
#include "ustack/ip/ip6.h"
#include "ustack/ip/nd.h"
#include "ustack/tcp/tcp.h"
#include "ustack/tcp/tcp_synq.h"
#include "ustack/tcp/tcp_tw.h"

enum { LINK_LOCAL_PREFIX = 64 };

/* RFC 4861 section 10: number and interval of router solicitations. */
enum { ROUTER_SOLICITS = 3, ROUTER_SOLICIT_US = 4 * 1000 * 1000 };

/* ---- time ---- */

void us_nd_reschedule(struct us_stack *stack)
{
    u_u64 next_us = u_min64(us_nd_router_next_us(stack), us_mld_next_us(stack));
    unsigned i;

    for (i = 0; i < US_LOCAL6_MAX; i++) {
        const struct us_local6 *local = &stack->nd.locals[i];
        if (local->state == US_LOCAL6_FREE)
            continue;
        next_us = u_min64(next_us, u_min64(local->next_us, local->valid_until_us));
        if (local->state == US_LOCAL6_PREFERRED)
            next_us = u_min64(next_us, local->preferred_until_us);
    }
    if (next_us == US_NEVER)
        us_timer_stop(&stack->wheel, &stack->nd.timer);
    else
        us_timer_set(&stack->wheel, &stack->nd.timer, next_us);
}

/* Requests a message about an address, unless config.arp_passive. */
static void addr_announce(const struct us_stack *stack, u_u32 *due, u_u32 index)
{
    if (!stack->config.arp_passive)
        *due |= (u_u32)1 << index;
}

/* The next step of duplicate detection: a probe or the end (RFC 4862 5.4). */
static void addr_probe(struct us_stack *stack, u_u32 index)
{
    struct us_local6 *local = &stack->nd.locals[index];

    if (local->probes > 0) {
        local->probes--;
        local->next_us = stack->now_us + US_ND_RETRANS_US;
        addr_announce(stack, &stack->nd.probes_due, index);
        return;
    }
    local->state = US_LOCAL6_PREFERRED;
    local->next_us = US_NEVER;
    addr_announce(stack, &stack->nd.adverts_due, index);
    if (us_ip6_is_link_local(&local->addr) && stack->nd.solicits_left > 0)
        stack->nd.solicit_us = stack->now_us;
}

/* Removes an address and ends its connections. */
static void addr_remove(struct us_stack *stack, u_u32 index)
{
    u_u32 bit = (u_u32)1 << index;

    stack->nd.locals[index].state = US_LOCAL6_FREE;
    stack->nd.probes_due &= ~bit;
    stack->nd.adverts_due &= ~bit;
    us_mld_leave(stack, index);
    us_tcp_remove_local(stack, index);
    us_synq_remove_local(stack, index);
    us_tw_remove_local(stack, index);
}

/* Expiry, probe and deprecation of an address. */
static void addr_timer(struct us_stack *stack, u_u32 index)
{
    struct us_local6 *local = &stack->nd.locals[index];

    if (local->state == US_LOCAL6_FREE)
        return;
    if (local->valid_until_us <= stack->now_us) { /* RFC 4862 5.5.4 */
        addr_remove(stack, index);
        return;
    }
    if (local->state == US_LOCAL6_TENTATIVE && local->next_us <= stack->now_us)
        addr_probe(stack, index);
    if (local->state == US_LOCAL6_PREFERRED && local->preferred_until_us <= stack->now_us)
        local->state = US_LOCAL6_DEPRECATED;
}

void us_nd_timer(struct us_stack *stack)
{
    struct us_nd *nd = &stack->nd;
    u_u32 i;

    for (i = 0; i < US_LOCAL6_MAX; i++)
        addr_timer(stack, i);
    us_nd_router_expire(stack);
    us_mld_timer(stack);
    if (nd->solicit_us <= stack->now_us) {
        nd->solicits_left--;
        nd->solicit_due = !stack->config.arp_passive;
        nd->solicit_us = nd->solicits_left > 0 ? stack->now_us + ROUTER_SOLICIT_US : US_NEVER;
    }
    us_nd_reschedule(stack);
}

/* ---- addresses ---- */

int us_nd_addr_make(struct us_stack *stack, const struct us_ip6 *addr, unsigned prefix_len,
                    u_u32 *index)
{
    struct us_nd *nd = &stack->nd;
    struct us_local6 *local;
    u_u32 i = 0;

    while (i < US_LOCAL6_MAX && nd->locals[i].state != US_LOCAL6_FREE)
        i++;
    if (i == US_LOCAL6_MAX)
        return US_ERR_NO_MEMORY;
    *index = i;
    local = &nd->locals[i];
    local->addr = *addr;
    local->prefix_len = (u_u8)prefix_len;
    local->state = US_LOCAL6_TENTATIVE;
    local->probes = (u_u8)stack->config.dad_probes;
    local->is_auto = 0;
    local->preferred_until_us = US_NEVER;
    local->valid_until_us = US_NEVER;
    if (us_link_is_unresolved(stack)) { /* in use by another stack already, or there are two ends */
        local->state = US_LOCAL6_PREFERRED;
        local->next_us = US_NEVER;
        return US_OK;
    }
    us_mld_join(stack, i); /* RFC 4862 5.4.2: before the first probe */
    addr_probe(stack, i);
    us_nd_reschedule(stack);
    return US_OK;
}

/* RFC 4291 2.5.6 and appendix A. */
struct us_ip6 us_nd_link_local(const struct us_stack *stack)
{
    const u_u8 *mac = stack->config.mac;
    struct us_ip6 addr = us_ip6_any;

    addr.b[0] = 0xfe;
    addr.b[1] = 0x80;
    u_copy(addr.b + 8, mac, 3);
    addr.b[8] ^= 2;
    addr.b[11] = 0xff;
    addr.b[12] = 0xfe;
    u_copy(addr.b + 13, mac + 3, 3);
    return addr;
}

const struct us_ip6 *us_nd_link_local_source(const struct us_stack *stack)
{
    unsigned i;

    for (i = 0; i < US_LOCAL6_MAX; i++) {
        const struct us_local6 *local = &stack->nd.locals[i];
        if (us_local6_is_usable(local) && us_ip6_is_link_local(&local->addr))
            return &local->addr;
    }
    return &us_ip6_any;
}

/* The table is empty, so there is room for a link-local address. */
static void nd_enable(struct us_stack *stack, int with_link_local)
{
    struct us_ip6 link_local = us_nd_link_local(stack);
    u_u32 index;

    stack->nd.enabled = 1;
    if (with_link_local)
        (void)us_nd_addr_make(stack, &link_local, LINK_LOCAL_PREFIX, &index);
}

int us_nd_addr_add(struct us_stack *stack, const struct us_ip6 *addr, unsigned prefix_len)
{
    u_u32 index;

    if (stack->config.mtu < US_IP6_MTU_MIN)
        return US_ERR_ARGUMENT;
    if (us_local6_find(stack, addr) < US_LOCAL6_MAX)
        return US_ERR_IN_USE;
    if (!stack->nd.enabled)
        nd_enable(stack, !us_ip6_is_link_local(addr) && !us_link_is_unresolved(stack));
    return us_nd_addr_make(stack, addr, prefix_len, &index);
}

void us_nd_init(struct us_stack *stack)
{
    stack->nd.hop_limit = US_IP6_HOP_LIMIT;
    stack->nd.mtu = stack->config.mtu;
    stack->nd.solicit_us = US_NEVER;
    us_timer_init(&stack->nd.timer, US_TIMER_ND);
    us_mld_init(stack);
    if (stack->config.ip6_autoconf) {
        stack->nd.solicits_left = ROUTER_SOLICITS;
        nd_enable(stack, 1);
    }
}

void us_nd_duplicate(struct us_stack *stack, u_u32 index)
{
    U_ASSERT(index < US_LOCAL6_MAX && stack->nd.locals[index].state == US_LOCAL6_TENTATIVE);
    us_count(stack, US_C_ND_DUPLICATES);
    stack->nd.locals[index].state = US_LOCAL6_DUPLICATE;
    stack->nd.locals[index].next_us = US_NEVER;
    stack->nd.probes_due &= ~((u_u32)1 << index);
    us_nd_reschedule(stack);
}
