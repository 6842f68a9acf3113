/* SPDX-License-Identifier: BSD-3-Clause */
/* The instance: configuration, memory, addresses, and the loop. */
#include "ustack/stack.h"

#include "ustack/arp.h"
#include "ustack/eth.h"
#include "ustack/icmp.h"
#include "ustack/ip6.h"
#include "ustack/tcp.h"
#include "ustack/tcp_timer.h"
#include "ustack/tcp_tw.h"

/* Bounds of the configuration. With these no size below leaves 32 bits. */
enum {
    MTU_MIN = 576,
    MTU_MAX = 9216,
    OBJECTS_MAX = 1 << 24,
    NEIGHBOURS_MAX = 1 << 16,
    LISTEN_MAX = 0xfffe,
    BLOCKS_MIN = 4,
    WINDOW_MIN = 1024,
    WINDOW_MAX = 1 << 30,
    RETRIES_MAX = 200,
    VLAN_ID_MAX = 4094, /* IEEE 802.1Q 9.6: 4095 is reserved */
    PROBES_MAX = 100,
    REASSEMBLY_MAX = 256,        /* they are looked for one after another */
    REASSEMBLY_BYTES_MIN = 1500, /* RFC 8200 section 5 */
    RTO_MAX_US = 600 * 1000 * 1000,
    DELAYED_ACK_MAX_US = 500 * 1000,
    QUICK_ACKS_MAX = 255,
    MEMORY_ALIGN = 64
};

U_STATIC_ASSERT(2 * (WINDOW_MAX / US_BLOCK_ROOM) + 8 < 1 << 24, blocks_of_a_window_are_counted);

/* References share the memory of the buffers: one may be queued for so many bytes of buffer. */
enum { BUFFER_BYTES_PER_REF = 512 };

const char *us_strerror(int error)
{
    switch (error) {
    case US_OK:
        return "success";
    case US_ERR_ARGUMENT:
        return "argument out of range";
    case US_ERR_NO_MEMORY:
        return "pool used up";
    case US_ERR_STATE:
        return "not possible in this state of the connection";
    case US_ERR_IN_USE:
        return "port or address in use";
    case US_ERR_NO_ROUTE:
        return "no route to the destination";
    case US_ERR_FULL:
        return "send queue full";
    default:
        return error > 0 ? "success" : "unknown error";
    }
}

/* ---- configuration and memory ---- */

void us_config_defaults(struct us_config *config)
{
    config->caps = 0;
    config->mtu = 1500;
    config->cc = US_CC_CUBIC;
    config->ecn = US_ECN_ACCEPT;
    config->nagle = 0;
    config->quick_acks = 8;
    config->conn_max = 16384;
    config->half_open_max = 1024;
    config->time_wait_max = 16384;
    config->arp_max = 1024;
    config->listen_max = 16;
    config->datagram_max = 256;
    config->reassembly_max = 16;
    config->reassembly_bytes = 65535;
    config->reassembly_us = 60u * 1000 * 1000; /* RFC 8200 4.5; RFC 1122 3.3.2: 60 s to 120 s */
    config->vlan_id = 0;
    config->dad_probes = 1;
    config->ip6_autoconf = 0;
    config->reply_to_sender = 0;
    config->follower = 0;
    config->buffer_bytes = 64u << 20;
    config->send_queue_bytes = 256u << 10;
    config->send_refs_max = 64;
    config->recv_window_bytes = 256u << 10;
    config->rto_min_us = 5u * 1000;
    config->rto_initial_us = 1000u * 1000;
    config->rto_max_us = 60u * 1000 * 1000;
    config->delayed_ack_us = 10u * 1000;
    config->peer_ack_delay_us = 50u * 1000;
    config->time_wait_us = 60u * 1000 * 1000;
    config->fin_wait2_us = 60u * 1000 * 1000;
    config->syn_cookies = 1;
    config->syn_retries_max = 7; /* RFC 9293 MUST-23: three minutes */
    config->syn_ack_retries_max = 4;
    config->retries_max = 12;
    config->arp_lifetime_us = 60u * 1000 * 1000;
    config->challenge_acks_max = 1000;
    config->keepalive = 0;
    config->keepalive_idle_ms = 2u * 3600 * 1000;
    config->keepalive_interval_ms = 75u * 1000;
    config->keepalive_count = 9;
    config->user_timeout_ms = 0;
    config->persist_ms = 0;
}

