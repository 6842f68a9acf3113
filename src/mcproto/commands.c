/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of text commands, in the order of the lengths of their names.
 *
 * A lookup reads the name into one or two 64-bit words and compares them with the entries of its
 * length: at most six. Within a length the frequent commands come first.
 */
#include "mcproto/commands.h"

#include "base/base.h"
#include "mcproto/scan.h"

static const struct mc_command_entry commands[] = {
    {"mg", MC_CMD_MG, MC_SHAPE_META},
    {"ms", MC_CMD_MS, MC_SHAPE_META},
    {"md", MC_CMD_MD, MC_SHAPE_META},
    {"ma", MC_CMD_MA, MC_SHAPE_META},
    {"mn", MC_CMD_MN, MC_SHAPE_NONE},
    {"me", MC_CMD_ME, MC_SHAPE_META},
    {"get", MC_CMD_GET, MC_SHAPE_KEYS},
    {"set", MC_CMD_SET, MC_SHAPE_STORAGE},
    {"add", MC_CMD_ADD, MC_SHAPE_STORAGE},
    {"cas", MC_CMD_CAS, MC_SHAPE_STORAGE},
    {"gat", MC_CMD_GAT, MC_SHAPE_GAT},
    {"lru", MC_CMD_LRU, MC_SHAPE_ADMIN},
    {"gets", MC_CMD_GETS, MC_SHAPE_KEYS},
    {"incr", MC_CMD_INCR, MC_SHAPE_COUNTER},
    {"decr", MC_CMD_DECR, MC_SHAPE_COUNTER},
    {"gats", MC_CMD_GATS, MC_SHAPE_GAT},
    {"quit", MC_CMD_QUIT, MC_SHAPE_NONE},
    {"touch", MC_CMD_TOUCH, MC_SHAPE_TOUCH},
    {"stats", MC_CMD_STATS, MC_SHAPE_WORDS},
    {"watch", MC_CMD_WATCH, MC_SHAPE_WORDS},
    {"slabs", MC_CMD_SLABS, MC_SHAPE_ADMIN},
    {"delete", MC_CMD_DELETE, MC_SHAPE_DELETE},
    {"append", MC_CMD_APPEND, MC_SHAPE_STORAGE},
    {"config", MC_CMD_CONFIG, MC_SHAPE_ADMIN},
    {"replace", MC_CMD_REPLACE, MC_SHAPE_STORAGE},
    {"prepend", MC_CMD_PREPEND, MC_SHAPE_STORAGE},
    {"version", MC_CMD_VERSION, MC_SHAPE_NONE},
    {"shutdown", MC_CMD_SHUTDOWN, MC_SHAPE_ADMIN},
    {"extstore", MC_CMD_EXTSTORE, MC_SHAPE_ADMIN},
    {"flush_all", MC_CMD_FLUSH_ALL, MC_SHAPE_FLUSH_ALL},
    {"verbosity", MC_CMD_VERBOSITY, MC_SHAPE_VERBOSITY},
    {"debugtime", MC_CMD_DEBUGTIME, MC_SHAPE_ADMIN},
    {"debugitem", MC_CMD_DEBUGITEM, MC_SHAPE_ADMIN},
    {"misbehave", MC_CMD_MISBEHAVE, MC_SHAPE_ADMIN},
    {"lru_crawler", MC_CMD_LRU_CRAWLER, MC_SHAPE_ADMIN},
    {"refresh_certs", MC_CMD_REFRESH_CERTS, MC_SHAPE_ADMIN},
    {"cache_memlimit", MC_CMD_CACHE_MEMLIMIT, MC_SHAPE_ADMIN},
};

/* Where the commands with a name of each length begin, and where the last ones end. */
static const u_u8 first_of_length[] = {0, 0, 0, 6, 12, 17, 21, 24, 27, 29, 34, 34, 35, 35, 36, 37};

const struct mc_command_entry *mc_command_find(const u_u8 *name, const u_u8 *end)
{
    u_u32 len = (u_u32)(end - name);
    const struct mc_command_entry *entry;
    const struct mc_command_entry *last;
    u_u64 second = 0;
    u_u64 first;

    if (len >= U_ARRAY_LEN(first_of_length) - 1)
        return (const struct mc_command_entry *)U_NULL;
    first = len < 8 ? mc_word_load_some(name, len) : mc_word_load(name);
    if (len > 8)
        second = mc_word_load_some(name + 8, len - 8);
    entry = &commands[first_of_length[len]];
    last = &commands[first_of_length[len + 1]];
    for (; entry != last; entry++)
        if (mc_word_load(entry->name) == first && mc_word_load(entry->name + 8) == second)
            return entry;
    return (const struct mc_command_entry *)U_NULL;
}

const char *mc_command_name(enum mc_command command)
{
    unsigned long i;

    for (i = 0; i < U_ARRAY_LEN(commands); i++)
        if (commands[i].command == (u_u8)command)
            return (const char *)commands[i].name;
    return command == MC_CMD_NOOP ? "noop" : "none";
}

int mc_command_has_value(enum mc_command command)
{
    return command == MC_CMD_SET || command == MC_CMD_ADD || command == MC_CMD_REPLACE ||
           command == MC_CMD_APPEND || command == MC_CMD_PREPEND || command == MC_CMD_CAS ||
           command == MC_CMD_MS;
}

int mc_command_is_retrieval(enum mc_command command)
{
    return command == MC_CMD_GET || command == MC_CMD_GETS || command == MC_CMD_GAT ||
           command == MC_CMD_GATS;
}

int mc_command_is_meta(enum mc_command command)
{
    return command == MC_CMD_MG || command == MC_CMD_MS || command == MC_CMD_MD ||
           command == MC_CMD_MA || command == MC_CMD_ME;
}
