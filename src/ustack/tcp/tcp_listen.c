/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Listening ports and the segments for them (RFC 9293 3.10.7.2). A SYN creates an entry of the SYN
 * queue, or is replied to with a SYN cookie if the queue is full; the ACK that completes the
 * handshake creates the connection from either.
 *
 * If no connection is available then, an entry stays: the peer's next segment, or its reply to the
 * retransmitted SYN-ACK, tries again, like Linux with tcp_abort_on_overflow = 0. A cookie leaves
 * nothing to retransmit, so the peer gets a RST.
 */
#include "ustack/tcp/tcp.h"
#include "ustack/tcp/tcp_cookie.h"
#include "ustack/tcp/tcp_ecn.h"
#include "ustack/tcp/tcp_synq.h"

/* The longest time that a cookie is valid, after which no ACK is checked for one. */
static const u_u64 listen_cookie_us = (u_u64)2 << 26;

/* ---- the table ---- */

struct us_listener *us_tcp_listener_find(struct us_stack *stack, u_u16 port)
{
    return us_port_find(&stack->listeners, port);
}

int us_listen(struct us_stack *stack, u_u16 port, void *user)
{
    return us_port_add(&stack->listeners, port, user);
}

int us_listen_address(struct us_stack *stack, u_u16 port, const struct us_addr *addr)
{
    struct us_listener *listener = us_tcp_listener_find(stack, port);
    struct us_ip ip;

    if (listener == U_NULL || !us_addr_to_ip(stack, addr, &ip) || !us_ip_is_local(stack, ip))
        return US_ERR_ARGUMENT;
    /* A tentative IPv6 address is valid here. */
    listener->local = ip.six == U_NULL ? ip.id : us_local6_find(stack, ip.six);
    listener->one_address = 1;
    return US_OK;
}

int us_unlisten(struct us_stack *stack, u_u16 port)
{
    return us_port_remove(&stack->listeners, port);
}

int us_listen_limit(struct us_stack *stack, u_u16 port, u_u32 conn_max,
                    enum us_listen_overflow over)
{
    struct us_listener *listener = us_tcp_listener_find(stack, port);

    if (listener == U_NULL)
        return US_ERR_ARGUMENT;
    listener->conn_max = conn_max;
    listener->over = (u_u8)over;
    return US_OK;
}

/* ---- the limit of a listener ---- */

/* The listener of this number (index + 1, or 0), or null if it has been removed. */
static struct us_listener *listener_at(struct us_stack *stack, u_u16 number, u_u16 epoch)
{
    struct us_listener *listener;

    if (number == 0)
        return (struct us_listener *)U_NULL;
    listener = &stack->listeners.items[number - 1];
    return listener->epoch == epoch ? listener : (struct us_listener *)U_NULL;
}

void us_tcp_listener_uncount(struct us_stack *stack, const struct us_conn *conn)
{
    struct us_listener *listener = listener_at(stack, conn->listener, conn->listener_epoch);

    if (listener != U_NULL)
        listener->conns--;
}

/* ---- SYNs ---- */

static int listen_has_route(struct us_stack *stack, struct us_ip remote)
{
    struct us_route route;

    if (us_route_find(stack, remote, &route))
        return 1;
    us_count(stack, US_C_DROP_TCP_NO_ROUTE);
    return 0;
}

/* Fills in the data of a SYN. */
static void listen_read_syn(const struct us_stack *stack, struct us_synq_entry *entry,
                            const struct us_listener *listener, const struct us_seg *seg)
{
    entry->irs = seg->seq;
    entry->window = (u_u16)seg->wnd; /* RFC 7323 2.2: never scaled in a SYN */
    entry->mss = (u_u16)us_conn_mss_of_syn(seg, entry->key.local_ip);
    if (seg->opts.has_ts)
        entry->opts |= US_OPT_TS;
    if (seg->opts.has_scale)
        entry->opts |= US_OPT_SCALE;
    if (seg->opts.sack_permitted)
        entry->opts |= US_OPT_SACK;
    if (us_ecn_is_requested(stack, seg))
        entry->opts |= US_OPT_ECN;
    entry->scale = seg->opts.scale;
    entry->ts_recent = seg->opts.ts_val;
    entry->listener = (u_u16)(listener - stack->listeners.items + 1);
    entry->listener_epoch = listener->epoch;
    u_copy(entry->mac, seg->rx->mac, sizeof(entry->mac));
}

/* Initialises an entry outside of the queue, for a cookie. */
static void entry_init(struct us_synq_entry *entry, const struct us_tcp_key *key,
                       const struct us_rx *rx)
{
    u_zero(entry, sizeof(*entry));
    entry->key = *key;
    if (rx->src6 != U_NULL)
        entry->remote6 = *rx->src6;
}

