/* SPDX-License-Identifier: BSD-3-Clause */
/* The empty request that both parsers begin with. */
#ifndef MCPROTO_REQUEST_H
#define MCPROTO_REQUEST_H

#include "base/base.h"
#include "mcproto/mcproto.h"

/*
 * All but meta and binary. Field by field, which compilers turn into a few wide stores: for a
 * struct of this size they take a memset() for a call or a string instruction, either of which
 * costs more than the whole parse of a get.
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
    req->swallow_bytes = 0;
    req->close = 0;
}

#endif
