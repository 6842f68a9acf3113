/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Servers at one end of a link in memory, for programs that measure their loop: a worker each, with
 * one cache of 64 MiB and the same settings in each program.
 */
#ifndef BENCH_PATH_H
#define BENCH_PATH_H

#include "net/stack_worker.h"

enum { PATH_CONNECTIONS = 32, PATH_PORT = 11211, PATH_STEP_US = 10 };

/* When the virtual time begins: after the real time, with which a worker creates its stack. */
#define PATH_START_US UINT64_C(1000000000000000)

/* Prints the message and ends the process. */
__attribute__((noreturn)) void path_die(const char *what);

/* 10.0.0.`last` */
struct us_addr path_address(uint8_t last);

/* Makes the cache of so many servers. Ends the process on failure. */
struct cache *path_cache(unsigned workers, uint64_t now_us);

/* Starts a server, 10.0.0.1, on this end; tls null: without. Ends the process on failure. */
struct net_stack_worker *path_server(struct nic *end, struct cache *cache, struct tls_context *tls);

/* Starts the stack of the clients, 10.0.0.2, on the other end. Ends the process on failure. */
struct us_stack *path_client(const struct nic *end, uint64_t now_us);

#endif
