/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stack half of a worker: frames in, events to the sessions, their commands back, frames out.
 *
 * Events are taken from the stack only while there is room for them in the pipe. While there is
 * none, frames in hand are kept and no more are received, until the sessions have caught up; the
 * commands that they send meanwhile are obeyed.
 */
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>

#include "net/split.h"

/* Watched connections looked at, and commands obeyed, per loop. */
#define WATCH_BATCH 32
#define COMMANDS_MAX 4096

/* ---- events ------------------------------------------------------------------------------ */

static void publish(struct net_split *split)
{
    if (!net_pipe_publish(split->events) || !net_pipe_must_wake(split->events))
        return;
    net_split_count(split, NET_SPLIT_SESSION_WAKES, 1);
    (void)eventfd_write(split->wake_fd, 1); /* fails only if it is being woken already */
}

/* A record with `len` bytes behind it, which the caller has seen to be room for. */
static struct net_record *put(struct net_split *split, uint32_t type, struct net_link *link,
                              uint32_t len)
{
    uint32_t room;
    struct net_record *record = net_pipe_reserve(split->events, len, len, &room);

    U_ASSERT(record != NULL);
    record->link = link;
    record->value = 0;
    record->pointer = 0;
    net_pipe_commit(split->events, record, type, len);
    return record;
}

void net_split_released(struct net_split *split, struct net_link *link, void *cookie)
{
    put(split, US_EV_RELEASED, link, 0)->pointer = (uintptr_t)cookie;
}

static void link_unwatch(struct net_split *split, struct net_link *link)
{
    if (!link->watched)
        return;
    link->watched = false;
    u_list_remove(&link->list);
    split->watched_count--;
}

/* A link for a new connection, or null. */
static struct net_link *link_new(struct net_split *split)
{
    struct u_list *list = u_list_pop_front(&split->free_links);
    struct net_link *link;

    if (list)
        link = U_CONTAINER_OF(list, struct net_link, list);
    else if (split->links_used < split->link_count)
        link = &split->links[split->links_used++];
    else
        return NULL;
    memset(link, 0, sizeof(*link));
    u_list_init(&link->list);
    u_list_init(&link->todo_link);
    u_list_init(&link->ready_link);
    return link;
}

/* Where nobody can serve it, the connection is reset, and its further events have no user. */
static void forward_accepted(struct net_split *split, struct us_conn *us)
{
    struct us_stack *stack = split->stack->stack;
    struct net_link *link = split->ended ? NULL : link_new(split);

    us_conn_set_user(us, link);
    if (!link) {
        if (!split->ended)
            net_split_count(split, NET_SPLIT_LINKS_NONE, 1);
        us_abort(stack, us);
        return;
    }
    link->us = us;
    us_conn_info(stack, us, &link->info);
    put(split, US_EV_ACCEPTED, link, 0);
}

/* As much as the session has credit for; the rest stays in the stack. */
static void forward_data(struct net_split *split, struct net_link *link, const struct us_event *ev)
{
    struct net_stack_worker *worker = split->stack;
    uint32_t len = u_min32(ev->len, NET_SPLIT_CREDIT_BYTES - link->credit_used);
    uint64_t used;

    if (len > 0)
        memcpy(put(split, US_EV_DATA, link, len) + 1, ev->data, len);
    link->credit_used += len;
    if (len == ev->len)
        return;
    if (!link->held)
        net_split_count(split, NET_SPLIT_HELD_BACK, 1);
    link->held = true;
    used = us_counter(worker->stack, worker->buffer_used_index);
    if (net_stack_pool_free(worker, used) >= ev->len - len &&
        us_recv_keep(worker->stack, ev->conn, ev->data + len, ev->len - len) == US_OK)
        return;
    net_stack_count(worker, NET_STACK_ABORTED_KEPT, 1);
    us_abort(worker->stack, ev->conn);
}

static void forward_datagram(struct net_split *split, const struct us_event *ev)
{
    struct net_record *record =
        put(split, US_EV_DATAGRAM, NULL, (uint32_t)sizeof(*ev->datagram) + ev->len);
    uint8_t *to = (uint8_t *)(record + 1);

    memcpy(to, ev->datagram, sizeof(*ev->datagram));
    memcpy(to + sizeof(*ev->datagram), ev->data, ev->len);
}

