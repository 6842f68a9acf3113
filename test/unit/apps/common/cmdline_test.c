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
#include "common/link.h"

struct settings {
    const char *name;
    unsigned calls;
    bool on;
    uint32_t count;
    uint64_t big;
    uint32_t bytes;
    double ratio;
    unsigned color;
    bool color_given;
    struct link_options link;
};

static struct settings settings;
static char error[CMDLINE_ERROR_MAX];
static int status;
static char **rest;

static int count_call(void *to, const char *arg, char message[CMDLINE_ERROR_MAX])
{
    struct settings *s = to;

    s->calls++;
    return arg && strcmp(arg, "bad") == 0 ? cmdline_fail(message, "it is bad") : 0;
}

static const char *color_choice(unsigned index, const char **help)
{
    static const char *const words[][2] = {{"red", "like blood"}, {"blue", NULL}};

    if (index >= U_ARRAY_LEN(words))
        return NULL;
    *help = words[index][1];
    return words[index][0];
}

/* Rows name only the fields that they use. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

#define AT(field) offsetof(struct settings, field)

static const struct cmdline_option options[] = {
    {'n', "name", "NAME", NULL, "first line\nsecond line", CMDLINE_TEXT, AT(name)},
    {'f', "flag", NULL, NULL, "a flag", CMDLINE_ON, AT(on)},
    {0, "flag-without-a-letter-but-with-a-long-name", NULL, count_call, "another"},
    {'D', NULL, "C", count_call, "letter only", .status = 7},
    {0, "color", "COLOR", NULL, "one of:", CMDLINE_CHOICE, AT(color), .choice = color_choice,
     .given = AT(color_given)},
    {'F', "no-flag", NULL, NULL, NULL, CMDLINE_OFF, AT(on)},
    {'c', "count", "N", NULL, NULL, CMDLINE_U32, AT(count), 1, 10, 1024, .status = 3},
    {'b', "big", "N", NULL, NULL, CMDLINE_U64, AT(big), 0, UINT64_MAX},
    {'s', "size", "SIZE", NULL, NULL, CMDLINE_SIZE, AT(bytes), 1024, 3 * 1024 * 1024},
    {'r', "ratio", "X", NULL, NULL, CMDLINE_RATIO, AT(ratio), 0, 2, 1},
    {0, "old", NULL, NULL, NULL, CMDLINE_IGNORED},
    {'h', "help", NULL, NULL, "print this", CMDLINE_END, .min = CMDLINE_HELP},
    {0, "version", NULL, NULL, "print the version", CMDLINE_END, .min = CMDLINE_VERSION},
};

/* Parses the words of a line. */
static enum cmdline_outcome parse(const char *line)
{
    static char words[200];
    static char *argv[20];
    struct cmdline cmdline = {
        .tables = {{options, U_ARRAY_LEN(options), &settings}, link_table(&settings.link)},
        .syntax_status = 9,
        .error = error};
    enum cmdline_outcome outcome;
    int argc = 0;
    char *at = words;
    char *word;

    memset(&settings, 0, sizeof(settings));
    error[0] = '\0';
    snprintf(words, sizeof(words), "%s", line);
    argv[argc++] = (char *)(uintptr_t) "program";
    while ((word = strsep(&at, " ")) != NULL)
        if (word[0] != '\0')
            argv[argc++] = word;
    argv[argc] = NULL;
    outcome = cmdline_parse(&cmdline, argc, argv, &rest);
    status = cmdline.status;
    return outcome;
}

static void test_all_forms(void **unused)
{
    assert_int_equal(parse(""), CMDLINE_RUN);
    assert_null(rest[0]);
    assert_int_equal(parse("-n a -f --flag peer"), CMDLINE_RUN);
    assert_string_equal(settings.name, "a");
    assert_true(settings.on);
    assert_string_equal(rest[0], "peer");
    assert_null(rest[1]);
    assert_int_equal(parse("-fnb --flag-without-a-letter-but-with-a-long-name -Dx"), CMDLINE_RUN);
    assert_string_equal(settings.name, "b");
    assert_int_equal(settings.calls, 2);
    assert_int_equal(parse("--name=c --io=tap --mtu 9000"), CMDLINE_RUN);
    assert_string_equal(settings.name, "c");
    assert_int_equal(settings.link.mtu, 9000);
    assert_int_equal(settings.link.io, 3);
}

