/* SPDX-License-Identifier: BSD-3-Clause */
/* ARP; see arp.h. */
#include "ustack/arp.h"

#include "base/wire.h"
#include "ustack/eth.h"
#include "ustack/stack.h"
#include "ustack/tcp.h"

enum { ARP_REQUEST = 1, ARP_REPLY = 2, ARP_HW_ETHERNET = 1 };

struct arp_packet {
    struct u_be16 hw_type;
    struct u_be16 proto_type;
    u_u8 hw_bytes;
    u_u8 proto_bytes;
    struct u_be16 operation;
    u_u8 sender_mac[6];
    struct u_be32 sender_ip;
    u_u8 target_mac[6];
    struct u_be32 target_ip;
};

enum { ARP_PACKET_BYTES = 28 };

U_STATIC_ASSERT(sizeof(struct arp_packet) == ARP_PACKET_BYTES, arp_packet_size);

/* ---- the table ---- */

static struct us_neighbour **arp_bucket(const struct us_stack *stack, u_u32 ip)
{
    /* Neighbours are few and on our own link: their number bounds the chains, not a keyed hash. */
    return &stack->arp.table[(ip ^ ip >> 8 ^ ip >> 16) & stack->arp.mask];
}

struct us_neighbour *us_arp_find(const struct us_stack *stack, u_u32 ip)
{
    struct us_neighbour *neighbour = *arp_bucket(stack, ip);

    while (neighbour != U_NULL && neighbour->ip != ip)
        neighbour = neighbour->hash_next;
    return neighbour;
}

static void neighbour_forget(struct us_stack *stack, struct us_neighbour *neighbour)
{
    struct us_neighbour **at = arp_bucket(stack, neighbour->ip);

    while (*at != neighbour) {
        U_ASSERT(*at != U_NULL);
        at = &(*at)->hash_next;
    }
    *at = neighbour->hash_next;
    us_timer_stop(&stack->wheel, &neighbour->timer);
    u_list_remove(&neighbour->age_link);
    u_list_remove(&neighbour->ask_link);
    U_ASSERT(u_list_is_empty(&neighbour->waiting) && u_list_is_empty(&neighbour->dgrams));
    neighbour->ip = 0; /* connections that remember this entry see that it is another's */
    us_pool_put(&stack->arp.pool, neighbour);
}

/*
 * Makes an entry, if need be in place of the neighbour that was confirmed longest ago. Null if all
 * entries are being asked for, with connections waiting for them.
 */
static struct us_neighbour *neighbour_new(struct us_stack *stack, u_u32 ip)
{
    struct us_arp *arp = &stack->arp;
    struct us_neighbour *neighbour;
    struct us_neighbour **bucket = arp_bucket(stack, ip);

    if (us_pool_free(&arp->pool) == 0) {
        us_count(stack, US_C_ARP_EVICTIONS);
        if (u_list_is_empty(&arp->by_age))
            return (struct us_neighbour *)U_NULL;
        neighbour_forget(stack, U_CONTAINER_OF(arp->by_age.next, struct us_neighbour, age_link));
    }
    neighbour = (struct us_neighbour *)us_pool_get(&arp->pool);
    u_zero(neighbour, sizeof(*neighbour));
    neighbour->ip = ip;
    neighbour->state = US_NEIGHBOUR_ASKING;
    us_timer_init(&neighbour->timer, US_TIMER_ARP);
    u_list_init(&neighbour->age_link);
    u_list_init(&neighbour->ask_link);
    u_list_init(&neighbour->waiting);
    u_list_init(&neighbour->dgrams);
    neighbour->hash_next = *bucket;
    *bucket = neighbour;
    return neighbour;
}

/* Queues one more request and sets the timer for what follows it. */
static void neighbour_ask(struct us_stack *stack, struct us_neighbour *neighbour)
{
    if (u_list_is_empty(&neighbour->ask_link))
        u_list_push_back(&stack->arp.asks, &neighbour->ask_link);
    us_timer_set(&stack->wheel, &neighbour->timer,
                 stack->now_us + ((u_u64)US_ARP_FIRST_RETRY_US << neighbour->tries));
    neighbour->tries++;
}

