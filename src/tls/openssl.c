/* SPDX-License-Identifier: BSD-3-Clause */
/* Handshakes, and records that stay with OpenSSL; see openssl.h. */
#include "tls/openssl.h"

#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "tls/context.h"

/* ---- memory in place of a socket --------------------------------------------------------- */

static int memory_read(BIO *bio, char *to, size_t size, size_t *got)
{
    struct tls_openssl *openssl = BIO_get_data(bio);

    BIO_clear_retry_flags(bio);
    if (openssl->input_len == 0) {
        BIO_set_retry_read(bio);
        return 0;
    }
    *got = size < openssl->input_len ? size : openssl->input_len;
    memcpy(to, openssl->input, *got);
    openssl->input += *got;
    openssl->input_len -= (uint32_t)*got;
    return 1;
}

static int memory_write(BIO *bio, const char *data, size_t size, size_t *written)
{
    struct tls_openssl *openssl = BIO_get_data(bio);

    BIO_clear_retry_flags(bio);
    if (!openssl->emit(openssl->emit_ctx, (const uint8_t *)data, (uint32_t)size))
        return 0;
    *written = size;
    return 1;
}

static long memory_control(BIO *bio, int command, long number, void *arg)
{
    return command == BIO_CTRL_FLUSH; /* nothing is buffered here */
}

BIO_METHOD *tls_memory_method(void)
{
    BIO_METHOD *method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "memory of ours");

    if (method && BIO_meth_set_read_ex(method, memory_read) == 1 &&
        BIO_meth_set_write_ex(method, memory_write) == 1 &&
        BIO_meth_set_ctrl(method, memory_control) == 1)
        return method;
    BIO_meth_free(method);
    return NULL;
}

/* ---- secrets ----------------------------------------------------------------------------- */

static const char client_label[] = "CLIENT_TRAFFIC_SECRET_0 ";
static const char server_label[] = "SERVER_TRAFFIC_SECRET_0 ";

/* The last word of a line, in hexadecimal. Returns whether it is a secret of ours. */
static bool parse_secret(const char *line, uint8_t secret[TLS_SECRET_MAX])
{
    const char *hex = strrchr(line, ' ');
    size_t len = hex ? strlen(++hex) : 0, i;

    if (len != 64 && len != 96)
        return false;
    for (i = 0; i < len / 2; i++)
        secret[i] = (uint8_t)(OPENSSL_hexchar2int((unsigned char)hex[2 * i]) << 4 |
                              OPENSSL_hexchar2int((unsigned char)hex[2 * i + 1]));
    return true;
}

/*
 * OpenSSL reports the traffic secrets as soon as it uses them (SSLKEYLOGFILE's format). A server
 * uses the client's from the client's last message on: what it writes then are tickets, the first
 * records under the server's secret.
 */
static void take_secret(const SSL *ssl, const char *line)
{
    struct tls_openssl *openssl = SSL_get_app_data(ssl);
    bool of_client = strncmp(line, client_label, sizeof(client_label) - 1) == 0;

    if (!openssl || (!of_client && strncmp(line, server_label, sizeof(server_label) - 1) != 0))
        return;
    if (of_client == openssl->secrets.is_client) {
        openssl->has_write = parse_secret(line, openssl->secrets.write);
    } else {
        openssl->has_read = parse_secret(line, openssl->secrets.read);
    }
    openssl->secrets.written = 0;
}

/* Counts the headers of written records. */
static void count_record(int is_write, int version, int type, const void *data, size_t len,
                         SSL *ssl, void *ctx)
{
    struct tls_openssl *openssl = ctx;

    if (is_write && type == SSL3_RT_HEADER)
        openssl->secrets.written++;
}

void tls_openssl_prepare(SSL_CTX *ctx)
{
    SSL_CTX_set_keylog_callback(ctx, take_secret);
}

/* The length of a key if record.h knows the cipher, or 0. */
static uint32_t key_len_of(const SSL *ssl)
{
    switch (SSL_CIPHER_get_id(SSL_get_current_cipher(ssl))) {
    case TLS1_3_CK_AES_128_GCM_SHA256:
        return 16;
    case TLS1_3_CK_AES_256_GCM_SHA384:
        return 32;
    default:
        return 0;
    }
}

const struct tls_record_secrets *tls_openssl_secrets(struct tls_openssl *openssl)
{
    const SSL *ssl = openssl->ssl;

    if (!openssl->has_read || !openssl->has_write || SSL_version(ssl) != TLS1_3_VERSION ||
        SSL_SESSION_get_max_fragment_length(SSL_get_session(ssl)) != 0)
        return NULL;
    openssl->secrets.key_len = key_len_of(ssl);
    return openssl->secrets.key_len > 0 ? &openssl->secrets : NULL;
}

/* ---- opening and closing ----------------------------------------------------------------- */

/*
 * Sessions are resumed only on connections with the same check: otherwise a client without a
 * certificate could bring a ticket from a connection that asks for none.
 */
