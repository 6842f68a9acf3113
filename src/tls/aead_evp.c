/* SPDX-License-Identifier: BSD-3-Clause */
/* AES-GCM by OpenSSL; see aead.h. */
#include <openssl/evp.h>
#include <string.h>

#include "tls/aead.h"

struct expanded {
    EVP_CIPHER_CTX *ctx;
};

static void evp_clear(void *memory)
{
    struct expanded *expanded = memory;

    EVP_CIPHER_CTX_free(expanded->ctx); /* which zeroes it */
    expanded->ctx = NULL;
}

static bool evp_expand(void *memory, const uint8_t *key, uint32_t key_len)
{
    const EVP_CIPHER *cipher = key_len == 16 ? EVP_aes_128_gcm() : EVP_aes_256_gcm();
    struct expanded *expanded = memory;

    if (!expanded->ctx)
        expanded->ctx = EVP_CIPHER_CTX_new();
    if (expanded->ctx && EVP_CipherInit_ex2(expanded->ctx, cipher, key, NULL, 1, NULL) == 1)
        return true;
    evp_clear(expanded);
    return false;
}

/* The key of the context stays. */
static bool evp_begin(EVP_CIPHER_CTX *ctx, const uint8_t *nonce, const uint8_t *header, int seals)
{
    int n;

    return EVP_CipherInit_ex2(ctx, NULL, NULL, nonce, seals, NULL) == 1 &&
           EVP_CipherUpdate(ctx, NULL, &n, header, TLS_RECORD_HEADER) == 1;
}

static bool evp_seal(void *memory, const uint8_t nonce[TLS_AEAD_NONCE],
                     const uint8_t header[TLS_RECORD_HEADER], uint8_t *data, uint32_t len)
{
    EVP_CIPHER_CTX *ctx = ((struct expanded *)memory)->ctx;
    int n;

    return evp_begin(ctx, nonce, header, 1) &&
           EVP_CipherUpdate(ctx, data, &n, data, (int)len) == 1 &&
           EVP_CipherFinal_ex(ctx, data + len, &n) == 1 &&
           EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_GET_TAG, TLS_AEAD_TAG, data + len) == 1;
}

static bool evp_open(void *memory, const uint8_t nonce[TLS_AEAD_NONCE],
                     const uint8_t header[TLS_RECORD_HEADER], const uint8_t *data, uint32_t len,
                     uint8_t *to)
{
    EVP_CIPHER_CTX *ctx = ((struct expanded *)memory)->ctx;
    uint8_t tag[TLS_AEAD_TAG];
    int n;

    memcpy(tag, data + len, sizeof(tag));
    return evp_begin(ctx, nonce, header, 0) &&
           EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_SET_TAG, sizeof(tag), tag) == 1 &&
           EVP_CipherUpdate(ctx, to, &n, data, (int)len) == 1 &&
           EVP_CipherFinal_ex(ctx, to + len, &n) == 1;
}

const struct tls_aead tls_aead_evp = {
    .expanded_bytes = TLS_AEAD_ALIGN,
    .expand = evp_expand,
    .clear = evp_clear,
    .seal = evp_seal,
    .open = evp_open,
};

const struct tls_aead *tls_aead_best(void)
{
    const struct tls_aead *ipsec = tls_aead_ipsec();

    return ipsec ? ipsec : &tls_aead_evp;
}
