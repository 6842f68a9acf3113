/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The commands by name.
 *
 * A name is read into one 64-bit word and compared with those of the same length: at most five
 * comparisons of a register with a constant in one or two cache lines, in the order of how often
 * the commands are used. The names longer than a word compare their ninth byte as well.
 */
#include "mcproto/command.h"

#include "base/base.h"
#include "mcproto/scan.h"

#define COMMAND_NAME_MAX 9

/* Sorted by the length of the name, then by expected frequency. */
static const struct mc_command_entry commands[] = {
    {"get", 3, MC_CMD_GET, MC_SHAPE_KEYS},
    {"set", 3, MC_CMD_SET, MC_SHAPE_STORAGE},
    {"add", 3, MC_CMD_ADD, MC_SHAPE_STORAGE},
    {"cas", 3, MC_CMD_CAS, MC_SHAPE_STORAGE},
    {"gat", 3, MC_CMD_GAT, MC_SHAPE_GAT},
    {"gets", 4, MC_CMD_GETS, MC_SHAPE_KEYS},
    {"incr", 4, MC_CMD_INCR, MC_SHAPE_COUNTER},
    {"decr", 4, MC_CMD_DECR, MC_SHAPE_COUNTER},
    {"gats", 4, MC_CMD_GATS, MC_SHAPE_GAT},
    {"quit", 4, MC_CMD_QUIT, MC_SHAPE_PLAIN},
    {"touch", 5, MC_CMD_TOUCH, MC_SHAPE_TOUCH},
    {"stats", 5, MC_CMD_STATS, MC_SHAPE_STATS},
    {"delete", 6, MC_CMD_DELETE, MC_SHAPE_DELETE},
    {"append", 6, MC_CMD_APPEND, MC_SHAPE_STORAGE},
    {"replace", 7, MC_CMD_REPLACE, MC_SHAPE_STORAGE},
    {"prepend", 7, MC_CMD_PREPEND, MC_SHAPE_STORAGE},
    {"version", 7, MC_CMD_VERSION, MC_SHAPE_PLAIN},
    {"flush_all", 9, MC_CMD_FLUSH_ALL, MC_SHAPE_FLUSH_ALL},
    {"verbosity", 9, MC_CMD_VERBOSITY, MC_SHAPE_VERBOSITY},
};

/* Where the names of each length begin in the table; those of length n end where n + 1 begins. */
static const u_u8 commands_first[COMMAND_NAME_MAX + 2] = {0, 0, 0, 0, 5, 10, 12, 14, 17, 17, 19};

U_STATIC_ASSERT(U_ARRAY_LEN(commands) == 19, commands_first_covers_the_table);

const struct mc_command_entry *mc_command_find(const u_u8 *name, const u_u8 *end)
{
    u_u32 len = (u_u32)(end - name);
    u_u64 word;
    u_u32 i;

    if (len > COMMAND_NAME_MAX)
        return (const struct mc_command_entry *)U_NULL;
    word = len < 8 ? mc_word_load_some(name, len) : mc_word_load(name);
    for (i = commands_first[len]; i < commands_first[len + 1]; i++) {
        const struct mc_command_entry *entry = &commands[i];
        if (mc_word_load(entry->name) == word && (len <= 8 || entry->name[8] == name[8]))
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
    return "none";
}

int mc_command_has_value(enum mc_command command)
{
    return command >= MC_CMD_SET && command <= MC_CMD_CAS;
}
