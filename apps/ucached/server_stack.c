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

/* The device of the server that was taken over: its queues, if they move, and its MAC address. */
static void find_adopted(struct server *server, struct link_params *use,
                         struct link_adopted *adopted)
{
    struct net_handover *handover = &server->takeover.handover;
    const struct net_handover_record *record = net_handover_find(handover, NET_HANDOVER_MAC);
    size_t at = 0;

    use->mac = record ? net_handover_input(record) : NULL;
    adopted->count = 0;
    while ((record = net_handover_next(handover, &at)) != NULL && adopted->count < NIC_QUEUES_MAX) {
        if (record->kind != NET_HANDOVER_DEVICE)
            continue;
        adopted->fds[adopted->count++] = net_handover_take_fd(handover, record->fd);
        memcpy(adopted->mac, net_handover_input(record), sizeof(adopted->mac));
    }
    use->adopted = adopted->count > 0 ? adopted : NULL;
}

/*
 * Opens the device. That of another process may be closed a little after its end. The number of
 * queues, or -1 with the message of the first failure, which the later ones may follow
 * from.
 */
static int open_queues(struct server *server, const struct link_params *use,
                       char error[LINK_ERROR_MAX])
{
    const struct timespec pause = {.tv_nsec = REOPEN_PAUSE_NS};
    bool had_other = use->keep_rss_key || server->takeover.handover.len > 0;
    unsigned tries = had_other && !use->adopted ? REOPEN_TRIES_MAX : 1;
    int queues = link_open(&server->options.link, use, server->lanes, error);
    char later[LINK_ERROR_MAX];

    while (queues < 0 && --tries > 0) {
        (void)nanosleep(&pause, NULL);
        queues = link_open(&server->options.link, use, server->lanes, later);
    }
    return queues;
}

static void params_of(const struct server *server, struct link_params *use)
{
    const struct options *o = &server->options;

    *use = (struct link_params){
        .queues = o->settings.threads,
        .tcp_port = o->settings.tcp_port,
        .udp_port = o->settings.udp_port,
        .verbose = o->settings.verbosity > 0,
    };
}

int server_prepare_device(struct server *server)
{
    char error[LINK_ERROR_MAX];
    struct link_params use;

    params_of(server, &use);
    if (link_prepare(&server->options.link, &use, error) == 0)
        return 0;
    return print_error("--takeover", error);
}

int server_open_device(struct server *server, bool again, char error[LINK_ERROR_MAX])
{
    unsigned threads = server->options.settings.threads;
    struct link_adopted adopted;
    struct link_params use;
    int queues;

    params_of(server, &use);
    if (again)
        use.mac = server->device_mac;
    else
        find_adopted(server, &use, &adopted);
    use.keep_rss_key = again;
    queues = open_queues(server, &use, error);
    if (queues < 0)
        return -1;
    server->queue_count = (unsigned)queues;
    server->restores_device = server->lanes[0]->close_needs_net_admin;
    memcpy(server->device_mac, server->lanes[0]->mac, sizeof(server->device_mac));
    server->lane_count = (unsigned)queues;
    if (threads > 1 &&
        nic_steer_open(server->lanes, (unsigned)queues, threads, server->lanes, error) < 0) {
        server_close_device(server);
        return -1;
    }
    server->lane_count = threads;
    return 0;
}

void server_close_device(struct server *server)
{
    while (server->lane_count > 0)
        nic_close(server->lanes[--server->lane_count]);
}

void server_lend_device(struct server *server)
{
    unsigned i;

    for (i = 0; i < server->thread_count; i++)
        net_stack_close_device(server->threads[i].worker);
}

int server_reopen_device(struct server *server, char error[LINK_ERROR_MAX])
{
    unsigned i;

    if (server_open_device(server, true, error) < 0)
        return -1;
    for (i = 0; i < server->thread_count; i++)
        net_stack_reopen_device(server->threads[i].worker, server->lanes[i]);
    server->lane_count = 0;
    return 0;
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

/* The workers own their lanes. */
static int open_stack_workers(struct server *server, struct net_stack_config *config,
                              const char *what)
{
    struct net_worker *workers[NIC_QUEUES_MAX];
    char why[NET_ERROR_MAX];
    unsigned i, left;

    for (i = 0; i < config->workers; i++) {
        config->number = i;
        workers[i] = open_on_core(server, server->lanes[i], config, why);
        if (!workers[i])
            break;
    }
    for (left = i; left < config->workers; left++)
        nic_close(server->lanes[left]);
    server->lane_count = 0;
    if (i < config->workers)
        return print_error(what, why);
    return net_stack_link_workers(server->cache, workers, i) == 0
               ? 0
               : print_error(what, "too many lists of statistics");
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
    char error[LINK_ERROR_MAX];
    char what[16];

    configure_tcp(o, &us);
    snprintf(what, sizeof(what), "--io=%s", link_backend_name(&o->link));
    if (server_random_bytes(config.secret, sizeof(config.secret)) < 0)
        return -1;
    if (server->lane_count == 0 && server_open_device(server, false, error) < 0)
        return print_error(what, error);
    link_configure_stack(&o->link, &config);
    if (open_stack_workers(server, &config, what) < 0)
        return -1;
    print_link(server);
    return 0;
}
