/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server: one cache and its workers, put together as the options say.
 *
 * Workers run on threads of their own. The main thread sleeps until a signal arrives or a worker
 * ends by itself, then stops all of them and waits, so everything is freed by the thread that made
 * it and in the opposite order.
 */
#define _GNU_SOURCE /* pthread_setname_np() */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "nic/spread.h"
#include "placement.h"
#include "sandbox.h"
#include "server.h"

/* Memory that is touched before it is needed: some milliseconds of storing as fast as can be. */
#define TOUCH_AHEAD_BYTES (UINT64_C(16) << 20)

struct server_thread {
    struct server *server;
    struct net_worker *worker;
    pthread_t id;
    const char *name; /* of the thread, before the worker's number */
    unsigned number;  /* of the worker */
    unsigned place;   /* among the cores */
    bool started;
    int result; /* of net_worker_run() */
};

struct server {
    struct options options;
    struct net_endpoints endpoints; /* of kernel sockets */
    struct cache *cache;
    struct server_thread *threads;
    unsigned thread_count; /* with a worker */
    unsigned queue_count;  /* of the device, if frames come in */
    int ended_fd;          /* an eventfd: a worker has ended */
    int signal_fd;         /* one of the signals that end the server has come */
};

static int complain(const char *what, const char *why)
{
    fprintf(stderr, "ucached: %s: %s\n", what, why);
    return -1;
}

/* ---- where to listen --------------------------------------------------------------------- */

/* The first port of a kind, for the statistics of a server that was told to find one. */
static uint16_t port_found(const struct net_endpoints *endpoints, enum net_endpoint_kind kind)
{
    unsigned i;

    for (i = 0; i < endpoints->count; i++) {
        if (endpoints->list[i].kind == kind)
            return net_endpoint_port(&endpoints->list[i]);
    }
    return 0;
}

static int resolve_endpoints(const struct options *o, struct net_endpoints *endpoints,
                             char error[NET_ERROR_MAX])
{
    const struct cache_settings *s = &o->settings;

    if (s->unix_path)
        return net_endpoints_unix(s->unix_path, s->unix_access, endpoints, error);
    if ((s->tcp_port > 0 || o->tcp_port_any) &&
        net_endpoints_resolve(s->listen_addr, s->tcp_port, NET_ENDPOINT_TCP, endpoints, error) < 0)
        return -1;
    if ((s->udp_port > 0 || o->udp_port_any) &&
        net_endpoints_resolve(s->listen_addr, s->udp_port, NET_ENDPOINT_UDP, endpoints, error) < 0)
        return -1;
    return 0;
}

/* The unix socket belongs to whom the server becomes, as if that one had made it. */
static int give_unix_socket(const struct options *o, const struct daemon_user *user)
{
    if (!o->settings.unix_path || !user->name ||
        lchown(o->settings.unix_path, user->uid, user->gid) == 0)
        return 0;
    return complain("-s: cannot give the socket to the user", strerror(errno));
}

/* The own stack serves its ports on all of its addresses. */
static void stack_endpoints(struct server *server)
{
    const struct cache_settings *s = &server->options.settings;
    unsigned i;

    for (i = 0; i < server->options.link.ip_count; i++) {
        const struct us_addr *addr = &server->options.link.ip[i].addr;

        if (s->tcp_port > 0)
            net_endpoints_add(&server->endpoints, NET_ENDPOINT_TCP, addr, s->tcp_port);
        if (s->udp_port > 0)
            net_endpoints_add(&server->endpoints, NET_ENDPOINT_UDP, addr, s->udp_port);
    }
}

static int find_endpoints(struct server *server, const struct daemon_user *user)
{
    struct options *o = &server->options;
    char error[NET_ERROR_MAX];

    if (link_is_stack(o->link.io)) {
        stack_endpoints(server);
        return 0;
    }

    if (resolve_endpoints(o, &server->endpoints, error) < 0)
        return complain("kernel sockets", error);
    if (server->endpoints.count == 0) {
        fprintf(stderr, "ucached: note: -p 0 and no other way in: nobody can connect\n");
        return 0;
    }
    if (net_endpoints_claim(&server->endpoints, error) < 0)
        return complain("kernel sockets", error);
    if (o->tcp_port_any)
        o->settings.tcp_port = port_found(&server->endpoints, NET_ENDPOINT_TCP);
    if (o->udp_port_any)
        o->settings.udp_port = port_found(&server->endpoints, NET_ENDPOINT_UDP);
    return give_unix_socket(o, user);
}

