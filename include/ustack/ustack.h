/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libustack: a sans-I/O TCP/IP stack.
 *
 * TCP, UDP, ICMP, ARP and neighbour discovery over IPv4 and IPv6 on Ethernet. The library performs
 * no I/O, starts no thread, reads no clock, allocates from no heap and has no global state: the
 * caller passes in received frames and the time, takes events, queues data, and collects frames to
 * send. It compiles as C89 and as C++98, hosted or freestanding.
 *
 *     n = receive frames into pkts[];
 *     us_input(stack, pkts, n, now_us);
 *     while (us_next_event(stack, &ev))
 *         handle(&ev);                  -- us_send(), us_close(), ... are called from here
 *     give pkts[] back to the device;
 *     n = us_output(stack, empty_pkts, max, now_us);
 *     send empty_pkts[0..n);
 *     sleep until frames arrive or us_deadline(stack) is reached
 *
 * Index
 *     instance      us_config_defaults us_config_fit us_config_error us_memory_bytes us_create
 *                   us_addr_add us_gateway_set us_neighbour_add us_caps_set us_mtu_set
 *     event loop    us_input us_next_event us_output us_deadline us_timer_deadline us_now
 *     listening     us_listen us_listen_limit us_listen_address us_unlisten
 *     connections   us_connect us_close us_close_within us_abort us_conn_set_user us_conn_user
 *                   us_conn_set_cc us_conn_set_nodelay us_conn_set_keepalive
 *                   us_conn_set_user_timeout us_conn_set_buffers us_conn_set_ttl us_conn_set_dscp
 *                   us_conn_watch_cwnd
 *     sending       us_send us_reserve us_commit us_send_ref us_send_room us_send_queued
 *                   us_conn_set_low_water us_request_sendable us_buffer_reserve
 *     receiving     us_recv_keep us_recv_resume
 *     handover      us_conn_export us_conn_forget us_conn_import
 *     UDP           us_udp_bind us_udp_unbind us_udp_send us_udp_reply
 *     inspection    us_conn_get_info us_conn_next us_counter_count us_counter_name us_counter
 *                   us_tcp_state_name us_close_reason_name us_strerror us_check
 *
 * Threads: an instance belongs to one thread at a time. Instances share nothing, so any number can
 * exist, in one thread or in many.
 *
 * Time: microseconds of a monotonic clock with any zero. us_create(), us_input(), us_output() and
 * us_now() take the time as `now_us`; all other calls use the latest of these values. After a sleep
 * it is old: a call that starts a timer (us_close_within(), us_conn_set_keepalive()) outside of the
 * event loop needs us_now() before it. The time must not decrease from one call to the next; this
 * is not asserted. Timers have a resolution of US_TIMER_TICK_US.
 *
 * Memory: the instance lies in memory of the caller, see us_create(). The stack keeps pointers to
 * nothing else of the caller's, except `user` and `cookie` values, which it never dereferences, and
 * the bytes given to us_send_ref(). Structs and addresses passed to a call are read during the
 * call. A struct us_conn belongs to the stack.
 *
 * Results: where nothing else is said, a call that returns int returns US_OK or a negative
 * enum us_error, and an error leaves everything as it was. Preconditions that are about pointers,
 * ranges of loop arguments and order of calls are asserted (U_ASSERT, also in release builds).
 * Ports are in host byte order.
 */
#ifndef USTACK_USTACK_H
#define USTACK_USTACK_H

#include "ubase/pkt.h"
#include "ubase/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this header, by semantic versioning; equal to the version of the project. */
#define US_VERSION_MAJOR 0
#define US_VERSION_MINOR 1
#define US_VERSION_PATCH 0
#define US_VERSION_STRING "0.1.0"

struct us_stack;
struct us_conn; /* a TCP connection; valid until its US_EV_CLOSED has been taken */

/* ---- errors, addresses ------------------------------------------------------------------- */

enum us_error {
    US_OK = 0,
    US_ERR_ARGUMENT = -1,  /* an argument is outside its documented range */
    US_ERR_NO_MEMORY = -2, /* a pool sized by the configuration is exhausted; counted */
    US_ERR_STATE = -3,     /* the state of the connection does not allow the call */
    US_ERR_IN_USE = -4,    /* the port or address is taken */
    US_ERR_NO_ROUTE = -5,  /* no local address reaches the destination */
    US_ERR_FULL = -6,      /* the send queue is at its limit; US_EV_SENDABLE follows */
    US_ERR_UNREAD = -7,    /* events of the connection have not been taken */
    US_ERR_VERSION = -8    /* a state of another version of the library, or byte order */
};

/* A short English phrase for an enum us_error. Never null; static memory. */
const char *us_strerror(int error);

enum us_family { US_IP4 = 4, US_IP6 = 6 };

struct us_addr {
    u_u8 family;    /* enum us_family */
    u_u8 bytes[16]; /* network byte order; IPv4 uses the first four */
};

/* ---- configuration ----------------------------------------------------------------------- */

#define US_SECRET_BYTES 32

/* Congestion control of a sender. */
enum us_cc_kind {
    US_CC_RENO = 1,  /* RFC 5681 */
    US_CC_CUBIC = 2, /* RFC 9438 */
    US_CC_DCTCP = 3  /* RFC 8257: only where all hosts and switches use DCTCP; needs ECN */
};

