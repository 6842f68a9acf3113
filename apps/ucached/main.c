/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucached: a memcached-compatible cache server with its own TCP/IP stack.
 *
 * The order of a start: options, user, limits, fork, memory and device or sockets, background,
 * process id file, privileges, threads. Everything that can fail for a reason the user can mend
 * comes before the background, so that its message is seen and its exit status counts; threads of
 * devices come after the fork.
 */
#include <signal.h>
#include <stdio.h>
#include <sysexits.h>
#include <unistd.h>

#include "daemon.h"
#include "options.h"
#include "server.h"

/* Descriptors beyond those of connections: listeners, epoll, event descriptors, standard ones. */
#define FILES_SPARE 64

#define THREADS_SENSIBLE 64

static void say_notes(const struct options *o)
{
    if (o->surplus)
        fprintf(stderr, "ucached: note: \"%s\" is not an option and has no effect\n", o->surplus);
    if (o->settings.threads > THREADS_SENSIBLE)
        fprintf(stderr, "ucached: warning: %u threads are more than most machines have use for\n",
                o->settings.threads);
    if (!link_is_stack(o->link.io) && geteuid() == 0 && !o->user)
        fprintf(stderr, "ucached: warning: running as root; -u USER gives that up\n");
    if (o->settings.verbosity > 0)
        fprintf(stderr, "ucached: %llu MB for items, largest item %u bytes, %u connections\n",
                (unsigned long long)(o->settings.memory_bytes >> 20), o->settings.item_bytes_max,
                o->settings.connections_max);
}

static int raise_files(const struct options *o)
{
    uint64_t per_thread = NET_ENDPOINT_MAX + 2;

    if (link_is_stack(o->link.io))
        return 0;
    return daemon_raise_files(o->settings.connections_max + FILES_SPARE +
                              o->settings.threads * per_thread);
}

/* From an open server to its end. */
static int serve(struct server *server, const struct options *o, const struct daemon_user *user)
{
    int rc;

    if (o->pidfile && daemon_pidfile_path(o->pidfile) < 0)
        return EX_OSERR;
    if (o->daemonize && daemon_detach(o->settings.verbosity > 0, o->core_dumps) < 0)
        return EX_OSERR;
    if (o->lock_memory)
        daemon_lock_memory();
    if (o->pidfile)
        daemon_pidfile_write(user);
    if (daemon_user_become(user) < 0)
        return EX_OSERR;
    if (o->core_dumps && daemon_core_dumps() < 0)
        return EX_OSERR;
    rc = server_run(server);
    if (o->pidfile && o->daemonize)
        daemon_pidfile_remove();
    return rc < 0 ? EX_OSERR : 0;
}

int main(int argc, char **argv)
{
    static struct options options;
    struct daemon_user user;
    struct server *server;
    int rc;

    switch (options_parse(argc, argv, &options)) {
    case OPTIONS_HELP:
        options_print_help(stdout);
        return 0;
    case OPTIONS_LICENSE:
        options_print_license(stdout);
        return 0;
    case OPTIONS_VERSION:
        options_print_version(stdout);
        return 0;
    case OPTIONS_BAD:
        /* Scripts that try out what a server can do look for this line. */
        if (options.illegal_suboption[0])
            printf("Illegal suboption \"%s\"\n", options.illegal_suboption);
        fprintf(stderr, "ucached: %s\n", options.error);
        return options.exit_status;
    case OPTIONS_RUN:
        break;
    }
    signal(SIGHUP, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    if (daemon_user_find(options.user, &user) < 0)
        return EX_NOUSER;
    say_notes(&options);
    if (raise_files(&options) < 0)
        return EX_OSERR;
    if (options.daemonize && daemon_fork() < 0)
        return EX_OSERR;
    server = server_open(&options, &user);
    if (!server)
        return EX_OSERR;
    rc = serve(server, &options, &user);
    server_close(server);
    return rc;
}
