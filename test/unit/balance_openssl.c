/* SPDX-License-Identifier: BSD-3-Clause */
/* Lets balance.c count OpenSSL's memory, which OpenSSL frees at the end of the program. */
#include <openssl/crypto.h>
#include <stdlib.h>

static void *take(size_t bytes, const char *file, int line)
{
    return malloc(bytes);
}

static void *resize(void *block, size_t bytes, const char *file, int line)
{
    return realloc(block, bytes);
}

static void give(void *block, const char *file, int line)
{
    free(block);
}

static __attribute__((constructor)) void begin(void)
{
    (void)CRYPTO_set_mem_functions(take, resize, give);
}
