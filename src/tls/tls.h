/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TLS without I/O: ciphertext in, plaintext out, and back. OpenSSL makes the handshakes, in memory
 * of the caller: it reaches neither socket nor clock. Records of TLS 1.3 with AES-GCM are ours
 * (record.h), all others are OpenSSL's.
 *
 *   tls_context     certificates, key and settings of a server or a client. Shared by all threads;
 *                   can be renewed while sessions use it.
 *   tls_key_cache   expanded keys of the connections of a thread.
 *   tls_session     one connection. Belongs to one thread at a time.
 *
 * Without OpenSSL (Meson option 'tls') no context can be opened: a message says so.
 */
#ifndef TLS_TLS_H
#define TLS_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TLS_ERROR_MAX 768

/* The most plaintext of one record (RFC 8446, 5.1). */
#define TLS_RECORD_MAX 16384

/* Room for the plaintext of one record, and its type. */
#define TLS_PLAIN_ROOM (TLS_RECORD_MAX + 1)

/* In front of a record's plaintext, and what a record adds to it altogether. */
#define TLS_RECORD_HEADER 5
#define TLS_RECORD_OVERHEAD 22

/* What memcached's ssl_verify_mode takes. */
enum tls_verify {
    TLS_VERIFY_NONE = 0,
    TLS_VERIFY_REQUEST, /* a certificate that the client shows has to be valid */
    TLS_VERIFY_REQUIRE, /* the client has to show one */
    TLS_VERIFY_ONCE,    /* the same; there is no renegotiation in which it could be asked again */
    TLS_VERIFY_MODES
};

/* What memcached's ssl_min_version takes. */
enum tls_version { TLS_VERSION_1_0 = 0, TLS_VERSION_1_1, TLS_VERSION_1_2, TLS_VERSION_1_3 };

/* What memcached's ssl_keyformat takes. */
enum tls_key_format { TLS_KEY_PEM = 1, TLS_KEY_DER = 2 };

/* Strings outlive the context. */
struct tls_server_config {
    const char *chain_cert; /* file: the certificate, then those that signed it */
    const char *key;        /* file of the private key; null: in chain_cert */
    enum tls_key_format key_format;
    const char *ca_cert; /* file: who signs certificates of clients; null: none */
    const char *ciphers; /* OpenSSL's list for TLS 1.2 and older; null: its default */
    enum tls_verify verify;
    enum tls_version min_version;
    bool session_cache; /* keep sessions, so that clients without tickets resume them too */
};

/* Files of a client; strings outlive the context. */
struct tls_client_config {
    const char *ca_cert;    /* who signs certificates of servers; null: none is checked */
    const char *chain_cert; /* the client's certificate; null: none */
    const char *key;        /* its private key, PEM; null: in chain_cert */
};

struct tls_context;
struct tls_key_cache;
struct tls_records;
struct tls_session;

/* Whether this build has TLS. */
bool tls_is_built(void);

/*
 * Reads the files and makes a server. Returns null with a message: the file and OpenSSL's reason.
 * A key with a passphrase is refused.
 */
struct tls_context *tls_server_open(const struct tls_server_config *config,
                                    char error[TLS_ERROR_MAX]);

/* The same for a client. Names in the certificate of a server are not checked. */
struct tls_context *tls_client_open(const struct tls_client_config *config,
                                    char error[TLS_ERROR_MAX]);

/*
 * Reads the files again: sessions that are opened from now on have the new certificate. Returns 0,
 * or -1 with a message, and then nothing has changed. Any thread may call it.
 */
int tls_context_refresh(struct tls_context *server, char error[TLS_ERROR_MAX]);

/*
 * To be called about every second, by any thread: makes a new key of tickets every hour. Tickets
 * under the key before it are taken for another hour, and those of before a refresh never. Returns
 * whether it has made one.
 */
#define TLS_TICKET_KEY_US ((uint64_t)3600 * 1000 * 1000)
bool tls_context_tick(struct tls_context *server, uint64_t now_us);

/* Frees the context; all its sessions have been closed. */
void tls_context_close(struct tls_context *context);

/* Of a thread. Null: no memory. All sessions that use it are closed before it is. */
struct tls_key_cache *tls_key_cache_open(void);
void tls_key_cache_close(struct tls_key_cache *cache);

/* Whether a connection has to show a certificate. */
enum tls_peer_check {
    TLS_PEER_AS_CONFIGURED = 0, /* config.verify */
    TLS_PEER_NONE,
    TLS_PEER_REQUIRED
};

/* Takes bytes that the peer is to be sent. Returns false if it cannot: the session then fails. */
typedef bool tls_emit(void *ctx, const uint8_t *data, uint32_t len);

/*
 * The session of a new connection, which waits for a handshake; tls_session_start() begins that of
 * a client, for which check has no meaning. A session that was resumed has passed the same check.
 * cache: of the thread that reads and writes; null: OpenSSL keeps the records of all versions.
 * Returns null if there is no memory.
 */
struct tls_session *tls_session_open(struct tls_context *context, struct tls_key_cache *cache,
                                     enum tls_peer_check check, tls_emit *emit, void *emit_ctx);
void tls_session_close(struct tls_session *session);

/* Emits the first message of a client. Returns 0, or -1 if emit has failed. */
int tls_session_start(struct tls_session *session);

enum tls_result {
    TLS_MORE = 0, /* all input was taken and there is no plaintext */
    TLS_DATA,     /* plaintext of one record */
    TLS_CLOSED,   /* the peer has ended its stream (close_notify); further input is ignored */
    TLS_FAILED    /* an alert was emitted; the session is of no more use */
};

