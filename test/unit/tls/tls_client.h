/* SPDX-License-Identifier: BSD-3-Clause */
/* For tests: certificates in files, and a TLS client in memory, by OpenSSL. */
#ifndef TLS_CLIENT_H
#define TLS_CLIENT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#define CERT_PATH_MAX 64

/* A key and a certificate, in memory and in files. */
struct cert {
    EVP_PKEY *key;
    X509 *x509;
    char cert_path[CERT_PATH_MAX];
    char key_path[CERT_PATH_MAX];
};

static inline FILE *cert_file(char path[CERT_PATH_MAX])
{
    int fd;

    snprintf(path, CERT_PATH_MAX, "/tmp/ucached-tls-XXXXXX");
    fd = mkstemp(path);
    return fd < 0 ? NULL : fdopen(fd, "w");
}

/*
 * Makes a certificate; `by` signs it, or if null it signs itself. A signed one has an alternative
 * name, too.
 */
static inline void cert_make(struct cert *cert, const char *name, const struct cert *by)
{
    X509_EXTENSION *more;
    X509_NAME *subject;
    char names[100];
    FILE *file;

    cert->key = EVP_EC_gen("P-256");
    cert->x509 = X509_new();
    assert_non_null(cert->key);
    assert_non_null(cert->x509);
    X509_set_version(cert->x509, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(cert->x509), by ? 2 : 1);
    X509_gmtime_adj(X509_getm_notBefore(cert->x509), -3600);
    X509_gmtime_adj(X509_getm_notAfter(cert->x509), 86400);
    X509_set_pubkey(cert->x509, cert->key);
    subject = X509_get_subject_name(cert->x509);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0);
    snprintf(names, sizeof(names), "DNS:%s.test", name);
    more = by ? X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, names)
              : X509V3_EXT_conf_nid(NULL, NULL, NID_basic_constraints, "critical,CA:TRUE");
    assert_int_equal(X509_add_ext(cert->x509, more, -1), 1); /* copies it */
    X509_EXTENSION_free(more);
    X509_set_issuer_name(cert->x509, by ? X509_get_subject_name(by->x509) : subject);
    assert_int_not_equal(X509_sign(cert->x509, by ? by->key : cert->key, EVP_sha256()), 0);
    file = cert_file(cert->cert_path);
    assert_non_null(file);
    assert_int_equal(PEM_write_X509(file, cert->x509), 1);
    fclose(file);
    file = cert_file(cert->key_path);
    assert_non_null(file);
    assert_int_equal(PEM_write_PrivateKey(file, cert->key, NULL, NULL, 0, NULL, NULL), 1);
    fclose(file);
}

static inline void cert_free(struct cert *cert)
{
    unlink(cert->cert_path);
    unlink(cert->key_path);
    EVP_PKEY_free(cert->key);
    X509_free(cert->x509);
}

/* A client: what it has to send is in `out`; it reads `in`. */
struct tls_client {
    SSL_CTX *ctx;
    SSL *ssl;
    BIO *in;
    BIO *out;
    bool failed;
};

static inline void ssl_client_open(struct tls_client *client, int version, const struct cert *cert,
                                   SSL_SESSION *session)
{
    client->ctx = SSL_CTX_new(TLS_client_method());
    assert_non_null(client->ctx);
    if (version != 0) {
        SSL_CTX_set_min_proto_version(client->ctx, version);
        SSL_CTX_set_max_proto_version(client->ctx, version);
    }
    if (cert) {
        SSL_CTX_use_certificate(client->ctx, cert->x509);
        SSL_CTX_use_PrivateKey(client->ctx, cert->key);
    }
    client->ssl = SSL_new(client->ctx);
    client->in = BIO_new(BIO_s_mem());
    client->out = BIO_new(BIO_s_mem());
    SSL_set_bio(client->ssl, client->in, client->out);
    SSL_set_connect_state(client->ssl);
    if (session)
        SSL_set_session(client->ssl, session);
    client->failed = false;
}

static inline void ssl_client_close(struct tls_client *client)
{
    SSL_free(client->ssl);
    SSL_CTX_free(client->ctx);
    ERR_clear_error();
}

/* Continues the handshake. */
static inline void ssl_client_step(struct tls_client *client)
{
    int rc = SSL_do_handshake(client->ssl);

    if (rc != 1 && SSL_get_error(client->ssl, rc) != SSL_ERROR_WANT_READ)
        client->failed = true;
    ERR_clear_error();
}

/* Reads plaintext; returns how much, 0 if there is none. */
static inline int ssl_client_read(struct tls_client *client, void *to, int room)
{
    int got = SSL_read(client->ssl, to, room);

    if (got <= 0 && SSL_get_error(client->ssl, got) != SSL_ERROR_WANT_READ)
        client->failed = true;
    ERR_clear_error();
    return got > 0 ? got : 0;
}

#endif
