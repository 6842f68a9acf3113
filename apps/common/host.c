/* SPDX-License-Identifier: BSD-3-Clause */
/* A client's TCP/IP stack; see host.h. */
#include "common/host.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>

#include "base/base.h"
#include "net/stack_worker.h"

/* Short, because many short connections use many ports. */
#define TIME_WAIT_US 1000000

/* Maximum number of frames sent per turn, before frames are received again. */
#define TX_FRAMES_MAX 256

/* Sleep limit while the device accepts no frames. */
#define SLEEP_STALLED_US 1000

/* Turns for sending resets on close, and the pause while the device is full. */
#define CLOSE_TURNS_MAX 1024
#define CLOSE_WAIT_NS 100000

/* Time for the peer to take the last frames from a ring in memory, which is freed on close. */
#define CLOSE_REST_NS 2000000

/* Duplicate address detection takes one second and starts within another one (RFC 4862). */
#define SETTLE_US UINT64_C(3000000)

/* Maximum number of neighbour entries. */
#define NEIGHBOURS_MAX 65536

/* Limits of the buffer pool; its pages are allocated on first use. */
#define BUFFER_BYTES_MIN (64u * 1024 * 1024)
#define BUFFER_BYTES_MAX (1024u * 1024 * 1024)

static int fail(char error[LINK_ERROR_MAX], const char *what, const char *why)
{
    snprintf(error, LINK_ERROR_MAX, "%s: %s", what, why);
    return -1;
}

static int fill_config(const struct nic *nic, const struct host_config *config,
                       struct us_config *us)
{
    uint64_t buffers;

    us_config_defaults(us);
    memcpy(us->mac, nic->mac, sizeof(us->mac));
    us->caps = nic->caps;
    us->mtu = nic->mtu;
    if (config->conn_max > 0)
        us->conn_max = config->conn_max;
    us->neighbour_max = u_min32(u_max32(us->neighbour_max, us->conn_max), NEIGHBOURS_MAX);
    if (config->recv_window_bytes > 0)
        us->recv_window_bytes = config->recv_window_bytes;
    if (config->send_queue_bytes > 0)
        us->send_queue_bytes = config->send_queue_bytes;
    buffers = (uint64_t)us->conn_max * (us->recv_window_bytes + us->send_queue_bytes);
    if (buffers < BUFFER_BYTES_MIN)
        buffers = BUFFER_BYTES_MIN;
    us->buffer_bytes = (u_u32)u_min64(buffers, BUFFER_BYTES_MAX);
    us->time_wait_us = config->time_wait_us > 0 ? config->time_wait_us : TIME_WAIT_US;
    us->arp_passive = config->arp_passive;
    return getrandom(us->secret, sizeof(us->secret), 0) == sizeof(us->secret) ? 0 : -1;
}

static int add_addresses(struct host *host, const struct link_options *link,
                         char error[LINK_ERROR_MAX])
{
    unsigned i;
    int rc = 0;

    for (i = 0; i < link->ip_count && rc == 0; i++) {
        rc = us_addr_add(host->stack, &link->ip[i].addr, link->ip[i].prefix_len);
        if (link->ip[i].addr.family == US_IP6)
            host->settled_us = net_clock_us() + SETTLE_US;
    }
    if (rc < 0)
        return fail(error, "cannot use an address", us_strerror(rc));
    for (i = 0; i < link->gateway_count && rc == 0; i++)
        rc = us_gateway_set(host->stack, &link->gateways[i]);
    return rc < 0 ? fail(error, "cannot use the gateway", us_strerror(rc)) : 0;
}

