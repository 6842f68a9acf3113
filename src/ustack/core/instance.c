/* SPDX-License-Identifier: BSD-3-Clause */
/* The instance: configuration, memory layout and event loop; see instance.h. */
#include "ustack/core/instance.h"

#include "ustack/ip/arp.h"
#include "ustack/ip/eth.h"
#include "ustack/ip/icmp.h"
#include "ustack/ip/ip6.h"
#include "ustack/tcp/tcp.h"
#include "ustack/tcp/tcp_fast.h"
#include "ustack/tcp/tcp_synq.h"
#include "ustack/tcp/tcp_timer.h"
#include "ustack/tcp/tcp_tw.h"

/* Ranges of the configuration. Within them no size below exceeds 32 bits. */
enum {
    MTU_MIN = 576,
    MTU_MAX = 9216,
    OBJECTS_MAX = 1 << 24,
    NEIGHBOURS_MAX = 1 << 16,
    LISTEN_MAX = 0xfffe,
    BUFFER_MIN = 4 * US_BLOCK_BYTES,
    WINDOW_MIN = 1024,
    WINDOW_MAX = 1 << 30,
    RETRIES_MAX = 200,
    VLAN_ID_MAX = 4094, /* IEEE 802.1Q 9.6: 4095 is reserved */
    PROBES_MAX = 100,
    REASSEMBLY_MAX = 256,        /* the list is searched linearly */
    REASSEMBLY_BYTES_MIN = 1500, /* RFC 8200 section 5 */
    RTO_MAX_US = 600 * 1000 * 1000,
    DELAYED_ACK_MAX_US = 500 * 1000,
    QUICK_ACKS_MAX = 255,
    MEMORY_ALIGN = 64
};

U_STATIC_ASSERT(RTO_MAX_US < (u_u64)1 << (US_SYNQ_LEVELS - 1), all_timeouts_have_a_level);
U_STATIC_ASSERT(2 * (WINDOW_MAX / US_BLOCK_ROOM) + 8 < 1 << 24, blocks_of_a_window_are_counted);

/* Of us_config_fit(). */
enum {
    FIT_HALF_OPEN_MAX = 1024,
    FIT_NEIGHBOURS_MIN = 8,
    FIT_LISTEN_MAX = 8,
    FIT_DATAGRAM_MAX = 16,
    FIT_REFS_MAX = 16
};

U_STATIC_ASSERT(US_TIMER_TICK_US == 1 << US_WHEEL_TICK_BITS, the_tick_is_as_promised);

/* One reference (us_send_ref()) for this many bytes of buffer_bytes. */
enum { BUFFER_BYTES_PER_REF = 512 };

const char *us_strerror(int error)
{
    /* Indices: -enum us_error. */
    static const char *const texts[] = {"success",
                                        "argument out of range",
                                        "pool exhausted",
                                        "not possible in this state of the connection",
                                        "port or address in use",
                                        "no route to the destination",
                                        "send queue full",
                                        "events of the connection not taken",
                                        "state of another version or byte order"};

    if (error >= 0)
        return texts[0];
    return error >= US_ERR_VERSION ? texts[-error] : "unknown error";
}

/* ---- configuration and memory ---- */

enum { CONFIG_KIB = 1024, CONFIG_MS = 1000, CONFIG_SECOND = 1000 * 1000 };

#define CONFIG_ANY 0xffffffffu

#define CONFIG_FIELD(name, initial, min, max)                                                      \
    {                                                                                              \
        U_OFFSET_OF(struct us_config, name), #name " is out of range", initial, min, max           \
    }

