/* SPDX-License-Identifier: BSD-3-Clause */
/* What a takeover does with the two servers; the messages are takeover.h's. */
#define _GNU_SOURCE /* struct stat */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "kv/file.h"
#include "net/log.h"
#include "server_state.h"

/* How long a worker may take to come to rest; that follows NET_REST_US and closes the others. */
#define PAUSE_MS (3 * NET_REST_US / 1000)

static struct takeover_hello hello_of(const struct options *o)
{
    return (struct takeover_hello){
        .version = TAKEOVER_VERSION,
        .handover_version = NET_HANDOVER_VERSION,
        .conn_version = US_CONN_STATE_VERSION,
        .memory_format = KV_FILE_FORMAT,
        .own_stack = link_carries_frames(&o->link),
    };
}

static bool is_back_end(const struct options *o, const char *name)
{
    return strcmp(link_backend_name(&o->link), name) == 0;
}

/* Why a server with these options can neither take over nor be taken over; null: it can. */
static const char *obstacle(const struct options *o)
{
    if (!link_carries_frames(&o->link))
        return NULL;
    if (o->threading != NET_THREADING_UNIFIED)
        return "the own TCP/IP stack needs --threading=unified";
    if (o->link.trace_path || o->link.fault_given)
        return "the own TCP/IP stack hands nothing over with --trace or --fault";
    if (is_back_end(o, "xdp") && o->link.host_addrs)
        return "--io=xdp needs --ip: the kernel would reset connections of its addresses";
    if (is_back_end(o, "dpdk") && o->link.dev && strncmp(o->link.dev, "net_tap", 7) == 0)
        return "net_tap removes the host's side with its addresses: use --io=tap";
    return NULL;
}

/* ---- the new process --------------------------------------------------------------------- */

/* Why the memory of the running server is not what the options say; null: it may be. */
static const char *check_file(const struct options *o, int memory_fd)
{
    const char *path = o->settings.memory_file;
    struct stat named, held;

    if (!path)
        return NULL;
    if (stat(path, &named) < 0 || fstat(memory_fd, &held) < 0 || named.st_ino != held.st_ino ||
        named.st_dev != held.st_dev)
        return "the file of -e is not that of the running server";
    return NULL;
}

/*
 * Opens a device that the running server can close and open again, which it does if this fails.
 * Returns 0, or -1 after a message.
 */
static int take_device(struct server *server)
{
    char error[LINK_ERROR_MAX];

    if (!link_close_frees(&server->options.link))
        return 0;
    if (takeover_free_device(&server->takeover) < 0)
        return -1;
    if (server_open_device(server, false, error) == 0)
        return 0;
    takeover_refuse(&server->takeover, error);
    net_log_error("ucached: --takeover: the running server continues: %s", error);
    return -1;
}

/* Why this process cannot continue the running server; null: it can. */
static const char *check_state(struct server *server, char error[NET_ERROR_MAX])
{
    struct takeover *takeover = &server->takeover;
    struct cache_config config;
    const char *why = check_file(&server->options, takeover->memory_fd);

    server_cache_config(server, takeover->memory_fd, &config);
    if (!why)
        why = cache_examine_memory(&config);
    if (!why)
        why = net_handover_tls_obstacle(&takeover->handover, server->tls != NULL);
    if (!why && net_endpoints_take_over(&takeover->handover, &server->endpoints, error) < 0)
        why = error;
    return why;
}

int server_take_over(struct server *server, const struct daemon_user *user)
{
    const struct takeover_hello hello = hello_of(&server->options);
    struct takeover *takeover = &server->takeover;
    const char *why = obstacle(&server->options);
    char error[NET_ERROR_MAX] = "";
    int rc;

    if (why) {
        fprintf(stderr, "ucached: --takeover: %s\n", why);
        return -1;
    }
    if (link_carries_frames(&server->options.link) && server_prepare_device(server) < 0)
        return -1;
    rc = takeover_request(takeover, server->options.takeover, &hello, user);
    if (rc <= 0)
        return rc;
    why = check_state(server, error);
    if (why) {
        takeover_refuse(takeover, why);
        net_log_error("ucached: --takeover: cannot continue the running server: %s", why);
        return -1;
    }
    if (take_device(server) < 0)
        return -1;
    return takeover_commit(takeover) < 0 ? -1 : 1;
}

