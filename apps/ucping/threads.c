/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucping in two threads, for --threading=split and merge: the stack's and the application's, joined
 * by two pipes (net/pipe.h), as the halves of a server's worker are (net/split.h).
 *
 *   events      stack -> application: what the stack tells, with the bytes that have come
 *   commands    application -> stack: what is to be sent, and what is to be done to connections
 *
 * Invariants:
 *   - The application never waits for the stack's thread: it takes every event, and a piece for
 *     which there is no room is not said, but tried again. So the stack's thread may wait for room
 *     in `events`, and the two never wait for each other.
 *   - Of each connection there are at most one CLOSE, one ABORT and one FREE in `commands`. Room
 * for these is left of all of them (words_bytes), so they can always be said.
 *   - A line belongs to a connection from ACCEPTED until the application has said FREE, its last
 *     word: neither side meets the next connection on the same line too soon.
 *   - The application hands nothing over while PIECES_BYTES of a connection are on their way, and
 * is told of so many that were taken. What is late is therefore less than PIECES_BYTES and a copied
 *     piece, and at most one reference behind that.
 */
#define _GNU_SOURCE /* pthread_setname_np() */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/base.h"
#include "net/pipe.h"
#include "stack.h"

#define EVENTS_BYTES (1024u * 1024)
#define COMMANDS_BYTES_MIN (2 * 1024u * 1024)
#define RECORD_BYTES ((uint32_t)sizeof(struct net_record))

/* Room in `events` for any one: a segment has at most so many bytes. */
#define EVENT_ROOM_BYTES (65536u + RECORD_BYTES)

/* Events taken, and commands obeyed, per turn. */
#define EVENTS_MAX 256
#define COMMANDS_MAX 1024

#define COPY_BYTES 16384u /* of one command */
#define PIECES_BYTES 32768u
#define LATE_BYTES (PIECES_BYTES + COPY_BYTES)

#define WORDS_OF_A_LINE 3

/* While there is no room in `commands`: how soon to try again. */
#define SLEEP_FULL_US 1000

enum command { COMMAND_SEND = 1, COMMAND_SEND_REF, COMMAND_CLOSE, COMMAND_ABORT, COMMAND_FREE };

/* What the stack has not taken yet of what was handed over: bytes, then perhaps a reference. */
struct late {
    const uint8_t *reference;
    uint32_t at, len;
    uint8_t bytes[LATE_BYTES];
};

struct split {
    struct net_pipe *events;
    struct net_pipe *commands;
    uint32_t words_bytes;
    int wake_fd; /* the application's */
    const struct cores *before;
    _Atomic bool over; /* the application has ended */
    _Atomic bool gone; /* the device is, and the stack's thread with it */

    /* The stack's side. */
    _Alignas(U_LINE_BYTES) struct ucping_passed events_passed;

    /* The application's. */
    _Alignas(U_LINE_BYTES) struct ucping_passed commands_passed;
    struct u_list waiting; /* lines that want to send, and there was no room */
};

/* ---- the stack's side: events ------------------------------------------------------------ */

static void put(struct split *split, uint32_t type, struct line *line, uint32_t value,
                const void *data, uint32_t len)
{
    uint32_t room;
    struct net_record *record = net_pipe_reserve(split->events, len, len, &room);

    U_ASSERT(record != NULL);
    record->link = line;
    record->value = value;
    if (len > 0)
        memcpy(record + 1, data, len);
    net_pipe_commit(split->events, record, type, len);
    split->events_passed.records++;
}

static void publish_events(struct split *split)
{
    if (!net_pipe_publish(split->events) || !net_pipe_must_wake(split->events))
        return;
    split->events_passed.wakes++;
    (void)eventfd_write(split->wake_fd, 1); /* fails only if it is being woken already */
}

static bool has_room(void *ctx)
{
    const struct loop *l = ctx;

    return net_pipe_has_room(l->split->events, EVENT_ROOM_BYTES);
}

/* The stack has taken so much; the application is told when that lets it go on. */
static void taken(struct split *split, struct line *line, uint32_t bytes)
{
    line->untold += bytes;
    if (line->untold < PIECES_BYTES)
        return;
    put(split, US_EV_SENDABLE, line, line->untold, NULL, 0);
    line->untold = 0;
}

