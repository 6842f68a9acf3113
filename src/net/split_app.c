/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The application side of a two-thread worker: the calls of port.h, made on the rings of split.h.
 *
 * Bytes to send go straight into the ring. Other commands are collected in the connection's link
 * and put in by net_split_flush() when there is room, so that taking an event never needs any.
 */
#include <string.h>

#include "net/split.h"

/* Bytes of one SEND record that a reply is written into; a longer reply opens the next. */
#define SEND_BYTES_MAX 4096

#define KEPT_BYTES_MIN 4096

/* All pending commands of a link. */
#define PENDING_BYTES (5 * (uint32_t)sizeof(struct net_ring_record))

/* ---- kept input -------------------------------------------------------------------------- */

/* Appends input to what a link keeps. Returns 0 or -1. */
static int keep(struct net_split *split, struct net_split_link *link, const uint8_t *data,
                uint32_t len)
{
    struct net_kept_input *kept = link->kept;
    uint32_t have = kept ? kept->len : 0;
    uint32_t capacity = kept ? kept->capacity : KEPT_BYTES_MIN;

    while (capacity < have + len)
        capacity *= 2;
    if (!kept || capacity > kept->capacity) {
        kept = realloc(kept, sizeof(*kept) + capacity);
        if (!kept)
            return -1;
        split->kept_bytes += capacity - (link->kept ? kept->capacity : 0);
        kept->capacity = capacity;
        link->kept = kept;
    }
    memcpy(kept->bytes + have, data, len);
    kept->len = have + len;
    return 0;
}

/* Takes what the link keeps, or null. It is freed after this batch of events. */
static struct net_kept_input *take_kept(struct net_split *split, struct net_split_link *link)
{
    struct net_kept_input *kept = link->kept;

    if (!kept)
        return NULL;
    link->kept = NULL;
    kept->next = split->delivered;
    split->delivered = kept;
    return kept;
}

int net_split_recv_keep(struct net_split *split, struct net_split_link *link, const uint8_t *data,
                        uint32_t len)
{
    U_ASSERT(len > 0 && len <= NET_SPLIT_CREDIT_BYTES);
    if (keep(split, link, data, len) < 0)
        return US_ERR_NO_MEMORY;
    link->keeping = true;
    link->unreported -= (int32_t)len;
    return US_OK;
}

void net_split_recv_resume(struct net_split *split, struct net_split_link *link)
{
    link->keeping = false;
    if ((link->kept || link->peer_closed) && u_list_is_empty(&link->ready_link))
        u_list_push_back(&split->ready, &link->ready_link);
}

/* ---- events ------------------------------------------------------------------------------ */

/* Bytes for the application. They count as used unless it gives them back. */
static void fill_data(struct net_split *split, struct net_split_link *link, struct us_event *ev,
                      const uint8_t *data, uint32_t len)
{
    ev->type = US_EV_DATA;
    ev->data = data;
    ev->len = len;
    link->unreported += (int32_t)len;
    if (link->unreported >= (int32_t)NET_SPLIT_USED_BYTES)
        net_split_post(split, link, NET_SPLIT_PENDING_USED);
}

/*
 * The next event of a resumed link: what it keeps, then the peer's close behind it. Returns false
 * if there is none, which also holds if the application keeps input again.
 */
static bool fill_ready(struct net_split *split, struct us_event *ev)
{
    struct net_split_link *link =
        U_CONTAINER_OF(split->ready.next, struct net_split_link, ready_link);
    const struct net_kept_input *kept = link->keeping ? NULL : take_kept(split, link);

    *ev = (struct us_event){.conn = (struct us_conn *)link, .user = link->user};
    if (!kept || !link->peer_closed)
        u_list_remove(&link->ready_link);
    if (kept) {
        fill_data(split, link, ev, kept->bytes, kept->len);
        return true;
    }
    if (link->keeping || !link->peer_closed)
        return false;
    link->peer_closed = false;
    ev->type = US_EV_PEER_CLOSED;
    return true;
}

/* Input behind kept input is kept too. Returns whether there is an event. */
static bool fill_input(struct net_stack_worker *worker, const struct net_ring_record *record,
                       struct us_event *ev)
{
    struct net_split *split = worker->split;
    struct net_split_link *link = record->link;

    if (!link->keeping) {
        fill_data(split, link, ev, (const uint8_t *)(record + 1), record->len);
        return true;
    }
    if (keep(split, link, (const uint8_t *)(record + 1), record->len) < 0) {
        net_stack_count(worker, NET_STACK_ABORTED_KEPT, 1);
        net_split_post(split, link, NET_SPLIT_PENDING_ABORT);
    }
    return false;
}

