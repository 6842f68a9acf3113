/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Internals of a stack worker: the loop (stack_worker.c), its applications (struct net_app_ops),
 * the connections of the cache's sessions (stack_conn.c) and statistics (net_stats.c).
 *
 * Memory is bounded: connections by the stack's table, queued replies and kept input by the
 * stack's pool, and packets by three bursts. Every connection has a minimum of the pool
 * (us_buffer_reserve()); its share of the remainder shrinks as the pool fills.
 */
#ifndef NET_STACK_WORKER_H
#define NET_STACK_WORKER_H

#include <pthread.h>

#include "base/list.h"
#include "net/conn.h"
#include "net/udp.h"

/*
 * A session stops when this is queued on its connection, or less if memory is short: one round
 * trip of 200 us at 10 Gb/s.
 */
#define NET_STACK_SEND_HIGH_BYTES (256 * 1024)

/*
 * The stack's own limit. The difference is room for the reply that a session is writing when it
 * has to stop.
 */
#define NET_STACK_SEND_QUEUE_BYTES (512 * 1024)

/* References queued on one connection, and the number from which its session has to stop. */
#define NET_STACK_REFS_MAX 256
#define NET_STACK_REFS_HIGH (NET_STACK_REFS_MAX / 2)

/*
 * Connections of the stack beyond conn_max sessions: refused ones, and those whose session has
 * ended while the peer has not closed its side yet.
 */
#define NET_STACK_CONN_SPARE 64
#define NET_STACK_CONN_SPARE_SHARE 4 /* plus conn_max divided by this */

#define NET_STACK_EVENT_BATCH 256

/* Released references that unsent frames may point to; see net_stack_release(). */
#define NET_STACK_HELD_MAX 256

enum net_stack_counter {
    NET_STACK_LOOPS = 0,
    NET_STACK_LOOPS_BUSY,  /* loops that received, sent or changed something */
    NET_STACK_CYCLES_BUSY, /* time-stamp counter ticks spent in busy loops */
    NET_STACK_SLEEPS,
    NET_STACK_MISSED_WAKEUPS, /* sleeps that lasted to their end although a frame was there */
    NET_STACK_RX_FRAMES,
    NET_STACK_TX_FRAMES,
    NET_STACK_TX_RETRIES,        /* bursts of which the device did not take all */
    NET_STACK_TX_DROPPED_UNSENT, /* frames dropped because they showed what had to be given back */
    NET_STACK_ALLOC_EMPTY,       /* times the device had no free packet */
    NET_STACK_ACCEPTED,
    NET_STACK_REJECTED, /* connections refused, over conn_max */
    NET_STACK_BLOCKED,  /* times a session stopped because its client does not read */
    NET_STACK_RESUMED,
    NET_STACK_ABORTED_FULL,      /* resets: no memory for a reply that had begun */
    NET_STACK_ABORTED_KEPT,      /* resets: no memory for input that a blocked session left */
    NET_STACK_ABORTED_AFTER_END, /* resets: over DISCARD_BYTES_MAX came after the session's end */
    NET_STACK_REST_CLOSED,       /* resets: not at rest in time for a takeover */
    NET_STACK_TAKEN_OVER,        /* connections taken over from an earlier process */
    NET_STACK_IDLE_CLOSED,       /* connections closed because of settings.idle_timeout_s */
    NET_STACK_UDP_REQUESTS,      /* datagrams served */
    NET_STACK_UDP_MALFORMED,     /* datagrams dropped as malformed */
    NET_STACK_UDP_TOO_LARGE,     /* datagrams whose reply would have been too large */
    NET_STACK_UDP_LIMITED,       /* replies dropped: their source was sent too much already */
    NET_STACK_UDP_SENT,          /* datagrams sent */
    NET_STACK_UDP_UNSENT,        /* datagrams that the stack did not take */
    NET_STACK_COUNTERS
};

struct net_stack_conn {
    struct net_conn conn;
    struct us_conn *us;         /* null once its CLOSED event has been taken */
    struct u_list blocked_link; /* on no list unless the session is BLOCKED or waited for */
    uint32_t kept_bytes;        /* given back with us_recv_keep() and not seen again yet */
    uint32_t refs;              /* references queued */
    uint32_t discarded_bytes;   /* received after the session's end */
    uint32_t yield_pass; /* pass in which its last turn ended early: net_stack_handle_events() */
    bool waiting;        /* waits for a free session (settings.accept_waits) */
    bool aborted;        /* this side has reset it: what still comes is ignored */
    bool held;           /* us_recv_keep() was called, us_recv_resume() not yet */
    bool peer_closed;
};

