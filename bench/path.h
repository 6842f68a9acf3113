/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A server at one end of a link in memory, for programs that count what its loop costs: one worker,
 * a cache of 64 MiB, all of it made the same way each time.
 */
#ifndef BENCH_PATH_H
#define BENCH_PATH_H

#include "net/stack_worker.h"

enum { PATH_CONNECTIONS = 32, PATH_PORT = 11211, PATH_STEP_US = 10, PATH_START_US = 1000000 };

/* Prints what is wrong and ends the process. */
__attribute__((noreturn)) void path_die(const char *what);

/* 10.0.0.`last` */
struct us_addr path_address(uint8_t last);

/* The server, 10.0.0.1, on this end. Dies if that is impossible. */
struct net_stack_worker *path_server(struct nic *end, uint64_t now_us);

/* A client's stack, 10.0.0.2, on the other end. Likewise. */
struct us_stack *path_client(const struct nic *end, uint64_t now_us);

#endif
