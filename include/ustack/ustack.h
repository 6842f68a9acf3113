/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libustack: a TCP/IP stack that is told everything and asks nothing.
 *
 * The library performs no I/O, starts no thread, reads no clock, allocates from no heap and has no
 * global state. Frames and the time go in, events come out; data goes in, frames come out. It
 * compiles as C89 and as C++98, hosted or freestanding.
 *
 *     n = receive frames from somewhere into pkts[];
 *     us_input(stack, pkts, n, now_us);
 *     while (us_next_event(stack, &ev))
 *         handle(&ev);                  -- us_send(), us_close(), ... are called from here
 *     give pkts[] back;
 *     n = us_output(stack, empty_pkts, max, now_us);
 *     send empty_pkts[0..n);
 *     sleep until frames arrive or us_deadline(stack) is reached, as you like
 *
 * Threads: an instance belongs to one thread at a time. Any number of instances can exist, in one
 * thread or in many; they share nothing.
 *
 * Time is in microseconds on a clock that never goes back; its zero is the caller's choice.
 * Ports are in host byte order. Functions return 0 or a count for success and a negative
 * enum us_error for failure.
 */
#ifndef USTACK_USTACK_H
#define USTACK_USTACK_H

#include "ubase/pkt.h"
#include "ubase/types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct us_stack;
struct us_conn; /* one TCP connection; valid until its US_EV_CLOSED has been taken */

/* ---- errors, addresses ------------------------------------------------------------------- */

enum us_error {
    US_OK = 0,
    US_ERR_ARGUMENT = -1,  /* an argument is out of its documented range */
    US_ERR_NO_MEMORY = -2, /* a pool given by the configuration is used up; counted */
    US_ERR_STATE = -3,     /* the connection is not in a state that allows this */
    US_ERR_IN_USE = -4,    /* that port or address is taken */
    US_ERR_NO_ROUTE = -5,  /* no address of ours reaches the destination */
    US_ERR_FULL = -6       /* the send queue is at its limit; wait for US_EV_SENDABLE */
};

/* What a code of this header means, as a short English phrase. Never null. */
const char *us_strerror(int error);

enum us_family { US_IP4 = 4, US_IP6 = 6 };

struct us_addr {
    u_u8 family;    /* enum us_family */
    u_u8 bytes[16]; /* network byte order; IPv4 uses the first four */
};

/* ---- configuration ----------------------------------------------------------------------- */

#define US_SECRET_BYTES 32

/* How a sender answers congestion. */
enum us_cc_kind {
    US_CC_RENO = 1,  /* RFC 5681 */
    US_CC_CUBIC = 2, /* RFC 9438 */
    US_CC_DCTCP = 3  /* RFC 8257: only among hosts and switches that do likewise; needs ECN */
};

/* Explicit congestion notification, RFC 3168. */
enum us_ecn {
    US_ECN_OFF = 0,
    US_ECN_ACCEPT = 1, /* where the peer asks for it */
    US_ECN_REQUEST = 2 /* also on connections that we open */
};

/*
 * Everything that the stack wants to know of its surroundings. us_config_defaults() fills in all
 * of it but mac and secret; then change what differs.
 */
struct us_config {
    u_u8 mac[6];
    u_u8 secret[US_SECRET_BYTES]; /* unpredictable bytes: keys of hashes, ISNs (RFC 6528) */
    u_u32 caps;                   /* enum us_cap: what the NIC does by itself */
    u_u32 mtu;                    /* largest IP packet, bytes; 576..9216, 1280.. for IPv6 */
    u_u32 vlan_id;                /* 1..4094: all frames carry this VLAN tag; 0: none */
    u_u32 ip6_autoconf;           /* 1: IPv6 with what routers advertise (RFC 4862); 0: without */
    u_u32 dad_probes;             /* RFC 4862 5.1: looks for duplicates of an IPv6 address; 0: no */
    u_u32 follower;               /* 1: see us_addr_add() */
    u_u32 reply_to_sender;        /* 1: see below; 0: we are a host of our own on the link */

    /*
     * With reply_to_sender our addresses are those of another stack on the same machine, which lets
     * us have some of its packets and does all the rest: nothing is asked, announced or looked for
     * by ARP, neighbour discovery or MLD. What we send to a peer goes to the MAC address that the
     * peer's packets come from, its own or a router's, so every address counts as on the link
     * (give us_addr_add() a prefix_len of 0), and arp_max bounds the peers that are remembered. A
     * peer that has never sent anything cannot be reached.
     */

