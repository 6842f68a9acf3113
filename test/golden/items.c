/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading the bytes that a line of a golden file stands for. */
#include "items.h"

#include <stdlib.h>
#include <string.h>

static int hex_digit(char c)
{
    const char *digits = "0123456789abcdef";
    const char *found = c != '\0' ? strchr(digits, c) : NULL;

    return found != NULL ? (int)(found - digits) : -1;
}

static void put(struct golden_bytes *out, u_u8 byte)
{
    if (out->len < GOLDEN_BYTES_MAX)
        out->bytes[out->len++] = byte;
}

/* One character within quotes; returns what follows it. */
static const char *read_escaped(const char *at, u_u8 *byte)
{
    if (at[0] != '\\') {
        *byte = (u_u8)at[0];
        return at + 1;
    }
    switch (at[1]) {
    case 'r':
        *byte = '\r';
        return at + 2;
    case 'n':
        *byte = '\n';
        return at + 2;
    case 'x':
        *byte = (u_u8)(hex_digit(at[2]) * 16 + hex_digit(at[3]));
        return at + 4;
    default:
        *byte = (u_u8)at[1];
        return at + 2;
    }
}

/* "text" or "text"*N; returns what follows it, or null. */
static const char *read_quoted(const char *at, struct golden_bytes *out)
{
    u_u32 first = out->len;
    u_u32 len;
    char *end;

    for (at++; *at != '"'; out->len += 0) {
        u_u8 byte;
        if (*at == '\0')
            return NULL;
        at = read_escaped(at, &byte);
        put(out, byte);
    }
    at++;
    if (*at != '*')
        return at;
    len = out->len - first;
    for (unsigned long times = strtoul(at + 1, &end, 10); times > 1; times--)
        for (u_u32 i = 0; i < len; i++)
            put(out, out->bytes[first + i]);
    return end;
}

int golden_items_read(const char *at, struct golden_bytes *out)
{
    while (at != NULL && *at != '\0') {
        if (*at == ' ') {
            at++;
        } else if (*at == '"') {
            at = read_quoted(at, out);
        } else {
            int high = hex_digit(at[0]);
            int low = high >= 0 ? hex_digit(at[1]) : -1;
            if (low < 0)
                return 0;
            put(out, (u_u8)(high * 16 + low));
            at += 2;
        }
    }
    return at != NULL;
}
