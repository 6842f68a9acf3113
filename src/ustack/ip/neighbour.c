/* SPDX-License-Identifier: BSD-3-Clause */
/* The neighbour cache; see neighbour.h. */
#include "ustack/ip/neighbour.h"

#include "ustack/core/instance.h"
#include "ustack/ip/arp.h"
#include "ustack/tcp/tcp.h"

/* ---- the table ---- */

static struct us_neighbour **neighbour_bucket(const struct us_stack *stack, u_u32 id)
{
    /* Not keyed: the chains are bounded by the number of neighbours, which are on the link. */
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

void us_neighbours_init(struct us_neighbours *all)
{
    unsigned i;

    u_list_init(&all->requests);
    for (i = 0; i < US_NEIGHBOUR_CLASSES; i++)
        u_list_init(&all->lists[i]);
}

static unsigned neighbour_class(const struct us_neighbour *neighbour)
{
    if (neighbour->is_static)
        return US_NC_STATIC;
    switch ((enum us_neighbour_state)neighbour->state) {
    case US_NEIGHBOUR_INCOMPLETE:
        return neighbour->conns > 0 ? US_NC_INCOMPLETE_USED : US_NC_INCOMPLETE;
    case US_NEIGHBOUR_STALE:
        return US_NC_STALE;
    case US_NEIGHBOUR_REACHABLE:
    case US_NEIGHBOUR_PROBE:
        break;
    }
    return neighbour->conns > 0 ? US_NC_USED : US_NC_UNUSED;
}

int us_neighbour_is_listed(const struct us_neighbour *neighbour)
{
    return neighbour->list == neighbour_class(neighbour);
}

static void neighbour_unlist(struct us_stack *stack, struct us_neighbour *neighbour)
{
    if (u_list_is_empty(&neighbour->age_link))
        return;
    stack->neighbours.counts[neighbour->list]--;
    u_list_remove(&neighbour->age_link);
}

/* Moves it to the end of the list of its class. */
static void neighbour_list(struct us_stack *stack, struct us_neighbour *neighbour)
{
    neighbour_unlist(stack, neighbour);
    neighbour->list = (u_u8)neighbour_class(neighbour);
    stack->neighbours.counts[neighbour->list]++;
    u_list_push_back(&stack->neighbours.lists[neighbour->list], &neighbour->age_link);
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
    u_list_remove(&neighbour->request_link);
    U_ASSERT(u_list_is_empty(&neighbour->waiting) && u_list_is_empty(&neighbour->dgrams));
    neighbour->serial = 0; /* connections that had this entry notice that it is gone */
    us_pool_put(&stack->neighbours.pool, neighbour);
}

/* Whether a class has reached its share of the table. */
static int class_is_full(const struct us_stack *stack, enum us_neighbour_class of)
{
    u_u32 quarter = (stack->config.neighbour_max + 3) / 4;

    if (of == US_NC_STALE)
        return stack->neighbours.counts[of] >= (stack->config.neighbour_max * 3 + 3) / 4;
    return of == US_NC_INCOMPLETE && stack->neighbours.counts[of] >= quarter;
}

/* Evicts the oldest entry of a class. Returns 0 if the class is empty. */
static int neighbour_evict(struct us_stack *stack, enum us_neighbour_class from)
{
    struct u_list *list = &stack->neighbours.lists[from];
    struct us_neighbour *neighbour;
    struct u_list dgrams;

    if (u_list_is_empty(list))
        return 0;
    neighbour = U_CONTAINER_OF(list->next, struct us_neighbour, age_link);
    us_count(stack, US_C_ARP_EVICTIONS);
    if (from == US_NC_INCOMPLETE)
        us_count(stack, US_C_ARP_EVICTIONS_INCOMPLETE);
    if (from == US_NC_USED)
        us_count(stack, US_C_ARP_EVICTIONS_IN_USE);
    u_list_init(&dgrams);
    u_list_append_all(&dgrams, &neighbour->dgrams);
    neighbour_forget(stack, neighbour);
    us_dgram_unreachable(stack, &dgrams);
    return 1;
}

/* Makes room for an entry of a class. Returns 0 if none may be evicted. */
static int neighbour_make_room(struct us_stack *stack, enum us_neighbour_class of)
{
    const struct us_neighbours *all = &stack->neighbours;
    unsigned last = of == US_NC_INCOMPLETE_USED ? US_NC_USED : of;
    unsigned from;

    if (class_is_full(stack, of) && neighbour_evict(stack, of))
        return 1;
    if (us_pool_free(&all->pool) > 0)
        return 1;
    for (from = US_NC_STALE; from <= last; from++) {
        if (neighbour_evict(stack, (enum us_neighbour_class)from))
            return 1;
    }
    us_count(stack, US_C_ARP_TABLE_FULL);
    return 0;
}

/* Makes an INCOMPLETE entry that will be of this class. Returns null if there is no room. */
static struct us_neighbour *neighbour_new(struct us_stack *stack, struct us_ip ip,
                                          enum us_neighbour_class of)
{
    struct us_neighbours *all = &stack->neighbours;
    struct us_neighbour **bucket = neighbour_bucket(stack, ip.id);
    struct us_neighbour *neighbour;

