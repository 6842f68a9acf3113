/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses command lines and prints their help from tables of options; see cmdline.h. */
#define _GNU_SOURCE /* getopt_long() */
#include "common/cmdline.h"

#include <getopt.h>
#include <stdarg.h>
#include <string.h>
#include <sysexits.h>

#include "base/base.h"
#include "common/value.h"

#define HELP_COLUMN 30
#define OPTIONS_MAX 128 /* in all tables together */
#define LABEL_MAX 64

/* getopt_long() returns a letter, or this plus the index of the option in all tables. */
#define LONG_BASE 256

int cmdline_fail(char error[CMDLINE_ERROR_MAX], const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(error, CMDLINE_ERROR_MAX, format, args);
    va_end(args);
    return -1;
}

/* ---- values ------------------------------------------------------------------------------ */

/* "64k" for 65536. */
static const char *size_text(uint64_t bytes, char text[24])
{
    const char *suffix = "";

    if (bytes > 0 && bytes % (1024 * 1024) == 0) {
        bytes /= 1024 * 1024;
        suffix = "m";
    } else if (bytes > 0 && bytes % 1024 == 0) {
        bytes /= 1024;
        suffix = "k";
    }
    snprintf(text, 24, "%llu%s", (unsigned long long)bytes, suffix);
    return text;
}

static int set_number(const struct cmdline_option *option, void *field, const char *label,
                      const char *arg, char error[CMDLINE_ERROR_MAX])
{
    uint64_t value;
    uint32_t small;

    if (value_number(arg, option->min, option->max, &value) < 0)
        return cmdline_fail(error, "%s: \"%s\" is not a number from %llu to %llu", label, arg,
                            (unsigned long long)option->min, (unsigned long long)option->max);
    if (option->unit > 0)
        value *= option->unit;
    small = (uint32_t)value;
    if (option->kind == CMDLINE_U64)
        memcpy(field, &value, sizeof(value));
    else
        memcpy(field, &small, sizeof(small));
    return 0;
}

static int set_size(const struct cmdline_option *option, void *field, const char *label,
                    const char *arg, char error[CMDLINE_ERROR_MAX])
{
    char min[24], max[24];
    uint64_t bytes;
    uint32_t small;

    if (value_size(arg, option->min, option->max, &bytes) < 0)
        return cmdline_fail(error, "%s: \"%s\" is not a size from %s to %s", label, arg,
                            size_text(option->min, min), size_text(option->max, max));
    small = (uint32_t)bytes;
    memcpy(field, &small, sizeof(small));
    return 0;
}

static int set_ratio(const struct cmdline_option *option, void *field, const char *label,
                     const char *arg, char error[CMDLINE_ERROR_MAX])
{
    double min = (double)option->min, max = (double)option->max;
    bool above = option->unit == 1;
    char limit[40] = "";
    double value;

    if (value_ratio(arg, &value) == 0 && (above ? value > min : value >= min) &&
        (option->max == 0 || value <= max)) {
        memcpy(field, &value, sizeof(value));
        return 0;
    }
    if (option->max > 0)
        snprintf(limit, sizeof(limit), " and at most %llu", (unsigned long long)option->max);
    return cmdline_fail(error, "%s: \"%s\" is not a number %s %llu%s", label, arg,
                        above ? "greater than" : "of at least", (unsigned long long)option->min,
                        limit);
}

static int set_choice(const struct cmdline_option *option, void *field, const char *label,
                      const char *arg, char error[CMDLINE_ERROR_MAX])
{
    char words[200] = "";
    const char *word, *help;
    unsigned i;

    for (i = 0; (word = option->choice(i, &help)) != NULL; i++) {
        size_t used = strlen(words);

        if (strcmp(arg, word) == 0) {
            memcpy(field, &i, sizeof(i));
            return 0;
        }
        snprintf(words + used, sizeof(words) - used, "%s%s", i > 0 ? ", " : "", word);
    }
    return cmdline_fail(error, "%s: \"%s\" is not one of %s", label, arg, words);
}