#define NET_NIC_STATS_MAX 64 /* counters of a nic that are published */

/* Names and values of a nic's counters, as last published. */
struct net_nic_stats {
    unsigned count; /* names and values in use, fixed since the opening */
    unsigned at;    /* index of the next value while publishing */
    char names[NET_NIC_STATS_MAX][48];
    struct net_counter values[NET_NIC_STATS_MAX];
};

struct net_split;
struct net_stack_worker;

/*
 * The application of a worker: ucached's sessions (session_app.c) or ucping's exchanges. It reaches
 * the stack only through port.h. All functions but `connect` run in the application's thread, which
 * with --threading=unified is the stack's as well.
 */
struct net_app_ops {
    /* Allocates what the application needs before it runs. Null: nothing. Returns 0 or -1. */
    int (*open)(struct net_stack_worker *worker, const struct net_stack_config *config,
                uint32_t conn_max);

    /* The first call in the application's thread. Null: nothing. 0 or a negative errno value. */
    int (*begin)(struct net_stack_worker *worker);

    /*
     * Takes all events (net_port_next_event()) and acts on them, and does what is due without an
     * event. Called at least once per turn. Returns how many events there were.
     */
    unsigned (*handle_events)(struct net_stack_worker *worker);

    /* Housekeeping. Called in each turn, after frames were sent. */
    void (*tick)(struct net_stack_worker *worker);

    /* How long the thread may sleep; 0: not at all, there is work for proceed. */
    uint32_t (*sleep_us_max)(const struct net_stack_worker *worker);

    /* Around a sleep, or null. sleep_begin returns false if there is work; sleep_end follows. */
    bool (*sleep_begin)(struct net_stack_worker *worker);
    void (*sleep_end)(struct net_stack_worker *worker);

    /* Takes the cookie, if it is not null, of a released reference (net_port_send_ref()). */
    void (*release)(struct net_stack_worker *worker, void *cookie);

    /*
     * Closes all connections in order. Resets connections, as many as a burst of frames can; called
     * in each turn until has_ended.
     */
    void (*finish_all)(struct net_stack_worker *worker);
    void (*abort_all)(struct net_stack_worker *worker);

    /* While the worker ends: whether no connection is left, all have reported CLOSED. */
    bool (*has_ended)(const struct net_stack_worker *worker);

    /* The last call, or null. */
    void (*end)(struct net_stack_worker *worker);

    /*
     * In the stack's thread, once per turn; null if the application opens no connections. Opens
     * them with net_stack_connect(). Returns 0, or a negative errno value: the worker ends.
     */
    int (*connect)(struct net_stack_worker *worker);
};

/*
 * A worker. With --threading=split and merge there are two of these (split.h): one uses the loop
 * and the stack's side, the other the loop and the application's side.
 */
struct net_stack_worker {
    struct net_worker worker;
    struct net_split *split; /* the two-thread worker that this is a side of, or null */
    atomic_bool stopping;
    _Atomic(pthread_t) thread; /* the thread that runs the loop */

    /* The loop. */
    enum net_idle idle;
    uint64_t now_us;  /* time of this turn */
    uint64_t busy_us; /* time of the last turn in which anything happened */
    uint32_t spin_us; /* how long to poll before sleeping */
    uint32_t sleep_us_max;
    bool active;                   /* this turn has done something */
    bool resting;                  /* being paused: see stack_pause.c */
    struct net_handover *handover; /* as in struct net_stack_config, until it is taken over */
    struct net_counter counters[NET_STACK_COUNTERS];