/* Default and range of each field but mac and secret. */
static const struct config_field {
    unsigned long offset;
    const char *error;
    u_u32 initial;
    u_u32 min;
    u_u32 max;
} config_fields[] = {
    CONFIG_FIELD(caps, 0, 0, CONFIG_ANY),
    CONFIG_FIELD(mtu, 1500, MTU_MIN, MTU_MAX),
    CONFIG_FIELD(vlan_id, 0, 0, VLAN_ID_MAX),
    CONFIG_FIELD(ip6_autoconf, 0, 0, 1),
    CONFIG_FIELD(dad_probes, 1, 0, PROBES_MAX),
    CONFIG_FIELD(arp_passive, 0, 0, 1),
    CONFIG_FIELD(reply_to_source_mac, 0, 0, 1),
    CONFIG_FIELD(point_to_point, 0, 0, 1),
    CONFIG_FIELD(no_fast_path, 0, 0, 1),
    CONFIG_FIELD(cc, US_CC_CUBIC, US_CC_RENO, US_CC_DCTCP),
    CONFIG_FIELD(ecn, US_ECN_ACCEPT, US_ECN_OFF, US_ECN_REQUEST),
    CONFIG_FIELD(nagle, 0, 0, 1),
    CONFIG_FIELD(quick_acks, 8, 0, QUICK_ACKS_MAX),
    CONFIG_FIELD(conn_max, 16384, 1, OBJECTS_MAX),
    CONFIG_FIELD(orphans_max, 4096, 1, OBJECTS_MAX),
    CONFIG_FIELD(half_open_max, 1024, 0, OBJECTS_MAX),
    CONFIG_FIELD(time_wait_max, 16384, 1, OBJECTS_MAX),
    CONFIG_FIELD(neighbour_max, 1024, 1, NEIGHBOURS_MAX),
    CONFIG_FIELD(listen_max, 16, 1, LISTEN_MAX),
    CONFIG_FIELD(datagram_max, 256, 1, OBJECTS_MAX),
    CONFIG_FIELD(reassembly_max, 16, 1, REASSEMBLY_MAX),
    CONFIG_FIELD(reassembly_bytes, 65535, REASSEMBLY_BYTES_MIN, 65535),
    CONFIG_FIELD(buffer_bytes, 64 * 1024 * CONFIG_KIB, BUFFER_MIN, CONFIG_ANY),
    CONFIG_FIELD(send_queue_bytes, 256 * CONFIG_KIB, 1, WINDOW_MAX),
    CONFIG_FIELD(send_refs_max, 64, 1, OBJECTS_MAX),
    CONFIG_FIELD(recv_window_bytes, 256 * CONFIG_KIB, WINDOW_MIN, WINDOW_MAX),
    CONFIG_FIELD(rto_min_us, 5 * CONFIG_MS, 1, RTO_MAX_US),
    CONFIG_FIELD(rto_initial_us, 1 * CONFIG_SECOND, 1, RTO_MAX_US),
    CONFIG_FIELD(rto_max_us, 60 * CONFIG_SECOND, 1, RTO_MAX_US),
    CONFIG_FIELD(backoff_max_us, 4 * CONFIG_SECOND, 1, RTO_MAX_US),
    CONFIG_FIELD(delayed_ack_us, 10 * CONFIG_MS, 0, DELAYED_ACK_MAX_US),
    CONFIG_FIELD(peer_ack_delay_us, 50 * CONFIG_MS, 0, DELAYED_ACK_MAX_US),
    CONFIG_FIELD(time_wait_us, 60 * CONFIG_SECOND, 0, CONFIG_ANY),
    CONFIG_FIELD(fin_wait2_us, 60 * CONFIG_SECOND, 0, CONFIG_ANY),
    /* RFC 9293 MUST-23: three minutes */
    CONFIG_FIELD(syn_retries_max, 7, 0, RETRIES_MAX),
    CONFIG_FIELD(syn_ack_retries_max, 4, 0, RETRIES_MAX),
    CONFIG_FIELD(neighbour_lifetime_us, 60 * CONFIG_SECOND, 0, CONFIG_ANY),
    /* RFC 8200 4.5; RFC 1122 3.3.2: 60 s to 120 s */
    CONFIG_FIELD(reassembly_us, 60 * CONFIG_SECOND, 0, CONFIG_ANY),
    CONFIG_FIELD(challenge_acks_max, 1000, 0, CONFIG_ANY),
    /* RFC 9293 SHLD-11: at least 100 s */
    CONFIG_FIELD(r2_ms, 180 * 1000, 1, CONFIG_ANY),
    CONFIG_FIELD(orphan_ms, 20 * 1000, 1, CONFIG_ANY),
    CONFIG_FIELD(keepalive, 0, 0, 1),
    CONFIG_FIELD(keepalive_idle_ms, 2 * 3600 * 1000, 1, CONFIG_ANY),
    CONFIG_FIELD(keepalive_interval_ms, 75 * 1000, 1, CONFIG_ANY),
    CONFIG_FIELD(keepalive_count, 9, 1, US_KEEPALIVE_COUNT_MAX),
    CONFIG_FIELD(user_timeout_ms, 0, 0, CONFIG_ANY),
    CONFIG_FIELD(persist_ms, 0, 0, CONFIG_ANY),
    CONFIG_FIELD(syn_cookies, 1, 0, 1),
};

