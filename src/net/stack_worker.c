/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loop of a stack worker: frames in, stack, sessions, frames out, on one thread and to
 * completion. While there is work it takes no lock, allocates nothing from the heap and makes no
 * system call but those of the nic.
 *
 * When there is none it polls on for a short while, since a request that arrives while polling is
 * served some ten microseconds sooner than one that has to wake a sleeper, and then sleeps in the
 * nic until a frame arrives or the stack has a timer due. How long it polls adapts: it doubles when
 * a sleep turned out to be short and halves when it was long, so an idle server uses no CPU.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "net/split.h"
#include "net/stack_worker.h"

#define SPIN_US_MAX 64
#define SPIN_US_MIN 2

/* Longest sleep: housekeeping in the cache goes on even if nobody talks. */
#define SLEEP_US_MAX 100000

/* Frames sent per loop, so that a large reply to one client doesn't keep received ones waiting. */
#define TX_FRAMES_MAX 256

/* How long a peer may leave its side open after we have closed ours and sent everything. */
#define FIN_WAIT2_US (10 * 1000 * 1000)

/*
 * A client that has vanished holds one of the -c connections until it is noticed: it is asked after
 * two minutes of silence, as the kernel would be by the keepalives that memcached turns on, but
 * sooner.
 */
#define KEEPALIVE_IDLE_MS (120 * 1000)
#define KEEPALIVE_INTERVAL_MS (15 * 1000)
#define KEEPALIVE_COUNT 4

/* How long a client may leave its window closed while replies wait for it. */
#define PERSIST_MS (10 * 60 * 1000)

/*
 * What a peer may send ahead; input of blocked sessions is kept up to this. With 5 % of the frames
 * lost and 5 % out of order, 100 MB take 1 s to arrive with this window and 11 s with a quarter.
 */
#define RECV_WINDOW_BYTES (256 * 1024)

/* What a stack remembers at most of where its peers are. */
#define NEIGHBOURS_MAX 65536

/* The pool of all queues. Its pages are touched only as they are needed. */
#define BUFFER_BYTES_MIN (64u * 1024 * 1024)
#define BUFFER_BYTES_MAX (1024u * 1024 * 1024)
#define BUFFER_BYTES_PER_CONN (2 * RECV_WINDOW_BYTES)

/* ---- one loop ---------------------------------------------------------------------------- */

static void receive(struct net_stack_worker *worker, uint64_t now_us)
{
    unsigned n = nic_rx_burst(worker->nic, worker->rx, nic_burst(worker->nic));
    unsigned done = 0;
    unsigned step, events;

    if (n > 0) {
        net_stack_count(worker, NET_STACK_RX_FRAMES, n);
        worker->active = true;
    }
    do {
        step = us_input(worker->stack, worker->rx + done, n - done, now_us);
        done += step;
        events = net_stack_events(worker);
        if (events > 0)
            worker->active = true;
    } while (done < n && (step > 0 || events > 0));

    if (worker->active)
        worker->blocked_checks = worker->blocked_count;
    if (worker->blocked_checks > 0) {
        net_stack_unblock(worker);
        net_stack_events(worker);
    }
    if (cache_eager_count(worker->cache_worker) > 0) {
        net_stack_eager(worker);
        net_stack_events(worker);
    }
    if (n > 0)
        nic_release(worker->nic, worker->rx, n);
}

/* To the cache, by way of the other half if that one has it. */
static void release(const struct net_stack_worker *worker, void *cookie)
{
    if (worker->split)
        net_split_released(worker->split, NULL, cookie);
    else
        cache_release(worker->cache_worker, cookie);
}

static void release_held(struct net_stack_worker *worker)
{
    while (worker->held_count > 0)
        release(worker, worker->held[--worker->held_count]);
}

void net_stack_give_up_unsent(struct net_stack_worker *worker)
{
    net_stack_count(worker, NET_STACK_TX_GIVEN_UP, worker->unsent_count);
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
        net_stack_give_up_unsent(worker);
    if (i < worker->unsent_count)
        worker->held[worker->held_count++] = cookie;
    else
        release(worker, cookie);
}

/* Tries the frames that were left over. Returns whether all are gone. */
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
 * Borrows packets when less than half a burst of them is left, and returns how many there are. No
 * more are lent than a burst takes: the device lends first what it got back last.
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

