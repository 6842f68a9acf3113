/* SPDX-License-Identifier: BSD-3-Clause */
/* The text commands: name and shape of the arguments. */
#ifndef MCPROTO_COMMANDS_H
#define MCPROTO_COMMANDS_H

#include "mcproto/mcproto.h"

enum mc_shape {
    MC_SHAPE_KEYS,      /* <key>+ */
    MC_SHAPE_GAT,       /* <exptime> <key>+ */
    MC_SHAPE_STORAGE,   /* <key> <flags> <exptime> <bytes> [<cas>] [noreply] */
    MC_SHAPE_DELETE,    /* <key> [noreply] */
    MC_SHAPE_COUNTER,   /* <key> <delta> [noreply] */
    MC_SHAPE_TOUCH,     /* <key> <exptime> [noreply] */
    MC_SHAPE_META,      /* <key> [<bytes>] <flag>*: meta_parse.h */
    MC_SHAPE_FLUSH_ALL, /* [<delay>] [noreply] */
    MC_SHAPE_VERBOSITY, /* <level> [noreply] */
    MC_SHAPE_WORDS,     /* [<words>] */
    MC_SHAPE_ADMIN,     /* [<words>] [noreply] */
    MC_SHAPE_NONE       /* no arguments */
};

struct mc_command_entry {
    u_u8 name[16]; /* padded with zero bytes */
    u_u8 command;  /* enum mc_command */
    u_u8 shape;    /* enum mc_shape */
};

/* Finds the command named [name, end), in lower case and without spaces; null if there is none. */
const struct mc_command_entry *mc_command_find(const u_u8 *name, const u_u8 *end);

#endif
