/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker of two threads, for --threading=split and merge (docs/threading.md): the TCP/IP stack on
 * one, the application on the other. Both run the loop of stack_worker.c.
 *
 *   stack side         split_stack.c: takes the place of the application in the stack's thread and
 *                      passes events and commands on
 *   application side   split_app.c: takes the place of the stack in the application's thread,
 *                      behind port.h
 *
 * Each side is a struct net_stack_worker of which it uses its part. They share struct net_split and
 * two rings:
 *
 *   events      stack -> application: what us_next_event() gives, with the received bytes
 *   commands    application -> stack: bytes to send, and operations on connections
 *
 * Invariants:
 *   - The application side never waits for the stack side: it takes every event that there is. A
 *     command that finds no room stays in its link as `pending`. So the stack side may wait for
 *     room in `events` without a deadlock.
 *   - A link belongs to one connection from ACCEPTED or net_stack_connect() until FREE, the
 *     application side's last command for it. So neither side sees the next connection too early.
 *   - The bytes of a link that are in `events` or not yet used by the application never exceed
 *     NET_SPLIT_CREDIT_BYTES. Further bytes stay in the stack, which closes the window.
 */
#ifndef NET_SPLIT_H
#define NET_SPLIT_H

#include <string.h>

#include "net/spsc_ring.h"
#include "net/stack_worker.h"

/* Received bytes of a connection on their way to the application. */
#define NET_SPLIT_CREDIT_BYTES (64u * 1024)

/* The application side reports used bytes to the stack side from this number on. */
#define NET_SPLIT_USED_BYTES (NET_SPLIT_CREDIT_BYTES / 4)

/* The rings. Powers of two, and multiples of the bounds below. */
#define NET_SPLIT_EVENTS_BYTES (1024u * 1024)
#define NET_SPLIT_COMMANDS_BYTES (2 * 1024u * 1024)

/*
 * Room in `events` that the stack side needs to take an event, so that the longest event and all
 * records below fit; and to take a command, which may cause one RELEASED. The remainder is for
 * references that transmitted frames release (NET_STACK_HELD_MAX).
 */
#define NET_SPLIT_ROOM_EVENT (NET_SPLIT_CREDIT_BYTES + 64u * 1024)
#define NET_SPLIT_ROOM_COMMAND (32u * 1024)

/*
 * Room in `commands` below which the application has to stop sending. The reply that it is writing
 * at that moment has to fit, as in NET_STACK_SEND_QUEUE_BYTES.
 */
#define NET_SPLIT_ROOM_REPLIES (512u * 1024)

/* Bytes queued on a connection from which on the application side requests DRAINED. */
#define NET_SPLIT_WATCH_BYTES (32u * 1024)

/*
 * Bytes of the stack's pool that the application side leaves free because it learns of their use
 * late, up to half of what is shared: replies in `commands` take up to two blocks for each block's
 * bytes.
 */
#define NET_SPLIT_UNSEEN_BYTES (3 * NET_SPLIT_COMMANDS_BYTES)

/* Records of `events` have the type of the stack's event, or this one. */
enum { NET_SPLIT_DRAINED = 64 }; /* value: bytes acknowledged since the last DRAINED */

/* Records of `commands`. */
enum net_split_command {
    NET_SPLIT_SEND = 1, /* the bytes that follow */
    NET_SPLIT_SEND_REF, /* value bytes at pointer; the cookie follows */
    NET_SPLIT_CLOSE,
    NET_SPLIT_ABORT,
    NET_SPLIT_USED,     /* value: received bytes that the application has used */
    NET_SPLIT_WATCH,    /* send DRAINED when half of the queued bytes are acknowledged */
    NET_SPLIT_FREE,     /* the last command for this link */
    NET_SPLIT_DATAGRAM, /* struct us_datagram of the request and the payload of a reply follow */
    NET_SPLIT_END       /* the application ends: reset all connections, release all references */
};

enum net_split_counter {
    /* Written by the stack side. */
    NET_SPLIT_EVENTS = 0,
    NET_SPLIT_EVENTS_FULL,      /* times the stack had to wait for room in `events` */
    NET_SPLIT_CREDIT_EXHAUSTED, /* times input stayed in the stack for lack of credit */
    NET_SPLIT_LINKS_NONE,       /* connections reset because no link was free */
    NET_SPLIT_SESSION_WAKES,
    /* Written by the application side. */
    NET_SPLIT_COMMANDS,
    NET_SPLIT_COMMANDS_FULL, /* times sending stopped for lack of room in `commands` */
    NET_SPLIT_STACK_WAKES,
    NET_SPLIT_COUNTERS
};

/* Received bytes that the application has given back (net_port_recv_keep()). */
struct net_kept_input {
    struct net_kept_input *next;
    uint32_t capacity;
    uint32_t len;
    uint8_t bytes[];
};

/* Commands of a link that are not in the ring yet. */
enum net_split_pending {
    NET_SPLIT_PENDING_CLOSE = 1 << 0,
    NET_SPLIT_PENDING_ABORT = 1 << 1,
    NET_SPLIT_PENDING_USED = 1 << 2,
    NET_SPLIT_PENDING_WATCH = 1 << 3,
    NET_SPLIT_PENDING_FREE = 1 << 4
};

