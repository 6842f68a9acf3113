/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TCP (RFC 9293): struct us_conn, and the functions by which the tcp_*.c files call each other.
 *
 * Input:   tcp_in.c parses a segment and checks it by state, tcp_ack.c handles its ACK, tcp_recv.c
 *          its data. Common segments take tcp_fast_in.c instead (tcp_fast.h).
 * Output:  tcp_out.c plans a segment, builds it (tcp_build.c) and records it. Common segments take
 *          tcp_fast_out.c instead.
 * Setup:   tcp_listen.c, tcp_synq.c and tcp_cookie.c handle handshakes of listening ports,
 *          tcp_conn.c creates and ends connections, tcp_demux.c is the connection table.
 * Queues:  tcp_sendq.c has the bytes to send, tcp_rxq.c those that came out of order.
 * Losses:  tcp_recovery.c detects losses (scoreboard: tcp_sack.c). Congestion control is tcp_cc.c,
 *          tcp_cubic.c, tcp_dctcp.c, tcp_prr.c and tcp_ecn.c.
 * Sizes:   tcp_pmtu.c (path MTU), tcp_tso.c (segments that the device cuts), tcp_opt.c (options).
 * Time:    tcp_timer.c, tcp_rtt.h; TIME-WAIT is tcp_tw.c, connections without a user tcp_orphan.c.
 * Others:  tcp_challenge.c (RFC 5961), tcp_icmp.c, tcp_info.c; tcp_export.c moves a connection to
 *          another process; tcp_api.c has the calls of ustack.h.
 */
#ifndef USTACK_TCP_TCP_H
#define USTACK_TCP_TCP_H

#include "base/base.h"
#include "base/list.h"
#include "ustack/core/buffer.h"
#include "ustack/core/instance.h"
#include "ustack/ip/eth.h"
#include "ustack/ip/ip4.h"
#include "ustack/ip/ip6.h"
#include "ustack/tcp/seq.h"
#include "ustack/tcp/tcp_cc.h"
#include "ustack/tcp/tcp_hdr.h"
#include "ustack/tcp/tcp_opt.h"
#include "ustack/tcp/tcp_rtt.h"

/*
 * The 4-tuple of a connection: addresses as in struct us_rx, ports in host byte order. Two IPv6
 * addresses may share an id, so look-ups also take the whole remote address (remote6; null over
 * IPv4).
 */
struct us_tcp_key {
    u_u32 local_ip;
    u_u32 remote_ip;
    u_u16 local_port;
    u_u16 remote_port;
};

/* Bits of us_conn.opts: what both sides have negotiated. */
enum {
    US_OPT_TS = 1 << 0,
    US_OPT_SCALE = 1 << 1,
    US_OPT_SACK = 1 << 2,
    US_OPT_ECN = 1 << 3 /* not an option, but negotiated like one */
};

/* Bits of us_conn.ecn; see tcp_ecn.h. */
enum {
    US_EF_REQUESTED = 1 << 0, /* our SYN asks for ECN */
    US_EF_SEND_ECE = 1 << 1,  /* a CE mark was received: set ECE until the peer sends CWR */
    US_EF_LAST_CE = 1 << 2,   /* DCTCP: the last data segment was marked */
    US_EF_SEND_CWR = 1 << 3,  /* cwnd was reduced: set CWR on the next new data */
    US_EF_REDUCED = 1 << 4    /* cwnd was reduced for a mark, until rec.cwr_end is acknowledged */
};

/* Bits of us_conn.out_flags: what us_output() has to do. */
enum {
    US_OUT_SYN = 1 << 0, /* send our SYN (with ACK in SYN-RECEIVED) */
    US_OUT_ACK = 1 << 1, /* send an ACK with this us_output() */
    US_OUT_DELAYED_ACK =
        1 << 2, /* data is unacknowledged: send the ACK with data, or start the timer */
    US_OUT_RETRANSMIT = 1 << 3, /* retransmit one segment at snd_una */
    US_OUT_PROBE = 1 << 4,      /* send a window probe, or a keepalive */
    US_OUT_FIN = 1 << 5,        /* a FIN follows the queued data; stays set */
    US_OUT_TLP = 1 << 7,        /* send a tail loss probe: see tcp_recovery.h */
    US_OUT_RST = 1 << 6         /* the connection is closed; only a RST is left to send */
};

/* Bits of us_conn.rx_flags. */
enum {
    US_RX_HELD = 1 << 0,             /* us_recv_keep(): no DATA events */
    US_RX_FIN_OUT_OF_ORDER = 1 << 1, /* a FIN at fin_seq was received; data before it is missing */
    US_RX_FIN = 1 << 2               /* the peer's FIN was processed */
};

