/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server: one cache and its workers; see server.h.
 *
 * Each worker has its own threads. The main thread sleeps until a signal arrives or a worker ends,
 * then stops and joins all threads, so that everything is freed by the thread that created it, in
 * reverse order.
 */
#define _GNU_SOURCE /* pthread_setname_np() */
#include <errno.h>
#include <limits.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "common/backend.h"
#include "listen.h"
#include "net/log.h"
#include "notify.h"
#include "placement.h"
#include "privileges.h"
#include "reload.h"
#include "sandbox.h"
#include "server.h"
#include "server_state.h"

/* Memory that is prefaulted in advance: some milliseconds of storing at full speed. */
#define TOUCH_AHEAD_BYTES (UINT64_C(16) << 20)

static int print_error(const char *what, const char *why)
{
    net_log_error("ucached: %s: %s", what, why);
    return -1;
}

/* ---- opening ----------------------------------------------------------------------------- */

int server_random_bytes(void *to, size_t bytes)
{
    if (getrandom(to, bytes, 0) == (ssize_t)bytes)
        return 0;
    return print_error("no random numbers", strerror(errno));
}

uint64_t server_clock_us(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void log_text(const char *line)
{
    net_log("%s", line);
}

static void log_refusal(const char *line)
{
    static struct net_log_limit limit = NET_LOG_LIMIT;

    net_log_limited(&limit, "%s", line);
}

/* The command shutdown ends the process by a signal. */
static void raise_signal(void *ctx, bool graceful)
{
    kill(getpid(), graceful ? SIGUSR1 : SIGINT);
}

U_STATIC_ASSERT(TLS_ERROR_MAX <= CACHE_ERROR_MAX, a_message_of_tls_fits);

static int refresh_certs(void *ctx, char error[CACHE_ERROR_MAX])
{
    return tls_context_refresh(ctx, error);
}

/* Threads per worker. */
static unsigned threads_each(const struct options *o)
{
    return o->threading == NET_THREADING_UNIFIED ? 1 : 2;
}

static void print_placement(const struct server *server, const struct placement_system *before)
{
    struct kv_placement placement;
    char text[PLACEMENT_TEXT_MAX];

    cache_placement(server->cache, &placement);
    if (server->memory_file.path)
        memory_file_print(&server->memory_file, cache_restored(server->cache),
                          server_clock_us(CLOCK_REALTIME) / 1000000);
    if (server->options.huge_pages && server->memory_file.path)
        net_log("ucached: %s-L: %s", placement.pages == KV_PAGES_HUGE ? "" : "note: ",
                placement.pages == KV_PAGES_HUGE ? "items in the huge pages of -e"
                                                 : "the file of -e is not on hugetlbfs");
    else if (server->options.huge_pages)
        net_log("ucached: %s-L: %s", placement.pages == KV_PAGES_HUGE ? "" : "note: ",
                placement_pages_text(&placement, before, text));
    if (placement.numa_error != 0)
        net_log("ucached: warning: the memory is not spread over the NUMA nodes of the threads' "
                "cores (mbind: %s)",
                strerror(placement.numa_error));
}

/* Opens the memory that the process has taken over, or new memory for --takeover alone. */
static int open_taken_memory(struct server *server, const struct daemon_user *user)
{
    const char *path = server->options.settings.memory_file;
    int fd = server->takeover.memory_fd;

    server->takeover.memory_fd = -1;
    return memory_file_adopt(&server->memory_file, path ? path : MEMORY_FILE_TAKEOVER, fd, user);
}

/* Opens the memory that outlives the process, if there is to be one. */
static int open_memory(struct server *server, const struct daemon_user *user)
{
    const struct options *o = &server->options;
    int fd = server->activation.memory_fd;

    if (o->takeover && !o->fd_store &&
        (server->takeover.memory_fd >= 0 || !o->settings.memory_file))
        return open_taken_memory(server, user);
    if (server->takeover.memory_fd >= 0) {
        fd = server->takeover.memory_fd;
        server->takeover.memory_fd = -1;
    } else if (o->settings.memory_file || !o->fd_store) {
        if (fd >= 0)
            (void)notify_forget(ACTIVATION_MEMORY);
        return o->settings.memory_file
                   ? memory_file_open(&server->memory_file, o->settings.memory_file, user)
                   : 0;
    }
    server->activation.memory_fd = -1;
    if (memory_file_adopt(&server->memory_file, MEMORY_FILE_STORED, fd, user) < 0)
        return -1;
    /* The service manager still holds a descriptor that it has passed to us. */
    if (fd < 0 && notify_store(ACTIVATION_MEMORY, server->memory_file.fd) < 0)
        net_log("ucached: warning: --fd-store: the items end with this process: no service manager "
                "holds them (%s)",
                notify_is_open() ? strerror(errno) : "NOTIFY_SOCKET is not set");
    return 0;
}

void server_cache_config(const struct server *server, int memory_fd, struct cache_config *config)
{
    const struct options *o = &server->options;
    uint64_t unix_us = server_clock_us(CLOCK_REALTIME);

    *config = (struct cache_config){.settings = o->settings,
                                    .huge_pages = o->huge_pages,
                                    .dump_items = o->core_dumps,
                                    .touch_ahead_bytes = TOUCH_AHEAD_BYTES};
    if (memory_fd >= 0)
        config->settings.memory_file =
            server->memory_file.path ? server->memory_file.path : MEMORY_FILE_TAKEOVER;
    config->memory_fd = memory_fd;
    /* Seconds begin with those of Unix time, so that items lose none from process to process. */
    config->start_us = server_clock_us(CLOCK_MONOTONIC) - unix_us % 1000000;
    config->start_unix_s = unix_us / 1000000;
    config->start_unix_us = 0;
    config->shutdown = raise_signal;
    config->refresh_certs = server->tls ? refresh_certs : NULL;
    config->refresh_certs_ctx = server->tls;
    config->log = log_text;
    config->log_refusal = log_refusal;
    config->numa_nodes =
        placement_nodes(&o->cores, o->settings.threads * threads_each(o), cores_node);
}

static int open_cache(struct server *server, const struct daemon_user *user)
{
    struct placement_system before;
    struct cache_config config;
    const char *error = NULL;

    if (open_memory(server, user) < 0)
        return -1;
    server_cache_config(server, server->memory_file.fd, &config);
    if (server_random_bytes(config.secret, sizeof(config.secret)) < 0)
        return -1;
    placement_system_read(&before);
    server->cache = cache_create(&config, &error);
    if (!server->cache)
        return print_error("cannot make the cache", error);
    print_placement(server, &before);
    if (reload_first(server->cache) < 0) {
        server->exit_status = OPTIONS_EXIT_RANGE; /* as memcached */
        return -1;
    }
    return 0;
}

/* Opens the limits of UDP replies: source addresses of UDP requests are unverified. */
static int open_udp(struct server *server)
{
    const struct options *o = &server->options;
    uint8_t key[16];
    char rate[64] = "no limit of the rate";

    if (o->settings.udp_port == 0)
        return 0;
    if (server_random_bytes(key, sizeof(key)) < 0)
        return -1;
    server->udp_limit = net_udp_limit_create(o->udp_reply_bytes, o->udp_bytes_per_s, key);
    if (!server->udp_limit)
        return print_error("UDP", "no memory");
    if (o->udp_bytes_per_s > 0)
        snprintf(rate, sizeof(rate), "%u bytes/s to a source", o->udp_bytes_per_s);
    net_log("ucached: warning: UDP is on (-U): requests with a forged source make the server send "
            "replies to a victim; let only trusted hosts reach the port (replies of at most %u "
            "bytes, %s)",
            o->udp_reply_bytes, rate);
    return 0;
}

void server_print_endpoints(const struct server *server, const char *over)
{
    static const char *const tls_names[] = {[CACHE_TLS_OFF] = "",
                                            [CACHE_TLS_ON] = "TLS, ",
                                            [CACHE_TLS_NO_CERT] = "TLS, ",
                                            [CACHE_TLS_CERT] = "TLS with client certificates, "};
    char text[NET_ENDPOINT_TEXT_MAX];
    unsigned i;

    for (i = 0; i < server->endpoints.count; i++)
        net_log("ucached: listening on %s%s (%s%s)",
                server->endpoints.list[i].kind == NET_ENDPOINT_UDP ? "UDP " : "",
                net_endpoint_text(&server->endpoints.list[i], text),
                tls_names[server->endpoints.list[i].tls], over);
}

/*
 * The index in the list of cores: with --threading=split the two threads of a worker use
 * neighbouring cores, otherwise they share one.
 */
unsigned server_place_of(const struct options *o, unsigned number, unsigned half)
{
    return o->threading == NET_THREADING_SPLIT ? 2 * number + half : number;
}

void server_add_thread(struct server *server, struct net_worker *worker, const char *name,
                       unsigned number, unsigned half)
{
    struct server_thread *thread = &server->threads[server->thread_count++];

    thread->worker = worker;
    thread->name = name;
    thread->number = number;
    thread->place = server_place_of(&server->options, number, half);
}

/*
 * Whether to use io_uring: if requested, and by default if available, since it takes less time per
 * request.
 */
static bool choose_uring(const struct options *o)
{
    bool requested = o->link.backend->io_uring;
    char error[NET_ERROR_MAX];

    if (!requested && o->link.io != LINK_IO_AUTO)
        return false;
    if (net_sock_uring_check(error) == 0)
        return true;
    if (requested)
        net_log("ucached: note: --io=uring: %s: using epoll", error);
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
        .tls = server->tls,
        .tls_steps = handshakes_steps(server->handshakes),
        .udp_limit = server->udp_limit,
        .backlog = (int)settings->listen_backlog,
        .workers = settings->threads,
        .handover = server->takeover.handover.len > 0 ? &server->takeover.handover : NULL,
    };
    char over[64];
    char error[NET_ERROR_MAX];

    config.uring = choose_uring(&server->options);
    while (server->thread_count < settings->threads) {
        unsigned number = server->thread_count;

        config.number = number;
        workers[number] = net_sock_worker_open(&config, error);
        if (!workers[number])
            return print_error("kernel sockets", error);
        server_add_thread(server, workers[number], "ucached", number, 0);
    }
    if (net_sock_stats(server->cache, workers, server->thread_count) < 0)
        return print_error("kernel sockets", "too many lists of statistics");
    snprintf(over, sizeof(over), "kernel sockets%s, %u thread%s",
             config.uring ? " by io_uring" : "", server->thread_count,
             server->thread_count == 1 ? "" : "s");
    server_print_endpoints(server, over);
    return 0;
}

