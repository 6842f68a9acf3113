/* SPDX-License-Identifier: BSD-3-Clause */
/* Our own IPv6 addresses (RFC 4862) and the choice of a router; see nd.h. */
#include "ustack/ip6.h"
#include "ustack/nd.h"
#include "ustack/stack.h"
#include "ustack/tcp.h"

enum { LINK_LOCAL_PREFIX = 64 };

void us_nd_init(struct us_stack *stack)
{
    stack->nd.hop_limit = US_IP6_HOP_LIMIT;
    us_timer_init(&stack->nd.timer, US_TIMER_ND);
}

/* ---- time ---- */

/* Sets the timer for whatever comes next. */
static void nd_reschedule(struct us_stack *stack)
{
    u_u64 next_us = US_NEVER;
    unsigned i;

    for (i = 0; i < US_LOCAL6_MAX; i++)
        if (stack->nd.locals[i].state == US_LOCAL6_TENTATIVE)
            next_us = u_min64(next_us, stack->nd.locals[i].next_us);
    if (next_us == US_NEVER)
        us_timer_stop(&stack->wheel, &stack->nd.timer);
    else
        us_timer_set(&stack->wheel, &stack->nd.timer, next_us);
}

/* The next step of looking for duplicates: one more probe, or the end (RFC 4862 5.4). */
static void addr_probe(struct us_stack *stack, u_u32 index)
{
    struct us_local6 *local = &stack->nd.locals[index];

    if (local->probes > 0) {
        local->probes--;
        local->next_us = stack->now_us + US_ND_RETRANS_US;
        stack->nd.probes_due |= (u_u32)1 << index;
        return;
    }
    local->state = US_LOCAL6_PREFERRED;
    local->next_us = US_NEVER;
    stack->nd.adverts_due |= (u_u32)1 << index;
}

void us_nd_timer(struct us_stack *stack)
{
    u_u32 i;

    for (i = 0; i < US_LOCAL6_MAX; i++) {
        const struct us_local6 *local = &stack->nd.locals[i];
        if (local->state == US_LOCAL6_TENTATIVE && local->next_us <= stack->now_us)
            addr_probe(stack, i);
    }
    nd_reschedule(stack);
}

/* ---- addresses ---- */

static int addr_add(struct us_stack *stack, const struct us_ip6 *addr, unsigned prefix_len)
{
    struct us_nd *nd = &stack->nd;
    struct us_local6 *local;
    u_u32 i = 0;

    while (i < US_LOCAL6_MAX && nd->locals[i].state != US_LOCAL6_FREE)
        i++;
    if (i == US_LOCAL6_MAX)
        return US_ERR_NO_MEMORY;
    local = &nd->locals[i];
    local->addr = *addr;
    local->prefix_len = (u_u8)prefix_len;
    local->state = US_LOCAL6_TENTATIVE;
    local->probes = (u_u8)stack->config.dad_probes;
    local->is_auto = 0;
    local->preferred_until_us = US_NEVER;
    local->valid_until_us = US_NEVER;
    addr_probe(stack, i);
    nd_reschedule(stack);
    return US_OK;
}

/* RFC 4291 2.5.6 and appendix A: the link-local address that is made of the MAC address. */
static struct us_ip6 link_local_addr(const struct us_stack *stack)
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

int us_nd_addr_add(struct us_stack *stack, const struct us_ip6 *addr, unsigned prefix_len)
{
    struct us_ip6 link_local = link_local_addr(stack);

    if (stack->config.mtu < US_IP6_MTU_MIN)
        return US_ERR_ARGUMENT;
    if (us_local6_find(stack, addr) < US_LOCAL6_MAX)
        return US_ERR_IN_USE;
    if (!stack->nd.enabled) {
        stack->nd.enabled = 1;
        if (!us_ip6_is_link_local(addr))
            (void)addr_add(stack, &link_local, LINK_LOCAL_PREFIX); /* the table is empty */
    }
    return addr_add(stack, addr, prefix_len);
}

void us_nd_duplicate(struct us_stack *stack, u_u32 index)
{
    us_count(stack, US_C_ND_DUPLICATES);
    stack->nd.locals[index].state = US_LOCAL6_DUPLICATE;
    stack->nd.probes_due &= ~((u_u32)1 << index);
    nd_reschedule(stack);
}

/* ---- routers ---- */

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

/* The place of a router in the table; US_ROUTERS_MAX if it is none. */
static unsigned router_find(const struct us_stack *stack, const struct us_ip6 *addr)
{
    unsigned i;

    for (i = 0; i < US_ROUTERS_MAX; i++)
        if (stack->nd.routers[i].until_us != 0 && us_ip6_equal(&stack->nd.routers[i].addr, addr))
            break;
    return i;
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