static void test_values(void **unused)
{
    assert_int_equal(parse("-f -F -c10 -b18446744073709551615 -s 3m -r0.5 --old"), CMDLINE_RUN);
    assert_false(settings.on);
    assert_int_equal(settings.count, 10 * 1024);
    assert_true(settings.big == UINT64_MAX);
    assert_int_equal(settings.bytes, 3 * 1024 * 1024);
    assert_true(settings.ratio == 0.5);
    assert_false(settings.color_given);
    assert_int_equal(parse("--color=blue"), CMDLINE_RUN);
    assert_int_equal(settings.color, 1);
    assert_true(settings.color_given);
}

static void test_help_and_version(void **unused)
{
    assert_int_equal(parse("-h"), CMDLINE_HELP);
    assert_int_equal(parse("--help"), CMDLINE_HELP);
    assert_int_equal(parse("-f --version --name="), CMDLINE_VERSION);
    assert_true(settings.on);
}

static void test_mistakes(void **unused)
{
    static const struct {
        const char *line;
        int status;
        const char *message;
    } wrong[] = {
        {"-x", 9, "-x: there is no such option; see --help"},
        {"-fx", 9, "-x: there is no such option; see --help"},
        {"-n", 9, "-n needs an argument; see --help"},
        {"--nonsense=1", 9, "--nonsense=1: there is no such option; see --help"},
        {"-f --name", 9, "--name needs an argument; see --help"},
        {"--flag=1", 9, "--flag takes no argument"},
        {"--name= -h", 64, "--name: the argument is empty"},
        {"-Dbad", 7, "-D: it is bad"},
        {"-c11", 3, "-c: \"11\" is not a number from 1 to 10"},
        {"--count=0", 3, "--count: \"0\" is not a number from 1 to 10"},
        {"-s4m", 64, "-s: \"4m\" is not a size from 1k to 3m"},
        {"-r0", 64, "-r: \"0\" is not a number greater than 0 and at most 2"},
        {"--color=green", 64, "--color: \"green\" is not one of red, blue"},
        {"--io=nowhere", 64, "--io: \"nowhere\" is not one of auto, sock, uring, tap, xdp, dpdk"},
    };
    size_t i;

    for (i = 0; i < U_ARRAY_LEN(wrong); i++) {
        assert_int_equal(parse(wrong[i].line), CMDLINE_BAD);
        assert_string_equal(error, wrong[i].message);
        assert_int_equal(status, wrong[i].status);
    }
}

static void test_printed(void **unused)
{
    static const char own[] = "  -n, --name=NAME             first line\n"
                              "                              second line\n"
                              "  -f, --flag                  a flag\n"
                              "      --flag-without-a-letter-but-with-a-long-name\n"
                              "                              another\n"
                              "  -D C                        letter only\n"
                              "      --color=COLOR           one of:\n"
                              "                              red: like blood\n"
                              "  -h, --help                  print this\n";
    struct cmdline_table link = link_table(&settings.link);
    char *text = NULL;
    size_t len;
    FILE *to = open_memstream(&text, &len);

    assert_non_null(to);
    cmdline_print_options(to, options, U_ARRAY_LEN(options));
    cmdline_print_options(to, link.options, link.count);
    assert_int_equal(fclose(to), 0);
    assert_ptr_equal(strstr(text, own), text);
    assert_non_null(strstr(text, "\n      --io=MODE "));
    assert_non_null(strstr(text, "\n                              dpdk: "));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_forms),        cmocka_unit_test(test_values),
        cmocka_unit_test(test_help_and_version), cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_printed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
