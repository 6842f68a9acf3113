/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of the reference parser that reads mg, ms, md, ma and me. */
#ifndef TEST_MCPROTO_REF_META_H
#define TEST_MCPROTO_REF_META_H

#include "mcproto/mcproto.h"
#include "mcproto/meta_parse.h"

#define TOKENS 23

/* The first words of a line. */
struct words {
    int count;
    const u_u8 *at[TOKENS];
    u_u32 len[TOKENS];
};

/*
 * Fills in key, value_bytes and meta from a line that has enough words. Returns the error with its
 * CRLF, or null; req->discard_bytes belongs to the error.
 */
const char *ref_meta(const struct words *words, struct mc_request *req);

/* Compares keys and meta of two well-formed requests. */
int ref_meta_same(const struct mc_request *a, const struct mc_request *b);

#endif
