/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * --metrics=ADDR:PORT: a HTTP server on the kernel's network, in a thread of its own, with two
 * resources:
 *
 *   /metrics   all statistics as OpenMetrics text (metrics_text.h)
 *   /          a page that shows them as plots; it reads /metrics
 *
 * The thread reads counters that workers publish and takes no lock that a request needs, so no
 * client of it can stop a worker. Connections, their memory and their time are bounded.
 */
#ifndef UCACHED_METRICS_H
#define UCACHED_METRICS_H

#include "cache/cache.h"

struct metrics;

/*
 * Opens the listening socket, before privileges are dropped. `address` is "127.0.0.1:9150",
 * "[::1]:9150", or a port only, of 127.0.0.1; port 0: a free one. Prints the address, or returns
 * null after a message.
 */
struct metrics *metrics_open(const char *address);

/* Starts the thread, before the system call filter. Returns 0, or -1 after a message. */
int metrics_start(struct metrics *metrics, struct cache *cache);

/* Ends the thread, before the workers and the cache are closed. Null is allowed. */
void metrics_close(struct metrics *metrics);

#endif