/* As much of what is late as the stack takes now; for the rest US_EV_SENDABLE comes again. */
static void send_late(struct loop *l, struct line *line)
{
    struct late *late = line->late;
    uint32_t n;

    if (late && late->len > 0) {
        n = stack_send(l, line, late->bytes + late->at, late->len, false);
        late->at += n;
        late->len -= n;
        taken(l->split, line, n);
        if (late->len > 0)
            return;
    }
    if (late && late->reference) {
        n = stack_send(l, line, late->reference, STACK_REF_BYTES, true);
        taken(l->split, line, n);
        if (n == 0)
            return;
        late->reference = NULL;
    }
    if (line->close_due)
        us_close(l->host.stack, line->us);
    line->close_due = false;
}

static void on_event(void *ctx, const struct us_event *event)
{
    struct loop *l = ctx;
    struct line *line =
        event->type == US_EV_ACCEPTED ? stack_accepted(l, event->conn) : event->user;

    switch (line ? event->type : US_EV_NONE) {
    case US_EV_CLOSED:
        line->us = NULL;
        put(l->split, US_EV_CLOSED, line, (uint32_t)event->reason, NULL, 0);
        break;
    case US_EV_SENDABLE:
        send_late(l, line);
        break;
    case US_EV_ACCEPTED:
    case US_EV_DATA:
    case US_EV_PEER_CLOSED:
        put(l->split, event->type, line, 0, event->data, event->len);
        break;
    case US_EV_CONNECTED: /* they all were, before there were threads */
    case US_EV_RELEASED:
    case US_EV_DATAGRAM:
    case US_EV_NONE:
        break;
    }
}

/* ---- the stack's side: commands ---------------------------------------------------------- */

static bool is_late(const struct line *line)
{
    return line->late && (line->late->len > 0 || line->late->reference);
}

/* Keeps what the stack has not taken. Returns 0, or -1 if there is no memory. */
static int keep(struct line *line, const uint8_t *data, uint32_t len, bool by_reference)
{
    struct late *late = line->late;

    if (!late) {
        late = line->late = malloc(sizeof(*late));
        if (!late)
            return -1;
        late->reference = NULL;
        late->at = late->len = 0;
    }
    U_ASSERT(!late->reference);
    if (by_reference) {
        late->reference = data;
        return 0;
    }
    U_ASSERT(late->len + len <= LATE_BYTES);
    memmove(late->bytes, late->bytes + late->at, late->len);
    late->at = 0;
    memcpy(late->bytes + late->len, data, len);
    late->len += len;
    return 0;
}

static void obey_send(struct loop *l, struct line *line, const uint8_t *data, uint32_t len,
                      bool by_reference)
{
    uint32_t n = is_late(line) ? 0 : stack_send(l, line, data, len, by_reference);

    taken(l->split, line, n);
    if (n < len && keep(line, data + n, len - n, by_reference) < 0)
        us_abort(l->host.stack, line->us);
}

/* Nothing more is said of the line. */
static void obey_free(struct loop *l, struct line *line)
{
    free(line->late);
    line->late = NULL;
    line->untold = 0;
    line->close_due = false;
    if (!l->game)
        stack_line_free(l, line);
}

static void obey(struct loop *l, const struct net_record *record)
{
    struct line *line = record->link;

    if (record->type == COMMAND_FREE) {
        obey_free(l, line);
        return;
    }
    if (!line->us)
        return; /* CLOSED is on its way to the application */
    switch ((enum command)record->type) {
    case COMMAND_SEND:
        obey_send(l, line, (const uint8_t *)(record + 1), record->len, false);
        break;
    case COMMAND_SEND_REF:
        obey_send(l, line, (const uint8_t *)record->pointer, STACK_REF_BYTES, true);
        break;
    case COMMAND_CLOSE:
        line->close_due = is_late(line);
        if (!line->close_due)
            us_close(l->host.stack, line->us);
        break;
    case COMMAND_ABORT:
        us_abort(l->host.stack, line->us);
        break;
    case COMMAND_FREE:
        break;
    }
}

/* Each may put in one event. Returns how many there were. */
static unsigned obey_all(struct loop *l)
{
    const struct net_record *record;
    unsigned n = 0;

    while (n < COMMANDS_MAX && net_pipe_has_room(l->split->events, 2 * RECORD_BYTES) &&
           (record = net_pipe_take(l->split->commands)) != NULL) {
        obey(l, record);
        n++;
    }
    net_pipe_release(l->split->commands);
    return n;
}

/* ---- the stack's side: the loop ---------------------------------------------------------- */

