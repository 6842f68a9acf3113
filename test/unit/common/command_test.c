/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "common/command.h"

struct settings {
    const char *name;
    unsigned flags;
    struct link_options link;
    char error[LINK_ERROR_MAX];
};

static struct settings settings;
static char **rest;

static int set_name(void *to, const char *arg)
{
    struct settings *s = (struct settings *)to;

    s->name = arg;
    if (arg[0] != '\0')
        return 0;
    snprintf(s->error, sizeof(s->error), "--name: it is empty");
    return -1;
}

static int set_flag(void *to, const char *arg)
{
    struct settings *s = (struct settings *)to;

    assert_null(arg);
    s->flags++;
    return 0;
}

static const struct command_option options[] = {
    {'n', "name", "NAME", set_name, "first line\nsecond line"},
    {'f', "flag", NULL, set_flag, "a flag"},
    {0, "flag-without-a-letter-but-with-a-long-name", NULL, set_flag, "another"},
    {'h', "help", NULL, NULL, "print this"},
    {0, "version", NULL, NULL, "print the version"},
};

/* Parses the words of a line. */
static enum command_outcome parse(const char *line)
{
    static char words[200];
    static char *argv[20];
    const struct command command = {options, U_ARRAY_LEN(options), &settings, &settings.link,
                                    settings.error};
    int argc = 0;
    char *at = words;
    char *word;

    memset(&settings, 0, sizeof(settings));
    snprintf(words, sizeof(words), "%s", line);
    argv[argc++] = (char *)(uintptr_t) "program";
    while ((word = strsep(&at, " ")) != NULL)
        if (word[0] != '\0')
            argv[argc++] = word;
    argv[argc] = NULL;
    return command_parse(&command, argc, argv, &rest);
}

static void test_all_forms(void **unused)
{
    assert_int_equal(parse(""), COMMAND_RUN);
    assert_null(rest[0]);
    assert_int_equal(parse("-n a -f --flag peer"), COMMAND_RUN);
    assert_string_equal(settings.name, "a");
    assert_int_equal(settings.flags, 2);
    assert_string_equal(rest[0], "peer");
    assert_null(rest[1]);
    assert_int_equal(parse("-fnb --flag-without-a-letter-but-with-a-long-name"), COMMAND_RUN);
    assert_string_equal(settings.name, "b");
    assert_int_equal(settings.flags, 2);
    assert_int_equal(parse("--name=c --io=tap --mtu 9000"), COMMAND_RUN);
    assert_string_equal(settings.name, "c");
    assert_int_equal(settings.link.io, LINK_IO_TAP);
    assert_int_equal(settings.link.mtu, 9000);
}

static void test_help_and_version(void **unused)
{
    assert_int_equal(parse("-h"), COMMAND_HELP);
    assert_int_equal(parse("--help"), COMMAND_HELP);
    assert_int_equal(parse("-f --version --name="), COMMAND_VERSION);
    assert_int_equal(settings.flags, 1);
}

static void test_mistakes(void **unused)
{
    assert_int_equal(parse("-x"), COMMAND_BAD);
    assert_string_equal(settings.error, "\"-x\" is not an option");
    assert_int_equal(parse("-fx"), COMMAND_BAD);
    assert_string_equal(settings.error, "\"-x\" is not an option");
    assert_int_equal(parse("-n"), COMMAND_BAD);
    assert_string_equal(settings.error, "-n: an argument is missing");
    assert_int_equal(parse("--nonsense=1"), COMMAND_BAD);
    assert_string_equal(settings.error, "\"--nonsense=1\" is not an option");
    assert_int_equal(parse("-f --name"), COMMAND_BAD);
    assert_string_equal(settings.error, "--name: an argument is missing");
    assert_int_equal(parse("--name= -h"), COMMAND_BAD);
    assert_string_equal(settings.error, "--name: it is empty");
    assert_int_equal(parse("--io=nowhere"), COMMAND_BAD);
    assert_non_null(strstr(settings.error, "nowhere"));
}

static void test_printed(void **unused)
{
    static const char own[] = "  -n, --name=NAME            first line\n"
                              "                             second line\n"
                              "  -f, --flag                 a flag\n"
                              "      --flag-without-a-letter-but-with-a-long-name\n"
                              "                             another\n";
    char *text = NULL;
    size_t len;
    FILE *to = open_memstream(&text, &len);

    assert_non_null(to);
    command_print_options(to, options, 3);
    command_print_link(to);
    assert_int_equal(fclose(to), 0);
    assert_ptr_equal(strstr(text, own), text);
    assert_non_null(strstr(text, "\n      --io=MODE "));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_forms),
        cmocka_unit_test(test_help_and_version),
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_printed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