    /* Congestion. */
    u_u32 cc;    /* enum us_cc_kind of new connections */
    u_u32 ecn;   /* enum us_ecn */
    u_u32 nagle; /* 1: new connections gather small segments; see us_conn_set_nodelay(). 0: not */
    u_u32 quick_acks; /* segments whose ACK is not delayed, at the beginning and after a loss */

    /* Bounds. The memory needed follows from them; each one reached is counted. */
    u_u32 conn_max;          /* connections, TIME-WAIT not included */
    u_u32 half_open_max;     /* of these, in SYN-RECEIVED; may be 0 with syn_cookies */
    u_u32 time_wait_max;     /* the oldest is forgotten when one more is needed */
    u_u32 arp_max;           /* neighbours remembered */
    u_u32 listen_max;        /* listening ports of TCP, and as many bound ones of UDP */
    u_u32 datagram_max;      /* UDP datagrams and ICMP messages that wait to be sent */
    u_u32 reassembly_max;    /* datagrams that came in fragments; the oldest makes room; 1..256 */
    u_u32 reassembly_bytes;  /* of each of them; 1500..65535 */
    u_u32 buffer_bytes;      /* all send and receive queues together */
    u_u32 send_queue_bytes;  /* unacknowledged and unsent bytes of one connection (copied) */
    u_u32 send_refs_max;     /* references (us_send_ref) queued on one connection */
    u_u32 recv_window_bytes; /* largest window offered to a peer */

    /* Times, microseconds. */
    u_u32 rto_min_us;     /* RFC 6298 (2.4) asks for 1 s, Linux takes 200 ms, a data centre 5 ms */
    u_u32 rto_initial_us; /* before the first measurement; RFC 6298 (2.1): 1 s */
    u_u32 rto_max_us;
    u_u32 delayed_ack_us;    /* RFC 9293 3.8.6.3: below 500 ms */
    u_u32 peer_ack_delay_us; /* how long a peer may delay its ACK of a single segment */
    u_u32 time_wait_us;      /* 2 MSL */
    u_u32 fin_wait2_us;      /* how long to wait for the peer's FIN after us_close() */
    u_u32 syn_retries_max;   /* of a SYN, then the connection ends */
    u_u32 syn_ack_retries_max;
    u_u32 retries_max;     /* of data or a window probe without an answer, likewise */
    u_u32 arp_lifetime_us; /* an entry is asked for again after this */
    u_u32 reassembly_us;   /* how long to wait for all fragments */

    u_u32 challenge_acks_max; /* per second (RFC 5961 section 7); what is allowed varies below it */

    /* Patience with silent peers, milliseconds; see us_keepalive() and us_user_timeout(). */
    u_u32 keepalive;         /* 1: new connections begin with keepalives on (RFC 9293 3.8.4: 0) */
    u_u32 keepalive_idle_ms; /* silence before the first question */
    u_u32 keepalive_interval_ms; /* between questions without an answer */
    u_u32 keepalive_count;       /* so many of them without an answer end the connection; 1..200 */
    u_u32 user_timeout_ms;       /* 0: retries_max alone decides */
    u_u32 persist_ms; /* how long a peer may keep its window closed; 0: while it answers probes */

    /*
     * 1: SYNs beyond half_open_max are answered without remembering them (RFC 4987 section 3.6);
     * 0: they are dropped.
     */
    u_u32 syn_cookies;
};

void us_config_defaults(struct us_config *config);

/* Bytes of memory that an instance with this configuration needs, 0 if a value is out of range. */
unsigned long us_memory_bytes(const struct us_config *config);

/*
 * Makes an instance in `memory`, which holds at least us_memory_bytes() bytes, is aligned for any
 * type and zero-filled; it belongs to the stack until the caller stops using the instance. Pages
 * of it are touched only as they are needed, so a large zero-filled mapping costs little.
 * Returns null if the configuration is out of range.
 */
struct us_stack *us_create(const struct us_config *config, void *memory, unsigned long bytes,
                           u_u64 now_us);

