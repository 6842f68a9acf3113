/* SPDX-License-Identifier: BSD-3-Clause */
/* The SYN queue; see tcp_synq.h. */
#include "ustack/tcp/tcp_synq.h"

#include "ustack/tcp/tcp_ecn.h"

enum {
    SYNQ_EXPIRE_MAX = 32,        /* entries handled by one call of us_synq_timer() */
    SYNQ_EXPIRE_AGAIN_US = 1000, /* when the next ones are, if more are due */
    SYNQ_CHALLENGES_MAX = 10     /* challenge ACKs of one entry */
};

/* ---- the table ---- */

static struct us_synq_entry **synq_bucket(const struct us_stack *stack,
                                          const struct us_tcp_key *key)
{
    return &stack->synq.table[us_tcp_hash(stack, key) & stack->synq.mask];
}

static struct us_synq_entry *synq_first(const struct us_stack *stack, unsigned level)
{
    const struct u_list *list = &stack->synq.levels[level];

    if (u_list_is_empty(list))
        return (struct us_synq_entry *)U_NULL;
    return U_CONTAINER_OF(list->next, struct us_synq_entry, link);
}

/* The time between retransmissions (RFC 6298 5.5). */
static u_u64 synq_wait_us(const struct us_stack *stack, unsigned level)
{
    return us_rtt_backoff_us(u_min32(stack->config.rto_initial_us, stack->config.rto_max_us), level,
                             stack->config.rto_max_us);
}

/* Starts to wait for the ACK of the SYN-ACK that is sent now. */
static void synq_wait(struct us_stack *stack, struct us_synq_entry *entry)
{
    struct us_synq *synq = &stack->synq;
    unsigned level = u_min32(entry->retries, US_SYNQ_LEVELS - 1);

    u_list_remove(&entry->link);
    u_list_push_back(&synq->levels[level], &entry->link);
    entry->due_us = stack->now_us + synq_wait_us(stack, level);
    if (synq->timer.at_us > entry->due_us)
        us_timer_set(&stack->wheel, &synq->timer, entry->due_us);
}

void us_synq_init(struct us_stack *stack)
{
    unsigned level;

    us_timer_init(&stack->synq.timer, US_TIMER_SYNQ);
    for (level = 0; level < US_SYNQ_LEVELS; level++)
        u_list_init(&stack->synq.levels[level]);
}

struct us_synq_entry *us_synq_add(struct us_stack *stack, const struct us_tcp_key *key,
                                  const struct us_ip6 *remote6)
{
    struct us_synq_entry *entry = (struct us_synq_entry *)us_pool_get(&stack->synq.pool);
    struct us_synq_entry **bucket = synq_bucket(stack, key);

    if (entry == U_NULL)
        return entry;
    u_zero(entry, sizeof(*entry));
    entry->key = *key;
    if (remote6 != U_NULL)
        entry->remote6 = *remote6;
    entry->hash_next = *bucket;
    *bucket = entry;
    u_list_init(&entry->link);
    synq_wait(stack, entry);
    return entry;
}

struct us_synq_entry *us_synq_find(const struct us_stack *stack, const struct us_tcp_key *key,
                                   const struct us_ip6 *remote6)
{
    struct us_synq_entry *entry = (struct us_synq_entry *)U_NULL;

    if (stack->synq.pool.used != 0)
        entry = *synq_bucket(stack, key);
    while (entry != U_NULL && !(us_tcp_key_equal(&entry->key, key) &&
                                (remote6 == U_NULL || us_ip6_equal(&entry->remote6, remote6))))
        entry = entry->hash_next;
    return entry;
}

void us_synq_remove(struct us_stack *stack, struct us_synq_entry *entry)
{
    struct us_synq_entry **at = synq_bucket(stack, &entry->key);

    while (*at != entry) {
        U_ASSERT(*at != U_NULL);
        at = &(*at)->hash_next;
    }
    *at = entry->hash_next;
    u_list_remove(&entry->link);
    us_pool_put(&stack->synq.pool, entry);
    if (stack->synq.pool.used == 0)
        us_timer_stop(&stack->wheel, &stack->synq.timer);
}

int us_synq_evict(struct us_stack *stack)
{
    unsigned level = US_SYNQ_LEVELS;

    while (level-- > 0) {
        struct us_synq_entry *entry = synq_first(stack, level);
        if (entry != U_NULL) {
            us_count(stack, US_C_HALF_OPEN_EVICTIONS);
            us_synq_remove(stack, entry);
            return 1;
        }
    }
    return 0;
}

void us_synq_remove_local(struct us_stack *stack, u_u32 local_ip)
{
    unsigned level;

    for (level = 0; level < US_SYNQ_LEVELS; level++) {
        struct u_list *link = stack->synq.levels[level].next;
        while (link != &stack->synq.levels[level]) {
            struct us_synq_entry *entry = U_CONTAINER_OF(link, struct us_synq_entry, link);
            link = link->next;
            if (entry->key.local_ip == local_ip)
                us_synq_remove(stack, entry);
        }
    }
}

/* ---- SYN-ACKs ---- */