void us_config_defaults(struct us_config *config)
{
    unsigned i;

    for (i = 0; i < U_ARRAY_LEN(config_fields); i++)
        u_copy((u_u8 *)config + config_fields[i].offset, &config_fields[i].initial, sizeof(u_u32));
}

/*
 * Buffers of a connection that queues `queue` bytes each way: blocks are not always full, and the
 * reserve and the share of out-of-order data stay free (buffer.c).
 */
static u_u64 config_conn_buffer(u_u64 queue)
{
    return 3 * queue +
           (queue > US_CONN_BUFFER_MIN / 4 ? US_CONN_BUFFER_MIN : US_CONN_BUFFER_MIN / 4);
}

void us_config_fit(struct us_config *config, u_u32 conn_max, u_u32 queue_bytes)
{
    u_u64 buffers = (u_u64)conn_max * config_conn_buffer(queue_bytes);

    config->conn_max = conn_max;
    config->orphans_max = conn_max;
    config->half_open_max = u_min32(conn_max, FIT_HALF_OPEN_MAX);
    config->time_wait_max = conn_max;
    config->neighbour_max = u_min32(u_max32(conn_max, FIT_NEIGHBOURS_MIN), NEIGHBOURS_MAX);
    config->listen_max = FIT_LISTEN_MAX;
    config->datagram_max = FIT_DATAGRAM_MAX;
    config->reassembly_max = 1;
    config->reassembly_bytes = REASSEMBLY_BYTES_MIN;
    config->buffer_bytes = u_max32((u_u32)u_min64(buffers, CONFIG_ANY), BUFFER_MIN);
    config->send_queue_bytes = queue_bytes;
    config->recv_window_bytes = queue_bytes;
    config->send_refs_max = FIT_REFS_MAX;
}

/* Rules about several fields. */
static const char *config_conflict(const struct us_config *c)
{
    if (c->half_open_max == 0 && !c->syn_cookies)
        return "half_open_max is 0 without syn_cookies";
    if (c->rto_min_us > c->rto_max_us)
        return "rto_min_us is above rto_max_us";
    if (c->rto_initial_us > c->rto_max_us)
        return "rto_initial_us is above rto_max_us";
    if (c->ip6_autoconf && c->mtu < US_IP6_MTU_MIN)
        return "ip6_autoconf needs an mtu of 1280";
    if (c->ip6_autoconf && (c->reply_to_source_mac || c->point_to_point))
        return "ip6_autoconf needs neighbour discovery";
    return (const char *)U_NULL;
}

/* us_config_error() but for the sum of all memory. */
static const char *config_error(const struct us_config *c)
{
    unsigned i;

    for (i = 0; i < U_ARRAY_LEN(config_fields); i++) {
        u_u32 value;
        u_copy(&value, (const u_u8 *)c + config_fields[i].offset, sizeof(value));
        if (value < config_fields[i].min || value > config_fields[i].max)
            return config_fields[i].error;
    }
    return config_conflict(c);
}

/* The smallest power of two >= n. */
static u_u32 table_size(u_u32 n)
{
    u_u32 size = 1;

    while (size < n)
        size <<= 1;
    return size;
}

/* Divides the memory of the caller; without memory it only adds up sizes. */
struct carver {
    u_u8 *memory; /* null: add up only */
    unsigned long at;
    int overflow; /* the sum exceeds unsigned long */
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
    u_u32 synq_buckets = table_size(config->half_open_max);
    u_u32 tw_buckets = table_size(config->time_wait_max);
    u_u32 arp_buckets = table_size(config->neighbour_max);
    u_u32 refs = u_max32(config->buffer_bytes / BUFFER_BYTES_PER_REF, config->send_refs_max);

