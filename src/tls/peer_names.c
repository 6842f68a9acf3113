/* SPDX-License-Identifier: BSD-3-Clause */
/* The names in the certificate of a peer; see tls_session_on_peer_names(). */
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <string.h>

#include "tls/openssl.h"

/* Gives a name to take(), unless a NUL in it would make it look like another one. */
static void name_give(const ASN1_STRING *text, tls_name *take, void *ctx)
{
    const char *bytes = (const char *)ASN1_STRING_get0_data(text);
    int len = ASN1_STRING_length(text);

    if (len > 0 && memchr(bytes, '\0', (size_t)len) == NULL)
        take(ctx, bytes, (uint32_t)len);
}

static void common_names(const X509 *cert, tls_name *take, void *ctx)
{
    const X509_NAME *subject = X509_get_subject_name(cert);
    int at = -1;

    while ((at = X509_NAME_get_index_by_NID(subject, NID_commonName, at)) >= 0)
        name_give(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)), take, ctx);
}

static void alternative_names(const X509 *cert, tls_name *take, void *ctx)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);

    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);

        if (name->type == GEN_DNS || name->type == GEN_EMAIL || name->type == GEN_URI)
            name_give(name->d.ia5, take, ctx);
    }
    GENERAL_NAMES_free(names);
}

void tls_openssl_give_names(const struct tls_openssl *openssl)
{
    const X509 *cert = SSL_get0_peer_certificate(openssl->ssl);

    if (!openssl->names || cert == NULL || SSL_get_verify_result(openssl->ssl) != X509_V_OK)
        return;
    common_names(cert, openssl->names, openssl->names_ctx);
    alternative_names(cert, openssl->names, openssl->names_ctx);
    ERR_clear_error();
}
