/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loop of a stack worker: frames in, stack, sessions, frames out, on one thread and to
 * completion. While there is work it takes no lock, allocates nothing from the heap and makes no
 * system call but those of the nic.
 *
 * Without work it polls for SPIN_US_MIN to SPIN_US_MAX, which saves the wake-up for the next
 * request, and then sleeps in the nic until a frame arrives or a timer of the stack is due. The
 * polling time doubles after a short sleep and halves after a long one, so an idle server uses no
 * CPU.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "net/split.h"

#define SPIN_US_MAX 64
#define SPIN_US_MIN 2

/* Longest sleep; the cache needs housekeeping also without traffic. */
#define SLEEP_US_MAX 100000

/* Frames sent per turn, so that a large reply does not delay received frames. */
#define TX_FRAMES_MAX 256

/* Connections that are closed here and not by their peers: this part of all. */
#define ORPHANS_SHARE 8

/* How long a peer may leave its side open after we have closed ours and sent everything. */
#define FIN_WAIT2_US (10 * 1000 * 1000)

/*
 * A vanished client holds one of the -c connections until keepalives fail, which memcached
 * requests of the kernel too. They start after two minutes of silence and end after R2's minimum
 * (RFC 9293 SHLD-11, 100 s), so that an idle connection survives the same outages as a busy one.
 */
#define KEEPALIVE_IDLE_MS (120 * 1000)
#define KEEPALIVE_INTERVAL_MS (15 * 1000)
#define KEEPALIVE_COUNT 8

/* How long a client may leave its window closed while replies wait for it. */
#define PERSIST_MS (10 * 60 * 1000)

/*
 * The receive window, which also bounds the kept input of a blocked session. A quarter of it is
 * too small for a link with 5 % loss.
 */
#define RECV_WINDOW_BYTES (256 * 1024)

/* The most neighbours that a stack can remember. */
#define NEIGHBOURS_MAX 65536

/* Upper bound of -b: entries of the SYN queue, of 96 bytes each. */
#define HALF_OPEN_MAX 65536

/*
 * The pool of all queues: at least twice what the stack reserves for the minimum of each
 * connection, as far as BUFFER_BYTES_MAX goes. Its pages are touched only as they are needed.
 */
#define BUFFER_BYTES_MIN (64u * 1024 * 1024)
#define BUFFER_BYTES_MAX (1024u * 1024 * 1024)
#define BUFFER_BYTES_PER_CONN (2 * RECV_WINDOW_BYTES)

/*
 * How late the kernel may wake a thread, to gather wake-ups. Its default of 50 us is as long as
 * some of the stack's timers.
 */
#define TIMER_SLACK_NS 1000ul

/* How old the counters of a busy worker may be that other threads see. */
#define PUBLISH_US 100000

#define SLEEP_DRAIN_US 2000   /* at the end, while other workers still have connections */
#define SLEEP_STALLED_US 1000 /* while the device or a ring has no room */
#define DRAIN_US 200000       /* how long connections that are closed at the end may take */

/* ---- frames in --------------------------------------------------------------------------- */

/*
 * Gives frames from the first on, and due timers, to the stack and the events to the application.
 * Frames stay in rx[] while the application has no room for their events.
 */
static inline void input(struct net_stack_worker *worker, unsigned first, unsigned n,
                         uint64_t now_us)
{
    unsigned done = first;
    unsigned step, events;

    do {
        step = us_input(worker->stack, worker->rx + done, n - done, now_us);
        done += step;
        events = worker->app->handle_events(worker);
        if (events > 0)
            worker->active = true;
    } while (done < n && !worker->events_left && (step > 0 || events > 0));
    if (U_UNLIKELY(worker->events_left)) {
        worker->rx_count = n;
        worker->rx_done = done;
    } else if (n > 0) {
        nic_release(worker->nic, worker->rx, n);
    }
}