/* Other bits: us_conn.flags. */
enum {
    US_CF_PASSIVE = 1 << 0,         /* came from a listener */
    US_CF_RECOVERY = 1 << 1,        /* RFC 6582 fast recovery, until `recover` is acknowledged */
    US_CF_WATCH_CWND = 1 << 3,      /* us_conn_watch_cwnd(): no fast path */
    US_CF_SYN_RESENT = 1 << 4,      /* RFC 5681 3.1: initial window of one segment */
    US_CF_WANT_SENDABLE = 1 << 5,   /* a send was cut short or refused */
    US_CF_TLP_OUTSTANDING = 1 << 7, /* a tail loss probe is unacknowledged */
    US_CF_UNREACHABLE =
        1 << 6 /* the next hop or an ICMP error reports unreachability; no ACK since */
};

/* What us_conn_lazy.main_deadline_us is the deadline of. */
enum us_tcp_timer {
    US_TCP_TIMER_NONE,
    US_TCP_TIMER_RTO,
    US_TCP_TIMER_TLP,       /* RFC 8985 section 7: a tail loss probe is due, before the RTO */
    US_TCP_TIMER_KEEPALIVE, /* nothing is in flight */
    /* Connections with one of these do not take the fast path. */
    US_TCP_TIMER_REORDER, /* RFC 8985 6.2: holes are to be checked again, before the RTO */
    US_TCP_TIMER_PERSIST,
    US_TCP_TIMER_FIN_WAIT_2
};

/*
 * How much of a connection takes the fast path; tcp_fast_state.h says what each promises.
 */
enum us_fast_path { US_FAST_NONE, US_FAST_RX, US_FAST_RXTX };

/* Bits of us_tcp_recovery.flags. */
enum {
    US_RF_REORDERED = 1 << 0,         /* the path has reordered */
    US_RF_UNDO = 1 << 1,              /* the undo_* fields but undo_ts are valid */
    US_RF_EIFEL = 1 << 2,             /* no ACK of new data was received since the reduction */
    US_RF_TS = 1 << 3,                /* undo_ts is valid */
    US_RF_REO_WND_RAISED = 1 << 4,    /* reo_wnd_mult was raised since the reduction */
    US_RF_TLP_RETRANSMITTED = 1 << 5, /* the tail loss probe was a retransmission */
    US_RF_TLP_SINGLE_SEGMENT = 1 << 6 /* nothing else was in flight when it was sent */
};

/* State of loss recovery that outlives the scoreboard; see tcp_recovery.h. */
struct us_tcp_recovery {
    u_u32 undo_cwnd; /* cwnd and ssthresh before the last reduction */
    u_u32 undo_ssthresh;
    u_u32 undo_from; /* SND.UNA and SND.MAX then */
    u_u32 undo_to;
    u_u32 undo_ts;          /* timestamp of the first retransmission since */
    u_u32 tlp_end_seq;      /* RFC 8985 TLP.end_seq: SND.MAX when the probe was sent */
    u_u32 cwr_end;          /* SND.MAX when cwnd was reduced for a mark, with US_EF_REDUCED */
    u_u16 undo_retransmits; /* segments retransmitted since, less those that D-SACKs reported */
    u_u8 reo_wnd_mult;      /* RFC 8985 RACK.reo_wnd_mult less 1: quarters of a round trip */
    u_u8 reo_wnd_persist;   /* RFC 8985 RACK.reo_wnd_persist: recoveries for which it holds */
    u_u8 tlp_count;         /* tail loss probes in a row */
    u_u8 consecutive_single_acks; /* ACKs of one segment each, while more was in flight */
    u_u8 flags;                   /* US_RF_* */
    u_u8 ack_delay_doublings;     /* of config.peer_ack_delay_us for this peer */
};

/* Path MTU discovery; see tcp_pmtu.h. Times are of us_ts_clock(). */
struct us_tcp_pmtu {
    u_u32 raise_at;    /* when a larger size may be probed, while mtu is below mtu_max */
    u_u32 probe_end;   /* sequence number behind the probe that is in flight */
    u_u16 mtu;         /* the path MTU in use */
    u_u16 mtu_max;     /* bounded by the link and by the peer's MSS */
    u_u16 high;        /* sizes above are known to fail; mtu_max: none is */
    u_u16 tried;       /* size of the probe that is in flight */
    u_u16 probe_bytes; /* payload of the probe to be sent next, or 0 */
    u_u8 probing;      /* one is in flight */
};

enum { US_KEEPALIVE_COUNT_MAX = 200 };

/* Limits on how long a peer may be silent or accept no data; see tcp_timer.c. */
struct us_tcp_timeouts {
    u_u64 linger_deadline_us; /* when an unacknowledged close becomes a reset, or US_NEVER */
    u_u32 user_timeout_ms;    /* RFC 5482; 0: us_config.r2_ms holds */
    u_u32 keepalive_idle_ms;  /* 0: no keepalives */
    u_u32 keepalive_interval_ms;
    u_u8 keepalive_count;
    u_u8 is_orphan;  /* see tcp_orphan.h */
    u_u16 closed_at; /* of an orphan, by the clock of tcp_orphan.c */
};