/* Blocks the signals first, so that an early signal still closes everything in order. */
static int open_signals(struct server *server)
{
    sigset_t signals;

    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGUSR1);
    sigaddset(&signals, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    signal(SIGHUP, SIG_DFL); /* an ignored signal would not reach the signalfd */
    server->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    return server->signal_fd < 0 ? print_error("signals", strerror(errno)) : 0;
}

/* Registers the listeners for `stats conns`; UDP sockets are shown as sessions. */
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
    return rc < 0 ? print_error("listeners", "there are too many for the statistics") : 0;
}

static int open_handshakes(struct server *server)
{
    const struct options *o = &server->options;

    if (!server->tls || o->settings.tls.handshake_threads == 0)
        return 0;
    server->handshakes = handshakes_open(o, server_place_of(o, o->settings.threads, 0));
    return server->handshakes ? 0 : print_error("handshakes", "no memory");
}

static int open_workers(struct server *server, const struct daemon_user *user)
{
    const char *port_file = getenv("MEMCACHED_PORT_FILENAME");

    if (open_handshakes(server) < 0)
        return -1;
    if ((link_carries_frames(&server->options.link) ? server_open_stack(server)
                                                    : open_sock_workers(server)) < 0)
        return -1;
    return port_file ? listen_write_ports(&server->endpoints, port_file, user) : 0;
}

