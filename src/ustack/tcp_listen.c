/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Listening ports, and what arrives at them (RFC 9293 3.10.7.2): a SYN is answered and remembered
 * while half-open connections are below their bound, and beyond it answered with a cookie.
 */
#include "ustack/tcp.h"
#include "ustack/tcp_cookie.h"
#include "ustack/tcp_ecn.h"

/* How long after the last cookie an ACK may bring one back: the most that a cookie is valid. */
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
    /* An IPv6 address may be listened at before it may be used. */
    listener->local = ip.six == U_NULL ? ip.id : us_local6_find(stack, ip.six);
    listener->one_address = 1;
    return US_OK;
}

int us_unlisten(struct us_stack *stack, u_u16 port)
{
    return us_port_remove(&stack->listeners, port);
}

int us_listen_limit(struct us_stack *stack, u_u16 port, u_u32 conn_max, enum us_listen_over over)
{
    struct us_listener *listener = us_tcp_listener_find(stack, port);

    if (listener == U_NULL)
        return US_ERR_ARGUMENT;
    listener->conn_max = conn_max;
    listener->over = (u_u8)over;
    return US_OK;
}

/* ---- the limit of a listener ---- */

/* The listener that a connection came from, or null if that one has stopped. */
static struct us_listener *conn_listener(struct us_stack *stack, const struct us_conn *conn)
{
    struct us_listener *listener;

    if (conn->listener == 0)
        return (struct us_listener *)U_NULL;
    listener = &stack->listeners.items[conn->listener - 1];
    return listener->epoch == conn->listener_epoch ? listener : (struct us_listener *)U_NULL;
}

int us_tcp_listener_admit(struct us_stack *stack, struct us_conn *conn)
{
    struct us_listener *listener = conn_listener(stack, conn);

    if (listener == U_NULL) { /* the port was closed during the handshake */
        conn->listener = 0;
        return 0;
    }
    if (listener->conns >= listener->conn_max) {
        us_count(stack, US_C_DROP_TCP_LISTEN_LIMIT);
        conn->listener = 0;
        return 0;
    }
    listener->conns++;
    return 1;
}

void us_tcp_listener_leave(struct us_stack *stack, const struct us_conn *conn)
{
    struct us_listener *listener = conn_listener(stack, conn);

    if (listener != U_NULL)
        listener->conns--;
}

/* ---- segments ---- */

/* Makes the connection that a SYN, or what a cookie tells of it, asks for. Null if it can't be. */
static struct us_conn *listen_open(struct us_stack *stack, const struct us_tcp_key *key,
                                   const struct us_listener *listener, const struct us_rx *rx)
{
    struct us_route route;
    struct us_conn *conn;

    if (!us_route_find(stack, us_rx_source(rx), &route)) {
        us_count(stack, US_C_DROP_TCP_NO_ROUTE);
        return (struct us_conn *)U_NULL;
    }
    conn = us_conn_new(stack, key, rx->src6);
    if (conn == U_NULL)
        return conn;
    conn->user = listener->user;
    conn->flags |= US_CF_PASSIVE;
    conn->listener = (u_u16)(listener - stack->listeners.items + 1);
    conn->listener_epoch = listener->epoch;
    return conn;
}

/* RFC 4987 3.6: answers a SYN and forgets it. */
static void listen_send_cookie(struct us_stack *stack, const struct us_tcp_key *key,
                               const struct us_seg *seg)
{
    u_u32 mss = us_conn_mss_of_syn(seg, key->local_ip);
    struct us_reply *reply = us_tcp_reply(stack, seg);
    struct us_cookie cookie;

    if (reply == U_NULL)
        return;
    us_count(stack, US_C_SYN_COOKIES_SENT);
    stack->cookie_until_us = stack->now_us + listen_cookie_us;
    reply->tcp.seq = us_cookie_make(stack, key, seg->seq, mss);
    reply->tcp.ack = seg->seq + 1;
    reply->tcp.flags = US_TCP_SYN | US_TCP_ACK;
    reply->tcp.window = (u_u16)u_min32(stack->config.recv_window_bytes, 0xffff);
    reply->tcp.mss = us_conn_mss_offered(stack, key->local_ip);
    if (!seg->opts.has_ts)
        return; /* nowhere to keep the other options */
    cookie.opts = (u_u8)(US_OPT_TS | (seg->opts.has_scale ? (int)US_OPT_SCALE : 0) |
                         (seg->opts.sack_permitted ? (int)US_OPT_SACK : 0));
    cookie.scale = seg->opts.scale;
    if (us_ecn_is_asked(stack, seg)) {
        cookie.opts |= US_OPT_ECN;
        reply->tcp.flags |= US_TCP_ECE;
    }
    reply->tcp.has_scale = seg->opts.has_scale;
    reply->tcp.scale = us_conn_scale_offered(stack);
    reply->tcp.sack_permitted = seg->opts.sack_permitted;
    reply->tcp.has_ts = 1;
    reply->tcp.ts_val =
        us_cookie_ts_make(us_ts_clock(stack->now_us) + us_tcp_ts_offset(stack, key), &cookie);
    reply->tcp.ts_ecr = seg->opts.ts_val;
}