/* The application had no room for all events of the last turn: receives no further frames. */
static U_NOINLINE void input_left(struct net_stack_worker *worker, uint64_t now_us)
{
    unsigned n = worker->rx_count;
    unsigned done = worker->rx_done;

    if (worker->app->handle_events(worker) > 0)
        worker->active = true;
    if (worker->events_left)
        return;
    worker->rx_count = worker->rx_done = 0;
    input(worker, done, n, now_us);
}

static inline void receive(struct net_stack_worker *worker, uint64_t now_us)
{
    unsigned n;

    if (U_UNLIKELY(worker->events_left)) {
        input_left(worker, now_us);
        return;
    }
    n = nic_rx_burst(worker->nic, worker->rx, nic_burst(worker->nic));
    if (n > 0) {
        net_stack_count(worker, NET_STACK_RX_FRAMES, n);
        worker->active = true;
    }
    input(worker, 0, n, now_us);
}

/* ---- frames out -------------------------------------------------------------------------- */

static void release_held(struct net_stack_worker *worker)
{
    while (worker->held_count > 0)
        worker->app->release(worker, worker->held[--worker->held_count]);
}

void net_stack_drop_unsent(struct net_stack_worker *worker)
{
    net_stack_count(worker, NET_STACK_TX_DROPPED_UNSENT, worker->unsent_count);
    nic_release(worker->nic, worker->unsent, worker->unsent_count);
    worker->unsent_count = 0;
    release_held(worker);
}

void net_stack_release(struct net_stack_worker *worker, void *cookie)
{
    unsigned i;

    for (i = 0; i < worker->unsent_count && !worker->unsent[i]->next_seg; i++)
        continue;
    if (i < worker->unsent_count && worker->held_count == NET_STACK_HELD_MAX)
        net_stack_drop_unsent(worker);
    if (i < worker->unsent_count)
        worker->held[worker->held_count++] = cookie;
    else
        worker->app->release(worker, cookie);
}

/* Sends the frames that the device has not taken before. Returns whether all are sent. */
static bool send_unsent(struct net_stack_worker *worker)
{
    unsigned sent;

    if (worker->unsent_count == 0)
        return true;
    sent = nic_tx_burst(worker->nic, worker->unsent, worker->unsent_count);
    net_stack_count(worker, NET_STACK_TX_FRAMES, sent);
    worker->unsent_count -= sent;
    memmove(worker->unsent, worker->unsent + sent,
            worker->unsent_count * sizeof(worker->unsent[0]));
    if (sent > 0)
        worker->active = true;
    if (worker->unsent_count == 0)
        release_held(worker);
    return worker->unsent_count == 0;
}

/* Hands the first n of empty[], which are filled, to the device. Returns whether it took all. */
static bool send_filled(struct net_stack_worker *worker, unsigned n)
{
    struct us_pkt **filled = worker->empty + worker->empty_first;
    unsigned sent = nic_tx_burst(worker->nic, filled, n);

    net_stack_count(worker, NET_STACK_TX_FRAMES, sent);
    worker->empty_first += n;
    if (U_LIKELY(sent == n))
        return true;
    worker->unsent_count = n - sent;
    memcpy(worker->unsent, filled + sent, (n - sent) * sizeof(filled[0]));
    net_stack_count(worker, NET_STACK_TX_RETRIES, 1);
    return false;
}

/*
 * Allocates packets when less than half a burst is left, and returns how many there are. Never
 * more than a burst: the device hands out the packets first that are still in the CPU's cache.
 */
static unsigned borrow(struct net_stack_worker *worker, unsigned burst)
{
    unsigned left = worker->empty_end - worker->empty_first;

    if (U_LIKELY(2 * left >= burst))
        return left;
    memmove(worker->empty, worker->empty + worker->empty_first, left * sizeof(worker->empty[0]));
    left += nic_alloc(worker->nic, worker->empty + left, burst - left);
    worker->empty_first = 0;
    worker->empty_end = left;
    return left;
}