/* Takes over the endpoints of a running server, or opens new ones. */
static int open_endpoints(struct server *server, const struct daemon_user *user)
{
    int rc = server->options.takeover ? server_take_over(server, user) : 0;

    if (rc < 0)
        return -1;
    if (rc == 0 || link_carries_frames(&server->options.link))
        return listen_open(&server->endpoints, &server->options, &server->activation, user);
    listen_set_ports(&server->endpoints, &server->options.settings);
    return 0;
}

static int open_parts(struct server *server, const struct daemon_user *user)
{
    struct options *o = &server->options;

    if (open_signals(server) < 0 || activation_open(&server->activation) < 0)
        return -1;
    server->ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (server->ended_fd < 0)
        return print_error("no event descriptor", strerror(errno));
    server->threads = calloc(o->settings.threads * threads_each(o), sizeof(server->threads[0]));
    if (!server->threads)
        return print_error("threads", "no memory");
    server->endpoints.tls = server->tls != NULL;
    if (open_endpoints(server, user) < 0)
        return -1;
    if (open_cache(server, user) < 0 || show_listeners(server) < 0 || open_udp(server) < 0)
        return -1;
    if (o->metrics)
        server->metrics = metrics_open(o->metrics);
    if (o->metrics && !server->metrics)
        return -1;
    if (open_workers(server, user) < 0)
        return -1;
    return o->takeover ? takeover_listen(&server->takeover, o->takeover, user) : 0;
}

