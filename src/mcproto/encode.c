/* SPDX-License-Identifier: BSD-3-Clause */
/* Base64 for binary keys, and percent encoding for keys in dumps and logs. */
#include "base/base.h"
#include "mcproto/mcproto.h"

static const char base64_letters[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

u_u32 mc_base64_encode(u_u8 *out, const u_u8 *in, u_u32 len)
{
    u_u8 *at = out;
    u_u32 i;

    for (i = 0; i < len; i += 3) {
        u_u32 left = len - i;
        u_u32 bits = (u_u32)in[i] << 16;

        if (left > 1)
            bits |= (u_u32)in[i + 1] << 8;
        if (left > 2)
            bits |= in[i + 2];
        at[0] = (u_u8)base64_letters[bits >> 18];
        at[1] = (u_u8)base64_letters[bits >> 12 & 63];
        at[2] = (u_u8)(left > 1 ? base64_letters[bits >> 6 & 63] : '=');
        at[3] = (u_u8)(left > 2 ? base64_letters[bits & 63] : '=');
        at += 4;
    }
    return (u_u32)(at - out);
}

/* The six bits of a character, 0 for the padding; -1 if it is not of the alphabet. */
static int base64_value(u_u8 byte)
{
    if (byte >= 'A' && byte <= 'Z')
        return byte - 'A';
    if (byte >= 'a' && byte <= 'z')
        return byte - 'a' + 26;
    if (byte >= '0' && byte <= '9')
        return byte - '0' + 52;
    if (byte == '+')
        return 62;
    if (byte == '/')
        return 63;
    return byte == '=' ? 0 : -1;
}

static u_u32 base64_count(const u_u8 *in, u_u32 len)
{
    u_u32 count = 0;
    u_u32 i;

    for (i = 0; i < len; i++)
        count += base64_value(in[i]) >= 0;
    return count;
}

u_u32 mc_base64_decode(u_u8 *out, const u_u8 *in, u_u32 len)
{
    u_u8 *at = out;
    u_u32 bits = 0;
    u_u32 have = 0; /* characters of the current group */
    u_u32 padding = 0;
    u_u32 i;

    if (base64_count(in, len) % 4 != 0)
        return 0;
    for (i = 0; i < len; i++) {
        int value = base64_value(in[i]);

        if (value < 0)
            continue;
        bits = bits << 6 | (u_u32)value;
        padding += in[i] == '=';
        if (++have < 4)
            continue;
        if (padding > 2)
            return 0;
        at[0] = (u_u8)(bits >> 16);
        at[1] = (u_u8)(bits >> 8);
        at[2] = (u_u8)bits;
        at += 3 - padding;
        if (padding > 0)
            break;
        have = 0;
    }
    return (u_u32)(at - out);
}

static int is_unreserved(u_u8 byte)
{
    return (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z') ||
           (byte >= '0' && byte <= '9') || byte == '-' || byte == '.' || byte == '_' || byte == '~';
}

u_u32 mc_uri_encode(u_u8 *out, const u_u8 *in, u_u32 len)
{
    static const char digits[] = "0123456789ABCDEF";
    u_u8 *at = out;
    u_u32 i;

    for (i = 0; i < len; i++) {
        if (is_unreserved(in[i])) {
            *at++ = in[i];
            continue;
        }
        at[0] = '%';
        at[1] = (u_u8)digits[in[i] >> 4];
        at[2] = (u_u8)digits[in[i] & 15];
        at += 3;
    }
    return (u_u32)(at - out);
}
