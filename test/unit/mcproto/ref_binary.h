/* SPDX-License-Identifier: BSD-3-Clause */
/* A second parser of binary packets, for comparison: see ref_parser.h. */
#ifndef TEST_MCPROTO_REF_BINARY_H
#define TEST_MCPROTO_REF_BINARY_H

#include "mcproto/mcproto.h"

/* The same contract as mc_parse_binary(). */
enum mc_outcome ref_parse_binary(const u_u8 *buf, u_u32 len, struct mc_request *req);

/* Compares all fields that the outcome, which both had, sets. */
int ref_binary_same(enum mc_outcome outcome, const struct mc_request *a,
                    const struct mc_request *b);

#endif
