/* SPDX-License-Identifier: BSD-3-Clause */
/* Assertions of fuzz targets. */
#ifndef TEST_FUZZ_CHECK_H
#define TEST_FUZZ_CHECK_H

#include <stdio.h>
#include <stdlib.h>

static inline void check(int holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "does not hold: %s\n", what);
    abort();
}

#endif
