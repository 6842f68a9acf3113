/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Worker loops: each carries requests from a transport to the cache's sessions and replies back.
 *
 *   stack worker   frames of a nic through the own TCP/IP stack; one per device
 *   sock worker    the kernel's sockets; as many as there are threads, each with its own listening
 *                  sockets on the same addresses
 *
 * A worker is opened and closed on any thread and run on one. What it opened needs no privilege
 * afterwards, so the process may drop root between open and run, and may fork.
 */
#ifndef NET_NET_H
#define NET_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "cache/cache.h"
#include "nic/nic.h"
#include "ustack/ustack.h"

#define NET_ERROR_MAX 256

struct net_worker;

/*
 * Serves until net_worker_stop() is called; then all its connections are closed. Returns 0, or a
 * negative errno value if the worker cannot go on (no room in the cache for one more worker, the
 * device is gone).
 */
int net_worker_run(struct net_worker *worker);

/* Makes net_worker_run() return soon. Any thread or signal handler may call it, repeatedly. */
void net_worker_stop(struct net_worker *worker);

/* Frees the worker and what it owns. It does not run any more. */
void net_worker_close(struct net_worker *worker);

/* ---- the own TCP/IP stack ---------------------------------------------------------------- */

#define NET_STACK_ADDR_MAX 8

struct net_stack_addr {
    struct us_addr addr;
    unsigned prefix_len;
};

struct net_stack_config {
    struct cache *cache;
    struct net_stack_addr addrs[NET_STACK_ADDR_MAX];
    unsigned addr_count;
    const struct us_addr *gateway; /* null: none */
    uint16_t port;
    uint32_t conn_max;      /* sessions; some more connections are taken to refuse them */
    uint32_t half_open_max; /* 0: 1024 */
    uint32_t buffer_bytes;  /* of all connections together; 0: follows from conn_max */
    uint8_t secret[US_SECRET_BYTES];
};

/*
 * Makes a stack on `nic` with its addresses and listening port. Owns the nic from then on. Adds
 * `stats ustack` and `stats nic` to the cache. Returns null with a message in error[]; the nic is
 * then still the caller's.
 */
struct net_worker *net_stack_worker_open(struct nic *nic, const struct net_stack_config *config,
                                         char error[NET_ERROR_MAX]);

/* ---- kernel sockets ---------------------------------------------------------------------- */

#define NET_ENDPOINT_MAX 32

struct net_endpoint {
    struct sockaddr_storage addr;
    socklen_t addr_len;
    bool optional; /* a wildcard nobody asked for by name: dropped if the kernel lacks the family */
};

struct net_endpoints {
    unsigned count;
    struct net_endpoint list[NET_ENDPOINT_MAX];
};

/*
 * Reads what memcached's -l takes: addresses or host names separated by commas or semicolons, each
 * with its own port if one is given: "127.0.0.1,[::1]:11212,cache-1:11213,*". A null spec means
 * all addresses, IPv4 and IPv6. Returns 0, or -1 with a message that names the wrong part.
 */
int net_endpoints_resolve(const char *spec, uint16_t port, struct net_endpoints *endpoints,
                          char error[NET_ERROR_MAX]);

/*
 * Makes sure that no other process listens there, which sockets that share a port would not
 * notice, and turns port 0 into one that is free (the same one for all). To be called once before
 * the first worker is opened. Returns 0, or -1 with a message.
 */
int net_endpoints_claim(struct net_endpoints *endpoints, char error[NET_ERROR_MAX]);

/* Writes "127.0.0.1:11211" or "[::1]:11211"; returns text. */
#define NET_ENDPOINT_TEXT_MAX 80
const char *net_endpoint_text(const struct net_endpoint *endpoint,
                              char text[NET_ENDPOINT_TEXT_MAX]);

struct net_sock_config {
    struct cache *cache;
    const struct net_endpoints *endpoints; /* claimed; needed during the open only */
    int backlog;
};

/* Opens a worker's own listening sockets. Returns null with a message in error[]. */
struct net_worker *net_sock_worker_open(const struct net_sock_config *config,
                                        char error[NET_ERROR_MAX]);

/*
 * Adds `stats sock`, the sum over these sock workers, to the cache. They must stay open as long as
 * any worker runs. Returns 0 or -1.
 */
int net_sock_stats(struct cache *cache, struct net_worker *const *workers, unsigned count);

#endif
