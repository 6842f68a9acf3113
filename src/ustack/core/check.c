/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * us_check(): walks everything that can be reached from the instance and compares it with what the
 * pools say is in use, and each connection with the invariants of RFC 9293.
 */
#include "ustack/core/instance.h"
#include "ustack/tcp/tcp.h"
#include "ustack/tcp/tcp_fast_state.h"
#include "ustack/tcp/tcp_pmtu.h"
#include "ustack/tcp/tcp_recovery.h"
#include "ustack/tcp/tcp_rxq.h"
#include "ustack/tcp/tcp_sack.h"
#include "ustack/tcp/tcp_synq.h"
#include "ustack/tcp/tcp_timer.h"
#include "ustack/tcp/tcp_tw.h"

/* Objects counted so far. */
struct census {
    u_u32 conns;
    u_u32 blocks;
    u_u32 refs;
    u_u32 orphans;
    u_u32 hops;   /* connections with a next hop */
    u_u32 slices; /* datagrams that were received count as slices */
    u_u32 dgrams; /* that wait to be sent */
};

/* us_reserve_first() knows: it has all its room, and only references can be behind it. */
static int block_may_be_empty(const struct us_conn *conn, const struct us_chunk *chunk)
{
    return chunk->room == US_BLOCK_ROOM && (chunk->next == U_NULL || conn->sendq.refs > 0);
}

static const char *check_sendq(const struct us_conn *conn, struct census *census)
{
    const struct us_chunk *chunk;
    u_u32 seq = conn->snd_una;
    u_u32 copied = 0;
    u_u32 refs = 0;
    int cursor_found = conn->sendq.cursor == U_NULL;

    if (conn->sendq.head != U_NULL)
        seq = conn->sendq.head->seq;
    for (chunk = conn->sendq.head; chunk != U_NULL; chunk = chunk->next) {
        if (!(chunk->seq == seq))
            return "send queue: a gap between chunks";
        if (!(chunk->next != U_NULL || chunk == conn->sendq.tail))
            return "send queue: wrong tail";
        if (chunk == conn->sendq.cursor)
            cursor_found = 1;
        seq = us_chunk_end(chunk);
        if (chunk->is_ref) {
            refs++;
        } else {
            copied += chunk->len;
            census->blocks++;
            if (chunk->len == 0 && !block_may_be_empty(conn, chunk))
                return "send queue: an unexpected empty block";
        }
    }
    if (!(cursor_found))
        return "send queue: cursor outside of the queue";
    if (!(copied == conn->sendq.copied))
        return "send queue: copied bytes miscounted";
    if (!(refs == conn->sendq.refs))
        return "send queue: references miscounted";
    if (!(conn->sendq.head == U_NULL || seq == conn->snd_end))
        return "send queue: wrong end";
    census->refs += refs;
    return (const char *)U_NULL;
}

static const char *check_rxq(const struct us_conn *conn, struct census *census)
{
    const struct us_chunk *chunk;
    u_u32 seq = conn->rcv_nxt;
    u_u32 ooo_blocks = 0;
    u_u32 ooo_bytes = 0;
    u_u32 blocks = 0;
    u_u32 bytes = 0;

    for (chunk = conn->rxq.head; chunk != U_NULL; chunk = chunk->next) {
        if (!(chunk->next != U_NULL || chunk == conn->rxq.tail))
            return "receive queue: wrong tail";
        blocks++;
        bytes += chunk->len;
    }
    if (!(bytes <= conn->rcv_queued))
        return "receive queue: more bytes than counted";
    for (chunk = conn->rxq.ooo; chunk != U_NULL; chunk = chunk->next) {
        if (!(chunk->len > 0))
            return "out-of-order queue: empty chunk";
        if (!(chunk == conn->rxq.ooo ? us_seq_gt(chunk->seq, seq) : us_seq_geq(chunk->seq, seq)))
            return "out-of-order queue: not sorted, or not behind a gap";
        if (!(chunk->next != U_NULL || chunk == conn->rxq.ooo_tail))
            return "out-of-order queue: wrong tail";
        seq = us_chunk_end(chunk);
        ooo_bytes += chunk->len;
        ooo_blocks++;
    }
    if (!(conn->rxq.ooo == U_NULL || us_seq_leq(seq, conn->rcv_adv)))
        return "out-of-order queue: beyond the window";
    if (!(ooo_blocks <= us_rxq_ooo_blocks_max(ooo_bytes)))
        return "out-of-order queue: too many blocks for its bytes";
    blocks += ooo_blocks;
    if (!(blocks == conn->rxq.blocks))
        return "receive queue: blocks miscounted";
    census->blocks += blocks;
    return (const char *)U_NULL;
}