/* Without work. In merge the application gets the core as soon as there is something for it. */
static int rest(struct loop *l)
{
    struct split *split = l->split;
    int rc = 0;

    if (l->host.full || l->s->poll || l->now_ns < l->active_ns + STACK_SPIN_NS) {
        if (l->s->threading == NET_THREADING_MERGE && !net_pipe_is_drained(split->events))
            (void)sched_yield();
        return 0;
    }
    if (net_pipe_sleep_begin(split->commands))
        rc = host_wait(&l->host, l->now_ns / 1000, STACK_WAIT_US);
    net_pipe_sleep_end(split->commands);
    return rc;
}

static int stack_loop(struct loop *l)
{
    bool was_full;
    unsigned n;
    int rc = 0;

    while (rc == 0 && !atomic_load(&l->split->over)) {
        l->now_ns = ucping_clock_ns();
        was_full = l->host.full;
        n = host_receive(&l->host, l->now_ns / 1000, on_event, l);
        l->split->events_passed.full += l->host.full && !was_full;
        publish_events(l->split);
        n += obey_all(l);
        n += host_transmit(&l->host, l->now_ns / 1000);
        publish_events(l->split);
        if (n > 0)
            l->active_ns = l->now_ns;
        else
            rc = rest(l);
    }
    return rc;
}

/* ---- the application's side -------------------------------------------------------------- */

static struct net_record *word(struct split *split, struct line *line, uint32_t len)
{
    uint32_t room;
    struct net_record *record = net_pipe_reserve(split->commands, len, len, &room);

    U_ASSERT(record != NULL);
    record->link = line;
    split->commands_passed.records++;
    return record;
}

static uint32_t say_send(struct loop *l, struct line *line, const uint8_t *data, uint32_t len,
                         bool by_reference)
{
    struct split *split = l->split;
    uint32_t copied = by_reference ? 0 : u_min32(len, COPY_BYTES);
    struct net_record *record;

    if (line->on_the_way >= PIECES_BYTES)
        return 0; /* it will be told of what is taken */
    if (!net_pipe_has_room(split->commands, split->words_bytes + RECORD_BYTES + copied)) {
        if (u_list_is_empty(&line->waiting))
            u_list_push_back(&split->waiting, &line->waiting);
        split->commands_passed.full++;
        return 0;
    }
    record = word(split, line, copied);
    if (copied > 0)
        memcpy(record + 1, data, copied);
    record->pointer = (uintptr_t)data;
    net_pipe_commit(split->commands, record, by_reference ? COMMAND_SEND_REF : COMMAND_SEND,
                    copied);
    len = by_reference ? STACK_REF_BYTES : copied;
    line->on_the_way += len;
    return len;
}

static void say(struct loop *l, struct line *line, enum command command)
{
    net_pipe_commit(l->split->commands, word(l->split, line, 0), command, 0);
}

static void say_close(struct loop *l, struct line *line)
{
    say(l, line, COMMAND_CLOSE);
}

static void say_abort(struct loop *l, struct line *line)
{
    say(l, line, COMMAND_ABORT);
}

static const struct stack_words words = {say_send, say_close, say_abort};

static void take(struct loop *l, const struct net_record *record)
{
    struct line *line = record->link;
    struct us_event event = {.type = (enum us_event_type)record->type,
                             .reason = (enum us_close_reason)record->value,
                             .data = (const uint8_t *)(record + 1),
                             .len = record->len};

    if (event.type == US_EV_SENDABLE)
        line->on_the_way -= record->value;
    talk_event(l, line, &event);
    if (event.type != US_EV_CLOSED)
        return;
    u_list_remove(&line->waiting);
    say(l, line, COMMAND_FREE);
}

/* What has come, and those who had no room. Returns how many. */
static unsigned take_all(struct loop *l)
{
    struct split *split = l->split;
    const struct net_record *record;
    struct u_list waiting, *link;
    unsigned n = 0;

    while (n < EVENTS_MAX && (record = net_pipe_take(split->events)) != NULL) {
        take(l, record);
        n++;
    }
    net_pipe_release(split->events);
    u_list_init(&waiting);
    u_list_append_all(&waiting, &split->waiting);
    while ((link = u_list_pop_front(&waiting)) != NULL)
        talk_pump(l, U_CONTAINER_OF(link, struct line, waiting));
    return n;
}

static void wake_stack(struct loop *l)
{
    l->split->commands_passed.wakes++;
    nic_wake(l->host.nic);
}

