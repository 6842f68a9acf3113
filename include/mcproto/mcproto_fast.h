/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parsers and a writer for the three lines that make up nearly all traffic: "get <key>",
 * "set <key> <flags> <exptime> <bytes>" and the hit of a short value. mc_parse() begins with them;
 * a server may call them by themselves, as ucached's fast path does. They are not part of the
 * library's public interface and may change with any release.
 */
#ifndef MCPROTO_MCPROTO_FAST_H
#define MCPROTO_MCPROTO_FAST_H

#include "mcproto/mcproto.h"

/* Where the key begins in either line. */
#define MC_FAST_KEY_OFFSET 4

/*
 * Parses "get <key>" with one space, a key of 1 to MC_KEY_MAX bytes without control characters, and
 * CRLF or LF. Returns the length of the line with its end, and in *key_len that of the key. Returns
 * 0 if the line is incomplete or any other line: mc_parse() decides.
 */
u_u32 mc_parse_get(const u_u8 *buf, u_u32 len, u_u32 *key_len);

/* The numbers of a set. */
struct mc_set {
    u_u32 key_len;
    u_u32 flags;
    u_u32 exptime;
    u_u32 value_bytes;
};

/*
 * Parses "set <key> <flags> <exptime> <bytes>" with one space between the words, a key as above and
 * numbers of one to nine digits. Returns the length of the line with its end, or 0 as above; *set
 * is then undefined. The data block follows the line.
 */
u_u32 mc_parse_set(const u_u8 *buf, u_u32 len, struct mc_set *set);

/* mc_parse() for an input that mc_parse_get() has returned 0 for. */
enum mc_outcome mc_parse_except_get(const u_u8 *buf, u_u32 len, struct mc_request *req);

/* Makes the request that mc_parse() returns for a line at buf that mc_parse_set() has parsed. */
void mc_request_from_set(struct mc_request *req, const u_u8 *buf, u_u32 line_bytes,
                         const struct mc_set *set);

#define MC_SHORT_VALUE_MAX 32
#define MC_SHORT_HIT_MAX (6 + MC_KEY_MAX + 7 + MC_SHORT_VALUE_MAX + 7)

/*
 * Writes the complete reply to a get of one key whose value has flags 0 and at most
 * MC_SHORT_VALUE_MAX bytes (without its CRLF): VALUE line, data, END. out has MC_SHORT_HIT_MAX
 * bytes. Returns the length.
 */
u_u32 mc_write_short_hit(u_u8 *out, const u_u8 *key, u_u32 key_len, const u_u8 *value,
                         u_u32 value_bytes);

#endif