/*
 * Gives the instance an address. prefix_len says which destinations are on the link. The first
 * IPv4 address is the source of what is sent without a better choice, and each is announced by a
 * gratuitous ARP with the next us_output() (RFC 5227 section 3).
 * The first IPv6 address turns IPv6 on, and the instance has a link-local address then as well. An
 * IPv6 address is in use once nobody has objected to it for a second (RFC 4862 5.4).
 * Several instances may have the same addresses and MAC, if each connection's frames always go to
 * the same one and ARP and neighbour discovery go to all. One of them speaks for the addresses; the
 * others have config.follower set: they learn and ask like the first, but do not announce, answer
 * ARP and solicitations, probe for duplicates or report groups.
 * Returns 0, US_ERR_ARGUMENT (no host can have it, or config.mtu is too small for IPv6),
 * US_ERR_IN_USE or US_ERR_NO_MEMORY (8 addresses of each family).
 */
int us_addr_add(struct us_stack *stack, const struct us_addr *addr, unsigned prefix_len);

/*
 * Where destinations of its family that are not on the link are sent to. Returns 0,
 * US_ERR_ARGUMENT, or US_ERR_NO_ROUTE if it is on no network of ours.
 */
int us_gateway_set(struct us_stack *stack, const struct us_addr *gateway);

/* ---- the loop ---------------------------------------------------------------------------- */

/*
 * Processes frames in order and then the timers that are due. Returns the number of frames
 * processed. It is less than n only if the events of it would not fit: take the events and call
 * again with the rest. n may be 0. Bounded work: n frames and a fixed number of timers.
 *
 * The frames stay the caller's. Their memory must stay as it is until the events are taken.
 * Malformed frames are dropped and counted.
 */
unsigned us_input(struct us_stack *stack, struct us_pkt *const *pkts, unsigned n, u_u64 now_us);

enum us_event_type {
    US_EV_NONE = 0,
    US_EV_ACCEPTED,    /* a peer has connected to a listening port; user = the listener's */
    US_EV_CONNECTED,   /* us_connect() has succeeded */
    US_EV_DATA,        /* data, len: the next bytes in order. See us_recv_keep() */
    US_EV_PEER_CLOSED, /* the peer will send no more (FIN); sending to it is still possible */
    US_EV_SENDABLE,    /* there is room again after a send was cut short or refused */
    US_EV_RELEASED,    /* cookie: the bytes of a us_send_ref() are no longer needed */
    US_EV_CLOSED,      /* reason: the last event of a connection, exactly one; conn is dead */
    US_EV_DATAGRAM     /* data, len, datagram: came to a port of us_udp_bind(); user = its user */
};

enum us_close_reason {
    US_CLOSE_NONE = 0,
    US_CLOSE_NORMAL,      /* both sides have closed and all data was acknowledged */
    US_CLOSE_RESET,       /* the peer sent a valid RST */
    US_CLOSE_REFUSED,     /* RST in answer to our SYN */
    US_CLOSE_TIMEOUT,     /* no answer, or no FIN, within the limits of retries and time */
    US_CLOSE_ABORTED,     /* us_abort() */
    US_CLOSE_UNREACHABLE, /* the next hop does not answer */
    US_CLOSE_NO_MEMORY,   /* a pool was used up where data could not be dropped */
    US_CLOSE_KEEPALIVE,   /* nothing was heard, and keepalives were not answered */
    US_CLOSE_ZERO_WINDOW  /* the peer has kept its window closed for too long */
};

/* A reason in lower case with underscores, for instance "zero_window". Never null. */
const char *us_close_reason_name(enum us_close_reason reason);

/* Where a UDP datagram came from and went to. */
struct us_datagram {
    struct us_addr local;
    struct us_addr remote;
    u_u16 local_port;
    u_u16 remote_port;
};

struct us_event {
    enum us_event_type type;
    enum us_close_reason reason;
    struct us_conn *conn; /* null for US_EV_DATAGRAM, and RELEASED after the connection's end */
    void *user;           /* us_conn_set_user(); for US_EV_ACCEPTED the listener's */
    void *cookie;
    const u_u8 *data; /* valid until the packets of this us_input() are given back */
    u_u32 len;
    const struct us_datagram *datagram; /* US_EV_DATAGRAM, otherwise null; valid like data */
};

/*
 * Takes the oldest event: returns 1 and fills *event, or returns 0. Events of one connection come
 * in the order of the protocol: ACCEPTED or CONNECTED, DATA..., PEER_CLOSED, CLOSED. Every
 * reference is released exactly once, before or after CLOSED. Datagrams come in the order of their
 * arrival, one event for each, before the events of connections.
 *
 * The bytes of a DATA event count as consumed (the window opens again) unless us_recv_keep() says
 * otherwise before the next us_input() or us_output().
 */