static void forward(struct net_split *split, const struct us_event *ev)
{
    struct net_link *link = ev->conn ? ev->user : NULL;

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
    case US_EV_SENDABLE: /* the sessions look at what is queued by themselves */
    case US_EV_CONNECTED:
    case US_EV_NONE:
        break;
    }
}

/* Passes events on as long as there is room for them. Returns how many; sets split->full. */
static unsigned pump(struct net_split *split)
{
    struct us_event ev;
    unsigned n = 0;

    for (;;) {
        split->full = !net_pipe_has_room(split->events, NET_SPLIT_ROOM_EVENT);
        if (split->full || !us_next_event(split->stack->stack, &ev))
            break;
        forward(split, &ev);
        n++;
    }
    if (split->full)
        net_split_count(split, NET_SPLIT_EVENTS_FULL, 1);
    if (n > 0) {
        net_split_count(split, NET_SPLIT_EVENTS, n);
        split->stack->active = true;
    }
    return n;
}

/* ---- commands ---------------------------------------------------------------------------- */

/* Replies that cannot be queued end their connection, since a part of them may have been. */
static void refuse(struct net_split *split, struct net_link *link)
{
    net_stack_count(split->stack, NET_STACK_ABORTED_FULL, 1);
    us_abort(split->stack->stack, link->us);
}

static void obey_send(struct net_split *split, struct net_link *link, const struct net_record *r)
{
    long sent;

    if (!link->us)
        return;
    sent = us_send(split->stack->stack, link->us, r + 1, r->len);
    if (sent == (long)r->len)
        link->queued_seen += r->len;
    else if (sent != US_ERR_STATE) /* else CLOSED is on its way */
        refuse(split, link);
}

static void obey_send_ref(struct net_split *split, struct net_link *link,
                          const struct net_record *r)
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

static void obey_used(struct net_split *split, struct net_link *link, uint32_t bytes)
{
    link->credit_used -= u_min32(link->credit_used, bytes);
    if (!link->held || !link->us || link->credit_used > NET_SPLIT_CREDIT_BYTES / 2)
        return;
    link->held = false;
    us_recv_resume(split->stack->stack, link->us);
}

static void obey_watch(struct net_split *split, struct net_link *link)
{
    if (!link->us || link->watched)
        return;
    link->watched = true;
    link->watch_bytes = link->queued_seen / 2;
    u_list_push_back(&split->watched, &link->list);
    split->watched_count++;
    split->watch_checks++;
}

static void obey_end(struct net_split *split)
{
    uint32_t i;

    split->ended = true;
    for (i = 0; i < split->links_used; i++) {
        if (split->links[i].us)
            us_abort(split->stack->stack, split->links[i].us);
    }
    if (split->stack->held_count > 0)
        net_stack_give_up_unsent(split->stack);
}

static void obey_datagram(struct net_split *split, const struct net_record *r)
{
    const uint8_t *bytes = (const uint8_t *)(r + 1);
    struct us_datagram to;
    int rc;

    memcpy(&to, bytes, sizeof(to));
    rc = us_udp_send(split->stack->stack, &to.local, to.local_port, &to.remote, to.remote_port,
                     bytes + sizeof(to), r->len - (uint32_t)sizeof(to));
    net_stack_count(split->stack, rc == US_OK ? NET_STACK_UDP_SENT : NET_STACK_UDP_UNSENT, 1);
}

static void obey(struct net_split *split, const struct net_record *r)
{
    struct net_link *link = r->link;

    switch ((enum net_split_command)r->type) {
    case NET_SPLIT_SEND:
        obey_send(split, link, r);
        break;
    case NET_SPLIT_SEND_REF:
        obey_send_ref(split, link, r);
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
        obey_used(split, link, r->value);
        break;
    case NET_SPLIT_WATCH:
        obey_watch(split, link);
        break;
    case NET_SPLIT_FREE:
        u_list_push_front(&split->free_links, &link->list);
        break;
    case NET_SPLIT_DATAGRAM:
        obey_datagram(split, r);
        break;
    case NET_SPLIT_END:
        obey_end(split);
        break;
    }
}

