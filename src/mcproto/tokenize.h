/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Splitting input into a line and a line into tokens.
 *
 * A line ends with LF, one CR before it belongs to the end. Only the space byte separates tokens;
 * all other bytes, TAB and NUL too, belong to tokens.
 */
#ifndef MCPROTO_TOKENIZE_H
#define MCPROTO_TOKENIZE_H

#include "ubase/types.h"

/* The number of tokens of a line that are parsed, the command's name included. */
#define MC_TOKENS_MAX 23

struct mc_token {
    const u_u8 *at;
    const u_u8 *end; /* behind its last byte; a token is never empty */
};

struct mc_line {
    const u_u8 *at;
    const u_u8 *end; /* where the line end (CRLF or LF) begins */
    u_u32 bytes;     /* length with the line end */
};

/* Takes the first line of buf. Returns 1, or 0 if there is no line end in buf .. buf + len. */
int mc_line_split(const u_u8 *buf, u_u32 len, struct mc_line *line);

/*
 * For input without a line end: 1 if the line may still grow, 0 if it is too long. The limit is
 * MC_LINE_MAX bytes, for the retrieval commands MC_KEYS_LINE_MAX.
 */
int mc_line_may_grow(const u_u8 *buf, u_u32 len);

/* Writes the first `max` tokens of [at, end) to tokens and returns how many there are. */
u_u32 mc_tokens_split(const u_u8 *at, const u_u8 *end, struct mc_token *tokens, u_u32 max);

#endif