/* Explicit congestion notification, RFC 3168. */
enum us_ecn {
    US_ECN_OFF = 0,
    US_ECN_ACCEPT = 1, /* if the peer requests it */
    US_ECN_REQUEST = 2 /* also requested by us_connect() */
};

/*
 * Configuration of an instance. us_config_defaults() sets every field except mac and secret. The
 * range of a field is in its comment; fields that are flags are 0 or 1.
 */
struct us_config {
    u_u8 mac[6];
    u_u8 secret[US_SECRET_BYTES]; /* random and secret: keys of hashes, of ISNs (RFC 6528) */
    u_u32 caps;                   /* enum us_cap: offloads of the device */
    u_u32 mtu;                    /* largest IP packet, bytes; 576..9216, IPv6 from 1280 */
    u_u32 vlan_id;                /* 1..4094: VLAN tag of all frames (IEEE 802.1Q); 0: no tag */
    u_u32 ip6_autoconf;           /* flag: accept router advertisements (RFC 4862) */
    u_u32 dad_probes;             /* duplicate address detection probes (RFC 4862 5.1); 0..100 */
    u_u32 arp_passive;            /* flag: another instance announces the addresses, see below */
    u_u32 reply_to_source_mac;    /* flag: share the addresses of another stack, see below */
    u_u32 point_to_point;         /* flag: the link has two ends, see below */

    /*
     * arp_passive: several instances may have the same addresses and MAC if all frames of a
     * connection reach the same instance, and ARP and neighbour discovery frames reach all. One
     * instance has arp_passive 0. The others resolve and learn neighbours, but do not announce the
     * addresses, answer ARP requests or solicitations, detect duplicates, or send MLD reports.
     *
     * reply_to_source_mac: the addresses belong to another stack of the machine, which passes on
     * some of its packets and does everything else. The instance sends no ARP, neighbour discovery
     * or MLD. It sends to a peer through the MAC address that the peer's frames come from, its own
     * or a router's; every address counts as on the link (us_addr_add() with prefix_len 0), and
     * neighbour_max bounds the peers remembered. A peer that has sent nothing cannot be reached.
     *
     * point_to_point: what one end sends reaches the other, whatever the MAC address. The instance
     * takes every frame, and sends no ARP, neighbour discovery or MLD: the first frame to a next
     * hop has the broadcast address, later ones the source address of what came from it.
     */

    /* Congestion control. */
    u_u32 cc;         /* enum us_cc_kind of new connections */
    u_u32 ecn;        /* enum us_ecn */
    u_u32 nagle;      /* flag: new connections use Nagle's algorithm; us_conn_set_nodelay() */
    u_u32 quick_acks; /* segments ACKed without delay at the start and after a loss; 0..255 */

    /* Bounds. us_memory_bytes() follows from them; a counter shows each time one is reached. */
    u_u32 conn_max;          /* connections, without the SYN queue and TIME-WAIT; 1..2^24 */
    u_u32 orphans_max;       /* connections after us_close(); one more resets the oldest */
    u_u32 half_open_max;     /* SYN queue: handshakes of listeners; 0 only with syn_cookies */
    u_u32 time_wait_max;     /* connections in TIME-WAIT; one more replaces the oldest */
    u_u32 neighbour_max;     /* neighbours remembered, 1..65536; at least conn_max is best */
    u_u32 listen_max;        /* listening TCP ports, and as many bound UDP ports; 1..65534 */
    u_u32 datagram_max;      /* UDP datagrams and ICMP messages queued for sending */
    u_u32 reassembly_max;    /* datagrams in reassembly, 1..256; one more replaces the oldest */
    u_u32 reassembly_bytes;  /* bytes of one of these; 1500..65535 */
    u_u32 buffer_bytes;      /* all send and receive queues together; see us_buffer_reserve() */
    u_u32 send_queue_bytes;  /* copied bytes queued on a connection; 1..2^30 */
    u_u32 send_refs_max;     /* references (us_send_ref()) queued on a connection */
    u_u32 recv_window_bytes; /* largest window offered to a peer; 1024..2^30 */

    /* Times, microseconds. */
    u_u32 rto_min_us;        /* RFC 6298 (2.4) says 1 s, Linux uses 200 ms; default 5 ms */
    u_u32 rto_initial_us;    /* before the first RTT measurement; RFC 6298 (2.1): 1 s */
    u_u32 rto_max_us;        /* at most 600 s */
    u_u32 backoff_max_us;    /* once established, the RTO is not doubled beyond this */
    u_u32 delayed_ack_us;    /* RFC 9293 3.8.6.3; at most 500 ms */
    u_u32 peer_ack_delay_us; /* longest ACK delay expected of a peer; at most 500 ms */
    u_u32 time_wait_us;      /* 2 MSL */
    u_u32 fin_wait2_us;      /* how long to wait for the peer's FIN after us_close() */
    u_u32 syn_retries_max;   /* retransmissions of a SYN before the connection ends; 0..200 */
    u_u32 syn_ack_retries_max;
    u_u32 neighbour_lifetime_us; /* a neighbour in use is verified after this */
    u_u32 reassembly_us;         /* from the first fragment to the last */

