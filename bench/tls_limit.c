/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the cryptographic libraries allow a server on this machine, without sockets and without
 * ucached:
 *
 *   bench/tls_limit handshakes CERTIFICATE KEY [count]   by OpenSSL
 *   bench/tls_limit seal [megabytes]                     by the library that ucached chooses
 *
 * The first makes full handshakes of TLS 1.3 with OpenSSL's defaults and one ticket, both ends in
 * this thread, and prints how many a server makes in a second of processor time. The second
 * encrypts records of 16 KiB in place, in the first-level cache, with AES-128-GCM.
 */
#include <inttypes.h>
#include <openssl/ssl.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/base.h"
#include "tls/aead.h"

enum { HANDSHAKES = 500, MEGABYTES = 1000, RECORDS_PER_MEGABYTE = 64, KEY_BYTES = 16 };

static void die(const char *what)
{
    fprintf(stderr, "tls_limit: %s\n", what);
    exit(1);
}

static double processor_time(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- handshakes -------------------------------------------------------------------------- */

static SSL_CTX *server_context(const char *certificate, const char *key)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());

    if (!ctx || SSL_CTX_use_certificate_chain_file(ctx, certificate) != 1 ||
        SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_num_tickets(ctx, 1) != 1)
        die("the certificate or its key cannot be used");
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    return ctx;
}

/* One end of a connection, whose bytes are read from and written to memory. */
static SSL *open_end(SSL_CTX *ctx, BIO *from, BIO *to)
{
    SSL *ssl = SSL_new(ctx);

    if (!ssl || BIO_up_ref(from) != 1 || BIO_up_ref(to) != 1)
        die("no memory");
    SSL_set_bio(ssl, from, to);
    return ssl;
}

/* Continues a handshake. Returns how long that took; *done is set once it is complete. */
static double step(SSL *ssl, bool *done)
{
    double start = processor_time();
    int rc = SSL_do_handshake(ssl);

    if (rc != 1 && SSL_get_error(ssl, rc) != SSL_ERROR_WANT_READ)
        die("a handshake failed");
    *done = rc == 1;
    return processor_time() - start;
}

/* Makes one handshake. Returns the processor time of the server's end. */
static double handshake(SSL_CTX *server_ctx, SSL_CTX *client_ctx)
{
    BIO *to_server = BIO_new(BIO_s_mem()), *to_client = BIO_new(BIO_s_mem());
    SSL *client = open_end(client_ctx, to_client, to_server), *server;
    bool client_done, server_done = false;
    double spent, start;

    SSL_set_connect_state(client);
    (void)step(client, &client_done);
    start = processor_time();
    server = open_end(server_ctx, to_server, to_client);
    SSL_set_accept_state(server);
    spent = processor_time() - start;
    while (!server_done) {
        spent += step(server, &server_done);
        (void)step(client, &client_done);
    }
    start = processor_time();
    SSL_free(server);
    spent += processor_time() - start;
    SSL_free(client);
    BIO_free(to_server);
    BIO_free(to_client);
    return spent;
}

static void measure_handshakes(const char *certificate, const char *key, unsigned long count)
{
    SSL_CTX *server = server_context(certificate, key);
    SSL_CTX *client = SSL_CTX_new(TLS_client_method());
    double spent = 0;
    unsigned long i;

    if (!client)
        die("no memory");
    for (i = 0; i < count; i++)
        spent += handshake(server, client);
    printf("%.0f handshakes per second\n", (double)count / spent);
    SSL_CTX_free(client);
    SSL_CTX_free(server);
}

/* ---- records ----------------------------------------------------------------------------- */

static void measure_sealing(unsigned long megabytes)
{
    static alignas(TLS_AEAD_ALIGN) uint8_t record[TLS_RECORD_MAX + TLS_AEAD_TAG];
    const struct tls_aead *aead = tls_aead_best();
    uint8_t key[KEY_BYTES] = {0}, nonce[TLS_AEAD_NONCE] = {0}, header[TLS_RECORD_HEADER] = {0};
    void *expanded = aligned_alloc(TLS_AEAD_ALIGN, aead->expanded_bytes);
    double start, spent;
    unsigned long i;

    if (!expanded)
        die("no memory");
    memset(expanded, 0, aead->expanded_bytes);
    if (!aead->expand(expanded, key, sizeof(key)))
        die("the key cannot be expanded");
    start = processor_time();
    for (i = 0; i < megabytes * RECORDS_PER_MEGABYTE; i++) {
        memcpy(nonce, &i, sizeof(i));
        if (!aead->seal(expanded, nonce, header, record, TLS_RECORD_MAX))
            die("a record cannot be encrypted");
    }
    spent = processor_time() - start;
    printf("%.0f MiB per second\n", (double)megabytes / spent);
    aead->clear(expanded);
    free(expanded);
}

static unsigned long count_of(const char *text, unsigned long otherwise)
{
    char *end;
    unsigned long count = text ? strtoul(text, &end, 10) : otherwise;

    if (count == 0 || (text && *end != '\0'))
        die("not a count");
    return count;
}

int main(int argc, char **argv)
{
    if ((argc == 4 || argc == 5) && strcmp(argv[1], "handshakes") == 0)
        measure_handshakes(argv[2], argv[3], count_of(argv[4], HANDSHAKES));
    else if ((argc == 2 || argc == 3) && strcmp(argv[1], "seal") == 0)
        measure_sealing(count_of(argv[2], MEGABYTES));
    else
        die("usage: tls_limit handshakes CERTIFICATE KEY [count] | tls_limit seal [megabytes]");
    return 0;
}