    if (!neighbour_make_room(stack, of))
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
    neighbour->state = US_NEIGHBOUR_INCOMPLETE;
    us_timer_init(&neighbour->timer, US_TIMER_NEIGHBOUR);
    u_list_init(&neighbour->age_link);
    u_list_init(&neighbour->request_link);
    u_list_init(&neighbour->waiting);
    u_list_init(&neighbour->dgrams);
    neighbour->hash_next = *bucket;
    *bucket = neighbour;
    neighbour_list(stack, neighbour);
    return neighbour;
}

/* ---- resolution ---- */

/* Queues a request and sets the timer for the next one. */
static void neighbour_request(struct us_stack *stack, struct us_neighbour *neighbour)
{
    /* With reply_to_source_mac no request is sent: only its next packet resolves it. */
    if (u_list_is_empty(&neighbour->request_link) && !us_link_is_unresolved(stack))
        u_list_push_back(&stack->neighbours.requests, &neighbour->request_link);
    us_timer_set(&stack->wheel, &neighbour->timer,
                 stack->now_us + ((u_u64)US_NEIGHBOUR_FIRST_RETRY_US << neighbour->tries));
    neighbour->tries++;
}

/* The entry of an address; if there is none, a new one of this class in resolution. */
static struct us_neighbour *neighbour_get(struct us_stack *stack, struct us_ip ip,
                                          enum us_neighbour_class of)
{
    struct us_neighbour *neighbour = us_neighbour_find(stack, ip);

    if (neighbour != U_NULL)
        return neighbour;
    neighbour = neighbour_new(stack, ip, of);
    if (neighbour == U_NULL)
        return neighbour;
    if (stack->config.point_to_point)
        us_neighbour_confirm(stack, neighbour, us_eth_broadcast);
    else
        neighbour_request(stack, neighbour);
    return neighbour;
}

struct us_neighbour *us_neighbour_resolve(struct us_stack *stack, struct us_ip ip)
{
    return neighbour_get(stack, ip, US_NC_INCOMPLETE);
}

struct us_neighbour *us_neighbour_acquire(struct us_stack *stack, struct us_ip ip)
{
    struct us_neighbour *neighbour = neighbour_get(stack, ip, US_NC_INCOMPLETE_USED);

