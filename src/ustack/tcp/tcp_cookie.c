/* SPDX-License-Identifier: BSD-3-Clause */
/* SYN cookies; see tcp_cookie.h. */
#include "ustack/tcp/tcp_cookie.h"

/*
 * A cookie: 24 bits of the hash, 3 bits that choose an entry of the table below, and the low 5 bits
 * of the clock, which ticks each 67 s. It is valid during its own tick and the next.
 */
enum {
    COOKIE_CLOCK_SHIFT = 26,
    COOKIE_CLOCK_BITS = 5,
    COOKIE_MSS_BITS = 3,
    COOKIE_DATA_BITS = COOKIE_CLOCK_BITS + COOKIE_MSS_BITS,
    COOKIE_AGE_MAX = 1
};

/* In the low bits of a timestamp: the scale, 15 for none, and two flags. */
enum {
    TS_SCALE_NONE = 15,
    TS_SCALE_BITS = 4,
    TS_SACK = 1 << 4,
    TS_ECN = 1 << 5,
    TS_BITS = 6,
    TS_MASK = (1 << TS_BITS) - 1
};

/* Common values: the smallest there is, tunnels, Ethernet with and without PPPoE, jumbo frames. */
static const u_u16 cookie_mss[1 << COOKIE_MSS_BITS] = {48, 256, 536, 1220, 1360, 1440, 1460, 8960};

static u_u32 cookie_hash(const struct us_stack *stack, const struct us_tcp_key *key, u_u32 peer_isn,
                         u_u32 clock, unsigned mss_index)
{
    struct cookie_input {
        struct us_tcp_key key;
        u_u32 peer_isn;
        u_u32 clock;
        u_u32 mss_index;
    } input;

    u_zero(&input, sizeof(input));
    input.key = *key;
    input.peer_isn = peer_isn;
    input.clock = clock;
    input.mss_index = mss_index;
    return (u_u32)u_siphash24(stack->key_cookie, &input, sizeof(input)) << COOKIE_DATA_BITS;
}

static u_u32 cookie_clock(const struct us_stack *stack)
{
    return (u_u32)(stack->now_us >> COOKIE_CLOCK_SHIFT);
}

u_u32 us_cookie_make(const struct us_stack *stack, const struct us_tcp_key *key, u_u32 peer_isn,
                     u_u32 mss)
{
    u_u32 clock = cookie_clock(stack);
    unsigned index = U_ARRAY_LEN(cookie_mss) - 1;

    while (index > 0 && cookie_mss[index] > mss)
        index--;
    return cookie_hash(stack, key, peer_isn, clock, index) | index << COOKIE_CLOCK_BITS |
           (clock & ((1u << COOKIE_CLOCK_BITS) - 1));
}

int us_cookie_check(const struct us_stack *stack, const struct us_tcp_key *key, u_u32 peer_isn,
                    u_u32 isn, struct us_cookie *cookie)
{
    u_u32 clock = cookie_clock(stack);
    u_u32 age = (clock - isn) & ((1u << COOKIE_CLOCK_BITS) - 1);
    unsigned index = (isn >> COOKIE_CLOCK_BITS) & ((1u << COOKIE_MSS_BITS) - 1);

    if (age > COOKIE_AGE_MAX ||
        (cookie_hash(stack, key, peer_isn, clock - age, index) ^ isn) >> COOKIE_DATA_BITS != 0)
        return 0;
    cookie->mss = cookie_mss[index];
    return 1;
}

u_u32 us_cookie_ts_make(u_u32 now, const struct us_cookie *cookie)
{
    u_u32 bits = cookie->opts & US_OPT_SCALE ? cookie->scale : (u_u32)TS_SCALE_NONE;
    u_u32 ts;

    if (cookie->opts & US_OPT_SACK)
        bits |= TS_SACK;
    if (cookie->opts & US_OPT_ECN)
        bits |= TS_ECN;
    ts = (now & ~(u_u32)TS_MASK) | bits;
    return us_seq_gt(ts, now) ? ts - (1u << TS_BITS) : ts;
}

void us_cookie_ts_read(u_u32 ts, struct us_cookie *cookie)
{
    u_u32 scale = ts & ((1u << TS_SCALE_BITS) - 1);

    cookie->opts = US_OPT_TS;
    cookie->scale = 0;
    if (scale != TS_SCALE_NONE) {
        cookie->opts |= US_OPT_SCALE;
        cookie->scale = (u_u8)scale;
    }
    if (ts & TS_SACK)
        cookie->opts |= US_OPT_SACK;
    if (ts & TS_ECN)
        cookie->opts |= US_OPT_ECN;
}