static inline void transmit(struct net_stack_worker *worker, uint64_t now_us)
{
    unsigned burst = nic_burst(worker->nic);
    unsigned total, offered, n;

    if (U_UNLIKELY(worker->nic->caps != worker->caps)) {
        worker->caps = worker->nic->caps;
        us_caps_set(worker->stack, worker->caps);
    }
    worker->tx_stalled = !send_unsent(worker);
    for (total = 0; total < TX_FRAMES_MAX && !worker->tx_stalled; total += n) {
        offered = borrow(worker, burst);
        if (offered == 0) {
            net_stack_count(worker, NET_STACK_ALLOC_EMPTY, 1);
            worker->tx_stalled = true;
            return;
        }
        n = us_output(worker->stack, worker->empty + worker->empty_first, offered, now_us);
        if (n == 0)
            return;
        worker->active = true;
        worker->tx_stalled = !send_filled(worker, n);
        if (n < offered)
            return;
    }
}

/* ---- the loop ---------------------------------------------------------------------------- */

/* The link's MTU may change; other threads read copies of the counters. */
static void housekeep(struct net_stack_worker *worker)
{
    uint32_t mtu = nic_mtu(worker->nic);

    if (mtu != worker->mtu) {
        worker->mtu = mtu;
        us_mtu_set(worker->stack, mtu);
    }
    net_stack_publish(worker);
}

static void count_turn(struct net_stack_worker *worker, uint64_t start)
{
    uint64_t ticks;

    net_stack_count(worker, NET_STACK_LOOPS, 1);
    if (!worker->active)
        return;
    worker->unpublished = true;
    worker->busy_us = worker->now_us;
    net_stack_count(worker, NET_STACK_LOOPS_BUSY, 1);
    ticks = net_ticks() - start;
    net_stack_count(worker, NET_STACK_CYCLES_BUSY, ticks);
    if (worker->conns.cache_worker)
        net_conns_replied(&worker->conns, ticks);
}

/* The application's side of a two-thread worker has neither stack nor nic. */
static bool app_turn(struct net_stack_worker *worker, uint64_t start)
{
    if (worker->app->handle_events(worker) > 0)
        worker->active = true;
    worker->app->tick(worker);
    net_split_flush(worker);
    count_turn(worker, start);
    return worker->active;
}

/* Not inlined, so that tools/bench_instructions.py can count its instructions. */
U_NOINLINE bool net_stack_turn(struct net_stack_worker *worker, uint64_t now_us)
{
    uint64_t start = net_ticks();

    worker->active = false;
    worker->now_us = now_us;
    if (U_UNLIKELY(!worker->nic))
        return app_turn(worker, start);
    receive(worker, now_us);
    transmit(worker, now_us);
    worker->app->tick(worker);
    if (now_us - worker->published_us >= PUBLISH_US)
        housekeep(worker);
    count_turn(worker, start);
    return worker->active;
}

/* ---- sleeping ---------------------------------------------------------------------------- */

static void adapt_spin(struct net_stack_worker *worker, uint64_t slept_us)
{
    if (slept_us < 2 * SPIN_US_MAX)
        worker->spin_us = u_min32(worker->spin_us * 2, SPIN_US_MAX);
    else
        worker->spin_us = u_max32(worker->spin_us / 2, SPIN_US_MIN);
}

uint64_t net_stack_sleep_us_max(const struct net_stack_worker *worker, uint64_t now_us)
{
    uint64_t deadline_us = worker->stack ? us_deadline(worker->stack) : US_NEVER;
    uint64_t timeout_us = u_min64(worker->sleep_us_max, worker->app->sleep_us_max(worker));

    if (worker->idle == NET_IDLE_POLL)
        return 0;
    if (worker->tx_stalled)
        return u_min64(timeout_us, SLEEP_STALLED_US);
    if (worker->idle == NET_IDLE_ADAPTIVE && now_us - worker->busy_us < worker->spin_us)
        return 0;
    return deadline_us <= now_us ? 0 : u_min64(timeout_us, deadline_us - now_us);
}