static const char *check_windows(const struct us_stack *stack, const struct us_conn *conn)
{
    u_u32 fin = (conn->out_flags & US_OUT_FIN) ? 1 : 0;

    if (!(us_seq_leq(conn->snd_una, conn->snd_nxt)))
        return "SND.NXT is below SND.UNA";
    if (!(us_seq_leq(conn->snd_nxt, conn->snd_max)))
        return "SND.NXT is beyond what was sent";
    if (!(us_seq_leq(conn->snd_max, conn->snd_end + fin)))
        return "more sent than queued";
    if (!(conn->cc.cwnd >= conn->cc.mss))
        return "congestion window below one segment";
    if (!(conn->pmtu.mtu <= conn->pmtu.mtu_max))
        return "path MTU beyond the link's";
    if (conn->state >= US_TCP_SYN_RECEIVED && !(conn->cc.mss == us_pmtu_mss(conn)))
        return "segments of another size than the path MTU says";
    if (!(conn->sendq.copied < stack->config.send_queue_bytes + US_BLOCK_BYTES))
        return "send queue beyond its limit";
    if (conn->state >= US_TCP_SYN_RECEIVED && !(us_seq_leq(conn->rcv_nxt, conn->rcv_adv + 1)))
        return "RCV.NXT beyond the window";
    return (const char *)U_NULL;
}

static const char *check_sack(const struct us_conn *conn, struct census *census)
{
    if (conn->sack == U_NULL)
        return (const char *)U_NULL;
    census->blocks++;
    if (!(conn->state >= US_TCP_ESTABLISHED && (conn->opts & US_OPT_SACK)))
        return "scoreboard: of a connection without SACK, or dead";
    if (!(conn->snd_nxt == conn->snd_max))
        return "scoreboard: SND.NXT has gone back";
    if (!(us_recovery_pipe(conn) <= conn->snd_max - conn->snd_una))
        return "scoreboard: more out of the network than was sent";
    return us_sack_check(conn->sack, conn->snd_una, conn->snd_max);
}

static const char *check_deadlines(const struct us_conn *conn, u_u64 main_deadline_us)
{
    u_u64 due_us = u_min64(u_min64(main_deadline_us, conn->delack_deadline_us),
                           conn->timeouts.linger_deadline_us);

    if (!(due_us == US_NEVER || (us_timer_is_set(&conn->timer) && conn->timer.at_us <= due_us)))
        return "deadline that the wheel doesn't know of";
    return (const char *)U_NULL;
}

static const char *check_timers(const struct us_conn *conn)
{
    const struct us_conn_lazy *lazy;

    if (conn->fast_path == US_FAST_RXTX)
        return check_deadlines(conn, conn->snd_una == conn->snd_max
                                         ? us_tcp_timer_keepalive_us(conn)
                                         : conn->sent_us + conn->pto_us);
    lazy = us_conn_lazy_const(conn);
    if (!((lazy->main_timer == US_TCP_TIMER_NONE) == (lazy->main_deadline_us == US_NEVER)))
        return "timer without a deadline, or a deadline without a timer";
    if (conn->state > US_TCP_SYN_RECEIVED && conn->snd_una != conn->snd_max &&
        (lazy->main_timer == US_TCP_TIMER_NONE || lazy->main_timer == US_TCP_TIMER_FIN_WAIT_2 ||
         lazy->main_timer == US_TCP_TIMER_KEEPALIVE))
        return "data in flight without a timer";
    return check_deadlines(conn, lazy->main_deadline_us);
}