static int set_text(void *field, const char *label, const char *arg, char error[CMDLINE_ERROR_MAX])
{
    if (arg[0] == '\0')
        return cmdline_fail(error, "%s: the argument is empty", label);
    memcpy(field, &arg, sizeof(arg));
    return 0;
}

static int set_by_call(const struct cmdline_option *option, void *settings, const char *label,
                       const char *arg, char error[CMDLINE_ERROR_MAX])
{
    char why[CMDLINE_ERROR_MAX] = "";

    if (option->set(settings, arg, why) == 0)
        return 0;
    if (why[0] != '\0')
        cmdline_fail(error, "%s: %.*s", label, CMDLINE_ERROR_MAX - LABEL_MAX - 3, why);
    return -1;
}

int cmdline_apply(const struct cmdline_option *option, void *settings, const char *label,
                  const char *arg, char error[CMDLINE_ERROR_MAX])
{
    void *field = (char *)settings + option->offset;

    if (option->given > 0)
        *(bool *)((char *)settings + option->given) = true;
    switch (option->kind) {
    case CMDLINE_CALL:
        return set_by_call(option, settings, label, arg, error);
    case CMDLINE_ON:
    case CMDLINE_OFF:
        *(bool *)field = option->kind == CMDLINE_ON;
        return 0;
    case CMDLINE_U32:
    case CMDLINE_U64:
        return set_number(option, field, label, arg, error);
    case CMDLINE_SIZE:
        return set_size(option, field, label, arg, error);
    case CMDLINE_RATIO:
        return set_ratio(option, field, label, arg, error);
    case CMDLINE_TEXT:
        return set_text(field, label, arg, error);
    case CMDLINE_CHOICE:
        return set_choice(option, field, label, arg, error);
    case CMDLINE_END:
    case CMDLINE_IGNORED:
        break;
    }
    return 0;
}

/* ---- parsing ----------------------------------------------------------------------------- */

/* The option with this index in all tables, and its table; null beyond the last. */
static const struct cmdline_option *option_at(const struct cmdline *cmdline, size_t index,
                                              const struct cmdline_table **table)
{
    for (*table = cmdline->tables; *table < cmdline->tables + CMDLINE_TABLES_MAX; (*table)++) {
        if (index < (*table)->count)
            return &(*table)->options[index];
        index -= (*table)->count;
    }
    return NULL;
}

/* The lists that getopt_long() takes. */
struct getopt_lists {
    struct option names[OPTIONS_MAX + 1];
    char letters[2 * OPTIONS_MAX + 2];
};

static int argument_of(const struct cmdline_option *option)
{
    if (!option->arg)
        return no_argument;
    return option->arg[0] == '[' ? optional_argument : required_argument;
}

static void make_lists(const struct cmdline *cmdline, struct getopt_lists *lists)
{
    const struct cmdline_option *option;
    const struct cmdline_table *table;
    struct option *name = lists->names;
    char *letter = lists->letters;
    size_t i;

    memset(lists, 0, sizeof(*lists));
    *letter++ = ':'; /* getopt returns ':' for a missing argument, '?' for an unknown option */
    for (i = 0; (option = option_at(cmdline, i, &table)) != NULL; i++) {
        U_ASSERT(i < OPTIONS_MAX);
        if (option->name)
            *name++ = (struct option){option->name, argument_of(option), NULL, LONG_BASE + (int)i};
        if (option->letter)
            *letter++ = option->letter;
        if (option->letter && option->arg)
            *letter++ = ':';
    }
}

