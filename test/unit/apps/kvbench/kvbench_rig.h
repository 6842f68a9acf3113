/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the tests of apps/kvbench: cmocka, and options from words. */
#ifndef TEST_KVBENCH_RIG_H
#define TEST_KVBENCH_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "kvbench/options.h"

#define WORDS_MAX 16

/* Parses a command line that is written with blanks between its words. */
static inline enum cmdline_outcome parse(const char *line, struct options *options)
{
    static char copy[512]; /* options keep pointers into it */
    char *words[WORDS_MAX] = {copy};
    int count = 1;
    char *rest = copy;

    snprintf(copy, sizeof(copy), "kvbench %s", line);
    words[0] = strtok_r(copy, " ", &rest);
    while (count < WORDS_MAX && (words[count] = strtok_r(NULL, " ", &rest)))
        count++;
    return options_parse(count, words, options);
}

static inline void parse_good(const char *line, struct options *options)
{
    if (parse(line, options) != CMDLINE_RUN)
        fail_msg("\"%s\": %s", line, options->error);
}

#endif
