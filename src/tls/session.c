/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One connection; see tls.h.
 *
 * OpenSSL reads and writes through a BIO whose source is the input of the current call and whose
 * sink is the session's emit function. Without read-ahead OpenSSL takes exactly the bytes of the
 * record that it works on, and keeps the beginning of an incomplete one itself, so nothing has to
 * be queued between two calls.
 */
#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "tls/context.h"

#define REASON_MAX 200

struct tls_session {
    SSL *ssl;
    tls_emit *emit;
    void *emit_ctx;
    const uint8_t *input; /* what the current call has not taken yet */
    uint32_t input_len;
    bool failed;
    char reason[REASON_MAX];
};

/* ---- memory in place of a socket --------------------------------------------------------- */

static int memory_read(BIO *bio, char *to, size_t size, size_t *got)
{
    struct tls_session *session = BIO_get_data(bio);

    BIO_clear_retry_flags(bio);
    if (session->input_len == 0) {
        BIO_set_retry_read(bio);
        return 0;
    }
    *got = size < session->input_len ? size : session->input_len;
    memcpy(to, session->input, *got);
    session->input += *got;
    session->input_len -= (uint32_t)*got;
    return 1;
}

static int memory_write(BIO *bio, const char *data, size_t size, size_t *written)
{
    struct tls_session *session = BIO_get_data(bio);

    BIO_clear_retry_flags(bio);
    if (!session->emit(session->emit_ctx, (const uint8_t *)data, (uint32_t)size))
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

static bool connect_memory(struct tls_session *session, const BIO_METHOD *method)
{
    BIO *bio = BIO_new(method);

    if (!bio)
        return false;
    BIO_set_data(bio, session);
    BIO_set_init(bio, 1);
    SSL_set_bio(session->ssl, bio, bio); /* which owns it now */
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

struct tls_session *tls_session_open(struct tls_context *context, enum tls_peer_check check,
                                     tls_emit *emit, void *emit_ctx)
{
    struct tls_session *session = calloc(1, sizeof(*session));

    if (!session)
        return NULL;
    session->emit = emit;
    session->emit_ctx = emit_ctx;
    session->ssl = ssl_new(context);
    if (!session->ssl || !connect_memory(session, context->memory) ||
        (!context->is_client && !set_check(session->ssl, check))) {
        ERR_clear_error();
        tls_session_close(session);
        return NULL;
    }
    if (context->is_client)
        SSL_set_connect_state(session->ssl);
    else
        SSL_set_accept_state(session->ssl);
    return session;
}

void tls_session_close(struct tls_session *session)
{
    /* A session may be resumed although close_notify was not sent (RFC 5246, 7.2.1). */
    if (session->ssl && !session->failed)
        SSL_set_shutdown(session->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    SSL_free(session->ssl);
    free(session);
}

/* ---- reading and writing ----------------------------------------------------------------- */

bool tls_session_is_established(const struct tls_session *session)
{
    return SSL_is_init_finished(session->ssl);
}

bool tls_session_is_resumed(const struct tls_session *session)
{
    return SSL_session_reused(session->ssl) == 1;
}

const char *tls_session_error(const struct tls_session *session)
{
    return session->reason;
}

/* The last error is the one of TLS; earlier ones are of the functions that it has called. */
static void error_take(struct tls_session *session)
{
    unsigned long code = ERR_peek_last_error();

    if (code != 0)
        ERR_error_string_n(code, session->reason, sizeof(session->reason));
    else
        snprintf(session->reason, sizeof(session->reason), "the peer cannot be sent bytes");
    ERR_clear_error();
}

static enum tls_result result_of(struct tls_session *session, int rc)
{
    switch (SSL_get_error(session->ssl, rc)) {
    case SSL_ERROR_WANT_READ:
        return TLS_MORE;
    case SSL_ERROR_ZERO_RETURN:
        return TLS_CLOSED;
    default:
        session->failed = true;
        error_take(session);
        return TLS_FAILED;
    }
}

enum tls_result tls_session_read(struct tls_session *session, const uint8_t *data, uint32_t len,
                                 uint32_t *used, uint8_t plain[TLS_RECORD_MAX], uint32_t *plain_len)
{
    enum tls_result result = TLS_DATA;
    size_t got = 0;
    int rc;

    U_ASSERT(!session->failed);
    ERR_clear_error();
    session->input = data;
    session->input_len = len;
    rc = SSL_read_ex(session->ssl, plain, TLS_RECORD_MAX, &got);
    if (rc != 1)
        result = result_of(session, rc);
    *used = len - session->input_len;
    *plain_len = (uint32_t)got;
    session->input_len = 0;
    return result;
}

int tls_session_start(struct tls_session *session)
{
    ERR_clear_error();
    return result_of(session, SSL_do_handshake(session->ssl)) == TLS_MORE ? 0 : -1;
}

void tls_session_resume(struct tls_session *session, const struct tls_session *earlier)
{
    SSL_SESSION *resumable = SSL_get1_session(earlier->ssl);

    if (resumable && SSL_SESSION_is_resumable(resumable))
        (void)SSL_set_session(session->ssl, resumable);
    SSL_SESSION_free(resumable);
}

int tls_session_write(struct tls_session *session, const uint8_t *plain, uint32_t len)
{
    size_t written;
    int rc;

    U_ASSERT(!session->failed && len > 0 && len <= TLS_RECORD_MAX);
    ERR_clear_error();
    rc = SSL_write_ex(session->ssl, plain, len, &written);
    if (rc == 1)
        return 0;
    (void)result_of(session, rc);
    session->failed = true;
    return -1;
}

void tls_session_shutdown(struct tls_session *session)
{
    if (session->failed || !SSL_is_init_finished(session->ssl))
        return;
    ERR_clear_error();
    (void)SSL_shutdown(session->ssl); /* 0: the peer has not sent its own */
    ERR_clear_error();
}
