/* SPDX-License-Identifier: BSD-3-Clause */
/* Certificates, keys and settings; see tls.h. */
#include "tls/context.h"

#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "tls/openssl.h"
#include "tls/tickets.h"
#include "tls/wipe.h"

/* In the order of preference: the first is the fastest, and its keys take the least memory. */
#define CIPHERS_1_3 "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"

/* Of a full handshake of TLS 1.3. Clients may use a ticket many times, so one is enough. */
#define TICKETS 1

/* Sessions that are kept with config.session_cache; the oldest is given up. */
#define CACHED_SESSIONS_MAX 20480

static const int versions[] = {
    [TLS_VERSION_1_0] = TLS1_VERSION,
    [TLS_VERSION_1_1] = TLS1_1_VERSION,
    [TLS_VERSION_1_2] = TLS1_2_VERSION,
    [TLS_VERSION_1_3] = TLS1_3_VERSION,
};

static const int verify_modes[TLS_VERIFY_MODES] = {
    [TLS_VERIFY_NONE] = SSL_VERIFY_NONE,
    [TLS_VERIFY_REQUEST] = SSL_VERIFY_PEER,
    [TLS_VERIFY_REQUIRE] = SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
    [TLS_VERIFY_ONCE] = SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT | SSL_VERIFY_CLIENT_ONCE,
};

/* Copies OpenSSL's oldest error, or `otherwise` if there is none, and empties its queue. */
static void error_take(char *text, size_t size, const char *otherwise)
{
    unsigned long code = ERR_get_error();

    if (code != 0)
        ERR_error_string_n(code, text, size);
    else
        snprintf(text, size, "%s", otherwise);
    ERR_clear_error();
}

/* Writes "what: file : reason", as memcached does. Returns -1. */
static int fail(char error[TLS_ERROR_MAX], const char *what, const char *file)
{
    char reason[256];

    error_take(reason, sizeof(reason), "no reason known");
    snprintf(error, TLS_ERROR_MAX, "%s: %.400s%s%s", what, file ? file : "", file ? " : " : "",
             reason);
    return -1;
}

/* ---- reading the files ------------------------------------------------------------------- */

/* Without this OpenSSL would ask the terminal for the passphrase of a key. */
static int no_passphrase(char *text, int size, int writing, void *ctx)
{
    return -1;
}

/* key null: in chain_cert. */
static int load_certificate(SSL_CTX *ctx, const char *chain_cert, const char *key,
                            enum tls_key_format format, char error[TLS_ERROR_MAX])
{
    int type = format == TLS_KEY_DER ? SSL_FILETYPE_ASN1 : SSL_FILETYPE_PEM;

    if (!key)
        key = chain_cert;
    if (SSL_CTX_use_certificate_chain_file(ctx, chain_cert) != 1)
        return fail(error, "Error loading the certificate chain", chain_cert);
    if (SSL_CTX_use_PrivateKey_file(ctx, key, type) != 1)
        return fail(error, "Error loading the key", key);
    if (SSL_CTX_check_private_key(ctx) != 1)
        return fail(error, "Error validating the certificate", NULL);
    return 0;
}

/* Certificates of peers have to be signed by one in the file; null: no file. */
static int load_authorities(SSL_CTX *ctx, const char *file, char error[TLS_ERROR_MAX])
{
    if (file && SSL_CTX_load_verify_locations(ctx, file, NULL) != 1)
        return fail(error, "Error loading the CA certificate", file);
    return 0;
}

/*
 * The certificates that go with ours in each full handshake: those of its file, or if it is alone
 * there, what the authorities have for it. Kept here, or OpenSSL would search them each time. An
 * incomplete chain is no error: peers may know the remainder.
 */
static int keep_chain(SSL_CTX *ctx, const char *chain_cert, char error[TLS_ERROR_MAX])
{
    STACK_OF(X509) *chain = NULL;

    if (SSL_CTX_get0_chain_certs(ctx, &chain) == 1 && sk_X509_num(chain) > 0)
        return 0;
    if (SSL_CTX_build_cert_chain(ctx, SSL_BUILD_CHAIN_FLAG_IGNORE_ERROR |
                                          SSL_BUILD_CHAIN_FLAG_CLEAR_ERROR) == 0)
        return fail(error, "Error building the certificate chain", chain_cert);
    return 0;
}

/* Clients are shown the names of the authorities that may have signed their certificates. */
static int show_authorities(SSL_CTX *ctx, const char *file, char error[TLS_ERROR_MAX])
{
    STACK_OF(X509_NAME) * names;

    if (!file)
        return 0;
    names = SSL_load_client_CA_file(file);
    if (!names)
        return fail(error, "Error loading the CA certificate", file);
    SSL_CTX_set_client_CA_list(ctx, names); /* which owns them now */
    return 0;
}

/* ---- settings ---------------------------------------------------------------------------- */