    if (neighbour != U_NULL && neighbour->conns++ == 0)
        neighbour_list(stack, neighbour);
    return neighbour;
}

void us_neighbour_release(struct us_stack *stack, struct us_neighbour *neighbour)
{
    U_ASSERT(neighbour->conns > 0);
    if (--neighbour->conns == 0)
        neighbour_list(stack, neighbour);
}

/* Whether its lifetime has passed. */
static int neighbour_is_old(const struct us_stack *stack, const struct us_neighbour *neighbour)
{
    return stack->now_us - neighbour->confirmed_us > stack->config.neighbour_lifetime_us;
}

/* Starts to verify an entry in use. */
static void neighbour_verify(struct us_stack *stack, struct us_neighbour *neighbour)
{
    if (neighbour->is_static || stack->config.point_to_point)
        neighbour->confirmed_us = stack->now_us;
    if (neighbour->is_static || us_link_is_unresolved(stack))
        return;
    neighbour->state = US_NEIGHBOUR_PROBE;
    neighbour_request(stack, neighbour);
}

/*
 * No answer has shown that the neighbour is reachable. RFC 4861 7.2.3 and 7.3.2: over IPv6 it is
 * verified after US_NEIGHBOUR_DELAY_US; ARP has no such rule.
 */
static void neighbour_verify_later(const struct us_stack *stack, struct us_neighbour *neighbour)
{
    u_u32 lifetime_us = stack->config.neighbour_lifetime_us;

    if (neighbour->is_ip6 && lifetime_us > US_NEIGHBOUR_DELAY_US)
        neighbour->confirmed_us = stack->now_us + US_NEIGHBOUR_DELAY_US - lifetime_us;
}

/* First use of a learned entry. */
static void neighbour_first_use(struct us_stack *stack, struct us_neighbour *neighbour)
{
    neighbour->state = US_NEIGHBOUR_REACHABLE;
    neighbour_list(stack, neighbour);
    neighbour_verify_later(stack, neighbour);
}

int us_neighbour_use(struct us_stack *stack, struct us_neighbour *neighbour)
{
    if (U_UNLIKELY(neighbour->state == US_NEIGHBOUR_INCOMPLETE))
        return 0;
    if (U_UNLIKELY(neighbour->state == US_NEIGHBOUR_STALE))
        neighbour_first_use(stack, neighbour);
    if (U_UNLIKELY(neighbour->state == US_NEIGHBOUR_REACHABLE &&
                   neighbour_is_old(stack, neighbour)))
        neighbour_verify(stack, neighbour);
    return 1;
}

void us_neighbour_suspect(struct us_stack *stack, struct us_neighbour *neighbour)
{
    if (neighbour->state == US_NEIGHBOUR_REACHABLE)
        neighbour_verify(stack, neighbour);
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
            neighbour->conns = 0; /* connections acquire their next hop again */
            neighbour_list(stack, neighbour);
            us_tcp_next_hop_resolved(stack, &neighbour->waiting);
            us_dgram_reachable(stack, &neighbour->dgrams);
        }
    }
}

/* ---- learning ---- */

/* Builds the Ethernet header that frames from it begin with. */
static void neighbour_expect(const struct us_stack *stack, struct us_neighbour *neighbour,
                             const u_u8 *mac)
{
    neighbour->has_l2_in = !(mac[0] & 1);
    u_copy(neighbour->l2_in, neighbour->l2, US_ETH_HDR_BYTES);
    u_copy(neighbour->l2_in, stack->config.mac, 6);
    u_copy(neighbour->l2_in + 6, mac, 6);
}

/* Sets its MAC address and wakes waiting connections and datagrams. */
static void neighbour_set_mac(struct us_stack *stack, struct us_neighbour *neighbour,
                              const u_u8 *mac)
{
    if (neighbour->state != US_NEIGHBOUR_INCOMPLETE && !u_equal(neighbour->l2, mac, 6))
        us_count(stack, US_C_ARP_CHANGES);
    us_eth_build(stack, neighbour->l2, mac, neighbour->is_ip6 ? US_ETH_IP6 : US_ETH_IP4);
    neighbour_expect(stack, neighbour, mac);
    neighbour->tries = 0;
    neighbour->confirmed_us = stack->now_us;
    us_timer_stop(&stack->wheel, &neighbour->timer);
    u_list_remove(&neighbour->request_link);
    us_tcp_next_hop_resolved(stack, &neighbour->waiting);
    us_dgram_reachable(stack, &neighbour->dgrams);
}