static int in_range(u_u32 value, u_u32 min, u_u32 max)
{
    return value >= min && value <= max;
}

/* What concerns congestion. */
static int config_cc_is_valid(const struct us_config *c)
{
    return in_range(c->cc, US_CC_RENO, US_CC_DCTCP) &&
           in_range(c->ecn, US_ECN_OFF, US_ECN_REQUEST) && in_range(c->nagle, 0, 1) &&
           in_range(c->quick_acks, 0, QUICK_ACKS_MAX);
}

static int config_is_valid(const struct us_config *c)
{
    return config_cc_is_valid(c) && in_range(c->mtu, MTU_MIN, MTU_MAX) &&
           in_range(c->conn_max, 1, OBJECTS_MAX) && in_range(c->syn_cookies, 0, 1) &&
           in_range(c->half_open_max, 1 - c->syn_cookies, OBJECTS_MAX) &&
           in_range(c->time_wait_max, 1, OBJECTS_MAX) && in_range(c->arp_max, 1, NEIGHBOURS_MAX) &&
           in_range(c->listen_max, 1, LISTEN_MAX) && in_range(c->datagram_max, 1, OBJECTS_MAX) &&
           in_range(c->reassembly_max, 1, REASSEMBLY_MAX) &&
           in_range(c->reassembly_bytes, REASSEMBLY_BYTES_MIN, 65535) &&
           in_range(c->vlan_id, 0, VLAN_ID_MAX) && in_range(c->dad_probes, 0, PROBES_MAX) &&
           in_range(c->reply_to_sender, 0, 1) && in_range(c->follower, 0, 1) &&
           in_range(c->ip6_autoconf, 0, c->mtu >= US_IP6_MTU_MIN && !c->reply_to_sender) &&
           in_range(c->buffer_bytes, BLOCKS_MIN * US_BLOCK_BYTES, 0xffffffffu) &&
           in_range(c->send_queue_bytes, 1, WINDOW_MAX) &&
           in_range(c->send_refs_max, 1, OBJECTS_MAX) &&
           in_range(c->recv_window_bytes, WINDOW_MIN, WINDOW_MAX) &&
           in_range(c->rto_min_us, 1, c->rto_max_us) &&
           in_range(c->rto_initial_us, 1, c->rto_max_us) &&
           in_range(c->rto_max_us, 1, RTO_MAX_US) &&
           in_range(c->delayed_ack_us, 0, DELAYED_ACK_MAX_US) &&
           in_range(c->peer_ack_delay_us, 0, DELAYED_ACK_MAX_US) &&
           in_range(c->syn_retries_max, 0, RETRIES_MAX) &&
           in_range(c->syn_ack_retries_max, 0, RETRIES_MAX) &&
           in_range(c->retries_max, 0, RETRIES_MAX) && in_range(c->keepalive, 0, 1) &&
           in_range(c->keepalive_idle_ms, 1, 0xffffffffu) &&
           in_range(c->keepalive_interval_ms, 1, 0xffffffffu) &&
           in_range(c->keepalive_count, 1, US_KEEP_COUNT_MAX);
}

/* The smallest power of two that is not below n. */
static u_u32 table_size(u_u32 n)
{
    u_u32 size = 1;

    while (size < n)
        size <<= 1;
    return size;
}

/* Hands out pieces of the caller's memory in order; without memory it only adds up sizes. */
struct carver {
    u_u8 *memory; /* null: add up only */
    unsigned long at;
    int overflow; /* the sum doesn't fit into an unsigned long */
};

