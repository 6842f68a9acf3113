/* SPDX-License-Identifier: BSD-3-Clause */
/* Writing replies: status lines, headers of values, numbers. */
#include "base/base.h"
#include "mcproto/mcproto.h"

struct status_line {
    const char *text;
    u_u32 len;
};

#define STATUS_LINE(text)                                                                          \
    {                                                                                              \
        text "\r\n", sizeof(text "\r\n") - 1                                                       \
    }

/* In the order of enum mc_status. */
static const struct status_line status_lines[] = {
    STATUS_LINE("STORED"),
    STATUS_LINE("NOT_STORED"),
    STATUS_LINE("EXISTS"),
    STATUS_LINE("NOT_FOUND"),
    STATUS_LINE("DELETED"),
    STATUS_LINE("TOUCHED"),
    STATUS_LINE("OK"),
    STATUS_LINE("END"),
    STATUS_LINE("RESET"),
    STATUS_LINE("ERROR"),
    STATUS_LINE("CLIENT_ERROR bad command line format"),
    STATUS_LINE("CLIENT_ERROR bad data chunk"),
    STATUS_LINE("CLIENT_ERROR invalid numeric delta argument"),
    STATUS_LINE("CLIENT_ERROR invalid exptime argument"),
    STATUS_LINE("CLIENT_ERROR cannot increment or decrement non-numeric value"),
    STATUS_LINE("SERVER_ERROR object too large for cache"),
    STATUS_LINE("SERVER_ERROR out of memory storing object"),
    STATUS_LINE("SERVER_ERROR out of memory"),
    STATUS_LINE("ERROR Too many open connections"),
    STATUS_LINE("CLIENT_ERROR flush_all not allowed"),
};

U_STATIC_ASSERT(U_ARRAY_LEN(status_lines) == MC_STATUS_COUNT, status_lines_are_complete);

static u_u8 *text_write(u_u8 *out, const void *text, u_u32 len)
{
    u_copy(out, text, len);
    return out + len;
}

const char *mc_status_text(enum mc_status status, u_u32 *len)
{
    U_ASSERT((unsigned)status < MC_STATUS_COUNT);
    *len = status_lines[status].len;
    return status_lines[status].text;
}

u_u32 mc_write_status(u_u8 *out, enum mc_status status)
{
    u_u32 len;
    const char *text = mc_status_text(status, &len);

    u_copy(out, text, len);
    return len;
}

u_u32 mc_write_value_header(u_u8 *out, const u_u8 *key, u_u32 key_len, u_u32 flags,
                            u_u32 value_bytes, const u_u64 *cas)
{
    u_u8 *at;

    U_ASSERT(key_len <= MC_KEY_MAX);
    at = text_write(out, "VALUE ", 6);
    at = text_write(at, key, key_len);
    *at++ = ' ';
    at += mc_write_u64(at, flags);
    *at++ = ' ';
    at += mc_write_u64(at, value_bytes);
    if (cas != U_NULL) {
        *at++ = ' ';
        at += mc_write_u64(at, *cas);
    }
    at = text_write(at, "\r\n", 2);
    return (u_u32)(at - out);
}

u_u32 mc_write_number(u_u8 *out, u_u64 number)
{
    u_u32 len = mc_write_u64(out, number);

    u_copy(out + len, "\r\n", 2);
    return len + 2;
}
