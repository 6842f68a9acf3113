/* SPDX-License-Identifier: BSD-3-Clause */
/* TLS of a server on a link in memory; see path_tls.h. */
#include "path_tls.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "net/tls_conn.h"
#include "tls/key_cache.h"

/* Writes a key and a certificate that it signs itself. */
static void write_certificate(FILE *file)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = X509_new();

    if (!file || !key || !cert)
        path_die("no certificate can be made");
    X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
    X509_gmtime_adj(X509_getm_notAfter(cert), 86400);
    if (X509_set_pubkey(cert, key) != 1 || X509_sign(cert, key, EVP_sha256()) <= 0 ||
        PEM_write_X509(file, cert) != 1 ||
        PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL) != 1 || fclose(file) != 0)
        path_die("the certificate cannot be written");
    X509_free(cert);
    EVP_PKEY_free(key);
}

/* The certificate is in a file that is removed when it has been read. */
struct tls_context *path_tls_server(void)
{
    struct tls_server_config config = {.key_format = TLS_KEY_PEM, .min_version = TLS_VERSION_1_3};
    char path[] = "/tmp/ucached-bench-XXXXXX";
    char error[TLS_ERROR_MAX];
    struct tls_context *server;
    int fd = mkstemp(path);

    write_certificate(fd < 0 ? NULL : fdopen(fd, "w"));
    config.chain_cert = path;
    server = tls_server_open(&config, error);
    unlink(path);
    if (!server)
        path_die(error);
    return server;
}

struct tls_context *path_tls_client(void)
{
    const struct tls_client_config config = {0};
    char error[TLS_ERROR_MAX];
    struct tls_context *client = tls_client_open(&config, error);

    if (!client)
        path_die(error);
    return client;
}

void path_tls_begin(struct net_stack_worker *server)
{
    struct net_tls *tls = server->conns.tls;

    tls_key_cache_close(tls->keys);
    tls->keys = tls_key_cache_new(&tls_aead_evp);
    if (!tls->keys)
        path_die("no memory for keys");
}

unsigned path_tls_handshakes(const struct net_stack_worker *server)
{
    return (unsigned)net_counter_read(&server->conns.tls->counters[NET_TLS_OWN_RECORDS]);
}
