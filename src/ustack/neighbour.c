/* SPDX-License-Identifier: BSD-3-Clause */
/* The neighbour cache; see neighbour.h. */
#include "ustack/neighbour.h"

#include "ustack/arp.h"
#include "ustack/stack.h"
#include "ustack/tcp.h"

/* ---- the table ---- */

static struct us_neighbour **neighbour_bucket(const struct us_stack *stack, u_u32 id)
{
    /* Neighbours are few and on our own link: their number bounds the chains, not a keyed hash. */
    return &stack->neighbours.table[(id ^ id >> 8 ^ id >> 16) & stack->neighbours.mask];
}

static int neighbour_is(const struct us_neighbour *neighbour, struct us_ip ip)
{
    if (neighbour->id != ip.id || neighbour->is_ip6 != (ip.six != U_NULL))
        return 0;
    return ip.six == U_NULL || us_ip6_equal(&neighbour->six, ip.six);
}

struct us_neighbour *us_neighbour_find(const struct us_stack *stack, struct us_ip ip)
{
    struct us_neighbour *neighbour = *neighbour_bucket(stack, ip.id);

    while (neighbour != U_NULL && !neighbour_is(neighbour, ip))
        neighbour = neighbour->hash_next;
    return neighbour;
}

struct us_ip us_neighbour_ip(const struct us_neighbour *neighbour)
{
    struct us_ip ip = us_ip4(neighbour->id);

    if (neighbour->is_ip6)
        ip.six = &neighbour->six;
    return ip;
}

/* Takes it off the list of those with an address. */
static void neighbour_unlist(struct us_stack *stack, struct us_neighbour *neighbour)
{
    if (neighbour->state == US_NEIGHBOUR_LEARNED)
        stack->neighbours.learned_count--;
    u_list_remove(&neighbour->age_link);
}

static void neighbour_forget(struct us_stack *stack, struct us_neighbour *neighbour)
{
    struct us_neighbour **at = neighbour_bucket(stack, neighbour->id);

    while (*at != neighbour) {
        U_ASSERT(*at != U_NULL);
        at = &(*at)->hash_next;
    }
    *at = neighbour->hash_next;
    us_timer_stop(&stack->wheel, &neighbour->timer);
    neighbour_unlist(stack, neighbour);
    u_list_remove(&neighbour->ask_link);
    U_ASSERT(u_list_is_empty(&neighbour->waiting) && u_list_is_empty(&neighbour->dgrams));
    neighbour->serial = 0; /* connections that remember this entry see that it is another's */
    us_pool_put(&stack->neighbours.pool, neighbour);
}

/* How many entries may be there that were only heard of. */
static u_u32 learned_max(const struct us_stack *stack)
{
    return (stack->config.arp_max * 3 + 3) / 4;
}

/* Makes room for one more entry. Returns 0 if there is none. */
static int neighbour_make_room(struct us_stack *stack, int learned)
{
    struct us_neighbours *all = &stack->neighbours;
    struct u_list *from;

    if (us_pool_free(&all->pool) > 0 && !(learned && all->learned_count >= learned_max(stack)))
        return 1;
    us_count(stack, US_C_ARP_EVICTIONS);
    from = learned || !u_list_is_empty(&all->learned) ? &all->learned : &all->by_age;
    if (u_list_is_empty(from))
        return 0;
    neighbour_forget(stack, U_CONTAINER_OF(from->next, struct us_neighbour, age_link));
    return 1;
}

/*
 * Makes an entry in state ASKING, if need be in place of another one. Null if there is no room.
 * `learned`: nobody has asked for it.
 */
static struct us_neighbour *neighbour_new(struct us_stack *stack, struct us_ip ip, int learned)
{
    struct us_neighbours *all = &stack->neighbours;
    struct us_neighbour **bucket = neighbour_bucket(stack, ip.id);
    struct us_neighbour *neighbour;

    if (!neighbour_make_room(stack, learned))
        return (struct us_neighbour *)U_NULL;
    neighbour = (struct us_neighbour *)us_pool_get(&all->pool);
    u_zero(neighbour, sizeof(*neighbour));
    neighbour->id = ip.id;
    if (++all->serial == 0)
        all->serial++;
    neighbour->serial = all->serial;
    if (ip.six != U_NULL) {
        neighbour->is_ip6 = 1;
        neighbour->six = *ip.six;
    }
    neighbour->state = US_NEIGHBOUR_ASKING;
    neighbour->l2_in[US_ETH_HDR_BYTES + 1] = US_TOS_NEVER;
    us_timer_init(&neighbour->timer, US_TIMER_NEIGHBOUR);
    u_list_init(&neighbour->age_link);
    u_list_init(&neighbour->ask_link);
    u_list_init(&neighbour->waiting);
    u_list_init(&neighbour->dgrams);
    neighbour->hash_next = *bucket;
    *bucket = neighbour;
    return neighbour;
}

