/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of the server, for the files that open and run it: server.c, server_stack.c, ... */
#ifndef UCACHED_SERVER_STATE_H
#define UCACHED_SERVER_STATE_H

#include <pthread.h>
#include <semaphore.h>
#include <time.h>

#include "activation.h"
#include "handshakes.h"
#include "memory_file.h"
#include "metrics.h"
#include "net/net.h"
#include "nic/nic.h"
#include "options.h"
#include "takeover.h"

struct server_thread {
    struct server *server;
    struct net_worker *worker;
    pthread_t id;
    const char *name; /* prefix of the thread's name */
    unsigned number;  /* of the worker */
    unsigned place;   /* index in the list of cores */
    bool started;
    bool ready; /* it was counted in server.ready */
    int result; /* of net_worker_run() */
};

struct server {
    struct options options;
    struct net_endpoints endpoints; /* of kernel sockets, or of the stack's addresses */
    struct cache *cache;
    struct memory_file memory_file;
    struct activation activation;
    struct takeover takeover;
    bool discards;                   /* ended by SIGINT: the items are not saved */
    struct tls_context *tls;         /* null without TLS; the caller's */
    struct handshakes *handshakes;   /* null without -o handshake_threads */
    struct net_udp_limit *udp_limit; /* null without UDP */
    struct metrics *metrics;         /* null without --metrics */
    struct server_thread *threads;
    unsigned thread_count;             /* threads with a worker */
    unsigned queue_count;              /* queues of the device, with the own stack */
    struct nic *lanes[NIC_QUEUES_MAX]; /* of the device, one for each worker */
    unsigned lane_count;               /* open lanes that no worker owns */
    uint8_t device_mac[6];
    sem_t ready;          /* counts threads that have opened all their descriptors */
    bool restores_device; /* server_close() needs CAP_NET_ADMIN */
    int exit_status;      /* if it cannot be opened */
    int ended_fd;         /* eventfd: a worker has ended */
    int signal_fd;        /* signalfd: a signal arrived */
};

/* Fills memory with random bytes. Returns 0, or -1 after a message. */
int server_random_bytes(void *to, size_t bytes);

/* A clock of the system in microseconds. */
uint64_t server_clock_us(clockid_t clock);

/* The configuration of the cache, but for its secret; memory_fd as in it. */
void server_cache_config(const struct server *server, int memory_fd, struct cache_config *config);

/*
 * server_takeover.c: takes over from the server at --takeover. Returns 1 if the endpoints, and what
 * is in server->takeover, are this process's; 0: no server listens there; -1 after a message.
 */
int server_take_over(struct server *server, const struct daemon_user *user);

/*
 * A process has connected to --takeover: hands everything to it, and ends the process; or returns,
 * after a message, and serves on.
 */
void server_offer_takeover(struct server *server);

/* Prints one line for each listening address. */
void server_print_endpoints(const struct server *server, const char *over);

/* Adds a thread for a worker, or for half of it with --threading=split and merge. */
void server_add_thread(struct server *server, struct net_worker *worker, const char *name,
                       unsigned number, unsigned half);

/* The index in the list of cores of a worker's thread. */
unsigned server_place_of(const struct options *o, unsigned number, unsigned half);

/* server_stack.c: opens the workers, and the device if needed. 0, or -1 after a message. */
int server_open_stack(struct server *server);

/*
 * Does what can be done while another process still has the device. Returns 0, or -1 after a
 * message.
 */
int server_prepare_device(struct server *server);

/*
 * Opens the device and a lane of it for each worker. `again`: it was open before in this process.
 * Returns 0, or -1 with a message.
 */
int server_open_device(struct server *server, bool again, char error[LINK_ERROR_MAX]);

/* Closes lanes that no worker owns. */
void server_close_device(struct server *server);

/*
 * Closes the device of paused workers, and opens it again for them. reopen returns 0, or -1 with a
 * message: then the workers have no device, and their threads must not continue.
 */
void server_lend_device(struct server *server);
int server_reopen_device(struct server *server, char error[LINK_ERROR_MAX]);

#endif