    /* The stack's side. */
    struct nic *nic; /* owned */
    struct us_stack *stack;
    void *memory; /* the stack's memory */
    size_t memory_bytes;
    uint32_t caps; /* the nic's capabilities, as the stack knows them */
    uint32_t mtu;  /* the nic's MTU, as the stack knows it */
    uint16_t port; /* TCP port; 0: none */
    uint16_t udp_port;
    uint64_t buffer_bytes;      /* size of the stack's pool */
    uint64_t reserve_bytes;     /* part of the pool for the minimum of each connection */
    unsigned buffer_used_index; /* us_counter() index of the bytes used of the pool */
    unsigned half_open_index;   /* us_counter() index of the handshakes in progress */
    struct us_pkt *rx[NIC_BURST_MAX];
    unsigned rx_count, rx_done;           /* in rx[], and how many of them the stack has taken */
    bool events_left;                     /* the application had no room for all events */
    struct us_pkt *empty[NIC_BURST_MAX];  /* packets of the device, to be filled: */
    unsigned empty_first, empty_end;      /* indices of the first and behind the last */
    struct us_pkt *unsent[NIC_BURST_MAX]; /* filled, not taken by the device yet */
    unsigned unsent_count;
    void *held[NET_STACK_HELD_MAX]; /* released references that frames of unsent[] point to */
    unsigned held_count;
    bool tx_stalled;                 /* the device takes no frames or has no packets for now */
    struct net_stack_worker *next;   /* next worker of the device, null behind the last */
    struct net_stack_worker *first;  /* first worker of the device */
    atomic_bool drained;             /* at the end: no connection is left */
    atomic_uint rest_votes;          /* in the first worker; see stack_pause.c */
    bool unpublished;                /* anything happened after published_us */
    uint64_t published_us;           /* when the counters below were last copied */
    struct net_counter *us_counters; /* us_counter_count() copies for other threads */
    struct net_nic_stats nic_shown;

    /* The application's side. */
    const struct net_app_ops *app;
    void *app_ctx; /* of an application that is not ucached's sessions, whose state follows */
    struct net_conns conns;
    struct net_udp udp;
    struct us_addr udp_addr;           /* the first of ours, for the statistics */
    struct cache_session *udp_session; /* null unless the loop runs and there is UDP */
    struct net_stack_conn *slots;      /* slot_count connections */
    uint32_t slot_count;
    uint32_t slots_used;      /* slots that were ever in use */
    struct u_list free_slots; /* those of them that are free, by conn.link */
    struct u_list blocked_conns;
    struct u_list waiting_conns;
    bool accept_waits;         /* settings.accept_waits */
    bool general_only;         /* events are not answered by the fast path: split, or resting */
    uint64_t waiting_since_us; /* when the first of waiting_conns came */
    uint32_t blocked_count;
    uint32_t blocked_checks;     /* of blocked connections still due; 0 if none is blocked */
    uint64_t blocked_checked_us; /* when checks of all of them were last made due */
    struct us_event events[NET_STACK_EVENT_BATCH];
    uint32_t pass; /* number of the pass over events, from 1 */
};

static inline void net_stack_count(struct net_stack_worker *worker, enum net_stack_counter counter,
                                   uint64_t n)
{
    net_counter_add(&worker->counters[counter], n);
}

/* Bytes of the stack's pool that are neither used nor in the reserve. */
static inline uint64_t net_stack_pool_free(const struct net_stack_worker *worker,
                                           uint64_t used_bytes)
{
    uint64_t usable = worker->buffer_bytes - worker->reserve_bytes;

    return used_bytes < usable ? usable - used_bytes : 0;
}

/*
 * The parts of net_worker_run(), for callers that bring their own clock and their own loop. begin
 * makes the calling thread the worker's and returns 0 or a negative errno value. turn is one turn
 * of the loop without waiting; returns whether anything happened. end resets all connections and
 * ends the application.
 */
int net_stack_begin(struct net_stack_worker *worker);
bool net_stack_turn(struct net_stack_worker *worker, uint64_t now_us);
void net_stack_end(struct net_stack_worker *worker, uint64_t now_us);

/*
 * How long a caller with its own loop may wait before the next turn, if no frame comes; 0: not at
 * all.
 */
uint64_t net_stack_sleep_us_max(const struct net_stack_worker *worker, uint64_t now_us);

/*
 * The parts of net_stack_end(): resets connections, a bounded number of them, which is repeated in
 * each turn until all have reported CLOSED and no reference is left.
 */
void net_stack_abort(struct net_stack_worker *worker);
bool net_stack_has_ended(const struct net_stack_worker *worker);

/* net_worker_ops.run of a worker or of one side of it. */
int net_stack_run(struct net_worker *base);

/* net_worker_ops.stop of a worker with a nic. */
void net_stack_stop(struct net_worker *base);

