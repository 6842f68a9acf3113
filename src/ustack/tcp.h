/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TCP (RFC 9293): the connection and what the tcp_*.c files offer each other.
 *
 * A segment's way in:  tcp_in.c parses and checks by state -> tcp_ack.c takes its acknowledgment,
 * tcp_recv.c its data. The way out: tcp_out.c decides (us_tcp_plan), builds (us_tcp_build) and
 * records. tcp_conn.c makes and ends connections, tcp_demux.c finds them, tcp_timer.c and
 * tcp_tw.c watch the time.
 */
#ifndef USTACK_TCP_H
#define USTACK_TCP_H

#include "base/base.h"
#include "base/list.h"
#include "ustack/chunk.h"
#include "ustack/eth.h"
#include "ustack/ip4.h"
#include "ustack/ip6.h"
#include "ustack/seq.h"
#include "ustack/stack.h"
#include "ustack/tcp_cc.h"
#include "ustack/tcp_hdr.h"
#include "ustack/tcp_opt.h"
#include "ustack/tcp_rtt.h"

/*
 * Names a connection: addresses as us_rx has them, ports in host byte order. Over IPv6 two remote
 * addresses can have the same id, so the functions that look for a name take the whole address as
 * well (remote6; null over IPv4).
 */
struct us_tcp_key {
    u_u32 local_ip;
    u_u32 remote_ip;
    u_u16 local_port;
    u_u16 remote_port;
};

/* Bits of us_conn.opts: what both sides have agreed on. */
enum {
    US_OPT_TS = 1 << 0,
    US_OPT_SCALE = 1 << 1,
    US_OPT_SACK = 1 << 2,
    US_OPT_ECN = 1 << 3 /* not an option, but agreed on likewise */
};

/* Bits of us_conn.ecn; see tcp_ecn.h. */
enum {
    US_EF_ASK = 1 << 0,    /* our SYN asks for ECN */
    US_EF_ECHO = 1 << 1,   /* a mark was received: tell it until the peer has heard (ECE) */
    US_EF_CE = 1 << 2,     /* DCTCP: the last data segment was marked */
    US_EF_CWR = 1 << 3,    /* the window was reduced: tell it with the next new data */
    US_EF_REDUCED = 1 << 4 /* because of a mark, until rec.cwr_end is acknowledged */
};

/* Bits of us_conn.out_flags: what us_output() has to do. */
enum {
    US_OUT_SYN = 1 << 0,       /* send our SYN (with ACK in SYN-RECEIVED) */
    US_OUT_ACK = 1 << 1,       /* acknowledge at once */
    US_OUT_ACK_LATER = 1 << 2, /* something is unacknowledged: ride on data, or start the timer */
    US_OUT_RESEND = 1 << 3,    /* send one segment at snd_una again */
    US_OUT_PROBE = 1 << 4,     /* send something although the window is too small, or no data */
    US_OUT_FIN = 1 << 5,       /* a FIN follows what is queued; stays set */
    US_OUT_TAIL = 1 << 7,      /* probe the end of what was sent: see tcp_recovery.h */
    US_OUT_RST = 1 << 6        /* the connection is dead: a RST is all that is left to send */
};

/* Bits of us_conn.rx_flags. */
enum {
    US_RX_HELD = 1 << 0,      /* us_recv_keep(): no DATA events */
    US_RX_FIN_AHEAD = 1 << 1, /* a FIN at fin_seq was received and waits for the data before it */
    US_RX_FIN = 1 << 2        /* the peer's FIN was processed */
};