struct us_sack;       /* tcp_sack.h */
struct us_synq_entry; /* tcp_synq.h */

/* The receive queue; see tcp_rxq.h. */
struct us_rxq {
    struct us_chunk *head; /* in order, without an event yet: kept, then held, then later data */
    struct us_chunk *tail;
    struct us_chunk *kept; /* the last one kept by the application (us_recv_keep()), or null */
    struct us_chunk *held; /* the last one copied from a slice while held, or null */
    struct us_chunk *ooo;  /* out of order: sorted, disjoint, all behind rcv_nxt */
    struct us_chunk *ooo_tail;
    u_u32 blocks : 24; /* in both lists; 2^24 of them are beyond the largest window */
    u_u32 recents : 8; /* how many of `recent` are valid */
    u_u32 recent[4];   /* sequence numbers in the SACK blocks sent last, newest first */
    u_u32 recent_end;  /* the number after the segment of recent[0] */
    u_u32 dup_start;   /* bytes received twice, for one D-SACK; none if both are equal */
    u_u32 dup_end;
};

/* The send queue; see tcp_sendq.h. */
struct us_sendq {
    struct us_chunk *head;
    struct us_chunk *tail;
    struct us_chunk *cursor; /* the chunk that a frame was built from last, or null */
    u_u32 copied;            /* unacknowledged bytes in blocks */
    u_u32 refs;              /* references */
};

/*
 * The template of an IPv4 connection ends with the addresses and ports as they stand in the peer's
 * packets: remote and local address, remote and local port.
 */
enum {
    US_TCP_TEMPLATE_BYTES = US_IP_HDR_MAX + 4,
    US_TCP_TUPLE_AT = US_IP4_HDR_BYTES + 4,
    US_TCP_TUPLE_BYTES = 12
};

U_STATIC_ASSERT(US_TCP_TUPLE_AT + US_TCP_TUPLE_BYTES <= US_TCP_TEMPLATE_BYTES,
                names_fit_into_a_template);

/* The headers that all segments of a connection begin with, behind the Ethernet header. */
struct us_tcp_template {
    u_u16 ip_sum;                   /* IPv4: see us_ip4_finish() */
    u_u16 pseudo_sum;               /* pseudo-header, length 0 */
    u_u16 ports_sum;                /* and the ports, too */
    u_u8 ip[US_TCP_TEMPLATE_BYTES]; /* the IP header without its lengths, and the ports */
};

/*
 * What only general code keeps. While us_conn.fast_path is US_FAST_RXTX these follow from other
 * fields and are not valid: us_conn_leave_fast_path() computes them. See us_conn_lazy().
 */
struct us_conn_lazy {
    u_u64 main_deadline_us; /* of main_timer; US_NEVER if that is US_TCP_TIMER_NONE */
    u_u64
        no_progress_since_us; /* since when the peer owes an ACK or an open window; 0: it doesn't */
    u_u64 rtt_from_us;        /* with rtt_timed: when the segment before rtt_seq was sent */
    u_u32 rtt_seq;
    u_u32 recover;          /* RFC 6582: SND.MAX when the last recovery began */
    u_u32 cwnd_limited_end; /* data below was sent while the congestion window was the limit */
    u_u8 rtt_timed;         /* a round-trip time is being measured */
    u_u8 main_timer;        /* enum us_tcp_timer */
};

struct us_conn {
    /* First cache line: finding the connection and header prediction. */
    struct us_conn *hash_next;
    struct us_tcp_key key;
    u_u8 out_flags;      /* US_OUT_* */
    u_u8 quick_acks;     /* in-order segments whose ACK is not delayed */
    u_u8 dup_acks_owed;  /* duplicate ACKs to send, one per out-of-order segment */
    u_u8 state;          /* enum us_tcp_state */
    u_u8 rx_flags;       /* US_RX_* */
    u_u8 flags;          /* US_CF_* */
    u_u8 dup_acks;       /* received in a row */
    u_u8 ecn;            /* US_EF_* */
    u_u8 retries;        /* timeouts, probes or keepalives in a row without an answer */
    u_u8 opts;           /* US_OPT_* */
    u_u8 is_common_rxtx; /* US_FAST_RXTX, and has the common headers of tcp_fast.h */
    u_u8 close_reason;   /* enum us_close_reason, once closed */
    u_u32 rcv_adv;       /* right edge of the window that was advertised */
    u_u32 rcv_queued;    /* bytes before rcv_nxt that the application has not consumed */
    u_u32 rcv_nxt;       /* side by side with snd_nxt, see build_tcp() in tcp_fast_out.c */
    u_u32 snd_nxt;       /* next to send; goes back to snd_una when the timer expires */
    u_u32 snd_una;
    u_u32 snd_max;  /* the one after the last that was ever sent */
    u_u32 snd_end;  /* the one after the last byte queued; a FIN has this number */
    u_u32 snd_wnd;  /* the peer's window, scaled */
    u_u8 fast_path; /* enum us_fast_path */
    u_u8 nagle;     /* small segments wait while something is in flight */
    u_u8 snd_scale;
    u_u8 rcv_scale;

