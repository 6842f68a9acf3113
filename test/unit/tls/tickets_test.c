/* SPDX-License-Identifier: BSD-3-Clause */
/* Tickets by which clients resume sessions. */
#include "session_rig.h"

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
    (void)ssl_client_read(&end.client, text, sizeof(text)); /* tickets of TLS 1.3 */
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

/* Opens a connection of a client that takes no tickets. Returns its session. */
static SSL_SESSION *session_without_ticket(struct tls_context *server, SSL_SESSION *earlier,
                                           bool *resumed)
{
    SSL_SESSION *session;
    struct end end;

    end_open_on(&end, server, TLS_PEER_AS_CONFIGURED, TLS1_2_VERSION, NULL, earlier);
    SSL_set_options(end.client.ssl, SSL_OP_NO_TICKET);
    shake(&end, 65536);
    assert_true(is_established(&end));
    *resumed = tls_session_is_resumed(end.session);
    session = SSL_get1_session(end.client.ssl);
    SSL_set_shutdown(end.client.ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    end_close_on(&end);
    return session;
}

/* With ssl_session_cache sessions are kept, also of connections that end without close_notify. */
static void test_sessions_without_tickets_are_resumed(void **state)
{
    struct tls_server_config config = config_default();
    SSL_SESSION *first, *second;
    struct tls_context *server;
    bool resumed;
    unsigned i;

    for (i = 0; i < 2; i++) {
        config.session_cache = i == 1;
        server = server_open(&config);
        first = session_without_ticket(server, NULL, &resumed);
        assert_false(resumed);
        second = session_without_ticket(server, first, &resumed);
        assert_int_equal(resumed, config.session_cache);
        SSL_SESSION_free(first);
        SSL_SESSION_free(second);
        tls_context_close(server);
    }
}

/* One end of two of ours: what has come for it. */
struct half {
    struct tls_session *session;
    uint8_t bytes[65536];
    uint32_t len;
};

static bool pass(void *ctx, const uint8_t *data, uint32_t len)
{
    struct half *to = ctx;

    assert_true(to->len + len <= sizeof(to->bytes));
    memcpy(to->bytes + to->len, data, len);
    to->len += len;
    return true;
}

/* Returns whether anything had come. */
static bool take(struct half *half)
{
    uint8_t plain[TLS_PLAIN_ROOM];
    uint32_t used, plain_len, at;
    bool any = half->len > 0;

    for (at = 0; at < half->len; at += used)
        assert_int_equal(tls_session_read(half->session, half->bytes + at, half->len - at, &used,
                                          plain, &plain_len),
                         TLS_MORE);
    half->len = 0;
    return any;
}

/* Handshake of our client, which resumes what another one has had. */
static void connect_halves(struct tls_context *contexts[2], struct half halves[2],
                           const struct tls_session *earlier)
{
    unsigned i;

    for (i = 0; i < 2; i++) {
        halves[i].len = 0;
        halves[i].session =
            tls_session_open(contexts[i], NULL, TLS_PEER_NONE, pass, &halves[1 - i]);
        assert_non_null(halves[i].session);
    }
    if (earlier)
        tls_session_resume(halves[1].session, earlier);
    assert_int_equal(tls_session_start(halves[1].session), 0);
    while (take(&halves[0]) || take(&halves[1]))
        continue;
    for (i = 0; i < 2; i++) {
        assert_true(tls_session_is_established(halves[i].session));
        assert_int_equal(tls_session_is_resumed(halves[i].session), earlier != NULL);
    }
}

static void test_our_client_resumes(void **state)
{
    static struct half halves[2][2]; /* of two connections: the server's and the client's */
    const struct tls_server_config config = config_default();
    const struct tls_client_config client = {0};
    char error[TLS_ERROR_MAX];
    struct tls_context *contexts[] = {server_open(&config), tls_client_open(&client, error)};
    unsigned i;

    assert_non_null(contexts[1]);
    for (i = 0; i < 2; i++)
        connect_halves(contexts, halves[i], i == 0 ? NULL : halves[0][1].session);
    for (i = 0; i < 4; i++)
        tls_session_close(halves[i / 2][i % 2].session);
    for (i = 0; i < 2; i++)
        tls_context_close(contexts[i]);
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
    (void)ssl_client_read(&end.client, text, sizeof(text));
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sessions_are_resumed),
        cmocka_unit_test(test_sessions_without_tickets_are_resumed),
        cmocka_unit_test(test_our_client_resumes),
        cmocka_unit_test(test_handshakes_give_no_superfluous_tickets),
        cmocka_unit_test(test_keys_of_tickets_change),
        cmocka_unit_test(test_ticket_does_not_evade_the_check),
    };

    return RIG_RUN(tests);
}