/* After a sleep of full length: a frame that is there now should have ended it. */
static void check_overslept(struct net_stack_worker *worker, uint64_t now_us)
{
    uint64_t frames = net_counter_read(&worker->counters[NET_STACK_RX_FRAMES]);

    (void)net_stack_turn(worker, now_us);
    if (net_counter_read(&worker->counters[NET_STACK_RX_FRAMES]) != frames)
        net_stack_count(worker, NET_STACK_MISSED_WAKEUPS, 1);
}

/* Sleeps until work may be due. Returns 0 or a negative errno value. */
static int sleep_until_work(struct net_stack_worker *worker, uint64_t now_us)
{
    uint64_t timeout_us = net_stack_sleep_us_max(worker, now_us);
    uint64_t woken_us;
    int rc = 0;

    if (timeout_us == 0)
        return 0;
    net_stack_count(worker, NET_STACK_SLEEPS, 1);
    if (worker->unpublished && worker->nic)
        net_stack_publish(worker);
    if (!worker->app->sleep_begin || worker->app->sleep_begin(worker))
        rc = worker->nic ? nic_wait(worker->nic, timeout_us)
                         : net_ring_wait(worker->split->events, worker->split->wake_fd, timeout_us);
    if (worker->app->sleep_end)
        worker->app->sleep_end(worker);
    woken_us = net_clock_us();
    adapt_spin(worker, woken_us - now_us);
    if (rc == 0 && woken_us - now_us >= timeout_us && worker->nic)
        check_overslept(worker, woken_us);
    return rc;
}

/* ---- start and end ----------------------------------------------------------------------- */

int net_stack_begin(struct net_stack_worker *worker)
{
    int rc;

    atomic_store_explicit(&worker->thread, pthread_self(), memory_order_relaxed);
    rc = worker->app->begin ? worker->app->begin(worker) : 0;
    if (rc == 0 && worker->handover)
        net_stack_take_over(worker);
    return rc;
}

/* Whether any of the workers of this device has connections that are not closed yet. */
static bool any_open(const struct net_stack_worker *worker)
{
    const struct net_stack_worker *other;

    for (other = worker->first; other; other = other->next) {
        if (!atomic_load_explicit(&other->drained, memory_order_relaxed))
            return true;
    }
    return false;
}

static void unlisten(struct net_stack_worker *worker)
{
    if (worker->stack && worker->port > 0)
        us_unlisten(worker->stack, worker->port);
    if (worker->stack && worker->udp_port > 0)
        us_udp_unbind(worker->stack, worker->udp_port);
}

bool net_stack_has_ended(const struct net_stack_worker *worker)
{
    return worker->app->has_ended(worker) && (worker->nic || worker->split->refs == 0);
}

/*
 * Closes all connections in order and gives the peers a short time to agree. A worker without
 * connections continues for the others, whose frames may come to it.
 */
static void drain(struct net_stack_worker *worker)
{
    uint64_t now_us = net_clock_us();
    uint64_t until_us = now_us + DRAIN_US;

    unlisten(worker);
    worker->app->finish_all(worker);
    worker->sleep_us_max = SLEEP_DRAIN_US;
    do {
        if (!net_stack_turn(worker, now_us) && sleep_until_work(worker, now_us) < 0)
            break;
        if (net_stack_has_ended(worker))
            atomic_store_explicit(&worker->drained, true, memory_order_relaxed);
        now_us = net_clock_us();
    } while (now_us < until_us && any_open(worker));
}

void net_stack_abort(struct net_stack_worker *worker)
{
    worker->app->abort_all(worker);
    if (!worker->nic)
        net_split_post_end(worker->split);
}

