/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One connection; see tls.h. OpenSSL makes the handshake. After it, record.h protects the records
 * if it can, and OpenSSL's part, which is large, is freed; otherwise OpenSSL keeps them.
 */
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "tls/context.h"
#include "tls/openssl.h"

struct tls_session {
    tls_emit *emit;
    void *emit_ctx;
    struct tls_key_cache *cache; /* null: OpenSSL keeps the records */
    union {
        struct tls_openssl *openssl; /* until the records are handed over */
        struct tls_records *records; /* from then on */
        const char *reason;          /* why they have failed */
    };
    bool seals; /* the records are handed over */
    bool established;
    bool resumed;
    bool failed;
};

/* ---- opening and closing ----------------------------------------------------------------- */

struct tls_session *tls_session_open(struct tls_context *context, struct tls_key_cache *cache,
                                     enum tls_peer_check check, tls_emit *emit, void *emit_ctx)
{
    struct tls_session *session = calloc(1, sizeof(*session));

    if (session)
        session->openssl = tls_openssl_open(context, check, emit, emit_ctx);
    if (!session || !session->openssl) {
        free(session);
        return NULL;
    }
    session->emit = emit;
    session->emit_ctx = emit_ctx;
    session->cache = cache;
    return session;
}

void tls_session_close(struct tls_session *session)
{
    if (!session->seals)
        tls_openssl_close(session->openssl);
    else if (!session->failed)
        tls_records_close(session->records, session->cache);
    free(session);
}

bool tls_session_is_established(const struct tls_session *session)
{
    return session->established;
}

bool tls_session_is_resumed(const struct tls_session *session)
{
    return session->resumed;
}

bool tls_session_seals(const struct tls_session *session)
{
    return session->seals;
}

const char *tls_session_error(const struct tls_session *session)
{
    return !session->seals ? session->openssl->reason : session->reason;
}

void tls_session_set_emit(struct tls_session *session, tls_emit *emit, void *emit_ctx)
{
    session->emit = emit;
    session->emit_ctx = emit_ctx;
    if (session->seals)
        return;
    session->openssl->emit = emit;
    session->openssl->emit_ctx = emit_ctx;
}

void tls_session_on_peer_names(struct tls_session *session, tls_name *take, void *ctx)
{
    U_ASSERT(!session->established);
    session->openssl->names = take;
    session->openssl->names_ctx = ctx;
}

/* ---- the handshake ----------------------------------------------------------------------- */

/* If there is no memory for it, OpenSSL keeps the records. */
static void hand_over(struct tls_session *session)
{
    const struct tls_record_secrets *secrets =
        session->cache ? tls_openssl_secrets(session->openssl) : NULL;
    struct tls_records *records = secrets ? tls_records_open(secrets) : NULL;

    if (!records)
        return;
    tls_openssl_close(session->openssl);
    session->records = records;
    session->seals = true;
}

enum tls_result tls_session_handshake(struct tls_session *session, const uint8_t *data,
                                      uint32_t len, uint32_t *used)
{
    enum tls_result result;

    U_ASSERT(!session->established && !session->failed);
    result = tls_openssl_handshake(session->openssl, data, len, used);
    if (result == TLS_MORE && SSL_is_init_finished(session->openssl->ssl)) {
        session->established = true;
        session->resumed = SSL_session_reused(session->openssl->ssl) == 1;
        tls_openssl_give_names(session->openssl);
        hand_over(session);
    }
    return result;
}

int tls_session_start(struct tls_session *session)
{
    uint32_t used;

    return tls_session_handshake(session, NULL, 0, &used) == TLS_MORE ? 0 : -1;
}

void tls_session_resume(struct tls_session *session, const struct tls_session *earlier)
{
    SSL_SESSION *resumable = !earlier->seals ? SSL_get1_session(earlier->openssl->ssl) : NULL;

    if (resumable && SSL_SESSION_is_resumable(resumable))
        (void)SSL_set_session(session->openssl->ssl, resumable);
    SSL_SESSION_free(resumable);
}

/* ---- records ----------------------------------------------------------------------------- */

/* Sends an alert, if the error has one, and gives the keys up. */
static void fail(struct tls_session *session, const struct tls_record_error *error)
{
    uint8_t record[TLS_MESSAGE_RECORD_MAX];
    uint32_t len = 0;

    if (error->alert >= 0)
        len = tls_records_alert(session->records, session->cache, error->alert, record);
    if (len > 0)
        (void)session->emit(session->emit_ctx, record, len);
    tls_records_close(session->records, session->cache);
    session->reason = error->reason;
    session->failed = true;
}

static const struct tls_record_error cannot_send = {-1, "the peer cannot be sent bytes"};
static const struct tls_record_error no_memory = {-1, "no memory"};