int us_next_event(struct us_stack *stack, struct us_event *event);

/*
 * Another device, or the same one with another peer, does other things by itself from now on: what
 * us_config.caps said is replaced. For frames that us_output() has filled it comes too late.
 */
void us_caps_set(struct us_stack *stack, u_u32 caps);

/*
 * Fills at most n empty packets (data and room set, room >= mtu + 14, or + 18 with a VLAN tag) with
 * frames to send; sets
 * len, flags and the offload fields. Returns how many were filled; call again while it is n.
 * Packets that were filled are the caller's to send: a frame that gets lost is sent again by
 * the retransmission timer, the stack keeps no pointer to it.
 */
unsigned us_output(struct us_stack *stack, struct us_pkt **pkts, unsigned n, u_u64 now_us);

#define US_NEVER (~(u_u64)0)

/*
 * When us_input() must be called at the latest, although no frame arrives. 0 means at once: there
 * are frames for us_output(). US_NEVER: not until a frame arrives.
 */
u_u64 us_deadline(const struct us_stack *stack);

/* ---- connections ------------------------------------------------------------------------- */

/* Accepts connections to this port on all addresses. `user` comes with US_EV_ACCEPTED. */
int us_listen(struct us_stack *stack, u_u16 port, void *user);

enum us_listen_over {
    US_LISTEN_DROP,  /* no answer: the peer tries again */
    US_LISTEN_REFUSE /* a RST: the peer knows at once */
};

/*
 * Bounds the connections accepted from this port that exist at a time, and says what becomes of
 * SYNs beyond. Without this call only conn_max of the configuration is a bound.
 */
int us_listen_limit(struct us_stack *stack, u_u16 port, u_u32 conn_max, enum us_listen_over over);

/*
 * Accepts connections to this port on one address of ours only; elsewhere it is closed. Returns 0,
 * or US_ERR_ARGUMENT if nobody listens at the port or the address isn't ours.
 */
int us_listen_address(struct us_stack *stack, u_u16 port, const struct us_addr *addr);

/* Stops accepting; connections that exist go on, handshakes under way end with a RST. */
int us_unlisten(struct us_stack *stack, u_u16 port);

/*
 * Starts to connect. local_port 0: the stack chooses one (RFC 6056). Ends with US_EV_CONNECTED or
 * US_EV_CLOSED. Returns null with *error set (error may be null).
 */
struct us_conn *us_connect(struct us_stack *stack, const struct us_addr *remote, u_u16 remote_port,
                           u_u16 local_port, void *user, int *error);

void us_conn_set_user(struct us_conn *conn, void *user);
void *us_conn_user(const struct us_conn *conn);

/*
 * Chooses the congestion control of this connection, at any time; the congestion window stays.
 * US_ERR_ARGUMENT if there is none of this kind.
 */
int us_conn_set_cc(struct us_conn *conn, enum us_cc_kind cc);

/*
 * nodelay 0: data of less than a segment waits until all that was sent is acknowledged (Nagle, RFC
 * 9293 3.7.4); else it goes out with the next us_output(), also what has waited.
 */
void us_conn_set_nodelay(struct us_stack *stack, struct us_conn *conn, int nodelay);

/* Sends a FIN after all that is queued. Data still arriving is delivered until the peer closes. */
int us_close(struct us_stack *stack, struct us_conn *conn);

/*
 * The same, but what the peer has not acknowledged linger_ms from now, the FIN included, is dropped
 * and the connection reset; CLOSED then comes with US_CLOSE_TIMEOUT. May follow us_close().
 */
int us_close_within(struct us_stack *stack, struct us_conn *conn, u_u32 linger_ms);

/* Sends a RST, drops what is queued. US_EV_CLOSED follows, with US_CLOSE_ABORTED. */
void us_abort(struct us_stack *stack, struct us_conn *conn);

/*
 * Keepalives (RFC 9293 3.8.4): when nothing was heard for idle_ms and nothing is in flight, the
 * peer is asked for an ACK every interval_ms; after `count` questions (1..200) without any answer
 * the connection ends with US_CLOSE_KEEPALIVE. idle_ms 0 turns them off. Returns 0 or
 * US_ERR_ARGUMENT.
 */
