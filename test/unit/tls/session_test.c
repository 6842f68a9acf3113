/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions of a TLS server with OpenSSL's client on the other end of a memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tls/context.h"
#include "tls/key_cache.h"
#include "tls_client.h"

#define ALERT 21 /* the type of a record */
#define EMITTED_MAX (4 << 20)

static struct tls_key_cache *keys; /* null: OpenSSL keeps the records */
static struct cert authority, server_cert, other_cert, client_cert, foreign_cert;

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

static bool emit(void *ctx, const uint8_t *data, uint32_t len)
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

static struct tls_server_config config_default(void)
{
    return (struct tls_server_config){.chain_cert = server_cert.cert_path,
                                      .key = server_cert.key_path,
                                      .key_format = TLS_KEY_PEM,
                                      .min_version = TLS_VERSION_1_2};
}

static void end_open_on(struct end *end, struct tls_context *server, enum tls_peer_check check,
                        int version, const struct cert *cert, SSL_SESSION *resumed)
{
    memset(end, 0, sizeof(*end));
    end->emitted = malloc(EMITTED_MAX);
    end->got = malloc(EMITTED_MAX);
    end->server = server;
    end->session = tls_session_open(server, keys, check, emit, end);
    assert_non_null(end->session);
    client_open(&end->client, version, cert, resumed);
}

static struct tls_context *server_open(const struct tls_server_config *config)
{
    char error[TLS_ERROR_MAX];
    struct tls_context *server = tls_server_open(config, error);

    if (!server)
        fail_msg("%s", error);
    return server;
}

static void end_open(struct end *end, const struct tls_server_config *config, int version,
                     const struct cert *cert)
{
    end_open_on(end, server_open(config), TLS_PEER_AS_CONFIGURED, version, cert, NULL);
}

static void end_close_on(struct end *end)
{
    tls_session_close(end->session);
    client_close(&end->client);
    free(end->emitted);
    free(end->got);
}

static void end_close(struct end *end)
{
    end_close_on(end);
    tls_context_close(end->server);
}

/* Gives the server bytes, `step` at a time, as a transport would. */
static void give(struct end *end, const uint8_t *data, uint32_t len, uint32_t step)
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
static bool exchange(struct end *end, uint32_t step)
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

static void shake(struct end *end, uint32_t step)
{
    unsigned round;

    for (round = 0; round < 20; round++) {
        client_step(&end->client);
        if (!exchange(end, step))
            return;
    }
    fail_msg("the handshake does not end");
}

static bool is_established(const struct end *end)
{
    return end->result != TLS_FAILED && !end->client.failed &&
           tls_session_is_established(end->session) && SSL_is_init_finished(end->client.ssl);
}

/* "ping" there and "pong" back. */
static void ping(struct end *end, uint32_t step)
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
    assert_int_equal(client_read(&end->client, text, sizeof(text)), 4);
    assert_memory_equal(text, "pong", 4);
}

/* The last record emitted was this alert in the clear. */
static void expect_alert(const struct end *end, uint8_t description)
{
    assert_int_equal(end->result, TLS_FAILED);
    assert_int_equal(end->last[0], ALERT);
    assert_int_equal(end->last[5], 2); /* fatal */
    assert_int_equal(end->last[6], description);
    assert_true(strlen(tls_session_error(end->session)) > 0);
}

/* ---- handshakes -------------------------------------------------------------------------- */

static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};

static void test_handshake_cut_at_every_byte(void **state)
{
    struct tls_server_config config = config_default();
    struct end end;
    unsigned i;
    uint32_t step;

    for (i = 0; i < 2; i++) {
        for (step = 1; step < 8; step++) {
            end_open(&end, &config, versions[i], NULL);
            shake(&end, step);
            assert_true(is_established(&end));
            ping(&end, step);
            end_close(&end);
        }
    }
}

/* In TLS 1.3 a request may ride with the client's last message. */
static void test_request_behind_the_handshake(void **state)
{
    struct tls_server_config config = config_default();
    struct end end;

    end_open(&end, &config, TLS1_3_VERSION, NULL);
    client_step(&end.client);
    exchange(&end, 65536);
    client_step(&end.client);
    assert_int_equal(SSL_write(end.client.ssl, "early", 5), 5);
    exchange(&end, 65536);
    assert_int_equal(end.got_len, 5);
    assert_true(tls_session_is_established(end.session));
    end_close(&end);
}

