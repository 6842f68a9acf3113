/* SPDX-License-Identifier: BSD-3-Clause */
/* HKDF-Expand-Label of TLS 1.3 (RFC 8446, 7.1), with an empty context. */
#ifndef TLS_HKDF_H
#define TLS_HKDF_H

#include <stdbool.h>
#include <stdint.h>

#define TLS_SECRET_MAX 48

/*
 * Derives `len` bytes from a secret of 32 bytes (SHA-256) or 48 (SHA-384). `label` has at most
 * TLS_LABEL_MAX characters. False: no memory.
 */
#define TLS_LABEL_MAX 16
bool tls_hkdf_expand_label(const uint8_t *secret, uint32_t secret_len, const char *label,
                           uint8_t *to, uint32_t len);

#endif
