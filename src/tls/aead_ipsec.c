/* SPDX-License-Identifier: BSD-3-Clause */
/* AES-GCM by intel-ipsec-mb; see aead.h. Its functions for single buffers keep no state. */
#include <intel-ipsec-mb.h>
#include <openssl/crypto.h>
#include <pthread.h>
#include <stdalign.h>
#include <string.h>

#include "base/base.h"
#include "tls/aead.h"

struct expanded {
    alignas(TLS_AEAD_ALIGN) struct gcm_key_data key; /* the vector code faults otherwise */
    alignas(16) aes_gcm_enc_dec_t seal;
    aes_gcm_enc_dec_t open;
};

static IMB_MGR *library;

static bool ipsec_expand(void *memory, const uint8_t *key, uint32_t key_len)
{
    struct expanded *expanded = memory;

    if (key_len == 16) {
        IMB_AES128_GCM_PRE(library, key, &expanded->key);
        expanded->seal = library->gcm128_enc;
        expanded->open = library->gcm128_dec;
    } else {
        IMB_AES256_GCM_PRE(library, key, &expanded->key);
        expanded->seal = library->gcm256_enc;
        expanded->open = library->gcm256_dec;
    }
    return true;
}

static void ipsec_clear(void *memory)
{
    OPENSSL_cleanse(memory, sizeof(struct expanded));
}

static bool ipsec_seal(void *memory, const uint8_t nonce[TLS_AEAD_NONCE],
                       const uint8_t header[TLS_RECORD_HEADER], uint8_t *data, uint32_t len)
{
    struct expanded *expanded = memory;
    struct gcm_context_data ctx;

    expanded->seal(&expanded->key, &ctx, data, data, len, nonce, header, TLS_RECORD_HEADER,
                   data + len, TLS_AEAD_TAG);
    return true;
}

static bool ipsec_open(void *memory, const uint8_t nonce[TLS_AEAD_NONCE],
                       const uint8_t header[TLS_RECORD_HEADER], const uint8_t *data, uint32_t len,
                       uint8_t *to)
{
    struct expanded *expanded = memory;
    struct gcm_context_data ctx;
    uint8_t tag[TLS_AEAD_TAG];

    expanded->open(&expanded->key, &ctx, to, data, len, nonce, header, TLS_RECORD_HEADER, tag,
                   sizeof(tag));
    return CRYPTO_memcmp(tag, data + len, sizeof(tag)) == 0;
}

U_STATIC_ASSERT(sizeof(struct expanded) % TLS_AEAD_ALIGN == 0, expanded_keys_stay_aligned);

static const struct tls_aead aead = {
    .expanded_bytes = sizeof(struct expanded),
    .expand = ipsec_expand,
    .clear = ipsec_clear,
    .seal = ipsec_seal,
    .open = ipsec_open,
};

/* Without the CPU's AES instructions the library emulates them, slower than OpenSSL. */
static void find_library(void)
{
    IMB_MGR *manager = alloc_mb_mgr(0);

    if (!manager)
        return;
    init_mb_mgr_auto(manager, NULL);
    if (imb_get_errno(manager) == 0 && (manager->features & IMB_FEATURE_AESNI))
        library = manager; /* for the life of the process */
    else
        free_mb_mgr(manager);
}

const struct tls_aead *tls_aead_ipsec(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, find_library);
    return library ? &aead : NULL;
}