static unsigned obey_all(struct net_split *split)
{
    const struct net_record *record;
    unsigned n = 0;

    while (n < COMMANDS_MAX && net_pipe_has_room(split->events, NET_SPLIT_ROOM_COMMAND) &&
           (record = net_pipe_take(split->commands)) != NULL) {
        obey(split, record);
        n++;
    }
    net_pipe_release(split->commands);
    if (n > 0)
        split->stack->active = true;
    return n;
}

/* ---- what is acknowledged ---------------------------------------------------------------- */

/* Tells of it if it is enough, and then no more until asked again. */
static void watch_one(struct net_split *split, struct net_link *link)
{
    uint32_t queued = us_send_queued(link->us);

    if (queued > link->watch_bytes)
        return;
    link_unwatch(split, link);
    put(split, NET_SPLIT_DRAINED, link, 0)->value = link->queued_seen - queued;
    link->queued_seen = queued;
}

/* Round robin: each frame that comes may have acknowledged something on each connection. */
static void watch(struct net_split *split)
{
    struct u_list *list;
    unsigned n;

    if (split->stack->active)
        split->watch_checks = split->watched_count;
    for (n = 0; n < WATCH_BATCH && split->watch_checks > 0 && split->watched_count > 0; n++) {
        if (!net_pipe_has_room(split->events, NET_SPLIT_ROOM_COMMAND))
            return;
        split->watch_checks--;
        list = u_list_pop_front(&split->watched);
        u_list_push_back(&split->watched, list);
        watch_one(split, U_CONTAINER_OF(list, struct net_link, list));
    }
    if (split->watched_count == 0)
        split->watch_checks = 0;
}

/* ---- the loop ---------------------------------------------------------------------------- */

/* Frames that gave events for which there is no room stay in hand. */
static void receive(struct net_split *split, uint64_t now_us)
{
    struct net_stack_worker *worker = split->stack;
    unsigned step, events;

    if (split->rx_count == 0) {
        split->rx_count = nic_rx_burst(worker->nic, worker->rx, NIC_BURST_MAX);
        net_stack_count(worker, NET_STACK_RX_FRAMES, split->rx_count);
        worker->active = worker->active || split->rx_count > 0;
    }
    pump(split); /* what there was no room for, and what the commands have brought about */
    while (!split->full) {
        step = us_input(worker->stack, worker->rx + split->rx_done,
                        split->rx_count - split->rx_done, now_us);
        split->rx_done += step;
        events = pump(split);
        if (split->full || split->rx_done == split->rx_count || (step == 0 && events == 0))
            break;
    }
    if (split->full)
        return;
    nic_release(worker->nic, worker->rx, split->rx_count);
    split->rx_count = 0;
    split->rx_done = 0;
}

bool net_split_stack_turn(struct net_split *split, uint64_t now_us)
{
    struct net_stack_worker *worker = split->stack;
    uint64_t start = net_stack_cycles();

    worker->active = false;
    worker->now_us = now_us;
    receive(split, now_us);
    publish(split);
    if (obey_all(split) > 0)
        pump(split);
    watch(split);
    publish(split);
    net_stack_transmit(worker, now_us);
    publish(split);

    if (now_us - worker->published_us >= NET_STACK_PUBLISH_US)
        net_stack_publish(worker);
    if (worker->active)
        atomic_store_explicit(&split->buffer_used,
                              us_counter(worker->stack, worker->buffer_used_index),
                              memory_order_relaxed);
    net_stack_count_loop(worker, start);
    return worker->active;
}

/* The sessions get the core that both share as soon as there is something for them. */
static void relax(const struct net_split *split)
{
    if (split->threading == NET_THREADING_MERGE && !net_pipe_is_drained(split->events))
        (void)sched_yield();
}