    u_u32 challenge_acks_max; /* per second (RFC 5961 section 7); a random share stays unused */

    /* Timeouts of unresponsive peers, ms; us_conn_set_keepalive(), us_conn_set_user_timeout(). */
    u_u32 r2_ms;     /* RFC 9293 3.8.3: limit for unacknowledged data, FINs and window probes */
    u_u32 orphan_ms; /* the limit after us_close(), where answered window probes don't extend it */
    u_u32 keepalive; /* flag: new connections send keepalives (RFC 9293 3.8.4: default 0) */
    u_u32 keepalive_idle_ms;     /* silence before the first keepalive */
    u_u32 keepalive_interval_ms; /* between unanswered keepalives */
    u_u32 keepalive_count;       /* unanswered keepalives that end a connection; 1..200 */
    u_u32 user_timeout_ms;       /* replaces r2_ms; 0: r2_ms applies */
    u_u32 persist_ms; /* longest time with a zero window; 0: while the peer answers probes */

    u_u32 no_fast_path; /* flag: no header prediction: slower, otherwise the same (debugging) */

    /*
     * Flag: SYNs beyond half_open_max are answered with SYN cookies (RFC 4987 section 3.6); 0: they
     * are dropped. If no connection is free when the final ACK of a handshake arrives, an entry of
     * the SYN queue stays, so that the peer retries; the ACK of a cookie is answered with a RST.
     */
    u_u32 syn_cookies;
};

/*
 * Sets every field but mac and secret to its default: 16384 connections, 64 MiB of buffers, in all
 * 83 MiB.
 */
void us_config_defaults(struct us_config *config);

/*
 * Sets the bounds for conn_max connections (1..2^24), of which each can queue queue_bytes
 * (1024..2^30) in each direction at any time, as far as buffer_bytes has the range for it; all
 * other pools become as small as is sensible. Other fields stay.
 */
void us_config_fit(struct us_config *config, u_u32 conn_max, u_u32 queue_bytes);

/*
 * Returns null if us_create() accepts the configuration; otherwise a phrase in static memory that
 * begins with the name of the first field that is out of range.
 */
const char *us_config_error(const struct us_config *config);

/* Bytes of memory that us_create() needs, or 0 if us_config_error() returns a phrase. */
unsigned long us_memory_bytes(const struct us_config *config);

/*
 * Makes an instance in `memory`: `bytes` >= us_memory_bytes(config), zero-filled, aligned for any
 * type. The memory belongs to the stack until the caller stops using the instance; there is no
 * destructor. The stack touches pages only when it needs them, so a large mapping costs little.
 * The configuration is copied. Returns null if it is out of range or `bytes` is too small.
 */
struct us_stack *us_create(const struct us_config *config, void *memory, unsigned long bytes,
                           u_u64 now_us);

/*
 * Adds a local address; destinations with the same first prefix_len bits are on the link. The first
 * IPv4 address is the default source address. The next us_output() announces an IPv4 address by
 * gratuitous ARP (RFC 5227 section 3). The first IPv6 address enables IPv6 and adds a link-local
 * address; an IPv6 address is usable after duplicate address detection, about a second
 * (RFC 4862 5.4).
 * Returns 0, US_ERR_ARGUMENT (not a host address, prefix_len too large, or config.mtu too small for
 * IPv6), US_ERR_IN_USE or US_ERR_NO_MEMORY (8 addresses of each family).
 */
int us_addr_add(struct us_stack *stack, const struct us_addr *addr, unsigned prefix_len);

/*
 * Sets the default router of the address's family. Returns 0, US_ERR_ARGUMENT (not a host address,
 * or a local one), or US_ERR_NO_ROUTE (it is on no local network).
 */
int us_gateway_set(struct us_stack *stack, const struct us_addr *gateway);

/*
 * Adds a neighbour whose MAC address is known: it is not resolved, verified or evicted, and no
 * message changes its address; a second call does. Returns 0, US_ERR_ARGUMENT (not a host address,
 * a local one, or `mac` is a group address), US_ERR_NO_ROUTE (it is on no local network) or
 * US_ERR_NO_MEMORY (config.neighbour_max less one are static, or the table is full).
 */
int us_neighbour_add(struct us_stack *stack, const struct us_addr *addr, const u_u8 mac[6]);

/*
 * Replaces config.caps, for instance when the device changes. Frames already filled by us_output()
 * keep the old offload flags.
 */
void us_caps_set(struct us_stack *stack, u_u32 caps);

/*
 * Changes the link MTU: 576 to the value at us_create(). Connections with larger segments send
 * smaller ones from now on, retransmissions included; a larger MTU applies to new connections. IPv6
 * uses at least 1280. Frames already filled by us_output() keep their size.
 */
void us_mtu_set(struct us_stack *stack, u_u32 mtu);

/* ---- event loop -------------------------------------------------------------------------- */

/*
 * Processes n >= 0 received frames in order, then expired timers. Returns the number of frames
 * processed, which is less than n only if the queue of events is full: take the events, then call
 * again with the remaining frames. Work per call is bounded: n frames and a fixed number of timers.
 *
 * The frames stay the caller's; their memory must not change until the events are taken.
 * Malformed frames are dropped and counted.
 */
