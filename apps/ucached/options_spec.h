/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the tables of options have in common: those of memcached (options_memcached.c), of its -o
 * (options_extended.c) and of our own (options_own.c). Parsing, the help text and the lists that
 * getopt wants come from the tables.
 */
#ifndef UCACHED_OPTIONS_SPEC_H
#define UCACHED_OPTIONS_SPEC_H

#include <stddef.h>
#include <sysexits.h>

#include "options.h"

/* memcached's status for a value out of its range, beside EX_USAGE for what it says explicitly. */
#define OPTIONS_EXIT_RANGE 1

/* Returns 0, or -1 after options_fail(). */
typedef int option_set(struct options *options, const char *arg);

struct option_spec {
    char letter;      /* 0: a long name only */
    const char *name; /* null: a letter only */
    const char *arg;  /* what the argument is called in the help; null: takes none */
    option_set *set;  /* null: -h, -i, -V, a flag, or (arg) one of the link's */
    size_t flag;      /* of a flag: where the bool is that it sets; else 0 */
    const char *help; /* lines are indented by the printer */
};

struct option_table {
    const struct option_spec *specs;
    size_t count;
};

struct option_table options_memcached(void);

/* Those of the link, then what else is our own. Returns false beyond the last. */
bool options_own(size_t index, struct option_spec *spec);

/* All of them in one numbering, in the order of the help. Returns false beyond the last. */
bool options_spec(size_t index, struct option_spec *spec);

/* Reads one -o. Returns 0, or -1 after options_fail(). */
int options_extended(struct options *options, const char *list);

/* Prints the help on -o's words. */
void options_extended_help(FILE *to);

/* Says what is wrong and with which status to exit. Returns -1. */
__attribute__((format(printf, 3, 4))) int options_fail(struct options *options, int status,
                                                       const char *format, ...);

/* Reads a number from min to max; `name` is the option in the message. */
int options_number(struct options *options, const char *name, const char *arg, uint64_t min,
                   uint64_t max, uint64_t *value);

#endif
