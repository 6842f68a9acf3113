/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * AES-GCM for the records of TLS 1.3 (RFC 8446, 5.2), by two libraries that do the same: OpenSSL,
 * and intel-ipsec-mb, which needs a fraction of the time for a short record. Both work on expanded
 * keys, whose memory is the caller's. The header of a record is the additional data.
 */
#ifndef TLS_AEAD_H
#define TLS_AEAD_H

#include "tls/tls.h"

#define TLS_AEAD_NONCE 12
#define TLS_AEAD_TAG 16
#define TLS_AEAD_KEY_MAX 32
#define TLS_AEAD_ALIGN 64

struct tls_aead {
    uint32_t expanded_bytes; /* of an expanded key; a multiple of TLS_AEAD_ALIGN, as its address */

    /*
     * Expands a key of 16 or 32 bytes into memory that is zero, or was expanded before. Returns
     * false if there is no memory.
     */
    bool (*expand)(void *expanded, const uint8_t *key, uint32_t key_len);

    /* Frees and zeroes an expanded key. */
    void (*clear)(void *expanded);

    /* Encrypts len bytes in place and writes the tag behind them. False: the library failed. */
    bool (*seal)(void *expanded, const uint8_t nonce[TLS_AEAD_NONCE],
                 const uint8_t header[TLS_RECORD_HEADER], uint8_t *data, uint32_t len);

    /*
     * Decrypts len bytes, behind which the tag is, to `to`, which does not overlap them. False:
     * the tag is wrong, and `to` holds nothing of use.
     */
    bool (*open)(void *expanded, const uint8_t nonce[TLS_AEAD_NONCE],
                 const uint8_t header[TLS_RECORD_HEADER], const uint8_t *data, uint32_t len,
                 uint8_t *to);
};

extern const struct tls_aead tls_aead_evp;

/* intel-ipsec-mb; null if the build or the CPU lacks it. Any thread. */
const struct tls_aead *tls_aead_ipsec(void);

/* The faster one of what is there. */
const struct tls_aead *tls_aead_best(void);

#endif
