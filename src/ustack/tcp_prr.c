/* SPDX-License-Identifier: BSD-3-Clause */
/* Proportional rate reduction; see tcp_prr.h. */
#include "ustack/tcp_prr.h"

#include "base/arith.h"
#include "ustack/seq.h"

void us_prr_reset(struct us_prr *prr, u_u32 una)
{
    u_zero(prr, sizeof(*prr));
    prr->mark = una;
    prr->una = una;
}

void us_prr_start(struct us_prr *prr, u_u32 max)
{
    /* What was delivered before the ACK at hand is not in flight; what it delivers is. */
    prr->flight = us_seq_gt(max, prr->mark) ? max - prr->mark : 1;
    prr->delivered = 0;
    prr->out = 0;
}

static u_u32 prr_share(const struct us_prr *prr, u_u32 ssthresh)
{
    u_u32 share = u_muldiv32(prr->delivered, ssthresh, prr->flight) + 1; /* rounded up */

    return share > prr->out ? share - prr->out : 0;
}

/* At or below ssthresh: as much as was delivered, more by a segment if all goes well. */
static u_u32 prr_catch_up(const struct us_prr *prr, u_u32 delivered, int safe, u_u32 room,
                          u_u32 mss)
{
    u_u32 owed = prr->delivered > prr->out ? prr->delivered - prr->out : 0;
    u_u32 count = u_max32(owed, delivered);

    if (safe)
        count += mss;
    return u_min32(count, room);
}

u_u32 us_prr_take(struct us_prr *prr, u_u32 una, u_u32 sacked_bytes, int more_lost, u_u32 pipe,
                  u_u32 ssthresh, u_u32 mss)
{
    u_u32 mark = una + sacked_bytes;
    /* A scoreboard that had to forget something goes back. */
    u_u32 delivered = us_seq_gt(mark, prr->mark) ? mark - prr->mark : 0;
    int safe = us_seq_gt(una, prr->una) && !more_lost;
    u_u32 count;

    prr->mark = mark;
    prr->una = una;
    if (prr->flight == 0)
        return ssthresh;
    prr->delivered += delivered;
    if (pipe > ssthresh)
        count = prr_share(prr, ssthresh);
    else
        count = prr_catch_up(prr, delivered, safe, ssthresh - pipe, mss);
    /*
     * The first segment goes out at once; and when the time shows a loss, not an ACK, the lost
     * segment has left the network just as well.
     */
    if (prr->out == 0 || (delivered == 0 && more_lost && pipe + mss <= ssthresh))
        count = u_max32(count, mss);
    return u_max32(pipe + count, mss);
}
