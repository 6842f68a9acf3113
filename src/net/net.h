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
#define NET_STACK_GATEWAY_MAX 2 /* one of each family */

struct net_stack_addr {
    struct us_addr addr;
    unsigned prefix_len;
};

/* What a worker does when there is nothing to do. */
enum net_idle {
    NET_IDLE_ADAPTIVE =
        0,             /* looks on for a short while, the longer the busier it was; then sleeps */
    NET_IDLE_POLL,     /* never sleeps */
    NET_IDLE_INTERRUPT /* sleeps at once */
};

/* Which threads a worker has (docs/threading.md). */
enum net_threading {
    NET_THREADING_UNIFIED = 0, /* one, for the stack and the sessions */
    NET_THREADING_SPLIT,       /* one for each, on cores of their own */
    NET_THREADING_MERGE,       /* one for each, on the same core */
    NET_THREADINGS
};

/* The word of --threading. */
const char *net_threading_name(enum net_threading threading);

/* The same for all workers of a device, but for `number`. */
struct net_stack_config {
    struct cache *cache;
    unsigned number;  /* of the worker; 0 speaks for the addresses, see us_config.follower */
    unsigned workers; /* that have the same addresses; 0 counts as 1 */
    enum net_idle idle;
    enum net_threading threading;
    struct net_stack_addr addrs[NET_STACK_ADDR_MAX];
    unsigned addr_count;
    struct us_addr gateways[NET_STACK_GATEWAY_MAX];
    unsigned gateway_count;
    bool reply_to_sender;    /* us_config.reply_to_sender */
    uint16_t port;           /* of TCP, on all addresses; 0: none */
    uint16_t udp_port;       /* likewise */
    uint32_t conn_max;       /* sessions; some more connections are taken to refuse them */
    bool accept_waits;       /* settings.accept_waits */
    uint32_t idle_timeout_s; /* settings.idle_timeout_s */
    uint32_t half_open_max;  /* 0: 1024 */
    uint32_t buffer_bytes;   /* of all connections together; 0: follows from conn_max */
    bool huge_pages;         /* a wish (-L) */
    uint8_t secret[US_SECRET_BYTES];
};

/*
 * Makes a stack on `nic` with its addresses and listening port. Owns the nic from then on. Of
 * several workers with the same addresses each has a nic to which the frames of a connection always
 * come (nic/spread.h). Returns null with a message in error[]; the nic is then still the caller's.
 */
struct net_worker *net_stack_worker_open(struct nic *nic, const struct net_stack_config *config,
                                         char error[NET_ERROR_MAX]);

/*
 * The same for the models that have two threads: opens both halves of a worker, the one with the
 * stack and the one with the sessions, each to be run on a thread of its own, stopped together, and
 * closed one after the other. net_stack_join() takes the first. Returns 0, or -1 with a message.
 */
int net_split_worker_open(struct nic *nic, const struct net_stack_config *config,
                          struct net_worker *halves[2], char error[NET_ERROR_MAX]);

/*
 * Makes the workers of a device, all that there are, known to each other: adds `stats ustack` and
 * `stats nic`, the sums over them, to the cache, and lets them end together. They must stay open as
 * long as any of them runs. Returns 0 or -1.
 */
int net_stack_join(struct cache *cache, struct net_worker *const *workers, unsigned count);

/* ---- kernel sockets ---------------------------------------------------------------------- */

#define NET_ENDPOINT_MAX 64

/* Longest path of a unix socket; the kernel's address holds it and its end. */
#define NET_UNIX_PATH_MAX 107

enum net_endpoint_kind { NET_ENDPOINT_TCP = 0, NET_ENDPOINT_UDP, NET_ENDPOINT_UNIX };

struct net_endpoint {
    enum net_endpoint_kind kind;
    enum cache_binding binding; /* proto[] before the address; NEGOTIATE: as the settings say */
    struct sockaddr_storage addr;
    socklen_t addr_len;
    bool optional; /* a wildcard nobody asked for by name: dropped if the kernel lacks the family */
    int unix_fd;   /* of a unix socket, which all workers share: it is bound already */
};

struct net_endpoints {
    unsigned count;
    struct net_endpoint list[NET_ENDPOINT_MAX];
};

/*
 * Adds what memcached's -l takes: addresses or host names separated by commas or semicolons, each
 * with its own port if one is given: "127.0.0.1,[::1]:11212,cache-1:11213,*". Before an address
 * may stand proto[ascii]:, proto[binary]: or proto[negotiating]:, notls:, and a tag, which has no
 * meaning here: tag[name]: or tag_name_:. A null spec means all addresses, IPv4 and IPv6; empty
 * parts are skipped. `kind` is TCP or UDP. Start with a count of 0. Returns 0, or -1 with a message
 * that names the wrong part.
 */
int net_endpoints_resolve(const char *spec, uint16_t port, enum net_endpoint_kind kind,
                          struct net_endpoints *endpoints, char error[NET_ERROR_MAX]);

/*
 * Adds a unix socket: a socket file that is in the way is removed, and `access` are the permission
 * bits of the new one. Returns 0, or -1 with a message.
 */
int net_endpoints_unix(const char *path, unsigned access, struct net_endpoints *endpoints,
                       char error[NET_ERROR_MAX]);

/* Adds an address by itself; there is room for NET_STACK_ADDR_MAX of each kind. */
void net_endpoints_add(struct net_endpoints *endpoints, enum net_endpoint_kind kind,
                       const struct us_addr *addr, uint16_t port);

/*
 * Makes sure that no other process listens there, which sockets that share a port would not
 * notice, and turns port 0 into one that is free (the same one for all of a kind). To be called
 * once before the first worker is opened. Returns 0, or -1 with a message.
 */
int net_endpoints_claim(struct net_endpoints *endpoints, char error[NET_ERROR_MAX]);

/* Closes what the endpoints themselves hold open; workers keep what they have. */
void net_endpoints_close(struct net_endpoints *endpoints);

/* The port, 0 for a unix socket. */
uint16_t net_endpoint_port(const struct net_endpoint *endpoint);

/* Who listens there: a peer of which only the local side is known. */
void net_endpoint_peer(const struct net_endpoint *endpoint, struct cache_peer *peer);

/* Writes "127.0.0.1:11211", "[::1]:11211" or the path of a unix socket; returns text. */
#define NET_ENDPOINT_TEXT_MAX 128
const char *net_endpoint_text(const struct net_endpoint *endpoint,
                              char text[NET_ENDPOINT_TEXT_MAX]);

struct net_sock_config {
    struct cache *cache;
    bool accept_waits;       /* settings.accept_waits */
    uint32_t idle_timeout_s; /* settings.idle_timeout_s; unix sockets have none, as in memcached */
    const struct net_endpoints *endpoints; /* claimed; needed during the open only */
    int backlog;
    bool uring; /* io_uring instead of epoll, if net_sock_uring_check() has said yes */
};

/* Whether this kernel lets us use io_uring. Returns 0, or -1 with a message that says why not. */
int net_sock_uring_check(char error[NET_ERROR_MAX]);

/* Opens a worker's own listening sockets. Returns null with a message in error[]. */
struct net_worker *net_sock_worker_open(const struct net_sock_config *config,
                                        char error[NET_ERROR_MAX]);

/*
 * Adds `stats sock`, the sum over these sock workers, to the cache. They must stay open as long as
 * any worker runs. Returns 0 or -1.
 */
int net_sock_stats(struct cache *cache, struct net_worker *const *workers, unsigned count);

#endif