/* ---- the running server ------------------------------------------------------------------ */

static unsigned pause_all(const struct server *server)
{
    unsigned paused = 0;

    while (paused < server->thread_count && net_worker_pause(server->threads[paused].worker) == 0)
        paused++;
    return paused;
}

/* Null, or why not all workers are at rest. */
static const char *wait_paused(const struct server *server, unsigned paused)
{
    unsigned i;

    if (paused < server->thread_count)
        return "a worker cannot come to rest";
    for (i = 0; i < paused; i++) {
        if (!net_worker_wait_paused(server->threads[i].worker, PAUSE_MS))
            return "a worker does not come to rest";
    }
    return NULL;
}

/* Sends all that the paused workers have. Returns as takeover_send(). */
static int send_all(const struct server *server, int peer_fd, char error[TAKEOVER_ERROR_MAX])
{
    struct net_handover handover;
    unsigned i;
    int rc = -1;

    memset(&handover, 0, sizeof(handover));
    for (i = 0; i < server->thread_count; i++)
        net_worker_hand_over(server->threads[i].worker, i == 0, &handover);
    if (handover.failed)
        snprintf(error, TAKEOVER_ERROR_MAX, "no memory for the state of the connections");
    else
        rc = takeover_send(&server->takeover, peer_fd, server->memory_file.fd, &handover, error);
    if (rc == 0 && handover.left_out > 0)
        net_log("ucached: %u connections cannot move to another process and are closed",
                handover.left_out);
    net_handover_free(&handover, false);
    return rc;
}

/*
 * Closes the device for the new process. Returns 0 if that has committed; -1 with the reason, and
 * with the device open again. Without the device the server ends: the items are saved.
 */
static int lend_device(struct server *server, int peer_fd, char error[TAKEOVER_ERROR_MAX])
{
    char why[LINK_ERROR_MAX];

    if (!link_close_frees(&server->options.link)) {
        snprintf(error, TAKEOVER_ERROR_MAX, "the device is freed by the end of the server only");
        return -1;
    }
    server_lend_device(server);
    if (takeover_send_closed(peer_fd, error) == 0)
        return 0;
    if (server_reopen_device(server, why) == 0)
        return -1;
    net_log_error("ucached: --takeover: no process has taken over: %s", error);
    net_log_error("ucached: ends, since the device cannot be opened again: %s", why);
    net_log_stop();
    _exit(EX_OSERR);
}

/* The workers are at rest. Returns 0 if the new process has committed, or -1 with the reason. */
static int hand_over(struct server *server, int peer_fd, char error[TAKEOVER_ERROR_MAX])
{
    const char *why = cache_save(server->cache, server_clock_us(CLOCK_MONOTONIC),
                                 server_clock_us(CLOCK_REALTIME) / 1000000);
    int rc;

    if (why) {
        snprintf(error, TAKEOVER_ERROR_MAX, "%s", why);
        return -1;
    }
    rc = send_all(server, peer_fd, error);
    if (rc > 0)
        rc = lend_device(server, peer_fd, error);
    if (rc == 0)
        return 0;
    cache_save_undo(server->cache);
    return -1;
}

void server_offer_takeover(struct server *server)
{
    const struct takeover_hello hello = hello_of(&server->options);
    int peer_fd = takeover_accept(&server->takeover, &hello);
    char error[TAKEOVER_ERROR_MAX] = "";
    unsigned paused, i;
    const char *why;

    if (peer_fd < 0)
        return;
    paused = pause_all(server);
    why = wait_paused(server, paused);
    if (!why && hand_over(server, peer_fd, error) == 0) {
        net_log("ucached: another process has taken over");
        net_log_stop();
        /* No closing: descriptors and memory are the other one's, too. */
        _exit(0);
    }
    for (i = 0; i < paused; i++)
        net_worker_resume(server->threads[i].worker);
    takeover_send_refusal(peer_fd, why ? why : error);
    close(peer_fd);
    net_log_error("ucached: --takeover: no process has taken over: %s", why ? why : error);
}