/* RFC 4987 3.6: replies to a SYN with a cookie, without state. */
static void listen_send_cookie(struct us_stack *stack, const struct us_tcp_key *key,
                               const struct us_listener *listener, const struct us_seg *seg)
{
    struct us_synq_entry entry;
    struct us_cookie cookie;

    entry_init(&entry, key, seg->rx);
    listen_read_syn(stack, &entry, listener, seg);
    if (!(entry.opts & US_OPT_TS))
        entry.opts = 0; /* a cookie holds no other options */
    entry.iss = us_cookie_make(stack, key, seg->seq, entry.mss);
    cookie.opts = entry.opts;
    cookie.scale = entry.scale;
    if (!us_synq_send(
            stack, &entry,
            us_cookie_ts_make(us_ts_clock(stack->now_us) + us_tcp_ts_offset(stack, key), &cookie)))
        return;
    us_count(stack, US_C_SYN_COOKIES_SENT);
    stack->cookie_until_us = stack->now_us + listen_cookie_us;
}

static void listen_syn(struct us_stack *stack, const struct us_tcp_key *key,
                       const struct us_listener *listener, const struct us_seg *seg,
                       const u_u32 *isn_min)
{
    struct us_synq_entry *entry;

    if (listener->conns >= listener->conn_max) {
        us_count(stack, US_C_DROP_TCP_LISTEN_LIMIT);
        if (listener->over == US_LISTEN_REFUSE)
            us_tcp_reply_rst(stack, seg);
        return;
    }
    if (!listen_has_route(stack, us_rx_source(seg->rx)))
        return;
    entry = us_synq_add(stack, key, seg->rx->src6);
    /*
     * A cookie cannot promise a number above isn_min. A peer in TIME-WAIT is known to exist, so
     * another entry makes room.
     */
    if (entry == U_NULL && isn_min != U_NULL && us_synq_evict(stack))
        entry = us_synq_add(stack, key, seg->rx->src6);
    if (entry == U_NULL) {
        if (stack->config.syn_cookies)
            listen_send_cookie(stack, key, listener, seg);
        else
            us_count(stack, US_C_DROP_TCP_HALF_OPEN);
        return;
    }
    listen_read_syn(stack, entry, listener, seg);
    entry->iss = us_tcp_isn(stack, key);
    if (isn_min != U_NULL && us_seq_leq(entry->iss, *isn_min))
        entry->iss = *isn_min + 1; /* RFC 9293 3.6.1: above all numbers of the old connection */
    (void)us_synq_send_now(stack, entry); /* if its queue is full, it is retransmitted later */
}

/* ---- the ACK that completes a handshake ---- */

/*
 * Whether a listener (null: it was removed) takes one more connection. If not, replies with a RST.
 */
static int listen_admits(struct us_stack *stack, const struct us_listener *listener,
                         const struct us_seg *seg)
{
    if (listener != U_NULL && listener->conns < listener->conn_max)
        return 1;
    if (listener != U_NULL)
        us_count(stack, US_C_DROP_TCP_LISTEN_LIMIT);
    us_tcp_reply_rst(stack, seg);
    return 0;
}

/*
 * Creates the connection of a handshake whose last segment has arrived, in SYN-RECEIVED: the caller
 * processes that segment on it. Null, and counted, on failure.
 */
static struct us_conn *listen_open(struct us_stack *stack, struct us_listener *listener,
                                   const struct us_synq_entry *entry)
{
    const struct us_ip6 *remote6 = us_synq_remote6(entry);
    struct us_conn *conn;
    struct us_ip remote;
    struct us_seg syn;

    remote.id = entry->key.remote_ip;
    remote.six = remote6;
    if (!listen_has_route(stack, remote))
        return (struct us_conn *)U_NULL;
    conn = us_conn_new(stack, &entry->key, remote6);
    if (conn == U_NULL) {
        us_count(stack, US_C_TCP_LISTEN_OVERFLOWS);
        return conn;
    }
    listener->conns++;
    conn->user = listener->user;
    conn->flags |= US_CF_PASSIVE;
    conn->listener = entry->listener;
    conn->listener_epoch = entry->listener_epoch;
    u_zero(&syn, sizeof(syn));
    syn.seq = entry->irs;
    syn.wnd = entry->window;
    syn.flags = US_TCP_SYN;
    if (entry->opts & US_OPT_ECN)
        syn.flags |= US_TCP_ECE | US_TCP_CWR;
    syn.opts.mss = entry->mss;
    syn.opts.has_ts = (entry->opts & US_OPT_TS) != 0;
    syn.opts.ts_val = entry->ts_recent;
    syn.opts.has_scale = (entry->opts & US_OPT_SCALE) != 0;
    syn.opts.scale = entry->scale;
    syn.opts.sack_permitted = (entry->opts & US_OPT_SACK) != 0;
    us_conn_set_iss(conn, entry->iss);
    us_conn_take_syn(stack, conn, &syn);
    conn->snd_nxt = entry->iss + 1;
    conn->snd_max = entry->iss + 1;
    conn->state = US_TCP_SYN_RECEIVED;
    return conn;
}