static void test_garbage_instead_of_a_handshake(void **state)
{
    static const char *const texts[] = {"get key\r\n", "GET / HTTP/1.1\r\n\r\n",
                                        "\x80\x01zzzzzzzzzzzzzzzz",
                                        "\x16\x03\x01\xff\xffzzzzzzzzzzzzzzzzzzzzz"};
    struct tls_server_config config = config_default();
    struct end end;
    unsigned i;

    for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        end_open(&end, &config, 0, NULL);
        give(&end, (const uint8_t *)texts[i], (uint32_t)strlen(texts[i]), 65536);
        assert_int_equal(end.result, TLS_FAILED);
        assert_true(strlen(tls_session_error(end.session)) > 0);
        end_close(&end);
    }
}

static void test_versions(void **state)
{
    struct tls_server_config config = config_default();
    struct end end;

    config.min_version = TLS_VERSION_1_3;
    end_open(&end, &config, TLS1_2_VERSION, NULL);
    shake(&end, 65536);
    expect_alert(&end, SSL_AD_PROTOCOL_VERSION);
    end_close(&end);
    end_open(&end, &config, TLS1_3_VERSION, NULL);
    shake(&end, 65536);
    assert_true(is_established(&end));
    end_close(&end);
    /* The oldest versions also take ciphers that OpenSSL permits at level 0 only. */
    config.min_version = TLS_VERSION_1_0;
    config.ciphers = "ALL:@SECLEVEL=0";
    end_open(&end, &config, TLS1_VERSION, NULL);
    SSL_set_security_level(end.client.ssl, 0);
    SSL_set_cipher_list(end.client.ssl, "ALL:@SECLEVEL=0");
    shake(&end, 65536);
    assert_true(is_established(&end));
    end_close(&end);
}

static void test_peer_certificates(void **state)
{
    static const struct {
        enum tls_verify verify;
        enum tls_peer_check check;
        bool with_none, with_valid, with_foreign; /* whether a client gets in */
    } rows[] = {
        {TLS_VERIFY_NONE, TLS_PEER_AS_CONFIGURED, true, true, true},
        {TLS_VERIFY_REQUEST, TLS_PEER_AS_CONFIGURED, true, true, false},
        {TLS_VERIFY_REQUIRE, TLS_PEER_AS_CONFIGURED, false, true, false},
        {TLS_VERIFY_ONCE, TLS_PEER_AS_CONFIGURED, false, true, false},
        {TLS_VERIFY_NONE, TLS_PEER_REQUIRED, false, true, false},
        {TLS_VERIFY_REQUIRE, TLS_PEER_NONE, true, true, true},
    };
    const struct cert *certs[] = {NULL, &client_cert, &foreign_cert};
    struct tls_server_config config = config_default();
    struct end end;
    unsigned row, i;

    config.ca_cert = authority.cert_path;
    for (row = 0; row < sizeof(rows) / sizeof(rows[0]); row++) {
        const bool expected[] = {rows[row].with_none, rows[row].with_valid, rows[row].with_foreign};

        config.verify = rows[row].verify;
        for (i = 0; i < 6; i++) {
            end_open_on(&end, server_open(&config), rows[row].check, versions[i % 2], certs[i / 2],
                        NULL);
            shake(&end, 65536);
            assert_int_equal(end.result != TLS_FAILED, expected[i / 2]);
            assert_int_equal(tls_session_is_established(end.session) && end.result != TLS_FAILED,
                             expected[i / 2]);
            end_close(&end);
        }
    }
}

/* ---- resumption -------------------------------------------------------------------------- */