int us_keepalive(struct us_stack *stack, struct us_conn *conn, u_u32 idle_ms, u_u32 interval_ms,
                 u_u32 count);

/*
 * How long queued data may wait for the peer without any progress, whether its acknowledgments or
 * its window are missing (the user timeout of RFC 9293 3.8.3, of local meaning only); then the
 * connection ends with US_CLOSE_TIMEOUT. 0: no such limit. retries_max holds as well.
 */
void us_user_timeout(struct us_stack *stack, struct us_conn *conn, u_u32 timeout_ms);

/* ---- sending ----------------------------------------------------------------------------- */

/*
 * Queues a copy of data. Returns the number of bytes taken, which is less than len when the send
 * queue is at its limit (US_EV_SENDABLE comes when it has fallen to half, or see us_low_water()),
 * or a negative us_error.
 */
long us_send(struct us_stack *stack, struct us_conn *conn, const void *data, u_u32 len);

#define US_RESERVE_MAX 1024

/*
 * Memory of the send queue to write into: at least `want` bytes (1..US_RESERVE_MAX) in one piece;
 * *room says how many there are. Nothing else may be done with the connection until us_commit().
 * Returns null if the queue is at its limit or the pool is empty (US_EV_SENDABLE will come).
 */
u_u8 *us_reserve(struct us_stack *stack, struct us_conn *conn, u_u32 want, u_u32 *room);

/* The same if nothing is queued, or else null: for one answer that need not wait for others. */
u_u8 *us_reserve_first(struct us_stack *stack, struct us_conn *conn, u_u32 want, u_u32 *room);

/* Queues the first `used` bytes (0..room) of what us_reserve() returned. */
void us_commit(struct us_stack *stack, struct us_conn *conn, u_u32 used);

/*
 * Queues bytes without copying them. They must not change until US_EV_RELEASED with this cookie
 * comes: when they are acknowledged, or the connection has ended. len is 1 or more.
 * Returns 0, US_ERR_FULL (too many references queued), US_ERR_NO_MEMORY or US_ERR_STATE; on an
 * error nothing was queued and no RELEASED comes.
 */
int us_send_ref(struct us_stack *stack, struct us_conn *conn, const void *data, u_u32 len,
                void *cookie);

/*
 * US_EV_SENDABLE is to come when at most low_bytes of copied data are queued on this connection,
 * instead of half of send_queue_bytes.
 */
void us_low_water(const struct us_stack *stack, struct us_conn *conn, u_u32 low_bytes);

/* Asks for US_EV_SENDABLE although no send was refused; it may come with the next event. */
void us_want_sendable(struct us_stack *stack, struct us_conn *conn);

/* Bytes that us_send() would take now. */
u_u32 us_send_room(const struct us_stack *stack, const struct us_conn *conn);

/* Bytes queued and not yet acknowledged, references included. */
u_u32 us_send_queued(const struct us_conn *conn);

/* ---- receiving --------------------------------------------------------------------------- */

/*
 * Gives back bytes of a US_EV_DATA that the application cannot use yet: data..data+len is the end
 * of the slice of a DATA event taken since the last us_input(). The stack copies them, closes the
 * window by as much and holds back further DATA of this connection until us_recv_resume().
 * If several DATA events of one connection were taken and the first cannot be used up, keep the
 * rest of it and then the whole of each later one, in order.
 * Returns 0, or US_ERR_NO_MEMORY: then the connection has been aborted (US_CLOSE_NO_MEMORY). On a
 * connection that has failed already (a reset in the same burst) the bytes are dropped, and CLOSED
 * with the reason follows instead of what else was received.
 */
int us_recv_keep(struct us_stack *stack, struct us_conn *conn, const u_u8 *data, u_u32 len);

/* Asks for the kept bytes (and what came since) as US_EV_DATA again. */
void us_recv_resume(struct us_stack *stack, struct us_conn *conn);

/* ---- UDP (RFC 768) ----------------------------------------------------------------------- */

/*
 * Takes datagrams to this port (1..65535) on all addresses: US_EV_DATAGRAM with this user. Returns
 * 0, US_ERR_ARGUMENT, US_ERR_IN_USE or US_ERR_NO_MEMORY (config.listen_max ports are bound).
 */
int us_udp_bind(struct us_stack *stack, u_u16 port, void *user);

