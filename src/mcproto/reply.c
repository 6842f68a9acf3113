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
    STATUS_LINE("SERVER_ERROR Out of memory allocating new item"),
    STATUS_LINE("SERVER_ERROR Out of memory during read"),
    STATUS_LINE("SERVER_ERROR out of memory reading request"),
    STATUS_LINE("SERVER_ERROR out of memory writing stats"),
    STATUS_LINE("ERROR Too many open connections"),
    STATUS_LINE("CLIENT_ERROR flush_all not allowed"),
    STATUS_LINE("MN"),
    STATUS_LINE("EN"),
    STATUS_LINE("CLIENT_ERROR options flags are too long"),
    STATUS_LINE("CLIENT_ERROR invalid flag"),
    STATUS_LINE("CLIENT_ERROR duplicate flag"),
    STATUS_LINE("CLIENT_ERROR invalid or duplicate flag"),
    STATUS_LINE("CLIENT_ERROR bad token in command line format"),
    STATUS_LINE("CLIENT_ERROR invalid numeric initial value"),
    STATUS_LINE("CLIENT_ERROR invalid numeric delta value"),
    STATUS_LINE("CLIENT_ERROR opaque token too long"),
    STATUS_LINE("CLIENT_ERROR error decoding key"),
    STATUS_LINE("CLIENT_ERROR invalid mode for ms M token"),
    STATUS_LINE("CLIENT_ERROR invalid mode for ma M token"),
    STATUS_LINE("SERVER_ERROR: shutdown not enabled"),
    STATUS_LINE("CLIENT_ERROR invalid shutdown mode"),
    STATUS_LINE("MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m"),
    STATUS_LINE("MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes"),
    STATUS_LINE("MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust"),
    STATUS_LINE("BUSY currently processing reassign request"),
    STATUS_LINE("BADCLASS invalid src or dst class id"),
    STATUS_LINE("NOSPARE source class has no spare pages"),
    STATUS_LINE("SAME src and dst class are identical"),
    STATUS_LINE("CLIENT_ERROR slab reassignment disabled"),
    STATUS_LINE("CLIENT_ERROR automove window too low or too high"),
    STATUS_LINE("ERROR hot and warm pcts must not exceed 80"),
    STATUS_LINE("ERROR hot/warm age factors must be greater than 0"),
    STATUS_LINE("ERROR failed to start lru crawler thread"),
    STATUS_LINE("ERROR failed to stop lru crawler thread"),
    STATUS_LINE("CLIENT_ERROR sleep must be one second or less"),
    STATUS_LINE("BUSY currently processing crawler request"),
    STATUS_LINE("BADCLASS invalid class id"),
    STATUS_LINE("NOTSTARTED no items to crawl"),
    STATUS_LINE("ERROR an unknown error happened"),
    STATUS_LINE("CLIENT_ERROR lru crawler disabled"),
    STATUS_LINE("ERROR metadump not allowed"),
    STATUS_LINE("ERROR key dump not allowed"),
    STATUS_LINE("ERROR cannot pipeline other commands before metadump"),
    STATUS_LINE("ERROR cannot pipeline other commands before mgdump"),
    STATUS_LINE("ERROR locked try again later"),
    STATUS_LINE("ERROR cannot pipeline other commands before watch"),
    STATUS_LINE("CLIENT_ERROR watch commands not allowed"),
    STATUS_LINE("WATCHER_TOO_MANY log watcher limit reached"),
    STATUS_LINE("WATCHER_FAILED failed to add log watcher"),
    STATUS_LINE("CLIENT_ERROR usage: stats detail on|off|dump"),
    STATUS_LINE("CLIENT_ERROR stats detail not allowed"),
    STATUS_LINE("CLIENT_ERROR bad command line"),
    STATUS_LINE("CLIENT_ERROR Illegal slab id"),
    STATUS_LINE("CLIENT_ERROR stats cachedump not allowed"),
    STATUS_LINE("MISS"),
    STATUS_LINE("CLIENT_ERROR unauthenticated"),
    STATUS_LINE("CLIENT_ERROR authentication failure"),
    STATUS_LINE("CLIENT_ERROR bad authentication token format"),
    STATUS_LINE("CLIENT_ERROR bad command line termination"),
    STATUS_LINE("CLIENT_ERROR auth token too long"),
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

/* The numbers of most replies have one digit. */
static u_u8 *number_write(u_u8 *out, u_u64 number)
{
    if (number > 9)
        return out + mc_write_u64(out, number);
    *out = (u_u8)('0' + (u_u32)number);
    return out + 1;
}

u_u32 mc_write_value_header(u_u8 *out, const u_u8 *key, u_u32 key_len, u_u32 flags,
                            u_u32 value_bytes, const u_u64 *cas)
{
    u_u8 *at;

    U_ASSERT(key_len <= MC_KEY_MAX);
    at = text_write(out, "VALUE ", 6);
    u_copy_short(at, key, key_len);
    at += key_len;
    *at++ = ' ';
    at = number_write(at, flags);
    *at++ = ' ';
    at = number_write(at, value_bytes);
    if (cas != U_NULL) {
        *at++ = ' ';
        at = number_write(at, *cas);
    }
    at = text_write(at, "\r\n", 2);
    return (u_u32)(at - out);
}

u_u32 mc_write_short_hit(u_u8 *out, const u_u8 *key, u_u32 key_len, const u_u8 *value,
                         u_u32 value_bytes)
{
    u_u8 *at;

    U_ASSERT(key_len <= MC_KEY_MAX && value_bytes <= MC_SHORT_VALUE_MAX);
    at = text_write(out, "VALUE ", 6);
    u_copy_short(at, key, key_len);
    at = text_write(at + key_len, " 0 ", 3);
    if (value_bytes > 9) {
        *at++ = (u_u8)('0' + value_bytes / 10);
        *at++ = (u_u8)('0' + value_bytes % 10);
    } else {
        *at++ = (u_u8)('0' + value_bytes);
    }
    at = text_write(at, "\r\n", 2);
    u_copy_short(at, value, value_bytes);
    at = text_write(at + value_bytes, "\r\nEND\r\n", 7);
    return (u_u32)(at - out);
}

u_u32 mc_write_number(u_u8 *out, u_u64 number)
{
    u_u32 len = mc_write_u64(out, number);

    u_copy(out + len, "\r\n", 2);
    return len + 2;
}