/* The session that a client may resume later. */
static SSL_SESSION *session_of(struct tls_context *server, enum tls_peer_check check, int version,
                               const struct cert *cert)
{
    SSL_SESSION *session;
    struct end end;
    char text[4];

    end_open_on(&end, server, check, version, cert, NULL);
    shake(&end, 65536);
    assert_true(is_established(&end));
    (void)client_read(&end.client, text, sizeof(text)); /* tickets of TLS 1.3 */
    session = SSL_get1_session(end.client.ssl);
    /* A session that does not end in order may not be resumed. */
    SSL_set_shutdown(end.client.ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    end_close_on(&end);
    return session;
}

static bool resumes(struct tls_context *server, enum tls_peer_check check, int version,
                    SSL_SESSION *session, bool *gets_in)
{
    struct end end;
    bool resumed;

    end_open_on(&end, server, check, version, NULL, session);
    shake(&end, 65536);
    *gets_in = is_established(&end);
    resumed = *gets_in && SSL_session_reused(end.client.ssl) == 1;
    assert_int_equal(resumed, *gets_in && tls_session_is_resumed(end.session));
    SSL_set_shutdown(end.client.ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    end_close_on(&end);
    return resumed;
}

static void test_sessions_are_resumed(void **state)
{
    struct tls_server_config config = config_default();
    SSL_SESSION *session;
    bool gets_in;
    unsigned i;

    for (i = 0; i < 4; i++) {
        struct tls_context *server;

        config.session_cache = i >= 2;
        server = server_open(&config);
        session = session_of(server, TLS_PEER_AS_CONFIGURED, versions[i % 2], NULL);
        assert_true(resumes(server, TLS_PEER_AS_CONFIGURED, versions[i % 2], session, &gets_in));
        SSL_SESSION_free(session);
        tls_context_close(server);
    }
}

/* An SSL_set_msg_callback(). */
static void count_ticket(int is_write, int version, int type, const void *data, size_t len,
                         SSL *ssl, void *ctx)
{
    unsigned *tickets = ctx;

    if (!is_write && type == SSL3_RT_HANDSHAKE && len > 0)
        *tickets += *(const uint8_t *)data == SSL3_MT_NEWSESSION_TICKET;
}

/* The tickets that a client gets; it resumes that session unless it is null. */
static unsigned tickets_of(struct tls_context *server, SSL_SESSION *session)
{
    unsigned tickets = 0;
    struct end end;
    char text[4];

    end_open_on(&end, server, TLS_PEER_AS_CONFIGURED, TLS1_3_VERSION, NULL, session);
    SSL_set_msg_callback(end.client.ssl, count_ticket);
    SSL_set_msg_callback_arg(end.client.ssl, &tickets);
    shake(&end, 65536);
    assert_true(is_established(&end));
    assert_int_equal(SSL_session_reused(end.client.ssl), session != NULL);
    (void)client_read(&end.client, text, sizeof(text));
    /* A session that does not end in order may not be resumed. */
    SSL_set_shutdown(end.client.ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    end_close_on(&end);
    return tickets;
}

/* A ticket is replaced only if its key has been. */
static void test_handshakes_give_no_superfluous_tickets(void **state)
{
    struct tls_server_config config = config_default();
    struct tls_context *server = server_open(&config);
    SSL_SESSION *session = session_of(server, TLS_PEER_AS_CONFIGURED, TLS1_3_VERSION, NULL);

    assert_int_equal(tickets_of(server, NULL), 1);
    assert_int_equal(tickets_of(server, session), 0);
    assert_false(tls_context_tick(server, 1));
    assert_true(tls_context_tick(server, 1 + TLS_TICKET_KEY_US));
    assert_int_equal(tickets_of(server, session), 1);
    SSL_SESSION_free(session);
    tls_context_close(server);
}

/* A ticket is good until its key has been replaced twice. */
static void test_keys_of_tickets_change(void **state)
{
    struct tls_server_config config = config_default();
    uint64_t now_us = 5000000;
    bool gets_in, expected;
    unsigned i, hours;

    for (i = 0; i < 2; i++) {
        struct tls_context *server = server_open(&config);
        SSL_SESSION *session = session_of(server, TLS_PEER_AS_CONFIGURED, versions[i], NULL);

        assert_false(tls_context_tick(server, now_us));
        for (hours = 0; hours < 3; hours++) {
            expected = hours < 2;
            assert_int_equal(
                resumes(server, TLS_PEER_AS_CONFIGURED, versions[i], session, &gets_in), expected);
            assert_true(gets_in); /* by a whole handshake */
            assert_false(tls_context_tick(server, now_us + TLS_TICKET_KEY_US - 1));
            now_us += TLS_TICKET_KEY_US;
            assert_true(tls_context_tick(server, now_us));
            assert_false(tls_context_tick(server, now_us));
        }
        SSL_SESSION_free(session);
        tls_context_close(server);
    }
}

/* A ticket from a connection that asks for no certificate does not replace one. */
static void test_ticket_does_not_evade_the_check(void **state)
{
    struct tls_server_config config = config_default();
    struct tls_context *server;
    SSL_SESSION *session;
    bool gets_in;
    unsigned i;

    config.ca_cert = authority.cert_path;
    server = server_open(&config);
    for (i = 0; i < 2; i++) {
        session = session_of(server, TLS_PEER_NONE, versions[i], NULL);
        assert_false(resumes(server, TLS_PEER_REQUIRED, versions[i], session, &gets_in));
        assert_false(gets_in);
        SSL_SESSION_free(session);
        session = session_of(server, TLS_PEER_REQUIRED, versions[i], &client_cert);
        assert_true(resumes(server, TLS_PEER_REQUIRED, versions[i], session, &gets_in));
        SSL_SESSION_free(session);
    }
    tls_context_close(server);
}

/* ---- data -------------------------------------------------------------------------------- */

static void test_large_values(void **state)
{
    enum { BYTES = 1 << 20 };
    struct tls_server_config config = config_default();
    uint8_t *value = malloc(BYTES), *back = malloc(BYTES);
    struct end end;
    int done, n;
    unsigned i;

    for (i = 0; i < BYTES; i++)
        value[i] = (uint8_t)(i * 31 + (i >> 8));
    for (i = 0; i < 2; i++) {
        end_open(&end, &config, versions[i], NULL);
        shake(&end, 65536);
        end.got_len = 0;
        assert_int_equal(SSL_write(end.client.ssl, value, BYTES), BYTES);
        while (exchange(&end, 1000))
            continue;
        assert_int_equal(end.got_len, BYTES);
        assert_memory_equal(end.got, value, BYTES);
        for (done = 0; done < BYTES; done += TLS_RECORD_MAX)
            assert_int_equal(tls_session_write(end.session, value + done, TLS_RECORD_MAX), 0);
        exchange(&end, 1);
        for (done = 0; (n = client_read(&end.client, back + done, BYTES - done)) > 0; done += n)
            continue;
        assert_int_equal(done, BYTES);
        assert_memory_equal(back, value, BYTES);
        end_close(&end);
    }
    free(value);
    free(back);
}

/* Whatever bit changes on the way, nothing of the record is delivered. */
static void test_changed_records_are_refused(void **state)
{
    struct tls_server_config config = config_default();
    uint8_t record[128];
    struct end end;
    unsigned i;
    int at, len = 1;

    for (i = 0; i < 2; i++) {
        for (at = 0; at < len; at++) {
            end_open(&end, &config, versions[i], NULL);
            shake(&end, 65536);
            assert_int_equal(SSL_write(end.client.ssl, "secret", 6), 6);
            len = BIO_read(end.client.out, record, sizeof(record));
            record[at] ^= 0x10;
            end.got_len = 0;
            end.emitted_len = 0;
            give(&end, record, (uint32_t)len, 65536);
            assert_int_equal(end.got_len, 0);
            if (end.result == TLS_FAILED)
                assert_true(end.emitted_len > 0);
            else
                assert_true(at == 3 || at == 4); /* a longer record is not complete */
            end_close(&end);
        }
    }
}

static void test_key_update(void **state)
{
    struct tls_server_config config = config_default();
    struct end end;

    end_open(&end, &config, TLS1_3_VERSION, NULL);
    shake(&end, 65536);
    assert_int_equal(SSL_key_update(end.client.ssl, SSL_KEY_UPDATE_REQUESTED), 1);
    ping(&end, 65536);
    ping(&end, 3);
    end_close(&end);
}

static void test_renegotiation_is_refused(void **state)
{
    struct tls_server_config config = config_default();
    uint8_t data[4096];
    struct end end;
    int len;

    end_open(&end, &config, TLS1_2_VERSION, NULL);
    shake(&end, 65536);
    assert_int_equal(SSL_renegotiate(end.client.ssl), 1);
    client_step(&end.client);
    len = BIO_read(end.client.out, data, sizeof(data));
    assert_true(len > 0);
    end.emitted_len = 0;
    give(&end, data, (uint32_t)len, 65536);
    assert_true(end.emitted_len > 0); /* an alert, no handshake message */
    assert_int_equal(end.last[0], ALERT);
    end_close(&end);
}

static void test_close_notify(void **state)
{
    struct tls_server_config config = config_default();
    struct end end;
    unsigned i;
    char text[4];

    for (i = 0; i < 2; i++) {
        end_open(&end, &config, versions[i], NULL);
        tls_session_shutdown(end.session); /* without effect before the handshake */
        assert_int_equal(end.emitted_len, 0);
        shake(&end, 65536);
        (void)client_read(&end.client, text, sizeof(text));
        assert_int_equal(SSL_shutdown(end.client.ssl), 0);
        exchange(&end, 1);
        assert_int_equal(end.result, TLS_CLOSED);
        tls_session_shutdown(end.session);
        exchange(&end, 1);
        assert_int_equal(SSL_shutdown(end.client.ssl), 1); /* the server's has come */
        end_close(&end);
    }
}

static void test_peer_that_cannot_be_sent_to(void **state)
{
    struct tls_server_config config = config_default();
    struct end end;

    end_open(&end, &config, TLS1_3_VERSION, NULL);
    shake(&end, 65536);
    end.refuses = true;
    assert_int_equal(tls_session_write(end.session, (const uint8_t *)"x", 1), -1);
    assert_true(strlen(tls_session_error(end.session)) > 0);
    end_close(&end);
    end_open(&end, &config, TLS1_3_VERSION, NULL);
    end.refuses = true;
    client_step(&end.client);
    exchange(&end, 65536);
    assert_int_equal(end.result, TLS_FAILED);
    end_close(&end);
}

/* ---- certificates ------------------------------------------------------------------------ */

static void copy_file(const char *from, const char *to)
{
    char data[4096];
    FILE *in = fopen(from, "r"), *out = fopen(to, "w");
    size_t n;

    assert_non_null(in);
    assert_non_null(out);
    n = fread(data, 1, sizeof(data), in);
    assert_int_equal(fwrite(data, 1, n, out), n);
    fclose(in);
    fclose(out);
}

static bool shows(const struct end *end, const struct cert *cert)
{
    X509 *shown = SSL_get1_peer_certificate(end->client.ssl);
    bool same = shown && X509_cmp(shown, cert->x509) == 0;

    X509_free(shown);
    return same;
}

static void test_refresh(void **state)
{
    struct tls_server_config config = config_default();
    char error[TLS_ERROR_MAX];
    char cert_path[CERT_PATH_MAX], key_path[CERT_PATH_MAX];
    struct end before, after;

    fclose(cert_file(cert_path));
    fclose(cert_file(key_path));
    copy_file(server_cert.cert_path, cert_path);
    copy_file(server_cert.key_path, key_path);
    config.chain_cert = cert_path;
    config.key = key_path;
    end_open(&before, &config, TLS1_3_VERSION, NULL);
    shake(&before, 65536);
    copy_file(other_cert.cert_path, cert_path);
    assert_int_equal(tls_context_refresh(before.server, error), -1); /* the key is the old one */
    assert_non_null(strstr(error, "key"));
    copy_file(other_cert.key_path, key_path);
    assert_int_equal(tls_context_refresh(before.server, error), 0);
    end_open_on(&after, before.server, TLS_PEER_AS_CONFIGURED, TLS1_3_VERSION, NULL, NULL);
    shake(&after, 65536);
    assert_true(shows(&after, &other_cert));
    assert_true(shows(&before, &server_cert));
    ping(&before, 65536);
    ping(&after, 65536);
    unlink(cert_path);
    assert_int_equal(tls_context_refresh(before.server, error), -1);
    assert_non_null(strstr(error, cert_path));
    end_close_on(&after);
    end_open_on(&after, before.server, TLS_PEER_AS_CONFIGURED, TLS1_3_VERSION, NULL, NULL);
    shake(&after, 65536);
    assert_true(shows(&after, &other_cert));
    end_close_on(&after);
    end_close(&before);
    unlink(key_path);
}

static void refused(const struct tls_server_config *config, const char *reason)
{
    char error[TLS_ERROR_MAX] = "";

    assert_null(tls_server_open(config, error));
    if (!strstr(error, reason))
        fail_msg("\"%s\" does not name \"%s\"", error, reason);
}

static void test_errors_at_the_start(void **state)
{
    struct tls_server_config config = config_default();
    char path[CERT_PATH_MAX];
    FILE *file;

    config.chain_cert = NULL;
    refused(&config, "ssl_chain_cert");
    config.chain_cert = "/nonexistent/cert.pem";
    refused(&config, "/nonexistent/cert.pem");
    config = config_default();
    config.key = "/nonexistent/key.pem";
    refused(&config, "Error loading the key: /nonexistent/key.pem");
    config.key = other_cert.key_path;
    refused(&config, "key values mismatch");
    config.key = NULL; /* not in the file of the certificate either */
    refused(&config, "Error loading the key");
    config = config_default();
    config.key_format = TLS_KEY_DER;
    refused(&config, "Error loading the key");
    config = config_default();
    config.ca_cert = server_cert.key_path;
    refused(&config, "Error loading the CA certificate");
    config = config_default();
    config.ciphers = "NO-SUCH-CIPHER";
    refused(&config, "NO-SUCH-CIPHER");
    /* A key with a passphrase: the terminal is not asked for it. */
    file = cert_file(path);
    assert_int_equal(PEM_write_PrivateKey(file, server_cert.key, EVP_aes_128_cbc(),
                                          (const unsigned char *)"word", 4, NULL, NULL),
                     1);
    fclose(file);
    config = config_default();
    config.key = path;
    refused(&config, "Error loading the key");
    unlink(path);
}

/* Certificate and key in one file, as without ssl_key. */
static void test_key_in_the_chain(void **state)
{
    struct tls_server_config config = config_default();
    char path[CERT_PATH_MAX];
    FILE *file = cert_file(path);
    struct end end;

    PEM_write_X509(file, server_cert.x509);
    PEM_write_PrivateKey(file, server_cert.key, NULL, NULL, 0, NULL, NULL);
    fclose(file);
    config.chain_cert = path;
    config.key = NULL;
    end_open(&end, &config, 0, NULL);
    shake(&end, 65536);
    assert_true(is_established(&end));
    end_close(&end);
    unlink(path);
}

/* Certificates that the server has for its handshakes, beside its own; -1: searched each time. */
static int kept_chain(const struct tls_context *server)
{
    STACK_OF(X509) *chain = NULL;

    assert_int_equal(SSL_CTX_get0_chain_certs(server->ctx, &chain), 1);
    return sk_X509_num(chain);
}

/* The authority of a certificate that is alone in its file is found once, and shown to clients. */
static void test_chain_is_built_once(void **state)
{
    struct tls_server_config config = config_default();
    char error[TLS_ERROR_MAX];
    struct end end;

    end_open(&end, &config, 0, NULL);
    assert_int_equal(kept_chain(end.server), 0); /* it has signed itself */
    end_close(&end);
    config.chain_cert = client_cert.cert_path;
    config.key = client_cert.key_path;
    config.ca_cert = authority.cert_path;
    end_open(&end, &config, 0, NULL);
    assert_int_equal(kept_chain(end.server), 1);
    shake(&end, 65536);
    assert_true(is_established(&end));
    assert_int_equal(sk_X509_num(SSL_get_peer_cert_chain(end.client.ssl)), 2);
    assert_int_equal(tls_context_refresh(end.server, error), 0);
    assert_int_equal(kept_chain(end.server), 1);
    end_close(&end);
}

static int make_certs(void **state)
{
    cert_make(&authority, "authority", NULL);
    cert_make(&server_cert, "server", NULL);
    cert_make(&other_cert, "server", NULL);
    cert_make(&client_cert, "client", &authority);
    cert_make(&foreign_cert, "client", NULL);
    return 0;
}

static int free_certs(void **state)
{
    cert_free(&authority);
    cert_free(&server_cert);
    cert_free(&other_cert);
    cert_free(&client_cert);
    cert_free(&foreign_cert);
    return 0;
}

static int use_evp(void **state)
{
    keys = tls_key_cache_new(&tls_aead_evp);
    return make_certs(state);
}

static int use_best(void **state)
{
    keys = tls_key_cache_open();
    return make_certs(state);
}

static int end_keys(void **state)
{
    tls_key_cache_close(keys);
    return free_certs(state);
}

/* All of it with records by OpenSSL, and by us with each library. */
int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_handshake_cut_at_every_byte),
        cmocka_unit_test(test_request_behind_the_handshake),
        cmocka_unit_test(test_garbage_instead_of_a_handshake),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_peer_certificates),
        cmocka_unit_test(test_sessions_are_resumed),
        cmocka_unit_test(test_handshakes_give_no_superfluous_tickets),
        cmocka_unit_test(test_keys_of_tickets_change),
        cmocka_unit_test(test_ticket_does_not_evade_the_check),
        cmocka_unit_test(test_large_values),
        cmocka_unit_test(test_changed_records_are_refused),
        cmocka_unit_test(test_key_update),
        cmocka_unit_test(test_renegotiation_is_refused),
        cmocka_unit_test(test_close_notify),
        cmocka_unit_test(test_peer_that_cannot_be_sent_to),
        cmocka_unit_test(test_refresh),
        cmocka_unit_test(test_errors_at_the_start),
        cmocka_unit_test(test_key_in_the_chain),
        cmocka_unit_test(test_chain_is_built_once),
    };

    return cmocka_run_group_tests(tests, make_certs, free_certs) +
           cmocka_run_group_tests(tests, use_evp, end_keys) +
           cmocka_run_group_tests(tests, use_best, end_keys);
}
