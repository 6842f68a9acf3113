/* SPDX-License-Identifier: BSD-3-Clause */
/* Writing replies: status lines, headers of values, numbers. */
#include "base/base.h"
#include "mcproto/write.h"

struct status_line {
    const char *text;
    u_u32 len;
};

#define STATUS_LINE(name, text) {text "\r\n", sizeof(text "\r\n") - 1},

static const struct status_line status_lines[] = {MC_STATUS_LIST(STATUS_LINE)};

U_STATIC_ASSERT(U_ARRAY_LEN(status_lines) == MC_STATUS_COUNT, status_lines_are_complete);

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
    at = mc_append(out, "VALUE ", 6);
    u_copy_short(at, key, key_len);
    at += key_len;
    *at++ = ' ';
    at = mc_append_number(at, flags);
    *at++ = ' ';
    at = mc_append_number(at, value_bytes);
    if (cas != U_NULL) {
        *at++ = ' ';
        at = mc_append_number(at, *cas);
    }
    at = mc_append(at, "\r\n", 2);
    return (u_u32)(at - out);
}

u_u32 mc_write_number(u_u8 *out, u_u64 number)
{
    u_u32 len = mc_write_u64(out, number);

    u_copy(out + len, "\r\n", 2);
    return len + 2;
}
