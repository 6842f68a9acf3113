/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker in two halves, for --threading=split and merge: the TCP/IP stack on one thread, the
 * sessions on another (docs/threading.md).
 *
 *   stack half      split_stack.c: nic, struct us_stack, frames in and out
 *   session half    split_sessions.c: a cache worker and its sessions, which stack_conn.c drives as
 *                   it does in a whole worker (split_conn.c compiles it for port_rings.h)
 *
 * Each half is a struct net_stack_worker of which it uses its part. They share two pipes and what
 * stands in struct net_split:
 *
 *   events      stack -> sessions: what us_next_event() gives, with the bytes that have come
 *   commands    sessions -> stack: replies, and what is to be done to connections
 *
 * Invariants:
 *   - The session half never waits for the stack half: it takes every event that there is. What it
 *     has to say of a connection and finds no room for is remembered in the connection's link. So
 *     the stack half may wait for room in `events`, and the two never wait for each other.
 *   - A link belongs to a connection from the ACCEPTED event until the session half has said FREE,
 *     its last command for it: neither half meets the next connection under the same link too soon.
 *   - The bytes of a link that the stack half has put into `events` and the session half has not
 *     used (or thrown away) never exceed NET_SPLIT_CREDIT_BYTES. What comes beyond stays in the
 *     stack, which closes the window.
 */
#ifndef NET_SPLIT_H
#define NET_SPLIT_H

#include <sched.h>
#include <string.h>

#include "net/pipe.h"
#include "net/stack_worker.h"

/* Received bytes of a connection on their way to its session. */
#define NET_SPLIT_CREDIT_BYTES (64u * 1024)

/* From so many used bytes on the stack half is told. */
#define NET_SPLIT_USED_BYTES (NET_SPLIT_CREDIT_BYTES / 4)

/* The pipes. A power of two, and a multiple of what stands below. */
#define NET_SPLIT_EVENTS_BYTES (1024u * 1024)
#define NET_SPLIT_COMMANDS_BYTES (2 * 1024u * 1024)

/*
 * Room in `events` without which the stack half takes no event, so that the longest one and, after
 * it, everything below fits; and without which it takes no command, for a command may put in one
 * RELEASED. What is left is for references whose frames have gone out (NET_STACK_HELD_MAX).
 */
#define NET_SPLIT_ROOM_EVENT (NET_SPLIT_CREDIT_BYTES + 64u * 1024)
#define NET_SPLIT_ROOM_COMMAND (32u * 1024)

/*
 * Room in `commands` below which sessions stop: what a session is in the middle of when it is told
 * so has to fit, as in NET_STACK_SEND_QUEUE_BYTES.
 */
#define NET_SPLIT_ROOM_REPLIES (512u * 1024)

/* Bytes queued on a connection from which on the session half asks how many are acknowledged. */
#define NET_SPLIT_WATCH_BYTES (32u * 1024)

/* Records of `events` are events of the stack, by their own numbers, and this. */
enum { NET_SPLIT_DRAINED = 64 }; /* value: bytes acknowledged since the last of these */

/* Records of `commands`. */
enum net_split_command {
    NET_SPLIT_SEND = 1, /* the bytes that follow */
    NET_SPLIT_SEND_REF, /* value bytes at pointer; the cookie follows */
    NET_SPLIT_CLOSE,
    NET_SPLIT_ABORT,
    NET_SPLIT_USED,     /* value: received bytes that the session is done with */
    NET_SPLIT_WATCH,    /* to be told when half of what is queued is acknowledged */
    NET_SPLIT_FREE,     /* the last command for this link */
    NET_SPLIT_DATAGRAM, /* struct us_datagram and the payload follow: to be sent to its remote */
    NET_SPLIT_END       /* no session is left: reset all connections, release all references */
};

enum net_split_counter {
    /* Written by the stack half. */
    NET_SPLIT_EVENTS = 0,
    NET_SPLIT_EVENTS_FULL, /* times the stack had to wait for room in `events` */
    NET_SPLIT_HELD_BACK,   /* times input stayed in the stack for lack of credit */
    NET_SPLIT_LINKS_NONE,  /* connections reset because no link was free */
    NET_SPLIT_SESSION_WAKES,
    /* Written by the session half. */
    NET_SPLIT_COMMANDS,
    NET_SPLIT_COMMANDS_FULL, /* times all sessions were stopped for lack of room in `commands` */
    NET_SPLIT_STACK_WAKES,
    NET_SPLIT_COUNTERS
};

/* Input that a blocked session does not want yet. */
struct net_kept {
    struct net_kept *next;
    uint32_t capacity;
    uint32_t len;
    uint8_t bytes[];
};

