/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading the arguments of mg, ms, md, ma and me. */
#ifndef MCPROTO_META_PARSE_H
#define MCPROTO_META_PARSE_H

#include "mcproto/mcproto.h"

/*
 * Reads what stands behind the name of the command, [at, end), into req->meta and the common
 * fields. The request is zero but for command and line_bytes. Returns MC_STATUS_OK, or the error to
 * answer with; req->discard_bytes is then the data block of an ms that goes with it, if any.
 */
enum mc_status mc_meta_parse(const u_u8 *at, const u_u8 *end, struct mc_request *req);

/* The MC_META_... bit of a letter, 0 if it is no flag. */
u_u32 mc_meta_flag_bit(u_u8 letter);

#endif