int host_open(struct host *host, struct nic *nic, const struct link_options *link,
              const struct host_config *config, char error[LINK_ERROR_MAX])
{
    struct us_config us;

    memset(host, 0, sizeof(*host));
    if (fill_config(nic, config, &us) < 0)
        return fail(error, "no random numbers", strerror(errno));
    host->caps = us.caps;
    host->memory_bytes = us_memory_bytes(&us);
    if (host->memory_bytes == 0)
        return fail(error, "the TCP/IP stack", "the connections or the MTU are out of range");
    host->memory = mmap(NULL, host->memory_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (host->memory == MAP_FAILED)
        return fail(error, "no memory for the TCP/IP stack", strerror(errno));
    host->stack = us_create(&us, host->memory, host->memory_bytes, net_clock_us());
    if (!host->stack)
        fail(error, "the TCP/IP stack", "its configuration is refused");
    if (host->stack && add_addresses(host, link, error) == 0) {
        host->nic = nic;
        return 0;
    }
    munmap(host->memory, host->memory_bytes);
    return -1;
}

bool host_is_settling(const struct host *host, int error, uint64_t now_us)
{
    return error == US_ERR_NO_ROUTE && now_us < host->settled_us;
}

static void abort_all(struct host *host)
{
    struct us_conn *conn;
    u_u32 cursor = 0;

    do {
        conn = us_conn_next(host->stack, &cursor);
        if (conn)
            us_abort(host->stack, conn);
    } while (conn || cursor != 0);
}

static void ignore_event(void *ctx, const struct us_event *event)
{
}

static void pause_ns(long ns)
{
    const struct timespec pause = {.tv_nsec = ns};

    (void)nanosleep(&pause, NULL);
}

/* Resets all connections, which would otherwise occupy the server until they time out. */
static void send_resets(struct host *host, uint64_t now_us)
{
    uint64_t before = host->tx_frames;
    unsigned turn;

    abort_all(host);
    for (turn = 0; turn < CLOSE_TURNS_MAX; turn++) {
        host_receive(host, now_us, ignore_event, NULL);
        if (host_transmit(host, now_us) > 0)
            continue;
        if (host->unsent_count == 0)
            break;
        pause_ns(CLOSE_WAIT_NS);
    }
    if (host->tx_frames > before)
        pause_ns(CLOSE_REST_NS);
}

void host_close(struct host *host, uint64_t now_us)
{
    send_resets(host, now_us);
    nic_release(host->nic, host->empty, host->empty_count);
    nic_release(host->nic, host->unsent, host->unsent_count);
    munmap(host->memory, host->memory_bytes);
    nic_close(host->nic);
}

/* ---- the turn ---------------------------------------------------------------------------- */

/* Delivers all pending events. Returns how many. */
static unsigned take_events(struct host *host, host_event *on_event, void *ctx)
{
    struct us_event event;
    unsigned n;

    for (n = 0; us_next_event(host->stack, &event); n++)
        on_event(ctx, &event);
    return n;
}

unsigned host_receive(struct host *host, uint64_t now_us, host_event *on_event, void *ctx)
{
    struct us_pkt *rx[NIC_BURST_MAX];
    uint64_t start = net_ticks();
    unsigned count = nic_rx_burst(host->nic, rx, nic_burst(host->nic));
    unsigned happened = count;
    unsigned done = 0;
    unsigned step, events;

    host->rx_frames += count;
    do {
        step = us_input(host->stack, rx + done, count - done, now_us);
        done += step;
        events = take_events(host, on_event, ctx);
        happened += events;
    } while (done < count && step + events > 0);
    if (count > 0)
        nic_release(host->nic, rx, count);
    host->turn_start = start;
    host->turn_is_busy = happened > 0;
    return happened;
}

/* Retries frames that the device did not accept. Returns whether all were sent. */
static bool send_unsent(struct host *host)
{
    unsigned sent;

    if (host->unsent_count == 0)
        return true;
    sent = nic_tx_burst(host->nic, host->unsent, host->unsent_count);
    host->unsent_count -= sent;
    memmove(host->unsent, host->unsent + sent, host->unsent_count * sizeof(host->unsent[0]));
    return host->unsent_count == 0;
}

unsigned host_transmit(struct host *host, uint64_t now_us)
{
    unsigned burst = nic_burst(host->nic);
    unsigned total = 0;
    unsigned n, sent, had;

    if (U_UNLIKELY(host->nic->caps != host->caps)) {
        host->caps = host->nic->caps;
        us_caps_set(host->stack, host->caps);
    }
    while (total < TX_FRAMES_MAX && send_unsent(host)) {
        if (host->empty_count < burst)
            host->empty_count +=
                nic_alloc(host->nic, host->empty + host->empty_count, burst - host->empty_count);
        had = host->empty_count;
        n = us_output(host->stack, host->empty, had, now_us);
        if (n == 0)
            break;
        sent = nic_tx_burst(host->nic, host->empty, n);
        host->unsent_count = n - sent;
        if (U_UNLIKELY(sent < n))
            memcpy(host->unsent, host->empty + sent, (n - sent) * sizeof(host->unsent[0]));
        host->empty_count -= n;
        if (host->empty_count > 0)
            memmove(host->empty, host->empty + n, host->empty_count * sizeof(host->empty[0]));
        total += n;
        if (n < had)
            break;
    }
    host->tx_frames += total;
    if (host->turn_start > 0 && (host->turn_is_busy || total > 0))
        host->cycles_busy += net_ticks() - host->turn_start;
    host->turn_start = 0;
    return total;
}

int host_wait(struct host *host, uint64_t now_us, uint64_t timeout_us)
{
    uint64_t deadline_us = us_deadline(host->stack);

    if (host->unsent_count > 0)
        timeout_us = u_min64(timeout_us, SLEEP_STALLED_US);
    else if (deadline_us <= now_us)
        return 0;
    else
        timeout_us = u_min64(timeout_us, deadline_us - now_us);
    return timeout_us > 0 ? nic_wait(host->nic, timeout_us) : 0;
}