    /* Receiving and acknowledging. */
    u_u32 ts_recent; /* TS.Recent of RFC 7323 */
    u_u32 ts_offset; /* added to us_ts_clock() in TSval */
    u_u32 last_ack;  /* the acknowledgment number sent last */
    u_u32 snd_wl1;   /* sequence and acknowledgment number of the last window update */
    u_u32 snd_wl2;
    u_u32 snd_wnd_max;
    u_u32 pto_us; /* with US_FAST_RXTX: when a single segment is probed, after it was sent */
    const u_u8 *slice_data; /* the first received bytes in a packet without an event: see event.h */
    u_u16 slice_len;        /* 0: there are none */
    u_u16 slice_next;       /* indexes of the slices behind it */
    u_u16 slice_last;
    u_u16 mss_sent;  /* the MSS that our SYN offered */
    u_u32 low_water; /* SENDABLE is raised when no more is queued */
    u_u16 listener;  /* index + 1 of the listener that it came from, 0 if none */
    u_u16 listener_epoch;
    u_u8 ev_flags;      /* US_EVF_* */
    u_u8 challenges;    /* challenge ACKs since challenge_at */
    u_u16 recv_kib;     /* KiB of the receive window; 0: config.recv_window_bytes */
    u_u32 challenge_at; /* us_ts_clock() */
    struct us_sendq sendq;
    struct us_sack *sack; /* the scoreboard; null while nothing is missing */
    struct u_list ev_link;
    struct u_list out_link; /* in us_stack.out_list, or in us_neighbour.waiting */
    void *user;
    struct us_tcp_cc cc;
    u_u64 bytes_in;  /* received in order */
    u_u64 bytes_out; /* acknowledged, our SYN and FIN included */

    /* Sending: round-trip times and timers. */
    struct us_tcp_rtt rtt;
    u_u32 hop_serial;         /* of `neighbour` when it was looked up */
    u_u64 sent_us;            /* when data was sent last */
    u_u64 last_rx_us;         /* when the last acceptable segment arrived */
    u_u64 delack_deadline_us; /* of the delayed ACK, US_NEVER if none */
    struct us_timer timer;    /* one entry for all deadlines; may be set for earlier than needed */

    struct us_neighbour *neighbour; /* the next hop; valid while its serial is hop_serial */
    struct us_tcp_template head;
    u_u16 send_kib;    /* KiB of the send queue; 0: config.send_queue_bytes */
    u_u32 retransmits; /* segments sent again */

    /* Rarely accessed. */
    struct us_conn_lazy lazy_fields; /* through us_conn_lazy() */
    struct us_tcp_timeouts timeouts;
    struct us_tcp_pmtu pmtu;
    struct us_tcp_recovery rec;
    struct us_rxq rxq;
    u_u32 iss;
    u_u32 fin_seq;             /* with US_RX_FIN_OUT_OF_ORDER */
    struct u_list memory_link; /* in one of us_stack.memory_lists, or in us_stack.orphans */
};

/* Object i of the pool of connections, i < conn_pool.touched: in use, or CLOSED and free. */
U_INLINE struct us_conn *us_conn_at(const struct us_stack *stack, u_u32 i)
{
    return (struct us_conn *)(void *)(stack->conn_pool.base +
                                      (unsigned long)i * stack->conn_pool.item_bytes);
}

/* The fields of a connection that general code keeps: it has left the fast path. */
U_INLINE struct us_conn_lazy *us_conn_lazy(struct us_conn *conn)
{
    U_ASSERT(conn->fast_path != US_FAST_RXTX);
    return &conn->lazy_fields;
}

U_INLINE const struct us_conn_lazy *us_conn_lazy_const(const struct us_conn *conn)
{
    U_ASSERT(conn->fast_path != US_FAST_RXTX);
    return &conn->lazy_fields;
}

/* A parsed segment. */
struct us_seg {
    u_u32 seq;
    u_u32 ack;
    u_u32 wnd; /* the field of the header, not scaled */
    u_u32 len; /* payload bytes */
    const u_u8 *data;
    u_u8 flags; /* US_TCP_* */
    u_u16 src_port;
    u_u16 dst_port;
    struct us_tcp_opts opts;
    const struct us_rx *rx;
};

