/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stack side of a two-thread worker: an application that passes the stack's events into one
 * ring and applies the commands of the other.
 *
 * It takes events from the stack only while the ring has room for them (worker->events_left). Until
 * the application side has caught up, the loop keeps the received frames and receives no more;
 * commands are still applied.
 */
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>

#include "net/split.h"

/* Watched connections looked at, and commands applied, per turn. */
#define WATCH_BATCH 32
#define COMMANDS_MAX 4096

/* ---- events ------------------------------------------------------------------------------ */

static void publish(struct net_split *split)
{
    if (!net_ring_publish(split->events) || !net_ring_must_wake(split->events))
        return;
    net_split_count(split, NET_SPLIT_SESSION_WAKES, 1);
    (void)eventfd_write(split->wake_fd, 1); /* fails only if the counter is at its maximum */
}

/* Puts a record with room for `len` bytes in. The caller has checked that the ring has room. */
static struct net_ring_record *put(struct net_split *split, uint32_t type,
                                   struct net_split_link *link, uint32_t len)
{
    uint32_t room;
    struct net_ring_record *record = net_ring_reserve(split->events, len, len, &room);

    U_ASSERT(record != NULL);
    record->link = link;
    record->value = 0;
    record->pointer = 0;
    net_ring_commit(split->events, record, type, len);
    return record;
}

void net_split_released(struct net_split *split, struct net_split_link *link, void *cookie)
{
    put(split, US_EV_RELEASED, link, 0)->pointer = (uintptr_t)cookie;
}

static void link_unwatch(struct net_split *split, struct net_split_link *link)
{
    if (!link->watched)
        return;
    link->watched = false;
    u_list_remove(&link->list);
    split->watched_count--;
}

/* A link for a new connection, or null. */
static struct net_split_link *link_new(struct net_split *split)
{
    struct u_list *list = u_list_pop_front(&split->free_links);
    struct net_split_link *link;

    if (list)
        link = U_CONTAINER_OF(list, struct net_split_link, list);
    else if (split->links_used < split->link_count)
        link = &split->links[split->links_used++];
    else
        return NULL;
    memset(link, 0, sizeof(*link));
    u_list_init(&link->list);
    u_list_init(&link->pending_link);
    u_list_init(&link->ready_link);
    return link;
}

/* Without a link the connection is reset, and its further events have no user. */
static void forward_accepted(struct net_split *split, struct us_conn *us)
{
    struct us_stack *stack = split->stack->stack;
    struct net_split_link *link = split->ended ? NULL : link_new(split);

    us_conn_set_user(us, link);
    if (!link) {
        if (!split->ended)
            net_split_count(split, NET_SPLIT_LINKS_NONE, 1);
        us_abort(stack, us);
        return;
    }
    link->us = us;
    us_conn_get_info(stack, us, &link->info);
    put(split, US_EV_ACCEPTED, link, 0);
}

/* Passes on as much as the link has credit for; the stack keeps the remainder. */
static void forward_data(struct net_split *split, struct net_split_link *link,
                         const struct us_event *ev)
{
    struct net_stack_worker *worker = split->stack;
    uint32_t len = u_min32(ev->len, NET_SPLIT_CREDIT_BYTES - link->credit_used);

    if (len > 0)
        memcpy(put(split, US_EV_DATA, link, len) + 1, ev->data, len);
    U_ASSERT(link->credit_used + len <= NET_SPLIT_CREDIT_BYTES);
    link->credit_used += len;
    if (len == ev->len)
        return;
    if (!link->held)
        net_split_count(split, NET_SPLIT_CREDIT_EXHAUSTED, 1);
    link->held = true;
    if (us_recv_keep(worker->stack, ev->conn, ev->data + len, ev->len - len) == US_OK)
        return;
    net_stack_count(worker, NET_STACK_ABORTED_KEPT, 1);
    us_abort(worker->stack, ev->conn);
}