/* Other bits: us_conn.flags. */
enum {
    US_CF_PASSIVE = 1 << 0,       /* came from a listener; counted in half_open in SYN-RECEIVED */
    US_CF_RECOVERY = 1 << 1,      /* RFC 6582 fast recovery, until `recover` is acknowledged */
    US_CF_PARTIAL = 1 << 2,       /* a partial ACK has come in this recovery */
    US_CF_RTT_TIMED = 1 << 3,     /* rtt_seq and rtt_from_us are valid */
    US_CF_SYN_RESENT = 1 << 4,    /* RFC 5681 3.1: initial window of one segment */
    US_CF_WANT_SENDABLE = 1 << 5, /* a send was cut short or refused */
    US_CF_TAIL = 1 << 7,          /* a probe of the tail was sent and not answered */
    US_CF_UNREACHABLE = 1 << 6    /* the next hop did not answer ARP; nothing was heard since */
};

/* What us_conn.main_us is the deadline of. */
enum us_tcp_timer {
    US_TT_NONE,
    US_TT_RESEND,
    US_TT_TAIL, /* before RESEND: the tail is to be probed */
    US_TT_KEEP, /* nothing is in flight: is the peer still there? */
    /* From here on what the fast path leaves alone: see US_TT_SLOW. */
    US_TT_REORDER, /* before RESEND: holes are to be judged again */
    US_TT_PERSIST,
    US_TT_FIN_WAIT_2
};

/* The bit that tells the timers of the fast path from the others. */
enum { US_TT_SLOW = 4 };

/* Bits of us_tcp_recovery.flags. */
enum {
    US_RF_REORDERED = 1 << 0,  /* the path has reordered */
    US_RF_UNDO = 1 << 1,       /* cwnd, ssthresh, from, to and resent are valid */
    US_RF_EIFEL = 1 << 2,      /* no ACK of new data has come since the reduction */
    US_RF_TS = 1 << 3,         /* ts is valid */
    US_RF_WIDENED = 1 << 4,    /* `steps` was raised since the reduction */
    US_RF_TAIL_RESENT = 1 << 5 /* the probe of the tail was sent before */
};

/* What tcp_recovery.c remembers although nothing is missing. */
struct us_tcp_recovery {
    u_u32 cwnd; /* the windows before they were reduced last */
    u_u32 ssthresh;
    u_u32 from; /* SND.UNA and SND.MAX then */
    u_u32 to;
    u_u32 ts;       /* timestamp of the first retransmission since */
    u_u32 tail_end; /* SND.MAX when the tail was probed, with US_CF_TAIL */
    u_u32 cwr_end;  /* SND.MAX when a mark was answered, with US_EF_REDUCED */
    u_u16 resent;   /* segments sent again since, less those that were reported as duplicates */
    u_u8 steps;     /* quarters of a round trip that a hole may wait in addition to the first */
    u_u8 keep;      /* recoveries for which `steps` holds */
    u_u8 tails;     /* probes of the tail in a row */
    u_u8 prompt;    /* ACKs of one segment each, in a row, while more was in flight */
    u_u8 flags;     /* US_RF_* */
};

/* The size of packets on the way to the peer; see tcp_pmtu.h. Times are of us_ts_clock(). */
struct us_tcp_pmtu {
    u_u32 raise_at;    /* when more may be tried, while mtu is below mtu_max */
    u_u32 probe_end;   /* sequence number behind the probe that is in flight */
    u_u16 mtu;         /* packets are at most so large */
    u_u16 mtu_max;     /* what the link carries and the peer takes */
    u_u16 high;        /* the smallest size that is not known to fail, less one; or mtu_max */
    u_u16 tried;       /* size of the probe that is in flight */
    u_u16 probe_bytes; /* payload of the probe to be sent next, or 0 */
    u_u8 probing;      /* one is in flight */
};

enum { US_KEEP_COUNT_MAX = 200 };

/* How long a peer may be silent or take nothing; see tcp_timer.c. */
struct us_tcp_patience {
    u_u64
        owed_us; /* since when it owes an ACK or an open window, without progress; 0: it doesn't */
    u_u64 linger_us; /* when a close that was not acknowledged becomes a reset; US_NEVER: not */
    u_u32 user_timeout_ms; /* RFC 5482; 0: the number of retries counts */
    u_u32 keep_idle_ms;    /* 0: no keepalives */
    u_u32 keep_interval_ms;
    u_u8 keep_count;
};

