/* SPDX-License-Identifier: BSD-3-Clause */
/* The addresses that the server listens on: of the options, or of socket activation. */
#ifndef UCACHED_LISTEN_H
#define UCACHED_LISTEN_H

#include "activation.h"
#include "daemon.h"
#include "options.h"

/*
 * Finds the endpoints, whose `tls` is set. Sets the ports of the options to those in use. A unix
 * socket belongs to `user`. Returns 0, or -1 after a message.
 */
int listen_open(struct net_endpoints *endpoints, struct options *o, struct activation *activation,
                const struct daemon_user *user);

/* Sets the ports of the settings to those of endpoints that another process has opened. */
void listen_set_ports(const struct net_endpoints *endpoints, struct cache_settings *settings);

/* Writes the ports to a file of `user`, for test suites. Returns 0, or -1 after a message. */
int listen_write_ports(const struct net_endpoints *endpoints, const char *path,
                       const struct daemon_user *user);

#endif
