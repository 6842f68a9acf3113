/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens the workers of the own TCP/IP stack with their device. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/backend.h"
#include "net/log.h"
#include "nic/steer.h"
#include "server_state.h"

#define REOPEN_PAUSE_NS 5000000
#define REOPEN_TRIES_MAX 200

static int print_error(const char *what, const char *why)
{
    net_log_error("ucached: %s: %s", what, why);
    return -1;
}

static void print_link(const struct server *server)
{
    static const char *const of_model[] = {[NET_THREADING_UNIFIED] = "",
                                           [NET_THREADING_SPLIT] = ", split",
                                           [NET_THREADING_MERGE] = ", merged"};
    char link[LINK_DESCRIPTION_MAX];
    char over[LINK_DESCRIPTION_MAX + 64];
    char threads[64] = "";
    unsigned workers = server->options.settings.threads;

    if (workers > server->queue_count)
        snprintf(threads, sizeof(threads), ", %u threads on %u queue%s", server->thread_count,
                 server->queue_count, server->queue_count == 1 ? "" : "s");
    else if (server->thread_count > 1)
        snprintf(threads, sizeof(threads), ", %u threads", server->thread_count);
    snprintf(over, sizeof(over), "own TCP/IP stack, %s%s%s",
             link_describe(&server->options.link, link), threads,
             of_model[server->options.threading]);
    server_print_endpoints(server, over);
}

/* The device of the server that was taken over; false: there is none. */
static bool find_adopted(struct server *server, struct link_adopted *adopted)
{
    struct net_handover *handover = &server->takeover.handover;
    const struct net_handover_record *record;
    size_t at = 0;

    adopted->count = 0;
    while ((record = net_handover_next(handover, &at)) != NULL && adopted->count < NIC_QUEUES_MAX) {
        if (record->kind != NET_HANDOVER_DEVICE)
            continue;
        adopted->fds[adopted->count++] = net_handover_take_fd(handover, record->fd);
        memcpy(adopted->mac, net_handover_input(record), sizeof(adopted->mac));
    }
    return adopted->count > 0;
}

/*
 * Opens the device. That of a server that was taken over may be closed a little after its end. The
 * number of queues, or -1 with a message.
 */
static int open_device(const struct server *server, const struct link_params *use,
                       struct nic *lane[], char error[LINK_ERROR_MAX])
{
    const struct timespec pause = {.tv_nsec = REOPEN_PAUSE_NS};
    bool again = server->takeover.handover.len > 0 && !use->adopted;
    unsigned tries = again ? REOPEN_TRIES_MAX : 1;
    int queues = link_open(&server->options.link, use, lane, error);

    while (queues < 0 && --tries > 0) {
        (void)nanosleep(&pause, NULL);
        queues = link_open(&server->options.link, use, lane, error);
    }
    return queues;
}

/* Opens the queues of the device, and lanes if there are several threads. Returns 0 or -1. */
static int open_lanes(struct server *server, struct nic *lane[], const char *what)
{
    struct options *o = &server->options;
    unsigned threads = o->settings.threads;
    struct link_adopted adopted;
    struct link_params use = {
        .adopted = find_adopted(server, &adopted) ? &adopted : NULL,
        .queues = threads,
        .tcp_port = o->settings.tcp_port,
        .udp_port = o->settings.udp_port,
        .verbose = o->settings.verbosity > 0,
    };
    char error[LINK_ERROR_MAX], why[NIC_ERROR_MAX];
    int queues = open_device(server, &use, lane, error);

    if (queues < 0)
        return print_error(what, error);
    server->queue_count = (unsigned)queues;
    server->restores_device = lane[0]->close_needs_net_admin;
    if (threads == 1 || nic_steer_open(lane, (unsigned)queues, threads, lane, why) == 0)
        return 0;
    while (queues > 0)
        nic_close(lane[--queues]);
    return print_error(what, why);
}

/* Warns if the core and the device are on different NUMA nodes. */
static void warn_node(const struct cores *cores, unsigned thread, const struct nic *nic)
{
    unsigned core = cores_of_thread(cores, thread);
    int node = cores_node(core);

    if (nic->numa_node != NIC_NUMA_ANY && node != CORES_NODE_UNKNOWN && node != nic->numa_node)
        net_log("ucached: warning: core %u is on NUMA node %d, the device on node %d", core, node,
                nic->numa_node);
}