int net_split_connect(struct net_split *split, const struct us_addr *addr, uint16_t port)
{
    struct net_split_link *link = link_new(split);
    int error = US_ERR_NO_MEMORY;

    if (!link)
        return error;
    link->us = us_connect(split->stack->stack, addr, port, 0, link, &error);
    if (link->us)
        us_conn_get_info(split->stack->stack, link->us, &link->info);
    else
        u_list_push_front(&split->free_links, &link->list);
    return link->us ? US_OK : error;
}

static void forward_datagram(struct net_split *split, const struct us_event *ev)
{
    struct net_ring_record *record =
        put(split, US_EV_DATAGRAM, NULL, (uint32_t)sizeof(*ev->datagram) + ev->len);
    uint8_t *to = (uint8_t *)(record + 1);

    memcpy(to, ev->datagram, sizeof(*ev->datagram));
    memcpy(to + sizeof(*ev->datagram), ev->data, ev->len);
}

static void forward(struct net_split *split, const struct us_event *ev)
{
    struct net_split_link *link = ev->conn ? ev->user : NULL;

    switch (ev->type) {
    case US_EV_ACCEPTED:
        forward_accepted(split, ev->conn);
        break;
    case US_EV_DATA:
        if (link)
            forward_data(split, link, ev);
        break;
    case US_EV_PEER_CLOSED:
        if (link)
            put(split, US_EV_PEER_CLOSED, link, 0);
        break;
    case US_EV_RELEASED:
        if (link)
            net_split_released(split, link, NULL);
        if (ev->cookie)
            net_stack_release(split->stack, ev->cookie);
        break;
    case US_EV_CLOSED:
        if (!link)
            break;
        link_unwatch(split, link);
        link->us = NULL;
        put(split, US_EV_CLOSED, link, 0)->value = (uint32_t)ev->reason;
        break;
    case US_EV_DATAGRAM:
        forward_datagram(split, ev);
        break;
    case US_EV_CONNECTED:
        put(split, US_EV_CONNECTED, link, 0);
        break;
    case US_EV_SENDABLE: /* the application requests DRAINED instead */
    case US_EV_CWND:
    case US_EV_NONE:
        break;
    }
}

/* Passes events on while there is room for them. Returns how many. */
static unsigned pump(struct net_split *split)
{
    struct net_stack_worker *worker = split->stack;
    struct us_event ev;
    unsigned n = 0;

    for (;;) {
        worker->events_left = !net_ring_has_room(split->events, NET_SPLIT_ROOM_EVENT);
        if (worker->events_left || !us_next_event(worker->stack, &ev))
            break;
        forward(split, &ev);
        n++;
    }
    if (worker->events_left)
        net_split_count(split, NET_SPLIT_EVENTS_FULL, 1);
    if (n > 0) {
        net_split_count(split, NET_SPLIT_EVENTS, n);
        worker->active = true;
    }
    return n;
}

/* ---- commands ---------------------------------------------------------------------------- */

/* Resets a connection whose reply cannot be queued as a whole. */
static void refuse(struct net_split *split, struct net_split_link *link)
{
    net_stack_count(split->stack, NET_STACK_ABORTED_FULL, 1);
    us_abort(split->stack->stack, link->us);
}

static void apply_send(struct net_split *split, struct net_split_link *link,
                       const struct net_ring_record *r)
{
    long sent;

    if (!link->us)
        return;
    sent = us_send(split->stack->stack, link->us, r + 1, r->len);
    if (sent == (long)r->len)
        link->queued_seen += r->len;
    else if (sent != US_ERR_STATE) /* in US_ERR_STATE a CLOSED event follows */
        refuse(split, link);
}