/*
 * Takes ciphertext up to the end of the first record with plaintext, which it writes to `plain`.
 * Sets *used to the bytes taken and *plain_len. Makes the handshake and answers its messages.
 */
enum tls_result tls_session_read(struct tls_session *session, const uint8_t *data, uint32_t len,
                                 uint32_t *used, uint8_t plain[TLS_PLAIN_ROOM],
                                 uint32_t *plain_len);

/* Emits plaintext (1..TLS_RECORD_MAX bytes) as one record. The handshake is done. 0 or -1. */
int tls_session_write(struct tls_session *session, const uint8_t *plain, uint32_t len);

/* Whether the records are ours: the functions of the next block may then be called. */
bool tls_session_seals(const struct tls_session *session);

/*
 * Opens exactly one record of data and returns the length of its plaintext, which it writes to
 * `plain`: room for len bytes. Returns 0, and has no effect, if `data` is anything else, or the
 * records are not ours: tls_session_read() handles all.
 */
uint32_t tls_session_open_one(struct tls_session *session, const uint8_t *data, uint32_t len,
                              uint8_t *plain);

/* Prefetches the keys of both directions. */
void tls_session_prefetch(const struct tls_session *session);

/* Emits what has to precede the next record that tls_session_seal() makes. 0, or -1: failed. */
int tls_session_prepare(struct tls_session *session);

/*
 * Makes a record in place: its plaintext (len: 1..TLS_RECORD_MAX bytes) is TLS_RECORD_HEADER bytes
 * behind `record`. Returns the length of the record, TLS_RECORD_OVERHEAD more, or 0: failed.
 */
uint32_t tls_session_seal(struct tls_session *session, uint8_t *record, uint32_t len);

/* Emits close_notify, if the handshake is done and no alert was sent before. */
void tls_session_shutdown(struct tls_session *session);

/*
 * The part of tls_session_read() that makes the handshake: takes no input beyond its end and never
 * returns TLS_DATA. A session whose handshake is not done may be passed from thread to thread for
 * it; the thread that has the key cache keeps all other calls.
 */
enum tls_result tls_session_handshake(struct tls_session *session, const uint8_t *data,
                                      uint32_t len, uint32_t *used);

/* What the session emits from now on goes there. */
void tls_session_set_emit(struct tls_session *session, tls_emit *emit, void *emit_ctx);

bool tls_session_is_established(const struct tls_session *session);

/* Whether the handshake has resumed an earlier session. */
bool tls_session_is_resumed(const struct tls_session *session);

/*
 * Lets a session of a client, which has not been started, resume that of `earlier`, if the server
 * has permitted that in what it sent so far. Both belong to the calling thread.
 */
void tls_session_resume(struct tls_session *session, const struct tls_session *earlier);

/* Takes a name of a certificate: `len` bytes without NUL. */
typedef void tls_name(void *ctx, const char *name, uint32_t len);

/*
 * Before the handshake: when it is done, take() gets the names in the peer's certificate, if it has
 * shown one and that was verified: common name, then DNS names, addresses of mail and URIs of the
 * subject.
 */
void tls_session_on_peer_names(struct tls_session *session, tls_name *take, void *ctx);

/* The reason of TLS_FAILED, in one line. */
const char *tls_session_error(const struct tls_session *session);

/* ---- moving a session to another process ------------------------------------------------- */

#define TLS_SESSION_STATE_MAGIC 0x544c5331u /* "TLS1", which also shows the order of bytes */
#define TLS_SESSION_STATE_VERSION 1         /* changes with each change of a field */
#define TLS_STATE_SECRET_BYTES 48

/*
 * What continues the server's side of a session whose records are ours: plain, without pointers.
 * It holds the secrets of the connection (RFC 8446, 7.2), from which key and IV are derived again.
 */
struct tls_session_state {
    uint32_t magic;
    uint16_t version;
    uint16_t bytes;                             /* of this struct */
    uint32_t in_seq;                            /* of the next record from the client */
    uint32_t out_seq;                           /* of the next record to it */
    uint32_t message;                           /* the bytes of a key update that have come */
    uint8_t message_len;                        /* their number, 0..4 */
    uint8_t key_len;                            /* 16: AES-128-GCM, 32: AES-256-GCM */
    uint8_t empty_records;                      /* without data, in a row */
    uint8_t owes_update;                        /* 1: the client has requested a key update */
    uint8_t has_asked;                          /* 1: the client has been asked for one */
    uint8_t reserved[3];                        /* 0 */
    uint8_t in_secret[TLS_STATE_SECRET_BYTES];  /* of 32 bytes with AES-128, then zeros */
    uint8_t out_secret[TLS_STATE_SECRET_BYTES]; /* likewise */
};

/*
 * Fills in *state, which the caller zeroes after use, and sets *input to the *input_len bytes of a
 * record that has come in part: the first input of the continued session. They are the session's,
 * until its next call. The session stays as it is. Returns false if it cannot move: the handshake
 * is not done, OpenSSL protects the records, they have failed, or the session is a client's.
 */
bool tls_session_export(const struct tls_session *session, struct tls_session_state *state,
                        const uint8_t **input, uint32_t *input_len);

/*
 * Continues an exported session, as tls_session_open() opens one; needs no context. Only one of the
 * two may be used from then on. Null with *error set to a text: the state is not one of this
 * version, a field is outside its range, or there is no memory.
 */
struct tls_session *tls_session_import(const struct tls_session_state *state,
                                       struct tls_key_cache *cache, tls_emit *emit, void *emit_ctx,
                                       const char **error);

#endif
