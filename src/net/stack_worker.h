/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The inside of a stack worker, shared by its loop (stack_worker.c), what it does with the events
 * of connections (stack_conn.c) and its statistics (net_stats.c).
 *
 * Memory is bounded: connections by the stack's table, queued replies and kept input by the
 * stack's pool, of which a connection may take the less the fuller it is, and packets by three
 * bursts.
 */
#ifndef NET_STACK_WORKER_H
#define NET_STACK_WORKER_H

#include <pthread.h>

#include "base/list.h"
#include "net/udp.h"
#include "net/worker.h"

/*
 * A session stops when so much is queued on its connection, or less if memory is short: enough for
 * one round trip of 200 us at 10 Gb/s.
 */
#define NET_STACK_SEND_HIGH_BYTES (256 * 1024)

/*
 * The stack refuses only beyond this. The room between is for the reply that a session is in the
 * middle of when it is told to stop, which cannot be taken back.
 */
#define NET_STACK_SEND_QUEUE_BYTES (512 * 1024)

/* References queued on one connection, and the number from which its session has to stop. */
#define NET_STACK_REFS_MAX 256
#define NET_STACK_REFS_HIGH (NET_STACK_REFS_MAX / 2)

/*
 * Connections of the stack beyond conn_max sessions: those that are told that there are too many,
 * and those whose session has ended while the peer has not closed its side yet.
 */
#define NET_STACK_CONN_SPARE 64
#define NET_STACK_CONN_SPARE_SHARE 4 /* and this part of conn_max */

#define NET_STACK_EVENT_BATCH 256

/* This part of the stack's pool is left to connections that have nothing queued. */
#define NET_STACK_POOL_RESERVE_SHARE 8

/* References that wait for frames which may show their bytes; see net_stack_release(). */
#define NET_STACK_HELD_MAX 256

/* How often connections are looked at for being idle, if they have a timeout. */
#define NET_STACK_IDLE_CHECK_US 250000

enum net_stack_counter {
    NET_STACK_LOOPS = 0,
    NET_STACK_LOOPS_BUSY,  /* loops that received, sent or changed something */
    NET_STACK_CYCLES_BUSY, /* time-stamp counter ticks spent in busy loops */
    NET_STACK_SLEEPS,
    NET_STACK_RX_FRAMES,
    NET_STACK_TX_FRAMES,
    NET_STACK_TX_RETRIES,  /* bursts of which the device did not take all */
    NET_STACK_TX_GIVEN_UP, /* frames dropped because they showed what had to be given back */
    NET_STACK_ALLOC_EMPTY, /* times the device had no empty packet to lend */
    NET_STACK_ACCEPTED,
    NET_STACK_REJECTED, /* connections over conn_max */
    NET_STACK_BLOCKED,  /* times a session stopped because its client does not read */
    NET_STACK_RESUMED,
    NET_STACK_ABORTED_FULL,  /* aborted: no memory for a reply that had begun */
    NET_STACK_ABORTED_KEPT,  /* aborted: none for what a blocked session did not consume */
    NET_STACK_ABORTED_FLOOD, /* aborted: sends on although its session has ended */
    NET_STACK_IDLE_CLOSED,   /* closed because of settings.idle_timeout_s */
    NET_STACK_UDP_REQUESTS,  /* datagrams that were served */
    NET_STACK_UDP_MALFORMED, /* dropped */
    NET_STACK_UDP_TOO_LARGE, /* whose reply would have been too large */
    NET_STACK_UDP_SENT,      /* datagrams */
    NET_STACK_UDP_UNSENT,    /* datagrams that the stack did not take */
    NET_STACK_COUNTERS
};

struct net_stack_conn {
    struct us_conn *us;            /* null once its CLOSED event has been taken */
    struct cache_session *session; /* null once there is nothing more to reply */
    struct u_list open_link;
    struct u_list blocked_link; /* on no list unless the session is BLOCKED or waited for */
    uint32_t kept_bytes;        /* given back with us_recv_keep() and not seen again yet */
    uint32_t refs;              /* references queued */
    uint32_t discarded_bytes;   /* received after the session's end */
    uint32_t yield_pass;        /* in which its last turn ended early, see net_stack_events() */
    bool waiting;               /* for a place for its session (settings.accept_waits) */
    bool aborted;               /* reset by us: nothing that still comes matters */
    bool held;                  /* us_recv_keep() was called, us_recv_resume() not yet */
    bool peer_closed;
};

#define NET_STACK_SHOWN_MAX 64 /* counters of a nic that are published */

/* Names and values of a nic's counters, as last published. */
struct net_stack_shown {
    unsigned count; /* of names, fixed since the opening */
    unsigned at;    /* while publishing: the next value */
    char names[NET_STACK_SHOWN_MAX][48];
    struct net_counter values[NET_STACK_SHOWN_MAX];
};