void us_neighbour_confirm(struct us_stack *stack, struct us_neighbour *neighbour, const u_u8 *mac)
{
    if (neighbour->is_static)
        return;
    neighbour_set_mac(stack, neighbour, mac);
    if (neighbour->state != US_NEIGHBOUR_STALE)
        neighbour->state = US_NEIGHBOUR_REACHABLE;
    neighbour_list(stack, neighbour);
}

void us_neighbour_change(struct us_stack *stack, struct us_neighbour *neighbour, const u_u8 *mac)
{
    us_neighbour_confirm(stack, neighbour, mac);
    neighbour_verify_later(stack, neighbour);
}

void us_neighbour_learn(struct us_stack *stack, struct us_ip ip, const u_u8 *mac, int trusted)
{
    struct us_neighbour *neighbour;

    if (!us_ip_is_neighbour(stack, ip))
        return;
    neighbour = us_neighbour_find(stack, ip);
    if (neighbour != U_NULL) {
        /* No request can verify it, so an old entry is replaced: the peer's router may change. */
        trusted |= stack->config.reply_to_source_mac && neighbour_is_old(stack, neighbour);
        if (neighbour->state == US_NEIGHBOUR_INCOMPLETE ||
            (trusted && !u_equal(neighbour->l2, mac, 6)))
            us_neighbour_confirm(stack, neighbour, mac);
        return;
    }
    neighbour = neighbour_new(stack, ip, US_NC_STALE);
    if (neighbour == U_NULL)
        return;
    neighbour_set_mac(stack, neighbour, mac);
    neighbour->state = US_NEIGHBOUR_STALE;
    neighbour_list(stack, neighbour);
}

int us_neighbour_add(struct us_stack *stack, const struct us_addr *addr, const u_u8 mac[6])
{
    struct us_neighbour *neighbour;
    struct us_ip ip;

    if (!us_addr_to_ip(stack, addr, &ip) || !us_ip_is_unicast(stack, ip) ||
        us_ip_is_local(stack, ip) || (mac[0] & 1))
        return US_ERR_ARGUMENT;
    if (!us_ip_is_neighbour(stack, ip))
        return US_ERR_NO_ROUTE;
    neighbour = us_neighbour_find(stack, ip);
    if ((neighbour == U_NULL || !neighbour->is_static) &&
        stack->neighbours.counts[US_NC_STATIC] + 1 >= stack->config.neighbour_max)
        return US_ERR_NO_MEMORY;
    if (neighbour == U_NULL)
        neighbour = neighbour_new(stack, ip, US_NC_UNUSED);
    if (neighbour == U_NULL)
        return US_ERR_NO_MEMORY;
    neighbour_set_mac(stack, neighbour, mac);
    neighbour->is_static = 1;
    neighbour->state = US_NEIGHBOUR_REACHABLE;
    neighbour_list(stack, neighbour);
    return US_OK;
}

/* ---- time ---- */

void us_neighbour_timer(struct us_stack *stack, struct us_neighbour *neighbour)
{
    struct u_list waiting;
    struct u_list dgrams;

    if (neighbour->tries < US_NEIGHBOUR_TRIES_MAX) {
        neighbour_request(stack, neighbour);
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
    us_tcp_next_hop_unreachable(stack, &waiting);
    us_dgram_unreachable(stack, &dgrams);
}

int us_neighbour_output(struct us_stack *stack, struct us_pkt *pkt)
{
    struct u_list *link = u_list_pop_front(&stack->neighbours.requests);
    struct us_neighbour *neighbour;
    const u_u8 *mac = (const u_u8 *)U_NULL;

    if (link == U_NULL)
        return 0;
    neighbour = U_CONTAINER_OF(link, struct us_neighbour, request_link);
    /* RFC 1122 2.3.2.1 (2), RFC 4861 7.3.3: the first verification is by unicast. */
    if (neighbour->state == US_NEIGHBOUR_PROBE && neighbour->tries == 1)
        mac = neighbour->l2;
    if (neighbour->is_ip6)
        us_nd_build_solicit(stack, pkt, &neighbour->six, mac);
    else
        us_arp_build_request(stack, pkt, neighbour->id, mac);
    return 1;
}