static u_u32 count_slices(const struct us_stack *stack, const struct us_conn *conn)
{
    u_u32 n = conn->slice_len != 0;
    u_u16 index = conn->slice_next;

    while (index != US_SLICE_NONE && n <= US_SLICES_MAX) {
        n++;
        index = stack->events.slices[index].next;
    }
    return n;
}

static const char *check_conn(const struct us_stack *stack, const struct us_conn *conn,
                              struct census *census)
{
    const char *broken = check_rxq(conn, census);

    census->conns++;
    census->slices += count_slices(stack, conn);
    census->hops += (u_u32)us_conn_has_hop(conn);
    if ((conn->flags & US_CF_PASSIVE) && conn->state == US_TCP_SYN_RECEIVED)
        return "a listener's handshake outside of the SYN queue";
    if (conn->timeouts.is_orphan)
        census->orphans++;
    if (broken == U_NULL)
        broken = check_sendq(conn, census);
    if (broken == U_NULL)
        broken = check_sack(conn, census);
    if (broken == U_NULL && conn->state != US_TCP_CLOSED)
        broken = check_windows(stack, conn);
    if (broken == U_NULL && conn->state != US_TCP_CLOSED)
        broken = check_timers(conn);
    if (broken == U_NULL && !us_conn_fast_path_is_valid(stack, conn))
        broken = "fast path: not eligible";
    if (!(census->conns <= stack->conn_pool.used))
        return "more connections than the pool has given";
    return broken;
}

/*
 * All objects of the pool that are in use: one that was given back is CLOSED without a reason. So
 * connections that are dead and only wait for the application are found too.
 */
static const char *check_conns(const struct us_stack *stack, struct census *census)
{
    u_u32 i;

    for (i = 0; i < stack->conn_pool.touched; i++) {
        const struct us_conn *conn = us_conn_at(stack, i);
        const char *broken;

        if (conn->state == US_TCP_CLOSED && conn->close_reason == US_CLOSE_NONE)
            continue;
        if (!((us_tcp_find(stack, &conn->key, us_conn_remote6(conn)) == conn) ==
              (conn->state != US_TCP_CLOSED)))
            return "connection table: a live one is missing, or a dead one is in it";
        broken = check_conn(stack, conn, census);
        if (broken != U_NULL)
            return broken;
    }
    return (const char *)U_NULL;
}

static const char *check_time_wait(const struct us_stack *stack)
{
    struct u_list *link;
    u_u64 until_us = 0;
    u_u32 n = 0;

    for (link = stack->tw_list.next; link != &stack->tw_list; link = link->next) {
        const struct us_tw *tw = U_CONTAINER_OF(link, struct us_tw, link);
        if (!(tw->until_us >= until_us))
            return "TIME-WAIT: not sorted by time";
        if (!(us_tw_find(stack, &tw->key,
                         us_local_is_ip6(tw->key.local_ip) ? &tw->remote6
                                                           : (const struct us_ip6 *)U_NULL) == tw))
            return "TIME-WAIT: not in its table";
        if (!(n < stack->tw_pool.used))
            return "TIME-WAIT: more than the pool has given";
        until_us = tw->until_us;
        n++;
    }
    if (!(n == stack->tw_pool.used))
        return "TIME-WAIT: lost objects";
    return (const char *)U_NULL;
}

