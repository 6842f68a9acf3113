/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Worker loops: each carries requests from a transport to the cache's sessions and replies back.
 *
 *   stack worker   frames of a nic through the own TCP/IP stack; one per device
 *   sock worker    the kernel's sockets; one per thread, each with its own listening sockets on
 * the same addresses
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
#include "tls/tls.h"
#include "ustack/ustack.h"

#define NET_ERROR_MAX 256

struct net_worker;
struct net_handover; /* handover.h */

/*
 * Serves until net_worker_stop() is called; then all its connections are closed. Returns 0, or a
 * negative errno value if the worker fails (no room in the cache for one more worker, the device
 * is gone).
 */
int net_worker_run(struct net_worker *worker);

/*
 * net_worker_run() of a worker of kernel sockets calls `ready` when it has opened all its sockets
 * and rings. It does not if the worker fails before.
 */
void net_worker_on_ready(struct net_worker *worker, void (*ready)(void *ctx), void *ctx);

/* Makes net_worker_run() return soon. Any thread or signal handler may call it, repeatedly. */
void net_worker_stop(struct net_worker *worker);

/*
 * How long the sessions of a worker may take to finish the requests that they are in the middle of,
 * before those that have not are closed.
 */
#define NET_REST_US 1000000

/*
 * Lets a running worker come to rest, between two requests of each session: no connection is
 * accepted, and no further input is used. Returns 0, or -1 if this kind of worker cannot. Then
 * net_worker_wait_paused() waits until it has, and returns false if it has not within that time.
 * The worker's thread waits, and has left the engine, until net_worker_resume(), which is due for
 * each worker that was paused.
 */
int net_worker_pause(struct net_worker *worker);
bool net_worker_wait_paused(struct net_worker *worker, unsigned timeout_ms);
void net_worker_resume(struct net_worker *worker);

/*
 * Adds a paused worker's sockets and connections to a handover; they stay the worker's. Those that
 * cannot move, such as watchers and TLS 1.2, are left out and counted. `first`: of all workers,
 * which share some sockets. handover->failed says whether something is missing.
 */
void net_worker_hand_over(struct net_worker *worker, bool first, struct net_handover *handover);

/* Frees the worker and what it owns. It does not run any more. */
void net_worker_close(struct net_worker *worker);

/* ---- handshakes of TLS ------------------------------------------------------------------- */

/*
 * Steps of handshakes that wait for threads beside the workers. Any number of threads run
 * net_tls_steps_run() until net_tls_steps_stop() is called. To be closed after these have ended and
 * all workers with it are closed. Null: no memory.
 */
struct net_tls_steps;

#define NET_TLS_THREADS_MAX 64

struct net_tls_steps *net_tls_steps_open(void);
void net_tls_steps_run(struct net_tls_steps *steps);
void net_tls_steps_stop(struct net_tls_steps *steps);
void net_tls_steps_close(struct net_tls_steps *steps);

/* ---- UDP --------------------------------------------------------------------------------- */

/* Upper bound of a reply, whatever the limit: a value of 1 MiB with its header lines. */
#define NET_UDP_REPLY_BYTES_MAX (1024 * 1024 + 64 * 1024)

/* Limits of the replies to unverified source addresses (udp_limit.h). All workers share one. */
struct net_udp_limit;

/*
 * reply_bytes_max: longest reply to one datagram. bytes_per_s: what one source is sent beyond what
 * it has sent; 0: no limit. key: random. Null: no memory.
 */
struct net_udp_limit *net_udp_limit_create(uint32_t reply_bytes_max, uint32_t bytes_per_s,
                                           const uint8_t key[16]);
void net_udp_limit_destroy(struct net_udp_limit *limit);

/* ---- the own TCP/IP stack ---------------------------------------------------------------- */

#define NET_STACK_ADDR_MAX 8
#define NET_STACK_GATEWAY_MAX 2 /* one of each family */

struct net_stack_addr {
    struct us_addr addr;
    unsigned prefix_len;
};

/* What a stack worker without work does. */
enum net_idle {
    NET_IDLE_ADAPTIVE = 0, /* polls for 2 to 64 us, depending on how long the last sleeps were; then
         * sleeps */
    NET_IDLE_POLL,         /* never sleeps */
    NET_IDLE_INTERRUPT     /* sleeps without polling */
};

/* Which threads a worker has (docs/threading.md). */
enum net_threading {
    NET_THREADING_UNIFIED = 0, /* one, for the stack and the sessions */
    NET_THREADING_SPLIT,       /* one for each, on cores of their own */
    NET_THREADING_MERGE,       /* one for each, on the same core */
    NET_THREADINGS
};

