/* SPDX-License-Identifier: BSD-3-Clause */
/* TCP options; see tcp_opt.h. */
#include "ustack/tcp/tcp_opt.h"

#include "base/wire.h"

enum {
    OPT_END = 0,
    OPT_NOP = 1,
    OPT_MSS = 2,
    OPT_SCALE = 3,
    OPT_SACK_PERMITTED = 4,
    OPT_SACK = 5,
    OPT_TS = 8
};

enum { OPT_MSS_BYTES = 4, OPT_SCALE_BYTES = 3, OPT_PERMITTED_BYTES = 2, OPT_TS_LEN = 10 };

static u_u32 opt_get32(const u_u8 *p)
{
    struct u_be32 v;

    u_copy(&v, p, sizeof(v));
    return u_get_be32(v);
}

static u_u8 *opt_put32(u_u8 *p, u_u32 value)
{
    struct u_be32 v = u_be32(value);

    u_copy(p, &v, sizeof(v));
    return p + sizeof(v);
}

static void opt_parse_sack(struct us_tcp_opts *opts, const u_u8 *p, unsigned len)
{
    unsigned blocks = (len - 2) / 8;
    unsigned i;

    if ((len - 2) % 8 != 0 || blocks > US_TCP_SACK_BLOCKS_MAX)
        return;
    for (i = 0; i < blocks; i++) {
        opts->sack[i].start = opt_get32(p + 2 + 8 * i);
        opts->sack[i].end = opt_get32(p + 6 + 8 * i);
    }
    opts->sack_blocks = (u_u8)blocks;
}

/* One option of `len` bytes, kind and length included, all of them present. */
static void opt_parse_one(struct us_tcp_opts *opts, const u_u8 *p, unsigned len)
{
    switch (p[0]) {
    case OPT_MSS:
        if (len == OPT_MSS_BYTES)
            opts->mss = (u_u16)(p[2] << 8 | p[3]);
        break;
    case OPT_SCALE:
        if (len == OPT_SCALE_BYTES) {
            opts->has_scale = 1;
            opts->scale = p[2] > US_TCP_SCALE_MAX ? (u_u8)US_TCP_SCALE_MAX : p[2];
        }
        break;
    case OPT_SACK_PERMITTED:
        if (len == OPT_PERMITTED_BYTES)
            opts->sack_permitted = 1;
        break;
    case OPT_SACK:
        opt_parse_sack(opts, p, len);
        break;
    case OPT_TS:
        if (len == OPT_TS_LEN) {
            opts->has_ts = 1;
            opts->ts_val = opt_get32(p + 2);
            opts->ts_ecr = opt_get32(p + 6);
        }
        break;
    default:
        break;
    }
}

void us_tcp_opts_parse(struct us_tcp_opts *opts, const u_u8 *data, unsigned bytes)
{
    unsigned at = 0;

    u_zero(opts, sizeof(*opts));
    while (at < bytes && data[at] != OPT_END) {
        unsigned len;

        if (data[at] == OPT_NOP) {
            at++;
            continue;
        }
        if (at + 1 >= bytes)
            return;
        len = data[at + 1];
        if (len < 2 || len > bytes - at)
            return;
        opt_parse_one(opts, data + at, len);
        at += len;
    }
}

unsigned us_tcp_opts_emit(const struct us_tcp_opts *opts, u_u8 *to)
{
    u_u8 *p = to;
    unsigned i;

    if (opts->mss != 0) {
        *p++ = OPT_MSS;
        *p++ = OPT_MSS_BYTES;
        *p++ = (u_u8)(opts->mss >> 8);
        *p++ = (u_u8)opts->mss;
    }
    if (opts->has_scale) {
        *p++ = OPT_NOP;
        *p++ = OPT_SCALE;
        *p++ = OPT_SCALE_BYTES;
        *p++ = opts->scale;
    }
    if (opts->sack_permitted || opts->has_ts) {
        *p++ = (u_u8)(opts->sack_permitted ? (int)OPT_SACK_PERMITTED : (int)OPT_NOP);
        *p++ = (u_u8)(opts->sack_permitted ? (int)OPT_PERMITTED_BYTES : (int)OPT_NOP);
        if (!opts->has_ts) {
            *p++ = OPT_NOP;
            *p++ = OPT_NOP;
        }
    }
    if (opts->has_ts) {
        *p++ = OPT_TS;
        *p++ = OPT_TS_LEN;
        p = opt_put32(p, opts->ts_val);
        p = opt_put32(p, opts->ts_ecr);
    }
    if (opts->sack_blocks != 0) {
        *p++ = OPT_NOP;
        *p++ = OPT_NOP;
        *p++ = OPT_SACK;
        *p++ = (u_u8)(2 + 8 * opts->sack_blocks);
        for (i = 0; i < opts->sack_blocks; i++) {
            p = opt_put32(p, opts->sack[i].start);
            p = opt_put32(p, opts->sack[i].end);
        }
    }
    U_ASSERT(p - to <= 40);
    return (unsigned)(p - to);
}