/* Why a segment of a connection is sent. */
enum us_send_kind {
    US_SEND_SYN,
    US_SEND_ACK,
    US_SEND_DUP_ACK,    /* a duplicate ACK, one for each out-of-order segment */
    US_SEND_DATA,       /* at snd_nxt; a FIN too */
    US_SEND_RETRANSMIT, /* a retransmission: at snd_una, or as the scoreboard says */
    US_SEND_TLP,        /* a tail loss probe: the last segment, or a new one */
    US_SEND_PROBE,      /* a window probe: at snd_nxt, beyond the peer's window */
    US_SEND_KEEPALIVE,  /* a keepalive: below snd_una, so that the peer acknowledges */
    US_SEND_RST
};

/* A segment to be built, of any kind. */
struct us_tcp_desc {
    u_u32 seq;
    u_u32 ack;
    u_u32 len;    /* payload bytes, from the send queue at seq */
    u_u16 window; /* as in the header */
    u_u8 flags;
    u_u8 kind;     /* enum us_send_kind, for the record */
    u_u8 ecn;      /* RFC 3168 section 5: the ECN field of the IP header, 0..3 */
    u_u16 tso_mss; /* the device cuts the segment at this MSS; 0: it does not */
    struct us_tcp_opts opts;
};

/* ---- tcp_in.c ---- */

/* Handles a received segment; rx->l4 is its header. */
void us_tcp_input(struct us_stack *stack, const struct us_rx *rx);

/*
 * Queues a reply to a segment that has no connection: the ports are filled in, all else is 0. Null,
 * and counted, if the queue of replies is full.
 */
struct us_reply *us_tcp_reply(struct us_stack *stack, const struct us_seg *seg);

/* Replies with a RST as RFC 9293 3.10.7.1 says, unless the segment is a RST itself. */
void us_tcp_reply_rst(struct us_stack *stack, const struct us_seg *seg);

/* RFC 9293 3.10.7.4: whether a segment's sequence numbers touch the receive window. */
int us_seg_is_acceptable(const struct us_seg *seg, u_u32 rcv_nxt, u_u32 wnd);

/* RFC 7323 4.3: updates TS.Recent from an acceptable segment. */
U_INLINE void us_tcp_take_timestamp(struct us_conn *conn, u_u32 seq, u_u32 ts_val)
{
    if (us_seq_leq(seq, conn->last_ack))
        conn->ts_recent = ts_val;
}

/* ---- tcp_challenge.c ---- */

/* Schedules a challenge ACK (RFC 5961) within the limits of the connection and the instance. */
void us_tcp_challenge(struct us_stack *stack, struct us_conn *conn);

/*
 * Schedules the ACK for an unacceptable segment (RFC 9293 3.10.7.4) within the connection's limit.
 */
void us_tcp_ack_unacceptable(struct us_stack *stack, struct us_conn *conn,
                             const struct us_seg *seg);

/* Whether the instance may send one more challenge ACK now; counts it if so. */
int us_tcp_challenge_allowed(struct us_stack *stack);

/* ---- event.c ---- */

/* Puts a connection on the list of those with events. */
U_INLINE void us_event_queue_conn(struct us_stack *stack, struct us_conn *conn)
{
    if (u_list_is_empty(&conn->ev_link))
        u_list_push_back(&stack->events.conns, &conn->ev_link);
}

/* Adds a slice of a packet. us_event_room() has promised room for it. */
U_INLINE void us_event_add_slice(struct us_stack *stack, struct us_conn *conn, const u_u8 *data,
                                 u_u32 len)
{
    struct us_event_queue *events = &stack->events;

    events->slices_used++;
    if (U_LIKELY(conn->slice_len == 0)) {
        conn->slice_data = data;
        conn->slice_len = (u_u16)len;
        if (U_LIKELY(u_list_is_empty(&conn->ev_link)))
            u_list_push_back(&events->conns, &conn->ev_link);
    } else {
        us_event_append_slice(events, conn, data, len);
        us_event_queue_conn(stack, conn);
    }
}

/* The congestion window was `before_bytes`: raises CWND if it has changed and is watched. */
U_INLINE void us_event_cwnd(struct us_stack *stack, struct us_conn *conn, u_u32 before_bytes)
{
    if (U_UNLIKELY((conn->flags & US_CF_WATCH_CWND) && conn->cc.cwnd != before_bytes &&
                   conn->state != US_TCP_CLOSED))
        us_event_raise(stack, conn, US_EVF_CWND);
}

/* ---- tcp_ack.c ---- */

/* Advances SND.UNA to `ack`, with snd_una < ack <= snd_max. ece: the segment has the ECE flag. */
void us_tcp_ack_advance(struct us_stack *stack, struct us_conn *conn, u_u32 ack, u_u32 ts_ecr,
                        int ece);

/* Processes acknowledgment and window of an acceptable segment in a synchronised state. */
void us_tcp_ack_process(struct us_stack *stack, struct us_conn *conn, const struct us_seg *seg);

/* ---- tcp_recv.c ---- */