struct net_split;

struct net_stack_worker {
    struct net_worker worker;
    struct net_split *split; /* of which this is a half, or null: the whole */
    struct cache *cache;
    struct cache_worker *cache_worker; /* null unless the loop runs */
    struct nic *nic;
    struct us_stack *stack;
    struct net_stack_worker *next; /* of the same device, null behind the last */
    struct net_stack_worker *first;
    atomic_bool drained; /* while all of them end: this one has no connection left */
    uint32_t caps;       /* of the nic, as the stack knows them */
    enum net_idle idle;
    void *memory; /* of the stack */
    size_t memory_bytes;
    uint16_t port;     /* of TCP; 0: none */
    uint16_t udp_port; /* 0: none */
    atomic_bool stopping;

    struct net_udp udp;
    struct us_addr udp_addr;           /* the first of ours, for the statistics */
    struct cache_session *udp_session; /* null unless the loop runs and there is UDP */

    struct net_stack_conn *conns; /* conns_max of them, zero-filled */
    uint32_t conns_max;
    uint32_t conns_used;      /* entries that were ever in use */
    struct u_list free_conns; /* of these, by open_link */
    struct u_list open_conns; /* with an idle timeout: longest unheard first */
    struct u_list blocked_conns;
    struct u_list waiting_conns;
    bool accept_waits;         /* settings.accept_waits */
    uint64_t waiting_since_us; /* when the first of waiting_conns came */
    uint32_t idle_timeout_s;
    uint64_t idle_check_us; /* when to look at open_conns again */
    uint64_t now_us;        /* of this loop */
    uint32_t blocked_count;
    uint32_t blocked_checks; /* of blocked connections still due after the last frames */

    uint64_t buffer_bytes;      /* the stack's pool */
    unsigned buffer_used_index; /* its gauge among us_counter() */

    struct us_pkt *rx[NIC_BURST_MAX];
    struct us_pkt *empty[NIC_BURST_MAX];  /* lent by the device, to be filled: */
    unsigned empty_first, empty_end;      /* those from the one to before the other */
    struct us_pkt *unsent[NIC_BURST_MAX]; /* filled, not taken by the device yet */
    unsigned unsent_count;
    void *held[NET_STACK_HELD_MAX]; /* references released but in frames of unsent[] */
    unsigned held_count;
    struct us_event events[NET_STACK_EVENT_BATCH];
    uint32_t pass; /* over events, counted from 1 */

    uint64_t busy_us; /* when something last happened */
    uint32_t spin_us; /* how long to poll before sleeping */
    uint32_t sleep_us_max;
    bool active;     /* this loop has done something */
    bool tx_stalled; /* the device takes or lends no more packets for now */

    _Atomic(pthread_t) thread; /* of the loop */
    bool unpublished;          /* something has happened since then */
    uint64_t published_us;     /* when other threads were last given the counters below */
    struct net_counter counters[NET_STACK_COUNTERS];
    struct net_counter *us_counters; /* us_counter_count() of them, as last published */
    struct net_stack_shown nic_shown;
};

static inline void net_stack_count(struct net_stack_worker *worker, enum net_stack_counter counter,
                                   uint64_t n)
{
    net_counter_add(&worker->counters[counter], n);
}

/* Free memory of the stack's pool, of which so much is used, that is not in the reserve. */
static inline uint64_t net_stack_pool_free(const struct net_stack_worker *worker,
                                           uint64_t used_bytes)
{
    uint64_t usable = worker->buffer_bytes - worker->buffer_bytes / NET_STACK_POOL_RESERVE_SHARE;

    return used_bytes < usable ? usable - used_bytes : 0;
}

/*
 * The parts of net_worker_run(), for callers that bring their own clock and their own loop. begin
 * makes the calling thread the worker's: 0, or -ENOSPC if the cache takes no more workers. turn is
 * one loop without waiting and returns whether anything happened. end resets the connections that
 * are left and leaves the cache.
 */
int net_stack_begin(struct net_stack_worker *worker);
bool net_stack_turn(struct net_stack_worker *worker, uint64_t now_us);
void net_stack_end(struct net_stack_worker *worker, uint64_t now_us);

/* What the two halves of a worker (split.h) have in common with a whole one. */

/* A worker of which nothing is open yet, and the end of one. Null: no memory. */
struct net_stack_worker *net_stack_worker_new(const struct net_stack_config *config);
void net_stack_worker_free(struct net_stack_worker *worker);

/* Makes room for the connections of sessions, and for datagrams. Returns 0 or -1. */
int net_stack_open_sessions(struct net_stack_worker *worker, const struct net_stack_config *config,
                            uint32_t conns_max);

/* net_worker_stop() of a worker with a nic. */
void net_stack_stop(struct net_worker *base);