/* What the session half still has to say of a link. */
enum net_split_todo {
    NET_SPLIT_TODO_CLOSE = 1 << 0,
    NET_SPLIT_TODO_ABORT = 1 << 1,
    NET_SPLIT_TODO_USED = 1 << 2,
    NET_SPLIT_TODO_WATCH = 1 << 3,
    NET_SPLIT_TODO_FREE = 1 << 4
};

/* A connection as both halves know it. */
struct net_link {
    /* The stack half's. */
    _Alignas(U_LINE_BYTES) struct us_conn *us; /* null behind its CLOSED event */
    struct u_list list;                        /* free, watched, or none */
    uint32_t credit_used;                      /* bytes of NET_SPLIT_CREDIT_BYTES */
    uint32_t queued_seen; /* queued when the session half was last told, and sent since */
    uint32_t watch_bytes; /* it is told when so many are queued */
    bool held;            /* us_recv_keep() was called, us_recv_resume() not yet */
    bool watched;
    struct us_conn_info info; /* written before ACCEPTED, not changed any more */

    /* The session half's. */
    _Alignas(U_LINE_BYTES) void *user;
    struct u_list todo_link;
    struct u_list ready_link; /* resumed, not delivered again yet */
    struct net_kept *kept;
    uint32_t todo;
    uint32_t queued;    /* bytes sent that are not known to be acknowledged */
    int32_t unreported; /* bytes used that the stack half was not told of */
    bool keeping;       /* net_port_recv_keep() was called, net_port_recv_resume() not yet */
    bool watching;      /* WATCH was said, DRAINED has not come */
    bool ended;         /* the peer's end has come, but what was kept has to go first */
};

enum net_split_state { NET_SPLIT_IDLE = 0, NET_SPLIT_RUNS, NET_SPLIT_OVER };

struct net_split {
    struct net_stack_worker *stack; /* the halves */
    struct net_stack_worker *sessions;
    struct net_pipe *events;
    struct net_pipe *commands;
    struct net_link *links;
    uint32_t link_count;
    enum net_threading threading;
    atomic_uint open; /* halves that are not closed yet */

    /* The stack half's. */
    struct u_list free_links;
    uint32_t links_used; /* that were ever in use */
    struct u_list watched;
    uint32_t watched_count;
    uint32_t watch_checks; /* of these still due after the last frames */
    unsigned rx_count;     /* frames in stack->rx[], of which so many are the stack's already */
    unsigned rx_done;
    bool full;  /* events wait for room */
    bool ended; /* END has come */

    /* The session half's. */
    struct u_list todo;
    struct u_list ready;
    struct net_kept *lent; /* delivered again, not dealt with yet */
    uint64_t kept_bytes;
    uint64_t refs;               /* references sent and not released */
    struct net_record *reserved; /* open in `commands` */
    bool congested;
    bool end_due;
    int wake_fd;

    _Alignas(U_LINE_BYTES) _Atomic int stack_state; /* enum net_split_state */
    _Atomic int sessions_state;
    _Atomic uint64_t buffer_used; /* of the stack's pool */
    struct net_counter counters[NET_SPLIT_COUNTERS];
};

static inline void net_split_count(struct net_split *split, enum net_split_counter counter,
                                   uint64_t n)
{
    net_counter_add(&split->counters[counter], n);
}

/* ---- split.c ----------------------------------------------------------------------------- */

/* Of one half; the second call frees both. */
void net_split_close(struct net_split *split);

/* ---- split_stack.c ----------------------------------------------------------------------- */

extern const struct net_worker_ops net_split_stack_ops;

/* One loop without waiting; returns whether anything happened. */
bool net_split_stack_turn(struct net_split *split, uint64_t now_us);

/* The last calls: all connections are reset; what is left in `commands` is of no use any more. */
void net_split_stack_end(struct net_split *split, uint64_t now_us);

/*
 * Tells of a reference: that it is no more among the link's, if there is a link, and that its
 * cookie is to go back to the cache, if there is a cookie.
 */
void net_split_released(struct net_split *split, struct net_link *link, void *cookie);

/* ---- split_sessions.c -------------------------------------------------------------------- */

extern const struct net_worker_ops net_split_sessions_ops;

/* As net_stack_begin(), net_stack_turn(). */
int net_split_sessions_begin(struct net_split *split);
bool net_split_sessions_turn(struct net_split *split, uint64_t now_us);

/* Resets what is left, and says so to the stack half. Then turns until is_over. */
void net_split_sessions_abort(struct net_split *split);
bool net_split_sessions_is_over(const struct net_split *split);
void net_split_sessions_end(struct net_split *split);

/* A datagram in answer to `request`. Returns US_OK, or US_ERR_FULL: it is lost. */
int net_split_send_datagram(struct net_split *split, const struct us_datagram *request,
                            const void *data, uint32_t len);

#endif