void net_stack_transmit(struct net_stack_worker *worker, uint64_t now_us)
{
    transmit(worker, now_us);
}

bool net_stack_turn(struct net_stack_worker *worker, uint64_t now_us)
{
    uint64_t start = net_stack_cycles();

    worker->active = false;
    worker->now_us = now_us;
    receive(worker, now_us);
    net_stack_seat(worker);
    transmit(worker, now_us);
    cache_tick(worker->cache_worker, now_us);
    net_stack_idle(worker);

    if (now_us - worker->published_us >= NET_STACK_PUBLISH_US)
        net_stack_publish(worker);
    net_stack_count_loop(worker, start);
    return worker->active;
}

/* ---- sleeping ---------------------------------------------------------------------------- */

void net_stack_spin_adapt(struct net_stack_worker *worker, uint64_t slept_us)
{
    if (slept_us < 2 * SPIN_US_MAX)
        worker->spin_us = u_min32(worker->spin_us * 2, SPIN_US_MAX);
    else
        worker->spin_us = u_max32(worker->spin_us / 2, SPIN_US_MIN);
}

bool net_stack_is_watching(const struct net_stack_worker *worker, uint64_t now_us)
{
    return worker->idle == NET_IDLE_ADAPTIVE && now_us - worker->busy_us < worker->spin_us;
}

/* Until something may have to be done. Returns 0 or a negative errno value. */
static int sleep_until_work(struct net_stack_worker *worker, uint64_t now_us)
{
    uint64_t deadline_us = us_deadline(worker->stack);
    uint32_t cache_us = cache_sleep_us_max(worker->cache_worker);
    uint64_t timeout_us = worker->sleep_us_max;
    uint64_t woken_us;
    int rc;

    if (worker->blocked_checks > 0 || cache_us == 0 || worker->idle == NET_IDLE_POLL)
        return 0;
    if (worker->tx_stalled)
        timeout_us = NET_STACK_SLEEP_STALLED_US;
    else if (deadline_us <= now_us || net_stack_is_watching(worker, now_us))
        return 0;
    else
        timeout_us = u_min64(timeout_us, deadline_us - now_us);
    timeout_us = u_min64(timeout_us, cache_us);

    net_stack_count(worker, NET_STACK_SLEEPS, 1);
    if (worker->unpublished)
        net_stack_publish(worker);
    cache_offline(worker->cache_worker);
    rc = nic_wait(worker->nic, timeout_us);
    cache_online(worker->cache_worker);
    woken_us = net_clock_us();
    cache_tick(worker->cache_worker, woken_us);
    net_stack_spin_adapt(worker, woken_us - now_us);
    return rc;
}

/* ---- start and end ----------------------------------------------------------------------- */

int net_stack_begin(struct net_stack_worker *worker)
{
    worker->cache_worker = cache_join(worker->cache);
    if (!worker->cache_worker)
        return -ENOSPC;
    atomic_store_explicit(&worker->thread, pthread_self(), memory_order_relaxed);
    if (net_stack_udp_begin(worker) == 0)
        return 0;
    cache_leave(worker->cache_worker);
    worker->cache_worker = NULL;
    return -ENOMEM;
}

bool net_stack_any_is_open(const struct net_stack_worker *worker)
{
    const struct net_stack_worker *other;

    for (other = worker->first; other; other = other->next) {
        if (!atomic_load_explicit(&other->drained, memory_order_relaxed))
            return true;
    }
    return false;
}

void net_stack_unlisten(struct net_stack_worker *worker)
{
    if (worker->port > 0)
        us_unlisten(worker->stack, worker->port);
    if (worker->udp_port > 0)
        us_udp_unbind(worker->stack, worker->udp_port);
}

/*
 * Closes all connections in order and gives the peers a short time to agree. A worker that is
 * through goes on for the others, whose frames may come to it.
 */