int tls_session_prepare(struct tls_session *session)
{
    uint8_t record[TLS_MESSAGE_RECORD_MAX];
    uint32_t len;

    U_ASSERT(session->seals && !session->failed);
    if (!tls_records_update_is_due(session->records))
        return 0;
    len = tls_records_update(session->records, session->cache, record);
    if (len > 0 && session->emit(session->emit_ctx, record, len))
        return 0;
    fail(session, len > 0 ? &cannot_send : &no_memory);
    return -1;
}

uint32_t tls_session_seal(struct tls_session *session, uint8_t *record, uint32_t len)
{
    uint32_t sealed;

    U_ASSERT(session->seals && !session->failed);
    sealed = tls_records_seal(session->records, session->cache, record, len);
    if (sealed == 0)
        fail(session, &no_memory);
    return sealed;
}

/* As one record. */
static int write_record(struct tls_session *session, const uint8_t *plain, uint32_t len)
{
    uint8_t record[TLS_RECORD_MAX + TLS_RECORD_OVERHEAD];
    uint32_t sealed;

    if (tls_session_prepare(session) < 0)
        return -1;
    memcpy(record + TLS_RECORD_HEADER, plain, len);
    sealed = tls_session_seal(session, record, len);
    if (sealed == 0)
        return -1;
    if (session->emit(session->emit_ctx, record, sealed))
        return 0;
    fail(session, &cannot_send);
    return -1;
}

int tls_session_write(struct tls_session *session, const uint8_t *plain, uint32_t len)
{
    U_ASSERT(!session->failed && len > 0 && len <= TLS_RECORD_MAX);
    if (session->seals)
        return write_record(session, plain, len);
    return tls_openssl_write(session->openssl, plain, len);
}

/* Records after the handshake. */
static enum tls_result read_records(struct tls_session *session, const uint8_t *data, uint32_t len,
                                    uint32_t *used, uint8_t plain[TLS_PLAIN_ROOM],
                                    uint32_t *plain_len)
{
    struct tls_record_error error;
    enum tls_result result;

    if (!session->seals)
        return tls_openssl_read(session->openssl, data, len, used, plain, plain_len);
    result = tls_records_read(session->records, session->cache, data, len, used, plain, plain_len,
                              &error);
    if (result == TLS_FAILED)
        fail(session, &error);
    else if (result != TLS_CLOSED && tls_session_prepare(session) < 0)
        result = TLS_FAILED;
    if (result == TLS_FAILED)
        *plain_len = 0;
    return result;
}

enum tls_result tls_session_read(struct tls_session *session, const uint8_t *data, uint32_t len,
                                 uint32_t *used, uint8_t plain[TLS_PLAIN_ROOM], uint32_t *plain_len)
{
    enum tls_result result = TLS_MORE;
    uint32_t at = 0;

    U_ASSERT(!session->failed);
    *used = 0;
    *plain_len = 0;
    if (!session->established)
        result = tls_session_handshake(session, data, len, &at);
    if (session->established && result == TLS_MORE && at < len)
        result = read_records(session, data + at, len - at, used, plain, plain_len);
    *used += at;
    return result;
}

uint32_t tls_session_open_one(struct tls_session *session, const uint8_t *data, uint32_t len,
                              uint8_t *plain)
{
    if (!session->seals || session->failed)
        return 0;
    return tls_records_open_one(session->records, session->cache, data, len, plain);
}

void tls_session_prefetch(const struct tls_session *session)
{
    if (session->seals && !session->failed)
        tls_records_prefetch(session->records, session->cache);
}

void tls_session_shutdown(struct tls_session *session)
{
    uint8_t record[TLS_MESSAGE_RECORD_MAX];
    uint32_t len;

    if (!session->seals) {
        tls_openssl_shutdown(session->openssl);
        return;
    }
    if (session->failed)
        return;
    len = tls_records_alert(session->records, session->cache, SSL_AD_CLOSE_NOTIFY, record);
    if (len > 0)
        (void)session->emit(session->emit_ctx, record, len);
}

/* ---- moving to another process ----------------------------------------------------------- */

bool tls_session_export(const struct tls_session *session, struct tls_session_state *state,
                        const uint8_t **input, uint32_t *input_len)
{
    return session->seals && !session->failed &&
           tls_records_export(session->records, state, input, input_len);
}

struct tls_session *tls_session_import(const struct tls_session_state *state,
                                       struct tls_key_cache *cache, tls_emit *emit, void *emit_ctx,
                                       const char **error)
{
    struct tls_session *session = calloc(1, sizeof(*session));

    *error = no_memory.reason;
    if (session)
        session->records = tls_records_import(state, error);
    if (!session || !session->records) {
        free(session);
        return NULL;
    }
    session->emit = emit;
    session->emit_ctx = emit_ctx;
    session->cache = cache;
    session->seals = true;
    session->established = true;
    return session;
}
