/* SPDX-License-Identifier: BSD-3-Clause */
/* The server: one cache and its workers, configured by the options. */
#ifndef UCACHED_SERVER_H
#define UCACHED_SERVER_H

#include "daemon.h"
#include "options.h"

struct server;
struct tls_context;

/*
 * Opens everything that may need privileges: memory, device or listening sockets. Starts no thread.
 * Files that it creates belong to `user`. Prints the listening addresses to stderr. SIGINT, SIGTERM
 * and SIGUSR1 are blocked from here on and handled by server_run(). `tls` (null: none) outlives the
 * server. Returns null after a message, and sets the exit status for that.
 */
struct server *server_open(const struct options *options, const struct daemon_user *user,
                           struct tls_context *tls, int *exit_status);

/*
 * Starts the workers and serves until SIGINT, SIGTERM or SIGUSR1 arrives or a worker fails. Returns
 * 0, or -1 after a message.
 */
int server_run(struct server *server);

/* The capabilities that server_close() needs, as bits 1 << CAP_...; serving needs none. */
uint64_t server_capabilities(const struct server *server);

void server_close(struct server *server);

#endif