void net_stack_end(struct net_stack_worker *worker, uint64_t now_us)
{
    do {
        net_stack_abort(worker);
        if (!net_stack_turn(worker, now_us))
            (void)sched_yield();
    } while (!net_stack_has_ended(worker));
    if (worker->held_count > 0)
        net_stack_drop_unsent(worker);
    if (worker->app->end)
        worker->app->end(worker);
}

int net_stack_run(struct net_worker *base)
{
    struct net_stack_worker *worker = (struct net_stack_worker *)base;
    uint64_t now_us;
    int rc = net_stack_begin(worker);

    if (rc < 0)
        return rc;
    (void)prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS, 0, 0, 0); /* best effort */
    while (rc == 0 && !atomic_load_explicit(&worker->stopping, memory_order_relaxed)) {
        now_us = net_clock_us();
        if (worker->nic && worker->app->connect)
            rc = worker->app->connect(worker);
        if (!net_stack_turn(worker, now_us) && rc == 0)
            rc = sleep_until_work(worker, now_us);
        if (rc == 0 && U_UNLIKELY(net_worker_is_pausing(base)))
            rc = net_stack_pause(worker);
    }
    if (rc == 0)
        drain(worker);
    net_stack_end(worker, net_clock_us());
    atomic_store_explicit(&worker->drained, true, memory_order_relaxed);
    return rc;
}

static void stack_wake(struct net_worker *base)
{
    nic_wake(((struct net_stack_worker *)base)->nic);
}

void net_stack_stop(struct net_worker *base)
{
    struct net_stack_worker *worker = (struct net_stack_worker *)base;

    atomic_store_explicit(&worker->stopping, true, memory_order_relaxed);
    nic_wake(worker->nic);
}

int net_stack_connect(struct net_stack_worker *worker, const struct us_addr *addr, uint16_t port)
{
    int error = US_OK;

    U_ASSERT(worker->stack);
    if (worker->split)
        return net_split_connect(worker->split, addr, port);
    return us_connect(worker->stack, addr, port, 0, NULL, &error) ? US_OK : error;
}

void net_stack_worker_free(struct net_stack_worker *worker)
{
    if (worker->memory)
        munmap(worker->memory, worker->memory_bytes);
    net_udp_close(&worker->udp);
    net_conns_free(&worker->conns);
    free(worker->us_counters);
    free(worker->slots);
    net_worker_free(&worker->worker);
}

void net_stack_release_packets(struct net_stack_worker *worker)
{
    struct nic *nic = worker->nic;

    nic_release(nic, worker->rx, worker->rx_count);
    nic_release(nic, worker->empty + worker->empty_first, worker->empty_end - worker->empty_first);
    nic_release(nic, worker->unsent, worker->unsent_count);
    worker->rx_count = worker->rx_done = 0;
    worker->empty_first = worker->empty_end = 0;
    worker->unsent_count = 0;
}

static void stack_close(struct net_worker *base)
{
    struct net_stack_worker *worker = (struct net_stack_worker *)base;
    struct nic *nic = worker->nic;

    net_stack_release_packets(worker);
    net_stack_worker_free(worker);
    nic_close(nic);
}

static const struct net_worker_ops stack_ops = {
    .run = net_stack_run,
    .stop = net_stack_stop,
    .close = stack_close,
    .wake = stack_wake,
    .hand_over = net_stack_hand_over,
};

/* ---- opening ----------------------------------------------------------------------------- */

/* The pool for a stack that takes us->conn_max connections. */
static u_u32 buffer_bytes_for(const struct net_stack_config *config, const struct us_config *us)
{
    uint64_t by_window =
        (uint64_t)config->conn_max * BUFFER_BYTES_PER_CONN / u_max32(config->workers, 1);
    uint64_t by_reserve = (uint64_t)us->conn_max * 2 * US_CONN_BUFFER_MIN;
    uint64_t bytes = by_window > by_reserve ? by_window : by_reserve;

    return u_max32((u_u32)u_min64(bytes, BUFFER_BYTES_MAX), BUFFER_BYTES_MIN);
}