static void apply_send_ref(struct net_split *split, struct net_split_link *link,
                           const struct net_ring_record *r)
{
    struct us_stack *stack = split->stack->stack;
    const void *data = (const void *)r->pointer;
    void *cookie;
    int rc;

    memcpy(&cookie, r + 1, sizeof(cookie));
    if (!link->us) {
        net_split_released(split, NULL, cookie);
        return;
    }
    rc = us_send_ref(stack, link->us, data, r->value, cookie);
    if (rc == US_OK) {
        link->queued_seen += r->value;
        return;
    }
    if (rc != US_ERR_STATE && us_send_room(stack, link->us) >= r->value &&
        us_send(stack, link->us, data, r->value) == (long)r->value)
        link->queued_seen += r->value;
    else if (rc != US_ERR_STATE)
        refuse(split, link);
    net_split_released(split, link, cookie);
}

static void apply_used(struct net_split *split, struct net_split_link *link, uint32_t bytes)
{
    link->credit_used -= u_min32(link->credit_used, bytes);
    if (!link->held || !link->us || link->credit_used > NET_SPLIT_CREDIT_BYTES / 2)
        return;
    link->held = false;
    us_recv_resume(split->stack->stack, link->us);
}

static void apply_watch(struct net_split *split, struct net_split_link *link)
{
    if (!link->us || link->watched)
        return;
    link->watched = true;
    link->watch_bytes = link->queued_seen / 2;
    u_list_push_back(&split->watched, &link->list);
    split->watched_count++;
    split->watch_checks++;
}

static void apply_end(struct net_split *split)
{
    uint32_t i;

    split->ended = true;
    for (i = 0; i < split->links_used; i++) {
        if (split->links[i].us)
            us_abort(split->stack->stack, split->links[i].us);
    }
    if (split->stack->held_count > 0)
        net_stack_drop_unsent(split->stack);
}

static void apply_datagram(struct net_split *split, const struct net_ring_record *r)
{
    const uint8_t *bytes = (const uint8_t *)(r + 1);
    struct us_datagram request;

    memcpy(&request, bytes, sizeof(request));
    net_stack_send_datagram(split->stack, &request, bytes + sizeof(request),
                            r->len - (uint32_t)sizeof(request));
}

static void apply(struct net_split *split, const struct net_ring_record *r)
{
    struct net_split_link *link = r->link;

    switch ((enum net_split_command)r->type) {
    case NET_SPLIT_SEND:
        apply_send(split, link, r);
        break;
    case NET_SPLIT_SEND_REF:
        apply_send_ref(split, link, r);
        break;
    case NET_SPLIT_CLOSE:
        if (link->us)
            us_close(split->stack->stack, link->us);
        break;
    case NET_SPLIT_ABORT:
        if (link->us)
            us_abort(split->stack->stack, link->us);
        break;
    case NET_SPLIT_USED:
        apply_used(split, link, r->value);
        break;
    case NET_SPLIT_WATCH:
        apply_watch(split, link);
        break;
    case NET_SPLIT_FREE:
        u_list_push_front(&split->free_links, &link->list);
        break;
    case NET_SPLIT_DATAGRAM:
        apply_datagram(split, r);
        break;
    case NET_SPLIT_END:
        apply_end(split);
        break;
    }
}

static unsigned apply_commands(struct net_split *split)
{
    const struct net_ring_record *record;
    unsigned n = 0;

    while (n < COMMANDS_MAX && net_ring_has_room(split->events, NET_SPLIT_ROOM_COMMAND) &&
           (record = net_ring_take(split->commands)) != NULL) {
        apply(split, record);
        n++;
    }
    net_ring_release(split->commands);
    if (n > 0)
        split->stack->active = true;
    return n;
}

/* ---- acknowledgments --------------------------------------------------------------------- */

/* Reports DRAINED, once, when few enough bytes are queued. */
static void watch_one(struct net_split *split, struct net_split_link *link)
{
    uint32_t queued = us_send_queued(link->us);

    if (queued > link->watch_bytes)
        return;
    link_unwatch(split, link);
    put(split, NET_SPLIT_DRAINED, link, 0)->value = link->queued_seen - queued;
    link->queued_seen = queued;
}

