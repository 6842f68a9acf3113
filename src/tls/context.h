/* SPDX-License-Identifier: BSD-3-Clause */
/* What context.c and openssl.c share. */
#ifndef TLS_CONTEXT_H
#define TLS_CONTEXT_H

#include <openssl/ssl.h>
#include <pthread.h>
#include <stdatomic.h>

#include "tls/tls.h"

struct tls_context {
    bool is_client;
    struct tls_server_config config; /* of a server */
    BIO_METHOD *memory;              /* of the sessions, see openssl.c */
    pthread_mutex_t lock;            /* guards ctx */
    _Atomic uint64_t rotate_us;      /* when tickets get another key; 0: not set yet */
    SSL_CTX *ctx;                    /* its sessions have references, so a refresh replaces it */
};

#endif