/* The option that getopt_long() returned, its table, and its name as it was given. */
static const struct cmdline_option *find(const struct cmdline *cmdline, int value,
                                         const struct cmdline_table **table, char label[LABEL_MAX])
{
    const struct cmdline_option *option;
    size_t i = value >= LONG_BASE ? (size_t)(value - LONG_BASE) : 0;

    option = option_at(cmdline, i, table);
    while (value < LONG_BASE && option && option->letter != value)
        option = option_at(cmdline, ++i, table);
    if (option && value >= LONG_BASE)
        snprintf(label, LABEL_MAX, "--%s", option->name);
    else
        snprintf(label, LABEL_MAX, "-%c", value);
    return option;
}

/* getopt_long() returned '?' or ':'; `word` is the word that it stopped at. */
static enum cmdline_outcome refuse(struct cmdline *cmdline, int value, const char *word)
{
    const struct cmdline_table *table;
    char label[LABEL_MAX];

    cmdline->status = cmdline->syntax_status ? cmdline->syntax_status : EX_USAGE;
    if (value == ':')
        cmdline_fail(cmdline->error, "%.60s needs an argument; see --help", word);
    else if (optopt >= LONG_BASE && find(cmdline, optopt, &table, label))
        cmdline_fail(cmdline->error, "%s takes no argument", label);
    else if (optopt > 0 && optopt < LONG_BASE)
        cmdline_fail(cmdline->error, "-%c: there is no such option; see --help", optopt);
    else
        cmdline_fail(cmdline->error, "%.60s: there is no such option; see --help", word);
    return CMDLINE_BAD;
}

enum cmdline_outcome cmdline_parse(struct cmdline *cmdline, int argc, char **argv, char ***rest)
{
    const struct cmdline_option *option;
    const struct cmdline_table *table;
    struct getopt_lists lists;
    char label[LABEL_MAX];
    int value;

    make_lists(cmdline, &lists);
    opterr = 0;
    optind = 0; /* glibc: resets getopt's state, which an earlier parse may have left behind */
    while ((value = getopt_long(argc, argv, lists.letters, lists.names, NULL)) != -1) {
        if (value == '?' || value == ':')
            return refuse(cmdline, value, argv[optind - 1]);
        option = find(cmdline, value, &table, label);
        U_ASSERT(option);
        if (cmdline_apply(option, table->settings, label, optarg, cmdline->error) < 0) {
            cmdline->status = option->status ? option->status : EX_USAGE;
            return CMDLINE_BAD;
        }
        if (option->kind == CMDLINE_END)
            return (enum cmdline_outcome)option->min;
    }
    *rest = argv + optind;
    return CMDLINE_RUN;
}

/* ---- help -------------------------------------------------------------------------------- */

static void print_indented(FILE *to, const char *text)
{
    for (; *text; text++) {
        fputc(*text, to);
        if (*text == '\n')
            fprintf(to, "%*s", HELP_COLUMN, "");
    }
    fputc('\n', to);
}

static void print_option(FILE *to, const struct cmdline_option *option)
{
    const char *word, *help;
    char head[64];
    unsigned i;

    snprintf(head, sizeof(head), "  %c%c%s%s%s%s%s", option->letter ? '-' : ' ',
             option->letter ? option->letter : ' ',
             !option->letter ? "  "
             : option->name  ? ", "
                             : "",
             option->name ? "--" : "", option->name ? option->name : "",
             !option->arg || option->arg[0] == '[' ? ""
             : option->name                        ? "="
                                                   : " ",
             option->arg ? option->arg : "");
    fprintf(to, "%-*s", HELP_COLUMN, head);
    if (strlen(head) >= HELP_COLUMN)
        fprintf(to, "\n%*s", HELP_COLUMN, "");
    print_indented(to, option->help);
    for (i = 0; option->choice && (word = option->choice(i, &help)) != NULL; i++) {
        if (!help)
            continue;
        fprintf(to, "%*s%s: ", HELP_COLUMN, "", word);
        print_indented(to, help);
    }
}

void cmdline_print_options(FILE *to, const struct cmdline_option *options, size_t count)
{
    size_t i;

    for (i = 0; i < count; i++) {
        if (options[i].help)
            print_option(to, &options[i]);
    }
}
