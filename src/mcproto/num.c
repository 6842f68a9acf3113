/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers: from the command line, from a stored value, and into a reply. */
#include "mcproto/num.h"

#include "base/base.h"
#include "mcproto/mcproto.h"

#define STRICT_32_CHARS_MAX 11
#define STRICT_64_CHARS_MAX 22

#define BILLION 1000000000u

struct wide {
    u_u32 high;
    u_u32 low;
};

/* 64-bit constants cannot be spelled in C89 where long has 32 bits. */
static const struct wide powers_of_ten[] = {
    {0x8ac72304u, 0x89e80000u}, /* 10^19 */
    {0x0de0b6b3u, 0xa7640000u}, /* 10^18 */
    {0x01634578u, 0x5d8a0000u}, /* 10^17 */
    {0x002386f2u, 0x6fc10000u}, /* 10^16 */
    {0x00038d7eu, 0xa4c68000u}, /* 10^15 */
    {0x00005af3u, 0x107a4000u}, /* 10^14 */
    {0x00000918u, 0x4e72a000u}, /* 10^13 */
    {0x000000e8u, 0xd4a51000u}, /* 10^12 */
    {0x00000017u, 0x4876e800u}, /* 10^11 */
    {0x00000002u, 0x540be400u}, /* 10^10 */
    {0x00000000u, 0x3b9aca00u}, /* 10^9 */
};

/* Two digits at a time need half the divisions. */
static const char digit_pairs[] = "00010203040506070809101112131415161718192021222324"
                                  "25262728293031323334353637383940414243444546474849"
                                  "50515253545556575859606162636465666768697071727374"
                                  "75767778798081828384858687888990919293949596979899";

static u_u64 wide_value(struct wide w)
{
    return (u_u64)w.high << 32 | w.low;
}