static void *carve(struct carver *carver, u_u32 items, unsigned long item_bytes)
{
    unsigned long limit = ~0ul - carver->at - MEMORY_ALIGN;
    void *piece = carver->memory != U_NULL ? carver->memory + carver->at : (u_u8 *)U_NULL;

    if (items > limit / item_bytes) {
        carver->overflow = 1;
        return piece;
    }
    carver->at += (items * item_bytes + MEMORY_ALIGN - 1) & ~(unsigned long)(MEMORY_ALIGN - 1);
    return piece;
}

static void carve_pool(struct carver *carver, struct us_pool *pool, u_u32 items,
                       unsigned long item_bytes)
{
    us_pool_init(pool, carve(carver, items, item_bytes), (u_u32)item_bytes, items);
}

static void carve_ports(struct carver *carver, struct us_port_table *table, u_u32 max)
{
    table->items = (struct us_listener *)carve(carver, max, sizeof(struct us_listener));
    table->max = (u_u16)max;
}

/* Lays out all tables and pools behind the instance. */
static void stack_carve(struct us_stack *stack, const struct us_config *config,
                        struct carver *carver)
{
    u_u32 conn_buckets = table_size(config->conn_max);
    u_u32 tw_buckets = table_size(config->time_wait_max);
    u_u32 arp_buckets = table_size(config->arp_max);
    u_u32 refs = u_max32(config->buffer_bytes / BUFFER_BYTES_PER_REF, config->send_refs_max);

    stack->conn_mask = conn_buckets - 1;
    stack->conn_table = (struct us_conn **)carve(carver, conn_buckets, sizeof(struct us_conn *));
    stack->tw_mask = tw_buckets - 1;
    stack->tw_table = (struct us_tw **)carve(carver, tw_buckets, sizeof(struct us_tw *));
    stack->neighbours.mask = arp_buckets - 1;
    stack->neighbours.table =
        (struct us_neighbour **)carve(carver, arp_buckets, sizeof(struct us_neighbour *));
    carve_ports(carver, &stack->listeners, config->listen_max);
    carve_ports(carver, &stack->udp_ports, config->listen_max);
    carve_pool(carver, &stack->conn_pool, config->conn_max,
               (sizeof(struct us_conn) + MEMORY_ALIGN - 1) & ~(unsigned long)(MEMORY_ALIGN - 1));
    carve_pool(carver, &stack->tw_pool, config->time_wait_max, sizeof(struct us_tw));
    carve_pool(carver, &stack->neighbours.pool, config->arp_max, sizeof(struct us_neighbour));
    carve_pool(
        carver, &stack->frags.pool, config->reassembly_max,
        (sizeof(struct us_frag) + US_FRAG_HEAD_MAX + config->reassembly_bytes + MEMORY_ALIGN - 1) &
            ~(unsigned long)(MEMORY_ALIGN - 1));
    carve_pool(carver, &stack->dgrams.pool, config->datagram_max, sizeof(struct us_dgram));
    carve_pool(carver, &stack->ref_pool, refs, sizeof(struct us_ref));
    carve_pool(carver, &stack->block_pool, config->buffer_bytes / US_BLOCK_BYTES,
               sizeof(struct us_block));
}

unsigned long us_memory_bytes(const struct us_config *config)
{
    struct us_stack layout;
    struct carver carver;

    if (!config_is_valid(config))
        return 0;
    carver.memory = (u_u8 *)U_NULL;
    carver.at = MEMORY_ALIGN; /* room to align the memory that we are given */
    carver.overflow = 0;
    carve(&carver, 1, sizeof(struct us_stack));
    stack_carve(&layout, config, &carver);
    return carver.overflow ? 0 : carver.at;
}

/* A number cut from the halves of the secret: no two uses of one share a label. */
static u_u64 derive_number(const struct us_config *config, unsigned first, unsigned second)
{
    u_u8 labels[2];

    labels[0] = (u_u8)first;
    labels[1] = (u_u8)second;
    return u_siphash24(config->secret, labels, 1) ^
           u_siphash24(config->secret + U_SIPHASH_KEY_BYTES, labels + 1, 1);
}