/* Records for the next SACK option which bytes of a segment are duplicates (RFC 2883). */
void us_tcp_note_duplicate_data(struct us_conn *conn, const struct us_seg *seg);

/* Processes data and FIN of an acceptable segment. */
void us_tcp_recv(struct us_stack *stack, struct us_conn *conn, struct us_seg *seg);

/* The application has consumed bytes: announces a larger window if it has grown enough. */
void us_tcp_recv_consumed(struct us_stack *stack, struct us_conn *conn);

/* ---- tcp_build.c ---- */

/* Fills in the template for a 4-tuple. */
void us_tcp_template_fill(const struct us_stack *stack, struct us_tcp_template *head,
                          const struct us_tcp_key *key, const struct us_ip6 *remote6);

/* The length of the IP header in it. */
U_INLINE u_u32 us_tcp_template_l3_bytes(const struct us_tcp_template *head)
{
    return U_LIKELY(head->ip[0] >> 4 == 4) ? (u_u32)US_IP4_HDR_BYTES : (u_u32)US_IP6_HDR_BYTES;
}

/* TTL or hop limit, and DSCP (RFC 2474), of a template. */
unsigned us_tcp_template_ttl(const struct us_tcp_template *head);
unsigned us_tcp_template_dscp(const struct us_tcp_template *head);
void us_tcp_template_set(struct us_tcp_template *head, unsigned ttl, unsigned dscp);

/*
 * Builds a segment from an Ethernet header (US_L2_HDR_MAX bytes are readable), a template and a
 * description. sendq holds its payload; null if desc->len is 0.
 */
void us_tcp_build(struct us_stack *stack, struct us_pkt *pkt, const u_u8 *l2,
                  const struct us_tcp_template *head, const struct us_tcp_desc *desc,
                  struct us_sendq *sendq);

/* Builds the segment of a US_REPLY_TCP. */
void us_tcp_build_reply(struct us_stack *stack, struct us_pkt *pkt, const struct us_reply *reply);

/* ---- tcp_out.c ---- */

/* Segments to the connection's next hop are lost: its neighbour entry is verified. */
void us_tcp_suspect_next_hop(struct us_stack *stack, struct us_conn *conn);

/* Schedules the connection for us_output(). */
U_INLINE void us_tcp_output_schedule(struct us_stack *stack, struct us_conn *conn)
{
    if (u_list_is_empty(&conn->out_link))
        u_list_push_back(&stack->out_list, &conn->out_link);
}

/*
 * Decides which segment the connection should send now, without side effects. Returns 0 for none,
 * otherwise fills in seq, len, flags and kind of *desc.
 */
int us_tcp_plan(const struct us_conn *conn, struct us_tcp_desc *desc);

/* Sets the flags of a planned data segment; `usable` bytes of window are left for it. */
void us_tcp_plan_flags(const struct us_conn *conn, struct us_tcp_desc *desc, u_u32 usable);

/* Fills packets from the scheduled connections; returns how many. */
unsigned us_tcp_output(struct us_stack *stack, struct us_pkt **pkts, unsigned n);

/* The next hop that these connections wait for does not reply. */
void us_tcp_next_hop_unreachable(struct us_stack *stack, struct u_list *waiting);

/* The next hop that these connections wait for has a MAC address now. */
void us_tcp_next_hop_resolved(struct us_stack *stack, struct u_list *waiting);

/* ---- tcp_icmp.c ---- */

/* Classes of ICMP errors (RFC 1122 4.2.3.9, RFC 5461). */
enum us_icmp_error {
    US_ICMP_SOFT,   /* transient: network or host unreachable, time exceeded */
    US_ICMP_HARD,   /* protocol or port unreachable, or forbidden by an administrator */
    US_ICMP_TOO_BIG /* fragmentation needed, or packet too big */
};

/*
 * An ICMP error quotes a segment with this 4-tuple and sequence number; mtu belongs to
 * US_ICMP_TOO_BIG and may be any number. Unless the number is in flight the error is dropped and
 * counted (RFC 5927 section 4).
 */
void us_tcp_icmp_error(struct us_stack *stack, const struct us_tcp_key *key,
                       const struct us_ip6 *remote6, u_u32 seq, enum us_icmp_error kind, u_u32 mtu);

/* The path carries packets of at most mtu bytes: limits the segments of the connection. */
void us_tcp_path_mtu(struct us_stack *stack, struct us_conn *conn, u_u32 mtu);

/* The MTU of the link has changed: limits the packets of all connections. */
void us_tcp_link_mtu(struct us_stack *stack);

/* ---- tcp_conn.c ---- */

/*
 * Creates a connection in state CLOSED and enters it into the table. Null, and counted, if the pool
 * is empty.
 */
struct us_conn *us_conn_new(struct us_stack *stack, const struct us_tcp_key *key,
                            const struct us_ip6 *remote6);

