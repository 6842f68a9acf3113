/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of commands: all that exist are found, nothing else is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "guard.h"
#include "mcproto/commands.h"

/* In the order of enum mc_command; noop is no word of the text protocol. */
static const char *const names[] = {
    "none",        "get",
    "gets",        "gat",
    "gats",        "set",
    "add",         "replace",
    "append",      "prepend",
    "cas",         "ms",
    "delete",      "incr",
    "decr",        "touch",
    "mg",          "md",
    "ma",          "me",
    "mn",          "flush_all",
    "version",     "verbosity",
    "stats",       "quit",
    "noop",        "cache_memlimit",
    "slabs",       "lru",
    "lru_crawler", "watch",
    "shutdown",    "refresh_certs",
    "extstore",    "misbehave",
    "debugtime",   "debugitem",
    "config",
};

#define COMMANDS ((int)(sizeof names / sizeof names[0]))

static const struct mc_command_entry *find(const char *name, size_t len)
{
    const u_u8 *in = guard_behind(name, len);
    return mc_command_find(in, in + len);
}

static int is_name(const char *text, size_t len)
{
    int i;

    for (i = 1; i < COMMANDS; i++)
        if (i != MC_CMD_NOOP && strlen(names[i]) == len && memcmp(names[i], text, len) == 0)
            return 1;
    return 0;
}

static void every_name_is_found(void **state)
{
    int i;

    assert_int_equal(COMMANDS, MC_CMD_CONFIG + 1);
    assert_string_equal(mc_command_name(MC_CMD_NONE), "none");
    for (i = 1; i < COMMANDS; i++) {
        const struct mc_command_entry *entry = find(names[i], strlen(names[i]));
        assert_string_equal(mc_command_name((enum mc_command)i), names[i]);
        if (i == MC_CMD_NOOP) {
            assert_null(entry);
            continue;
        }
        assert_non_null(entry);
        assert_int_equal(entry->command, i);
    }
}

/* Every name with one byte changed, cut off or added. */
static void neighbours_are_not_found(void **state)
{
    int i;
    size_t at;
    int byte;

    for (i = 1; i < COMMANDS; i++) {
        size_t len = strlen(names[i]);
        char text[17];
        for (at = 0; at <= len; at++)
            for (byte = 0; byte < 256; byte++) {
                size_t changed = at < len ? len : len + 1;
                memcpy(text, names[i], len);
                text[at] = (char)byte;
                assert_int_equal(find(text, changed) != NULL, is_name(text, changed));
            }
        for (at = 0; at < len; at++)
            assert_int_equal(find(names[i], at) != NULL, is_name(names[i], at));
    }
    assert_null(find("", 0));
    assert_null(find("flush_all_and_more", 18));
    assert_null(find("get\0", 4));
    assert_null(find("GET", 3));
}

static void kinds_of_commands(void **state)
{
    int i;

    for (i = 0; i < COMMANDS; i++) {
        int storage = (i >= MC_CMD_SET && i <= MC_CMD_CAS) || i == MC_CMD_MS;
        int meta = names[i][0] == 'm' && strlen(names[i]) == 2 && i != MC_CMD_MN;
        assert_int_equal(mc_command_has_value((enum mc_command)i), storage);
        assert_int_equal(mc_command_is_meta((enum mc_command)i), meta);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_name_is_found),
        cmocka_unit_test(neighbours_are_not_found),
        cmocka_unit_test(kinds_of_commands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
