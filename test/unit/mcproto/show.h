/* SPDX-License-Identifier: BSD-3-Clause */
/* The outcome of a parser as one line of text, so that tables of expectations can be read. */
#ifndef TEST_MCPROTO_SHOW_H
#define TEST_MCPROTO_SHOW_H

#include <stddef.h>

#include "mcproto/mcproto.h"

/*
 * "more", "set noreply key=k flags=5 bytes=3" (fields that are zero are left out) or "malformed
 * set noreply error=... swallow=5 close". Bytes that are not printable come as \xx.
 */
const char *show(enum mc_outcome outcome, const struct mc_request *req, char *out, size_t size);

/* The same of mc_parse_binary(); of an error packet the text alone is shown. */
const char *show_binary(enum mc_outcome outcome, const struct mc_request *req, char *out,
                        size_t size);

#endif