/* The argument of --threading. */
const char *net_threading_name(enum net_threading threading);

struct net_app_ops; /* stack_worker.h */

/* The same for all workers of a device, but for `number`. */
struct net_stack_config {
    const struct net_app_ops *app; /* null: the cache's sessions */
    void *app_ctx;
    struct cache *cache; /* null if there is another application */
    unsigned number;     /* of the worker; 0 announces the addresses, see us_config.arp_passive */
    unsigned workers;    /* that have the same addresses; 0 counts as 1 */
    enum net_idle idle;
    enum net_threading threading;
    struct net_stack_addr addrs[NET_STACK_ADDR_MAX];
    unsigned addr_count;
    struct us_addr gateways[NET_STACK_GATEWAY_MAX];
    unsigned gateway_count;
    bool reply_to_source_mac;        /* us_config.reply_to_source_mac */
    bool no_fast_path;               /* us_config.no_fast_path */
    const struct us_config *us;      /* congestion control, ECN and times; null: the defaults */
    const uint64_t *clock_us;        /* the caller's clock while opening; null: CLOCK_MONOTONIC */
    uint16_t port;                   /* of TCP, on all addresses; 0: none */
    struct tls_context *tls;         /* null: no TLS on that port; outlives the worker */
    struct net_tls_steps *tls_steps; /* null: the worker makes its handshakes; likewise */
    uint16_t udp_port;               /* likewise */
    struct net_udp_limit *udp_limit; /* not null if there is UDP; outlives the worker */
    uint32_t conn_max;               /* sessions; some more connections are taken to refuse them */
    bool accept_waits;               /* settings.accept_waits */
    uint32_t idle_timeout_s;         /* settings.idle_timeout_s */
    uint32_t half_open_max;          /* 0: 1024 */
    uint32_t buffer_bytes;           /* of all connections together; 0: follows from conn_max */
    uint32_t window_bytes; /* of a connection's receive window and send queue; 0: defaults */
    bool huge_pages;       /* if the kernel has them (-L) */
    struct net_handover *handover; /* null, or connections to take over; outlives the worker */
    uint8_t secret[US_SECRET_BYTES];
};

/*
 * Makes a stack on `nic` with its addresses and listening port. Owns the nic from then on. Of
 * several workers with the same addresses each has a nic to which the frames of a connection always
 * come (nic/steer.h). Returns null with a message in error[]; the nic is then still the caller's.
 */
struct net_worker *net_stack_worker_open(struct nic *nic, const struct net_stack_config *config,
                                         char error[NET_ERROR_MAX]);

/*
 * The same for --threading=split and merge: opens the stack's side and the application's side of a
 * worker. The caller runs each on its own thread, stops both, and closes both.
 * net_stack_link_workers() takes the stack's side. Returns 0, or -1 with a message.
 */
int net_split_worker_open(struct nic *nic, const struct net_stack_config *config,
                          struct net_worker *sides[2], char error[NET_ERROR_MAX]);

/*
 * Links all workers of a device: adds `stats ustack` and `stats nic`, the sums over them, to the
 * cache, and lets them end together. They must stay open as long as any of them runs. Returns 0,
 * or -1 if the cache takes no more lists.
 */
int net_stack_link_workers(struct cache *cache, struct net_worker *const *workers, unsigned count);

/*
 * Closes the device of a paused worker, so that another process can open it; the worker's thread
 * must not run until net_stack_reopen_device() has given it the same device again. Of a worker
 * without --threading=split and merge.
 */
void net_stack_close_device(struct net_worker *worker);
void net_stack_reopen_device(struct net_worker *worker, struct nic *nic);

/* ---- kernel sockets ---------------------------------------------------------------------- */

#define NET_ENDPOINT_MAX 64

/* Longest path of a unix socket; the kernel's address holds it and its end. */
#define NET_UNIX_PATH_MAX 107

enum net_endpoint_kind { NET_ENDPOINT_TCP = 0, NET_ENDPOINT_UDP, NET_ENDPOINT_UNIX };

struct net_endpoint {
    enum net_endpoint_kind kind;
    enum cache_binding binding; /* proto[] before the address; NEGOTIATE: as the settings say */
    enum cache_tls tls;
    struct sockaddr_storage addr;
    socklen_t addr_len;
    bool optional; /* of the default wildcard: dropped if the kernel lacks the family */
    int fd;        /* a socket that all workers share: it is bound already; -1: none */
};

/* A listening socket of one of the workers of a process that was taken over. */
struct net_inherited {
    int fd; /* -1: taken by a worker */
    unsigned endpoint;
};