static void derive_us_config(const struct nic *nic, const struct net_stack_config *config,
                             struct us_config *us)
{
    if (config->us)
        *us = *config->us;
    else
        us_config_defaults(us);
    memcpy(us->mac, nic->mac, sizeof(us->mac));
    memcpy(us->secret, config->secret, sizeof(us->secret));
    us->caps = nic->caps;
    us->mtu = nic->mtu;
    us->arp_passive = config->number > 0;
    us->conn_max =
        config->conn_max + config->conn_max / NET_STACK_CONN_SPARE_SHARE + NET_STACK_CONN_SPARE;
    us->orphans_max = u_max32(us->conn_max / ORPHANS_SHARE, 1);
    us->fin_wait2_us = FIN_WAIT2_US;
    us->keepalive = 1;
    us->keepalive_idle_ms = KEEPALIVE_IDLE_MS;
    us->keepalive_interval_ms = KEEPALIVE_INTERVAL_MS;
    us->keepalive_count = KEEPALIVE_COUNT;
    us->persist_ms = PERSIST_MS;
    us->reply_to_source_mac = config->reply_to_source_mac;
    us->no_fast_path = config->no_fast_path;
    if (config->handover)
        us->dad_probes = 0; /* the addresses are in use already, by this server */
    /* As many neighbours as connections, so that none is evicted while in use. */
    us->neighbour_max = u_min32(u_max32(us->neighbour_max, us->conn_max), NEIGHBOURS_MAX);
    us->half_open_max = config->half_open_max ? config->half_open_max : 1024;
    us->half_open_max = u_min32(us->half_open_max, HALF_OPEN_MAX);
    us->recv_window_bytes = config->window_bytes ? config->window_bytes : RECV_WINDOW_BYTES;
    us->send_queue_bytes = config->window_bytes ? config->window_bytes : NET_STACK_SEND_QUEUE_BYTES;
    us->send_refs_max = NET_STACK_REFS_MAX;
    if (config->udp_port > 0)
        us->datagram_max = net_stack_udp_waiting_max();
    us->buffer_bytes = config->buffer_bytes ? config->buffer_bytes : buffer_bytes_for(config, us);
}

static int fail(char error[NET_ERROR_MAX], const char *what, const char *why)
{
    snprintf(error, NET_ERROR_MAX, "%s: %s", what, why);
    return -1;
}