/*
 * Makes a worker, or a side of one, of which nothing is open yet. Returns null if there is no
 * memory. net_stack_worker_free() frees it.
 */
struct net_stack_worker *net_stack_worker_new(const struct net_stack_config *config);
void net_stack_worker_free(struct net_stack_worker *worker);

/* Gives all packets in hand back to the nic. */
void net_stack_release_packets(struct net_stack_worker *worker);

/*
 * Opens a connection; called by net_app_ops.connect. The application gets CONNECTED or CLOSED, with
 * a null user. Returns US_OK or a negative us_error.
 */
int net_stack_connect(struct net_stack_worker *worker, const struct us_addr *addr, uint16_t port);

/* Drops the frames that the device has not taken; TCP sends them again. */
void net_stack_drop_unsent(struct net_stack_worker *worker);

/*
 * Gives a reference back to the application. If a frame that the device has not taken yet may show
 * its bytes (US_CAP_TX_SG), this waits for that frame: until then the bytes must not change, or the
 * peer of an aborted connection would receive those of others.
 */
void net_stack_release(struct net_stack_worker *worker, void *cookie);

/* ---- session_app.c ----------------------------------------------------------------------- */

/* The application that serves the cache's sessions. */
extern const struct net_app_ops net_session_app_ops;

/* ---- stack_conn.c ------------------------------------------------------------------------ */

/* net_app_ops.handle_events. */
unsigned net_stack_handle_events(struct net_stack_worker *worker);

/* Opens records of TLS in the first n of worker->events (stack_tls.c). */
void net_stack_open_records(struct net_stack_worker *worker, bool *fast_eligible, unsigned n);

/* How long the thread may sleep for blocked sessions, which it checks without an event. */
uint32_t net_stack_blocked_sleep_us_max(const struct net_stack_worker *worker);

/* Ends the session, sends the queue, then closes. */
void net_stack_conn_finish(struct net_stack_worker *worker, struct net_stack_conn *conn);

/* Queues the replies of connections in the stack. */
extern const struct net_transport net_stack_transport;

/* Ends the session and resets the connection; its CLOSED event follows. */
void net_stack_conn_abort(struct net_stack_worker *worker, struct net_stack_conn *conn);

/* A new connection: gets its session, waits for one, or is refused. */
struct net_stack_conn *net_stack_conn_open(struct net_stack_worker *worker, struct us_conn *us);

/* Requests input again that the stack holds back, also to drop it. */
void net_stack_conn_resume_input(struct net_stack_worker *worker, struct net_stack_conn *conn);

/* ---- stack_pause.c ----------------------------------------------------------------------- */

/* Comes to rest, waits until the worker is resumed, and continues. 0 or a negative errno value. */
int net_stack_pause(struct net_stack_worker *worker);

/* net_worker_hand_over(). */
void net_stack_hand_over(struct net_worker *base, bool first, struct net_handover *handover);

/* Takes over the connections of worker->handover. */
void net_stack_take_over(struct net_stack_worker *worker);

/* ---- stack_udp.c ------------------------------------------------------------------------- */

/* How many datagrams the stack shall be able to hold. */
uint32_t net_stack_udp_waiting_max(void);

/* Begins and ends the session that serves all datagrams. begin returns 0 or -1. */
int net_stack_udp_begin(struct net_stack_worker *worker);
void net_stack_udp_end(struct net_stack_worker *worker);

/* Serves a datagram. */
void net_stack_serve_datagram(struct net_stack_worker *worker, const struct us_event *ev);

/* Queues a datagram in answer to `request`, on the stack's thread; counts whether it was taken. */
void net_stack_send_datagram(struct net_stack_worker *worker, const struct us_datagram *request,
                             const void *data, uint32_t len);

/* ---- net_stats.c ------------------------------------------------------------------------- */

/* Copies the stack's and the nic's counters to where other threads may read them. */
void net_stack_publish(struct net_stack_worker *worker);

/* The lists, sums over the worker `ctx` and those behind it: cache_stats_fill. */
void net_stack_fill_ustack(void *ctx, cache_stats_emit *emit, void *emit_ctx);
void net_stack_fill_nic(void *ctx, cache_stats_emit *emit, void *emit_ctx);

/* Allocates the published counters. Returns 0 or -1. */
int net_stack_stats_open(struct net_stack_worker *worker);

#endif
