/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Command lines described by tables. Each row names one option, its argument, its limits and its
 * help text; getopt_long(), the error messages and --help all work from the row.
 */
#ifndef COMMON_CMDLINE_H
#define COMMON_CMDLINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define CMDLINE_ERROR_MAX 400

/* What an option does. The field it sets is at `offset` in the settings. */
enum cmdline_kind {
    CMDLINE_CALL = 0, /* calls set(), which may write an error */
    CMDLINE_END,      /* ends the parse with outcome `min` (--help, --version) */
    CMDLINE_ON,       /* bool: sets it to true */
    CMDLINE_OFF,      /* bool: sets it to false */
    CMDLINE_U32,      /* uint32_t: a decimal number from min to max, times unit */
    CMDLINE_U64,      /* uint64_t: likewise */
    CMDLINE_SIZE,     /* uint32_t: bytes from min to max; a suffix k or m is allowed */
    CMDLINE_RATIO,    /* double: min to max (0: no limit); greater than min if unit is 1 */
    CMDLINE_TEXT,     /* const char *: a text that is not empty; points into argv */
    CMDLINE_CHOICE,   /* an enum: one of the words that choice() enumerates */
    CMDLINE_IGNORED   /* accepted without effect */
};

/* Returns the word for value `index`, null beyond the last; *help is its explanation, or null. */
typedef const char *cmdline_choice(unsigned index, const char **help);

/* An option of a program, or a word of a list such as memcached's -o. */
struct cmdline_option {
    char letter;      /* 0: long name only */
    const char *name; /* null: letter only */
    const char *arg;  /* the argument's name in the help; "[=NAME]": optional; null: takes none */
    /* CMDLINE_CALL: returns 0, or -1 with a message in `error`. `arg` is null if there is none. */
    int (*set)(void *settings, const char *arg, char error[CMDLINE_ERROR_MAX]);
    const char *help; /* lines after the first are indented when printed; null: not listed */
    enum cmdline_kind kind;
    size_t offset;
    uint64_t min, max;
    uint64_t unit;          /* 0: 1 */
    cmdline_choice *choice; /* CMDLINE_CHOICE */
    int status;             /* exit status for a wrong value; 0: EX_USAGE */
    size_t given;           /* offset of a bool that records that the option was given; 0: none */
};

struct cmdline_table {
    const struct cmdline_option *options;
    size_t count;
    void *settings;
};

#define CMDLINE_TABLES_MAX 4

struct cmdline {
    struct cmdline_table tables[CMDLINE_TABLES_MAX]; /* those with a count of 0 are skipped */
    int syntax_status; /* exit status for an unknown option, or a missing argument; 0: EX_USAGE */
    char *error;       /* CMDLINE_ERROR_MAX bytes */
    int status;        /* out: CMDLINE_BAD: the exit status */
};

enum cmdline_outcome { CMDLINE_RUN, CMDLINE_HELP, CMDLINE_VERSION, CMDLINE_BAD };

/*
 * Applies all options in their order. CMDLINE_RUN: *rest points to the words after the options.
 * CMDLINE_BAD: `error` names the option and the allowed values. Not thread-safe (getopt).
 */
enum cmdline_outcome cmdline_parse(struct cmdline *cmdline, int argc, char **argv, char ***rest);

/*
 * Applies one option; `label` names it in the message and `arg` is null if none was given. Returns
 * 0, or -1 with a message in error[].
 */
int cmdline_apply(const struct cmdline_option *option, void *settings, const char *label,
                  const char *arg, char error[CMDLINE_ERROR_MAX]);

/* Writes a message to error[]. Returns -1. */
__attribute__((format(printf, 2, 3))) int cmdline_fail(char error[CMDLINE_ERROR_MAX],
                                                       const char *format, ...);

/* Prints the help of all options in a table. */
void cmdline_print_options(FILE *to, const struct cmdline_option *options, size_t count);

#endif
