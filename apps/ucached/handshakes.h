/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads that make the handshakes of TLS (-o handshake_threads). */
#ifndef UCACHED_HANDSHAKES_H
#define UCACHED_HANDSHAKES_H

#include "net/net.h"
#include "options.h"

struct handshakes;

/*
 * Makes what the workers pass handshakes to; no thread yet. `place`: the first index in the list of
 * cores that no worker uses. Returns null if there is no memory.
 */
struct handshakes *handshakes_open(const struct options *options, unsigned place);

/* For the workers. */
struct net_tls_steps *handshakes_steps(const struct handshakes *handshakes);

/* Starts the threads. Returns 0, or an error number; stop ends those that were started. */
int handshakes_start(struct handshakes *handshakes);

/* Ends the threads and waits for that. */
void handshakes_stop(struct handshakes *handshakes);

/* After the workers were closed. */
void handshakes_close(struct handshakes *handshakes);

#endif
