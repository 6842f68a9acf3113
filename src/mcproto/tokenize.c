/* SPDX-License-Identifier: BSD-3-Clause */
/* Splitting input into a line and a line into tokens. */
#include "mcproto/tokenize.h"

#include "base/base.h"
#include "mcproto/mcproto.h"
#include "mcproto/scan.h"

/* Spaces before a long line that are skipped (its ERROR is sent when it is complete). */
#define LEADING_SPACES_MAX 100

int mc_line_split(const u_u8 *buf, u_u32 len, struct mc_line *line)
{
    const u_u8 *lf = mc_scan_byte(buf, buf + len, '\n');

    if (lf == U_NULL)
        return 0;
    line->at = buf;
    line->end = lf > buf && lf[-1] == '\r' ? lf - 1 : lf;
    line->bytes = (u_u32)(lf - buf) + 1;
    return 1;
}

int mc_line_may_grow(const u_u8 *buf, u_u32 len)
{
    u_u32 spaces = 0;

    if (len <= MC_LINE_MAX)
        return 1;
    if (len > MC_KEYS_LINE_MAX)
        return 0;
    while (spaces < LEADING_SPACES_MAX && buf[spaces] == ' ')
        spaces++;
    buf += spaces;
    return u_equal(buf, "get ", 4) || u_equal(buf, "gets ", 5) || u_equal(buf, "gat ", 4) ||
           u_equal(buf, "gats ", 5);
}

u_u32 mc_tokens_split(const u_u8 *at, const u_u8 *end, struct mc_token *tokens, u_u32 max)
{
    u_u32 count = 0;

    while (count < max) {
        while (at != end && *at == ' ')
            at++;
        if (at == end)
            break;
        tokens[count].at = at;
        while (at != end && *at != ' ')
            at++;
        tokens[count].end = at;
        count++;
    }
    return count;
}

int mc_token_next(const u_u8 **at, const u_u8 *end, const u_u8 **token, u_u32 *token_len)
{
    const u_u8 *first = *at;
    const u_u8 *space;

    while (first != end && *first == ' ')
        first++;
    if (first == end) {
        *at = end;
        return 0;
    }
    space = mc_scan_byte(first, end, ' ');
    *at = space != U_NULL ? space : end;
    *token = first;
    *token_len = (u_u32)(*at - first);
    return 1;
}

int mc_token_is(const u_u8 *token, u_u32 token_len, const char *text)
{
    u_u32 i;

    for (i = 0; i < token_len; i++)
        if (text[i] == '\0' || token[i] != (u_u8)text[i])
            return 0;
    return text[token_len] == '\0';
}
