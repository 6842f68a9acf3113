/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connection in OpenSSL's hands: its handshake, and its records unless they are handed over to
 * record.h. OpenSSL reads and writes through a BIO whose source is the input of the current call
 * and whose sink is the session's emit function. Without read-ahead OpenSSL takes exactly the bytes
 * of the record that it works on, and keeps the beginning of an incomplete one itself, so nothing
 * has to be queued between two calls.
 */
#ifndef TLS_OPENSSL_H
#define TLS_OPENSSL_H

#include <openssl/ssl.h>

#include "tls/record.h"

#define TLS_REASON_MAX 200

struct tls_openssl {
    SSL *ssl;
    tls_emit *emit;
    void *emit_ctx;
    tls_name *names; /* or null */
    void *names_ctx;
    const uint8_t *input; /* what the current call has not taken yet */
    uint32_t input_len;
    bool failed;
    bool has_read, has_write; /* of the secrets */
    struct tls_record_secrets secrets;
    char reason[TLS_REASON_MAX];
};

/* Makes the BIO that connects OpenSSL to memory; null: no memory. */
BIO_METHOD *tls_memory_method(void);

/* Lets sessions of ctx take part in tls_openssl_secrets(). */
void tls_openssl_prepare(SSL_CTX *ctx);

/* Null: no memory. */
struct tls_openssl *tls_openssl_open(struct tls_context *context, enum tls_peer_check check,
                                     tls_emit *emit, void *emit_ctx);
void tls_openssl_close(struct tls_openssl *openssl);

/* Continues the handshake with `data`, none of which it takes beyond the end of the handshake. */
enum tls_result tls_openssl_handshake(struct tls_openssl *openssl, const uint8_t *data,
                                      uint32_t len, uint32_t *used);

/* tls_session_read(), after the handshake. */
enum tls_result tls_openssl_read(struct tls_openssl *openssl, const uint8_t *data, uint32_t len,
                                 uint32_t *used, uint8_t plain[TLS_PLAIN_ROOM],
                                 uint32_t *plain_len);

/* tls_session_write() and tls_session_shutdown(). */
int tls_openssl_write(struct tls_openssl *openssl, const uint8_t *plain, uint32_t len);
void tls_openssl_shutdown(struct tls_openssl *openssl);

/*
 * With what record.h protects the records from now on, if it can: TLS 1.3 with AES-GCM, the
 * handshake is complete and no record has been read. Null: they stay with OpenSSL.
 */
const struct tls_record_secrets *tls_openssl_secrets(struct tls_openssl *openssl);

/* The handshake is done: gives the names in the peer's certificate to `names`, if that is set. */
void tls_openssl_give_names(const struct tls_openssl *openssl);

#endif