unsigned us_input(struct us_stack *stack, struct us_pkt *const *pkts, unsigned n, u_u64 now_us);

enum us_event_type {
    US_EV_NONE = 0,
    US_EV_ACCEPTED,    /* a peer connected to a listening port; user = the listener's */
    US_EV_CONNECTED,   /* us_connect() succeeded */
    US_EV_DATA,        /* data, len: the next bytes of the stream; see us_recv_keep() */
    US_EV_PEER_CLOSED, /* the peer sent a FIN; sending to it is still possible */
    US_EV_SENDABLE,    /* the send queue has room again after a send was cut short or refused */
    US_EV_RELEASED,    /* cookie: the stack no longer needs the bytes of a us_send_ref() */
    US_EV_CLOSED,      /* reason: the last event of a connection, exactly one */
    US_EV_DATAGRAM,    /* data, len, datagram: for a port of us_udp_bind(); user = the port's */
    US_EV_CWND         /* the congestion window has changed: see us_conn_watch_cwnd() */
};

enum us_close_reason {
    US_CLOSE_NONE = 0,
    US_CLOSE_NORMAL,      /* both sides closed, and all data was acknowledged */
    US_CLOSE_RESET,       /* the peer sent a valid RST */
    US_CLOSE_REFUSED,     /* a RST answered the SYN */
    US_CLOSE_TIMEOUT,     /* no answer or no FIN within the limits of retries and time */
    US_CLOSE_ABORTED,     /* us_abort() */
    US_CLOSE_UNREACHABLE, /* the next hop does not answer ARP or neighbour discovery */
    US_CLOSE_NO_MEMORY,   /* a pool was exhausted where data could not be dropped */
    US_CLOSE_KEEPALIVE,   /* keepalives were not answered */
    US_CLOSE_ZERO_WINDOW, /* the peer kept its window closed for config.persist_ms */
    US_CLOSE_EXPORTED     /* us_conn_forget(): the peer does not notice */
};

/* A reason in lower case with underscores, for instance "zero_window". Never null; static. */
const char *us_close_reason_name(enum us_close_reason reason);

/* Addresses of a received UDP datagram. */
struct us_datagram {
    struct us_addr local, remote;
    u_u16 local_port, remote_port;
    u_u8 mac[6]; /* source of the frame: the remote host or a router */
};

struct us_event {
    enum us_event_type type;
    enum us_close_reason reason;
    struct us_conn *conn; /* null for US_EV_DATAGRAM, and for RELEASED after CLOSED */
    void *user;           /* of the connection, the listener (US_EV_ACCEPTED) or the UDP port */
    void *cookie;
    const u_u8 *data; /* valid until the packets of this us_input() are given back */
    u_u32 len;
    const struct us_datagram *datagram; /* US_EV_DATAGRAM, otherwise null; valid like data */
};

/*
 * Takes the oldest event: returns 1 and fills *event, or returns 0. Events of a connection come
 * in the order ACCEPTED or CONNECTED, DATA..., PEER_CLOSED, CLOSED. Every reference is released
 * exactly once, before or after CLOSED. Datagrams come in order of arrival, before the events of
 * connections.
 *
 * The bytes of a DATA event count as consumed, and the receive window opens again, unless
 * us_recv_keep() is called before the next us_input() or us_output().
 */
int us_next_event(struct us_stack *stack, struct us_event *event);

/*
 * Fills at most n empty packets with frames to send: sets len, flags and the offload fields. A
 * packet has `data` and `room` set, room >= mtu + 14, or + 18 with a VLAN tag. Returns the number
 * filled; while it is n, call again. The packets are the caller's and the stack keeps no pointer to
 * them: a frame that is not sent counts as lost, and TCP retransmits its data.
 */
unsigned us_output(struct us_stack *stack, struct us_pkt **pkts, unsigned n, u_u64 now_us);

#define US_NEVER (~(u_u64)0)

/*
 * The time by which us_input() must be called although no frame arrives. 0: us_output() has frames
 * to send now. US_NEVER: no timer runs. A call before that time is harmless, a later one delays
 * timers.
 */
u_u64 us_deadline(const struct us_stack *stack);

/*
 * us_deadline() as if us_output() had no frames to send: a time not after the first timer's, or
 * US_NEVER. A caller whose device takes no frames now calls us_input() by then, or when the device
 * takes frames again.
 */
u_u64 us_timer_deadline(const struct us_stack *stack);

/*
 * Sets the time for the following calls, without input, output or expired timers. Where the time
 * stays the same as in the last us_input() or us_output() it is not needed.
 */
void us_now(struct us_stack *stack, u_u64 now_us);

/* The resolution of timers. A round trip shorter than US_RTT_MIN_US counts as that long. */
#define US_TIMER_TICK_US 64
#define US_RTT_MIN_US 64

/* ---- listening --------------------------------------------------------------------------- */

/*
 * Accepts connections to a port (1..65535) on all local addresses; US_EV_ACCEPTED has this `user`.
 * Returns 0, US_ERR_ARGUMENT (port 0), US_ERR_IN_USE (the port listens already) or US_ERR_NO_MEMORY
 * (config.listen_max ports listen).
 */
int us_listen(struct us_stack *stack, u_u16 port, void *user);