u_u64 us_synq_sent_us(const struct us_stack *stack, const struct us_synq_entry *entry)
{
    return entry->due_us - synq_wait_us(stack, 0);
}

int us_synq_send(struct us_stack *stack, const struct us_synq_entry *entry, u_u32 ts_val)
{
    struct us_reply *reply;
    struct us_rx rx;

    u_zero(&rx, sizeof(rx));
    rx.mac = entry->mac;
    rx.src_ip = entry->key.remote_ip;
    rx.dst_ip = entry->key.local_ip;
    rx.src6 = us_synq_remote6(entry);
    reply = us_reply_add(stack, &rx, US_REPLY_TCP);
    if (reply == U_NULL)
        return 0;
    reply->tcp.src_port = entry->key.local_port;
    reply->tcp.dst_port = entry->key.remote_port;
    reply->tcp.seq = entry->iss;
    reply->tcp.ack = entry->irs + 1;
    reply->tcp.flags = US_TCP_SYN | US_TCP_ACK;
    if (entry->opts & US_OPT_ECN)
        reply->tcp.flags |= US_TCP_ECE;
    reply->tcp.window = (u_u16)u_min32(stack->config.recv_window_bytes, 0xffff);
    reply->tcp.mss = us_conn_mss_offered(stack, entry->key.local_ip);
    reply->tcp.has_scale = (entry->opts & US_OPT_SCALE) != 0;
    reply->tcp.scale = us_conn_scale_offered(stack);
    reply->tcp.sack_permitted = (entry->opts & US_OPT_SACK) != 0;
    reply->tcp.has_ts = (entry->opts & US_OPT_TS) != 0;
    reply->tcp.ts_val = ts_val;
    reply->tcp.ts_ecr = entry->ts_recent;
    return 1;
}

static u_u32 synq_ts_val(const struct us_stack *stack, const struct us_synq_entry *entry)
{
    return us_ts_clock(stack->now_us) + us_tcp_ts_offset(stack, &entry->key);
}

int us_synq_send_now(struct us_stack *stack, const struct us_synq_entry *entry)
{
    return us_synq_send(stack, entry, synq_ts_val(stack, entry));
}

static void synq_send_again(struct us_stack *stack, struct us_synq_entry *entry)
{
    entry->resent = 1;
    if (us_synq_send_now(stack, entry))
        us_count(stack, US_C_TCP_RETRANSMITS);
}

/* ---- segments ---- */

/* The window of the SYN-ACK, which is not scaled. */
static u_u32 synq_window(const struct us_stack *stack)
{
    return u_min32(stack->config.recv_window_bytes, 0xffff);
}

/* Replies to an unacceptable segment with an ACK, within the limits of RFC 5961 section 7. */
static void synq_challenge(struct us_stack *stack, struct us_synq_entry *entry,
                           const struct us_seg *seg)
{
    unsigned scale = entry->opts & US_OPT_SCALE ? us_conn_scale_offered(stack) : 0;
    struct us_reply *reply;

    if (entry->challenges == SYNQ_CHALLENGES_MAX) {
        us_count(stack, US_C_TCP_CHALLENGE_LIMITED);
        return;
    }
    if (!us_tcp_challenge_allowed(stack))
        return;
    reply = us_tcp_reply(stack, seg);
    if (reply == U_NULL)
        return;
    entry->challenges++;
    reply->tcp.seq = entry->iss + 1;
    reply->tcp.ack = entry->irs + 1;
    reply->tcp.flags = US_TCP_ACK;
    reply->tcp.window = (u_u16)((synq_window(stack) + (1u << scale) - 1) >> scale);
    reply->tcp.has_ts = (entry->opts & US_OPT_TS) != 0;
    reply->tcp.ts_val = synq_ts_val(stack, entry);
    reply->tcp.ts_ecr = entry->ts_recent;
}

/*
 * A retransmitted SYN: the SYN-ACK was lost. A different SYN changes nothing (RFC 5961 section 4).
 */
static void synq_syn(struct us_stack *stack, struct us_synq_entry *entry, const struct us_seg *seg)
{
    if (seg->flags & US_TCP_RST) {
        us_count(stack, US_C_DROP_TCP_RST);
        return;
    }
    if (seg->seq != entry->irs || (seg->flags & US_TCP_ACK)) {
        synq_challenge(stack, entry, seg);
        return;
    }
    if (!us_ecn_is_requested(stack, seg)) /* RFC 3168 6.1.1.1: the peer no longer requests ECN */
        entry->opts &= (u_u8)~US_OPT_ECN;
    u_copy(entry->mac, seg->rx->mac, sizeof(entry->mac));
    synq_send_again(stack, entry);
}

/* RFC 7323 3.2 and 5.3. Returns 0 if the segment was dropped. */
static int synq_check_timestamp(struct us_stack *stack, struct us_synq_entry *entry,
                                const struct us_seg *seg)
{
    if (!(entry->opts & US_OPT_TS) || (seg->flags & US_TCP_RST))
        return 1;
    if (!seg->opts.has_ts) {
        us_count(stack, US_C_DROP_TCP_NO_TIMESTAMP);
        return 0;
    }
    if (us_seq_lt(seg->opts.ts_val, entry->ts_recent)) {
        us_count(stack, US_C_DROP_TCP_PAWS);
        synq_challenge(stack, entry, seg);
        return 0;
    }
    return 1;
}