/* Its address is known, newly or again. */
static void neighbour_confirm(struct us_stack *stack, struct us_neighbour *neighbour,
                              const u_u8 *mac)
{
    if (neighbour->state != US_NEIGHBOUR_ASKING &&
        !u_equal(neighbour->mac, mac, sizeof(neighbour->mac)))
        us_count(stack, US_C_ARP_CHANGES);
    u_copy(neighbour->mac, mac, sizeof(neighbour->mac));
    neighbour->state = US_NEIGHBOUR_VALID;
    neighbour->tries = 0;
    neighbour->confirmed_us = stack->now_us;
    us_timer_stop(&stack->wheel, &neighbour->timer);
    u_list_remove(&neighbour->ask_link);
    u_list_remove(&neighbour->age_link);
    u_list_push_back(&stack->arp.by_age, &neighbour->age_link);
    us_tcp_out_reachable(stack, &neighbour->waiting);
    us_dgram_reachable(stack, &neighbour->dgrams);
}

struct us_neighbour *us_arp_want(struct us_stack *stack, u_u32 ip)
{
    struct us_neighbour *neighbour = us_arp_find(stack, ip);

    if (neighbour != U_NULL)
        return neighbour;
    neighbour = neighbour_new(stack, ip);
    if (neighbour != U_NULL)
        neighbour_ask(stack, neighbour);
    return neighbour;
}

/* Asks for an address that is in use. */
static void neighbour_refresh(struct us_stack *stack, struct us_neighbour *neighbour)
{
    neighbour->state = US_NEIGHBOUR_REFRESH;
    neighbour_ask(stack, neighbour);
}

int us_neighbour_use(struct us_stack *stack, struct us_neighbour *neighbour)
{
    if (U_UNLIKELY(neighbour->state == US_NEIGHBOUR_ASKING))
        return 0;
    if (U_UNLIKELY(neighbour->state == US_NEIGHBOUR_VALID &&
                   stack->now_us - neighbour->confirmed_us > stack->config.arp_lifetime_us))
        neighbour_refresh(stack, neighbour);
    return 1;
}

void us_arp_doubt(struct us_stack *stack, u_u32 ip)
{
    struct us_neighbour *neighbour = us_arp_find(stack, ip);

    if (neighbour != U_NULL && neighbour->state == US_NEIGHBOUR_VALID)
        neighbour_refresh(stack, neighbour);
}

void us_arp_learn(struct us_stack *stack, u_u32 ip, const u_u8 *mac, int trusted)
{
    struct us_neighbour *neighbour;

    if (!us_local_is_neighbour(stack, ip))
        return;
    neighbour = us_arp_find(stack, ip);
    if (neighbour == U_NULL)
        neighbour = neighbour_new(stack, ip);
    else if (neighbour->state != US_NEIGHBOUR_ASKING &&
             (!trusted || u_equal(neighbour->mac, mac, sizeof(neighbour->mac))))
        return;
    if (neighbour != U_NULL)
        neighbour_confirm(stack, neighbour, mac);
}

void us_arp_timer(struct us_stack *stack, struct us_neighbour *neighbour)
{
    struct u_list waiting;
    struct u_list dgrams;

    if (neighbour->tries < US_ARP_TRIES_MAX) {
        neighbour_ask(stack, neighbour);
        return;
    }
    us_count(stack, US_C_ARP_TIMEOUTS);
    u_list_init(&waiting);
    u_list_init(&dgrams);
    u_list_append_all(&waiting, &neighbour->waiting);
    u_list_append_all(&dgrams, &neighbour->dgrams);
    neighbour_forget(stack, neighbour);
    us_tcp_out_unreachable(stack, &waiting);
    us_dgram_unreachable(stack, &dgrams);
}

/* ---- packets ---- */

static int arp_is_well_formed(const struct arp_packet *arp)
{
    return u_get_be16(arp->hw_type) == ARP_HW_ETHERNET &&
           u_get_be16(arp->proto_type) == US_ETH_IP4 && arp->hw_bytes == 6 &&
           arp->proto_bytes == 4 && !(arp->sender_mac[0] & 1) &&
           (u_get_be16(arp->operation) == ARP_REQUEST || u_get_be16(arp->operation) == ARP_REPLY);
}

/* RFC 826: what is known is updated; what is new is added only if the packet is for us. */
static void arp_merge(struct us_stack *stack, const struct arp_packet *arp, int for_us)
{
    u_u32 ip = u_get_be32(arp->sender_ip);
    struct us_neighbour *neighbour;

    if (!us_local_is_neighbour(stack, ip))
        return;
    neighbour = us_arp_find(stack, ip);
    if (neighbour == U_NULL) {
        if (!for_us)
            return;
        neighbour = neighbour_new(stack, ip);
    }
    if (neighbour != U_NULL)
        neighbour_confirm(stack, neighbour, arp->sender_mac);
}