enum us_listen_overflow {
    US_LISTEN_DROP,  /* no answer: the peer retries */
    US_LISTEN_REFUSE /* a RST */
};

/*
 * Bounds the connections accepted from a port that exist and for which us_close() was not called;
 * `overflow` says how SYNs beyond are answered. Without this call only config.conn_max applies.
 * Returns 0, or US_ERR_ARGUMENT if the port does not listen.
 */
int us_listen_limit(struct us_stack *stack, u_u16 port, u_u32 conn_max,
                    enum us_listen_overflow overflow);

/*
 * Restricts a listening port to one local address. Returns 0, or US_ERR_ARGUMENT if the port does
 * not listen or the address is not local.
 */
int us_listen_address(struct us_stack *stack, u_u16 port, const struct us_addr *addr);

/*
 * Stops listening. Connections stay; handshakes that are not complete end with a RST. Returns 0, or
 * US_ERR_ARGUMENT if the port does not listen.
 */
int us_unlisten(struct us_stack *stack, u_u16 port);

/* ---- connections ------------------------------------------------------------------------- */

/*
 * Opens a connection. local_port 0: the stack chooses one (RFC 6056). Data may be queued before
 * US_EV_CONNECTED. Ends with US_EV_CONNECTED or US_EV_CLOSED. On failure returns null and sets
 * *error, if `error` is not null:
 *     US_ERR_ARGUMENT   remote_port is 0, or `remote` is no host address
 *     US_ERR_NO_ROUTE   `remote` is local, or no route leads to it
 *     US_ERR_IN_USE     a connection with these addresses and ports exists, or no port is free
 *     US_ERR_NO_MEMORY  config.conn_max connections exist
 */
struct us_conn *us_connect(struct us_stack *stack, const struct us_addr *remote, u_u16 remote_port,
                           u_u16 local_port, void *user, int *error);

/* The value that events of the connection carry as `user`. */
void us_conn_set_user(struct us_conn *conn, void *user);
void *us_conn_user(const struct us_conn *conn);

/*
 * Changes the congestion control of a connection; the congestion window stays. Returns 0, or
 * US_ERR_ARGUMENT if `cc` is no enum us_cc_kind.
 */
int us_conn_set_cc(struct us_conn *conn, enum us_cc_kind cc);

/*
 * nodelay 0: a segment that is not full waits until all sent data is acknowledged (Nagle, RFC 9293
 * 3.7.4). Otherwise the next us_output() sends it, including data that has waited.
 */
void us_conn_set_nodelay(struct us_stack *stack, struct us_conn *conn, int nodelay);

/*
 * Sends a FIN after all queued data. Received data is delivered until the peer closes. An accepted
 * connection no longer counts for us_listen_limit(); it must make progress within config.orphan_ms
 * and is reset if its memory is needed for a new connection: CLOSED then has US_CLOSE_TIMEOUT. A
 * connection in SYN-SENT without queued data ends with US_CLOSE_ABORTED.
 * Returns 0, or US_ERR_STATE if us_close() was called before or the connection has ended.
 */
int us_close(struct us_stack *stack, struct us_conn *conn);

/*
 * us_close() with a time limit: if the peer has not acknowledged all data and the FIN within
 * linger_ms, the connection is reset; CLOSED then has US_CLOSE_TIMEOUT. May follow us_close().
 * Returns 0, or US_ERR_STATE if the FIN is acknowledged or the connection has ended.
 */
int us_close_within(struct us_stack *stack, struct us_conn *conn, u_u32 linger_ms);

/*
 * Sends a RST and drops queued data. US_EV_CLOSED follows, with US_CLOSE_ABORTED. No effect on a
 * connection that has ended.
 */
void us_abort(struct us_stack *stack, struct us_conn *conn);

/*
 * Keepalives (RFC 9293 3.8.4): after idle_ms without a segment of the peer and without data in
 * flight, a probe is sent every interval_ms; `count` unanswered probes (1..200) end the connection
 * with US_CLOSE_KEEPALIVE. idle_ms 0 disables them. Returns 0 or US_ERR_ARGUMENT.
 */
int us_conn_set_keepalive(struct us_stack *stack, struct us_conn *conn, u_u32 idle_ms,
                          u_u32 interval_ms, u_u32 count);

/*
 * User timeout (RFC 9293 3.8.3), local only: the longest time that queued data may make no
 * progress, for want of acknowledgments or of window; then the connection ends with
 * US_CLOSE_TIMEOUT. 0: config.r2_ms applies.
 */
void us_conn_set_user_timeout(struct us_stack *stack, struct us_conn *conn, u_u32 timeout_ms);

#define US_CONN_BUFFER_UNIT 1024
#define US_CONN_BUFFER_MAX (65535 * US_CONN_BUFFER_UNIT)

/*
 * Replaces config.recv_window_bytes and config.send_queue_bytes for a connection. Both are rounded
 * down to a multiple of US_CONN_BUFFER_UNIT, and at most what the configuration says and
 * US_CONN_BUFFER_MAX. The low-water mark becomes half of the send queue's limit. A window that the
 * peer knows already does not shrink. Returns 0 or US_ERR_ARGUMENT.
 */
