/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Numbers on a command line, in memcached's two styles.
 *
 * Strict: digits only (signed: after an optional '-'), the whole token, at most 11 characters for
 * 32 bits and 22 for 64. Leading zeros are allowed. Loose, as strtol(): blanks and a '+' may
 * precede the number, anything may follow a blank or NUL after it, and the value is truncated to 32
 * bits. Each function returns 1 with the number, or 0 and leaves *number unchanged.
 */
#ifndef MCPROTO_NUM_H
#define MCPROTO_NUM_H

#include "mcproto/tokenize.h"

int mc_num_u32(const struct mc_token *token, u_u32 *number);
int mc_num_s32(const struct mc_token *token, u_s32 *number);
int mc_num_u64(const struct mc_token *token, u_u64 *number);

/* Loose: the flags of a storage command. Negative numbers are refused. */
int mc_num_flags(const struct mc_token *token, u_u32 *number);

/* Loose: the expiry time of a storage command; must fit 64 bits before it is truncated. */
int mc_num_exptime(const struct mc_token *token, u_s32 *number);

#endif