/* ---- asking ---- */

/* Queues one more request and sets the timer for what follows it. */
static void neighbour_ask(struct us_stack *stack, struct us_neighbour *neighbour)
{
    /* With reply_to_sender there is nothing to do but to wait until it is heard. */
    if (u_list_is_empty(&neighbour->ask_link) && !stack->config.reply_to_sender)
        u_list_push_back(&stack->neighbours.asks, &neighbour->ask_link);
    us_timer_set(&stack->wheel, &neighbour->timer,
                 stack->now_us + ((u_u64)US_NEIGHBOUR_FIRST_RETRY_US << neighbour->tries));
    neighbour->tries++;
}

struct us_neighbour *us_neighbour_want(struct us_stack *stack, struct us_ip ip)
{
    struct us_neighbour *neighbour = us_neighbour_find(stack, ip);

    if (neighbour != U_NULL)
        return neighbour;
    neighbour = neighbour_new(stack, ip, 0);
    if (neighbour != U_NULL)
        neighbour_ask(stack, neighbour);
    return neighbour;
}

/* Whether what is known of it is older than its lifetime. */
static int neighbour_is_old(const struct us_stack *stack, const struct us_neighbour *neighbour)
{
    return stack->now_us - neighbour->confirmed_us > stack->config.arp_lifetime_us;
}

/* Asks for an address that is in use. */
static void neighbour_refresh(struct us_stack *stack, struct us_neighbour *neighbour)
{
    if (stack->config.reply_to_sender)
        return;
    neighbour->state = US_NEIGHBOUR_REFRESH;
    neighbour_ask(stack, neighbour);
}

/*
 * What was heard is used for the first time. RFC 4861 7.2.3 and 7.3.2: over IPv6 it is verified
 * after a while; ARP has no such rule.
 */
static void neighbour_promote(struct us_stack *stack, struct us_neighbour *neighbour)
{
    u_u32 lifetime_us = stack->config.arp_lifetime_us;

    neighbour_unlist(stack, neighbour);
    u_list_push_back(&stack->neighbours.by_age, &neighbour->age_link);
    neighbour->state = US_NEIGHBOUR_VALID;
    if (neighbour->is_ip6 && lifetime_us > US_NEIGHBOUR_DELAY_US)
        neighbour->confirmed_us = stack->now_us + US_NEIGHBOUR_DELAY_US - lifetime_us;
}

int us_neighbour_use(struct us_stack *stack, struct us_neighbour *neighbour)
{
    if (U_UNLIKELY(neighbour->state == US_NEIGHBOUR_ASKING))
        return 0;
    if (U_UNLIKELY(neighbour->state == US_NEIGHBOUR_LEARNED))
        neighbour_promote(stack, neighbour);
    if (U_UNLIKELY(neighbour->state == US_NEIGHBOUR_VALID && neighbour_is_old(stack, neighbour)))
        neighbour_refresh(stack, neighbour);
    return 1;
}

void us_neighbour_doubt(struct us_stack *stack, struct us_neighbour *neighbour)
{
    if (neighbour->state == US_NEIGHBOUR_VALID)
        neighbour_refresh(stack, neighbour);
}

void us_neighbour_reroute(struct us_stack *stack)
{
    u_u32 i;

    for (i = 0; i <= stack->neighbours.mask; i++) {
        struct us_neighbour *neighbour = stack->neighbours.table[i];
        for (; neighbour != U_NULL; neighbour = neighbour->hash_next) {
            if (++stack->neighbours.serial == 0)
                stack->neighbours.serial++;
            neighbour->serial = stack->neighbours.serial;
            us_tcp_out_reachable(stack, &neighbour->waiting);
            us_dgram_reachable(stack, &neighbour->dgrams);
        }
    }
}

/* ---- learning ---- */

/* Frames from it begin so. */
static void neighbour_expect(const struct us_stack *stack, struct us_neighbour *neighbour,
                             const u_u8 *mac)
{
    u_u8 *l2_in = neighbour->l2_in;

    u_zero(l2_in, sizeof(neighbour->l2_in));
    l2_in[US_ETH_HDR_BYTES + 1] = US_TOS_NEVER;
    if (mac[0] & 1)
        return;
    u_copy(l2_in, neighbour->l2, US_ETH_HDR_BYTES);
    u_copy(l2_in, stack->config.mac, 6);
    u_copy(l2_in + 6, mac, 6);
    if (neighbour->is_ip6 || stack->l2_bytes != US_ETH_HDR_BYTES)
        return;
    l2_in[US_ETH_HDR_BYTES] = US_IP4_PLAIN;
    l2_in[US_ETH_HDR_BYTES + 1] = 0;
}