/* Sends what there is to send, within bounds. */
void net_stack_transmit(struct net_stack_worker *worker, uint64_t now_us);

/* Drops the frames that the device has not taken; TCP sends them again. */
void net_stack_give_up_unsent(struct net_stack_worker *worker);

/* Accepts nothing any more, and takes no datagrams. */
void net_stack_unlisten(struct net_stack_worker *worker);

/* The time-stamp counter, or 0 where there is none that is cheap to read. */
static inline uint64_t net_stack_cycles(void)
{
#if defined(__x86_64__) || defined(__i386__)
    return __builtin_ia32_rdtsc();
#else
    return 0;
#endif
}

/* Counts a loop that began at `start` of net_stack_cycles(). */
static inline void net_stack_count_loop(struct net_stack_worker *worker, uint64_t start)
{
    net_stack_count(worker, NET_STACK_LOOPS, 1);
    worker->unpublished = worker->unpublished || worker->active;
    if (worker->active) {
        worker->busy_us = worker->now_us;
        net_stack_count(worker, NET_STACK_LOOPS_BUSY, 1);
        net_stack_count(worker, NET_STACK_CYCLES_BUSY, net_stack_cycles() - start);
    }
}

/* Adapts how long to poll to how long a sleep was. */
void net_stack_spin_adapt(struct net_stack_worker *worker, uint64_t slept_us);

/* Whether it is too early for a sleep, because something happened a moment ago. */
bool net_stack_is_watching(const struct net_stack_worker *worker, uint64_t now_us);

/* Whether any of the workers of this device has connections that are not closed yet. */
bool net_stack_any_is_open(const struct net_stack_worker *worker);

/*
 * How late the kernel may wake a thread, to gather wake-ups. Its default of 50 us is as long as
 * some of the stack's timers.
 */
#define NET_STACK_TIMER_SLACK_NS 1000ul

/* Other threads see counters of a busy loop that are at most so old; a sleeping one's are exact. */
#define NET_STACK_PUBLISH_US 100000

#define NET_STACK_SLEEP_DRAIN_US 2000   /* at the end, while others still have connections */
#define NET_STACK_SLEEP_STALLED_US 1000 /* while there is no room for what is to be passed on */
#define NET_STACK_DRAIN_US 200000       /* how long connections closed at the end may take for it */

/*
 * Gives a reference back to the cache, at once or, if a frame that the device has not taken yet may
 * show its bytes (US_CAP_TX_SG), once it has: until then they must not change, or the peer of a
 * connection that was aborted would be sent what belongs to others.
 */
void net_stack_release(struct net_stack_worker *worker, void *cookie);

/* ---- stack_conn.c ------------------------------------------------------------------------ */

/* Takes all events that there are and acts on them. Returns how many there were. */
unsigned net_stack_events(struct net_stack_worker *worker);

/* Goes on with sessions whose client has read. Looks at a bounded number of them. */
void net_stack_unblock(struct net_stack_worker *worker);

/* Lets the sessions go on that have something to write of themselves (cache_eager_next()). */
void net_stack_eager(struct net_stack_worker *worker);

/* Gives connections that wait for a place one, if there is any. */
void net_stack_seat(struct net_stack_worker *worker);

/* Closes connections that have been idle for too long. Looks at a bounded number of them. */
void net_stack_idle(struct net_stack_worker *worker);

/* Sends what is queued, then closes: the session ends now. */
void net_stack_conn_finish(struct net_stack_worker *worker, struct net_stack_conn *conn);

/* Resets the connection: the session ends now, the CLOSED event follows. */
void net_stack_conn_abort(struct net_stack_worker *worker, struct net_stack_conn *conn);

/* ---- stack_udp.c ------------------------------------------------------------------------- */

/* How many datagrams the stack shall be able to hold. */
uint32_t net_stack_udp_waiting_max(void);

/* Begins and ends the session that serves all datagrams. begin returns 0 or -1. */
int net_stack_udp_begin(struct net_stack_worker *worker);
void net_stack_udp_end(struct net_stack_worker *worker);

/* Serves a datagram. */
void net_stack_datagram(struct net_stack_worker *worker, const struct us_event *ev);

/* ---- net_stats.c ------------------------------------------------------------------------- */

/* Copies the stack's and the nic's counters to where other threads may read them. */
void net_stack_publish(struct net_stack_worker *worker);

/* The lists, sums over the worker `ctx` and those behind it: cache_stats_fill. */
void net_stack_fill_ustack(void *ctx, cache_stats_emit *emit, void *emit_ctx);
void net_stack_fill_nic(void *ctx, cache_stats_emit *emit, void *emit_ctx);

/* Makes room for what is published. Returns 0 or -1. */
int net_stack_stats_open(struct net_stack_worker *worker);

#endif