    stack->conn_mask = conn_buckets - 1;
    stack->conn_table = (struct us_conn **)carve(carver, conn_buckets, sizeof(struct us_conn *));
    stack->synq.mask = synq_buckets - 1;
    stack->synq.table =
        (struct us_synq_entry **)carve(carver, synq_buckets, sizeof(struct us_synq_entry *));
    stack->tw_mask = tw_buckets - 1;
    stack->tw_table = (struct us_tw **)carve(carver, tw_buckets, sizeof(struct us_tw *));
    stack->neighbours.mask = arp_buckets - 1;
    stack->neighbours.table =
        (struct us_neighbour **)carve(carver, arp_buckets, sizeof(struct us_neighbour *));
    carve_ports(carver, &stack->listeners, config->listen_max);
    carve_ports(carver, &stack->udp_ports, config->listen_max);
    carve_pool(carver, &stack->conn_pool, config->conn_max,
               (sizeof(struct us_conn) + MEMORY_ALIGN - 1) & ~(unsigned long)(MEMORY_ALIGN - 1));
    carve_pool(carver, &stack->synq.pool, config->half_open_max, sizeof(struct us_synq_entry));
    carve_pool(carver, &stack->tw_pool, config->time_wait_max, sizeof(struct us_tw));
    carve_pool(carver, &stack->neighbours.pool, config->neighbour_max, sizeof(struct us_neighbour));
    carve_pool(
        carver, &stack->frags.pool, config->reassembly_max,
        (sizeof(struct us_frag) + US_FRAG_HEAD_MAX + config->reassembly_bytes + MEMORY_ALIGN - 1) &
            ~(unsigned long)(MEMORY_ALIGN - 1));
    carve_pool(carver, &stack->dgrams.pool, config->datagram_max, sizeof(struct us_dgram));
    carve_pool(carver, &stack->ref_pool, refs, sizeof(struct us_ref));
    carve_pool(carver, &stack->block_pool, config->buffer_bytes / US_BLOCK_BYTES,
               sizeof(struct us_block));
}

/* The size of an instance with this configuration; 0: more than an address can say. */
static unsigned long stack_bytes(const struct us_config *config)
{
    struct us_stack layout;
    struct carver carver;

    carver.memory = (u_u8 *)U_NULL;
    carver.at = MEMORY_ALIGN; /* room to align the memory */
    carver.overflow = 0;
    carve(&carver, 1, sizeof(struct us_stack));
    stack_carve(&layout, config, &carver);
    return carver.overflow ? 0 : carver.at;
}

const char *us_config_error(const struct us_config *config)
{
    const char *error = config_error(config);

    if (error == U_NULL && stack_bytes(config) == 0)
        error = "buffer_bytes and the other bounds exceed the address space";
    return error;
}

unsigned long us_memory_bytes(const struct us_config *config)
{
    return config_error(config) == U_NULL ? stack_bytes(config) : 0;
}

/* A number derived from both halves of the secret; each use has its own labels. */
static u_u64 derive_number(const struct us_config *config, unsigned first, unsigned second)
{
    u_u8 labels[2];

    labels[0] = (u_u8)first;
    labels[1] = (u_u8)second;
    return u_siphash24(config->secret, labels, 1) ^
           u_siphash24(config->secret + U_SIPHASH_KEY_BYTES, labels + 1, 1);
}

/* Added to the labels of keys for the second half of the secret: equal halves would cancel out. */
enum { SECOND_HALF = 128 };

/* Derives a SipHash key; uses labels use * 2 and use * 2 + 1, and those of the second half. */
static void derive_key(u_u8 *key, const struct us_config *config, unsigned use)
{
    unsigned half;
    unsigned i;

    for (half = 0; half < 2; half++) {
        u_u64 v = derive_number(config, use * 2 + half, use * 2 + half + SECOND_HALF);
        for (i = 0; i < 8; i++)
            key[half * 8 + i] = (u_u8)(v >> (8 * i));
    }
}

