/* SPDX-License-Identifier: BSD-3-Clause */
/* For builds without intel-ipsec-mb. */
#include <stddef.h>

#include "tls/aead.h"

const struct tls_aead *tls_aead_ipsec(void)
{
    return NULL;
}