static bool set_check(SSL *ssl, enum tls_peer_check check)
{
    const unsigned char context[2] = {'u', (unsigned char)('0' + check)};

    if (check == TLS_PEER_NONE)
        SSL_set_verify(ssl, SSL_VERIFY_NONE, NULL);
    else if (check == TLS_PEER_REQUIRED)
        SSL_set_verify(ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    return SSL_set_session_id_context(ssl, context, sizeof(context)) == 1;
}

static bool connect_memory(struct tls_openssl *openssl, const BIO_METHOD *method)
{
    BIO *bio = BIO_new(method);

    if (!bio)
        return false;
    BIO_set_data(bio, openssl);
    BIO_set_init(bio, 1);
    SSL_set_bio(openssl->ssl, bio, bio); /* which owns it now */
    return true;
}

/* The context may be renewed at this moment. */
static SSL *ssl_new(struct tls_context *context)
{
    SSL *ssl;

    pthread_mutex_lock(&context->lock);
    ssl = SSL_new(context->ctx);
    pthread_mutex_unlock(&context->lock);
    return ssl;
}

struct tls_openssl *tls_openssl_open(struct tls_context *context, enum tls_peer_check check,
                                     tls_emit *emit, void *emit_ctx)
{
    struct tls_openssl *openssl = calloc(1, sizeof(*openssl));

    if (!openssl)
        return NULL;
    openssl->emit = emit;
    openssl->emit_ctx = emit_ctx;
    openssl->secrets.is_client = context->is_client;
    openssl->ssl = ssl_new(context);
    if (!openssl->ssl || !connect_memory(openssl, context->memory) ||
        SSL_set_app_data(openssl->ssl, openssl) != 1 ||
        (!context->is_client && !set_check(openssl->ssl, check))) {
        ERR_clear_error();
        tls_openssl_close(openssl);
        return NULL;
    }
    SSL_set_msg_callback(openssl->ssl, count_record);
    SSL_set_msg_callback_arg(openssl->ssl, openssl);
    if (context->is_client)
        SSL_set_connect_state(openssl->ssl);
    else
        SSL_set_accept_state(openssl->ssl);
    return openssl;
}

void tls_openssl_close(struct tls_openssl *openssl)
{
    /* A session may be resumed although close_notify was not sent (RFC 5246, 7.2.1). */
    if (openssl->ssl && !openssl->failed)
        SSL_set_shutdown(openssl->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    SSL_free(openssl->ssl);
    OPENSSL_cleanse(openssl, sizeof(*openssl));
    free(openssl);
}

/* ---- handshakes, reading and writing ----------------------------------------------------- */

/* The last error is the one of TLS; earlier ones are of the functions that it has called. */
static void error_take(struct tls_openssl *openssl)
{
    unsigned long code = ERR_peek_last_error();

    if (code != 0)
        ERR_error_string_n(code, openssl->reason, sizeof(openssl->reason));
    else
        snprintf(openssl->reason, sizeof(openssl->reason), "the peer cannot be sent bytes");
    ERR_clear_error();
}

static enum tls_result result_of(struct tls_openssl *openssl, int rc)
{
    switch (SSL_get_error(openssl->ssl, rc)) {
    case SSL_ERROR_NONE:
    case SSL_ERROR_WANT_READ:
        return TLS_MORE;
    case SSL_ERROR_ZERO_RETURN:
        return TLS_CLOSED;
    default:
        openssl->failed = true;
        error_take(openssl);
        return TLS_FAILED;
    }
}

enum tls_result tls_openssl_handshake(struct tls_openssl *openssl, const uint8_t *data,
                                      uint32_t len, uint32_t *used)
{
    enum tls_result result;

    U_ASSERT(!openssl->failed);
    ERR_clear_error();
    openssl->input = data;
    openssl->input_len = len;
    result = result_of(openssl, SSL_do_handshake(openssl->ssl));
    *used = len - openssl->input_len;
    openssl->input_len = 0;
    return result;
}

enum tls_result tls_openssl_read(struct tls_openssl *openssl, const uint8_t *data, uint32_t len,
                                 uint32_t *used, uint8_t plain[TLS_PLAIN_ROOM], uint32_t *plain_len)
{
    enum tls_result result = TLS_DATA;
    size_t got = 0;
    int rc;

    U_ASSERT(!openssl->failed);
    ERR_clear_error();
    openssl->input = data;
    openssl->input_len = len;
    rc = SSL_read_ex(openssl->ssl, plain, TLS_RECORD_MAX, &got);
    if (rc != 1)
        result = result_of(openssl, rc);
    *used = len - openssl->input_len;
    *plain_len = (uint32_t)got;
    openssl->input_len = 0;
    return result;
}

int tls_openssl_write(struct tls_openssl *openssl, const uint8_t *plain, uint32_t len)
{
    size_t written;
    int rc;

    ERR_clear_error();
    rc = SSL_write_ex(openssl->ssl, plain, len, &written);
    if (rc == 1)
        return 0;
    (void)result_of(openssl, rc);
    openssl->failed = true;
    return -1;
}

void tls_openssl_shutdown(struct tls_openssl *openssl)
{
    if (openssl->failed || !SSL_is_init_finished(openssl->ssl))
        return;
    ERR_clear_error();
    (void)SSL_shutdown(openssl->ssl); /* 0: the peer has not sent its own */
    ERR_clear_error();
}