/* Derives the key of a hash table; uses the ten labels from `label` on. */
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

    U_ASSERT(memory != U_NULL);
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
    derive_table_key(&stack->tuple_hash, config, 10);
    derive_table_key(&stack->id_hash, config, 20);
    us_event_queue_init(&stack->events);
    us_wheel_init(&stack->wheel, now_us);
    us_neighbours_init(&stack->neighbours);
    us_synq_init(stack);
    us_nd_init(stack);
    us_frag_init(stack);
    u_list_init(&stack->dgrams.ready);
    u_list_init(&stack->tw_list);
    u_list_init(&stack->out_list);
    u_list_init(&stack->memory_lists[US_BLOCK_MINIMUM]);
    u_list_init(&stack->memory_lists[US_BLOCK_SHARED]);
    us_memory_init(stack);
    u_list_init(&stack->orphans);
    return stack;
}

/* ---- event loop ---- */

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
        else if (timer->kind == US_TIMER_SYNQ)
            us_synq_timer(stack);
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
        unsigned fast = stack->config.no_fast_path
                            ? 0
                            : us_tcp_fast_input(stack, pkts + i, u_min32(n - i, room));
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

void us_mtu_set(struct us_stack *stack, u_u32 mtu)
{
    u_u32 mtu6 = u_max32(mtu, US_IP6_MTU_MIN);
    u_u32 old6 = u_max32(stack->config.mtu, US_IP6_MTU_MIN);

    U_ASSERT(mtu >= MTU_MIN && mtu <= MTU_MAX);
    /* An MTU advertised by a router (RFC 4861 4.6.4) stays if it is less. */
    if (stack->nd.mtu > mtu6 || stack->nd.mtu == stack->config.mtu || stack->nd.mtu == old6)
        stack->nd.mtu = mtu6;
    stack->config.mtu = mtu;
    us_tcp_link_mtu(stack);
}

/* Whether a protocol other than TCP has frames to send. */
U_INLINE int has_non_tcp_output(const struct us_stack *stack)
{
    return stack->announce != 0 || us_nd_has_output(&stack->nd) ||
           !u_list_is_empty(&stack->neighbours.requests) || !us_reply_is_empty(&stack->replies) ||
           !u_list_is_empty(&stack->dgrams.ready);
}

/* Completes and counts n frames of one segment each; TCP counts its frames itself. */
static void output_done(struct us_stack *stack, struct us_pkt **pkts, unsigned n)
{
    unsigned i;

    for (i = 0; i < n; i++) {
        U_ASSERT(pkts[i]->len <= pkts[i]->room);
        pkts[i]->next_seg = (struct us_pkt *)U_NULL;
        pkts[i]->l4_len = 0; /* drivers refuse a frame that is shorter than its headers */
        us_count_add(stack, US_C_TX_BYTES, pkts[i]->len);
    }
    us_count_add(stack, US_C_TX_FRAMES, n);
}

static U_NOINLINE unsigned output_non_tcp(struct us_stack *stack, struct us_pkt **pkts, unsigned n)
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

/* Requests for next hops that were needed first in this us_output(). */
static U_NOINLINE unsigned output_requests(struct us_stack *stack, struct us_pkt **pkts, unsigned n)
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
    if (U_UNLIKELY(has_non_tcp_output(stack)))
        filled = output_non_tcp(stack, pkts, n);
    tcp = us_tcp_output(stack, pkts + filled, n - filled);
    us_count_add(stack, US_C_TX_FRAMES, tcp);
    filled += tcp;
    if (U_UNLIKELY(!u_list_is_empty(&stack->neighbours.requests)))
        filled += output_requests(stack, pkts + filled, n - filled);
    return filled;
}

u_u64 us_timer_deadline(const struct us_stack *stack)
{
    return u_min64(stack->wheel.next_us, us_tw_deadline(stack));
}

u_u64 us_deadline(const struct us_stack *stack)
{
    if (!u_list_is_empty(&stack->out_list) || has_non_tcp_output(stack))
        return 0;
    return us_timer_deadline(stack);
}

void us_now(struct us_stack *stack, u_u64 now_us)
{
    stack->now_us = now_us;
}
