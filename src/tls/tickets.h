/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keys of session tickets (RFC 8446, 4.6.1; RFC 5077). A new key is made every hour, and tickets
 * under the one before are still taken, so a key that is found opens the tickets of two hours. The
 * keys belong to an SSL_CTX: another certificate has others.
 */
#ifndef TLS_TICKETS_H
#define TLS_TICKETS_H

#include <openssl/ssl.h>

#include "tls/tls.h"

/* Gives a server keys of its own. Returns false without memory or random numbers. */
bool tls_tickets_begin(SSL_CTX *ctx);

/* Replaces the older key. Returns false without random numbers: then nothing changes. */
bool tls_tickets_rotate(SSL_CTX *ctx);

#endif