int us_conn_set_buffers(const struct us_stack *stack, struct us_conn *conn, u_u32 recv_window_bytes,
                        u_u32 send_queue_bytes);

/*
 * Sets the TTL or hop limit (1..255), and the differentiated services code point (RFC 2474; 0..63),
 * of the connection's packets from now on. Return 0 or US_ERR_ARGUMENT.
 */
int us_conn_set_ttl(struct us_conn *conn, unsigned ttl);
int us_conn_set_dscp(struct us_conn *conn, unsigned dscp);

/*
 * on 1: raises US_EV_CWND now, and when the congestion window has changed; us_conn_get_info() has
 * its size. Several changes between two calls of us_next_event() are one event. For observers: the
 * connection does not take the fast path. on 0: stops that.
 */
void us_conn_watch_cwnd(struct us_stack *stack, struct us_conn *conn, int on);

/* ---- sending ----------------------------------------------------------------------------- */

/*
 * Queues a copy of data. Returns the number of bytes queued, or US_ERR_STATE after us_close() or
 * the end of the connection. Fewer than len are queued if the send queue is at its limit or the
 * buffers are exhausted; US_EV_SENDABLE follows when the queue has fallen to its low-water mark.
 */
long us_send(struct us_stack *stack, struct us_conn *conn, const void *data, u_u32 len);

#define US_RESERVE_MAX 1024

/* A flag of us_reserve(): only if nothing is queued on the connection. */
#define US_RESERVE_IF_EMPTY 1u

/*
 * Memory of the send queue to write into: at least `want` bytes (1..US_RESERVE_MAX) in one piece;
 * *room is set to its size. `flags` is 0 or US_RESERVE_IF_EMPTY. us_commit() must be the next call
 * on this connection. Returns null if the queue is at its limit or the buffers are exhausted
 * (US_EV_SENDABLE follows), if data is queued and US_RESERVE_IF_EMPTY is set, after us_close() or
 * the end of the connection, or if `want` is out of range.
 */
u_u8 *us_reserve(struct us_stack *stack, struct us_conn *conn, u_u32 want, unsigned flags,
                 u_u32 *room);

/* Queues the first `used` bytes (0..room) of the memory that us_reserve() returned. */
void us_commit(struct us_stack *stack, struct us_conn *conn, u_u32 used);

/*
 * Queues bytes without copying them. They must not change until US_EV_RELEASED with this cookie,
 * which comes when they are acknowledged or the connection has ended.
 * Returns 0, US_ERR_ARGUMENT (len 0), US_ERR_FULL (config.send_refs_max references queued),
 * US_ERR_NO_MEMORY (no reference is free; US_EV_SENDABLE follows) or US_ERR_STATE (after us_close()
 * or the end). After an error no RELEASED comes.
 */
int us_send_ref(struct us_stack *stack, struct us_conn *conn, const void *data, u_u32 len,
                void *cookie);

/*
 * Sets the low-water mark of copied bytes at which US_EV_SENDABLE comes. Default: half of
 * config.send_queue_bytes.
 */
void us_conn_set_low_water(const struct us_stack *stack, struct us_conn *conn, u_u32 low_bytes);

/*
 * Requests US_EV_SENDABLE although no send was refused. If the queue is below its low-water mark,
 * it is the next event of the connection. No effect after us_close() or the end.
 */
void us_request_sendable(struct us_stack *stack, struct us_conn *conn);

/*
 * Bytes of config.buffer_bytes reserved for the minimum of every connection: at most
 * US_CONN_BUFFER_MIN for each of conn_max, and 2 KiB for each of datagram_max, but no more than
 * half of buffer_bytes. Unless that half is less, every connection can queue US_SEND_MIN_BYTES
 * whatever the others use; beyond its minimum a connection takes nothing from the reserve.
 */
unsigned long us_buffer_reserve(const struct us_stack *stack);

#define US_CONN_BUFFER_MIN (64 * 1024)
#define US_SEND_MIN_BYTES (20 * 1024)

/* Bytes that us_send() would queue now, unless the buffers are exhausted. */
u_u32 us_send_room(const struct us_stack *stack, const struct us_conn *conn);

/* Bytes queued and not acknowledged, references included. */
u_u32 us_send_queued(const struct us_conn *conn);

/* ---- receiving --------------------------------------------------------------------------- */

/*
 * Gives back the last `len` bytes of a US_EV_DATA taken since the last us_input(): data..data+len
 * is the end of that event's bytes. The stack copies them, reduces the receive window by len and
 * delivers no DATA of this connection until us_recv_resume(). If several DATA events of a
 * connection were taken, keep the unused end of the first, then each later one whole, in order.
 * Returns 0, or US_ERR_NO_MEMORY: then the connection is aborted (US_CLOSE_NO_MEMORY). On a
 * connection that has failed already (a RST in the same burst) the bytes are dropped, CLOSED with
 * the reason follows, and 0 is returned.
 */
int us_recv_keep(struct us_stack *stack, struct us_conn *conn, const u_u8 *data, u_u32 len);

/* Delivers the kept bytes, then those received since, as US_EV_DATA again. */
void us_recv_resume(struct us_stack *stack, struct us_conn *conn);

/* ---- handover ---------------------------------------------------------------------------- */