static int apply_settings(SSL_CTX *ctx, const struct tls_server_config *config,
                          char error[TLS_ERROR_MAX])
{
    /* A client that prefers ChaCha20 has no instructions for AES. */
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                 SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
    if (SSL_CTX_set_ciphersuites(ctx, CIPHERS_1_3) != 1)
        return fail(error, "Error setting the ciphers of TLS 1.3", NULL);
    SSL_CTX_set_verify(ctx, verify_modes[config->verify], NULL);
    if (SSL_CTX_set_min_proto_version(ctx, versions[config->min_version]) != 1)
        return fail(error, "Error setting the minimum version", NULL);
    if (config->ciphers && SSL_CTX_set_cipher_list(ctx, config->ciphers) != 1)
        return fail(error, "Error setting the provided cipher(s)", config->ciphers);
    if (SSL_CTX_set_num_tickets(ctx, TICKETS) != 1 || !tls_tickets_begin(ctx))
        return fail(error, "Error making keys of tickets", NULL);
    if (!config->session_cache) {
        SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
        return 0;
    }
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_SERVER);
    SSL_CTX_sess_set_cache_size(ctx, CACHED_SESSIONS_MAX);
    return 0;
}

static SSL_CTX *ctx_new(const SSL_METHOD *method, char error[TLS_ERROR_MAX])
{
    SSL_CTX *ctx;

    ERR_clear_error();
    ctx = SSL_CTX_new(method);
    if (!ctx) {
        fail(error, "OpenSSL", NULL);
        return NULL;
    }
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_default_passwd_cb(ctx, no_passphrase);
    tls_openssl_prepare(ctx);
    return ctx;
}

/* Returns null with a message. */
static SSL_CTX *make_server(const struct tls_server_config *config, char error[TLS_ERROR_MAX])
{
    SSL_CTX *ctx = ctx_new(TLS_server_method(), error);

    if (!ctx)
        return NULL;
    if (apply_settings(ctx, config, error) == 0 &&
        load_certificate(ctx, config->chain_cert, config->key, config->key_format, error) == 0 &&
        load_authorities(ctx, config->ca_cert, error) == 0 &&
        keep_chain(ctx, config->chain_cert, error) == 0 &&
        show_authorities(ctx, config->ca_cert, error) == 0)
        return ctx;
    SSL_CTX_free(ctx);
    return NULL;
}

static SSL_CTX *make_client(const struct tls_client_config *config, char error[TLS_ERROR_MAX])
{
    SSL_CTX *ctx = ctx_new(TLS_client_method(), error);

    if (!ctx)
        return NULL;
    SSL_CTX_set_verify(ctx, config->ca_cert ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, NULL);
    if (load_authorities(ctx, config->ca_cert, error) == 0 &&
        (!config->chain_cert ||
         (load_certificate(ctx, config->chain_cert, config->key, TLS_KEY_PEM, error) == 0 &&
          keep_chain(ctx, config->chain_cert, error) == 0)))
        return ctx;
    SSL_CTX_free(ctx);
    return NULL;
}

/* ---- contexts ---------------------------------------------------------------------------- */

bool tls_is_built(void)
{
    return true;
}

/* Without OpenSSL's part. Returns null with a message. */
static struct tls_context *context_new(char error[TLS_ERROR_MAX])
{
    struct tls_context *context = calloc(1, sizeof(*context));

    tls_wipe_begin();
    if (!context || pthread_mutex_init(&context->lock, NULL) != 0) {
        free(context);
        snprintf(error, TLS_ERROR_MAX, "no memory");
        return NULL;
    }
    context->memory = tls_memory_method();
    if (context->memory)
        return context;
    fail(error, "OpenSSL", NULL);
    tls_context_close(context);
    return NULL;
}

/* The context, or null if its OpenSSL's part could not be made. */
static struct tls_context *context_if_made(struct tls_context *context)
{
    if (context->ctx)
        return context;
    tls_context_close(context);
    return NULL;
}

struct tls_context *tls_server_open(const struct tls_server_config *config,
                                    char error[TLS_ERROR_MAX])
{
    struct tls_context *context;

    if (!config->chain_cert) {
        snprintf(error, TLS_ERROR_MAX, "TLS needs a certificate: -o ssl_chain_cert=FILE");
        return NULL;
    }
    context = context_new(error);
    if (!context)
        return NULL;
    context->config = *config;
    context->ctx = make_server(config, error);
    return context_if_made(context);
}

struct tls_context *tls_client_open(const struct tls_client_config *config,
                                    char error[TLS_ERROR_MAX])
{
    struct tls_context *context = context_new(error);

    if (!context)
        return NULL;
    context->is_client = true;
    context->ctx = make_client(config, error);
    return context_if_made(context);
}

int tls_context_refresh(struct tls_context *server, char error[TLS_ERROR_MAX])
{
    SSL_CTX *ctx, *before;

    U_ASSERT(!server->is_client);
    ctx = make_server(&server->config, error);
    if (!ctx)
        return -1;
    pthread_mutex_lock(&server->lock);
    before = server->ctx;
    server->ctx = ctx;
    pthread_mutex_unlock(&server->lock);
    SSL_CTX_free(before); /* sessions that use it have references */
    return 0;
}

/* Of many threads that see the hour has passed one makes the key. */
bool tls_context_tick(struct tls_context *server, uint64_t now_us)
{
    uint64_t due_us = atomic_load_explicit(&server->rotate_us, memory_order_relaxed);
    bool done;

    if (now_us < due_us ||
        !atomic_compare_exchange_strong(&server->rotate_us, &due_us, now_us + TLS_TICKET_KEY_US) ||
        due_us == 0)
        return false;
    pthread_mutex_lock(&server->lock);
    done = tls_tickets_rotate(server->ctx);
    pthread_mutex_unlock(&server->lock);
    return done;
}

void tls_context_close(struct tls_context *context)
{
    SSL_CTX_free(context->ctx);
    BIO_meth_free(context->memory);
    pthread_mutex_destroy(&context->lock);
    free(context);
}