/* Opens a worker and its threads. Returns the part with the stack, or null. */
static struct net_worker *open_one(struct server *server, struct nic *nic,
                                   const struct net_stack_config *config, char error[NET_ERROR_MAX])
{
    struct net_worker *halves[2];

    if (config->threading == NET_THREADING_UNIFIED) {
        halves[0] = net_stack_worker_open(nic, config, error);
        if (halves[0])
            server_add_thread(server, halves[0], "ucached", config->number, 0);
        return halves[0];
    }
    if (net_split_worker_open(nic, config, halves, error) < 0)
        return NULL;
    server_add_thread(server, halves[0], "ucached", config->number, 0);
    server_add_thread(server, halves[1], "sessions", config->number, 1);
    return halves[0];
}

/* Opens a worker on its core, so that its memory is on the core's NUMA node. */
static struct net_worker *open_on_core(struct server *server, struct nic *nic,
                                       const struct net_stack_config *config,
                                       char error[NET_ERROR_MAX])
{
    const struct cores *cores = &server->options.cores;
    unsigned place = server_place_of(&server->options, config->number, 0);
    struct net_worker *worker;

    if (cores->count == 0)
        return open_one(server, nic, config, error);
    warn_node(cores, place, nic);
    (void)cores_pin(
        cores_of_thread(cores, place)); /* on failure the memory may be on another node */
    worker = open_one(server, nic, config, error);
    cores_unpin(cores);
    return worker;
}

static int open_stack_workers(struct server *server, struct net_stack_config *config,
                              struct nic *lane[], const char *what)
{
    struct net_worker *workers[NIC_QUEUES_MAX];
    char why[NET_ERROR_MAX];
    unsigned i;

    for (i = 0; i < config->workers; i++) {
        config->number = i;
        workers[i] = open_on_core(server, lane[i], config, why);
        if (!workers[i])
            break;
    }
    if (i == config->workers && net_stack_link_workers(server->cache, workers, i) == 0)
        return 0;
    if (i == config->workers)
        return print_error(what, "too many lists of statistics");
    for (; i < config->workers; i++)
        nic_close(lane[i]); /* workers own the others */
    return print_error(what, why);
}

static void configure_tcp(const struct options *o, struct us_config *us)
{
    static const u_u32 kinds[] = {[OPTIONS_CC_CUBIC] = US_CC_CUBIC,
                                  [OPTIONS_CC_RENO] = US_CC_RENO,
                                  [OPTIONS_CC_DCTCP] = US_CC_DCTCP};

    us_config_defaults(us);
    us->cc = kinds[o->cc];
    us->ecn = o->ecn == OPTIONS_ECN_OFF ? US_ECN_OFF : US_ECN_ACCEPT;
}

int server_open_stack(struct server *server)
{
    struct options *o = &server->options;
    struct us_config us;
    struct net_stack_config config = {
        .us = &us,
        .cache = server->cache,
        .workers = o->settings.threads,
        .idle = o->idle,
        .threading = o->threading,
        .port = o->settings.tcp_port,
        .tls = server->tls,
        .tls_steps = handshakes_steps(server->handshakes),
        .udp_port = o->settings.udp_port,
        .udp_limit = server->udp_limit,
        .conn_max = o->settings.connections_max,
        .huge_pages = o->huge_pages,
        .accept_waits = o->settings.accept_waits,
        .idle_timeout_s = o->settings.idle_timeout_s,
        .half_open_max = o->settings.listen_backlog,
        .no_fast_path = o->settings.fast_path_off,
        .handover = server->takeover.handover.len > 0 ? &server->takeover.handover : NULL,
    };
    struct nic *lane[NIC_QUEUES_MAX];
    char what[16];

    configure_tcp(o, &us);
    snprintf(what, sizeof(what), "--io=%s", link_backend_name(&o->link));
    if (server_random_bytes(config.secret, sizeof(config.secret)) < 0 ||
        open_lanes(server, lane, what) < 0)
        return -1;
    link_configure_stack(&o->link, &config);
    if (open_stack_workers(server, &config, lane, what) < 0)
        return -1;
    print_link(server);
    return 0;
}
