/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For tests of a TLS server: a session of it and OpenSSL's client, which exchange bytes in memory.
 * OpenSSL makes the records, or the server does.
 */
#ifndef SESSION_RIG_H
#define SESSION_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tls/context.h"
#include "tls/key_cache.h"
#include "tls_client.h"

#define EMITTED_MAX (4 << 20)

static struct tls_key_cache *keys; /* null: OpenSSL keeps the records */
static struct cert authority, server_cert, other_cert, client_cert, foreign_cert;

static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};

/* ---- a server and a client --------------------------------------------------------------- */

struct end {
    struct tls_context *server;
    struct tls_session *session;
    struct tls_client client;
    uint8_t *emitted; /* for the client, not delivered yet */
    uint32_t emitted_len;
    uint8_t last[16]; /* the beginning of the last emission */
    bool refuses;     /* emits fail */
    uint8_t *got;     /* plaintext */
    uint32_t got_len;
    enum tls_result result; /* of the last read */
};

static inline bool emit(void *ctx, const uint8_t *data, uint32_t len)
{
    struct end *end = ctx;

    if (end->refuses)
        return false;
    assert_true(end->emitted_len + len <= EMITTED_MAX);
    memcpy(end->emitted + end->emitted_len, data, len);
    memcpy(end->last, data, len < sizeof(end->last) ? len : sizeof(end->last));
    end->emitted_len += len;
    return true;
}

static inline struct tls_server_config config_default(void)
{
    return (struct tls_server_config){.chain_cert = server_cert.cert_path,
                                      .key = server_cert.key_path,
                                      .key_format = TLS_KEY_PEM,
                                      .min_version = TLS_VERSION_1_2};
}

static inline void end_open_on(struct end *end, struct tls_context *server,
                               enum tls_peer_check check, int version, const struct cert *cert,
                               SSL_SESSION *resumed)
{
    memset(end, 0, sizeof(*end));
    end->emitted = malloc(EMITTED_MAX);
    end->got = malloc(EMITTED_MAX);
    end->server = server;
    end->session = tls_session_open(server, keys, check, emit, end);
    assert_non_null(end->session);
    ssl_client_open(&end->client, version, cert, resumed);
}

static inline struct tls_context *server_open(const struct tls_server_config *config)
{
    char error[TLS_ERROR_MAX];
    struct tls_context *server = tls_server_open(config, error);

    if (!server)
        fail_msg("%s", error);
    return server;
}

static inline void end_open(struct end *end, const struct tls_server_config *config, int version,
                            const struct cert *cert)
{
    end_open_on(end, server_open(config), TLS_PEER_AS_CONFIGURED, version, cert, NULL);
}

static inline void end_close_on(struct end *end)
{
    tls_session_close(end->session);
    ssl_client_close(&end->client);
    free(end->emitted);
    free(end->got);
}

static inline void end_close(struct end *end)
{
    end_close_on(end);
    tls_context_close(end->server);
}

/* Gives the server bytes, `step` at a time, as a transport would. */
static inline void give(struct end *end, const uint8_t *data, uint32_t len, uint32_t step)
{
    uint8_t plain[TLS_PLAIN_ROOM];
    uint32_t at = 0, chunk, used, plain_len;

    while (at < len && end->result != TLS_FAILED && end->result != TLS_CLOSED) {
        chunk = step < len - at ? step : len - at;
        end->result = tls_session_read(end->session, data + at, chunk, &used, plain, &plain_len);
        assert_true(used <= chunk);
        assert_true(used > 0 || end->result == TLS_FAILED);
        if (end->result == TLS_MORE)
            assert_int_equal(used, chunk);
        assert_int_equal(end->result == TLS_DATA, plain_len > 0);
        memcpy(end->got + end->got_len, plain, plain_len);
        end->got_len += plain_len;
        at += used;
    }
}

/* What the client has to send goes to the server, what the server has emitted to the client. */
static inline bool exchange(struct end *end, uint32_t step)
{
    uint8_t data[65536];
    int len = BIO_read(end->client.out, data, sizeof(data));
    bool moved = len > 0 || end->emitted_len > 0;

    if (len > 0)
        give(end, data, (uint32_t)len, step);
    if (end->emitted_len > 0)
        BIO_write(end->client.in, end->emitted, (int)end->emitted_len);
    end->emitted_len = 0;
    return moved;
}

static inline void shake(struct end *end, uint32_t step)
{
    unsigned round;

    for (round = 0; round < 20; round++) {
        ssl_client_step(&end->client);
        if (!exchange(end, step))
            return;
    }
    fail_msg("the handshake does not end");
}

static inline bool is_established(const struct end *end)
{
    return end->result != TLS_FAILED && !end->client.failed &&
           tls_session_is_established(end->session) && SSL_is_init_finished(end->client.ssl);
}

/* "ping" there and "pong" back. */
static inline void ping(struct end *end, uint32_t step)
{
    char text[16];

    end->got_len = 0;
    assert_int_equal(SSL_write(end->client.ssl, "ping", 4), 4);
    exchange(end, step);
    assert_int_equal(end->result, TLS_DATA);
    assert_int_equal(end->got_len, 4);
    assert_memory_equal(end->got, "ping", 4);
    assert_int_equal(tls_session_write(end->session, (const uint8_t *)"pong", 4), 0);
    exchange(end, step);
    assert_int_equal(ssl_client_read(&end->client, text, sizeof(text)), 4);
    assert_memory_equal(text, "pong", 4);
}

/* ---- programs ---------------------------------------------------------------------------- */

static inline int make_certs(void **state)
{
    cert_make(&authority, "authority", NULL);
    cert_make(&server_cert, "server", NULL);
    cert_make(&other_cert, "server", NULL);
    cert_make(&client_cert, "client", &authority);
    cert_make(&foreign_cert, "client", NULL);
    return 0;
}

static inline int free_certs(void **state)
{
    cert_free(&authority);
    cert_free(&server_cert);
    cert_free(&other_cert);
    cert_free(&client_cert);
    cert_free(&foreign_cert);
    return 0;
}

static inline int use_evp(void **state)
{
    keys = tls_key_cache_new(&tls_aead_evp);
    return make_certs(state);
}

static inline int use_best(void **state)
{
    keys = tls_key_cache_open();
    return make_certs(state);
}

static inline int end_keys(void **state)
{
    tls_key_cache_close(keys);
    return free_certs(state);
}

/* Runs a group of tests with records by OpenSSL, and by us with each library. Returns failures. */
#define RIG_RUN(tests)                                                                             \
    (cmocka_run_group_tests(tests, make_certs, free_certs) +                                       \
     cmocka_run_group_tests(tests, use_evp, end_keys) +                                            \
     cmocka_run_group_tests(tests, use_best, end_keys))

#endif
