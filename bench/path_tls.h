/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TLS of a server on a link in memory (path.h). The server's records are of TLS 1.3, opened and
 * sealed by src/tls/record.h, with AES-GCM always by OpenSSL (tls_aead_evp): which library serves
 * depends otherwise on build and CPU. The client's records are OpenSSL's own.
 */
#ifndef BENCH_PATH_TLS_H
#define BENCH_PATH_TLS_H

#include "path.h"

/* Exit status of a program that is to use TLS in a build without. */
#define PATH_TLS_ABSENT 77

/* Both ends, with a certificate made for this process. Ends the process on failure. */
struct tls_context *path_tls_server(void);
struct tls_context *path_tls_client(void);

/* Before the server's first connection. Ends the process on failure. */
void path_tls_begin(struct net_stack_worker *server);

/* Handshakes that are done, and after which the server's records are ours. */
unsigned path_tls_handshakes(const struct net_stack_worker *server);

#endif