/*
 * An ACK for which there is no connection: if it brings a cookie back, makes the connection as it
 * would be if the SYN had been remembered. Data without one may have overtaken the ACK: a RST would
 * end what can still begin.
 */
static struct us_conn *listen_take_cookie(struct us_stack *stack, const struct us_tcp_key *key,
                                          const struct us_listener *listener,
                                          const struct us_seg *seg)
{
    struct us_cookie cookie;
    struct us_conn *conn;
    struct us_seg syn;

    if (!us_cookie_check(stack, key, seg->seq - 1, seg->ack - 1, &cookie)) {
        us_count(stack, US_C_SYN_COOKIES_FAILED);
        if (seg->len == 0)
            us_tcp_answer_rst(stack, seg);
        return (struct us_conn *)U_NULL;
    }
    conn = listen_open(stack, key, listener, seg->rx);
    if (conn == U_NULL)
        return conn; /* the peer will send its first data again */
    us_count(stack, US_C_SYN_COOKIES_ACCEPTED);
    u_zero(&syn, sizeof(syn));
    syn.seq = seg->seq - 1;
    syn.wnd = seg->wnd;
    syn.flags = US_TCP_SYN;
    syn.opts.mss = cookie.mss;
    if (seg->opts.has_ts) {
        us_cookie_ts_read(seg->opts.ts_ecr, &cookie);
        if (cookie.opts & US_OPT_ECN)
            syn.flags |= US_TCP_ECE | US_TCP_CWR;
        syn.opts.has_ts = 1;
        syn.opts.ts_val = seg->opts.ts_val;
        syn.opts.has_scale = (cookie.opts & US_OPT_SCALE) != 0;
        syn.opts.scale = cookie.scale;
        syn.opts.sack_permitted = (cookie.opts & US_OPT_SACK) != 0;
    }
    us_conn_set_iss(conn, seg->ack - 1);
    us_conn_take_syn(stack, conn, &syn);
    conn->snd_nxt = conn->iss + 1;
    conn->snd_max = conn->iss + 1;
    us_conn_set_state(stack, conn, US_TCP_SYN_RECEIVED);
    return conn;
}

static void listen_syn(struct us_stack *stack, const struct us_tcp_key *key,
                       const struct us_listener *listener, const struct us_seg *seg,
                       const u_u32 *isn_min)
{
    struct us_conn *conn;

    if (listener->conns >= listener->conn_max) {
        us_count(stack, US_C_DROP_TCP_LISTEN_LIMIT);
        if (listener->over == US_LISTEN_REFUSE)
            us_tcp_answer_rst(stack, seg);
        return;
    }
    if (stack->half_open >= stack->config.half_open_max) {
        if (stack->config.syn_cookies)
            listen_send_cookie(stack, key, seg);
        else
            us_count(stack, US_C_DROP_TCP_HALF_OPEN);
        return;
    }
    conn = listen_open(stack, key, listener, seg->rx);
    if (conn == U_NULL)
        return;
    if (isn_min != U_NULL && us_seq_leq(conn->iss, *isn_min)) {
        /* RFC 9293 3.6.1: beyond all that the old connection of this name has used. */
        us_conn_set_iss(conn, *isn_min + 1);
    }
    us_conn_take_syn(stack, conn, seg);
    us_conn_set_state(stack, conn, US_TCP_SYN_RECEIVED);
    us_neighbour_learn(stack, us_rx_source(seg->rx), seg->rx->mac, 0);
    conn->out_flags |= US_OUT_SYN;
    us_tcp_out_want(stack, conn);
}

struct us_conn *us_tcp_listen_input(struct us_stack *stack, const struct us_tcp_key *key,
                                    const struct us_listener *listener, const struct us_seg *seg,
                                    const u_u32 *isn_min)
{
    if (seg->flags & US_TCP_RST) {
        us_count(stack, US_C_DROP_TCP_RST);
    } else if (seg->flags & US_TCP_ACK) {
        if (!(seg->flags & US_TCP_SYN) && stack->now_us < stack->cookie_until_us)
            return listen_take_cookie(stack, key, listener, seg);
        us_tcp_answer_rst(stack, seg);
    } else if (!(seg->flags & US_TCP_SYN) || (seg->flags & US_TCP_FIN)) {
        us_count(stack, US_C_DROP_TCP_NO_ACK);
    } else {
        listen_syn(stack, key, listener, seg, isn_min);
    }
    return (struct us_conn *)U_NULL;
}