/* Blocks and references that lie in no connection's queue. */
static const char *check_queues(const struct us_stack *stack, struct census *census)
{
    u_u32 others = stack->events.dgram_tail - stack->events.dgram_head;
    const struct us_chunk *chunk;
    const struct us_ref *ref;

    census->slices += others;
    for (chunk = stack->events.retired; chunk != U_NULL; chunk = chunk->next)
        census->blocks++;
    for (ref = stack->events.released; ref != U_NULL;
         ref = (const struct us_ref *)ref->chunk.next) {
        census->refs++;
        others++;
    }
    if (!(others == stack->events.others))
        return "events: what comes before those of connections is miscounted";
    if (!(stack->replies.tail - stack->replies.head <= US_REPLIES_MAX))
        return "more answers than the queue holds";
    return (const char *)U_NULL;
}

static const char *check_dgram_list(const struct u_list *list, struct census *census)
{
    struct u_list *link;

    for (link = list->next; link != list; link = link->next) {
        const struct us_dgram *dgram = U_CONTAINER_OF(link, struct us_dgram, link);
        const struct us_chunk *chunk;
        u_u32 bytes = 0;

        for (chunk = dgram->body; chunk != U_NULL; chunk = chunk->next) {
            bytes += chunk->len;
            census->blocks++;
        }
        if (!(bytes == dgram->bytes - dgram->sent))
            return "datagram: bytes miscounted";
        census->dgrams++;
    }
    return (const char *)U_NULL;
}

/* Datagrams that are to be sent, and those that wait for a neighbour. */
static const char *check_dgrams(const struct us_stack *stack, struct census *census)
{
    const char *broken = check_dgram_list(&stack->dgrams.ready, census);
    u_u32 i;

    for (i = 0; i <= stack->neighbours.mask && broken == U_NULL; i++) {
        const struct us_neighbour *neighbour = stack->neighbours.table[i];
        for (; neighbour != U_NULL && broken == U_NULL; neighbour = neighbour->hash_next) {
            broken = check_dgram_list(&neighbour->dgrams, census);
            if (neighbour->state != US_NEIGHBOUR_INCOMPLETE &&
                !(u_list_is_empty(&neighbour->dgrams) && u_list_is_empty(&neighbour->waiting)))
                broken = "neighbour: connections wait for an address that is known";
        }
    }
    return broken;
}

/* The neighbour cache: what is in the table, on the lists and in the pool is the same. */
static const char *check_neighbours(const struct us_stack *stack, const struct census *census)
{
    const struct us_neighbours *all = &stack->neighbours;
    u_u32 listed = 0;
    u_u32 conns = 0;
    u_u32 n = 0;
    u_u32 i;

    for (i = 0; i <= all->mask; i++) {
        const struct us_neighbour *neighbour = all->table[i];
        for (; neighbour != U_NULL && n <= all->pool.used; neighbour = neighbour->hash_next) {
            int asks = neighbour->state == US_NEIGHBOUR_INCOMPLETE ||
                       neighbour->state == US_NEIGHBOUR_PROBE;
            if (!(us_neighbour_find(stack, us_neighbour_ip(neighbour)) == neighbour))
                return "neighbour: twice in the table";
            if (!(asks == us_timer_is_set(&neighbour->timer)))
                return "neighbour: a question without a timer, or the other way round";
            if (u_list_is_empty(&neighbour->age_link))
                return "neighbour: not on a list";
            if (!us_neighbour_is_listed(neighbour))
                return "neighbour: on the list of another class";
            conns += neighbour->conns;
            n++;
        }
    }
    if (!(n == all->pool.used))
        return "neighbours: lost objects";
    for (i = 0; i < US_NEIGHBOUR_CLASSES; i++)
        listed += all->counts[i];
    if (!(listed == n))
        return "neighbours: miscounted";
    if (!(conns == census->hops))
        return "neighbours: their connections are miscounted";
    return (const char *)U_NULL;
}