struct server *server_open(const struct options *options, const struct daemon_user *user,
                           struct tls_context *tls, int *exit_status)
{
    struct server *server = calloc(1, sizeof(*server));

    *exit_status = EX_OSERR;
    if (!server) {
        print_error("no memory", "for the server");
        return NULL;
    }
    server->options = *options;
    server->tls = tls;
    server->exit_status = EX_OSERR;
    sem_init(&server->ready, 0, 0);
    server->memory_file.fd = -1;
    server->activation.memory_fd = -1;
    takeover_init(&server->takeover);
    server->ended_fd = -1;
    server->signal_fd = -1;
    if (server->options.settings.listen_addr)
        server->options.settings.listen_addr = server->options.listen;
    if (open_parts(server, user) == 0)
        return server;
    *exit_status = server->exit_status;
    server_close(server);
    return NULL;
}

/* ---- running ----------------------------------------------------------------------------- */

static void count_ready(void *ctx)
{
    struct server_thread *thread = ctx;

    if (!thread->ready)
        sem_post(&thread->server->ready);
    thread->ready = true;
}

static void *thread_main(void *arg)
{
    struct server_thread *thread = arg;
    const struct options *o = &thread->server->options;
    char name[16];

    if (!o->keep_privileges)
        privileges_drop_thread();
    snprintf(name, sizeof(name), "%s-%u", thread->name, thread->number);
    pthread_setname_np(pthread_self(), name);
    if (o->cores.count > 0)
        (void)cores_pin(cores_of_thread(&o->cores, thread->place));
    if (link_carries_frames(&o->link))
        count_ready(thread);
    else
        net_worker_on_ready(thread->worker, count_ready, thread);
    thread->result = net_worker_run(thread->worker);
    count_ready(thread);
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
            return print_error("cannot start a thread; lower -t", strerror(rc));
        thread->started = true;
    }
    rc = server->handshakes ? handshakes_start(server->handshakes) : 0;
    return rc == 0 ? 0
                   : print_error("cannot start a thread; lower -o handshake_threads", strerror(rc));
}

/* Installs the system call filter after all threads have opened their devices and sockets. */
static int enter_sandbox(struct server *server)
{
    const struct options *o = &server->options;
    const struct link_backend *backend = o->link.backend;
    const struct sandbox_use use = {.syscalls = backend->syscalls,
                                    .reads_files =
                                        reload_has_files(server->cache, server->tls != NULL) ||
                                        (backend->reads_files && backend->reads_files(&o->link)),
                                    .memory_file = server->memory_file.path != NULL,
                                    .removes_files = o->pidfile && o->daemonize,
                                    .serves_metrics = server->metrics != NULL,
                                    .offers_takeover = o->takeover != NULL};
    bool required = o->settings.compat.drop_privileges;
    unsigned i;
    int rc;

    if (o->keep_privileges || (!required && !sandbox_is_default()))
        return 0;
    for (i = 0; i < server->thread_count; i++) {
        while (sem_wait(&server->ready) < 0)
            continue; /* a signal */
    }
    rc = sandbox_enter(&use);
    if (rc == 0)
        return 0;
    net_log("ucached: %sno system call filter: %s", required ? "-o drop_privileges: " : "note: ",
            sandbox_is_built() ? strerror(-rc) : "this build has no libseccomp");
    return required ? -1 : 0;
}