/* Sets the initial sequence number of a connection that has sent nothing yet. */
void us_conn_set_iss(struct us_conn *conn, u_u32 iss);

/* Takes sequence number, window and options from a SYN. */
void us_conn_take_syn(struct us_stack *stack, struct us_conn *conn, const struct us_seg *seg);

/* The handshake is complete: sets the initial window, raises ACCEPTED or CONNECTED. */
void us_conn_establish(struct us_stack *stack, struct us_conn *conn);

/* The MSS option of a SYN, or the default without one. */
u_u32 us_conn_mss_of_syn(const struct us_seg *seg, u_u32 local_ip);

/* The window scale and the MSS that our SYN offers. */
u_u8 us_conn_scale_offered(const struct us_stack *stack);
u_u16 us_conn_mss_offered(const struct us_stack *stack, u_u32 local_ip);

/* Ends the connection without sending anything; raises CLOSED if the application knows it. */
void us_conn_end(struct us_stack *stack, struct us_conn *conn, enum us_close_reason reason);

/* The same with a RST to the peer. */
void us_conn_reset(struct us_stack *stack, struct us_conn *conn, enum us_close_reason reason);

/*
 * Discards received data without an event, the end of the stream included, on a connection that has
 * failed: CLOSED is its next event.
 */
void us_conn_drop_received(struct us_stack *stack, struct us_conn *conn);

/* Acknowledged bytes could not be stored: resets the connection. */
void us_conn_out_of_memory(struct us_stack *stack, struct us_conn *conn);

/* Frees the connection if it is closed and neither an event nor a RST is outstanding. */
void us_conn_free_if_done(struct us_stack *stack, struct us_conn *conn);

/* Raises SENDABLE if the connection waits for room and there is some. */
void us_conn_raise_sendable(struct us_stack *stack, struct us_conn *conn);

/* ---- tcp_listen.c ---- */

struct us_listener *us_tcp_listener_find(struct us_stack *stack, u_u16 port);

/*
 * Processes a segment for a listening port. isn_min: null, or a number that the initial sequence
 * number must exceed. Returns null, or a connection in SYN-RECEIVED made from the SYN cookie that
 * the segment brought back: the caller processes the segment on it.
 */
struct us_conn *us_tcp_listen_input(struct us_stack *stack, const struct us_tcp_key *key,
                                    struct us_listener *listener, const struct us_seg *seg,
                                    const u_u32 *isn_min);

/*
 * Processes a segment for an entry of the SYN queue. Returns null, or the connection whose
 * handshake the segment has completed, like us_tcp_listen_input().
 */
struct us_conn *us_tcp_listen_complete(struct us_stack *stack, struct us_synq_entry *entry,
                                       const struct us_seg *seg);

/* An accepted connection has ended: it no longer counts for its listener. */
void us_tcp_listener_uncount(struct us_stack *stack, const struct us_conn *conn);

/* A local address was removed: ends the connections that use it. */
void us_tcp_remove_local(struct us_stack *stack, u_u32 local_ip);

/* ---- tcp_demux.c ---- */

/* The keyed hash of the remote address and both ports, as they stand in a segment of the peer. */
U_INLINE u_u32 us_tcp_hash_words(const struct us_stack *stack, u_u32 remote_ip, u_u32 ports)
{
    return u_pairhash2(&stack->tuple_hash, remote_ip, ports);
}

/*
 * The same of a 4-tuple. The local address is not hashed: there are few, and the fast path need not
 * look it up.
 */
U_INLINE u_u32 us_tcp_hash(const struct us_stack *stack, const struct us_tcp_key *key)
{
    return us_tcp_hash_words(stack, u_be32_word(key->remote_ip),
                             u_be32_word((u_u32)key->remote_port << 16 | key->local_port));
}

/* The bucket of a 4-tuple. */
U_INLINE struct us_conn **us_tcp_bucket(const struct us_stack *stack, const struct us_tcp_key *key)
{
    return &stack->conn_table[us_tcp_hash(stack, key) & stack->conn_mask];
}

struct us_conn *us_tcp_find(const struct us_stack *stack, const struct us_tcp_key *key,
                            const struct us_ip6 *remote6);
void us_tcp_table_add(struct us_stack *stack, struct us_conn *conn);
void us_tcp_table_remove(struct us_stack *stack, struct us_conn *conn);
/* RFC 6528: the initial sequence number for this connection at this time. */
u_u32 us_tcp_isn(const struct us_stack *stack, const struct us_tcp_key *key);

/* RFC 7323 section 7.1: the offset of this connection's timestamp clock. */
u_u32 us_tcp_ts_offset(const struct us_stack *stack, const struct us_tcp_key *key);

/* Whether a connection, an entry of the SYN queue or of TIME-WAIT has this 4-tuple. */
int us_tcp_tuple_in_use(const struct us_stack *stack, const struct us_tcp_key *key,
                        const struct us_ip6 *remote6);

