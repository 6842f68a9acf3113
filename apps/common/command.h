/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The command line of a program that has a table of options of its own beside those of the link:
 * read by getopt_long(), and printed as its help.
 */
#ifndef COMMON_COMMAND_H
#define COMMON_COMMAND_H

#include <stdio.h>

#include "common/link.h"

#define COMMAND_OPTIONS_MAX 64

/* Lines of the help after the first are not indented. */
struct command_option {
    char letter; /* 0: has none */
    const char *name;
    const char *arg; /* what its argument is called in the help; null: takes none */
    /* Returns 0, or -1 with a message where the settings keep it. Null: --help or --version. */
    int (*set)(void *settings, const char *arg);
    const char *help;
};

struct command {
    const struct command_option *options;
    size_t count; /* at most COMMAND_OPTIONS_MAX */
    void *settings;
    struct link_options *link;
    char *error; /* of LINK_ERROR_MAX bytes */
};

enum command_outcome { COMMAND_RUN, COMMAND_HELP, COMMAND_VERSION, COMMAND_BAD };

/*
 * Sets all options in their order. COMMAND_RUN: *rest is what follows them in argv. COMMAND_BAD:
 * error says which is wrong and what is allowed.
 */
enum command_outcome command_parse(const struct command *command, int argc, char **argv,
                                   char ***rest);

/* Prints a line or more for each option of the program, or of the link. */
void command_print_options(FILE *to, const struct command_option *options, size_t count);
void command_print_link(FILE *to);

#endif