/* isspace() of the C locale. */
static int is_blank(u_u8 byte)
{
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

/* Two's complement without an implementation-defined conversion. */
static u_s32 to_signed(u_u32 bits)
{
    return bits <= 0x7fffffffu ? (u_s32)bits : -(u_s32)(~bits) - 1;
}

/* Reads at least one digit; returns where they end, or null: no digit, or more than 64 bits. */
static const u_u8 *digits_read(const u_u8 *at, const u_u8 *end, u_u64 *number)
{
    const struct wide tenth = {0x19999999u, 0x99999999u}; /* of 2^64 - 1, which ends with a 5 */
    const u_u8 *first = at;
    u_u64 n = 0;

    for (; at != end && *at >= '0' && *at <= '9'; at++) {
        u_u32 digit = (u_u32)(*at - '0');
        if (n >= wide_value(tenth) && (n > wide_value(tenth) || digit > 5))
            return (const u_u8 *)U_NULL;
        n = n * 10 + digit;
    }
    if (at == first)
        return (const u_u8 *)U_NULL;
    *number = n;
    return at;
}

/* The fast case of all numbers below: one to nine digits and nothing else. */
static int short_read(const struct mc_token *token, u_u32 *number)
{
    const u_u8 *at = token->at;
    u_u32 n = 0;

    if (token->end - at > 9 || token->end == at)
        return 0;
    for (; at != token->end; at++) {
        u_u32 digit = (u_u32)*at - '0';
        if (digit > 9)
            return 0;
        n = n * 10 + digit;
    }
    *number = n;
    return 1;
}

/* Reads "[blanks][+|-]digits" up to the end, a blank or NUL, into magnitude and sign. */
static int loose_read(const u_u8 *at, const u_u8 *end, u_u64 *magnitude, int *negative)
{
    while (at != end && is_blank(*at))
        at++;
    *negative = at != end && *at == '-';
    if (at != end && (*at == '-' || *at == '+'))
        at++;
    at = digits_read(at, end, magnitude);
    return at != U_NULL && (at == end || is_blank(*at) || *at == '\0');
}

static int loose_read_unsigned(const u_u8 *at, const u_u8 *end, u_u64 *number)
{
    u_u64 magnitude;
    int negative;

    if (!loose_read(at, end, &magnitude, &negative) || (negative && magnitude != 0))
        return 0;
    *number = magnitude;
    return 1;
}

int mc_num_u64(const struct mc_token *token, u_u64 *number)
{
    u_u32 small;
    u_u64 n = 0;

    if (short_read(token, &small)) {
        *number = small;
        return 1;
    }
    if (token->end - token->at > STRICT_64_CHARS_MAX ||
        digits_read(token->at, token->end, &n) != token->end)
        return 0;
    *number = n;
    return 1;
}

int mc_num_u32(const struct mc_token *token, u_u32 *number)
{
    u_u64 n = 0;

    if (short_read(token, number))
        return 1;
    if (token->end - token->at > STRICT_32_CHARS_MAX || !mc_num_u64(token, &n) || n > 0xffffffffu)
        return 0;
    *number = (u_u32)n;
    return 1;
}

int mc_num_s32(const struct mc_token *token, u_s32 *number)
{
    int negative = token->at != token->end && *token->at == '-';
    u_u32 magnitude_max = negative ? 0x80000000u : 0x7fffffffu;
    u_u32 small;
    u_u64 n = 0;

    if (short_read(token, &small)) {
        *number = (u_s32)small;
        return 1;
    }
    if (token->end - token->at > STRICT_32_CHARS_MAX ||
        digits_read(token->at + negative, token->end, &n) != token->end || n > magnitude_max)
        return 0;
    *number = to_signed(negative ? 0u - (u_u32)n : (u_u32)n);
    return 1;
}

static struct mc_token token_of(const u_u8 *at, u_u32 len)
{
    struct mc_token token;

    token.at = at;
    token.end = at + len;
    return token;
}

int mc_token_u32(const u_u8 *token, u_u32 token_len, u_u32 *number)
{
    struct mc_token t = token_of(token, token_len);

    return mc_num_u32(&t, number);
}

int mc_token_s32(const u_u8 *token, u_u32 token_len, u_s32 *number)
{
    struct mc_token t = token_of(token, token_len);

    return mc_num_s32(&t, number);
}

int mc_num_flags(const struct mc_token *token, u_u32 *number)
{
    u_u64 n = 0;

    if (short_read(token, number))
        return 1;
    if (!loose_read_unsigned(token->at, token->end, &n))
        return 0;
    *number = (u_u32)n;
    return 1;
}

int mc_num_exptime(const struct mc_token *token, u_s32 *number)
{
    u_u64 magnitude_max = (u_u64)1 << 63;
    u_u64 magnitude;
    u_u32 small;
    int negative;

    if (short_read(token, &small)) {
        *number = (u_s32)small;
        return 1;
    }
    if (!loose_read(token->at, token->end, &magnitude, &negative))
        return 0;
    if (!negative)
        magnitude_max--;
    if (magnitude > magnitude_max)
        return 0;
    *number = to_signed(negative ? 0u - (u_u32)magnitude : (u_u32)magnitude);
    return 1;
}

int mc_counter_parse(const u_u8 *value, u_u32 len, u_u64 *number)
{
    return loose_read_unsigned(value, value + len, number);
}

/* Writes n < 10^digits with exactly that many digits; returns where they end. */
static u_u8 *digits_write(u_u8 *out, u_u32 n, u_u32 digits)
{
    u_u8 *end = out + digits;
    u_u8 *at = end;

    for (; digits >= 2; digits -= 2) {
        at -= 2;
        u_copy(at, digit_pairs + 2 * (n % 100), 2);
        n /= 100;
    }
    if (digits > 0)
        at[-1] = (u_u8)('0' + n);
    return end;
}

static u_u32 digits_count(u_u32 n)
{
    u_u32 digits = 1;
    u_u32 limit = 10;

    /* A 32-bit number has at most ten digits; the limit of the eleventh would overflow. */
    while (digits < 10 && n >= limit) {
        digits++;
        limit *= 10;
    }
    return digits;
}

u_u32 mc_write_u64(u_u8 *out, u_u64 number)
{
    u_u8 *at = out;
    u_u32 i;

    if (number < 10) {
        *out = (u_u8)('0' + (u_u32)number);
        return 1;
    }
    if (number <= 0xffffffffu)
        return (u_u32)(digits_write(out, (u_u32)number, digits_count((u_u32)number)) - out);

    /* The digits above nine by subtraction, since 32-bit targets have no 64-bit division. */
    for (i = 0; i < U_ARRAY_LEN(powers_of_ten); i++) {
        u_u64 power = wide_value(powers_of_ten[i]);
        u_u8 digit = '0';
        for (; number >= power; number -= power)
            digit++;
        if (digit != '0' || at != out)
            *at++ = digit;
    }
    U_ASSERT(number < BILLION);
    return (u_u32)(digits_write(at, (u_u32)number, 9) - out);
}