/* Writes the header that leads to it, and lets those go on that waited. */
static void neighbour_set_mac(struct us_stack *stack, struct us_neighbour *neighbour,
                              const u_u8 *mac)
{
    if (neighbour->state != US_NEIGHBOUR_ASKING && !u_equal(neighbour->l2, mac, 6))
        us_count(stack, US_C_ARP_CHANGES);
    us_eth_build(stack, neighbour->l2, mac, neighbour->is_ip6 ? US_ETH_IP6 : US_ETH_IP4);
    neighbour_expect(stack, neighbour, mac);
    neighbour->tries = 0;
    neighbour->confirmed_us = stack->now_us;
    us_timer_stop(&stack->wheel, &neighbour->timer);
    u_list_remove(&neighbour->ask_link);
    neighbour_unlist(stack, neighbour);
    us_tcp_out_reachable(stack, &neighbour->waiting);
    us_dgram_reachable(stack, &neighbour->dgrams);
}

void us_neighbour_confirm(struct us_stack *stack, struct us_neighbour *neighbour, const u_u8 *mac)
{
    int learned = neighbour->state == US_NEIGHBOUR_LEARNED;

    neighbour_set_mac(stack, neighbour, mac);
    if (learned) {
        u_list_push_back(&stack->neighbours.learned, &neighbour->age_link);
        stack->neighbours.learned_count++;
        return;
    }
    neighbour->state = US_NEIGHBOUR_VALID;
    u_list_push_back(&stack->neighbours.by_age, &neighbour->age_link);
}

void us_neighbour_learn(struct us_stack *stack, struct us_ip ip, const u_u8 *mac, int trusted)
{
    struct us_neighbour *neighbour;

    if (!us_ip_is_neighbour(stack, ip))
        return;
    neighbour = us_neighbour_find(stack, ip);
    if (neighbour != U_NULL) {
        /* What nobody can be asked about is replaced once it is old: routers come and go. */
        trusted |= stack->config.reply_to_sender && neighbour_is_old(stack, neighbour);
        if (neighbour->state == US_NEIGHBOUR_ASKING || (trusted && !u_equal(neighbour->l2, mac, 6)))
            us_neighbour_confirm(stack, neighbour, mac);
        return;
    }
    neighbour = neighbour_new(stack, ip, 1);
    if (neighbour == U_NULL)
        return;
    neighbour_set_mac(stack, neighbour, mac);
    neighbour->state = US_NEIGHBOUR_LEARNED;
    u_list_push_back(&stack->neighbours.learned, &neighbour->age_link);
    stack->neighbours.learned_count++;
}

/* ---- time ---- */

void us_neighbour_timer(struct us_stack *stack, struct us_neighbour *neighbour)
{
    struct u_list waiting;
    struct u_list dgrams;

    if (neighbour->tries < US_NEIGHBOUR_TRIES_MAX) {
        neighbour_ask(stack, neighbour);
        return;
    }
    us_count(stack, US_C_ARP_TIMEOUTS);
    u_list_init(&waiting);
    u_list_init(&dgrams);
    u_list_append_all(&waiting, &neighbour->waiting);
    u_list_append_all(&dgrams, &neighbour->dgrams);
    if (neighbour->is_ip6)
        us_nd_router_failed(stack, &neighbour->six);
    neighbour_forget(stack, neighbour);
    us_tcp_out_unreachable(stack, &waiting);
    us_dgram_unreachable(stack, &dgrams);
}

int us_neighbour_output(struct us_stack *stack, struct us_pkt *pkt)
{
    struct u_list *link = u_list_pop_front(&stack->neighbours.asks);
    struct us_neighbour *neighbour;
    const u_u8 *mac = (const u_u8 *)U_NULL;

    if (link == U_NULL)
        return 0;
    neighbour = U_CONTAINER_OF(link, struct us_neighbour, ask_link);
    /* RFC 1122 2.3.2.1 (2), RFC 4861 7.3.3: one that is known is asked by itself, at first. */
    if (neighbour->state == US_NEIGHBOUR_REFRESH && neighbour->tries == 1)
        mac = neighbour->l2;
    if (neighbour->is_ip6)
        us_nd_build_solicit(stack, pkt, &neighbour->six, mac);
    else
        us_arp_build_request(stack, pkt, neighbour->id, mac);
    return 1;
}
