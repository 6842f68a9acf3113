/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/command.h"

#include <getopt.h>
#include <string.h>

#include "base/base.h"

#define LINK_OPTIONS_MAX 16
#define HELP_COLUMN 29

/* What getopt finds: a letter, or this and the number of an option; those of the link follow. */
#define FOUND_FIRST 256

/* ---- help -------------------------------------------------------------------------------- */

static void print_option(FILE *to, char letter, const char *name, const char *arg, const char *help)
{
    char head[64];

    snprintf(head, sizeof(head), "  %c%c%c --%s%s%s", letter ? '-' : ' ', letter ? letter : ' ',
             letter ? ',' : ' ', name, arg ? "=" : "", arg ? arg : "");
    fprintf(to, "%-*s", HELP_COLUMN, head);
    if (strlen(head) >= HELP_COLUMN)
        fprintf(to, "\n%*s", HELP_COLUMN, "");
    for (; *help; help++) {
        fputc(*help, to);
        if (*help == '\n')
            fprintf(to, "%*s", HELP_COLUMN, "");
    }
    fputc('\n', to);
}

void command_print_options(FILE *to, const struct command_option *options, size_t count)
{
    size_t i;

    for (i = 0; i < count; i++)
        print_option(to, options[i].letter, options[i].name, options[i].arg, options[i].help);
}

void command_print_link(FILE *to)
{
    struct link_option_table link = link_option_table();
    size_t i;

    for (i = 0; i < link.count; i++)
        print_option(to, 0, link.options[i].name, link.options[i].arg, link.options[i].help);
}

/* ---- parsing ----------------------------------------------------------------------------- */

struct getopt_lists {
    struct option names[COMMAND_OPTIONS_MAX + LINK_OPTIONS_MAX + 1];
    char letters[2 * COMMAND_OPTIONS_MAX + 2];
};

static void fill_lists(const struct command *command, struct getopt_lists *lists)
{
    struct link_option_table link = link_option_table();
    size_t i, n = 0, letters = 0;

    U_ASSERT(command->count <= COMMAND_OPTIONS_MAX && link.count <= LINK_OPTIONS_MAX);
    memset(lists, 0, sizeof(*lists));
    lists->letters[letters++] = ':';
    for (i = 0; i < command->count; i++, n++) {
        const struct command_option *option = &command->options[i];

        lists->names[n] =
            (struct option){option->name, option->arg != NULL, NULL, (int)(FOUND_FIRST + n)};
        if (option->letter)
            lists->letters[letters++] = option->letter;
        if (option->letter && option->arg)
            lists->letters[letters++] = ':';
    }
    for (i = 0; i < link.count; i++, n++)
        lists->names[n] = (struct option){link.options[i].name, 1, NULL, (int)(FOUND_FIRST + n)};
}

/* The number of the option that getopt has found. */
static size_t number_of(const struct command *command, int found)
{
    size_t i;

    if (found >= FOUND_FIRST)
        return (size_t)(found - FOUND_FIRST);
    for (i = 0; command->options[i].letter != found; i++)
        continue;
    return i;
}

static enum command_outcome take(const struct command *command, size_t number, const char *arg)
{
    const struct command_option *option = &command->options[number];
    struct link_option_table link = link_option_table();
    int rc;

    if (number >= command->count) {
        number -= command->count;
        rc = link.options[number].set(command->link, arg, command->error);
    } else if (option->set) {
        rc = option->set(command->settings, arg);
    } else {
        return strcmp(option->name, "help") == 0 ? COMMAND_HELP : COMMAND_VERSION;
    }
    return rc < 0 ? COMMAND_BAD : COMMAND_RUN;
}

/* getopt has not understood a word, or within one a letter (optopt). */
static enum command_outcome refuse(const struct command *command, bool arg_missing,
                                   const char *word)
{
    char letter[] = {'-', (char)optopt, '\0'};
    const char *what = optopt > 0 && optopt < FOUND_FIRST ? letter : word;

    snprintf(command->error, LINK_ERROR_MAX,
             arg_missing ? "%s: an argument is missing" : "\"%s\" is not an option", what);
    return COMMAND_BAD;
}

enum command_outcome command_parse(const struct command *command, int argc, char **argv,
                                   char ***rest)
{
    enum command_outcome outcome = COMMAND_RUN;
    struct getopt_lists lists;
    int found;

    fill_lists(command, &lists);
    opterr = 0;
    optind = 0; /* to begin anew, even if an earlier call has stopped within a word */
    while (outcome == COMMAND_RUN &&
           (found = getopt_long(argc, argv, lists.letters, lists.names, NULL)) != -1) {
        if (found == '?' || found == ':')
            return refuse(command, found == ':', argv[optind - 1]);
        outcome = take(command, number_of(command, found), optarg);
    }
    *rest = argv + optind;
    return outcome;
}