/*
 * Writes down the ports for a test suite that wants to know them: complete or not at all, as
 * memcached does it.
 */
static int write_ports(const struct net_endpoints *endpoints, const char *path)
{
    static const char *const kinds[] = {"TCP", "UDP"};
    char temporary[PATH_MAX];
    const struct net_endpoint *endpoint;
    FILE *file;
    bool failed;

    if (snprintf(temporary, sizeof(temporary), "%s.lck", path) >= (int)sizeof(temporary))
        return complain("MEMCACHED_PORT_FILENAME", "the path is too long");
    file = fopen(temporary, "w");
    if (!file)
        return complain("MEMCACHED_PORT_FILENAME", strerror(errno));
    for (endpoint = endpoints->list; endpoint < endpoints->list + endpoints->count; endpoint++) {
        if (endpoint->kind != NET_ENDPOINT_UNIX)
            fprintf(file, "%s %s: %u\n", kinds[endpoint->kind],
                    endpoint->addr.ss_family == AF_INET6 ? "INET6" : "INET",
                    net_endpoint_port(endpoint));
    }
    failed = ferror(file);
    if (fclose(file) != 0 || failed || rename(temporary, path) < 0)
        return complain("MEMCACHED_PORT_FILENAME", strerror(errno));
    return 0;
}

/* ---- opening ----------------------------------------------------------------------------- */

static int random_bytes(void *to, size_t bytes)
{
    if (getrandom(to, bytes, 0) == (ssize_t)bytes)
        return 0;
    return complain("no random numbers", strerror(errno));
}