/* Derives a key, so that no two uses share one: of the labels use * 2 and the next. */
static void derive_key(u_u8 *key, const struct us_config *config, unsigned use)
{
    unsigned half;
    unsigned i;

    for (half = 0; half < 2; half++) {
        u_u64 v = derive_number(config, use * 2 + half, use * 2 + half);
        for (i = 0; i < 8; i++)
            key[half * 8 + i] = (u_u8)(v >> (8 * i));
    }
}

/*
 * The key of a table, of the ten labels from `label` on: with a secret of two equal halves it is
 * no worse.
 */
static void derive_table_key(struct u_pairhash *hash, const struct us_config *config,
                             unsigned label)
{
    unsigned i;

    for (i = 0; i < 2; i++) {
        u_u64 v = derive_number(config, label, label + 1);
        hash->add[2 * i] = (u_u32)(v & 0xffffffffu);
        hash->add[2 * i + 1] = (u_u32)(v >> 32);
        label += 2;
    }
    hash->start = derive_number(config, label, label + 1);
    hash->low = derive_number(config, label + 2, label + 3);
    hash->high = derive_number(config, label + 4, label + 5);
}

struct us_stack *us_create(const struct us_config *config, void *memory, unsigned long bytes,
                           u_u64 now_us)
{
    unsigned long need = us_memory_bytes(config);
    struct us_stack *stack;
    struct carver carver;

    if (need == 0 || bytes < need)
        return (struct us_stack *)U_NULL;
    carver.memory = (u_u8 *)memory;
    carver.at = (MEMORY_ALIGN - (unsigned long)memory % MEMORY_ALIGN) % MEMORY_ALIGN;
    carver.overflow = 0;
    stack = (struct us_stack *)carve(&carver, 1, sizeof(struct us_stack));
    stack_carve(stack, config, &carver);
    stack->config = *config;
    stack->now_us = now_us;
    stack->l2_bytes = (u_u8)(config->vlan_id != 0 ? (int)US_L2_HDR_MAX : (int)US_ETH_HDR_BYTES);
    stack->icmp_tokens = US_ICMP_BURST;
    stack->icmp_filled_us = now_us;
    stack->challenge_left = config->challenge_acks_max;
    stack->rx_block_max = 2 * (config->recv_window_bytes / US_BLOCK_ROOM) + 8;
    derive_key(stack->key_isn, config, 1);
    derive_key(stack->key_port, config, 2);
    derive_key(stack->key_ts, config, 3);
    derive_key(stack->key_cookie, config, 4);
    derive_table_key(&stack->name_hash, config, 10);
    derive_table_key(&stack->id_hash, config, 20);
    stack->guess.at = &stack->guess_first;
    stack->guess.holds = 0;
    us_event_queue_init(&stack->events);
    us_wheel_init(&stack->wheel, now_us);
    u_list_init(&stack->neighbours.by_age);
    u_list_init(&stack->neighbours.learned);
    u_list_init(&stack->neighbours.asks);
    us_nd_init(stack);
    us_frag_init(stack);
    u_list_init(&stack->dgrams.ready);
    u_list_init(&stack->tw_list);
    u_list_init(&stack->out_list);
    u_list_init(&stack->memory_list);
    return stack;
}

/* ---- the loop ---- */

static U_NOINLINE void stack_run_timers(struct us_stack *stack)
{
    unsigned budget = US_TIMERS_PER_INPUT;
    struct us_timer *timer;

    while ((timer = us_wheel_take(&stack->wheel, stack->now_us, &budget)) != U_NULL) {
        if (timer->kind == US_TIMER_CONN)
            us_tcp_timer_fire(stack, U_CONTAINER_OF(timer, struct us_conn, timer));
        else if (timer->kind == US_TIMER_NEIGHBOUR)
            us_neighbour_timer(stack, U_CONTAINER_OF(timer, struct us_neighbour, timer));
        else if (timer->kind == US_TIMER_ND)
            us_nd_timer(stack);
        else
            us_frag_timer(stack);
    }
}