static void drain(struct net_stack_worker *worker)
{
    uint64_t now_us = net_clock_us();
    uint64_t until_us = now_us + NET_STACK_DRAIN_US;
    struct u_list *link;

    net_stack_unlisten(worker);
    for (link = worker->open_conns.next; link != &worker->open_conns; link = link->next)
        net_stack_conn_finish(worker, U_CONTAINER_OF(link, struct net_stack_conn, open_link));
    worker->sleep_us_max = NET_STACK_SLEEP_DRAIN_US;
    do {
        if (!net_stack_turn(worker, now_us) && sleep_until_work(worker, now_us) < 0)
            break;
        if (u_list_is_empty(&worker->open_conns))
            atomic_store_explicit(&worker->drained, true, memory_order_relaxed);
        now_us = net_clock_us();
    } while (now_us < until_us && net_stack_any_is_open(worker));
}

void net_stack_end(struct net_stack_worker *worker, uint64_t now_us)
{
    struct u_list *link;
    unsigned n;

    do {
        link = worker->open_conns.next;
        for (n = 0; n < NIC_BURST_MAX && link != &worker->open_conns; n++, link = link->next)
            net_stack_conn_abort(worker, U_CONTAINER_OF(link, struct net_stack_conn, open_link));
        us_input(worker->stack, worker->rx, 0, now_us);
        n = net_stack_events(worker);
        net_stack_transmit(worker, now_us);
    } while (n > 0);
    if (worker->held_count > 0)
        net_stack_give_up_unsent(worker);
    net_stack_udp_end(worker);
    cache_leave(worker->cache_worker);
    worker->cache_worker = NULL;
}

static int stack_run(struct net_worker *base)
{
    struct net_stack_worker *worker = (struct net_stack_worker *)base;
    uint64_t now_us;
    int rc = net_stack_begin(worker);

    if (rc < 0)
        return rc;
    (void)prctl(PR_SET_TIMERSLACK, NET_STACK_TIMER_SLACK_NS, 0, 0, 0); /* a wish */
    while (rc == 0 && !atomic_load_explicit(&worker->stopping, memory_order_relaxed)) {
        now_us = net_clock_us();
        if (!net_stack_turn(worker, now_us))
            rc = sleep_until_work(worker, now_us);
    }
    if (rc == 0)
        drain(worker);
    net_stack_end(worker, net_clock_us());
    atomic_store_explicit(&worker->drained, true, memory_order_relaxed);
    return rc;
}

void net_stack_stop(struct net_worker *base)
{
    struct net_stack_worker *worker = (struct net_stack_worker *)base;

    atomic_store_explicit(&worker->stopping, true, memory_order_relaxed);
    nic_wake(worker->nic);
}

void net_stack_worker_free(struct net_stack_worker *worker)
{
    if (worker->memory)
        munmap(worker->memory, worker->memory_bytes);
    net_udp_close(&worker->udp);
    free(worker->us_counters);
    free(worker->conns);
    free(worker);
}

static void stack_close(struct net_worker *base)
{
    struct net_stack_worker *worker = (struct net_stack_worker *)base;
    struct nic *nic = worker->nic;

    nic_release(nic, worker->empty + worker->empty_first, worker->empty_end - worker->empty_first);
    nic_release(nic, worker->unsent, worker->unsent_count);
    net_stack_worker_free(worker);
    nic_close(nic);
}

static const struct net_worker_ops stack_ops = {
    .run = stack_run, .stop = net_stack_stop, .close = stack_close};

/* ---- opening ----------------------------------------------------------------------------- */

static void derive_us_config(const struct nic *nic, const struct net_stack_config *config,
                             struct us_config *us)
{
    uint64_t buffer_bytes =
        (uint64_t)config->conn_max * BUFFER_BYTES_PER_CONN / u_max32(config->workers, 1);