/* Round robin over the watched links: any frame may have acknowledged bytes of any of them. */
static void watch(struct net_split *split)
{
    struct u_list *list;
    unsigned n;

    if (split->stack->active)
        split->watch_checks = split->watched_count;
    for (n = 0; n < WATCH_BATCH && split->watch_checks > 0 && split->watched_count > 0; n++) {
        if (!net_ring_has_room(split->events, NET_SPLIT_ROOM_COMMAND))
            return;
        split->watch_checks--;
        list = u_list_pop_front(&split->watched);
        u_list_push_back(&split->watched, list);
        watch_one(split, U_CONTAINER_OF(list, struct net_split_link, list));
    }
    if (split->watched_count == 0)
        split->watch_checks = 0;
}

/* ---- the application of the stack's thread ----------------------------------------------- */

/* The application gets the events before the stack applies its commands. */
static unsigned forward_events(struct net_stack_worker *worker)
{
    struct net_split *split = worker->split;
    unsigned n = pump(split);

    publish(split);
    if (apply_commands(split) > 0)
        n += pump(split);
    watch(split);
    publish(split);
    return n;
}

/* Also publishes the references of transmitted frames. */
static void forward_tick(struct net_stack_worker *worker)
{
    struct net_split *split = worker->split;

    publish(split);
    if (worker->active)
        atomic_store_explicit(&split->buffer_used,
                              us_counter(worker->stack, worker->buffer_used_index),
                              memory_order_relaxed);
    else if (split->threading == NET_THREADING_MERGE && !net_ring_is_drained(split->events))
        (void)sched_yield(); /* the application needs the core that both share */
}

static uint32_t forward_sleep_us_max(const struct net_stack_worker *worker)
{
    return worker->events_left || worker->split->watch_checks > 0 ? 0 : UINT32_MAX;
}

static bool forward_sleep_begin(struct net_stack_worker *worker)
{
    return net_ring_sleep_begin(worker->split->commands);
}

static void forward_sleep_end(struct net_stack_worker *worker)
{
    net_ring_sleep_end(worker->split->commands);
}

static void forward_release(struct net_stack_worker *worker, void *cookie)
{
    net_split_released(worker->split, NULL, cookie);
}

/* Whether the application's thread has ended. One that has not started never will. */
static bool forward_has_ended(const struct net_stack_worker *worker)
{
    int state = NET_SPLIT_NOT_STARTED;

    return atomic_compare_exchange_strong(&worker->split->app_state, &state, NET_SPLIT_ENDED) ||
           state == NET_SPLIT_ENDED;
}

/* The application closes its connections by itself: it is stopped together with the stack. */
static void forward_finish_all(struct net_stack_worker *worker)
{
}

/* Waits for the application's thread, which needs the stack to release its references. */
static void forward_abort_all(struct net_stack_worker *worker)
{
    struct net_split *split = worker->split;

    net_worker_stop(&split->app->worker);
    while (!forward_has_ended(worker)) {
        if (!net_stack_turn(worker, net_clock_us()))
            (void)sched_yield();
    }
    /* With no application left, records are dropped here, to make room. */
    while (net_ring_take(split->events) != NULL)
        continue;
    net_ring_release(split->events);
    apply_end(split);
}

static int forward_connect(struct net_stack_worker *worker)
{
    const struct net_app_ops *app = worker->split->app->app;

    return app->connect ? app->connect(worker) : 0;
}

const struct net_app_ops net_split_forward_ops = {
    .handle_events = forward_events,
    .tick = forward_tick,
    .sleep_us_max = forward_sleep_us_max,
    .sleep_begin = forward_sleep_begin,
    .sleep_end = forward_sleep_end,
    .release = forward_release,
    .finish_all = forward_finish_all,
    .abort_all = forward_abort_all,
    .has_ended = forward_has_ended,
    .connect = forward_connect,
};
