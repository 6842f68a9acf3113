/* SPDX-License-Identifier: BSD-3-Clause */
/* Stub for builds without OpenSSL: no context can be opened. */
#include <stdio.h>

#include "base/base.h"
#include "tls/tls.h"

bool tls_is_built(void)
{
    return false;
}

struct tls_context *tls_server_open(const struct tls_server_config *config,
                                    char error[TLS_ERROR_MAX])
{
    snprintf(error, TLS_ERROR_MAX, "This server is not built with TLS support");
    return NULL;
}

struct tls_context *tls_client_open(const struct tls_client_config *config,
                                    char error[TLS_ERROR_MAX])
{
    snprintf(error, TLS_ERROR_MAX, "this build has no TLS (Meson option 'tls')");
    return NULL;
}

int tls_context_refresh(struct tls_context *server, char error[TLS_ERROR_MAX])
{
    U_ASSERT(!"a context");
    return -1;
}

bool tls_context_tick(struct tls_context *server, uint64_t now_us)
{
    return false;
}

void tls_context_close(struct tls_context *context)
{
}

struct tls_key_cache *tls_key_cache_open(void)
{
    return NULL;
}

void tls_key_cache_close(struct tls_key_cache *cache)
{
}

struct tls_session *tls_session_open(struct tls_context *context, struct tls_key_cache *cache,
                                     enum tls_peer_check check, tls_emit *emit, void *emit_ctx)
{
    return NULL;
}

void tls_session_close(struct tls_session *session)
{
}

int tls_session_start(struct tls_session *session)
{
    return -1;
}

void tls_session_resume(struct tls_session *session, const struct tls_session *earlier)
{
}

enum tls_result tls_session_read(struct tls_session *session, const uint8_t *data, uint32_t len,
                                 uint32_t *used, uint8_t plain[TLS_PLAIN_ROOM], uint32_t *plain_len)
{
    *used = len;
    *plain_len = 0;
    return TLS_FAILED;
}

int tls_session_write(struct tls_session *session, const uint8_t *plain, uint32_t len)
{
    return -1;
}

bool tls_session_seals(const struct tls_session *session)
{
    return false;
}

uint32_t tls_session_open_one(struct tls_session *session, const uint8_t *data, uint32_t len,
                              uint8_t *plain)
{
    return 0;
}

void tls_session_prefetch(const struct tls_session *session)
{
}

int tls_session_prepare(struct tls_session *session)
{
    return -1;
}

uint32_t tls_session_seal(struct tls_session *session, uint8_t *record, uint32_t len)
{
    return 0;
}

void tls_session_shutdown(struct tls_session *session)
{
}

enum tls_result tls_session_handshake(struct tls_session *session, const uint8_t *data,
                                      uint32_t len, uint32_t *used)
{
    *used = len;
    return TLS_FAILED;
}

void tls_session_set_emit(struct tls_session *session, tls_emit *emit, void *emit_ctx)
{
}

bool tls_session_is_established(const struct tls_session *session)
{
    return false;
}

bool tls_session_is_resumed(const struct tls_session *session)
{
    return false;
}

void tls_session_on_peer_names(struct tls_session *session, tls_name *take, void *ctx)
{
}

const char *tls_session_error(const struct tls_session *session)
{
    return "";
}

bool tls_session_export(const struct tls_session *session, struct tls_session_state *state,
                        const uint8_t **input, uint32_t *input_len)
{
    return false;
}

struct tls_session *tls_session_import(const struct tls_session_state *state,
                                       struct tls_key_cache *cache, tls_emit *emit, void *emit_ctx,
                                       const char **error)
{
    *error = "this build has no TLS (Meson option 'tls')";
    return NULL;
}