/* Until something may have to be done. Returns 0 or a negative errno value. */
static int sleep_until_work(struct net_split *split, uint64_t now_us)
{
    struct net_stack_worker *worker = split->stack;
    uint64_t deadline_us = us_deadline(worker->stack);
    uint64_t timeout_us = worker->sleep_us_max;
    int rc = 0;

    if (split->full || split->watch_checks > 0 || worker->idle == NET_IDLE_POLL) {
        relax(split);
        return 0;
    }
    if (worker->tx_stalled) {
        timeout_us = NET_STACK_SLEEP_STALLED_US;
    } else if (deadline_us <= now_us || net_stack_is_watching(worker, now_us)) {
        relax(split);
        return 0;
    } else {
        timeout_us = u_min64(timeout_us, deadline_us - now_us);
    }

    net_stack_count(worker, NET_STACK_SLEEPS, 1);
    if (worker->unpublished)
        net_stack_publish(worker);
    if (net_pipe_sleep_begin(split->commands))
        rc = nic_wait(worker->nic, timeout_us);
    net_pipe_sleep_end(split->commands);
    net_stack_spin_adapt(worker, net_clock_us() - now_us);
    return rc;
}

/* ---- start and end ----------------------------------------------------------------------- */

void net_split_stack_end(struct net_split *split, uint64_t now_us)
{
    struct net_stack_worker *worker = split->stack;

    /* The sessions are over, so the pipe is read here, to make room. */
    while (net_pipe_take(split->events) != NULL)
        continue;
    net_pipe_release(split->events);
    obey_end(split);
    us_input(worker->stack, worker->rx, 0, now_us);
    pump(split);
    net_stack_transmit(worker, now_us);
    if (worker->held_count > 0)
        net_stack_give_up_unsent(worker);
    atomic_store(&split->stack_state, NET_SPLIT_OVER);
}

/* Sessions that have not begun yet don't any more. */
static bool sessions_run(struct net_split *split)
{
    int state = NET_SPLIT_IDLE;

    atomic_compare_exchange_strong(&split->sessions_state, &state, NET_SPLIT_OVER);
    return state == NET_SPLIT_RUNS;
}

/*
 * Goes on until the sessions are over: they close their connections in order, then reset what is
 * left. After that for a short time for the other workers, whose frames may come to this one.
 */
static void drain(struct net_split *split, bool device_is_gone)
{
    struct net_stack_worker *worker = split->stack;
    uint64_t until_us = US_NEVER;
    uint64_t now_us = net_clock_us();

    net_stack_unlisten(worker);
    worker->sleep_us_max = NET_STACK_SLEEP_DRAIN_US;
    while (now_us < until_us && (sessions_run(split) || net_stack_any_is_open(worker))) {
        if (!net_split_stack_turn(split, now_us)) {
            if (device_is_gone)
                (void)sched_yield();
            else
                device_is_gone = sleep_until_work(split, now_us) < 0;
        }
        now_us = net_clock_us();
        if (until_us != US_NEVER || sessions_run(split))
            continue;
        atomic_store_explicit(&worker->drained, true, memory_order_relaxed);
        until_us = now_us + NET_STACK_DRAIN_US;
    }
}

static int stack_run(struct net_worker *base)
{
    struct net_stack_worker *worker = (struct net_stack_worker *)base;
    struct net_split *split = worker->split;
    uint64_t now_us;
    int rc = 0;

    atomic_store_explicit(&worker->thread, pthread_self(), memory_order_relaxed);
    atomic_store(&split->stack_state, NET_SPLIT_RUNS);
    (void)prctl(PR_SET_TIMERSLACK, NET_STACK_TIMER_SLACK_NS, 0, 0, 0); /* a wish */
    while (rc == 0 && !atomic_load_explicit(&worker->stopping, memory_order_relaxed)) {
        now_us = net_clock_us();
        if (!net_split_stack_turn(split, now_us))
            rc = sleep_until_work(split, now_us);
    }
    if (rc < 0)
        net_worker_stop(&split->sessions->worker);
    drain(split, rc < 0);
    atomic_store_explicit(&worker->drained, true, memory_order_relaxed);
    net_split_stack_end(split, net_clock_us());
    return rc;
}

static void stack_close(struct net_worker *base)
{
    net_split_close(((struct net_stack_worker *)base)->split);
}

const struct net_worker_ops net_split_stack_ops = {
    .run = stack_run, .stop = net_stack_stop, .close = stack_close};