static void fill_closed(struct net_split *split, struct net_split_link *link,
                        const struct net_ring_record *record, struct us_event *ev)
{
    ev->reason = (enum us_close_reason)record->value;
    take_kept(split, link);
    u_list_remove(&link->ready_link);
    link->pending &= ~(uint32_t)(NET_SPLIT_PENDING_USED | NET_SPLIT_PENDING_WATCH);
    net_split_post(split, link, NET_SPLIT_PENDING_FREE);
}

/* Turns a record into an event. Returns false if the application need not see it. */
static bool fill_event(struct net_stack_worker *worker, const struct net_ring_record *record,
                       struct us_event *ev)
{
    struct net_split *split = worker->split;
    struct net_split_link *link = record->link;

    if (record->type == NET_SPLIT_DRAINED) {
        link->queued -= u_min32(link->queued, record->value);
        link->watching = false;
        return false;
    }
    *ev = (struct us_event){.type = (enum us_event_type)record->type,
                            .conn = (struct us_conn *)link,
                            .user = link ? link->user : NULL};
    switch (ev->type) {
    case US_EV_DATA:
        return fill_input(worker, record, ev);
    case US_EV_PEER_CLOSED:
        link->peer_closed = link->keeping;
        return !link->keeping;
    case US_EV_RELEASED:
        ev->cookie = (void *)record->pointer;
        split->refs -= ev->cookie != NULL;
        return true;
    case US_EV_CLOSED:
        fill_closed(split, link, record, ev);
        return true;
    case US_EV_DATAGRAM:
        ev->datagram = (const struct us_datagram *)(record + 1);
        ev->data = (const uint8_t *)(record + 1) + sizeof(*ev->datagram);
        ev->len = record->len - (uint32_t)sizeof(*ev->datagram);
        return true;
    default:
        return true;
    }
}

bool net_split_next_event(struct net_stack_worker *worker, struct us_event *ev)
{
    struct net_split *split = worker->split;
    const struct net_ring_record *record;

    for (;;) {
        if (!u_list_is_empty(&split->ready)) {
            if (fill_ready(split, ev))
                return true;
            continue;
        }
        record = net_ring_take(split->events);
        if (!record)
            return false;
        worker->active = true;
        if (fill_event(worker, record, ev))
            return true;
    }
}

/* ---- commands ---------------------------------------------------------------------------- */

bool net_split_is_congested(struct net_split *split)
{
    if (net_ring_has_room(split->commands, NET_SPLIT_ROOM_REPLIES))
        return false;
    if (!split->congested)
        net_split_count(split, NET_SPLIT_COMMANDS_FULL, 1);
    split->congested = true;
    return true;
}

/* Ends a record of `len` bytes that puts `queued` bytes into the link's send queue. */
static void commit(struct net_split *split, struct net_ring_record *record,
                   enum net_split_command type, uint32_t len, uint32_t queued)
{
    struct net_split_link *link = record->link;

    net_ring_commit(split->commands, record, type, len);
    net_split_count(split, NET_SPLIT_COMMANDS, 1);
    if (queued == 0)
        return;
    link->queued += queued;
    if (link->queued >= NET_SPLIT_WATCH_BYTES && !link->watching)
        net_split_post(split, link, NET_SPLIT_PENDING_WATCH);
}

uint8_t *net_split_reserve(struct net_split *split, struct net_split_link *link, uint32_t want,
                           u_u32 *room)
{
    U_ASSERT(split->reserved == NULL);
    split->reserved = net_ring_reserve(split->commands, want, u_max32(want, SEND_BYTES_MAX), room);
    if (!split->reserved)
        return NULL;
    split->reserved->link = link;
    return (uint8_t *)(split->reserved + 1);
}

void net_split_commit(struct net_split *split, struct net_split_link *link, uint32_t used)
{
    U_ASSERT(split->reserved != NULL && split->reserved->link == link);
    if (used > 0)
        commit(split, split->reserved, NET_SPLIT_SEND, used, used);
    split->reserved = NULL;
}

uint32_t net_split_send(struct net_split *split, struct net_split_link *link, const void *data,
                        uint32_t len)
{
    u_u32 room;
    uint8_t *to = net_split_reserve(split, link, len, &room);

    if (!to)
        return 0;
    memcpy(to, data, len);
    net_split_commit(split, link, len);
    return len;
}

