/* SPDX-License-Identifier: BSD-3-Clause */
/* Derivation of keys, by OpenSSL; see hkdf.h. */
#include "tls/hkdf.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <pthread.h>
#include <string.h>

#include "base/base.h"

static const char prefix[] = "tls13 ";

/* length, label and its length, context and its length */
#define INFO_MAX (2 + 1 + sizeof(prefix) - 1 + TLS_LABEL_MAX + 1)

static EVP_KDF *hkdf; /* until OpenSSL ends */

static void free_hkdf(void)
{
    EVP_KDF_free(hkdf);
    hkdf = NULL;
}

static void find_hkdf(void)
{
    hkdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
    (void)OPENSSL_atexit(free_hkdf);
}

static size_t info_write(uint8_t info[INFO_MAX], const char *label, uint32_t len)
{
    size_t label_len = strlen(label), prefix_len = sizeof(prefix) - 1;

    U_ASSERT(label_len <= TLS_LABEL_MAX && len <= UINT8_MAX);
    info[0] = 0;
    info[1] = (uint8_t)len;
    info[2] = (uint8_t)(prefix_len + label_len);
    memcpy(info + 3, prefix, prefix_len);
    memcpy(info + 3 + prefix_len, label, label_len);
    info[3 + prefix_len + label_len] = 0;
    return 3 + prefix_len + label_len + 1;
}

bool tls_hkdf_expand_label(const uint8_t *secret, uint32_t secret_len, const char *label,
                           uint8_t *to, uint32_t len)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int mode = EVP_KDF_HKDF_MODE_EXPAND_ONLY;
    uint8_t info[INFO_MAX], key[TLS_SECRET_MAX];
    char sha256[] = "SHA256", sha384[] = "SHA384";
    OSSL_PARAM params[5];
    EVP_KDF_CTX *ctx;
    bool done;

    U_ASSERT(secret_len == 32 || secret_len == 48);
    (void)pthread_once(&once, find_hkdf);
    ctx = hkdf ? EVP_KDF_CTX_new(hkdf) : NULL;
    if (!ctx) {
        ERR_clear_error();
        return false;
    }
    memcpy(key, secret, secret_len); /* OpenSSL's parameters are not const */
    params[0] = OSSL_PARAM_construct_int(OSSL_KDF_PARAM_MODE, &mode);
    params[1] = OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST,
                                                 secret_len == 32 ? sha256 : sha384, 0);
    params[2] = OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, key, secret_len);
    params[3] =
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info, info_write(info, label, len));
    params[4] = OSSL_PARAM_construct_end();
    done = EVP_KDF_derive(ctx, to, len, params) == 1;
    EVP_KDF_CTX_free(ctx);
    OPENSSL_cleanse(key, sizeof(key));
    ERR_clear_error();
    return done;
}