struct us_sack; /* tcp_sack.h */

/* The receive queue; see tcp_rxq.h. */
struct us_rxq {
    struct us_chunk *head; /* in order and not told: kept, then arrived while held */
    struct us_chunk *tail;
    struct us_chunk *kept; /* the last one kept by the application in this round, or null */
    struct us_chunk *held; /* the last one that came from a slice behind those, or null */
    struct us_chunk *ooo;  /* out of order: sorted, disjoint, all behind rcv_nxt */
    struct us_chunk *ooo_tail;
    u_u32 blocks : 24; /* in both lists; 2^24 of them are beyond the largest window */
    u_u32 recents : 8; /* how many of `recent` are valid */
    u_u32 recent[4];   /* sequence numbers in the SACK blocks told last, newest first */
    u_u32 recent_end;  /* the number after the segment of recent[0] */
    u_u32 dup_start;   /* bytes that came twice, to be told once; none if both are equal */
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
 * Behind the IPv4 header and the ports there is room for what stands in the peer's packets without
 * options: its address, ours, its port and ours, side by side.
 */
enum {
    US_TCP_TEMPLATE_BYTES = US_IP_HDR_MAX + 4,
    US_TCP_NAMES_AT = US_IP4_HDR_BYTES + 4,
    US_TCP_NAMES_BYTES = 12
};

U_STATIC_ASSERT(US_TCP_NAMES_AT + US_TCP_NAMES_BYTES <= US_TCP_TEMPLATE_BYTES,
                names_fit_into_a_template);

/* What all segments of a connection begin with, behind the Ethernet header. */
struct us_tcp_template {
    u_u16 ip_sum;                   /* IPv4: see us_ip4_finish() */
    u_u16 pseudo_sum;               /* pseudo-header, length 0 */
    u_u16 ports_sum;                /* and the ports, too */
    u_u8 ip[US_TCP_TEMPLATE_BYTES]; /* the IP header without its lengths, and the ports */
};

struct us_conn {
    /* First cache line: finding the connection and header prediction. */
    struct us_conn *hash_next;
    struct us_tcp_key key;
    /* Four bytes that the fast path takes as one: what is to be sent. */
    u_u8 out_flags;
    u_u8 segs_unacked; /* data segments since the last ACK we sent */
    u_u8 quick_acks;   /* in-order segments whose ACK is not delayed */
    u_u8 acks_owed;    /* duplicate ACKs to send, one per out-of-order segment */
    /* Eight bytes that us_conn_is_quiet() takes as one. */
    u_u8 state; /* enum us_tcp_state */
    u_u8 rx_flags;
    u_u8 flags;
    u_u8 dup_acks;
    u_u8 ecn; /* US_EF_* */
    u_u8 retries;
    u_u8 main_timer; /* enum us_tcp_timer */
    u_u8 opts;
    u_u32 rcv_adv;    /* right edge of the window that was advertised */
    u_u32 rcv_queued; /* bytes before rcv_nxt that the application has not consumed */
    u_u32 rcv_nxt;    /* this and the next one are taken as one word, see build_tcp() */
    u_u32 snd_nxt;    /* next to send; goes back to snd_una when the timer expires */
    u_u32 snd_una;
    u_u32 snd_max; /* the one after the last that was ever sent */
    u_u32 snd_end; /* the one after the last byte queued; a FIN has this number */
    u_u32 snd_wnd; /* the peer's window, scaled */
    u_u8 steady;   /* enum us_steady */
    u_u8 nagle;    /* small segments wait while something is in flight */
    u_u8 snd_scale;
    u_u8 rcv_scale;

