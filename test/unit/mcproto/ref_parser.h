/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A second parser of the text protocol, for comparison: written from the description of the
 * protocol, with the C library, as plainly as possible and without regard to speed.
 */
#ifndef TEST_MCPROTO_REF_PARSER_H
#define TEST_MCPROTO_REF_PARSER_H

#include "mcproto/mcproto.h"

/* The same contract as mc_parse(). */
enum mc_outcome ref_parse(const u_u8 *buf, u_u32 len, struct mc_request *req);

/* Compares all fields, pointers by address and error texts by content. */
int ref_same(const struct mc_request *a, const struct mc_request *b);

#endif
