/* SPDX-License-Identifier: BSD-3-Clause */
/* The parsers and the writer of mcproto_fast.h. */
#include "mcproto/mcproto_fast.h"

#include "base/base.h"
#include "mcproto/request.h"
#include "mcproto/scan.h"
#include "mcproto/write.h"

/* Bytes of "get " and CRLF. */
#define GET_FRAME_BYTES (MC_FAST_KEY_OFFSET + 2)

/* A get that more input follows, or whose line ends in LF. */
static u_u32 get_find_end(const u_u8 *buf, u_u32 len, u_u32 *key_len)
{
    const u_u8 *key = buf + MC_FAST_KEY_OFFSET;
    const u_u8 *end = buf + u_min32(len, MC_FAST_KEY_OFFSET + MC_KEY_MAX + 2);
    const u_u8 *stop = mc_scan_blank(key, end);

    if (stop == U_NULL || stop == key || stop - key > MC_KEY_MAX)
        return 0;
    *key_len = (u_u32)(stop - key);
    if (*stop == '\r' && stop + 1 != end)
        stop++;
    return *stop == '\n' ? (u_u32)(stop - buf) + 1 : 0;
}

/* Keys of any length. If the line is all of the input, the end of the key needs no search. */
static U_NOINLINE u_u32 get_any_length(const u_u8 *buf, u_u32 len, u_u32 *key_len)
{
    if (len <= MC_FAST_KEY_OFFSET || !u_equal(buf, "get ", MC_FAST_KEY_OFFSET))
        return 0;
    if (U_LIKELY(len > GET_FRAME_BYTES && len <= GET_FRAME_BYTES + MC_KEY_MAX &&
                 u_equal(buf + len - 2, "\r\n", 2) &&
                 !mc_has_blank(buf + MC_FAST_KEY_OFFSET, len - GET_FRAME_BYTES))) {
        *key_len = len - GET_FRAME_BYTES;
        return len;
    }
    return get_find_end(buf, len, key_len);
}

/* Keys of 8 to 16 bytes are checked here as two words; a call handles the others. */
u_u32 mc_parse_get(const u_u8 *buf, u_u32 len, u_u32 *key_len)
{
    if (U_LIKELY(len >= GET_FRAME_BYTES + 8 && len <= GET_FRAME_BYTES + 16 &&
                 u_equal(buf, "get ", MC_FAST_KEY_OFFSET) && u_equal(buf + len - 2, "\r\n", 2) &&
                 !mc_has_blank_pair(buf + MC_FAST_KEY_OFFSET, len - GET_FRAME_BYTES))) {
        *key_len = len - GET_FRAME_BYTES;
        return len;
    }
    return get_any_length(buf, len, key_len);
}

/* Reads one to nine digits that another byte follows; returns where that byte is, or null. */
U_INLINE const u_u8 *read_digits(const u_u8 *at, const u_u8 *end, u_u32 *number)
{
    u_u32 digits = 1;
    u_u32 digit;
    u_u32 n;

    if (end - at < 2)
        return (const u_u8 *)U_NULL;
    n = (u_u32)*at++ - '0';
    if (n > 9)
        return (const u_u8 *)U_NULL;
    while ((digit = (u_u32)*at - '0') <= 9) {
        if (++digits > 9 || ++at == end)
            return (const u_u8 *)U_NULL;
        n = n * 10 + digit;
    }
    *number = n;
    return at;
}

/*
 * Reads " <flags> <exptime> <bytes>"; returns the end, or null. Flags and exptime are mostly zero,
 * which one comparison of five bytes recognizes.
 */
U_INLINE const u_u8 *read_set_numbers(const u_u8 *at, const u_u8 *end, struct mc_set *set)
{
    const u_u32 zeros_bytes = 5;

    if (U_LIKELY(end - at > (long)zeros_bytes && u_equal(at, " 0 0 ", zeros_bytes))) {
        set->flags = 0;
        set->exptime = 0;
        return read_digits(at + zeros_bytes, end, &set->value_bytes);
    }
    if (*at != ' ')
        return (const u_u8 *)U_NULL;
    at = read_digits(at + 1, end, &set->flags);
    if (at == U_NULL || *at != ' ')
        return (const u_u8 *)U_NULL;
    at = read_digits(at + 1, end, &set->exptime);
    if (at == U_NULL || *at != ' ')
        return (const u_u8 *)U_NULL;
    return read_digits(at + 1, end, &set->value_bytes);
}

u_u32 mc_parse_set(const u_u8 *buf, u_u32 len, struct mc_set *set)
{
    const u_u8 *end = buf + len;
    const u_u8 *key = buf + MC_FAST_KEY_OFFSET;
    const u_u8 *at;

    if (len <= MC_FAST_KEY_OFFSET || !u_equal(buf, "set ", MC_FAST_KEY_OFFSET))
        return 0;
    at = mc_scan_blank(key, key + u_min32(len - MC_FAST_KEY_OFFSET, MC_KEY_MAX + 1));
    if (at == U_NULL || at == key)
        return 0;
    set->key_len = (u_u32)(at - key);
    at = read_set_numbers(at, end, set);
    if (at == U_NULL || set->value_bytes > MC_VALUE_MAX)
        return 0;
    if (*at == '\r' && at + 1 != end)
        at++;
    return *at == '\n' ? (u_u32)(at - buf) + 1 : 0;
}

void mc_request_from_set(struct mc_request *req, const u_u8 *buf, u_u32 line_bytes,
                         const struct mc_set *set)
{
    mc_request_clear(req);
    req->command = MC_CMD_SET;
    req->line_bytes = line_bytes;
    req->key = buf + MC_FAST_KEY_OFFSET;
    req->key_len = set->key_len;
    req->flags = set->flags;
    req->exptime = (u_s32)set->exptime;
    req->value_bytes = set->value_bytes;
}

u_u32 mc_write_short_hit(u_u8 *out, const u_u8 *key, u_u32 key_len, const u_u8 *value,
                         u_u32 value_bytes)
{
    u_u8 *at;

    U_ASSERT(key_len <= MC_KEY_MAX && value_bytes <= MC_SHORT_VALUE_MAX);
    at = mc_append(out, "VALUE ", 6);
    u_copy_short(at, key, key_len);
    at = mc_append(at + key_len, " 0 ", 3);
    if (value_bytes > 9) {
        *at++ = (u_u8)('0' + value_bytes / 10);
        *at++ = (u_u8)('0' + value_bytes % 10);
    } else {
        *at++ = (u_u8)('0' + value_bytes);
    }
    at = mc_append(at, "\r\n", 2);
    u_copy_short(at, value, value_bytes);
    at = mc_append(at + value_bytes, "\r\nEND\r\n", 7);
    return (u_u32)(at - out);
}