    /* Receiving and acknowledging. */
    u_u32 ts_recent;
    u_u32 ts_offset;
    u_u32 last_ack; /* the acknowledgment number sent last */
    u_u32 snd_wl1;
    u_u32 snd_wl2;
    u_u32 snd_wnd_max;
    u_u32 heard_next;       /* which is guessed to be heard of next, see tcp_fast.c */
    const u_u8 *slice_data; /* the first bytes not told yet that lie in a packet: see event.h */
    u_u16 slice_len;        /* 0: there are none */
    u_u16 slice_next;       /* indexes of those behind them */
    u_u16 slice_last;
    u_u16 mss_sent;  /* what we told the peer */
    u_u32 low_water; /* SENDABLE is told when no more is queued */
    u_u16 listener;  /* index + 1 of the listener that it came from, 0 if none */
    u_u16 listener_epoch;
    u_u8 ev_flags;
    u_u8 challenges;    /* challenge ACKs since challenge_at */
    u_u8 close_reason;  /* enum us_close_reason, once closed */
    u_u32 challenge_at; /* us_ts_clock() */
    struct us_sendq sendq;
    struct us_sack *sack; /* null while nothing is missing */
    struct u_list ev_link;
    struct u_list out_link; /* in us_stack.out_list, or in us_neighbour.waiting */
    void *user;
    struct us_tcp_cc cc;
    u_u64 bytes_in;  /* received in order */
    u_u64 bytes_out; /* acknowledged, our SYN and FIN included */
    u_u32 recover;
    u_u32 limited; /* what lies below was sent while the congestion window was the limit */

    /* Sending: round-trip times and timers. */
    u_u32 rtt_seq;
    struct us_tcp_rtt rtt;
    u_u64 rtt_from_us;
    u_u64 sent_us;         /* when data was sent last */
    u_u64 heard_us;        /* when an acceptable segment came last */
    u_u64 main_us;         /* deadline of what main_timer says, see us_conn_main_us() */
    u_u64 ack_us;          /* deadline of the delayed ACK, US_NEVER if none */
    struct us_timer timer; /* one entry for both; may be set for earlier than needed */

    struct us_neighbour *neighbour; /* the next hop; holds while its serial is hop_serial */
    u_u32 hop_serial;               /* of `neighbour` when it was looked up */
    struct us_tcp_template head;

