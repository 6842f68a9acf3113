/* SPDX-License-Identifier: BSD-3-Clause */
/* OpenSSL's memory; see wipe.h. */
#include "tls/wipe.h"

#include <malloc.h>
#include <openssl/crypto.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Larger blocks are buffers of records, which hold no keys, and are freed with each record. */
#define WIPED_MAX 12288

static void *wipe_malloc(size_t size, const char *file, int line)
{
    return malloc(size);
}

static void wipe_free(void *memory, const char *file, int line)
{
    size_t size = malloc_usable_size(memory);

    if (memory && size <= WIPED_MAX)
        explicit_bzero(memory, size);
    free(memory);
}

static void *wipe_realloc(void *memory, size_t size, const char *file, int line)
{
    size_t before = malloc_usable_size(memory);
    void *moved;

    if (memory && size > 0 && size <= before)
        return memory;
    moved = size > 0 ? malloc(size) : NULL;
    if (!moved && size > 0)
        return NULL;
    if (memory && moved)
        memcpy(moved, memory, before);
    wipe_free(memory, file, line);
    return moved;
}

static void begin(void)
{
    (void)CRYPTO_set_mem_functions(wipe_malloc, wipe_realloc, wipe_free);
}

void tls_wipe_begin(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, begin);
}