/* Takes no more. Events that wait already still come. Returns 0 or US_ERR_ARGUMENT. */
int us_udp_unbind(struct us_stack *stack, u_u16 port);

/*
 * Queues a datagram; data is copied. local (null: chosen by the route) and local_port are where it
 * comes from: the answer to a US_EV_DATAGRAM is sent from that one's local to its remote. A
 * datagram that does not fit into config.mtu is not sent in fragments.
 * Returns 0; US_ERR_ARGUMENT (a port is 0, local is not ours, remote names no single host, len is
 * larger than one packet carries); US_ERR_NO_ROUTE; or US_ERR_NO_MEMORY: config.datagram_max
 * datagrams wait to be sent, or the buffers are used up; counted, and nothing is queued.
 * What was queued is sent by us_output(), or dropped and counted if the next hop does not answer.
 */
int us_udp_send(struct us_stack *stack, const struct us_addr *local, u_u16 local_port,
                const struct us_addr *remote, u_u16 remote_port, const void *data, u_u32 len);

/* ---- looking ----------------------------------------------------------------------------- */

enum us_tcp_state { /* RFC 9293 3.3.2 */
                    US_TCP_CLOSED = 0,
                    US_TCP_SYN_SENT,
                    US_TCP_SYN_RECEIVED,
                    US_TCP_ESTABLISHED,
                    US_TCP_FIN_WAIT_1,
                    US_TCP_FIN_WAIT_2,
                    US_TCP_CLOSE_WAIT,
                    US_TCP_CLOSING,
                    US_TCP_LAST_ACK,
                    US_TCP_TIME_WAIT
};

struct us_conn_info {
    struct us_addr local, remote;
    u_u16 local_port, remote_port;
    enum us_tcp_state state;
    u_u32 mss;      /* payload bytes per segment that we send */
    u_u32 path_mtu; /* largest packet that the path is known to carry */
    u_u32 srtt_us;  /* 0: not measured yet */
    u_u32 rttvar_us;
    u_u32 rto_us; /* of the next timeout, backoff included */
    enum us_cc_kind cc;
    u_u8 ecn; /* 1: both sides have agreed on it; likewise the next three */
    u_u8 sack;
    u_u8 timestamps;
    u_u8 window_scaling;
    u_u8 send_scale; /* shifts of the windows, 0..14 */
    u_u8 recv_scale;
    u_u8 in_recovery; /* a loss is being repaired */
    u_u8 retries;     /* timeouts, probes or keepalives in a row without an answer */
    u_u32 cwnd_bytes;
    u_u32 ssthresh_bytes;
    u_u32 send_window_bytes;
    u_u32 recv_window_bytes;
    u_u32 queued_bytes; /* see us_send_queued() */
    u_u32 retransmits;  /* segments sent again */
    u_u64 bytes_in;     /* received in order */
    u_u64 bytes_out;    /* sent and acknowledged */
    u_u64 silent_us;    /* since the last acceptable segment of the peer */
};

void us_conn_info(const struct us_stack *stack, const struct us_conn *conn,
                  struct us_conn_info *info);

/*
 * Walks the connections, those in SYN-RECEIVED included, TIME-WAIT not: *cursor begins as 0.
 * Returns the next one, or null. Then the walk is over if *cursor is 0 again; otherwise call again,
 * for one call looks at a bounded number of places. Connections may begin and end meanwhile: what
 * is there from the first call to the last is returned exactly once.
 */
struct us_conn *us_conn_next(struct us_stack *stack, u_u32 *cursor);

/* Name of a state in the RFC's spelling, for instance "FIN-WAIT-1". */
const char *us_tcp_state_name(enum us_tcp_state state);

/*
 * Counters, since us_create(). They are numbered 0..us_counter_count()-1 and have stable names in
 * lower case with underscores ("rx_frames", "tcp_retransmits", ...). Gauges (conns_open,
 * half_open, time_wait, buffer_bytes_used) stand in the same list.
 */
unsigned us_counter_count(void);
const char *us_counter_name(unsigned index);
u_u64 us_counter(const struct us_stack *stack, unsigned index);

/*
 * Walks all invariants of the instance: queues, windows, timers, pools. Returns null, or a phrase
 * that says what is broken. For tests: it takes time in proportion to the number of connections.
 */
const char *us_check(const struct us_stack *stack);

#ifdef __cplusplus
}
#endif
#endif