/* Handles a signal. Returns whether it ends the server. */
static bool signal_ends(struct server *server)
{
    struct signalfd_siginfo info;

    if (read(server->signal_fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
        return false;
    if (info.ssi_signo == SIGHUP) {
        reload_all(server->cache, server->tls != NULL, server_clock_us(CLOCK_MONOTONIC));
        return false;
    }
    server->discards = info.ssi_signo == SIGINT;
    if (server->options.settings.verbosity > 0)
        net_log("ucached: stopping, signal %u", info.ssi_signo);
    return true;
}

static int wait_for_end(struct server *server)
{
    struct pollfd fds[] = {{.fd = server->signal_fd, .events = POLLIN},
                           {.fd = server->ended_fd, .events = POLLIN},
                           {.fd = server->takeover.listen_fd, .events = POLLIN}};

    /* Twice as often as systemd expects. */
    uint64_t watchdog_us = notify_watchdog_us();
    int timeout_ms = watchdog_us > 0 ? (int)u_min64(watchdog_us / 2000, INT_MAX) : -1;

    for (;;) {
        int count = poll(fds, U_ARRAY_LEN(fds), timeout_ms);

        if (watchdog_us > 0)
            (void)notify_alive();
        if (count < 0) {
            if (errno != EINTR)
                return print_error("poll", strerror(errno));
            continue;
        }
        if (fds[1].revents || (fds[0].revents && signal_ends(server)))
            return 0;
        if (fds[2].revents)
            server_offer_takeover(server);
    }
}

/*
 * Stops and joins all threads that were started. Returns -1 after a message for each that failed.
 */
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
            rc = print_error("a worker has ended", strerror(-server->threads[i].result));
    }
    if (server->handshakes)
        handshakes_stop(server->handshakes);
    return rc;
}

int server_run(struct server *server)
{
    int rc = net_log_start();

    if (rc < 0)
        return print_error("cannot start a thread", strerror(-rc));
    rc = start_threads(server);
    if (rc == 0 && server->metrics)
        rc = metrics_start(server->metrics, server->cache);
    /* The log thread inherited the capability that this thread keeps. */
    if (rc == 0 && server->restores_device && !server->options.keep_privileges &&
        privileges_drop_others() < 0)
        rc = print_error("capabilities", "a thread does not drop them");
    if (rc == 0)
        rc = enter_sandbox(server);
    if (rc == 0) {
        rc = wait_for_end(server);
        (void)notify_stopping();
    }
    metrics_close(server->metrics);
    server->metrics = NULL;
    if (join_threads(server) < 0)
        rc = -1;
    net_log_stop();
    return rc;
}

uint64_t server_capabilities(const struct server *server)
{
    return server->restores_device ? UINT64_C(1) << CAP_NET_ADMIN : 0;
}

void server_close(struct server *server)
{
    unsigned i;

    metrics_close(server->metrics);
    for (i = 0; i < server->thread_count; i++)
        net_worker_close(server->threads[i].worker);
    handshakes_close(server->handshakes);
    server_close_device(server);
    net_endpoints_close(&server->endpoints);
    net_udp_limit_destroy(server->udp_limit);
    if (server->cache && server->memory_file.path && !server->discards)
        memory_file_save(&server->memory_file, server->cache, server_clock_us(CLOCK_MONOTONIC),
                         server_clock_us(CLOCK_REALTIME) / 1000000);
    if (server->cache)
        cache_destroy(server->cache);
    memory_file_close(&server->memory_file);
    activation_close(&server->activation);
    takeover_close(&server->takeover);
    if (server->ended_fd >= 0)
        close(server->ended_fd);
    if (server->signal_fd >= 0)
        close(server->signal_fd);
    sem_destroy(&server->ready);
    free(server->threads);
    free(server);
}
