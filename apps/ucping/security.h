/* SPDX-License-Identifier: BSD-3-Clause */
/* What the connections of a ucping with --tls share. Belongs to the thread of the application. */
#ifndef UCPING_SECURITY_H
#define UCPING_SECURITY_H

#include <stdbool.h>
#include <stdint.h>

#include "exchange.h"
#include "tls/tls.h"

struct settings;

struct security {
    struct tls_context *context;
    struct tls_key_cache *keys;
    struct tls_session *earlier; /* its session is resumed; null: there is none yet */
    bool resumes;                /* --tls-resume: the next connection becomes `earlier` */
    struct ping_run first;       /* what that connection does: one ping of one byte */
    uint64_t handshakes, resumed, failures;
    uint64_t own_records;          /* connections whose records OpenSSL does not protect */
    struct load_histogram latency; /* of handshakes, ns, without connecting */
    uint8_t plain[TLS_PLAIN_ROOM];
};

/*
 * Reads the files of the settings, and sets their `security`, which is owned. Returns 0, or -1 with
 * settings->error.
 */
int security_open(struct settings *s);
void security_close(struct security *security);

/* The keys for the records of the next session; null: OpenSSL keeps them. */
struct tls_key_cache *security_keys(const struct security *security);

/* A handshake has taken so long. The one before a run with --tls-resume does not count. */
void security_count(struct security *security, const struct tls_session *tls, uint64_t ns);

/* Frees the session of a closed connection, or keeps it to be resumed. */
void security_release(struct security *security, struct tls_session *tls);

/* To be called about once per second: changes the keys of tickets. */
void security_tick(struct security *security, uint64_t now_us);

#endif
