/* SPDX-License-Identifier: BSD-3-Clause */
/* For tests: a peer that protects any inner plaintext, valid or not, as a record of TLS 1.3. */
#ifndef RECORD_PEER_H
#define RECORD_PEER_H

#include <stdlib.h>
#include <string.h>

#include "tls/record.h"

/* The secrets of a test's connections, as the end `is_client` sees them. */
static inline struct tls_record_secrets secrets_of(uint32_t key_len, bool is_client)
{
    struct tls_record_secrets secrets = {.key_len = key_len, .is_client = is_client};

    memset(is_client ? secrets.write : secrets.read, 'c', TLS_SECRET_MAX);
    memset(is_client ? secrets.read : secrets.write, 's', TLS_SECRET_MAX);
    return secrets;
}

/* What a client writes. */
struct record_peer {
    uint32_t key_len;
    uint8_t secret[TLS_SECRET_MAX];
    uint64_t seq;
};

static inline void record_peer_begin(struct record_peer *peer, uint32_t key_len)
{
    peer->key_len = key_len;
    peer->seq = 0;
    memset(peer->secret, 'c', TLS_SECRET_MAX);
}

/* After a key update. Returns whether there was memory. */
static inline bool record_peer_update(struct record_peer *peer)
{
    uint8_t next[TLS_SECRET_MAX];
    uint32_t len = tls_secret_len(peer->key_len);

    if (!tls_hkdf_expand_label(peer->secret, len, "traffic upd", next, len))
        return false;
    memcpy(peer->secret, next, len);
    peer->seq = 0;
    return true;
}

/*
 * Makes a record of the inner plaintext: data, type, padding. Returns its length,
 * len + TLS_RECORD_HEADER + TLS_AEAD_TAG, or 0 without memory.
 */
static inline uint32_t record_peer_seal(struct record_peer *peer, const void *inner, uint32_t len,
                                        uint8_t *record)
{
    uint32_t secret_len = tls_secret_len(peer->key_len), body = len + TLS_AEAD_TAG, i;
    uint8_t key[TLS_AEAD_KEY_MAX], nonce[TLS_AEAD_NONCE];
    void *expanded = aligned_alloc(TLS_AEAD_ALIGN, tls_aead_evp.expanded_bytes);
    bool done;

    if (!expanded)
        return 0;
    memset(expanded, 0, tls_aead_evp.expanded_bytes);
    record[0] = 23;
    record[1] = record[2] = 3;
    record[3] = (uint8_t)(body >> 8);
    record[4] = (uint8_t)body;
    memcpy(record + TLS_RECORD_HEADER, inner, len);
    done = tls_hkdf_expand_label(peer->secret, secret_len, "key", key, peer->key_len) &&
           tls_hkdf_expand_label(peer->secret, secret_len, "iv", nonce, sizeof(nonce));
    for (i = 0; i < 8; i++)
        nonce[TLS_AEAD_NONCE - 1 - i] ^= (uint8_t)(peer->seq >> 8 * i);
    peer->seq++;
    done = done && tls_aead_evp.expand(expanded, key, peer->key_len) &&
           tls_aead_evp.seal(expanded, nonce, record, record + TLS_RECORD_HEADER, len);
    tls_aead_evp.clear(expanded);
    free(expanded);
    return done ? TLS_RECORD_HEADER + body : 0;
}

#endif