/*
 * An ACK without connection and entry: if it returns a valid cookie, creates the connection as from
 * an entry. Data without a valid cookie may have overtaken the ACK, so it gets no RST.
 */
static struct us_conn *listen_take_cookie(struct us_stack *stack, const struct us_tcp_key *key,
                                          struct us_listener *listener, const struct us_seg *seg)
{
    struct us_synq_entry entry;
    struct us_cookie cookie;
    struct us_conn *conn;

    if (!us_cookie_check(stack, key, seg->seq - 1, seg->ack - 1, &cookie)) {
        us_count(stack, US_C_SYN_COOKIES_FAILED);
        if (seg->len == 0)
            us_tcp_reply_rst(stack, seg);
        return (struct us_conn *)U_NULL;
    }
    entry_init(&entry, key, seg->rx);
    entry.irs = seg->seq - 1;
    entry.iss = seg->ack - 1;
    entry.window = (u_u16)seg->wnd;
    entry.mss = cookie.mss;
    entry.listener = (u_u16)(listener - stack->listeners.items + 1);
    entry.listener_epoch = listener->epoch;
    if (seg->opts.has_ts) {
        us_cookie_ts_read(seg->opts.ts_ecr, &cookie);
        entry.opts = cookie.opts;
        entry.scale = cookie.scale;
        entry.ts_recent = seg->opts.ts_val;
    }
    if (!listen_admits(stack, listener, seg))
        return (struct us_conn *)U_NULL;
    conn = listen_open(stack, listener, &entry);
    if (conn == U_NULL)
        us_tcp_reply_rst(stack, seg);
    else
        us_count(stack, US_C_SYN_COOKIES_ACCEPTED);
    return conn;
}

/*
 * Whether a segment for an entry returns a valid cookie instead: the SYN was answered with a cookie
 * first, and with an entry when it came again.
 */
static int listen_is_other_cookie(const struct us_stack *stack, const struct us_synq_entry *entry,
                                  const struct us_seg *seg)
{
    struct us_cookie cookie;

    return stack->now_us < stack->cookie_until_us && seg->ack != entry->iss + 1 &&
           (seg->flags & (US_TCP_SYN | US_TCP_RST | US_TCP_ACK)) == US_TCP_ACK &&
           us_cookie_check(stack, &entry->key, seg->seq - 1, seg->ack - 1, &cookie);
}

struct us_conn *us_tcp_listen_complete(struct us_stack *stack, struct us_synq_entry *entry,
                                       const struct us_seg *seg)
{
    struct us_listener *listener = listener_at(stack, entry->listener, entry->listener_epoch);
    struct us_tcp_key key = entry->key;
    struct us_conn *conn;

    if (listener != U_NULL && listen_is_other_cookie(stack, entry, seg)) {
        us_synq_remove(stack, entry);
        return listen_take_cookie(stack, &key, listener, seg);
    }
    if (!us_synq_input(stack, entry, seg))
        return (struct us_conn *)U_NULL;
    if (!listen_admits(stack, listener, seg)) {
        us_synq_remove(stack, entry);
        return (struct us_conn *)U_NULL;
    }
    conn = listen_open(stack, listener, entry);
    if (conn == U_NULL)
        return conn;
    if (!entry->resent) { /* Karn: otherwise the acknowledged SYN-ACK is ambiguous */
        us_conn_lazy(conn)->rtt_timed = 1;
        us_conn_lazy(conn)->rtt_seq = conn->snd_max;
        us_conn_lazy(conn)->rtt_from_us = us_synq_sent_us(stack, entry);
    }
    if (entry->retries > 0)
        conn->flags |= US_CF_SYN_RESENT;
    conn->retransmits = entry->retries;
    us_synq_remove(stack, entry);
    return conn;
}

struct us_conn *us_tcp_listen_input(struct us_stack *stack, const struct us_tcp_key *key,
                                    struct us_listener *listener, const struct us_seg *seg,
                                    const u_u32 *isn_min)
{
    if (seg->flags & US_TCP_RST) {
        us_count(stack, US_C_DROP_TCP_RST);
    } else if (seg->flags & US_TCP_ACK) {
        if (!(seg->flags & US_TCP_SYN) && stack->now_us < stack->cookie_until_us)
            return listen_take_cookie(stack, key, listener, seg);
        us_tcp_reply_rst(stack, seg);
    } else if (!(seg->flags & US_TCP_SYN) || (seg->flags & US_TCP_FIN)) {
        us_count(stack, US_C_DROP_TCP_NO_ACK);
    } else {
        listen_syn(stack, key, listener, seg, isn_min);
    }
    return (struct us_conn *)U_NULL;
}