    if (buffer_bytes < BUFFER_BYTES_MIN)
        buffer_bytes = BUFFER_BYTES_MIN;
    us_config_defaults(us);
    memcpy(us->mac, nic->mac, sizeof(us->mac));
    memcpy(us->secret, config->secret, sizeof(us->secret));
    us->caps = nic->caps;
    us->mtu = nic->mtu;
    us->follower = config->number > 0;
    us->conn_max =
        config->conn_max + config->conn_max / NET_STACK_CONN_SPARE_SHARE + NET_STACK_CONN_SPARE;
    us->fin_wait2_us = FIN_WAIT2_US;
    us->keepalive = 1;
    us->keepalive_idle_ms = KEEPALIVE_IDLE_MS;
    us->keepalive_interval_ms = KEEPALIVE_INTERVAL_MS;
    us->keepalive_count = KEEPALIVE_COUNT;
    us->persist_ms = PERSIST_MS;
    us->reply_to_sender = config->reply_to_sender;
    if (config->reply_to_sender) /* each peer is one by itself */
        us->arp_max = u_min32(u_max32(us->arp_max, us->conn_max), NEIGHBOURS_MAX);
    us->half_open_max = config->half_open_max ? config->half_open_max : 1024;
    us->half_open_max = u_min32(us->half_open_max, us->conn_max);
    us->recv_window_bytes = RECV_WINDOW_BYTES;
    us->send_queue_bytes = NET_STACK_SEND_QUEUE_BYTES;
    us->send_refs_max = NET_STACK_REFS_MAX;
    if (config->udp_port > 0)
        us->datagram_max = net_stack_udp_waiting_max();
    us->buffer_bytes = config->buffer_bytes;
    if (us->buffer_bytes == 0)
        us->buffer_bytes = (u_u32)u_min64(buffer_bytes, BUFFER_BYTES_MAX);
}

static int fail(char error[NET_ERROR_MAX], const char *what, const char *why)
{
    snprintf(error, NET_ERROR_MAX, "%s: %s", what, why);
    return -1;
}

/* The stack's memory is reserved, not used: pages come as connections and data do. */
static int create_stack(struct net_stack_worker *worker, const struct us_config *us,
                        bool huge_pages, char error[NET_ERROR_MAX])
{
    void *memory;

    worker->memory_bytes = us_memory_bytes(us);
    if (worker->memory_bytes == 0)
        return fail(error, "the TCP/IP stack", "the connections (-c) or the MTU are out of range");
    memory = mmap(NULL, worker->memory_bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return fail(error, "no memory for the TCP/IP stack", "lower -c");
    worker->memory = memory;
    if (huge_pages)
        (void)madvise(memory, worker->memory_bytes, MADV_HUGEPAGE); /* a hint: may be refused */
    worker->stack = us_create(us, memory, worker->memory_bytes, net_clock_us());
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

int net_stack_open_sessions(struct net_stack_worker *worker, const struct net_stack_config *config,
                            uint32_t conns_max)
{
    worker->conns_max = conns_max;
    worker->conns = calloc(conns_max, sizeof(worker->conns[0]));
    if (!worker->conns)
        return -1;
    return config->udp_port > 0 ? net_udp_open(&worker->udp) : 0;
}

static int open_parts(struct net_stack_worker *worker, const struct net_stack_config *config,
                      char error[NET_ERROR_MAX])
{
    struct us_config us;

    derive_us_config(worker->nic, config, &us);
    worker->caps = us.caps;
    worker->buffer_bytes = us.buffer_bytes;
    worker->conns_max = us.conn_max;
    if (config->threading == NET_THREADING_UNIFIED &&
        net_stack_open_sessions(worker, config, us.conn_max) < 0)
        return fail(error, "no memory for the connections", "lower -c");
    if (create_stack(worker, &us, config->huge_pages, error) < 0 ||
        configure_stack(worker, config, error) < 0)
        return -1;
    if (find_counter("buffer_bytes_used", &worker->buffer_used_index) < 0 ||
        net_stack_stats_open(worker) < 0)
        return fail(error, "statistics", "no memory, or the TCP/IP stack lacks a counter");
    return 0;
}

struct net_stack_worker *net_stack_worker_new(const struct net_stack_config *config)
{
    struct net_stack_worker *worker = calloc(1, sizeof(*worker));

    if (!worker)
        return NULL;
    worker->worker.ops = &stack_ops;
    worker->cache = config->cache;
    worker->port = config->port;
    worker->udp_port = config->udp_port;
    worker->udp_addr = config->addrs[0].addr;
    worker->spin_us = SPIN_US_MIN;
    worker->sleep_us_max = SLEEP_US_MAX;
    worker->idle = config->idle;
    worker->first = worker;
    u_list_init(&worker->free_conns);
    u_list_init(&worker->open_conns);
    u_list_init(&worker->blocked_conns);
    u_list_init(&worker->waiting_conns);
    worker->accept_waits = config->accept_waits;
    worker->idle_timeout_s = config->idle_timeout_s;
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
