/* SPDX-License-Identifier: BSD-3-Clause */
/* ucping's settings and its two transports. */
#ifndef UCPING_PING_H
#define UCPING_PING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <time.h>

#include "common/host.h"
#include "exchange.h"
#include "security.h"
#include "stream.h"

#define UCPING_PORT "7007"
#define UCPING_CONNECTIONS_MAX 10000

/* Counters of a ring between the threads of --threading=split and merge. */
struct ring_counters {
    uint64_t records;
    uint64_t full;  /* times it was full */
    uint64_t wakes; /* of the consumer */
};

/* Of --csum and others. */
enum ping_switch { SWITCH_ON = 0, SWITCH_OFF };

struct settings {
    bool listen;
    enum mode mode;
    uint32_t bytes;
    uint64_t count;
    double seconds;
    unsigned connections;
    double timeout_s; /* of a client, to connect and without a byte */
    bool tls, tls_resume;
    const char *ca, *cert, *key;   /* files; null: not given */
    struct security *security;     /* null: no TLS; owned */
    bool poll;                     /* never sleeps */
    enum ping_switch zero_copy;    /* own stack: bulk is queued by reference */
    enum net_threading threading;  /* own stack */
    struct ring_counters events;   /* from the stack to the application */
    struct ring_counters commands; /* back */
    enum ping_switch csum, tso;    /* --io=dpdk */
    bool json;
    char *link_counters; /* own stack: the members of a JSON object; owned */
    const char *peer;    /* HOST[:PORT]; of a server: [HOST:]PORT */
    struct sockaddr_storage addr;
    socklen_t addr_len;
    struct link_options link;
    char error[LINK_ERROR_MAX];
};

/* Set by SIGINT and SIGTERM. */
extern atomic_bool ucping_stop;

static inline uint64_t ucping_clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/*
 * Each runs until the end of the run, which is null for a server: that runs until ucping_stop. The
 * run's times are set; what opening and closing a device takes is not in them. Returns 0, or -1
 * with settings->error.
 */
int ucping_sock(struct settings *s, struct ping_run *run);
int ucping_stack(struct settings *s, struct ping_run *run);

/* Starts the time: all connections are open. */
void ucping_begin(const struct settings *s, struct ping_run *run);

/* Of a client: whether no byte was sent or received for longer than the timeout. */
bool ucping_is_stuck(const struct settings *s, const struct ping_run *run);

/* Sets settings->error for a client whose connection has failed. Returns -1. */
int ucping_fail_stream(struct settings *s, const struct stream *stream);

/* Prints that the server accepts connections. */
void ucping_print_listening(const struct settings *s);

/* Sets settings->error. Returns -1. */
__attribute__((format(printf, 2, 3))) int ucping_fail(struct settings *s, const char *format, ...);

#endif