/* In merge it never looks on: the core is the stack's to find something with. */
static void rest_application(struct loop *l, uint64_t now_ns, uint64_t active_ns)
{
    bool full = !u_list_is_empty(&l->split->waiting);

    if (l->s->threading == NET_THREADING_SPLIT &&
        (l->s->poll || now_ns < active_ns + STACK_SPIN_NS))
        return;
    if (net_pipe_wait(l->split->events, l->split->wake_fd, full ? SLEEP_FULL_US : STACK_WAIT_US) <
        0)
        (void)sched_yield();
}

static void application_loop(struct loop *l)
{
    uint64_t now_ns, active_ns = 0;
    struct split *split = l->split;
    unsigned n;

    while (!atomic_load(&ucping_stop) && !l->failed && !atomic_load(&split->gone) &&
           (!l->game || l->open > 0)) {
        now_ns = ucping_clock_ns();
        if (l->game)
            l->game->now_ns = now_ns;
        n = take_all(l);
        if (net_pipe_publish(split->commands) && net_pipe_must_wake(split->commands))
            wake_stack(l);
        if (n > 0)
            active_ns = now_ns;
        else
            rest_application(l, now_ns, active_ns);
    }
}

static void *application_main(void *arg)
{
    struct loop *l = arg;

    if (l->s->threading == NET_THREADING_SPLIT)
        cores_unpin(l->split->before); /* it would share the core that DPDK gave the other one */
    if (l->game)
        talk_begin(l);
    application_loop(l);
    if (l->game)
        l->game->over_ns = ucping_clock_ns();
    atomic_store(&l->split->over, true);
    nic_wake(l->host.nic);
    return NULL;
}

/* ---- both -------------------------------------------------------------------------------- */

static uint32_t power_of_two(uint32_t least)
{
    uint32_t n = 1;

    while (n < least)
        n *= 2;
    return n;
}

/*
 * A record is in one piece: wherever the pipe is written, half of it is, so that has to hold all
 * words and still some pieces.
 */
static int open_pipes(struct split *split, unsigned lines)
{
    split->words_bytes = lines * WORDS_OF_A_LINE * RECORD_BYTES;
    split->events = net_pipe_create(EVENTS_BYTES);
    split->commands = net_pipe_create(power_of_two(2 * split->words_bytes + COMMANDS_BYTES_MIN));
    split->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return split->events && split->commands && split->wake_fd >= 0 ? 0 : -1;
}

/* Both threads on one core in merge: the first of those that the device has left to this one. */
static int pin(struct loop *l)
{
    char why[CORES_ERROR_MAX];
    struct cores cores;

    if (l->s->threading != NET_THREADING_MERGE)
        return 0;
    if (cores_all(&cores, why) < 0)
        return ucping_fail(l->s, "%s", why);
    (void)cores_pin(cores_of_thread(&cores, 0)); /* one of those that it has */
    return 0;
}

static int run_both(struct loop *l)
{
    struct split *split = l->split;
    pthread_t application;
    int rc, created;

    if (pin(l) < 0)
        return -1;
    created = pthread_create(&application, NULL, application_main, l);
    if (created != 0)
        return ucping_fail(l->s, "no thread for the application: %s", strerror(created));
    pthread_setname_np(application, "application");
    rc = stack_loop(l);
    atomic_store(&split->gone, rc < 0);
    (void)eventfd_write(split->wake_fd, 1);
    pthread_join(application, NULL);
    l->s->events = split->events_passed;
    l->s->commands = split->commands_passed;
    if (rc < 0 && !l->failed)
        return ucping_fail(l->s, "the device is gone: %s", strerror(-rc));
    return l->failed ? -1 : 0;
}

int threads_run(struct loop *l, const struct cores *before)
{
    unsigned count = l->game ? l->s->connections : UCPING_CONNECTIONS_MAX;
    struct split split = {.before = before};
    unsigned i;
    int rc;

    u_list_init(&split.waiting);
    rc = open_pipes(&split, count);
    if (rc < 0)
        ucping_fail(l->s, "no memory or descriptors for two threads");
    l->split = &split;
    l->words = &words;
    l->host.has_room = has_room;
    if (rc == 0)
        rc = run_both(l);
    for (i = 0; i < count; i++)
        free(l->lines[i].late);
    l->host.has_room = NULL;
    if (split.wake_fd >= 0)
        close(split.wake_fd);
    free(split.events);
    free(split.commands);
    return rc;
}
