/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The commands by name.
 *
 * A name is read into one 64-bit word and compared with those of the same length: at most seven
 * comparisons of a register with a constant in a few cache lines, in the order of how often the
 * commands are used. The names longer than a word compare the rest as well.
 */
#include "mcproto/command.h"

#include "base/base.h"
#include "mcproto/scan.h"

#define COMMAND_NAME_MAX 14

/* Sorted by the length of the name, then by expected frequency. */
static const struct mc_command_entry commands[] = {
    {"mg", 2, MC_CMD_MG, MC_SHAPE_META},
    {"ms", 2, MC_CMD_MS, MC_SHAPE_META},
    {"md", 2, MC_CMD_MD, MC_SHAPE_META},
    {"ma", 2, MC_CMD_MA, MC_SHAPE_META},
    {"mn", 2, MC_CMD_MN, MC_SHAPE_PLAIN},
    {"me", 2, MC_CMD_ME, MC_SHAPE_META},
    {"get", 3, MC_CMD_GET, MC_SHAPE_KEYS},
    {"set", 3, MC_CMD_SET, MC_SHAPE_STORAGE},
    {"add", 3, MC_CMD_ADD, MC_SHAPE_STORAGE},
    {"cas", 3, MC_CMD_CAS, MC_SHAPE_STORAGE},
    {"gat", 3, MC_CMD_GAT, MC_SHAPE_GAT},
    {"lru", 3, MC_CMD_LRU, MC_SHAPE_ADMIN},
    {"gets", 4, MC_CMD_GETS, MC_SHAPE_KEYS},
    {"incr", 4, MC_CMD_INCR, MC_SHAPE_COUNTER},
    {"decr", 4, MC_CMD_DECR, MC_SHAPE_COUNTER},
    {"gats", 4, MC_CMD_GATS, MC_SHAPE_GAT},
    {"quit", 4, MC_CMD_QUIT, MC_SHAPE_PLAIN},
    {"touch", 5, MC_CMD_TOUCH, MC_SHAPE_TOUCH},
    {"stats", 5, MC_CMD_STATS, MC_SHAPE_WORDS},
    {"watch", 5, MC_CMD_WATCH, MC_SHAPE_WORDS},
    {"slabs", 5, MC_CMD_SLABS, MC_SHAPE_ADMIN},
    {"delete", 6, MC_CMD_DELETE, MC_SHAPE_DELETE},
    {"append", 6, MC_CMD_APPEND, MC_SHAPE_STORAGE},
    {"replace", 7, MC_CMD_REPLACE, MC_SHAPE_STORAGE},
    {"prepend", 7, MC_CMD_PREPEND, MC_SHAPE_STORAGE},
    {"version", 7, MC_CMD_VERSION, MC_SHAPE_PLAIN},
    {"shutdown", 8, MC_CMD_SHUTDOWN, MC_SHAPE_ADMIN},
    {"extstore", 8, MC_CMD_EXTSTORE, MC_SHAPE_ADMIN},
    {"flush_all", 9, MC_CMD_FLUSH_ALL, MC_SHAPE_FLUSH_ALL},
    {"verbosity", 9, MC_CMD_VERBOSITY, MC_SHAPE_VERBOSITY},
    {"debugtime", 9, MC_CMD_DEBUGTIME, MC_SHAPE_ADMIN},
    {"debugitem", 9, MC_CMD_DEBUGITEM, MC_SHAPE_ADMIN},
    {"misbehave", 9, MC_CMD_MISBEHAVE, MC_SHAPE_ADMIN},
    {"lru_crawler", 11, MC_CMD_LRU_CRAWLER, MC_SHAPE_ADMIN},
    {"refresh_certs", 13, MC_CMD_REFRESH_CERTS, MC_SHAPE_ADMIN},
    {"cache_memlimit", 14, MC_CMD_CACHE_MEMLIMIT, MC_SHAPE_ADMIN},
};

/* Where the names of each length begin in the table; those of length n end where n + 1 begins. */
static const u_u8 commands_first[COMMAND_NAME_MAX + 2] = {0,  0,  0,  6,  12, 17, 21, 23,
                                                          26, 28, 33, 33, 34, 34, 35, 36};

U_STATIC_ASSERT(U_ARRAY_LEN(commands) == 36, commands_first_covers_the_table);

const struct mc_command_entry *mc_command_find(const u_u8 *name, const u_u8 *end)
{
    u_u32 len = (u_u32)(end - name);
    u_u64 rest = 0;
    u_u64 word;
    u_u32 i;

    if (len > COMMAND_NAME_MAX)
        return (const struct mc_command_entry *)U_NULL;
    word = len < 8 ? mc_word_load_some(name, len) : mc_word_load(name);
    if (len > 8)
        rest = mc_word_load_some(name + 8, len - 8);
    for (i = commands_first[len]; i < commands_first[len + 1]; i++) {
        const struct mc_command_entry *entry = &commands[i];
        if (mc_word_load(entry->name) == word && mc_word_load(entry->name + 8) == rest)
            return entry;
    }
    return (const struct mc_command_entry *)U_NULL;
}

const char *mc_command_name(enum mc_command command)
{
    u_u32 i;

    for (i = 0; i < U_ARRAY_LEN(commands); i++)
        if (commands[i].command == (u_u8)command)
            return (const char *)commands[i].name;
    return command == MC_CMD_NOOP ? "noop" : "none";
}

int mc_command_has_value(enum mc_command command)
{
    return command >= MC_CMD_SET && command <= MC_CMD_MS;
}

int mc_command_is_meta(enum mc_command command)
{
    return command == MC_CMD_MS || (command >= MC_CMD_MG && command <= MC_CMD_ME);
}