/* A connection as both sides know it. */
struct net_split_link {
    /* The stack side's. */
    _Alignas(U_CACHE_LINE_BYTES) struct us_conn *us; /* null after its CLOSED event */
    struct u_list list;                              /* on free_links, watched, or on no list */
    uint32_t credit_used;                            /* bytes of NET_SPLIT_CREDIT_BYTES */
    uint32_t queued_seen; /* bytes queued at the last DRAINED, plus those sent since */
    uint32_t watch_bytes; /* DRAINED is due when no more than this is queued */
    bool held;            /* us_recv_keep() was called, us_recv_resume() not yet */
    bool watched;
    struct us_conn_info info; /* written before the link's first event, constant afterwards */

    /* The application side's. */
    _Alignas(U_CACHE_LINE_BYTES) void *user;
    struct u_list pending_link;
    struct u_list ready_link; /* resumed, not delivered again yet */
    struct net_kept_input *kept;
    uint32_t pending;   /* enum net_split_pending, a set */
    uint32_t queued;    /* bytes sent that are not known to be acknowledged */
    int32_t unreported; /* bytes used that the stack side does not know of */
    bool keeping;       /* net_port_recv_keep() was called, net_port_recv_resume() not yet */
    bool watching;      /* WATCH was requested, DRAINED has not come */
    bool peer_closed;   /* the peer has closed behind the kept input */
};

enum net_split_state { NET_SPLIT_NOT_STARTED = 0, NET_SPLIT_RUNNING, NET_SPLIT_ENDED };

struct net_split {
    struct net_stack_worker *stack; /* the two sides */
    struct net_stack_worker *app;
    struct net_ring *events;
    struct net_ring *commands;
    struct net_split_link *links;
    uint32_t link_count;
    enum net_threading threading;
    atomic_uint open; /* sides that are not closed yet */

    /* The stack side's. */
    struct u_list free_links;
    uint32_t links_used; /* that were ever in use */
    struct u_list watched;
    uint32_t watched_count;
    uint32_t watch_checks; /* of these still due after the last frames */
    bool ended;            /* END has come */

    /* The application side's. */
    struct u_list pending;
    struct u_list ready;
    struct net_kept_input *delivered; /* in events that the application is handling */
    uint64_t kept_bytes;
    uint64_t refs;                    /* references sent and not released */
    struct net_ring_record *reserved; /* open in `commands` */
    bool congested;
    bool end_due;    /* END is to be put in after all pending commands */
    bool end_posted; /* net_split_post_end() was called */
    int wake_fd;

    _Alignas(U_CACHE_LINE_BYTES) _Atomic int app_state; /* enum net_split_state */
    _Atomic uint64_t buffer_used;                       /* of the stack's pool */
    struct net_counter counters[NET_SPLIT_COUNTERS];
};

static inline void net_split_count(struct net_split *split, enum net_split_counter counter,
                                   uint64_t n)
{
    net_counter_add(&split->counters[counter], n);
}

/* ---- split_stack.c ----------------------------------------------------------------------- */

/* The application of the stack side. */
extern const struct net_app_ops net_split_forward_ops;

/*
 * Passes a released reference on: one less of the link's, if link is not null, and the cookie for
 * the application, if it is not null.
 */
void net_split_released(struct net_split *split, struct net_split_link *link, void *cookie);

/* net_stack_connect() of the stack side. */
int net_split_connect(struct net_split *split, const struct us_addr *addr, uint16_t port);

/* ---- split_app.c: the calls of port.h ---------------------------------------------------- */

bool net_split_next_event(struct net_stack_worker *worker, struct us_event *ev);
void net_split_flush(struct net_stack_worker *worker);
bool net_split_is_congested(struct net_split *split);
uint8_t *net_split_reserve(struct net_split *split, struct net_split_link *link, uint32_t want,
                           u_u32 *room);
void net_split_commit(struct net_split *split, struct net_split_link *link, uint32_t used);
uint32_t net_split_send(struct net_split *split, struct net_split_link *link, const void *data,
                        uint32_t len);
int net_split_send_ref(struct net_split *split, struct net_split_link *link, const void *data,
                       uint32_t len, void *cookie);
bool net_split_send_datagram(struct net_split *split, const struct us_datagram *request,
                             const void *data, uint32_t len);
int net_split_recv_keep(struct net_split *split, struct net_split_link *link, const uint8_t *data,
                        uint32_t len);
void net_split_recv_resume(struct net_split *split, struct net_split_link *link);

/* Adds commands (enum net_split_pending, a set) for a link; net_split_flush() puts them in. */
void net_split_post(struct net_split *split, struct net_split_link *link, uint32_t commands);

/* Posts END, once; it follows all commands that are pending. */
void net_split_post_end(struct net_split *split);

static inline struct net_split_link *net_split_link_of(struct us_conn *us)
{
    return (struct net_split_link *)us;
}

static inline uint32_t net_split_queued(struct net_split *split, struct net_split_link *link,
                                        bool watch)
{
    if (watch && link->queued > 0 && !link->watching)
        net_split_post(split, link, NET_SPLIT_PENDING_WATCH);
    return link->queued;
}

#endif
