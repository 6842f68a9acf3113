/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions of a TLS server: handshakes, and data in both directions. */
#include "session_rig.h"

#define ALERT 21 /* the type of a record */

/* ---- handshakes -------------------------------------------------------------------------- */

/* The last record emitted was this alert in the clear. */
static void expect_alert(const struct end *end, uint8_t description)
{
    assert_int_equal(end->result, TLS_FAILED);
    assert_int_equal(end->last[0], ALERT);
    assert_int_equal(end->last[5], 2); /* fatal */
    assert_int_equal(end->last[6], description);
    assert_true(strlen(tls_session_error(end->session)) > 0);
}

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
    ssl_client_step(&end.client);
    exchange(&end, 65536);
    ssl_client_step(&end.client);
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
        for (done = 0; (n = ssl_client_read(&end.client, back + done, BYTES - done)) > 0; done += n)
            continue;
        assert_int_equal(done, BYTES);
        assert_memory_equal(back, value, BYTES);
        end_close(&end);
    }
    free(value);
    free(back);
}

/*
 * Whatever byte changes on the way, nothing of the record is delivered. Under valgrind every byte
 * of the header and every sixth byte of the ciphertext is changed.
 */
static void test_changed_records_are_refused(void **state)
{
    struct tls_server_config config = config_default();
    uint8_t record[128];
    struct end end;
    uint32_t emitted;
    unsigned i;
    const int step = getenv("UCACHED_VALGRIND") ? 6 : 1;
    int at, len = 1;

    for (i = 0; i < 2; i++) {
        for (at = 0; at < len; at += at < TLS_RECORD_HEADER ? 1 : step) {
            end_open(&end, &config, versions[i], NULL);
            shake(&end, 65536);
            assert_int_equal(SSL_write(end.client.ssl, "secret", 6), 6);
            len = BIO_read(end.client.out, record, sizeof(record));
            record[at] ^= 0x10;
            end.got_len = 0;
            end.emitted_len = 0;
            give(&end, record, (uint32_t)len, 65536);
            assert_int_equal(end.got_len, 0);
            if (end.result == TLS_FAILED) {
                emitted = end.emitted_len;
                assert_true(emitted > 0);
                tls_session_shutdown(end.session); /* nothing follows the alert */
                assert_int_equal(end.emitted_len, emitted);
            } else {
                assert_true(at == 3 || at == 4); /* a longer record is not complete */
            }
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
    ssl_client_step(&end.client);
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
        (void)ssl_client_read(&end.client, text, sizeof(text));
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
    ssl_client_step(&end.client);
    exchange(&end, 65536);
    assert_int_equal(end.result, TLS_FAILED);
    end_close(&end);
}

/* Data behind a key update that cannot be answered is not delivered. OpenSSL answers it later. */
static void test_unanswered_key_update_ends_the_input(void **state)
{
    struct tls_server_config config = config_default();
    struct end end;

    if (!keys)
        return;
    end_open(&end, &config, TLS1_3_VERSION, NULL);
    shake(&end, 65536);
    end.refuses = true;
    assert_int_equal(SSL_key_update(end.client.ssl, SSL_KEY_UPDATE_REQUESTED), 1);
    assert_int_equal(SSL_write(end.client.ssl, "ping", 4), 4);
    exchange(&end, 65536);
    assert_int_equal(end.result, TLS_FAILED);
    assert_int_equal(end.got_len, 0);
    end_close(&end);
}

/* A client may ask for short records (RFC 6066, 4). */
static void test_short_records_on_demand(void **state)
{
    enum { BYTES = 4000, LIMIT = 512, PROTECTION_MAX = 100 };
    struct tls_server_config config = config_default();
    uint8_t data[BYTES] = {0};
    char got[BYTES];
    struct end end;
    uint32_t at, len;
    unsigned i;
    int n;

    for (i = 0; i < 2; i++) {
        end_open(&end, &config, versions[i], NULL);
        assert_int_equal(
            SSL_set_tlsext_max_fragment_length(end.client.ssl, TLSEXT_max_fragment_length_512), 1);
        shake(&end, 65536);
        assert_true(is_established(&end));
        assert_int_equal(tls_session_write(end.session, data, BYTES), 0);
        for (at = 0; at < end.emitted_len; at += 5 + len) {
            len = (uint32_t)end.emitted[at + 3] << 8 | end.emitted[at + 4];
            assert_in_range(len, 1, LIMIT + PROTECTION_MAX);
        }
        exchange(&end, 65536);
        for (at = 0; (n = ssl_client_read(&end.client, got, sizeof(got))) > 0; at += (uint32_t)n)
            continue;
        assert_int_equal(at, BYTES);
        end_close(&end);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_handshake_cut_at_every_byte),
        cmocka_unit_test(test_request_behind_the_handshake),
        cmocka_unit_test(test_garbage_instead_of_a_handshake),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_peer_certificates),
        cmocka_unit_test(test_large_values),
        cmocka_unit_test(test_changed_records_are_refused),
        cmocka_unit_test(test_key_update),
        cmocka_unit_test(test_renegotiation_is_refused),
        cmocka_unit_test(test_close_notify),
        cmocka_unit_test(test_peer_that_cannot_be_sent_to),
        cmocka_unit_test(test_unanswered_key_update_ends_the_input),
        cmocka_unit_test(test_short_records_on_demand),
    };

    return RIG_RUN(tests);
}