/* Our IPv6 addresses: each once, and with a timer if there is something to wait for. */
static const char *check_addresses(const struct us_stack *stack)
{
    u_u32 i;

    for (i = 0; i < US_LOCAL6_MAX; i++) {
        const struct us_local6 *local = &stack->nd.locals[i];
        if (local->state == US_LOCAL6_FREE)
            continue;
        if (!(us_local6_find(stack, &local->addr) == i))
            return "address: twice in the table";
        if (!((local->state == US_LOCAL6_TENTATIVE) == (local->next_us != US_NEVER)))
            return "address: tentative without an end, or the other way round";
        if (local->next_us != US_NEVER && !us_timer_is_set(&stack->nd.timer))
            return "address: no timer";
    }
    return (const char *)U_NULL;
}

/* Datagrams that wait for fragments: sorted by time, their ranges disjoint and counted. */
static const char *check_frags(const struct us_stack *stack)
{
    const struct us_frags *frags = &stack->frags;
    struct u_list *link;
    u_u64 until_us = 0;
    u_u32 n = 0;

    for (link = frags->done.next; link != &frags->done; link = link->next)
        n++;
    for (link = frags->open.next; link != &frags->open; link = link->next, n++) {
        const struct us_frag *frag = U_CONTAINER_OF(link, struct us_frag, link);
        u_u32 bytes = 0;
        u_u32 end = 0;
        unsigned i;

        for (i = 0; i < frag->ranges_used; i++) {
            if (!(frag->ranges[i].start >= end && frag->ranges[i].end > frag->ranges[i].start))
                return "reassembly: ranges overlap or are not sorted";
            end = frag->ranges[i].end;
            bytes += end - frag->ranges[i].start;
        }
        if (!(bytes == frag->received && (frag->total == 0 || end <= frag->total)))
            return "reassembly: bytes miscounted";
        if (!(frag->until_us >= until_us))
            return "reassembly: not sorted by time";
        until_us = frag->until_us;
    }
    if (!(n == frags->pool.used))
        return "reassembly: lost objects";
    if (!(u_list_is_empty(&frags->open) || us_timer_is_set(&frags->timer)))
        return "reassembly: no timer";
    return (const char *)U_NULL;
}

static const char *check_census(const struct us_stack *stack, const struct census *census)
{
    if (!(census->conns == stack->conn_pool.used))
        return "connections: lost objects";
    if (!(census->blocks == stack->block_pool.used))
        return "buffer blocks: lost objects";
    if (!(census->dgrams == stack->dgrams.pool.used))
        return "datagrams: lost objects";
    if (!(census->refs == stack->ref_pool.used))
        return "references: lost objects";
    if (!(census->orphans == stack->orphan_count))
        return "orphans miscounted";
    if (!(census->slices == stack->events.slices_used))
        return "slices miscounted";
    if (!(us_pool_is_sound(&stack->conn_pool) && us_pool_is_sound(&stack->block_pool) &&
          us_pool_is_sound(&stack->ref_pool) && us_pool_is_sound(&stack->tw_pool) &&
          us_pool_is_sound(&stack->neighbours.pool) && us_pool_is_sound(&stack->dgrams.pool) &&
          us_pool_is_sound(&stack->frags.pool)))
        return "a pool's free list is broken";
    return (const char *)U_NULL;
}

const char *us_check(const struct us_stack *stack)
{
    struct census census;
    const char *broken;

    u_zero(&census, sizeof(census));
    broken = check_conns(stack, &census);
    if (broken == U_NULL)
        broken = us_synq_check(stack);
    if (broken == U_NULL)
        broken = check_time_wait(stack);
    if (broken == U_NULL)
        broken = check_queues(stack, &census);
    if (broken == U_NULL)
        broken = check_dgrams(stack, &census);
    if (broken == U_NULL)
        broken = check_frags(stack);
    if (broken == U_NULL)
        broken = check_neighbours(stack, &census);
    if (broken == U_NULL)
        broken = check_addresses(stack);
    if (broken == U_NULL)
        broken = check_census(stack, &census);
    return broken;
}
