/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The record layer of a TLS 1.3 connection with AES-GCM, after the handshake (RFC 8446, 5): opens
 * and seals records, and handles the messages that may follow: alerts, key updates, and, at a
 * client, tickets, which it ignores. No I/O: what has to be sent is written to the caller's memory.
 */
#ifndef TLS_RECORD_H
#define TLS_RECORD_H

#include "tls/hkdf.h"
#include "tls/key_cache.h"
#include "tls/tls.h"

/* The traffic secrets of a completed handshake (RFC 8446, 7.1). */
struct tls_record_secrets {
    uint32_t key_len; /* 16: TLS_AES_128_GCM_SHA256, 32: TLS_AES_256_GCM_SHA384 */
    uint8_t read[TLS_SECRET_MAX];
    uint8_t write[TLS_SECRET_MAX];
    uint32_t written; /* records already written under `write` */
    bool is_client;
};

static inline uint32_t tls_secret_len(uint32_t key_len)
{
    return key_len == 16 ? 32 : 48;
}

/* Records that are written with one key (5.5: at most 2^24.5 full ones). */
#define TLS_RECORDS_PER_KEY ((uint32_t)1 << 24)

/* Records in a row without data after which the connection fails. */
#define TLS_EMPTY_RECORDS_MAX 32

/* The longest record of an alert or a key update. */
#define TLS_MESSAGE_RECORD_MAX (TLS_RECORD_HEADER + 5 + 1 + TLS_AEAD_TAG)

/* The state of one direction. */
struct tls_direction {
    uint32_t seq; /* number of the next record; a peer's key ends at the highest */
    struct tls_cached_key cached;
    uint8_t iv[TLS_AEAD_NONCE];
};

struct tls_records {
    struct tls_partial *partial; /* a record that is not complete, or null */
    struct tls_direction in, out;
    uint32_t message;    /* handshake message in progress: its type and the bytes left */
    uint8_t message_len; /* bytes received of its header: 0..4 */
    uint8_t key_len;
    uint8_t empty_records; /* in a row */
    bool is_client : 1;
    bool owes_update : 1; /* the peer has requested a key update */
    bool has_asked : 1;   /* a key update was requested of the peer and has not come */
    uint8_t material[];   /* key and secret of `in`, then of `out` */
};

/* Why tls_records_read() has failed. */
struct tls_record_error {
    int alert; /* to be sent; -1: none, the peer has sent one */
    const char *reason;
};

/*
 * Copies the secrets. Returns null if there is no memory. All calls for these records get the same
 * key cache; it is an argument because connections are many and a pointer in each would cost.
 */
struct tls_records *tls_records_open(const struct tls_record_secrets *secrets);

/* Zeroes the keys. */
void tls_records_close(struct tls_records *records, struct tls_key_cache *cache);

/* As tls_session_read(). Sets *error with TLS_FAILED, after which only alerts may be written. */
enum tls_result tls_records_read(struct tls_records *records, struct tls_key_cache *cache,
                                 const uint8_t *data, uint32_t len, uint32_t *used,
                                 uint8_t plain[TLS_PLAIN_ROOM], uint32_t *plain_len,
                                 struct tls_record_error *error);

/* As tls_session_open_one(). */
uint32_t tls_records_open_one(struct tls_records *records, struct tls_key_cache *cache,
                              const uint8_t *data, uint32_t len, uint8_t *plain);

/* Prefetches what opening a record needs. */
void tls_records_prefetch(const struct tls_records *records, const struct tls_key_cache *cache);

/*
 * Seals the len bytes (1..TLS_RECORD_MAX) at record + TLS_RECORD_HEADER in place: the record has
 * len + TLS_RECORD_OVERHEAD bytes. Returns that, or 0: no memory. No key update may be due.
 */
uint32_t tls_records_seal(struct tls_records *records, struct tls_key_cache *cache, uint8_t *record,
                          uint32_t len);

/* Writes an alert. Returns its length, or 0: no memory. */
uint32_t tls_records_alert(struct tls_records *records, struct tls_key_cache *cache, int alert,
                           uint8_t record[TLS_MESSAGE_RECORD_MAX]);

/* Whether a key update has to be sent before the next record of data. */
static inline bool tls_records_update_is_due(const struct tls_records *records)
{
    return records->owes_update || records->out.seq >= TLS_RECORDS_PER_KEY ||
           (records->in.seq >= TLS_RECORDS_PER_KEY && !records->has_asked);
}

/* Writes a key update and changes the key of `out`. Returns its length, or 0: no memory. */
uint32_t tls_records_update(struct tls_records *records, struct tls_key_cache *cache,
                            uint8_t record[TLS_MESSAGE_RECORD_MAX]);

/*
 * Move the records of a server's connection to another process; see tls_session_export() and
 * tls_session_import(). Export returns false for a client's. Import returns null with *error set.
 */
bool tls_records_export(struct tls_records *records, struct tls_session_state *state,
                        const uint8_t **input, uint32_t *input_len);
struct tls_records *tls_records_import(const struct tls_session_state *state, const char **error);

#endif