#define US_CONN_STATE_MAGIC 0x55434353u
#define US_CONN_STATE_VERSION 1
#define US_CONN_STATE_BYTES 176

/* Bits of us_conn_state.options: negotiated with the peer. */
#define US_CONN_STATE_TIMESTAMPS 1u
#define US_CONN_STATE_SCALING 2u
#define US_CONN_STATE_SACK 4u
#define US_CONN_STATE_ECN 8u

/* Bits of us_conn_state.flags. */
#define US_CONN_STATE_ACCEPTED 1u /* it came from a listening port */
#define US_CONN_STATE_NODELAY 2u
#define US_CONN_STATE_ECE 4u         /* RFC 3168 6.1.3: the next ACKs have the ECE flag */
#define US_CONN_STATE_PEER_CLOSED 8u /* US_EV_PEER_CLOSED came, or is to come */

/*
 * A TCP connection in ESTABLISHED or CLOSE-WAIT (RFC 9293 3.3.1) outside of an instance.
 * US_CONN_STATE_BYTES bytes without padding on every platform; numbers are in the byte order of the
 * machine, which `magic` shows. Sequence numbers and windows are those of the wire, windows in
 * bytes. It is no secret, but whoever has it can forge segments of the connection.
 */
struct us_conn_state {
    u_u32 magic;   /* US_CONN_STATE_MAGIC */
    u_u16 version; /* US_CONN_STATE_VERSION: changes with each change of a field */
    u_u16 bytes;   /* US_CONN_STATE_BYTES */
    struct us_addr local, remote;
    u_u8 remote_mac[6]; /* if the peer is on the link and its address is known, else 0 */
    u_u16 local_port, remote_port;
    u_u8 options;    /* US_CONN_STATE_TIMESTAMPS... */
    u_u8 send_scale; /* RFC 7323 2: shifts of the peer's window and of ours; 0..14 */
    u_u8 recv_scale;
    u_u8 cc;    /* enum us_cc_kind */
    u_u8 flags; /* US_CONN_STATE_ACCEPTED... */
    u_u8 keepalive_count;
    u_u16 mss_offered; /* MSS option of our SYN */
    u_u16 path_mtu;
    u_u16 path_mtu_max; /* bounded by the link and by the peer's MSS option */
    u_u32 snd_una;
    u_u32 sent_bytes;   /* behind snd_una, not acknowledged */
    u_u32 queued_bytes; /* these and the bytes not sent yet; they go with the state */
    u_u32 snd_wnd, snd_wnd_max;
    u_u32 snd_wl1, snd_wl2;
    u_u32 rcv_nxt;
    u_u32 rcv_adv;    /* right edge of the window offered */
    u_u32 last_ack;   /* the acknowledgment number sent last */
    u_u32 ts_recent;  /* RFC 7323 4.3 */
    u_u32 ts_clock;   /* TSval at the export; ticks of 1024 us */
    u_u32 srtt8_us;   /* RFC 6298: SRTT times 8; 0: not measured yet */
    u_u32 rttvar4_us; /* RTTVAR times 4 */
    u_u32 min_rtt_us;
    u_u32 cwnd, ssthresh;
    u_u32 keepalive_idle_ms, keepalive_interval_ms;
    u_u32 user_timeout_ms;
    u_u32 retransmits;  /* as in struct us_conn_info */
    u_u32 silent_ticks; /* since the last acceptable segment; of 1024 us */
    u_u32 unread_bytes; /* received in order, without a US_EV_DATA or given back; as queued_bytes */
    u_u32 reserved;     /* 0 */
    u_u64 bytes_in, bytes_out;
};

/*
 * Describes a connection so that us_conn_import() can continue it, in this instance or another one:
 * fills *state, and copies to data[0..room) the bytes that are queued and not acknowledged,
 * us_send_queued() of them, and behind them those that us_recv_keep() holds back. Received data
 * that is out of order is left out; the peer sends it again. The connection does not change, and
 * may be exported again: what happens to it afterwards is not in *state. Returns 0, or
 *     US_ERR_STATE   the connection is in another state, or us_close() was called
 *     US_ERR_UNREAD  us_next_event() has events of it: take them first
 *     US_ERR_FULL    there are more than `room` bytes
 */
int us_conn_export(struct us_stack *stack, struct us_conn *conn, struct us_conn_state *state,
                   void *data, u_u32 room);

/*
 * Ends a connection that was exported, silently. US_EV_CLOSED follows, with US_CLOSE_EXPORTED,
 * after the US_EV_RELEASED of its references. From the import on its frames must not reach this
 * instance, which would answer them with a RST: they are lost or sent elsewhere. What is lost, the
 * peer sends again. No effect on a connection that has ended.
 */
void us_conn_forget(struct us_stack *stack, struct us_conn *conn);

/*
 * Continues an exported connection; data has state->queued_bytes + state->unread_bytes bytes. Those
 * that were sent are sent again. The instance has the local address; congestion control and timers
 * continue by its configuration, and an accepted connection counts for the listener of its port, if
 * there is one. The connection is returned, and belongs to `user`. If there are unread bytes, they
 * and what follows come after us_recv_resume(). On failure returns null and sets *error, if `error`
 * is not null:
 *     US_ERR_VERSION    the state has another version, size or byte order
 *     US_ERR_ARGUMENT   a field is outside its range, or contradicts another
 *     US_ERR_NO_ROUTE   the local address is not local, or not usable yet
 *     US_ERR_IN_USE     a connection with these addresses and ports exists
 *     US_ERR_FULL       queued_bytes is beyond config.send_queue_bytes, or unread_bytes beyond
 *                       config.recv_window_bytes
 *     US_ERR_NO_MEMORY  config.conn_max connections exist, or the buffers are exhausted
 */
