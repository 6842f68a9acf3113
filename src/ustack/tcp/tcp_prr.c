/* SPDX-License-Identifier: BSD-3-Clause */
/* Proportional rate reduction; see tcp_prr.h. */
#include "ustack/tcp/tcp_prr.h"

#include "base/arith.h"
#include "ustack/tcp/seq.h"

void us_prr_reset(struct us_prr *prr, u_u32 una)
{
    u_zero(prr, sizeof(*prr));
    prr->mark = una;
    prr->una = una;
}

void us_prr_start(struct us_prr *prr, u_u32 max)
{
    /* Bytes delivered before this ACK are not in flight; those that it delivers are. */
    prr->flight = us_seq_gt(max, prr->mark) ? max - prr->mark : 1;
    prr->delivered = 0;
    prr->out = 0;
}

static u_u32 prr_share(const struct us_prr *prr, u_u32 ssthresh)
{
    u_u32 share = u_muldiv32(prr->delivered, ssthresh, prr->flight) + 1; /* rounded up */

    return share > prr->out ? share - prr->out : 0;
}

/* At or below ssthresh: the delivered bytes, and a segment more if nothing further is lost. */
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
    /* The mark goes back if the scoreboard has overflowed. */
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
     * The first retransmission is sent in any case. So is one when the time, not an ACK, has shown
     * a loss: the lost segment has left the network.
     */
    if (prr->out == 0 || (delivered == 0 && more_lost && pipe + mss <= ssthresh))
        count = u_max32(count, mss);
    return u_max32(pipe + count, mss);
}
