/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A host of the simulation: an event loop that sleeps until a frame arrives or exactly until
 * us_deadline(), with few frames per call. A deadline that is too late loses progress; one that is
 * too early is detected as iterations without work.
 */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

enum { TX_ROOM = 9300 };

static void turn(struct sim *sim, void *target, void *detail);

/* Schedules an iteration of the loop; an older event for a later time has no effect then. */
static void wake_at(struct host *host, uint64_t time_us)
{
    if (host->wake_us <= time_us)
        return;
    host->wake_us = time_us;
    sim_at(host->sim, time_us, turn, host, NULL);
}

void host_start(struct host *host)
{
    unsigned long bytes = us_memory_bytes(&host->config);
    host->memory = calloc(1, bytes ? bytes : 1);
    host->stack = us_create(&host->config, host->memory, bytes, host->sim->now_us);
    if (bytes == 0 || !host->stack)
        sim_fail(host->sim, "host %s: the configuration is refused", host->name);
    if (us_addr_add(host->stack, &host->addr, host->addr.family == US_IP6 ? 64 : 24) != US_OK)
        sim_fail(host->sim, "host %s: us_addr_add() fails", host->name);
    host->wake_us = US_NEVER;
    wake_at(host, host->sim->now_us);
}

void host_free(struct host *host)
{
    for (; host->rx_head != host->rx_tail; host->rx_head++)
        free(host->rx[host->rx_head % HOST_RX_MAX]);
    free(host->memory);
}

uint64_t host_counter(struct host *host, const char *name)
{
    for (unsigned i = 0; i < us_counter_count(); i++)
        if (strcmp(us_counter_name(i), name) == 0)
            return us_counter(host->stack, i);
    sim_fail(host->sim, "there is no counter \"%s\"", name);
}

void host_receive(struct host *host, struct link_frame *frame)
{
    if (host->rx_tail - host->rx_head == HOST_RX_MAX) {
        free(frame);
        return;
    }
    host->rx[host->rx_tail++ % HOST_RX_MAX] = frame;
    wake_at(host, host->sim->now_us);
}

static unsigned take_events(struct host *host)
{
    struct us_event event;
    unsigned n = 0;
    while (us_next_event(host->stack, &event)) {
        host->on_event(host, &event);
        if (++n > 1000000)
            sim_fail(host->sim, "host %s: events without end", host->name);
    }
    return n;
}

/* Returns the number of frames and events. The frames are freed. */
static unsigned receive(struct host *host)
{
    struct us_pkt pkts[HOST_BURST_MAX];
    struct us_pkt *list[HOST_BURST_MAX];
    struct link_frame *frames[HOST_BURST_MAX];
    unsigned n = 0;
    unsigned done = 0;
    unsigned events = 0;
    memset(pkts, 0, sizeof(pkts));
    while (n < host->rx_burst && host->rx_head != host->rx_tail) {
        frames[n] = host->rx[host->rx_head++ % HOST_RX_MAX];
        pkts[n].data = frames[n]->bytes;
        pkts[n].len = pkts[n].room = (u_u32)frames[n]->len;
        list[n] = &pkts[n];
        n++;
    }
    for (unsigned rounds = 0; rounds == 0 || done < n; rounds++) {
        host->inputs++;
        done += us_input(host->stack, list + done, n - done, host->sim->now_us);
        events += take_events(host);
        if (done > n || rounds > 1000)
            sim_fail(host->sim, "host %s: us_input() makes no progress", host->name);
    }
    for (unsigned i = 0; i < n; i++)
        free(frames[i]);
    return n + events;
}

/* One us_output(); returns the number of frames. */
static unsigned send(struct host *host)
{
    static uint8_t room[HOST_BURST_MAX][TX_ROOM];
    struct us_pkt pkts[HOST_BURST_MAX];
    struct us_pkt *list[HOST_BURST_MAX];
    memset(pkts, 0, sizeof(pkts));
    for (unsigned i = 0; i < host->tx_burst; i++) {
        pkts[i].data = room[i];
        pkts[i].room = host->config.mtu + 14;
        list[i] = &pkts[i];
    }
    unsigned n = us_output(host->stack, list, host->tx_burst, host->sim->now_us);
    if (n > host->tx_burst)
        sim_fail(host->sim, "host %s: us_output() fills more than there is", host->name);
    for (unsigned i = 0; i < n; i++) {
        if (list[i]->len > host->config.mtu + 14)
            sim_fail(host->sim, "host %s: frame of %u bytes", host->name, list[i]->len);
        link_send(host->sim, host->out, list[i]->data, list[i]->len);
    }
    return n;
}

static void sleep_until_deadline(struct host *host)
{
    uint64_t deadline = us_deadline(host->stack);
    if (host->rx_head != host->rx_tail || deadline <= host->sim->now_us)
        deadline = host->sim->now_us + 1; /* an iteration takes 1 us */
    if (deadline != US_NEVER)
        wake_at(host, deadline);
}

static void check(struct host *host)
{
    if (host->turns++ % host->check_every != 0)
        return;
    const char *broken = us_check(host->stack);
    if (broken)
        sim_fail(host->sim, "host %s: us_check(): %s", host->name, broken);
}

void host_settle(struct host *host)
{
    take_events(host);
    check(host);
    sleep_until_deadline(host);
}

static void turn(struct sim *sim, void *target, void *detail)
{
    struct host *host = target;
    if (host->wake_us != sim->now_us)
        return;
    host->wake_us = US_NEVER;
    unsigned work = receive(host);
    work += send(host);
    work += take_events(host);
    check(host);
    if (sim->now_us / 1000000 != host->idle_second) {
        host->idle_second = sim->now_us / 1000000;
        host->idle_turns = 0;
    }
    if (work == 0 && ++host->idle_turns > host->idle_limit)
        sim_fail(sim, "host %s: it spins: %llu turns without work in a second", host->name,
                 (unsigned long long)host->idle_turns);
    sleep_until_deadline(host);
}
