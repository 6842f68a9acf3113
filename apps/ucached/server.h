/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server: one cache and its workers, put together as the options say.
 */
#ifndef UCACHED_SERVER_H
#define UCACHED_SERVER_H

#include "daemon.h"
#include "options.h"

struct server;

/*
 * Makes everything that may need privileges: memory, device or listening sockets. No thread runs
 * yet. What others will see of it on disk belongs to `user`. Says on stderr where it listens. From
 * here on SIGINT, SIGTERM and SIGUSR1 are blocked and wait for server_run(). Returns null after a
 * message.
 */
struct server *server_open(const struct options *options, const struct daemon_user *user);

/*
 * Starts the workers and serves until SIGINT, SIGTERM or SIGUSR1 arrives, or a worker fails.
 * Returns 0, or -1 after a message.
 */
int server_run(struct server *server);

void server_close(struct server *server);

#endif