struct us_conn *us_conn_import(struct us_stack *stack, const struct us_conn_state *state,
                               const void *data, void *user, int *error);

/* ---- UDP (RFC 768) ----------------------------------------------------------------------- */

/*
 * Delivers datagrams to a port (1..65535) on all local addresses as US_EV_DATAGRAM with this
 * `user`. Returns 0, US_ERR_ARGUMENT (port 0), US_ERR_IN_USE or US_ERR_NO_MEMORY (config.listen_max
 * ports are bound).
 */
int us_udp_bind(struct us_stack *stack, u_u16 port, void *user);

/* Stops that; queued events still come. Returns 0 or US_ERR_ARGUMENT (the port is not bound). */
int us_udp_unbind(struct us_stack *stack, u_u16 port);

/*
 * Queues a copy of a datagram from `local` (null: chosen by the route) and local_port.
 * Returns 0; US_ERR_ARGUMENT (a port is 0, `local` is not local, `remote` is no host address, or
 * len does not fit into one packet of config.mtu: nothing is fragmented); US_ERR_NO_ROUTE; or
 * US_ERR_NO_MEMORY (config.datagram_max datagrams are queued, or the buffers are exhausted).
 * us_output() sends it, or drops and counts it if the next hop cannot be resolved.
 */
int us_udp_send(struct us_stack *stack, const struct us_addr *local, u_u16 local_port,
                const struct us_addr *remote, u_u16 remote_port, const void *data, u_u32 len);

/*
 * Replies to a US_EV_DATAGRAM: queues a datagram from its local to its remote address and port, in
 * a frame to the MAC address that the request came from. A reply needs no neighbour entry and no
 * address resolution, so requests from forged addresses cannot fill the queue.
 * Returns as us_udp_send() does, except US_ERR_NO_ROUTE.
 */
int us_udp_reply(struct us_stack *stack, const struct us_datagram *request, const void *data,
                 u_u32 len);

/* ---- inspection -------------------------------------------------------------------------- */

/* RFC 9293 section 3.3.2. */
enum us_tcp_state {
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
    u_u32 mss;      /* payload bytes per segment that this side sends */
    u_u32 path_mtu; /* largest packet that the path is known to carry, bytes */
    u_u32 srtt_us;  /* 0: not measured yet */
    u_u32 rttvar_us;
    u_u32 rto_us; /* current RTO, backoff included */
    enum us_cc_kind cc;
    u_u8 ecn, sack, timestamps, window_scaling; /* 1: negotiated with the peer */
    u_u8 send_scale;                            /* shift of the peer's window, 0..14 */
    u_u8 recv_scale;                            /* shift of the window offered, 0..14 */
    u_u8 in_recovery;                           /* 1: loss recovery is in progress */
    u_u8 retries; /* timeouts, window probes or keepalives in a row without an answer */
    u_u32 cwnd_bytes, ssthresh_bytes;
    u_u32 send_window_bytes, recv_window_bytes;
    u_u32 queued_bytes; /* us_send_queued() */
    u_u32 retransmits;  /* segments */
    u_u64 bytes_in;     /* received in order */
    u_u64 bytes_out;    /* sent and acknowledged */
    u_u64 silent_us;    /* since the last acceptable segment of the peer */
};

/* Fills *info with the state of a connection. */
void us_conn_get_info(const struct us_stack *stack, const struct us_conn *conn,
                      struct us_conn_info *info);

/*
 * Iterates over the connections, without those in the SYN queue or TIME-WAIT. *cursor starts at 0.
 * Returns the next connection or null; after null the iteration is complete if *cursor is 0,
 * otherwise call again: one call examines a bounded number of slots. Connections may begin and end
 * meanwhile; one that exists from the first call to the last is returned exactly once.
 */
struct us_conn *us_conn_next(struct us_stack *stack, u_u32 *cursor);

/* Name of a state in the RFC's spelling, for instance "FIN-WAIT-1". Never null; static. */
const char *us_tcp_state_name(enum us_tcp_state state);

/*
 * Counters since us_create(), and gauges (conns_open, half_open, time_wait, buffer_bytes_used...),
 * with indices 0..us_counter_count()-1. Names are stable, lower case with underscores ("rx_frames",
 * "tcp_retransmits"), in static memory; "" and 0 for an index out of range.
 */
unsigned us_counter_count(void);
const char *us_counter_name(unsigned index);
u_u64 us_counter(const struct us_stack *stack, unsigned index);

/*
 * Checks all invariants of an instance: queues, windows, timers, pools. Returns null, or a phrase
 * (static) that names the first one violated. For tests: the time is proportional to the number of
 * connections and table sizes.
 */
const char *us_check(const struct us_stack *stack);

#ifdef __cplusplus
}
#endif
#endif
