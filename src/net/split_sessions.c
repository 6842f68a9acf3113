/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The session half of a worker: the other side of port_rings.h, and its loop.
 *
 * What is to be said of a connection but its replies is gathered in its link and written into the
 * pipe when there is room (flush()), so that taking an event never needs any.
 */
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>

#include "net/port_rings.h"

/* Bytes of one SEND: a session that needs more opens the next. */
#define SEND_BYTES_MAX 4096

#define KEPT_BYTES_MIN 4096

/* All that can be said of a link at once. */
#define SAY_BYTES (5 * (uint32_t)sizeof(struct net_record))

/* ---- what has come ----------------------------------------------------------------------- */

static void kept_free(struct net_split *split, struct net_kept *kept)
{
    split->kept_bytes -= kept->capacity;
    free(kept);
}

/* Adds input to what a link keeps. Returns 0 or -1. */
static int keep(struct net_split *split, struct net_link *link, const uint8_t *data, uint32_t len)
{
    struct net_kept *kept = link->kept;
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

/* What the link keeps stays where it is until all events of this batch have been dealt with. */
static struct net_kept *lend(struct net_split *split, struct net_link *link)
{
    struct net_kept *kept = link->kept;

    if (!kept)
        return NULL;
    link->kept = NULL;
    kept->next = split->lent;
    split->lent = kept;
    return kept;
}

/* Bytes that the session sees now. It is done with those that it does not give back. */
static void fill_data(struct net_split *split, struct net_link *link, struct us_event *ev,
                      const uint8_t *data, uint32_t len)
{
    ev->type = US_EV_DATA;
    ev->data = data;
    ev->len = len;
    link->unreported += (int32_t)len;
    if (link->unreported >= (int32_t)NET_SPLIT_USED_BYTES)
        net_split_say(split, link, NET_SPLIT_TODO_USED);
}

/*
 * What was kept for a session that goes on, then the end that has come behind it, unless the
 * session has stopped again meanwhile.
 */
static bool fill_ready(struct net_split *split, struct us_event *ev)
{
    struct net_link *link = U_CONTAINER_OF(split->ready.next, struct net_link, ready_link);
    const struct net_kept *kept = link->keeping ? NULL : lend(split, link);

    *ev = (struct us_event){.conn = (struct us_conn *)link, .user = link->user};
    if (!kept || !link->ended)
        u_list_remove(&link->ready_link);
    if (kept) {
        fill_data(split, link, ev, kept->bytes, kept->len);
        return true;
    }
    if (link->keeping || !link->ended)
        return false;
    link->ended = false;
    ev->type = US_EV_PEER_CLOSED;
    return true;
}

/* Behind what is kept everything has to wait. Returns whether there is an event. */
static bool fill_input(struct net_stack_worker *worker, const struct net_record *record,
                       struct us_event *ev)
{
    struct net_split *split = worker->split;
    struct net_link *link = record->link;

    if (!link->keeping) {
        fill_data(split, link, ev, (const uint8_t *)(record + 1), record->len);
        return true;
    }
    if (keep(split, link, (const uint8_t *)(record + 1), record->len) < 0) {
        net_stack_count(worker, NET_STACK_ABORTED_KEPT, 1);
        net_split_say(split, link, NET_SPLIT_TODO_ABORT);
    }
    return false;
}

static bool fill_peer_closed(struct net_link *link, struct us_event *ev)
{
    link->ended = link->keeping;
    return !link->keeping;
}

static void fill_closed(struct net_split *split, struct net_link *link,
                        const struct net_record *record, struct us_event *ev)
{
    ev->reason = (enum us_close_reason)record->value;
    lend(split, link);
    u_list_remove(&link->ready_link);
    link->todo &= ~(uint32_t)(NET_SPLIT_TODO_USED | NET_SPLIT_TODO_WATCH);
    net_split_say(split, link, NET_SPLIT_TODO_FREE);
}

static void take_drained(struct net_link *link, uint32_t bytes)
{
    link->queued -= u_min32(link->queued, bytes);
    link->watching = false;
}

/* Turns a record into an event; returns false if it is none. */
static bool fill_event(struct net_stack_worker *worker, const struct net_record *record,
                       struct us_event *ev)
{
    struct net_split *split = worker->split;
    struct net_link *link = record->link;

    if (record->type == NET_SPLIT_DRAINED) {
        take_drained(link, record->value);
        return false;
    }
    *ev = (struct us_event){.type = (enum us_event_type)record->type,
                            .conn = (struct us_conn *)link,
                            .user = link ? link->user : NULL};
    switch (ev->type) {
    case US_EV_DATA:
        return fill_input(worker, record, ev);
    case US_EV_PEER_CLOSED:
        return fill_peer_closed(link, ev);
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
    const struct net_record *record;

    for (;;) {
        if (!u_list_is_empty(&split->ready)) {
            if (fill_ready(split, ev))
                return true;
            continue;
        }
        record = net_pipe_take(split->events);
        if (!record)
            return false;
        worker->active = true;
        worker->blocked_checks = worker->blocked_count; /* any may have drained, at any time */
        if (fill_event(worker, record, ev))
            return true;
    }
}

int net_split_recv_keep(struct net_split *split, struct net_link *link, const uint8_t *data,
                        uint32_t len)
{
    if (keep(split, link, data, len) < 0)
        return US_ERR_NO_MEMORY;
    link->keeping = true;
    link->unreported -= (int32_t)len;
    return US_OK;
}

void net_split_recv_resume(struct net_split *split, struct net_link *link)
{
    link->keeping = false;
    if ((link->kept || link->ended) && u_list_is_empty(&link->ready_link))
        u_list_push_back(&split->ready, &link->ready_link);
}

/* ---- what is to be done ------------------------------------------------------------------ */

bool net_split_is_congested(struct net_split *split)
{
    if (net_pipe_has_room(split->commands, NET_SPLIT_ROOM_REPLIES))
        return false;
    if (!split->congested)
        net_split_count(split, NET_SPLIT_COMMANDS_FULL, 1);
    split->congested = true;
    return true;
}

static void sent(struct net_split *split, struct net_link *link, uint32_t bytes)
{
    link->queued += bytes;
    net_split_count(split, NET_SPLIT_COMMANDS, 1);
    if (link->queued >= NET_SPLIT_WATCH_BYTES && !link->watching)
        net_split_say(split, link, NET_SPLIT_TODO_WATCH);
}

uint8_t *net_split_reserve(struct net_split *split, struct net_link *link, uint32_t want,
                           u_u32 *room)
{
    U_ASSERT(split->reserved == NULL);
    split->reserved = net_pipe_reserve(split->commands, want, SEND_BYTES_MAX, room);
    if (!split->reserved)
        return NULL;
    split->reserved->link = link;
    return (uint8_t *)(split->reserved + 1);
}

void net_split_commit(struct net_split *split, struct net_link *link, uint32_t used)
{
    U_ASSERT(split->reserved != NULL && split->reserved->link == link);
    if (used > 0) {
        net_pipe_commit(split->commands, split->reserved, NET_SPLIT_SEND, used);
        sent(split, link, used);
    }
    split->reserved = NULL;
}

int net_split_send_ref(struct net_split *split, struct net_link *link, const void *data,
                       uint32_t len, void *cookie)
{
    uint32_t room;
    struct net_record *record =
        net_pipe_reserve(split->commands, sizeof(cookie), sizeof(cookie), &room);

    U_ASSERT(split->reserved == NULL);
    if (!record)
        return -1;
    record->link = link;
    record->value = len;
    record->pointer = (uintptr_t)data;
    memcpy(record + 1, &cookie, sizeof(cookie));
    net_pipe_commit(split->commands, record, NET_SPLIT_SEND_REF, sizeof(cookie));
    split->refs++;
    sent(split, link, len);
    return 1;
}

int net_split_send_datagram(struct net_split *split, const struct us_datagram *request,
                            const void *data, uint32_t len)
{
    uint32_t room, bytes = (uint32_t)sizeof(*request) + len;
    struct net_record *record;
    uint8_t *to;

    if (net_split_is_congested(split))
        return US_ERR_FULL;
    record = net_pipe_reserve(split->commands, bytes, bytes, &room);
    U_ASSERT(record != NULL);
    to = (uint8_t *)(record + 1);
    memcpy(to, request, sizeof(*request));
    memcpy(to + sizeof(*request), data, len);
    record->link = NULL;
    net_pipe_commit(split->commands, record, NET_SPLIT_DATAGRAM, bytes);
    net_split_count(split, NET_SPLIT_COMMANDS, 1);
    return US_OK;
}

void net_split_say(struct net_split *split, struct net_link *link, uint32_t todo)
{
    if (u_list_is_empty(&link->todo_link))
        u_list_push_back(&split->todo, &link->todo_link);
    link->todo |= todo;
    if (todo & NET_SPLIT_TODO_WATCH)
        link->watching = true;
}

static void put(struct net_split *split, struct net_link *link, enum net_split_command type,
                uint32_t value)
{
    uint32_t room;
    struct net_record *record = net_pipe_reserve(split->commands, 0, 0, &room);

    U_ASSERT(record != NULL && split->reserved == NULL);
    record->link = link;
    record->value = value;
    net_pipe_commit(split->commands, record, type, 0);
    net_split_count(split, NET_SPLIT_COMMANDS, 1);
}

/* FREE comes last: after it the link may be another connection's. */
static void say_all(struct net_split *split, struct net_link *link)
{
    uint32_t todo = link->todo;

    link->todo = 0;
    if (todo & NET_SPLIT_TODO_ABORT)
        put(split, link, NET_SPLIT_ABORT, 0);
    if (todo & NET_SPLIT_TODO_CLOSE)
        put(split, link, NET_SPLIT_CLOSE, 0);
    if ((todo & NET_SPLIT_TODO_USED) && link->unreported >= (int32_t)NET_SPLIT_USED_BYTES) {
        put(split, link, NET_SPLIT_USED, (uint32_t)link->unreported);
        link->unreported = 0;
    }
    if (todo & NET_SPLIT_TODO_WATCH)
        put(split, link, NET_SPLIT_WATCH, 0);
    if (todo & NET_SPLIT_TODO_FREE)
        put(split, link, NET_SPLIT_FREE, 0);
}

static void flush(struct net_split *split)
{
    while (!u_list_is_empty(&split->todo) && net_pipe_has_room(split->commands, SAY_BYTES))
        say_all(split, U_CONTAINER_OF(u_list_pop_front(&split->todo), struct net_link, todo_link));
    if (split->end_due && u_list_is_empty(&split->todo) &&
        net_pipe_has_room(split->commands, SAY_BYTES)) {
        split->end_due = false;
        put(split, NULL, NET_SPLIT_END, 0);
    }
    if (net_pipe_publish(split->commands) && net_pipe_must_wake(split->commands)) {
        net_split_count(split, NET_SPLIT_STACK_WAKES, 1);
        nic_wake(split->stack->nic);
    }
}

/* What the events pointed to is not needed any more. */
void net_split_events_done(struct net_stack_worker *worker)
{
    struct net_split *split = worker->split;
    struct net_kept *kept;

    while ((kept = split->lent) != NULL) {
        split->lent = kept->next;
        kept_free(split, kept);
    }
    net_pipe_release(split->events);
    flush(split);
}

/* ---- the loop ---------------------------------------------------------------------------- */

bool net_split_sessions_turn(struct net_split *split, uint64_t now_us)
{
    struct net_stack_worker *worker = split->sessions;
    uint64_t start = net_stack_cycles();

    worker->active = false;
    worker->now_us = now_us;
    net_split_events(worker);
    if (split->congested && net_pipe_has_room(split->commands, 2 * NET_SPLIT_ROOM_REPLIES)) {
        split->congested = false;
        worker->blocked_checks = worker->blocked_count;
    }
    if (worker->blocked_checks > 0)
        net_split_unblock(worker);
    if (cache_eager_count(worker->cache_worker) > 0)
        net_split_eager(worker);
    net_split_seat(worker);
    net_split_events(worker);
    cache_tick(worker->cache_worker, now_us);
    net_split_idle(worker);
    net_split_events_done(worker);
    worker->active = worker->active || !u_list_is_empty(&split->ready);
    net_stack_count_loop(worker, start);
    return worker->active;
}

/* Whether to stay awake without work: not on a core that the stack's thread needs to find some. */
static bool is_looking_on(const struct net_split *split, uint64_t now_us)
{
    const struct net_stack_worker *worker = split->sessions;

    return split->threading == NET_THREADING_SPLIT &&
           (worker->idle == NET_IDLE_POLL || net_stack_is_watching(worker, now_us));
}

/* Until something may have to be done. Returns 0 or a negative errno value. */
static int sleep_until_work(struct net_split *split, uint64_t now_us)
{
    struct net_stack_worker *worker = split->sessions;
    uint32_t cache_us = cache_sleep_us_max(worker->cache_worker);
    uint64_t timeout_us = u_min64(worker->sleep_us_max, cache_us);
    uint64_t woken_us;
    int rc;

    if (worker->blocked_checks > 0 || cache_us == 0 || is_looking_on(split, now_us))
        return 0;
    if (split->congested || !u_list_is_empty(&split->todo))
        timeout_us = u_min64(timeout_us, NET_STACK_SLEEP_STALLED_US);
    net_stack_count(worker, NET_STACK_SLEEPS, 1);
    cache_offline(worker->cache_worker);
    rc = net_pipe_wait(split->events, split->wake_fd, timeout_us);
    cache_online(worker->cache_worker);
    woken_us = net_clock_us();
    cache_tick(worker->cache_worker, woken_us);
    net_stack_spin_adapt(worker, woken_us - now_us);
    return rc;
}

/* ---- start and end ----------------------------------------------------------------------- */

int net_split_sessions_begin(struct net_split *split)
{
    return net_stack_begin(split->sessions);
}

void net_split_sessions_abort(struct net_split *split)
{
    struct net_stack_worker *worker = split->sessions;
    struct u_list *link;

    for (link = worker->open_conns.next; link != &worker->open_conns; link = link->next)
        net_split_conn_abort(worker, U_CONTAINER_OF(link, struct net_stack_conn, open_link));
    split->end_due = true;
}

bool net_split_sessions_is_over(const struct net_split *split)
{
    return u_list_is_empty(&split->sessions->open_conns) && split->refs == 0;
}

void net_split_sessions_end(struct net_split *split)
{
    struct net_stack_worker *worker = split->sessions;

    net_stack_udp_end(worker);
    cache_leave(worker->cache_worker);
    worker->cache_worker = NULL;
}

static void turn_or_sleep(struct net_split *split)
{
    uint64_t now_us = net_clock_us();

    if (!net_split_sessions_turn(split, now_us) && sleep_until_work(split, now_us) < 0)
        (void)sched_yield();
}

/* Closes all connections in order, gives the peers a short time to agree, and resets the rest. */
static void drain(struct net_split *split)
{
    struct net_stack_worker *worker = split->sessions;
    uint64_t until_us = net_clock_us() + NET_STACK_DRAIN_US;
    struct u_list *link;

    worker->sleep_us_max = NET_STACK_SLEEP_DRAIN_US;
    for (link = worker->open_conns.next; link != &worker->open_conns; link = link->next)
        net_split_conn_finish(worker, U_CONTAINER_OF(link, struct net_stack_conn, open_link));
    while (!net_split_sessions_is_over(split) && net_clock_us() < until_us)
        turn_or_sleep(split);
    net_split_sessions_abort(split);
    while (!net_split_sessions_is_over(split))
        turn_or_sleep(split);
}

static int sessions_run(struct net_worker *base)
{
    struct net_stack_worker *worker = (struct net_stack_worker *)base;
    struct net_split *split = worker->split;
    int state = NET_SPLIT_IDLE;
    uint64_t now_us;
    int rc;

    if (!atomic_compare_exchange_strong(&split->sessions_state, &state, NET_SPLIT_RUNS))
        return 0; /* the stack half is over already */
    (void)prctl(PR_SET_TIMERSLACK, NET_STACK_TIMER_SLACK_NS, 0, 0, 0); /* a wish */
    rc = net_split_sessions_begin(split);
    if (rc == 0) {
        while (rc == 0 && !atomic_load_explicit(&worker->stopping, memory_order_relaxed)) {
            now_us = net_clock_us();
            if (!net_split_sessions_turn(split, now_us))
                rc = sleep_until_work(split, now_us);
        }
        drain(split);
        net_split_sessions_end(split);
    }
    atomic_store(&split->sessions_state, NET_SPLIT_OVER);
    nic_wake(split->stack->nic);
    return rc;
}

static void sessions_stop(struct net_worker *base)
{
    struct net_stack_worker *worker = (struct net_stack_worker *)base;
    int saved_errno = errno;

    atomic_store_explicit(&worker->stopping, true, memory_order_relaxed);
    (void)eventfd_write(worker->split->wake_fd, 1);
    errno = saved_errno;
}

static void sessions_close(struct net_worker *base)
{
    net_split_close(((struct net_stack_worker *)base)->split);
}

const struct net_worker_ops net_split_sessions_ops = {
    .run = sessions_run, .stop = sessions_stop, .close = sessions_close};