#define NET_INHERITED_MAX 4096

struct net_endpoints {
    unsigned count;
    unsigned inherited_count;
    struct net_inherited inherited[NET_INHERITED_MAX];
    bool tls; /* of TCP addresses without notls: (-Z) */
    struct net_endpoint list[NET_ENDPOINT_MAX];
};

/*
 * Adds what memcached's -l takes: addresses or host names separated by commas or semicolons, each
 * with its own port if one is given: "127.0.0.1,[::1]:11212,cache-1:11213,*". Before an address
 * may stand proto[ascii]:, proto[binary]: or proto[negotiating]:; notls:, or with endpoints->tls
 * btls: (no client certificate) or mtls: (one is required); and a tag, which has no meaning here:
 * tag[name]: or tag_name_:. A null spec means all addresses, IPv4 and IPv6; empty
 * parts are skipped. `kind` is TCP or UDP. Start with a count of 0. Returns 0, or -1 with a message
 * that names the wrong part.
 */
int net_endpoints_resolve(const char *spec, uint16_t port, enum net_endpoint_kind kind,
                          struct net_endpoints *endpoints, char error[NET_ERROR_MAX]);

/*
 * Adds a unix socket with the permission bits `access`; replaces an existing socket file. Returns
 * 0, or -1 with a message.
 */
int net_endpoints_unix(const char *path, unsigned access, struct net_endpoints *endpoints,
                       char error[NET_ERROR_MAX]);

/*
 * Removes an old unix socket file, with which bind() would fail. Returns 0, or -1 with errno; other
 * files stay and are EEXIST.
 */
int net_unix_remove_stale(const char *path);

/*
 * Adds a listening stream socket of socket activation: TCP or unix. It belongs to the endpoints
 * from then on. Returns 0, or -1 with a message; then it is still the caller's.
 */
int net_endpoints_inherit(int fd, struct net_endpoints *endpoints, char error[NET_ERROR_MAX]);

/*
 * Adds the listening sockets of a handover: shared ones, and those of each worker. Returns 0, or -1
 * with a message.
 */
int net_endpoints_take_over(struct net_handover *handover, struct net_endpoints *endpoints,
                            char error[NET_ERROR_MAX]);

/* Adds an address by itself; there is room for NET_STACK_ADDR_MAX of each kind. */
void net_endpoints_add(struct net_endpoints *endpoints, enum net_endpoint_kind kind,
                       const struct us_addr *addr, uint16_t port);

/*
 * Checks that no other process listens on the endpoints, which sockets with SO_REUSEPORT do not
 * notice, and replaces port 0 by a free port (the same for all endpoints of a kind). Waits up to a
 * second for ports in use to become free: the kernel may close the sockets of a killed process
 * after its end. To be called once before the first worker is opened. Returns 0, or -1 with a
 * message.
 */
int net_endpoints_claim(struct net_endpoints *endpoints, char error[NET_ERROR_MAX]);

/* Closes the sockets of the endpoints; workers have their own. */
void net_endpoints_close(struct net_endpoints *endpoints);

/* The port, 0 for a unix socket. */
uint16_t net_endpoint_port(const struct net_endpoint *endpoint);

/* Fills the local side of *peer; the remote side stays empty. */
void net_endpoint_peer(const struct net_endpoint *endpoint, struct cache_peer *peer);

/* Writes "127.0.0.1:11211", "[::1]:11211" or the path of a unix socket; returns text. */
#define NET_ENDPOINT_TEXT_MAX 128
const char *net_endpoint_text(const struct net_endpoint *endpoint,
                              char text[NET_ENDPOINT_TEXT_MAX]);

struct net_sock_config {
    struct cache *cache;
    bool accept_waits;       /* settings.accept_waits */
    uint32_t idle_timeout_s; /* settings.idle_timeout_s; unix sockets have none, as in memcached */
    struct net_endpoints *endpoints; /* claimed; needed during the open only */
    unsigned number;                 /* of this worker, of so many: what each takes over */
    unsigned workers;
    struct net_handover *handover;   /* null, or connections to take over; outlives the workers */
    struct tls_context *tls;         /* not null if an endpoint has TLS; likewise */
    struct net_tls_steps *tls_steps; /* null: the worker makes its handshakes; likewise */
    struct net_udp_limit *udp_limit; /* not null if there is UDP; outlives the worker */
    int backlog;
    bool uring; /* io_uring instead of epoll; net_sock_uring_check() has returned 0 */
};

/* Checks that this kernel permits io_uring. Returns 0, or -1 with the reason. */
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