    /* Seldom touched. */
    struct us_tcp_patience patience;
    struct us_tcp_pmtu pmtu;
    struct us_tcp_recovery rec;
    struct us_rxq rxq;
    u_u32 iss;
    u_u32 irs;
    u_u32 fin_seq; /* with US_RX_FIN_AHEAD */
    u_u32 retransmits;
    struct u_list memory_link; /* in us_stack.memory_list */
};

/* A parsed segment. */
struct us_seg {
    u_u32 seq;
    u_u32 ack;
    u_u32 wnd; /* as in the header, not scaled */
    u_u32 len; /* payload bytes; SYN and FIN not counted */
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
    US_SEND_DUP_ACK, /* one for each segment that arrived out of order */
    US_SEND_DATA,    /* at snd_nxt; a FIN too */
    US_SEND_RESEND,  /* what was lost: at snd_una, or as the scoreboard says */
    US_SEND_TAIL,    /* a probe of the tail: the last segment, or a new one */
    US_SEND_PROBE,   /* at snd_nxt, although the window does not allow it */
    US_SEND_KEEP,    /* below snd_una, for an answer */
    US_SEND_RST
};

/* A segment that is to be built: of every kind, data, ACK, SYN, FIN, RST or probe. */
struct us_tcp_desc {
    u_u32 seq;
    u_u32 ack;
    u_u32 len;    /* payload bytes, from the send queue at seq */
    u_u16 window; /* as in the header */
    u_u8 flags;
    u_u8 kind;     /* enum us_send_kind, for the record */
    u_u8 ecn;      /* RFC 3168 section 5: the ECN field of the IP header, 0..3 */
    u_u16 tso_mss; /* the device cuts it at so many payload bytes; 0: it is one segment */
    struct us_tcp_opts opts;
};

/* ---- tcp_in.c ---- */

/* Handles a received segment; rx->l4 is its header. */
void us_tcp_input(struct us_stack *stack, const struct us_rx *rx);

/*
 * An answer to a segment that needs no connection: the ports are filled in, the rest is 0. Null,
 * and counted, if the queue of answers is full.
 */
struct us_reply *us_tcp_reply(struct us_stack *stack, const struct us_seg *seg);

/* Answers a segment with a RST as RFC 9293 3.10.7.1 says, unless it is a RST itself. */
void us_tcp_answer_rst(struct us_stack *stack, const struct us_seg *seg);

/* RFC 7323 4.3: takes over the timestamp of an acceptable segment. */
U_INLINE void us_tcp_take_timestamp(struct us_conn *conn, u_u32 seq, u_u32 ts_val)
{
    if (us_seq_leq(seq, conn->last_ack))
        conn->ts_recent = ts_val;
}

/* ---- tcp_fast.c, tcp_fast_out.c ---- */

/*
 * Handles received frames as long as they are what the prediction says: an established connection's
 * next segment, or an acknowledgment of what is in flight, and nothing about it or the connection
 * is unusual. There are slices for `n` of them. Returns how many it took; with the next one nothing
 * was changed and nothing counted: us_eth_input() is to take it from its beginning.
 */
unsigned us_tcp_fast_input(struct us_stack *stack, struct us_pkt *const *pkts, unsigned n);

/*
 * Fills packets from the connections that have something to send, as long as that is one segment of
 * new data that both windows have room for, and nothing about it or the connection is unusual.
 * Returns how many were filled. With the connection that is then the first one nothing was changed:
 * us_tcp_plan() is to decide.
 */
unsigned us_tcp_fast_output(struct us_stack *stack, struct us_pkt **pkts, unsigned n);

/* ---- tcp_challenge.c ---- */

/* Sends a challenge ACK (RFC 5961), within the limits of the connection and of the instance. */
void us_tcp_challenge(struct us_stack *stack, struct us_conn *conn);

/* Acknowledges a segment that is not acceptable (RFC 9293 3.10.7.4), within the connection's limit.
 */
void us_tcp_answer_outside(struct us_stack *stack, struct us_conn *conn, const struct us_seg *seg);

/* Whether the instance as a whole may send one more challenge ACK now; counts it if so. */
int us_tcp_challenge_allowed(struct us_stack *stack);

/* ---- event.c ---- */

/* Puts a connection on the list of those with something to tell. */
U_INLINE void us_event_queue_conn(struct us_stack *stack, struct us_conn *conn)
{
    if (u_list_is_empty(&conn->ev_link))
        u_list_push_back(&stack->events.conns, &conn->ev_link);
}

/* Adds a slice. There is room for it: us_event_room() said so before the packet was taken. */
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

/* ---- tcp_ack.c ---- */

/* Takes `ack`, with snd_una < ack <= snd_max, as acknowledged; ece: by a segment with this flag. */
void us_tcp_ack_advance(struct us_stack *stack, struct us_conn *conn, u_u32 ack, u_u32 ts_ecr,
                        int ece);

/* All of a segment's acknowledgment and window, in a synchronised state and acceptable. */
void us_tcp_ack_process(struct us_stack *stack, struct us_conn *conn, const struct us_seg *seg);

/* ---- tcp_recv.c ---- */

/* Remembers for the next SACK option which bytes of the segment had come before (RFC 2883). */
void us_tcp_note_old(struct us_conn *conn, const struct us_seg *seg);

/* Takes a segment's data and FIN; the segment is acceptable. */
void us_tcp_recv(struct us_stack *stack, struct us_conn *conn, struct us_seg *seg);

/* The application has consumed bytes: the window may open. */
void us_tcp_recv_consumed(struct us_stack *stack, struct us_conn *conn);

/* ---- tcp_build.c ---- */

/* Fills in what all segments with this name begin with. */
void us_tcp_template_fill(const struct us_stack *stack, struct us_tcp_template *head,
                          const struct us_tcp_key *key, const struct us_ip6 *remote6);

/* The length of the IP header in it. */
U_INLINE u_u32 us_tcp_template_l3_bytes(const struct us_tcp_template *head)
{
    return U_LIKELY(head->ip[0] >> 4 == 4) ? (u_u32)US_IP4_HDR_BYTES : (u_u32)US_IP6_HDR_BYTES;
}

/*
 * Builds a segment behind an Ethernet header (US_L2_HDR_MAX bytes can be read there) and a
 * template. sendq holds its payload; null if desc->len is 0.
 */
void us_tcp_build(struct us_stack *stack, struct us_pkt *pkt, const u_u8 *l2,
                  const struct us_tcp_template *head, const struct us_tcp_desc *desc,
                  struct us_sendq *sendq);

/* Builds the segment of a US_REPLY_TCP. */
void us_tcp_build_reply(struct us_stack *stack, struct us_pkt *pkt, const struct us_reply *reply);

/* ---- tcp_out.c ---- */

/* Nothing that is sent to the connection's next hop seems to arrive. */
void us_tcp_out_doubt(struct us_stack *stack, struct us_conn *conn);

/* Puts the connection on the list that us_output() works off. */
U_INLINE void us_tcp_out_want(struct us_stack *stack, struct us_conn *conn)
{
    if (u_list_is_empty(&conn->out_link))
        u_list_push_back(&stack->out_list, &conn->out_link);
}

/*
 * Decides what the connection should send now. Changes nothing. Returns 0 for nothing, otherwise
 * fills in seq, len and flags of *desc.
 */
int us_tcp_plan(const struct us_conn *conn, struct us_tcp_desc *desc);

/* Sets the flags of a planned segment with data, for which `usable` bytes of window are there. */
void us_tcp_plan_flags(const struct us_conn *conn, struct us_tcp_desc *desc, u_u32 usable);

/* Fills packets from the connections that have something to send; returns how many. */
unsigned us_tcp_output(struct us_stack *stack, struct us_pkt **pkts, unsigned n);

/* The connections on this list waited for a next hop that does not answer. */
void us_tcp_out_unreachable(struct us_stack *stack, struct u_list *waiting);

/* The next hop of the connections on this list has an address now. */
void us_tcp_out_reachable(struct us_stack *stack, struct u_list *waiting);

/* ---- tcp_icmp.c ---- */

/* What an ICMP error says of a path (RFC 1122 4.2.3.9, RFC 5461). */
enum us_icmp_error {
    US_ICMP_SOFT,   /* may pass: network or host unreachable, time exceeded */
    US_ICMP_HARD,   /* protocol or port unreachable, or forbidden by an administrator */
    US_ICMP_TOO_BIG /* a packet did not fit into the next link and must not be cut */
};

/*
 * An ICMP error quotes a segment of ours with this name and this sequence number; mtu belongs to
 * US_ICMP_TOO_BIG and may be any number. An error about nothing that is in flight is dropped and
 * counted (RFC 5927 section 4).
 */
void us_tcp_icmp_error(struct us_stack *stack, const struct us_tcp_key *key,
                       const struct us_ip6 *remote6, u_u32 seq, enum us_icmp_error kind, u_u32 mtu);

/* The path carries packets of at most mtu bytes: segments get no larger than that from now on. */
void us_tcp_path_mtu(struct us_stack *stack, struct us_conn *conn, u_u32 mtu);

/* ---- tcp_conn.c ---- */

/*
 * Makes a connection in state CLOSED, enters it into the table and fills in what depends on its
 * key. Null, and counted, if the pool is empty.
 */
struct us_conn *us_conn_new(struct us_stack *stack, const struct us_tcp_key *key,
                            const struct us_ip6 *remote6);

/* Begins with this sequence number; nothing was sent yet. */
void us_conn_set_iss(struct us_conn *conn, u_u32 iss);

/* Takes over what a SYN says: sequence numbers, window, options. */
void us_conn_take_syn(struct us_stack *stack, struct us_conn *conn, const struct us_seg *seg);

/*
 * The handshake is over: congestion window, events. Returns 0 if the listener takes no more
 * connections: then this one has ended with a RST.
 */
int us_conn_establish(struct us_stack *stack, struct us_conn *conn);

/* The MSS that a SYN offers, or what holds if it says nothing. */
u_u32 us_conn_mss_of_syn(const struct us_seg *seg, u_u32 local_ip);

/* What our SYN offers: the window scale, and the largest segment that we can receive. */
u_u8 us_conn_scale_offered(const struct us_stack *stack);
u_u16 us_conn_mss_offered(const struct us_stack *stack, u_u32 local_ip);

/* Ends the connection without sending anything; CLOSED follows if the application knows of it. */
void us_conn_end(struct us_stack *stack, struct us_conn *conn, enum us_close_reason reason);

/* The same with a RST to the peer. */
void us_conn_reset(struct us_stack *stack, struct us_conn *conn, enum us_close_reason reason);

/*
 * Forgets what was received and not told, the end of the stream included, on a connection that has
 * failed: CLOSED is what follows.
 */
void us_conn_drop_received(struct us_stack *stack, struct us_conn *conn);

/* Received bytes that were acknowledged could not be stored: the connection is aborted. */
void us_conn_out_of_memory(struct us_stack *stack, struct us_conn *conn);

/* Changes the state; keeps the number of half-open connections. */
void us_conn_set_state(struct us_stack *stack, struct us_conn *conn, enum us_tcp_state state);

/* Gives the memory back if neither an event nor a RST is outstanding. */
void us_conn_reap(struct us_stack *stack, struct us_conn *conn);

/* Tells a connection that waits for room that there is some, if so. */
void us_conn_check_sendable(struct us_stack *stack, struct us_conn *conn);

/* ---- tcp_listen.c ---- */

struct us_listener *us_tcp_listener_find(struct us_stack *stack, u_u16 port);

/*
 * Handles a segment for a listening port. isn_min null, or what the initial sequence number must
 * exceed. Returns null, or a connection in SYN-RECEIVED that the segment has called back from a
 * cookie: then it is to be processed as that connection's.
 */
struct us_conn *us_tcp_listen_input(struct us_stack *stack, const struct us_tcp_key *key,
                                    const struct us_listener *listener, const struct us_seg *seg,
                                    const u_u32 *isn_min);

/* Counts a passively opened connection among its listener's. Returns 0 if it takes no more. */
int us_tcp_listener_admit(struct us_stack *stack, struct us_conn *conn);

/* An admitted connection has ended. */
void us_tcp_listener_leave(struct us_stack *stack, const struct us_conn *conn);

/* An IPv6 address of ours is gone: so are the connections that have it. */
void us_tcp_local_gone(struct us_stack *stack, u_u32 local_ip);

/* ---- tcp_demux.c ---- */

/* The hash of the peer's address and of both ports, as they stand in a segment of the peer. */
U_INLINE u_u32 us_tcp_hash_words(const struct us_stack *stack, u_u32 remote_ip, u_u32 ports)
{
    return u_pairhash2(&stack->name_hash, remote_ip, ports);
}

/*
 * The keyed hash of a connection's name. Our address is left out: we have a few at most, and so
 * the fast path need not look for it.
 */
U_INLINE u_u32 us_tcp_hash(const struct us_stack *stack, const struct us_tcp_key *key)
{
    return us_tcp_hash_words(stack, u_be32_word(key->remote_ip),
                             u_be32_word((u_u32)key->remote_port << 16 | key->local_port));
}

/* The chain that a connection of this name is in. */
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

/* RFC 7323 section 7.1: what is added to the timestamp clock for this connection. */
u_u32 us_tcp_ts_offset(const struct us_stack *stack, const struct us_tcp_key *key);

/* Whether a connection has this name, one in TIME-WAIT included. */
int us_tcp_name_in_use(const struct us_stack *stack, const struct us_tcp_key *key,
                       const struct us_ip6 *remote6);

/* RFC 6056: chooses key->local_port. Returns 0 if all are in use. */
int us_tcp_port_choose(struct us_stack *stack, struct us_tcp_key *key,
                       const struct us_ip6 *remote6);

U_INLINE int us_tcp_key_equal(const struct us_tcp_key *a, const struct us_tcp_key *b)
{
    return a->remote_port == b->remote_port && a->remote_ip == b->remote_ip &&
           a->local_port == b->local_port && a->local_ip == b->local_ip;
}

/* The peer's address over IPv6; null over IPv4. It stands in the template. */
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

/*
 * Whether the connection is established and nothing is under way but data in order: no FIN and
 * nothing held, no loss, no mark, no timeout, no closed window. One comparison of eight bytes.
 */
U_INLINE int us_conn_is_quiet(const struct us_conn *conn)
{
    /* state, rx_flags, flags, dup_acks, ecn, retries, main_timer, opts */
    static const u_u8 mask[8] = {0xff,       0xff, US_CF_RECOVERY | US_CF_TAIL | US_CF_UNREACHABLE,
                                 0xff,       0xff, 0xff,
                                 US_TT_SLOW, 0};
    static const u_u8 quiet[8] = {US_TCP_ESTABLISHED, 0, 0, 0, 0, 0, 0, 0};
    u_u64 bytes;
    u_u64 bits;
    u_u64 want;

    u_copy(&bytes, (const u_u8 *)conn + U_OFFSET_OF(struct us_conn, state), sizeof(bytes));
    u_copy(&bits, mask, sizeof(bits));
    u_copy(&want, quiet, sizeof(want));
    return (bytes & bits) == want;
}

U_STATIC_ASSERT(U_OFFSET_OF(struct us_conn, opts) == U_OFFSET_OF(struct us_conn, state) + 7,
                quiet_bytes_are_together);

U_STATIC_ASSERT(U_OFFSET_OF(struct us_conn, acks_owed) ==
                    U_OFFSET_OF(struct us_conn, out_flags) + 3,
                owed_bytes_are_together);

/* Whether the peer sees half of the window at least: it need not be told of more at once. */
U_INLINE int us_tcp_window_is_wide(const struct us_stack *stack, const struct us_conn *conn)
{
    return us_seq_geq(conn->rcv_adv, conn->rcv_nxt + (stack->config.recv_window_bytes >> 1));
}

/* The window field and the right edge that it stands for. */
U_INLINE u_u16 us_tcp_window(const struct us_stack *stack, const struct us_conn *conn, u_u32 *edge)
{
    u_u32 limit = stack->config.recv_window_bytes;
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

/* Whether frames can be sent there and us_neighbour_use() has nothing to do for it. */
U_INLINE int us_neighbour_is_fresh(const struct us_stack *stack,
                                   const struct us_neighbour *neighbour)
{
    return neighbour->state == US_NEIGHBOUR_VALID &&
           stack->now_us - neighbour->confirmed_us <= stack->config.arp_lifetime_us;
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

/* Whether data or a FIN stands behind what was sent. */
U_INLINE int us_conn_has_unsent(const struct us_conn *conn)
{
    u_u32 end = conn->snd_end + ((conn->out_flags & US_OUT_FIN) ? 1u : 0u);

    return us_seq_lt(conn->snd_nxt, end);
}

#endif
