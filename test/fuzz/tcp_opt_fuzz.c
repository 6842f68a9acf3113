/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzes the parser of TCP options. The input is the option bytes of a segment, at most 40 of them.
 * The oracle: nothing out of range comes out, nothing behind the end is read, and what is
 * emitted is parsed as what it was.
 */
#include "ustack/tcp/tcp_opt.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { OPTIONS_MAX = 40 };

static void check(int holds)
{
    if (!holds)
        abort();
}

static void check_ranges(const struct us_tcp_opts *opts)
{
    check(opts->has_scale <= 1 && opts->has_ts <= 1 && opts->sack_permitted <= 1);
    check(opts->scale <= US_TCP_SCALE_MAX);
    check(opts->sack_blocks <= US_TCP_SACK_BLOCKS_MAX);
    check(opts->has_scale || opts->scale == 0);
    check(opts->has_ts || (opts->ts_val == 0 && opts->ts_ecr == 0));
}

/* Bytes that the options take when they are written. */
static unsigned written_bytes(const struct us_tcp_opts *opts)
{
    return (opts->mss ? 4u : 0u) + (opts->has_scale ? 4u : 0u) +
           (opts->has_ts           ? 12u
            : opts->sack_permitted ? 4u
                                   : 0u) +
           (opts->sack_blocks ? 4u + 8u * opts->sack_blocks : 0u);
}

static void check_round_trip(const struct us_tcp_opts *opts)
{
    struct us_tcp_opts again;
    u_u8 bytes[OPTIONS_MAX];
    unsigned len;

    if (written_bytes(opts) > OPTIONS_MAX)
        return;
    memset(bytes, 0xee, sizeof(bytes));
    len = us_tcp_opts_emit(opts, bytes);
    check(len == written_bytes(opts) && len % 4 == 0);
    us_tcp_opts_parse(&again, bytes, len);
    check(again.mss == opts->mss && again.has_scale == opts->has_scale);
    check(again.scale == opts->scale && again.sack_permitted == opts->sack_permitted);
    check(again.has_ts == opts->has_ts && again.ts_val == opts->ts_val);
    check(again.ts_ecr == opts->ts_ecr && again.sack_blocks == opts->sack_blocks);
    for (unsigned i = 0; i < opts->sack_blocks; i++)
        check(again.sack[i].start == opts->sack[i].start && again.sack[i].end == opts->sack[i].end);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct us_tcp_opts opts;
    unsigned len = size < OPTIONS_MAX ? (unsigned)size : (unsigned)OPTIONS_MAX;
    u_u8 *exact = malloc(len ? len : 1); /* reading a byte too far is found */

    memcpy(exact, data, len);
    us_tcp_opts_parse(&opts, exact, len);
    free(exact);
    check_ranges(&opts);
    check_round_trip(&opts);
    return 0;
}
