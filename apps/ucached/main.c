/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucached: a memcached-compatible cache server with its own TCP/IP stack.
 *
 * The order of a start: options, user, limits, fork, memory and device or sockets, process id file,
 * privileges, background, threads. Everything that can fail for a reason the user can fix
 * comes before the process goes to the background, so that its message is visible and its exit
 * status counts. Devices start threads, so they are opened after the fork.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "daemon.h"
#include "memory_limit.h"
#include "net/log.h"
#include "notify.h"
#include "options.h"
#include "privileges.h"
#include "server.h"

/*
 * Descriptors besides those of connections: listeners, epoll, event descriptors, standard streams.
 */
#define FILES_SPARE 64

#define THREADS_SENSIBLE 64

static void print_notes(const struct options *o, const struct daemon_user *user)
{
    const char *what;
    uint64_t available = memory_limit(&what);

    if (o->surplus)
        net_log("ucached: note: \"%s\" is not an option and has no effect", o->surplus);
    if (o->settings.threads > THREADS_SENSIBLE)
        net_log("ucached: warning: %u threads are more than most machines have use for",
                o->settings.threads);
    if (geteuid() == 0 && !user->name)
        net_log("ucached: warning: running as root%s, and the files of root stay open to it; add "
                "-u USER",
                o->keep_privileges ? " with all capabilities" : "");
    if (o->settings.memory_bytes > available)
        net_log("ucached: warning: -m %llu is more than %s, %llu MB: a full cache will be killed "
                "or swapped out",
                (unsigned long long)(o->settings.memory_bytes >> 20), what,
                (unsigned long long)(available >> 20));
    if (o->settings.verbosity > 0)
        net_log("ucached: %llu MB for items, largest item %u bytes, %u connections",
                (unsigned long long)(o->settings.memory_bytes >> 20), o->settings.item_bytes_max,
                o->settings.connections_max);
}

static int raise_files(const struct options *o)
{
    uint64_t per_thread = NET_ENDPOINT_MAX + 2;

    if (link_carries_frames(&o->link))
        return 0;
    return daemon_raise_files(o->settings.connections_max + FILES_SPARE +
                              o->settings.threads * per_thread);
}

/*
 * Reads the certificates, which only root may be able to read. Returns 0, also without TLS, or -1
 * after a message.
 */
static int open_tls(const struct options *o, struct tls_context **tls)
{
    const struct cache_settings_tls *settings = &o->settings.tls;
    const struct tls_server_config config = {
        .chain_cert = settings->chain_cert,
        .key = settings->key,
        .key_format = (enum tls_key_format)settings->key_format,
        .ca_cert = settings->ca_cert,
        .ciphers = settings->ciphers,
        .verify = (enum tls_verify)settings->verify_mode,
        .min_version = (enum tls_version)settings->min_version,
        .session_cache = settings->session_cache,
    };
    char error[TLS_ERROR_MAX];

    *tls = NULL;
    if (!settings->enabled)
        return 0;
    *tls = tls_server_open(&config, error);
    if (*tls)
        return 0;
    net_log_error("ucached: -Z: %s", error);
    return -1;
}

/* Runs an open server until it ends. Returns the exit status. */
static int serve(struct server *server, const struct options *o, const struct daemon_user *user)
{
    int rc;

    if (o->pidfile && daemon_pidfile_path(o->pidfile) < 0)
        return EX_OSERR;
    if (o->lock_memory)
        daemon_lock_memory();
    if (o->core_dumps && daemon_core_limit() < 0)
        return EX_OSERR;
    if (o->pidfile)
        daemon_pidfile_write(user);
    if ((o->keep_privileges ? daemon_user_become(user)
                            : privileges_drop(user, server_capabilities(server))) < 0)
        return EX_OSERR;
    if (o->core_dumps && daemon_core_allow() < 0)
        return EX_OSERR;
    if (o->daemonize && daemon_detach(o->settings.verbosity > 0, o->core_dumps) < 0)
        return EX_OSERR;
    /* The sockets listen; a client that connects now waits until the threads run. */
    if (notify_ready() < 0)
        net_log("ucached: warning: NOTIFY_SOCKET: %s", strerror(errno));
    rc = server_run(server);
    if (o->pidfile && o->daemonize)
        daemon_pidfile_remove();
    return rc < 0 ? EX_OSERR : 0;
}

int main(int argc, char **argv)
{
    static struct options options;
    struct daemon_user user;
    struct tls_context *tls;
    struct server *server;
    enum cmdline_outcome outcome;
    int rc;

    outcome = options_parse(argc, argv, &options);
    if (options.log_format == OPTIONS_LOG_JSON)
        net_log_set_json();
    switch (outcome) {
    case CMDLINE_HELP:
        options_print_help(stdout);
        return 0;
    case CMDLINE_VERSION:
        (options.license_given ? options_print_license : options_print_version)(stdout);
        return 0;
    case CMDLINE_BAD:
        /* Test suites look for this line to find out which suboptions exist. */
        if (options.illegal_suboption[0])
            printf("Illegal suboption \"%s\"\n", options.illegal_suboption);
        net_log_error("ucached: %s", options.error);
        return options.exit_status;
    case CMDLINE_RUN:
        break;
    }
    signal(SIGHUP, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* beyond a limit of file sizes calls fail instead */
    if (daemon_user_find(options.user, &user) < 0)
        return EX_NOUSER;
    if (open_tls(&options, &tls) < 0)
        return EX_USAGE;
    print_notes(&options, &user);
    if (raise_files(&options) < 0)
        return EX_OSERR;
    if (options.daemonize && daemon_fork() < 0)
        return EX_OSERR;
    if (notify_open() < 0)
        net_log("ucached: warning: NOTIFY_SOCKET: %s", strerror(errno));
    server = server_open(&options, &user, tls, &rc);
    if (server) {
        rc = serve(server, &options, &user);
        server_close(server);
    }
    if (tls)
        tls_context_close(tls);
    return rc;
}