unsigned us_input(struct us_stack *stack, struct us_pkt *const *pkts, unsigned n, u_u64 now_us)
{
    unsigned i = 0;
    u_u32 room;

    stack->now_us = now_us;
    us_event_retire_blocks(stack);
    us_frag_retire(stack);
    while (i < n && (room = us_event_room(&stack->events)) != 0) {
        unsigned fast =
            stack->slow_only ? 0 : us_tcp_fast_input(stack, pkts + i, u_min32(n - i, room));
        i += fast;
        if (fast == 0) {
            us_count_add(stack, US_C_RX_BYTES, pkts[i]->len);
            us_eth_input(stack, pkts[i++]);
        }
    }
    us_count_add(stack, US_C_RX_FRAMES, i);
    if (i < n)
        us_count(stack, US_C_INPUT_CUT_SHORT);
    if (us_wheel_is_due(&stack->wheel, now_us))
        stack_run_timers(stack);
    if (U_UNLIKELY(!u_list_is_empty(&stack->tw_list)))
        us_tw_expire(stack);
    return i;
}

void us_caps_set(struct us_stack *stack, u_u32 caps)
{
    stack->config.caps = caps;
}

/* Whether anything but TCP has frames to send. */
U_INLINE int has_other_output(const struct us_stack *stack)
{
    return stack->announce != 0 || us_nd_has_output(&stack->nd) ||
           !u_list_is_empty(&stack->neighbours.asks) || !us_reply_is_empty(&stack->replies) ||
           !u_list_is_empty(&stack->dgrams.ready);
}

/* So many frames of one segment each were filled; TCP, which makes more, counts by itself. */
static void output_done(struct us_stack *stack, struct us_pkt **pkts, unsigned n)
{
    unsigned i;

    for (i = 0; i < n; i++) {
        pkts[i]->next_seg = (struct us_pkt *)U_NULL;
        us_count_add(stack, US_C_TX_BYTES, pkts[i]->len);
    }
    us_count_add(stack, US_C_TX_FRAMES, n);
}

static U_NOINLINE unsigned output_others(struct us_stack *stack, struct us_pkt **pkts, unsigned n)
{
    unsigned filled = 0;

    while (filled < n && (us_arp_output(stack, pkts[filled]) || us_nd_output(stack, pkts[filled]) ||
                          us_neighbour_output(stack, pkts[filled])))
        filled++;
    while (filled < n && us_reply_output(stack, pkts[filled]))
        filled++;
    while (filled < n && us_dgram_output(stack, pkts[filled]))
        filled++;
    output_done(stack, pkts, filled);
    return filled;
}

/* Of next hops that connections and datagrams have asked for in this call. */
static U_NOINLINE unsigned output_asks(struct us_stack *stack, struct us_pkt **pkts, unsigned n)
{
    unsigned filled = 0;

    while (filled < n && us_neighbour_output(stack, pkts[filled]))
        filled++;
    output_done(stack, pkts, filled);
    return filled;
}

unsigned us_output(struct us_stack *stack, struct us_pkt **pkts, unsigned n, u_u64 now_us)
{
    unsigned filled = 0;
    unsigned tcp;

    stack->now_us = now_us;
    if (U_UNLIKELY(has_other_output(stack)))
        filled = output_others(stack, pkts, n);
    tcp = us_tcp_output(stack, pkts + filled, n - filled);
    us_count_add(stack, US_C_TX_FRAMES, tcp);
    filled += tcp;
    if (U_UNLIKELY(!u_list_is_empty(&stack->neighbours.asks)))
        filled += output_asks(stack, pkts + filled, n - filled);
    return filled;
}

u_u64 us_deadline(const struct us_stack *stack)
{
    if (!u_list_is_empty(&stack->out_list) || has_other_output(stack))
        return 0;
    return u_min64(stack->wheel.next_us, us_tw_deadline(stack));
}