void us_arp_input(struct us_stack *stack, const u_u8 *data, u_u32 bytes)
{
    const struct arp_packet *arp = (const struct arp_packet *)data;
    struct us_reply *reply;
    struct us_rx rx;
    int for_us;

    if (bytes < ARP_PACKET_BYTES || !arp_is_well_formed(arp)) {
        us_count(stack, US_C_DROP_ARP_MALFORMED);
        return;
    }
    us_count(stack, US_C_ARP_RX);
    if (us_local_is(stack, u_get_be32(arp->sender_ip))) {
        us_count(stack, US_C_ARP_CONFLICTS); /* RFC 5227 2.4: somebody else claims our address */
        return;
    }
    for_us = us_local_is(stack, u_get_be32(arp->target_ip));
    arp_merge(stack, arp, for_us);
    if (!for_us || u_get_be16(arp->operation) != ARP_REQUEST)
        return;
    rx.mac = arp->sender_mac;
    rx.src_ip = u_get_be32(arp->sender_ip);
    rx.dst_ip = u_get_be32(arp->target_ip);
    rx.tos = 0;
    reply = us_reply_add(stack, &rx, US_REPLY_ARP);
    if (reply != U_NULL)
        us_count(stack, US_C_ARP_TX_REPLIES);
}

static void arp_build(struct us_stack *stack, struct us_pkt *pkt, const u_u8 *eth_dst,
                      unsigned operation, u_u32 sender_ip, const u_u8 *target_mac, u_u32 target_ip)
{
    struct arp_packet *arp = (struct arp_packet *)(pkt->data + US_ETH_HDR_BYTES);

    us_eth_build(stack, pkt->data, eth_dst, US_ETH_ARP);
    arp->hw_type = u_be16(ARP_HW_ETHERNET);
    arp->proto_type = u_be16(US_ETH_IP4);
    arp->hw_bytes = 6;
    arp->proto_bytes = 4;
    arp->operation = u_be16(operation);
    u_copy(arp->sender_mac, stack->config.mac, 6);
    arp->sender_ip = u_be32(sender_ip);
    u_copy(arp->target_mac, target_mac, 6);
    arp->target_ip = u_be32(target_ip);
    pkt->len = US_ETH_HDR_BYTES + ARP_PACKET_BYTES;
    pkt->flags = 0;
}

void us_arp_build_reply(struct us_stack *stack, struct us_pkt *pkt, u_u32 src_ip, u_u32 dst_ip,
                        const u_u8 *dst_mac)
{
    arp_build(stack, pkt, dst_mac, ARP_REPLY, src_ip, dst_mac, dst_ip);
}

/* RFC 5227 section 3: an announcement is a request for our own address. */
static int arp_announce(struct us_stack *stack, struct us_pkt *pkt)
{
    static const u_u8 no_mac[6] = {0, 0, 0, 0, 0, 0};
    unsigned i;

    for (i = 0; i < stack->local_count; i++) {
        struct us_local *local = &stack->locals[i];
        if (local->announce) {
            local->announce = 0;
            arp_build(stack, pkt, us_eth_broadcast, ARP_REQUEST, local->ip, no_mac, local->ip);
            return 1;
        }
    }
    return 0;
}

int us_arp_output(struct us_stack *stack, struct us_pkt *pkt)
{
    static const u_u8 no_mac[6] = {0, 0, 0, 0, 0, 0};
    struct us_neighbour *neighbour;
    struct us_route route;
    struct u_list *link;

    if (arp_announce(stack, pkt))
        return 1;
    link = u_list_pop_front(&stack->arp.asks);
    if (link == U_NULL)
        return 0;
    neighbour = U_CONTAINER_OF(link, struct us_neighbour, ask_link);
    us_count(stack, US_C_ARP_TX_REQUESTS);
    if (!us_route_find(stack, neighbour->ip, &route))
        route.src_ip = stack->locals[0].ip;
    arp_build(stack, pkt, us_eth_broadcast, ARP_REQUEST, route.src_ip, no_mac, neighbour->ip);
    return 1;
}

int us_arp_has_output(const struct us_stack *stack)
{
    unsigned i;

    for (i = 0; i < stack->local_count; i++)
        if (stack->locals[i].announce)
            return 1;
    return !u_list_is_empty(&stack->arp.asks);
}
