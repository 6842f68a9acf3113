/* SPDX-License-Identifier: BSD-3-Clause */
/* Clearing a request before parsing. */
#ifndef MCPROTO_REQUEST_H
#define MCPROTO_REQUEST_H

#include "base/base.h"
#include "mcproto/mcproto.h"

/*
 * Clears all but meta and binary. Compilers merge the assignments into a few wide stores; a
 * memset() of this size is a call or a string instruction, which costs more than parsing a get.
 */
U_INLINE void mc_request_clear(struct mc_request *req)
{
    req->command = MC_CMD_NONE;
    req->line_bytes = 0;
    req->noreply = 0;
    req->key = (const u_u8 *)U_NULL;
    req->key_len = 0;
    req->args = (const u_u8 *)U_NULL;
    req->args_len = 0;
    req->flags = 0;
    req->exptime = 0;
    req->value_bytes = 0;
    req->cas = 0;
    req->delta = 0;
    req->level = 0;
    req->error = (const char *)U_NULL;
    req->error_len = 0;
    req->discard_bytes = 0;
    req->close = 0;
}

#endif
