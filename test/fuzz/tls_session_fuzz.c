/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bytes from a peer into a TLS session. The first byte selects the pieces in which the bytes come,
 * and whether they come in place of a handshake or behind one.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include "check.h"
#include "tls/tls.h"

#define CHECK(holds) check((holds) ? 1 : 0, #holds)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct tls_context *server;
static struct tls_key_cache *keys;
static SSL_CTX *client_ctx;

/* A key and a certificate in one file, which is removed when it has been read. */
static struct tls_context *server_make(void)
{
    struct tls_server_config config = {.key_format = TLS_KEY_PEM, .min_version = TLS_VERSION_1_2};
    char path[] = "/tmp/tls-fuzz-XXXXXX";
    char error[TLS_ERROR_MAX];
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = X509_new();
    FILE *file = fdopen(mkstemp(path), "w");
    struct tls_context *made;

    CHECK(key && cert && file);
    X509_gmtime_adj(X509_getm_notBefore(cert), 0);
    X509_gmtime_adj(X509_getm_notAfter(cert), 86400);
    X509_set_pubkey(cert, key);
    CHECK(X509_sign(cert, key, EVP_sha256()) > 0);
    PEM_write_X509(file, cert);
    PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL);
    fclose(file);
    config.chain_cert = path;
    made = tls_server_open(&config, error);
    unlink(path);
    X509_free(cert);
    EVP_PKEY_free(key);
    return made;
}

static bool emit(void *ctx, const uint8_t *data, uint32_t len)
{
    BIO *to = ctx;

    return !to || BIO_write(to, data, (int)len) == (int)len;
}

/* Gives bytes to the session in pieces. Returns false at its end. */
static bool give(struct tls_session *session, const uint8_t *data, uint32_t len, uint32_t step)
{
    static uint8_t plain[TLS_PLAIN_ROOM];
    uint32_t at, used, plain_len;

    for (at = 0; at < len; at += used) {
        uint32_t piece = step < len - at ? step : len - at;
        enum tls_result result =
            tls_session_read(session, data + at, piece, &used, plain, &plain_len);

        CHECK(used <= piece && plain_len <= TLS_RECORD_MAX);
        CHECK((result == TLS_DATA) == (plain_len > 0));
        CHECK(result != TLS_DATA || tls_session_is_established(session));
        if (result == TLS_FAILED || result == TLS_CLOSED)
            return false;
        CHECK(used > 0);
        if (result == TLS_DATA)
            CHECK(tls_session_write(session, plain, plain_len) == 0);
    }
    return true;
}

static void shake(SSL *client, BIO *in, BIO *out, struct tls_session *session)
{
    uint8_t data[8192];
    int n, round;

    for (round = 0; round < 4; round++) {
        (void)SSL_do_handshake(client);
        while ((n = BIO_read(out, data, sizeof(data))) > 0)
            CHECK(give(session, data, (uint32_t)n, sizeof(data)));
    }
    CHECK(tls_session_is_established(session));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tls_session *session;
    uint32_t step;

    if (size < 2 || size > 65536)
        return 0;
    if (!server) {
        server = server_make();
        keys = tls_key_cache_open();
        client_ctx = SSL_CTX_new(TLS_client_method());
        CHECK(server && keys && client_ctx);
    }
    step = 1u + (data[0] >> 1);
    if (data[0] & 1) {
        SSL *client = SSL_new(client_ctx);
        BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());

        SSL_set_bio(client, in, out);
        SSL_set_connect_state(client);
        session = tls_session_open(server, keys, TLS_PEER_AS_CONFIGURED, emit, in);
        CHECK(session);
        shake(client, in, out, session);
        (void)give(session, data + 1, (uint32_t)size - 1, step);
        tls_session_close(session);
        SSL_free(client);
    } else {
        session = tls_session_open(server, keys, TLS_PEER_AS_CONFIGURED, emit, NULL);
        CHECK(session);
        (void)give(session, data + 1, (uint32_t)size - 1, step);
        tls_session_close(session);
    }
    ERR_clear_error();
    return 0;
}