int net_split_send_ref(struct net_split *split, struct net_split_link *link, const void *data,
                       uint32_t len, void *cookie)
{
    uint32_t room;
    struct net_ring_record *record =
        net_ring_reserve(split->commands, sizeof(cookie), sizeof(cookie), &room);

    U_ASSERT(split->reserved == NULL);
    if (!record)
        return -1;
    record->link = link;
    record->value = len;
    record->pointer = (uintptr_t)data;
    memcpy(record + 1, &cookie, sizeof(cookie));
    split->refs += cookie != NULL;
    commit(split, record, NET_SPLIT_SEND_REF, sizeof(cookie), len);
    return 1;
}

bool net_split_send_datagram(struct net_split *split, const struct us_datagram *request,
                             const void *data, uint32_t len)
{
    uint32_t room, bytes = (uint32_t)sizeof(*request) + len;
    struct net_ring_record *record;

    if (net_split_is_congested(split))
        return false;
    record = net_ring_reserve(split->commands, bytes, bytes, &room);
    U_ASSERT(record != NULL);
    memcpy(record + 1, request, sizeof(*request));
    memcpy((uint8_t *)(record + 1) + sizeof(*request), data, len);
    record->link = NULL;
    commit(split, record, NET_SPLIT_DATAGRAM, bytes, 0);
    return true;
}

void net_split_post(struct net_split *split, struct net_split_link *link, uint32_t commands)
{
    if (u_list_is_empty(&link->pending_link))
        u_list_push_back(&split->pending, &link->pending_link);
    link->pending |= commands;
    if (commands & NET_SPLIT_PENDING_WATCH)
        link->watching = true;
}

void net_split_post_end(struct net_split *split)
{
    split->end_due = !split->end_posted;
    split->end_posted = true;
}

static void put(struct net_split *split, struct net_split_link *link, enum net_split_command type,
                uint32_t value)
{
    uint32_t room;
    struct net_ring_record *record = net_ring_reserve(split->commands, 0, 0, &room);

    U_ASSERT(record != NULL && split->reserved == NULL);
    record->link = link;
    record->value = value;
    commit(split, record, type, 0, 0);
}

/* FREE is the last command: after it the link may belong to another connection. */
static void put_pending(struct net_split *split, struct net_split_link *link)
{
    uint32_t pending = link->pending;

    link->pending = 0;
    if (pending & NET_SPLIT_PENDING_ABORT)
        put(split, link, NET_SPLIT_ABORT, 0);
    if (pending & NET_SPLIT_PENDING_CLOSE)
        put(split, link, NET_SPLIT_CLOSE, 0);
    if ((pending & NET_SPLIT_PENDING_USED) && link->unreported >= (int32_t)NET_SPLIT_USED_BYTES) {
        put(split, link, NET_SPLIT_USED, (uint32_t)link->unreported);
        link->unreported = 0;
    }
    if (pending & NET_SPLIT_PENDING_WATCH)
        put(split, link, NET_SPLIT_WATCH, 0);
    if (pending & NET_SPLIT_PENDING_FREE)
        put(split, link, NET_SPLIT_FREE, 0);
}

static void publish(struct net_split *split)
{
    if (!net_ring_publish(split->commands) || !net_ring_must_wake(split->commands))
        return;
    net_split_count(split, NET_SPLIT_STACK_WAKES, 1);
    nic_wake(split->stack->nic);
}

void net_split_flush(struct net_stack_worker *worker)
{
    struct net_split *split = worker->split;
    struct net_kept_input *kept;

    while ((kept = split->delivered) != NULL) {
        split->delivered = kept->next;
        split->kept_bytes -= kept->capacity;
        free(kept);
    }
    net_ring_release(split->events);
    while (!u_list_is_empty(&split->pending) && net_ring_has_room(split->commands, PENDING_BYTES))
        put_pending(split, U_CONTAINER_OF(u_list_pop_front(&split->pending), struct net_split_link,
                                          pending_link));
    if (split->end_due && u_list_is_empty(&split->pending) &&
        net_ring_has_room(split->commands, PENDING_BYTES)) {
        split->end_due = false;
        put(split, NULL, NET_SPLIT_END, 0);
    }
    publish(split);
    if (split->congested && net_ring_has_room(split->commands, 2 * NET_SPLIT_ROOM_REPLIES)) {
        split->congested = false;
        worker->active = true; /* connections that stopped for it can send again */
        worker->blocked_checks = worker->blocked_count;
    }
    worker->active = worker->active || !u_list_is_empty(&split->ready);
    worker->tx_stalled = split->congested || split->end_due || !u_list_is_empty(&split->pending);
}