/* The stack's memory is reserved; pages are allocated when they are touched. */
static int create_stack(struct net_stack_worker *worker, const struct us_config *us,
                        const struct net_stack_config *config, char error[NET_ERROR_MAX])
{
    const char *refused = us_config_error(us);
    void *memory;

    if (refused)
        return fail(error, "the connections (-c) or the MTU", refused);
    worker->memory_bytes = us_memory_bytes(us);
    memory = mmap(NULL, worker->memory_bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return fail(error, "no memory for the TCP/IP stack", "lower -c");
    worker->memory = memory;
    if (config->huge_pages)
        (void)madvise(memory, worker->memory_bytes, MADV_HUGEPAGE); /* a hint: may be refused */
    worker->stack = us_create(us, memory, worker->memory_bytes,
                              config->clock_us ? *config->clock_us : net_clock_us());
    return worker->stack ? 0 : fail(error, "the TCP/IP stack", "its configuration is refused");
}

static int find_counter(const char *name, unsigned *index)
{
    unsigned i;

    for (i = 0; i < us_counter_count(); i++) {
        if (strcmp(us_counter_name(i), name) == 0) {
            *index = i;
            return 0;
        }
    }
    return -1;
}

static int configure_stack(struct net_stack_worker *worker, const struct net_stack_config *config,
                           char error[NET_ERROR_MAX])
{
    unsigned i;
    int rc;

    for (i = 0; i < config->addr_count; i++) {
        rc = us_addr_add(worker->stack, &config->addrs[i].addr, config->addrs[i].prefix_len);
        if (rc < 0)
            return fail(error, "cannot use an address of the server", us_strerror(rc));
    }
    for (i = 0; i < config->gateway_count; i++) {
        rc = us_gateway_set(worker->stack, &config->gateways[i]);
        if (rc < 0)
            return fail(error, "cannot use the gateway", us_strerror(rc));
    }
    rc = config->port > 0 ? us_listen(worker->stack, config->port, NULL) : 0;
    if (rc < 0)
        return fail(error, "cannot listen on the port", us_strerror(rc));
    rc = config->udp_port > 0 ? us_udp_bind(worker->stack, config->udp_port, NULL) : 0;
    return rc < 0 ? fail(error, "cannot listen on the UDP port", us_strerror(rc)) : 0;
}

static int open_parts(struct net_stack_worker *worker, const struct net_stack_config *config,
                      char error[NET_ERROR_MAX])
{
    struct us_config us;

    derive_us_config(worker->nic, config, &us);
    worker->caps = us.caps;
    worker->mtu = us.mtu;
    worker->buffer_bytes = us.buffer_bytes;
    worker->slot_count = us.conn_max;
    if (config->threading == NET_THREADING_UNIFIED && worker->app->open &&
        worker->app->open(worker, config, us.conn_max) < 0)
        return fail(error, "no memory for the connections", "lower -c");
    if (create_stack(worker, &us, config, error) < 0 || configure_stack(worker, config, error) < 0)
        return -1;
    worker->reserve_bytes = us_buffer_reserve(worker->stack);
    if (find_counter("buffer_bytes_used", &worker->buffer_used_index) < 0 ||
        find_counter("half_open", &worker->half_open_index) < 0 || net_stack_stats_open(worker) < 0)
        return fail(error, "statistics", "no memory, or the TCP/IP stack lacks a counter");
    return 0;
}

struct net_stack_worker *net_stack_worker_new(const struct net_stack_config *config)
{
    struct net_stack_worker *worker = calloc(1, sizeof(*worker));

    U_ASSERT(config->addr_count > 0 && config->addr_count <= NET_STACK_ADDR_MAX);
    U_ASSERT(config->gateway_count <= NET_STACK_GATEWAY_MAX && config->conn_max > 0);
    U_ASSERT(config->cache || config->app);
    if (!worker)
        return NULL;
    net_ticks_calibrate();
    net_worker_init(&worker->worker, &stack_ops);
    worker->handover = config->handover;
    worker->general_only = config->threading != NET_THREADING_UNIFIED;
    worker->app = config->app ? config->app : &net_session_app_ops;
    worker->app_ctx = config->app_ctx;
    net_conns_init(&worker->conns, &net_stack_transport, config->cache, config->idle_timeout_s);
    worker->port = config->port;
    worker->udp_port = config->udp_port;
    worker->udp_addr = config->addrs[0].addr;
    worker->spin_us = SPIN_US_MIN;
    worker->sleep_us_max = SLEEP_US_MAX;
    worker->idle = config->idle;
    worker->first = worker;
    u_list_init(&worker->free_slots);
    u_list_init(&worker->blocked_conns);
    u_list_init(&worker->waiting_conns);
    worker->accept_waits = config->accept_waits;
    return worker;
}

struct net_worker *net_stack_worker_open(struct nic *nic, const struct net_stack_config *config,
                                         char error[NET_ERROR_MAX])
{
    struct net_stack_worker *worker = net_stack_worker_new(config);

    if (!worker) {
        fail(error, "no memory", "for a worker");
        return NULL;
    }
    worker->nic = nic;
    if (open_parts(worker, config, error) == 0)
        return &worker->worker;
    net_stack_worker_free(worker);
    return NULL;
}
