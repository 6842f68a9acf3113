/* SPDX-License-Identifier: BSD-3-Clause */
/* Certificates and keys of a TLS server: read at the start, and again while it runs. */
#include "session_rig.h"

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

/* Clients choose a certificate by the names of the authorities; without ca_cert there are none. */
static void test_authorities_are_shown(void **state)
{
    struct tls_server_config config = config_default();
    const STACK_OF(X509_NAME) * names;
    struct end end;

    config.ca_cert = authority.cert_path;
    config.verify = TLS_VERIFY_REQUEST;
    end_open(&end, &config, 0, NULL);
    shake(&end, 65536);
    assert_true(is_established(&end));
    names = SSL_get0_peer_CA_list(end.client.ssl);
    assert_int_equal(sk_X509_NAME_num(names), 1);
    assert_int_equal(
        X509_NAME_cmp(sk_X509_NAME_value(names, 0), X509_get_subject_name(authority.x509)), 0);
    end_close(&end);
}

/* Sessions are kept in memory if the configuration says so; tickets need none. */
static void test_sessions_are_kept_on_demand(void **state)
{
    struct tls_server_config config = config_default();
    struct tls_context *server;
    unsigned i;

    for (i = 0; i < 2; i++) {
        config.session_cache = i == 1;
        server = server_open(&config);
        assert_int_equal(SSL_CTX_get_session_cache_mode(server->ctx),
                         i == 1 ? SSL_SESS_CACHE_SERVER : SSL_SESS_CACHE_OFF);
        tls_context_close(server);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refresh),
        cmocka_unit_test(test_errors_at_the_start),
        cmocka_unit_test(test_key_in_the_chain),
        cmocka_unit_test(test_chain_is_built_once),
        cmocka_unit_test(test_authorities_are_shown),
        cmocka_unit_test(test_sessions_are_kept_on_demand),
    };

    return RIG_RUN(tests);
}