static uint64_t clock_us(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* The command shutdown ends the process as a signal from outside would. */
static void raise_signal(void *ctx, bool graceful)
{
    kill(getpid(), graceful ? SIGUSR1 : SIGINT);
}

/* How many threads a worker has. */
static unsigned threads_each(const struct options *o)
{
    return o->threading == NET_THREADING_UNIFIED ? 1 : 2;
}

static void say_placement(const struct server *server, const struct placement_system *before)
{
    struct kv_placement placement;
    char text[PLACEMENT_TEXT_MAX];

    cache_placement(server->cache, &placement);
    if (server->options.huge_pages)
        fprintf(stderr, "ucached: %s-L: %s\n", placement.pages == KV_PAGES_HUGE ? "" : "note: ",
                placement_pages_text(&placement, before, text));
    if (placement.numa_error != 0)
        fprintf(stderr,
                "ucached: warning: the memory is not spread over the NUMA nodes of the threads' "
                "cores (mbind: %s)\n",
                strerror(placement.numa_error));
}

static int open_cache(struct server *server)
{
    const struct options *o = &server->options;
    struct cache_config config = {.settings = o->settings,
                                  .huge_pages = o->huge_pages,
                                  .touch_ahead_bytes = TOUCH_AHEAD_BYTES};
    struct placement_system before;
    const char *error = NULL;
    uint64_t unix_us;

    if (random_bytes(config.secret, sizeof(config.secret)) < 0)
        return -1;
    config.start_us = clock_us(CLOCK_MONOTONIC);
    unix_us = clock_us(CLOCK_REALTIME);
    config.start_unix_s = unix_us / 1000000;
    config.start_unix_us = (uint32_t)(unix_us % 1000000);
    config.shutdown = raise_signal;
    config.numa_nodes =
        placement_nodes(&o->cores, o->settings.threads * threads_each(o), cores_node);
    placement_system_read(&before);
    server->cache = cache_create(&config, &error);
    if (!server->cache)
        return complain("cannot make the cache", error);
    say_placement(server, &before);
    if (config.settings.auth_file && cache_auth_load(server->cache, &error) < 0)
        return complain(error, config.settings.auth_file);
    return 0;
}

/* What is listened on, one line each, and over what. */
static void say_endpoints(const struct server *server, const char *over)
{
    char text[NET_ENDPOINT_TEXT_MAX];
    unsigned i;

    for (i = 0; i < server->endpoints.count; i++)
        fprintf(stderr, "ucached: listening on %s%s (%s)\n",
                server->endpoints.list[i].kind == NET_ENDPOINT_UDP ? "UDP " : "",
                net_endpoint_text(&server->endpoints.list[i], text), over);
}

static void say_link(const struct server *server)
{
    static const char *const of_model[] = {[NET_THREADING_UNIFIED] = "",
                                           [NET_THREADING_SPLIT] = ", split",
                                           [NET_THREADING_MERGE] = ", merged"};
    char link[LINK_TEXT_MAX];
    char over[LINK_TEXT_MAX + 64];
    char threads[64] = "";
    unsigned workers = server->options.settings.threads;

    if (workers > server->queue_count)
        snprintf(threads, sizeof(threads), ", %u threads on %u queue%s", server->thread_count,
                 server->queue_count, server->queue_count == 1 ? "" : "s");
    else if (server->thread_count > 1)
        snprintf(threads, sizeof(threads), ", %u threads", server->thread_count);
    snprintf(over, sizeof(over), "own TCP/IP stack, %s%s%s", link_text(&server->options.link, link),
             threads, of_model[server->options.threading]);
    say_endpoints(server, over);
}

/* The queues of the device, or what spreads their frames over the threads. Returns 0 or -1. */
static int open_lanes(struct server *server, struct nic *lane[], const char *what)
{
    struct options *o = &server->options;
    unsigned threads = o->settings.threads;
    struct link_use use = {
        .queues = threads,
        .tcp_port = o->settings.tcp_port,
        .udp_port = o->settings.udp_port,
        .verbose = o->settings.verbosity > 0,
    };
    char error[LINK_ERROR_MAX], why[NIC_ERROR_MAX];
    int queues = link_open(&o->link, &use, lane, error);

    if (queues < 0)
        return complain(what, error);
    server->queue_count = (unsigned)queues;
    if (threads == 1 || nic_spread_open(lane, (unsigned)queues, threads, lane, why) == 0)
        return 0;
    while (queues > 0)
        nic_close(lane[--queues]);
    return complain(what, why);
}

/* Memory of another node than the device's is slower to reach, for both. */
static void say_node(const struct cores *cores, unsigned thread, const struct nic *nic)
{
    unsigned core = cores_of_thread(cores, thread);
    int node = cores_node(core);

    if (nic->numa_node != NIC_NUMA_ANY && node != CORES_NODE_UNKNOWN && node != nic->numa_node)
        fprintf(stderr, "ucached: warning: core %u is on NUMA node %d, the device on node %d\n",
                core, node, nic->numa_node);
}

/* Those of one worker stand next to each other in the list of cores, or share one. */
static unsigned place_of(const struct options *o, unsigned number, unsigned half)
{
    return o->threading == NET_THREADING_SPLIT ? 2 * number + half : number;
}

static void add_thread(struct server *server, struct net_worker *worker, const char *name,
                       unsigned number, unsigned half)
{
    struct server_thread *thread = &server->threads[server->thread_count++];

    thread->worker = worker;
    thread->name = name;
    thread->number = number;
    thread->place = place_of(&server->options, number, half);
}

/* A worker and its threads. Returns the half that has the stack, or null. */
static struct net_worker *open_one(struct server *server, struct nic *nic,
                                   const struct net_stack_config *config, char error[NET_ERROR_MAX])
{
    struct net_worker *halves[2];

    if (config->threading == NET_THREADING_UNIFIED) {
        halves[0] = net_stack_worker_open(nic, config, error);
        if (halves[0])
            add_thread(server, halves[0], "ucached", config->number, 0);
        return halves[0];
    }
    if (net_split_worker_open(nic, config, halves, error) < 0)
        return NULL;
    add_thread(server, halves[0], "ucached", config->number, 0);
    add_thread(server, halves[1], "sessions", config->number, 1);
    return halves[0];
}

/* On the core that the worker is for, so that its memory is near it. */
static struct net_worker *open_on_core(struct server *server, struct nic *nic,
                                       const struct net_stack_config *config,
                                       char error[NET_ERROR_MAX])
{
    const struct cores *cores = &server->options.cores;
    unsigned place = place_of(&server->options, config->number, 0);
    struct net_worker *worker;

    if (cores->count == 0)
        return open_one(server, nic, config, error);
    say_node(cores, place, nic);
    (void)cores_pin(cores_of_thread(cores, place)); /* if not, the memory is elsewhere */
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
    if (i == config->workers && net_stack_join(server->cache, workers, i) == 0)
        return 0;
    if (i == config->workers)
        return complain(what, "too many lists of statistics");
    for (; i < config->workers; i++)
        nic_close(lane[i]); /* the others belong to workers */
    return complain(what, why);
}

static int open_stack(struct server *server)
{
    struct options *o = &server->options;
    struct net_stack_config config = {
        .cache = server->cache,
        .workers = o->settings.threads,
        .idle = o->idle,
        .threading = o->threading,
        .port = o->settings.tcp_port,
        .udp_port = o->settings.udp_port,
        .conn_max = o->settings.connections_max,
        .huge_pages = o->huge_pages,
        .accept_waits = o->settings.accept_waits,
        .idle_timeout_s = o->settings.idle_timeout_s,
        .half_open_max = o->settings.listen_backlog,
    };
    struct nic *lane[NIC_QUEUES_MAX];
    char what[16];

    snprintf(what, sizeof(what), "--io=%s", link_io_name(o->link.io));
    if (random_bytes(config.secret, sizeof(config.secret)) < 0 ||
        open_lanes(server, lane, what) < 0)
        return -1;
    link_configure_stack(&o->link, &config);
    if (open_stack_workers(server, &config, lane, what) < 0)
        return -1;
    say_link(server);
    return 0;
}

/*
 * io_uring where it was asked for, and where nobody has asked for anything, for it takes less time
 * per request (docs/backends.md). The sandbox forbids new sockets, which io_uring can make as well.
 */
static bool choose_uring(const struct options *o)
{
    bool asked = o->link.io == LINK_IO_URING;
    char error[NET_ERROR_MAX];

    if (!asked && (!o->link.io_chosen || o->settings.shown.drop_privileges))
        return false;
    if (net_sock_uring_check(error) == 0)
        return true;
    if (asked)
        fprintf(stderr, "ucached: note: --io=uring: %s: using epoll\n", error);
    return false;
}

static int open_sock_workers(struct server *server)
{
    const struct cache_settings *settings = &server->options.settings;
    struct net_worker *workers[OPTIONS_THREADS_MAX];
    struct net_sock_config config = {
        .cache = server->cache,
        .endpoints = &server->endpoints,
        .accept_waits = settings->accept_waits,
        .idle_timeout_s = settings->idle_timeout_s,
        .backlog = (int)settings->listen_backlog,
    };
    char over[64];
    char error[NET_ERROR_MAX];

    config.uring = choose_uring(&server->options);
    while (server->thread_count < settings->threads) {
        unsigned number = server->thread_count;

        workers[number] = net_sock_worker_open(&config, error);
        if (!workers[number])
            return complain("kernel sockets", error);
        add_thread(server, workers[number], "ucached", number, 0);
    }
    if (net_sock_stats(server->cache, workers, server->thread_count) < 0)
        return complain("kernel sockets", "too many lists of statistics");
    snprintf(over, sizeof(over), "kernel sockets%s, %u thread%s",
             config.uring ? " by io_uring" : "", server->thread_count,
             server->thread_count == 1 ? "" : "s");
    say_endpoints(server, over);
    return 0;
}

/* Before anything else, so that what was opened is also given back if the signal comes early. */
static int open_signals(struct server *server)
{
    sigset_t signals;

    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGUSR1);
    sigaddset(&signals, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    signal(SIGHUP, SIG_DFL); /* ignored until now; what is ignored never gets to the descriptor */
    server->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    return server->signal_fd < 0 ? complain("signals", strerror(errno)) : 0;
}

/* For `stats conns`; datagram sockets are there as the sessions that they have. */
static int show_listeners(struct server *server)
{
    struct cache_peer peer;
    unsigned i;
    int rc = 0;

    for (i = 0; i < server->endpoints.count && rc == 0; i++) {
        net_endpoint_peer(&server->endpoints.list[i], &peer);
        if (server->endpoints.list[i].kind != NET_ENDPOINT_UDP)
            rc = cache_listener_add(server->cache, &peer);
    }
    return rc < 0 ? complain("listeners", "there are too many for the statistics") : 0;
}

static int open_workers(struct server *server)
{
    const char *port_file = getenv("MEMCACHED_PORT_FILENAME");

    if ((link_is_stack(server->options.link.io) ? open_stack(server) : open_sock_workers(server)) <
        0)
        return -1;
    return port_file ? write_ports(&server->endpoints, port_file) : 0;
}

static int open_parts(struct server *server, const struct daemon_user *user)
{
    struct options *o = &server->options;

    if (open_signals(server) < 0)
        return -1;
    server->ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (server->ended_fd < 0)
        return complain("no event descriptor", strerror(errno));
    server->threads = calloc(o->settings.threads * threads_each(o), sizeof(server->threads[0]));
    if (!server->threads)
        return complain("threads", "no memory");
    if (find_endpoints(server, user) < 0)
        return -1;
    if (open_cache(server) < 0 || show_listeners(server) < 0)
        return -1;
    return open_workers(server);
}

struct server *server_open(const struct options *options, const struct daemon_user *user)
{
    struct server *server = calloc(1, sizeof(*server));

    if (!server) {
        complain("no memory", "for the server");
        return NULL;
    }
    server->options = *options;
    server->ended_fd = -1;
    server->signal_fd = -1;
    if (server->options.settings.listen_addr)
        server->options.settings.listen_addr = server->options.listen;
    if (open_parts(server, user) == 0)
        return server;
    server_close(server);
    return NULL;
}

/* ---- running ----------------------------------------------------------------------------- */

static void *thread_main(void *arg)
{
    struct server_thread *thread = arg;
    char name[16];

    snprintf(name, sizeof(name), "%s-%u", thread->name, thread->number);
    pthread_setname_np(pthread_self(), name);
    if (thread->server->options.cores.count > 0)
        (void)cores_pin(cores_of_thread(&thread->server->options.cores, thread->place));
    thread->result = net_worker_run(thread->worker);
    (void)eventfd_write(thread->server->ended_fd, 1);
    return NULL;
}

static int start_threads(struct server *server)
{
    unsigned i;
    int rc;

    for (i = 0; i < server->thread_count; i++) {
        struct server_thread *thread = &server->threads[i];

        thread->server = server;
        rc = pthread_create(&thread->id, NULL, thread_main, thread);
        if (rc != 0)
            return complain("cannot start a thread; lower -t", strerror(rc));
        thread->started = true;
    }
    return 0;
}

/* SIGHUP: the users of -Y are read again. They stay as they are if that fails. */
static void reload(struct server *server)
{
    const char *path = server->options.settings.auth_file;
    const char *error;

    if (path && cache_auth_load(server->cache, &error) < 0)
        complain(error, path);
}

/* Takes the signal that has come; false if it is not one that ends the server. */
static bool signal_ends(struct server *server)
{
    struct signalfd_siginfo info;

    if (read(server->signal_fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
        return false;
    if (info.ssi_signo == SIGHUP) {
        reload(server);
        return false;
    }
    if (server->options.settings.verbosity > 0)
        fprintf(stderr, "ucached: stopping, signal %u\n", info.ssi_signo);
    return true;
}

static int wait_for_end(struct server *server)
{
    struct pollfd fds[2] = {{.fd = server->signal_fd, .events = POLLIN},
                            {.fd = server->ended_fd, .events = POLLIN}};

    for (;;) {
        if (poll(fds, 2, -1) < 0) {
            if (errno != EINTR)
                return complain("poll", strerror(errno));
            continue;
        }
        if (fds[1].revents || (fds[0].revents && signal_ends(server)))
            return 0;
    }
}

/* Stops all threads that were started; returns -1 after a message for each that had failed. */
static int join_threads(struct server *server)
{
    unsigned i;
    int rc = 0;

    for (i = 0; i < server->thread_count; i++)
        net_worker_stop(server->threads[i].worker);
    for (i = 0; i < server->thread_count; i++) {
        if (!server->threads[i].started)
            continue;
        pthread_join(server->threads[i].id, NULL);
        if (server->threads[i].result < 0)
            rc = complain("a worker has ended", strerror(-server->threads[i].result));
    }
    return rc;
}

int server_run(struct server *server)
{
    int rc = start_threads(server);

    if (rc == 0 && server->options.settings.shown.drop_privileges)
        rc = sandbox_enter();
    if (rc == 0)
        rc = wait_for_end(server);
    if (join_threads(server) < 0)
        rc = -1;
    return rc;
}

void server_close(struct server *server)
{
    unsigned i;

    for (i = 0; i < server->thread_count; i++)
        net_worker_close(server->threads[i].worker);
    net_endpoints_close(&server->endpoints);
    if (server->cache)
        cache_destroy(server->cache);
    if (server->ended_fd >= 0)
        close(server->ended_fd);
    if (server->signal_fd >= 0)
        close(server->signal_fd);
    free(server->threads);
    free(server);
}