/* A RST that is acceptable (RFC 5961 section 3). */
static void synq_rst(struct us_stack *stack, struct us_synq_entry *entry, const struct us_seg *seg)
{
    us_count(stack, US_C_TCP_RX_RST);
    if (seg->seq != entry->irs + 1) {
        synq_challenge(stack, entry, seg);
        return;
    }
    us_count(stack, US_C_HALF_OPEN_RESETS);
    us_synq_remove(stack, entry);
}

int us_synq_input(struct us_stack *stack, struct us_synq_entry *entry, const struct us_seg *seg)
{
    if (seg->flags & US_TCP_SYN) {
        synq_syn(stack, entry, seg);
        return 0;
    }
    if (!synq_check_timestamp(stack, entry, seg))
        return 0;
    if (!us_seg_is_acceptable(seg, entry->irs + 1, synq_window(stack))) {
        if (seg->flags & US_TCP_RST) {
            us_count(stack, US_C_DROP_TCP_RST);
            return 0;
        }
        us_count(stack, US_C_DROP_TCP_WINDOW);
        synq_challenge(stack, entry, seg);
        return 0;
    }
    if (seg->flags & US_TCP_RST) {
        synq_rst(stack, entry, seg);
        return 0;
    }
    if (!(seg->flags & US_TCP_ACK)) {
        us_count(stack, US_C_DROP_TCP_NO_ACK);
        return 0;
    }
    if (seg->ack != entry->iss + 1) {
        us_count(stack, US_C_DROP_TCP_BAD_ACK);
        us_tcp_reply_rst(stack, seg);
        return 0;
    }
    return 1;
}

/* ---- time ---- */

/* No ACK has arrived: retransmits the SYN-ACK, or removes the entry. */
static void synq_timeout(struct us_stack *stack, struct us_synq_entry *entry)
{
    us_count(stack, US_C_TCP_TIMEOUTS);
    if (entry->retries >= stack->config.syn_ack_retries_max) {
        us_count(stack, US_C_HALF_OPEN_TIMEOUTS);
        us_synq_remove(stack, entry);
        return;
    }
    entry->retries++;
    synq_wait(stack, entry);
    synq_send_again(stack, entry);
}

/* When the first entry is due. */
static u_u64 synq_next_us(const struct us_stack *stack)
{
    u_u64 next_us = US_NEVER;
    unsigned level;

    for (level = 0; level < US_SYNQ_LEVELS; level++) {
        const struct us_synq_entry *entry = synq_first(stack, level);
        if (entry != U_NULL)
            next_us = u_min64(next_us, entry->due_us);
    }
    return next_us;
}

void us_synq_timer(struct us_stack *stack)
{
    unsigned left = SYNQ_EXPIRE_MAX;
    unsigned level;
    u_u64 next_us;

    for (level = 0; level < US_SYNQ_LEVELS; level++) {
        struct us_synq_entry *entry = synq_first(stack, level);
        while (entry != U_NULL && entry->due_us <= stack->now_us && left > 0) {
            synq_timeout(stack, entry);
            entry = synq_first(stack, level);
            left--;
        }
    }
    next_us = synq_next_us(stack);
    if (next_us <= stack->now_us) /* the bound was reached */
        next_us = stack->now_us + SYNQ_EXPIRE_AGAIN_US;
    if (next_us != US_NEVER)
        us_timer_set(&stack->wheel, &stack->synq.timer, next_us);
}

/* ---- the invariants ---- */

const char *us_synq_check(const struct us_stack *stack)
{
    const struct us_synq *synq = &stack->synq;
    u_u32 n = 0;
    unsigned level;

    for (level = 0; level < US_SYNQ_LEVELS; level++) {
        struct u_list *link = synq->levels[level].next;
        u_u64 due_us = 0;

        for (; link != &synq->levels[level]; link = link->next, n++) {
            const struct us_synq_entry *entry = U_CONTAINER_OF(link, struct us_synq_entry, link);
            if (!(entry->due_us >= due_us))
                return "SYN queue: not sorted by time";
            if (!(level == u_min32(entry->retries, US_SYNQ_LEVELS - 1)))
                return "SYN queue: in the list of another number of retransmissions";
            if (!(us_synq_find(stack, &entry->key, us_synq_remote6(entry)) == entry))
                return "SYN queue: not in its table";
            if (!(us_tcp_find(stack, &entry->key, us_synq_remote6(entry)) == U_NULL))
                return "SYN queue: there is a connection already";
            if (!(n < synq->pool.used))
                return "SYN queue: more entries than the pool has given";
            due_us = entry->due_us;
        }
    }
    if (!(n == synq->pool.used && us_pool_is_sound(&synq->pool)))
        return "SYN queue: lost objects";
    if (!(us_timer_is_set(&synq->timer) == (n > 0)))
        return "SYN queue: entries without a timer, or a timer without entries";
    return (const char *)U_NULL;
}
