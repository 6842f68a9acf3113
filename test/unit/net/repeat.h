/* SPDX-License-Identifier: BSD-3-Clause */
/* Input of many requests, for tests of workers. */
#ifndef REPEAT_H
#define REPEAT_H

#include <stdlib.h>
#include <string.h>

/* `count` copies of a text, with a final null byte. The caller frees it. */
static inline char *repeat(const char *text, unsigned count)
{
    size_t len = strlen(text);
    char *all = malloc(len * count + 1);
    unsigned i;

    for (i = 0; i < count; i++)
        memcpy(all + i * len, text, len);
    all[len * count] = '\0';
    return all;
}

#endif