/* RFC 6056: chooses key->local_port. Returns 0 if all are in use. */
int us_tcp_port_choose(struct us_stack *stack, struct us_tcp_key *key,
                       const struct us_ip6 *remote6);

U_INLINE int us_tcp_key_equal(const struct us_tcp_key *a, const struct us_tcp_key *b)
{
    return a->remote_port == b->remote_port && a->remote_ip == b->remote_ip &&
           a->local_port == b->local_port && a->local_ip == b->local_ip;
}

/* The peer's address over IPv6, from the template; null over IPv4. */
U_INLINE const struct us_ip6 *us_conn_remote6(const struct us_conn *conn)
{
    if (U_LIKELY(!us_local_is_ip6(conn->key.local_ip)))
        return (const struct us_ip6 *)U_NULL;
    return &((const struct us_ip6_hdr *)conn->head.ip)->dst;
}

U_INLINE struct us_ip us_conn_remote(const struct us_conn *conn)
{
    struct us_ip ip;
    ip.id = conn->key.remote_ip;
    ip.six = us_conn_remote6(conn);
    return ip;
}

/* Headers of a packet of this connection without any options. */
U_INLINE u_u32 us_conn_hdr_bytes(const struct us_conn *conn)
{
    return us_tcp_template_l3_bytes(&conn->head) + US_TCP_HDR_BYTES;
}

/* The largest receive window, and the limit of the send queue, of a connection. */
U_INLINE u_u32 us_conn_recv_window(const struct us_stack *stack, const struct us_conn *conn)
{
    return U_LIKELY(conn->recv_kib == 0) ? stack->config.recv_window_bytes
                                         : (u_u32)conn->recv_kib << 10;
}

U_INLINE u_u32 us_conn_send_limit(const struct us_stack *stack, const struct us_conn *conn)
{
    return U_LIKELY(conn->send_kib == 0) ? stack->config.send_queue_bytes
                                         : (u_u32)conn->send_kib << 10;
}

/*
 * Whether the window that the peer knows is at least half of the maximum; with a smaller window of
 * the connection's own it may say no.
 */
U_INLINE int us_tcp_window_above_half(const struct us_stack *stack, const struct us_conn *conn)
{
    return us_seq_geq(conn->rcv_adv, conn->rcv_nxt + (stack->config.recv_window_bytes >> 1));
}

/* The window field and the right edge that it stands for. */
U_INLINE u_u16 us_tcp_window(const struct us_stack *stack, const struct us_conn *conn, u_u32 *edge)
{
    u_u32 limit = us_conn_recv_window(stack, conn);
    u_u32 room = limit > conn->rcv_queued ? limit - conn->rcv_queued : 0;
    u_u32 open = us_seq_gt(conn->rcv_adv, conn->rcv_nxt) ? conn->rcv_adv - conn->rcv_nxt : 0;
    u_u32 field;

    /* RFC 9293 3.8.6.2.2: no small steps; and the right edge never goes back (3.8.6). */
    if (room < open || room - open < u_min32(conn->mss_sent, limit >> 1))
        room = open;
    field = room >> conn->rcv_scale;
    if (field << conn->rcv_scale < open)
        field++;
    field = u_min32(field, 0xffff);
    *edge = conn->rcv_nxt + (field << conn->rcv_scale);
    return (u_u16)field;
}

/* Whether the cached next hop is still valid: neighbour entries are recycled. */
U_INLINE int us_conn_has_hop(const struct us_conn *conn)
{
    return conn->neighbour != U_NULL && conn->neighbour->serial == conn->hop_serial;
}

/* Whether frames can be sent there without us_neighbour_use() changing the entry. */
U_INLINE int us_neighbour_is_fresh(const struct us_stack *stack,
                                   const struct us_neighbour *neighbour)
{
    return neighbour->state == US_NEIGHBOUR_REACHABLE &&
           stack->now_us - neighbour->confirmed_us <= stack->config.neighbour_lifetime_us;
}

/* Whether our FIN was sent, or sent and acknowledged. */
U_INLINE int us_conn_fin_sent(const struct us_conn *conn)
{
    return (conn->out_flags & US_OUT_FIN) && us_seq_gt(conn->snd_max, conn->snd_end);
}

U_INLINE int us_conn_fin_acked(const struct us_conn *conn)
{
    return (conn->out_flags & US_OUT_FIN) && us_seq_gt(conn->snd_una, conn->snd_end);
}

/* Whether data or a FIN is queued behind SND.NXT. */
U_INLINE int us_conn_has_unsent(const struct us_conn *conn)
{
    u_u32 end = conn->snd_end + ((conn->out_flags & US_OUT_FIN) ? 1u : 0u);

    return us_seq_lt(conn->snd_nxt, end);
}

#endif
